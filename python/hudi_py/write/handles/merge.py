"""Rewrites a base file with updates, deletes and new rows (`FileGroupReaderBasedMergeHandle`, `HoodieConcatHandle`,
Apache Hudi 1.2.0).

The old file is streamed: untouched rows keep their meta columns except for `_hoodie_file_name`, updated ones are
compared with the stored ones under the table's merge mode, and new rows follow at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.formats.arrays import combined
from hudi_py.formats.lookup import TextSet
from hudi_py.merge import LogRecords, Versions, Winners, find_winners
from hudi_py.merge.base import BaseMerge, Watch
from hudi_py.merge.base import MergeCounts as MergedCounts
from hudi_py.merge.keys import with_keys
from hudi_py.merge.records import reduce_versions
from hudi_py.merge.reduce import row_versions
from hudi_py.merge.versions import DEFAULT, POSITION, LogVersions, entry_schema
from hudi_py.merge.versions import KEY as ENTRY_KEY
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.schema import FILE_NAME, RECORD_KEY
from hudi_py.write.changes import change_log
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.base import BaseFileHandle

BASE_ROWS = 262_144
"""Rows in a batch of the old file. Large, because the look-up of keys builds a hash table for each batch."""


@dataclass(frozen=True, slots=True)
class Updates:
    """Incoming rows for keys of one file group, reduced to one version for each key."""

    records: LogRecords
    """Their rows have `_hoodie_record_key`, then the table's columns."""

    @property
    def winners(self) -> Winners:
        return self.records.winners


@dataclass(slots=True)
class _Counts:
    """Counts of what happened to the rows of the old file."""

    base: int = 0
    kept: int = 0
    """Including rows folded from old and incoming ones."""
    won: int = 0
    """Incoming rows written instead of old ones, or in addition to them."""
    made: int = 0
    """Rows folded from old and incoming ones."""

    @property
    def replaced(self) -> int:
        """Old rows that the new file lacks."""
        return self.base - self.kept

    def deleted(self, *, folds: bool) -> int:
        """Counts the old rows that were deleted. With `folds`, all others are kept or folded into other rows."""
        return self.replaced if folds else self.replaced - self.won


def updates_of(rows: pa.Table, context: WriteContext, *, deleted: pa.StringArray | None = None) -> Updates:
    """Converts incoming rows (`_hoodie_record_key`, then the table's columns) to versions of their keys. `deleted`:
    other keys, which are deleted whatever their ordering value."""
    merge = context.settings.merge
    count = rows.num_rows
    if merge.folds:
        return Updates(_folded_updates(rows, context, deleted))
    versions = row_versions(rows, merge, combined(rows[RECORD_KEY]), np.arange(count, dtype=np.int64))
    if deleted is not None and len(deleted):
        more = np.ones(len(deleted), np.bool_)
        versions = Versions(
            keys=pa.concat_arrays([versions.keys, deleted]),
            position=np.arange(count + len(deleted), dtype=np.int64),
            deletes=np.r_[versions.deletes, more],
            entries=np.r_[versions.entries, ~more],
            defaults=np.r_[versions.defaults, more],
            ordering=tuple(
                pa.concat_arrays([column, pa.nulls(len(deleted), column.type)]) for column in versions.ordering
            ),
        )
    winners = find_winners(versions, merge)
    data = np.flatnonzero(~winners.deletes)
    slots = np.full(len(winners.keys), -1, np.int64)
    slots[data] = np.arange(len(data))
    taken = context.row_schema.empty_table()
    if len(data):
        taken = rows if len(data) == len(versions.keys) else rows.take(pa.array(winners.versions[data]))
    set_ = context.settings.updated_columns
    if set_ is None:
        return Updates(LogRecords(winners, taken, slots))
    lacks = np.ones(taken.num_rows, np.bool_)
    absent = {name: lacks for name in context.settings.schema.arrow.names if name not in set_}
    return Updates(LogRecords(winners, taken, slots, absent, partial=True))


def _folded_updates(rows: pa.Table, context: WriteContext, deleted: pa.StringArray | None) -> LogRecords:
    """Returns the updates of a table whose merges fold two versions into one row."""
    merge, count = context.settings.merge, rows.num_rows
    schema = entry_schema(context.row_schema, merge)
    entries = schema.empty_table()
    if deleted is not None and len(deleted):
        known = {
            ENTRY_KEY: deleted,
            POSITION: pa.array(np.arange(count, count + len(deleted), dtype=np.int64)),
            DEFAULT: pa.repeat(True, len(deleted)),
        }
        columns = [known.get(field.name, pa.nulls(len(deleted), field.type)) for field in schema]
        entries = pa.Table.from_arrays(columns, schema=schema)
    position = np.arange(count, dtype=np.int64)
    return reduce_versions(LogVersions(rows, position, entries, {}), merge)


def merge_base_file(
    context: WriteContext,
    slice_: FileSlice,
    updates: Updates | None,
    inserts: Iterable[pa.RecordBatch] = (),
    *,
    keys_tagged: bool = True,
) -> WriteStat:
    """Writes the next version of a slice's base file.

    Args:
        slice_: has a base file; its log files are ignored.
        updates: versions of keys. With `keys_tagged` the file has all of them; otherwise new keys are inserted.
        inserts: rows (`_hoodie_record_key`, then the table's columns) to add as they are.
    """
    base = slice_.base_file
    if base is None:
        raise ValueError(f"file group {slice_.file_id} has no base file to merge with")
    counts = _Counts()
    added = 0
    with (
        BaseFileHandle(context, slice_.partition, slice_.file_id, previous=base) as handle,
        change_log(
            context.transaction.publication,
            context.settings.changes,
            context.transaction.instant,
            slice_.partition,
            slice_.file_id,
            str(context.task),
        ) as changes,
    ):
        old = _old_rows(context, base, handle.name, counts)
        folds = updates is not None and (updates.records.partial or context.settings.merge.folds)
        watched = _keys_to_watch(context, handle, updates, keys_tagged=keys_tagged)
        if watched is not None:
            old = watched.before(old)
        watch = None if changes is None else changes.add
        for batch in old if updates is None else _merge_rows(context, handle, old, updates, counts, watch):
            handle.write(batch)
            if watched is not None:
                watched.after(batch)
        if updates is None:
            counts.kept = counts.base
        if watched is not None and handle.sidecar is not None:
            watched.add_to(handle.sidecar)
        for batch in inserts:
            handle.write_new(batch)
            if changes is not None:
                changes.add(None, batch)
            added += batch.num_rows
        deleted = counts.deleted(folds=folds)
        if watched is not None and not keys_tagged and not folds:
            deleted = watched.num_deleted
        changed = counts.replaced - deleted + counts.made
        stat = handle.finish(inserts=added + counts.won - (changed - counts.made), updates=changed, deletes=deleted)
        return stat if changes is None else replace(stat, cdc_stats=changes.finish())


def _keys_to_watch(
    context: WriteContext, handle: BaseFileHandle, updates: Updates | None, *, keys_tagged: bool
) -> _Watched | None:
    """Returns the keys of updates to watch in the old and the new file; None if it does not matter where they are."""
    if updates is None or (handle.sidecar is None and keys_tagged):
        return None
    known = keys_tagged or handle.sidecar is None
    return _Watched(updates, only_deletes=known and not context.settings.merge.folds)


class _Watched:
    """The keys that a merge may add to a file group or remove: which of them the old file has, and which the new
    one."""

    def __init__(self, updates: Updates, *, only_deletes: bool) -> None:
        """Watches the keys of updates. `only_deletes`: an update of a known key neither adds nor removes it."""
        deletes = updates.winners.deletes
        self._keys = updates.winners.keys.filter(pa.array(deletes)) if only_deletes else updates.winners.keys
        self._set = TextSet(self._keys)
        self._deletes = deletes[deletes] if only_deletes else deletes
        self.num_deleted = 0
        """Rows of the old file that the new one lacks because their keys are deleted."""
        self._was = np.zeros(len(self._keys), np.bool_)
        self._is = np.zeros(len(self._keys), np.bool_)

    def before(self, old: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in old:
            self.num_deleted += self._mark_seen(self._was, batch)
            yield batch

    def after(self, batch: pa.RecordBatch) -> None:
        self.num_deleted -= self._mark_seen(self._is, batch)

    def add_to(self, sidecar: Sidecar) -> None:
        sidecar.add_keys(self._keys.filter(pa.array(self._is & ~self._was)))
        sidecar.add_keys(self._keys.filter(pa.array(self._was & ~self._is)), removed=True)

    def _mark_seen(self, seen: npt.NDArray[np.bool_], batch: pa.RecordBatch) -> int:
        """Counts the rows whose key is deleted."""
        if not len(self._keys):
            return 0
        numbers = self._set.find(batch.column(RECORD_KEY))
        place = numbers[numbers >= 0]
        seen[place] = True
        return int(self._deletes[place].sum())


def _merge_rows(
    context: WriteContext,
    handle: BaseFileHandle,
    old: Iterator[pa.RecordBatch],
    updates: Updates,
    counts: _Counts,
    watch: Watch | None,
) -> Iterator[pa.RecordBatch]:
    ended = False

    def until_end() -> Iterator[pa.RecordBatch]:
        nonlocal ended
        yield from old
        ended = True

    given = updates.records
    stamped = [context.stamped(batch, handle.partition, handle.name) for batch in given.rows.to_batches()]
    log = replace(given, rows=pa.Table.from_batches(stamped, context.keyed_schema).combine_chunks())
    merged = MergedCounts()
    settings = replace(context.settings.merge, fills_bytes=True)
    merging = BaseMerge(log, settings, counts=merged, watch=watch)
    # batches after the end of the old file are incoming rows
    for batch in chain(chain.from_iterable(map(merging.add, until_end())), merging.rest()):
        if ended:
            counts.won += batch.num_rows
        else:
            counts.kept += batch.num_rows
            counts.made = merged.updates
        yield batch


def _old_rows(context: WriteContext, base: BaseFile, new_name: str, counts: _Counts) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the old file in the context's `keyed_schema`, with the new file's name."""
    key_fields, path = context.settings.stored.key_fields, base.path
    schema, history = context.keyed_schema, context.settings.schema.history
    position = schema.get_field_index(FILE_NAME)
    with BaseFileReader(context.transaction.storage, base, history) as reader:
        if not key_fields and not reader.has_keys:
            raise CorruptFileError(f"Base file {path} has no column {RECORD_KEY}; it cannot be merged with by key")
        for batch in reader.batches(schema, batch_rows=BASE_ROWS):
            counts.base += batch.num_rows
            if position < 0:
                yield with_keys(batch, key_fields)
                continue
            columns = batch.columns
            columns[position] = pa.repeat(pa.scalar(new_name, pa.string()), batch.num_rows)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
