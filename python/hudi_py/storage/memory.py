"""Tables in this process's memory, for tests and short-lived data."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator

import pyarrow as pa

from hudi_py.storage.base import FileInfo, clean_path, exists, is_hidden_by_storage, missing


class _Files:
    """One named store. A folder exists if there are files below it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entries: dict[str, tuple[bytes, int]] = {}
        """Path to content and modification time in milliseconds."""


_STORES: dict[str, _Files] = {}
_STORES_LOCK = threading.Lock()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _MemoryFile(io.BytesIO):
    def __init__(self, storage: MemoryStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._storage.put(self._path, self.getvalue())
        super().close()


class MemoryStorage:
    """Files in memory, shared by all storages of the same name in this process: `memory://<name>[/<folder>]`."""

    __slots__ = ("_files", "_prefix", "name")

    def __init__(self, name: str = "", folder: str = "") -> None:
        self.name = name
        self._prefix = f"{clean_path(folder)}/" if folder else ""
        with _STORES_LOCK:
            self._files = _STORES.setdefault(name, _Files())

    def __repr__(self) -> str:
        return f"MemoryStorage({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryStorage) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash((MemoryStorage, self.uri))

    def __reduce__(self) -> tuple[type[MemoryStorage], tuple[str, str]]:
        return MemoryStorage, (self.name, self._prefix.rstrip("/"))

    @property
    def uri(self) -> str:
        return f"memory://{self.name}/{self._prefix}".rstrip("/")

    @property
    def is_local(self) -> bool:
        return False

    @property
    def can_rename(self) -> bool:
        return True

    def _full(self, path: str) -> str:
        return self._prefix + clean_path(path)

    def _folder(self, path: str) -> str:
        full = self._full(path)
        return full if not full or full.endswith("/") else full + "/"

    def read(self, path: str) -> bytes:
        with self._files.lock:
            entry = self._files.entries.get(self._full(path))
        if entry is None:
            raise missing(self.uri, path)
        return entry[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path)[offset : offset + max(length, 0)]

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def open_output(self, path: str) -> io.BytesIO:
        self.put(path, b"")
        return _MemoryFile(self, path)

    def put(self, path: str, data: bytes) -> None:
        with self._files.lock:
            self._files.entries[self._full(path)] = (bytes(data), _now_ms())

    def put_if_absent(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        with self._files.lock:
            if full in self._files.entries:
                return False
            self._files.entries[full] = (bytes(data), _now_ms())
            return True

    def names(self, path: str = "") -> list[str]:
        return [info.name for info in self.list(path) if not info.is_dir]

    def list(self, path: str = "") -> list[FileInfo]:
        folder = self._folder(path)
        result: dict[str, FileInfo] = {}
        with self._files.lock:
            for full, (data, modified) in self._files.entries.items():
                if not full.startswith(folder):
                    continue
                name, slash, _ = full[len(folder) :].partition("/")
                relative = (folder + name)[len(self._prefix) :]
                if slash:
                    result[relative] = FileInfo(relative, 0, 0, True)
                elif not is_hidden_by_storage(name):
                    result[relative] = FileInfo(relative, len(data), modified)
        return [result[key] for key in sorted(result)]

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        folder = self._folder(path)
        with self._files.lock:
            result = [
                FileInfo(full[len(self._prefix) :], len(data), modified)
                for full, (data, modified) in self._files.entries.items()
                if full.startswith(folder) and not is_hidden_by_storage(full.rpartition("/")[2])
            ]
        yield from result

    def stat(self, path: str) -> FileInfo | None:
        full, folder = self._full(path), self._folder(path)
        with self._files.lock:
            entry = self._files.entries.get(full)
            if entry is not None:
                return FileInfo(clean_path(path), len(entry[0]), entry[1])
            if any(name.startswith(folder) for name in self._files.entries):
                return FileInfo(clean_path(path), 0, 0, True)
        return None

    def delete(self, path: str) -> bool:
        with self._files.lock:
            return self._files.entries.pop(self._full(path), None) is not None

    def delete_tree(self, path: str) -> None:
        full, folder = self._full(path), self._folder(path)
        with self._files.lock:
            for name in [name for name in self._files.entries if name == full or name.startswith(folder)]:
                del self._files.entries[name]

    def rename(self, src: str, dst: str) -> None:
        source, target = self._full(src), self._full(dst)
        with self._files.lock:
            if self.stat(src) is None:
                raise missing(self.uri, src)
            if self.stat(dst) is not None:
                raise exists(self.uri, dst)
            below = source + "/"
            for name in [name for name in self._files.entries if name == source or name.startswith(below)]:
                self._files.entries[target + name[len(source) :]] = self._files.entries.pop(name)

    def touch(self, path: str) -> None:
        full = self._full(path)
        with self._files.lock:
            data = self._files.entries.get(full, (b"", 0))[0]
            self._files.entries[full] = (data, _now_ms())

    def sync(self) -> None:
        """Does nothing: memory does not survive the process."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Sets the modification time of a file, in milliseconds since the epoch. Raises FileNotFoundError."""
        with self._files.lock:
            self._files.entries[self._full(path)] = (self.read(path), modified_ms)
