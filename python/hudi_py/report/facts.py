"""What a table says about itself, as Arrow tables: the raw material of the overview and of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from hudi_py.errors import HudiError, first_line
from hudi_py.health import Diagnosis
from hudi_py.inspect.reports import FILES, HISTORY, INSTANTS
from hudi_py.model.properties import TableConfig
from hudi_py.services.descriptor import Due
from hudi_py.services.planned.pending import PLAN_SCHEMA
from hudi_py.transaction.locks import LockHolder

_Value = TypeVar("_Value")


class ReportedTable(Protocol):
    """What is asked of a `Table`."""

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
    def plans(self) -> pa.Table: ...
    def due(self) -> list[Due]: ...
    def locks(self) -> list[LockHolder]: ...
    def doctor(self, *, full: bool = False) -> Diagnosis: ...


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a table."""

    uri: str
    config: TableConfig
    read_only: str | None
    """Why it cannot be written to; None if it can be."""
    schema: pa.Schema
    """Meta columns first."""
    instants: pa.Table
    """As `Table.instants()`; those below as the methods of their names."""
    history: pa.Table
    files: pa.Table
    plans: pa.Table
    due: tuple[Due, ...]
    """Empty if the table is read only."""
    locks: tuple[LockHolder, ...]
    unknown: tuple[str, ...]
    """What could not be found out, and why."""


def read_facts(source: ReportedTable, *, lenient: bool = False) -> TableFacts:
    """Asks a table for its state.

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
        plans=read.needed("pending plans", source.plans, PLAN_SCHEMA.empty_table())
        if read_only is None
        else PLAN_SCHEMA.empty_table(),
        due=() if read_only else tuple(read.wanted("what services are due", source.due, [])),
        locks=tuple(read.wanted("who holds the lock", source.locks, [])),
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
