"""Resolves the settings of a write from its options, the table and the incoming schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from hudi_py.config import Option, Options
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.base.files import iter_base_batches
from hudi_py.formats.base.parquet_writer import FileLayout, Pages
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.merge import MergeSettings, merge_settings
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.schema import META_FIELDS, RECORD_KEY, StoredRows
from hudi_py.schema.meta import compact_json
from hudi_py.schema.paths import column_of
from hudi_py.storage.threads import write_threads
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.view import FileSystemView
from hudi_py.write.changes import ChangeLogging
from hudi_py.write.index import (
    BucketIndex,
    IndexSettings,
    check_folder,
    check_table_index,
    index_kind,
    open_buckets,
)
from hudi_py.write.operation import (
    check_combination,
    check_generated_keys,
    check_ordering,
    check_partial_update,
    combines,
    deleted_partitions,
    insert_duplicates,
    parquet_logs,
    sets_columns,
)
from hudi_py.write.placement.assign import Packing
from hudi_py.write.rows.keygen import KeyGenerator, key_generator
from hudi_py.write.table.evolution import (
    EvolutionRules,
    WriteSchema,
    check_spelling,
    existing_schema,
    with_column_ids,
    write_schema,
)
from hudi_py.write.table.support import as_stored, check_evolution, check_stored_rows, check_types, check_writable

T = TypeVar("T")

_SORTED = ("GLOBAL_SORT", "PARTITION_SORT")
"""Modes of `hoodie.bulkinsert.sort.mode` that sort files; the others order Spark's partitions."""
_CODECS = ("gzip", "snappy", "zstd", "uncompressed")


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The settings of a write besides its transaction: its options, and values derived from them, the table and the
    rows. Pickles; holds no credentials. Sizes are bytes."""

    options: Options
    schema: WriteSchema
    keygen: KeyGenerator
    merge: MergeSettings
    max_file_size: int
    """Bytes at which a base file is full."""
    index: IndexSettings = field(default_factory=IndexSettings)
    bloom: BloomConfig | None = field(default_factory=BloomConfig)
    layout: FileLayout = field(default_factory=FileLayout)
    parquet_logs: bool = False
    """Whether log files have Parquet blocks; otherwise Avro blocks."""
    changes: ChangeLogging | None = None
    """How changes are logged; None: they are not."""
    combines: bool = False
    """Whether rows of the data with the same key are merged first."""
    updated_columns: tuple[str, ...] | None = None
    """The columns that updates set, in the table's order; known rows keep the values of the others. None: all."""
    stored: StoredRows = field(default_factory=StoredRows)
    """Which columns the table's files have."""
    insert_duplicates: str = "none"
    """What an insert does with keys that the table has: `none` (keeps them), `drop` or `fail`."""
    sort_by_key: bool = False
    """Whether bulk inserts and overwrites sort the rows of a partition by key."""
    deleted_partitions: tuple[str, ...] | None = None
    """Paths, with wildcards, of the partitions that `delete_partition` deletes; None: those of the rows."""

    def get(self, option: Option[T]) -> T:
        """Returns the value of an option of the write."""
        return self.options.get(option)

    def looks_up(self, operation: Operation) -> bool:
        """Returns whether an operation looks up keys in an index. A bucket follows from the key alone."""
        return self.index.buckets is None and (operation.looks_up_keys or self.insert_duplicates != "none")

    @property
    def packing(self) -> Packing:
        """How full new files get."""
        return Packing(self.max_file_size, self.options)

    @property
    def threads(self) -> int:
        """How many files are written in parallel."""
        return write_threads(self.options)

    @property
    def memory_bytes(self) -> int:
        """Maximum bytes of rows in memory, including those in files being written."""
        return self.get(write_config.WRITE_MEMORY)

    @property
    def waiting_bytes(self) -> int:
        """Maximum bytes of incoming rows in memory until their file groups are known; the rest is spilled to the local
        disk."""
        return self.memory_bytes // 2

    def within(self, memory_bytes: int) -> WriteSettings:
        """Returns the settings with no more memory than this."""
        least = min(memory_bytes, self.memory_bytes)
        return replace(self, options=self.options.replace({write_config.WRITE_MEMORY: str(least)}))

    def of_task(self, memory_bytes: int) -> WriteSettings:
        """Returns the settings of one task among others on its machine, with no more memory than this."""
        some = self.within(memory_bytes)
        return replace(some, options=some.options.replace({write_config.WRITE_THREADS: "1"}))

    @property
    def stored_avro_json(self) -> str:
        """The Avro record of the table's own columns in files, for the commit."""
        return compact_json(self.stored.own_avro(self.schema.avro))


def settings_as_stored(view: FileSystemView, operation: Operation, options: Options, verb: str) -> WriteSettings:
    """Returns the settings of a write of rows with the columns that the table has.

    `verb`: what the write does to the table, for errors.

    Raises:
        ConfigError: the table has no columns yet. Also what `write_settings` raises.
    """
    stored = resolve_table_schema(view.state)
    if stored is None:
        raise ConfigError(
            f"Cannot {verb} the table '{view.config.name}': it has no columns yet; write rows to it first"
        )
    columns = pa.schema([field for field in stored.arrow if field.name not in META_FIELDS])
    return write_settings(view, columns, operation, options)


def write_settings(view: FileSystemView, incoming: pa.Schema, operation: Operation, options: Options) -> WriteSettings:
    """Resolves everything a write needs besides its transaction.

    Args:
        view: the table as the write sees it.
        incoming: normalised schema of the data.

    Raises:
        UnsupportedTableError: the table has a feature that cannot be written.
        SchemaMismatchError, ConfigError: the data does not fit the table, or it is written with another index.
    """
    state, config = view.state, view.config
    check_writable(config)
    base_file_codec(options)
    merge = merge_settings(config, options.values)
    stored = resolve_table_schema(state, writes=True)
    if stored is not None:
        check_types(config, stored.avro)
    schema = _write_schema(config, stored.avro if stored is not None else None, incoming, operation, options)
    begins = options.get(write_config.SCHEMA_ON_READ) and options.get(write_config.RECONCILE_SCHEMA)
    schema = with_column_ids(schema, stored, config.name, begins=begins)
    check_evolution(config, on_read=schema.ids is not None)
    check_types(config, schema.avro)
    keygen, stored_rows = _key_generator(view, schema, options), StoredRows.of(config)
    check_ordering(merge, schema, is_mor=config.is_mor)
    index = _index_settings(options, config)
    if index.buckets is not None:
        index = replace(index, buckets=index.buckets.of_table(state.storage, state.timeline))
    updated = _updated_columns(config, schema, incoming, operation, options)
    if updated is not None:
        check_partial_update(config, merge, index, updated, options)
    check_combination(config, merge, index, operation, options)
    buckets = None if index.buckets is None else open_buckets(index.buckets, view)
    if operation.writes_files and operation.traits.replaces != "table":
        check_table_index(view, buckets)
    elif buckets is not None:
        check_folder(state.storage, buckets)
    return WriteSettings(
        options.without_credentials(),
        schema,
        keygen,
        merge,
        max_file_size=max_file_size(config, options),
        index=index,
        bloom=bloom_config(options) if stored_rows.has_meta else None,
        layout=file_layout(config, options),
        parquet_logs=parquet_logs(config, schema, merge, options),
        changes=ChangeLogging.of(
            config, stored_rows.own_avro(schema.avro), options.get(write_config.LOG_BLOCK_MAX_SIZE)
        ),
        combines=combines(operation, options),
        updated_columns=updated,
        stored=stored_rows,
        insert_duplicates=insert_duplicates(options) if operation.traits.known == "refuse" else "none",
        sort_by_key=operation.takes_whole_rows
        and not operation.traits.fills
        and options.get(write_config.BULK_INSERT_SORT_MODE) in _SORTED,
        deleted_partitions=deleted_partitions(operation, options),
    )


def _key_generator(view: FileSystemView, schema: WriteSchema, options: Options) -> KeyGenerator:
    """Creates the key generator of a write, which forms keys as existing rows have them."""
    config = view.config
    named = options.get(table_config.COMPLEX_NEW_ENCODING) is False
    keygen = key_generator(config, schema.avro, names_single_key=named, options=options)
    if keygen.single_key_form_varies and StoredRows.of(config).has_meta:
        names_fields = _existing_form(view, keygen, schema.arrow)
        if names_fields is not None:
            keygen = replace(keygen, names_single_key=names_fields)
    _check_keys(config, keygen, schema, options)
    return keygen


def _check_keys(config: TableConfig, keygen: KeyGenerator, schema: WriteSchema, options: Options) -> None:
    check_stored_rows(config, keygen, schema.arrow)
    keygen.check(schema.arrow)
    if keygen.generates_keys:
        check_generated_keys(config, options)


def _updated_columns(
    config: TableConfig, schema: WriteSchema, incoming: pa.Schema, operation: Operation, options: Options
) -> tuple[str, ...] | None:
    """Returns `WriteSettings.updated_columns`."""
    if not sets_columns(operation, options) or all(name in incoming.names for name in schema.arrow.names):
        return None
    updated = tuple(name for name in schema.arrow.names if name in incoming.names)
    if schema.history is not None:
        raise UnsupportedTableError(
            f"Cannot update only the columns {', '.join(updated)} of the table '{config.name}': its schema evolves "
            "on read, with which Apache Hudi supports no partial updates; give all columns"
        )
    return updated


def new_table_schema(config: TableConfig, incoming: pa.Schema, options: Options) -> WriteSchema:
    """Returns the schema of a new table with such columns. Refuses whatever `write_settings` would refuse for its first
    rows, before there is a table whose record key can no longer change.

    Args:
        config: the properties it would have.
        incoming: normalised schema of the data.

    Raises:
        UnsupportedTableError, SchemaMismatchError, ConfigError: columns and options do not go together.
    """
    base_file_codec(options)
    schema = write_schema(None, as_stored(config, incoming), config.name)
    check_types(config, schema.avro)
    _check_keys(config, key_generator(config, schema.avro, options=options), schema, options)
    check_ordering(merge_settings(config, options.values), schema, is_mor=config.is_mor)
    _index_settings(options, config)
    return schema


_MAX_FILE_SIZES = {"ORC": write_config.ORC_MAX_FILE_SIZE, "LANCE": write_config.LANCE_MAX_FILE_SIZE}


def file_layout(config: TableConfig, options: Options) -> FileLayout:
    """Returns how the table's base files are written. Raises ConfigError for an unsupported codec."""
    if config.base_file_format == "ORC":
        return FileLayout(options.get(write_config.ORC_CODEC), options.get(write_config.ORC_STRIPE_SIZE))
    pages = Pages(options.get(write_config.PAGE_SIZE), options.get(write_config.DICTIONARY))
    return FileLayout(base_file_codec(options), options.get(write_config.BLOCK_SIZE), pages)


def max_file_size(config: TableConfig, options: Options) -> int:
    """Returns the bytes at which a base file is full."""
    return options.get(_MAX_FILE_SIZES.get(config.base_file_format, write_config.MAX_FILE_SIZE))


def base_file_codec(options: Options) -> str:
    """Returns the compression of Parquet base files.

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


def _write_schema(
    config: TableConfig, avro: Mapping[str, Any] | None, incoming: pa.Schema, operation: Operation, options: Options
) -> WriteSchema:
    shown = as_stored(config, incoming)
    if avro is None:
        incoming = shown
    if not operation.takes_whole_rows:
        if avro is None:  # an empty table: there is nothing to delete, and its columns are not known
            return write_schema(None, incoming, config.name)
        needed = _needed_to_delete(config, operation, options, incoming)
        for name in needed:
            if name not in incoming.names:
                raise SchemaMismatchError(
                    f"Column '{name}' is missing in the data; {operation.value} needs the columns {', '.join(needed)}"
                )
        return existing_schema(avro)
    reconciles = options.get(write_config.RECONCILE_SCHEMA)
    rules = EvolutionRules(
        (*config.record_key_fields, *config.partition_fields),
        config.ordering_fields,
        set_null=options.get(write_config.SET_NULL_FOR_MISSING_COLUMNS) or reconciles,
        partial=sets_columns(operation, options),
        widen=options.get(write_config.WIDEN_COLUMNS),
    )
    merged = write_schema(avro, incoming, config.name, rules)
    if avro is not None and merged.changes and not reconciles:
        check_spelling(list(existing_schema(avro).arrow), list(incoming))
    return merged


def _needed_to_delete(config: TableConfig, operation: Operation, options: Options, columns: pa.Schema) -> Sequence[str]:
    """Returns the columns that the data of a delete must have."""
    if deleted_partitions(operation, options) is not None:
        return ()
    keys = config.record_key_fields if operation.traits.needs == "keys" else ()
    return [column_of(name, columns) for name in (*keys, *config.partition_fields)]


def _existing_form(view: FileSystemView, keygen: KeyGenerator, schema: pa.Schema) -> bool | None:
    """Returns whether the single COMPLEX key of existing rows is `field:value`; None if there are no rows.

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
    storage = view.state.storage
    if newest.source is None:
        batches = iter_base_batches(storage, newest.path, [RECORD_KEY, field], batch_rows=1)
    else:  # the columns are in another file
        wanted = pa.schema([pa.field(RECORD_KEY, pa.string()), schema.field(field)])
        batches = BaseFileReader(storage, newest).batches(wanted, batch_rows=1)
    for batch in batches:
        if batch.num_rows and RECORD_KEY in batch.schema.names:
            named = replace(keygen, names_single_key=True).record_keys(batch)[0].as_py()
            return bool(batch.column(batch.schema.get_field_index(RECORD_KEY))[0].as_py() == named)
    return None


def _index_settings(options: Options, config: TableConfig) -> IndexSettings:
    kind = index_kind(options)
    non_blocking = options.get(concurrency_config.MODE) == concurrency_config.NON_BLOCKING
    if non_blocking and (kind.open is not None or not config.has_completion_times or not config.is_mor):
        raise ConfigError(
            f"Cannot write to the table '{config.name}' ({config.properties.get('hoodie.table.type')}, version "
            f"{config.version}) with {concurrency_config.MODE.key} = '{concurrency_config.NON_BLOCKING}' and "
            f"{write_config.INDEX_TYPE.key} = '{kind.name}': supported: merge-on-read tables of version 8 or 9 with "
            f"the index BUCKET; use {concurrency_config.OPTIMISTIC} with {concurrency_config.RETRIES.key}"
        )
    buckets = BucketIndex.of(options, config, non_blocking=non_blocking) if kind.open is None else None
    return kind.settings(options, config, buckets)


def bloom_config(options: Options) -> BloomConfig | None:
    """Returns the bloom filter of base files; None if they have none."""
    if not index_kind(options).reads_filters and not options.get(write_config.BLOOM_ENABLED):
        return None
    return filter_config(options)


def filter_config(options: Options) -> BloomConfig:
    """Returns the size of bloom filters: by the number of keys in each file, unless a number is given."""
    return BloomConfig(
        options.get(write_config.BLOOM_NUM_ENTRIES),
        options.get(write_config.BLOOM_FPP),
        options.get(write_config.BLOOM_MAX_ENTRIES),
        options.get(write_config.BLOOM_TYPE),
        sized=not options.given(write_config.BLOOM_NUM_ENTRIES),
    )
