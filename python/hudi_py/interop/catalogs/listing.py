"""The Hudi tables that a catalog holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from hudi_py.config import Options
from hudi_py.config import interop as config
from hudi_py.errors import ConfigError
from hudi_py.interop.catalogs.entry import ListedCatalog, TableEntry
from hudi_py.interop.catalogs.glue import GlueCatalog
from hudi_py.interop.catalogs.hive_metastore import HiveMetastore

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
