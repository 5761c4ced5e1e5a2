"""Resolves the Hudi tables that a session's statements name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.schema import META_FIELDS
from hudi_py.write.dml.distributed import TableConfig
from pyspark_hudi import calls, catalog
from pyspark_hudi.catalog import entry_of
from pyspark_hudi.dialect.text import Cursor, tokens_of
from pyspark_hudi.enabled import is_enabled
from pyspark_hudi.failure import raised_here
from pyspark_hudi.paths import checked_path
from pyspark_hudi.remote import remote
from pyspark_hudi.seen import SEEN
from pyspark_hudi.table import FORMAT, OF_SQL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")
Row: TypeAlias = dict[str, Any]
"""A row of a report or procedure: values by column, in their order."""

PREFIXES = ("hudi", "hudi-py")
"""Prefixes of a path: hudi.`/path`."""
_CATALOG = "spark_catalog"
NEEDLESS = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
"""Apache Hudi drops columns by ALTER TABLE only with this option. As a write option it is refused, since rows without a
column would drop it; statements provide every column."""


class Tables:
    """The tables and options available to a session's statements."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def path_of(self, names: Sequence[str]) -> str | None:
        """Returns the path of a table named by path, or registered by this session; None for others."""
        if len(names) == 2 and names[0].lower() in PREFIXES and any(item in names[1] for item in "/:~"):
            return checked_path(names[1], "read")
        known = catalog.registered(self.spark)
        return known.get(catalog.qualified(self.spark, _joined_name(names))) if known else None

    def read_options(self, names: Sequence[str]) -> Mapping[str, str]:
        """Returns the read options with which this session registered a table."""
        registered = catalog.noted(self.spark, _joined_name(names))
        return {} if registered is None else registered.options

    def find(self, names: Sequence[str]) -> StatementTarget | None:
        """Finds the target of a statement, registered by any session; after `enable` also a Hudi table of the session's
        catalog. Returns None for other tables."""
        path, name = self.path_of(names), _joined_name(names)
        if path is None and is_enabled(self.spark) and not name.lower().endswith(catalog.SUFFIX):
            entry = entry_of(self.spark, name)
            if entry is not None:
                return StatementTarget(self, tuple(names), entry.path, of_catalog=True)
        if path is None:
            path = catalog.path_of_view(self.spark, name)
        return None if path is None else StatementTarget(self, tuple(names), path)

    @cached_property
    def configured(self) -> Mapping[str, str]:
        """Returns options set in the session (`SET hoodie... = ...`)."""
        settings: Mapping[str, Any] = self.spark.conf.getAll
        return {key: str(value) for key, value in settings.items() if key.startswith("hoodie.")}

    def options(self) -> dict[str, str]:
        """Returns the options of reads and writes."""
        given = self.configured.items()
        return {key: value for key, value in given if key != NEEDLESS and not key.startswith(OF_SQL)}

    def nothing(self) -> DataFrame:
        """Returns the result of statements without rows."""
        return self.spark.createDataFrame([], StructType([]))


@dataclass(frozen=True)
class StatementTarget:
    """A Hudi table that a statement names."""

    tables: Tables
    names: tuple[str, ...]
    path: str
    of_catalog: bool = False
    """Whether the entry in the catalog belongs to others."""
    seen: str | None = None
    """The state of the table that the rows of a write come from, see `pyspark_hudi.seen`."""
    given: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The write's own options."""

    @property
    def spark(self) -> SparkSession:
        return self.tables.spark

    @property
    def is_path(self) -> bool:
        """Returns whether it was named by its path."""
        return len(self.names) == 2 and self.names[0].lower() in PREFIXES

    @property
    def name(self) -> str:
        """Returns its name as given, with dots."""
        return _joined_name(self.names)

    @property
    def shown(self) -> str:
        """Returns its name for errors."""
        return ".".join(self.names)

    def view(self, name: str) -> list[Row]:
        """Returns the rows of a report on the table: see the option `view`."""
        return report_rows(remote(self.spark, calls.report, self.path, {read_config.VIEW.key: name}))

    def procedure(self, name: str, given: Mapping[str, Any]) -> list[Row]:
        """Returns the rows of a procedure of `hudi_py.inspect.procedures`."""
        return report_rows(remote(self.spark, calls.procedure, self.path, {}, name, given))

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Runs a function of `pyspark_hudi.calls` that changes the table, with write options."""
        return remote(self.spark, function, self.path, self.options, *arguments)

    @cached_property
    def options(self) -> dict[str, str]:
        """Returns write options: the table's properties `hoodie.`, which win, and the session's, as in Apache Hudi."""
        own = {}
        if not (self.is_path or self.of_catalog):
            own = catalog.properties_of(self.spark, self.name)
        return {
            **self.tables.options(),
            **{key: own[key] for key in own if key.startswith("hoodie.") and key != NEEDLESS},
        }

    @property
    def configured(self) -> Mapping[str, str]:
        """Returns `options` including those of statements."""
        return {**self.tables.configured, **self.options}

    @cached_property
    def config(self) -> TableConfig:
        """Returns its properties. Raises TableNotFoundError if there is no table."""
        return TableConfig({row["key"]: row["value"] for row in self.view("properties")})

    def exists(self) -> bool:
        """Returns whether there is a table at the path."""
        try:
            return bool(self.config.properties)
        except TableNotFoundError:
            return False

    @cached_property
    def schema(self) -> StructType:
        """Returns its columns without meta columns."""
        with raised_here():
            result = self.spark.read.format(FORMAT).load(self.path).schema
        return StructType([field for field in result if field.name not in META_FIELDS])

    def field(self, name: str) -> StructField:
        """Returns a column by name. Raises ConfigError if there is none."""
        for item in self.schema:
            if item.name.lower() == name.lower():
                return item
        raise ConfigError(
            f"Table {self.shown} has no column '{name}'; it has {', '.join(item.name for item in self.schema)}"
        )

    def write(self, frame: DataFrame, operation: str, **options: str) -> None:
        """Writes rows to the table, as `df.write` does."""
        given = {**self.options, **self.given, **options, "hoodie.datasource.write.operation": operation}
        if self.seen is not None:
            given[SEEN] = self.seen
        with raised_here():
            frame.write.format(FORMAT).options(**given).mode("append").save(self.path)


def shortened(cursor: Cursor, target: StatementTarget) -> Cursor:
    """Removes catalog and schema before the table's name in the rest of a statement: `spark_catalog.default.t.id`
    becomes `t.id`."""
    tokens, pieces, done = cursor.tokens, [], 0
    if target.is_path:
        return cursor
    for index in range(cursor.at, cursor.end - 4):
        chain = tokens[index : min(index + 7, cursor.end)]
        dots = next((number for number, item in enumerate(chain[1::2]) if item.text != "."), len(chain) // 2)
        if dots < 2 or (index and tokens[index - 1].text == "."):
            continue
        names = [item.text.lower() for item in chain[: 2 * dots : 2]]
        own = [_CATALOG, *catalog.qualified(target.spark, target.name).split(".")]
        for length in (3, 2):
            if names[:length] == own[-length:]:
                pieces += [cursor.text[done : chain[0].start], " " * (chain[2 * length - 2].start - chain[0].start)]
                done = chain[2 * length - 2].start
                break
    if not pieces:
        return cursor
    text = "".join([*pieces, cursor.text[done:]])
    result, token = tokens_of(text) or [], cursor.token
    place = len(text) if token is None else token.start
    return Cursor(text, result, next((index for index, item in enumerate(result) if item.start >= place), len(result)))


def report_rows(report: bytes) -> list[Row]:
    """Decodes the rows of a report."""
    with pa.ipc.open_stream(report) as reader:
        rows: list[Row] = reader.read_all().to_pylist()
    return rows


def _joined_name(names: Sequence[str]) -> str:
    """Joins the names without Spark's own catalog, the only one."""
    parts = names[1:] if len(names) == 3 and names[0].lower() == _CATALOG else names
    return ".".join(parts)
