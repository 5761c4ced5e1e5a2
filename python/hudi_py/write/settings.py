"""The settings of a write, from its options, the table and the incoming schema."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import indexes as index_config
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.bloom import BloomConfig
from hudi_py.formats.parquet import iter_base_batches
from hudi_py.merge import MergeSettings, merge_settings
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import column_of, type_at
from hudi_py.storage import Storage
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView
from hudi_py.write.changes import ChangeLogging
from hudi_py.write.index import BucketIndex, IndexSettings, check_folder, check_table_index, open_buckets
from hudi_py.write.index.protocol import BLOOM, BUCKET, GLOBAL_BLOOM, GLOBAL_RECORD_INDEX, GLOBAL_SIMPLE
from hudi_py.write.placement.assign import MEGABYTE, Packing
from hudi_py.write.rows.keygen import KeyGenerator, key_generator
from hudi_py.write.rows.partitioned import DEFAULT_BUDGET
from hudi_py.write.table.create import key_options
from hudi_py.write.table.evolution import WriteSchema, existing_schema, with_column_ids, write_schema
from hudi_py.write.table.support import check_types, check_writable

_SORTED = ("GLOBAL_SORT", "PARTITION_SORT")
"""Modes of `hoodie.bulkinsert.sort.mode` whose files are sorted; the others order Spark's partitions."""
_MOVES = {
    GLOBAL_SIMPLE: write_config.SIMPLE_INDEX_UPDATE_PARTITION,
    GLOBAL_BLOOM: write_config.BLOOM_INDEX_UPDATE_PARTITION,
    GLOBAL_RECORD_INDEX: write_config.RECORD_INDEX_UPDATE_PARTITION,
}
"""By the index over all partitions, whether rows move to their own one."""
_CODECS = ("gzip", "snappy", "zstd", "uncompressed")


class Operation(str, Enum):
    """What the rows do to the table; the value is that of `hoodie.datasource.write.operation`."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @property
    def java_name(self) -> str:
        """Name of the `WriteOperationType` in commit metadata."""
        return self.name

    @property
    def looks_up_keys(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def overwrites(self) -> bool:
        return self in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)

    @property
    def takes_whole_rows(self) -> bool:
        """Whether it writes rows; otherwise they only say what to delete."""
        return self not in (Operation.DELETE, Operation.DELETE_PARTITION)

    def action(self, config: TableConfig) -> Action:
        """Its action on the timeline of a table (`CommitUtils.getCommitActionType`)."""
        if self.overwrites or self is Operation.DELETE_PARTITION:
            return Action.REPLACE_COMMIT
        return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


def effective_operation(operation: Operation, options: Options) -> Operation:
    """What a write does that asks for `operation`: an upsert that drops or refuses known keys is an insert
    (`HoodieSparkSqlWriter.deduceOperation`, 1.2.0).

    Raises:
        ConfigError: a bulk insert, which looks up no keys, is to drop duplicates.
    """
    if operation is Operation.BULK_INSERT and options.get(write_config.DROP_DUPLICATES):
        raise ConfigError(
            f"Option {options.name_of(write_config.DROP_DUPLICATES)} = 'true' is not supported with the operation "
            "bulk_insert, which looks up no keys; use insert"
        )
    if operation is Operation.UPSERT and insert_duplicates(options) != "none":
        return Operation.INSERT
    return operation


def operation_on(config: TableConfig, operation: Operation) -> Operation:
    """What the operation does to a table: where keys are generated, every row of an upsert is new.

    Raises:
        ConfigError: rows are to be deleted where keys are generated.
    """
    if config.record_key_fields or not operation.looks_up_keys:
        return operation
    if operation is Operation.DELETE:
        raise _no_keys(config, "delete rows by their keys")
    return Operation.INSERT


def insert_duplicates(options: Options) -> str:
    """What an insert does with keys that the table has: `none`, `drop` or `fail`. `fail` prevails over the older
    option, which prevails over `none` (`DataSourceUtils.handleDuplicates`, 1.2.0)."""
    policy: str = options.get(write_config.INSERT_DUPLICATES)
    return "drop" if policy == "none" and options.get(write_config.DROP_DUPLICATES) else policy


def _combines_inserts(options: Options) -> bool:
    if options.given(write_config.COMBINE_BEFORE_INSERT):
        return options.get(write_config.COMBINE_BEFORE_INSERT)
    return options.get(write_config.DROP_DUPLICATES)


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What a write needs besides its transaction. Pickles; holds no credentials. Sizes are bytes."""

    schema: WriteSchema
    keygen: KeyGenerator
    merge: MergeSettings
    packing: Packing = field(default_factory=Packing)
    index: IndexSettings = field(default_factory=IndexSettings)
    bloom: BloomConfig | None = field(default_factory=BloomConfig)
    codec: str = "zstd"
    row_group_bytes: int = 120 * MEGABYTE
    log_block_bytes: int = 256 * MEGABYTE
    parquet_logs: bool = False
    """Whether log files have Parquet blocks; otherwise Avro blocks."""
    changes: ChangeLogging | None = None
    """How changes are logged; None: they are not."""
    combine_before_insert: bool = False
    combine_before_upsert: bool = True
    combine_before_delete: bool = True
    updated_columns: tuple[str, ...] | None = None
    """The columns that updates set, in the table's order; known rows keep the values of the others. None: all."""
    insert_duplicates: str = "none"
    """What an insert does with keys that the table has: `none` (keeps them), `drop` or `fail`."""
    allow_duplicates: bool = True
    """Whether inserts into a small file may repeat keys of that file."""
    sort_by_key: bool = False
    """Whether bulk inserts and overwrites sort the rows of a partition by key."""
    overwritten: tuple[str, ...] = ()
    """Paths of the partitions that `insert_overwrite` replaces; empty: those that it writes to."""
    deleted_partitions: tuple[str, ...] | None = None
    """Paths, with wildcards, of the partitions that `delete_partition` deletes; None: those of the rows."""
    threads: int = 1
    threads_given: bool = False
    """Whether the options give the number of threads."""
    memory_bytes: int = DEFAULT_BUDGET
    """Bytes of incoming rows in memory; the rest is spilled to the local disk."""


def write_settings(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    view: FileSystemView,
    incoming: pa.Schema,
    operation: Operation,
    options: Options,
) -> WriteSettings:
    """Everything a write needs besides its transaction.

    Args:
        timeline, view: the table as the write sees it.
        incoming: normalised schema of the data.

    Raises:
        UnsupportedTableError: the table has a feature that cannot be written.
        SchemaMismatchError, ConfigError: the data does not fit the table, or it is written with another index.
    """
    check_writable(config)
    codec = base_file_codec(options)
    merge = merge_settings(config, options.values)
    stored = resolve_table_schema(storage, config, timeline)
    if stored is not None:
        check_types(config, stored.avro)
    schema = _schema(config, stored.avro if stored is not None else None, incoming, operation, options)
    begins = options.get(write_config.SCHEMA_ON_READ) and options.get(write_config.RECONCILE_SCHEMA)
    schema = with_column_ids(schema, stored, config.name, begins=begins)
    named = options.get(table_config.COMPLEX_NEW_ENCODING) is False
    keygen = key_generator(config, schema.avro, names_single_key=named, given=key_options(options))
    if keygen.single_key_form_varies:
        found = _existing_form(storage, view, keygen)
        if found is not None:
            keygen = replace(keygen, names_single_key=found)
    keygen.check(schema.arrow)
    if keygen.generates_keys:
        _check_generated_keys(config, options)
    _check_ordering(merge, schema, is_mor=config.is_mor)
    index = _index(options, config)
    updated = None
    if _sets_columns(operation, options) and any(name not in incoming.names for name in schema.arrow.names):
        updated = tuple(name for name in schema.arrow.names if name in incoming.names)
        if schema.history is not None:
            raise UnsupportedTableError(
                f"Cannot update only the columns {', '.join(updated)} of the table '{config.name}': its schema evolves "
                "on read, with which Apache Hudi supports no partial updates; give all columns"
            )
        _check_partial(config, merge, index, updated, options)
    if merge.folds and index.moves_rows:
        raise ConfigError(
            f"Cannot write to the table '{config.name}' with the index {index.type} and update.partition.path=true: "
            f"its merges make rows of two versions ({merge.shown(config)}), but a row that moves to another partition "
            "is not merged with the old one; set it to false"
        )
    if operation is Operation.INSERT and index.buckets is not None and insert_duplicates(options) != "none":
        raise ConfigError(
            f"Cannot insert into the table '{config.name}' with {write_config.INSERT_DUPLICATES.key} = "
            f"'{insert_duplicates(options)}' and the bucket index: it finds the bucket of a key, not whether the "
            "bucket has the key; use upsert"
        )
    buckets = None if index.buckets is None else open_buckets(index.buckets, storage, timeline, view)
    if operation not in (Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION):
        check_table_index(storage, timeline, view, buckets)
    elif buckets is not None:
        check_folder(storage, buckets)
    replaces = operation.action(config) is Action.REPLACE_COMMIT
    if index.buckets is not None and index.buckets.consistent and replaces:
        raise ConfigError(
            f"Cannot {operation.value} the table '{config.name}' with {index_config.BUCKET_ENGINE.key} = "
            "'CONSISTENT_HASHING': a hash bucket keeps its file group, and what is added to a replaced one is not "
            "seen; delete the rows, and upsert"
        )
    if index.buckets is not None and index.buckets.fixed_ids and replaces:
        raise ConfigError(
            f"Cannot {operation.value} the table '{config.name}' with {concurrency_config.MODE.key} = "
            f"'{concurrency_config.NON_BLOCKING}': rows that others add meanwhile would be lost; use "
            f"{concurrency_config.OPTIMISTIC} for this operation"
        )
    return WriteSettings(
        schema,
        keygen,
        merge,
        packing=_packing(options),
        index=index,
        bloom=bloom_config(options),
        codec=codec,
        row_group_bytes=options.get(write_config.BLOCK_SIZE),
        log_block_bytes=options.get(write_config.LOG_BLOCK_MAX_SIZE),
        parquet_logs=_parquet_logs(config, schema, merge, options),
        changes=ChangeLogging.of(config, schema.avro, options.get(write_config.LOG_BLOCK_MAX_SIZE)),
        combine_before_insert=_combines_inserts(options),
        combine_before_upsert=options.get(write_config.COMBINE_BEFORE_UPSERT),
        combine_before_delete=options.get(write_config.COMBINE_BEFORE_DELETE),
        updated_columns=updated,
        insert_duplicates=insert_duplicates(options) if operation is Operation.INSERT else "none",
        allow_duplicates=options.get(write_config.ALLOW_DUPLICATES_ON_INSERT),
        sort_by_key=(operation is Operation.BULK_INSERT or operation.overwrites)
        and options.get(write_config.BULK_INSERT_SORT_MODE) in _SORTED,
        overwritten=options.get(write_config.OVERWRITTEN_PARTITIONS),
        deleted_partitions=deleted_partitions(operation, options),
        threads=options.get(write_config.WRITE_THREADS) or os.cpu_count() or 1,
        threads_given=options.get(write_config.WRITE_THREADS) > 0,
    )


def new_table_schema(config: TableConfig, incoming: pa.Schema, options: Options) -> WriteSchema:
    """The schema of a new table with such columns. Refuses what `write_settings` would refuse of its first rows, before
    there is a table whose record key can no longer change.

    Args:
        config: the properties it would have.
        incoming: normalised schema of the data.

    Raises:
        UnsupportedTableError, SchemaMismatchError, ConfigError: columns and options do not go together.
    """
    base_file_codec(options)
    schema = write_schema(None, incoming, config.name)
    keygen = key_generator(config, schema.avro, given=key_options(options))
    keygen.check(schema.arrow)
    if keygen.generates_keys:
        _check_generated_keys(config, options)
    _check_ordering(merge_settings(config, options.values), schema, is_mor=config.is_mor)
    _index(options, config)
    return schema


def _check_generated_keys(config: TableConfig, options: Options) -> None:
    """Refuses what needs to know rows again (`AutoRecordKeyGenerationUtils`, 1.2.0)."""
    combining = (write_config.COMBINE_BEFORE_INSERT, write_config.DROP_DUPLICATES)
    asked = next((option for option in combining if options.get(option)), None)
    what = None
    if insert_duplicates(options) != "none":
        what = f"look for known keys ({write_config.INSERT_DUPLICATES.key} = '{insert_duplicates(options)}')"
    elif asked is not None:
        what = f"combine rows of one key ({asked.key} = 'true')"
    elif options.get(write_config.INDEX_TYPE) == BUCKET:
        what = f"use {write_config.INDEX_TYPE.key} = 'BUCKET'"
    if what is not None:
        raise _no_keys(config, what)


def _no_keys(config: TableConfig, what: str) -> ConfigError:
    return ConfigError(
        f"Cannot {what} in the table '{config.name}', whose record keys are generated (it has no "
        "hoodie.table.recordkey.fields); use Table.update and Table.delete with a filter"
    )


def base_file_codec(options: Options) -> str:
    """The compression of base files.

    Raises:
        ConfigError: it is none that is written.
    """
    codec = options.get(write_config.COMPRESSION_CODEC)
    if codec not in _CODECS:
        raise ConfigError(
            f"Option {options.name_of(write_config.COMPRESSION_CODEC)} = '{codec}' is not supported; supported: "
            + ", ".join(_CODECS)
        )
    return codec


def _schema(
    config: TableConfig, avro: Mapping[str, Any] | None, incoming: pa.Schema, operation: Operation, options: Options
) -> WriteSchema:
    fixed = [*config.record_key_fields, *config.partition_fields]
    if not operation.takes_whole_rows:
        if avro is None:  # an empty table: there is nothing to delete, and no column to know
            return write_schema(None, incoming, config.name)
        needed = _needed_to_delete(config, operation, options, incoming)
        for name in needed:
            if name not in incoming.names:
                raise SchemaMismatchError(
                    f"Column '{name}' is missing in the data; {operation.value} needs the columns {', '.join(needed)}"
                )
        return existing_schema(avro)
    return write_schema(
        avro,
        incoming,
        config.name,
        set_null_for_missing=options.get(write_config.SET_NULL_FOR_MISSING_COLUMNS)
        or options.get(write_config.RECONCILE_SCHEMA),
        partial=_sets_columns(operation, options),
        widen=options.get(write_config.WIDEN_COLUMNS),
        fixed=fixed,
        numeric_only=config.ordering_fields,
    )


def _needed_to_delete(config: TableConfig, operation: Operation, options: Options, columns: pa.Schema) -> Sequence[str]:
    """The columns that the data of a delete must have."""
    if deleted_partitions(operation, options) is not None:
        return ()
    keys = config.record_key_fields if operation is Operation.DELETE else ()
    return [column_of(name, columns) for name in (*keys, *config.partition_fields)]


def deleted_partitions(operation: Operation, options: Options) -> tuple[str, ...] | None:
    """The partitions that the options name for `delete_partition`; None if its rows do, and for other operations."""
    named = options.get(write_config.DELETED_PARTITIONS)
    return named if named and operation is Operation.DELETE_PARTITION else None


def _parquet_logs(config: TableConfig, schema: WriteSchema, merge: MergeSettings, options: Options) -> bool:
    """Whether logs get Parquet blocks. Apache Hudi 1.2.0 merges such blocks by wrong texts, as it reads the ordering
    value from a buffer that the next row takes."""
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


def _sets_columns(operation: Operation, options: Options) -> bool:
    """Whether known rows keep the values of columns that the data lacks."""
    return operation is Operation.UPSERT and options.get(write_config.PARTIAL_UPSERT)


def _check_partial(
    config: TableConfig, merge: MergeSettings, index: IndexSettings, updated: Sequence[str], options: Options
) -> None:
    """Refuses updates of some columns where they cannot be written, or could not be merged."""
    start = f"Cannot update only the columns {', '.join(updated)} of the table '{config.name}'"
    if merge.folds:
        raise UnsupportedTableError(
            f"{start}: {merge.shown(config)} already decides which values of a row count; give all columns, with "
            "the values that stand for no change"
        )
    if not writes_partial_logs(config) and config.is_mor:
        raise UnsupportedTableError(
            f"{start}: its logs, of table version {config.version}, hold complete rows only; supported are "
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
    """Whether log blocks of the table can hold updates of some columns."""
    return config.is_mor and config.version >= 8


def _check_ordering(merge: MergeSettings, schema: WriteSchema, *, is_mor: bool) -> None:
    for name in merge.ordering_fields:
        kind = type_at(schema.arrow, name)
        # Apache Hudi 1.2.0 writes logs of rows ordered by binary values, and cannot read them
        if kind is not None and (pa.types.is_nested(kind) or (is_mor and pa.types.is_binary(kind))):
            raise SchemaMismatchError(
                f"Ordering column '{name}' (hoodie.table.ordering.fields) has the type {kind}, whose values Apache "
                "Hudi cannot compare; supported are numbers, string, boolean, date and timestamp: choose another column"
            )
        if kind is None:
            raise SchemaMismatchError(
                f"Ordering column '{name}' (hoodie.table.ordering.fields) is neither in the data nor in the table; its "
                f"columns are {', '.join(schema.arrow.names)}"
            )


def _existing_form(storage: Storage, view: FileSystemView, keygen: KeyGenerator) -> bool | None:
    """Whether the single COMPLEX key of existing rows is `field:value`; None if there are no rows.

    Compares a key of the newest base file with the value of its column: a bare value may look like the other form.
    """
    (field,) = keygen.key_fields
    newest = None
    for partition in view.partitions():
        for slice_ in view.latest_base_slices(partition):
            base = slice_.base_file
            if base is not None and (newest is None or base.instant > newest.instant):
                newest = base
    if newest is None:
        return None
    for batch in iter_base_batches(storage, newest.path, [RECORD_KEY, field], batch_rows=1):
        if batch.num_rows and RECORD_KEY in batch.schema.names:
            named = replace(keygen, names_single_key=True).record_keys(batch)[0].as_py()
            return bool(batch.column(batch.schema.get_field_index(RECORD_KEY))[0].as_py() == named)
    return None


def _index(options: Options, config: TableConfig) -> IndexSettings:
    kind = options.get(write_config.INDEX_TYPE)
    non_blocking = options.get(concurrency_config.MODE) == concurrency_config.NON_BLOCKING
    if non_blocking and (kind != BUCKET or config.version < 8 or not config.is_mor):
        raise ConfigError(
            f"Cannot write to the table '{config.name}' ({config.properties.get('hoodie.table.type')}, version "
            f"{config.version}) with {concurrency_config.MODE.key} = '{concurrency_config.NON_BLOCKING}' and "
            f"{write_config.INDEX_TYPE.key} = '{kind}': supported are merge-on-read tables of version 8 or 9 with the "
            f"index BUCKET; use {concurrency_config.OPTIMISTIC} with {concurrency_config.RETRIES.key}"
        )
    kind = GLOBAL_RECORD_INDEX if kind == "RECORD_INDEX" else kind
    return IndexSettings(
        kind,
        options.get(write_config.BLOOM_PRUNE_BY_RANGES),
        kind in _MOVES and options.get(_MOVES[kind]),
        BucketIndex.of(options, config, non_blocking=non_blocking) if kind == BUCKET else None,
    )


def _packing(options: Options) -> Packing:
    return Packing(
        max_file_size=options.get(write_config.MAX_FILE_SIZE),
        small_file_limit=options.get(write_config.SMALL_FILE_LIMIT),
        auto_split=options.get(write_config.INSERT_AUTO_SPLIT),
        split_rows=options.get(write_config.INSERT_SPLIT_SIZE),
        record_size=options.get(write_config.RECORD_SIZE_ESTIMATE),
        record_size_given=options.given(write_config.RECORD_SIZE_ESTIMATE),
        size_threshold=options.get(write_config.RECORD_SIZE_THRESHOLD),
        mor_candidates=options.get(write_config.SMALL_FILE_CANDIDATES),
    )


def bloom_config(options: Options) -> BloomConfig | None:
    """The bloom filter of base files; None if they have none."""
    needed = options.get(write_config.INDEX_TYPE) in (BLOOM, GLOBAL_BLOOM)
    if not needed and not options.get(write_config.BLOOM_ENABLED):
        return None
    return BloomConfig(
        options.get(write_config.BLOOM_NUM_ENTRIES),
        options.get(write_config.BLOOM_FPP),
        options.get(write_config.BLOOM_MAX_ENTRIES),
        options.get(write_config.BLOOM_TYPE),
    )
