"""Text functions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.expressions.functions.regex import JavaRegex, replacement
from hudi_py.formats.arrays import combined, is_bytes
from hudi_py.schema.conform import conform_array


def as_texts(values: pa.Array) -> pa.StringArray:
    """Casts scalars of any type except timestamps to text, as Spark does."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if is_bytes(kind):
        return values.cast(pa.binary()).cast(pa.string())
    return combined(conform_array(values, pa.string()))


def by_distinct(values: pa.Array, function: Callable[[str], object], kind: pa.DataType) -> pa.Array:
    """Applies a function to each distinct text."""
    encoded = values.dictionary_encode()
    # a Python loop over distinct values: no kernel follows Java's rules
    changed = pa.array([None if text is None else function(text) for text in encoded.dictionary.to_pylist()], kind)
    return changed.take(encoded.indices)


def lower(texts: pa.Array) -> pa.Array:
    """Applies `toLowerCase`. Arrow maps single characters, but Java and Python whole text."""
    return pc.ascii_lower(texts) if _is_ascii(texts) else by_distinct(texts, str.lower, pa.string())


def upper(texts: pa.Array) -> pa.Array:
    """Applies `toUpperCase`."""
    return pc.ascii_upper(texts) if _is_ascii(texts) else by_distinct(texts, str.upper, pa.string())


def _is_ascii(texts: pa.Array) -> bool:
    return bool(pc.all(pc.string_is_ascii(texts), min_count=0).as_py())


def trim(texts: pa.Array, characters: str, left: bool, right: bool) -> pa.Array:
    """Strips some characters from the ends."""
    if not characters:
        return texts
    kernel = pc.utf8_trim if left and right else pc.utf8_ltrim if left else pc.utf8_rtrim
    return kernel(texts, characters=characters)


def substring(values: pa.Array, position: int, length: int) -> pa.Array:
    """Takes a part of text or bytes (`UTF8String.substringSQL`, `ByteArray.subStringSQL`).

    Args:
        position: the first is 1, like 0; a negative one counts from the end, and may lie before the start.
    """
    kind = pa.binary() if is_bytes(values.type) else pa.string()
    if position < 0 or length <= 0:
        return _sliced_texts(values, position, length, kind)
    start = max(position - 1, 0)
    stop = min(start + length, 2**31 - 1)
    if pa.types.is_binary(kind):
        return pc.binary_slice(values.cast(kind), start, stop)
    return pc.utf8_slice_codeunits(values, start, stop)


def _sliced_texts(values: pa.Array, position: int, length: int, kind: pa.DataType) -> pa.Array:
    in_bytes = bool(pa.types.is_binary(kind))

    def cut(value: str | bytes) -> str | bytes:
        if length <= 0:
            return value[:0]
        start = len(value) + position
        if in_bytes:
            return value[max(start, 0) : min(start + length, len(value))] if start + length > 0 else value[:0]
        return value[max(start, 0) : max(start + length, 0)]

    encoded = values.cast(kind).dictionary_encode()
    # a Python loop over distinct values: Arrow cannot count from the end and stop before it
    changed = pa.array([None if value is None else cut(value) for value in encoded.dictionary.to_pylist()], kind)
    return changed.take(encoded.indices)


def length(values: pa.Array) -> pa.Array:
    """Counts characters of text, or bytes of binary values."""
    kernel = pc.binary_length if is_bytes(values.type) else pc.utf8_length
    return kernel(values).cast(pa.int32())


def regexp_replace(texts: pa.Array, regex: JavaRegex, given: str) -> pa.Array:
    """Replaces every match."""
    replace = replacement(given, regex)
    return by_distinct(texts, lambda text: regex.compiled.sub(replace, text), pa.string())


def regexp_extract(texts: pa.Array, regex: JavaRegex, group: int) -> pa.Array:
    """Returns a group of the first match; empty text if there is no match, or the group did not take part in it."""

    def one(text: str) -> str:
        match = regex.compiled.search(text)
        return "" if match is None else match[group] or ""

    return by_distinct(texts, one, pa.string())


def split(texts: pa.Array, regex: JavaRegex) -> pa.Array:
    """Splits at matches (`UTF8String.split` with the limit -1, `Pattern.split`)."""

    def one(text: str) -> list[str]:
        if not regex.text:
            return list(text) or [""]
        parts, position = [], 0
        for match in regex.compiled.finditer(text):
            if match.end() == 0:
                continue  # an empty match at the start does not split
            parts.append(text[position : match.start()])
            position = match.end()
        return [*parts, text[position:]]

    return by_distinct(texts, one, pa.list_(pa.string()))


def decimal_texts(values: pa.Array) -> pa.Array:
    """Prints decimals as `BigDecimal.toString`, which uses an exponent for small numbers, as Python does."""
    if values.type.scale <= 6:
        return values.cast(pa.string())
    # a Python loop over values: Arrow's notation differs for numbers below a millionth
    return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
