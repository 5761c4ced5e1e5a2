"""What happened on the timeline between the plan of a write and its commit, and whether it is in the way.

In this release a table has one writer at a time: any other write since the plan is a conflict. Table services are not,
unless they touch a file group that the write touches.
"""

from __future__ import annotations

from collections.abc import Iterable

from hudi_py.errors import ConflictError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.timeline import Pin, Timeline

_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


def check_conflicts(
    storage: Storage,
    timeline: Timeline,
    pin: Pin,
    own: InstantTime,
    touched: Iterable[FileGroup],
    logged: Iterable[FileGroup] = (),
) -> None:
    """Compares the timeline as it is now with what the write saw.

    Args:
        touched: file groups which the write changes or replaces.
        logged: those of them which only get log files that name their own instant (since table version 8). They are no
            conflict with compactions: a log belongs to the slice which is the newest when it completes.

    Raises:
        ConflictError: names the instant in the way and, for a table service, a file group.
    """
    groups = frozenset(touched)
    rewritten = groups - frozenset(logged)
    seen = {(instant.time, instant.action.comparable) for instant in timeline.at(pin).completed}
    for instant in timeline.completed:
        if instant.time == own or (instant.time, instant.action.comparable) in seen:
            continue
        if instant.action is Action.RESTORE:
            raise _conflict(own, instant, "restored the table to an earlier state")
        if instant.action.comparable not in WRITE_ACTIONS:
            continue
        metadata = read_commit_metadata(storage, timeline.layout, instant)
        if metadata.operation not in _SERVICES and not metadata.compacted:
            raise _conflict(own, instant, f"({metadata.operation}) has been completed")
        if metadata.operation == "COMPACT" and instant.time < own:
            continue  # pending then, and known to the write
        changed = {(stat.partition_path, stat.file_id) for stat in metadata.stats}
        changed |= {(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids}
        compacted = metadata.operation in ("COMPACT", "LOG_COMPACT")
        _refuse_overlap(own, instant, (rewritten if compacted else groups) & changed, "has rewritten")
    plans = PendingPlans(storage, timeline)
    for instant in timeline.pending:
        if instant.time == own:
            continue
        if instant in plans.writes or instant.action is Action.RESTORE:
            raise _conflict(own, instant, "is under way")
        if instant.action in COMPACTIONS:
            # what was scheduled before was known to the plan
            overlap = rewritten & plans.file_groups(instant) if instant.time > own else frozenset()
        else:
            overlap = groups & plans.file_groups(instant)
        _refuse_overlap(own, instant, overlap, "is going to rewrite")


def _refuse_overlap(own: InstantTime, instant: Instant, overlap: frozenset[FileGroup], what: str) -> None:
    if overlap:
        partition, file_id = min(overlap)
        more = f" and {len(overlap) - 1} more" if len(overlap) > 1 else ""
        raise _conflict(own, instant, f"{what} the file group {file_id} of partition {partition!r}{more}")


def _conflict(own: InstantTime, instant: Instant, what: str) -> ConflictError:
    return ConflictError(
        f"Cannot commit the write {own}: since it was planned the {instant.action.value} {instant.time} {what}; "
        "nothing was published, write again"
    )
