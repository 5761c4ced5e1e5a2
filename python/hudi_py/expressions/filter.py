"""Filters of a scan, applied exactly after the merge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError, first_line
from hudi_py.expressions.grammar import SUPPORTED, parse
from hudi_py.expressions.predicate import Logical, Node
from hudi_py.formats.arrays import combined


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on rows. Keeps rows for which it is true, neither false nor NULL. Picklable."""

    text: str
    """The filter's text, for `explain`."""
    columns: frozenset[str]
    """Top-level columns that it reads."""
    predicate: Node | None = None
    expression: pc.Expression | None = None
    depends: frozenset[str] = frozenset()
    """Session settings that the meaning of the text in Spark depends on; see `Binder.depends`."""

    def evaluate(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """Evaluates the condition: a boolean array with nulls, one value per row.

        Raises:
            ConfigError: arithmetic overflows.
        """
        try:
            return self._evaluate(batch)
        except pa.ArrowInvalid as error:
            raise ConfigError(
                f"Filter {self.text!r} cannot be evaluated ({first_line(error)}), an error in Spark's ANSI mode too; "
                "supported: results within the range of their type: compare the column itself, or use DOUBLE"
            ) from error

    def _evaluate(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        if self.predicate is not None:
            result = self.predicate.evaluate(batch)
        else:
            from pyarrow import acero  # imports pandas if it is installed

            assert self.expression is not None
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            plan = acero.Declaration.from_sequence(
                [
                    acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
                    acero.Declaration("project", acero.ProjectNodeOptions([self.expression], ["keep"])),
                ]
            )
            result = plan.to_table(use_threads=False)["keep"]
        if isinstance(result, pa.Scalar):
            return pa.repeat(pa.scalar(result.as_py(), pa.bool_()), batch.num_rows)
        result = combined(result)
        return result.cast(pa.bool_()) if pa.types.is_null(result.type) else result

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows for which the condition is true."""
        keep = self.evaluate(batch)
        if keep.null_count == 0 and keep.true_count == len(keep):
            return batch
        return batch.filter(keep, null_selection_behavior="drop")

    def conjuncts(self) -> Iterator[Node]:
        """Yields conditions that must all be true; none for a pyarrow expression."""
        pending = [self.predicate] if self.predicate is not None else []
        while pending:
            node = pending.pop()
            if isinstance(node, Logical) and node.operator == "AND":
                pending.extend(reversed(node.parts))
            else:
                yield node

    def beside(self, columns: Collection[str]) -> Filter | None:
        """Returns the part of the condition that reads none of these columns; None if there is none."""
        parts = tuple(node for node in self.conjuncts() if node.columns().isdisjoint(columns))
        if not parts:
            return None
        node = Logical("AND", parts) if len(parts) > 1 else parts[0]
        return Filter(self.text, node.columns(), predicate=node)

    def may_match(self, known: Sequence[Mapping[str, pa.Scalar]]) -> list[bool]:
        """Tells for each set of column values that rows may share whether such a row can satisfy the filter; False is
        certain, True is not."""
        mask = [True] * len(known)
        alike: dict[tuple[str, ...], list[int]] = {}
        for index, values in enumerate(known):
            alike.setdefault(tuple(values), []).append(index)
        for names, places in alike.items():
            columns = [
                pa.array([known[index][name] for index in places], known[places[0]][name].type) for name in names
            ]
            rows = pa.RecordBatch.from_arrays(columns, names=list(names))
            for node in self.conjuncts():
                needed = node.columns()
                if needed and needed <= set(names):
                    try:
                        outcome = node.evaluate(rows)
                    except pa.ArrowInvalid:  # arithmetic overflows for one of them, so check the rows themselves
                        continue
                    if isinstance(outcome, pa.Scalar):
                        outcome = pa.repeat(outcome, len(places))
                    for index, value in zip(places, outcome.to_pylist(), strict=True):
                        mask[index] = mask[index] and value is True
        return mask


def parse_filter(given: str | pc.Expression | Filter | None, schema: pa.Schema) -> Filter | None:
    """Parses a filter over `schema`.

    Args:
        given: text in the supported subset of Spark SQL (see `grammar.SUPPORTED`), or a pyarrow expression. Text
            compared with timestamps is in UTC unless it names a zone.

    Raises:
        ConfigError: the filter is outside the subset.
        SchemaMismatchError: it names an unknown column.
    """
    if given is None or isinstance(given, Filter):
        return given
    if isinstance(given, str):
        if not given.strip():
            raise ConfigError(f"Filter {given!r} is empty; leave it out to read all rows")
        node, depends = parse(given, schema)
        return Filter(given, node.columns(), predicate=node, depends=depends)
    if isinstance(given, pc.Expression):
        return _from_expression(given, schema)
    raise ConfigError(f"A filter is text or a pyarrow expression, not {type(given).__name__}; {SUPPORTED}")


def all_of(texts: Iterable[str | None]) -> str | None:
    """Combines filters into one text that requires all of them; None if there are none."""
    given = [text for text in texts if text is not None]
    # a trailing comment ends with the line
    return " AND ".join(f"({text}\n)" for text in given) if len(given) > 1 else given[0] if given else None


def _from_expression(expression: pc.Expression, schema: pa.Schema) -> Filter:
    shown = str(expression)
    # pyarrow does not expose which columns an expression reads, so every column whose name occurs in its text counts
    names = frozenset(name for name in schema.names if name in shown and "FieldPath" not in shown)
    result = Filter(shown, names if "FieldPath" not in shown else frozenset(schema.names), expression=expression)
    try:
        keep = result._evaluate(schema.empty_table())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, pa.ArrowTypeError) as error:
        raise ConfigError(f"Filter {shown!r} does not fit the table: {error}") from error
    if not pa.types.is_boolean(keep.type):
        raise ConfigError(f"Filter {shown!r} is a {keep.type}, not a condition")
    return result
