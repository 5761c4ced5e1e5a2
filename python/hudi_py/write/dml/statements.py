"""UPDATE and DELETE, and the common part of all statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.expressions.filter import Filter, parse_filter
from hudi_py.model.commit import WriteStat
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.read.request import ScanRequest
from hudi_py.read.split import Split
from hudi_py.schema import RECORD_KEY, with_meta
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.dml.assignments import Assignment, check_changeable, parse_assignments
from hudi_py.write.dml.slices import Condition, hold, located_rows, read_slices, scan_request, write_located
from hudi_py.write.rows import PartitionedRows
from hudi_py.write.settings import WriteSettings


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that a statement has changed."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def plus(self, inserted: int = 0, updated: int = 0, deleted: int = 0) -> RowCounts:
        return RowCounts(self.inserted + inserted, self.updated + updated, self.deleted + deleted)


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The part of a statement that is left to commit."""

    stats: Sequence[WriteStat]
    counts: RowCounts


class RowChanges(Protocol):
    """The changes of a statement to the rows of its table."""

    def request(self, settings: WriteSettings, view: FileSystemView) -> ScanRequest | None:
        """Returns a scan of the table's rows that the statement needs; None if it needs none."""

    def collect(
        self, context: WriteContext, slices: Iterable[tuple[Split, pa.RecordBatch]], held: PartitionedRows
    ) -> RowCounts:
        """Adds the changed rows of the table, and new rows, to `held`."""


def change_rows(changes: RowChanges, context: WriteContext, splits: Sequence[Split]) -> StatementOutcome:
    """Reads the rows of a statement and writes the changed rows."""
    with context.transaction.view.naming_lost_files(), located_rows(context) as held:
        counts = changes.collect(context, read_slices(context, splits), held)
        return StatementOutcome(write_located(context, held), counts)


@dataclass(frozen=True, slots=True)
class Update:
    """`UPDATE ... SET ... WHERE`: a row that matches is written again, and merged with the stored one as in an upsert.
    With a lower ordering value it loses, as in Apache Hudi (`UpdateHoodieTableCommand`, 1.2.0)."""

    values: Mapping[str, object]
    condition: Condition

    title = "update"
    operation = Operation.UPSERT
    java_name = "UPSERT_PREPPED"

    def bind(self, config: TableConfig, settings: WriteSettings) -> BoundUpdate:
        """Checks the statement against the table.

        Raises:
            ConfigError, SchemaMismatchError: it does not fit the table.
        """
        if not self.values:
            raise ConfigError(f"Cannot update the table '{config.name}' without columns to set; name at least one")
        table = settings.schema.arrow
        assignments = parse_assignments(self.values, table, table)
        check_changeable((assignment.field.name for assignment in assignments), config)
        return BoundUpdate(parse_filter(self.condition, _shown_schema(settings)), assignments)


@dataclass(frozen=True, slots=True)
class BoundUpdate:
    """An update of columns that the table has. Pickles."""

    condition: Filter | None
    assignments: tuple[Assignment, ...]

    updated_columns = None

    def request(self, settings: WriteSettings, view: FileSystemView) -> ScanRequest:
        columns = [RECORD_KEY, *settings.schema.arrow.names]
        return scan_request(settings.options, columns=columns, condition=self.condition)

    def collect(
        self, context: WriteContext, slices: Iterable[tuple[Split, pa.RecordBatch]], held: PartitionedRows
    ) -> RowCounts:
        table = context.settings.schema.arrow

        def change(split: Split, batch: pa.RecordBatch) -> None:
            rows = context.settings.schema.conform(batch.select(table.names))
            columns = list(rows.columns)
            for assignment in self.assignments:
                columns[table.get_field_index(assignment.field.name)] = assignment.evaluate(rows)
            hold(held, table_rows(context, batch[RECORD_KEY], columns), split)

        return RowCounts(updated=_distinct_rows(slices, change))


@dataclass(frozen=True, slots=True)
class Delete:
    """`DELETE FROM ... WHERE`: rows that match are deleted whatever their ordering value."""

    condition: Condition
    keys: frozenset[str] | None = None
    """Only rows with these record keys; None: any."""

    title = "delete"
    operation = Operation.DELETE
    java_name = "DELETE_PREPPED"

    def bind(self, config: TableConfig, settings: WriteSettings) -> BoundDelete:
        """Checks the statement against the table. Raises the errors of `Update.bind`."""
        if self.condition is None and self.keys is None:
            raise ConfigError(
                f"Cannot delete rows of the table '{config.name}' without a condition; give 'true' to delete all"
            )
        return BoundDelete(parse_filter(self.condition, _shown_schema(settings)), self.keys)


@dataclass(frozen=True, slots=True)
class BoundDelete:
    """A delete by a condition on columns that the table has. Pickles."""

    condition: Filter | None
    keys: frozenset[str] | None

    updated_columns = None

    def request(self, settings: WriteSettings, view: FileSystemView) -> ScanRequest:
        return scan_request(settings.options, columns=[RECORD_KEY], condition=self.condition, keys=self.keys)

    def collect(
        self, context: WriteContext, slices: Iterable[tuple[Split, pa.RecordBatch]], held: PartitionedRows
    ) -> RowCounts:
        def change(split: Split, batch: pa.RecordBatch) -> None:
            hold(held, keys_as_rows(context, batch[RECORD_KEY]), split, leaving=True)

        return RowCounts(deleted=_distinct_rows(slices, change))


def _shown_schema(settings: WriteSettings) -> pa.Schema:
    """Returns the columns of the table's rows as queries show them."""
    return with_meta(settings.schema.arrow) if settings.stored.has_meta else settings.schema.arrow


def _distinct_rows(
    slices: Iterable[tuple[Split, pa.RecordBatch]], change: Callable[[Split, pa.RecordBatch], None]
) -> int:
    """Changes each batch and returns the number of rows; rows with the same key in a file group count once."""
    count, group = 0, None
    keys: list[pa.Array] = []
    for split, batch in slices:
        change(split, batch)
        if group != (split.partition, split.file_id):
            count -= _count_repeated(keys)
            group, keys = (split.partition, split.file_id), []
        count += batch.num_rows
        keys.append(batch[RECORD_KEY])
    return count - _count_repeated(keys)


def _count_repeated(keys: list[pa.Array]) -> int:
    """Counts the rows of a file group that have the key of another one, of which only one is changed."""
    return sum(map(len, keys)) - len(pa.chunked_array(keys, pa.string()).unique())


def table_rows(context: WriteContext, keys: pa.Array, columns: list[pa.Array]) -> pa.RecordBatch:
    """Returns rows of a table with their record keys. Raises SchemaMismatchError for nulls in a required column."""
    schema = context.settings.schema
    rows = schema.conform(pa.RecordBatch.from_arrays(columns, schema=schema.arrow))
    return pa.RecordBatch.from_arrays([keys, *rows.columns], schema=context.row_schema)


def updated_rows(context: WriteContext, keys: pa.Array, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Returns rows of a table with their record keys, in which only the columns that the write updates count; others
    are null.

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
    """Returns rows in which only the key counts, because they are deleted."""
    nothing = [pa.nulls(len(keys), field.type) for field in context.settings.schema.arrow]
    return pa.RecordBatch.from_arrays([keys, *nothing], schema=context.row_schema)
