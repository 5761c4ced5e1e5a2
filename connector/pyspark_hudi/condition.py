"""Translates a filter to Spark SQL if that has the same meaning in every session.

Conditions are not translated if they depend on the session (time zone, ANSI mode, escapes in strings, case) or on
casts.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re

import pyarrow as pa

from hudi_py.expressions import (
    Column,
    Comparison,
    Filter,
    IsNull,
    Like,
    Literal,
    Logical,
    Membership,
    Node,
    Not,
    kind_of,
)
from hudi_py.schema import backticked

_SAFE_TEXT = re.compile(r"[^'\"\\\x00-\x1f]*")
_TYPES = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_binary, "BINARY"),
    (pa.types.is_date32, "DATE"),
)
_WIDER = {
    pa.int32(): (pa.int64(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
"""Exact casts, which mean the same in every session."""


class _UntranslatableError(Exception):
    pass


def spark_condition(condition: Filter) -> str | None:
    """Translates the filter to a Spark SQL condition with the same meaning in every session; None if there is none."""
    if condition.predicate is None:
        return None
    try:
        return _condition(condition.predicate)
    except _UntranslatableError:
        return None


def spark_literal(value: pa.Scalar) -> str | None:
    """Formats a value as a Spark SQL constant with the same meaning in every session; None if there is none."""
    try:
        return _literal(value.as_py(), value.type)
    except _UntranslatableError:
        return None


def _condition(node: Node) -> str:
    if isinstance(node, Logical):
        return "(" + f" {node.operator} ".join(_condition(part) for part in node.parts) + ")"
    if isinstance(node, Not):
        return f"(NOT {_condition(node.operand)})"
    if isinstance(node, IsNull):
        operand = node.operand
        return f"({_name(operand) if isinstance(operand, Column) else _operand(operand, kind_of(operand))} IS NULL)"
    if isinstance(node, Comparison):
        left, right = _operand(node.left, node.kind), _operand(node.right, node.kind)
        return f"({left} {node.operator} {right})"
    if isinstance(node, Membership):
        items = [_literal(item, node.kind) for item in node.items] + ["NULL"] * node.has_null
        if not items:
            raise _UntranslatableError
        return f"({_operand(node.operand, node.kind)} IN ({', '.join(items)}))"
    if isinstance(node, Like) and not node.ignore_case:
        return f"({_operand(node.operand, pa.string())} LIKE {_text(node.pattern)})"
    return _operand(node, pa.bool_()) if isinstance(node, (Column, Literal)) else _fail()


def _operand(node: Node, kind: pa.DataType) -> str:
    """Formats a column or constant in the type in which it is compared."""
    if isinstance(node, Literal):
        return _literal(node.value, kind)
    if not isinstance(node, Column):
        return _condition(node) if pa.types.is_boolean(kind_of(node)) and pa.types.is_boolean(kind) else _fail()
    name = _name(node)
    if node.kind.equals(kind) or _is_same_but_for_unit(node.kind, kind):
        _spark_type(kind)
        return name
    if kind in _WIDER.get(node.kind, ()) or _is_wider_decimal(node.kind, kind):
        return f"CAST({name} AS {_spark_type(kind)})"
    return _fail()


def _name(column: Column) -> str:
    return ".".join(map(backticked, column.path))


def _is_same_but_for_unit(kind: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether both are timestamps with a zone, or both without one: Spark has no other unit."""
    both = pa.types.is_timestamp(kind) and pa.types.is_timestamp(target)
    return bool(both and (kind.tz is None) == (target.tz is None))


def _is_wider_decimal(kind: pa.DataType, target: pa.DataType) -> bool:
    if not pa.types.is_decimal128(kind) or not pa.types.is_decimal128(target):
        return False
    return bool(target.scale >= kind.scale and target.precision - target.scale >= kind.precision - kind.scale)


def _literal(value: object, kind: pa.DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {_spark_type(kind)})"
    if pa.types.is_boolean(kind):
        return "TRUE" if value else "FALSE"
    number = _number(value, kind)
    if number:
        return f"CAST('{number}' AS {_spark_type(kind)})"
    if pa.types.is_string(kind) and isinstance(value, str):
        return _text(value)
    if pa.types.is_binary(kind) and isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if pa.types.is_timestamp(kind) and isinstance(value, datetime.datetime):
        return _timestamp(value, kind)
    if pa.types.is_date32(kind) and isinstance(value, datetime.date) and value.year >= 1583:
        return f"DATE '{value.isoformat()}'"
    return _fail()


def _number(value: object, kind: pa.DataType) -> str:
    """Returns the digits of a number; empty if it is not of the type."""
    if pa.types.is_integer(kind) and isinstance(value, int):
        return str(value)
    if pa.types.is_decimal128(kind) and isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if not pa.types.is_floating(kind) or not isinstance(value, float):
        return ""
    if math.isnan(value):
        return "NaN"
    return repr(value).replace("inf", "Infinity")


def _timestamp(value: datetime.datetime, kind: pa.DataType) -> str:
    _spark_type(kind)
    if value.year < 1583:
        return _fail()
    if kind.tz:
        text = value.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMP_LTZ '{text} UTC'"
    return f"TIMESTAMP_NTZ '{value.replace(tzinfo=None).isoformat(' ')}'"


def _text(value: str) -> str:
    """Formats a string literal without escapes, whose meaning in Spark depends on the session."""
    return f"'{value}'" if _SAFE_TEXT.fullmatch(value) else _fail()


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP_LTZ" if kind.tz else "TIMESTAMP_NTZ"
    return next((name for test, name in _TYPES if test(kind)), None) or _fail()


def _fail() -> str:
    raise _UntranslatableError
