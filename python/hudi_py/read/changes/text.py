"""Formats Arrow columns as Java does: what both text forms of a change's images have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.schema import java_float_texts

Offsets = npt.NDArray[np.int64]

_SHORT = (("\\", "\\\\"), ('"', '\\"'), ("\b", "\\b"), ("\t", "\\t"), ("\n", "\\n"), ("\f", "\\f"), ("\r", "\\r"))
_ALWAYS = '"\\\\\x00-\x1f'
_DIGITS_ONLY = r"^-?[0-9]+$"


def quoted(values: pa.Array, beyond: str = "") -> pa.Array:
    """Quoted text; null stays null.

    Escapes `"`, `\\`, control characters, and the characters of `beyond` (ranges as in a regular expression).
    """
    values = values.cast(pa.string())
    if pc.any(pc.match_substring_regex(values, f"[{_ALWAYS}{beyond}]")).as_py():
        for plain, short in _SHORT:
            values = pc.replace_substring(values, plain, short)
        values = _escaped(values, f"[\x00-\x1f{beyond}]")
    return joined(['"', values, '"'])


def _escaped(values: pa.Array, rare: str) -> pa.Array:
    mask = pc.fill_null(pc.match_substring_regex(values, rare), False)
    if not pc.any(mask).as_py():
        return values
    pattern = re.compile(rare)
    # Value by value: Arrow cannot compute a replacement from the match, and such texts are rare
    texts = [pattern.sub(_unicode_escape, text) for text in values.filter(mask).to_pylist()]
    return pc.replace_with_mask(values, mask, pa.array(texts, pa.string()))


def _unicode_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04X}"


def number(values: pa.Array) -> pa.Array:
    """Numbers and booleans as Java prints them, with NaN and infinities in quotes."""
    if not pa.types.is_floating(values.type):
        return values.cast(pa.string())
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    size = pc.abs(values)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    texts = values.cast(pa.string())
    whole = pc.match_substring_regex(texts, _DIGITS_ONLY)
    texts = pc.if_else(whole, joined([texts, ".0"]), texts)
    rare = pc.fill_null(pc.invert(plain), False)
    if pc.any(rare).as_py():
        odd = java_float_texts(values.filter(rare))
        named = pc.match_substring_regex(odd, "[Ny]$")  # NaN, Infinity
        texts = pc.replace_with_mask(texts, rare, pc.if_else(named, joined(['"', odd, '"']), odd))
    return texts


def joined(parts: Sequence[pa.Array | str], *, skip_nulls: bool = False) -> pa.Array:
    """Concatenates columns and constants row by row; null if any is null, unless nulls are skipped.

    At least one part must be a column and, if nulls are skipped, one a constant.
    """
    handling = "skip" if skip_nulls else "emit_null"
    taken = [part if isinstance(part, pa.Array) else pa.scalar(part) for part in parts]
    return pc.binary_join_element_wise(*taken, "", null_handling=handling)


def joined_items(items: pa.Array, offsets: Offsets, separator: str) -> pa.Array:
    """Concatenates the items (without nulls) between each pair of offsets."""
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)
    return pc.binary_join(lists, separator)


def where_valid(texts: pa.Array, values: pa.Array) -> pa.Array:
    """The texts, null where the values are null."""
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def items_of(values: pa.Array) -> tuple[Offsets, pa.Array]:
    """Offsets from zero of a list or map array, and the items they cover (of a map: structs of key and value)."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    offsets = np.asarray(values.offsets).astype(np.int64)
    if not len(offsets):
        return np.zeros(1, np.int64), values.values.slice(0, 0)
    return offsets - offsets[0], values.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def lengths_of_items(offsets: Offsets) -> tuple[Offsets, Offsets]:
    """For each item, the number of its row and how many items that row has."""
    counts = np.diff(offsets)
    row = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return row, counts[row]


def plain_array(values: pa.Array) -> pa.Array:
    """The array without dictionary encoding or extension type."""
    if isinstance(values, pa.ExtensionArray):
        return plain_array(values.storage)
    if pa.types.is_dictionary(values.type):
        return plain_array(values.dictionary_decode())
    return values
