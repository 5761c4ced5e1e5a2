"""Registers a table on demand and after each commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hudi_py.config import Options, Scope
from hudi_py.config import interop as config
from hudi_py.errors import HudiError, first_line
from hudi_py.interop.catalogs.entry import Catalog, Registered, SyncReport
from hudi_py.interop.catalogs.glue import GlueCatalog
from hudi_py.interop.catalogs.hive_metastore import HiveMetastore
from hudi_py.interop.catalogs.partitions import Synced
from hudi_py.interop.catalogs.register import register_hive_like
from hudi_py.interop.catalogs.rest import CatalogTable, Polaris, Unity
from hudi_py.interop.catalogs.settings import SyncSettings, TableIdentifier
from hudi_py.interop.opened import OpenTable, options_of, storage_of, storage_options_of
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage, StrPath
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession

_log = logging.getLogger(__name__)


def sync(
    table: OpenTable | StrPath,
    *catalogs: str,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SyncReport:
    """Registers a table with catalogs, or brings its entries up to date.

    Args:
        table: a `hudi_py.Table`, or the path of a table.
        catalogs: `hms`, `glue`, `polaris` or `unity`; none: as the options say, by default `hms`.
        options: those of docs/catalogs.md, by Apache Hudi's keys; they override those with which the table was opened.
        storage_options: credentials and settings of the storage, for a path.

    Raises:
        CatalogError: a catalog could not be reached, or refused something. Entries that were made before stay.
        ConfigError: an option is wrong, or missing for one of the catalogs.
        TableNotFoundError: there is no table.
        UnsupportedTableError: the table has no columns yet, or a type that catalogs do not have.
    """
    given = {**options_of(table), **(options or {})}
    if catalogs:
        given[config.CHOSEN.key] = ",".join(catalogs)
    resolved = Options.resolve(given, Scope.WRITE)
    opened = {**storage_options_of(table), **resolved.storage, **(storage_options or {})}
    storage = storage_of(table, opened)
    settings = SyncSettings.of(resolved, enabled=True)
    assert settings is not None
    return register(storage, load_table_config(storage), settings, opened)


def register(
    storage: Storage, table: TableConfig, settings: SyncSettings, storage_options: Mapping[str, str] | None = None
) -> SyncReport:
    """Registers a table with all catalogs of the settings, one after the other. Raises as `sync`.

    Args:
        storage_options: of the table, whose credentials AWS Glue takes, too.
    """
    source = TableState(storage, table, load_timeline(storage, table))
    entries: list[Registered] = []
    for name in settings.catalogs:
        entries += _register_with(name, source, settings, storage_options)
    return SyncReport(tuple(entries))


def _register_with(
    catalog: str, source: TableState, settings: SyncSettings, storage_options: Mapping[str, str] | None
) -> list[Registered]:
    names, options = settings.names(source.config, catalog), settings.options
    if catalog in (config.HMS, config.GLUE):
        with closing(_open_catalog(catalog, settings, names, source.storage.uri, storage_options)) as opened:
            return register_hive_like(opened, source, settings, names.database, names.table)
    client = Polaris(options) if catalog == config.POLARIS else Unity(options)
    now = Synced.now(source.timeline)
    uri = source.storage.uri.rstrip("/")
    where = CatalogTable(names.database, names.table, uri, settings.table_parameters)
    return [client.register(where, None if now is None else now.time)]


def _open_catalog(
    catalog: str, settings: SyncSettings, names: TableIdentifier, uri: str, storage_options: Mapping[str, str] | None
) -> Catalog:
    options = settings.options
    if catalog == config.GLUE:
        return GlueCatalog(options, names.database, storage_options=storage_options, uri=uri)
    addresses = options.get(config.METASTORE)
    return HiveMetastore(addresses, names.database, batch=options.get(config.BATCH))


@dataclass(frozen=True, slots=True)
class CatalogSync:
    """Registers the table after each commit. Implements `AfterCommit`."""

    settings: SyncSettings

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. Raises ConfigError if the table has no name."""
        for catalog in self.settings.catalogs:
            self.settings.names(config, catalog)

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Registers the table. Raises as `register`."""
        return self.register(session, f"write {committed.instant}")

    def register(self, session: TableSession, done: str) -> tuple[str, ...]:
        """Registers the table after an action; `done` names it in messages. Returns the names of the steps taken.

        Raises:
            HudiError: the registration failed, and `hoodie.datasource.hive_sync.ignore_exceptions` is false.
        """
        where = " and ".join(self.settings.catalogs)
        try:
            report = register(session.storage, session.reread().config, self.settings, session.storage_options)
        except (HudiError, OSError) as error:
            how = (
                "hudi_py.interop.catalogs.sync(path, options=...) or `hudi-py sync` repeats it, as does the next write"
            )
            text = f"the registration of {session.storage.uri} with {where} failed: {first_line(error)}"
            if self.settings.ignores_failures:
                _log.warning("%s; the %s is committed, and %s", text, done, how)
                return ()
            raise HudiError(
                f"The {done} to {session.storage.uri} is committed, but {text}; do not repeat it: fix the cause, and "
                f"{how}"
            ) from error
        return tuple(dict.fromkeys(f"sync {entry.catalog}" for entry in report.entries if entry.done != "unchanged"))
