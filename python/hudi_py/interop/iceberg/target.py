"""Stores an Iceberg table's metadata next to the Hudi table or in a pyiceberg catalog, and reads and writes its files
through the Hudi table's storage."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError, first_line
from hudi_py.interop.iceberg.columns import Json
from hudi_py.interop.iceberg.metadata import MAIN, applied, current_snapshot, properties, with_log
from hudi_py.model.limits import parse_json
from hudi_py.storage import Storage
from hudi_py.storage.base import BulkStorage
from hudi_py.storage.threads import when_remote

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_log = logging.getLogger(__name__)
FOLDER: Final = "metadata"
HINT: Final = f"{FOLDER}/version-hint.text"
_VERSION: Final = re.compile(r"v(\d{1,18})\.metadata\.json")
MARK: Final = "hudi.published-by"
"""Table property that marks publications of hudi-py."""
OURS: Final = "hudi-py"
PREFIX: Final = "hudi-"
"""Prefix of file names, except those that readers look for."""
INDEX: Final = "index"
"""Kind of JSON files that only publications read."""
SIDE_FOLDER: Final = f"{FOLDER}/rows"


class SupersededError(Exception):
    """Another publication came first."""


@dataclass(frozen=True, slots=True)
class Published:
    """The metadata of an Iceberg table as read."""

    metadata: Json
    location: str | None
    """Path of the metadata file; None if it is not written yet."""
    handle: Any = None
    """The target's own state."""


class IcebergTarget(Protocol):
    """Stores the metadata of one Iceberg table."""

    @property
    def name(self) -> str:
        """Returns the table's name in messages."""
        ...

    def load(self) -> Published | None:
        """Loads the current metadata; None if there is none. Raises UnsupportedTableError if hudi-py did not write
        it."""
        ...

    def create(self, metadata: Json) -> Published:
        """Creates the empty table that `metadata` describes, for a first `commit`. A catalog may assign other column
        ids."""
        ...

    def commit(self, base: Published, updates: Sequence[Json]) -> tuple[str, list[str]]:
        """Applies changes to the metadata, all or none.

        Returns:
            The location of the new metadata, and those of metadata files that are no longer needed.

        Raises:
            SupersededError: the metadata is no longer `base`, and was not changed. After any other error it may have
                been changed.
        """
        ...

    def drop(self, published: Published) -> list[str]:
        """Removes the table, but none of its files. Returns the metadata files to delete: those in the Hudi table's
        folder, as paths relative to it."""
        ...


class BesideTable:
    """Stores metadata in the folder `metadata` of the Hudi table, in files `v<N>.metadata.json`; `version-hint.text`
    names the newest. This is the layout of Iceberg's `HadoopTables`, which needs no catalog."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._storage = storage
        self._location = location

    @property
    def name(self) -> str:
        return f"{self._location}/{FOLDER}"

    def load(self) -> Published | None:
        number = self._newest()
        if number is None:
            return None
        path = _version_path(number)
        try:
            metadata = parse_json(self._storage.read(path))
            ours = properties(metadata).get(MARK) == OURS
        except (ValueError, AttributeError) as error:
            raise CorruptFileError(
                f"Cannot publish to Iceberg: {self._location}/{path} is not JSON of a table ({first_line(error)}); "
                "unpublish the table and publish it again",
                path=path,
            ) from error
        if not ours:
            raise UnsupportedTableError(
                f"Cannot publish to Iceberg: {self._location}/{path} is from another program, such as Apache XTable; "
                "remove that metadata, or publish through a catalog",
                path=path,
            )
        return Published(metadata, f"{self._location}/{path}", number)

    def create(self, metadata: Json) -> Published:
        return Published(metadata, None, 0)

    def commit(self, base: Published, updates: Sequence[Json]) -> tuple[str, list[str]]:
        metadata, dropped = applied(base.metadata, updates), list[str]()
        if base.location is not None:
            metadata, dropped = with_log(metadata, base.location, base.metadata["last-updated-ms"])
        number = base.handle + 1
        path, data = _version_path(number), json.dumps(metadata).encode()
        # a store may refuse our repeated request if the first answer was lost
        if not self._storage.put_if_absent(path, data) and not self._has(path, data):
            raise SupersededError(path)
        try:
            self._storage.put(HINT, str(number).encode())
        except OSError as error:  # the next publication corrects it
            _log.warning("cannot write %s of %s: %s", HINT, self._location, first_line(error))
        return f"{self._location}/{path}", dropped

    def drop(self, published: Published) -> list[str]:
        self._storage.delete(HINT)
        return [f"{FOLDER}/{name}" for name in self._storage.names(FOLDER) if _VERSION.fullmatch(name)]

    def _has(self, path: str, data: bytes) -> bool:
        try:
            return self._storage.read(path) == data
        except FileNotFoundError:
            return False

    def _newest(self) -> int | None:
        try:
            number = int(self._storage.read(HINT))
        except (FileNotFoundError, ValueError):
            match = [int(item[1]) for name in self._storage.names(FOLDER) if (item := _VERSION.fullmatch(name))]
            return max(match, default=None)
        # if a publication was killed or overtaken, its hint is outdated
        while self._storage.stat(_version_path(number + 1)) is not None:
            number += 1
        return number


def _version_path(number: int) -> str:
    return f"{FOLDER}/v{number}.metadata.json"


@dataclass(frozen=True, slots=True)
class CatalogName:
    """A catalog by its name in pyiceberg's configuration, and further properties."""

    name: str
    properties: Mapping[str, str]

    def load(self) -> Catalog:
        """Opens the catalog. Raises ConfigError if pyiceberg is missing, or the catalog is not configured."""
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError as error:
            raise _missing_pyiceberg() from error
        try:
            return load_catalog(self.name, **self.properties)
        except Exception as error:  # each catalog has its own errors
            raise ConfigError(
                f"Cannot open the Iceberg catalog {self.name!r}: {first_line(error)}; configure it in .pyiceberg.yaml, "
                "or in variables PYICEBERG_CATALOG__..."
            ) from error


def _missing_pyiceberg() -> ConfigError:
    return ConfigError('Cannot publish to an Iceberg catalog without pyiceberg: pip install "hudi-py[iceberg]"')


class InCatalog:
    """A table of a pyiceberg catalog. The catalog writes the metadata files, below the Hudi table."""

    def __init__(self, catalog: Catalog, identifier: str) -> None:
        self._catalog = catalog
        self._identifier = identifier

    @property
    def name(self) -> str:
        return f"table {self._identifier} of the catalog {self._catalog.name}"

    def load(self) -> Published | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None
        metadata = parse_json(table.metadata.model_dump_json())
        if properties(metadata).get(MARK) != OURS:
            raise UnsupportedTableError(
                f"Cannot publish to Iceberg: {self.name} exists, and hudi-py did not make it; give another name"
            )
        return Published(metadata, table.metadata_location, table)

    def create(self, metadata: Json) -> Published:
        from pyiceberg.schema import Schema

        table = self._catalog.create_table(
            self._identifier,
            Schema.model_validate(metadata["schemas"][0]),
            location=metadata["location"],
            properties={**properties(metadata), "format-version": "2"},
        )
        return Published(parse_json(table.metadata.model_dump_json()), table.metadata_location, table)

    def commit(self, base: Published, updates: Sequence[Json]) -> tuple[str, list[str]]:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import CommitTableRequest

        table, snapshot = base.handle, current_snapshot(base.metadata)
        number = None if snapshot is None else snapshot["snapshot-id"]
        requirements = [
            {"type": "assert-table-uuid", "uuid": base.metadata["table-uuid"]},
            {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": number},
        ]
        *namespace, name = table.name()
        request = CommitTableRequest.model_validate(
            {
                "identifier": {"namespace": namespace, "name": name},
                "requirements": requirements,
                "updates": list(updates),
            }
        )
        try:
            answer = self._catalog.commit_table(table, request.requirements, request.updates)
        except CommitFailedException as error:
            raise SupersededError(first_line(error)) from error
        return answer.metadata_location, []

    def drop(self, published: Published) -> list[str]:
        self._catalog.drop_table(self._identifier)
        root = f"{published.metadata['location']}/"
        every = [*(item["metadata-file"] for item in published.metadata.get("metadata-log") or ()), published.location]
        return [item.removeprefix(root) for item in every if item is not None and item.startswith(root)]


@contextlib.contextmanager
def dropped_on_failure(target: IcebergTarget, created: Published | None) -> Iterator[None]:
    """Drops a table that was created for a publication that fails, since it would be empty."""
    try:
        yield
    except BaseException:
        if created is not None and isinstance(target, InCatalog):
            with contextlib.suppress(Exception):
                target.drop(created)
        raise


class MetadataFiles:
    """Reads and writes files by location, and tracks which it has written."""

    def __init__(self, storage: Storage, location: str, table_uuid: str) -> None:
        """`location` is the table's path as engines know it."""
        self.storage = storage
        self.location = location
        self._own = f"{PREFIX}{str(table_uuid).replace('-', '')[:8]}-"
        self._written: list[str] = []

    @property
    def side_prefix(self) -> str:
        """Returns the path prefix of side files of this Iceberg table."""
        return f"{SIDE_FOLDER}/{self._own}"

    def located(self, path: str) -> str:
        """Returns the location of a path of the table."""
        return f"{self.location}/{path}"

    def path(self, location: str) -> str:
        """Returns the path of a location. Raises UnsupportedTableError if it is outside the table."""
        path = location.removeprefix(f"{self.location}/")
        if path == location:
            raise UnsupportedTableError(
                f"Cannot publish {self.location} to Iceberg: its Iceberg metadata has the file {location} outside of "
                "the table, which another program wrote; unpublish the table and publish it again",
                path=location,
            )
        return path

    def is_side(self, location: str) -> bool:
        """Returns whether a file was written for a slice with logs."""
        return location.startswith(self.located(f"{SIDE_FOLDER}/"))

    def read(self, location: str) -> bytes:
        """Reads a metadata file. Raises CorruptFileError if it is missing."""
        try:
            return self.storage.read(self.path(location))
        except FileNotFoundError as error:
            raise CorruptFileError(
                f"Cannot read the Iceberg metadata {location}: it is missing; unpublish the table and publish it again",
                path=location,
            ) from error

    def write(self, kind: str, data: bytes) -> str:
        """Writes a new metadata file and returns its location."""
        path = f"{FOLDER}/{self._own}{kind}-{secrets.token_hex(8)}{'' if kind == INDEX else '.avro'}"
        self.note(path)
        self.storage.put(path, data)
        return self.located(path)

    def note(self, path: str) -> None:
        """Records a file that is about to be written."""
        self._written.append(path)

    def withdraw(self) -> None:
        """Deletes the files that were written."""
        with contextlib.suppress(Exception):
            delete_all(self.storage, self._written)
        self._written.clear()

    def own(self) -> list[str]:
        """Lists paths of all files of this Iceberg table, whoever wrote them, except the target's."""
        return named(self.storage, self._own)


def named(storage: Storage, prefix: str) -> list[str]:
    """Lists paths of metadata and side files by name prefix."""
    folders = (FOLDER, SIDE_FOLDER)
    return [f"{folder}/{name}" for folder in folders for name in storage.names(folder) if name.startswith(prefix)]


def delete_all(storage: Storage, paths: Iterable[str]) -> None:
    """Deletes files; they may be missing."""
    item = list(paths)
    if isinstance(storage, BulkStorage):
        storage.delete_many(item)
    else:
        when_remote(storage, storage.delete, item)
