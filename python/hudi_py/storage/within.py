"""Storages on top of another one: a folder of it, or some of its files in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Final

from hudi_py.model.names import join_path
from hudi_py.storage.base import DatedStorage, FileInfo, Storage, clean_path
from hudi_py.storage.threads import in_threads

if TYPE_CHECKING:
    import pyarrow as pa

_SMALL_FILE: Final = 1 << 20
"""Maximum size of a file that is read whole rather than in pieces."""


class FolderStorage:
    """A folder of another storage; paths are relative to that folder."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = clean_path(folder)

    @property
    def uri(self) -> str:
        return f"{self._storage.uri}/{self._folder}"

    @property
    def beneath(self) -> Storage:
        """Returns the storage that contains the folder."""
        return self._storage

    @property
    def is_local(self) -> bool:
        return self._storage.is_local

    @property
    def can_rename(self) -> bool:
        return self._storage.can_rename

    def read(self, path: str) -> bytes:
        return self._storage.read(self._below(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._storage.read_range(self._below(path), offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        return self._storage.open_input(self._below(path))

    def open_output(self, path: str) -> BinaryIO:
        return self._storage.open_output(self._below(path))

    def put(self, path: str, data: bytes) -> None:
        self._storage.put(self._below(path), data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._storage.put_if_absent(self._below(path), data)

    def names(self, path: str = "") -> list[str]:
        return self._storage.names(self._below(path))

    def list(self, path: str = "") -> list[FileInfo]:
        cut = len(self._folder) + 1 if self._folder else 0
        listed = self._storage.list(self._below(path))
        return [FileInfo(below[cut:], size, modified_ms, is_dir) for below, size, modified_ms, is_dir in listed]

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        return map(self._relative, self._storage.walk(self._below(path)))

    def stat(self, path: str) -> FileInfo | None:
        info = self._storage.stat(self._below(path))
        return None if info is None else self._relative(info)

    def delete(self, path: str) -> bool:
        return self._storage.delete(self._below(path))

    def delete_tree(self, path: str) -> None:
        self._storage.delete_tree(self._below(path))

    def rename(self, src: str, dst: str) -> None:
        self._storage.rename(self._below(src), self._below(dst))

    def touch(self, path: str) -> None:
        self._storage.touch(self._below(path))

    def sync(self) -> None:
        self._storage.sync()

    def set_modified(self, path: str, modified_ms: int) -> bool:
        """See the function `set_modified`."""
        return set_modified(self._storage, self._below(path), modified_ms)

    def _below(self, path: str) -> str:
        return join_path(self._folder, clean_path(path))

    def _relative(self, info: FileInfo) -> FileInfo:
        if not self._folder:
            return info
        return FileInfo(info.path[len(self._folder) + 1 :], info.size, info.modified_ms, info.is_dir)


def set_modified(storage: Storage, path: str, modified_ms: int) -> bool:
    """Sets the modification time of a file, in milliseconds since the epoch. Returns False if the storage cannot do
    that."""
    if isinstance(storage, FolderStorage):
        return storage.set_modified(path, modified_ms)
    if isinstance(storage, DatedStorage):
        storage.set_modified(path, modified_ms)
        return True
    return False


def can_set_modified(storage: Storage) -> bool:
    """Returns whether a storage can set modification times."""
    while isinstance(storage, FolderStorage):
        storage = storage.beneath
    return isinstance(storage, DatedStorage)


class HeldStorage(FolderStorage):
    """A storage that keeps some of its files in memory, for reading them in pieces."""

    def __init__(self, storage: Storage, held: Mapping[str, bytes]) -> None:
        super().__init__(storage, "")
        self._held = held

    @property
    def uri(self) -> str:
        return self._storage.uri

    def read(self, path: str) -> bytes:
        value = self._held.get(path)
        return super().read(path) if value is None else value

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        value = self._held.get(path)
        return super().read_range(path, offset, length) if value is None else value[offset : offset + length]


def holding(storage: Storage, files: Iterable[tuple[str, int]]) -> Storage:
    """Returns the storage with the small ones of these files (path and size in bytes) in memory, each read with one
    request. A local storage is returned as it is. A file that cannot be read raises when it is needed."""
    if storage.is_local or isinstance(storage, HeldStorage):
        return storage

    def read(path: str) -> bytes | None:
        try:
            return storage.read(path)
        except FileNotFoundError:
            return None

    small = [path for path, size in files if 0 < size <= _SMALL_FILE]
    held = {path: data for path, data in zip(small, in_threads(read, small), strict=True) if data is not None}
    return HeldStorage(storage, held) if held else storage
