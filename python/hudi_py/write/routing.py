"""Rows on their way to where their keys are, when an index over all partitions finds them.

Sources: `SparkMetadataTableGlobalRecordLevelIndex`, `HoodieIndexUtils.mergeForPartitionUpdatesAndDeletionsIfNeeded`,
`HoodieWriteHelper.deduplicateRecords`, 1.2.0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.file_stats.keys import KeyReader
from hudi_py.formats.arrays import combined
from hudi_py.merge import MergeSettings, Versions, delete_marks, find_winners, reduce_input
from hudi_py.merge.ordering import default_mask
from hudi_py.merge.reduce import row_ordering
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.view import FileSystemView
from hudi_py.write.index import RecordIndexTagger
from hudi_py.write.rows import PartitionedRows

FILE_ID = "_hudi_py_file_id"
"""Column of such rows: the file group of the key, null where the key is new."""
GONE = "_hudi_py_gone"
"""Column of rows that `move` has placed: whether the row has left this partition."""
_OWNER = "_hudi_py_partition"


def placed(
    tagger: RecordIndexTagger, rows: pa.RecordBatch, paths: pa.StringArray
) -> tuple[pa.RecordBatch, pa.StringArray]:
    """The rows with the file groups of their keys, and the partition paths under which they are written: those of their
    keys, where there are any (`hoodie.record.index.update.partition.path=false`).

    Args:
        rows: `_hoodie_record_key`, then anything.
        paths: the partition path that each row asks for.
    """
    partitions, file_ids = tagger.places(combined(rows.column(0)))
    return rows.append_column(pa.field(FILE_ID, pa.string()), file_ids), pc.coalesce(partitions, paths)


def losing_keys(held: PartitionedRows, settings: MergeSettings) -> dict[PartitionPath, pa.Array]:
    """Of the keys that rows of several partitions have, those to leave out in each: over all partitions a key counts
    once, in the row that would win within one.

    Args:
        held: rows; of placed ones only new keys may be in several partitions.
    """
    partitions = held.partitions
    new: list[pa.Array] = []
    for partition in partitions:
        keys = [_unplaced(batch) for batch in held.batches(partition)]
        new.append(pa.chunked_array(keys, pa.string()).unique())
    counts = pa.chunked_array(new, pa.string()).value_counts()
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if not len(twice):
        return {}
    parts = []
    for number, partition in enumerate(partitions):
        rows = held.table(partition)
        rows = rows.filter(pc.is_in(rows[RECORD_KEY], value_set=twice))
        parts.append(rows.append_column(_OWNER, pa.array(np.full(rows.num_rows, number, np.int32))))
    won = reduce_input(pa.concat_tables(parts).combine_chunks(), settings, key_columns=(RECORD_KEY,))
    return {
        partition: combined(won.filter(pc.not_equal(won[_OWNER], number))[RECORD_KEY])
        for number, partition in enumerate(partitions)
    }


def placed_schema(schema: pa.Schema, *, moves: bool = False) -> pa.Schema:
    """Schema of placed rows of a schema; `moves`: of rows that `move` has placed."""
    more = [pa.field(FILE_ID, pa.string())]
    if moves:
        more.append(pa.field(GONE, pa.bool_()))
    return pa.schema([*schema, *more])


def move(
    tagger: RecordIndexTagger,
    held: PartitionedRows,
    into: PartitionedRows,
    reader: KeyReader,
    view: FileSystemView,
    *,
    combine: bool,
) -> None:
    """Places rows, and moves those whose key is in another partition to their own: a row for its own partition, and one
    with `GONE` set for the old one, whose key is deleted there. A row stays with its key where it deletes it, or loses
    against the row that is there.

    Args:
        held: rows by the partitions they ask for.
        into: gets them, with the columns of `placed_schema(..., moves=True)`.
        combine: whether one row of each key counts.
    """
    settings = reader.merge
    losing = losing_keys(held, settings) if combine else {}
    for partition in held.partitions:
        rows = held.table(partition)
        if combine:
            rows = reduce_input(rows, settings, key_columns=(RECORD_KEY,))
        if partition in losing:
            rows = rows.filter(pc.invert(pc.is_in(rows[RECORD_KEY], value_set=losing[partition])))
        rows = rows.combine_chunks()
        if not rows.num_rows:
            continue
        partitions, file_ids = tagger.places(combined(rows[RECORD_KEY]))
        elsewhere = pc.fill_null(pc.not_equal(partitions, partition), False).to_numpy(zero_copy_only=False)
        moving = elsewhere & ~delete_marks(rows, settings)
        if moving.any() and settings.by_event_time:
            at = np.flatnonzero(moving)
            some = [each.take(pa.array(at)) for each in (partitions, file_ids)]
            moving[at] = _win(rows.take(pa.array(at)), some[0], some[1], reader, view)
        goes = pa.array(moving)
        own = pa.repeat(pa.scalar(str(partition), pa.string()), rows.num_rows)
        paths = pc.if_else(goes, own, pc.coalesce(partitions, own))
        _add(into, rows, pc.if_else(goes, pa.scalar(None, pa.string()), file_ids), paths, gone=False)
        if moving.any():
            _add(into, rows.filter(goes), file_ids.filter(goes), partitions.filter(goes), gone=True)


def _win(
    rows: pa.Table, partitions: pa.Array, file_ids: pa.Array, reader: KeyReader, view: FileSystemView
) -> npt.NDArray[np.bool_]:
    """Which rows win against those that are there in other partitions."""
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
    both = pa.concat_tables([there, rows.select(columns).cast(there.schema)]).combine_chunks()
    count = both.num_rows
    ordering = row_ordering(both, reader.merge)
    nothing = np.zeros(count, np.bool_)
    position = np.arange(count, dtype=np.int64)
    versions = Versions(combined(both[RECORD_KEY]), position, nothing, nothing, default_mask(ordering, count), ordering)
    winners = find_winners(versions, reader.merge)
    won = winners.keys.filter(pa.array(winners.versions >= there.num_rows))
    return np.asarray(pc.is_in(keys, value_set=won))


def _add(into: PartitionedRows, rows: pa.Table, file_ids: pa.Array, paths: pa.Array, *, gone: bool) -> None:
    marks = pa.repeat(pa.scalar(gone), rows.num_rows)
    whole = rows.append_column(FILE_ID, file_ids).append_column(GONE, marks).combine_chunks()
    for batch in whole.to_batches():  # one: it has no more chunks
        into.add(batch, paths)


def _unplaced(batch: pa.RecordBatch) -> pa.Array:
    if FILE_ID not in batch.schema.names:
        return batch.column(0)
    return batch.column(0).filter(pc.is_null(batch.column(FILE_ID)))
