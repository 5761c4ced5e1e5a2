"""Records of change logs as text: Avro's own JSON, `GenericData.toString` (Avro 1.11; `HoodieCDCUtils.recordToJson`).

Values appear as stored: a decimal as the list of its bytes, a date as its days, null as `null`, and a missing record as
the text `null`. Maps have the order of Java's hash map.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.hashing import avro_utf8_hash
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

_ESCAPED = "\x7f-\x9f\u2000-\u20ff"
_BRANCH = re.compile(r"member\d+")
_LOGICAL = ("logicalType", "precision", "scale")


def stored_types(avro: Any) -> Any:
    """An Avro schema without logical types, so that values are read as stored."""
    if isinstance(avro, list):
        return [stored_types(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    kept = {name: value for name, value in avro.items() if name not in _LOGICAL}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = stored_types(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [stored_types(field) for field in kept["fields"]]
    return kept


def record_text(records: pa.Array) -> pa.Array:
    """Each record as text, `null` for a null; string without nulls.

    Args:
        records: a struct array of values as stored; other types for members of records.

    Raises:
        UnsupportedTableError: a member has a type that Avro does not have.
    """
    values = plain_array(records)
    if pa.types.is_null(values.type):
        return pa.array(["null"] * len(values), pa.string())
    return pc.fill_null(_text(values), "null")


def _text(values: pa.Array) -> pa.Array:
    kind = values.type
    is_ = pa.types
    if is_.is_boolean(kind) or is_.is_integer(kind) or is_.is_floating(kind):
        return number(values)
    if is_.is_string(kind) or is_.is_large_string(kind):
        return quoted(values, _ESCAPED)
    if is_.is_fixed_size_binary(kind):
        return _fixed(values)
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        # Value by value: Arrow has no kernel that decodes Latin-1
        texts = [None if value is None else value.decode("latin-1") for value in values.to_pylist()]
        return quoted(pa.array(texts, pa.string()), _ESCAPED)
    if is_.is_struct(kind):
        return where_valid(_record(values), values)
    if is_.is_map(kind):
        return where_valid(_map(values), values)
    if is_.is_list(kind) or is_.is_large_list(kind):
        offsets, items = items_of(values)
        return where_valid(joined(["[", joined_items(record_text(items), offsets, ", "), "]"]), values)
    raise UnsupportedTableError(f"Cannot write a value of type {kind} of a change log: Avro has no such type")


def _record(values: pa.StructArray) -> pa.Array:
    names = [field.name for field in values.type]
    members = values.flatten()
    if not names:
        return pa.array(["{}"] * len(values), pa.string())
    if all(_BRANCH.fullmatch(name) for name in names):
        # A union: one of its branches is set, and only its value is written
        return pc.coalesce(*[where_valid(record_text(member), member) for member in members])
    parts: list[pa.Array | str] = ["{"]
    for number_, (name, member) in enumerate(zip(names, members, strict=True)):
        parts += [f'{", " if number_ else ""}"{name}": ', record_text(member)]
    return joined([*parts, "}"])


def _fixed(values: pa.FixedSizeBinaryArray) -> pa.Array:
    size = values.type.byte_width
    filled = values.fill_null(bytes(size)) if values.null_count else values
    bytes_ = np.frombuffer(filled.buffers()[1], np.int8, len(values) * size, filled.offset * size)
    offsets = np.arange(0, len(bytes_) + 1, max(size, 1), dtype=np.int64)
    texts = joined_items(pa.array(bytes_).cast(pa.string()), offsets[: len(values) + 1], ", ")
    return where_valid(joined(["[", texts, "]"]), values)


def _map(values: pa.MapArray) -> pa.Array:
    offsets, entries = items_of(values)
    keys, items = entries.flatten()
    keys = plain_array(keys)
    texts = _ordered(joined([quoted(keys, _ESCAPED), ": ", record_text(items)]), keys, offsets)
    return joined(["{", joined_items(texts, offsets, ", "), "}"])


def _ordered(texts: pa.Array, keys: pa.Array, offsets: Offsets) -> pa.Array:
    """Entries in the order of a `java.util.HashMap` sized for them: by bucket, then by insertion."""
    row, size = lengths_of_items(offsets)
    if not len(size) or int(size.max()) <= 1:
        return texts
    buckets = 1 << np.ceil(np.log2(size)).astype(np.int64)
    buckets = np.where(size * 4 > buckets * 3, buckets * 2, buckets)
    codes = avro_utf8_hash(keys).view(np.uint32)
    bucket = (codes ^ (codes >> np.uint32(16))).astype(np.int64) & (buckets - 1)
    place = np.arange(len(row), dtype=np.int64)
    return texts.take(pa.array(np.lexsort((place, bucket, row))))
