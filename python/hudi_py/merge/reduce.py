"""Finds the winning version of each record key, exactly as Apache Hudi 1.2.0 decides.

Source of the rules: `BufferedRecordMergerFactory.EventTimeRecordMerger`, `CommitTimeRecordMerger` and
`FileGroupRecordBuffer` (1.2.0). Versions are ordered by their position in the log:

- COMMIT_TIME_ORDERING: the last version wins.
- EVENT_TIME_ORDERING: the greatest ordering value wins, the last one among equals. A *commit-time delete* (a delete
  whose ordering value is the default) beats everything before it. The next data row after it wins whatever its ordering
  value; deletes between the two are ignored.

The second rule looks sequential but is not: of each key only the last commit-time delete matters. Versions before it,
and deletes between it and the next data row, are ignored; of the others the greatest value wins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.formats.arrays import combined, last_of_each, true_where
from hudi_py.merge.ordering import default_mask, ordering_codes
from hudi_py.merge.settings import IS_DELETED, MergeSettings
from hudi_py.schema import OPERATION, conform_array
from hudi_py.schema.paths import values_at

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of records in any order; `position` is their position in the log."""

    keys: pa.Array
    """string; may repeat."""
    position: Rows
    deletes: Mask
    """Versions that delete the record: entries of delete blocks, and data rows with a delete marker."""
    entries: Mask
    """The deletes from delete blocks."""
    defaults: Mask
    """Versions whose ordering value is the default."""
    ordering: tuple[pa.Array, ...]
    """One array for each ordering field, of the column's type."""


@dataclass(frozen=True, slots=True)
class Winners:
    """One version for each distinct key."""

    keys: pa.Array
    """string, distinct, in order of first appearance."""
    versions: Rows
    """For each key the index of its version among the `Versions`."""
    deletes: Mask
    always: Mask
    """Winners that beat a base row whatever its ordering value."""
    ordering: tuple[pa.Array, ...]
    ids: Rows
    """The key number of each of the `Versions`."""


def find_winners(versions: Versions, settings: MergeSettings) -> Winners:
    """Finds the winning version of each key.

    Raises:
        CorruptFileError: a version has no key.
    """
    encoded = versions.keys.dictionary_encode()
    if encoded.indices.null_count:
        missing = encoded.indices.null_count
        raise CorruptFileError(
            f"Cannot merge the records of log files: {missing} of {len(versions.keys)} have no record key"
        )
    ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    row = winning_rows(ids, len(encoded.dictionary), versions, settings)
    commit_time_deletes = versions.deletes[row] & versions.defaults[row]
    always = commit_time_deletes if settings.by_event_time else np.ones(len(row), np.bool_)
    taken = pa.array(row)
    return Winners(
        keys=encoded.dictionary,
        versions=row,
        deletes=versions.deletes[row],
        always=always,
        ordering=tuple(values.take(taken) for values in versions.ordering),
        ids=ids,
    )


def winning_rows(ids: Rows, count: int, versions: Versions, settings: MergeSettings) -> Rows:
    """Returns, for each key number 0..count-1, the index of its winning version; `ids` has each version's key
    number."""
    order = np.argsort(versions.position, kind="stable")
    in_order = ids[order]
    winner = np.full(count, -1, np.int64)
    sequence = np.arange(len(order), dtype=np.int64)
    if not settings.by_event_time:
        return np.asarray(order[last_of_each(in_order, count)], np.int64)
    (codes,) = ordering_codes([list(versions.ordering)], [len(order)])
    codes = codes[order]
    alive = np.ones(len(order), np.bool_)
    commit_time_deletes = np.flatnonzero((versions.deletes & versions.defaults)[order])
    if len(commit_time_deletes):
        last = np.full(count, -1, np.int64)
        last[in_order[commit_time_deletes]] = commit_time_deletes
        after = last[in_order]
        alive = sequence > after
        entries = versions.entries[order]
        rows = np.flatnonzero(alive & ~entries)[::-1]
        first_row = np.full(count, len(order), np.int64)
        first_row[in_order[rows]] = rows
        alive &= ~(entries & (after >= 0) & (sequence < first_row[in_order]))
        winner = last.copy()
    best = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(best, in_order[alive], codes[alive])
    reached = np.flatnonzero(alive & (codes == best[in_order]))
    winner[in_order[reached]] = reached
    return np.asarray(order[winner], np.int64)


def versions_by_key(ids: Rows, position: Rows) -> tuple[Rows, Rows, Rows]:
    """Orders versions by key number and position. Returns that order, where each key starts in it, and its number of
    versions.

    Args:
        ids: key number of each version.
        position: position of each version in the log.
    """
    order = np.lexsort((position, ids)).astype(np.int64)
    in_order = ids[order]
    starts = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]]) if len(order) else np.zeros(0, np.int64)
    return order, starts, np.diff(np.r_[starts, len(order)])


def delete_marks(table: pa.Table | pa.RecordBatch, settings: MergeSettings) -> Mask:
    """Returns rows that a marker column makes deletes (`RecordContext.isDeleteRecord`, 1.2.0)."""
    result = np.zeros(table.num_rows, np.bool_)
    names = table.schema.names
    if IS_DELETED in names and pa.types.is_boolean(table.schema.field(IS_DELETED).type):
        result |= true_where(table[IS_DELETED])
    if OPERATION in names:
        result |= true_where(pc.is_in(table[OPERATION], value_set=pa.array(["D", "-U"])))
    field = settings.delete_field
    if field and field in names:
        column = table[field]
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        text = [conform_array(chunk, pa.string(), path=field) for chunk in chunks]
        result |= true_where(pc.equal(pa.chunked_array(text, pa.string()), settings.delete_marker))
    return result


def row_ordering(table: pa.Table | pa.RecordBatch, settings: MergeSettings) -> tuple[pa.Array, ...]:
    """Returns the ordering columns of a table as arrays; a missing column is null, that is, the default."""
    if not settings.ordered:
        return ()
    columns = (values_at(table, name) for name in settings.ordering_fields)
    return tuple(pa.nulls(table.num_rows, pa.int32()) if item is None else combined(item) for item in columns)


def row_versions(table: pa.Table, settings: MergeSettings, keys: pa.Array, position: Rows) -> Versions:
    """Returns data rows as versions."""
    ordering = row_ordering(table, settings)
    return Versions(
        keys=keys,
        position=position,
        deletes=delete_marks(table, settings),
        entries=np.zeros(table.num_rows, np.bool_),
        defaults=default_mask(ordering, table.num_rows),
        ordering=ordering,
    )
