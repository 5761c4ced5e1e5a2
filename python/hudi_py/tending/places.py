"""Finds tables at and below paths, and in catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.errors import ConfigError, HudiError
from hudi_py.interop.catalogs.entry import ListedCatalog, TableEntry
from hudi_py.interop.catalogs.glue import GlueCatalog
from hudi_py.interop.catalogs.hive_metastore import HiveMetastore
from hudi_py.metadata.files import metadata_lister
from hudi_py.model.layout import META_FOLDER
from hudi_py.storage import FileInfo, FolderStorage, Storage
from hudi_py.storage.tree import list_folders
from hudi_py.timeline.state import load_state
from hudi_py.view.lister import is_partition

_FEW: Final = 8
"""Up to this many folders are listed, instead of looked up in a metadata table."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a table."""

    uri: str
    properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties that a catalog stores for it."""


@dataclass(frozen=True, slots=True)
class FoundTables:
    """The tables at and below a path."""

    folders: tuple[str, ...]
    """Relative to the path, and sorted; the path itself is the empty string."""
    not_searched: tuple[str, ...] = ()
    """Folders below the maximum depth, relative to the path."""


def find_tables(storage: Storage, *, depth: int | None = None) -> FoundTables:
    """Finds the tables at and below a path, including those below other tables.

    Partitions are not searched, nor are folders whose names begin with a dot or an underscore, or have the form
    `key=value`.

    Args:
        storage: its root is the path.
        depth: how many levels of folders below the path are listed; None: all.
    """
    too_deep: list[str] = []

    def searched(folder: str, children: Sequence[FileInfo]) -> list[str]:
        inner = [child.path for child in children if child.is_dir and _may_hold_tables(child.name)]
        if _is_table(children):
            inner = _outside_partitions(storage, folder, inner)
        elif is_partition(children):
            inner = []
        if depth is None or _folder_level(folder) < depth:
            return inner
        too_deep.extend(inner)
        return []

    tables = [folder for folder, children in list_folders(storage, searched) if _is_table(children)]
    return FoundTables(tuple(sorted(tables)), tuple(sorted(too_deep)))


def _folder_level(folder: str) -> int:
    return folder.count("/") + 1 if folder else 0


def _may_hold_tables(name: str) -> bool:
    return not name.startswith((".", "_")) and "=" not in name


def _is_table(children: Sequence[FileInfo]) -> bool:
    return any(child.is_dir and child.name == META_FOLDER for child in children)


def _outside_partitions(storage: Storage, folder: str, inner: list[str]) -> list[str]:
    """Returns the folders in a table's folder in which the table has no partition, according to its metadata table.
    Other partitions are recognised by their metafiles."""
    if len(inner) <= _FEW:
        return inner
    try:
        state = load_state(FolderStorage(storage, folder) if folder else storage)
        lister, metadata = metadata_lister(state)
        if metadata is None or not state.config.partition_fields:
            return inner
        partitions = lister.partitions()
    except (HudiError, OSError):  # problems of the table are reported when it is examined
        return inner
    first = {path.partition("/")[0] for path in partitions}
    return [path for path in inner if path.rpartition("/")[2] not in first]


LISTED: Final = (config.HMS, config.GLUE)
"""Catalogs whose tables can be listed."""
_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table in a catalog."""

    uri: str
    """Its base path."""
    properties: Mapping[str, str]
    """Those of its entry, or of all its entries: a merge-on-read table may have several."""


def catalog_tables(
    catalog: str, database: str, options: Options, storage_options: Mapping[str, str] | None = None
) -> list[ListedTable]:
    """Lists the Hudi tables of a catalog, each once, sorted by their base path.

    Args:
        catalog: one of `LISTED`.
        database: its name; empty: all databases.
        options: where the catalog is, as for registering tables.
        storage_options: what gives them credentials for S3 gives them for AWS Glue.

    Raises:
        ConfigError: the catalog cannot be listed, or its package or region is missing.
        CatalogError: it could not be reached, or refused something.
    """
    if catalog not in LISTED:
        raise ConfigError(f"Cannot list the tables of the catalog {catalog!r}; supported: {', '.join(LISTED)}")

    def opened(name: str) -> ListedCatalog:
        if catalog == config.GLUE:
            return GlueCatalog(options, name, storage_options=options.for_storage(storage_options), uri="s3://")
        return HiveMetastore(options.get(config.METASTORE), name)

    databases = [database] if database else _databases(opened)
    tables: dict[str, ListedTable] = {}
    for name in databases:
        with closing(opened(name)) as source:
            for stored in source.tables():
                if _is_hudi(stored.entry):
                    uri = stored.entry.location.rstrip("/")
                    before = tables[uri].properties if uri in tables else {}
                    tables[uri] = ListedTable(uri, {**before, **stored.entry.parameters})
    return [tables[uri] for uri in sorted(tables)]


def _databases(opened: Callable[[str], ListedCatalog]) -> list[str]:
    with closing(opened(_DEFAULT)) as source:
        return source.all_databases()


def _is_hudi(entry: TableEntry) -> bool:
    provider = entry.parameters.get("spark.sql.sources.provider", "").lower()
    return bool(entry.location) and (provider == "hudi" or "hudi" in entry.format.input_format.lower())
