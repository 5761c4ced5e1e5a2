"""Tracks which changes to a folder are not on disk yet, and flushes them.

A file system may write changes to disk in any order, so after a power failure a later change may be there without an
earlier one. To keep an order, flush what the later change relies on first.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Final

from hudi_py.storage.threads import REQUESTS, in_threads

# Some file systems cannot flush folders; folders above the table may be traversable but not readable
_NO_FOLDER_FLUSH: Final = frozenset(
    {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM}
)
_MAX_IN_TURN: Final = 8
"""Number of files and folders to flush one after the other: the first flush writes most of the journal, and the others
are quicker than starting threads."""
# macOS has no fdatasync
_flush_data = getattr(os, "fdatasync", os.fsync)


def flush_descriptor(descriptor: int) -> None:
    """Forces the content of an open file to disk."""
    _flush_data(descriptor)


def flush_file(full: str) -> None:
    """Forces the content of a file to disk; the file may no longer exist."""
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        flush_descriptor(descriptor)
    except OSError as error:
        error.filename = full
        raise
    finally:
        os.close(descriptor)


def flush_folder(full: str) -> None:
    """Forces the names in a folder to disk; the folder may no longer exist."""
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno in _NO_FOLDER_FLUSH:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_FLUSH:
            error.filename = full
            raise
    finally:
        os.close(descriptor)


class Unflushed:
    """Changes below one root that were not forced to disk yet. Thread-safe.

    Keeps created, moved and removed files apart: moves and removals wait for creations.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._files: set[str] = set()
        self._created: set[str] = set()
        """Folders that contain new names."""
        self._moved: set[str] = set()
        self._removed: set[str] = set()
        self._anchored: set[str] = set()
        """Folders whose own names are on disk. Another process may have created a folder without flushing it yet."""

    def wrote(self, full: str) -> None:
        """Records that the content of a file is not on disk."""
        with self._lock:
            self._files.add(full)

    def created(self, folder: str) -> None:
        """Records that a folder has a new name."""
        with self._lock:
            self._created.add(folder)

    def moved(self, folder: str) -> None:
        """Records that a file was moved into a folder."""
        with self._lock:
            self._moved.add(folder)

    def removed(self, folder: str) -> None:
        """Records that a name was removed from a folder."""
        with self._lock:
            self._removed.add(folder)

    def flush_created(self) -> None:
        """Flushes created files. Call it before moving a file."""
        self._flush(self._created)

    def flush_kept(self) -> None:
        """Flushes created and moved files. Call it before removing or replacing a file."""
        self._flush(self._created, self._moved)

    def flush(self) -> None:
        """Flushes everything."""
        self._flush(self._created, self._moved, self._removed)

    def _flush(self, *kinds: set[str]) -> None:
        # One at a time: another thread may be flushing changes that this one waits for. Changes that other threads make
        # meanwhile are flushed by the next caller
        with self._flushing:
            with self._lock:
                files = set(self._files)
                taken = [set(kind) for kind in kinds]
                folders = set().union(*taken)
                folders |= {item for folder in folders for item in self._not_anchored(folder)}
                self._files.clear()
                for kind in kinds:
                    kind.clear()
            try:
                work = [(flush_file, path) for path in files] + [(flush_folder, path) for path in folders]
                in_threads(lambda item: item[0](item[1]), work, 1 if len(work) <= _MAX_IN_TURN else REQUESTS)
            except BaseException:
                with self._lock:
                    self._files |= files
                    for kind, before in zip(kinds, taken, strict=True):
                        kind |= before
                raise
            with self._lock:
                self._anchored |= folders

    def _not_anchored(self, folder: str) -> list[str]:
        """Lists the folders from a folder up to the root whose names may not be on disk yet."""
        result: list[str] = []
        while folder not in self._anchored and len(folder) > len(self._root):
            folder = os.path.dirname(folder)
            result.append(folder)
        return result
