"""Publishes a table to Iceberg on demand, after each commit, and after services that run on demand."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.errors import ConfigError, first_line
from hudi_py.interop.iceberg.metadata import current_snapshot
from hudi_py.interop.iceberg.publication import VIEW, PublishedSnapshot, Settings, publish_table, unpublish_table
from hudi_py.interop.iceberg.target import HINT, BesideTable, CatalogName, IcebergTarget, InCatalog
from hudi_py.interop.opened import OpenTable, options_of, storage_of
from hudi_py.model.instant import Action, Instant
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage, StrPath
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_log = logging.getLogger(__name__)
_UNDOING = (Action.ROLLBACK, Action.RESTORE)


def publish(
    table: OpenTable | StrPath,
    catalog: Catalog | str | None = None,
    name: str | None = None,
    *,
    base_files_only: bool = False,
    location: str | None = None,
    max_snapshots: int = 100,
    storage_options: Mapping[str, str] | None = None,
) -> PublishedSnapshot:
    """Publishes the newest state of a Hudi table as a snapshot of an Iceberg table.

    The first time, this reads the footers of all base files; later, those of new ones. Rows in logs are copied to side
    files, and position delete files hide the base rows that they replace; both lie in the folder `metadata/rows` of
    the table, which no reader of Hudi's tables looks into.

    Args:
        table: a table, or its path or URI.
        catalog: a catalog of pyiceberg, or the name of one that is configured for it. None: no catalog; the metadata is
            in the folder `metadata` of the table, as Iceberg's `HadoopTables` have it.
        name: the table in the catalog, `namespace.table`. The namespace must exist.
        base_files_only: leaves out what logs changed: the rows are those of a read-optimized query.
        location: the table's path as Iceberg engines know it, if it is not the one it is opened by.
        max_snapshots: how many states to keep for time travel, if their files have not been cleaned.
        storage_options: credentials and settings of the storage, for a table given by its path.

    Raises:
        UnsupportedTableError: Iceberg cannot express the table, or would read one of its files in another way; the
            message says what. Nothing was published.
        ConfigError: arguments contradict each other, or the catalog cannot be opened.
        TableNotFoundError: there is no table at the path.
    """
    storage = storage_of(table, storage_options)
    settings = Settings(base_files_only, location, max_snapshots)
    return publish_table(storage, _named_target(storage, catalog, name, location), settings, options_of(table))


def unpublish(
    table: OpenTable | StrPath,
    catalog: Catalog | str | None = None,
    name: str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Removes the Iceberg table that `publish` made: its entry in the catalog, its metadata and its side files. The
    Hudi table stays as it is. For arguments and errors see `publish`.

    Returns:
        The number of files deleted; 0 if nothing was published.
    """
    storage = storage_of(table, storage_options)
    return unpublish_table(storage, _named_target(storage, catalog, name, None))


def target_of(storage: Storage, catalog: CatalogName | None, name: str | None, location: str | None) -> IcebergTarget:
    """Returns the target that options name. Raises ConfigError."""
    return _named_target(storage, None if catalog is None else catalog.load(), name, location)


@dataclass(frozen=True, slots=True)
class IcebergPublication:
    """The publication that the options of a write ask for. Implements `AfterCommit`.

    Raises:
        ConfigError: its options contradict each other.
    """

    options: Options

    def __post_init__(self) -> None:
        catalog, table = (
            self.options.get(config.ICEBERG_CATALOG),
            self.options.get(config.ICEBERG_TABLE),
        )
        if catalog is not None and (table is None or "." not in table):
            raise ConfigError(
                f"Cannot publish to the Iceberg catalog {catalog!r} with {config.ICEBERG_TABLE.key} = {table!r}: "
                "expected namespace.table"
            )
        if catalog is None and table is not None:
            raise ConfigError(
                f"Cannot publish to Iceberg with {config.ICEBERG_TABLE.key} = {table!r} and no catalog: set "
                f"{config.ICEBERG_CATALOG.key}, or leave the table out"
            )
        wrong = [item for item in self.options.get(config.ICEBERG_CATALOG_PROPERTIES) if "=" not in item]
        if wrong:
            raise ConfigError(
                f"Cannot take {wrong[0]!r} as one of {config.ICEBERG_CATALOG_PROPERTIES.key}: expected key=value,..."
            )

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. Refuses no table, since a failed publication does not fail the write."""

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Publishes the table's newest state. Failures are logged."""
        return ("iceberg",) if self.publish(session.storage, f"commit {committed.instant}") else ()

    def publish(self, storage: Storage, what: str) -> bool:
        """Publishes the table after `what`, which completes the warning if that fails. Returns whether there was
        anything to do."""
        settings = Settings(
            self.options.get(config.ICEBERG_BASE_FILES_ONLY),
            self.options.get(config.ICEBERG_LOCATION),
            self.options.get(config.ICEBERG_SNAPSHOTS),
        )
        try:
            return publish_table(storage, self.target(storage), settings, self.options.values).changed
        except Exception as error:  # whatever failed, the commit is done
            _warn_unpublished(storage, what, error)
            return False

    def target(self, storage: Storage) -> IcebergTarget:
        """Returns where the table is published. Raises as `target_of`."""
        location = self.options.get(config.ICEBERG_LOCATION)
        return target_of(storage, self._catalog(), self.options.get(config.ICEBERG_TABLE), location)

    def _catalog(self) -> CatalogName | None:
        name = self.options.get(config.ICEBERG_CATALOG)
        pairs = (item.partition("=") for item in self.options.get(config.ICEBERG_CATALOG_PROPERTIES))
        return None if name is None else CatalogName(name, {key.strip(): value.strip() for key, _, value in pairs})


@dataclass(frozen=True, slots=True)
class Republication:
    """Publishes a table after a service, or another action that writes no rows.

    After a rollback or restore, a publication next to the table is updated regardless of the options: otherwise
    Iceberg would still show rows that were undone. If that fails, the publication is removed.
    """

    storage: Storage
    options: Options
    step: IcebergPublication | None

    @classmethod
    def of(cls, storage: Storage, options: Options) -> Republication | None:
        """Returns None if options do not request it, and nothing was published next to the table."""
        step = IcebergPublication(options) if options.get(config.ICEBERG_ENABLED) else None
        return None if step is None and storage.stat(HINT) is None else cls(storage, options, step)

    def run(self, done: Sequence[Instant]) -> None:
        """Publishes the table after these instants completed. Logs failures instead of raising them."""
        newest = max(instant.time for instant in done)
        if self.step is not None:
            self.step.publish(self.storage, f"{done[0].action.value} {newest}")
        elif any(instant.action in _UNDOING for instant in done):
            _drop_publication(self.storage, self.options, newest)


def _drop_publication(storage: Storage, options: Options, instant: str) -> None:
    try:
        published = BesideTable(storage, storage.uri).load()
        snapshot = None if published is None else current_snapshot(published.metadata)
        if published is None or snapshot is None:
            return
        settings = Settings(
            snapshot["summary"].get(VIEW) == "read_optimized",
            published.metadata["location"],
            options.get(config.ICEBERG_SNAPSHOTS),
        )
        publish_table(storage, BesideTable(storage, published.metadata["location"]), settings, options.values)
    except Exception as error:  # whatever failed, the action is done
        storage.delete(HINT)
        _warn_unpublished(storage, f"the rollback {instant}", error)


def _warn_unpublished(storage: Storage, what: str, error: Exception) -> None:
    _log.warning(
        "the Iceberg metadata of %s does not show %s: %s; the next commit publishes it, and so does "
        "hudi_py.interop.iceberg.publish (hudi-py iceberg publish)",
        storage.uri,
        what,
        first_line(error),
    )


def _named_target(
    storage: Storage, catalog: Catalog | str | None, name: str | None, location: str | None
) -> IcebergTarget:
    if catalog is None:
        if name is not None:
            raise ConfigError(f"Cannot publish to Iceberg as {name!r} without a catalog: give one, or no name")
        return BesideTable(storage, (location or storage.uri).rstrip("/"))
    if name is None or "." not in name:
        raise ConfigError(f"Cannot publish to an Iceberg catalog as {name!r}: expected a name namespace.table")
    return InCatalog(CatalogName(catalog, {}).load() if isinstance(catalog, str) else catalog, name)
