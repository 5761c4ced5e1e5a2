"""Evaluates filters on bounds of column values, and prunes row groups by the statistics in Parquet footers.

Statistics ignore NaN, which is greater than any number in Spark, so upper bounds of floating-point columns cannot
decide `>` and `>=`.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.expressions.filter import Filter
from hudi_py.expressions.predicate import Column, Comparison, IsNull, Literal, Logical, Membership, Node, Not


@dataclass(frozen=True, slots=True)
class Bounds:
    """Statistics of one column over some rows; None means unknown."""

    low: Any
    """Smallest value; dates and timestamps may be days and microseconds since the epoch."""
    high: Any
    nulls: int | None
    """Rows in which the column is null."""
    rows: int | None


BoundsOf = Callable[[Column], Bounds | None]
"""Bounds of a column; None if nothing is known."""


def row_groups_to_read(file: pq.ParquetFile, given: range, condition: Filter) -> list[int]:
    """Returns the row groups of `given` that may hold rows that satisfy the filter."""
    conjuncts = list(condition.conjuncts())
    if not conjuncts:
        return list(given)
    schema, metadata = file.schema_arrow, file.metadata
    leaves = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}

    def bounds_of(group: int) -> BoundsOf:
        chunk = metadata.row_group(group)

        def bounds(column: Column) -> Bounds | None:
            name = column.path[0]
            field = schema.get_field_index(name)
            if len(column.path) > 1 or field < 0 or name not in leaves:
                return None
            if not schema.field(field).type.equals(column.kind) or not has_usable_bounds(column.kind):
                return None
            statistics = chunk.column(leaves[name]).statistics
            if statistics is None:
                return None
            nulls = statistics.null_count if statistics.has_null_count else None
            low, high = footer_bounds(statistics, column.kind)
            return Bounds(low, high, nulls, chunk.num_rows)

        return bounds

    return [group for group in given if all(may_be_true(node, bounds_of(group)) for node in conjuncts)]


_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}
"""Microseconds per timestamp unit."""


def footer_bounds(statistics: pq.Statistics, kind: pa.DataType) -> tuple[Any, Any]:
    """Returns the smallest and greatest value in a footer's statistics; None if unknown."""
    try:
        if not statistics.has_min_max:
            return None, None
        if pa.types.is_date32(kind):  # as numbers: Python's dates end in the year 9999
            return statistics.min_raw, statistics.max_raw
        if pa.types.is_timestamp(kind):
            unit = _UNITS.get(kind.unit)
            return (None, None) if unit is None else (statistics.min_raw * unit, statistics.max_raw * unit)
        low, high = statistics.min, statistics.max
    except (ValueError, OverflowError, TypeError):  # not a value: text truncated within a character
        return None, None
    known = isinstance(low, _PYTHON) and isinstance(high, _PYTHON) and low == low and high == high
    return (low, high) if known else (None, None)


_PYTHON = (int, float, str, decimal.Decimal)


def has_usable_bounds(kind: pa.DataType) -> bool:
    """Returns whether smallest and greatest values of a type are used for pruning."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
    )


def may_be_true(node: Node, bounds: BoundsOf) -> bool:
    """Returns whether a predicate can be true for a row within the bounds; False is certain, True is not."""
    if isinstance(node, Logical):
        results = (may_be_true(part, bounds) for part in node.parts)
        return all(results) if node.operator == "AND" else any(results)
    if isinstance(node, IsNull) and isinstance(node.operand, Column):
        column = bounds(node.operand)
        return column is None or column.nulls is None or column.nulls > 0
    if isinstance(node, Not) and isinstance(node.operand, IsNull) and isinstance(node.operand.operand, Column):
        column = bounds(node.operand.operand)
        return column is None or column.nulls is None or column.rows is None or column.nulls < column.rows
    if isinstance(node, Comparison):
        return _compare_bounds(node, bounds)
    if isinstance(node, Membership) and isinstance(node.operand, Column) and _same_order(node.operand.kind, node.kind):
        return _may_have_one_of(bounds(node.operand), node.items)
    return True


def _may_have_one_of(bounds: Bounds | None, items: Iterable[Any]) -> bool:
    if bounds is None or bounds.low is None:
        return True
    low, high = _comparable_value(bounds.low), _comparable_value(bounds.high)
    return any(item != item or low <= item <= high for item in map(_comparable_value, items))


def _compare_bounds(node: Comparison, bounds: BoundsOf) -> bool:
    left, right, operator = node.left, node.right, node.operator
    if isinstance(left, Literal) and isinstance(right, Column):
        left, right = right, left
        operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
    if not isinstance(left, Column) or not isinstance(right, Literal) or right.value is None:
        return True
    if operator == "<=>":
        operator = "="  # true for the same rows if the constant is not null
    if operator == "!=" or not _same_order(left.kind, node.kind):
        return True
    column = bounds(left)
    if column is None or column.low is None:
        return True
    low, high, value = _comparable_value(column.low), _comparable_value(column.high), _comparable_value(right.value)
    if value != value or (operator in (">", ">=") and pa.types.is_floating(left.kind)):
        return True
    possible = {"=": low <= value <= high, "<": low < value, "<=": low <= value, ">": high > value, ">=": high >= value}
    return bool(possible[operator])


def _same_order(column: pa.DataType, compared: pa.DataType) -> bool:
    """Returns whether a column's values keep their order when cast to the type of the comparison."""
    if column.equals(compared):
        return True
    if pa.types.is_float32(column) and pa.types.is_float64(compared):
        return True
    if pa.types.is_timestamp(column) and pa.types.is_timestamp(compared):
        return True
    exact = pa.types.is_integer(compared) or pa.types.is_decimal(compared)
    return bool((pa.types.is_integer(column) or pa.types.is_decimal(column)) and exact)


def _comparable_value(value: Any) -> Any:
    """Converts a statistic or constant to comparable form: dates as days and timestamps as microseconds since the
    epoch."""
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return (aware - _EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).days
    return value


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
