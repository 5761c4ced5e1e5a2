"""Rows that tasks stage for one process to read: Arrow IPC streams in the table's storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.storage import Storage


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Staged rows: an Arrow IPC stream, by its path relative to the table's base path."""

    path: str
    num_bytes: int


class Stage:
    """The staged file of one attempt, created with its first rows."""

    def __init__(self, storage: Storage, path: str, check_volume: Callable[[int], None] | None = None) -> None:
        """`check_volume` gets the number of bytes written so far, and raises if they are too many."""
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

    def close(self) -> StagedFile | None:
        """The file; None if there were no rows."""
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
    """The rows of the files, in order."""
    for file in files:
        with storage.open_input(file.path) as source, pa.ipc.open_stream(source) as reader:
            yield from reader
