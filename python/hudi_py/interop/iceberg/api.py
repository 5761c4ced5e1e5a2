"""The public functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hudi_py.errors import ConfigError
from hudi_py.interop.iceberg.publication import PublishedSnapshot, Settings, publish_table, unpublish_table
from hudi_py.interop.iceberg.target import BesideTable, CatalogName, IcebergTarget, InCatalog
from hudi_py.interop.opened import OpenTable, options_of, storage_of
from hudi_py.storage import Storage, StrPath

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


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
    return publish_table(storage, _target(storage, catalog, name, location), settings, options_of(table))


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
    return unpublish_table(storage, _target(storage, catalog, name, None))


def target_of(storage: Storage, catalog: CatalogName | None, name: str | None, location: str | None) -> IcebergTarget:
    """The target that options name. Raises ConfigError."""
    return _target(storage, None if catalog is None else catalog.load(), name, location)


def _target(storage: Storage, catalog: Catalog | str | None, name: str | None, location: str | None) -> IcebergTarget:
    if catalog is None:
        if name is not None:
            raise ConfigError(f"Cannot publish to Iceberg as {name!r} without a catalog: give one, or no name")
        return BesideTable(storage, (location or storage.uri).rstrip("/"))
    if name is None or "." not in name:
        raise ConfigError(f"Cannot publish to an Iceberg catalog as {name!r}: expected a name namespace.table")
    return InCatalog(CatalogName(catalog, {}).load() if isinstance(catalog, str) else catalog, name)
