"""Combines the rows of each key in an input where the index of a table spans all partitions: the rows of a key may ask
for several partitions, and only one row is written. Among rows of a key, the order of the input counts, as in Apache
Hudi.

Source: `HoodieWriteHelper.deduplicateRecords`, 1.2.0, whose key is the record key alone if the index is global.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.file_stats.keys import KeyReader
from hudi_py.formats.arrays import combined, in_schema
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import MergeSettings, delete_marks, find_winners
from hudi_py.merge.reduce import row_versions
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.index import GlobalIndex
from hudi_py.write.rows import KeyedRows, LocatedRows, PartitionedRows, one_row_per_key, without_keys

PLACE: Final = pa.field("_hudi_py_place", pa.int64())
"""The place of a row in the input."""
_OWNER = "_hudi_py_partition"


def placed(rows: Iterable[KeyedRows]) -> Iterator[KeyedRows]:
    """Yields rows with their places in the input, `PLACE`, as the last column."""
    first = 0
    for keyed in rows:
        place = pa.array(np.arange(first, first + keyed.rows.num_rows))
        first += keyed.rows.num_rows
        schema = pa.schema([*keyed.rows.schema, PLACE])
        yield KeyedRows(pa.RecordBatch.from_arrays([*keyed.rows.columns, place], schema=schema), keyed.partitions)


def without_places(rows: pa.Table) -> pa.Table:
    """Returns rows without `PLACE`."""
    return rows.drop_columns([PLACE.name]) if PLACE.name in rows.column_names else rows


def losing_keys(
    held: PartitionedRows, settings: MergeSettings, *, order: str, packed: bool
) -> dict[PartitionPath, pa.Array]:
    """Returns for each partition the new keys that lose against a row in another one: over all partitions, one row of
    each key counts, namely the one that would win within a single partition.

    Args:
        order: the column by which rows of one key have the order of the input.
        packed: whether these are `LocatedRows.packed`, so that known keys are in one partition only.
    """
    partitions = held.partitions
    new: list[pa.Array] = []
    for partition in partitions:
        keys = [_new_keys(batch) if packed else batch.column(0) for batch in held.batches(partition)]
        new.append(pa.chunked_array(keys, pa.string()).unique())
    twice = in_several(new)
    if not len(twice):
        return {}
    parts = []
    for number, partition in enumerate(partitions):
        rows = held.table(partition)
        rows = rows.filter(pc.is_in(rows[RECORD_KEY], value_set=twice))
        parts.append(rows.append_column(_OWNER, pa.array(np.full(rows.num_rows, number, np.int32))))
    won = one_row_per_key(pa.concat_tables(parts).sort_by(order).combine_chunks(), settings)
    return {
        partition: combined(won.filter(pc.not_equal(won[_OWNER], number))[RECORD_KEY])
        for number, partition in enumerate(partitions)
    }


def in_several(keys: Sequence[pa.Array]) -> pa.Array:
    """Returns the keys that occur in several of these arrays; each array has distinct keys."""
    counts = pa.chunked_array(keys, pa.string()).value_counts()
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def made_of_several(
    context: WriteContext, held: PartitionedRows
) -> tuple[pa.Array, dict[PartitionPath, list[pa.Table]]]:
    """Returns the keys with rows in several partitions, and the one row into which the rows of each are folded, by its
    own partition. For tables whose merges fold two versions into one row.

    Apache Hudi puts the folded row into the partition of one of the rows, even if its columns are those of another one.

    Args:
        held: rows with `PLACE`; the rows that are made have none.
    """
    new = [pa.chunked_array([batch.column(0) for batch in held.batches(path)], pa.string()) for path in held.partitions]
    twice = in_several([keys.unique() for keys in new])
    if not len(twice):
        return twice, {}
    parts = [held.table(path) for path in held.partitions]
    rows = pa.concat_tables([part.filter(pc.is_in(part[RECORD_KEY], value_set=twice)) for part in parts])
    made = one_row_per_key(rows.sort_by(PLACE.name).drop_columns([PLACE.name]), context.settings.merge)
    paths = paths_of(context, made)
    folded: dict[PartitionPath, list[pa.Table]] = {}
    for path in paths.unique().to_pylist():
        folded[PartitionPath(path)] = [made.filter(pc.equal(paths, path))]
    return twice, folded


def in_one_partition(context: WriteContext, rows: Sequence[KeyedRows]) -> list[KeyedRows]:
    """Returns rows with `PLACE` in their order; the rows of one key are in the partition of the row into which they are
    folded."""
    with PartitionedRows(rows[0].rows.schema, context.settings.waiting_bytes) as held:
        for keyed in rows:
            held.add(keyed.rows, keyed.partitions)
        _, made = made_of_several(context, held)
    if not made:
        return list(rows)
    keys = TextSet(combined(pa.chunked_array([part[RECORD_KEY] for parts in made.values() for part in parts])))
    homes = pa.array([path for path, tables in made.items() for table in tables for _ in range(table.num_rows)])
    return [
        KeyedRows(keyed.rows, pc.coalesce(homes.take(keys.places(keyed.rows.column(RECORD_KEY))), keyed.partitions))
        for keyed in rows
    ]


class OnePerKey:
    """The row of each key that wins within an input, by partition, where the index spans all partitions."""

    def __init__(self, context: WriteContext, held: PartitionedRows) -> None:
        """Determines the winners. `held`: the input, with `PLACE`."""
        self._held, self._merge = held, context.settings.merge
        self._made: dict[PartitionPath, list[pa.Table]] = {}
        if self._merge.folds:
            twice, self._made = made_of_several(context, held)
            self._losing = dict.fromkeys(held.partitions, twice)
        else:
            self._losing = losing_keys(held, self._merge, order=PLACE.name, packed=False)

    @property
    def partitions(self) -> list[PartitionPath]:
        """The partitions that rows may be written to."""
        return list(dict.fromkeys([*self._held.partitions, *self._made]))

    def table(self, partition: PartitionPath) -> pa.Table:
        """Returns the rows of a partition, without `PLACE`."""
        own = without_places(without_keys(self._held.table(partition), self._losing.get(partition)))
        won = one_row_per_key(own, self._merge)
        return pa.concat_tables([won, *self._made.get(partition, ())]).combine_chunks()


def paths_of(context: WriteContext, rows: pa.Table) -> pa.StringArray:
    """Returns the partition path that each row asks for."""
    table = rows.select(context.settings.schema.arrow.names).combine_chunks()
    batch = pa.RecordBatch.from_arrays([combined(column) for column in table.columns], schema=table.schema)
    return context.settings.keygen.partition_paths(batch)


def _new_keys(batch: pa.RecordBatch) -> pa.StringArray:
    located_rows = LocatedRows.unpacked(pa.Table.from_batches([batch]), moves=False)
    return batch.column(0).filter(pc.is_null(located_rows.file_ids))


_BYTES_AT_ONCE = 1 << 28
"""Bytes of rows whose keys are looked up at once."""


def located(index: GlobalIndex, rows: Iterable[KeyedRows]) -> Iterator[KeyedRows]:
    """Yields the rows (`LocatedRows.packed`) under the partitions that they are written to: those that have their keys,
    if any (`hoodie.record.index.update.partition.path=false`). Keys of several batches are looked up at once: even a
    few are spread over the whole index."""
    for some in _gather_batches(rows):
        keys = pa.chunked_array([keyed.rows.column(0) for keyed in some], pa.string())
        partitions, file_ids = index.locate(combined(keys))
        at = 0
        for keyed in some:
            own = slice(at, at := at + keyed.rows.num_rows)
            packed = LocatedRows(pa.Table.from_batches([keyed.rows]), file_ids[own]).packed()
            yield KeyedRows(_one_batch(packed), pc.coalesce(partitions[own], keyed.partitions))


def _gather_batches(rows: Iterable[KeyedRows]) -> Iterator[list[KeyedRows]]:
    some: list[KeyedRows] = []
    size = 0
    for keyed in rows:
        some.append(keyed)
        size += keyed.rows.nbytes
        if size >= _BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def relocate(
    index: GlobalIndex,
    held: PartitionedRows,
    into: PartitionedRows,
    context: WriteContext,
    *,
    moves: bool,
    order: str | None,
) -> None:
    """Locates rows, and moves those whose key is in another partition to their own: as a new row there, and one with
    `leaving` set in the old partition, where its key is deleted. A row stays with its key if it deletes it, or loses
    against the stored row.

    Args:
        moves: whether rows move; otherwise every row stays with its key.
        held: rows by the partitions that they ask for.
        into: gets them as `LocatedRows.packed`, by the partitions that they are written to.
        order: keep the row of each key that wins within the input, whose order this column has. None: keep all.
    """
    view, settings = context.transaction.view, context.settings.merge
    reader = context.key_reader() if moves else None
    losing = {} if order is None else losing_keys(held, settings, order=order, packed=False)
    for partition in held.partitions:
        rows = held.table(partition)
        if order is not None:
            rows = one_row_per_key(rows, settings)
        rows = without_keys(rows, losing.get(partition)).combine_chunks()
        if not rows.num_rows:
            continue
        partitions, file_ids = index.locate(combined(rows[RECORD_KEY]))
        elsewhere = pc.fill_null(pc.not_equal(partitions, partition), False).to_numpy(zero_copy_only=False)
        moving = np.zeros_like(elsewhere) if reader is None else elsewhere & ~delete_marks(rows, settings)
        if reader is not None and moving.any() and settings.by_event_time:
            at = np.flatnonzero(moving)
            some = [column.take(pa.array(at)) for column in (partitions, file_ids)]
            moving[at] = _wins_over_stored(rows.take(pa.array(at)), some[0], some[1], reader, view)
        goes = pa.array(moving)
        own = pa.repeat(pa.scalar(str(partition), pa.string()), rows.num_rows)
        paths = pc.if_else(goes, own, pc.coalesce(partitions, own))
        add_located(into, rows, pc.if_else(goes, pa.scalar(None, pa.string()), file_ids), paths, leaving=False)
        if moving.any():
            add_located(into, rows.filter(goes), file_ids.filter(goes), partitions.filter(goes), leaving=True)


def _wins_over_stored(
    rows: pa.Table, partitions: pa.Array, file_ids: pa.Array, reader: KeyReader, view: FileSystemView
) -> npt.NDArray[np.bool_]:
    """Returns which rows win against the stored ones in other partitions."""
    keys = combined(rows[RECORD_KEY])
    columns = [name for name in (RECORD_KEY, *reader.merge.ordering_columns) if name in rows.column_names]
    parts = []
    for partition in partitions.unique().to_pylist():
        slices = {slice_.file_id: slice_ for slice_ in view.latest_slices(PartitionPath(partition))}
        within = pc.equal(partitions, partition)
        for file_id in file_ids.filter(within).unique().to_pylist():
            wanted = keys.filter(pc.and_(within, pc.equal(file_ids, file_id)))
            parts.append(reader.ordering_of(slices[FileId(file_id)], wanted.unique()).select(columns))
    there = pa.concat_tables(parts)
    both = pa.concat_tables([there, in_schema(rows.select(columns), there.schema)]).combine_chunks()
    position = np.arange(both.num_rows, dtype=np.int64)
    winners = find_winners(row_versions(both, reader.merge, combined(both[RECORD_KEY]), position), reader.merge)
    won = winners.keys.filter(pa.array(winners.versions >= there.num_rows))
    return np.asarray(pc.is_in(keys, value_set=won))


def add_located(into: PartitionedRows, rows: pa.Table, file_ids: pa.Array, paths: pa.Array, leaving: bool) -> None:
    """Adds rows as `LocatedRows.packed`: the file group of each, null for new keys, and its partition path."""
    marks = pa.repeat(pa.scalar(leaving), rows.num_rows)
    into.add(_one_batch(LocatedRows(rows, file_ids, marks).packed()), paths)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([combined(column) for column in table.columns], schema=table.schema)
