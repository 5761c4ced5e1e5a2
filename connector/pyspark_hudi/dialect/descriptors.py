"""Describes kinds of SQL statements and the procedures of CALL, and declares those whose rows the core provides
(`hudi_py.inspect.procedures`, `hudi_py.health.procedures`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from hudi_py.errors import ConfigError
from hudi_py.inspect import SHOWN
from hudi_py.schema import backticked
from pyspark_hudi import calls
from pyspark_hudi.dialect.tables import StatementTarget, Tables, report_rows
from pyspark_hudi.dialect.text import Cursor, tokens_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A kind of statement: how to recognise, run and document it."""

    begins: tuple[str, ...]
    """The words with which it may begin, after a WITH clause if there is one."""
    run: Callable[[Tables, Cursor], DataFrame | None]
    """Parses and runs a statement. Returns None if it concerns no Hudi table, so that Spark runs it."""
    syntax: str = ""
    """Syntax for docs/sql.md, which omits statements without it."""
    notes: str = ""

    def sees(self, cursor: Cursor) -> bool:
        """Returns whether a statement is of this kind."""
        return any(cursor.sees(*words.split()) for words in self.begins)

    def may_begin_with(self, word: str) -> bool:
        """Returns whether statements of this kind may begin with a word, in upper case."""
        return any(words.split()[0] == word for words in self.begins)


Rows = Iterable[tuple[Any, ...]]
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure for CALL."""

    parameters: Mapping[str, Any]
    """Parameters with their default values, in order."""
    columns: str
    """The columns of the result, as DDL."""
    run: Callable[[StatementTarget, Given], Rows]
    compares: bool = False
    """Whether its parameter `path` names another table to compare with."""
    named: str = "table"
    """The parameter that names the table."""
    creates: str = ""
    """The parameter with the path of the table, if it creates one: the table need not exist."""
    takes_more: bool = False
    """Whether it accepts further arguments; otherwise they have no effect."""

    @property
    def accepted(self) -> dict[str, Any]:
        """Returns the parameters, and `path`, by name only, if there is `table`: Apache Hudi 1.2.0 has it for only
        some."""
        return {**({"path": None} if "table" in self.parameters else {}), **self.parameters}


def needed(given: Given, name: str) -> str:
    """Returns a required parameter."""
    if not given[name]:
        raise ConfigError(f"Cannot call the procedure without {name}; give {name} => '...'")
    return str(given[name])


def named_target(tables: Tables, name: str, named: str) -> StatementTarget:
    """Returns the table that an argument of a procedure names.

    Raises:
        ConfigError: no Hudi table has this name.
    """
    target = tables.find(Cursor(named, tokens_of(named) or []).names())
    if target is None:
        raise ConfigError(
            f"Cannot call {name} for the table '{named}': no Hudi table is registered by this name; give "
            "path => '/path', or register it by register_sql"
        )
    return target


_OF_CALL: Final = ("table", "filter")
"""Parameters that CALL itself handles."""


def _own(given: Given) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in _OF_CALL}


def rows_of(target: StatementTarget, name: str, given: Given) -> list[tuple[Any, ...]]:
    """Returns the core's rows of a procedure."""
    return [tuple(row.values()) for row in target.procedure(name, _own(given))]


def _run(name: str) -> Callable[[StatementTarget, Given], Rows]:
    return lambda target, given: rows_of(target, name, given)


def _repair(name: str) -> Callable[[StatementTarget, Given], Rows]:
    def run(target: StatementTarget, given: Given) -> Rows:
        rows = report_rows(target.call(calls.repair_procedure, name, _own(given)))
        return [tuple(row.values()) for row in rows]

    return run


def _ddl(schema: pa.Schema) -> str:
    fields = from_arrow_schema(schema)
    return ", ".join(f"{_name(field.name)} {field.dataType.simpleString().upper()}" for field in fields)


def _name(name: str) -> str:
    return name if name.isidentifier() else backticked(name)


EXPORT: Final = "export_instants"
"""CALL writes the files that the core provides."""
EXPORTED: Final = SHOWN[EXPORT].parameters
SHOW_PROCEDURES: Final = {
    name: Procedure(shown.parameters, _ddl(shown.columns), _run(name), shown.compares)
    for name, shown in SHOWN.items()
    if name != EXPORT
}
MENDING_PROCEDURES: Final = {
    name: Procedure(procedure.parameters, _ddl(procedure.columns), _repair(name))
    for name, procedure in calls.REPAIR_PROCEDURES.items()
}
