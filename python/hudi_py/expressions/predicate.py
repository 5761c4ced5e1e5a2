"""Predicates over record batches with SQL's three-valued logic; small, frozen and picklable.

Every node evaluates to an Arrow array (or scalar) for a batch. Comparisons follow Spark: NaN equals NaN and is greater
than any other number; comparing with NULL gives NULL.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.expressions.coercion import cast
from hudi_py.formats.arrays import combined
from hudi_py.schema.patterns import escaped

Values: TypeAlias = Any  # pa.Array | pa.ChunkedArray | pa.Scalar; pyarrow publishes no types


@dataclass(frozen=True, slots=True)
class Node(ABC):
    """A predicate or operand."""

    @abstractmethod
    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        """Evaluates to one value for each row, or a scalar."""

    def children(self) -> tuple[Node, ...]:
        """Returns the fields that hold nodes."""
        values = (getattr(self, field.name) for field in fields(self))
        return tuple(value for value in values if isinstance(value, Node))

    def columns(self) -> frozenset[str]:
        """Returns the top-level columns that it reads."""
        return frozenset(name for node in self.walk() if isinstance(node, Column) for name in node.path[:1])

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Value(Node):
    """An operand that is not a condition."""

    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column, or a member of a struct column."""

    path: tuple[str, ...]
    kind: pa.DataType

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        values = batch[self.path[0]]
        # struct_field already makes members of a null struct null
        return pc.struct_field(values, list(self.path[1:])) if len(self.path) > 1 else values


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant."""

    value: object
    kind: pa.DataType

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        return pa.scalar(self.value, self.kind)


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`=`, `!=`, `<`, `<=`, `>`, `>=`, `<=>`; both sides are cast to `kind`."""

    operator: str
    left: Node
    right: Node
    kind: pa.DataType

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        left, right = as_kind(self.left, batch, self.kind), as_kind(self.right, batch, self.kind)
        return compare(self.operator, left, right, self.kind)


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """`AND` or `OR`."""

    operator: str
    parts: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.parts

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        kernel = pc.and_kleene if self.operator == "AND" else pc.or_kleene
        result = self.parts[0].evaluate(batch)
        for part in self.parts[1:]:
            try:
                values = part.evaluate(batch)
            except pa.ArrowInvalid:
                values = self._where_it_counts(part, batch, result)
            result = kernel(result, values)
        return result

    def _where_it_counts(self, part: Node, batch: pa.RecordBatch | pa.Table, before: Values) -> Values:
        """Evaluates a part that fails for some rows, without the rows that earlier parts have decided.

        Raises:
            pyarrow.ArrowInvalid: it fails for others too.
        """
        if isinstance(before, pa.Scalar):
            before = pa.repeat(before, batch.num_rows)
        counts = pc.fill_null(combined(before) if self.operator == "AND" else pc.invert(combined(before)), True)
        values = part.evaluate(batch.filter(counts))
        if not isinstance(values, pa.Scalar):
            values = combined(values)
        return pc.replace_with_mask(pa.nulls(batch.num_rows, pa.bool_()), counts, values)


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        return pc.invert(self.operand.evaluate(batch))


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    operand: Node

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        return pc.is_null(self.operand.evaluate(batch))


@dataclass(frozen=True, slots=True)
class Membership(Node):
    """`IN` a list of constants of type `kind`."""

    operand: Node
    items: tuple[object, ...]
    """Without NULL."""
    kind: pa.DataType
    has_null: bool
    """Whether the list has a NULL."""

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        values, items = as_kind(self.operand, batch, self.kind), pa.array(list(self.items), self.kind)
        if pa.types.is_floating(self.kind):
            values, items = pc.add(values, 0.0), pc.add(items, 0.0)  # is_in tells -0.0 from 0.0
        contained = pc.is_in(values, value_set=items)
        known = pc.is_valid(values)
        if self.has_null:
            known = pc.and_(known, contained)
        return pc.if_else(known, contained, pa.scalar(None, pa.bool_()))


@dataclass(frozen=True, slots=True)
class Like(Node):
    """`LIKE` a constant pattern, or `ILIKE`."""

    operand: Node
    pattern: str
    ignore_case: bool

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        values, pattern = self.operand.evaluate(batch), self.pattern
        if self.ignore_case:
            values, pattern = _lower_texts(values), pattern.lower()
        if "\\" in pattern:  # Arrow's own LIKE, which is faster, gets some escapes wrong
            return pc.match_substring_regex(values, _like_regex(pattern))
        return pc.match_like(values, pattern)


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`+`, `-`, `*` of integers or floating-point numbers; integer overflow is an error."""

    operator: str
    left: Node
    right: Node
    kind: pa.DataType

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> Values:
        left, right = as_kind(self.left, batch, self.kind), as_kind(self.right, batch, self.kind)
        kernels = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
        return kernels[self.operator](left, right)


def _lower_texts(values: Values) -> Values:
    """Converts text to lower case, as in Java."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(None if values.as_py() is None else values.as_py().lower(), pa.string())
    if pc.all(pc.string_is_ascii(values), min_count=0).as_py():
        return pc.ascii_lower(values)
    # one value at a time: Arrow maps single characters, which differs for some text
    return pa.array([None if text is None else text.lower() for text in values.to_pylist()], pa.string())


def _like_regex(pattern: str) -> str:
    """Converts a LIKE pattern to an RE2 regular expression."""
    parts = re.findall(r"\\[\\%_]|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return "(?s)^" + "".join(wild.get(part) or escaped(part[-1]) for part in parts) + r"\z"


def as_kind(node: Node, batch: pa.RecordBatch | pa.Table, kind: pa.DataType) -> Values:
    """Evaluates a node and casts its values to `kind`."""
    values = node.evaluate(batch)
    if isinstance(values, pa.Scalar):
        return values if values.type.equals(kind) else cast(pa.array([values.as_py()], values.type), kind)[0]
    return cast(values, kind)


def compare(operator: str, left: Values, right: Values, kind: pa.DataType) -> Values:
    """Compares with Spark's order of NaN, and null-safe for `<=>`."""
    if operator == "<=>":
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.fill_null(compare("=", left, right, kind), False))
    if operator == "!=":
        return pc.invert(compare("=", left, right, kind))
    if operator in (">", ">="):
        return compare("<" if operator == ">" else "<=", right, left, kind)
    kernel = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal}[operator]
    result = kernel(left, right)
    if not pa.types.is_floating(kind):
        return result
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if operator == "=":
        return pc.or_(result, pc.and_(left_nan, right_nan))
    if operator == "<":
        return pc.or_(result, pc.and_(pc.invert(left_nan), right_nan))
    return pc.or_(result, right_nan)


def kind_of(node: Node) -> pa.DataType:
    """Returns the type of a node's values."""
    if isinstance(node, Column | Literal | Arithmetic | Value):
        return node.kind
    return pa.bool_()
