"""Rows as Apache Hudi's Spark reader writes them: Jackson's JSON of a Spark row.

Source: `InternalRowToJsonStringConverter` (1.2.0, Scala 2.12), which hands Spark's internal values to Jackson: null
members of objects are left out; dates are days, timestamps microseconds since the epoch; binary is in Base64; of a
decimal only a property of its Java class remains, `{"zero":false}`; members of nested structs and maps with more than
four entries have the order of Scala's hash map.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.arrays import is_bytes, is_text
from hudi_py.formats.hashing import java_string_hash
from hudi_py.read.changes.text import (
    Offsets,
    items_of,
    joined,
    joined_items,
    lengths_of_items,
    number,
    plain_array,
    quoted,
    where_valid,
)

_SMALL_MAP = 4
"""Scala's maps of up to four entries keep their order."""


def row_text(batch: pa.RecordBatch) -> pa.Array:
    """Each row as a JSON object, string.

    Raises:
        UnsupportedTableError: a column has a type that Hudi tables do not have.
    """
    return _object(
        [(field.name, _value(column)) for field, column in zip(batch.schema, batch.columns, strict=True)],
        batch.num_rows,
    )


def _object(members: list[tuple[str, pa.Array]], rows: int) -> pa.Array:
    if not members:
        return pa.array(["{}"] * rows, pa.string())
    parts = [joined([f",{_name(name)}:", text]) for name, text in members]
    # Every member starts with a comma, and the first comma is removed: Arrow 26 would omit a row of nulls otherwise
    return pc.replace_substring(joined(["{", *parts, "}"], skip_nulls=True), "{,", "{", max_replacements=1)


def _name(name: str) -> str:
    text: str = quoted(pa.array([name]))[0].as_py()
    return text


def _value(values: pa.Array) -> pa.Array:
    """The text of each value; null for null."""
    values = plain_array(values)
    for fits, text in _TEXTS:
        if fits(values.type):
            return text(values)
    raise UnsupportedTableError(f"Cannot write a column of type {values.type} as JSON; Hudi tables have no such type")


def _nothing(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), pa.string())


def _decimal(values: pa.Array) -> pa.Array:
    zero = pc.equal(values, pa.scalar(0, pa.int64()).cast(pa.decimal128(19, 0)).cast(values.type))
    return joined(['{"zero":', zero.cast(pa.string()), "}"])


def _days(values: pa.Array) -> pa.Array:
    return values.view(pa.int32()).cast(pa.string())


def _time(values: pa.Array) -> pa.Array:
    return values.view(pa.int64()).cast(pa.string())


def _timestamp(values: pa.Array) -> pa.Array:
    return _time(values.cast(pa.timestamp("us", values.type.tz), safe=False))


def _bytes(values: pa.Array) -> pa.Array:
    # Value by value: Arrow has no kernel for Base64
    coded = [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
    return joined(['"', pa.array(coded, pa.string()), '"'])


def _struct(values: pa.StructArray) -> pa.Array:
    members = [(field.name, _value(member)) for field, member in zip(values.type, values.flatten(), strict=True)]
    if len(members) > _SMALL_MAP:
        order = np.argsort(_scala_order(java_string_hash(pa.array([name for name, _ in members])).view(np.uint32)))
        members = [members[at] for at in order]
    return where_valid(_object(members, len(values)), values)


def _list(values: pa.Array) -> pa.Array:
    offsets, items = items_of(values)
    texts = pc.fill_null(_value(items), "null")
    return where_valid(joined(["[", joined_items(texts, offsets, ","), "]"]), values)


def _map(values: pa.MapArray) -> pa.Array:
    offsets, entries = items_of(values)
    keys, items = entries.flatten()
    keys = plain_array(keys)
    texts = joined([_value(keys), ":", _value(items)])
    texts, offsets = _ordered(texts, keys, offsets)
    kept = texts.is_valid().to_numpy(zero_copy_only=False)
    if not kept.all():
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])[offsets]
        texts = texts.drop_null()
    return where_valid(joined(["{", joined_items(texts, offsets, ","), "}"]), values)


def _ordered(texts: pa.Array, keys: pa.Array, offsets: Offsets) -> tuple[pa.Array, Offsets]:
    row, size = lengths_of_items(offsets)
    if not len(size) or int(size.max()) <= _SMALL_MAP:
        return texts, offsets
    place = np.arange(len(row), dtype=np.uint64)
    rank = np.where(size > _SMALL_MAP, _scala_order(java_string_hash(keys).view(np.uint32)), place)
    return texts.take(pa.array(np.lexsort((place, rank, row)))), offsets


def _scala_order(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Ranks in the order of `scala.collection.immutable.HashMap` (2.12): a trie of the mixed hash, 5 bits a level."""
    h = codes + ~(codes << np.uint32(9))
    h = h ^ (h >> np.uint32(14))
    h = h + (h << np.uint32(4))
    h = h ^ (h >> np.uint32(10))
    rank = np.zeros(len(h), np.uint64)
    for level in range(0, 35, 5):
        rank = (rank << np.uint64(5)) | ((h >> np.uint32(level)) & np.uint32(31)).astype(np.uint64)
    return rank


_TEXTS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]]]] = (
    (pa.types.is_null, _nothing),
    (pa.types.is_boolean, number),
    (pa.types.is_integer, number),
    (pa.types.is_floating, number),
    (is_text, quoted),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date32, _days),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time32, _days),
    (pa.types.is_time64, _time),
    (is_bytes, _bytes),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (pa.types.is_large_list, _list),
    (pa.types.is_fixed_size_list, _list),
)
"""How values are written, by their type; the first that fits."""
