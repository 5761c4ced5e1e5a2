"""What a procedure is that shows something of a table: parameters, columns and rows, as in Apache Hudi's SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline

Rows = Iterable[Sequence[Any]]
Given = Mapping[str, Any]

_TYPES: Final = {
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "flag": pa.bool_(),
}


class Opened:
    """A table, read when a part of it is first needed."""

    def __init__(self, path: str, options: Options) -> None:
        self.path = path
        self.options = options

    @cached_property
    def storage(self) -> Storage:
        return open_storage(self.path, self.options.for_storage())

    @cached_property
    def config(self) -> TableConfig:
        """Raises TableNotFoundError if there is no table."""
        return load_table_config(self.storage)

    @property
    def timeline(self) -> Timeline:
        return self.state.timeline

    @cached_property
    def state(self) -> TableState:
        """Raises TableNotFoundError if there is no table."""
        return TableState(self.storage, self.config, load_timeline(self.storage, self.config))

    def absolute(self, path: str) -> str:
        """A path below the table's as Apache Hudi shows it."""
        return f"{self.storage.uri}/{path}" if path else self.storage.uri


@dataclass(frozen=True, slots=True)
class Shown:
    """A procedure that changes nothing."""

    parameters: Mapping[str, Any]
    """With their default values, in order."""
    columns: pa.Schema
    rows: Callable[[Opened, Given], Rows] = field(repr=False)
    compares: bool = False
    """Whether its parameter `path` names another table than the one it is called for."""


def columns(text: str) -> pa.Schema:
    """`a text, b int` as a schema."""
    pairs = (part.strip().rpartition(" ") for part in text.split(","))
    return pa.schema([(name, _TYPES[kind]) for name, _, kind in pairs])


def table_of(schema: pa.Schema, rows: Rows) -> pa.Table:
    """Rows as a table."""
    found = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(found, schema)


def limited(given: Given, name: str = "limit") -> int:
    """The most rows that a procedure gives.

    Raises:
        ConfigError: it is not a number.
    """
    limit = given[name]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ConfigError(f"Cannot call the procedure with {name} => {limit!r}; it takes a whole number")
    return limit


def text_of(given: Given, name: str) -> str:
    """An optional text; empty: not given."""
    value = given.get(name)
    return "" if value is None else str(value).strip()


def needed_text(given: Given, name: str) -> str:
    """A parameter without which a procedure cannot be called.

    Raises:
        ConfigError: it is missing.
    """
    found = text_of(given, name)
    if not found:
        raise ConfigError(f"Cannot call the procedure without {name}; give {name} => '...'")
    return found
