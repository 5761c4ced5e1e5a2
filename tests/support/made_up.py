"""What a table might say about itself, without a table: for reports of any size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timezone
from typing import Any, Final

import pyarrow as pa

from hudi_py.health import Diagnosis, Finding
from hudi_py.inspect.reports import FILES, HISTORY, INSTANTS
from hudi_py.model.properties import TableConfig
from hudi_py.report.overview import TableFacts
from hudi_py.report.summary import Gathered, Older, Report, summarise
from hudi_py.services.descriptor import Due
from hudi_py.services.planned.pending import PLAN_SCHEMA
from hudi_py.timeline.times import format_instant

START_MS: Final = 1_790_000_000_000
PROPERTIES: Final = {
    "hoodie.table.name": "trips",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.metadata.partitions": "column_stats,files",
}


def at(seconds: float) -> str:
    """An instant so many seconds after the first."""
    return format_instant(START_MS + int(seconds * 1000), timezone.utc)


def instant(seconds: float, action: str, took: float | None = 1.0, state: str = "COMPLETED") -> dict[str, Any]:
    """A row of `Table.instants()`; pending if `took` is None."""
    pending = took is None
    return {
        "instant": at(seconds),
        "action": action,
        "state": ("INFLIGHT" if state == "COMPLETED" else state) if pending else state,
        "completion_time": None if took is None else at(seconds + took),
    }


def written(seconds: float, action: str, operation: str, changed: tuple[int, int, int], rows: int) -> dict[str, Any]:
    """A row of `Table.history()`, with 100 bytes for each row written."""
    inserts, updates, deletes = changed
    return {
        "instant": at(seconds),
        "completion_time": at(seconds + 1),
        "action": action,
        "operation": operation,
        "num_inserts": inserts,
        "num_updates": updates,
        "num_deletes": deletes,
        "num_writes": rows,
        "num_files": 1,
        "num_bytes": rows * 100,
    }


def file(number: int, partition: str, base_bytes: int, logs: int = 0, log_bytes: int = 0) -> dict[str, Any]:
    """A row of `Table.files()`; without a base file if `base_bytes` is 0."""
    return {
        "partition": partition,
        "file_id": f"{number:08}",
        "base_instant": at(0),
        "base_file": f"{number}.parquet" if base_bytes else None,
        "base_bytes": base_bytes,
        "log_files": [f".{number}.log.{log}" for log in range(logs)],
        "log_bytes": log_bytes,
    }


def report_of(
    instants: Iterable[Mapping[str, Any]] = (),
    history: Iterable[Mapping[str, Any]] = (),
    files: Iterable[Mapping[str, Any]] = (),
    *,
    properties: Mapping[str, str] | None = None,
    findings: tuple[Finding, ...] = (),
    unknown: tuple[str, ...] = (),
    columns: Iterable[str] = ("id", "city", "ts"),
) -> Report:
    """The report of a table that says this about itself, a minute after its last instant."""
    rows = sorted(instants, key=lambda row: row["instant"])
    facts = TableFacts(
        uri="s3://lake/trips",
        config=TableConfig({**PROPERTIES, **(properties or {})}),
        read_only=None,
        schema=pa.schema([(name, pa.string()) for name in ("_hoodie_commit_time", *columns)]),
        instants=pa.Table.from_pylist(rows, INSTANTS),
        history=pa.Table.from_pylist(list(history), HISTORY),
        files=pa.Table.from_pylist(list(files), FILES),
        plans=PLAN_SCHEMA.empty_table(),
        due=(Due("compaction", True, "7 delta commits not compacted"), Due("clean", False, "no file is superfluous")),
        locks=(),
        unknown=unknown,
    )
    found = Gathered(facts, None, Older(4, 4_000), Diagnosis(facts.uri, findings, ("files: all",)), unknown)
    return summarise(found, "s3://lake/trips", {}, now_ms=START_MS + 60_000, release="1.0")
