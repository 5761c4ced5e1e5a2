"""Content of savepoints and restores (`HoodieSavepointMetadata`, `HoodieRestorePlan`, `HoodieRestoreMetadata`, 1.2.0).

Avro in both timeline layouts. Those of rollbacks are in `plans`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_py.timeline.plans import RollbackMetadata, rollback_of, rollback_record
from hudi_py.timeline.records import Fields, decode_record, encode_record

RESTORE_PLAN_VERSION = 2
"""Since 0.14: the plan names the savepoint (`RestorePlanActionExecutor.LATEST_RESTORE_PLAN_VERSION`)."""


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Content of a completed savepoint."""

    user: str
    created_ms: int
    """Milliseconds since the epoch."""
    comment: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to names of the base and log files that must be kept."""


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """An instant in a plan."""

    time: str
    action: str
    """As the instant was when the plan was made: a pending compaction is `compaction`, a completed one `commit`."""


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
    """An Avro container file."""
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
    """Raises CorruptFileError, naming `context`."""
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
    """An Avro container file."""
    record = {
        "instantsToRollback": [_info_record(instant) for instant in plan.instants],
        "version": RESTORE_PLAN_VERSION,
        "savepointToRestoreTimestamp": plan.savepoint,
    }
    return encode_record("HoodieRestorePlan", record)


def decode_restore_plan(data: bytes, context: str = "a restore plan") -> RestorePlan:
    """Raises CorruptFileError, naming `context`."""
    record = Fields(decode_record(data, context), context)
    return RestorePlan(
        savepoint=record.text("savepointToRestoreTimestamp"),
        instants=tuple(_info(instant) for instant in record.records("instantsToRollback")),
    )


def encode_restore_metadata(metadata: RestoreMetadata) -> bytes:
    """An Avro container file."""
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
    """Raises CorruptFileError, naming `context`."""
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
