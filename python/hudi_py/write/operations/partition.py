"""From placed rows to files, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.errors import ConflictError
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath, parse_log_file_name
from hudi_py.storage.threads import in_threads, waiting_threads
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.handles import append_log, merge_base_file, new_file_group, updates_of
from hudi_py.write.placement.assign import (
    InsertBucket,
    assign_inserts,
    average_record_size,
    effective_record_size,
    small_files,
)
from hudi_py.write.rows import PartitionedRows, RowNumbers
from hudi_py.write.workers import Workers


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What an operation leaves to commit."""

    stats: list[WriteStat]
    """One for each file written."""
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to the file groups that the commit replaces (overwrite only)."""


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows (`_hoodie_record_key`, then the table's columns) for one file group."""

    slice_: FileSlice | None
    """None: a new file group."""
    updates: pa.Table | None = None
    """Rows whose keys the file group holds."""
    inserts: Callable[[], Iterable[pa.RecordBatch]] | None = None
    """Rows with new keys. Called in the thread that writes them."""
    new: pa.Table | None = None
    """Rows with new keys that go where `updates` go, into a log if the table has logs, as in a bucket. Only where
    updates set some columns; otherwise they are among `updates`."""
    deleted: pa.StringArray | None = None
    """Keys that are deleted whatever their ordering value."""
    positions: RowNumbers | None = None
    """The row of the base file that has the key of each of `updates`, or of `deleted` if there are no updates; all
    different. None: not known for all."""
    keys_tagged: bool = True
    """Whether the file group is known to hold the keys of `updates` and `deleted`."""
    file_id: FileId | None = None
    """Of a new file group, which is one file then. None: a random one, and as many files as the rows need."""


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
        self.path = path
        self.submit = workers.submit
        view = context.transaction.view
        self.slices = {slice_.file_id: slice_ for slice_ in view.latest_slices(path)}
        """The latest slices by file group."""
        self._for_write = {slice_.file_id: slice_ for slice_ in view.latest_slices_for_write(path)}
        self._clustering = _groups_of(view.pending_clustering, path)

    def assign(self, num_rows: int, *, into_small: bool = True) -> list[InsertBucket]:
        """Where new rows go: small files first (`into_small`), then new file groups."""
        if not num_rows:
            return []
        small = fillable(self._context, self.path) if into_small else []
        return assign_inserts(num_rows, small, self._context.settings.packing, self._record_size())

    def write(self, rows: PlacedRows) -> None:
        """Writes the next version of a file group, or a new one. In a merge-on-read table the next version is a log
        file, unless a small file takes new rows: then it is rewritten, updates included
        (`BaseSparkDeltaCommitActionExecutor.handleUpdate`).

        Raises:
            ConflictError: a pending clustering is about to replace the file group.
        """
        context, slice_, deleted = self._context, rows.slice_, rows.deleted
        updates = context.row_schema.empty_table() if rows.updates is None else rows.updates
        inserts = rows.inserts or (lambda: () if rows.new is None else rows.new.to_batches())

        def rewrite(old: FileSlice) -> list[WriteStat]:
            changed = rows.updates is not None or deleted is not None
            versions = updates_of(updates, context, deleted=deleted) if changed else None
            return [merge_base_file(context, old, versions, inserts(), keys_tagged=rows.keys_tagged)]

        if slice_ is None:
            self.submit(lambda: new_file_group(context, self.path, inserts(), rows.file_id))
            return
        if slice_.file_id in self._clustering:
            view = context.transaction.view
            raise pending_clustering_conflict(view, "update or delete rows of", self.path, slice_.file_id)
        if context.transaction.config.is_mor and rows.inserts is None:
            if not updates.num_rows and rows.new is None and deleted is None:
                return
            target = self._for_write.get(slice_.file_id, slice_)
            version = self._next_log_version(target)
            append = partial(
                append_log,
                new=rows.new,
                deleted=deleted,
                merged=slice_,
                next_version=version,
                positions=rows.positions if self._notes_positions(slice_) else None,
            )
            self.submit(lambda: [append(context, target, updates)])
        else:
            self.submit(partial(rewrite, slice_))

    def _notes_positions(self, slice_: FileSlice) -> bool:
        """Whether logs get record positions, by which readers find the rows of the base file without its keys
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
        """The first version that no log file of the slice has, those of failed writes included (table version 6)."""
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


def write_partitions(
    context: WriteContext,
    held: PartitionedRows,
    write: Callable[[PartitionWriter], None],
    partitions: Iterable[PartitionPath] | None = None,
) -> OperationResult:
    """Calls `write` for each partition of an input, for several at a time if there is little to write to a remote
    storage, and waits until all files are written. `partitions`: where the rows are not held by partition."""
    memory_size = held.num_bytes / max(held.num_rows, 1)

    @cache
    def record_size() -> int:
        return effective_record_size(measured_record_size(context), context.settings.packing, memory_size)

    context.transaction.view.lister.prefetch(held.partitions)
    threads = _threads(context, held)
    workers: Workers[list[WriteStat]] = Workers(threads, at_most=2 * threads)
    paths = held.partitions if partitions is None else partitions
    with workers:
        if threads > context.settings.threads:
            in_threads(lambda path: write(PartitionWriter(context, workers, path, record_size)), paths, threads)
        else:
            for path in paths:
                write(PartitionWriter(context, workers, path, record_size))
        stats = chain.from_iterable(workers.results())
    return OperationResult(sorted(stats, key=lambda stat: stat.path))


def _threads(context: WriteContext, held: PartitionedRows) -> int:
    """As many as the settings say; more for small files on a remote storage, where they mostly wait for answers."""
    transaction, threads = context.transaction, context.settings.threads
    if transaction.storage.is_local or context.settings.get(write_config.WRITE_THREADS):
        return threads
    partitions = () if transaction.config.is_mor else held.partitions
    slices = (slice_ for partition in partitions for slice_ in transaction.view.latest_slices(partition))
    sizes = (slice_.base_file.size for slice_ in slices if slice_.base_file is not None)
    return waiting_threads(threads, chain([held.num_bytes], sizes))


def fillable(context: WriteContext, path: PartitionPath) -> list[FileSlice]:
    """The small files of a partition, which take new rows, as `small_files`."""
    view = context.transaction.view
    return small_files(
        view.latest_slices(path),
        context.settings.packing,
        is_mor=context.transaction.config.is_mor,
        excluded=_groups_of(view.pending_clustering, path) | _groups_of(view.pending_compaction, path),
    )


def measured_record_size(context: WriteContext) -> int | None:
    """Bytes of a row in the commits that the write saw."""
    storage, timeline = context.transaction.storage, context.transaction.timeline
    commits = (
        (instant.action, read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True))
        for instant in reversed(timeline.write_completed)
        if instant.action in (Action.COMMIT, Action.DELTA_COMMIT)
    )
    return average_record_size(commits, context.settings.packing)


def pending_clustering_conflict(view: FileSystemView, what: str, partition: str, file_id: str) -> ConflictError:
    """The error of a write to a file group that a pending clustering is about to replace."""
    return ConflictError(
        f"Cannot {what} file group {file_id} in partition '{partition}': the pending clustering "
        f"{view.pending_clustering[partition, file_id]} is about to replace it; let Apache Hudi run it, or drop it "
        "with unschedule, then write again"
    )


def _groups_of(pending: Iterable[tuple[str, str]], partition: str) -> frozenset[FileId]:
    return frozenset(FileId(file_id) for owner, file_id in pending if owner == partition)
