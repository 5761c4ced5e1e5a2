"""The complete content of the report, as frozen values."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options, Scope
from hudi_py.config import write as write_config
from hudi_py.errors import HudiError, first_line
from hudi_py.health import CODES, Diagnosis, Severity
from hudi_py.inspect.reports import file_report
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.report.activity import Activity, activity_of
from hudi_py.report.overview import Overview, ReportedTable, TableFacts, overview, read_facts
from hudi_py.report.sizes import FileSizes, sizes_of
from hudi_py.report.writes import WriteSummary, writes_of
from hudi_py.schema import META_FIELDS
from hudi_py.services.descriptor import Due
from hudi_py.storage import Storage
from hudi_py.storage.within import FolderStorage
from hudi_py.timeline.state import TableState, load_state
from hudi_py.timeline.timeline import load_timeline
from hudi_py.timeline.times import format_instant, table_zone
from hudi_py.view import load_view

MAX_COLUMNS: Final = 300


@dataclass(frozen=True, slots=True)
class Todo:
    """Something to do next."""

    why: str
    command: str
    pressing: bool
    """Whether it fixes an error."""


@dataclass(frozen=True, slots=True)
class PendingPlanSummary:
    """A pending plan of a table service."""

    service: str
    instant: str
    state: str
    units: int
    """Number of file groups to compact, or partitions to clean."""
    files: int


@dataclass(frozen=True, slots=True)
class MetadataPartitionSummary:
    """A partition of the metadata table."""

    name: str
    ready: bool
    """Whether readers use it; otherwise it is being built."""
    groups: int
    base_bytes: int
    log_files: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class ColumnFact:
    """A column of the table."""

    name: str
    type: str
    nullable: bool
    roles: tuple[str, ...]
    """Any of `record key`, `partition`, `ordering` and `meta`."""


@dataclass(frozen=True, slots=True)
class Older:
    """File slices that are not the newest of their file group, or belong to replaced groups: time travel reads them
    until they are cleaned."""

    slices: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts about a table for its report."""

    facts: TableFacts
    metadata: pa.Table | None
    """File slices of the metadata table, as in `Table.files()`; None if there is none."""
    older: Older | None
    """None if unknown."""
    diagnosis: Diagnosis | None
    """None if the examination failed."""
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The content of the page."""

    made: str
    """Time of the report, as an instant in the zone of the table's instants."""
    made_ms: int
    zone: tzinfo
    """The time zone of instants."""
    release: str
    path: str
    """The table's path in commands."""
    overview: Overview
    next: tuple[Todo, ...]
    """What to do next, the most urgent first."""
    activity: Activity
    writes: WriteSummary
    files: FileSizes
    older: Older | None
    due: tuple[Due, ...]
    plans: tuple[PendingPlanSummary, ...]
    metadata: tuple[MetadataPartitionSummary, ...]
    diagnosis: Diagnosis | None
    columns: tuple[ColumnFact, ...]
    """At most `MAX_COLUMNS`, users' columns first."""
    num_columns: int
    properties: Mapping[str, str]
    unknown: tuple[str, ...]
    """What could not be determined, and why."""


def gather(source: ReportedTable, storage: Storage, *, full: bool = False) -> Gathered:
    """Collects everything that the report shows. What damage hides is noted and left out.

    Args:
        full: of `Table.doctor`.
    """
    facts = read_facts(source, lenient=True)
    unknown: list[str] = list(facts.unknown)
    metadata: pa.Table | None = None
    older: Older | None = None
    diagnosis: Diagnosis | None = None
    try:
        metadata = _metadata_files(storage, facts.config)
    except (HudiError, OSError) as error:
        unknown.append(f"files of the metadata table: {first_line(error)}")
    try:
        older = _older(storage, facts)
    except (HudiError, OSError) as error:
        unknown.append(f"older file slices: {first_line(error)}")
    try:
        diagnosis = source.doctor(full=full)
    except (HudiError, OSError, ImportError) as error:
        unknown.append(f"the doctor's findings: {first_line(error)}")
    return Gathered(facts, metadata, older, diagnosis, tuple(dict.fromkeys(unknown)))


def summarise(gathered: Gathered, path: str, options: Mapping[str, object], *, now_ms: int, release: str) -> Report:
    """Summarises the collected facts.

    Args:
        path: how commands name the table.
        options: of writes; they say which files are small.
    """
    facts = gathered.facts
    zone = table_zone(facts.config)
    limit = Options.resolve(dict(options), Scope.WRITE).get(write_config.SMALL_FILE_LIMIT)
    columns = _columns(facts)
    short = overview(facts, path)
    plans = _plans(facts.plans)
    return Report(
        made=format_instant(now_ms, zone),
        made_ms=now_ms,
        zone=zone,
        release=release,
        path=path,
        overview=short,
        next=tuple(_next(gathered.diagnosis, short, path)),
        activity=activity_of(facts.instants, facts.history, zone, layout=facts.config.layout),
        writes=writes_of(facts.history),
        files=sizes_of(facts.files, limit),
        older=gathered.older,
        due=facts.due,
        plans=plans,
        metadata=_metadata(facts.config, gathered.metadata),
        diagnosis=gathered.diagnosis,
        columns=columns[:MAX_COLUMNS],
        num_columns=len(columns),
        properties=dict(sorted(facts.config.properties.items())),
        unknown=gathered.unknown,
    )


def _next(diagnosis: Diagnosis | None, overview: Overview, path: str) -> Iterator[Todo]:
    bad = [finding for finding in diagnosis.findings if finding.severity >= Severity.WARNING] if diagnosis else []
    if bad:
        worst = max(item.severity for item in bad)
        mends = f"repair {shlex.quote(path)} --dry-run" if any(CODES[item.code].repaired for item in bad) else None
        why = f"The doctor has {counted(len(bad), 'finding')} to fix, the worst is {worst.word}: {bad[0].what}"
        yield Todo(why, f"hudi-py {mends or f'doctor {shlex.quote(path)}'}", worst >= Severity.ERROR)
    for step in overview.next:
        yield Todo(step.why, step.command, False)


def _metadata_files(storage: Storage, config: TableConfig) -> pa.Table | None:
    if not config.metadata_partitions and not config.metadata_partitions_inflight:
        return None
    return file_report(load_state(FolderStorage(storage, METADATA_TABLE)))


def _older(storage: Storage, facts: TableFacts) -> Older:
    view = load_view(TableState(storage, facts.config, load_timeline(storage, facts.config)))
    slices = [slice_ for partition in view.partitions() for slice_ in view.every_slice(partition)]
    newest = pc.add(facts.files["base_bytes"], facts.files["log_bytes"])
    every = sum(slice_.size for slice_ in slices)
    # during a compaction, one newest slice is two on disk
    return Older(max(len(slices) - len(newest), 0), max(every - pc.sum(newest, min_count=0).as_py(), 0))


def _plans(plans: pa.Table) -> tuple[PendingPlanSummary, ...]:
    files = plans.append_column("num_files", pc.cast(pc.list_value_length(plans["files"]), pa.int64()))
    grouped = files.group_by(["service", "instant", "state"]).aggregate([("num_files", "sum"), ("num_files", "count")])
    return tuple(
        PendingPlanSummary(
            row["service"], row["instant"], row["state"].lower(), row["num_files_count"], row["num_files_sum"]
        )
        for row in grouped.sort_by("instant").to_pylist()
    )


def _metadata(config: TableConfig, files: pa.Table | None) -> tuple[MetadataPartitionSummary, ...]:
    by_name: dict[str, dict[str, int]] = {}
    if files is not None:
        logs = files.append_column("num_logs", pc.cast(pc.list_value_length(files["log_files"]), pa.int64()))
        sums = [(name, "sum") for name in ("base_bytes", "num_logs", "log_bytes")] + [("num_logs", "count")]
        by_name = {row["partition"]: row for row in logs.group_by("partition").aggregate(sums).to_pylist()}
    ready = config.metadata_partitions
    names = dict.fromkeys((*ready, *config.metadata_partitions_inflight))
    return tuple(
        MetadataPartitionSummary(
            name,
            name in ready,
            row.get("num_logs_count", 0),
            row.get("base_bytes_sum", 0),
            row.get("num_logs_sum", 0),
            row.get("log_bytes_sum", 0),
        )
        for name in names
        for row in (by_name.get(name, {}),)
    )


def _columns(facts: TableFacts) -> tuple[ColumnFact, ...]:
    config = facts.config
    named = {
        "record key": config.record_key_fields,
        "partition": config.partition_fields,
        "ordering": config.ordering_fields,
        "meta": META_FIELDS,
    }
    result = [
        ColumnFact(
            field.name,
            str(field.type),
            field.nullable,
            tuple(role for role, names in named.items() if field.name in names),
        )
        for field in facts.schema
    ]
    return tuple(sorted(result, key=lambda item: "meta" in item.roles))
