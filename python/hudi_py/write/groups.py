"""Writes the file groups of routed rows, whole: the last step of a distributed write, see `hudi_py.write.routing`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.write.context import WriteContext
from hudi_py.write.exchange import LocalExchange, RoutedSteps, by_share
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
    STATE,
    Sizes,
    gathers_keys,
    normalised,
)
from hudi_py.write.rows import PartitionedRows, RowNumbers, TaggedRows, UntaggedRows, one_row_per_key


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
                return _tagged(context, operation, share, _ordered(held, share.name))

            def keyed() -> Iterator[pa.RecordBatch]:
                given = held.batches(share.name) if streams else iter(_ordered(held, share.name).to_batches())
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
    """All the steps in one process, with the local disk for the shuffles: memory is that of a few file groups.

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


def _tagged(context: WriteContext, operation: Operation, share: Share, rows: pa.Table) -> TaggedRows:
    """The rows of a file group, whose keys were looked up, as their states say."""
    settings = context.settings
    keyed = [
        context.keyed_for(operation, batch).rows for batch in rows.drop_columns([ORDER.name, STATE.name]).to_batches()
    ]
    table = pa.Table.from_batches(keyed).append_column(STATE, rows[STATE.name])
    if settings.combines and operation.takes_whole_rows:
        table = one_row_per_key(table, settings.merge)
    states = combined(table[STATE.name]).to_numpy()
    found: tuple[tuple[FileSlice, RowNumbers], ...] = ()
    leaving: dict[FileId, RowNumbers] = {}
    positions: dict[FileId, RowNumbers] = {}
    target = share.file_group
    if target is not None:
        leaving = {target: np.flatnonzero(states == LEAVING)}
        known = np.flatnonzero(states >= KNOWN)
        found = ((share.slices[target], known),) if (states != NEW).any() else ()
        if (states[known] > KNOWN).all() and len(np.unique(states[known])) == len(known):
            positions[target] = states[known]
    return TaggedRows(table.drop_columns([STATE.name]), found, np.flatnonzero(states == NEW), leaving, positions)


def _ordered(held: PartitionedRows, group: PartitionPath) -> pa.Table:
    table = held.table(group)
    return table.take(pc.sort_indices(table[ORDER.name])).combine_chunks()
