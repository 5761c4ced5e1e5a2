"""Undoing an instant (`BaseRollbackActionExecutor`, `RollbackHelper`, `RollbackHelperV1`, 1.2.0).

A rollback is an instant of its own: its plan lists what is to go, so that whoever finds a killed rollback can finish
it. Since table version 8 all files of the instant are deleted. In version 6 a log file may be shared, so what the
instant wrote to logs is undone by a rollback block in a new log file. A completed instant is taken back to inflight
before any of its files goes, so no reader takes it for whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from hudi_py.formats.log import encode_rollback_block, read_blocks
from hudi_py.formats.log.blocks import HeaderKey
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.names import FileId, LogFileName, join_path
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import REQUESTS, in_threads
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import load_state
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.view.lister import Lister
from hudi_py.write.conflicts import is_clustering
from hudi_py.write.heartbeat import remove_heartbeat
from hudi_py.write.identity import WriterIdentity, new_writer_id, process_identity
from hudi_py.write.instants import begin, complete, inflight_path, remove_pending, requested_path, revert
from hudi_py.write.markers import remove_markers
from hudi_py.write.metadata_drop import warn_dropped
from hudi_py.write.paths import temporary_folder
from hudi_py.write.protocols import MetadataWriter, Recorded, TableChange
from hudi_py.write.rollback_plan import group_logs, plan_rollback
from hudi_py.write.staging import close_gate, gate_keeper, open_gate, remove_write_folder

ROLLBACK_TOKEN = "1-0-1"
"""Write token of log files that hold a rollback block (`HoodieLogFormat.UNKNOWN_WRITE_TOKEN`)."""

PLANNED = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
"""Pending actions which keep their plan when they are rolled back."""
_FEW = 32
"""Fewer requests than this are not worth threads."""


def rollback_instant(
    storage: Storage,
    config: TableConfig,
    instant: Instant,
    *,
    clock: InstantClock,
    metadata: MetadataWriter | None,
    by_markers: bool = True,
) -> InstantTime:
    """Rolls an instant back; the table lock must be held. Safe to repeat after a crash at any point.

    A pending compaction, log compaction or clustering keeps its plan, to be run anew; of every other instant nothing
    is left. That nothing came after a completed instant is for the caller to see to.

    Args:
        instant: a pending or completed write or rewriting table service, as the timeline has it.
        metadata: None where the table is a metadata table itself.
        by_markers: plan by the markers of a pending instant where there are any (`hoodie.rollback.using.markers`).

    Returns:
        The rollback's instant.

    Raises:
        ConfigError: the metadata table holds changes of the instant, and can be neither kept up nor dropped.
        CorruptFileError: what the instant wrote cannot be made out.
    """
    timeline = load_timeline(storage, config)
    if metadata is not None:
        metadata.check(storage, load_table_config(storage), (instant.time,))
    close_gate(storage, instant.time)
    rollback, plan = request_rollback(storage, config, timeline, instant, clock=clock, by_markers=by_markers)
    finish_rollback(storage, config, rollback, plan, clock=clock, metadata=metadata)
    return rollback


def request_rollback(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    instant: Instant,
    *,
    clock: InstantClock,
    by_markers: bool = True,
    restoring: bool = False,
    lister: Lister | None = None,
) -> tuple[InstantTime, RollbackPlan]:
    """The pending rollback of an instant, a new one where there is none. Arguments as for `plan_rollback`."""
    for pending in pending_rollbacks(timeline):
        plan = read_plan(storage, timeline, pending)
        if plan is not None and plan.instant == instant.time:
            return pending.time, plan
    plan = plan_rollback(storage, config, timeline, instant, by_markers=by_markers, restoring=restoring, lister=lister)
    rollback = clock.next_instant(timeline)
    if not restoring and (instant.completed or instant.action in PLANNED):
        # so that whoever finds it knows that its writer held the table lock; rollbacks of failed writes need no proof
        open_gate(storage, rollback, WriterIdentity(new_writer_id(), process_identity()))
    storage.put(requested_path(timeline.layout, rollback, Action.ROLLBACK), encode_rollback_plan(plan))
    return rollback, plan


def pending_rollbacks(timeline: Timeline) -> list[Instant]:
    """Rollbacks that were begun and not completed, oldest first."""
    return [instant for instant in timeline.pending if instant.action is Action.ROLLBACK]


def is_rolled_back(storage: Storage, timeline: Timeline, instant: InstantTime) -> bool:
    """Whether a rollback, completed or not, names the instant."""
    return find_rollback(storage, timeline, instant) is not None


def find_rollback(storage: Storage, timeline: Timeline, instant: InstantTime) -> Instant | None:
    """The rollback, completed or not, that names the instant."""
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
            plan = read_plan(storage, timeline, rollback)
            if plan is not None and plan.instant == instant:
                return rollback
    return None


def read_plan(storage: Storage, timeline: Timeline, rollback: Instant) -> RollbackPlan | None:
    """The plan of a pending rollback; None when its writer died before it was there.

    Raises:
        CorruptFileError: the plan cannot be read.
    """
    try:
        content = storage.read(requested_path(timeline.layout, rollback.time, Action.ROLLBACK))
    except FileNotFoundError:
        return None
    return decode_rollback_plan(content) if content else None


def finish_rollback(
    storage: Storage,
    config: TableConfig,
    rollback: InstantTime,
    plan: RollbackPlan,
    *,
    clock: InstantClock,
    metadata: MetadataWriter | None,
) -> None:
    """Carries a rollback plan out and completes it; the table lock must be held. Safe to repeat."""
    failed = InstantTime(plan.instant)
    if metadata is not None:
        metadata.check(storage, load_table_config(storage), (failed,))
    timeline = load_timeline(storage, config)
    kept = _keeps_plan(storage, timeline, rollback, failed, Action(plan.action))
    done = undo_files(storage, config, rollback, plan)
    recorded = Recorded()
    if metadata is not None:
        recorded = metadata.record(storage, load_state(storage), _change(rollback, done), clock)
    if kept is not None:
        revert(storage, timeline.layout, failed, kept)
        forget_write(storage, failed)  # it stays pending, so nobody would sweep this up after a crash
    else:
        remove_instant(storage, config, failed, Action(plan.action))
    after = load_timeline(storage, config)
    completion = clock.next_completion(after, rollback)
    content = encode_rollback_metadata(done)
    recorded.maintain(after.plus(complete(storage, timeline.layout, rollback, Action.ROLLBACK, completion, content)))
    if config.version < 8:
        remove_markers(storage, rollback)  # Java notes there which rollback blocks it appends
    remove_write_folder(storage, rollback)
    forget_write(storage, failed)
    warn_dropped(config, recorded.dropped)


def undo_files(storage: Storage, config: TableConfig, rollback: InstantTime, plan: RollbackPlan) -> RollbackMetadata:
    """Takes the rollback to inflight and undoes what the instant wrote; both stay pending. Safe to repeat.

    The result names all files of the plan as deleted, whichever attempt deleted them.
    """
    layout = layout_for(config)
    failed, action = InstantTime(plan.instant), Action(plan.action)
    begin(storage, layout, rollback, Action.ROLLBACK)
    started = time.monotonic()
    # An attempt of the failed write that has passed its last check fails now: what it would move into place is gone
    close_gate(storage, failed)
    storage.delete_tree(temporary_folder(failed))
    if action not in PLANNED:
        _unpublish(storage, config, failed, action)
        storage.sync()  # readers must not find the instant completed and its files gone
    partitions = in_threads(
        lambda request: _carry_out(storage, rollback, failed, request),
        plan.requests,
        REQUESTS if len(plan.requests) >= _FEW else 1,
    )
    return RollbackMetadata(
        start_time=rollback,
        time_taken_ms=int((time.monotonic() - started) * 1000),
        instant=failed,
        action=action.value,
        partitions=_merge(partitions),
    )


def remove_instant(storage: Storage, config: TableConfig, instant: InstantTime, action: Action) -> None:
    """Deletes the pending files of an instant under whatever action they are named: those of a completed compaction
    are named `compaction`."""
    timeline = load_timeline(storage, config)
    names = {action}
    names |= {file.action for file in timeline.files if _is(file, instant, action) and not file.completed}
    for name in sorted(names, key=lambda each: each.value):
        remove_pending(storage, timeline.layout, instant, name)


def forget_write(storage: Storage, instant: InstantTime) -> None:
    """Removes what a write keeps besides timeline and data. The write folder goes last: the next write sweeps the rest
    by it after a crash."""
    remove_heartbeat(storage, instant)
    remove_markers(storage, instant)
    remove_write_folder(storage, instant)


def removed_files(rollbacks: Iterable[RollbackMetadata]) -> dict[str, tuple[str, ...]]:
    """Partition path to names of files that rollbacks have deleted."""
    found: dict[str, dict[str, None]] = {}
    for done in rollbacks:
        for part in done.partitions:
            if part.deleted:
                found.setdefault(part.partition_path, {}).update({_name(path): None for path in part.deleted})
    return {partition: tuple(names) for partition, names in found.items()}


def appended_files(rollbacks: Iterable[RollbackMetadata]) -> dict[str, dict[str, int]]:
    """Partition path and file name to bytes of the log files that rollbacks have written, and of those whose blocks
    they are about: these stay, and the metadata table may not know of them."""
    found: dict[str, dict[str, int]] = {}
    for done in rollbacks:
        for part in done.partitions:
            logs = {**part.failed_logs, **part.rollback_logs}
            if logs:
                sizes = {_name(path): size for path, size in logs.items()}
                found.setdefault(part.partition_path, {}).update(sizes)
    return found


def _keeps_plan(
    storage: Storage, timeline: Timeline, rollback: InstantTime, instant: InstantTime, action: Action
) -> Action | None:
    """The action under which the instant's plan stays; None where nothing of it stays.

    Rollback plans name a completed compaction `commit`, a pending one `compaction`; a completed clustering
    `replacecommit`, a pending one `clustering`, but `replacecommit` on layout 1. There it was completed when the
    rollback was planned if that has a gate (`request_rollback`); what a killed attempt left looks pending.
    """
    if action in PLANNED:
        return action
    if timeline.layout.version >= 2 or gate_keeper(storage, rollback) is not None:
        return None
    pending = next((i for i in timeline.pending if _is(i, instant, action)), None)
    if action is Action.REPLACE_COMMIT and pending is not None and is_clustering(storage, timeline, pending):
        return pending.action
    return None


def _unpublish(storage: Storage, config: TableConfig, instant: InstantTime, action: Action) -> None:
    """Takes a completed instant back to inflight (`HoodieActiveTimeline.revertToInflight`)."""
    timeline = load_timeline(storage, config)
    for completed in timeline.completed:
        if not _is(completed, instant, action):
            continue
        pending = [file for file in timeline.states_of(completed) if not file.completed]
        if not any(file.state is State.INFLIGHT for file in pending):
            # without one the instant would vanish from the timeline before its files do
            name = pending[0].action if pending else completed.action
            storage.put_if_absent(inflight_path(timeline.layout, instant, name), b"")
        storage.delete(timeline.layout.path(completed.file_name))


def _is(found: Instant, instant: InstantTime, action: Action) -> bool:
    return found.time == instant and found.action.comparable is action.comparable


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _carry_out(
    storage: Storage, rollback: InstantTime, failed: InstantTime, request: RollbackRequest
) -> RollbackPartition:
    deleted: list[str] = []
    for absolute in request.files_to_delete:
        # by partition and name: the table may have been moved since the plan was made
        storage.delete(join_path(request.partition_path, _name(absolute)))
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
    """The log file with the rollback block; None where the logs with blocks to undo are gone, as a restore that is
    carried on has deleted them with their slice. A block in a new log would bring the slice back."""
    logs = group_logs(storage, request.partition_path, request.file_id, request.latest_base_instant)
    failed_names = {_name(path) for path in request.log_blocks}
    if not any(info.name in failed_names for _, info in logs):
        return None
    for _, info in reversed(logs):
        blocks = read_blocks(storage, info.path, info.size)
        if any(block.is_rollback and block.header.get(HeaderKey.TARGET_INSTANT_TIME) == failed for block in blocks):
            return info  # a rollback that was killed afterwards has written it
    version = max((name.version for name, _ in logs), default=0) + 1
    added = LogFileName(FileId(request.file_id), request.latest_base_instant, version, ROLLBACK_TOKEN)
    path = join_path(request.partition_path, str(added))
    content = encode_rollback_block(rollback, failed)
    storage.put_if_absent(path, content)
    return FileInfo(path, len(content), 0)


def _change(rollback: InstantTime, done: RollbackMetadata) -> TableChange:
    return TableChange(
        rollback,
        Action.ROLLBACK,
        added=appended_files([done]),
        deleted=removed_files([done]),
        rolled_back=(InstantTime(done.instant),),
    )


def _merge(partitions: list[RollbackPartition]) -> tuple[RollbackPartition, ...]:
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
