"""UPDATE and DELETE, and what all statements have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.read.filter import parse_filter
from hudi_py.schema import RECORD_KEY, with_meta
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.assignments import check_changeable, parse_assignments
from hudi_py.write.dml.slices import Condition, hold, read_slices, scan_request
from hudi_py.write.operation import Operation
from hudi_py.write.operations.located import write_located
from hudi_py.write.operations.partition import OperationResult
from hudi_py.write.rows import LocatedRows, PartitionedRows
from hudi_py.write.settings import WriteSettings


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows that a statement has changed."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def plus(self, inserted: int = 0, updated: int = 0, deleted: int = 0) -> Counts:
        return Counts(self.inserted + inserted, self.updated + updated, self.deleted + deleted)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a statement leaves to commit."""

    result: OperationResult
    counts: Counts


Run = Callable[[WriteContext], Changed]


class Statement(Protocol):
    """A statement that reads rows of a table and changes them in one commit."""

    @property
    def title(self) -> str:
        """For progress and errors."""

    @property
    def operation(self) -> Operation: ...

    @property
    def java_name(self) -> str:
        """The `WriteOperationType` in commit metadata, as Apache Hudi's SQL records it."""

    def bind(self, config: TableConfig, settings: WriteSettings, options: Options) -> Run:
        """Checks the statement against the table. The result reads and writes, once for each attempt.

        Raises:
            ConfigError, SchemaMismatchError: it does not fit the table.
        """


@dataclass(frozen=True, slots=True)
class Update:
    """`UPDATE ... SET ... WHERE`: a row that matches is written again, and merged with the stored one as in an upsert.
    With a lower ordering value it loses, as in Apache Hudi (`UpdateHoodieTableCommand`, 1.2.0)."""

    values: Mapping[str, object]
    condition: Condition

    title = "update"
    operation = Operation.UPSERT
    java_name = "UPSERT_PREPPED"

    def bind(self, config: TableConfig, settings: WriteSettings, options: Options) -> Run:
        if not self.values:
            raise ConfigError(f"Cannot update the table '{config.name}' without columns to set; name at least one")
        table = settings.schema.arrow
        assignments = parse_assignments(self.values, table, table)
        check_changeable((each.field.name for each in assignments), config)
        parse_filter(self.condition, with_meta(table))
        request = scan_request(options, columns=[RECORD_KEY, *table.names], condition=self.condition)

        def run(context: WriteContext) -> Changed:
            with located_rows(context) as held:
                for split, batch in read_slices(context, request):
                    rows = context.settings.schema.conform(batch.select(table.names))
                    columns = list(rows.columns)
                    for each in assignments:
                        columns[table.get_field_index(each.field.name)] = each.evaluate(rows)
                    hold(held, table_rows(context, batch[RECORD_KEY], columns), split)
                return Changed(write_located(context, held), Counts(updated=held.num_rows))

        return run


@dataclass(frozen=True, slots=True)
class Delete:
    """`DELETE FROM ... WHERE`: rows that match are deleted whatever their ordering value."""

    condition: Condition

    title = "delete"
    operation = Operation.DELETE
    java_name = "DELETE_PREPPED"

    def bind(self, config: TableConfig, settings: WriteSettings, options: Options) -> Run:
        if self.condition is None:
            raise ConfigError(
                f"Cannot delete rows of the table '{config.name}' without a condition; give 'true' to delete all"
            )
        parse_filter(self.condition, with_meta(settings.schema.arrow))
        request = scan_request(options, columns=[RECORD_KEY], condition=self.condition)

        def run(context: WriteContext) -> Changed:
            with located_rows(context) as held:
                for split, batch in read_slices(context, request):
                    hold(held, keys_as_rows(context, batch[RECORD_KEY]), split, leaving=True)
                return Changed(write_located(context, held), Counts(deleted=held.num_rows))

        return run


def located_rows(context: WriteContext) -> PartitionedRows:
    """An empty collection of the rows that a statement changes."""
    schema = LocatedRows.packed_schema(context.row_schema, moves=True)
    return PartitionedRows(schema, context.settings.memory_bytes)


def table_rows(context: WriteContext, keys: pa.Array, columns: list[pa.Array]) -> pa.RecordBatch:
    """Rows of a table with their record keys. Raises SchemaMismatchError if a column that may not be null is."""
    schema = context.settings.schema
    rows = schema.conform(pa.RecordBatch.from_arrays(columns, schema=schema.arrow))
    return pa.RecordBatch.from_arrays([keys, *rows.columns], schema=context.row_schema)


def updated_rows(context: WriteContext, keys: pa.Array, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Rows of a table with their record keys, of which only the columns that the write updates count; others are null.

    Raises:
        SchemaMismatchError: a column that may not be null is.
    """
    schema, updated = context.settings.schema, context.settings.updated_columns
    if updated is None:
        return table_rows(context, keys, [columns[name] for name in schema.arrow.names])
    fields = pa.schema([schema.arrow.field(name) for name in updated])
    some = schema.conform(pa.RecordBatch.from_arrays([columns[name] for name in updated], schema=fields), updated)
    set_ = dict(zip(updated, some.columns, strict=True))
    arrays = [set_.get(field.name, pa.nulls(len(keys), field.type)) for field in schema.arrow]
    return pa.RecordBatch.from_arrays([keys, *arrays], schema=context.row_schema)


def keys_as_rows(context: WriteContext, keys: pa.Array) -> pa.RecordBatch:
    """Rows of which only the key counts, as they are deleted."""
    nothing = [pa.nulls(len(keys), field.type) for field in context.settings.schema.arrow]
    return pa.RecordBatch.from_arrays([keys, *nothing], schema=context.row_schema)
