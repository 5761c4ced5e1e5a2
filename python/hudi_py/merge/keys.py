"""Record keys of rows without `_hoodie_record_key` (`HoodieReaderContext.virtualKeyExtractor`, 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.arrays import combined, is_text
from hudi_py.merge.settings import with_structs
from hudi_py.model.names import EMPTY_KEY_PART, NULL_KEY_PART
from hudi_py.schema import RECORD_KEY, java_float_texts
from hudi_py.schema.paths import type_at, values_at


def key_columns(key_fields: Sequence[str]) -> tuple[str, ...]:
    """Returns the file columns from which the record key is computed. For a nested field `a.b`, both `a.b` and `a`, of
    which a file has one. `key_fields`: as in `MergeSettings`."""
    return with_structs(key_fields) or (RECORD_KEY,)


def keys_of(batch: pa.RecordBatch, key_fields: Sequence[str]) -> pa.Array:
    """Computes the record keys (string) of rows with `key_columns`. Raises SchemaMismatchError as `record_keys`."""
    return record_keys(batch, key_fields) if key_fields else batch.column(RECORD_KEY).cast(pa.string())


def with_keys(batch: pa.RecordBatch, key_fields: Sequence[str]) -> pa.RecordBatch:
    """Adds `_hoodie_record_key`, computed from the key columns, if the table's files do not store it (`key_fields`)."""
    if not key_fields:
        return batch
    keys = record_keys(batch, key_fields)
    index = batch.schema.get_field_index(RECORD_KEY)
    if index >= 0:
        return batch.set_column(index, pa.field(RECORD_KEY, pa.string()), keys)
    return batch.append_column(pa.field(RECORD_KEY, pa.string()), keys)


def as_computed(keys: pa.Array, schema: pa.Schema, key_fields: Sequence[str], *, named: bool, path: str) -> pa.Array:
    """Converts the keys of a delete block, made by its writer's key generator, to the form that `record_keys` computes
    from rows.

    Apache Hudi 1.2.0 compares the two forms as they are, so it finds deleted rows by record positions only.

    Args:
        schema: has the key columns.
        named: see `MergeSettings.names_key`.

    Raises:
        UnsupportedTableError: the two forms differ in a part of the key.
    """
    dates = [name for name in key_fields if pa.types.is_date32(type_at(schema, name) or pa.null())]
    if dates and len(key_fields) > 1:
        raise UnsupportedTableError(
            f"Cannot merge the deletes of {path}: the table has hoodie.populate.meta.fields=false and the date "
            f"'{dates[0]}' in a record key of several columns, which deletes write in another form than rows have; "
            "compact the table with Apache Hudi, or read it as read_optimized"
        )
    if named:
        keys = pc.replace_substring_regex(keys, f"^{re.escape(key_fields[0])}:", "")
    if dates:
        texts = pc.if_else(pc.match_substring_regex(keys, r"^\d{4}-\d{2}-\d{2}$"), keys, None)
        return pc.coalesce(texts.cast(pa.date32()).cast(pa.int32()).cast(pa.string()), keys)
    return keys


def has_own_text(kind: pa.DataType) -> bool:
    """Returns whether `record_keys` and key generators give a type's values the same text. They differ for dates and
    floats (checked with 1.2.0)."""
    simple = (pa.types.is_string, pa.types.is_integer, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_timestamp)
    return any(is_kind(kind) for is_kind in simple)


def record_keys(batch: pa.RecordBatch, fields: Sequence[str]) -> pa.Array:
    """Computes the record keys of rows, string: the value of a single field as text, else `field:value` joined by
    commas.

    Args:
        fields: columns of the batch or, as `a.b`, fields of structs.

    Raises:
        SchemaMismatchError: a key column is missing, or its type is not supported for keys.
    """
    texts = []
    for name in fields:
        values = values_at(batch, name)
        if values is None:
            raise SchemaMismatchError(
                f"Column '{name}' of the record key is missing in the data, whose columns are "
                f"{', '.join(batch.schema.names)}; it is required with hoodie.populate.meta.fields=false"
            )
        texts.append(_key_text(combined(values), name))
    if len(texts) == 1:
        return texts[0]
    parts = []
    for name, text in zip(fields, texts, strict=True):
        shown = pc.if_else(pc.equal(text, ""), EMPTY_KEY_PART, text)
        parts.append(pc.binary_join_element_wise(name, shown.fill_null(NULL_KEY_PART), ":"))
    return pc.binary_join_element_wise(*parts, ",")


def _key_text(column: pa.Array, name: str) -> pa.Array:
    """Formats Spark's internal values as Java does: dates as days, timestamps as microseconds since the epoch."""
    kind = column.type
    if pa.types.is_floating(kind):
        return java_float_texts(column)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or is_text(kind)):
        raise SchemaMismatchError(
            f"Column '{name}' of type {kind} cannot be part of a record key; supported: strings, numbers, booleans, "
            "dates and timestamps"
        )
    return column.cast(pa.string())
