"""Writes the file groups of routed rows, whole: the last step of a distributed write, see `hudi_py.write.routing`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.write.context import WriteContext
from hudi_py.write.operations import buckets, delete, insert, run_operation, upsert
from hudi_py.write.operations.partition import PartitionWriter, measured_record_size
from hudi_py.write.placement.assign import InsertBucket, effective_record_size, even_files
from hudi_py.write.routing import (
    COUNTED,
    GROUP,
    KNOWN,
    LEAVING,
    NEW,
    ORDER,
    PART,
    STATE,
    TO_MAKE,
    Sizes,
    count_rows,
    gathers_keys,
    looks_up,
    measure,
    normalised,
    number_rows,
    route_rows,
)
from hudi_py.write.rows import PartitionedRows, RowNumbers, TaggedRows, one_row_per_key, sorted_by_key
from hudi_py.write.workers import Workers

_OVERFILL = 1.25
"""Keys are spread by hash, so that a file may get somewhat more rows than planned rather than leave a tiny one over."""


def write_routed(
    context: WriteContext, operation: Operation, incoming: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> list[WriteStat]:
    """Writes the file groups of rows with `ORDER`, `GROUP` and `STATE`; all rows of a group must be among them."""
    schema = pa.schema([*incoming, ORDER, STATE])
    with PartitionedRows(schema, context.settings.waiting_bytes) as held:
        for batch in batches:
            rows = normalised(batch, incoming)
            more = [batch.column(ORDER.name), batch.column(STATE.name)]
            held.add(pa.RecordBatch.from_arrays([*rows.columns, *more], schema=schema), batch.column(GROUP.name))
        if context.settings.index.buckets is not None:
            rows_of = (
                batch.select(incoming.names)
                for group in held.partitions
                for batch in _ordered(held, group).to_batches()
            )
            if operation.overwrites:
                return buckets.insert_new(context, rows_of).stats
            return run_operation(context, rows_of, operation).stats

        def write(writer: GroupWriter, group: PartitionPath) -> None:
            if looks_up(context.settings, operation):
                _write_tagged(context, operation, writer, _ordered(held, group))
            else:
                _write_new(context, writer, held, group, incoming)

        return write_groups(context, held, write)


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
    keygen, counts = context.settings.keygen, Counter[str]()
    wanted = set(keygen.partition_columns(context.settings.schema.arrow)) or {incoming.names[0]}
    names = [name for name in incoming.names if name in wanted]
    for batch in count_rows(context, (batch.select(names) for batch in batches())):
        counts.update(dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)))
    rows = [{"path": path, "rows": rows, "tasks": 1} for path, rows in counts.items()]
    (measured,) = measure(context, operation, incoming, [pa.RecordBatch.from_pylist(rows, COUNTED)])
    sizes = Sizes.of(measured.to_pylist())
    number = max(sum(measured.column("parts").to_pylist()), 1)
    parts = gathers_keys(context.settings, operation)
    numbered = number_rows(context, sizes, 0, batches(), (lambda batch: batch) if parts else None)
    if not parts:
        return write_routed(context, operation, incoming, route_rows(context, operation, sizes, incoming, numbered))
    with PartitionedRows(pa.schema([*incoming, ORDER, PART]), context.settings.waiting_bytes) as held:
        for batch in numbered:
            part = pa.array(batch.column(PART.name).to_numpy() % number)
            held.add(batch, part.cast(pa.string()))
        some = (route_rows(context, operation, sizes, incoming, held.batches(part)) for part in held.partitions)
        return write_routed(context, operation, incoming, chain.from_iterable(some))


def write_groups(
    context: WriteContext, held: PartitionedRows, write: Callable[[GroupWriter, PartitionPath], None]
) -> list[WriteStat]:
    """Calls `write` for each group (`GROUP`) by whose name rows are held, and waits until all files are written."""
    memory_size = held.num_bytes / max(held.num_rows, 1)

    @cache
    def record_size() -> int:
        return effective_record_size(measured_record_size(context), context.settings.packing, memory_size)

    groups: dict[PartitionPath, list[tuple[PartitionPath, str]]] = {}
    for group in held.partitions:
        path, _, owner = group.rpartition("\0")
        groups.setdefault(PartitionPath(path), []).append((group, owner))
    context.transaction.view.lister.prefetch(list(groups))
    workers: Workers[list[WriteStat]] = Workers(context.settings.threads, at_most=context.settings.threads + 1)
    with context.transaction.view.naming_lost_files(), workers:
        for path, members in groups.items():
            writer = GroupWriter(context, workers, path, record_size)
            for group, owner in members:
                known = context.buckets is None and not owner.startswith(TO_MAKE)
                writer.target = FileId(owner) if known else None
                write(writer, group)
        stats = chain.from_iterable(workers.results())
    return sorted(stats, key=lambda stat: stat.path)


def _write_tagged(context: WriteContext, operation: Operation, writer: GroupWriter, rows: pa.Table) -> None:
    """Writes the rows of a file group, whose keys were looked up."""
    settings = context.settings
    keys_only = not operation.takes_whole_rows
    keyed = [
        delete.keys_only(context, batch).rows if keys_only else context.keyed(batch).rows
        for batch in rows.drop_columns([ORDER.name, STATE.name]).to_batches()
    ]
    table = pa.Table.from_batches(keyed).append_column(STATE, rows[STATE.name])
    if settings.combines and not keys_only:
        table = one_row_per_key(table, settings.merge)
    states = combined(table[STATE.name]).to_numpy()
    found: tuple[tuple[FileSlice, RowNumbers], ...] = ()
    leaving: dict[FileId, RowNumbers] = {}
    positions: dict[FileId, RowNumbers] = {}
    if writer.target is not None:
        slice_ = writer.slices[writer.target]
        leaving = {writer.target: np.flatnonzero(states == LEAVING)}
        known = np.flatnonzero(states >= KNOWN)
        found = ((slice_, known),) if (states != NEW).any() else ()
        if (states[known] > KNOWN).all() and len(np.unique(states[known])) == len(known):
            positions[writer.target] = states[known]
    new = np.flatnonzero(states == NEW)
    tagged = TaggedRows(table.drop_columns([STATE.name]), found, new, leaving, positions)
    _WRITE[operation](context, writer, tagged)


_WRITE: Mapping[Operation, Callable[[WriteContext, PartitionWriter, TaggedRows], None]] = {
    Operation.UPSERT: upsert.write_tagged,
    Operation.DELETE: delete.write_tagged,
    Operation.INSERT: insert.write_unknown,
}


def _write_new(
    context: WriteContext, writer: GroupWriter, held: PartitionedRows, group: PartitionPath, incoming: pa.Schema
) -> None:
    """Writes rows without a look-up."""
    settings = context.settings

    def keyed(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (context.keyed(batch.select(incoming.names)).rows for batch in rows)

    if not (settings.combines or settings.sort_by_key):
        insert.write_new(context, writer, lambda: keyed(held.batches(group)), held.rows_of(group))
        return
    table = pa.Table.from_batches(keyed(_ordered(held, group).to_batches()), context.row_schema)
    if settings.combines:
        table = one_row_per_key(table, settings.merge)
    if settings.sort_by_key:
        table = sorted_by_key(table)
    insert.write_new(context, writer, lambda: iter(table.to_batches()), table.num_rows)


class GroupWriter(PartitionWriter):
    """Writes file groups of a partition; new rows of a group go to `target`, or to a new file group."""

    target: FileId | None = None

    def assign(self, num_rows: int, *, into_small: bool = True) -> list[InsertBucket]:
        packing, size = self._context.settings.packing, self._record_size()
        found = []
        if self.target is not None and num_rows:
            room = (packing.max_file_size - self.slices[self.target].size) // max(size, 1)
            found = [InsertBucket(self.target, num_rows if num_rows <= room * _OVERFILL else max(room, 1))]
        return [*found, *even_files(num_rows - sum(each.num_rows for each in found), packing, size)]


def _ordered(held: PartitionedRows, group: PartitionPath) -> pa.Table:
    table = held.table(group)
    return table.take(pc.sort_indices(table[ORDER.name])).combine_chunks()
