"""Folds versions with a Python merger, in rounds over pairs of rows of many keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_py.merge.merger import RecordMerger, merge_pairs
from hudi_py.merge.reduce import Mask, Rows, versions_by_key


class RowStore:
    """Numbered rows; merged rows are appended."""

    def __init__(self, rows: pa.Table) -> None:
        self._parts = [rows]
        self._count = rows.num_rows

    def add(self, rows: pa.RecordBatch) -> Rows:
        """Appends rows; returns their numbers."""
        self._parts.append(pa.Table.from_batches([rows]))
        first, self._count = self._count, self._count + rows.num_rows
        return np.arange(first, self._count, dtype=np.int64)

    def take(self, at: Rows) -> pa.RecordBatch:
        rows = self.table(at).combine_chunks()
        batches = rows.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)

    def table(self, at: Rows) -> pa.Table:
        return pa.concat_tables(self._parts).take(pa.array(at))


def fold_pairs(
    store: RowStore, merger: RecordMerger, name: str, ids: Rows, position: Rows, deleted: Mask
) -> tuple[Rows, Rows, Mask, Mask]:
    """One row for each key.

    Args:
        store: the data rows, under the numbers of their versions; deletes may have none.
        ids, position, deleted: of each version its key number, its position in the log, and whether it is a delete.

    Returns:
        For each key: the number of its row; the number of its last version; whether it is deleted; and whether any of
        its versions deleted it, so that the base row must not be merged into it.
    """
    order, starts, lengths = versions_by_key(ids, position)
    row = order[starts].copy()
    last = row.copy()
    is_deleted = deleted[row].copy()
    was_deleted = is_deleted.copy()
    number = 1
    live = np.flatnonzero(lengths > 1)
    while len(live):
        newer = order[starts[live] + number]
        both = ~deleted[newer] & ~is_deleted[live]
        merged = newer.copy()
        removed = deleted[newer].copy()
        if both.any():
            merged[both], removed[both] = merge_rows(store, merger, name, row[live][both], newer[both])
        row[live], is_deleted[live], last[live] = merged, removed, newer
        was_deleted[live] |= removed
        number += 1
        live = live[lengths[live] > number]
    return row, last, is_deleted, was_deleted


def merge_rows(store: RowStore, merger: RecordMerger, name: str, older: Rows, newer: Rows) -> tuple[Rows, Mask]:
    """Merges pairs: the numbers of the new rows, and which of them are deletes."""
    rows, deleted = merge_pairs(merger, store.take(older), store.take(newer), name)
    return store.add(rows), np.asarray(deleted.to_numpy(zero_copy_only=False), np.bool_)
