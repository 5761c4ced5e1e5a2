"""Declares procedures for CALL, and those whose rows the core provides (`hudi_py.inspect.procedures`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from hudi_py.errors import ConfigError
from hudi_py.inspect import SHOWN
from hudi_py.schema import backticked
from pyspark_hudi.dialect.tables import StatementTarget

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
    creates: bool = False
    """Whether it creates the table, at the path of its parameter `base_path`."""
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


_OF_CALL: Final = ("table", "filter")
"""Parameters that CALL itself handles."""


def rows_of(target: StatementTarget, name: str, given: Given) -> list[tuple[Any, ...]]:
    """Returns the core's rows of a procedure."""
    own = {key: value for key, value in given.items() if key not in _OF_CALL}
    return [tuple(row.values()) for row in target.procedure(name, own)]


def _run(name: str) -> Callable[[StatementTarget, Given], Rows]:
    return lambda target, given: rows_of(target, name, given)


def _ddl(schema: pa.Schema) -> str:
    fields = from_arrow_schema(schema)
    return ", ".join(f"{_name(each.name)} {each.dataType.simpleString().upper()}" for each in fields)


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
