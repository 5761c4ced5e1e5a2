"""The functions of expression indexes as used in filters, by their names in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa

from hudi_py.expressions.functions import IDENTITY, NAMES, IndexFunction
from hudi_py.expressions.predicate import Node, Value, Values
from hudi_py.formats.arrays import combined

_ALIASES: Final = {
    "dayofmonth": "day",
    "lcase": "lower",
    "ucase": "upper",
    "substr": "substring",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
}
_ARGUMENTS: Final = {
    **dict.fromkeys(("from_unixtime", "unix_timestamp", "to_timestamp", "to_date", "date_format"), ("format",)),
    **dict.fromkeys(("date_add", "date_sub"), ("days",)),
    "substring": ("pos", "len"),
    "regexp_extract": ("pattern", "idx"),
    "regexp_replace": ("pattern", "replacement"),
}
"""Options that the arguments after the column correspond to; functions that are not listed have none."""
OF_TIMES: Final = frozenset({*_ARGUMENTS, "year", "month", "day", "hour"}) - {
    "substring",
    "regexp_extract",
    "regexp_replace",
}
"""Functions that parse text as time: other text is NULL, or an error in ANSI mode."""
_DEFAULTS: Final = {"regexp_extract": {"idx": "1"}, "substring": {"len": str(2**31 - 1)}}
_SIDES: Final = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
FUNCTIONS: Final = frozenset({*NAMES, *_ALIASES}) - {IDENTITY, "split"}
"""Names of all functions, in lower case."""


@dataclass(frozen=True, slots=True)
class Applied(Value):
    """Applies a function to an operand, in UTC."""

    operand: Node
    expression: IndexFunction

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        values = self.operand.evaluate(batch)
        if isinstance(values, pa.Scalar):
            return self.expression.apply(pa.array([values.as_py()], values.type))[0]
        array = combined(values)
        plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return self.expression.apply(plain)


@cache
def dialect() -> Any:
    """Returns Spark's dialect with these functions kept as they are: sqlglot would translate patterns."""
    from sqlglot.dialects.spark import Spark

    kept = {name: build for name, build in Spark.Parser.FUNCTIONS.items() if name.lower() not in FUNCTIONS}
    parser = type("Parser", (Spark.Parser,), {"FUNCTIONS": kept})
    return type("Plain", (Spark,), {"Parser": parser})


def call_of(tree: Any) -> tuple[str, Any, Sequence[Any]] | None:
    """Returns name, first argument and other arguments, as trees, of a call of such a function; None for other
    trees."""
    kind = type(tree).__name__
    if kind == "Anonymous" and str(tree.this).lower() in FUNCTIONS and tree.expressions:
        name = str(tree.this).lower()
        first, *others = tree.expressions
        if _ALIASES.get(name, name) in ("ltrim", "rtrim", "trim") and others:
            first, others = others[0], [first, *others[1:]]  # TRIM has the characters first
        return _ALIASES.get(name, name), first, others
    if kind == "Trim":
        return (
            _SIDES.get(str(tree.args.get("position") or "BOTH").upper(), ""),
            tree.this,
            _given_arguments(tree, "expression"),
        )
    if kind == "Substring":
        return "substring", tree.this, _given_arguments(tree, "start", "length")
    return None


def expression_of(name: str, constants: Sequence[str]) -> IndexFunction | None:
    """Returns the function with constants as its other arguments; None if it does not take that many."""
    names = ("trimString",) if name in ("trim", "ltrim", "rtrim") else _ARGUMENTS.get(name, ())
    if len(constants) > len(names):
        return None
    return IndexFunction(name, {**_DEFAULTS.get(name, {}), **dict(zip(names, constants, strict=False))})


def _given_arguments(tree: Any, *names: str) -> list[Any]:
    return [tree.args[name] for name in names if tree.args.get(name) is not None]
