"""Prunes file slices by expression indexes: ranges and bloom filters of functions of columns.

As with column statistics, a slice with logs is pruned only if none of its row versions can match, so each of its files
must have a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import indexes as indexes_config
from hudi_py.expressions.applied import Applied
from hudi_py.expressions.functions import IDENTITY, IndexFunction, filter_texts
from hudi_py.expressions.predicate import Column, Comparison, Literal, Membership, Node, kind_of
from hudi_py.formats.arrays import is_instant, is_same_kind
from hudi_py.metadata.definitions import IndexDefinition, index_definitions
from hudi_py.metadata.locations import EXPRESSION_PREFIX, bloom_filters
from hudi_py.metadata.stats import ColumnRange, expression_stats
from hudi_py.metadata.table import MetadataTable
from hudi_py.model.files import FileSlice
from hudi_py.read.pruning.bounds import Bounds, has_usable_bounds, may_be_true
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows
from hudi_py.read.pruning.statistics import bounds_over, names_of
from hudi_py.schema import SchemaHistory

UTC: Final = "UTC"
_MAX_VALUES: Final = 1000
"""Maximum number of constants that are looked for in filters."""


@dataclass(frozen=True, slots=True)
class _Index:
    """An index that may decide a filter."""

    name: str
    column: str
    expression: IndexFunction
    of_ranges: bool

    def matches(self, node: Node) -> bool:
        """Returns whether the index has the values of a node."""
        if isinstance(node, Column):
            return self.expression.name == IDENTITY and ".".join(node.path) == self.column
        return (
            isinstance(node, Applied)
            and isinstance(node.operand, Column)
            and ".".join(node.operand.path) == self.column
            and node.expression.same(self.expression)
        )


class ExpressionIndexes:
    """Data skipping by the expression indexes of a table for one filter."""

    def __init__(
        self,
        metadata: MetadataTable,
        definitions: Iterable[IndexDefinition],
        conjuncts: Iterable[Node],
        zone: str | None,
        *,
        history: SchemaHistory | None = None,
        ignored: Collection[str] = (),
    ) -> None:
        """
        Args:
            conjuncts: conditions that must all be true for a row.
            zone: the time zone of the table's writers; None: unknown.
            history: as in `BaseFileReader`; columns that it does not resolve by name are ignored.
            ignored: further columns of which indexes do not describe the rows.
        """
        self._metadata = metadata
        self._zone = zone
        nodes = list(conjuncts)
        unclear = {*ignored}
        if history is not None:
            unclear.update(path.partition(".")[0] for path, _ in history.repairs)
        known = [] if history is not None and history.query is not None else list(map(_usable_index, definitions))
        self._indexes = [
            (index, matching)
            for index in known
            if index is not None and metadata.has(index.name) and index.column.partition(".")[0] not in unclear
            if (matching := [node for node in nodes if any(self._decides(index, part) for part in node.walk())])
        ]

    @property
    def names(self) -> str:
        """Returns names of the indexes that are used."""
        return ", ".join(index.name[len(EXPRESSION_PREFIX) :] for index, _ in self._indexes)

    def slices(self, slices: Sequence[FileSlice], *, with_logs: bool) -> list[FileSlice] | None:
        """Returns the slices that may hold matching rows; None if no index can decide.

        Args:
            with_logs: as in `Statistics.slices`.
        """
        among = [slice_ for slice_ in slices if with_logs or not slice_.log_files]
        if not self._indexes or not among:
            return None
        places = [(slice_.partition, name) for slice_ in among for name in names_of(slice_)]
        tests: list[Callable[[FileSlice], bool]] = []
        for index, nodes in self._indexes:
            made = self._by_ranges if index.of_ranges else self._by_filters
            tests.append(made(index, nodes, places))
        pruned = {id(slice_) for slice_ in among if not all(test(slice_) for test in tests)}
        return [slice_ for slice_ in slices if id(slice_) not in pruned]

    def _decides(self, index: _Index, node: Node) -> bool:
        if not index.matches(node):
            return False
        operand = node.operand if isinstance(node, Applied) else node
        of_times = not index.of_ranges and is_instant(kind_of(node))
        zoned = index.expression.is_zoned(kind_of(operand)) or of_times
        return (not zoned or self._zone == UTC) and (not index.of_ranges or has_usable_bounds(kind_of(node)))

    def _by_ranges(
        self, index: _Index, nodes: Sequence[Node], places: Sequence[tuple[str, str]]
    ) -> Callable[[FileSlice], bool]:
        kinds = [kind_of(part) for node in nodes for part in node.walk() if self._decides(index, part)]
        ranges = expression_stats(self._metadata, index.name, index.column, kinds[0], places)
        rewritten = [_with_column(node, lambda part: self._decides(index, part), index.name) for node in nodes]

        def may_match(slice_: FileSlice) -> bool:
            over = bounds_over([_with_nulls(ranges.get((slice_.partition, name))) for name in names_of(slice_)])

            def bounds(column: Column) -> Bounds | None:
                return over if column.path == (index.name,) else None

            return all(may_be_true(node, bounds) for node in rewritten)

        return may_match

    def _by_filters(
        self, index: _Index, nodes: Sequence[Node], places: Sequence[tuple[str, str]]
    ) -> Callable[[FileSlice], bool]:
        sought = [texts for node in nodes if (texts := self._sought(index, node)) is not None]
        result = bloom_filters(self._metadata, places, index.name) if sought else {}

        def may_match(slice_: FileSlice) -> bool:
            filters = [result.get((slice_.partition, name)) for name in names_of(slice_)]
            return all(
                any(filter_ is None or bool(filter_.might_contain(texts).any()) for filter_ in filters)
                for texts in sought
            )

        return may_match

    def _sought(self, index: _Index, node: Node) -> pa.Array | None:
        """Returns the texts of constants, one of which a row's value must equal; None for other conditions."""
        operand, values = _equal_to(node)
        if operand is None or not self._decides(index, operand) or len(values) > _MAX_VALUES:
            return None
        kind = kind_of(operand)
        if pa.types.is_floating(kind) and 0 in values:
            values = (*values, 0.0, -0.0)  # equal values with different text
        try:
            return filter_texts(pa.array(values, kind), UTC)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return None


def _usable_index(definition: IndexDefinition) -> _Index | None:
    """Builds an index from its definition; None if it is no expression index, or comes from a later release."""
    kinds = ("column_stats", "bloom_filters")
    fields = definition.source_fields
    if not definition.name.startswith(EXPRESSION_PREFIX) or definition.kind not in kinds or len(fields) != 1:
        return None
    expression = IndexFunction.of_index(definition.function, definition.options)
    if expression.check():
        return None
    return _Index(definition.name, fields[0], expression, definition.kind == kinds[0])


def _equal_to(node: Node) -> tuple[Node | None, tuple[Any, ...]]:
    """Returns what a condition compares with constants for equality, in its own type, and the constants."""
    if isinstance(node, Comparison) and node.operator in ("=", "<=>"):
        left, right = (node.right, node.left) if isinstance(node.left, Literal) else (node.left, node.right)
        if isinstance(right, Literal) and right.value is not None and is_same_kind(kind_of(left), node.kind):
            return left, (right.value,)
    elif isinstance(node, Membership) and is_same_kind(kind_of(node.operand), node.kind):
        return node.operand, node.items
    return None, ()


def _with_column(node: Node, decided: Callable[[Node], bool], name: str) -> Node:
    """Rewrites a predicate: the indexed expression becomes the column `name`."""
    if decided(node):
        return Column((name,), kind_of(node))
    changes: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = _with_column(value, decided, name)
        elif isinstance(value, tuple) and any(isinstance(part, Node) for part in value):
            changes[field.name] = tuple(_with_column(part, decided, name) for part in value)
    return replace(node, **changes) if changes else node


def _with_nulls(range_: ColumnRange | None) -> ColumnRange | None:
    """Returns a range whose values include nulls, as in column statistics; expression indexes count them separately."""
    if range_ is None or range_.values is None or range_.nulls is None:
        return None
    return replace(range_, values=range_.values + range_.nulls)


def _has_indexes(sought: SoughtRows) -> bool:
    metadata = sought.metadata
    there = metadata is not None and any(name.startswith(EXPRESSION_PREFIX) for name in metadata.partitions)
    return there and bool(sought.conjuncts)


def _by_expressions(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    snapshot, metadata = sought.snapshot, sought.metadata
    if metadata is None or not slices:
        return None
    indexes = ExpressionIndexes(
        metadata,
        index_definitions(snapshot.storage, snapshot.config),
        sought.conjuncts,
        sought.request.options.get(indexes_config.EXPRESSION_INDEX_ZONE),
        history=snapshot.history,
        ignored=sought.columns_from_paths,
    )
    kept = indexes.slices(slices, with_logs=sought.merged)
    return None if kept is None else Kept(kept, indexes.names)


BY_EXPRESSION_INDEX: Final = Pruner("expression index", _has_indexes, _by_expressions)
