"""Functions of value expressions over record batches, with Spark's results in ANSI mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.expressions.coercion import cast
from hudi_py.expressions.predicate import IsNull, Node, Not, Value, Values, as_kind, kind_of
from hudi_py.formats.arrays import combined, is_text, true_where
from hudi_py.schema.conform import conform_array

_WHOLE = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


@dataclass(frozen=True, slots=True)
class Call(Value):
    """A call of a function, whose operands are cast to `operand_kinds`."""

    name: str
    operands: tuple[Node, ...]
    operand_kinds: tuple[pa.DataType, ...]

    def children(self) -> tuple[Node, ...]:
        return self.operands

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        try:
            arrays = [
                values_of(node, batch, kind) for node, kind in zip(self.operands, self.operand_kinds, strict=True)
            ]
        except pa.ArrowInvalid:
            if self.name != "COALESCE":
                raise
            # a failing operand is no error where an earlier one is not null
            present = tuple(Not(IsNull(node)) for node in self.operands[:-1])
            return Case(self.kind, present, self.operands).evaluate(batch)
        return FUNCTIONS[self.name](arrays)


@dataclass(frozen=True, slots=True)
class Cast(Value):
    """`CAST(operand AS kind)`."""

    operand: Node

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        return cast_values(values_of(self.operand, batch), self.kind)


@dataclass(frozen=True, slots=True)
class Case(Value):
    """`CASE WHEN`: the value of the first true condition. Each value is evaluated for its own rows only, since it may
    fail for others."""

    conditions: tuple[Node, ...]
    values: tuple[Node, ...]
    """One for each condition, and one for the remaining rows."""

    def children(self) -> tuple[Node, ...]:
        return (*self.conditions, *self.values)

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        left = np.arange(batch.num_rows)
        order, parts = [], []
        for condition, value in zip((*self.conditions, None), self.values, strict=True):
            rows = batch.take(pa.array(left))
            holds = np.ones(len(left), np.bool_)
            if condition is not None:
                holds = true_where(values_of(condition, rows))
            order.append(left[holds])
            parts.append(values_of(value, rows.filter(pa.array(holds)), self.kind))
            left = left[~holds]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order))))


def values_of(node: Node, batch: pa.RecordBatch | pa.Table, kind: pa.DataType | None = None) -> pa.Array:
    """Evaluates a node to one value for each row, cast to `kind` if given."""
    own = kind_of(node)
    if kind is not None and pa.types.is_null(own):
        return pa.nulls(batch.num_rows, kind)
    values = node.evaluate(batch) if kind is None or own.equals(kind) else as_kind(node, batch, kind)
    return pa.repeat(values, batch.num_rows) if isinstance(values, pa.Scalar) else combined(values)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether `cast_values` casts between these types."""
    types = pa.types
    if source.equals(target) or types.is_null(source):
        return True
    numbers = types.is_integer(source), types.is_decimal(source), types.is_floating(source)
    if is_text(target):
        return any(numbers[::2]) or bool(types.is_boolean(source) or types.is_date(source))
    if is_text(source):
        return any(check(target) for check in (types.is_integer, types.is_floating, types.is_date))
    if types.is_integer(target):
        return any(numbers) or bool(types.is_boolean(source))
    if types.is_floating(target):
        return any(numbers)
    if types.is_decimal(target):
        return any(numbers[:2])
    days = types.is_date, types.is_timestamp
    return any(check(source) for check in days) and any(check(target) for check in days)


def cast_values(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Casts values to `target`, for types that are `castable`.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit, an error in Spark's ANSI mode too.
    """
    source, types = values.type, pa.types
    if source.equals(target) or types.is_null(source):
        return values.cast(target)
    if is_text(target):
        return values.cast(target) if types.is_boolean(source) else conform_array(values, target)
    if is_text(source):
        pattern = _WHOLE if types.is_integer(target) else _DAY if types.is_date(target) else _NUMBER
        bare = pc.utf8_trim(values, characters=" \t\n\r")
        if not pc.all(pc.match_substring_regex(bare, pattern), min_count=0).as_py():
            raise pa.ArrowInvalid(f"a text is not of the form of a {target}")
        return pc.utf8_ltrim(bare, characters="+").cast(target)
    if types.is_integer(target) and (types.is_floating(source) or types.is_decimal(source)):
        return pc.trunc(values).cast(target)  # towards zero
    if types.is_decimal(target) and types.is_decimal(source):
        return pc.round(values, target.scale, "half_towards_infinity").cast(target)
    if types.is_decimal(target):
        return values.cast(pa.decimal128(38, 0)).cast(target)
    if types.is_date(target):
        return pc.floor_temporal(values, unit="day").cast(target)
    return combined(cast(values, target))


def _remainder_of(arrays: Sequence[pa.Array]) -> pa.Array:
    whole = pc.multiply(pc.divide_checked(*arrays), arrays[1])
    return pc.subtract(arrays[0], whole)


def _extreme_of(kernel: Callable[..., pa.Array], arrays: Sequence[pa.Array]) -> pa.Array:
    kind = arrays[0].type
    if pa.types.is_timestamp(kind) or pa.types.is_boolean(kind):  # not supported by the kernels
        number = pa.int64() if pa.types.is_timestamp(kind) else pa.int8()
        return kernel(*(array.cast(number) for array in arrays)).cast(kind)
    return kernel(*arrays)


def _join_texts(arrays: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*arrays, "")


def _lower_texts(arrays: Sequence[pa.Array]) -> pa.Array:
    return _by_text(arrays[0], pc.ascii_lower, str.lower)


def _upper_texts(arrays: Sequence[pa.Array]) -> pa.Array:
    return _by_text(arrays[0], pc.ascii_upper, str.upper)


def _by_text(texts: pa.Array, kernel: Callable[[pa.Array], pa.Array], function: Callable[[str], str]) -> pa.Array:
    if pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        return kernel(texts)
    # one value at a time: Arrow maps single characters, but Java and Python whole text
    return pa.array([None if text is None else function(text) for text in texts.to_pylist()], pa.string())


FUNCTIONS: dict[str, Callable[[Sequence[pa.Array]], pa.Array]] = {
    "+": lambda arrays: pc.add_checked(*arrays),
    "-": lambda arrays: pc.subtract_checked(*arrays),
    "*": lambda arrays: pc.multiply_checked(*arrays),
    "/": lambda arrays: pc.divide_checked(*arrays),
    "DIV": lambda arrays: pc.divide_checked(*arrays),
    "%": _remainder_of,
    "ABS": lambda arrays: pc.abs_checked(arrays[0]),
    "COALESCE": lambda arrays: pc.coalesce(*arrays),
    "CONCAT": _join_texts,
    "LOWER": _lower_texts,
    "UPPER": _upper_texts,
    "TRIM": lambda arrays: pc.utf8_trim(arrays[0], characters=" "),
    "LENGTH": lambda arrays: pc.utf8_length(arrays[0]).cast(pa.int32()),
    "GREATEST": lambda arrays: _extreme_of(pc.max_element_wise, arrays),
    "LEAST": lambda arrays: _extreme_of(pc.min_element_wise, arrays),
}
"""Functions by name; each returns the result for arrays of the types that it was bound with."""
