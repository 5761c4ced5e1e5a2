"""Finds changes by others between the read from which a write was computed and the begin of the write.

A statement whose expressions an engine evaluates reads the table before it begins, and so does a program that writes
rows it has read. The write begins later, so its own conflict check would not see changes in between. Apache Hudi
(`HoodieSparkSqlWriter`, 1.2.0) chooses the instant of a statement before it evaluates rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.operation import REWRITING, Operation
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.transaction.conflicts.policy import WriteScope

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable

_INSERTS: Final = frozenset(
    name
    for operation in Operation
    if operation.takes_whole_rows and not operation.traits.replaces and not operation.looks_up_keys
    for name in (operation.java_name, f"{operation.java_name}_PREPPED")
)
"""Operations that overwrite no rows."""
_SERVICES: Final = REWRITING | {"INDEX"}
"""Operations that change no rows."""


def check_seen(table: LockedTable, scope: WriteScope, seen: Pin, operation: str) -> None:
    """Checks that no other write has changed the write's file groups since the state `seen`.

    Raises:
        ConflictError: another write has, or the timeline no longer shows whether one has.
    """
    if operation in _INSERTS:
        return
    timeline = table.timeline
    if seen.time and not _still_has(timeline, seen):
        raise ConflictError(
            f"Cannot commit the write {scope.instant}: the newest instant that its rows were computed from, "
            f"{seen.time}, has been rolled back or archived since; {_REMEDY}",
            instant=scope.instant,
        )
    for instant in timeline.at(scope.pin).completed_since(seen):
        if instant.action is Action.RESTORE:
            raise _conflict_error(scope, instant, "restored the table to an earlier state")
        if instant.action.comparable not in WRITE_ACTIONS:
            continue
        metadata = read_commit_metadata(table.session.storage, timeline.layout, instant)
        if metadata.operation in _SERVICES or metadata.compacted:
            continue
        if overlap := scope.touched & metadata.changed_groups:
            partition, file_id = min(overlap)
            more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
            what = f"({metadata.operation}) changed the file group {file_id} of partition {partition!r}{more}"
            raise _conflict_error(scope, instant, what)


def _still_has(timeline: Timeline, seen: Pin) -> bool:
    """Returns whether the timeline still has the instant that gave the pin its time."""
    if timeline.layout.has_completion_times:
        return any(instant.completion_time == seen.time for instant in timeline.completed)
    return any(instant.time == seen.time for instant in timeline.completed)


_REMEDY: Final = (
    "nothing was published: read the table again, compute the rows again and write them (statements of SQL do so as "
    f"often as {concurrency.RETRIES.key} says)"
)


def _conflict_error(scope: WriteScope, instant: Instant, what: str) -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {scope.instant}: since its rows were read the {instant.action.value} {instant.time} "
        f"{what}; {_REMEDY}",
        instant=instant.time,
    )
