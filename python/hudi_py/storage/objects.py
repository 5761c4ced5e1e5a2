"""Tables on S3, Google Cloud Storage and Azure, through obstore (extras `s3`, `gcs`, `azure`).

Object stores have no rename and no folders: a file is complete or absent, and appears when its upload ends.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, BinaryIO, cast
from urllib.parse import quote, urlsplit

import pyarrow as pa

from hudi_py.errors import (
    ConfigError,
    HudiError,
    StorageDeniedError,
    StorageError,
    UnsupportedTableError,
    first_line,
    is_panic,
)
from hudi_py.model.layout import LOCKS
from hudi_py.storage.base import FileInfo, clean_path, is_hidden_by_storage, missing
from hudi_py.storage.conditional import ConditionalWrites, Version, VersionedObject
from hudi_py.storage.credentials import (
    EXPIRED,
    asked_metadata_address,
    check_credentials,
    take_provider,
    without_credentials,
)
from hudi_py.storage.names import known_names, split_options
from hudi_py.storage.transfer import READ_AHEAD_BYTES, Download, Upload

SCHEMES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "azure"})
_DENIED_UPLOAD = "The operation lacked "
"""Beginning of the error of a denied upload, for which obstore raises a plain OSError."""


class _Fork:
    """Detects a fork: obstore's threads do not survive one, so a child would wait forever for answers to its
    requests."""

    requested = False
    forked = False

    @classmethod
    def after_in_child(cls) -> None:
        cls.forked = cls.requested


os.register_at_fork(after_in_child=_Fork.after_in_child)


class ObjectStorage:
    """A prefix of a bucket or container.

    `storage_options` are obstore's (`aws_access_key_id`, `region`, `endpoint`, `account_name`, `sas_token`,
    `allow_http`, `timeout`...), also by the names of `storage.names`, those of `storage.credentials`, and `max_retries`
    and `retry_timeout` (seconds) of a request; what is missing comes from the environment. They are kept out of `uri`,
    messages and pickles: an unpickled storage has the environment alone, so pass options again where they are needed.

    Raises:
        ConfigError: obstore is not installed, the URI holds a password or query, or an option is unknown.
    """

    __slots__ = (
        "_conditional",
        "_exceptions",
        "_in_memory",
        "_obstore",
        "_options",
        "_store",
        "_takes_suffixes",
        "_unchecked",
        "_uri",
    )

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
        named = known_names(storage_options or {}, parts.scheme.lower())
        self._unchecked = store is None
        if store is None:
            # Hudi's paths are not percent-decoded, but URLs are
            config, client = split_options(named)
            more: dict[str, Any] = {"retry_config": _retries(config, self._uri)}
            provider = take_provider(config, self._uri)
            if provider is not None:
                more["credential_provider"] = provider
            url = f"{parts.scheme}://{parts.netloc}{quote(uri.partition(parts.netloc)[2].rstrip('/'))}"
            try:
                store = stores.from_url(url, config=config, client_options=client or None, **more)
            except BaseException as error:
                if not isinstance(error, (self._exceptions.BaseError, ValueError, TypeError)) and not is_panic(error):
                    raise
                keys = ", ".join(sorted(storage_options or {})) or "none"
                what = (
                    f"obstore refused the URI or one of the storage options (given: {keys}); see obstore's "
                    "documentation for the keys of this kind of store"
                )
                if "Account must be specified" in str(error):
                    what = "the storage option account_name is missing, which Azure needs"
                raise ConfigError(f"Cannot open {self._uri}: {what}") from None  # chained messages might show values
        self._store = store
        self._in_memory = isinstance(store, stores.MemoryStore)
        self._takes_suffixes = not isinstance(store, stores.AzureStore)
        self._conditional = ConditionalWrites(self._obstore, self._exceptions, store)
        self._options = named

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
        """Returns the storage options that were given, to open another location the same way; never show them."""
        return self._options

    @property
    def is_local(self) -> bool:
        return False

    @property
    def can_rename(self) -> bool:
        return False

    def read(self, path: str) -> bytes:
        path = clean_path(path)
        with self.asked(path):
            return bytes(self._obstore.get(self._store, path).bytes())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        path = clean_path(path)
        if length > 0:
            try:
                with self.asked(path):
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
        size, end = self._end_of(path)
        return pa.PythonFile(Download(self, path, size, end), mode="r")

    def _end_of(self, path: str) -> tuple[int, bytes]:
        """Reads size and last bytes of a file: the part of a Parquet file that is read first, and all of a small
        file."""
        if not self._takes_suffixes:
            info = self._head(path)
            if info is None:
                raise missing(self.uri, path)
            return info.size, self.read_range(path, max(info.size - READ_AHEAD_BYTES, 0), READ_AHEAD_BYTES)
        try:
            with self.asked(path):
                value = self._obstore.get(self._store, path, options={"range": {"suffix": READ_AHEAD_BYTES}})
                return int(value.meta["size"]), bytes(value.bytes())
        except FileNotFoundError:
            raise
        except OSError:  # an empty file has no last byte
            info = self._head(path)
            if info is None or info.size:
                raise
            return 0, b""

    def open_output(self, path: str) -> BinaryIO:
        return cast(BinaryIO, Upload(self, clean_path(path)))

    def writer(self, path: str, part_bytes: int, parts_at_once: int) -> Any:
        """Opens obstore's writer of one object."""
        with self.asked(path):
            return self._obstore.open_writer(
                self._store, path, buffer_size=part_bytes, max_concurrency=parts_at_once
            ).__enter__()

    def put(self, path: str, data: bytes) -> None:
        path = clean_path(path)
        with self.asked(path):
            self._obstore.put(self._store, path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `Storage`. Raises ConfigError if the store ignores conditions."""
        path = clean_path(path)
        with self.asked(path):
            self._probe()
            return self._conditional.create(path, data)

    def read_version(self, path: str) -> VersionedObject | None:
        """Reads a file with its version; None if there is none."""
        path = clean_path(path)
        with self.asked(path):
            return self._conditional.read(path)

    def replace(self, path: str, data: bytes, version: Version | None, note: str = "") -> Version | None:
        """Writes a file whole if its version is still `version` (None: if there is none).

        Args:
            data: content that no other write has ever had: it shows whose the file is after a lost answer.
            note: text that `read_version` returns; no credentials.

        Returns:
            The new version; None when another writer came first.

        Raises:
            ConfigError: the store ignores conditions.
        """
        path = clean_path(path)
        with self.asked(path):
            self._probe()
            return self._conditional.replace(path, data, version, note)

    def _probe(self) -> None:
        if self._in_memory:
            return
        parts = urlsplit(self._uri)
        bucket = f"{parts.scheme}://{parts.netloc}"
        settings = getattr(self._store, "config", None) or {}
        name = f"{bucket} {hash(repr(sorted(settings.items(), key=str)))}"
        self._conditional.probe(name, bucket, f"{LOCKS}/probe_{uuid.uuid4().hex}")

    def names(self, path: str = "") -> list[str]:
        return [info.name for info in self.list(path) if not info.is_dir]

    def list(self, path: str = "") -> list[FileInfo]:
        path = clean_path(path)
        with self.asked(path):
            answer = self._obstore.list_with_delimiter(self._store, path or None)
        listing = [_info(entry) for entry in answer["objects"]]
        listing += [FileInfo(str(folder), 0, 0, True) for folder in answer["common_prefixes"]]
        return sorted((info for info in listing if not is_hidden_by_storage(info.name)), key=lambda info: info.path)

    def walk(self, path: str = "") -> Iterator[FileInfo]:
        for page in self._pages(clean_path(path)):
            for entry in page:
                info = _info(entry)
                if not is_hidden_by_storage(info.name):
                    yield info

    def stat(self, path: str) -> FileInfo | None:
        path = clean_path(path)
        return self._head(path) if path else None

    def delete(self, path: str) -> bool:
        path = clean_path(path)
        try:
            with self.asked(path):
                self._obstore.delete(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        """See `BulkStorage`. Deletes a thousand objects with one request if the store can."""
        wanted = [clean_path(path) for path in paths]
        if not wanted:
            return
        try:
            with self.asked(wanted[0]):
                self._obstore.delete(self._store, wanted)
        except FileNotFoundError:  # from stores that delete one by one, and stop here
            for path in wanted:
                self.delete(path)

    def delete_tree(self, path: str) -> None:
        for page in self._pages(clean_path(path)):
            self.delete_many([entry["path"] for entry in page])

    def rename(self, src: str, dst: str) -> None:
        """Always raises UnsupportedTableError: object stores cannot move a file in one step."""
        raise UnsupportedTableError(
            f"Cannot rename {src!r} in {self.uri}: object stores have no atomic rename; write the file under its own "
            "name"
        )

    def touch(self, path: str) -> None:
        self.put(path, b"")

    def sync(self) -> None:
        """Does nothing: a store answers only after it has stored the data."""

    def _head(self, path: str) -> FileInfo | None:
        try:
            with self.asked(path):
                return _info(self._obstore.head(self._store, path))
        except FileNotFoundError:
            return None

    def _pages(self, path: str) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Yields pages of what is below a path."""
        with self.asked(path):
            pages = iter(self._obstore.list(self._store, path or None))
        while True:
            with self.asked(path):
                page = next(pages, None)
            if page is None:
                return
            yield page

    @contextlib.contextmanager
    def asked(self, path: str) -> Iterator[None]:
        """Raises errors of a request for the path as StorageError, an OSError, as other storages do. obstore has error
        classes of its own, whose messages include pages of internal state, and panics."""
        if not self._in_memory:
            if _Fork.forked:
                raise ConfigError(
                    f"Cannot use {self.uri} in this process: it was forked from one that had used an object store, "
                    "which hangs; start processes by 'spawn' or 'forkserver' "
                    "(multiprocessing.get_context('spawn')), or fork before the first use"
                )
            _Fork.requested = True
        if self._unchecked:
            check_credentials(self._options, self._uri)
            self._unchecked = False
        try:
            yield
        except HudiError:
            raise
        except FileNotFoundError:
            raise missing(self.uri, path) from None
        except (self._exceptions.BaseError, ValueError, OSError) as error:  # ValueError: no path of its
            if isinstance(error, OSError) and error.errno is not None:
                raise
            what = first_line(error)
            denied = isinstance(
                error, (self._exceptions.PermissionDeniedError, self._exceptions.UnauthenticatedError)
            ) or what.startswith(_DENIED_UPLOAD)
            if any(sign in str(error) for sign in EXPIRED):
                raise StorageDeniedError(
                    "The credentials have expired; pass new ones, or name a credential_provider in the storage "
                    f"options, which renews them automatically: '{self.uri}/{path}'"
                ) from None
            if asked_metadata_address(error):
                answer = what.rpartition(" - ")[2]
                raise without_credentials(
                    self._uri, f", and the machine's own address for them gave none ({answer})"
                ) from None
            if what.endswith("builder error"):  # its message says no more
                what += " (an http:// endpoint needs the storage option allow_http=true)"
            raise (StorageDeniedError if denied else StorageError)(f"{what}: '{self.uri}/{path}'") from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise StorageError(f"obstore failed ({first_line(error)}): '{self.uri}/{path}'") from None


def _retries(options: dict[str, str], uri: str) -> dict[str, Any] | None:
    """Takes how often and how long to repeat a request out of the options; None for obstore's defaults."""
    result: dict[str, Any] = {}
    try:
        if "max_retries" in options:
            result["max_retries"] = int(options.pop("max_retries"))
        if "retry_timeout" in options:
            result["retry_timeout"] = timedelta(seconds=float(options.pop("retry_timeout")))
    except ValueError:
        raise ConfigError(
            f"Cannot open {uri}: the storage options max_retries and retry_timeout take a number of tries and of "
            "seconds"
        ) from None
    return result or None


def _info(entry: Mapping[str, Any]) -> FileInfo:
    return FileInfo(str(entry["path"]), int(entry["size"]), int(entry["last_modified"].timestamp() * 1000))
