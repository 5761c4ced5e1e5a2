"""The files of an Iceberg table's metadata, read and written through the storage of the Hudi table."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable
from typing import Final

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.interop.iceberg.target import FOLDER
from hudi_py.storage import Storage
from hudi_py.storage.base import BulkStorage
from hudi_py.storage.threads import when_remote

PREFIX: Final = "hudi-"
"""What names of files begin with, besides those that readers look for."""
INDEX: Final = "index"
"""Kind of the files that only publications read, in JSON."""
SIDE_FOLDER: Final = f"{FOLDER}/rows"


class MetadataFiles:
    """Reads and writes files at their locations, and knows which it has written."""

    def __init__(self, storage: Storage, location: str, table_uuid: str) -> None:
        """`location` is the table's path as engines know it."""
        self.storage = storage
        self.location = location
        self._own = f"{PREFIX}{str(table_uuid).replace('-', '')[:8]}-"
        self._written: list[str] = []

    @property
    def side_prefix(self) -> str:
        """What the paths of side files of this Iceberg table begin with."""
        return f"{SIDE_FOLDER}/{self._own}"

    def located(self, path: str) -> str:
        """The location of a path of the table."""
        return f"{self.location}/{path}"

    def path(self, location: str) -> str:
        """The path of a location. Raises UnsupportedTableError if it is outside the table."""
        path = location.removeprefix(f"{self.location}/")
        if path == location:
            raise UnsupportedTableError(
                f"Cannot publish {self.location} to Iceberg: its Iceberg metadata has the file {location} outside of "
                "the table, which another program wrote; unpublish the table and publish it again",
                path=location,
            )
        return path

    def is_side(self, location: str) -> bool:
        """Whether a file is one of those written for slices with logs."""
        return location.startswith(self.located(f"{SIDE_FOLDER}/"))

    def read(self, location: str) -> bytes:
        """A metadata file. Raises CorruptFileError if it is missing."""
        try:
            return self.storage.read(self.path(location))
        except FileNotFoundError as error:
            raise CorruptFileError(
                f"Cannot read the Iceberg metadata {location}: it is missing; unpublish the table and publish it again",
                path=location,
            ) from error

    def write(self, kind: str, data: bytes) -> str:
        """Writes a new metadata file; its location."""
        path = f"{FOLDER}/{self._own}{kind}-{secrets.token_hex(8)}{'' if kind == INDEX else '.avro'}"
        self.note(path)
        self.storage.put(path, data)
        return self.located(path)

    def note(self, path: str) -> None:
        """Remembers a file that is about to be written."""
        self._written.append(path)

    def withdraw(self) -> None:
        """Deletes what was written."""
        with contextlib.suppress(Exception):
            delete_all(self.storage, self._written)
        self._written.clear()

    def own(self) -> list[str]:
        """Paths of all files of this Iceberg table but those of the target, whoever wrote them."""
        return named(self.storage, self._own)


def named(storage: Storage, prefix: str) -> list[str]:
    """Paths of metadata and side files whose names begin with a text."""
    folders = (FOLDER, SIDE_FOLDER)
    return [f"{folder}/{name}" for folder in folders for name in storage.names(folder) if name.startswith(prefix)]


def delete_all(storage: Storage, paths: Iterable[str]) -> None:
    """Deletes files; missing ones are fine."""
    each = list(paths)
    if isinstance(storage, BulkStorage):
        storage.delete_many(each)
    else:
        when_remote(storage, storage.delete, each)
