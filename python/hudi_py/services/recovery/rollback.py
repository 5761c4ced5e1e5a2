"""Rolls back an instant on demand (`BaseRollbackActionExecutor`, `HoodieWriteClient.rollback`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError, Remedy
from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime, State
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.words import counted
from hudi_py.services.archive.service import archived_after
from hudi_py.services.clean.slices import savepoints_of
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import ServiceReport, listed
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import RollbackMetadata, decode_rollback_metadata, read_commit_metadata
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans, compaction_plan
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.attempt import check_dead
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.recovery.plan import check_logs
from hudi_py.transaction.recovery.rollback import find_rollback, rollback_instant
from hudi_py.transaction.session import LockedTable
from hudi_py.view.bootstrap import FULL_INSTANT

_Evidence = str | tuple[str, str]
"""A file name, or a file id with the instant of a base file; without an instant, any file of the group."""
_WITH_NEWER = Remedy("set with_newer=True", cli="give --with-newer", sql="call run_service with with_newer => true")


@dataclass(frozen=True, slots=True, repr=False)
class UndoReport(ServiceReport):
    """The common part of the reports of rollbacks and restores."""

    rolled_back: tuple[InstantTime, ...] = ()
    """Requested times of the instants that were undone, in this order."""
    num_files_deleted: int = 0
    num_rollback_blocks: int = 0
    """Log files written to undo blocks in others (table version 6)."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            yield listed(self.rolled_back, "instant") + " undone"
            yield f"{counted(self.num_files_deleted, 'file')} deleted"
            if self.num_rollback_blocks:
                yield f"{counted(self.num_rollback_blocks, 'rollback block')} written"


@dataclass(frozen=True, slots=True, repr=False)
class RollbackReport(UndoReport):
    """The result of a rollback; `instant` is the rollback's own."""

    plan_kept: bool = False
    """Whether the instant is a table service whose plan remains, so that it can be run again."""

    def _summary(self) -> Iterator[str]:
        yield from UndoReport._summary(self)
        if self.instant is not None and self.plan_kept:
            yield "its plan remains"


def rollback(context: ServiceContext, instant: str, *, with_newer: bool = False) -> RollbackReport:
    """Undoes a write, compaction, log compaction or clustering, pending or completed.

    Failed writes are rolled back first, as before every write; running writes are left alone. A pending table service
    keeps its plan. A completed instant can be rolled back if no newer one is completed, no plan uses its files, it has
    no savepoint, and the file versions from before it still exist.

    Args:
        instant: requested time.
        with_newer: roll back newer completed instants too, newest first; otherwise they make the rollback fail, as in
            Apache Hudi.

    Returns:
        The report of the last rollback. If there was nothing to undo, `instant` is None and `reason` explains why.

    Raises:
        ConfigError: the active timeline has no such instant, or it cannot be rolled back.
        ConflictError: it is running or has a savepoint, or newer instants or plans depend on it.
        HistoryCleanedError: files that it replaced have been cleaned, so rows would be lost.
        UnsupportedTableError: it shares log files with other writes, from before the table was upgraded to version 8 or
            later.
        LockError: the table lock could not be acquired in time.
    """
    with recovered(context.session, f"roll back {instant}") as table:
        timeline = table.timeline
        target = _find_instant(context, timeline, instant)
        if target is None:
            return _report_of_earlier(context, timeline, instant)
        if not target.completed:
            return _roll_back_pending(context, table, target)
        undone = _instants_to_undo(context, table, target, with_newer=with_newer)
        context.session.metadata.check(table.session, tuple(completed.time for completed in undone))
        done = [_roll_back(context, table, completed) for completed in undone]
        timeline = context.timeline()
    return _report_of(context, timeline, done)


def preview_rollback(context: ServiceContext, instant: str, *, with_newer: bool = False) -> tuple[Instant, ...]:
    """Returns the instants that a rollback would undo now, in this order; none if it was undone before. Changes
    nothing, and does not take the lock. For arguments and errors see `rollback`."""
    state = context.state()
    target = _find_instant(context, state.timeline, instant)
    if target is None:
        _report_of_earlier(context, state.timeline, instant)
        return ()
    if not target.completed:
        check_dead(context.session, state.timeline, target, "roll back")
        return () if target.state is State.REQUESTED else (target,)
    return tuple(_instants_to_undo(context, state, target, with_newer=with_newer))


def _instants_to_undo(
    context: ServiceContext, state: TableState, target: Instant, *, with_newer: bool
) -> list[Instant]:
    """Returns the completed instants to undo, newest first. Raises if one cannot be undone."""
    newer = [completed for completed in state.timeline.write_completed if completed.time > target.time]
    if newer and not with_newer:
        raise ConflictError(
            f"Cannot roll back the {target.action.value} {target.time} of {context.storage.uri}: newer "
            "instants are completed; roll them back first, in this order: "
            + ", ".join(completed.time for completed in reversed(newer))
            + f"; or {_WITH_NEWER}",
            instant=newer[-1].time,
            remedies=(_WITH_NEWER,),
        )
    undone = [*reversed(newer), target]
    _check_archived(state, undone)
    gone: set[str] = set()
    for instant in undone:
        gone.add(instant.time)
        _check_instant(context, state, instant, gone)
    return undone


def _check_archived(state: TableState, undone: Collection[Instant]) -> None:
    """Refuses to undo all commits of an active timeline that begins after archived ones. Without a commit that shows
    where the timeline begins, no reader counts files of the archived ones as committed (`isBeforeTimelineStarts`,
    1.2.0)."""
    gone = {instant.time for instant in undone}
    if any(instant.time not in gone for instant in state.timeline.write_completed):
        return
    archived = archived_after(state, InstantTime(""))
    if archived:
        oldest = min(undone, key=lambda instant: instant.time)
        raise HistoryCleanedError(
            f"Cannot roll back the {oldest.action.value} {oldest.time} of {state.storage.uri}: no commit would be left "
            f"on the active timeline, and the rows of the {len(archived)} archived ones, such as {archived[-1].time}, "
            "would no longer be read; undo newer commits only, or write the rows of an earlier time again",
            instant=oldest.time,
        )


def _find_instant(context: ServiceContext, timeline: Timeline, instant: str) -> Instant | None:
    target = timeline.find(instant)
    if target is None:
        return None
    if target.action.comparable not in WRITE_ACTIONS:
        raise ConfigError(
            f"Cannot roll back the {target.action.value} {instant} of {context.storage.uri}: only writes, compactions, "
            "log compactions and clusterings can be rolled back",
            instant=target.time,
        )
    if target.time <= FULL_INSTANT:
        raise ConfigError(
            f"Cannot roll back the {target.action.value} {instant} of {context.storage.uri}: it is a bootstrap, whose "
            "index would have to be removed too; create the table again",
            instant=target.time,
        )
    return target


def _report_of_earlier(context: ServiceContext, timeline: Timeline, instant: str) -> RollbackReport:
    """Builds the report of the rollback that has already undone the instant."""
    earlier = find_rollback(context.storage, timeline, InstantTime(instant))
    if earlier is None or not earlier.completed:
        times = [other.time for other in timeline.instants if other.action.comparable in WRITE_ACTIONS]
        raise ConfigError(
            f"Cannot roll back {instant} of {context.storage.uri}: the active timeline has no such instant, and "
            f"archived ones cannot be undone; the latest writes: {', '.join(times[-5:]) or 'none'}"
        )
    content = context.storage.read(timeline.layout.path(earlier.file_name))
    return _report_of(context, timeline, [decode_rollback_metadata(content)])


def _roll_back_pending(context: ServiceContext, table: LockedTable, target: Instant) -> RollbackReport:
    """Rolls back a pending table service; recovery has left no pending writes."""
    if target.state is State.REQUESTED:
        return RollbackReport(
            "rollback",
            None,
            reason=f"the {target.action.value} {target.time} has not begun: there is nothing to undo; its plan remains",
            plan_kept=True,
        )
    check_dead(context.session, table.timeline, target, "roll back")
    done = _roll_back(context, table, target)
    return _report_of(context, context.timeline(), [done], plan_kept=True)


def _roll_back(context: ServiceContext, table: LockedTable, instant: Instant) -> RollbackMetadata:
    context.progress.phase(f"undoing the {instant.action.value} {instant.time}")
    return rollback_instant(table, instant)


def _report_of(
    context: ServiceContext, timeline: Timeline, done: list[RollbackMetadata], *, plan_kept: bool = False
) -> RollbackReport:
    last = InstantTime(done[-1].start_time)
    completed = timeline.find(last, Action.ROLLBACK)
    parts = [part for rolled_back in done for part in rolled_back.partitions]
    return RollbackReport(
        "rollback",
        last,
        context.session.completion_shown(completed.completion_time) if completed is not None else None,
        rolled_back=tuple(InstantTime(rolled_back.instant) for rolled_back in done),
        num_files_deleted=sum(len(part.deleted) for part in parts),
        num_rollback_blocks=sum(len(part.rollback_logs) for part in parts),
        plan_kept=plan_kept,
    )


def _check_instant(context: ServiceContext, state: TableState, instant: Instant, undone: Collection[str]) -> None:
    """Refuses a rollback that would delete files a savepoint or a plan needs, or lose rows.

    `undone`: the instants that will have been undone by then, including this one.
    """
    timeline = state.timeline
    if any(savepoint.time == instant.time for savepoint in savepoints_of(timeline)):
        raise ConflictError(
            f"Cannot roll back the {instant.action.value} {instant.time} of {context.storage.uri}: it has a "
            "savepoint; delete the savepoint first",
            instant=instant.time,
        )
    metadata = read_commit_metadata(context.storage, timeline.layout, instant)
    check_logs(context.storage, state.config, instant, metadata)
    touched = metadata.written_groups
    plans = PendingPlans(context.storage, timeline)
    for service in timeline.pending:
        if service.time < instant.time:
            continue
        planned = touched & plans.file_groups(service)
        if planned:
            partition, file_id = min(planned)
            raise ConflictError(
                f"Cannot roll back the {instant.action.value} {instant.time} of {context.storage.uri}: the pending "
                f"{service.action.value} {service.time} will rewrite the file group {file_id} of partition "
                f"{partition!r}, which it wrote; run the {service.action.value}, then roll both back, newest first",
                instant=service.time,
            )
    _check_replaced(context, timeline, instant, metadata, undone)


def _check_replaced(
    context: ServiceContext, timeline: Timeline, instant: Instant, metadata: CommitMetadata, undone: Collection[str]
) -> None:
    """Refuses if file versions that the instant replaced have been cleaned: their rows would be lost.

    Older versions, which savepoints keep, are not enough.
    """
    present: dict[str, set[_Evidence]] = {}
    for partition, file_id, evidence in _replaced_slices(context, timeline, instant, metadata, undone):
        if partition not in present:
            present[partition] = _evidence_in(context.storage, partition, undone)
        if evidence not in present[partition]:
            raise HistoryCleanedError(
                f"Cannot roll back the {instant.action.value} {instant.time} of {context.storage.uri}: the previous "
                f"version of the file group {file_id} of partition {partition!r} has been cleaned, so its rows would "
                "be lost; restore a savepoint, or write the rows again",
                instant=instant.time,
            )


def _replaced_slices(
    context: ServiceContext, timeline: Timeline, instant: Instant, metadata: CommitMetadata, undone: Collection[str]
) -> Iterator[tuple[str, str, _Evidence]]:
    """Yields partition and file group of each slice that the instant replaced, with evidence that the slice still
    exists.

    A clean deletes slices as a whole, so one file is enough.
    """
    plans = (compaction_plan(context.storage, timeline.layout, instant.time, action) for action in COMPACTIONS)
    operations = [planned for plan in plans if plan is not None for planned in plan.operations]
    for operation in operations:
        yield operation.partition_path, operation.file_id, operation.base_file or operation.log_files[0]
    compacted = {(planned.partition_path, planned.file_id) for planned in operations}
    for stat in metadata.stats:
        base = parse_base_file_name(stat.path.rpartition("/")[2])
        known = (stat.partition_path, stat.file_id) in compacted or stat.prev_commit in (NO_PREVIOUS_COMMIT, "")
        if base is not None and not known:
            yield stat.partition_path, stat.file_id, (stat.file_id, stat.prev_commit)
    groups = set(metadata.replaced_groups)
    for earlier in reversed(timeline.write_completed):
        if not groups:
            return
        if earlier.time in undone:
            continue
        for stat in read_commit_metadata(context.storage, timeline.layout, earlier).stats:
            group = (stat.partition_path, stat.file_id)
            if group in groups and stat.path:
                groups.remove(group)
                yield *group, stat.path.rpartition("/")[2]
    for partition, file_id in groups:  # written before the active timeline begins: any version is enough
        yield partition, file_id, (file_id, "")


def _evidence_in(storage: Storage, partition: str, undone: Collection[str]) -> set[_Evidence]:
    """Returns names, file ids with the instants of base files, and bare file ids of the files in a partition."""
    evidence: set[_Evidence] = set()
    for info in storage.list(partition):
        base = parse_base_file_name(info.name)
        name = base or parse_log_file_name(info.name)
        if name is None or info.is_dir:
            continue
        evidence.add(info.name)
        if base is not None:
            evidence.add((base.file_id, base.instant))
        if name.instant not in undone:
            evidence.add((name.file_id, ""))
    return evidence
