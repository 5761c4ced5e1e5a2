"""Which tables this release can write."""

from __future__ import annotations

from typing import Any

from hudi_py.errors import ConfigError, UnsupportedTableError, first_line
from hudi_py.formats.avro.schema import resolve_record
from hudi_py.formats.base.files import WRITTEN
from hudi_py.formats.base.lance import unwritable_to_lance
from hudi_py.formats.base.orc_values import unwritable as unwritable_to_orc
from hudi_py.formats.hudi_types import vector_columns
from hudi_py.merge import merge_settings
from hudi_py.model.changes import logging_mode
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.properties import check_writable as check_version_writable
from hudi_py.write.rows.keygen import key_generator, parse_keygen

_ELSEWHERE_REFUSED = {"ORC": ("variant", "vector"), "LANCE": ("blob", "variant", "vector")}
"""Logical types that are not written, by the format of base files. In Lance files they have encodings of their own."""


def check_writable(config: TableConfig) -> None:
    """Refuses tables whose properties ask for something that this release does not write.

    Raises:
        UnsupportedTableError: names the property.
    """
    check_version_writable(config)
    if config.cdc_enabled:
        logging_mode(config, f"write to the table '{config.name}'")
    parse_keygen(config.keygen_type, config.keygen_class)
    check_files_writable(config, "write to")


def check_files_writable(config: TableConfig, do: str) -> None:
    """Refuse a table that would get files which this release does not write.

    Args:
        do: what the caller is about to do, for errors: "write to", "compact".

    Raises:
        UnsupportedTableError: names the property.
    """
    check_metafiles(config, do)
    source = config.properties.get("hoodie.bootstrap.base.path", "").strip()
    if source:
        raise UnsupportedTableError(
            f"Cannot {do} the table '{config.name}': it was bootstrapped from {source} (hoodie.bootstrap.base.path); "
            "such tables can only be read; use Apache Hudi for it"
        )
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
    """Why a table cannot be written according to its properties; None if nothing in them prevents it."""
    try:
        check_writable(config)
        key_generator(config)
        merge_settings(config)
    except UnsupportedTableError as error:
        return first_line(error)
    except ConfigError:
        pass  # the options of a write may supply what is missing
    return None


_UNWRITABLE = {"ORC": unwritable_to_orc, "LANCE": unwritable_to_lance}
"""Why base files cannot have a column of an Avro type, by their format."""


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
        each = pending.pop()
        if isinstance(each, dict):
            logical = each.get("logicalType")
            if logical in _ELSEWHERE_REFUSED.get(config.base_file_format, ()):
                raise UnsupportedTableError(
                    f"Cannot write to the table '{config.name}': it has a column of type {str(logical).upper()}, and "
                    f"its base files are {config.base_file_format}; such columns need Parquet base files"
                )
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)
    vectors = vector_columns(avro)
    if vectors and config.cdc_enabled:
        raise UnsupportedTableError(
            f"Cannot write to the table '{config.name}': it has change data capture (hoodie.table.cdc.enabled) and the "
            f"VECTOR column '{min(vectors)}', which Apache Hudi can neither write to change logs nor read from them; "
            "leave the column or change data capture out"
        )
