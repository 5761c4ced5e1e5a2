"""The procedures whose rows the core knows, by `hudi_py.read.procedures`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from hudi_py.read import SHOWN
from hudi_py.schema import backticked
from pyspark_hudi.dialect.procedure import Given, Procedure, Rows
from pyspark_hudi.dialect.tables import StatementTarget

_OF_CALL: Final = ("table", "filter")
"""Parameters that CALL itself heeds."""


def rows_of(target: StatementTarget, name: str, given: Given) -> list[tuple[Any, ...]]:
    """The rows that the core has for a procedure."""
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
"""The core has its files, CALL writes them."""
EXPORTED: Final = SHOWN[EXPORT].parameters
SHOW_PROCEDURES: Final = {
    name: Procedure(shown.parameters, _ddl(shown.columns), _run(name))
    for name, shown in SHOWN.items()
    if name != EXPORT
}
