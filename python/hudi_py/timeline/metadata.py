"""Commit metadata: pretty-printed JSON in layout 1, Avro containers in layout 2 (`CommitMetadataSerDeV1`, `V2`, 1.2.0).

The plans and results of other actions, which are Avro in both layouts, are re-exported from `plans`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from hudi_py.errors import CorruptFileError
from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata, CompactedLogs, WriteStat
from hudi_py.model.instant import Action, Instant
from hudi_py.storage import Storage
from hudi_py.storage.recent import Recent
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    FileGroup,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    decode_compaction_plan,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_replace_request,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from hudi_py.timeline.records import Fields, decode_record, encode_record, is_container

__all__ = [
    "CompactionOperation",
    "CompactionPlan",
    "FileGroup",
    "RollbackMetadata",
    "RollbackPartition",
    "RollbackPlan",
    "RollbackRequest",
    "convert_commit_metadata",
    "decode_commit_metadata",
    "decode_compaction_plan",
    "decode_rollback_metadata",
    "decode_rollback_plan",
    "encode_commit_metadata",
    "encode_replace_request",
    "encode_rollback_metadata",
    "encode_rollback_plan",
    "read_commit_metadata",
    "write_stat_json",
]

UNKNOWN = "UNKNOWN"
_CACHE: Recent[tuple[str, str, object], CommitMetadata] = Recent(4 << 20)
"""Metadata of completed instants, whose files never change, by URI, path, and a proof that the file is the same: its
size and modification time, or on object stores its completion time. An action reads the newest commits several
times."""


def read_commit_metadata(
    storage: Storage, layout: Layout, instant: Instant, *, may_be_empty: bool = False
) -> CommitMetadata:
    """Reads the metadata of a completed commit, deltacommit or replacecommit.

    Args:
        may_be_empty: whether to accept an empty file as empty metadata, as Apache Hudi does (1.2.0); its writers leave
            one if they die between creating and writing it.

    Raises:
        FileNotFoundError: the instant was archived or rolled back since it was listed.
        CorruptFileError: the file is empty without `may_be_empty`, or is not the JSON or Avro of a commit.
    """
    path = layout.path(instant.file_name)
    stamp: object = instant.completion_time
    if storage.can_rename:  # elsewhere, looking up the file costs as much as reading it
        info = storage.stat(path)
        stamp = None if info is None else (info.size, info.modified_ms)
    key = (storage.uri, path, stamp)
    cached = _CACHE.get(key) if stamp is not None else None
    if cached is not None:
        return cached
    data = storage.read(path)
    context = f"the commit metadata {storage.uri}/{path}"
    if not data:
        if not may_be_empty:
            raise CorruptFileError(f"Cannot read {context}: the file of a completed {instant.action.value} is empty")
        return decode_commit_metadata(data, context)
    cached = decode_commit_metadata(data, context)
    if stamp is not None:
        _CACHE.put(key, cached, len(data))
    return cached


def decode_commit_metadata(data: bytes, context: str = "commit metadata") -> CommitMetadata:
    """Decodes commit metadata from JSON or Avro; no bytes (a pending instant) give empty metadata.

    Raises:
        CorruptFileError: naming `context`.
    """
    if not data:
        return CommitMetadata(operation=UNKNOWN)
    if is_container(data):
        values: object = decode_record(data, context)
    else:
        try:
            values = json.loads(data)
            if b"\\u" in data:
                json.dumps(values, ensure_ascii=False).encode()  # fails for an unpaired surrogate
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(f"Cannot read {context}: expected JSON or an Avro container; {error}") from None
    record = Fields(values, context)
    stats = tuple(
        _decode_stat(stat, partition)
        for partition, stats in record.records_map("partitionToWriteStats").items()
        for stat in stats
    )
    return CommitMetadata(
        operation=record.text("operationType", UNKNOWN),
        stats=stats,
        extra=record.text_map("extraMetadata"),
        compacted=record.flag("compacted"),
        replaced=record.texts_map("partitionToReplaceFileIds"),
    )


def encode_commit_metadata(metadata: CommitMetadata, layout: Layout, *, action: Action, completed: bool) -> bytes:
    """Encodes a completed or inflight commit, deltacommit or replacecommit in the layout's format.

    Replaced file ids are written for completed replacecommits only.
    """
    return _encode(metadata, layout, action=action, completed=completed, stored={})


def _encode(
    metadata: CommitMetadata,
    layout: Layout,
    *,
    action: Action,
    completed: bool,
    stored: Mapping[str, Sequence[Mapping[str, Any]]],
) -> bytes:
    """Encodes metadata. `stored` has the statistics as read from another layout, by partition in the order of
    `metadata`; their further fields are kept."""
    replaces = completed and action.comparable is Action.REPLACE_COMMIT
    by_partition: dict[str, list[WriteStat]] = defaultdict(list)
    for stat in metadata.stats:
        by_partition[stat.partition_path].append(stat)
    as_record = _avro_stat if layout.has_completion_times else write_stat_json
    record: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: list(map(_filled, map(as_record, stats), chain(stored.get(partition, ()), repeat({}))))
            for partition, stats in by_partition.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra),
    }
    replaced = {partition: list(file_ids) for partition, file_ids in metadata.replaced.items()}
    if not layout.has_completion_times:
        record["operationType"] = metadata.operation
        if replaces:
            record["partitionToReplaceFileIds"] = replaced
        return json.dumps(record, indent=2, separators=(",", " : "), ensure_ascii=False).encode()
    record |= {"version": None, "operationType": metadata.operation}
    if replaces:
        record["partitionToReplaceFileIds"] = replaced
        return encode_record("HoodieReplaceCommitMetadata", record)
    return encode_record("HoodieCommitMetadata", record)


def convert_commit_metadata(data: bytes, layout: Layout, *, action: Action, completed: bool, context: str) -> bytes:
    """Converts the metadata of a commit, deltacommit or replacecommit to the format of another layout, and keeps
    everything that the format can hold. An empty file, as of a requested instant, stays empty.

    Raises:
        CorruptFileError: naming `context`.
    """
    if not data or is_container(data) == layout.has_completion_times:
        return data
    metadata = decode_commit_metadata(data, context)
    raw = decode_record(data, context) if is_container(data) else json.loads(data)
    stored = {
        partition: [stat if isinstance(stat, Mapping) else {} for stat in stats or ()]
        for partition, stats in (raw.get("partitionToWriteStats") or {}).items()
    }
    return _encode(metadata, layout, action=action, completed=completed, stored=stored)


def _decode_stat(stat: Fields, partition: str) -> WriteStat:
    times = stat.record("runtimeStats")
    log_version = stat.optional_number("logVersion")
    return WriteStat(
        file_id=stat.text("fileId"),
        path=stat.text("path"),
        partition_path=stat.text("partitionPath", partition),
        prev_commit=stat.text("prevCommit", NO_PREVIOUS_COMMIT),
        num_writes=stat.number("numWrites"),
        num_inserts=stat.number("numInserts"),
        num_updates=stat.number("numUpdateWrites"),
        num_deletes=stat.number("numDeletes"),
        total_write_bytes=stat.number("totalWriteBytes"),
        file_size=stat.number("fileSizeInBytes"),
        prev_base_file=stat.optional_text("prevBaseFile"),
        log_version=log_version,
        log_offset=stat.optional_number("logOffset"),
        base_file=stat.optional_text("baseFile"),
        log_files=stat.texts("logFiles") if log_version is not None else None,
        cdc_stats=stat.number_map("cdcStats") or None,
        create_time_ms=times.number("totalCreateTime") if times else 0,
        upsert_time_ms=times.number("totalUpsertTime") if times else 0,
        compacted=_decode_compacted(stat),
    )


def _decode_compacted(stat: Fields) -> CompactedLogs | None:
    """Decodes the statistics of compacted logs; None if no log file was compacted."""
    files = stat.number("totalLogFilesCompacted")
    if not files:
        return None
    return CompactedLogs(
        files=files,
        size=stat.number("totalLogSizeCompacted"),
        blocks=stat.number("totalLogBlocks"),
        records=stat.number("totalLogRecords"),
        updated=stat.number("totalUpdatedRecordsCompacted"),
        corrupt_blocks=stat.number("totalCorruptLogBlock"),
        rollback_blocks=stat.number("totalRollbackBlocks"),
        read_ms=stat.number("totalLogReadTimeMs"),
    )


def write_stat_json(stat: WriteStat) -> dict[str, Any]:
    """Returns a statistic's fields in the order of Apache Hudi 0.15.0; those of log files only for log files."""
    logs = stat.compacted or CompactedLogs()
    record: dict[str, Any] = {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "cdcStats": _numbers(stat.cdc_stats),
        "prevCommit": stat.prev_commit,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_updates,
        "numInserts": stat.num_inserts,
        "totalWriteBytes": stat.total_write_bytes,
        "totalWriteErrors": 0,
        "tempPath": None,
        "partitionPath": stat.partition_path,
        "totalLogRecords": logs.records,
        "totalLogFilesCompacted": logs.files,
        "totalLogSizeCompacted": logs.size,
        "totalUpdatedRecordsCompacted": logs.updated,
        "totalLogBlocks": logs.blocks,
        "totalCorruptLogBlock": logs.corrupt_blocks,
        "totalRollbackBlocks": logs.rollback_blocks,
        "fileSizeInBytes": stat.file_size,
        "minEventTime": None,
        "maxEventTime": None,
    }
    if stat.prev_base_file is not None:
        record["prevBaseFile"] = stat.prev_base_file
    record["runtimeStats"] = {
        "totalScanTime": logs.read_ms,
        "totalUpsertTime": stat.upsert_time_ms,
        "totalCreateTime": stat.create_time_ms,
    }
    if stat.log_version is not None:
        record |= {
            "logVersion": stat.log_version,
            "logOffset": stat.log_offset or 0,
            "baseFile": stat.base_file or "",
            "logFiles": list(stat.log_files or ()),
        }
    return record


def _avro_stat(stat: WriteStat) -> dict[str, Any]:
    """Returns every field of `HoodieWriteStat`; null where Apache Hudi 1.2.0's own files have null."""
    is_log = stat.log_version is not None
    logs = stat.compacted or CompactedLogs()
    return {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "prevCommit": stat.prev_commit,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_updates,
        "totalWriteBytes": stat.total_write_bytes,
        "totalWriteErrors": 0,
        "partitionPath": stat.partition_path,
        "totalLogRecords": logs.records,
        "totalLogFiles": None,
        "totalUpdatedRecordsCompacted": logs.updated,
        "numInserts": stat.num_inserts,
        "totalLogBlocks": logs.blocks,
        "totalCorruptLogBlock": logs.corrupt_blocks,
        "totalRollbackBlocks": logs.rollback_blocks,
        "fileSizeInBytes": stat.file_size,
        "logVersion": stat.log_version,
        "logOffset": (stat.log_offset or 0) if is_log else None,
        "baseFile": (stat.base_file or "") if is_log else None,
        "logFiles": list(stat.log_files or ()) if is_log else None,
        "cdcStats": _numbers(stat.cdc_stats),
        "prevBaseFile": stat.prev_base_file,
        "minEventTime": None,
        "maxEventTime": None,
        "runtimeStats": {
            "totalScanTime": logs.read_ms,
            "totalCreateTime": stat.create_time_ms,
            "totalUpsertTime": stat.upsert_time_ms,
        },
        "totalLogFilesCompacted": logs.files,
        "totalLogReadTimeMs": logs.read_ms,
        "totalLogSizeCompacted": logs.size,
        "tempPath": None,
        "numUpdates": 0,
    }


def _filled(record: dict[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record updated with the values of the fields that another one also has."""
    for name, value in record.items():
        kept_value = kept.get(name)
        if isinstance(value, dict) and isinstance(kept_value, Mapping):
            _filled(value, kept_value)
        elif kept_value is not None and not isinstance(kept_value, (Mapping, list)):
            record[name] = kept_value
    return record


def _numbers(values: Mapping[str, int] | None) -> dict[str, int] | None:
    return dict(values) if values is not None else None
