"""The settings of a write, from options, table and incoming schema; refuses tables this release cannot write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError, first_line
from hudi_py.formats.bloom import BloomConfig
from hudi_py.formats.parquet import iter_base_batches
from hudi_py.merge import MergeSettings, written_merge_settings
from hudi_py.merge.ordering import ordering_type
from hudi_py.model.properties import TableConfig
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import Storage
from hudi_py.timeline.properties import check_writable as check_table_writable
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView
from hudi_py.write.assign import Packing
from hudi_py.write.context import WriteSettings
from hudi_py.write.evolution import WriteSchema, existing_schema, write_schema
from hudi_py.write.index import IndexSettings
from hudi_py.write.index.tagging import GLOBAL_RECORD_INDEX
from hudi_py.write.keygen import KeyGenerator, key_generator, parse_keygen
from hudi_py.write.operations import Operation, check_table_index

_SORTED = ("GLOBAL_SORT", "PARTITION_SORT")
"""Modes of `hoodie.bulkinsert.sort.mode` whose files are sorted; the others order Spark's partitions."""
_CODECS = ("gzip", "snappy", "zstd", "uncompressed")
_READ_ONLY_TYPES = frozenset({"variant", "vector"})
_REFUSED_PROPERTIES = {
    "hoodie.populate.meta.fields": ("false", "rows without meta columns"),
    "hoodie.datasource.write.drop.partition.columns": ("true", "files without partition columns"),
    "hoodie.table.cdc.enabled": ("true", "change data capture files"),
    "hoodie.partition.metafile.use.base.format": ("true", "partition metafiles in the base file format"),
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": ("true", "timestamps in keys as text"),
}


def check_writable(config: TableConfig) -> None:
    """Refuses tables whose properties ask for what writes of this release would break.

    Raises:
        UnsupportedTableError: names the property.
    """
    check_table_writable(config)
    for key, (value, what) in _REFUSED_PROPERTIES.items():
        if config.properties.get(key, "").strip().lower() == value:
            raise UnsupportedTableError(
                f"Cannot write to the table '{config.name}': it has {key}={value}, and {what} cannot be written yet; "
                "write it with Apache Hudi"
            )
    parse_keygen(config.keygen_type, config.keygen_class)
    if config.properties.get("hoodie.bootstrap.base.path", "").strip():
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}': it was bootstrapped from "
            f"{config.properties['hoodie.bootstrap.base.path']} (hoodie.bootstrap.base.path); such tables can only be "
            "read; write it with Apache Hudi"
        )
    if config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}': its base files are {config.base_file_format}; supported is "
            "PARQUET"
        )


def read_only_reason(config: TableConfig) -> str | None:
    """Why a table cannot be written, as far as its properties tell; None where they do not."""
    try:
        check_writable(config)
        key_generator(config)
        written_merge_settings(config)
    except UnsupportedTableError as error:
        return first_line(error)
    except ConfigError:
        pass  # options of a write may make it whole
    return None


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
        SchemaMismatchError, ConfigError: the data does not fit the table, or another index wrote it.
    """
    check_writable(config)
    codec = base_file_codec(options)
    merge = written_merge_settings(config, options.values)
    stored = resolve_table_schema(storage, config, timeline)
    if stored is not None and stored.evolves_on_read:
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}': its schema evolves on read (latest_schema is in its newest "
            "commit, hoodie.schema.on.read.enable); supported are tables whose schema evolves on write; write it with "
            "Apache Hudi"
        )
    if stored is not None:
        check_types(config, stored.avro)
    schema = _schema(config, stored.avro if stored is not None else None, incoming, operation, options)
    named = options.get(table_config.COMPLEX_NEW_ENCODING) is False
    keygen = key_generator(config, schema.avro, names_single_key=named)
    if keygen.single_key_form_varies:
        found = _existing_form(storage, view, keygen)
        if found is not None:
            keygen = key_generator(config, schema.avro, names_single_key=found)
    keygen.check(schema.arrow)
    _check_ordering(merge, schema, is_mor=config.is_mor)
    if operation is not Operation.INSERT_OVERWRITE_TABLE:
        check_table_index(storage, timeline, view)
    return WriteSettings(
        schema,
        keygen,
        merge,
        packing=_packing(options),
        index=IndexSettings(
            _index_type(options),
            options.get(write_config.BLOOM_PRUNE_BY_RANGES),
            options.get(write_config.RECORD_INDEX_UPDATE_PARTITION),
        ),
        bloom=bloom_config(options),
        codec=codec,
        row_group_bytes=options.get(write_config.BLOCK_SIZE),
        log_block_bytes=options.get(write_config.LOG_BLOCK_MAX_SIZE),
        combine_before_insert=options.get(write_config.COMBINE_BEFORE_INSERT),
        combine_before_upsert=options.get(write_config.COMBINE_BEFORE_UPSERT),
        combine_before_delete=options.get(write_config.COMBINE_BEFORE_DELETE),
        allow_duplicates=options.get(write_config.ALLOW_DUPLICATES_ON_INSERT),
        sort_by_key=operation in (Operation.BULK_INSERT, Operation.INSERT_OVERWRITE_TABLE)
        and options.get(write_config.BULK_INSERT_SORT_MODE) in _SORTED,
        threads=options.get(write_config.WRITE_THREADS) or os.cpu_count() or 1,
    )


def new_table_schema(config: TableConfig, incoming: pa.Schema, options: Options) -> WriteSchema:
    """The schema of a table that is to be made of such columns. What `write_settings` would refuse of its first rows is
    refused here, before there is a table that no other record key could be asked of.

    Args:
        config: the properties it would have.
        incoming: normalised schema of the data.

    Raises:
        UnsupportedTableError, SchemaMismatchError, ConfigError: columns and options do not go together.
    """
    base_file_codec(options)
    schema = write_schema(None, incoming, config.name)
    key_generator(config, schema.avro).check(schema.arrow)
    _check_ordering(written_merge_settings(config, options.values), schema, is_mor=config.is_mor)
    return schema


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


def check_types(config: TableConfig, avro: Any) -> None:
    """Refuses columns whose bytes this release reads and does not write.

    Raises:
        UnsupportedTableError: names the type.
    """
    pending = [avro]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if each.get("logicalType") in _READ_ONLY_TYPES:
                raise UnsupportedTableError(
                    f"Cannot write to the table '{config.name}': it has a column of type {each['logicalType']}; such "
                    "columns can only be read; write it with Apache Hudi"
                )
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)


def _schema(
    config: TableConfig, avro: Mapping[str, Any] | None, incoming: pa.Schema, operation: Operation, options: Options
) -> WriteSchema:
    fixed = [*config.record_key_fields, *config.partition_fields]
    if operation is Operation.DELETE:
        if avro is None:  # an empty table: there is nothing to delete, and no column to know
            return write_schema(None, incoming, config.name)
        for name in fixed:
            if name not in incoming.names:
                raise SchemaMismatchError(
                    f"Column '{name}' is missing in the data; a delete needs the record key and partition columns "
                    f"{', '.join(fixed)}"
                )
        return existing_schema(avro)
    return write_schema(
        avro,
        incoming,
        config.name,
        set_null_for_missing=options.get(write_config.SET_NULL_FOR_MISSING_COLUMNS),
        widen=options.get(write_config.WIDEN_COLUMNS),
        fixed=fixed,
        numeric_only=config.ordering_fields,
    )


def _check_ordering(merge: MergeSettings, schema: WriteSchema, *, is_mor: bool) -> None:
    for name in merge.ordering_fields:
        kind = ordering_type(schema.arrow, name)
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
    """Whether the single COMPLEX key of existing rows is `field:value`; None without rows to tell.

    A row of the newest base file is compared with what its key column renders to: the text alone cannot tell a bare
    value that looks like the other form.
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


def _index_type(options: Options) -> str:
    kind = options.get(write_config.INDEX_TYPE)
    return GLOBAL_RECORD_INDEX if kind == "RECORD_INDEX" else kind


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
    """The bloom filter of base files; None where they have none."""
    needed = options.get(write_config.INDEX_TYPE) == "BLOOM"
    if not needed and not options.get(write_config.BLOOM_ENABLED):
        return None
    return BloomConfig(
        options.get(write_config.BLOOM_NUM_ENTRIES),
        options.get(write_config.BLOOM_FPP),
        options.get(write_config.BLOOM_MAX_ENTRIES),
        options.get(write_config.BLOOM_TYPE),
    )
