"""Declares procedures that show something of a table: parameters, columns and rows, as in Apache Hudi's SQL; and
selects and names a table's files as procedures do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.schema.patterns import matching_paths
from hudi_py.storage import FileInfo, Storage, hadoop_uri, open_storage, plain_uri
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.view.lister import StorageLister

Rows = Iterable[Sequence[Any]]
Given = Mapping[str, Any]
_TYPES: Final = {
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "flag": pa.bool_(),
}
EVERYWHERE = "ALL_PARTITIONS"
"""Value of `path_regex` for all partitions."""


class Opened:
    """A table whose parts are read when first needed."""

    def __init__(self, path: str, options: Options) -> None:
        self.path = path
        self.options = options

    @cached_property
    def storage(self) -> Storage:
        return open_storage(self.path, self.options.for_storage())

    @cached_property
    def config(self) -> TableConfig:
        """Returns the properties. Raises TableNotFoundError if there is no table."""
        return load_table_config(self.storage)

    @property
    def timeline(self) -> Timeline:
        return self.state.timeline

    @cached_property
    def state(self) -> TableState:
        """Returns the state. Raises TableNotFoundError if there is no table."""
        return TableState(self.storage, self.config, load_timeline(self.storage, self.config))

    def absolute(self, path: str) -> str:
        """Returns a path below the table's as Apache Hudi shows it."""
        return f"{self.storage.uri}/{path}" if path else self.storage.uri


@dataclass(frozen=True, slots=True)
class Shown:
    """A procedure that changes nothing."""

    parameters: Mapping[str, Any]
    """Parameters with their default values, in order."""
    columns: pa.Schema
    rows: Callable[[Opened, Given], Rows] = field(repr=False)
    compares: bool = False
    """Whether its parameter `path` names another table to compare with."""


def columns(text: str) -> pa.Schema:
    """Parses `a text, b int` as a schema."""
    pairs = (part.strip().rpartition(" ") for part in text.split(","))
    return pa.schema([(name, _TYPES[kind]) for name, _, kind in pairs])


def table_of(schema: pa.Schema, rows: Rows) -> pa.Table:
    """Converts rows to a table."""
    records = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(records, schema)


def limited(given: Given, name: str = "limit") -> int:
    """Returns the maximum number of rows of a procedure.

    Raises:
        ConfigError: it is not a number.
    """
    limit = given[name]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ConfigError(f"Cannot call the procedure with {name} => {limit!r}; expected a whole number")
    return limit


def text_of(given: Given, name: str) -> str:
    """Returns an optional text; empty if not given."""
    value = given.get(name)
    return "" if value is None else str(value).strip()


def texts_of(given: Given, name: str) -> list[str]:
    """Returns the parts of an optional text between commas."""
    return [part.strip() for part in text_of(given, name).split(",") if part.strip()]


def needed_text(given: Given, name: str) -> str:
    """Returns a required parameter.

    Raises:
        ConfigError: it is missing.
    """
    text = text_of(given, name)
    if not text:
        raise ConfigError(f"Cannot call the procedure without {name}; give {name} => '...'")
    return text


def lister(table: Opened) -> StorageLister:
    """Returns the lister of the files in storage."""
    return StorageLister(table.storage, table.config)


def chosen_partitions(table: Opened, pattern: str) -> list[PartitionPath]:
    """Returns the partitions whose paths match folder by folder, as a glob of Hadoop: `2026/*/0[1-9]`. All of them if
    it is empty or `ALL_PARTITIONS`."""
    partitions = lister(table).partitions()
    if pattern.strip("/") in ("", EVERYWHERE):
        return partitions
    return [PartitionPath(path) for path in matching_paths(pattern.strip("/"), partitions, "path_regex")]


def data_files(table: Opened, partition: PartitionPath) -> Iterator[tuple[str, FileInfo]]:
    """Yields the base and log files in a partition's folder, with the instants in their names."""
    for info in lister(table).files(partition):
        name = parse_base_file_name(info.name) or parse_log_file_name(info.name)
        if name is not None:
            yield name.instant, info


def shown_path(table: Opened, path: str) -> str:
    """Formats an absolute path as Apache Hudi does: `file:/tables/t/a`."""
    uri = hadoop_uri(table.storage.uri)
    return f"{uri}/{path}" if path else uri


def below(table: Opened, path: str) -> str | None:
    """Returns a path or glob relative to the table's; None if it is outside the table."""
    uri = table.storage.uri
    local = (path for path in (plain_uri(uri), plain_uri(table.path)) if path.startswith("/"))
    for base in {hadoop_uri(uri), uri, *local}:
        if path.startswith(f"{base.rstrip('/')}/"):
            return path[len(base.rstrip("/")) + 1 :]
    return None if path.startswith("/") or ":/" in path else path
