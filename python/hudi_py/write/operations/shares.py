"""Turns shares of rows into files: a share holds the rows of a partition, or those for one file group or bucket in
it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Generic, TypeVar

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.errors import ConflictError
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath, parse_log_file_name
from hudi_py.model.operation import Operation
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.handles import append_log, merge_base_file, new_file_group, updates_of
from hudi_py.write.placement.assign import (
    InsertBucket,
    assign_inserts,
    average_record_size,
    even_files,
    small_files,
)
from hudi_py.write.rows import ChangedSlice, FilledFile, NewGroup, Placed, split_share

T = TypeVar("T")


class Workers(Generic[T]):
    """A pool with a bounded queue, so that the rows of queued tasks do not pile up in memory. A context manager:
    leaving it cancels tasks that have not begun and waits for the others. `submit` is thread-safe."""

    def __init__(self, threads: int, *, at_most: int, max_bytes: int | None = None) -> None:
        """Creates the pool.

        Args:
            at_most: tasks running or queued; `submit` blocks beyond that.
            max_bytes: bytes that these hold. A task that holds more runs alone.
        """
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="hudi-write")
        self._at_most, self._max_bytes = at_most, max_bytes
        self._sizes: list[int] = []
        """Bytes of the tasks that run or are queued."""
        self._changed = threading.Condition()
        self._running: list[Future[T]] = []
        self._results: list[T] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Workers[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def submit(self, task: Callable[[], T], size: int = 0) -> None:
        """Queues a task that holds `size` bytes. Raises the error of an earlier task."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size))
            self._sizes.append(size)

        def run() -> T:
            try:
                return task()
            finally:
                with self._changed:
                    self._sizes.remove(size)
                    self._changed.notify_all()

        with self._lock:
            self._running.append(self._executor.submit(run))
            running = []
            for future in self._running:
                if future.done():
                    self._results.append(future.result())
                else:
                    running.append(future)
            self._running = running

    def _has_room(self, size: int) -> bool:
        fits = self._max_bytes is None or sum(self._sizes) + size <= self._max_bytes
        return not self._sizes or (fits and len(self._sizes) < self._at_most)

    def results(self) -> list[T]:
        """Returns the results of all tasks once they are done, in no particular order; raises the error of any of
        them."""
        self._results += [future.result() for future in self._running]
        self._running = []
        return self._results


TO_MAKE = "+"
"""Prefix of the owner of a share for a new file group; its number among the new file groups follows."""
_OVERFILL = 1.25
"""Keys are spread by hash, so a file may get somewhat more rows than planned, rather than leave a tiny file over."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The bucket of a share."""

    slice_: FileSlice | None
    """The slice of the bucket; None if it has nothing yet. It has no files if the first rows of the bucket go to a
    log."""
    file_id: FileId
    """The id of its file group."""


@dataclass(frozen=True, slots=True)
class Share:
    """Rows that are written together: those of a partition, or of a file group or bucket in it."""

    name: PartitionPath
    """The name under which its rows are held, see `split_share`."""
    owner: str | None
    """A file group, the number of a new one after `TO_MAKE`, or the number of a bucket; None for a whole partition."""
    partition: PartitionWriter
    bucket: Bucket | None

    @property
    def path(self) -> PartitionPath:
        """The partition."""
        return self.partition.path

    @property
    def slices(self) -> dict[FileId, FileSlice]:
        """The latest slices of the partition by file group."""
        return self.partition.slices

    @property
    def file_group(self) -> FileId | None:
        """The file group to which these rows belong, if it exists already."""
        there = self.bucket is None and self.owner is not None and not self.owner.startswith(TO_MAKE)
        return FileId(str(self.owner)) if there else None

    def slice_of(self, target: InsertBucket) -> FileSlice | None:
        """Returns the slice that takes new rows; None if they go to a new file group."""
        return None if target.file_id is None else self.slices.get(target.file_id)

    def assign(self, num_rows: int, operation: Operation) -> list[InsertBucket]:
        """Assigns new rows to files: to the bucket, or to the file group of the share as far as it has room. Rows of a
        whole partition go to small files first, if the operation fills them, then to new file groups."""
        if not num_rows:
            return []
        if self.bucket is not None:
            return [InsertBucket(self.bucket.file_id, num_rows)]
        return self.partition.assign(num_rows, self.file_group, whole=self.owner is None, fills=operation.traits.fills)


class PartitionWriter:
    """The file groups of one partition, as a write sees them; writes rows to them in threads."""

    def __init__(
        self,
        context: WriteContext,
        workers: Workers[list[WriteStat]],
        path: PartitionPath,
        record_size: Callable[[], int],
    ) -> None:
        self._context = context
        self._record_size = record_size
        self._submit = workers.submit
        self.path = path
        view = context.transaction.view
        self.slices = {slice_.file_id: slice_ for slice_ in view.latest_slices(path)}
        """The latest slices by file group."""
        self._for_write = {slice_.file_id: slice_ for slice_ in view.latest_slices_for_write(path)}
        planned = () if context.transaction.handle.settings.updates_planned else view.pending_clustering
        self._clustering = _groups_of(planned, path)

    def shares(self, names: Iterable[PartitionPath], operation: Operation) -> list[Share]:
        """Returns the shares with these names; buckets by their numbers."""
        index, owners = self._context.buckets, [(name, split_share(name)[1]) for name in names]
        if index is None:
            return [Share(name, owner, self, None) for name, owner in owners]
        slices = {} if operation.overwrites else index.by_number(self.slices.values(), self.path)
        numbers = sorted((int(owner), name) for name, owner in owners if owner is not None)
        return [Share(name, str(number), self, self._bucket_of(number, slices, operation)) for number, name in numbers]

    def _bucket_of(self, number: int, slices: dict[int, FileSlice], operation: Operation) -> Bucket:
        """Returns the bucket with a number. If writers do not wait for each other, its first rows go to a log, because
        only one of them could create a base file."""
        index, slice_, transaction = self._context.buckets, slices.get(number), self._context.transaction
        assert index is not None
        if slice_ is not None:
            return Bucket(slice_, slice_.file_id)
        if operation.overwrites:
            file_id = index.replacing_file_id(number, self.path)
        else:
            file_id = index.new_file_id(number, self.path)
        if (self.path, file_id) in transaction.view.replaced:
            # additions to a replaced group would not be seen
            file_id = index.new_file_id(number, self.path, fixed=False)
        if index.fixed_ids and not operation.overwrites:
            slice_ = FileSlice(self.path, file_id, transaction.instant, None)
        return Bucket(slice_, file_id)

    def assign(self, num_rows: int, file_group: FileId | None, *, whole: bool, fills: bool) -> list[InsertBucket]:
        """Assigns new rows of the partition, if they are its `whole` input, or of one file group, to files."""
        packing, size = self._context.settings.packing, self._record_size()
        if whole:
            return assign_inserts(num_rows, fillable(self._context, self.path) if fills else [], packing, size)
        buckets = []
        if file_group is not None:
            room = (packing.max_file_size - self.slices[file_group].size) // max(size, 1)
            buckets = [InsertBucket(file_group, num_rows if num_rows <= room * _OVERFILL else max(room, 1))]
        return [*buckets, *even_files(num_rows - sum(bucket.num_rows for bucket in buckets), packing, size)]

    def write(self, placed: Placed) -> None:
        """Writes the next version of a file group, or a new one. In a merge-on-read table the next version is a log
        file, unless a small file takes new rows: then it is rewritten, including updates
        (`BaseSparkDeltaCommitActionExecutor.handleUpdate`).

        Raises:
            ConflictError: a pending clustering is about to replace the file group.
        """
        context = self._context
        if isinstance(placed, NewGroup):
            self._submit(lambda: new_file_group(context, self.path, placed.rows(), placed.file_id), placed.num_bytes)
            return
        file_id = placed.slice_.file_id
        if file_id in self._clustering:
            what = "update or delete rows of"
            raise pending_clustering_conflict(context.transaction.view, what, self.path, file_id)
        if isinstance(placed, FilledFile):
            self._submit(partial(_fill_file, context, placed), placed.num_bytes)
        elif context.transaction.config.is_mor:
            self._append_changes(placed)
        else:
            new = () if placed.new is None else placed.new.to_batches()
            self._submit(lambda: [_rewrite_file(context, placed.slice_, placed, new)], placed.num_bytes)

    def _append_changes(self, placed: ChangedSlice) -> None:
        if not placed.updates.num_rows and placed.new is None and placed.deleted is None:
            return
        target = self._for_write.get(placed.slice_.file_id, placed.slice_)
        if not self._notes_positions(placed.slice_):
            placed = replace(placed, positions=None)
        append = partial(append_log, self._context, target, placed, next_version=self._next_log_version(target))
        self._submit(lambda: [append()], placed.num_bytes)

    def _notes_positions(self, slice_: FileSlice) -> bool:
        """Returns whether logs get record positions, by which readers find the rows of the base file without its keys
        (`HoodieAppendHandle.addRecordPositionsIfRequired`, 1.2.0)."""
        settings, base = self._context.settings, slice_.base_file
        return (
            settings.get(write_config.RECORD_POSITIONS)
            and self._context.transaction.config.has_extended_log_blocks
            and settings.updated_columns is None
            and base is not None
            and base.source is None
            and base.name.extension == "parquet"
        )

    def _next_log_version(self, target: FileSlice) -> int:
        """Returns the first version that no log file of the slice has, including logs of failed writes (table version
        6)."""
        if self._context.transaction.config.logs_named_by_instant:
            return 1
        return self._log_versions.get((target.file_id, target.base_instant), 0) + 1

    @cached_property
    def _log_versions(self) -> dict[tuple[FileId, str], int]:
        """The greatest version of a log file by file group and base instant."""
        greatest: dict[tuple[FileId, str], int] = {}
        for info in self._context.transaction.storage.list(self.path):
            name = parse_log_file_name(info.name)
            if name:
                slice_ = (name.file_id, name.instant)
                greatest[slice_] = max(name.version, greatest.get(slice_, 0))
        return greatest


def _fill_file(context: WriteContext, placed: FilledFile) -> list[WriteStat]:
    if not placed.by_key:
        return [_rewrite_file(context, placed.slice_, placed.changes, placed.rows())]
    updates = updates_of(pa.Table.from_batches(list(placed.rows()), context.row_schema), context)
    return [merge_base_file(context, placed.slice_, updates, keys_tagged=False)]


def _rewrite_file(
    context: WriteContext, slice_: FileSlice, changes: ChangedSlice | None, rows: Iterable[pa.RecordBatch]
) -> WriteStat:
    updates = None if changes is None else updates_of(changes.updates, context, deleted=changes.deleted)
    return merge_base_file(context, slice_, updates, rows, keys_tagged=context.buckets is None)


def fillable(context: WriteContext, path: PartitionPath) -> list[FileSlice]:
    """Returns the small files of a partition that take new rows, see `small_files`."""
    view = context.transaction.view
    return small_files(
        view.latest_slices(path),
        context.settings.packing,
        is_mor=context.transaction.config.is_mor,
        excluded=_groups_of(view.pending_clustering, path) | _groups_of(view.pending_compaction, path),
    )


def measured_record_size(context: WriteContext) -> int | None:
    """Returns the average bytes of a row in the commits that the write saw."""
    storage, timeline = context.transaction.storage, context.transaction.timeline
    commits = (
        (instant.action, read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True))
        for instant in reversed(timeline.write_completed)
        if instant.action in (Action.COMMIT, Action.DELTA_COMMIT)
    )
    return average_record_size(commits, context.settings.packing)


def pending_clustering_conflict(view: FileSystemView, what: str, partition: str, file_id: str) -> ConflictError:
    """Builds the error of a write to a file group that a pending clustering is about to replace."""
    return ConflictError(
        f"Cannot {what} file group {file_id} in partition '{partition}': the pending clustering "
        f"{view.pending_clustering[partition, file_id]} is about to replace it; run it (resize_buckets if it "
        "changes hash buckets, otherwise clustering), or drop it with unschedule, then write again"
    )


def _groups_of(pending: Iterable[tuple[str, str]], partition: str) -> frozenset[FileId]:
    return frozenset(FileId(file_id) for owner, file_id in pending if owner == partition)
