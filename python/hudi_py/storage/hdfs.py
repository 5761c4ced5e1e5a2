"""Tables in HDFS, through PyArrow's file system and Hadoop's own client (libhdfs).

`put` and `put_if_absent` never show part of a file: they write it under a temporary name and move it, and HDFS refuses
the move if the target exists. A closed file is on every data node of its pipeline, and the name node's journal has
every move and deletion: both survive this process. Whether data nodes flush to disk, so that a file survives a power
failure of all of them, is a setting of the cluster (`dfs.datanode.synconclose`).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from hudi_py.errors import ConfigError, StorageError, first_line
from hudi_py.storage.base import (
    TEMPORARY_PREFIX,
    TEMPORARY_SUFFIX,
    FileInfo,
    clean_path,
    exists,
    is_hidden_by_storage,
    missing,
)
from hudi_py.storage.libhdfs import FileStatus, NameNode, UnansweredError, failure
from hudi_py.storage.tree import walk_folders

HDFS_SCHEMES: Final = frozenset({"hdfs", "viewfs"})
_BUFFER_BYTES: Final = 1 << 20
"""Size of a write to libhdfs, which copies the bytes into Java's memory; smaller writes are buffered."""
_TRIES: Final = 5
_NUMBERS: Final = ("replication", "default_block_size", "buffer_size")
_OPTIONS: Final = ("user", "kerb_ticket", *_NUMBERS)


class NameNodeClient(Protocol):
    """The requests of a storage to the name node: see `libhdfs.NameNode`."""

    def look_up(self, path: str) -> FileStatus | None: ...
    def children(self, path: str) -> list[FileStatus]: ...
    def rename(self, source: str, target: str) -> bool: ...
    def replace(self, source: str, target: str) -> None: ...
    def delete(self, path: str, *, recursive: bool = False) -> bool: ...
    def make_folder(self, path: str) -> None: ...


class Connection(NamedTuple):
    """A connection to one HDFS as one user."""

    names: NameNodeClient
    files: pafs.FileSystem


class _Process:
    """Connections of this process. Each is opened once and never closed, since closing Java's file system would close
    it for all users."""

    connections: Final[dict[object, Connection]] = {}
    lock = threading.Lock()
    forked = False

    @classmethod
    def after_in_child(cls) -> None:
        cls.forked = bool(cls.connections)
        cls.lock = threading.Lock()


os.register_at_fork(after_in_child=_Process.after_in_child)


class _HdfsFile(io.RawIOBase):
    """A file in HDFS that is open for writing."""

    def __init__(self, sink: pa.NativeFile, shown: str) -> None:
        super().__init__()
        self._sink = sink
        self._shown = shown
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with _named(self._shown):
            self._sink.write(view)
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        if not self.closed:
            try:
                with _named(self._shown):
                    self._sink.close()
            finally:
                super().close()


class HdfsStorage:
    """A folder of HDFS: `hdfs://<name node or service>/<path>`, `hdfs:///<path>` for `fs.defaultFS`, `viewfs:` too.

    `storage_options`: `user`, `kerb_ticket` (path of a ticket cache), `replication`, `default_block_size` and
    `buffer_size` (bytes), and whatever has a dot in its name, for Hadoop's configuration. What is not given is in the
    files of HADOOP_CONF_DIR, which belongs to the class path. Each process connects when it first needs to.

    Raises:
        ConfigError: the URI names a user, or an option is unknown.
    """

    __slots__ = ("_options", "_root", "_uri")

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        scheme, _, rest = uri.partition(":")
        scheme = scheme.lower()
        authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest.lstrip("/"))
        if "@" in authority:
            shown = f"{scheme}://{urlsplit(uri).hostname or ''}/..."
            raise ConfigError(
                f"Cannot open {shown}: expected {scheme}://<name node>/<path>; name the user by the storage option user"
            )
        self._root = "/" + clean_path(path)
        self._uri = f"{scheme}://{authority}{self._root}".rstrip("/")
        self._options = dict(storage_options or {})
        unknown = [key for key in self._options if key not in _OPTIONS and "." not in key]
        if unknown:
            raise ConfigError(
                f"Cannot open {self._uri}: no storage option of HDFS is named {', '.join(sorted(unknown))}; there are "
                f"{', '.join(_OPTIONS)}, and those of Hadoop's configuration, whose names have dots"
            )

    def __repr__(self) -> str:
        return f"HdfsStorage({self._uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsStorage) and other._uri == self._uri

    def __hash__(self) -> int:
        return hash((HdfsStorage, self._uri))

    def __reduce__(self) -> tuple[type[HdfsStorage], tuple[str, dict[str, str]]]:
        return HdfsStorage, (self._uri, self._options)

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def options(self) -> Mapping[str, str]:
        """Returns the storage options that were given."""
        return self._options

    @property
    def is_local(self) -> bool:
        return False

    @property
    def can_rename(self) -> bool:
        return True

    @property
    def _names(self) -> NameNodeClient:
        return connection(self._uri, self._options).names

    @property
    def _files(self) -> pafs.FileSystem:
        return connection(self._uri, self._options).files

    def _full(self, path: str) -> str:
        path = clean_path(path)
        if path and max(path) > "\uffff":
            raise ConfigError(
                f"Cannot use the path {path!r} in {self._uri}: libhdfs takes no characters beyond U+FFFF; leave such "
                "partitions to Apache Hudi"
            )
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    def read(self, path: str) -> bytes:
        with self.open_input(path) as file:
            return file.read()  # type: ignore[no-any-return]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self.open_input(path) as file:
            length = min(length, file.size() - offset)
            return file.read_at(length, offset) if length > 0 else b""

    def open_input(self, path: str) -> pa.NativeFile:
        full = self._full(path)
        info = self._names.look_up(full)  # libhdfs prints a stack trace for a missing file
        if info is None or info.is_dir:
            raise missing(self.uri, path)
        try:
            with _named(f"{self.uri}/{path}"):
                return self._files.open_input_file(full)
        except FileNotFoundError:
            raise missing(self.uri, path) from None

    def open_output(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self._opened(self._full(path)))

    def put(self, path: str, data: bytes) -> None:
        full = self._full(path)
        is_there = self._names.look_up(full) is not None
        temporary = self._write_temporary(full, data)
        try:
            if is_there or not self._moved(temporary, full):
                self._names.replace(temporary, full)
        except BaseException:
            self._drop(temporary)
            raise

    def put_if_absent(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        if self._names.look_up(full) is not None:
            return False
        temporary = self._write_temporary(full, data)
        try:
            for _ in range(_TRIES):
                if self._moved(temporary, full):
                    return True
                if self._names.look_up(full) is not None:
                    break
                # The file in the way has gone meanwhile, as a lock does
            else:
                raise StorageError(f"HDFS refuses to move a file to {self.uri}/{path}, although no file exists there")
        except BaseException:
            self._drop(temporary)
            raise
        self._drop(temporary)
        return False

    def names(self, path: str = "") -> list[str]:
        return [info.name for info in self.list(path) if not info.is_dir]

    def list(self, path: str = "") -> list[FileInfo]:
        prefix = f"{clean_path(path)}/" if path else ""
        result: list[FileInfo] = []
        for entry in self._names.children(self._full(path)):
            name = entry.path.rpartition("/")[2]
            if not is_hidden_by_storage(name):
                result.append(FileInfo(prefix + name, entry.size, entry.modified_ms, entry.is_dir))
        return sorted(result)

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        return walk_folders(self, path)

    def stat(self, path: str) -> FileInfo | None:
        info = self._names.look_up(self._full(path))
        return None if info is None else FileInfo(clean_path(path), info.size, info.modified_ms, info.is_dir)

    def delete(self, path: str) -> bool:
        full = self._full(path)
        info = self._names.look_up(full)
        return info is not None and not info.is_dir and self._names.delete(full)

    def delete_tree(self, path: str) -> None:
        full = self._full(path)
        if self._names.look_up(full) is not None:
            self._names.delete(full, recursive=True)

    def rename(self, src: str, dst: str) -> None:
        source, target = self._full(src), self._full(dst)
        before = self._names.look_up(source)
        if before is None:
            raise missing(self.uri, src)
        if self._names.look_up(target) is not None:
            raise exists(self.uri, dst)
        self._names.make_folder(target.rpartition("/")[0] or "/")
        try:
            moved = self._names.rename(source, target)
        except UnansweredError:
            after = self._names.look_up(target)
            # A moved file keeps its modification time
            if self._names.look_up(source) is not None or after is None or after[1:] != before[1:]:
                raise
            moved = True
        if moved:
            return
        if self._names.look_up(source) is None:
            raise missing(self.uri, src)
        raise exists(self.uri, dst)

    def touch(self, path: str) -> None:
        self._opened(self._full(path)).close()

    def sync(self) -> None:
        """Does nothing: HDFS answers only after it has stored the data."""

    def _opened(self, full: str) -> io.BufferedWriter:
        shown = f"{self._uri}{full[len(self._root.rstrip('/')) :]}"
        with _named(shown):
            return io.BufferedWriter(_HdfsFile(self._files.open_output_stream(full), shown), _BUFFER_BYTES)

    def _write_temporary(self, full: str, data: bytes) -> str:
        temporary = f"{full.rpartition('/')[0]}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        try:
            with self._opened(temporary) as sink:
                sink.write(data)
        except BaseException:
            self._drop(temporary)
            raise
        return temporary

    def _moved(self, temporary: str, full: str) -> bool:
        """Moves a temporary file of this call to its target. Returns False if the target exists.

        If no answer came, the temporary file shows what happened. If it still exists it is deleted, so that the request
        cannot be carried out later; if not, only the move can have removed it.
        """
        try:
            return self._names.rename(temporary, full)
        except UnansweredError:
            if self._names.look_up(temporary) is None or not self._names.delete(temporary):
                return True
            if self._names.look_up(full) is None:
                raise
            return False

    def _drop(self, temporary: str) -> None:
        with contextlib.suppress(OSError, ConfigError):
            self._names.delete(temporary)


def connection(uri: str, options: Mapping[str, str]) -> Connection:
    """Returns this process's connection to the HDFS of a URI.

    Raises:
        ConfigError: Hadoop's client is not there or does not connect, or this process was forked from one that has used
            HDFS.
    """
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    name_node = f"{scheme}://{authority}" if authority else "default"
    key = (name_node, tuple(sorted(options.items())))
    value = _Process.connections.get(key)
    if value is not None and not _Process.forked:
        return value
    if _Process.forked:
        raise ConfigError(
            f"Cannot use {uri} in this process: it was forked from one that had used HDFS, whose Java machine does not "
            "survive that; start processes by 'spawn' or 'forkserver' (multiprocessing.get_context('spawn')), or fork "
            "before the first use"
        )
    with _Process.lock:
        if key not in _Process.connections:
            _Process.connections[key] = connect(name_node, options, uri)
        return _Process.connections[key]


def connect(name_node: str, options: Mapping[str, str], uri: str) -> Connection:
    """Opens a new connection.

    Args:
        uri: what is opened; part of messages.
    """
    _set_class_path(uri)
    # Otherwise Java would end the process on signals that Python handles, such as Ctrl-C
    given = os.environ.get("LIBHDFS_OPTS", "")
    if "-Xrs" not in given.split():
        os.environ["LIBHDFS_OPTS"] = f"{given} -Xrs".lstrip()
    try:
        numbers = {key: int(options[key]) for key in _NUMBERS if key in options}
    except ValueError:
        raise ConfigError(f"Cannot open {uri}: the storage options {', '.join(_NUMBERS)} take whole numbers") from None
    # A Java file system of its own: other users of libhdfs in this process may close the shared one
    settings = {f"fs.{scheme}.impl.disable.cache": "true" for scheme in sorted(HDFS_SCHEMES)}
    settings |= {key: value for key, value in options.items() if key not in _OPTIONS}
    user, ticket = options.get("user"), options.get("kerb_ticket")
    try:
        files = pafs.HadoopFileSystem(
            name_node, 0, user=user, kerb_ticket=ticket, extra_conf=settings, **{"replication": 0, **numbers}
        )
        return Connection(NameNode(name_node, user, ticket, settings), files)
    except (OSError, AttributeError, ImportError) as error:
        raise ConfigError(f"Cannot open {uri}: {first_line(error)}; {_NEEDS}") from None


_NEEDS: Final = (
    "HDFS needs a Hadoop 3 client: libhdfs in $HADOOP_HOME/lib/native or the folder ARROW_LIBHDFS_DIR, a Java of "
    "JAVA_HOME, and CLASSPATH set to what `hadoop classpath --glob` prints"
)


def _set_class_path(uri: str) -> None:
    """Sets CLASSPATH as libhdfs needs it: from Hadoop if it is not set, with every `*` expanded to jars.

    Refuses a class path without Hadoop's classes, because libhdfs would end the process.
    """
    given, home = os.environ.get("CLASSPATH", ""), os.environ.get("HADOOP_HOME")
    hadoop = shutil.which("hadoop", path=f"{home}/bin" if home else None)
    if not given and hadoop:
        done = subprocess.run([hadoop, "classpath", "--glob"], capture_output=True, text=True, check=False)
        given = done.stdout.strip() if done.returncode == 0 else ""
    entries = [
        item
        for entry in given.split(os.pathsep)
        for item in (sorted(glob.glob(f"{glob.escape(entry[:-1])}*.jar")) if entry.endswith("/*") else [entry])
    ]
    if not any("hadoop" in entry.lower() for entry in entries):
        is_given = "has nothing of Hadoop" if given else "is not set"
        raise ConfigError(f"Cannot open {uri}: CLASSPATH {is_given}; {_NEEDS}")
    os.environ["CLASSPATH"] = os.pathsep.join(entries)


@contextlib.contextmanager
def _named(shown: str) -> Iterator[None]:
    """Adds the file's name to errors of PyArrow."""
    try:
        yield
    except OSError as error:
        code = error.errno if error.errno in errno.errorcode else errno.EIO  # 255: a Java exception
        raise failure(code or errno.EIO, f"{first_line(error)}: '{shown}'") from None
