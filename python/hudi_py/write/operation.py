"""Determines the operation of a write from the options, and which of its features can be combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.merge import MergeSettings
from hudi_py.metadata.table import BLOOM_FILTERS, RECORD_INDEX
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.schema.paths import type_at
from hudi_py.write.index import IndexSettings, index_kind, without_stored_keys
from hudi_py.write.table.evolution import WriteSchema


def effective_operation(operation: Operation, options: Options) -> Operation:
    """Returns the operation that a write with `operation` really does: an upsert that drops or refuses known keys is an
    insert (`HoodieSparkSqlWriter.deduceOperation`, 1.2.0).

    Raises:
        ConfigError: duplicates should be dropped by a bulk insert, which looks up no keys.
    """
    if operation.traits.known is None and operation.traits.replaces is None:
        older = options.get(write_config.DROP_DUPLICATES)
        if older or options.get(write_config.INSERT_DUPLICATES) == "drop":
            option = write_config.DROP_DUPLICATES if older else write_config.INSERT_DUPLICATES
            raise ConfigError(
                f"Option {options.name_of(option)} = '{'true' if older else 'drop'}' is not supported with the "
                f"operation {operation.value}, which looks up no keys; use insert"
            )
    if operation is Operation.UPSERT and insert_duplicates(options) != "none":
        return Operation.INSERT
    return operation


def operation_on(config: TableConfig, operation: Operation) -> Operation:
    """Returns the operation's effect on a table: where keys are generated, every row of an upsert is new.

    Raises:
        ConfigError: a delete, from a table whose keys are generated.
    """
    if config.record_key_fields or not operation.looks_up_keys:
        return operation
    if not operation.takes_whole_rows:
        raise generated_keys_error(config, f"{operation.value} rows by their keys")
    return Operation.INSERT


def insert_duplicates(options: Options) -> str:
    """Returns what an insert does with keys that the table has: `none`, `drop` or `fail`. `fail` takes precedence over
    the older option, which takes precedence over `none` (`DataSourceUtils.handleDuplicates`, 1.2.0)."""
    policy: str = options.get(write_config.INSERT_DUPLICATES)
    return "drop" if policy == "none" and options.get(write_config.DROP_DUPLICATES) else policy


def combines(operation: Operation, options: Options) -> bool:
    """Returns whether rows of the data with the same key are merged first."""
    if operation.looks_up_keys:
        updates = operation.traits.known == "update"
        return options.get(write_config.COMBINE_BEFORE_UPSERT if updates else write_config.COMBINE_BEFORE_DELETE)
    if options.given(write_config.COMBINE_BEFORE_INSERT):
        return options.get(write_config.COMBINE_BEFORE_INSERT)
    return options.get(write_config.DROP_DUPLICATES)


def deleted_partitions(operation: Operation, options: Options) -> tuple[str, ...] | None:
    """Returns the partitions that the options name for `delete_partition`; None if its rows name them, and for other
    operations."""
    named = options.get(write_config.DELETED_PARTITIONS)
    return named if named and operation.traits.needs == "partitions" else None


def sets_columns(operation: Operation, options: Options) -> bool:
    """Returns whether known rows keep the values of columns that the data lacks."""
    return operation.traits.known == "update" and options.get(write_config.PARTIAL_UPSERT)


def generated_keys_error(config: TableConfig, what: str) -> ConfigError:
    """Builds the error for operations that need keys from the data."""
    return ConfigError(
        f"Cannot {what} in the table '{config.name}', whose record keys are generated (it has no "
        "hoodie.table.recordkey.fields); use Table.update, Table.delete with a filter, or Table.merge"
    )


def check_combination(
    config: TableConfig, merge: MergeSettings, index: IndexSettings, operation: Operation, options: Options
) -> None:
    """Refuses an index that the operation, the merges of the table or its files cannot use.

    Raises:
        ConfigError: says which option to change.
    """
    if not config.populates_meta_fields:
        _check_without_stored_keys(config, index, options)
    if config.base_file_format != "PARQUET" and options.get(indexes_config.BLOOM_FILTERS):
        raise ConfigError(
            f"Cannot write to the table '{config.name}' with {indexes_config.BLOOM_FILTERS.key} = 'true': its base "
            f"files are {config.base_file_format}, whose footers Apache Hudi 1.2.0 on Spark cannot read for filters, "
            "so that its writes would fail from then on; leave the option out"
        )
    if config.base_file_format == "LANCE" and options.get(indexes_config.SECONDARY_INDEX_COLUMN):
        raise ConfigError(
            f"Cannot write to the table '{config.name}' with {indexes_config.SECONDARY_INDEX_COLUMN.key}: its base "
            "files are Lance, and upserts of Apache Hudi 1.2.0 fail with such an index; leave the option out"
        )
    buckets = index.buckets
    if buckets is None:
        return
    if operation.traits.known == "refuse" and insert_duplicates(options) != "none":
        raise ConfigError(
            f"Cannot insert into the table '{config.name}' with {write_config.INSERT_DUPLICATES.key} = "
            f"'{insert_duplicates(options)}' and the bucket index: it finds the bucket of a key, not whether the "
            "bucket has the key; use upsert"
        )
    if buckets.fixed_ids and not buckets.consistent and operation.traits.replaces:
        raise ConfigError(
            f"Cannot {operation.value} the table '{config.name}' with {concurrency_config.MODE.key} = "
            f"'{concurrency_config.NON_BLOCKING}': rows that others add meanwhile would be lost; use "
            f"{concurrency_config.OPTIMISTIC} for this operation"
        )


_OF_STORED_KEYS: Final[tuple[Option[Any], ...]] = (
    indexes_config.GLOBAL_RECORD_INDEX,
    indexes_config.RECORD_INDEX,
    indexes_config.BLOOM_FILTERS,
    indexes_config.SECONDARY_INDEX_COLUMN,
    indexes_config.EXPRESSION_INDEX_COLUMN,
)
"""Options that create indexes which need record keys in files."""


def _check_without_stored_keys(config: TableConfig, index: IndexSettings, options: Options) -> None:
    """Refuses indexes that find rows by record keys in files. With BLOOM, upserts of Apache Hudi 1.2.0 fail because
    there are no filters; with a record index they add rows for known keys, because it is empty."""
    start = f"Cannot write to the table '{config.name}' with hoodie.populate.meta.fields=false and "
    supported = without_stored_keys()
    if index.type not in supported:
        raise ConfigError(
            f"{start}{write_config.INDEX_TYPE.key} = '{index.type}', which finds record keys in files; supported: "
            f"{', '.join(supported)}"
        )
    asked = next((option for option in _OF_STORED_KEYS if options.get(option)), None)
    if asked is not None:
        raise ConfigError(f"{start}{asked.key}: such an index is made of record keys in files; leave the option out")
    there = [name for name in config.metadata_partitions if name in (RECORD_INDEX, BLOOM_FILTERS)]
    if there:
        raise ConfigError(
            f"{start}the {there[0]} in its metadata table, which Apache Hudi does not maintain for such tables; drop "
            "it with metadata.drop"
        )


def check_generated_keys(config: TableConfig, options: Options) -> None:
    """Refuses options that need to recognise rows (`AutoRecordKeyGenerationUtils`, 1.2.0)."""
    combining = (write_config.COMBINE_BEFORE_INSERT, write_config.DROP_DUPLICATES)
    asked = next((option for option in combining if options.get(option)), None)
    what = None
    if insert_duplicates(options) != "none":
        what = f"look for known keys ({write_config.INSERT_DUPLICATES.key} = '{insert_duplicates(options)}')"
    elif asked is not None:
        what = f"combine rows of one key ({asked.key} = 'true')"
    elif index_kind(options).open is None:
        what = f"use {write_config.INDEX_TYPE.key} = '{options.get(write_config.INDEX_TYPE)}'"
    if what is not None:
        raise generated_keys_error(config, what)


def parquet_logs(config: TableConfig, schema: WriteSchema, merge: MergeSettings, options: Options) -> bool:
    """Returns whether logs get Parquet blocks. Apache Hudi 1.2.0 merges such blocks by wrong texts, because it reads
    the ordering value from a buffer that the next row overwrites."""
    if options.get(write_config.LOG_BLOCK_FORMAT) != "parquet":
        return False
    for name in merge.ordering_fields if merge.ordered and config.is_mor else ():
        kind = type_at(schema.arrow, name)
        if kind is not None and pa.types.is_string(kind):
            raise ConfigError(
                f"Cannot write to the table '{config.name}' with {write_config.LOG_BLOCK_FORMAT.key} = 'parquet': its "
                f"ordering column '{name}' is text, which Apache Hudi compares wrongly in Parquet blocks; use avro"
            )
    return True


def check_partial_update(
    config: TableConfig, merge: MergeSettings, index: IndexSettings, updated: Sequence[str], options: Options
) -> None:
    """Refuses updates of some columns where they cannot be written, or could not be merged."""
    start = f"Cannot update only the columns {', '.join(updated)} of the table '{config.name}'"
    if merge.folds:
        raise UnsupportedTableError(
            f"{start}: {merge.shown(config)} already decides which values of a row count; give all columns, with "
            "the values that stand for no change"
        )
    if config.is_mor and not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"{start}: it has hoodie.populate.meta.fields=false, and its logs hold complete rows only; give all "
            "columns, or use Table.merge"
        )
    if not writes_partial_logs(config) and config.is_mor:
        raise UnsupportedTableError(
            f"{start}: its logs, of table version {config.version}, hold complete rows only; supported: "
            "copy-on-write tables, and merge-on-read ones from version 8 on: use Table.merge"
        )
    if index.moves_rows:
        raise ConfigError(
            f"{start} with the index {index.type} and update.partition.path=true: a row that moves to another "
            "partition needs all columns; set it to false, or give all columns"
        )
    if options.get(concurrency_config.MODE) == concurrency_config.NON_BLOCKING:
        raise ConfigError(
            f"{start} with {concurrency_config.MODE.key} = '{concurrency_config.NON_BLOCKING}': whether others insert "
            f"a row meanwhile is not known; use {concurrency_config.OPTIMISTIC}, or give all columns"
        )
    for name in merge.ordering_fields if merge.by_event_time else ():
        if name.partition(".")[0] not in updated and name not in updated:
            raise SchemaMismatchError(f"{start}: the data lacks the ordering column '{name}'; add it")


def writes_partial_logs(config: TableConfig) -> bool:
    """Returns whether log blocks of the table can hold updates of some columns. Without meta columns, rows are found by
    key columns, which such blocks may lack."""
    return config.is_mor and config.has_extended_log_blocks and config.populates_meta_fields


def check_ordering(merge: MergeSettings, schema: WriteSchema, *, is_mor: bool) -> None:
    for name in merge.ordering_fields:
        kind = type_at(schema.arrow, name)
        # Apache Hudi 1.2.0 writes logs of rows ordered by binary values, and cannot read them
        if kind is not None and (pa.types.is_nested(kind) or (is_mor and pa.types.is_binary(kind))):
            raise SchemaMismatchError(
                f"Ordering column '{name}' (hoodie.table.ordering.fields) has the type {kind}, whose values Apache "
                "Hudi cannot compare; supported: numbers, string, boolean, date and timestamp: choose another column"
            )
        if kind is None:
            raise SchemaMismatchError(
                f"Ordering column '{name}' (hoodie.table.ordering.fields) is neither in the data nor in the table; its "
                f"columns are {', '.join(schema.arrow.names)}"
            )
