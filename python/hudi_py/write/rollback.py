"""Undoing an instant that failed (`BaseRollbackActionExecutor`, `MarkerBasedRollbackStrategy`, 1.2.0).

A rollback is an instant of its own: its plan lists what is to go, so that whoever finds a killed rollback can finish
it. Since table version 8 all files of the failed instant are deleted. In version 6 a log file may be shared, so what
the instant wrote to logs is undone by a rollback block in a new log file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from hudi_py.errors import CorruptFileError
from hudi_py.formats.log import encode_rollback_block, read_blocks
from hudi_py.formats.log.blocks import HeaderKey
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.names import FileId, LogFileName, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
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
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.view import StorageLister
from hudi_py.write.heartbeat import remove_heartbeat
from hudi_py.write.instants import complete, inflight_path, remove_pending, requested_path
from hudi_py.write.markers import MarkerType, read_markers, remove_markers
from hudi_py.write.metadata_drop import warn_dropped
from hudi_py.write.paths import temporary_folder
from hudi_py.write.protocols import MetadataWriter, TableChange
from hudi_py.write.staging import close_gate, remove_write_folder

ROLLBACK_TOKEN = "1-0-1"
"""Write token of log files that hold a rollback block (`HoodieLogFormat.UNKNOWN_WRITE_TOKEN`)."""


def rollback_instant(
    storage: Storage,
    config: TableConfig,
    instant: Instant,
    *,
    clock: InstantClock,
    metadata: MetadataWriter,
) -> InstantTime:
    """Rolls a pending write back; the table lock must be held. Safe to repeat after a crash at any point.

    Returns:
        The rollback's instant.

    Raises:
        ConfigError: the metadata table holds changes of the instant, and can be neither kept up nor dropped.
    """
    timeline = load_timeline(storage, config)
    metadata.check(storage, load_table_config(storage), (instant.time,))
    close_gate(storage, instant.time)
    for pending in pending_rollbacks(timeline):
        plan = read_plan(storage, timeline, pending)
        if plan is not None and plan.instant == instant.time:
            break
    else:
        pending = _request(storage, config, timeline, instant, clock)
        plan = read_plan(storage, timeline, pending)
        assert plan is not None  # just written
    finish_rollback(storage, config, pending.time, plan, clock=clock, metadata=metadata)
    return pending.time


def pending_rollbacks(timeline: Timeline) -> list[Instant]:
    """Rollbacks that were begun and not completed, oldest first."""
    return [instant for instant in timeline.pending if instant.action is Action.ROLLBACK]


def is_rolled_back(storage: Storage, timeline: Timeline, instant: InstantTime) -> bool:
    """Whether a rollback, completed or not, names the instant."""
    for rollback in timeline.instants:
        if rollback.action is not Action.ROLLBACK or rollback.time < instant:
            continue
        if rollback.completed:
            try:
                content = storage.read(timeline.layout.path(rollback.file_name))
            except FileNotFoundError:  # archived since it was listed
                continue
            if decode_rollback_metadata(content).instant == instant:
                return True
        else:
            plan = read_plan(storage, timeline, rollback)
            if plan is not None and plan.instant == instant:
                return True
    return False


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
    metadata: MetadataWriter,
) -> None:
    """Carries a rollback plan out and completes it; the table lock must be held. Safe to repeat."""
    layout = layout_for(config)
    failed, action = InstantTime(plan.instant), Action(plan.action)
    metadata.check(storage, load_table_config(storage), (failed,))
    storage.put_if_absent(inflight_path(layout, rollback, Action.ROLLBACK), b"")
    started = time.monotonic()
    # An attempt of the failed write that has passed its last check fails now: what it would move into place is gone
    close_gate(storage, failed)
    storage.delete_tree(temporary_folder(failed))
    partitions = [_carry_out(storage, rollback, failed, request) for request in plan.requests]
    done = RollbackMetadata(
        start_time=rollback,
        time_taken_ms=int((time.monotonic() - started) * 1000),
        instant=failed,
        action=action.value,
        partitions=_merge(partitions),
    )
    dropped = metadata.record(storage, load_timeline(storage, config), _change(rollback, done), clock)
    remove_pending(storage, layout, failed, action)
    completion = clock.next_completion(load_timeline(storage, config), rollback)
    complete(storage, layout, rollback, Action.ROLLBACK, completion, encode_rollback_metadata(done))
    metadata.maintain(storage, clock)
    forget_write(storage, failed)
    warn_dropped(config, dropped)


def forget_write(storage: Storage, instant: InstantTime) -> None:
    """Removes what a write keeps besides timeline and data. The write folder goes last: the next write sweeps the rest
    by it after a crash."""
    remove_heartbeat(storage, instant)
    remove_markers(storage, instant)
    remove_write_folder(storage, instant)


def _request(
    storage: Storage, config: TableConfig, timeline: Timeline, instant: Instant, clock: InstantClock
) -> Instant:
    requests = tuple(_plan(storage, config, timeline, instant))
    plan = RollbackPlan(instant=instant.time, action=instant.action.value, requests=requests)
    time_ = clock.next_instant(timeline)
    path = requested_path(timeline.layout, time_, Action.ROLLBACK)
    storage.put(path, encode_rollback_plan(plan))
    return Instant(time_, Action.ROLLBACK, State.REQUESTED, path.rpartition("/")[2])


def _plan(storage: Storage, config: TableConfig, timeline: Timeline, instant: Instant) -> Iterator[RollbackRequest]:
    """What the instant wrote: by its markers, without any by listing the table."""
    markers = read_markers(storage, instant.time)
    appended: set[tuple[str, str, str]] = set()
    if markers is not None:
        for marker in markers:
            partition, _, name = marker.path.rpartition("/")
            owner = _owner(name)
            if owner is None:
                raise CorruptFileError(
                    f"Cannot roll back {instant.time}: its {marker.type.value} marker names {marker.path}, "
                    "which is not the name of a data file"
                )
            # an APPEND marker of old releases names the base file whose log was appended to
            appends_elsewhere = marker.type is MarkerType.APPEND and parse_log_file_name(name) is None
            if owner[1] == instant.time and not appends_elsewhere:
                yield RollbackRequest(partition, "", "", (f"{storage.uri}/{marker.path}",), {})
            else:
                appended.add((partition, *owner))
    elif instant.state is not State.REQUESTED:
        # nothing is written before the inflight file exists
        begun = storage.stat(requested_path(timeline.layout, instant.time, instant.action))
        begun_ms = begun.modified_ms if begun is not None else 0
        lister = StorageLister(storage, config)
        for partition in lister.partitions():
            for info in lister.files(partition):
                owner = _owner(info.name)
                if owner is None:
                    continue
                if owner[1] == instant.time:
                    yield RollbackRequest(partition, "", "", (f"{storage.uri}/{info.path}",), {})
                elif config.version < 8 and info.modified_ms >= begun_ms and parse_log_file_name(info.name):
                    appended.add((partition, *owner))
    for partition, file_id, base_instant in sorted(appended):
        logs = _group_logs(storage, partition, file_id, base_instant)
        touched = {
            f"{storage.uri}/{info.path}": info.size
            for _, info in logs
            if any(block.instant_time == instant.time for block in read_blocks(storage, info.path, info.size))
        }
        if touched:
            yield RollbackRequest(partition, file_id, base_instant, (), touched)


def _owner(name: str) -> tuple[str, str] | None:
    """File id and instant of a data file's name."""
    base = parse_base_file_name(name)
    if base is not None:
        return base.file_id, base.instant
    log = parse_log_file_name(name)
    return None if log is None else (log.file_id, log.instant)


def _group_logs(
    storage: Storage, partition: str, file_id: str, base_instant: str
) -> list[tuple[LogFileName, FileInfo]]:
    found: list[tuple[LogFileName, FileInfo]] = []
    for info in storage.list(partition):
        name = None if info.is_dir else parse_log_file_name(info.name)
        if name is not None and not name.cdc and (name.file_id, name.instant) == (file_id, base_instant):
            found.append((name, info))
    return sorted(found, key=lambda pair: pair[0].sort_key)


def _carry_out(
    storage: Storage, rollback: InstantTime, failed: InstantTime, request: RollbackRequest
) -> RollbackPartition:
    deleted: list[str] = []
    for absolute in request.files_to_delete:
        # by partition and name: the table may have been moved since the plan was made
        storage.delete(join_path(request.partition_path, absolute.rpartition("/")[2]))
        deleted.append(absolute)
    appended: dict[str, int] = {}
    if request.log_blocks:
        info = _append_rollback_block(storage, rollback, failed, request)
        appended[f"{storage.uri}/{info.path}"] = info.size
    return RollbackPartition(
        partition_path=request.partition_path,
        deleted=tuple(deleted),
        rollback_logs=appended,
        failed_logs=dict(request.log_blocks),
    )


def _append_rollback_block(
    storage: Storage, rollback: InstantTime, failed: InstantTime, request: RollbackRequest
) -> FileInfo:
    logs = _group_logs(storage, request.partition_path, request.file_id, request.latest_base_instant)
    for name, info in logs:
        if name.write_token != ROLLBACK_TOKEN:
            continue
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
        added={
            part.partition_path: {path.rpartition("/")[2]: size for path, size in part.rollback_logs.items()}
            for part in done.partitions
            if part.rollback_logs
        },
        deleted={
            part.partition_path: tuple(path.rpartition("/")[2] for path in part.deleted)
            for part in done.partitions
            if part.deleted
        },
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
