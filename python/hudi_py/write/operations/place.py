"""Places the rows of a share: in file groups that have their keys, in small files, or in new file groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import write as write_config
from hudi_py.errors import DuplicateKeyError
from hudi_py.formats.arrays import combined
from hudi_py.merge import delete_marks
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.schema import RECORD_KEY
from hudi_py.storage.threads import in_threads, waiting_threads
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.shares import PartitionWriter, Share, Workers, measured_record_size
from hudi_py.write.placement.assign import effective_record_size
from hudi_py.write.rows import (
    ChangedSlice,
    FilledFile,
    NewGroup,
    PartitionedRows,
    Placed,
    RowNumbers,
    TaggedRows,
    UntaggedRows,
    split_share,
)


def place(
    context: WriteContext, operation: Operation, share: Share, rows: TaggedRows | UntaggedRows
) -> Iterable[Placed]:
    """Yields the rows of a share by the file that they go to.

    Raises:
        DuplicateKeyError: the table has a key, and the policy for duplicates is `fail`.
    """
    if isinstance(rows, UntaggedRows):
        return _place_untagged(context, operation, share, rows)
    if operation.traits.known == "delete":
        return _place_deletes(context, rows)
    if operation.traits.known == "refuse":
        return _place_untagged(context, operation, share, _unknown_rows(context, share, rows))
    placed = _merged_in_bucket(context, share, rows) if share.bucket else _place_merged(context, operation, share, rows)
    return placed if rows.alive else (_with_new_apart(context, placed_rows) for placed_rows in placed)


def write_shares(
    context: WriteContext,
    operation: Operation,
    held: PartitionedRows,
    rows_of: Callable[[Share], TaggedRows | UntaggedRows],
    names: Iterable[PartitionPath] | None = None,
) -> list[WriteStat]:
    """Writes the rows of each share; shares of several partitions at a time if there is little to write to a remote
    storage. Returns a statistic for each file when all are written.

    Args:
        held: the input.
        names: names of the shares; None: those by which the input is held.

    Raises:
        ConflictError: rows belong to file groups that a pending clustering is about to replace.
    """
    memory_size = held.num_bytes / max(held.num_rows, 1)

    @cache
    def record_size() -> int:
        return effective_record_size(measured_record_size(context), context.settings.packing, memory_size)

    shares: dict[PartitionPath, list[PartitionPath]] = {}
    for name in held.partitions if names is None else names:
        shares.setdefault(split_share(name)[0], []).append(name)
    context.transaction.view.lister.prefetch(list(shares))
    threads = _num_threads(context, held, shares)
    workers: Workers[list[WriteStat]] = Workers(threads, at_most=threads + 1, max_bytes=context.settings.waiting_bytes)

    def write(path: PartitionPath) -> None:
        partition = PartitionWriter(context, workers, path, record_size)
        for share in partition.shares(shares[path], operation):
            for placed in place(context, operation, share, rows_of(share)):
                partition.write(placed)

    with workers:
        in_threads(write, shares, threads if threads > context.settings.threads else 1)
        stats = chain.from_iterable(workers.results())
    return sorted(stats, key=lambda stat: stat.path)


def _num_threads(context: WriteContext, held: PartitionedRows, partitions: Iterable[PartitionPath]) -> int:
    """Returns the number of threads: as in the settings, or more for small files on a remote storage, where they mostly
    wait for responses."""
    transaction, threads = context.transaction, context.settings.threads
    if transaction.storage.is_local or context.settings.get(write_config.WRITE_THREADS):
        return threads
    paths = () if transaction.config.is_mor else partitions
    slices = (slice_ for path in paths for slice_ in transaction.view.latest_slices(path))
    sizes = (slice_.base_file.size for slice_ in slices if slice_.base_file is not None)
    return waiting_threads(threads, chain([held.num_bytes], sizes))


def live_rows(batch: pa.RecordBatch, context: WriteContext) -> pa.RecordBatch:
    """Returns the rows without a delete marker. Deletes among inserts have nothing to remove, and must not get into
    base files."""
    deletes = delete_marks(batch, context.settings.merge)
    return batch.filter(pa.array(~deletes)) if deletes.any() else batch


def _place_untagged(context: WriteContext, operation: Operation, share: Share, rows: UntaggedRows) -> Iterator[Placed]:
    """Yields rows that are added whether or not their keys are known."""
    bucket = share.bucket
    if bucket is not None and bucket.slice_ is not None and context.transaction.config.is_mor:
        yield ChangedSlice(bucket.slice_, pa.Table.from_batches(list(rows.batches()), context.row_schema))
        return
    marked = sum(int(delete_marks(batch, context.settings.merge).sum()) for batch in rows.batches())

    def window(start: int, count: int) -> Iterator[pa.RecordBatch]:
        return _slice_batches((live_rows(batch, context) for batch in rows.batches()), start, count)

    by_key = not context.settings.get(write_config.ALLOW_DUPLICATES_ON_INSERT)
    start = 0
    for target in share.assign(rows.num_rows - marked, operation):
        some = partial(window, start, target.num_rows)
        start += target.num_rows
        slice_ = share.slice_of(target)
        yield NewGroup(some, target.file_id) if slice_ is None else FilledFile(slice_, some, by_key=by_key)


def _slice_batches(batches: Iterator[pa.RecordBatch], start: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yields rows `start` to `start + count` of the batches."""
    end = start + count
    position = 0
    for batch in batches:
        low, high = max(start, position), min(end, position + batch.num_rows)
        if low < high:
            yield batch.slice(low - position, high - low)
        position += batch.num_rows
        if position >= end:
            return


def _place_deletes(context: WriteContext, tagged: TaggedRows) -> Iterator[Placed]:
    """Deletes known keys, whatever their ordering value; ignores unknown ones."""
    keys = combined(tagged.rows[RECORD_KEY])
    for slice_, numbers in tagged.found:
        deleted = keys.take(pa.array(numbers))
        if context.settings.combines:
            deleted = deleted.unique()
        nothing = context.row_schema.empty_table()
        yield ChangedSlice(slice_, nothing, deleted=deleted, positions=tagged.positions.get(slice_.file_id))


def _unknown_rows(context: WriteContext, share: Share, tagged: TaggedRows) -> UntaggedRows:
    """Returns the rows whose key the table does not have."""
    known = [numbers[0] for _, numbers in tagged.found if len(numbers)]
    if known and context.settings.insert_duplicates == "fail":
        key = tagged.rows[RECORD_KEY][int(min(known))].as_py()
        raise DuplicateKeyError(
            f"Cannot insert into the table '{context.transaction.config.name}': it already has the key '{key}' in "
            f"partition '{share.path}', and {write_config.INSERT_DUPLICATES.key} = 'fail'; leave the row out, or use "
            "upsert",
            key=key,
        )
    return UntaggedRows.of(_take_rows(tagged.rows, tagged.new))


def _place_merged(context: WriteContext, operation: Operation, share: Share, tagged: TaggedRows) -> Iterator[Placed]:
    """Yields updates and inserts: rows with known keys replace the stored ones, or delete them by a delete marker; the
    others are inserted."""
    rows = tagged.rows
    inserts = _take_rows(rows, _live_inserts(context, tagged))
    small: dict[FileId, pa.Table] = {}
    start = 0
    for target in share.assign(inserts.num_rows, operation):
        some = inserts.slice(start, target.num_rows)
        start += target.num_rows
        slice_ = share.slice_of(target)
        if slice_ is None:
            yield NewGroup(some.to_batches, target.file_id, some.nbytes)
        else:
            small[slice_.file_id] = some
    keys = combined(rows[RECORD_KEY])
    changed = {}
    for slice_, numbers in tagged.found:
        leaving = tagged.leaving.get(slice_.file_id)
        changed[slice_.file_id] = ChangedSlice(
            slice_,
            _take_rows(rows, numbers),
            deleted=None if leaving is None else keys.take(pa.array(leaving)),
            positions=None if leaving is not None and len(leaving) else tagged.positions.get(slice_.file_id),
        )
    for file_id in {**changed, **small}:
        if file_id in small:
            some = small[file_id]
            yield FilledFile(share.slices[file_id], some.to_batches, changed.get(file_id), new_bytes=some.nbytes)
        else:
            yield changed[file_id]


def _merged_in_bucket(context: WriteContext, share: Share, tagged: TaggedRows) -> Iterator[Placed]:
    """Does the same as `_place_merged` in a bucket. New rows go to the file group of the bucket, into a log if the
    table has logs."""
    rows, new, bucket = tagged.rows, _live_inserts(context, tagged), share.bucket
    assert bucket is not None
    if bucket.slice_ is None or (tagged.alive and not bucket.slice_.size):  # statements create a base file in any case
        if len(new):
            some = _take_rows(rows, new)
            yield NewGroup(some.to_batches, bucket.file_id, some.nbytes)
        return
    apart = context.settings.updated_columns is not None and len(new)
    known = [numbers for _, numbers in tagged.found]
    changed = np.concatenate([*known, new[:0] if apart else new])
    leaving = tagged.leaving.get(bucket.slice_.file_id)
    if len(changed) or apart or leaving is not None:
        yield ChangedSlice(
            bucket.slice_,
            _take_rows(rows, changed),
            new=_take_rows(rows, new) if apart else None,
            deleted=None if leaving is None else combined(rows[RECORD_KEY]).take(pa.array(leaving)),
        )


def _with_new_apart(context: WriteContext, placed: Placed) -> Placed:
    """Separates new rows for a file group where updates set only some columns: readers expect that the file group has
    the row of an update that only sets columns, or a row that a log has deleted would come back."""
    if context.settings.updated_columns is None or not isinstance(placed, ChangedSlice):
        return placed
    slice_, rows = placed.slice_, placed.updates
    keys, reader = combined(rows[RECORD_KEY]), context.key_reader()
    doubtful = keys.unique()
    if context.buckets is None and slice_.base_file is not None:  # the index has found the keys there
        if not slice_.log_files:
            return placed
        doubtful = doubtful.filter(pc.is_in(doubtful, value_set=reader.deleted_by(slice_.log_files)))
    if not len(doubtful):
        return placed
    unknown = doubtful.filter(pa.array(~reader.live(slice_, doubtful)))
    if not len(unknown):
        return placed
    is_new = pc.is_in(keys, value_set=unknown)
    new = rows.filter(is_new)
    new = new.filter(pa.array(~delete_marks(new, context.settings.merge))).combine_chunks()
    known = rows.filter(pc.invert(is_new)).combine_chunks()
    return replace(placed, updates=known, new=new if new.num_rows else None)


def _live_inserts(context: WriteContext, tagged: TaggedRows) -> RowNumbers:
    """Returns the rows with new keys that delete nothing, because there is nothing for them to delete."""
    new = tagged.new
    return new[~delete_marks(tagged.rows, context.settings.merge)[new]] if len(new) else new


def _take_rows(rows: pa.Table, numbers: RowNumbers) -> pa.Table:
    """Returns some rows in this order; if these are all rows in their order, they are not copied."""
    whole = len(numbers) == rows.num_rows and np.array_equal(numbers, np.arange(len(numbers)))
    return rows if whole else rows.take(pa.array(numbers)).combine_chunks()
