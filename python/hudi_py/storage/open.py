"""Opens the storage of a URI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from hudi_py.config import Options
from hudi_py.config.write import DURABLE
from hudi_py.errors import ConfigError
from hudi_py.storage.base import Storage
from hudi_py.storage.hdfs import HDFS_SCHEMES, HdfsStorage
from hudi_py.storage.local import LocalStorage
from hudi_py.storage.memory import MemoryStorage
from hudi_py.storage.objects import SCHEMES, ObjectStorage
from hudi_py.storage.within import FolderStorage

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(.*)$", re.DOTALL)
_LOCAL = re.compile(r"file:(?://localhost(?=/)|/*(?=/))", re.IGNORECASE)
"""Before a local path: file:/path, file:///path and file://localhost/path are the same file."""

StrPath = str | os.PathLike[str]


def path_text(path: StrPath) -> str:
    """Converts a path or URI to text and expands `~`.

    Raises:
        ConfigError: it is empty, no path at all, or a URI in an object of `pathlib`, which drops a slash of it.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(text := os.fspath(path), str):
        raise ConfigError(f"Cannot open a table at {path!r}: expected text or a path, not {type(path).__name__}")
    if not text:
        raise ConfigError("Cannot open a table at an empty path; pass its folder or URI")
    matched = _SCHEME.match(text)
    if matched and not isinstance(path, str) and matched[1].lower() in {*SCHEMES, *HDFS_SCHEMES, "file", "memory"}:
        raise ConfigError(f"Cannot open a table at {path!r}: pathlib drops a slash of a URI; pass it as text")
    return text if matched else os.path.expanduser(text)


def plain_uri(uri: str) -> str:
    """Returns a URI, or the absolute path of a local one: `/tables/t` for `file:///tables/t`."""
    return _LOCAL.sub("", uri, count=1) if _LOCAL.match(uri) else uri


def hadoop_uri(uri: str) -> str:
    """Returns a URI or absolute path as Hadoop writes it: `file:/tables/t` for `file:///tables/t`."""
    path = plain_uri(uri)
    return f"file:{path}" if path.startswith("/") else path


def open_beside(storage: Storage, uri: str) -> Storage:
    """Opens the storage at another URI with the credentials of an open one. Raises as `open_storage`."""
    while isinstance(storage, FolderStorage):
        storage = storage.beneath
    return open_storage(uri, storage.options if isinstance(storage, (ObjectStorage, HdfsStorage)) else None)


def open_for_write(path: StrPath, options: Options, storage_options: Mapping[str, str] | None = None) -> Storage:
    """Opens the storage of a table for writes with these options. Raises as `open_storage`.

    Args:
        storage_options: options of the storage besides those among `options`.
    """
    return with_durability(open_storage(path, options.for_storage(storage_options)), options.get(DURABLE))


def with_durability(storage: Storage, durable: bool) -> Storage:
    """Returns the storage with forced flushes on or off; the same storage if it has no such choice."""
    if type(storage) is LocalStorage and storage.durable is not durable:
        return LocalStorage(storage.root, durable=durable)
    return storage


def open_storage(uri: StrPath, storage_options: Mapping[str, str] | None = None) -> Storage:
    """Opens the storage at a table's base path.

    Takes a local path (relative ones from the working directory, `~` for the user's home), `file:` URIs,
    `memory://<name>[/<folder>]`, the object stores `s3`, `s3a`, `gs`, `az`, `abfs`, `abfss`, `hdfs` and `viewfs`. As in
    Hadoop, percent signs of a path are taken literally.

    Raises:
        ConfigError: the URI is empty, its scheme is not one of these, or obstore refuses it.
    """
    uri = path_text(uri)
    if storage_options:  # secrets of other services travel with them, under Hudi's keys
        storage_options = {
            key: value for key, value in storage_options.items() if not key.startswith("hoodie.")
        } or None
    matched = _SCHEME.match(uri)
    scheme, rest = (matched[1].lower(), matched[2]) if matched else ("", uri)
    if not scheme:
        return LocalStorage(uri)
    if scheme == "file":
        path = plain_uri(uri)
        return LocalStorage(path if path.startswith("/") else f"/{rest}")
    if scheme == "memory":
        name, _, folder = rest.lstrip("/").partition("/")
        return MemoryStorage(name, folder.rstrip("/"))
    if scheme in SCHEMES:
        return ObjectStorage(uri, storage_options)
    if scheme in HDFS_SCHEMES:
        return HdfsStorage(uri, storage_options)
    raise ConfigError(
        f"Cannot open a table with the URI scheme {scheme!r}; supported: local paths, file, memory, "
        f"{', '.join(sorted(SCHEMES | HDFS_SCHEMES))}"
    )
