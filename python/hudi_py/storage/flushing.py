"""Which changes to a folder are not on disk yet, and forcing them there.

A file system may bring changes to disk in any order, so after a power failure a later one can be there without an
earlier one. Order is had by waiting: what the later change relies on is flushed first.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Final

from hudi_py.storage.threads import REQUESTS, in_threads

# File systems that cannot flush folders, and folders above the table that may be entered but not read
_NO_FOLDER_FLUSH: Final = frozenset(
    {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM}
)
_MAX_IN_TURN: Final = 8
"""Files and folders that are flushed one after the other: the first brings most of the journal to disk, and the others
take less time than it takes to start threads."""
# macOS has no fdatasync
_flush_data = getattr(os, "fdatasync", os.fsync)


def flush_descriptor(descriptor: int) -> None:
    """Forces the content of an open file to disk."""
    _flush_data(descriptor)


def flush_file(full: str) -> None:
    """Forces the content of a file to disk; it may be gone."""
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
    """Forces the names in a folder to disk; it may be gone."""
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
    """Changes below one root that were not forced to disk yet. Methods may be called from several threads.

    Created files, moved files and removed files are kept apart, as creations are what moves and removals wait for.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._files: set[str] = set()
        self._created: set[str] = set()
        """Folders with new names in them."""
        self._moved: set[str] = set()
        self._removed: set[str] = set()
        self._anchored: set[str] = set()
        """Folders whose own names are on disk: another process may have made them, and not have flushed them yet."""

    def wrote(self, full: str) -> None:
        """The content of a file is not on disk."""
        with self._lock:
            self._files.add(full)

    def created(self, folder: str) -> None:
        """A folder has a new name in it."""
        with self._lock:
            self._created.add(folder)

    def moved(self, folder: str) -> None:
        """A folder has the name of a file that was moved there."""
        with self._lock:
            self._moved.add(folder)

    def removed(self, folder: str) -> None:
        """A folder has lost a name."""
        with self._lock:
            self._removed.add(folder)

    def flush_created(self) -> None:
        """Before a file is moved: what was created is on disk when this returns."""
        self._flush(self._created)

    def flush_kept(self) -> None:
        """Before a file is removed or replaced: what was created or moved is on disk when this returns."""
        self._flush(self._created, self._moved)

    def flush(self) -> None:
        """Everything is on disk when this returns."""
        self._flush(self._created, self._moved, self._removed)

    def _flush(self, *kinds: set[str]) -> None:
        # One at a time: another thread may be at the very changes which this one waits for. What other threads have
        # changed meanwhile is taken along by whoever comes next
        with self._flushing:
            with self._lock:
                files = set(self._files)
                taken = [set(kind) for kind in kinds]
                folders = set().union(*taken)
                folders |= {each for folder in folders for each in self._not_anchored(folder)}
                self._files.clear()
                for kind in kinds:
                    kind.clear()
            try:
                work = [(flush_file, path) for path in files] + [(flush_folder, path) for path in folders]
                in_threads(lambda each: each[0](each[1]), work, 1 if len(work) <= _MAX_IN_TURN else REQUESTS)
            except BaseException:
                with self._lock:
                    self._files |= files
                    for kind, before in zip(kinds, taken, strict=True):
                        kind |= before
                raise
            with self._lock:
                self._anchored |= folders

    def _not_anchored(self, folder: str) -> list[str]:
        """The folders above one, up to the root, whose names in their parents may not be on disk yet."""
        found: list[str] = []
        while folder not in self._anchored and len(folder) > len(self._root):
            folder = os.path.dirname(folder)
            found.append(folder)
        return found
