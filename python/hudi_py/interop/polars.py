"""A scan as a lazy frame of Polars, which reads only the columns and files that a query needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, missing_library
from hudi_py.interop.conditions import SWAPPED, Conditions, either, every
from hudi_py.read import Scan

if TYPE_CHECKING:
    import polars

_COMPARISONS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_BETWEEN: Final = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}


def scan_hudi(scan: Scan) -> polars.LazyFrame:
    """Returns the rows of a scan as a lazy frame, read when it is collected; needs Polars 1.20 or later.

    Each query plans the scan again on the same state, with the columns that it uses and its conditions, which leave out
    partitions, files and row groups.

    Raises:
        ConfigError: Polars is too old.
        ModuleNotFoundError: Polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise missing_library(error, "make a lazy frame", "polars") from None
    try:
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise ConfigError(
            f"Cannot make a lazy frame with Polars {polars.__version__}; it needs 1.20 or later: use Scan.to_polars()"
        ) from error
    empty = polars.from_arrow(scan.schema.empty_table())
    assert isinstance(empty, polars.DataFrame)

    def read(
        columns: list[str] | None, predicate: polars.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[polars.DataFrame]:
        # Polars passes both only for `head(rows).filter(predicate)`, where rows that the predicate drops count as well
        condition = None if predicate is None or rows is not None else pushed_condition(predicate, scan.schema)
        # A frame without columns has no rows, so Polars accepts a column that it has not asked for
        narrow = scan.narrow(scan.schema.names[:1] if columns == [] else columns, condition)
        left = rows
        for batch in narrow.to_batches():
            frame = polars.from_arrow(batch)
            assert isinstance(frame, polars.DataFrame)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    return register_io_source(read, schema=empty.schema)


def pushed_condition(predicate: polars.Expr, schema: pa.Schema) -> str | None:
    """Translates a predicate to a condition that holds at least for its rows, in our grammar; None if there is none."""
    import polars

    try:
        node = json.loads(predicate.meta.serialize(format="json"))
    except (polars.exceptions.PolarsError, ValueError):  # such as Python functions
        return None
    return _node_condition(node, Conditions(schema))


def _node_condition(node: Any, conditions: Conditions) -> str | None:
    """Translates a serialised expression. Polars does not promise its form, so unknown forms are left out."""
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return every([_node_condition(left, conditions), _node_condition(right, conditions)])
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return either([_node_condition(left, conditions), _node_condition(right, conditions)])
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": {"Literal": _} as value}}:
            return _compared_condition(conditions, name, _COMPARISONS.get(op), value)
        case {"BinaryExpr": {"left": {"Literal": _} as value, "op": str(op), "right": {"Column": str(name)}}}:
            return _compared_condition(conditions, name, SWAPPED.get(_COMPARISONS.get(op, "")), value)
        case {"Function": {"input": [{"Column": str(name)}, *values], "function": {"Boolean": function}}}:
            return _function_condition(conditions, name, function, values)
    return None


def _function_condition(conditions: Conditions, name: str, function: Any, values: list[Any]) -> str | None:
    match function, values:
        case "IsNull" | "IsNotNull", []:
            return conditions.is_null(name, negated=function == "IsNotNull")
        case {"IsIn": {"nulls_equal": False}}, [found]:
            within = _literal_value(found)
            return conditions.one_of(name, within) if isinstance(within, list) else None
        case {"IsBetween": {"closed": str(closed)}}, [low, high] if closed in _BETWEEN:
            above, below = _BETWEEN[closed]
            return every(
                [_compared_condition(conditions, name, above, low), _compared_condition(conditions, name, below, high)]
            )
    return None


def _compared_condition(conditions: Conditions, name: str, comparison: str | None, value: Any) -> str | None:
    return None if comparison is None else conditions.compared(name, comparison, _literal_value(value))


def _literal_value(node: Any) -> object:
    """Returns the value of a serialised literal, which Polars evaluates itself; None if it is unknown."""
    import polars

    try:
        literal = polars.Expr.deserialize(json.dumps(node).encode(), format="json")
        value: object = polars.select(literal).to_arrow().column(0)[0].as_py()
    except (polars.exceptions.PolarsError, ValueError, pa.ArrowException):
        return None
    return value
