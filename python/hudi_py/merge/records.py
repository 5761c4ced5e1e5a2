"""Reduces the log of a file slice to one record for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.merge.fold import FoldSpace, Records, RowStore, fold_pairs, fold_versions
from hudi_py.merge.merger import load_merger
from hudi_py.merge.ordering import field_codes
from hudi_py.merge.reduce import Mask, Rows, Versions, Winners, find_winners
from hudi_py.merge.settings import MergeSettings
from hudi_py.merge.versions import INSTANT, KEY, PARTITION, LogVersions
from hudi_py.schema import COMMIT_TIME, PARTITION_PATH, RECORD_KEY


@dataclass(frozen=True, slots=True)
class LogRecords:
    """The log of a file slice, reduced to one version for each record key."""

    winners: Winners
    rows: pa.Table
    """The winning data rows; with `reduce_versions(..., keep_deletes=True)` also those of deletes."""
    slots: Rows
    """For each key its row in `rows`; -1 for a delete whose row is not kept."""
    absent: Mapping[str, Mask] = field(default_factory=dict)
    """Columns that some of `rows` lack (partial updates), with a mask of those rows."""
    partial: bool = False
    """Whether the log has partial updates: base rows then provide the columns that a record lacks."""
    withheld: Mask | None = None
    """Keys whose row must not be inserted according to the payload class; None: there are none."""
    made: Mask | None = None
    """Deletes without a row of their own, for which `rows` has a row with the known columns; None if there are none."""
    base_rows: Rows | None = None
    """For each key its row number in the base file, all distinct; None if rows are matched by key."""

    @property
    def keys(self) -> pa.Array:
        return self.winners.keys

    def __len__(self) -> int:
        return len(self.winners.keys)


def reduce_versions(versions: LogVersions, settings: MergeSettings, *, keep_deletes: bool = False) -> LogRecords:
    """Reduces versions to one record for each key.

    Args:
        keep_deletes: whether to keep a row for each delete: the data row that marks it, or else a row of key, partition
            path, ordering columns and nulls.
    """
    reduced = versions.as_versions(settings)
    if settings.merger is not None:
        return _paired_records(versions, reduced, settings.merger, settings, keep_deletes)
    if settings.folds or versions.partial_from is not None:
        return _folded_records(versions, reduced, settings, keep_deletes)
    winners = find_winners(reduced, settings)
    kept = np.ones(len(winners.keys), np.bool_) if keep_deletes else ~winners.deletes
    if keep_deletes:
        rows = all_rows(versions, settings).take(pa.array(winners.versions))
        return LogRecords(winners, rows, _row_slots(kept))
    return LogRecords(winners, versions.rows.take(pa.array(winners.versions[kept])), _row_slots(kept))


def _folded_records(versions: LogVersions, logged: Versions, settings: MergeSettings, keep_deletes: bool) -> LogRecords:
    encoded = logged.keys.dictionary_encode()
    ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    (codes,) = field_codes([list(logged.ordering)], [len(logged.keys)])
    space = FoldSpace(versions.rows.combine_chunks(), settings, codes, logged.defaults, versions.absent)
    records = fold_versions(space, logged, ids, len(encoded.dictionary), partial_from=versions.partial_from)
    withheld = _withheld_keys(space, records, settings)
    # a payload class needs the rows of deletes too, to merge them with base rows
    with_deletes = keep_deletes or settings.payload is not None
    kept = np.flatnonzero(~records.empty if with_deletes else ~records.deleted)
    slots = np.full(len(records.empty), -1, np.int64)
    slots[kept] = np.arange(len(kept))
    live = records.take(kept)
    rows, absent = space.table(live), space.lacking(live)
    ordering = tuple(values.take(pa.array(row)) for values, row in zip(logged.ordering, records.ordering, strict=False))
    if keep_deletes and records.empty.any():
        empty = np.flatnonzero(records.empty)
        slots[empty] = len(kept) + np.arange(len(empty))
        # for a delete made by a payload class, the version with its ordering value provides the rest
        position = records.ordering[0, empty]
        values = [column.take(pa.array(empty)) for column in ordering]
        whole = all_rows(versions, settings)
        more = {
            name: combined(whole[name]).take(pa.array(position))
            for name in (PARTITION_PATH, COMMIT_TIME)
            if name in whole.column_names
        }
        keys = encoded.dictionary.take(pa.array(empty))
        rows = pa.concat_tables([rows, _delete_rows(rows.schema, keys, values, settings, more)])
        absent = {name: np.r_[mask, np.zeros(len(empty), np.bool_)] for name, mask in absent.items()}
    winners = Winners(
        keys=encoded.dictionary,
        versions=np.arange(len(records.empty), dtype=np.int64),
        deletes=records.deleted,
        always=records.unconditional,
        ordering=ordering,
        ids=ids,
    )
    made = records.empty if records.empty.any() else None
    return LogRecords(winners, rows, slots, absent, versions.partial_from is not None, withheld, made)


def _paired_records(
    versions: LogVersions, logged: Versions, name: str, settings: MergeSettings, keep_deletes: bool
) -> LogRecords:
    encoded = logged.keys.dictionary_encode()
    ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    store = RowStore(all_rows(versions, settings))
    row, last, deleted, always = fold_pairs(store, load_merger(name), name, ids, logged.position, logged.deletes)
    kept = np.ones(len(row), np.bool_) if keep_deletes else ~deleted
    return LogRecords(
        Winners(encoded.dictionary, last, deleted, always, (), ids), store.table(row[kept]), _row_slots(kept)
    )


def _withheld_keys(space: FoldSpace, records: Records, settings: MergeSettings) -> Mask | None:
    if settings.payload is None:
        return None
    marked = space.marked(records) & ~records.deleted
    return marked if marked.any() else None


def _row_slots(kept: Mask) -> Rows:
    slots = np.full(len(kept), -1, np.int64)
    slots[kept] = np.arange(int(kept.sum()))
    return slots


def all_rows(versions: LogVersions, settings: MergeSettings) -> pa.Table:
    """Returns every version as a row, in the order of their numbers: data rows, then delete entries."""
    entries = versions.entries
    ordering = [combined(entries[str(number)]) for number in range(len(settings.ordering_fields))]
    keys, partitions = combined(entries[KEY]), combined(entries[PARTITION])
    known = {PARTITION_PATH: partitions, COMMIT_TIME: combined(entries[INSTANT])}
    return pa.concat_tables([versions.rows, _delete_rows(versions.rows.schema, keys, ordering, settings, known)])


def _delete_rows(
    schema: pa.Schema,
    keys: pa.Array,
    ordering: Sequence[pa.Array],
    settings: MergeSettings,
    more: Mapping[str, pa.Array],
) -> pa.Table:
    """Builds rows for deletes without one: key, partition path, ordering columns, commit time, and nulls."""
    known = dict(zip(settings.ordering_fields, ordering, strict=False)) | {RECORD_KEY: keys, **more}
    if len(settings.key_fields) == 1:
        name = settings.key_fields[0]
        if name in schema.names and pa.types.is_string(schema.field(name).type):
            known[name] = keys
    columns = [known[field.name] if field.name in known else pa.nulls(len(keys), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
