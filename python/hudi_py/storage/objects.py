"""Tables on S3, Google Cloud Storage and Azure, through obstore (extras `s3`, `gcs`, `azure`).

Object stores have no rename and no folders: a file is complete or absent, and appears when its upload ends.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import itertools
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from hudi_py.errors import ConfigError, UnsupportedTableError, first_line
from hudi_py.storage.base import FileInfo, clean_path, is_hidden_by_storage, missing

SCHEMES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "azure"})
_READ_AHEAD = 1 << 20
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Options which obstore takes apart from those of a kind of store, and panics over among them."""
_KIND = re.compile("^(aws|azure|google)_")
_WRITER = "hudipywriter"
"""Key of an object's metadata that holds a random id of the call that created it. Azure takes no hyphens in keys."""
_TRIES = 5
_PAUSE_S = 0.1


class _Fork:
    """obstore's threads do not survive a fork: where one has sent a request, a child would wait for its answers for
    ever."""

    requested = False
    forked = False

    @classmethod
    def after_in_child(cls) -> None:
        cls.forked = cls.requested


os.register_at_fork(after_in_child=_Fork.after_in_child)


class _Download(io.RawIOBase):
    """Range reads as a seekable stream."""

    def __init__(self, storage: ObjectStorage, path: str, size: int) -> None:
        self._storage = storage
        self._path = path
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._storage.read_range(self._path, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class _Upload(io.BytesIO):
    """Uploads when closed; an error inside its `with` block uploads nothing."""

    def __init__(self, storage: ObjectStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._failed = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failed = kind is not None
        self.close()

    def close(self) -> None:
        if not self.closed and not self._failed:
            self._storage.put(self._path, self.getvalue())
        super().close()


class ObjectStorage:
    """A prefix of a bucket or container.

    `storage_options` are obstore's (`aws_access_key_id`, `region`, `endpoint`, `account_name`, `sas_token`,
    `allow_http`, `timeout`...); what is missing comes from the environment. They are kept out of `uri`, messages and
    pickles: an unpickled storage has the environment alone, so pass options again where they are needed.

    Raises:
        ConfigError: obstore is not installed, the URI holds a password or query, or an option is unknown.
    """

    __slots__ = ("_exceptions", "_in_memory", "_obstore", "_options", "_store", "_takes_metadata", "_uri")

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None, *, store: Any = None) -> None:
        parts = urlsplit(uri.replace("?", "%3F").replace("#", "%23"))
        if parts.password is not None or "?" in uri:
            shown = f"{parts.scheme}://{parts.hostname or ''}"
            raise ConfigError(
                f"Cannot open {shown}: the URI holds a password or a query; expected <scheme>://<bucket>/<path>, "
                "pass credentials as storage_options"
            )
        self._uri = uri.rstrip("/")
        try:
            # Any-typed: obstore is optional, and none of its types leave this module
            self._obstore: Any = importlib.import_module("obstore")
            self._exceptions: Any = importlib.import_module("obstore.exceptions")
            stores: Any = importlib.import_module("obstore.store")
        except ImportError:
            raise ConfigError(
                f"Cannot open {self._uri}: {parts.scheme}:// is read through the package obstore, which is missing; "
                "install it with `pip install 'hudi-py[s3]'` (or gcs, azure)"
            ) from None
        if store is None:
            # Hudi's paths are not percent-decoded, URLs are
            config, client = _split(storage_options or {})
            url = f"{parts.scheme}://{parts.netloc}{quote(uri.partition(parts.netloc)[2].rstrip('/'))}"
            try:
                store = stores.from_url(url, config=config, client_options=client or None)
            except (self._exceptions.BaseError, ValueError, TypeError):
                keys = ", ".join(sorted(storage_options or {})) or "none"
                # Chained messages might show option values
                raise ConfigError(
                    f"Cannot open {self._uri}: obstore refused the URI or one of the storage options (given: {keys}); "
                    "see obstore's documentation for the keys of this kind of store"
                ) from None
        self._store = store
        self._in_memory = isinstance(store, stores.MemoryStore)
        self._takes_metadata = True
        self._options = dict(storage_options or {})

    def __repr__(self) -> str:
        return f"ObjectStorage({self._uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStorage) and other._uri == self._uri

    def __hash__(self) -> int:
        return hash((ObjectStorage, self._uri))

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str]]:
        return ObjectStorage, (self._uri,)

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def options(self) -> Mapping[str, str]:
        """What was given as storage options, for opening another place in the same way; not to be shown."""
        return self._options

    @property
    def is_local(self) -> bool:
        return False

    @property
    def can_rename(self) -> bool:
        return False

    def read(self, path: str) -> bytes:
        path = clean_path(path)
        with self._asked(path):
            return bytes(self._obstore.get(self._store, path).bytes())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        path = clean_path(path)
        if length > 0:
            try:
                with self._asked(path):
                    return bytes(self._obstore.get_range(self._store, path, start=offset, length=length))
            except FileNotFoundError:
                raise
            except OSError:
                info = self._head(path)
                if info is not None and offset < info.size:
                    raise
        if self._head(path) is None:
            raise missing(self.uri, path)
        return b""

    def open_input(self, path: str) -> pa.NativeFile:
        path = clean_path(path)
        info = self._head(path)
        if info is None:
            raise missing(self.uri, path)
        return pa.PythonFile(io.BufferedReader(_Download(self, path, info.size), _READ_AHEAD), mode="r")

    def open_output(self, path: str) -> io.BytesIO:
        return _Upload(self, clean_path(path))

    def put(self, path: str, data: bytes) -> None:
        path = clean_path(path)
        with self._asked(path):
            self._obstore.put(self._store, path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        path = clean_path(path)
        writer = uuid.uuid4().hex
        with self._asked(path):
            for attempt in itertools.count(1):
                try:
                    self._create(path, data, writer)
                    break
                except self._exceptions.BaseError as error:
                    # A store answers "exists" to a request repeated because its first answer was lost, and to one that
                    # met another request; any other error may come after the file was created. So what is there decides
                    found = None if self._is_refusal(error) else self._created_by(path, data, writer, error)
                    if found is not None:
                        return found
                    if attempt == _TRIES or self._is_refusal(error):
                        raise
                time.sleep(_PAUSE_S * 2**attempt)
        return True

    def list(self, path: str = "") -> list[FileInfo]:
        path = clean_path(path)
        with self._asked(path):
            found = self._obstore.list_with_delimiter(self._store, path or None)
        result = [_info(entry) for entry in found["objects"]]
        result += [FileInfo(str(folder), 0, 0, True) for folder in found["common_prefixes"]]
        return sorted((info for info in result if not is_hidden_by_storage(info.name)), key=lambda info: info.path)

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        for page in self._pages(clean_path(path)):
            for entry in page:
                info = _info(entry)
                if not is_hidden_by_storage(info.name):
                    yield info

    def stat(self, path: str) -> FileInfo | None:
        path = clean_path(path)
        info = self._head(path) if path else None
        if info is None and self.list(path):
            return FileInfo(path, 0, 0, True)
        return info

    def delete(self, path: str) -> bool:
        path = clean_path(path)
        if self._head(path) is None:
            return False
        try:
            with self._asked(path):
                self._obstore.delete(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def delete_tree(self, path: str) -> None:
        path = clean_path(path)
        for page in self._pages(path):
            with self._asked(path):
                self._obstore.delete(self._store, [entry["path"] for entry in page])
        self.delete(path)

    def rename(self, src: str, dst: str) -> None:
        """Always raises UnsupportedTableError: object stores cannot move a file in one step."""
        raise UnsupportedTableError(
            f"Cannot rename {src!r} in {self.uri}: object stores have no atomic rename, and writing to object stores "
            "is not supported in this release; write to a local path, object stores can be read"
        )

    def touch(self, path: str) -> None:
        if not self.put_if_absent(path, b""):
            self.put(path, self.read(path))

    def sync(self) -> None:
        """Nothing: a store answers once it keeps what it was sent."""

    def _create(self, path: str, data: bytes, writer: str) -> None:
        if self._takes_metadata:
            try:
                self._obstore.put(self._store, path, data, mode="create", attributes={_WRITER: writer})
                return
            except (NotImplementedError, self._exceptions.NotSupportedError):
                self._takes_metadata = False
        self._obstore.put(self._store, path, data, mode="create")

    def _created_by(self, path: str, data: bytes, writer: str, error: Exception) -> bool | None:
        """Whether this writer created the file that is there; None: there is none. Raises `error` if that is unknown.

        Without metadata the content decides. Empty content does not: then the store is believed where it said "exists".
        """
        try:
            found = self._obstore.get(self._store, path)
            named = found.attributes.get(_WRITER)
            if named is not None:
                return bool(named == writer)
            content = bytes(found.bytes())
        except FileNotFoundError:
            return None
        except self._exceptions.BaseError:
            raise error from None
        exists = self._exceptions.AlreadyExistsError, self._exceptions.PreconditionError
        if not data and not content and not isinstance(error, exists):
            raise error
        return bool(data) and content == data

    def _is_refusal(self, error: Exception) -> bool:
        """Whether the store refused the request, so that nothing was created."""
        names = "InvalidPathError", "NotSupportedError", "PermissionDeniedError", "UnauthenticatedError"
        return isinstance(error, tuple(getattr(self._exceptions, name) for name in names))

    def _head(self, path: str) -> FileInfo | None:
        try:
            with self._asked(path):
                return _info(self._obstore.head(self._store, path))
        except FileNotFoundError:
            return None

    def _pages(self, path: str) -> Iterator[Sequence[Mapping[str, Any]]]:
        """What is below a path, some at a time."""
        with self._asked(path):
            pages = iter(self._obstore.list(self._store, path or None))
        while True:
            with self._asked(path):
                page = next(pages, None)
            if page is None:
                return
            yield page

    @contextlib.contextmanager
    def _asked(self, path: str) -> Iterator[None]:
        """Raises what a request for the path fails with as OSError, as other storages do: obstore has errors of its
        own, which end in pages of its state."""
        if not self._in_memory:
            if _Fork.forked:
                raise ConfigError(
                    f"Cannot use {self.uri} in this process: it was forked from one that had used an object store, "
                    "which hangs; start processes by 'spawn' or 'forkserver' "
                    "(multiprocessing.get_context('spawn')), or fork before the first use"
                )
            _Fork.requested = True
        try:
            yield
        except FileNotFoundError:
            raise missing(self.uri, path) from None
        except (self._exceptions.BaseError, ValueError) as error:  # ValueError: no path of its
            denied = self._exceptions.PermissionDeniedError, self._exceptions.UnauthenticatedError
            what = first_line(error)
            if what.endswith("builder error"):  # all that it says of it
                what += " (an http:// endpoint needs the storage option allow_http=true)"
            raise OSError(
                errno.EACCES if isinstance(error, denied) else errno.EIO, what, f"{self.uri}/{path}"
            ) from None


def _split(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the kind of store, and those of the connections to it."""
    bare = {key: _KIND.sub("", key) for key in options}
    client = {bare[key]: value for key, value in options.items() if bare[key] in _CLIENT_OPTIONS}
    return {key: value for key, value in options.items() if bare[key] not in _CLIENT_OPTIONS}, client


def _info(entry: Mapping[str, Any]) -> FileInfo:
    return FileInfo(str(entry["path"]), int(entry["size"]), int(entry["last_modified"].timestamp() * 1000))
