"""Merging a base file, streamed in batches, with the winners of its log (`KeyBasedFileGroupRecordBuffer`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.merge.ordering import ordering_codes
from hudi_py.merge.reduce import Rows, Winners, row_ordering
from hudi_py.merge.settings import MergeSettings
from hudi_py.schema import RECORD_KEY

OUTPUT_ROWS = 131_072
"""Rows of a batch of log records."""


@dataclass(frozen=True, slots=True)
class LogRecords:
    """The log side of a file slice, reduced to one version for each record key."""

    winners: Winners
    rows: pa.Table
    """The winning data rows (deletes have none)."""
    slots: Rows
    """For each key its row in `rows`, -1 for a delete."""

    @property
    def keys(self) -> pa.Array:
        return self.winners.keys

    def __len__(self) -> int:
        return len(self.winners.keys)


def merge_with_base(
    base: Iterable[pa.RecordBatch], log: LogRecords, settings: MergeSettings, *, key_column: str = RECORD_KEY
) -> Iterator[pa.RecordBatch]:
    """The rows of a file slice: base rows which stay in their order, then the log rows which won.

    Args:
        base: batches with the columns of `log.rows`, the key and ordering columns among them. Large batches are
            better: the key look-up builds its hash table anew for each.
        log: the reduced log.

    Where a key occurs more than once in the base file, its first row is merged and the others stay, as in Java.
    """
    beaten = np.zeros(len(log), np.bool_)  # log versions older than the base row of their key
    met = np.zeros(len(log), np.bool_)
    for batch in base:
        if not batch.num_rows:
            continue
        found = pc.index_in(batch.column(key_column), value_set=log.keys)
        hits = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
        if not len(hits):
            yield batch
            continue
        keys = found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        hits, keys = _first_of_each(hits, keys, met)
        stale = _stale(batch, hits, keys, log, settings)
        beaten[keys[stale]] = True
        keep = np.ones(batch.num_rows, np.bool_)
        keep[hits[~stale]] = False
        if keep.all():
            yield batch
        elif keep.any():
            yield batch.filter(pa.array(keep))
    won = log.slots[(log.slots >= 0) & ~beaten]
    if len(won):
        rows = log.rows if len(won) == log.rows.num_rows else log.rows.take(pa.array(np.sort(won)))
        yield from rows.combine_chunks().to_batches(max_chunksize=OUTPUT_ROWS)


def _first_of_each(
    hits: npt.NDArray[np.intp], keys: Rows, met: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], Rows]:
    first = np.full(len(met), -1, np.int64)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    fresh = (first[keys] == np.arange(len(keys))) & ~met[keys]
    met[keys] = True
    return hits[fresh], keys[fresh]


def _stale(
    batch: pa.RecordBatch, hits: npt.NDArray[np.intp], keys: Rows, log: LogRecords, settings: MergeSettings
) -> npt.NDArray[np.bool_]:
    """Which hits have a base row of strictly greater ordering value than the log's version."""
    if not settings.by_event_time or not len(hits):
        return np.zeros(len(hits), np.bool_)
    at, of = pa.array(hits), pa.array(keys)
    older = [column.take(at) for column in row_ordering(batch, settings)]
    newer = [column.take(of) for column in log.winners.ordering]
    old_codes, new_codes = ordering_codes([older, newer], [len(hits), len(hits)])
    return np.asarray((new_codes < old_codes) & ~log.winners.always[keys], np.bool_)
