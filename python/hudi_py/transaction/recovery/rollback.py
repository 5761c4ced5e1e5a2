"""Undoes an instant (`BaseRollbackActionExecutor`, `RollbackHelper`, `RollbackHelperV1`, 1.2.0).

A rollback is an instant of its own. Its plan lists what to delete, so any process can finish a killed rollback. From
table version 8 on, all files of the instant are deleted. In version 6, a log file may be shared, so the instant's log
blocks are undone by a rollback block in a new log file. A completed instant is moved back to inflight before any of its
files is deleted, so that no reader considers it complete.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from hudi_py.formats.log import encode_rollback_block, read_blocks
from hudi_py.formats.log.blocks import HeaderKey
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.layout import temporary_folder
from hudi_py.model.names import FileId, LogFileName, join_path
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import REQUESTS, in_threads
from hudi_py.timeline.bucket_rules import remove_buckets
from hudi_py.timeline.metadata import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    decode_rollback_metadata,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from hudi_py.timeline.pending_plans import PendingPlans, check_rollback_plan
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import LockedAction
from hudi_py.transaction.instants import InstantFiles, inflight_path, requested_path
from hudi_py.transaction.markers import remove_markers
from hudi_py.transaction.owner.claim import (
    PLANNED,
    claim_proof,
    claimant,
    forget_write,
    remove_write_folder,
    revoke_claim,
)
from hudi_py.transaction.owner.identity import WriterIdentity, new_writer_id, process_identity
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.recovery.plan import group_logs, plan_rollback
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.view.lister import Lister

_log = logging.getLogger(__name__)

ROLLBACK_TOKEN = "1-0-1"
"""Write token of log files that hold a rollback block (`HoodieLogFormat.UNKNOWN_WRITE_TOKEN`)."""

_MIN_IN_PARALLEL = 32
"""With fewer requests than this, threads are not worthwhile."""


def rollback_instant(table: LockedTable, instant: Instant) -> RollbackMetadata:
    """Rolls an instant back. Safe to repeat after a crash at any point.

    A pending compaction, log compaction or clustering keeps its plan, to be run again; nothing is left of any other
    instant. The caller makes sure that nothing came after a completed instant.

    Args:
        instant: a pending or completed write or rewriting table service, as the timeline has it.

    Returns:
        The rollback metadata; its `start_time` is the rollback's instant.

    Raises:
        ConfigError: the metadata table holds changes of the instant, and can be neither maintained nor dropped.
        CorruptFileError: what the instant wrote cannot be determined.
    """
    table = table.reread()
    session = table.session
    session.metadata.check(session, (instant.time,))
    revoke_claim(session.storage, instant.time)
    rollback, plan = request_rollback(table, instant)
    _log.info(
        "rolling back the %s %s of %s, as rollback %s",
        instant.action.value,
        instant.time,
        session.storage.uri,
        rollback,
    )
    return finish_rollback(table, rollback, plan)


def request_rollback(
    table: LockedTable, instant: Instant, *, restoring: bool = False, lister: Lister | None = None
) -> tuple[InstantTime, RollbackPlan]:
    """Returns the pending rollback of an instant, and creates it if there is none. Arguments as for `plan_rollback`."""
    session, timeline = table.session, table.timeline
    for pending in table.plans.of(Action.ROLLBACK):
        plan = table.plans.rollback(pending)
        if plan is not None and plan.instant == instant.time:
            return pending.time, plan
    plan = plan_rollback(session, timeline, instant, restoring=restoring, lister=lister)
    rollback = session.clock.next_instant(timeline)
    check_rollback_plan(session.storage, rollback, plan)
    several = session.settings.optimistic and instant in table.plans.writes
    if not restoring and (instant.completed or instant.action in PLANNED or several):
        # Shows a process that finds the rollback that its writer held the table lock. With one writer at a time,
        # rollbacks of failed writes need no proof: they are finished in any case
        claim_proof(session.storage, rollback, WriterIdentity(new_writer_id(), process_identity()))
    session.storage.put(requested_path(timeline.layout, rollback, Action.ROLLBACK), encode_rollback_plan(plan))
    return rollback, plan


def is_rolled_back(storage: Storage, timeline: Timeline, instant: InstantTime) -> bool:
    """Returns whether a rollback, completed or not, names the instant."""
    return find_rollback(storage, timeline, instant) is not None


def find_rollback(storage: Storage, timeline: Timeline, instant: InstantTime) -> Instant | None:
    """Finds the rollback, completed or not, that names the instant."""
    plans = PendingPlans(storage, timeline)
    for rollback in timeline.instants:
        if rollback.action is not Action.ROLLBACK or rollback.time < instant:
            continue
        if rollback.completed:
            try:
                content = storage.read(timeline.layout.path(rollback.file_name))
            except FileNotFoundError:  # archived since it was listed
                continue
            if decode_rollback_metadata(content).instant == instant:
                return rollback
        else:
            plan = plans.rollback(rollback)
            if plan is not None and plan.instant == instant:
                return rollback
    return None


def finish_rollback(table: LockedTable, rollback: InstantTime, plan: RollbackPlan) -> RollbackMetadata:
    """Executes a rollback plan and completes the rollback. Safe to repeat."""
    check_rollback_plan(table.session.storage, rollback, plan)
    table = table.reread()
    session, failed = table.session, InstantTime(plan.instant)
    storage = session.storage
    session.metadata.check(session, (failed,))
    kept = _keeps_plan(table, rollback, failed, Action(plan.action))
    done = undo_files(session, rollback, plan)

    def take_off() -> None:
        if kept is None:
            remove_instant(session, failed, Action(plan.action))
        else:
            InstantFiles(storage, session.layout, failed, kept).revert()
            forget_write(storage, failed)  # it stays pending, so after a crash the next write would not do this

    content = encode_rollback_metadata(done)
    LockedAction(table.reread(), rollback, Action.ROLLBACK).complete(
        content, _table_change(rollback, done), in_between=take_off
    )
    if not session.config.logs_named_by_instant:
        remove_markers(storage, rollback)  # Java records there which rollback blocks it appends
    remove_write_folder(storage, rollback)
    forget_write(storage, failed)
    return done


def undo_files(session: TableSession, rollback: InstantTime, plan: RollbackPlan) -> RollbackMetadata:
    """Moves the rollback to inflight and undoes what the instant wrote; both stay pending. Safe to repeat.

    The result lists all files of the plan as deleted, whichever attempt deleted them.
    """
    storage = session.storage
    check_rollback_plan(storage, rollback, plan)
    failed, action = InstantTime(plan.instant), Action(plan.action)
    InstantFiles(storage, session.layout, rollback, Action.ROLLBACK).begin()
    started = time.monotonic()
    # An attempt of the failed write past its last check fails now: the file it would move into place is gone
    revoke_claim(storage, failed)
    storage.delete_tree(temporary_folder(failed))
    if action not in PLANNED:
        _revert_to_inflight(session, failed, action)
        storage.sync()  # otherwise readers could find the instant completed but its files gone
    if action.comparable is Action.REPLACE_COMMIT:
        remove_buckets(storage, failed)
    partitions = in_threads(
        lambda request: _execute_request(storage, rollback, failed, request),
        plan.requests,
        REQUESTS if len(plan.requests) >= _MIN_IN_PARALLEL else 1,
    )
    return RollbackMetadata(
        start_time=rollback,
        time_taken_ms=int((time.monotonic() - started) * 1000),
        instant=failed,
        action=action.value,
        partitions=_merge_partitions(partitions),
    )


def remove_instant(session: TableSession, instant: InstantTime, action: Action) -> None:
    """Deletes the pending files of an instant under every action name: those of a completed compaction are named
    `compaction`."""
    timeline = session.timeline()
    names = {action}
    names |= {file.action for file in timeline.files if _is_action_of(file, instant, action) and not file.completed}
    for name in sorted(names, key=lambda marker: marker.value):
        InstantFiles(session.storage, timeline.layout, instant, name).remove_pending()


def removed_files(rollbacks: Iterable[RollbackMetadata]) -> dict[str, tuple[str, ...]]:
    """Returns the names of deleted files by partition path."""
    removed: dict[str, dict[str, None]] = {}
    for done in rollbacks:
        for part in done.partitions:
            if part.deleted:
                removed.setdefault(part.partition_path, {}).update({_file_name(path): None for path in part.deleted})
    return {partition: tuple(names) for partition, names in removed.items()}


def appended_files(rollbacks: Iterable[RollbackMetadata]) -> dict[str, dict[str, int]]:
    """Returns the size in bytes, by partition path and file name, of the log files that rollbacks wrote and of those
    whose blocks they undo: these stay, and the metadata table may not know them."""
    appended: dict[str, dict[str, int]] = {}
    for done in rollbacks:
        for part in done.partitions:
            logs = {**part.failed_logs, **part.rollback_logs}
            if logs:
                sizes = {_file_name(path): size for path, size in logs.items()}
                appended.setdefault(part.partition_path, {}).update(sizes)
    return appended


def _keeps_plan(table: LockedTable, rollback: InstantTime, instant: InstantTime, action: Action) -> Action | None:
    """Returns the action under which the instant's plan stays; None if nothing of it stays.

    Rollback plans name a completed compaction `commit` and a pending one `compaction`; a completed clustering
    `replacecommit` and a pending one `clustering`, but `replacecommit` on layout 1. There, it was completed
    when the rollback was planned if the rollback has a claim (`request_rollback`); what a killed attempt left looks
    pending.
    """
    if action in PLANNED:
        return action
    if table.session.layout.has_completion_times or claimant(table.session.storage, rollback) is not None:
        return None
    return next(
        (pending.action for pending in table.plans.clusterings if _is_action_of(pending, instant, action)), None
    )


def _revert_to_inflight(session: TableSession, instant: InstantTime, action: Action) -> None:
    """Moves a completed instant back to inflight (`HoodieActiveTimeline.revertToInflight`)."""
    storage, timeline = session.storage, session.timeline()
    for completed in timeline.completed:
        if not _is_action_of(completed, instant, action):
            continue
        states = timeline.states_of(completed)
        pending = [file for file in states if not file.completed]
        if not any(file.state is State.INFLIGHT for file in pending):
            # otherwise the instant would vanish from the timeline before its files do
            name = pending[0].action if pending else completed.action
            storage.put_if_absent(inflight_path(timeline.layout, instant, name), b"")
        for file in states:  # Apache Hudi's TTL service completes an instant twice
            if file.completed:
                storage.delete(timeline.layout.path(file.file_name))


def _is_action_of(pending: Instant, instant: InstantTime, action: Action) -> bool:
    return pending.time == instant and pending.action.comparable is action.comparable


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _execute_request(
    storage: Storage, rollback: InstantTime, failed: InstantTime, request: RollbackRequest
) -> RollbackPartition:
    deleted: list[str] = []
    for absolute in request.files_to_delete:
        # by partition and name: the table may have been moved since the plan was made
        storage.delete(join_path(request.partition_path, _file_name(absolute)))
        deleted.append(absolute)
    appended: dict[str, int] = {}
    if request.log_blocks:
        info = _append_rollback_block(storage, rollback, failed, request)
        if info is not None:
            appended[f"{storage.uri}/{info.path}"] = info.size
    return RollbackPartition(
        partition_path=request.partition_path,
        deleted=tuple(deleted),
        rollback_logs=appended,
        failed_logs=dict(request.log_blocks),
    )


def _append_rollback_block(
    storage: Storage, rollback: InstantTime, failed: InstantTime, request: RollbackRequest
) -> FileInfo | None:
    """Returns the log file with the rollback block; None if the logs with blocks to undo are gone because a resumed
    restore had already deleted them with their slice. A block in a new log would bring the slice back."""
    logs = group_logs(storage, request.partition_path, request.file_id, request.latest_base_instant)
    failed_names = {_file_name(path) for path in request.log_blocks}
    if not any(info.name in failed_names for _, info in logs):
        return None
    for _, info in reversed(logs):
        blocks = read_blocks(storage, info.path, info.size)
        if any(block.is_rollback and block.header.get(HeaderKey.TARGET_INSTANT_TIME) == failed for block in blocks):
            return info  # written by a rollback that was killed afterwards
    version = max((name.version for name, _ in logs), default=0) + 1
    added = LogFileName(FileId(request.file_id), request.latest_base_instant, version, ROLLBACK_TOKEN)
    path = join_path(request.partition_path, str(added))
    content = encode_rollback_block(rollback, failed)
    storage.put_if_absent(path, content)
    return FileInfo(path, len(content), 0)


def _table_change(rollback: InstantTime, done: RollbackMetadata) -> TableChange:
    return TableChange(
        rollback,
        Action.ROLLBACK,
        added=appended_files([done]),
        deleted=removed_files([done]),
        rolled_back=(InstantTime(done.instant),),
    )


def _merge_partitions(partitions: list[RollbackPartition]) -> tuple[RollbackPartition, ...]:
    merged: dict[str, RollbackPartition] = {}
    for part in partitions:
        before = merged.get(part.partition_path)
        if before is not None:
            part = RollbackPartition(
                partition_path=part.partition_path,
                deleted=before.deleted + part.deleted,
                rollback_logs={**before.rollback_logs, **part.rollback_logs},
                failed_logs={**before.failed_logs, **part.failed_logs},
            )
        merged[part.partition_path] = part
    return tuple(merged.values())
