"""Plans and results of cleans (Avro models `HoodieCleanerPlan` and `HoodieCleanMetadata` of Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_py.timeline.records import Fields, decode_record, encode_record

VERSION = 2
"""Version of both records. Version 1 (releases before 0.5.1: file names in plans, paths in results) can be read."""
SAVEPOINTS = "savepointed_timestamps"
"""Key in the extra metadata for the savepoints at the time a clean was planned, separated by commas."""


@dataclass(frozen=True, slots=True)
class RetainedInstant:
    """The earliest instant whose files a plan keeps."""

    time: str
    action: str
    state: str = "COMPLETED"


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Content of a requested clean."""

    policy: str
    earliest: RetainedInstant | None = None
    """None under KEEP_LATEST_FILE_VERSIONS."""
    last_completed: str = ""
    """Requested time of the newest completed commit when the plan was made; empty if there was none."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to absolute paths of files to delete."""
    source_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to source files of a bootstrapped table to delete too."""
    partitions_to_delete: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """What a clean did in a partition: names of files."""

    partition_path: str
    policy: str
    planned: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Files that could not be deleted."""
    partition_deleted: bool = False


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """Content of a completed clean."""

    start_time: str
    """Requested time of the clean."""
    time_taken_ms: int
    earliest_commit_to_retain: str = ""
    """Empty under KEEP_LATEST_FILE_VERSIONS."""
    last_completed: str = ""
    partitions: tuple[CleanedPartition, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def savepoints(self) -> frozenset[str]:
        """Times of the savepoints when the clean was planned; recorded for partitioned tables only."""
        return frozenset(time for time in self.extra.get(SAVEPOINTS, "").split(",") if time)


def encode_clean_plan(plan: CleanPlan) -> bytes:
    """Encodes an Avro container file. Omits `source_files`: hudi-py never plans to delete files of a bootstrap
    source."""
    files = {
        partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
        for partition, paths in plan.files.items()
    }
    earliest = plan.earliest
    record = {
        "earliestInstantToRetain": None
        if earliest is None
        else {"timestamp": earliest.time, "action": earliest.action, "state": earliest.state},
        "lastCompletedCommitTimestamp": plan.last_completed,
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": VERSION,
        "filePathsToBeDeletedPerPartition": files,
        "partitionsToBeDeleted": list(plan.partitions_to_delete),
        "extraMetadata": dict(plan.extra),
    }
    return encode_record("HoodieCleanerPlan", record)


def decode_clean_plan(data: bytes, context: str = "a clean plan") -> CleanPlan:
    """Decodes a plan. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    earliest = record.record("earliestInstantToRetain")
    files: dict[str, tuple[str, ...]] = {}
    sources: dict[str, tuple[str, ...]] = {}
    if record.number("version", 1) < VERSION:
        files = record.texts_map("filesToBeDeletedPerPartition")
    for partition, infos in record.records_map("filePathsToBeDeletedPerPartition").items():
        files[partition] = tuple(info.text("filePath") for info in infos if not info.flag("isBootstrapBaseFile"))
        source = tuple(info.text("filePath") for info in infos if info.flag("isBootstrapBaseFile"))
        if source:
            sources[partition] = source
    return CleanPlan(
        policy=record.text("policy"),
        earliest=None
        if earliest is None
        else RetainedInstant(earliest.text("timestamp"), earliest.text("action"), earliest.text("state")),
        last_completed=record.text("lastCompletedCommitTimestamp"),
        files=files,
        source_files=sources,
        partitions_to_delete=record.texts("partitionsToBeDeleted"),
        extra=record.text_map("extraMetadata"),
    )


def encode_clean_metadata(metadata: CleanMetadata) -> bytes:
    """Encodes an Avro container file."""
    partitions = {
        partition.partition_path: {
            "partitionPath": partition.partition_path,
            "policy": partition.policy,
            "deletePathPatterns": list(partition.planned),
            "successDeleteFiles": list(partition.deleted),
            "failedDeleteFiles": list(partition.failed),
            "isPartitionDeleted": partition.partition_deleted,
        }
        for partition in metadata.partitions
    }
    record = {
        "startCleanTime": metadata.start_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "totalFilesDeleted": sum(len(partition.deleted) for partition in metadata.partitions),
        "earliestCommitToRetain": metadata.earliest_commit_to_retain,
        "lastCompletedCommitTimestamp": metadata.last_completed,
        "partitionMetadata": partitions,
        "version": VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(metadata.extra),
    }
    return encode_record("HoodieCleanMetadata", record)


def decode_clean_metadata(data: bytes, context: str = "a completed clean") -> CleanMetadata:
    """Decodes the metadata. Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    partitions = tuple(
        CleanedPartition(
            partition_path=partition.text("partitionPath", path),
            policy=partition.text("policy"),
            planned=_names(partition.texts("deletePathPatterns")),
            deleted=_names(partition.texts("successDeleteFiles")),
            failed=_names(partition.texts("failedDeleteFiles")),
            partition_deleted=partition.flag("isPartitionDeleted"),
        )
        for path, partition in record.record_map("partitionMetadata").items()
    )
    return CleanMetadata(
        start_time=record.text("startCleanTime"),
        time_taken_ms=record.number("timeTakenInMillis"),
        earliest_commit_to_retain=record.text("earliestCommitToRetain").strip(),
        last_completed=record.text("lastCompletedCommitTimestamp"),
        partitions=partitions,
        extra=record.text_map("extraMetadata"),
    )


def _names(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path.rpartition("/")[2] for path in paths)
