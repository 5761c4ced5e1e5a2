"""Streaming rows into new file groups, in bounded memory: what insert, bulk_insert and overwrite tasks do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.merge import delete_marks
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.write.assign import MEGABYTE
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.base import BaseFileHandle, steps
from hudi_py.write.rows import PartitionedRows, split_by_partition

T = TypeVar("T")

CHUNK_BYTES = 48 * MEGABYTE
"""Rows handed to a file at a time, as bytes in memory; a partition with less has one file at work."""
OPEN_FILES = 64
"""Files under way at the same time; beyond that the one longest unused is completed."""


def live_rows(batch: pa.RecordBatch, context: WriteContext) -> pa.RecordBatch:
    """The rows that are no deletes: nothing is there that a delete among inserts could remove, and deletes must not get
    into base files."""
    deletes = delete_marks(batch, context.settings.merge)
    return batch.filter(pa.array(~deletes)) if deletes.any() else batch


def unfinished(tasks: Iterable[Future[T]]) -> list[Future[T]]:
    """Those of the tasks that are not done; raises what one that is done has raised."""
    left = []
    for task in tasks:
        if task.done():
            task.result()
        else:
            left.append(task)
    return left


def write_new_file_groups(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> list[WriteStat]:
    """Writes incoming rows, in normalised input types and any order of partitions, to new file groups.

    No key is looked up, rows with a delete marker are left out. Memory: about `settings.memory_bytes` of rows, and a
    row group for each file under way; where rows are to be sorted, all of a partition, too. Files are finished at
    `packing.max_file_size`.

    Returns:
        One statistic for each file. On an error all files of this call are given up.
    """
    writer = _Spreader(context)
    context.progress.phase("writing")
    try:
        for partition, part in _by_partition(context, batches):
            writer.add(partition, part)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _by_partition(
    context: WriteContext, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[PartitionPath, pa.RecordBatch]]:
    """The rows that are no deletes, as they come, or sorted."""
    if not context.settings.sort_by_key:
        for rows, paths in _live(context, batches):
            yield from split_by_partition(rows, paths)
        return
    with PartitionedRows(context.row_schema, context.settings.memory_bytes) as held:
        for rows, paths in _live(context, batches):
            held.add(rows, paths)
        for partition in held.partitions:
            for batch in sorted_by_key(held.table(partition)).to_batches():
                for piece in steps(batch):
                    yield partition, piece


def _live(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.StringArray]]:
    for batch in batches:
        rows, paths = context.keyed(batch)
        deletes = delete_marks(rows, context.settings.merge)
        if deletes.any():
            keep = pa.array(np.logical_not(deletes))
            rows, paths = rows.filter(keep), paths.filter(keep)
        context.progress.read(rows.num_rows)
        yield rows, paths


def sorted_by_key(rows: pa.Table) -> pa.Table:
    """Rows in order of their record keys' bytes, as Spark sorts them; rows of one key stay in their order."""
    return rows.take(pc.sort_indices(rows[RECORD_KEY]))


@dataclass(slots=True)
class _Lane:
    """A file group under way in a partition; one thread writes to it at a time."""

    partition: PartitionPath
    lock: threading.Lock = field(default_factory=threading.Lock)
    queued: int = 0
    """Chunks not yet written."""
    used: int = 0
    """When it last got a chunk."""
    handle: BaseFileHandle | None = None


class _Spreader:
    """Collects rows by partition and spreads chunks of them over files, several of a partition only while all its files
    are busy."""

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._threads = max(1, context.settings.threads)
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="hudi-write")
        self._slots = threading.BoundedSemaphore(self._threads + 1)
        self._held: dict[PartitionPath, list[pa.RecordBatch]] = {}
        self._sizes: dict[PartitionPath, int] = {}
        self._total = 0
        self._lanes: dict[PartitionPath, list[_Lane]] = {}
        self._clock = 0
        self._futures: list[Future[None]] = []
        self._stats: list[WriteStat] = []
        self._lock = threading.Lock()

    def add(self, partition: PartitionPath, rows: pa.RecordBatch) -> None:
        self._held.setdefault(partition, []).append(rows)
        size = rows.nbytes
        self._sizes[partition] = self._sizes.get(partition, 0) + size
        self._total += size
        if self._sizes[partition] >= CHUNK_BYTES:
            self._flush(partition)
        while self._total > self._context.settings.memory_bytes:
            self._flush(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> list[WriteStat]:
        for partition in list(self._held):
            self._flush(partition)
        self._join()
        lanes = [lane for lanes in self._lanes.values() for lane in lanes if lane.handle is not None]
        for _ in self._executor.map(self._close, lanes):
            pass
        self._executor.shutdown()
        return sorted(self._stats, key=lambda stat: stat.path)

    def abandon(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        for lanes in self._lanes.values():
            for lane in lanes:
                if lane.handle is not None:
                    lane.handle.abandon()

    def _flush(self, partition: PartitionPath) -> None:
        batches = self._held.pop(partition)
        self._total -= self._sizes.pop(partition)
        lane = self._lane(partition)
        self._slots.acquire()
        with self._lock:
            lane.queued += 1
        self._futures.append(self._executor.submit(self._guarded(lambda: self._write(lane, batches))))
        self._futures = unfinished(self._futures)

    def _guarded(self, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            finally:
                self._slots.release()

        return run

    def _lane(self, partition: PartitionPath) -> _Lane:
        self._clock += 1
        lanes = self._lanes.setdefault(partition, [])
        with self._lock:
            lane = min(lanes, key=lambda lane: lane.queued, default=None)
        most = 1 if self._context.settings.sort_by_key else self._threads  # ranges of keys do not overlap
        if lane is None or (lane.queued and len(lanes) < most):
            lane = _Lane(partition)
            lanes.append(lane)
        lane.used = self._clock
        self._close_unused(lane)
        return lane

    def _close_unused(self, needed: _Lane) -> None:
        is_open = [lane for lane in self._all_lanes() if lane.handle is not None and lane is not needed]
        if len(is_open) >= OPEN_FILES:
            idle = [lane for lane in is_open if not lane.queued]
            if idle:
                self._close(min(idle, key=lambda lane: lane.used))

    def _all_lanes(self) -> Iterator[_Lane]:
        for lanes in self._lanes.values():
            yield from lanes

    def _write(self, lane: _Lane, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches).combine_chunks()
        with lane.lock:
            for batch in (piece for whole in table.to_batches() for piece in steps(whole)):
                if lane.handle is not None and (
                    lane.handle.bytes_written >= self._context.settings.packing.max_file_size
                ):
                    self._close(lane)
                if lane.handle is None:
                    lane.handle = BaseFileHandle(self._context, lane.partition)
                lane.handle.write_new(batch)
        with self._lock:
            lane.queued -= 1

    def _close(self, lane: _Lane) -> None:
        handle, lane.handle = lane.handle, None
        if handle is None:
            return
        try:
            stat = handle.finish()
        except BaseException:
            handle.abandon()
            raise
        with self._lock:
            self._stats.append(stat)

    def _join(self) -> None:
        for future in self._futures:
            future.result()
        self._futures = []
