"""Merges a base file, streamed in batches, with the winners of its log (`KeyBasedFileGroupRecordBuffer`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.formats.arrays import in_schema
from hudi_py.formats.lookup import TextSet
from hudi_py.merge.fold import FoldSpace, RowStore, combine, merge_rows
from hudi_py.merge.merger import RecordMerger, load_merger
from hudi_py.merge.ordering import default_mask, field_codes, ordering_codes
from hudi_py.merge.records import LogRecords
from hudi_py.merge.reduce import Mask, Rows, row_ordering
from hudi_py.merge.settings import MergeSettings
from hudi_py.schema import RECORD_KEY

OUTPUT_ROWS = 131_072
"""Maximum rows of a batch of log records."""
Hits = npt.NDArray[np.intp]
Images: TypeAlias = pa.RecordBatch | pa.Table
Watch: TypeAlias = Callable[[Images | None, Images | None], None]
"""Callback for what a merge does to base rows: (rows before, rows after an update), (deleted rows, None) or (None,
inserted rows). All have the key and the columns of `LogRecords.rows`. Unchanged rows are left out, but a replacement by
an equal row is reported (`BaseFileUpdateCallback`, 1.2.0)."""


@dataclass(slots=True)
class MergeCounts:
    """Totals over merges (`HoodieReadStats`, 1.2.0), complete once the last row has been returned."""

    blocks: int = 0
    block_bytes: int = 0
    """Size of the content of data blocks."""
    records: int = 0
    """Data and delete records in the blocks."""
    keys: int = 0
    """Distinct keys among them."""
    inserts: int = 0
    """Log rows whose key is not in the base file."""
    updates: int = 0
    """Base rows that changed."""
    deletes: int = 0
    """Effective deletes, whether or not the base file has their key."""
    read_ms: int = 0
    """Time to read and reduce the log, in milliseconds."""


def merge_with_base(
    base: Iterable[pa.RecordBatch],
    log: LogRecords,
    settings: MergeSettings,
    *,
    key_column: str = RECORD_KEY,
    watch: Watch | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file slice: the remaining base rows in their order, then the winning log rows.

    A row made of two versions (partial updates, payload classes) follows the remaining rows of its base batch. If a key
    of the log occurs several times in the base file, its first row is merged and the others remain, as in Java.

    Args:
        base: batches with the columns of `log.rows`, including key and ordering columns.
        log: the reduced log. If it has `base_rows`, the batches must be the whole base file in order; unless rows are
            made of two versions, they then need neither the key nor all columns.
        watch: called for each change before the rows are returned.
    """
    merge = BaseMerge(log, settings, key_column, watch=watch)
    for batch in base:
        yield from merge.add(batch)
    yield from merge.rest()


class BaseMerge:
    """Merges incrementally: `add` every base batch, then take the `rest`."""

    def __init__(
        self,
        log: LogRecords,
        settings: MergeSettings,
        key_column: str = RECORD_KEY,
        *,
        counts: MergeCounts | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._counts = counts if counts is not None else MergeCounts()
        self._counts.records += len(log.winners.ids)
        self._counts.keys += len(log)
        self._log = log
        self._watch = watch
        self._settings = settings
        self._key_column = key_column
        self._keys = TextSet(log.keys)
        self._folds = settings.folds or log.partial
        self._used = np.zeros(len(log), np.bool_)  # log records beaten by, or merged into, a base row
        self._met = np.zeros(len(log), np.bool_)
        self._loaded: RecordMerger | None = None
        self._start = 0  # number of base rows before the next batch
        self._by_row: tuple[Rows, Rows] | None = None  # row numbers of the base file, ascending, and their key numbers
        if log.base_rows is not None:
            order = np.argsort(log.base_rows)
            self._by_row = log.base_rows[order], order

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the output rows of a base batch."""
        if not batch.num_rows:
            return
        hits, keys = self._found(batch)
        if not len(hits):
            yield batch
            return
        if self._settings.merger is not None:
            yield from self._paired(batch, hits, keys, self._settings.merger)
            return
        if self._folds:
            yield from self._folded(batch, hits, keys)
            return
        yield from _rows_without(batch, self._chosen(batch, hits, keys))

    def replaced(self, batch: pa.RecordBatch) -> Hits:
        """Returns the numbers of the rows that `add` would drop. Not for merges that combine two versions."""
        hits, keys = self._found(batch)
        return self._chosen(batch, hits, keys)

    def _chosen(self, batch: pa.RecordBatch, hits: Hits, keys: Rows) -> Hits:
        """Returns the hits that their log records replace or delete."""
        stale = _stale_hits(batch, hits, keys, self._log, self._settings)
        self._used[keys[stale]] = True
        self._tell(batch, hits[~stale], keys[~stale])
        return hits[~stale]

    def _found(self, batch: pa.RecordBatch) -> tuple[Hits, Rows]:
        """Returns rows of the batch that have log records, ascending, and their key numbers; each key only once."""
        if self._by_row is not None:
            rows, numbers = self._by_row
            start, self._start = self._start, self._start + batch.num_rows
            first, end = np.searchsorted(rows, [start, self._start])
            self._met[numbers[first:end]] = True
            return rows[first:end] - start, numbers[first:end]
        result = self._keys.find(batch.column(self._key_column))
        hits = np.flatnonzero(result >= 0)
        return _first_of_each(hits, result[hits], self._met)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields the winning log rows that have not been returned yet."""
        log = self._log
        chosen = (log.slots >= 0) & ~self._used & ~log.winners.deletes
        if log.withheld is not None:
            chosen &= ~log.withheld
        met = int((chosen & self._met).sum())
        self._counts.updates += met
        self._counts.inserts += int(chosen.sum()) - met
        self._counts.deletes += int((log.winners.deletes & ~self._used).sum())
        if self._watch is not None and met < chosen.sum():
            self._watch(None, log.rows.take(pa.array(log.slots[chosen & ~self._met])))
        yield from _rows_at(log.rows, log.slots[chosen])

    def deletes(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of effective deletes, after the whole base file; needs a log reduced with `keep_deletes`."""
        log = self._log
        yield from _rows_at(log.rows, log.slots[log.winners.deletes & ~self._used & (log.slots >= 0)])

    def _folded(self, batch: pa.RecordBatch, hits: Hits, keys: Rows) -> Iterator[pa.RecordBatch]:
        """Merges hits column by column: the base row is the older version, the log's the newer one."""
        log, settings = self._log, self._settings
        older = pa.Table.from_batches([batch]).select(log.rows.column_names).take(pa.array(hits))
        slots = log.slots[keys]
        if log.made is not None:
            slots = np.where(log.made[keys], -1, slots)
        # deletes without a row have numbers after all rows
        held = np.flatnonzero(slots >= 0)
        newer = log.rows.take(pa.array(slots[held]))
        rows = pa.concat_tables([in_schema(older, newer.schema), newer]).combine_chunks()
        count = len(hits)
        numbers = np.full(count, -1, np.int64)
        numbers[held] = count + np.arange(len(held))
        numbers[slots < 0] = rows.num_rows + np.arange(count - len(held))
        order = np.argsort(numbers)
        ordering = [column.take(pa.array(keys[order])) for column in log.winners.ordering]
        own = row_ordering(older, settings)
        codes = np.concatenate(field_codes([list(own), ordering], [count, count]), axis=1)
        unconditional = log.winners.deletes[keys[order]] & log.winners.always[keys[order]]
        defaults = np.concatenate([default_mask(own, count), unconditional])
        absent = {name: np.r_[np.zeros(count, np.bool_), mask[slots[held]]] for name, mask in log.absent.items()}
        space = FoldSpace(rows, settings, codes, defaults, absent)
        none = np.zeros(count, np.bool_)
        base = space.first(np.arange(count, dtype=np.int64), none)
        late = np.full(count, log.partial)
        result = combine(space, base, space.first(numbers, log.winners.deletes[keys]), none, late)
        # a record that a payload class has only now turned into a delete must not be returned as an insert
        self._used[keys[~result.deleted | ~log.winners.deletes[keys]]] = True
        made = np.flatnonzero(~result.deleted)
        untouched = np.zeros(count, np.bool_)
        untouched[made] = (result.sources[:, made] == base.sources[:, made]).all(axis=0)
        yield from _rows_without(batch, hits[~untouched])
        made = made[~untouched[made]]
        self._counts.updates += len(made)
        self._counts.deletes += int((result.deleted & ~log.winners.deletes[keys]).sum())
        if self._watch is not None and result.deleted.any():
            self._watch(older.filter(pa.array(result.deleted)), None)
        if len(made):
            table = space.table(result.take(made))
            if self._watch is not None:
                self._watch(older.take(pa.array(made)), table)
            yield from table.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)

    def _paired(self, batch: pa.RecordBatch, hits: Hits, keys: Rows, name: str) -> Iterator[pa.RecordBatch]:
        """Merges hits with a Python merger; a delete in the log removes the base row, whatever followed it."""
        log = self._log
        yield from _rows_without(batch, hits)
        merges = ~log.winners.deletes[keys] & ~log.winners.always[keys]
        live = np.flatnonzero(merges)
        self._used[keys[live]] = True
        self._tell(batch, hits[~merges], keys[~merges])
        if not len(live):
            return
        older = pa.Table.from_batches([batch]).select(log.rows.column_names).take(pa.array(hits[live]))
        store = RowStore(pa.concat_tables([older, log.rows.take(pa.array(log.slots[keys[live]]))]))
        count = len(live)
        pairs = np.arange(count, dtype=np.int64)
        made, deleted = merge_rows(store, self._merger(), name, pairs, pairs + count)
        self._counts.updates += count - int(deleted.sum())
        self._counts.deletes += int(deleted.sum())
        table = store.table(made[~deleted])
        if self._watch is not None:
            for before, after in ((older.filter(pa.array(~deleted)), table), (older.filter(pa.array(deleted)), None)):
                if before.num_rows:
                    self._watch(before, after)
        yield from _rows_at(table, np.arange(table.num_rows))

    def _tell(self, batch: pa.RecordBatch, hits: Hits, keys: Rows) -> None:
        """Reports the base rows that log records replace or delete."""
        if self._watch is None or not len(hits):
            return
        deletes = self._log.winners.deletes[keys]
        if deletes.any():
            self._watch(batch.take(pa.array(hits[deletes])), None)
        if not deletes.all():
            slots = pa.array(self._log.slots[keys[~deletes]])
            self._watch(batch.take(pa.array(hits[~deletes])), self._log.rows.take(slots))

    def _merger(self) -> RecordMerger:
        if self._loaded is None:
            assert self._settings.merger is not None
            self._loaded = load_merger(self._settings.merger)
        return self._loaded


def _rows_without(batch: pa.RecordBatch, removed: Hits) -> Iterator[pa.RecordBatch]:
    keep = np.ones(batch.num_rows, np.bool_)
    keep[removed] = False
    if keep.all():
        yield batch
    elif keep.any():
        yield batch.filter(pa.array(keep))


def _rows_at(rows: pa.Table, slots: Rows) -> Iterator[pa.RecordBatch]:
    if len(slots):
        taken = rows if len(slots) == rows.num_rows else rows.take(pa.array(np.sort(slots)))
        yield from taken.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)


def _first_of_each(hits: Hits, keys: Rows, met: Mask) -> tuple[Hits, Rows]:
    first = np.full(len(met), -1, np.int64)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    fresh = (first[keys] == np.arange(len(keys))) & ~met[keys]
    met[keys] = True
    return hits[fresh], keys[fresh]


def _stale_hits(batch: pa.RecordBatch, hits: Hits, keys: Rows, log: LogRecords, settings: MergeSettings) -> Mask:
    """Returns hits whose base row has a strictly greater ordering value than the log's version."""
    if not settings.by_event_time or not len(hits):
        return np.zeros(len(hits), np.bool_)
    position, of = pa.array(hits), pa.array(keys)
    older = [column.take(position) for column in row_ordering(batch, settings)]
    newer = [column.take(of) for column in log.winners.ordering]
    old_codes, new_codes = ordering_codes([older, newer], [len(hits), len(hits)])
    return np.asarray((new_codes < old_codes) & ~log.winners.always[keys], np.bool_)
