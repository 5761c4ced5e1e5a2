"""Spark's implicit casts, as far as comparisons in a filter need them (`TypeCoercion`, Spark 3.5).

A text compared with a number, date, timestamp or boolean is read as one; text which cannot be read so is NULL.
"""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pyarrow.compute as pc

_PRECEDENCE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
_INTEGER_TEXT = r"^[+-]?[0-9]{1,18}$"
_FLOAT_TEXT = r"(?i)^([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|[+-]?inf(inity)?)$"
_DATE_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIMESTAMP_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$"


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two operands are compared; None where Spark or this subset has none."""
    if left.equals(right):
        return left if not pa.types.is_nested(left) else None
    if pa.types.is_null(left) or pa.types.is_null(right):
        return right if pa.types.is_null(left) else left
    if is_text(left) or is_text(right):
        other = right if is_text(left) else left
        if is_text(other):
            return pa.string()
        if pa.types.is_integer(other):
            return pa.int64()
        if is_number(other):
            return pa.float64()
        if pa.types.is_date(other) or pa.types.is_timestamp(other) or pa.types.is_boolean(other):
            return other
        return other if pa.types.is_binary(other) else None
    if is_number(left) and is_number(right):
        if pa.types.is_decimal(left) or pa.types.is_decimal(right):
            return _common_decimal(left, right)
        ranks = [_PRECEDENCE.index(kind) if kind in _PRECEDENCE else 5 for kind in (left, right)]
        return _PRECEDENCE[max(ranks)]
    if pa.types.is_temporal(left) and pa.types.is_temporal(right):
        stamps = [kind for kind in (left, right) if pa.types.is_timestamp(kind)]
        zone = next((kind.tz for kind in stamps if kind.tz), None)
        return pa.timestamp("us", zone) if stamps else None
    return None


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    whole, scale = 0, 0
    for kind in (left, right):
        precision, fraction = (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (20, 0)
        whole, scale = max(whole, precision - fraction), max(scale, fraction)
    return pa.decimal256(whole + scale, scale) if whole + scale > 38 else pa.decimal128(whole + scale, scale)


def cast(values: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The values as `target`, which is a `common_type` of theirs; unreadable text becomes null."""
    source = values.type
    if source.equals(target):
        return values
    if is_text(source) and not is_text(target) and not pa.types.is_binary(target):
        return _parse(values, target)
    return pc.cast(values, target, safe=False)


def _parse(values: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    text = pc.utf8_trim_whitespace(values)
    if pa.types.is_integer(target):
        return pc.cast(_only(text, _INTEGER_TEXT), target)
    if pa.types.is_floating(target):
        return pc.cast(_only(text, _FLOAT_TEXT), target)
    if pa.types.is_boolean(target):
        lower = pc.utf8_lower(text)
        true = pc.is_in(lower, value_set=pa.array(["t", "true", "y", "yes", "1"]))
        known = pc.is_in(lower, value_set=pa.array(["t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"]))
        return pc.if_else(known, true, pa.scalar(None, pa.bool_()))
    # Arrow's parser fails as a whole on one bad value, so dates are read one distinct value at a time
    distinct = pc.unique(text)
    parsed = [parse_temporal(value, target) for value in distinct.to_pylist()]
    lookup = pa.array(parsed, pa.timestamp("us", "UTC") if pa.types.is_timestamp(target) else pa.date32())
    return pc.take(lookup.cast(target), pc.index_in(text, value_set=distinct))


def _only(text: pa.Array | pa.ChunkedArray, pattern: str) -> pa.Array | pa.ChunkedArray:
    return pc.if_else(pc.match_substring_regex(text, pattern), text, pa.scalar(None, text.type))


def parse_temporal(text: str | None, target: pa.DataType) -> datetime.date | datetime.datetime | None:
    """A date, or a timestamp (UTC where the text names no zone), as `target` asks; None when the text is neither."""
    if text is None:
        return None
    try:
        if pa.types.is_date(target):
            return datetime.date.fromisoformat(text[:10]) if len(text) == 10 or text[10] in " T" else None
        stamp = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, IndexError):
        return None
    return stamp.replace(tzinfo=datetime.timezone.utc) if stamp.tzinfo is None else stamp


def literal_type(value: object) -> pa.DataType:
    """The type Spark gives a literal: int or bigint, the decimal of its digits, double, string, ..."""
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return pa.int32()
        return pa.int64() if -(2**63) <= value < 2**63 else pa.decimal128(38, 0)
    if isinstance(value, decimal.Decimal):
        _, digits, exponent = value.as_tuple()
        scale = max(-int(exponent), 0)
        return pa.decimal128(min(max(len(digits) + max(int(exponent), 0), scale, 1), 38), scale)
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, bytes):
        return pa.binary()
    if isinstance(value, datetime.datetime):
        return pa.timestamp("us", "UTC" if value.tzinfo else None)
    if isinstance(value, datetime.date):
        return pa.date32()
    return pa.string()
