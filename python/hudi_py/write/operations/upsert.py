"""Upsert: rows with known keys replace the stored ones, or delete them by a delete marker; the others are inserted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.merge import delete_marks
from hudi_py.model.names import FileId
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.partition import OperationResult, PartitionWriter, PlacedRows
from hudi_py.write.operations.tagging import tag_and_write
from hudi_py.write.rows import TaggedRows


def upsert(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    return tag_and_write(
        context,
        map(context.keyed, batches),
        context.row_schema,
        partial(write_tagged, context),
        one_per_key=context.settings.combines,
        moves=context.settings.index.moves_rows,
    )


def write_tagged(context: WriteContext, partition: PartitionWriter, tagged: TaggedRows) -> None:
    """Writes the rows of a partition."""
    for placed in placed_rows(context, partition, tagged):
        partition.write(with_new_apart(context, placed, looked_up=True))


def with_new_apart(context: WriteContext, placed: PlacedRows, *, looked_up: bool) -> PlacedRows:
    """Rows for a file group, new ones apart where updates set some columns: of a row that only sets columns, readers
    expect that the file group has it, or a row that a log has deleted would come back.

    Args:
        looked_up: whether the base file is known to have the keys, if there is one.
    """
    slice_, rows = placed.slice_, placed.updates
    if context.settings.updated_columns is None or slice_ is None or rows is None or placed.inserts is not None:
        return placed
    keys, reader = combined(rows[RECORD_KEY]), context.key_reader()
    doubtful = keys.unique()
    if looked_up and slice_.base_file is not None:
        if not slice_.log_files:
            return placed
        doubtful = doubtful.filter(pc.is_in(doubtful, value_set=reader.deleted_by(slice_.log_files)))
    if not len(doubtful):
        return placed
    unknown = doubtful.filter(pa.array(~reader.live(slice_, doubtful)))
    if not len(unknown):
        return placed
    is_new = pc.is_in(keys, value_set=unknown)
    new = rows.filter(is_new)
    new = new.filter(pa.array(~delete_marks(new, context.settings.merge))).combine_chunks()
    known = rows.filter(pc.invert(is_new)).combine_chunks()
    return replace(placed, updates=known, new=new if new.num_rows else None)


def placed_rows(context: WriteContext, partition: PartitionWriter, tagged: TaggedRows) -> Iterable[PlacedRows]:
    """The rows of a partition by the file group that they are written to."""
    rows, new = tagged.rows, tagged.new
    if len(new):
        new = new[~delete_marks(rows, context.settings.merge)[new]]  # there is nothing for them to delete
    inserts = rows.take(pa.array(new)).combine_chunks() if len(new) < rows.num_rows else rows
    small: dict[FileId, pa.Table] = {}
    start = 0
    for target in partition.assign(len(new)):
        some = inserts.slice(start, target.num_rows)
        start += target.num_rows
        if target.file_id is None:
            yield PlacedRows(None, inserts=some.to_batches)
        else:
            small[target.file_id] = some
    keys = combined(rows[RECORD_KEY])
    updates = {slice_.file_id: numbers for slice_, numbers in tagged.found}
    for file_id in {**updates, **small}:
        leaving = tagged.leaving.get(file_id)
        yield PlacedRows(
            partition.slices[file_id],
            updates=rows.take(pa.array(updates[file_id])).combine_chunks() if file_id in updates else None,
            inserts=small[file_id].to_batches if file_id in small else None,
            deleted=None if leaving is None else keys.take(pa.array(leaving)),
            positions=None if leaving is not None and len(leaving) else tagged.positions.get(file_id),
        )
