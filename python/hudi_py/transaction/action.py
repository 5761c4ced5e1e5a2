"""How every action ends: recorded in the metadata table, then completed on the timeline.

Only the order matters. Readers rely on the completed file alone, so everything they need is written before it: the data
files, then their records in the metadata table. Maintenance follows, and its failures change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.storage.base import ConditionalStorage
from hudi_py.transaction.instants import complete
from hudi_py.transaction.metadata_drop import warn_dropped
from hudi_py.transaction.protocols import MetadataUpdate, TableChange
from hudi_py.transaction.session import LockedTable


@dataclass(frozen=True, slots=True)
class CommitResult:
    """An action that was completed."""

    instant: InstantTime
    completion_time: CompletionTime | None
    """None on timeline layout 1, which stores none."""
    dropped_metadata_partitions: tuple[str, ...] = ()


def complete_action(
    table: LockedTable,
    instant: InstantTime,
    action: Action,
    content: bytes,
    change: TableChange | None,
    *,
    in_between: Callable[[], None] | None = None,
) -> CommitResult:
    """Completes an inflight action: metadata table, completed file, services of the metadata table.

    Args:
        table: read since the action's last change to the timeline.
        action: the action of the pending files, such as `COMPACTION`; `change.action` is the completed one.
        content: content of the completed file.
        change: None for actions that the metadata table does not record (savepoints).
        in_between: changes the timeline after the metadata table is updated and before the action completes.

    Raises:
        ConflictError: the action is not inflight, or is already completed.
        LockError: the lock was lost in the meantime; nothing is completed.
    """
    session = table.session
    update = MetadataUpdate()
    if change is not None:
        update = session.metadata.record(session, table.timeline, change)
    timeline = table.timeline
    if in_between is not None:
        in_between()
        timeline = session.timeline()
    if not session.layout.has_completion_times and isinstance(session.storage, ConditionalStorage):
        session.clock.wait_second(instant)  # the file's modification time, in whole seconds, is its completion time
    completion = session.clock.next_completion(timeline, instant)
    if session.settings.optimistic is not None and session.layout.has_completion_times:
        session.clock.wait_skew()  # puts the next writer's clock past it, as Apache Hudi's writers expect
    table.lock.check()
    done = complete(session.storage, session.layout, instant, action, completion, content)
    update.maintain(timeline.plus(done))
    warn_dropped(session.config, update.dropped)
    return CommitResult(instant, session.completion_shown(completion), update.dropped)
