"""Bulk insert: streams rows into new file groups, in bounded memory and without a look-up of their keys."""

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
from hudi_py.write.handles.base import STEP_ROWS, BaseFileHandle, steps
from hudi_py.write.operations.shares import Workers
from hudi_py.write.placement.assign import MEGABYTE
from hudi_py.write.rows import KeyedRows, PartitionedRows, sorted_by_key, split_by_partition

CHUNK_BYTES = 48 * MEGABYTE
"""Minimum bytes of the rows that a file gets at a time, if row groups are smaller. The rows of a partition with less go
to one file."""
META_BYTES = 64
"""Maximum bytes of a row's meta columns besides its key, while they wait for their row group."""
OPEN_FILES = 64
"""Maximum number of files being written at the same time; beyond that, the least recently used one is completed."""


def write_new_file_groups(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> list[WriteStat]:
    """Writes incoming rows, in normalised input types and any order of partitions, to new file groups.

    Keys are not looked up, and rows with a delete marker are left out. Memory: `settings.memory_bytes` of rows,
    including those being encoded, and the column chunk that each thread encodes; to sort rows, also all rows of a
    partition. Files are completed at `packing.max_file_size`.

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
    """Yields the rows without a delete marker, in order of arrival or sorted."""
    live = (_live_rows(context, batch) for batch in batches)
    if not context.settings.sort_by_key:
        for keyed in live:
            yield from split_by_partition(keyed.rows, keyed.partitions)
        return
    with PartitionedRows(context.row_schema, context.settings.waiting_bytes) as held:
        for keyed in live:
            held.add(keyed.rows, keyed.partitions)
        for partition in held.partitions:
            for batch in sorted_by_key(held.table(partition)).to_batches():
                for step in steps(batch):
                    yield partition, step


def _live_rows(context: WriteContext, batch: pa.RecordBatch) -> KeyedRows:
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
    """When it last received a chunk."""
    handle: BaseFileHandle | None = None


class _Spreader:
    """Collects rows by partition and spreads chunks of them, each a row group, over files: over several files of a
    partition only while all of them are busy. A context manager: an error inside the block abandons all files."""

    def __init__(self, context: WriteContext) -> None:
        settings = context.settings
        self._context = context
        self._threads = settings.threads
        self._budget = settings.waiting_bytes if settings.sort_by_key else settings.memory_bytes
        group = settings.layout.row_group_bytes
        self._chunk_bytes = group * max(CHUNK_BYTES // group, 1)
        self._workers: Workers[None] = Workers(self._threads, at_most=self._threads + 1)
        self._held: dict[PartitionPath, list[pa.RecordBatch]] = {}
        self._sizes: dict[PartitionPath, int] = {}
        self._held_bytes = 0
        self._lanes: dict[PartitionPath, list[_Lane]] = {}
        self._clock = 0
        self._stats: list[WriteStat] = []
        self._changed = threading.Condition()
        """Guards the state that is shared with the threads that write."""
        self._written_bytes = 0
        """Bytes of the rows that are queued or being written."""

    def __enter__(self) -> _Spreader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._workers.__exit__()
        if kind is not None:
            for lane in self._open_lanes():
                if lane.handle is not None:
                    lane.handle.abandon()

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows in memory, with their meta columns."""
        return self._held_bytes + self._written_bytes

    def add(self, partition: PartitionPath, rows: pa.RecordBatch) -> None:
        for step in steps(rows):
            size = step.nbytes + META_BYTES * step.num_rows
            if self._sizes.get(partition, 0) + size > self._chunk_bytes and partition in self._held:
                self._flush_partition(partition)
            self._make_room(size)
            self._held.setdefault(partition, []).append(step)
            self._sizes[partition] = self._sizes.get(partition, 0) + size
            self._held_bytes += size

    def finish(self) -> list[WriteStat]:
        for partition in list(self._held):
            self._flush_partition(partition)
        self._workers.results()
        for lane in self._open_lanes():
            self._workers.submit(partial(self._close_lane, lane))
        self._workers.results()
        return sorted(self._stats, key=lambda stat: stat.path)

    def _make_room(self, size: int) -> None:
        """Waits until there is memory for more rows; without chunks to wait for, writes the largest partitions."""
        while self.num_bytes and self.num_bytes + size > self._budget:
            if not self._written_bytes:
                self._flush_largest()
                while self._held_bytes > self._budget // 2:
                    self._flush_largest()
            with self._changed:
                self._changed.wait_for(lambda: not self._written_bytes or self.num_bytes + size <= self._budget)

    def _flush_largest(self) -> None:
        self._flush_partition(max(self._sizes, key=self._sizes.__getitem__))

    def _flush_partition(self, partition: PartitionPath) -> None:
        batches, size = self._held.pop(partition), self._sizes.pop(partition)
        lane = self._lane_for(partition)
        with self._changed:
            lane.queued += 1
            self._held_bytes -= size
            self._written_bytes += size
        self._workers.submit(partial(self._queue_chunk, lane, batches, size))

    def _lane_for(self, partition: PartitionPath) -> _Lane:
        self._clock += 1
        lanes = self._lanes.setdefault(partition, [])
        with self._changed:
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
                self._close_lane(min(idle, key=lambda lane: lane.used))

    def _open_lanes(self) -> list[_Lane]:
        return [lane for lanes in self._lanes.values() for lane in lanes if lane.handle is not None]

    def _queue_chunk(self, lane: _Lane, batches: list[pa.RecordBatch], size: int) -> None:
        try:
            with lane.lock:
                self._write_chunk(lane, batches)
        finally:
            batches.clear()
            with self._changed:
                lane.queued -= 1
                self._written_bytes -= size
                self._changed.notify_all()

    def _write_chunk(self, lane: _Lane, batches: list[pa.RecordBatch]) -> None:
        full = self._context.settings.packing.max_file_size
        for batch in _in_steps(batches):
            if lane.handle is not None and lane.handle.bytes_written >= full:
                self._close_lane(lane)
            if lane.handle is None:
                lane.handle = BaseFileHandle(self._context, lane.partition)
            lane.handle.write_new(batch)
        if lane.handle is not None:
            lane.handle.flush()

    def _close_lane(self, lane: _Lane) -> None:
        handle, lane.handle = lane.handle, None
        if handle is None:
            return
        try:
            stat = handle.finish()
        except BaseException:
            handle.abandon()
            raise
        with self._changed:
            self._stats.append(stat)


def _in_steps(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches of some thousand; small ones are concatenated, because each batch costs calls."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(small.num_rows for small in some) >= STEP_ROWS // 4:
            yield pa.concat_batches(some) if len(some) > 1 else some[0]
            some = []
    if some:
        yield pa.concat_batches(some)
