"""Column values as the text that record keys and partition paths are made of.

Source of the forms: `HoodieAvroUtils.getNestedFieldValAsString` and `KeyGenUtils` of Apache Hudi 1.2.0, checked on the
keys which its upsert, insert and bulk_insert wrote for every type accepted here. Other types are refused: Apache Hudi
renders them differently from one operation to the next (binary: an object's address).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError

_MICROS_PER_MILLI = 1_000


def render(values: pa.Array, column: str, *, millis: bool = False, purpose: str = "a record key") -> pa.StringArray:
    """Each value as Java prints it; nulls stay null.

    Args:
        values: integers, floating point, boolean, string, decimal, date32 or timestamp.
        column: name of the column, for the error.
        millis: the table stores the timestamps of this column as milliseconds: their number is that of milliseconds.
        purpose: what the text is for, for the error.

    Raises:
        ConfigError: the type has no rendering that all of Apache Hudi's writers agree on.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return render(values.dictionary, column, millis=millis, purpose=purpose).take(values.indices)
    if pa.types.is_string(kind):
        return values
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())  # Arrow prints decimals by the rule of BigDecimal.toString
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        _check_exact(values, column, purpose)
        return _by_distinct(values, java_float if pa.types.is_float32(kind) else java_double)
    if pa.types.is_date32(kind):
        return _dates(values, column, purpose)
    if pa.types.is_timestamp(kind):
        micros = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        if millis:
            micros = _floor_divide(micros, _MICROS_PER_MILLI)
        return micros.cast(pa.string())
    raise ConfigError(
        f"Column '{column}' of type {kind} cannot be {purpose}: supported are string, integers, float, double, "
        "boolean, decimal, date and timestamp; choose another column, or add one with the value as text"
    )


def java_double(value: float) -> str:
    """`Double.toString`: shortest digits that tell the value from its neighbours (as of Java 19; older JDKs print a
    superfluous digit for a few values), at least one after the point, scientific outside of [1e-3, 1e7)."""
    return _java_form(value, repr(value))


def java_float(value: float) -> str:
    """`Float.toString`: as `java_double` with the digits a 32-bit float needs."""
    return _java_form(value, np.format_float_scientific(np.float32(value), unique=True))


def _java_form(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    if sum(map(str.isdigit, shortest.lower().partition("e")[0].replace("0", ""))) == 1:
        shortest = f"{value:.1e}"  # of two digits Java takes the closest, which matters for subnormal values
    mantissa, _, exponent_text = shortest.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    exponent = int(exponent_text or 0) + len(whole)  # value = 0.digits * 10^exponent
    exponent -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0") or "0"
    if -2 <= exponent <= 7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        digits = digits.ljust(exponent, "0")
        return f"{sign}{digits[:exponent]}.{digits[exponent:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _by_distinct(values: pa.Array, text: Callable[[float], str]) -> pa.StringArray:
    encoded = values.dictionary_encode()
    # a Python loop over the distinct values: no kernel prints numbers as Java does
    printed = pa.array([text(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return printed.take(encoded.indices)


def _check_exact(values: pa.Array, column: str, purpose: str) -> None:
    """Above the exact integers, Java before 19 prints a superfluous digit for some values, so that the text of a value
    depends on who writes it."""
    limit = 2.0**24 if pa.types.is_float32(values.type) else 2.0**53
    large = pc.and_(pc.greater_equal(pc.abs(values), limit), pc.is_finite(values))
    if pc.any(large).as_py():
        raise ConfigError(
            f"Column '{column}' of type {values.type} holds {values.filter(large)[0].as_py()!r}, which cannot be "
            f"{purpose}: Java releases print floating-point numbers from {limit:.0f} on differently; use a decimal or "
            "text column"
        )


def _dates(values: pa.Array, column: str, purpose: str) -> pa.StringArray:
    bounds = pc.min_max(pc.year(values))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < 1 or high > 9999):
        raise ConfigError(
            f"Column '{column}' holds a date of year {low if low < 1 else high}, which cannot be {purpose}: "
            "supported are the years 1 to 9999"
        )
    return values.cast(pa.string())


def _floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    filled = values.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(filled // divisor, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False))
