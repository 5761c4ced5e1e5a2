"""Spark's type rules for filters: literals, casts of constants, and the type in which operands are compared.

Follows Spark 4 in ANSI mode, its default (`AnsiTypeCoercion`, `DecimalPrecisionTypeCoercion`, `Cast`). Casts that fail
in Spark are refused, even if they fail only for some values of a column: text columns are compared with text only.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import is_number, is_text

_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_MAX_PRECISION = 38
_BLANKS = "".join(map(chr, range(0x21)))
"""Characters that Spark trims from text before it parses a value, as far as this subset needs them."""
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_SPECIAL_TEXT = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?", re.DOTALL)
_TIMESTAMP_TEXT = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{_TIME}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?")
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_FURTHEST_ZONE = datetime.timedelta(hours=18)
_EXACT = decimal.Context(prec=2000, rounding=decimal.ROUND_HALF_UP)
_UTC = datetime.timezone.utc


def names_zone(text: str) -> bool:
    """Returns whether a text that is read as a timestamp names its zone."""
    match = _TIMESTAMP_TEXT.fullmatch(text.strip(_BLANKS))
    return match is not None and match.groups()[-1] is not None


def converts(value: object, target: pa.DataType) -> bool:
    """Returns whether `convert` accepts the constant."""
    try:
        convert(value, target)
    except ValueError:
        return False
    return True


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type in which two operands are compared; None if Spark or this subset has none."""
    if left.equals(right):
        return left if not pa.types.is_nested(left) else None
    if pa.types.is_null(left) or pa.types.is_null(right):
        return right if pa.types.is_null(left) else left
    if is_text(left) or is_text(right):
        return _common_with_text(right if is_text(left) else left)
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if pa.types.is_temporal(left) and pa.types.is_temporal(right):
        return _common_time(left, right)
    return None


def _common_time(*kinds: pa.DataType) -> pa.DataType | None:
    stamps = [kind for kind in kinds if pa.types.is_timestamp(kind)]
    zone = next((kind.tz for kind in stamps if kind.tz), None)
    dates = all(pa.types.is_date(kind) for kind in kinds if kind not in stamps)
    return pa.timestamp("us", zone) if stamps and dates else None


def _common_with_text(other: pa.DataType) -> pa.DataType | None:
    if is_text(other):
        return pa.string()
    if pa.types.is_integer(other):
        return pa.int64()
    if is_number(other):
        return pa.float64()
    if pa.types.is_timestamp(other):
        return pa.timestamp("us", other.tz)
    return other if pa.types.is_date(other) or pa.types.is_boolean(other) or pa.types.is_binary(other) else None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return max((left, right), key=lambda kind: _INTEGERS.index(kind) if kind in _INTEGERS else len(_INTEGERS))
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    whole, scale = 0, 0
    for kind in (left, right):
        precision, fraction = (
            (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (_DIGITS[kind.bit_width], 0)
        )
        whole, scale = max(whole, precision - fraction), max(scale, fraction)
    # Spark would lose digits of a wider type
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MAX_PRECISION else None


def cast(values: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Casts a column's values to `target`, a `common_type` of theirs.

    Raises:
        pyarrow.ArrowInvalid: a date or timestamp is out of range for 64-bit microseconds.
    """
    source = values.type
    if source.equals(target):
        return values
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        # Arrow's own cast is off by one unit for some values
        return pc.cast(pc.cast(values, pa.string()), target)
    return pc.cast(values, target, safe=not pa.types.is_floating(target))


def convert(value: object, target: pa.DataType) -> object:
    """Converts a constant to `target`.

    Raises:
        ValueError: Spark has no such cast, the cast fails, or its result is uncertain.
    """
    if isinstance(value, str):
        return _read_text(value, target)
    numeric = isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
    if value is None or (pa.types.is_boolean(target) and isinstance(value, bool)):
        return value
    if pa.types.is_binary(target) and isinstance(value, bytes):
        return value
    if pa.types.is_integer(target) and isinstance(value, int) and numeric:
        if not _fits_integer(value, target):
            raise ValueError("out of range")
        return value
    if pa.types.is_floating(target) and isinstance(value, int | float | decimal.Decimal) and numeric:
        return _rounded_float(value, target)
    if pa.types.is_decimal(target) and isinstance(value, int | decimal.Decimal) and numeric:
        return _scaled_decimal(decimal.Decimal(value), target)
    if isinstance(value, datetime.date):
        return _temporal_value(value, target)
    raise ValueError("no such cast")


def _fits_integer(value: int, kind: pa.DataType) -> bool:
    limit = 2 ** (kind.bit_width - 1)
    return bool(-limit <= value < limit)


def _rounded_float(value: float | decimal.Decimal, target: pa.DataType) -> float:
    """Returns the nearest number of the type, rounded once."""
    if pa.types.is_float64(target):
        return float(value)
    exact = pa.scalar(value) if isinstance(value, float) else pa.scalar(str(value))
    return float(pc.cast(exact, target, safe=False).as_py())


def _scaled_decimal(value: decimal.Decimal, target: pa.DataType) -> decimal.Decimal:
    try:
        result = value.quantize(decimal.Decimal(1).scaleb(-target.scale), context=_EXACT)
    except decimal.InvalidOperation:
        raise ValueError("too many digits") from None
    if result and len(result.as_tuple().digits) > target.precision:
        raise ValueError("out of range")
    return result


def _temporal_value(value: datetime.date, target: pa.DataType) -> datetime.date:
    if pa.types.is_date(target) and not isinstance(value, datetime.datetime):
        return value
    if not pa.types.is_timestamp(target):
        raise ValueError("no such cast")
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if target.tz and value.tzinfo is None:
        return value.replace(tzinfo=_UTC)
    if not target.tz and value.tzinfo is not None:
        raise ValueError("depends on the zone")
    return value


def _read_text(given: str, target: pa.DataType) -> object:
    """Parses a text as a value."""
    if is_text(target):
        return given
    if pa.types.is_binary(target):
        return given.encode()
    text = given.strip(_BLANKS)
    if pa.types.is_boolean(target) and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if pa.types.is_integer(target) and _INTEGER_TEXT.fullmatch(text):
        return convert(int(text), target)
    if pa.types.is_floating(target) and _SPECIAL_TEXT.fullmatch(text):
        return float(text)
    if pa.types.is_floating(target) and _DECIMAL_TEXT.fullmatch(text):
        return _rounded_float(decimal.Decimal(text), target)
    if pa.types.is_decimal(target) and _DECIMAL_TEXT.fullmatch(text):
        return _scaled_decimal(decimal.Decimal(text), target)
    if pa.types.is_date(target) and _DATE_TEXT.fullmatch(text):
        return datetime.date.fromisoformat(text[:10])
    if pa.types.is_timestamp(target) and _TIMESTAMP_TEXT.fullmatch(text):
        return _read_timestamp(text, with_zone=bool(target.tz))
    raise ValueError("not such a value")


def _read_timestamp(text: str, *, with_zone: bool) -> datetime.datetime:
    """Parses a timestamp; in UTC if `with_zone`, even if the text names no zone."""
    point = text.find(".") + 1
    if point:  # Python 3.10 accepts only three or six digits
        digits = re.match("[0-9]*", text[point:])
        assert digits is not None
        text = text[:point] + digits[0].ljust(6, "0") + text[point + len(digits[0]) :]
    stamp = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    offset = stamp.utcoffset()
    if offset is None:
        return stamp.replace(tzinfo=_UTC) if with_zone else stamp
    if not with_zone or abs(offset) > _FURTHEST_ZONE:
        raise ValueError("the zone does not fit")
    try:
        return stamp.astimezone(_UTC)
    except OverflowError:
        raise ValueError("out of range") from None


def number(text: str) -> tuple[int | float | decimal.Decimal, pa.DataType]:
    """Parses a number without suffix and returns its type: INT, BIGINT or DECIMAL by its digits, DOUBLE with an
    exponent.

    Raises:
        ValueError: it has too many digits for DECIMAL, or exceeds DOUBLE.
    """
    if "e" in text.lower():
        value = float(text)
        if math.isinf(value):
            raise ValueError("out of range")
        return value, pa.float64()
    if "." not in text:
        for kind in (pa.int32(), pa.int64()):
            if _fits_integer(int(text), kind):
                return int(text), kind
    exact = decimal.Decimal(text)
    return exact, decimal_type(exact)


def decimal_type(value: decimal.Decimal) -> pa.DataType:
    """Returns the smallest DECIMAL that holds a number with its trailing zeros.

    Raises:
        ValueError: it has too many digits.
    """
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale, 1)
    if precision > _MAX_PRECISION:
        raise ValueError("too many digits")
    return pa.decimal128(precision, scale)
