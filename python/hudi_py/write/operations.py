"""The operations: what insert, upsert, bulk_insert, delete and overwrite do to the files of a table.

Sources: `SparkInsertCommitActionExecutor` and its kin, `BaseSparkDeltaCommitActionExecutor`, `HoodieWriteHelper`,
Apache Hudi 1.2.0. `run_operation` works partition by partition on rows that are held in memory up to a budget and on
the local disk beyond it; the rows of one partition of an upsert or delete are in memory at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConflictError
from hudi_py.formats.arrays import combined
from hudi_py.merge import delete_marks, reduce_input
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.schema import RECORD_KEY
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.table_schema import NewestCommits
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView
from hudi_py.write.assign import Bucket, assign_inserts, average_record_size, effective_record_size, small_files
from hudi_py.write.bulk import live_rows, sorted_by_key, unfinished, write_new_file_groups
from hudi_py.write.context import WriteContext
from hudi_py.write.handles import append_log, merge_base_file, new_file_group, updates_of
from hudi_py.write.index import (
    RECORD_INDEXES,
    RecordIndexTagger,
    Tagging,
    check_index,
    check_no_bucket_index,
    open_tagger,
    tag_by_places,
    tag_keys,
)
from hudi_py.write.routing import FILE_ID, GONE, losing_keys, move, placed, placed_schema
from hudi_py.write.rows import PartitionedRows

Rows = npt.NDArray[np.int64]

_PARTITIONS_LOOKED_AT = 3


class Operation(str, Enum):
    """What the rows do to the table; the value is that of `hoodie.datasource.write.operation`."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"

    @property
    def java_name(self) -> str:
        """Name of the `WriteOperationType`, as commit metadata holds it."""
        return self.name

    @property
    def looks_up_keys(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)


def action_of(operation: Operation, config: TableConfig) -> Action:
    """The action an operation is on the timeline (`CommitUtils.getCommitActionType`)."""
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return Action.REPLACE_COMMIT
    return Action.DELTA_COMMIT if config.is_mor else Action.COMMIT


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What is to be committed."""

    stats: list[WriteStat]
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to file groups which the commit replaces (overwrite only)."""


def check_table_index(storage: Storage, timeline: Timeline, view: FileSystemView) -> None:
    """Refuses a table with signs of the bucket index. A few partitions are looked at, those of the newest write with
    files: a partition that is new shows none of its own.

    Raises:
        ConfigError: says by what sign.
    """
    check_no_bucket_index(storage)
    commits = NewestCommits(storage, timeline)
    stats = next((commit.stats for commit in commits if commit.stats), ())
    partitions = list(dict.fromkeys(PartitionPath(stat.partition_path) for stat in stats))
    for partition in partitions[:_PARTITIONS_LOOKED_AT]:
        check_index(view.latest_slices(partition), partition, looks_up_keys=False)


def run_operation(context: WriteContext, batches: Iterable[pa.RecordBatch], operation: Operation) -> OperationResult:
    """Writes the files of an operation; commits nothing.

    Args:
        batches: incoming rows in normalised input types (`read_input`). A delete needs the key, partition and, to keep
            one row of each key, no further columns.

    Raises:
        SchemaMismatchError, ConfigError: the rows do not fit the table, or another index wrote it.
        ConflictError: rows belong to file groups that a pending clustering is about to replace.
    """
    overwrites = operation is Operation.INSERT_OVERWRITE_TABLE
    replaced = _all_file_groups(context) if overwrites else {}
    if (overwrites or operation is Operation.BULK_INSERT) and not context.settings.combine_before_insert:
        return OperationResult(write_new_file_groups(context, batches), replaced)
    tagger = _tagger(context) if operation.looks_up_keys else None
    everywhere = tagger if tagger is not None and tagger.is_global else None
    moves = everywhere is not None and context.settings.index.moves_rows and operation is Operation.UPSERT
    with PartitionedRows(_schema_of(context, operation, everywhere, moves), context.settings.memory_bytes) as held:
        context.progress.phase("reading")
        for batch in batches:
            rows, paths = _keyed_for_delete(context, batch) if operation is Operation.DELETE else context.keyed(batch)
            if everywhere is not None and not moves:
                rows, paths = placed(everywhere, rows, paths)
            context.progress.read(batch.num_rows)
            held.add(rows, paths)
        context.progress.phase("writing")
        if everywhere is None or not moves:
            return OperationResult(_write_partitions(context, held, operation, tagger), replaced)
        with PartitionedRows(placed_schema(held.schema, moves=True), context.settings.memory_bytes) as routed:
            combine = context.settings.combine_before_upsert
            move(everywhere, held, routed, context.key_reader(), context.transaction.view, combine=combine)
            return OperationResult(_write_partitions(context, routed, operation, tagger), replaced)


def _tagger(context: WriteContext) -> RecordIndexTagger | None:
    transaction, kind = context.transaction, context.settings.index.type
    if kind not in RECORD_INDEXES:
        return None
    return open_tagger(transaction.storage, transaction.config, transaction.timeline, transaction.view, kind)


def _schema_of(
    context: WriteContext, operation: Operation, everywhere: RecordIndexTagger | None, moves: bool
) -> pa.Schema:
    schema = context.row_schema if operation is not Operation.DELETE else pa.schema([(RECORD_KEY, pa.string())])
    return schema if everywhere is None or moves else placed_schema(schema)


def _keyed_for_delete(context: WriteContext, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.StringArray]:
    """Keys and partition paths. Only the columns they are made of are looked at, in the table's types."""
    keygen = context.settings.keygen
    rows = context.settings.schema.conform_some(batch, [*keygen.key_fields, *keygen.partition_fields])
    keys = keygen.record_keys(rows)
    return pa.RecordBatch.from_arrays([keys], names=[RECORD_KEY]), keygen.partition_paths(rows)


def _all_file_groups(context: WriteContext) -> dict[str, tuple[str, ...]]:
    """What an overwrite replaces: file ids by partition path.

    Raises:
        ConflictError: a pending clustering is about to replace some of it, and would bring its rows back.
    """
    view = context.transaction.view
    if view.pending_clustering:
        (partition, file_id), _ = min(view.pending_clustering.items())
        raise _clustered(view, "overwrite", partition, file_id)
    return {
        str(partition): groups
        for partition in view.partitions()
        if (groups := tuple(str(slice_.file_id) for slice_ in view.latest_slices_for_write(partition)))
    }


def _clustered(view: FileSystemView, what: str, partition: str, file_id: str) -> ConflictError:
    return ConflictError(
        f"Cannot {what} file group {file_id} in partition '{partition}': the pending clustering "
        f"{view.pending_clustering[partition, file_id]} is about to replace it; let Apache Hudi run it, or drop it "
        "with unschedule, then write again"
    )


def _write_partitions(
    context: WriteContext, held: PartitionedRows, operation: Operation, tagger: RecordIndexTagger | None
) -> list[WriteStat]:
    combine = operation is Operation.UPSERT and context.settings.combine_before_upsert
    everywhere, moved = FILE_ID in held.schema.names, GONE in held.schema.names
    losing = losing_keys(held, context.settings.merge) if everywhere and combine and not moved else {}
    memory_size = held.num_bytes / max(held.num_rows, 1)

    @cache
    def record_size() -> int:
        return effective_record_size(_measured_record_size(context), context.settings.packing, memory_size)

    with _Workers(context.settings.threads) as workers:
        for partition in held.partitions:
            part = _Partition(context, workers, partition, record_size, tagger)
            if operation is Operation.INSERT and not context.settings.combine_before_insert:
                part.insert(partial(held.batches, partition), held.rows_of(partition))
                continue
            rows = held.table(partition)
            if partition in losing:
                rows = rows.filter(pc.invert(pc.is_in(rows[RECORD_KEY], value_set=losing[partition]))).combine_chunks()
            if operation in (Operation.INSERT, Operation.BULK_INSERT, Operation.INSERT_OVERWRITE_TABLE):
                rows = _combined(rows, context)
                if context.settings.sort_by_key:
                    rows = sorted_by_key(rows)
                into_small = operation is Operation.INSERT
                part.insert(partial(_batches, rows), rows.num_rows, into_small=into_small)
            elif operation is Operation.DELETE:
                part.delete(rows)
            else:
                part.upsert(_combined(rows, context) if combine and not moved else rows)
        return workers.results()


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(rows.to_batches())


def _combined(rows: pa.Table, context: WriteContext) -> pa.Table:
    return reduce_input(rows, context.settings.merge, key_columns=(RECORD_KEY,)).combine_chunks()


def _measured_record_size(context: WriteContext) -> int | None:
    """Bytes of a row in the commits the write saw."""
    transaction = context.transaction
    recent = [
        instant
        for instant in reversed(transaction.timeline.write_completed)
        if instant.action in (Action.COMMIT, Action.DELTA_COMMIT)
    ]
    commits = (
        (instant.action, read_commit_metadata(transaction.storage, transaction.timeline.layout, instant))
        for instant in recent
    )
    return average_record_size(commits, context.settings.packing)


class _Workers:
    """Threads that write file groups side by side; at most twice as many tasks as threads wait, so that the rows of
    later partitions do not pile up in memory."""

    def __init__(self, threads: int) -> None:
        self.count = threads if threads > 0 else os.cpu_count() or 1
        self.executor = ThreadPoolExecutor(self.count, thread_name_prefix="hudi-write")
        self.readers = ThreadPoolExecutor(self.count, thread_name_prefix="hudi-index")
        self._slots = threading.BoundedSemaphore(2 * self.count)
        self._futures: list[Future[list[WriteStat]]] = []
        self._running: list[Future[list[WriteStat]]] = []
        """Those which were not done when the last one was queued: few, as they wait for a slot."""

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        self.readers.shutdown(wait=True, cancel_futures=True)

    def submit(self, work: Callable[[], list[WriteStat]]) -> None:
        """Queues the writing of a file group; raises what an earlier one raised."""
        self._slots.acquire()

        def run() -> list[WriteStat]:
            try:
                return work()
            finally:
                self._slots.release()

        future = self.executor.submit(run)
        self._futures.append(future)
        self._running = [*unfinished(self._running), future]

    def results(self) -> list[WriteStat]:
        """Statistics of all files, once all are written."""
        stats = [stat for future in self._futures for stat in future.result()]
        return sorted(stats, key=lambda stat: stat.path)


class _Partition:
    """The part of an operation that concerns one partition."""

    def __init__(
        self,
        context: WriteContext,
        workers: _Workers,
        partition: PartitionPath,
        record_size: Callable[[], int],
        tagger: RecordIndexTagger | None = None,
    ) -> None:
        self._tagger = tagger
        self._context = context
        self._workers = workers
        self._partition = partition
        self._record_size = record_size
        view = context.transaction.view
        self._slices: list[FileSlice] = view.latest_slices(partition)
        self._for_write = {slice_.file_id: slice_ for slice_ in view.latest_slices_for_write(partition)}
        self._clustering = _groups_of(view.pending_clustering_groups, partition)
        self._compaction = _groups_of(view.pending_compaction, partition)

    # -- operations -----------------------------------------------------------------------------------------------

    def insert(
        self, batches: Callable[[], Iterator[pa.RecordBatch]], num_rows: int, *, into_small: bool = True
    ) -> None:
        """New rows without looking up keys: small files first (`into_small`), then new file groups."""
        context = self._context
        marked = sum(int(delete_marks(batch, context.settings.merge).sum()) for batch in batches())
        buckets = self._assign(num_rows - marked, into_small=into_small)

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in batches():
                yield live_rows(batch, context)

        start = 0
        for bucket in buckets:
            self._submit_insert(bucket, rows, start)
            start += bucket.num_rows

    def upsert(self, rows: pa.Table) -> None:
        """Rows whose key is known replace it (or delete it, by a delete marker), the others are inserted."""
        context = self._context
        keys = combined(rows[RECORD_KEY])
        found, new = self._tag(keys, rows)
        left: dict[FileId, Rows] = {}
        if GONE in rows.schema.names:
            gone = combined(rows[GONE]).to_numpy(zero_copy_only=False)
            left = {slice_.file_id: numbers[gone[numbers]] for slice_, numbers in found}
            found = tuple((slice_, numbers[~gone[numbers]]) for slice_, numbers in found)
        rows = rows.select(context.row_schema.names)
        if len(new):
            deletes = delete_marks(rows, context.settings.merge)
            new = new[~deletes[new]]  # nothing is there for them to delete
        inserts = rows.take(pa.array(new)).combine_chunks() if len(new) < rows.num_rows else rows
        into: dict[FileId, tuple[int, int]] = {}
        start = 0
        for bucket in self._assign(len(new)):
            if bucket.file_id is None:
                piece = inserts.slice(start, bucket.num_rows)
                self._workers.submit(partial(new_file_group, context, self._partition, piece.to_batches()))
            else:
                into[bucket.file_id] = (start, bucket.num_rows)
            start += bucket.num_rows
        tagged = {slice_.file_id: (slice_, numbers) for slice_, numbers in found}
        by_id = {slice_.file_id: slice_ for slice_ in self._slices}
        for file_id in {**tagged, **into}:
            slice_ = by_id[file_id]
            numbers = tagged[file_id][1] if file_id in tagged else None
            updates = rows.take(pa.array(numbers)).combine_chunks() if numbers is not None else None
            extra = inserts.slice(*into[file_id]) if file_id in into else None
            gone = keys.take(pa.array(left[file_id])) if file_id in left else None
            self._submit_update(slice_, updates, extra, gone=gone)

    def delete(self, rows: pa.Table) -> None:
        """Known keys are deleted whatever their ordering value; unknown ones are passed over."""
        if self._context.settings.combine_before_delete:
            rows = rows.group_by(rows.schema.names, use_threads=False).aggregate([]).combine_chunks()
        keys = combined(rows[RECORD_KEY])
        found, _ = self._tag(keys, rows)
        for slice_, numbers in found:
            gone = pa.table([keys.take(pa.array(numbers))], names=[RECORD_KEY])
            self._submit_update(slice_, gone, None, unconditional_delete=True)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _assign(self, num_rows: int, *, into_small: bool = True) -> list[Bucket]:
        if not num_rows:
            return []
        config, packing = self._context.transaction.config, self._context.settings.packing
        excluded = self._clustering | self._compaction
        slices = self._slices if into_small else []
        small = small_files(slices, packing, is_mor=config.is_mor, excluded=excluded)
        return assign_inserts(num_rows, small, packing, self._record_size())

    def _tag(self, keys: pa.StringArray, rows: pa.Table) -> tuple[tuple[tuple[FileSlice, Rows], ...], Rows]:
        tagging = self._tagging(keys, rows)
        busy = next((slice_.file_id for slice_, _ in tagging.found if slice_.file_id in self._clustering), None)
        if busy:
            view = self._context.transaction.view
            raise _clustered(view, "update or delete rows of", self._partition, busy)
        return tagging.found, tagging.new

    def _tagging(self, keys: pa.StringArray, rows: pa.Table) -> Tagging:
        context = self._context
        storage = context.transaction.storage
        if FILE_ID in rows.schema.names:
            return tag_by_places(self._slices, self._partition, combined(rows[FILE_ID]))
        if self._tagger is not None:
            return tag_by_places(self._slices, self._partition, self._tagger.places(keys, self._partition)[1])
        check_index(self._slices, self._partition)
        return tag_keys(
            storage,
            self._slices,
            keys,
            context.settings.index,
            executor=self._workers.readers,
            threads=self._workers.count,
            check_key=self._check_key if context.settings.keygen.single_key_form_varies else None,
        )

    def _check_key(self, base: BaseFile, key: str) -> None:
        self._context.settings.keygen.check_existing_key(key, base.path)

    def _submit_insert(self, bucket: Bucket, rows: Callable[[], Iterator[pa.RecordBatch]], start: int) -> None:
        context = self._context

        def work() -> list[WriteStat]:
            piece = _window(rows(), start, bucket.num_rows)
            if bucket.file_id is None:
                return new_file_group(context, self._partition, piece)
            slice_ = next(slice_ for slice_ in self._slices if slice_.file_id == bucket.file_id)
            if context.settings.allow_duplicates:
                return [merge_base_file(context, slice_, None, piece)]
            updates = updates_of(pa.Table.from_batches(list(piece), context.row_schema), context)
            return [merge_base_file(context, slice_, updates, keys_tagged=False)]

        self._workers.submit(work)

    def _submit_update(
        self,
        slice_: FileSlice,
        updates: pa.Table | None,
        inserts: pa.Table | None,
        *,
        unconditional_delete: bool = False,
        gone: pa.Array | None = None,
    ) -> None:
        """The next version of a file group. In a merge-on-read table that is a log file, except where a small file
        takes new rows: then it is rewritten, its updates included
        (`BaseSparkDeltaCommitActionExecutor.handleUpdate`)."""
        context = self._context
        if context.transaction.config.is_mor and inserts is None and updates is not None:
            target = self._for_write[slice_.file_id]
            rows, version = updates, self._next_log_version(target)
            self._workers.submit(
                lambda: [
                    append_log(
                        context,
                        target,
                        rows,
                        unconditional_delete=unconditional_delete,
                        gone=gone,
                        merged=slice_,
                        next_version=version,
                    )
                ]
            )
            return

        def rewrite() -> list[WriteStat]:
            versions = None
            if updates is not None:
                versions = updates_of(updates, context, unconditional_delete=unconditional_delete, gone=gone)
            return [merge_base_file(context, slice_, versions, inserts.to_batches() if inserts is not None else ())]

        self._workers.submit(rewrite)

    def _next_log_version(self, target: FileSlice) -> int:
        """First version that no log file of the slice has, those of failed writes included (table version 6)."""
        transaction = self._context.transaction
        if transaction.config.version >= 8:
            return 1
        return self._log_versions.get((target.file_id, target.base_instant), 0) + 1

    @cached_property
    def _log_versions(self) -> dict[tuple[FileId, str], int]:
        """The greatest version of any log file by file group and base instant."""
        greatest: dict[tuple[FileId, str], int] = {}
        for info in self._context.transaction.storage.list(self._partition):
            name = parse_log_file_name(info.name)
            if name:
                slice_ = (name.file_id, name.instant)
                greatest[slice_] = max(name.version, greatest.get(slice_, 0))
        return greatest


def _window(batches: Iterator[pa.RecordBatch], start: int, count: int) -> Iterator[pa.RecordBatch]:
    """Rows `start` to `start + count` of the batches."""
    end = start + count
    at = 0
    for batch in batches:
        low, high = max(start, at), min(end, at + batch.num_rows)
        if low < high:
            yield batch.slice(low - at, high - low)
        at += batch.num_rows
        if at >= end:
            return


def _groups_of(pending: Iterable[tuple[str, str]], partition: str) -> frozenset[FileId]:
    return frozenset(FileId(file_id) for owner, file_id in pending if owner == partition)
