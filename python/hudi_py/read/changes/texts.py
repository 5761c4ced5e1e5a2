"""Formats the images of changes as Java does, a column at a time: records of change logs, and rows.

Records of change logs have Avro's own JSON, `GenericData.toString` (Avro 1.11; `HoodieCDCUtils.recordToJson`): values
appear as stored, a decimal as the list of its bytes, a date as its days, null as `null`, and a missing record as the
text `null`. Maps have the order of Java's hash map.

Rows have Jackson's JSON of a Spark row (`InternalRowToJsonStringConverter`, 1.2.0, Scala 2.12), which passes Spark's
internal values to Jackson: null members of objects are left out; dates are days, timestamps microseconds since the
epoch; binary is in Base64; a decimal is reduced to a property of its Java class, `{"zero":false}`; members of nested
structs and maps with more than four entries have the order of Scala's hash map.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.arrays import is_bytes, is_text
from hudi_py.formats.keys.hashing import avro_utf8_hash, java_string_hash
from hudi_py.schema import java_float_texts

_Offsets = npt.NDArray[np.int64]
_SHORT = (("\\", "\\\\"), ('"', '\\"'), ("\b", "\\b"), ("\t", "\\t"), ("\n", "\\n"), ("\f", "\\f"), ("\r", "\\r"))
_ALWAYS = '"\\\\\x00-\x1f'
_DIGITS_ONLY = r"^-?[0-9]+$"
_ESCAPED = "\x7f-\x9f\u2000-\u20ff"
_BRANCH = re.compile(r"member\d+")
_LOGICAL = ("logicalType", "precision", "scale")
_SMALL_MAP = 4
"""Maximum size of Scala maps that keep their order."""


def stored_types(avro: Any) -> Any:
    """Removes logical types from an Avro schema, so that values are read as stored."""
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
    """Formats each record as text, `null` for a null; string without nulls.

    Args:
        records: a struct array of values as stored; other types for members of records.

    Raises:
        UnsupportedTableError: a member has a type that Avro does not have.
    """
    values = _plain_array(records)
    if pa.types.is_null(values.type):
        return pa.array(["null"] * len(values), pa.string())
    return pc.fill_null(_avro_text(values), "null")


def row_text(batch: pa.RecordBatch) -> pa.Array:
    """Formats each row as a JSON object, string.

    Raises:
        UnsupportedTableError: a column has a type that Hudi tables do not have.
    """
    return _json_object(
        [(field.name, _row_value(column)) for field, column in zip(batch.schema, batch.columns, strict=True)],
        batch.num_rows,
    )


def _avro_text(values: pa.Array) -> pa.Array:
    kind = values.type
    is_ = pa.types
    if is_.is_boolean(kind) or is_.is_integer(kind) or is_.is_floating(kind):
        return _number_texts(values)
    if is_.is_string(kind) or is_.is_large_string(kind):
        return _quoted_texts(values, _ESCAPED)
    if is_.is_fixed_size_binary(kind):
        return _avro_fixed(values)
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        # Value by value: Arrow has no kernel that decodes Latin-1
        texts = [None if value is None else value.decode("latin-1") for value in values.to_pylist()]
        return _quoted_texts(pa.array(texts, pa.string()), _ESCAPED)
    if is_.is_struct(kind):
        return _where_valid(_avro_record(values), values)
    if is_.is_map(kind):
        return _where_valid(_avro_map(values), values)
    if is_.is_list(kind) or is_.is_large_list(kind):
        offsets, items = _items_of(values)
        return _where_valid(_joined_texts(["[", _joined_items(record_text(items), offsets, ", "), "]"]), values)
    raise UnsupportedTableError(f"Cannot write a value of type {kind} of a change log: Avro has no such type")


def _avro_record(values: pa.StructArray) -> pa.Array:
    names = [field.name for field in values.type]
    members = values.flatten()
    if not names:
        return pa.array(["{}"] * len(values), pa.string())
    if all(_BRANCH.fullmatch(name) for name in names):
        # A union: one of its branches is set; only the branch's value is written
        return pc.coalesce(*[_where_valid(record_text(member), member) for member in members])
    parts: list[pa.Array | str] = ["{"]
    for index, (name, member) in enumerate(zip(names, members, strict=True)):
        parts += [f'{", " if index else ""}"{name}": ', record_text(member)]
    return _joined_texts([*parts, "}"])


def _avro_fixed(values: pa.FixedSizeBinaryArray) -> pa.Array:
    size = values.type.byte_width
    filled = values.fill_null(bytes(size)) if values.null_count else values
    bytes_ = np.frombuffer(filled.buffers()[1], np.int8, len(values) * size, filled.offset * size)
    offsets = np.arange(0, len(bytes_) + 1, max(size, 1), dtype=np.int64)
    texts = _joined_items(pa.array(bytes_).cast(pa.string()), offsets[: len(values) + 1], ", ")
    return _where_valid(_joined_texts(["[", texts, "]"]), values)


def _avro_map(values: pa.MapArray) -> pa.Array:
    offsets, entries = _items_of(values)
    keys, items = entries.flatten()
    keys = _plain_array(keys)
    texts = _java_ordered(_joined_texts([_quoted_texts(keys, _ESCAPED), ": ", record_text(items)]), keys, offsets)
    return _joined_texts(["{", _joined_items(texts, offsets, ", "), "}"])


def _java_ordered(texts: pa.Array, keys: pa.Array, offsets: _Offsets) -> pa.Array:
    """Sorts entries as a `java.util.HashMap` of their number does: by bucket, then by insertion."""
    row, size = _lengths_of_items(offsets)
    if not len(size) or int(size.max()) <= 1:
        return texts
    buckets = 1 << np.ceil(np.log2(size)).astype(np.int64)
    buckets = np.where(size * 4 > buckets * 3, buckets * 2, buckets)
    codes = avro_utf8_hash(keys).view(np.uint32)
    bucket = (codes ^ (codes >> np.uint32(16))).astype(np.int64) & (buckets - 1)
    place = np.arange(len(row), dtype=np.int64)
    return texts.take(pa.array(np.lexsort((place, bucket, row))))


def _json_object(members: list[tuple[str, pa.Array]], rows: int) -> pa.Array:
    if not members:
        return pa.array(["{}"] * rows, pa.string())
    parts = [_joined_texts([f",{_json_name(name)}:", text]) for name, text in members]
    # Every member starts with a comma, and the first comma is removed: Arrow 26 would omit a row of nulls otherwise
    return pc.replace_substring(_joined_texts(["{", *parts, "}"], skip_nulls=True), "{,", "{", max_replacements=1)


def _json_name(name: str) -> str:
    text: str = _quoted_texts(pa.array([name]))[0].as_py()
    return text


def _row_value(values: pa.Array) -> pa.Array:
    """Formats each value; null for null."""
    values = _plain_array(values)
    for fits, text in _TEXTS:
        if fits(values.type):
            return text(values)
    raise UnsupportedTableError(f"Cannot write a column of type {values.type} as JSON; Hudi tables have no such type")


def _null_texts(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), pa.string())


def _decimal_texts(values: pa.Array) -> pa.Array:
    zero = pc.equal(values, pa.scalar(0, pa.int64()).cast(pa.decimal128(19, 0)).cast(values.type))
    return _joined_texts(['{"zero":', zero.cast(pa.string()), "}"])


def _day_texts(values: pa.Array) -> pa.Array:
    return values.view(pa.int32()).cast(pa.string())


def _time_texts(values: pa.Array) -> pa.Array:
    return values.view(pa.int64()).cast(pa.string())


def _timestamp_texts(values: pa.Array) -> pa.Array:
    return _time_texts(values.cast(pa.timestamp("us", values.type.tz), safe=False))


def _byte_texts(values: pa.Array) -> pa.Array:
    # Value by value: Arrow has no kernel for Base64
    coded = [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
    return _joined_texts(['"', pa.array(coded, pa.string()), '"'])


def _struct_texts(values: pa.StructArray) -> pa.Array:
    members = [(field.name, _row_value(member)) for field, member in zip(values.type, values.flatten(), strict=True)]
    if len(members) > _SMALL_MAP:
        order = np.argsort(_scala_order(java_string_hash(pa.array([name for name, _ in members])).view(np.uint32)))
        members = [members[index] for index in order]
    return _where_valid(_json_object(members, len(values)), values)


def _list_texts(values: pa.Array) -> pa.Array:
    offsets, items = _items_of(values)
    texts = pc.fill_null(_row_value(items), "null")
    return _where_valid(_joined_texts(["[", _joined_items(texts, offsets, ","), "]"]), values)


def _json_map(values: pa.MapArray) -> pa.Array:
    offsets, entries = _items_of(values)
    keys, items = entries.flatten()
    keys = _plain_array(keys)
    texts = _joined_texts([_row_value(keys), ":", _row_value(items)])
    texts, offsets = _scala_ordered(texts, keys, offsets)
    kept = texts.is_valid().to_numpy(zero_copy_only=False)
    if not kept.all():
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])[offsets]
        texts = texts.drop_null()
    return _where_valid(_joined_texts(["{", _joined_items(texts, offsets, ","), "}"]), values)


def _scala_ordered(texts: pa.Array, keys: pa.Array, offsets: _Offsets) -> tuple[pa.Array, _Offsets]:
    row, size = _lengths_of_items(offsets)
    if not len(size) or int(size.max()) <= _SMALL_MAP:
        return texts, offsets
    place = np.arange(len(row), dtype=np.uint64)
    rank = np.where(size > _SMALL_MAP, _scala_order(java_string_hash(keys).view(np.uint32)), place)
    return texts.take(pa.array(np.lexsort((place, rank, row)))), offsets


def _scala_order(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Ranks keys in the order of `scala.collection.immutable.HashMap` (2.12): a trie of the mixed hash, 5 bits a
    level."""
    h = codes + ~(codes << np.uint32(9))
    h = h ^ (h >> np.uint32(14))
    h = h + (h << np.uint32(4))
    h = h ^ (h >> np.uint32(10))
    rank = np.zeros(len(h), np.uint64)
    for level in range(0, 35, 5):
        rank = (rank << np.uint64(5)) | ((h >> np.uint32(level)) & np.uint32(31)).astype(np.uint64)
    return rank


def _quoted_texts(values: pa.Array, beyond: str = "") -> pa.Array:
    """Quotes text; null stays null.

    Escapes `"`, `\\`, control characters, and the characters of `beyond` (ranges as in a regular expression).
    """
    values = values.cast(pa.string())
    if pc.any(pc.match_substring_regex(values, f"[{_ALWAYS}{beyond}]")).as_py():
        for plain, short in _SHORT:
            values = pc.replace_substring(values, plain, short)
        values = _escaped_texts(values, f"[\x00-\x1f{beyond}]")
    return _joined_texts(['"', values, '"'])


def _escaped_texts(values: pa.Array, rare: str) -> pa.Array:
    mask = pc.fill_null(pc.match_substring_regex(values, rare), False)
    if not pc.any(mask).as_py():
        return values
    pattern = re.compile(rare)
    # Value by value: Arrow cannot compute a replacement from the match, and such texts are rare
    texts = [pattern.sub(_unicode_escape, text) for text in values.filter(mask).to_pylist()]
    return pc.replace_with_mask(values, mask, pa.array(texts, pa.string()))


def _unicode_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04X}"


def _number_texts(values: pa.Array) -> pa.Array:
    """Formats numbers and booleans as Java does, with NaN and infinities in quotes."""
    if not pa.types.is_floating(values.type):
        return values.cast(pa.string())
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    size = pc.abs(values)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    texts = values.cast(pa.string())
    whole = pc.match_substring_regex(texts, _DIGITS_ONLY)
    texts = pc.if_else(whole, _joined_texts([texts, ".0"]), texts)
    rare = pc.fill_null(pc.invert(plain), False)
    if pc.any(rare).as_py():
        odd = java_float_texts(values.filter(rare))
        named = pc.match_substring_regex(odd, "[Ny]$")  # NaN, Infinity
        texts = pc.replace_with_mask(texts, rare, pc.if_else(named, _joined_texts(['"', odd, '"']), odd))
    return texts


def _joined_texts(parts: Sequence[pa.Array | str], *, skip_nulls: bool = False) -> pa.Array:
    """Concatenates columns and constants row by row; null if any is null, unless nulls are skipped.

    At least one part must be a column and, if nulls are skipped, one a constant.
    """
    handling = "skip" if skip_nulls else "emit_null"
    taken = [part if isinstance(part, pa.Array) else pa.scalar(part) for part in parts]
    return pc.binary_join_element_wise(*taken, "", null_handling=handling)


def _joined_items(items: pa.Array, offsets: _Offsets, separator: str) -> pa.Array:
    """Concatenates the items (without nulls) between each pair of offsets."""
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)
    return pc.binary_join(lists, separator)


def _where_valid(texts: pa.Array, values: pa.Array) -> pa.Array:
    """Returns the texts, null where the values are null."""
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def _items_of(values: pa.Array) -> tuple[_Offsets, pa.Array]:
    """Returns offsets from zero of a list or map array, and the items they cover (for a map: structs of key and
    value)."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    offsets = np.asarray(values.offsets).astype(np.int64)
    if not len(offsets):
        return np.zeros(1, np.int64), values.values.slice(0, 0)
    return offsets - offsets[0], values.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _lengths_of_items(offsets: _Offsets) -> tuple[_Offsets, _Offsets]:
    """Returns for each item the index of its row and how many items that row has."""
    counts = np.diff(offsets)
    row = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return row, counts[row]


def _plain_array(values: pa.Array) -> pa.Array:
    """Returns the array without dictionary encoding or extension type."""
    if isinstance(values, pa.ExtensionArray):
        return _plain_array(values.storage)
    if pa.types.is_dictionary(values.type):
        return _plain_array(values.dictionary_decode())
    return values


_TEXTS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]]]] = (
    (pa.types.is_null, _null_texts),
    (pa.types.is_boolean, _number_texts),
    (pa.types.is_integer, _number_texts),
    (pa.types.is_floating, _number_texts),
    (is_text, _quoted_texts),
    (pa.types.is_decimal, _decimal_texts),
    (pa.types.is_date32, _day_texts),
    (pa.types.is_timestamp, _timestamp_texts),
    (pa.types.is_time32, _day_texts),
    (pa.types.is_time64, _time_texts),
    (is_bytes, _byte_texts),
    (pa.types.is_struct, _struct_texts),
    (pa.types.is_map, _json_map),
    (pa.types.is_list, _list_texts),
    (pa.types.is_large_list, _list_texts),
    (pa.types.is_fixed_size_list, _list_texts),
)
"""Formatters of values by type; the first match counts."""
