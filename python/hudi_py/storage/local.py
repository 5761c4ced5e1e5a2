"""Tables on this machine's file system.

With `durable`, writes survive a power failure as follows:

- The content of `put` and `put_if_absent` is on disk before the file gets its name, so no file is ever half written.
- Before a file is moved, everything created earlier is on disk; before one is removed or replaced, everything created
  or moved earlier is. So neither a deletion nor a published file can survive without what it relies on.
- `sync` waits for everything. Call it before writing a file that may count only once other files are there.

Reads follow symbolic links. Deletions do not follow one out of the root (`check_folders`): otherwise anyone who may put
a link into a table's folder could make the next clean or rollback delete files elsewhere, with the rights of the user
who runs it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat as status_bits
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.storage.base import (
    TEMPORARY_PREFIX,
    TEMPORARY_SUFFIX,
    FileInfo,
    Storage,
    clean_path,
    crc_sibling,
    exists,
    is_hidden_by_storage,
    is_lock,
    is_scratch,
    missing,
)
from hudi_py.storage.flushing import Unflushed, flush_descriptor
from hudi_py.storage.tree import walk_folders

# Error numbers of file systems without hard links
_NO_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}
)
_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
_NOT_A_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_LOCAL = "file://"


class _LocalFile(io.FileIO):
    """A file that adds its name to errors of writing; the system names none when the disk is full."""

    def __init__(self, full: str, closed: Callable[[], None]) -> None:
        super().__init__(full, "wb")
        self._closed = closed

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._closed()

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.name
            raise


class LocalStorage:
    """A folder of this machine. Changing or deleting a file removes its `.crc` sibling, or Hadoop would refuse the
    file.

    `durable`: whether writes are forced to disk, see above. Each process syncs its own writes.
    """

    __slots__ = ("_unflushed", "durable", "root")

    def __init__(self, root: str, *, durable: bool = True) -> None:
        self.root = os.path.abspath(root)
        self.durable = durable
        self._unflushed = Unflushed(self.root)

    def __repr__(self) -> str:
        return f"LocalStorage({self.root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage) and other.root == self.root

    def __hash__(self) -> int:
        return hash((LocalStorage, self.root))

    def __reduce__(self) -> tuple[Callable[..., LocalStorage], tuple[str, bool]]:
        return _opened, (self.root, self.durable)

    @property
    def uri(self) -> str:
        return "file://" + self.root

    @property
    def is_local(self) -> bool:
        return True

    @property
    def can_rename(self) -> bool:
        return True

    def _full(self, path: str) -> str:
        path = clean_path(path)
        return f"{self.root.rstrip('/')}/{path}" if path else self.root

    def read(self, path: str) -> bytes:
        try:
            with open(self._full(path), "rb", buffering=0) as file:
                return file.read()
        except _NOT_A_FILE:
            raise missing(self.uri, path) from None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        try:
            with open(self._full(path), "rb", buffering=0) as file:
                # One pread may return less than requested before the end of the file
                pieces: list[bytes] = []
                while length > 0 and (piece := os.pread(file.fileno(), length, offset)):
                    pieces.append(piece)
                    offset += len(piece)
                    length -= len(piece)
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        except _NOT_A_FILE:
            raise missing(self.uri, path) from None

    def open_input(self, path: str) -> pa.NativeFile:
        info = self.stat(path)
        if info is None or info.is_dir:
            raise missing(self.uri, path)
        return pa.OSFile(self._full(path), "rb")

    def open_output(self, path: str) -> BinaryIO:
        full = self._full(path)
        self._make_folder(os.path.dirname(full))
        _drop_crc(full)
        return io.BufferedWriter(_LocalFile(full, lambda: self._wrote(path, full)))

    def put(self, path: str, data: bytes) -> None:
        full, durable = self._full(path), self._keeps(path)
        temporary = self._write_temporary(full, data, durable)
        try:
            if durable and os.path.lexists(full):
                self._unflushed.flush_kept()
            _drop_crc(full)
            os.replace(temporary, full)
        except BaseException:
            _unlink(temporary)
            raise
        if durable:
            self._unflushed.created(os.path.dirname(full))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        created = self._create(full, data, self.durable and not is_scratch(path))
        if created and self._keeps(path):
            self._unflushed.created(os.path.dirname(full))
        return created

    def names(self, path: str = "") -> list[str]:
        try:
            with os.scandir(self._full(path)) as entries:
                result = [entry.name for entry in entries if not entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in result if name[0] != "." or not is_hidden_by_storage(name))

    def list(self, path: str = "") -> list[FileInfo]:
        full = self._full(path)
        prefix = f"{clean_path(path)}/" if path else ""
        result: list[FileInfo] = []
        try:
            with os.scandir(full) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == "." and is_hidden_by_storage(name):
                        continue
                    try:
                        is_dir = entry.is_dir()
                        status = entry.stat()
                    except (FileNotFoundError, NotADirectoryError):  # deleted since the listing, or a dangling link
                        continue
                    size = 0 if is_dir else status.st_size
                    result.append(FileInfo(prefix + name, size, status.st_mtime_ns // 1_000_000, is_dir))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(result)

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        return walk_folders(self, path)

    def stat(self, path: str) -> FileInfo | None:
        try:
            status = os.stat(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_dir = status_bits.S_ISDIR(status.st_mode)
        return FileInfo(clean_path(path), 0 if is_dir else status.st_size, status.st_mtime_ns // 1_000_000, is_dir)

    def delete(self, path: str) -> bool:
        full, durable = self._full(path), self._keeps(path)
        check_folder(self.root, os.path.dirname(full))
        if durable:
            self._unflushed.flush_kept()
        _drop_crc(full)
        try:
            os.unlink(full)
        except _NOT_A_FILE:
            return False
        if durable:
            self._unflushed.removed(os.path.dirname(full))
        return True

    def delete_tree(self, path: str) -> None:
        full = self._full(path)
        if full != self.root:
            check_folder(self.root, os.path.dirname(full))
        if os.path.isdir(full) and not os.path.islink(full):
            durable = self._keeps(path)
            if durable:
                self._unflushed.flush_kept()
            _remove_tree(full)
            if durable:
                self._unflushed.removed(os.path.dirname(full))
        else:
            self.delete(path)

    def rename(self, src: str, dst: str) -> None:
        source, target = self._full(src), self._full(dst)
        if not os.path.lexists(source):
            raise missing(self.uri, src)
        check_folder(self.root, os.path.dirname(source), "move files that are")
        if os.path.lexists(target):
            raise exists(self.uri, dst)
        self._make_folder(os.path.dirname(target))
        durable = self._keeps(dst)
        if durable:
            self._unflushed.wrote(source)
            self._unflushed.flush_created()
        _drop_crc(source)
        _drop_crc(target)
        self._move(src, dst, source, target)
        if durable:
            self._unflushed.moved(os.path.dirname(target))
            if self._keeps(src):
                self._unflushed.removed(os.path.dirname(source))

    def _move(self, src: str, dst: str, source: str, target: str) -> None:
        if os.path.isdir(source):
            os.rename(source, target)
            return
        try:
            # A hard link fails if the target exists; a rename would overwrite it
            os.link(source, target)
        except FileExistsError:
            raise exists(self.uri, dst) from None
        except FileNotFoundError:
            raise missing(self.uri, src) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            try:
                os.rename(source, target)
            except FileNotFoundError:
                raise missing(self.uri, src) from None
        else:
            _unlink(source)

    def touch(self, path: str) -> None:
        full = self._full(path)
        try:
            os.utime(full)
        except FileNotFoundError:
            self._make_folder(os.path.dirname(full))
            _drop_crc(full)
            with open(full, "ab"):
                os.utime(full)
            self._wrote(path, full)

    def set_modified(self, path: str, modified_ms: int) -> None:
        """See `base.DatedStorage`."""
        os.utime(self._full(path), ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync(self) -> None:
        if self.durable:
            self._unflushed.flush()

    def _keeps(self, path: str) -> bool:
        """Returns whether the file must survive a power failure."""
        if not self.durable or is_scratch(path) or is_lock(path):
            return False
        return not is_hidden_by_storage(path.rpartition("/")[2])

    def _wrote(self, path: str, full: str) -> None:
        if self._keeps(path):
            self._unflushed.wrote(full)
            self._unflushed.created(os.path.dirname(full))

    def _make_folder(self, full: str) -> None:
        """Creates a folder and its parents; it may exist."""
        if os.path.isdir(full):
            return
        parent = os.path.dirname(full)
        if parent != full:
            self._make_folder(parent)
        with contextlib.suppress(FileExistsError):  # if it is no folder, creating a file in it fails with a clear error
            os.mkdir(full)
            if self.durable and not is_scratch(full):
                self._unflushed.created(parent)

    def _create(self, full: str, data: bytes, durable: bool) -> bool:
        if not data:
            self._make_folder(os.path.dirname(full))
            return self._create_exclusively(full, data, durable)
        if os.path.lexists(full):
            return False
        temporary = self._write_temporary(full, data, durable)
        try:
            os.link(temporary, full)
        except FileExistsError:
            # The target may be this very file: NFS may create the link, lose the answer and try again
            return os.stat(temporary).st_nlink > 1
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._create_exclusively(full, data, durable)
        finally:
            _unlink(temporary)
        _drop_crc(full)
        return True

    def _write_temporary(self, full: str, data: bytes, durable: bool) -> str:
        folder = os.path.dirname(full)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        try:
            descriptor = os.open(temporary, _CREATE, 0o666)
        except FileNotFoundError:
            self._make_folder(folder)
            descriptor = os.open(temporary, _CREATE, 0o666)
        try:
            _write_all(descriptor, data, full, durable)
        except BaseException:
            _unlink(temporary)
            raise
        finally:
            os.close(descriptor)
        return temporary

    def _create_exclusively(self, full: str, data: bytes, durable: bool) -> bool:
        try:
            descriptor = os.open(full, _CREATE, 0o666)
        except FileExistsError:
            return False
        try:
            _write_all(descriptor, data, full, durable)
        except BaseException:  # part of a file would count as the whole
            _unlink(full)
            raise
        finally:
            os.close(descriptor)
        _drop_crc(full)
        return True


def _opened(root: str, durable: bool) -> LocalStorage:
    return LocalStorage(root, durable=durable)


def _write_all(descriptor: int, data: bytes, full: str, durable: bool) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
        if data and durable:
            flush_descriptor(descriptor)
    except OSError as error:
        error.filename = full  # the system names none when the disk is full
        raise


def _unlink(full: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(full)


def _drop_crc(full: str) -> None:
    with contextlib.suppress(*_NOT_A_FILE):
        os.unlink(crc_sibling(full))


def _remove_tree(full: str) -> None:
    while os.path.isdir(full):
        # Missing files mean that another process deletes the same tree: start over with what is left
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(full)


def check_folder(root: str, folder: str, purpose: str = "delete files") -> None:
    """Raises UnsupportedTableError if a folder, given by its absolute path, leads out of `root`.

    Args:
        purpose: what the caller means to do there; follows "Cannot" in the message.
    """
    inner = folder
    while len(inner) > len(root) and not os.path.islink(inner):
        inner = os.path.dirname(inner)
    if len(inner) <= len(root):
        return
    real, real_root = os.path.realpath(folder), os.path.realpath(root)
    if real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
        raise UnsupportedTableError(
            f"Cannot {purpose} in {folder}: symbolic links lead from there to {real}, outside of the table's folder "
            f"{real_root}; supported: folders of the table itself; put the folder in place of the link",
            path=folder[len(root) :].strip("/"),
        )


def check_folders(storage: Storage, folders: Iterable[str], purpose: str) -> None:
    """Checks folders as `check_folder` does, given by paths relative to a storage's root. Only local storages have
    links.

    Raises:
        ConfigError: a path is absolute, or has a part `.` or `..`.
        UnsupportedTableError: a folder leads out of the table.
    """
    chosen = sorted({clean_path(folder) for folder in folders})
    if storage.is_local and storage.uri.startswith(_LOCAL):
        root = storage.uri.removeprefix(_LOCAL)
        for folder in chosen:
            check_folder(root, f"{root.rstrip('/')}/{folder}", purpose)
