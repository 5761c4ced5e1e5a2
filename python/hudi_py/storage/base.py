"""The storage protocol, and the paths that it takes.

A path is relative to the storage's root, `/`-separated, without a leading slash; `""` is the root itself. A storage
never shows two kinds of files: `.<name>.crc` siblings, which Hadoop's local file system writes beside a file and trusts
over it, and the temporary files of an unfinished `put`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, runtime_checkable

from hudi_py.errors import ConfigError, ConflictError

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_py.storage.conditional import Version, VersionedObject

# Names of this form match none of Java's patterns of instants, base, log, marker and metadata files, nor ours
TEMPORARY_PREFIX = ".hudi_py-"
TEMPORARY_SUFFIX = ".tmp"
_COPIED_AT_ONCE = 8 << 20
_SCRATCH = re.compile(r"(^|/)\.hoodie/(\.hudi_py|\.heartbeat)/")
_LOCK = re.compile(r"(^|/)\.hoodie/lock($|\.broken\.)")


class FileInfo(NamedTuple):
    """A file or folder as a storage lists it."""

    path: str
    """Relative to the storage's root."""
    size: int
    """Bytes; 0 for a folder."""
    modified_ms: int
    """Milliseconds since the epoch; 0 for a folder where the storage has no folders."""
    is_dir: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Storage(Protocol):
    """Bytes at paths below one root. Safe to use from several threads; pickles without credentials."""

    @property
    def uri(self) -> str:
        """The absolute root, without credentials."""
        ...

    @property
    def is_local(self) -> bool:
        """Returns whether the root is a folder of this machine's file system."""
        ...

    @property
    def can_rename(self) -> bool:
        """Returns whether a file can be moved in one step. Otherwise a file appears whole, under the name that it was
        opened with, when it is closed."""
        ...

    def read(self, path: str) -> bytes:
        """Reads the whole file. Raises FileNotFoundError."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Reads `length` bytes from `offset`, fewer if the file ends earlier. Raises FileNotFoundError."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Opens a file for reading and seeking. Raises FileNotFoundError."""
        ...

    def open_output(self, path: str) -> BinaryIO:
        """Opens a stream that creates or truncates the file and creates its parents; the file is complete once
        closed."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Writes the file whole: a reader sees the old content or the new one, never a part."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Creates the file whole unless it exists. Returns whether this call created it."""
        ...

    def names(self, path: str = "") -> list[str]:
        """Lists the sorted names of files directly in a folder, for callers that need neither sizes nor times."""
        ...

    def list(self, path: str = "") -> list[FileInfo]:
        """Lists direct children sorted by path; empty if there is no such folder."""
        ...

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        """Yields every file below a folder, at any depth, in no particular order."""
        ...

    def stat(self, path: str) -> FileInfo | None:
        """Looks up a file; None if it does not exist. If the storage has folders (object stores do not), also a
        folder."""
        ...

    def delete(self, path: str) -> bool:
        """Deletes a file; returns False if there was none and the storage reports it (S3 does not)."""
        ...

    def delete_tree(self, path: str) -> None:
        """Deletes a folder and everything below it. It may be missing. On object stores, a file is not deleted."""
        ...

    def rename(self, src: str, dst: str) -> None:
        """Moves a file, never over another. Raises FileNotFoundError, FileExistsError."""
        ...

    def touch(self, path: str) -> None:
        """Creates an empty file, or sets the modification time of an existing empty one to now."""
        ...

    def sync(self) -> None:
        """Ensures that everything written, moved and deleted through this storage so far survives a power failure."""
        ...


@runtime_checkable
class ConditionalStorage(Storage, Protocol):
    """A storage that can replace a file only if its version is still the one that was read: an object store."""

    def read_version(self, path: str) -> VersionedObject | None:
        """Reads a file with its version; None if there is none."""
        ...

    def replace(self, path: str, data: bytes, version: Version | None, note: str = "") -> Version | None:
        """Writes a file whole if its version is still `version` (None: if there is none); no other write may ever have
        had the same `data`. Returns the new version; None if another writer came first."""
        ...


@runtime_checkable
class BulkStorage(Storage, Protocol):
    """A storage that can delete many files with one request."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Deletes files, in no particular order. They may be missing."""
        ...


@runtime_checkable
class DatedStorage(Storage, Protocol):
    """A storage that can set the modification time of a file."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Sets the modification time of a file, in milliseconds since the epoch. Raises FileNotFoundError."""
        ...


def clean_path(path: str) -> str:
    """Returns the path without empty parts.

    Raises:
        ConfigError: the path is absolute or has a part `.` or `..`, so might lead out of the table's folder.
    """
    if path == "":
        return path
    parts = [part for part in path.split("/") if part]
    if path.startswith("/") or ".." in parts or "." in parts or "\0" in path:
        raise ConfigError(
            f"Cannot use the path {path!r} in a table; expected a path relative to the table's folder, "
            "without '.' and '..' parts"
        )
    return "/".join(parts)


def copy_file(
    source: Storage, path: str, target: Storage, to: str, size: int, wrote: Callable[[int], object] | None = None
) -> None:
    """Copies the first `size` bytes of a file, in pieces, also to another storage.

    Args:
        wrote: called with the number of bytes of each piece.

    Raises:
        FileNotFoundError: the file does not exist.
        ConflictError: it is shorter.
    """
    copied = 0
    with target.open_output(to) as sink:
        while copied < size:
            piece = source.read_range(path, copied, min(_COPIED_AT_ONCE, size - copied))
            if not piece:
                break
            sink.write(piece)
            copied += len(piece)
            if wrote is not None:
                wrote(len(piece))
        if copied != size:
            raise ConflictError(
                f"Cannot copy {source.uri}/{path}: it has {copied} bytes, and was listed with {size}", path=path
            )


def is_hidden_by_storage(name: str) -> bool:
    """Returns whether a file of this name is never listed: a checksum sibling or an unfinished `put`."""
    if not name.startswith("."):
        return False
    return name.endswith(".crc") or (name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX))


def is_scratch(path: str) -> bool:
    """Returns whether a file is useless after a power failure and harmless half written: heartbeats, gates, staged
    rows, unpublished data files."""
    return _SCRATCH.search(path) is not None


def is_lock(path: str) -> bool:
    """Returns whether a file is the table's lock. It may be lost in a power failure, but half a lock would name no
    owner and could never be broken."""
    return _LOCK.search(path) is not None


def crc_sibling(path: str) -> str:
    """Returns the path of the checksum file that Hadoop's local file system keeps for a path."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def missing(uri: str, path: str) -> FileNotFoundError:
    """Returns the error for a file that does not exist."""
    return FileNotFoundError(errno.ENOENT, "No such file", f"{uri}/{path}")


def exists(uri: str, path: str) -> FileExistsError:
    """Returns the error for a target that exists already."""
    return FileExistsError(errno.EEXIST, "File exists", f"{uri}/{path}")
