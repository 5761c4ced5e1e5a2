"""Which table services are due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudi_py.model.instant import InstantTime
from hudi_py.model.words import counted
from hudi_py.services.archive import preview_archive
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.compaction.trigger import Trigger, since_compaction, why_not_due
from hudi_py.services.context import ServiceContext
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.times import format_instant


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a service would find something to do now."""

    service: str
    """`compaction`, `clean` or `archive`."""
    due: bool
    reason: str
    """What it would do, or why it would do nothing."""


def due_services(context: ServiceContext) -> list[Due]:
    """What compaction, cleaning and archiving would do now, according to their options. Changes nothing, and does not
    take the lock. Reads the timeline and lists files, but reads no rows."""
    return list(_each(context))


def _each(context: ServiceContext) -> Iterator[Due]:
    state = context.state()
    if state.config.is_mor:
        now = InstantTime(format_instant(wall_clock_ms(), context.session.zone))
        reason = why_not_due(Trigger.of(context.options), state.timeline, now, context.session.zone)
        backlog = since_compaction(state.timeline)
        if reason or backlog is None:
            yield Due("compaction", False, reason)
        else:
            preview = Compaction(always=True).preview(context)
            groups = counted(len(preview.rows), "file group")
            waiting = f"{counted(backlog.count, 'delta commit')} not compacted, {groups} with logs"
            yield Due("compaction", bool(preview.rows), waiting if preview.rows else preview.reason)
    preview = Cleaning(waits=True).preview(context)
    files = [file for row in preview.rows for file in row["files"]]
    superfluous = f"{counted(len(files), 'file')} in {counted(len(preview.rows), 'partition')} can be deleted"
    yield Due("clean", bool(files), superfluous if files else preview.reason)
    selection = preview_archive(context)
    more = f"{counted(len(selection.instants), 'instant')} can be archived"
    yield Due("archive", bool(selection.instants), more if selection.instants else selection.reason)
