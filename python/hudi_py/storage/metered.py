"""A storage that counts what is asked of it, and that stops its callers at a call which changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from hudi_py.storage.base import BulkStorage, ConditionalStorage, FileInfo, Storage, is_lock, is_scratch
from hudi_py.storage.within import FolderStorage

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_py.storage.conditional import Version, VersionedObject


@dataclass(frozen=True, slots=True)
class Used:
    """What was asked of a storage."""

    requests: int = 0
    """Calls; one that lists a long folder, or deletes many files, may be several requests of a store."""
    bytes_read: int = 0
    """A file that is opened to be read in pieces counts as a whole."""
    bytes_written: int = 0

    @property
    def num_bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    def __add__(self, other: Used) -> Used:
        return Used(
            self.requests + other.requests,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )

    def __sub__(self, other: Used) -> Used:
        return Used(
            self.requests - other.requests,
            self.bytes_read - other.bytes_read,
            self.bytes_written - other.bytes_written,
        )


NOTHING_USED: Final = Used()


class StoppedError(BaseException):
    """The work was stopped at a call of the storage. Not an `Exception`: nothing may carry on after it."""


class Meter:
    """Counts the calls of any number of storages. Thread-safe.

    After `stop`, each of its storages raises StoppedError once, at a call that reads and is of neither a lock nor a
    heartbeat; later calls of it succeed, so that what was begun can be taken back.

    Args:
        within: another one, which counts the same calls and stops this one with itself.
    """

    def __init__(self, within: Meter | None = None) -> None:
        self._within = within
        self._guard = threading.Lock()
        self._requests = self._read = self._written = 0
        self._stopped = threading.Event()

    @property
    def used(self) -> Used:
        with self._guard:
            return Used(self._requests, self._read, self._written)

    def stop(self) -> None:
        """Stops whatever works through its storages."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set() or (self._within is not None and self._within.stopped)

    def count(self, *, read: int = 0, written: int = 0, requests: int = 1) -> None:
        """Adds a call, and bytes."""
        with self._guard:
            self._requests += requests
            self._read += read
            self._written += written
        if self._within is not None:
            self._within.count(read=read, written=written, requests=requests)


class _Output:
    """A stream whose bytes are counted."""

    def __init__(self, stream: BinaryIO, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter

    def write(self, data: Any, /) -> int:
        self._meter.count(written=memoryview(data).nbytes, requests=0)
        return self._stream.write(data)

    def __enter__(self) -> _Output:
        self._stream.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stream.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class MeteredStorage(FolderStorage):
    """A storage whose calls a meter counts. See `metered`."""

    def __init__(self, storage: Storage, meter: Meter) -> None:
        super().__init__(storage, "")
        self._meter = meter
        self._raised = False

    @property
    def uri(self) -> str:
        return self._storage.uri

    def _looks(self, path: str) -> None:
        """Counts the start of a call that changes nothing."""
        if self._meter.stopped and not self._raised and not is_lock(path) and not is_scratch(path):
            self._raised = True
            raise StoppedError
        self._meter.count()

    def read(self, path: str) -> bytes:
        self._looks(path)
        data = super().read(path)
        self._meter.count(read=len(data), requests=0)
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self._looks(path)
        data = super().read_range(path, offset, length)
        self._meter.count(read=len(data), requests=0)
        return data

    def open_input(self, path: str) -> pa.NativeFile:
        self._looks(path)
        file = super().open_input(path)
        self._meter.count(read=file.size(), requests=0)
        return file

    def open_output(self, path: str) -> BinaryIO:
        self._meter.count()
        return cast(BinaryIO, _Output(super().open_output(path), self._meter))

    def put(self, path: str, data: bytes) -> None:
        self._meter.count(written=len(data))
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._meter.count(written=len(data))
        return super().put_if_absent(path, data)

    def names(self, path: str = "") -> list[str]:
        self._looks(path)
        return super().names(path)

    def list(self, path: str = "") -> list[FileInfo]:
        self._looks(path)
        return super().list(path)

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        self._looks(path)
        return super().walk(path)

    def stat(self, path: str) -> FileInfo | None:
        self._looks(path)
        return super().stat(path)

    def delete(self, path: str) -> bool:
        self._meter.count()
        return super().delete(path)

    def delete_tree(self, path: str) -> None:
        self._meter.count()
        super().delete_tree(path)

    def rename(self, src: str, dst: str) -> None:
        self._meter.count()
        super().rename(src, dst)

    def touch(self, path: str) -> None:
        self._meter.count()
        super().touch(path)


class _MeteredObjects(MeteredStorage):
    """One over an object store."""

    def __init__(self, storage: ConditionalStorage, meter: Meter) -> None:
        super().__init__(storage, meter)
        self._objects = storage

    def read_version(self, path: str) -> VersionedObject | None:
        self._looks(path)
        return self._objects.read_version(path)

    def replace(self, path: str, data: bytes, version: Version | None, note: str = "") -> Version | None:
        self._meter.count(written=len(data))
        return self._objects.replace(path, data, version, note)

    def delete_many(self, paths: Sequence[str]) -> None:
        self._meter.count()
        if isinstance(self._objects, BulkStorage):
            self._objects.delete_many(paths)
        else:
            for path in paths:
                self._objects.delete(path)


def metered(storage: Storage, meter: Meter) -> Storage:
    """Wraps a storage so that its calls are counted. The result supports the same operations."""
    return (
        _MeteredObjects(storage, meter) if isinstance(storage, ConditionalStorage) else MeteredStorage(storage, meter)
    )
