"""Rewriting a base file with updates, deletes and new rows (`FileGroupReaderBasedMergeHandle`, `HoodieConcatHandle`,
Apache Hudi 1.2.0).

The old file is streamed: untouched rows keep their meta columns but for `_hoodie_file_name`, updated ones are compared
with the stored ones under the table's merge mode, and new rows follow at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.formats.arrays import combined
from hudi_py.formats.parquet import iter_base_batches
from hudi_py.merge import LogRecords, Versions, Winners, find_winners, merge_with_base
from hudi_py.merge.base import Watch
from hudi_py.merge.reduce import row_versions
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.schema import FILE_NAME, META_FIELDS, RECORD_KEY, conform
from hudi_py.write.changes import change_log
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.base import BaseFileHandle

BASE_ROWS = 262_144
"""Rows in a batch of the old file. Large, as the look-up of keys builds a hash table for each batch."""


@dataclass(frozen=True, slots=True)
class Updates:
    """Incoming rows for keys of one file group, reduced to one version for each key."""

    winners: Winners
    rows: pa.Table
    """The winning data rows (`_hoodie_record_key`, then the table's columns)."""
    slots: npt.NDArray[np.int64]
    """For each winner its row in `rows`, -1 for a delete."""


@dataclass(slots=True)
class MergeCounts:
    """Rows of the old file, and what became of them."""

    base: int = 0
    kept: int = 0
    won: int = 0
    """Incoming rows written in place of old ones, or in addition to them."""


def updates_of(rows: pa.Table, context: WriteContext, *, deleted: pa.StringArray | None = None) -> Updates:
    """Incoming rows (`_hoodie_record_key`, then the table's columns) as versions of their keys. `deleted`: other keys,
    which are deleted whatever their ordering value."""
    merge = context.settings.merge
    count = rows.num_rows
    versions = row_versions(rows, merge, combined(rows[RECORD_KEY]), np.arange(count, dtype=np.int64))
    if deleted is not None and len(deleted):
        more = np.ones(len(deleted), np.bool_)
        versions = Versions(
            keys=pa.concat_arrays([versions.keys, deleted]),
            position=np.arange(count + len(deleted), dtype=np.int64),
            deletes=np.r_[versions.deletes, more],
            entries=np.r_[versions.entries, ~more],
            defaults=np.r_[versions.defaults, more],
            ordering=tuple(pa.concat_arrays([each, pa.nulls(len(deleted), each.type)]) for each in versions.ordering),
        )
    winners = find_winners(versions, merge)
    data = np.flatnonzero(~winners.deletes)
    slots = np.full(len(winners.keys), -1, np.int64)
    slots[data] = np.arange(len(data))
    if not len(data):
        return Updates(winners, context.row_schema.empty_table(), slots)
    taken = rows if len(data) == len(versions.keys) else rows.take(pa.array(winners.versions[data]))
    return Updates(winners, taken, slots)


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
    counts = MergeCounts()
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
        watched = None
        if updates is not None and (handle.sidecar is not None or not keys_tagged):
            watched = _Watched(updates, only_deletes=keys_tagged or handle.sidecar is None)
        if watched is not None:
            old = watched.before(old)
        watch = None if changes is None else changes.add
        for batch in old if updates is None else _merged(context, handle, old, updates, counts, watch):
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
        replaced = counts.base - counts.kept
        deleted = watched.num_deleted if watched is not None and not keys_tagged else replaced - counts.won
        changed = replaced - deleted
        stat = handle.finish(inserts=added + counts.won - changed, updates=changed, deletes=deleted)
        return stat if changes is None else replace(stat, cdc_stats=changes.finish())


class _Watched:
    """The keys that a merge may add to a file group or remove: which of them the old file has, and the new one."""

    def __init__(self, updates: Updates, *, only_deletes: bool) -> None:
        """`only_deletes`: an update of a known key neither adds nor removes it."""
        deletes = updates.winners.deletes
        self._keys = updates.winners.keys.filter(pa.array(deletes)) if only_deletes else updates.winners.keys
        self._deletes = deletes[deletes] if only_deletes else deletes
        self.num_deleted = 0
        """Rows of the old file that the new one lacks, as their keys are deleted."""
        self._was = np.zeros(len(self._keys), np.bool_)
        self._is = np.zeros(len(self._keys), np.bool_)

    def before(self, old: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in old:
            self.num_deleted += self._mark(self._was, batch)
            yield batch

    def after(self, batch: pa.RecordBatch) -> None:
        self.num_deleted -= self._mark(self._is, batch)

    def add_to(self, sidecar: Sidecar) -> None:
        sidecar.add_keys(self._keys.filter(pa.array(self._is & ~self._was)))
        sidecar.add_keys(self._keys.filter(pa.array(self._was & ~self._is)), removed=True)

    def _mark(self, seen: npt.NDArray[np.bool_], batch: pa.RecordBatch) -> int:
        """The number of rows whose key is deleted."""
        if not len(self._keys):
            return 0
        place = pc.index_in(batch.column(RECORD_KEY), value_set=self._keys).drop_null().to_numpy()
        seen[place] = True
        return int(self._deletes[place].sum())


def _merged(
    context: WriteContext,
    handle: BaseFileHandle,
    old: Iterator[pa.RecordBatch],
    updates: Updates,
    counts: MergeCounts,
    watch: Watch | None,
) -> Iterator[pa.RecordBatch]:
    ended = False

    def until_end() -> Iterator[pa.RecordBatch]:
        nonlocal ended
        yield from old
        ended = True

    stamped = [context.stamped(batch, handle.partition, handle.name) for batch in updates.rows.to_batches()]
    rows = pa.Table.from_batches(stamped, context.file_schema).combine_chunks()
    log = LogRecords(updates.winners, rows, updates.slots)
    # batches after the end of the old file are incoming rows
    for batch in merge_with_base(until_end(), log, context.settings.merge, watch=watch):
        if ended:
            counts.won += batch.num_rows
        else:
            counts.kept += batch.num_rows
        yield batch


def _old_rows(context: WriteContext, base: BaseFile, new_name: str, counts: MergeCounts) -> Iterator[pa.RecordBatch]:
    """Rows of the old file in the file schema, with the new file's name."""
    position, path = META_FIELDS.index(FILE_NAME), base.path
    schema, history = context.file_schema, context.settings.schema.history
    names = schema.names if history is None else history.columns(base.instant, schema.names)
    for batch in iter_base_batches(context.transaction.storage, path, names, batch_rows=BASE_ROWS):
        if RECORD_KEY not in batch.schema.names:
            raise CorruptFileError(f"Base file {path} has no column {RECORD_KEY}; it cannot be merged with by key")
        counts.base += batch.num_rows
        if history is None:
            whole = conform(batch, schema, context=path)
        else:
            whole = history.conform(batch, base.instant, schema, context=path)
        columns = whole.columns
        columns[position] = pa.repeat(pa.scalar(new_name, pa.string()), batch.num_rows)
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
