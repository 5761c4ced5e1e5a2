"""Names of files in HDFS through libhdfs, Hadoop's C library: what PyArrow's file system does not do safely.

`pyarrow.fs.HadoopFileSystem.move` deletes a file that is in the way, and its `get_file_info` takes every error for a
file that is not there, even a name node that does not answer (`arrow/filesystem/hdfs.cc`, 26.0). So files are looked
up, listed, moved and deleted here, and PyArrow moves their bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_NOTHING_DONE: Final = errno.EIO
"""Code of `hdfsRename` and `hdfsDelete` where Hadoop's method returned false. Exceptions have other codes."""
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR)
_OTHER_EXCEPTION: Final = 255
"""Code of libhdfs for exceptions that the system has no code for (`EINTERNAL` of hdfs.h)."""

# Places in the function tables of the Java Native Interface (jni.h), which never change
_ATTACH: Final = 7
_FIND_CLASS, _EXCEPTION, _CLEAR, _PUSH_FRAME, _POP_FRAME, _NEW, _CLASS_OF, _METHOD = 6, 15, 17, 19, 20, 30, 31, 33
_CALL, _CALL_VOID, _STATIC_FIELD, _STATIC_VALUE, _TEXT, _CHARACTERS, _RELEASE, _ARRAY = (
    36, 63, 144, 145, 167, 169, 170, 172,
)  # fmt: skip
_PATH: Final = b"org/apache/hadoop/fs/Path"
_RENAME: Final = b"org/apache/hadoop/fs/Options$Rename"


class _FileInfo(ctypes.Structure):
    """`hdfsFileInfo` of hdfs.h."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("modified_s", ctypes.c_long),
        ("size", ctypes.c_int64),
        ("replication", ctypes.c_short),
        ("block_size", ctypes.c_int64),
        ("owner", ctypes.c_char_p),
        ("group", ctypes.c_char_p),
        ("permissions", ctypes.c_short),
        ("accessed_s", ctypes.c_long),
    )


class Entry(NamedTuple):
    """A file or folder as the name node lists it."""

    path: str
    """Absolute, without scheme and authority."""
    size: int
    modified_ms: int
    """Milliseconds since the epoch by the name node's clock; libhdfs gives whole seconds."""
    is_dir: bool


class UnansweredError(OSError):
    """The name node may have done what it was asked for, or not."""


class NameNode:
    """Files and folders of one HDFS by their absolute paths. Safe to use from several threads.

    PyArrow must have loaded libhdfs before. The connection lives as long as the process.

    Args:
        uri: `scheme://authority`, or `default` for `fs.defaultFS`.
        settings: Hadoop's configuration, before that of its files.

    Raises:
        OSError: there is no connection.
    """

    def __init__(self, uri: str, user: str | None, ticket_cache: str | None, settings: Mapping[str, str]) -> None:
        self._library = _load()
        # The builder keeps addresses: all these bytes must live until it connects, which frees it
        where, who, tickets = uri.encode(), user and user.encode(), ticket_cache and ticket_cache.encode()
        pairs = [(key.encode(), value.encode()) for key, value in settings.items()]
        builder = self._library.hdfsNewBuilder()
        self._library.hdfsBuilderSetNameNode(builder, where)
        if who:
            self._library.hdfsBuilderSetUserName(builder, who)
        if tickets:
            self._library.hdfsBuilderSetKerbTicketCachePath(builder, tickets)
        for key, value in pairs:
            self._library.hdfsBuilderConfSetStr(builder, key, value)
        self._files = self._library.hdfsBuilderConnect(builder)
        if not self._files:
            raise self._error("connect", uri)
        self._java = _Java(self._library)

    def look_up(self, path: str) -> Entry | None:
        """The file or folder; None when there is none. Raises OSError where the name node does not tell."""
        found = self._library.hdfsGetPathInfo(self._files, path.encode())
        if not found:
            if ctypes.get_errno() in _NOT_THERE:
                return None
            raise self._error("look for", path)
        try:
            return _entry(found[0])
        finally:
            self._library.hdfsFreeFileInfo(found, 1)

    def children(self, path: str) -> list[Entry]:
        """What is directly in a folder; empty when there is no such folder."""
        number = ctypes.c_int(0)
        ctypes.set_errno(0)
        found = self._library.hdfsListDirectory(self._files, path.encode(), ctypes.byref(number))
        if not found:
            if ctypes.get_errno() in (0, *_NOT_THERE):
                return []
            raise self._error("list", path)
        try:
            entries = [_entry(found[at]) for at in range(number.value)]
        finally:
            self._library.hdfsFreeFileInfo(found, number.value)
        return [entry for entry in entries if entry.path != path]  # a file is listed as itself

    def rename(self, source: str, target: str) -> bool:
        """Moves a file or folder, into `target` where that is a folder. False where a file is in the way, the source is
        missing or the target has no parent. Raises UnansweredError, OSError."""
        return self._did(self._library.hdfsRename(self._files, source.encode(), target.encode()), "move", source)

    def replace(self, source: str, target: str) -> None:
        """Moves a file over another in one step. Raises OSError."""
        self._java.rename_over(self._files, source, target)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Deletes a file or folder; False when there was none. Raises UnansweredError, OSError."""
        return self._did(self._library.hdfsDelete(self._files, path.encode(), int(recursive)), "delete", path)

    def make_folder(self, path: str) -> None:
        """Makes a folder and those above it; one that is there is fine."""
        if self._library.hdfsCreateDirectory(self._files, path.encode()) != 0:
            raise self._error("make the folder", path)

    def _did(self, answer: int, what: str, path: str) -> bool:
        if answer == 0:
            return True
        if ctypes.get_errno() == _NOTHING_DONE:
            return False
        unknown = ctypes.get_errno() == _OTHER_EXCEPTION
        error = self._error(what, path)
        raise UnansweredError(*error.args) if unknown else error

    def _error(self, what: str, path: str) -> OSError:
        code = ctypes.get_errno()
        code = code if code in errno.errorcode and code != _OTHER_EXCEPTION else errno.EIO
        cause = self._library.hdfsGetLastExceptionRootCause()
        text = cause.decode(errors="replace").partition("\n")[0] if cause else os.strerror(code)
        return OSError(code, f"HDFS cannot {what} it: {text}", path)


class _Java:
    """The method of Hadoop's `FileSystem` that libhdfs has no function for, called through JNI."""

    def __init__(self, library: Any) -> None:
        machine, number = ctypes.c_void_p(), ctypes.c_int()
        library.JNI_GetCreatedJavaVMs(ctypes.byref(machine), 1, ctypes.byref(number))
        self._machine = machine

    def rename_over(self, files: int, source: str, target: str) -> None:
        """`rename(source, target, Options.Rename.OVERWRITE)`. This thread must have called libhdfs before, which
        detaches it from Java when it ends."""
        with self._frame(target) as call:
            path, options = call(_FIND_CLASS, _PATH), call(_FIND_CLASS, _RENAME)
            new_path = call(_METHOD, path, b"<init>", b"(Ljava/lang/String;)V")
            names = [call(_NEW, path, new_path, _values(call(_TEXT, each.encode()))) for each in (source, target)]
            overwrite = call(_STATIC_VALUE, options, call(_STATIC_FIELD, options, b"OVERWRITE", b"L" + _RENAME + b";"))
            signature = b"(L" + _PATH + b";L" + _PATH + b";[L" + _RENAME + b";)V"
            method = call(_METHOD, call(_CLASS_OF, files), b"rename", signature)
            call(_CALL_VOID, files, method, _values(*names, call(_ARRAY, 1, options, overwrite)))

    @contextlib.contextmanager
    def _frame(self, shown: str) -> Iterator[Any]:
        """Calls of JNI in this thread, of which an exception becomes an OSError."""
        environment = ctypes.c_void_p()
        _call(self._machine, _ATTACH, ctypes.byref(environment), None)

        def call(place: int, *arguments: Any) -> Any:
            result = _call(environment, place, *arguments)
            thrown = _call(environment, _EXCEPTION)
            if thrown:
                _call(environment, _CLEAR)
                raise OSError(errno.EIO, f"HDFS cannot replace it: {_described(environment, thrown)}", shown)
            return result

        _call(environment, _PUSH_FRAME, 16)
        try:
            yield call
        finally:
            _call(environment, _POP_FRAME, None)


def _call(table: ctypes.c_void_p, place: int, *arguments: Any) -> Any:
    """A function of a table of JNI, whose first argument is the table's owner. All others are as wide as a pointer."""
    functions = ctypes.cast(table, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * (len(arguments) + 1))
    address = functions[0][place]
    assert address is not None
    return kind(address)(table, *arguments)


def _values(*values: int) -> Any:
    return (ctypes.c_void_p * len(values))(*values)


def _described(environment: ctypes.c_void_p, thrown: int) -> str:
    to_string = _call(environment, _METHOD, _call(environment, _CLASS_OF, thrown), b"toString", b"()Ljava/lang/String;")
    text = _call(environment, _CALL, thrown, to_string, None)
    characters = _call(environment, _CHARACTERS, text, None)
    described = ctypes.string_at(characters).decode(errors="replace")
    _call(environment, _RELEASE, text, characters)
    return described.partition("\n")[0]


def _entry(info: _FileInfo) -> Entry:
    # A URI, but with nothing escaped
    path = info.name.decode(errors="surrogateescape")
    _, has_authority, rest = path.partition("://")
    if has_authority:
        path = "/" + rest.partition("/")[2]
    is_dir = info.kind == ord("D")
    return Entry(path, 0 if is_dir else info.size, info.modified_s * 1000, is_dir)


def _load() -> Any:
    """libhdfs where PyArrow looks for it, which has loaded it and the Java machine already."""
    name = "libhdfs.dylib" if sys.platform == "darwin" else "libhdfs.so"
    home, named = os.environ.get("HADOOP_HOME"), os.environ.get("ARROW_LIBHDFS_DIR")
    places = [
        name,
        f"./{name}",
        *([f"{home}/lib/native/{name}"] if home else []),
        *([f"{named}/{name}"] if named else []),
    ]
    for place in places:
        with contextlib.suppress(OSError):
            return _declared(ctypes.CDLL(place, use_errno=True))
    raise OSError(errno.ENOENT, "libhdfs is not at any of the places where PyArrow looks for it", ", ".join(places))


def _declared(library: Any) -> Any:
    text, pointer, infos = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(_FileInfo)
    for name, result, arguments in (
        ("hdfsNewBuilder", pointer, []),
        ("hdfsBuilderSetNameNode", None, [pointer, text]),
        ("hdfsBuilderSetUserName", None, [pointer, text]),
        ("hdfsBuilderSetKerbTicketCachePath", None, [pointer, text]),
        ("hdfsBuilderConfSetStr", ctypes.c_int, [pointer, text, text]),
        ("hdfsBuilderConnect", pointer, [pointer]),
        ("hdfsGetPathInfo", infos, [pointer, text]),
        ("hdfsListDirectory", infos, [pointer, text, pointer]),
        ("hdfsFreeFileInfo", None, [infos, ctypes.c_int]),
        ("hdfsRename", ctypes.c_int, [pointer, text, text]),
        ("hdfsDelete", ctypes.c_int, [pointer, text, ctypes.c_int]),
        ("hdfsCreateDirectory", ctypes.c_int, [pointer, text]),
        ("hdfsGetLastExceptionRootCause", text, []),
        ("JNI_GetCreatedJavaVMs", ctypes.c_int, [pointer, ctypes.c_int, pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
