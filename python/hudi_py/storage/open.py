"""From a URI to a storage."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hudi_py.errors import ConfigError
from hudi_py.storage.base import Storage
from hudi_py.storage.local import LocalStorage
from hudi_py.storage.memory import MemoryStorage
from hudi_py.storage.objects import SCHEMES, ObjectStorage

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(.*)$", re.DOTALL)


def open_beside(storage: Storage, uri: str) -> Storage:
    """The storage rooted at another URI, with the credentials of one that is open. Raises as `open_storage`."""
    return open_storage(uri, storage.options if isinstance(storage, ObjectStorage) else None)


def with_durability(storage: Storage, durable: bool) -> Storage:
    """The storage as one that forces what it writes to disk, or not; itself where it has no choice."""
    if type(storage) is LocalStorage and storage.durable is not durable:
        return LocalStorage(storage.root, durable=durable)
    return storage


def open_storage(uri: str, storage_options: Mapping[str, str] | None = None) -> Storage:
    """The storage rooted at a table's base path.

    Takes a local path (relative ones from the working directory), `file:` URIs, `memory://<name>[/<folder>]` and the
    object stores `s3`, `s3a`, `gs`, `az`, `abfs`, `abfss`. As in Hadoop, percent signs of a path are taken literally.

    Raises:
        ConfigError: the URI is empty, its scheme is not one of these, or obstore refuses it.
    """
    found = _SCHEME.match(uri)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", uri)
    if not uri:
        raise ConfigError("Cannot open a table at an empty path; pass its folder or URI")
    if not scheme:
        return LocalStorage(uri)
    if scheme == "file":
        # file:/path, file:///path and file://localhost/path name the same file
        path = "/" + rest.lstrip("/") if not rest.startswith("//localhost/") else rest[len("//localhost") :]
        return LocalStorage(path)
    if scheme == "memory":
        name, _, folder = rest.lstrip("/").partition("/")
        return MemoryStorage(name, folder.rstrip("/"))
    if scheme in SCHEMES:
        return ObjectStorage(uri, storage_options)
    raise ConfigError(
        f"Cannot open a table with the URI scheme {scheme!r}; supported are local paths, file, memory, "
        f"{', '.join(sorted(SCHEMES))}"
    )
