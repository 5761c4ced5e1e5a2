"""Formats floating-point numbers as Java does."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa


def java_float_texts(array: pa.Array) -> pa.StringArray:
    """Formats floating-point values as `Double.toString` does (32 bits: `Float.toString`); keeps nulls.

    Prints the shortest digits that identify a value, as Java does since 19; older releases print a superfluous digit
    for a few values.
    """
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    text = java_float if pa.types.is_float32(array.type) else java_double
    encoded = array.dictionary_encode()
    # A Python loop over the distinct values: no Arrow or NumPy kernel has Java's notation (1.0E10, NaN, Infinity)
    printed = pa.array([text(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return printed.take(encoded.indices)


def java_double(value: float) -> str:
    """Formats as `Double.toString`: at least one digit after the point, scientific outside of [1e-3, 1e7)."""
    return _java_form(value, repr(value))


def java_float(value: float) -> str:
    """Formats as `Float.toString`: like `java_double`, with the digits that a 32-bit float needs."""
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
        shortest = f"{value:.1e}"  # with two digits Java chooses the closest, which matters for subnormal values
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
