"""Encodes plans of compactions and log compactions (`HoodieCompactionPlan`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from typing import Any

from hudi_py.timeline.plans import CompactionPlan
from hudi_py.timeline.records import encode_record

PLAN_VERSION = 2
"""From this version on plans have file names without folders."""
LOG_COMPACTION_HELPER = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
"""The class named in log compaction plans (`HoodieLogCompactionPlanGenerator`, 1.2.0)."""


def encode_compaction_plan(plan: CompactionPlan, *, log_compaction: bool = False) -> bytes:
    """An Avro container file; plans of log compactions name a helper class and preserve meta columns."""
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
