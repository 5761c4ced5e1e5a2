"""Keeps rows in the order of some columns, sorted in memory up to a budget and on the local disk beyond it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.temporary import TemporaryFiles

Key: TypeAlias = tuple[tuple[bool, Any], ...]
"""For each column, whether a row has a value, and the value."""
_BATCH_BYTES = 2 << 20
_BATCH_ROWS = 65_536


class OrderedRows(TemporaryFiles):
    """Rows of one schema, which come back in the order of some of their columns: ascending, nulls first, equal ones in
    order of arrival. A context manager: leaving it removes its files.

    Rows beyond `budget` bytes go to temporary Arrow IPC files, each of which is in order, and which are merged.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str], budget: int) -> None:
        """Creates the collection. `keys`: names of columns that Arrow can sort, without NaN."""
        super().__init__()
        self.schema = schema
        self.num_rows = 0
        self._keys = tuple(keys)
        self._budget = budget
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._runs: list[str] = []

    def close(self) -> None:
        """See `TemporaryFiles.close`; forgets the rows in memory, too."""
        self._held.clear()
        super().close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        self.num_rows += batch.num_rows
        if self._held_bytes > self._budget:
            self._spill()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in order. Called once, after the last `add`."""
        held = self._sorted_batches()
        if not self._runs:
            yield from held
            return
        yield from self._merge_runs([*map(_read_run, self._runs), held])

    def _merge_runs(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Merges runs, each of which is in order, block by block. Among equal rows, those of the first run come
        first."""
        heads = {number: batch for number, run in enumerate(runs) if (batch := next(run, None)) is not None}
        while heads:
            # rows up to the first one that may be followed by unread rows are complete
            bound, first = min((key_of(head, head.num_rows - 1, self._keys), number) for number, head in heads.items())
            parts = []
            for number, head in list(heads.items()):
                count = head.num_rows
                if number != first:
                    count = _count_before(head, self._keys, bound, after=number < first)
                parts.append(head.slice(0, count))
                rest = head.slice(count) if count < head.num_rows else next(runs[number], None)
                if rest is None:
                    del heads[number]
                else:
                    heads[number] = rest
            yield from self._in_order(parts)

    def _in_order(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches, self.schema)
        if rows.num_rows == 0:
            return
        order = _sort_positions(rows, self._keys)
        step = min(_BATCH_ROWS, max(_BATCH_BYTES * rows.num_rows // max(rows.nbytes, 1), 1))
        for start in range(0, rows.num_rows, step):
            yield from rows.take(order.slice(start, step)).combine_chunks().to_batches()

    def _sorted_batches(self) -> Iterator[pa.RecordBatch]:
        held, self._held, self._held_bytes = self._held, [], 0
        return self._in_order(held)

    def _spill(self) -> None:
        self._runs.append(self.write_batches(f"{len(self._runs)}.arrow", self.schema, self._sorted_batches()))


def ordered(rows: pa.RecordBatch, keys: Sequence[str], bounds: Sequence[Key]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Sorts rows as `OrderedRows` does, and divides them by ranges of their keys: each up to a bound, and the last one
    beyond. Yields the ranges that have rows, with their numbers."""
    in_order = rows.take(_sort_positions(pa.Table.from_batches([rows]), keys))
    start = 0
    for number, bound in enumerate(bounds):
        end = _count_before(in_order, keys, bound, after=True)
        if end > start:
            yield number, in_order.slice(start, end - start)
        start = end
    if start < in_order.num_rows:
        yield len(bounds), in_order.slice(start)


def key_of(batch: pa.RecordBatch, row: int, keys: Sequence[str]) -> Key:
    """Returns the sort key of a row, as tuples compare."""
    values = (batch.column(name)[row].as_py() for name in keys)
    return tuple((value is not None, value) for value in values)


def _count_before(batch: pa.RecordBatch, keys: Sequence[str], bound: Key, *, after: bool) -> int:
    """Counts the rows of a sorted batch that come before a key; with `after`, also those equal to it."""
    find = bisect_right if after else bisect_left
    return find(range(batch.num_rows), bound, key=lambda row: key_of(batch, row, keys))


def _sort_positions(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Returns the sorted positions of the rows: nulls first, equal rows in their order."""
    keys: dict[str, pa.ChunkedArray] = {}
    for name in names:
        if rows[name].null_count:  # false before true, so nulls before values
            keys[f"{len(keys)}"] = rows[name].is_valid()
        keys[f"{len(keys)}"] = rows[name]
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def _read_run(path: str) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(path) as source:  # what was read of a mapped file would stay in memory
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
