"""File names in HDFS through Hadoop's Java client, for what PyArrow's file system does not do safely.

`pyarrow.fs.HadoopFileSystem.move` deletes an existing target, and its `get_file_info` treats every error as a missing
file, even a name node that does not answer (`arrow/filesystem/hdfs.cc`, 26.0); times are in seconds. So this module
looks up, lists, moves and deletes files by methods of `org.apache.hadoop.fs.FileSystem`, and PyArrow transfers their
bytes. libhdfs, which PyArrow has loaded, makes the connection: its handle is the Java object.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hudi_py.errors import StorageDeniedError, StorageError

# Positions in the function tables of the Java Native Interface (jni.h), which never change
_ATTACH: Final = 7
_FIND_CLASS, _EXCEPTION, _CLEAR, _PUSH_FRAME, _POP_FRAME, _GLOBAL, _DROP, _NEW = 6, 15, 17, 19, 20, 21, 23, 30
_CLASS_OF, _METHOD, _OBJECT, _BOOLEAN, _LONG, _VOID, _FIELD, _VALUE = 31, 33, 36, 39, 54, 63, 144, 145
_TEXT, _LENGTH, _CHARACTERS, _RELEASE, _COUNT, _ARRAY, _ELEMENT = 163, 164, 165, 166, 171, 172, 173

_FS: Final = "org/apache/hadoop/fs/"
_PATH, _STATUS, _RENAME = f"L{_FS}Path;", f"L{_FS}FileStatus;", f"L{_FS}Options$Rename;"
_METHODS: Final = {
    "new_path": ("Path", "<init>", "(Ljava/lang/String;)V"),
    "text": ("Path", "toString", "()Ljava/lang/String;"),
    "path": ("FileStatus", "getPath", f"(){_PATH}"),
    "size": ("FileStatus", "getLen", "()J"),
    "modified": ("FileStatus", "getModificationTime", "()J"),
    "is_dir": ("FileStatus", "isDirectory", "()Z"),
    "status": ("FileSystem", "getFileStatus", f"({_PATH}){_STATUS}"),
    "list": ("FileSystem", "listStatus", f"({_PATH})[{_STATUS}"),
    "rename": ("FileSystem", "rename", f"({_PATH}{_PATH})Z"),
    "replace": ("FileSystem", "rename", f"({_PATH}{_PATH}[{_RENAME})V"),
    "delete": ("FileSystem", "delete", f"({_PATH}Z)Z"),
    "make_folder": ("FileSystem", "mkdirs", f"({_PATH})Z"),
}
_REFUSALS: Final = {
    "FileNotFoundException": errno.ENOENT,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "AccessControlException": errno.EACCES,
    "SafeModeException": errno.EROFS,
    "QuotaExceededException": errno.EDQUOT,
}
"""Exceptions by which the name node refuses a request, and the corresponding error numbers."""


class FileStatus(NamedTuple):
    """A file or folder as the name node lists it."""

    path: str
    """Absolute path, without scheme and authority."""
    size: int
    modified_ms: int
    """Milliseconds since the epoch, by the name node's clock."""
    is_dir: bool


class UnansweredError(StorageError):
    """It is unknown whether the name node carried out a request."""


class NameNode:
    """Files and folders of one HDFS by their absolute paths. Safe to use from several threads.

    PyArrow must have loaded libhdfs before. The connection lives as long as the process. All methods raise OSError:
    FileNotFoundError and the like, StorageDeniedError or another StorageError where the name node refuses,
    UnansweredError where it is not known what it did.

    Args:
        uri: `scheme://authority`, or `default` for `fs.defaultFS`.
        settings: Hadoop's configuration, before that of its files.

    Raises:
        OSError: there is no connection.
    """

    def __init__(self, uri: str, user: str | None, ticket_cache: str | None, settings: Mapping[str, str]) -> None:
        library = _load()
        self._uri = "" if uri == "default" else uri
        # The builder keeps addresses: all these bytes must live until it connects, which frees it
        where, who, tickets = uri.encode(), user and user.encode(), ticket_cache and ticket_cache.encode()
        pairs = [(key.encode(), value.encode()) for key, value in settings.items()]
        builder = library.hdfsNewBuilder()
        library.hdfsBuilderSetNameNode(builder, where)
        if who:
            library.hdfsBuilderSetUserName(builder, who)
        if tickets:
            library.hdfsBuilderSetKerbTicketCachePath(builder, tickets)
        for key, value in pairs:
            library.hdfsBuilderConfSetStr(builder, key, value)
        self._files = library.hdfsBuilderConnect(builder)
        if not self._files:
            raise OSError(errno.EIO, f"Hadoop's client does not connect to {uri}; see its output for the reason")
        self._library = library
        self._threads = threading.local()
        self._machine = ctypes.c_void_p()
        library.JNI_GetCreatedJavaVMs(ctypes.byref(self._machine), 1, ctypes.byref(ctypes.c_int()))
        with self._calls("connect to", "") as call:
            classes = {
                name: call(_GLOBAL, call(_FIND_CLASS, f"{_FS}{name}".encode()))
                for name in ("Path", "FileStatus", "FileSystem", "Options$Rename")
            }
            self._path, self._options = classes["Path"], classes["Options$Rename"]
            self._overwrite = call(_FIELD, self._options, b"OVERWRITE", _RENAME.encode())
            self._methods = {
                name: call(_METHOD, classes[owner], method.encode(), signature.encode())
                for name, (owner, method, signature) in _METHODS.items()
            }

    def look_up(self, path: str) -> FileStatus | None:
        """Looks up a file or folder; None if there is none."""
        try:
            with self._calls("look for", path) as call:
                return self._entry(call, self._ask(call, _OBJECT, "status", path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def children(self, path: str) -> list[FileStatus]:
        """Lists the direct children of a folder; empty if there is no such folder."""
        result = []
        try:
            with self._calls("list", path) as call:
                listed = self._ask(call, _OBJECT, "list", path)
                for index in range(_number(call(_COUNT, listed))):
                    status = call(_ELEMENT, listed, index)
                    result.append(self._entry(call, status))
                    call(_DROP, status)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [entry for entry in result if entry.path != path]  # a file is listed as itself

    def rename(self, source: str, target: str) -> bool:
        """Moves a file or folder, into `target` if that is a folder. Returns False if the target exists, the source
        is missing or the target has no parent."""
        with self._calls("move", source) as call:
            return _truth(self._ask(call, _BOOLEAN, "rename", source, self._named(call, target)))

    def replace(self, source: str, target: str) -> None:
        """Moves a file over another (`Options.Rename.OVERWRITE`), in one step except through `viewfs`, which deletes
        first."""
        with self._calls("replace", target) as call:
            options = call(_ARRAY, 1, self._options, call(_VALUE, self._options, self._overwrite))
            self._ask(call, _VOID, "replace", source, self._named(call, target), options)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Deletes a file or folder; returns False if there was none."""
        with self._calls("delete", path) as call:
            return _truth(self._ask(call, _BOOLEAN, "delete", path, int(recursive)))

    def make_folder(self, path: str) -> None:
        """Creates a folder and its parents; it may exist."""
        with self._calls("make the folder", path) as call:
            self._ask(call, _BOOLEAN, "make_folder", path)

    def _ask(self, call: Callable[..., Any], kind: int, method: str, path: str, *more: int) -> Any:
        return call(kind, self._files, self._methods[method], _values(self._named(call, path), *more))

    def _named(self, call: Callable[..., Any], path: str) -> int:
        units = path.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be")
        named: int = call(_NEW, self._path, self._methods["new_path"], _values(call(_TEXT, units, len(units) // 2)))
        return named

    def _entry(self, call: Callable[..., Any], status: int) -> FileStatus:
        named = call(_OBJECT, status, self._methods["path"], None)
        shown = call(_OBJECT, named, self._methods["text"], None)
        path = _text(call, shown)
        # A URI with nothing escaped
        _, has_authority, rest = path.partition("://")
        if has_authority:
            path = "/" + rest.partition("/")[2]
        size, modified = (call(_LONG, status, self._methods[name], None) or 0 for name in ("size", "modified"))
        is_dir = _truth(call(_BOOLEAN, status, self._methods["is_dir"], None))
        call(_DROP, shown)
        call(_DROP, named)
        return FileStatus(path, 0 if is_dir else size, modified, is_dir)

    @contextlib.contextmanager
    def _calls(self, what: str, path: str) -> Iterator[Callable[..., Any]]:
        """Gives access to JNI in this thread; a Java exception becomes an OSError."""
        if not hasattr(self._threads, "attached"):
            # A call of libhdfs detaches the thread from Java when it ends; a thread attached otherwise would stay
            # attached
            self._library.hdfsGetWorkingDirectory(self._files, ctypes.create_string_buffer(4096), 4096)
            self._threads.attached = True
        table = ctypes.c_void_p()
        _call(self._machine, _ATTACH, ctypes.byref(table), None)

        def call(place: int, *arguments: Any) -> Any:
            result = _call(table, place, *arguments)
            thrown = _call(table, _EXCEPTION) if place not in (_DROP, _LENGTH, _CHARACTERS, _RELEASE) else None
            if thrown:
                _call(table, _CLEAR)
                raise _error(_described(lambda *given: _call(table, *given), thrown), what, self._uri + path)
            return result

        _call(table, _PUSH_FRAME, 32)
        try:
            yield call
        finally:
            _call(table, _POP_FRAME, None)


def _error(text: str, what: str, shown: str) -> OSError:
    kind = text.partition(": ")[0]
    code = next((code for name, code in _REFUSALS.items() if name in kind), None)
    message = f"HDFS cannot {what} {shown}: {text}"
    return UnansweredError(message) if code is None else failure(code, message)


def failure(code: int, message: str) -> OSError:
    """Returns the error of a failed request: an OS error that names the cause, or a StorageError."""
    if code in (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        return OSError(code, message)
    error = (StorageDeniedError if code in (errno.EACCES, errno.EPERM) else StorageError)(message)
    error.errno = code
    return error


def _call(table: ctypes.c_void_p, place: int, *arguments: Any) -> Any:
    """Returns a function from a JNI table. Its first argument is the table's owner; all others are as wide as a
    pointer."""
    functions = ctypes.cast(table, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * (len(arguments) + 1))
    address = functions[0][place]
    assert address is not None
    return kind(address)(table, *arguments)


def _values(*values: int) -> Any:
    return (ctypes.c_void_p * len(values))(*values)


def _truth(value: int | None) -> bool:
    """Converts a `jboolean`: the upper bits of the register may be anything."""
    return bool((value or 0) & 0xFF)


def _number(value: int | None) -> int:
    """Converts a `jsize`, likewise."""
    return (value or 0) & 0xFFFFFFFF


def _text(call: Callable[..., Any], text: int) -> str:
    characters = call(_CHARACTERS, text, None)
    units = ctypes.string_at(characters, 2 * _number(call(_LENGTH, text)))
    call(_RELEASE, text, characters)
    return units.decode("utf-16-le" if sys.byteorder == "little" else "utf-16-be", errors="replace")


def _described(call: Callable[..., Any], thrown: int) -> str:
    to_string = call(_METHOD, call(_CLASS_OF, thrown), b"toString", b"()Ljava/lang/String;")
    return _text(call, call(_OBJECT, thrown, to_string, None)).partition("\n")[0]


def _load() -> Any:
    """Loads libhdfs from where PyArrow finds it; PyArrow has already loaded it and the Java machine."""
    name = "libhdfs.dylib" if sys.platform == "darwin" else "libhdfs.so"
    home, named = os.environ.get("HADOOP_HOME"), os.environ.get("ARROW_LIBHDFS_DIR")
    places = [name, f"./{name}"]
    places += [f"{home}/lib/native/{name}"] if home else []
    places += [f"{named}/{name}"] if named else []
    for place in places:
        with contextlib.suppress(OSError):
            return _declared(ctypes.CDLL(place))
    raise OSError(errno.ENOENT, "libhdfs is not at any of the places where PyArrow looks for it", ", ".join(places))


def _declared(library: Any) -> Any:
    text, pointer = ctypes.c_char_p, ctypes.c_void_p
    for name, result, arguments in (
        ("hdfsNewBuilder", pointer, []),
        ("hdfsBuilderSetNameNode", None, [pointer, text]),
        ("hdfsBuilderSetUserName", None, [pointer, text]),
        ("hdfsBuilderSetKerbTicketCachePath", None, [pointer, text]),
        ("hdfsBuilderConfSetStr", ctypes.c_int, [pointer, text, text]),
        ("hdfsBuilderConnect", pointer, [pointer]),
        ("hdfsGetWorkingDirectory", pointer, [pointer, text, ctypes.c_size_t]),
        ("JNI_GetCreatedJavaVMs", ctypes.c_int, [pointer, ctypes.c_int, pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
