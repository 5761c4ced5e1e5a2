"""Converts values exactly to the table's types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.errors import SchemaMismatchError
from hudi_py.schema.conform import promotable, promote, readable

_DIGITS: Final = {32: 6, 64: 15}
"""Decimal digits that floating-point numbers with this many bits keep."""


def holds_exactly(target: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether `target` is the wider of two types of one kind: integers, floating point numbers or decimals."""
    types = pa.types
    if types.is_decimal(target) and types.is_decimal(source):
        digits = target.precision - target.scale
        return bool(target.scale >= source.scale and digits >= source.precision - source.scale)
    same = (types.is_integer(target) and types.is_integer(source)) or (
        types.is_floating(target) and types.is_floating(source)
    )
    return bool(same and target.bit_width >= source.bit_width)


def takes(target: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether a column of type `target` takes every value of type `source`."""
    if pa.types.is_integer(target) and pa.types.is_integer(source):
        return bool(source.bit_width <= target.bit_width)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(source):
        return (target.tz is None) == (source.tz is None)  # an instant is not a wall-clock time
    return promotable(source, target)


def may_hold(target: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether `cast_exactly` tries to convert values of a type whose values may not all fit `target`."""
    types = pa.types
    if types.is_integer(target):
        return bool(types.is_integer(source) or types.is_floating(source) or types.is_decimal(source))
    if types.is_floating(target):
        # DuckDB's constants such as 2.5: a number with this many digits has one nearest float, which prints the same
        return bool(types.is_decimal(source) and source.precision <= _DIGITS.get(target.bit_width, 0))
    return bool(types.is_decimal(target) and (types.is_integer(source) or types.is_decimal(source)))


def cast_exactly(array: pa.Array, target: pa.DataType, path: str, _: str = "") -> pa.Array:
    """Converts values to `target` without loss. Numbers become text as Java prints them.

    Args:
        path: names the column, in errors.

    Raises:
        SchemaMismatchError: the type cannot be converted, or a value cannot be held.
    """
    source = array.type
    try:
        if may_hold(target, source):
            if pa.types.is_integer(source) and pa.types.is_decimal(target):
                array = array.cast(pa.decimal256(76, target.scale))  # Arrow requires room for all possible integers
            return array.cast(target)
        if pa.types.is_integer(source) and pa.types.is_floating(target):
            return array.cast(target)
    except pa.ArrowInvalid as error:
        wider = f", or make the table's column {source} for good with {write_config.WIDEN_COLUMNS.key}=true"
        raise SchemaMismatchError(
            f"Column '{path}' is {target} in the table and {source} in the data, which has a value that {target} "
            f"cannot hold exactly ({error}); cast the data{wider if promotable(target, source) else ''}"
        ) from error
    if not readable(source, target):
        raise SchemaMismatchError(f"Column '{path}' is {source} in the data, which cannot be written as {target}")
    return promote(array, target, path, "")
