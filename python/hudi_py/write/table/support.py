"""Determines which tables this release can write, and with which columns in their files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hudi_py.errors import ConfigError, UnsupportedTableError, first_line
from hudi_py.formats.avro.schema import resolve_record
from hudi_py.formats.base.files import WRITTEN
from hudi_py.formats.base.lance import unwritable_to_lance
from hudi_py.formats.base.orc_values import unwritable as unwritable_to_orc
from hudi_py.formats.hudi_types import vector_columns
from hudi_py.merge import merge_settings
from hudi_py.merge.keys import has_own_text
from hudi_py.model.changes import logging_mode
from hudi_py.model.properties import TableConfig
from hudi_py.schema import StoredRows
from hudi_py.schema.paths import type_at
from hudi_py.timeline.properties import check_writable as check_version_writable
from hudi_py.write.rows.keygen import KeyGenerator, KeyGeneratorType, key_generator, parse_keygen

_ELSEWHERE_REFUSED = {"ORC": ("variant", "vector"), "LANCE": ("blob", "variant", "vector")}
"""Logical types that are not written, by the format of base files. Lance files have encodings of their own for them."""


def check_writable(config: TableConfig) -> None:
    """Refuses tables whose properties ask for features that this release does not write.

    Raises:
        UnsupportedTableError: names the property.
    """
    check_version_writable(config)
    if config.cdc_enabled:
        logging_mode(config, f"write to the table '{config.name}'")
    parse_keygen(config.keygen_type, config.keygen_class)
    check_files_writable(config, "write to")


def check_files_writable(config: TableConfig, do: str) -> None:
    """Refuses a table that would get files which this release does not write.

    Args:
        do: what the caller is about to do, for errors: "write to", "compact".

    Raises:
        UnsupportedTableError: names the property.
    """
    check_metafiles(config, do)
    if config.base_file_format not in WRITTEN:
        raise UnsupportedTableError(
            f"Cannot {do} the table '{config.name}': its base files are {config.base_file_format}; supported: "
            f"{', '.join(WRITTEN)}"
        )


def check_metafiles(config: TableConfig, do: str) -> None:
    """Raises UnsupportedTableError if metafiles of partitions cannot be written as the table's properties ask.

    Args:
        do: what is attempted with the table.
    """
    if config.metafiles_in_base_format and config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"Cannot {do} the table '{config.name}': it has hoodie.partition.metafile.use.base.format=true and base "
            f"files in {config.base_file_format}; such metafiles are written in Parquet only: use Apache Hudi"
        )


def read_only_reason(config: TableConfig) -> str | None:
    """Returns why a table cannot be written according to its properties; None if nothing in them prevents it."""
    try:
        check_writable(config)
        key_generator(config)
        merge_settings(config)
    except UnsupportedTableError as error:
        return first_line(error)
    except ConfigError:
        pass  # the options of a write may supply missing settings
    return None


_UNWRITABLE = {"ORC": unwritable_to_orc, "LANCE": unwritable_to_lance}
"""Returns why base files cannot have a column of an Avro type, by their format."""


def check_types(config: TableConfig, avro: Any) -> None:
    """Refuses columns that the table's base files cannot have, and vectors in change logs: writes of Apache Hudi 1.2.0
        fail there (`HoodieSparkSchemaConverters`: a vector must be a column of its own).

    Args:
        avro: the table's columns as a parsed Avro record.

    Raises:
        UnsupportedTableError: names the type or column.
    """
    check = _UNWRITABLE.get(config.base_file_format)
    if check is not None:
        for name, node in resolve_record(avro).fields:
            why = check(node)
            if why:
                raise UnsupportedTableError(
                    f"Cannot write to the table '{config.name}': its base files are {config.base_file_format}, which "
                    f"cannot hold the column '{name}': {why}; use a table with Parquet base files"
                )
    pending = [avro]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            logical = part.get("logicalType")
            if logical in _ELSEWHERE_REFUSED.get(config.base_file_format, ()):
                raise UnsupportedTableError(
                    f"Cannot write to the table '{config.name}': it has a column of type {str(logical).upper()}, and "
                    f"its base files are {config.base_file_format}; such columns need Parquet base files"
                )
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    vectors = vector_columns(avro)
    if vectors and config.cdc_enabled:
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}': it has change data capture (hoodie.table.cdc.enabled) and the "
            f"VECTOR column '{min(vectors)}', which Apache Hudi can neither write to change logs nor read from them; "
            "leave the column or change data capture out"
        )


_VIRTUAL = (KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX, KeyGeneratorType.NON_PARTITION)
_META = "hoodie.populate.meta.fields=false"
_DROP = "hoodie.datasource.write.drop.partition.columns=true"
_OF_PATHS = (pa.types.is_string, pa.types.is_integer, pa.types.is_decimal, pa.types.is_date32)
"""Types whose texts are the same in paths and as columns."""


def check_stored_rows(config: TableConfig, keygen: KeyGenerator, schema: pa.Schema) -> None:
    """Refuses tables whose rows could not be found again, or would be read with other values.

    Args:
        schema: the table's own columns.

    Raises:
        UnsupportedTableError: names the property and what is in the way.
    """
    lacking = config.drops_partition_columns or not config.populates_meta_fields
    if lacking and config.base_file_format != "PARQUET":
        what = _DROP if config.populates_meta_fields else _META
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}' with {what} and base files in {config.base_file_format}: "
            "supported is PARQUET; use it, or store all columns"
        )
    if not config.populates_meta_fields:
        _check_virtual_keys(config, keygen, schema)
    if config.drops_partition_columns:
        _check_omitted(config, keygen)


def check_evolution(config: TableConfig, *, on_read: bool) -> None:
    """Raises UnsupportedTableError if columns have ids (`on_read`) and files do not have all of them."""
    if on_read and (not config.populates_meta_fields or config.drops_partition_columns):
        what = _DROP if config.populates_meta_fields else _META
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}' with {what} and hoodie.schema.on.read.enable=true: supported "
            "is a schema that evolves on write; leave one of the two out"
        )


def as_stored(config: TableConfig, incoming: pa.Schema) -> pa.Schema:
    """Returns the columns of incoming rows as a new table shows them. If its files lack the partition columns, these
    are texts, and come last (`TableSchemaResolver.appendPartitionColumns`, 1.2.0).

    Raises:
        UnsupportedTableError: values of a partition column are not the texts in paths.
    """
    omitted = config.partition_fields if config.drops_partition_columns else ()
    texts = []
    for name in omitted:
        if name not in incoming.names:
            continue
        kind = incoming.field(name).type
        if not any(is_kind(kind) for is_kind in _OF_PATHS):
            raise UnsupportedTableError(
                f"Cannot write to the table '{config.name}' with {_DROP} and the partition column '{name}' of type "
                f"{kind}: queries show the texts of paths; supported: strings, integers, decimals and dates: cast "
                "the column, or store it"
            )
        texts.append(pa.field(name, pa.string()))
    return pa.schema([*(field for field in incoming if field.name not in omitted), *texts])


def _check_virtual_keys(config: TableConfig, keygen: KeyGenerator, schema: pa.Schema) -> None:
    """Refuses keys that readers would compute differently. They compute record keys from columns by rules of their own
    (`RecordContext.virtualKeyExtractor`), and must find the keys that the key generator made
    (`BaseHoodieWriteClient.validateAgainstTableProperties`, 1.2.0)."""
    start = f"Cannot write to the table '{config.name}' with {_META}"
    if keygen.type not in _VIRTUAL:
        raise UnsupportedTableError(
            f"{start} and the key generator {keygen.type.value}; supported: "
            f"{', '.join(kind.value for kind in _VIRTUAL)}, as in Apache Hudi; use one of them, or store the meta "
            "columns"
        )
    if keygen.generates_keys:
        raise UnsupportedTableError(
            f"{start} and without a record key: generated keys would be stored nowhere; name a record key, or store "
            "the meta columns"
        )
    if keygen.single_key_form_varies and keygen.names_single_key:
        raise UnsupportedTableError(
            f"{start} and the key generator COMPLEX with the single record key '{keygen.key_fields[0]}': its keys have "
            "the form field:value, and readers compute the bare value, so that Apache Hudi 1.2.0 updates no row of "
            "such a table but adds another; use a record key of several columns, or store the meta columns"
        )
    for name in keygen.key_fields:
        kind = type_at(schema, name)
        as_text = keygen.timestamp_zone is not None and kind is not None and pa.types.is_timestamp(kind)
        if kind is not None and (not has_own_text(kind) or name in keygen.millis_columns or as_text):
            shown = f"{kind} in milliseconds" if name in keygen.millis_columns else kind
            raise UnsupportedTableError(
                f"{start} and the record key column '{name}' of type {shown}: readers compute other keys from it than "
                "the key generator makes; supported: strings, integers, decimals, booleans and timestamps in "
                "microseconds: choose another column, or store the meta columns"
            )


def _check_omitted(config: TableConfig, keygen: KeyGenerator) -> None:
    start = f"Cannot write to the table '{config.name}' with {_DROP}"
    if not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"{start} and {_META}: upserts of Apache Hudi 1.2.0 fail in such a table, as it makes keys of whole rows; "
            "store the meta columns or the partition columns"
        )
    if keygen.dated_fields or keygen.slashed_dates:
        shown = "slash-separated dates" if keygen.slashed_dates else f"the key generator {keygen.type.value}"
        raise UnsupportedTableError(
            f"{start} and {shown}: paths have dates in place of the column's values; supported: partition columns "
            "whose values are in paths as they are: use another key generator, or store the partition columns"
        )
    omitted = StoredRows.of(config).omitted
    ordering = () if config.merge_mode == "COMMIT_TIME_ORDERING" else config.ordering_fields
    for name in ordering:
        if name in omitted:
            raise UnsupportedTableError(
                f"{start} and the partition column '{name}' as ordering field: rows are merged by columns in files; "
                "store the partition columns, or choose another column"
            )
    for name in omitted:
        if "." in name:
            raise UnsupportedTableError(
                f"{start} and the partition field '{name}' of a struct: only columns can be left out; store the "
                "partition columns"
            )
