"""Brings rows to the tasks that write them, by steps in tasks and exchanges of rows between them, and writes whole file
groups of routed rows.

The steps are those of `hudi_py.write.routing`. An exchange is a shuffle of an engine, or uses the local disk of one
process. Rows from an engine keep its columns, so that the engine can also sort them into ranges. Rows that were read
from files of a table travel as parcels instead (`PARCELS`), because an engine may lack their types, and because there
are several kinds of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.write import routing
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.place import write_shares
from hudi_py.write.operations.shares import Share
from hudi_py.write.operations.tagging import not_looked_up
from hudi_py.write.routing import (
    COUNTED,
    GROUP,
    KNOWN,
    LEAVING,
    NEW,
    ORDER,
    PART,
    STATE,
    Sizes,
    gathers_keys,
    normalised,
)
from hudi_py.write.rows import PartitionedRows, RowNumbers, TaggedRows, UntaggedRows, one_row_per_key
from hudi_py.write.rows.input import normalise_batch

PATH = pa.field("_hudi_py_path", pa.string())
KEY = pa.field("_hudi_py_key", pa.string())
_ROWS_OF_A_TASK = 1 << 33
"""More rows than a task has, like `monotonically_increasing_id` of Spark."""
Rows = TypeVar("Rows")


class RoutedSteps:
    """The steps of a write in a task. Each takes and returns batches, and changes nothing."""

    def __init__(self, context: WriteContext, operation: Operation, incoming: pa.Schema, task: int = 0) -> None:
        """Creates the steps of one task.

        Args:
            incoming: normalised schema of the rows.
            task: the unique number of the task.
        """
        self._context = context
        self._operation = operation
        self._incoming = incoming
        self._task = task

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts rows, given with the columns that form partition paths, and yields `COUNTED`."""
        return routing.count_rows(self._context, map(self._normalise_rows, batches))

    def measure(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields `MEASURED` for all of `COUNTED`, one row for each path."""
        return routing.measure(self._context, self._operation, self._incoming, batches)

    def number(self, sizes: Sizes, batches: Iterable[pa.RecordBatch], *, parts: bool) -> Iterator[pa.RecordBatch]:
        """Adds `ORDER` to rows, and `PART` if `parts`."""
        first = self._task * _ROWS_OF_A_TASK
        return routing.number_rows(self._context, sizes, first, batches, self._normalise_rows if parts else None)

    def route(self, sizes: Sizes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Adds `GROUP` and `STATE` to rows with `ORDER`, given all rows of their parts."""
        return routing.route_rows(self._context, self._operation, sizes, self._incoming, batches)

    def key(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Adds `PATH` and `KEY`, by which the rows of a bulk insert are shuffled."""
        for batch in batches:
            keyed = self._context.keys_only(self._normalise_rows(batch))
            columns = [*batch.columns, keyed.partitions, keyed.rows.column(0)]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*batch.schema, PATH, KEY]))

    def _normalise_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts the columns of a batch that the write has to the types of the table."""
        names = [name for name in batch.schema.names if name in self._incoming.names]
        return normalise_batch(batch.select(names), pa.schema(map(self._incoming.field, names)))


Step: TypeAlias = Callable[[RoutedSteps, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Exchange(Protocol[Rows]):
    """Takes rows through steps, and from the tasks of one step to those of the next."""

    def each(self, rows: Rows, step: Step, *added: pa.Field) -> Rows:
        """Returns the rows after a step in each task. `added`: the columns that they have afterwards besides their
        own."""

    def together(self, rows: Rows, by: pa.Field, tasks: int) -> Rows:
        """Returns the rows so that all rows with the same value are in one of some tasks."""


def by_share(exchange: Exchange[Rows], rows: Rows, sizes: Sizes, *, parts: int, tasks: int) -> Rows:
    """Returns rows with `ORDER`, `GROUP` and `STATE`, all rows of a group in one task.

    Args:
        parts: the number of tasks in which keys are looked up first; 0 if each task looks up
            the rows that it has, or none does.
        tasks: how many write.
    """
    if parts:
        numbered = exchange.each(rows, partial(_number_step, sizes), ORDER, PART)
        routed = exchange.each(
            exchange.together(numbered, PART, parts), partial(_route_step, sizes), ORDER, GROUP, STATE
        )
    else:
        routed = exchange.each(rows, partial(_numbered_and_routed, sizes), ORDER, GROUP, STATE)
    return exchange.together(routed, GROUP, tasks)


def _number_step(sizes: Sizes, steps: RoutedSteps, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return steps.number(sizes, batches, parts=True)


def _route_step(sizes: Sizes, steps: RoutedSteps, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
        """See `Exchange.each`."""
        return (step(self.steps, task) for task in rows)

    def together(
        self, rows: Iterable[Iterator[pa.RecordBatch]], by: pa.Field, tasks: int
    ) -> Iterable[Iterator[pa.RecordBatch]]:
        """See `Exchange.together`; `by` is a number unless there is only one task."""
        every = chain.from_iterable(rows)
        first = next(every, None)
        if first is None or tasks == 1:
            return [chain([] if first is None else [first], every)]
        held = self.open_files.enter_context(PartitionedRows(first.schema, self.memory))
        for batch in chain([first], every):
            held.add(batch, pa.array(batch.column(by.name).to_numpy() % tasks).cast(pa.string()))
        return (held.batches(part) for part in held.partitions)


def write_routed(
    context: WriteContext, operation: Operation, incoming: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> list[WriteStat]:
    """Writes the file groups of rows with `ORDER`, `GROUP` and `STATE`; all rows of a group must be among them."""
    schema, settings = pa.schema([*incoming, ORDER, STATE]), context.settings
    # rows of new file groups that are neither merged nor sorted may come in any order
    streams = context.buckets is None and not (settings.combines or settings.sort_by_key)
    with PartitionedRows(schema, context.settings.waiting_bytes) as held:
        for batch in batches:
            rows = normalised(batch, incoming)
            more = [batch.column(ORDER.name), batch.column(STATE.name)]
            held.add(pa.RecordBatch.from_arrays([*rows.columns, *more], schema=schema), batch.column(GROUP.name))

        def rows(share: Share) -> TaggedRows | UntaggedRows:
            if context.settings.looks_up(operation):
                return _tag_rows(context, operation, share, _rows_in_order(held, share.name))

            def keyed() -> Iterator[pa.RecordBatch]:
                given = held.batches(share.name) if streams else iter(_rows_in_order(held, share.name).to_batches())
                return (context.keyed_for(operation, batch.select(incoming.names)).rows for batch in given)

            return not_looked_up(context, operation, share, UntaggedRows(keyed, held.rows_of(share.name)))

        with context.transaction.view.naming_lost_files():
            return write_shares(context, operation, held, rows)


def write_in_parts(
    context: WriteContext,
    operation: Operation,
    incoming: pa.Schema,
    batches: Callable[[], Iterator[pa.RecordBatch]],
) -> list[WriteStat]:
    """Runs all steps in one process, with the local disk for the shuffles. The memory needed is that of a few file
    groups.

    Args:
        batches: incoming normalised rows; called twice.
    """
    keygen, counts, steps = context.settings.keygen, Counter[str](), RoutedSteps(context, operation, incoming)
    wanted = set(keygen.partition_columns(context.settings.schema.arrow)) or {incoming.names[0]}
    names = [name for name in incoming.names if name in wanted]
    for batch in steps.count(batch.select(names) for batch in batches()):
        counts.update(dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)))
    counted = [{"path": path, "rows": rows, "tasks": 1} for path, rows in counts.items()]
    (measured,) = steps.measure([pa.RecordBatch.from_pylist(counted, COUNTED)])
    parts = sum(measured.column("parts").to_pylist()) if gathers_keys(context.settings, operation) else 0
    with ExitStack() as open_files:
        exchange = LocalExchange(steps, context.settings.waiting_bytes, open_files)
        (rows,) = by_share(exchange, [batches()], Sizes.of(measured.to_pylist()), parts=parts, tasks=1)
        return write_routed(context, operation, incoming, rows)


def _tag_rows(context: WriteContext, operation: Operation, share: Share, rows: pa.Table) -> TaggedRows:
    """Tags the rows of a file group, whose keys were looked up, by their states."""
    settings = context.settings
    keyed = [
        context.keyed_for(operation, batch).rows for batch in rows.drop_columns([ORDER.name, STATE.name]).to_batches()
    ]
    table = pa.Table.from_batches(keyed).append_column(STATE, rows[STATE.name])
    if settings.combines and operation.takes_whole_rows:
        table = one_row_per_key(table, settings.merge)
    states = combined(table[STATE.name]).to_numpy()
    known_rows: tuple[tuple[FileSlice, RowNumbers], ...] = ()
    leaving: dict[FileId, RowNumbers] = {}
    positions: dict[FileId, RowNumbers] = {}
    target = share.file_group
    if target is not None:
        leaving = {target: np.flatnonzero(states == LEAVING)}
        known = np.flatnonzero(states >= KNOWN)
        known_rows = ((share.slices[target], known),) if (states != NEW).any() else ()
        if (states[known] > KNOWN).all() and len(np.unique(states[known])) == len(known):
            positions[target] = states[known]
    return TaggedRows(table.drop_columns([STATE.name]), known_rows, np.flatnonzero(states == NEW), leaving, positions)


def _rows_in_order(held: PartitionedRows, group: PartitionPath) -> pa.Table:
    table = held.table(group)
    return table.take(pc.sort_indices(table[ORDER.name])).combine_chunks()


PARCELS = pa.schema([("to", pa.string()), ("kind", pa.string()), ("rows", pa.binary())])
"""`to`: parcels with the same value must come to one task. `kind`: the kind of rows, where there are several kinds."""
_BYTES = 64 * 1024
"""Bytes of the rows in a parcel: Spark's JVM holds up to 10,000 parcels at a time."""


def parcels(to: str, kind: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields rows as `PARCELS` for one task."""
    step = max(_BYTES * rows.num_rows // max(rows.nbytes, 1), 1)
    for batch in rows.combine_chunks().to_batches(max_chunksize=step):
        yield pa.RecordBatch.from_arrays(
            [pa.array([value]) for value in (to, kind, batch.serialize().to_pybytes())], schema=PARCELS
        )


def unpacked(parcels: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields the rows of parcels of one kind, which share a schema, and the task that they go to."""
    for batch in parcels:
        for to, rows in zip(
            batch.column("to").to_pylist(), batch.column("rows"), strict=True
        ):  # each parcel has many rows
            yield to, pa.ipc.read_record_batch(rows.as_buffer(), schema)
