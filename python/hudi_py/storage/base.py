"""What every storage can do, and the paths it takes.

A path is relative to the storage's root, `/`-separated, without a leading slash; `""` is the root itself.
Two kinds of files are never seen through a storage: `.<name>.crc` siblings, which Hadoop's local file system writes
beside a file and trusts over it, and the temporary files of a `put` that has not finished.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, runtime_checkable

from hudi_py.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from hudi_py.storage.conditional import Version, VersionedObject

# Neither Java's patterns of instants, base, log, marker and metadata files match a name of this form, nor do ours
TEMPORARY_PREFIX = ".hudi_py-"
TEMPORARY_SUFFIX = ".tmp"
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
        """Whether the root is a folder of this machine's file system."""
        ...

    @property
    def can_rename(self) -> bool:
        """Whether a file can be moved in one step. Where it cannot, a file appears whole under the name that it was
        opened with, when it is closed."""
        ...

    def read(self, path: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer where the file ends before. Raises FileNotFoundError."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, open for reading and seeking. Raises FileNotFoundError."""
        ...

    def open_output(self, path: str) -> BinaryIO:
        """A stream that creates or truncates the file; parents are made; complete once closed."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Writes the file whole: a reader sees the old content or the new one, never a part."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Creates the file whole unless it exists. True when this call created it."""
        ...

    def names(self, path: str = "") -> list[str]:
        """Sorted names of the files directly in a folder: `list` for callers that need neither sizes nor times."""
        ...

    def list(self, path: str = "") -> list[FileInfo]:
        """Direct children sorted by path; empty when there is no such folder."""
        ...

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        """Every file below a folder, at any depth, in no particular order."""
        ...

    def stat(self, path: str) -> FileInfo | None:
        """The file, None when absent. Where the storage has folders, a folder too: an object store has none."""
        ...

    def delete(self, path: str) -> bool:
        """Deletes a file; False if there was none, where the storage reports it (S3 does not)."""
        ...

    def delete_tree(self, path: str) -> None:
        """Deletes a folder and what is below it; a missing one is fine, a file is not deleted on object stores."""
        ...

    def rename(self, src: str, dst: str) -> None:
        """Moves a file, never over another. Raises FileNotFoundError, FileExistsError."""
        ...

    def touch(self, path: str) -> None:
        """Creates an empty file, or makes now the modification time of an existing empty one."""
        ...

    def sync(self) -> None:
        """Everything written, moved and deleted through this storage so far outlasts a power failure."""
        ...


@runtime_checkable
class ConditionalStorage(Storage, Protocol):
    """A storage that replaces a file only if it is still the version that was read: an object store."""

    def read_version(self, path: str) -> VersionedObject | None:
        """A file with its version; None when there is none."""
        ...

    def replace(self, path: str, data: bytes, version: Version | None, note: str = "") -> Version | None:
        """Writes a file whole if it is still that of `version` (None: if there is none); `data` must be content that no
        other write has ever had. Returns the new version; None when another writer came first."""
        ...


@runtime_checkable
class BulkStorage(Storage, Protocol):
    """A storage that deletes many files with one request."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Deletes files, in no particular order; missing ones are fine."""
        ...


@runtime_checkable
class DatedStorage(Storage, Protocol):
    """A storage on which a file can get a modification time."""

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Gives a file a modification time, in milliseconds since the epoch. Raises FileNotFoundError."""
        ...


def clean_path(path: str) -> str:
    """The path without empty parts.

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


def walk_folders(storage: Storage, path: str) -> Iterator[FileInfo]:
    """`Storage.walk` where a storage lists one folder at a time."""
    folders = [clean_path(path)]
    while folders:
        for info in storage.list(folders.pop()):
            if info.is_dir:
                folders.append(info.path)
            else:
                yield info


def is_hidden_by_storage(name: str) -> bool:
    """Whether a file of this name is never listed: a checksum sibling or an unfinished `put`."""
    if not name.startswith("."):
        return False
    return name.endswith(".crc") or (name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX))


def is_scratch(path: str) -> bool:
    """Whether a file is of no use after a power failure, and does no harm half written: heartbeats, gates, staged
    rows, data files not yet published."""
    return _SCRATCH.search(path) is not None


def is_lock(path: str) -> bool:
    """Whether a file is the table's lock, which may get lost in a power failure; but half of it would name no owner,
    and so never be broken."""
    return _LOCK.search(path) is not None


def crc_sibling(path: str) -> str:
    """Path of the checksum file which Hadoop's local file system keeps for a path."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def missing(uri: str, path: str) -> FileNotFoundError:
    """The error for a file that is not there."""
    return FileNotFoundError(errno.ENOENT, "No such file", f"{uri}/{path}")


def exists(uri: str, path: str) -> FileExistsError:
    """The error for a target that is there already."""
    return FileExistsError(errno.EEXIST, "File exists", f"{uri}/{path}")
