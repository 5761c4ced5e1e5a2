"""A storage that keeps what is removed or replaced through it, so that everything can be undone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import BinaryIO, Final

from hudi_py.model.layout import LOCK_WAITING
from hudi_py.model.names import join_path
from hudi_py.storage import FolderStorage, Storage
from hudi_py.storage.base import ConditionalStorage, is_lock
from hudi_py.storage.conditional import Version, VersionedObject

KEPT: Final = "kept"
"""Folder of the originals, by their paths."""
NEW: Final = "new"
"""Folder with an empty file for each file that was created, by its path."""


class KeepingStorage(FolderStorage):
    """Another storage, and a folder in it with what was there before.

    The first change to a file keeps its original: it is moved where files can be moved, else copied. The first write of
    a new file leaves its name. Both happen before the change, so that a killed repair can be undone as well. The files
    of the table lock are left out: a lock belongs to a process.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        super().__init__(storage, "")
        self._kept = join_path(folder, KEPT)
        self._new = join_path(folder, NEW)
        self._changed: set[str] = set()
        self._guard = threading.RLock()

    @property
    def uri(self) -> str:
        return self._storage.uri

    def open_output(self, path: str) -> BinaryIO:
        self._before_write(path)
        return super().open_output(path)

    def put(self, path: str, data: bytes) -> None:
        self._before_write(path)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self._storage.stat(path) is None:
            self._before_write(path)
        return super().put_if_absent(path, data)

    def touch(self, path: str) -> None:
        self._before_write(path)
        super().touch(path)

    def delete(self, path: str) -> bool:
        with self._guard:
            if self._is_exempt(path):
                return super().delete(path)
            if path in self._changed:
                return self._delete_own(path)
            if self._storage.stat(path) is None:
                return False
            self._changed.add(path)
            self._move_away(path)
            return True

    def set_aside(self, path: str) -> None:
        """Moves a file to where originals are kept, even one of a lock. Raises FileNotFoundError."""
        with self._guard:
            self._changed.add(path)
            self._move_away(path)

    def delete_tree(self, path: str) -> None:
        for info in list(self._storage.walk(path)):
            self.delete(info.path)
        super().delete_tree(path)

    def rename(self, src: str, dst: str) -> None:
        with self._guard:
            own = src in self._changed and not self._is_exempt(src)
            self._before_write(src)
            self._before_write(dst)
            super().rename(src, dst)
            if own:
                self._forget(src)

    def _is_exempt(self, path: str) -> bool:
        return is_lock(path) or path == LOCK_WAITING

    def _before_write(self, path: str) -> None:
        with self._guard:
            if path in self._changed or self._is_exempt(path):
                return
            self._changed.add(path)
            if self._storage.stat(path) is None:
                self._storage.put(join_path(self._new, path), b"")
            else:
                copy_file(self._storage, path, join_path(self._kept, path))

    def _delete_own(self, path: str) -> bool:
        there = super().delete(path)
        self._forget(path)
        return there

    def _forget(self, path: str) -> None:
        """A file that was created is gone again; one that had an original stays changed."""
        if self._storage.stat(join_path(self._kept, path)) is None:
            self._storage.delete(join_path(self._new, path))
            self._changed.discard(path)

    def _move_away(self, path: str) -> None:
        kept = join_path(self._kept, path)
        if self._storage.can_rename:
            self._storage.rename(path, kept)
            return
        copy_file(self._storage, path, kept)
        self._storage.delete(path)


class KeepingObjects(KeepingStorage):
    """The same over an object store, which replaces files conditionally: only locks are replaced so."""

    _storage: ConditionalStorage

    def read_version(self, path: str) -> VersionedObject | None:
        return self._storage.read_version(path)

    def replace(self, path: str, data: bytes, version: Version | None, note: str = "") -> Version | None:
        return self._storage.replace(path, data, version, note)


def keeping(storage: Storage, folder: str) -> KeepingStorage:
    """The storage, keeping what changes in a folder of it."""
    kind: Callable[[Storage, str], KeepingStorage]
    kind = KeepingObjects if isinstance(storage, ConditionalStorage) else KeepingStorage
    return kind(storage, folder)


def copy_file(storage: Storage, source: str, target: str) -> None:
    """Copies a file within a storage, in pieces."""
    with storage.open_input(source) as opened, storage.open_output(target) as sink:
        while data := opened.read(8 << 20):
            sink.write(data)
