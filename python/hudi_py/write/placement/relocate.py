"""Rows on their way to where an index over all partitions finds their keys.

Sources: `SparkMetadataTableGlobalRecordLevelIndex`, `HoodieIndexUtils.mergeForPartitionUpdatesAndDeletionsIfNeeded`,
1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.file_stats.keys import KeyReader
from hudi_py.formats.arrays import combined, in_schema
from hudi_py.merge import delete_marks, find_winners
from hudi_py.merge.reduce import row_versions
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.index import GlobalIndex
from hudi_py.write.placement.combine import losing_keys
from hudi_py.write.rows import KeyedRows, LocatedRows, PartitionedRows, one_row_per_key, without_keys

_BYTES_AT_ONCE = 1 << 28
"""Bytes of rows whose keys are looked up at once."""


def located(index: GlobalIndex, rows: Iterable[KeyedRows]) -> Iterator[KeyedRows]:
    """The rows (`LocatedRows.packed`) under the partitions that they are written to: those that have their keys, if any
    (`hoodie.record.index.update.partition.path=false`). Keys of several batches are looked up at once: even a few are
    spread over the whole index."""
    for some in _gathered(rows):
        keys = pa.chunked_array([keyed.rows.column(0) for keyed in some], pa.string())
        partitions, file_ids = index.locate(combined(keys))
        at = 0
        for keyed in some:
            own = slice(at, at := at + keyed.rows.num_rows)
            packed = LocatedRows(pa.Table.from_batches([keyed.rows]), file_ids[own]).packed()
            yield KeyedRows(_one_batch(packed), pc.coalesce(partitions[own], keyed.partitions))


def _gathered(rows: Iterable[KeyedRows]) -> Iterator[list[KeyedRows]]:
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
    """Locates rows, and moves those whose key is in another partition to their own: a new row there, and one with
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
            some = [each.take(pa.array(at)) for each in (partitions, file_ids)]
            moving[at] = _win(rows.take(pa.array(at)), some[0], some[1], reader, view)
        goes = pa.array(moving)
        own = pa.repeat(pa.scalar(str(partition), pa.string()), rows.num_rows)
        paths = pc.if_else(goes, own, pc.coalesce(partitions, own))
        add_located(into, rows, pc.if_else(goes, pa.scalar(None, pa.string()), file_ids), paths, leaving=False)
        if moving.any():
            add_located(into, rows.filter(goes), file_ids.filter(goes), partitions.filter(goes), leaving=True)


def _win(
    rows: pa.Table, partitions: pa.Array, file_ids: pa.Array, reader: KeyReader, view: FileSystemView
) -> npt.NDArray[np.bool_]:
    """Which rows win against the stored ones in other partitions."""
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
