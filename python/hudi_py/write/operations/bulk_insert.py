"""Bulk insert: rows stream into new file groups, in bounded memory and without a look-up of their keys."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from hudi_py.merge import delete_marks
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import PartitionPath
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.base import BaseFileHandle, steps
from hudi_py.write.operations.insert import insert_one_per_key
from hudi_py.write.operations.partition import OperationResult
from hudi_py.write.placement.assign import MEGABYTE
from hudi_py.write.rows import KeyedRows, PartitionedRows, sorted_by_key, split_by_partition
from hudi_py.write.workers import Workers

CHUNK_BYTES = 48 * MEGABYTE
"""Bytes in memory of the rows that a file gets at a time. The rows of a partition with less go to one file."""
OPEN_FILES = 64
"""Files being written at the same time; beyond that the least recently used one is completed."""


def bulk_insert(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    if context.settings.combine_before_insert:
        return insert_one_per_key(context, batches, into_small=False)
    return OperationResult(write_new_file_groups(context, batches))


def write_new_file_groups(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> list[WriteStat]:
    """Writes incoming rows, in normalised input types and any order of partitions, to new file groups.

    No key is looked up, rows with a delete marker are left out. Memory: about `settings.memory_bytes` of rows, and a
    row group for each open file; to sort rows, all of a partition as well. Files are completed at
    `packing.max_file_size`.

    Returns:
        One statistic for each file. After an error nothing of the files stays.
    """
    context.progress.phase("writing")
    with _Spreader(context) as spreader:
        for partition, part in _by_partition(context, batches):
            spreader.add(partition, part)
        return spreader.finish()


def _by_partition(
    context: WriteContext, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[PartitionPath, pa.RecordBatch]]:
    """The rows without a delete marker, as they come, or sorted."""
    live = (_live(context, batch) for batch in batches)
    if not context.settings.sort_by_key:
        for keyed in live:
            yield from split_by_partition(keyed.rows, keyed.partitions)
        return
    with PartitionedRows(context.row_schema, context.settings.memory_bytes) as held:
        for keyed in live:
            held.add(keyed.rows, keyed.partitions)
        for partition in held.partitions:
            for batch in sorted_by_key(held.table(partition)).to_batches():
                for step in steps(batch):
                    yield partition, step


def _live(context: WriteContext, batch: pa.RecordBatch) -> KeyedRows:
    keyed = context.keyed(batch)
    deletes = delete_marks(keyed.rows, context.settings.merge)
    if deletes.any():
        keep = pa.array(~deletes)
        keyed = KeyedRows(keyed.rows.filter(keep), keyed.partitions.filter(keep))
    context.progress.read(keyed.rows.num_rows)
    return keyed


@dataclass(slots=True)
class _Lane:
    """A file group being written; one thread at a time writes to it."""

    partition: PartitionPath
    lock: threading.Lock = field(default_factory=threading.Lock)
    queued: int = 0
    """Chunks not yet written."""
    used: int = 0
    """When it last got a chunk."""
    handle: BaseFileHandle | None = None


class _Spreader:
    """Collects rows by partition and spreads chunks of them over files: over several files of a partition only while
    all of them are busy. A context manager: leaving it by an error gives all files up."""

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._threads = context.settings.threads
        self._workers: Workers[None] = Workers(self._threads, at_most=self._threads + 1)
        self._held: dict[PartitionPath, list[pa.RecordBatch]] = {}
        self._sizes: dict[PartitionPath, int] = {}
        self._total = 0
        self._lanes: dict[PartitionPath, list[_Lane]] = {}
        self._clock = 0
        self._stats: list[WriteStat] = []
        self._lock = threading.Lock()

    def __enter__(self) -> _Spreader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._workers.__exit__()
        if kind is not None:
            for lane in self._open_lanes():
                if lane.handle is not None:
                    lane.handle.abandon()

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
        self._workers.results()
        for lane in self._open_lanes():
            self._workers.submit(partial(self._close, lane))
        self._workers.results()
        return sorted(self._stats, key=lambda stat: stat.path)

    def _flush(self, partition: PartitionPath) -> None:
        batches = self._held.pop(partition)
        self._total -= self._sizes.pop(partition)
        lane = self._lane(partition)
        with self._lock:
            lane.queued += 1
        self._workers.submit(partial(self._write, lane, batches))

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
        others = [lane for lane in self._open_lanes() if lane is not needed]
        if len(others) >= OPEN_FILES:
            idle = [lane for lane in others if not lane.queued]
            if idle:
                self._close(min(idle, key=lambda lane: lane.used))

    def _open_lanes(self) -> list[_Lane]:
        return [lane for lanes in self._lanes.values() for lane in lanes if lane.handle is not None]

    def _write(self, lane: _Lane, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches).combine_chunks()
        full = self._context.settings.packing.max_file_size
        with lane.lock:
            for batch in (step for whole in table.to_batches() for step in steps(whole)):
                if lane.handle is not None and lane.handle.bytes_written >= full:
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
