"""Rolls back delta commits of the metadata table: those of rolled-back actions, and those of writers that died.

From table version 8 on the log files of the instant are deleted; in version 6, where file groups share logs, a rollback
block is appended. The rollback is an instant of the metadata table itself, so a killed one is finished later.
Sources: `HoodieBackedTableMetadataWriter.update(HoodieRollbackMetadata)`, `validateRollback`,
`HoodieTableMetadataUtil.createRollbackTimestamp` (1.2.0).
"""

from __future__ import annotations

import time

from hudi_py.formats.log import encode_rollback_block, read_blocks
from hudi_py.formats.log.blocks import HeaderKey
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.layout import META_FOLDER
from hudi_py.model.names import (
    BaseFileName,
    FileId,
    LogFileName,
    join_path,
    parse_base_file_name,
    parse_log_file_name,
)
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.metadata import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    encode_rollback_metadata,
    encode_rollback_plan,
    read_commit_metadata,
)
from hudi_py.timeline.pending_plans import PendingPlans, check_rollback_plan
from hudi_py.timeline.timeline import INITIAL, Timeline
from hudi_py.transaction.instants import InstantFiles, requested_path
from hudi_py.transaction.session import TableSession

ROLLBACK_SUFFIX = "006"
"""Appended to a time to form that of a rollback in a version 6 metadata table."""
_TOKEN = "1-0-1"
_BULK_INSERT = "BULK_INSERT"


def can_undo(storage: Storage, timeline: Timeline, instant: InstantTime) -> bool:
    """Returns whether undoing the delta commit of an instant removes all its records.

    Its records must be in log blocks of their own: no compaction has moved them into a base file, no log compaction has
    merged them into another block, and no partition was created from files the instant had already written. An instant
    without a delta commit was never recorded if it is newer than all partitions; otherwise they include it or it was
    archived.

    Args:
        storage, timeline: of the metadata table.
    """
    delta = timeline.find(instant, Action.DELTA_COMMIT)
    if delta is not None and not delta.completed:
        return True
    made = max(
        (other.completion_time or "" for other in timeline.completed if other.time.startswith(INITIAL)), default=""
    )
    if delta is None:
        first = min((other.time for other in timeline.completed if not other.time.startswith(INITIAL)), default=None)
        return instant > made if made else first is not None and instant > first
    if made > (delta.completion_time or delta.time) or _is_merged(timeline, delta):
        return False
    return not any(
        _creates_partitions(storage, timeline, other) for other in timeline.completed if _is_later(other, delta)
    )


def _is_merged(timeline: Timeline, delta: Instant) -> bool:
    """Returns whether a compaction or log compaction has read the records of a completed delta commit."""
    merging = [other.time for other in timeline.completed if _merges_logs(timeline, other)]
    if timeline.layout.has_completion_times:
        return any(time >= (delta.completion_time or delta.time) for time in merging)
    # a compaction's time is that of its newest delta commit plus a suffix
    return any(time[: len(delta.time)] >= delta.time for time in merging)


def _is_later(one: Instant, other: Instant) -> bool:
    return one.action is Action.DELTA_COMMIT and (one.completion_time or one.time) > (
        other.completion_time or other.time
    )


def _creates_partitions(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    """Returns whether a delta commit created partitions from the table's files, as an indexing does."""
    return read_commit_metadata(storage, timeline.layout, instant).operation.startswith(_BULK_INSERT)


def _merges_logs(timeline: Timeline, instant: Instant) -> bool:
    if instant.action is Action.DELTA_COMMIT:
        # a completed log compaction looks like a delta commit; only its pending files show the difference
        return any(file.action is Action.LOG_COMPACTION for file in timeline.states_of(instant))
    return instant.action is Action.COMMIT


def undo(own: TableSession, timeline: Timeline, instant: InstantTime, at: InstantTime | None) -> None:
    """Rolls back a delta commit in any state; does nothing if there is none.

    Args:
        timeline: the current timeline of the metadata table.
        at: time of the table's rollback, if this mirrors one; version 6 appends its suffix.

    The metadata table must not have been compacted since (`can_undo`).
    """
    delta = timeline.find(instant, Action.DELTA_COMMIT)
    if delta is None:
        return
    time_ = _rollback_time(own, timeline, at)
    plan = RollbackPlan(instant, delta.action.value, _find_requests(own, delta))
    InstantFiles(own.storage, own.layout, time_, Action.ROLLBACK).request(encode_rollback_plan(plan))
    _carry_out(own, time_, plan)


def finish_undone(own: TableSession, timeline: Timeline, data: Timeline) -> bool:
    """Finishes killed rollbacks, then rolls back unfinished delta commits. Returns whether there were any.

    From table version 8 on Apache Hudi may write both tables at once (`hoodie.metadata.streaming.write.enabled`), so
    the delta commit of a pending action is left alone: it is undone together with the action. In all versions, the
    delta commit of an indexing is also left alone: Apache Hudi builds partitions beside writers with it.

    Args:
        timeline: the current timeline of the metadata table.
        data: the timeline of its table.
    """
    # in version 6, the time of an indexing has a suffix
    under_way = tuple(
        instant.time for instant in data.pending if own.config.has_completion_times or instant.action is Action.INDEXING
    )
    changed = False
    plans = PendingPlans(own.storage, timeline)
    for rollback in plans.of(Action.ROLLBACK):
        plan = plans.rollback(rollback)
        if plan is not None:
            _carry_out(own, rollback.time, plan)
        else:
            own.storage.delete(requested_path(own.layout, rollback.time, Action.ROLLBACK))
        changed = True
    if changed:
        timeline = own.timeline()
    for write in reversed(timeline.pending):
        if write.action is Action.DELTA_COMMIT and not write.time.startswith(under_way):
            undo(own, timeline, write.time, None)
            timeline = own.timeline()
            changed = True
    return changed


def _rollback_time(own: TableSession, timeline: Timeline, at: InstantTime | None) -> InstantTime:
    known = {instant.time for instant in timeline.instants}
    suffix = ROLLBACK_SUFFIX if not own.config.has_completion_times else ""
    if at is not None and at + suffix not in known:
        return InstantTime(at + suffix)
    return InstantTime(own.clock.next_completion(timeline) + suffix)


def _find_requests(own: TableSession, instant: Instant) -> tuple[RollbackRequest, ...]:
    """Finds the files of the instant by listing every partition: it has no markers (`withRollbackUsingMarkers`)."""
    requests: list[RollbackRequest] = []
    for folder in own.storage.list(""):
        if not folder.is_dir or folder.name == META_FOLDER:
            continue
        logs: dict[tuple[str, str], dict[str, int]] = {}
        for info in own.storage.list(folder.path):
            parsed = parse_base_file_name(info.name) or parse_log_file_name(info.name)
            if parsed is None:
                continue
            if parsed.instant == instant.time and (
                own.config.logs_named_by_instant or isinstance(parsed, BaseFileName)
            ):
                requests.append(RollbackRequest(folder.path, "", "", (f"{own.storage.uri}/{info.path}",)))
            elif (
                not own.config.logs_named_by_instant
                and isinstance(parsed, LogFileName)
                and _has_block_of(own, info, instant.time)
            ):
                logs.setdefault((parsed.file_id, parsed.instant), {})[f"{own.storage.uri}/{info.path}"] = info.size
        requests += [
            RollbackRequest(folder.path, file_id, base_instant, (), blocks)
            for (file_id, base_instant), blocks in sorted(logs.items())
        ]
    return tuple(requests)


def _has_block_of(own: TableSession, info: FileInfo, instant: str) -> bool:
    """Returns whether a log file has a block of the instant that no rollback block covers."""
    blocks = read_blocks(own.storage, info.path, info.size)
    return any(not block.is_rollback and block.instant_time == instant for block in blocks)


def _carry_out(own: TableSession, rollback: InstantTime, plan: RollbackPlan) -> None:
    """Executes the plan, removes the instant, then completes the rollback. Safe to repeat."""
    storage, layout = own.storage, own.layout
    check_rollback_plan(storage, rollback, plan)
    files = InstantFiles(storage, layout, rollback, Action.ROLLBACK)
    files.begin()
    started = time.monotonic()
    undone = own.timeline().find(plan.instant, Action(plan.action))
    if undone is not None and undone.completed:
        storage.delete(layout.path(undone.file_name))
        storage.sync()  # otherwise readers could find the instant completed but its files gone
    partitions: dict[str, RollbackPartition] = {}
    for wanted in plan.requests:
        before = partitions.get(wanted.partition_path, RollbackPartition(wanted.partition_path))
        for path in wanted.files_to_delete:
            storage.delete(join_path(wanted.partition_path, path.rpartition("/")[2]))
        appended = _append_rollback_block(own, rollback, plan.instant, wanted) if wanted.log_blocks else {}
        partitions[wanted.partition_path] = RollbackPartition(
            wanted.partition_path,
            deleted=before.deleted + wanted.files_to_delete,
            rollback_logs={**before.rollback_logs, **appended},
            failed_logs={**before.failed_logs, **wanted.log_blocks},
        )
    timeline = own.timeline()
    undone = timeline.find(plan.instant, Action(plan.action))
    if undone is not None:
        for file in reversed(timeline.states_of(undone)):
            storage.delete(layout.path(file.file_name))
    taken_ms = int((time.monotonic() - started) * 1000)
    done = RollbackMetadata(rollback, taken_ms, plan.instant, plan.action, tuple(partitions.values()))
    completion = own.clock.next_completion(timeline, InstantTime(rollback[:17]))
    files.complete(completion, encode_rollback_metadata(done))


def _append_rollback_block(own: TableSession, rollback: str, target: str, wanted: RollbackRequest) -> dict[str, int]:
    """Writes a rollback block to a new log file of the slice, unless a killed attempt did. Returns its URI and size."""
    version = 0
    for info in own.storage.list(wanted.partition_path):
        name = parse_log_file_name(info.name)
        if name is None or (name.file_id, name.instant) != (wanted.file_id, wanted.latest_base_instant):
            continue
        version = max(version, name.version)
        if name.write_token == _TOKEN and any(
            block.is_rollback
            and block.instant_time == rollback
            and block.header.get(HeaderKey.TARGET_INSTANT_TIME) == target
            for block in read_blocks(own.storage, info.path, info.size)
        ):
            return {f"{own.storage.uri}/{info.path}": info.size}
    added = LogFileName(FileId(wanted.file_id), wanted.latest_base_instant, version + 1, _TOKEN)
    path = join_path(wanted.partition_path, str(added))
    content = encode_rollback_block(rollback, target)
    own.storage.put_if_absent(path, content)
    return {f"{own.storage.uri}/{path}": len(content)}
