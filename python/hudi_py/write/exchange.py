"""The way of rows to the tasks that write them: steps in tasks, and exchanges of rows between them.

The steps are those of `hudi_py.write.routing`. An exchange is a shuffle of an engine, or the local disk of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from hudi_py.model.operation import Operation
from hudi_py.write import routing
from hudi_py.write.context import WriteContext
from hudi_py.write.routing import GROUP, ORDER, PART, STATE, Sizes
from hudi_py.write.rows import PartitionedRows
from hudi_py.write.rows.input import normalise_batch

PATH = pa.field("_hudi_py_path", pa.string())
KEY = pa.field("_hudi_py_key", pa.string())
_ROWS_OF_A_TASK = 1 << 33
"""More than a task has, as for `monotonically_increasing_id` of Spark."""
Rows = TypeVar("Rows")


class RoutedSteps:
    """The steps of a write in a task, which each take and return batches. They change nothing."""

    def __init__(self, context: WriteContext, operation: Operation, incoming: pa.Schema, task: int = 0) -> None:
        """
        Args:
            incoming: normalised schema of the rows.
            task: the number of the task, which others do not have.
        """
        self._context = context
        self._operation = operation
        self._incoming = incoming
        self._task = task

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows, with the columns that make up partition paths, to `COUNTED`."""
        return routing.count_rows(self._context, map(self._normalised, batches))

    def measure(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All of `COUNTED`, one row for each path, to `MEASURED`."""
        return routing.measure(self._context, self._operation, self._incoming, batches)

    def number(self, sizes: Sizes, batches: Iterable[pa.RecordBatch], *, parts: bool) -> Iterator[pa.RecordBatch]:
        """Add `ORDER` to rows, and `PART` if `parts`."""
        first = self._task * _ROWS_OF_A_TASK
        return routing.number_rows(self._context, sizes, first, batches, self._normalised if parts else None)

    def route(self, sizes: Sizes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with `ORDER`, all of their parts, to rows with `ORDER`, `GROUP` and `STATE`."""
        return routing.route_rows(self._context, self._operation, sizes, self._incoming, batches)

    def key(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add `PATH` and `KEY`, by which the rows of a bulk insert are shuffled."""
        for batch in batches:
            keyed = self._context.keys_only(self._normalised(batch))
            columns = [*batch.columns, keyed.partitions, keyed.rows.column(0)]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, PATH, KEY]))

    def _normalised(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the write that a batch has."""
        names = [name for name in batch.schema.names if name in self._incoming.names]
        return normalise_batch(batch.select(names), pa.schema(map(self._incoming.field, names)))


Step: TypeAlias = Callable[[RoutedSteps, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Exchange(Protocol[Rows]):
    """Brings rows through steps, and from the tasks of one to those of the next."""

    def each(self, rows: Rows, step: Step, *added: pa.Field) -> Rows:
        """Return the rows after a step in each task. `added`: the columns that they then have besides their own."""

    def together(self, rows: Rows, by: pa.Field, tasks: int) -> Rows:
        """Return the rows with all of one value in one of some tasks."""


def by_share(exchange: Exchange[Rows], rows: Rows, sizes: Sizes, *, parts: int, tasks: int) -> Rows:
    """Return rows with `ORDER`, `GROUP` and `STATE`, those of one group in one task.

    Args:
        parts: into how many tasks the rows are brought first in which their keys are looked up; 0 if each task looks up
            the rows that it has, or none does.
        tasks: how many write.
    """
    if parts:
        numbered = exchange.each(rows, partial(_numbered, sizes), ORDER, PART)
        routed = exchange.each(exchange.together(numbered, PART, parts), partial(_routed, sizes), ORDER, GROUP, STATE)
    else:
        routed = exchange.each(rows, partial(_numbered_and_routed, sizes), ORDER, GROUP, STATE)
    return exchange.together(routed, GROUP, tasks)


def _numbered(sizes: Sizes, steps: RoutedSteps, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return steps.number(sizes, batches, parts=True)


def _routed(sizes: Sizes, steps: RoutedSteps, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return steps.route(sizes, batches)


def _numbered_and_routed(
    sizes: Sizes, steps: RoutedSteps, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    return steps.route(sizes, steps.number(sizes, batches, parts=False))


@dataclass(frozen=True, slots=True)
class LocalExchange:
    """The exchange of one process, which runs tasks one after another. Rows are the batches of each task."""

    steps: RoutedSteps
    memory: int
    """Bytes of rows in memory; the rest is spilled to the local disk."""
    open_files: ExitStack
    """Closed when the rows are no longer needed."""

    def each(
        self, rows: Iterable[Iterator[pa.RecordBatch]], step: Step, *_: pa.Field
    ) -> Iterable[Iterator[pa.RecordBatch]]:
        """As of `Exchange`."""
        return (step(self.steps, task) for task in rows)

    def together(
        self, rows: Iterable[Iterator[pa.RecordBatch]], by: pa.Field, tasks: int
    ) -> Iterable[Iterator[pa.RecordBatch]]:
        """As of `Exchange`; `by` is a number unless there is only one task."""
        every = chain.from_iterable(rows)
        first = next(every, None)
        if first is None or tasks == 1:
            return [chain([] if first is None else [first], every)]
        held = self.open_files.enter_context(PartitionedRows(first.schema, self.memory))
        for batch in chain([first], every):
            held.add(batch, pa.array(batch.column(by.name).to_numpy() % tasks).cast(pa.string()))
        return (held.batches(part) for part in held.partitions)
