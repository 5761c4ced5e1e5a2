"""Plans and results of rollbacks, restores, savepoints, compactions, indexings and overwrites (Avro models of Apache
Hudi 1.2.0).

For cleans see `clean_records`, for clusterings `clustering_records`. All except overwrites are Avro in both timeline
layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hudi_py.model.operation import Operation
from hudi_py.timeline.records import Fields, decode_record, encode_record

FileGroup = tuple[str, str]
"""Partition path and file id."""
PLAN_VERSION = 2
"""First version of plans whose file names have no folders."""
LOG_COMPACTION_HELPER = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
"""The class named in log compaction plans (`HoodieLogCompactionPlanGenerator`, 1.2.0)."""
RESTORE_PLAN_VERSION = 2
"""Since 0.14: the plan names the savepoint (`RestorePlanActionExecutor.LATEST_RESTORE_PLAN_VERSION`)."""


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """What to undo in a partition: files to delete, or the log blocks of one file slice (table version 6)."""

    partition_path: str
    file_id: str = ""
    latest_base_instant: str = ""
    files_to_delete: tuple[str, ...] = ()
    """Absolute paths."""
    log_blocks: Mapping[str, int] = field(default_factory=dict)
    """Absolute path of a log file to its size in bytes."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Content of a requested rollback."""

    instant: str
    """Requested time of the instant to roll back."""
    action: str
    requests: tuple[RollbackRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class RollbackPartition:
    """What a rollback did in a partition; paths are absolute, sizes are bytes."""

    partition_path: str
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Files that could not be deleted."""
    rollback_logs: Mapping[str, int] = field(default_factory=dict)
    """Log files with the rollback blocks."""
    failed_logs: Mapping[str, int] = field(default_factory=dict)
    """Log files with the undone blocks."""


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """Content of a completed rollback."""

    start_time: str
    time_taken_ms: int
    instant: str
    action: str
    partitions: tuple[RollbackPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to compact; file names without folder."""

    partition_path: str
    file_id: str
    base_instant: str
    base_file: str | None
    log_files: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Input of compaction strategies: bytes of logs, MB to read and write (`FileSliceMetricUtils`)."""
    bootstrap_file: str | None = None
    """URI of a bootstrapped base file's source."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Content of a requested compaction or log compaction."""

    operations: tuple[CompactionOperation, ...]
    missing_partitions: tuple[str, ...] | None = None
    """Partitions with logs that a strategy left out; None if not recorded."""
    extra: Mapping[str, str] = field(default_factory=dict)


def encode_rollback_plan(plan: RollbackPlan) -> bytes:
    """Encodes an Avro container file."""
    requests = [
        {
            "partitionPath": request.partition_path,
            "fileId": request.file_id,
            "latestBaseInstant": request.latest_base_instant,
            "filesToBeDeleted": list(request.files_to_delete),
            "logBlocksToBeDeleted": dict(request.log_blocks),
        }
        for request in plan.requests
    ]
    record = {
        "instantToRollback": {"commitTime": plan.instant, "action": plan.action},
        "RollbackRequests": requests,
        "version": 1,
    }
    return encode_record("HoodieRollbackPlan", record)


def decode_rollback_plan(data: bytes, context: str = "a rollback plan") -> RollbackPlan:
    """Decodes a plan. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    instant = record.record("instantToRollback") or Fields({}, context)
    requests = tuple(
        RollbackRequest(
            partition_path=request.text("partitionPath"),
            file_id=request.text("fileId"),
            latest_base_instant=request.text("latestBaseInstant"),
            files_to_delete=request.texts("filesToBeDeleted"),
            log_blocks=request.number_map("logBlocksToBeDeleted"),
        )
        for request in record.records("RollbackRequests")
    )
    return RollbackPlan(instant.text("commitTime"), instant.text("action"), requests)


def encode_rollback_metadata(metadata: RollbackMetadata) -> bytes:
    """Encodes an Avro container file."""
    return encode_record("HoodieRollbackMetadata", rollback_record(metadata))


def rollback_record(metadata: RollbackMetadata) -> dict[str, Any]:
    """Returns the fields of `HoodieRollbackMetadata`, which is also part of restores."""
    partitions = {
        partition.partition_path: {
            "partitionPath": partition.partition_path,
            "successDeleteFiles": list(partition.deleted),
            "failedDeleteFiles": list(partition.failed),
            "rollbackLogFiles": dict(partition.rollback_logs),
            "logFilesFromFailedCommit": dict(partition.failed_logs),
        }
        for partition in metadata.partitions
    }
    return {
        "startRollbackTime": metadata.start_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "totalFilesDeleted": sum(len(partition.deleted) for partition in metadata.partitions),
        "commitsRollback": [metadata.instant],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": metadata.instant, "action": metadata.action}],
    }


def decode_rollback_metadata(data: bytes, context: str = "a completed rollback") -> RollbackMetadata:
    """Decodes the metadata. Raises CorruptFileError, naming `context`."""
    return rollback_of(Fields(decode_record(data, context), context))


def rollback_of(record: Fields) -> RollbackMetadata:
    """Decodes the fields of `HoodieRollbackMetadata`."""
    infos = record.records("instantsRollback")
    partitions = tuple(
        RollbackPartition(
            partition_path=partition.text("partitionPath", path),
            deleted=partition.texts("successDeleteFiles"),
            failed=partition.texts("failedDeleteFiles"),
            rollback_logs=partition.number_map("rollbackLogFiles"),
            failed_logs=partition.number_map("logFilesFromFailedCommit"),
        )
        for path, partition in record.record_map("partitionMetadata").items()
    )
    commits = record.texts("commitsRollback")
    return RollbackMetadata(
        start_time=record.text("startRollbackTime"),
        time_taken_ms=record.number("timeTakenInMillis"),
        instant=infos[0].text("commitTime") if infos else (commits[0] if commits else ""),
        action=infos[0].text("action") if infos else "",
        partitions=partitions,
    )


def encode_replace_request(operation: str) -> bytes:
    """Encodes the content of a requested replacecommit other than a clustering: an Avro container file.

    In Apache Hudi all fields are null for an overwrite; for DELETE_PARTITION the operation is set.
    """
    named = operation == Operation.DELETE_PARTITION.java_name
    record: dict[str, Any] = {
        "operationType": operation if named else None,
        "clusteringPlan": None,
        "extraMetadata": {} if named else None,
        "version": 1 if named else None,
    }
    return encode_record("HoodieRequestedReplaceMetadata", record)


def decode_compaction_plan(data: bytes, context: str = "a compaction plan") -> CompactionPlan:
    """Decodes a plan. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    operations = tuple(
        CompactionOperation(
            partition_path=operation.text("partitionPath"),
            file_id=operation.text("fileId"),
            base_instant=operation.text("baseInstantTime"),
            base_file=operation.optional_text("dataFilePath"),
            log_files=operation.texts("deltaFilePaths"),
            metrics=operation.decimal_map("metrics"),
            bootstrap_file=operation.optional_text("bootstrapFilePath"),
        )
        for operation in record.records("operations")
    )
    return CompactionPlan(
        operations, record.optional_texts("missingSchedulePartitions"), record.text_map("extraMetadata")
    )


def encode_compaction_plan(plan: CompactionPlan, *, log_compaction: bool = False) -> bytes:
    """Encodes an Avro container file; plans of log compactions name a helper class and preserve meta columns."""
    operations = [
        {
            "baseInstantTime": operation.base_instant,
            "deltaFilePaths": list(operation.log_files),
            "dataFilePath": operation.base_file,
            "fileId": operation.file_id,
            "partitionPath": operation.partition_path,
            "metrics": dict(operation.metrics),
            "bootstrapFilePath": operation.bootstrap_file,
        }
        for operation in plan.operations
    ]
    strategy: dict[str, Any] | None = None
    if log_compaction:
        strategy = {"compactorClassName": LOG_COMPACTION_HELPER, "strategyParams": {}, "version": 1}
    missing = plan.missing_partitions
    record = {
        "operations": operations,
        "extraMetadata": dict(plan.extra),
        "version": PLAN_VERSION,
        "strategy": strategy,
        "preserveHoodieMetadata": log_compaction,
        "missingSchedulePartitions": None if missing is None else list(missing),
    }
    return encode_record("HoodieCompactionPlan", record)


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Content of a completed savepoint."""

    user: str
    created_ms: int
    """Milliseconds since the epoch."""
    comment: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps partition paths to the names of base and log files that must be kept."""


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """An instant in a plan."""

    time: str
    action: str
    """The action when the plan was made: `compaction` for a pending compaction, `commit` for a completed one."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Content of a requested restore."""

    savepoint: str
    """Requested time of the savepoint; empty in plans of releases before 0.14."""
    instants: tuple[InstantInfo, ...] = ()
    """Instants to roll back, in this order."""


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """Content of a completed restore."""

    start_time: str
    time_taken_ms: int
    instants: tuple[InstantInfo, ...] = ()
    """Instants rolled back by the attempt that completed the restore, in this order."""
    rollbacks: Mapping[str, tuple[RollbackMetadata, ...]] = field(default_factory=dict)
    """Requested time of an instant to its rollbacks."""


def encode_savepoint(metadata: SavepointMetadata) -> bytes:
    """Encodes an Avro container file."""
    record = {
        "savepointedBy": metadata.user,
        "savepointedAt": metadata.created_ms,
        "comments": metadata.comment,
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in metadata.files.items()
        },
        "version": 1,
    }
    return encode_record("HoodieSavepointMetadata", record)


def decode_savepoint(data: bytes, context: str = "a savepoint") -> SavepointMetadata:
    """Decodes the metadata. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    return SavepointMetadata(
        user=record.text("savepointedBy"),
        created_ms=record.number("savepointedAt"),
        comment=record.text("comments"),
        files={
            partition.text("partitionPath", path): partition.texts("savepointDataFile")
            for path, partition in record.record_map("partitionMetadata").items()
        },
    )


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """Encodes an Avro container file."""
    record = {
        "instantsToRollback": [_info_record(instant) for instant in plan.instants],
        "version": RESTORE_PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.savepoint,
    }
    return encode_record("HoodieRestorePlan", record)


def decode_restore_plan(data: bytes, context: str = "a restore plan") -> RestorePlan:
    """Decodes a plan. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    return RestorePlan(
        savepoint=record.text("savepointToRestoreTimestamp"),
        instants=tuple(_info(instant) for instant in record.records("instantsToRollback")),
    )


def encode_restore_metadata(metadata: RestoreMetadata) -> bytes:
    """Encodes an Avro container file."""
    record = {
        "startRestoreTime": metadata.start_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "instantsToRollback": [instant.time for instant in metadata.instants],
        "hoodieRestoreMetadata": {
            time: [rollback_record(rollback) for rollback in rollbacks]
            for time, rollbacks in metadata.rollbacks.items()
        },
        "version": 1,
        "restoreInstantInfo": [_info_record(instant) for instant in metadata.instants],
    }
    return encode_record("HoodieRestoreMetadata", record)


def decode_restore_metadata(data: bytes, context: str = "a completed restore") -> RestoreMetadata:
    """Decodes the metadata. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    infos = tuple(_info(instant) for instant in record.records("restoreInstantInfo"))
    return RestoreMetadata(
        start_time=record.text("startRestoreTime"),
        time_taken_ms=record.number("timeTakenInMillis"),
        # releases before 0.8 wrote only the times
        instants=infos or tuple(InstantInfo(time, "") for time in record.texts("instantsToRollback")),
        rollbacks={
            time: tuple(rollback_of(rollback) for rollback in rollbacks)
            for time, rollbacks in record.records_map("hoodieRestoreMetadata").items()
        },
    )


def _info_record(instant: InstantInfo) -> dict[str, str]:
    return {"commitTime": instant.time, "action": instant.action}


def _info(record: Fields) -> InstantInfo:
    return InstantInfo(record.text("commitTime"), record.text("action"))


_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class IndexPartition:
    """A partition of the metadata table that a plan builds."""

    name: str
    upto: str
    """Requested time of the newest commit that precedes all pending ones at the time of the plan."""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Content of a requested indexing."""

    partitions: tuple[IndexPartition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions that it builds."""
        return tuple(partition.name for partition in self.partitions)


def encode_index_plan(plan: IndexPlan) -> bytes:
    """Encodes a plan as an Avro container file."""
    return encode_record("HoodieIndexPlan", {"version": _VERSION, "indexPartitionInfos": _infos(plan.partitions)})


def decode_index_plan(data: bytes, context: str = "the plan of an indexing") -> IndexPlan:
    """Raises CorruptFileError, naming `context`."""
    fields = Fields(decode_record(data, context), context)
    infos = fields.records("indexPartitionInfos")
    return IndexPlan(
        tuple(IndexPartition(info.text("metadataPartitionPath"), info.text("indexUptoInstant")) for info in infos)
    )


def encode_index_metadata(partitions: Sequence[IndexPartition]) -> bytes:
    """Encodes the content of a completed indexing as an Avro container file."""
    record = {"version": _VERSION, "operationType": None, "indexPartitionInfos": _infos(partitions)}
    return encode_record("HoodieIndexCommitMetadata", record)


def _infos(partitions: Iterable[IndexPartition]) -> list[dict[str, Any]]:
    return [
        {
            "version": _VERSION,
            "metadataPartitionPath": partition.name,
            "indexUptoInstant": partition.upto,
            "extraMetadata": {},
        }
        for partition in partitions
    ]
