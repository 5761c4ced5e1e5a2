"""Stages rows of tasks for one process to read: Arrow IPC streams in the table's storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.model.layout import SOURCES
from hudi_py.model.names import PartitionPath
from hudi_py.storage import Storage
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.write.context import WriteContext
from hudi_py.write.rows import split_by_partition

SMALL_BYTES = 32 * 1024 * 1024
"""A task stages its rows of a partition if they take less memory than this, because their file would be small."""
_SOURCE_LIFE_MS = 24 * 3600 * 1000
HELD_BYTES = 256 * 1024 * 1024
"""Maximum bytes of memory in a task for rows that may be too few for a file; beyond that they are staged."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Staged rows: an Arrow IPC stream, by its path relative to the table's base path."""

    path: str
    num_bytes: int


class Stage:
    """The staged file of one attempt, created with its first rows."""

    def __init__(self, storage: Storage, path: str, check_volume: Callable[[int], None] | None = None) -> None:
        """Creates the stage. `check_volume` gets the number of bytes written so far, and raises if they are too
        many."""
        self._storage = storage
        self._path = path
        self._check_volume = check_volume
        self._sink: pa.PythonFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._sink = pa.PythonFile(self._storage.open_output(self._path), "w")
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_stream(self._sink, batch.schema, options=options)
        self._writer.write_batch(batch)
        if self._check_volume is not None and self._sink is not None:
            self._check_volume(self._sink.tell())

    @property
    def num_bytes(self) -> int:
        """Bytes written so far."""
        return 0 if self._sink is None else int(self._sink.tell())

    def close(self) -> StagedFile | None:
        """Closes the file and returns it; None if there were no rows."""
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        return StagedFile(self._path, size)

    def abandon(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._storage.delete(self._path)


def staged_rows(storage: Storage, files: Iterable[StagedFile]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files, in order."""
    for file in files:
        with storage.open_input(file.path) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


def forget_source(storage: Storage, token: str) -> None:
    """Removes what tasks have staged outside of a write, and staged files that are older than a day."""
    for info in storage.list(SOURCES):
        if info.name.startswith(f"{token}-") or now_ms() - info.modified_ms > _SOURCE_LIFE_MS:
            storage.delete(info.path)


def large_partitions(context: WriteContext, rows: Iterable[pa.RecordBatch], stage: Stage) -> Iterator[pa.RecordBatch]:
    """Yields the rows of partitions with enough rows for a file; stages the others."""
    keygen, schema = context.settings.keygen, context.settings.schema
    held: dict[PartitionPath, list[pa.RecordBatch]] = {}
    sizes: dict[PartitionPath, int] = {}
    large: set[PartitionPath] = set()
    for batch in rows:
        paths = keygen.partition_paths(schema.conform_some(batch, keygen.partition_columns(schema.arrow)))
        for partition, part in split_by_partition(batch, paths):
            if partition not in large:
                held.setdefault(partition, []).append(part)
                sizes[partition] = sizes.get(partition, 0) + part.nbytes
                if sizes[partition] < SMALL_BYTES:
                    continue
                large.add(partition)
                del sizes[partition]
                yield from held.pop(partition)
            else:
                yield part
        if sum(sizes.values()) > HELD_BYTES:
            _stage_all(held, stage)
            sizes.clear()
    _stage_all(held, stage)


def _stage_all(held: dict[PartitionPath, list[pa.RecordBatch]], stage: Stage) -> None:
    for batches in held.values():
        for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
            stage.add(batch)
    held.clear()
