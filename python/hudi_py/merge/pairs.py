"""Folding versions with a merger in Python: pairs of rows of many keys at a time, round after round."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hudi_py.merge.merger import RecordMerger, merge_pairs
from hudi_py.merge.reduce import Mask, Rows


class RowStore:
    """Rows by number; what a merger makes is added behind."""

    def __init__(self, rows: pa.Table) -> None:
        self._parts = [rows]
        self._count = rows.num_rows

    def add(self, rows: pa.RecordBatch) -> Rows:
        """Takes rows in; their numbers."""
        self._parts.append(pa.Table.from_batches([rows]))
        first, self._count = self._count, self._count + rows.num_rows
        return np.arange(first, self._count, dtype=np.int64)

    def take(self, at: Rows) -> pa.RecordBatch:
        whole = pa.concat_tables(self._parts).take(pa.array(at)).combine_chunks()
        batches = whole.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], whole.schema)

    def table(self, at: Rows) -> pa.Table:
        return pa.concat_tables(self._parts).take(pa.array(at))


def fold_pairs(
    store: RowStore, merger: RecordMerger, name: str, ids: Rows, position: Rows, deleted: Mask
) -> tuple[Rows, Rows, Mask, Mask]:
    """One row for each key.

    Args:
        store: holds the data rows under the numbers of their versions; deletes may have none.
        ids, position, deleted: key number, place in the log, and whether it is a delete, of each version.

    Returns:
        For each key the number of its row, of the last version that went into it, whether it is deleted, and whether
        it was, so that nothing older than the log may be merged into it.
    """
    order = np.lexsort((position, ids)).astype(np.int64)
    in_order = ids[order]
    starts = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]]) if len(order) else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, len(order)])
    row = order[starts].copy()
    last = row.copy()
    gone = deleted[row].copy()
    fresh = gone.copy()
    number = 1
    live = np.flatnonzero(lengths > 1)
    while len(live):
        newer = order[starts[live] + number]
        both = ~deleted[newer] & ~gone[live]
        merged = newer.copy()
        removed = deleted[newer].copy()
        if both.any():
            merged[both], removed[both] = merge_rows(store, merger, name, row[live][both], newer[both])
        row[live], gone[live], last[live] = merged, removed, newer
        fresh[live] |= removed
        number += 1
        live = live[lengths[live] > number]
    return row, last, gone, fresh


def merge_rows(store: RowStore, merger: RecordMerger, name: str, older: Rows, newer: Rows) -> tuple[Rows, Mask]:
    """The numbers of the rows made of pairs, and which of them are deletes."""
    rows, deleted = merge_pairs(merger, store.take(older), store.take(newer), name)
    return store.add(rows), np.asarray(deleted.to_numpy(zero_copy_only=False), np.bool_)
