"""Which tables can have files without meta columns, or without partition columns."""

from __future__ import annotations

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.model.properties import TableConfig
from hudi_py.schema.paths import type_at
from hudi_py.write.rows.keygen import KeyGenerator, KeyGeneratorType

_VIRTUAL = (KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX, KeyGeneratorType.NON_PARTITION)
_META = "hoodie.populate.meta.fields=false"


def check_stored_rows(config: TableConfig, keygen: KeyGenerator, schema: pa.Schema) -> None:
    """Refuses tables whose rows could not be found again, or read with other values.

    Args:
        schema: the table's own columns.

    Raises:
        UnsupportedTableError: names the property and what is in the way.
    """
    if not config.populates_meta_fields:
        _check_virtual_keys(config, keygen, schema)


def _check_virtual_keys(config: TableConfig, keygen: KeyGenerator, schema: pa.Schema) -> None:
    """Readers compute record keys from columns, by rules of their own (`RecordContext.virtualKeyExtractor`): they must
    find what the key generator has made (`BaseHoodieWriteClient.validateAgainstTableProperties`, 1.2.0)."""
    start = f"Cannot write to the table '{config.name}' with {_META}"
    if keygen.type not in _VIRTUAL:
        raise UnsupportedTableError(
            f"{start} and the key generator {keygen.type.value}: supported are "
            f"{', '.join(kind.value for kind in _VIRTUAL)}, as in Apache Hudi; use one of them, or store the meta "
            "columns"
        )
    if config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"{start} and base files in {config.base_file_format}: supported is PARQUET; Apache Hudi 1.2.0 does not "
            "write others without meta columns either"
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
        if kind is not None and (not _is_same_text(kind) or name in keygen.millis_columns):
            shown = f"{kind} in milliseconds" if name in keygen.millis_columns else kind
            raise UnsupportedTableError(
                f"{start} and the record key column '{name}' of type {shown}: readers compute other keys from it than "
                "the key generator makes; supported are strings, integers, decimals, booleans and timestamps in "
                "microseconds: choose another column, or store the meta columns"
            )


def _is_same_text(kind: pa.DataType) -> bool:
    """Whether readers and key generators make the same text of values. Of dates they do not (checked with 1.2.0)."""
    simple = (pa.types.is_string, pa.types.is_integer, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_timestamp)
    return any(is_kind(kind) for is_kind in simple)
