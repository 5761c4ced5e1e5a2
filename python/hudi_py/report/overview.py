"""Collects facts about a table as Arrow tables, and derives its state and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import HudiError, first_line
from hudi_py.health import Diagnosis
from hudi_py.inspect.reports import FILES, HISTORY, INSTANTS
from hudi_py.merge import merge_settings
from hudi_py.model.operation import REWRITING
from hudi_py.model.properties import TableConfig
from hudi_py.schema import META_FIELDS
from hudi_py.services.descriptor import Due
from hudi_py.services.methods import TableServices
from hudi_py.services.planned.pending import PLAN_SCHEMA
from hudi_py.services.recovery.failed import ROLLBACK_FAILED
from hudi_py.services.registry import SERVICES
from hudi_py.transaction.locks import LockHolder, TableLocks

_Value = TypeVar("_Value")
_WRITES: Final = ("commit", "deltacommit", "replacecommit")


class ReportedTable(Protocol):
    """The part of `Table` that is used."""

    @property
    def uri(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def read_only(self) -> str | None: ...
    @property
    def schema(self) -> pa.Schema: ...
    def instants(self) -> pa.Table: ...
    def history(self) -> pa.Table: ...
    def files(self) -> pa.Table: ...
    @property
    def services(self) -> TableServices: ...
    @property
    def locks(self) -> TableLocks: ...
    def doctor(self, *, full: bool = False) -> Diagnosis: ...


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a table."""

    uri: str
    config: TableConfig
    read_only: str | None
    """Why it cannot be written to; None if it can."""
    schema: pa.Schema
    """Meta columns first."""
    instants: pa.Table
    """As `Table.instants()`; those below as the methods of these names."""
    history: pa.Table
    files: pa.Table
    plans: pa.Table
    due: tuple[Due, ...]
    """Empty if the table is read-only."""
    locks: tuple[LockHolder, ...]
    unknown: tuple[str, ...]
    """What could not be determined, and why."""


def read_facts(source: ReportedTable, *, lenient: bool = False) -> TableFacts:
    """Collects the facts about a table.

    Args:
        lenient: whether what damage hides is noted in `unknown` and left empty, instead of raising an error.
    """
    read = _FactReader(lenient)
    read_only = source.read_only
    return TableFacts(
        uri=source.uri,
        config=TableConfig(dict(source.properties)),
        read_only=read_only,
        schema=read.needed("columns", lambda: source.schema, pa.schema([])),
        instants=read.needed("the timeline", source.instants, INSTANTS.empty_table()),
        history=read.needed("what was written", source.history, HISTORY.empty_table()),
        files=read.needed("files", source.files, FILES.empty_table()),
        plans=read.needed("pending plans", source.services.pending, PLAN_SCHEMA.empty_table())
        if read_only is None
        else PLAN_SCHEMA.empty_table(),
        due=() if read_only else tuple(read.wanted("what services are due", source.services.due, [])),
        locks=tuple(read.wanted("who holds the lock", source.locks.holders, [])),
        unknown=tuple(read.unknown),
    )


class _FactReader:
    def __init__(self, lenient: bool) -> None:
        self._lenient = lenient
        self.unknown: list[str] = []

    def needed(self, what: str, ask: Callable[[], _Value], empty: _Value) -> _Value:
        return self.wanted(what, ask, empty) if self._lenient else ask()

    def wanted(self, what: str, ask: Callable[[], _Value], empty: _Value) -> _Value:
        try:
            return ask()
        except (HudiError, OSError, ImportError) as error:
            self.unknown.append(f"{what}: {first_line(error)}")
            return empty


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do next."""

    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The content of `show`; `--json` prints these fields."""

    uri: str
    name: str
    table_type: str
    version: int
    read_only: str | None
    """Why it cannot be written to; None if it can."""
    record_key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    ordered_by: tuple[str, ...]
    merge_mode: str
    base_file_format: str
    num_columns: int
    num_partitions: int
    num_file_groups: int
    num_base_files: int
    base_bytes: int
    num_log_files: int
    log_bytes: int
    num_groups_with_logs: int
    metadata_partitions: tuple[str, ...]
    num_instants: int
    first_instant: str | None
    last_write: dict[str, Any] | None
    """The newest row of `Table.history()` that is not a table service."""
    pending: list[dict[str, Any]]
    """Rows of `Table.instants()`, oldest first."""
    savepoints: list[str]
    locks: list[dict[str, Any]]
    services: list[dict[str, Any]]
    """`service`, `due` and `reason` for compaction, clean and archive; empty if the table is read-only."""
    unknown: list[str] = field(default_factory=list)
    """What could not be determined, and why."""
    next: list[NextStep] = field(default_factory=list)


def overview(facts: TableFacts, path: str) -> Overview:
    """Summarises the facts about a table; `path` is the user's name for it."""
    config, files = facts.config, facts.files
    logs = pc.list_value_length(files["log_files"])
    instants, history = facts.instants.to_pylist(), facts.history
    own = (
        history.filter(pc.invert(pc.is_in(history["operation"], pa.array(sorted(REWRITING)))))
        if len(history)
        else history
    )
    result = Overview(
        uri=facts.uri,
        name=config.name,
        table_type=config.table_type,
        version=config.version,
        read_only=facts.read_only,
        record_key=config.record_key_fields,
        partitioned_by=config.partition_fields,
        ordered_by=config.ordering_fields,
        merge_mode=_merge_mode(config),
        base_file_format=config.base_file_format,
        num_columns=len([name for name in facts.schema.names if name not in META_FIELDS]),
        num_partitions=pc.count_distinct(files["partition"]).as_py(),
        num_file_groups=len(files),
        num_base_files=pc.count(files["base_file"]).as_py(),
        base_bytes=pc.sum(files["base_bytes"], min_count=0).as_py(),
        num_log_files=pc.sum(logs, min_count=0).as_py(),
        log_bytes=pc.sum(files["log_bytes"], min_count=0).as_py(),
        num_groups_with_logs=pc.sum(pc.greater(logs, 0), min_count=0).as_py(),
        metadata_partitions=config.metadata_partitions,
        num_instants=len(instants),
        first_instant=instants[0]["instant"] if instants else None,
        last_write=own.slice(len(own) - 1).to_pylist()[0] if len(own) else None,
        pending=[row for row in instants if row["state"] != "COMPLETED"],
        savepoints=[row["instant"] for row in instants if row["action"] == "savepoint"],
        locks=[asdict(lock) for lock in facts.locks],
        services=[asdict(due) for due in facts.due],
        unknown=list(facts.unknown),
    )
    result.next.extend(_next(result, facts.plans, shlex.quote(path)))
    return result


def _next(result: Overview, plans: pa.Table, path: str) -> list[NextStep]:
    """Lists what to do next, the most urgent first."""
    steps: list[NextStep] = []
    if result.read_only is not None:
        return steps
    planned = {row["instant"]: row["service"] for row in plans.to_pylist()}
    failed = any(listed["due"] for listed in result.services if listed["service"] == ROLLBACK_FAILED.name)
    for row in result.pending:
        service, instant = planned.get(row["instant"]), row["instant"]
        if service is not None:
            why = f"The {service.replace('_', ' ')} plan {instant} is pending"
            steps.append(NextStep(why, SERVICES[service].command_line(path)))
        elif row["action"] in _WRITES and not failed:
            why = f"The {row['action']} {instant} is running, or its process has died. The next write undoes dead ones"
            steps.append(NextStep(why, f"hudi-py rollback {path} {instant}"))
    if not result.metadata_partitions and result.last_write is not None:
        why = "There is no metadata table, so folders are listed and no statistics leave files out"
        steps.append(NextStep(why, f"hudi-py metadata rebuild {path} files column_stats"))
    running = set(planned.values())
    for listed in result.services:
        if listed["due"] and listed["service"] not in running:
            why = f"{listed['service'].replace('_', ' ').capitalize()} is due: {listed['reason']}"
            steps.append(NextStep(why, SERVICES[listed["service"]].command_line(path)))
    if result.last_write is None and not result.pending:
        steps.append(NextStep("The table is empty", f"hudi-py write {path} ROWS.csv"))
    return steps


def _merge_mode(config: TableConfig) -> str:
    try:
        return merge_settings(config, {}).mode
    except HudiError:  # a class of Java
        return config.merge_mode or "custom"
