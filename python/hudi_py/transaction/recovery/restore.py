"""Restores a table to a savepoint (`RestorePlanActionExecutor`, `BaseRestoreActionExecutor`, 1.2.0).

A restore is an instant whose plan lists the instants after the savepoint, newest first. Each of these is undone by a
rollback of its own, which stays pending. When all are done, the metadata table is updated once, the restore completes,
and the rollbacks, which are part of it, are removed. A process that finds a pending restore finishes it, because the
table is in neither state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import RollbackMetadata, decode_rollback_metadata
from hudi_py.timeline.pending_plans import PendingPlans, check_restore_plan
from hudi_py.timeline.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    decode_restore_metadata,
    encode_restore_metadata,
    encode_restore_plan,
)
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import LockedAction
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.markers import remove_markers
from hudi_py.transaction.owner.claim import claim_proof, forget_write, remove_write_folder
from hudi_py.transaction.owner.identity import WriterIdentity, new_writer_id, process_identity
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.recovery.plan import RememberingLister
from hudi_py.transaction.recovery.rollback import (
    appended_files,
    find_rollback,
    remove_instant,
    removed_files,
    request_rollback,
    undo_files,
)
from hudi_py.transaction.session import LockedTable, TableSession

_COMPACTIONS = frozenset({Action.COMPACTION, Action.COMMIT})


def _ignore_progress(_: InstantTime) -> None:
    pass


def plan_restore(session: TableSession, timeline: Timeline, savepoint: Instant) -> RestorePlan:
    """Plans the instants to roll back: pending clusterings, other pending ones, then completed ones, each newest first.

    `savepoint` is the completed commit. Everything pending or completed after it is rolled back, except that a
    compaction of a MERGE_ON_READ table counts by its requested time, since that orders log files
    (`RestoreInstantComparatorFactory`). Layout 1 has no completion times, so requested times are used instead.
    """
    pending_clusterings = PendingPlans(session.storage, timeline).clusterings
    clusterings = [instant for instant in pending_clusterings if instant.time > savepoint.time]
    kept = _completed_at(timeline, savepoint) or ""
    others: list[Instant] = []
    for instant in timeline.instants:
        if instant.action.comparable not in WRITE_ACTIONS or instant in clusterings:
            continue
        if session.config.is_mor and instant.action in _COMPACTIONS:
            after = instant.time > savepoint.time
        else:
            completed = _completed_at(timeline, instant)
            after = completed is None or (completed, instant.time) > (kept, savepoint.time)
        if after:
            others.append(instant)
    pending = [instant for instant in others if not instant.completed]
    completed_ = [instant for instant in others if instant.completed]
    completed_.sort(key=lambda instant: (_completed_at(timeline, instant) or "", instant.time))
    ordered = [*reversed(clusterings), *reversed(pending), *reversed(completed_)]
    return RestorePlan(savepoint.time, tuple(InstantInfo(undone.time, undone.action.value) for undone in ordered))


def request_restore(table: LockedTable, plan: RestorePlan) -> InstantTime:
    """Makes the restore pending. Returns its instant."""
    session = table.session
    restore = session.clock.next_instant(table.timeline)
    # comes first: shows a process that finds the restore that its writer held the table lock
    claim_proof(session.storage, restore, WriterIdentity(new_writer_id(), process_identity()))
    LockedAction(table, restore, Action.RESTORE).request(encode_restore_plan(plan))
    return restore


def finish_restore(
    table: LockedTable, restore: InstantTime, plan: RestorePlan, show: Callable[[InstantTime], None] = _ignore_progress
) -> RestoreMetadata:
    """Executes a restore and completes it. Safe to repeat after a crash at any point.

    `show` is called with each instant once it is undone.

    Raises:
        ConfigError: the metadata table can be neither restored nor dropped.
        CorruptFileError: what an instant wrote cannot be determined.
    """
    check_restore_plan(table.session.storage, restore, plan)
    undone = tuple(InstantTime(instant.time) for instant in plan.instants)
    table = table.reread()
    session, storage = table.session, table.session.storage
    session.metadata.check(session, undone)
    LockedAction(table, restore, Action.RESTORE).begin()
    started = time.monotonic()
    # Version 6 appends rollback blocks, so its listings change from one instant to the next
    lister = RememberingLister(storage, session.config) if session.config.logs_named_by_instant else None
    rollbacks: dict[str, tuple[RollbackMetadata, ...]] = {}
    for info in plan.instants:
        done = _undo_instant(table, info, lister)
        if done is not None:
            rollbacks[info.time] = (done,)
        show(InstantTime(info.time))
    result = RestoreMetadata(
        start_time=restore,
        time_taken_ms=int((time.monotonic() - started) * 1000),
        instants=tuple(info for info in plan.instants if info.time in rollbacks),
        rollbacks=rollbacks,
    )
    change = _table_change(
        restore, undone, [done for done_of_instant in rollbacks.values() for done in done_of_instant]
    )
    LockedAction(table.reread(), restore, Action.RESTORE).complete(encode_restore_metadata(result), change)
    sweep_rollbacks(storage, session.timeline(), undone, plan.savepoint)
    remove_write_folder(storage, restore)
    return result


def _table_change(
    restore: InstantTime, undone: tuple[InstantTime, ...], rollbacks: Sequence[RollbackMetadata]
) -> TableChange:
    deleted = removed_files(rollbacks)
    # Version 6: logs in the slice of a compaction get rollback blocks first, and are then deleted with the slice
    gone = {partition: frozenset(names) for partition, names in deleted.items()}
    kept = {
        partition: {name: size for name, size in sizes.items() if name not in gone.get(partition, ())}
        for partition, sizes in appended_files(rollbacks).items()
    }
    added = {partition: sizes for partition, sizes in kept.items() if sizes}
    return TableChange(restore, Action.RESTORE, added=added, deleted=deleted, rolled_back=undone)


def sweep_rollbacks(
    storage: Storage, timeline: Timeline, undone: tuple[InstantTime, ...], savepoint: str | None = None
) -> None:
    """Removes what a completed restore left of the undone instants. Idempotent.

    Their pending rollbacks are removed and, with `savepoint`, all completed ones after it, as in Apache Hudi.
    """
    plans = PendingPlans(storage, timeline)
    for rollback in timeline.instants:
        if rollback.action is not Action.ROLLBACK:
            continue
        if rollback.completed:
            if savepoint is None or rollback.time <= savepoint:
                continue
            storage.delete(timeline.layout.path(rollback.file_name))
        else:
            plan = plans.rollback(rollback)
            if plan is None or plan.instant not in undone:
                continue
        InstantFiles(storage, timeline.layout, rollback.time, Action.ROLLBACK).remove_pending()
        remove_markers(storage, rollback.time)
    for instant in undone:
        forget_write(storage, instant)


def completed_restore_of(storage: Storage, timeline: Timeline, instant: str) -> Instant | None:
    """Finds the newest completed restore that undid an instant."""
    for restore in reversed(timeline.completed):
        if restore.action is not Action.RESTORE or restore.time < instant:
            continue
        path = timeline.layout.path(restore.file_name)
        try:
            metadata = decode_restore_metadata(storage.read(path), f"the restore {storage.uri}/{path}")
        except FileNotFoundError:  # archived since it was listed
            continue
        if any(info.time == instant for info in metadata.instants):
            return restore
    return None


def _undo_instant(table: LockedTable, info: InstantInfo, lister: RememberingLister | None) -> RollbackMetadata | None:
    """Rolls one instant back without completing the rollback. Repeats what a dead attempt did, since its plan still
    lists that. Returns None if there is no trace of the instant."""
    table = table.reread()
    session, storage, timeline = table.session, table.session.storage, table.timeline
    action = Action(info.action)
    existing = next(
        (i for i in timeline.instants if i.time == info.time and i.action.comparable is action.comparable), None
    )
    if existing is not None:
        rollback, plan = request_rollback(table, existing, restoring=True, lister=lister)
    else:
        earlier = find_rollback(storage, timeline, InstantTime(info.time))
        if earlier is None:
            return None
        if earlier.completed:
            return decode_rollback_metadata(storage.read(timeline.layout.path(earlier.file_name)))
        earlier_plan = table.plans.rollback(earlier)
        assert earlier_plan is not None  # it names the instant
        rollback, plan = earlier.time, earlier_plan
    done = undo_files(session, rollback, plan)
    remove_instant(session, InstantTime(info.time), action)
    return done


def _completed_at(timeline: Timeline, instant: Instant) -> str | None:
    """Returns the completion time, or the requested time if completion times are not stored; None while pending."""
    if not instant.completed:
        return None
    written = timeline.layout.has_completion_times and not instant.legacy
    return instant.completion_time if written else instant.time
