"""Rows that are merged on their way to where an index over all partitions finds their keys: those of tables whose
merges make rows of two versions. Only the row that is made says where to go.

Source: `HoodieIndexUtils.mergeForPartitionUpdatesAndDeletionsIfNeeded`, 1.2.0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, true_where
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import delete_marks, merge_with_base
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import RECORD_KEY, conform
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.merge import updates_of
from hudi_py.write.index import GlobalIndex
from hudi_py.write.placement.combine import PLACE, made_of_several, paths_of
from hudi_py.write.placement.relocate import add_located
from hudi_py.write.rows import PartitionedRows, one_row_per_key, without_keys


def merge_and_relocate(
    context: WriteContext, index: GlobalIndex, held: PartitionedRows, into: PartitionedRows, *, moves: bool
) -> None:
    """Makes one row of the rows of each key, and locates it. Where `moves`, a row whose key is in another partition is
    merged with the stored one: the result goes to its own partition, and leaves the old one, where its key is deleted.
    A row stays with its key if it deletes it, or if the result has the partition columns of the stored row.

    Args:
        held: rows with `PLACE`, by the partitions that they ask for.
        into: gets them as `LocatedRows.packed`, by the partitions that they are written to.
    """
    merge, view = context.settings.merge, context.transaction.view
    # As in Apache Hudi: base files may have keys that a log has moved to another partition, so all are merged
    config = context.transaction.config
    repeats = config.is_mor and not context.settings.index.uses_record_index(config)
    twice, made = made_of_several(context, held)
    for partition in dict.fromkeys([*held.partitions, *made]):
        own = without_keys(held.table(partition).drop_columns([PLACE.name]), twice)
        rows = pa.concat_tables([one_row_per_key(own, merge), *made.get(partition, ())]).combine_chunks()
        if not rows.num_rows:
            continue
        partitions, file_ids = index.locate(combined(rows[RECORD_KEY]))
        merging = np.zeros(rows.num_rows, np.bool_)
        if moves:
            known = true_where(partitions.is_valid())
            elsewhere = true_where(pc.not_equal(partitions, partition))
            merging = (known if repeats else elsewhere) & ~delete_marks(rows, merge)
        others = pa.array(~merging)
        paths = pc.coalesce(partitions, pa.scalar(str(partition), pa.string()))
        add_located(into, rows.filter(others), file_ids.filter(others), paths.filter(others), leaving=False)
        for path in partitions.filter(pa.array(merging)).unique().to_pylist():
            slices = {slice_.file_id: slice_ for slice_ in view.latest_slices(PartitionPath(path))}
            there = merging & true_where(pc.equal(partitions, path))
            for file_id in file_ids.filter(pa.array(there)).unique().to_pylist():
                chosen = pa.array(there & true_where(pc.equal(file_ids, file_id)))
                _merge_stored(context, slices[FileId(file_id)], rows.filter(chosen), partition, into)


def _merge_stored(
    context: WriteContext, slice_: FileSlice, rows: pa.Table, asked: PartitionPath, into: PartitionedRows
) -> None:
    """Merges rows with those that a file group has for their keys, and adds what comes of them."""
    keys, there = combined(rows[RECORD_KEY]), slice_.partition
    wanted = TextSet(keys)
    settings = replace(context.settings.merge, fills_bytes=True)
    stored = [
        conform(batch.filter(wanted.has(batch.column(RECORD_KEY))), context.row_schema, context=there)
        for batch in context.key_reader().rows(slice_, context.row_schema.names)
    ]
    old = pa.Table.from_batches(stored, context.row_schema).combine_chunks()
    log = updates_of(rows, context).records
    new = pa.Table.from_batches(merge_with_base(old.to_batches(), log, settings), context.row_schema).combine_chunks()
    made = combined(new[RECORD_KEY])
    before = paths_of(context, old).take(pc.index_in(made, value_set=combined(old[RECORD_KEY])))
    after = paths_of(context, new)
    moved, stays = pc.not_equal(before, after).fill_null(False), pc.equal(before, after).fill_null(False)

    def add(some: pa.Table, file_id: str | None, paths: str | pa.Array, *, leaving: bool = False) -> None:
        if some.num_rows:
            ids = pa.repeat(pa.scalar(file_id, pa.string()), some.num_rows)
            add_located(into, some, ids, pa.repeat(paths, some.num_rows) if isinstance(paths, str) else paths, leaving)

    add(new.filter(moved), None, after.filter(moved))
    add(new.filter(moved), slice_.file_id, there, leaving=True)
    add(new.filter(before.is_null()), None, asked)  # a log has deleted the stored row
    staying = made.filter(stays)
    if settings.merger is None:
        # the whole row, not the values that were given: a row that comes late fills no gaps in it
        add(new.filter(stays), slice_.file_id, there)
        staying = staying.slice(0, 0)
    # what a merger makes must not be merged with the stored row once more; and what deletes the row stays as it is
    own = pc.or_(pc.is_in(keys, value_set=staying), pc.invert(pc.is_in(keys, value_set=made)))
    add(rows.filter(own), slice_.file_id, there)
