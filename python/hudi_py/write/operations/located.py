"""Rows whose file groups a scan has found: updates and deletes of the rows of a table, and new rows among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.merge import delete_marks
from hudi_py.model.names import FileId
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.index import Buckets
from hudi_py.write.operations.partition import OperationResult, PartitionWriter, PlacedRows, write_partitions
from hudi_py.write.operations.upsert import placed_rows
from hudi_py.write.rows import LocatedRows, PartitionedRows, TaggedRows
from hudi_py.write.rows.stages import RowNumbers


def write_located(context: WriteContext, held: PartitionedRows) -> OperationResult:
    """Writes rows to the file groups that have their keys, by partition.

    Args:
        held: `LocatedRows.packed` with `leaving`: rows that leave are deleted, whatever their ordering value; those
            without a file group are new.

    Raises:
        ConflictError: rows belong to file groups that a pending clustering is about to replace.
    """

    def write_one(partition: PartitionWriter) -> None:
        write_packed(context, partition, held.table(partition.path))

    return write_partitions(context, held, write_one)


def write_packed(context: WriteContext, partition: PartitionWriter, packed: pa.Table) -> None:
    """Writes rows of one partition, `LocatedRows.packed` with `leaving`."""
    tagged = LocatedRows.unpacked(packed, moves=True).tagged(list(partition.slices.values()))
    placed = placed_rows(context, partition, tagged)
    if context.buckets is not None:
        placed = _placed_by_bucket(context, context.buckets, partition, tagged)
    for rows in placed:
        partition.write(rows)


def _placed_by_bucket(
    context: WriteContext, index: Buckets, partition: PartitionWriter, tagged: TaggedRows
) -> Iterator[PlacedRows]:
    """As `placed_rows`, with new rows in the buckets of their keys."""
    rows, new = tagged.rows, tagged.new[~delete_marks(tagged.rows, context.settings.merge)[tagged.new]]
    keys = combined(rows[RECORD_KEY])
    slices = index.by_number(partition.slices.values(), partition.path)
    apart: dict[FileId, RowNumbers] = {}
    changed = {slice_.file_id: numbers for slice_, numbers in tagged.found}
    buckets = index.numbers(keys.take(pa.array(new)), partition.path)
    for number in np.unique(buckets).tolist():
        some, slice_ = new[buckets == number], slices.get(number)
        if slice_ is not None and context.settings.updated_columns is not None:
            apart[slice_.file_id] = some
            changed.setdefault(slice_.file_id, some[:0])
            continue
        if slice_ is not None:
            changed[slice_.file_id] = np.r_[changed.get(slice_.file_id, some[:0]), some]
            continue
        inserts = rows.take(pa.array(some)).combine_chunks()
        yield PlacedRows(None, inserts=inserts.to_batches, file_id=index.new_file_id(number, partition.path))
    for file_id, numbers in changed.items():
        leaving, more = tagged.leaving.get(file_id), apart.get(file_id)
        yield PlacedRows(
            partition.slices[file_id],
            updates=rows.take(pa.array(numbers)).combine_chunks(),
            new=None if more is None else rows.take(pa.array(more)).combine_chunks(),
            deleted=None if leaving is None else keys.take(pa.array(leaving)),
            keys_tagged=False,
        )
