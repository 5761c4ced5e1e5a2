"""Registers a table with a catalog like Hive's: entries, columns, parameters, partitions (`HiveSyncTool`,
`HMSDDLExecutor`, `AWSGlueCatalogSyncClient`, 1.2.0)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hudi_py.config import interop as config
from hudi_py.interop.catalogs.described import (
    WRITER_VERSION,
    Described,
    Registration,
    described,
    entry_of,
    registrations,
)
from hudi_py.interop.catalogs.entry import (
    Catalog,
    CatalogColumn,
    CatalogError,
    IncompatibleError,
    Registered,
    StoredEntry,
    TableEntry,
    Values,
)
from hudi_py.interop.catalogs.partitions import (
    Extractor,
    PartitionChanges,
    Synced,
    all_changes,
    all_partitions,
    changes_of,
    extractor,
    extractor_name,
    partitions_since,
    same_place,
)
from hudi_py.interop.catalogs.settings import SyncSettings
from hudi_py.timeline.state import TableState

_log = logging.getLogger(__name__)
_TIME = "last_commit_time_sync"
_COMPLETION = "last_commit_completion_time_sync"
_WRITER = "hudi_writer_version"
_NONE = PartitionChanges({}, {}, {}, ())


def register_hive_like(
    catalog: Catalog, source: TableState, settings: SyncSettings, database: str, name: str
) -> list[Registered]:
    """Registers a table under its names.

    Raises:
        CatalogError: the catalog could not be reached, or refused something; the message says what.
        ConfigError: the values of partition columns cannot be taken from the paths of the partitions.
        UnsupportedTableError: the table has no columns yet, or a column of a type that catalogs do not have.
    """
    table = described(source, settings)
    if not catalog.has_database():
        if not settings.options.get(config.CREATE_DATABASE):
            raise CatalogError(
                f"Cannot register the table {table.uri} in {catalog.name}: there is no database {database}; create it, "
                f"or set {config.CREATE_DATABASE.key}=true"
            )
        catalog.create_database()
    run = _Run(catalog, source, settings, table)
    return [run.register(database, registration) for registration in registrations(source.config, settings, name)]


@dataclass(frozen=True, slots=True)
class _Seen:
    """Partitions of a table."""

    locations: Mapping[Values, str]
    dropped: tuple[Values, ...] = ()
    """The deleted ones among them."""
    whole: bool = True
    """Whether they are all partitions of the table, and not only those that were written."""


@dataclass(frozen=True, slots=True)
class _Run:
    catalog: Catalog
    source: TableState
    settings: SyncSettings
    table: Described

    def register(self, database: str, chosen: Registration) -> Registered:
        wanted = entry_of(self.table, self.settings, chosen)
        stored = self.catalog.table(chosen.name)
        if stored is not None and not same_place(stored.entry.location, wanted.location):
            if not _is_hudi(stored.entry):
                raise CatalogError(
                    f"Cannot register the table {wanted.location} in {self.catalog.name} as {database}.{chosen.name}: "
                    f"there is another table with this name, at {stored.entry.location}; set {config.TABLE.key} or "
                    f"{config.DATABASE.key}"
                )
            _log.warning(
                "the table %s.%s in %s was registered with the location %s: it is replaced by %s",
                database,
                chosen.name,
                self.catalog.name,
                stored.entry.location,
                wanted.location,
            )
            self.catalog.drop(chosen.name)
            stored = None
        try:
            return self._register(database, wanted, stored)
        except IncompatibleError as error:
            if stored is None or not self.settings.recreates(self.catalog.name):
                raise
            _log.warning("the table %s.%s is registered again: %s", database, chosen.name, error)
            self.catalog.drop(chosen.name)
            return self._register(database, wanted, None)

    def _register(self, database: str, wanted: TableEntry, stored: StoredEntry | None) -> Registered:
        now = Synced.now(self.source.timeline)
        before = None if stored is None else _last_synced(stored.entry)
        incremental = self.settings.options.get(config.INCREMENTAL)
        report = Registered(self.catalog.name, f"{database}.{wanted.name}", None if now is None else now.time)
        if incremental and before is not None and before == now:
            return replace(report, done="unchanged")
        created = stored is None
        seen = self._seen(wanted, before if incremental and not created else None)
        columns_changed = False
        if stored is None:
            self.catalog.create(_stamped_entry(wanted, None))
        else:
            columns_changed = _columns_differ(stored.entry, wanted)
            if columns_changed:
                changed = replace(stored.entry, columns=_kept_comments(stored.entry, wanted, self.settings))
                self.catalog.alter(stored, changed, cascade=bool(changed.partition_columns))
                stored = None
        current = stored or self._stored(wanted.name)
        changes = self._changes(wanted.name, seen)
        self._apply(current, changes)
        counts = (len(changes.added), len(changes.moved), len(changes.dropped))
        differs = created or columns_changed or any(counts) or _parameters_differ(current.entry, wanted)
        if self.settings.options.get(config.CONDITIONAL) and not differs:
            now = before
        final = _stamped_entry(_with_parameters(current.entry, wanted), now, writer=self.catalog.name == config.HMS)
        if final != current.entry:
            self.catalog.alter(current, final, cascade=False)
        return replace(
            report,
            done="created" if created else "changed" if differs else "noted",
            columns_changed=columns_changed,
            partitions_added=counts[0],
            partitions_changed=counts[1],
            partitions_dropped=counts[2],
        )

    def _stored(self, name: str) -> StoredEntry:
        entry = self.catalog.table(name)
        if entry is None:
            raise CatalogError(f"The table {name} has disappeared from {self.catalog.name}; register it again")
        return entry

    def _seen(self, wanted: TableEntry, before: Synced | None) -> _Seen | None:
        """Returns the partitions to register, before anything is changed; None if there is nothing to do."""
        if self.settings.options.get(config.NO_PARTITIONS) or not wanted.partition_columns:
            return None
        names = tuple(column.name for column in wanted.partition_columns)
        values = extractor(
            self.settings.options.get(config.EXTRACTOR) or extractor_name(self.table.config, names), names
        )
        source = self.source
        touched = None if before is None else partitions_since(source, before)
        if touched is None:
            paths = all_partitions(source)
            return _Seen(self._locations(paths, values))
        if not touched.written and not touched.dropped:
            return None
        dropped = tuple(result for path in touched.dropped if (result := values(path)))
        return _Seen(self._locations({*touched.written, *touched.dropped}, values), dropped, whole=False)

    def _changes(self, name: str, seen: _Seen | None) -> PartitionChanges:
        if seen is None:
            return _NONE
        known = self.catalog.partitions(name)
        if seen.whole:
            return all_changes(known, seen.locations)
        changes = changes_of(seen.locations, seen.dropped, known)
        return changes if self.settings.options.get(config.TOUCH) else replace(changes, touched={})

    def _locations(self, paths: Iterable[str], values: Extractor) -> dict[Values, str]:
        return {result: f"{self.table.uri}/{path}" for path in sorted(paths) if (result := values(path))}

    def _apply(self, stored: StoredEntry, changes: PartitionChanges) -> None:
        if changes.added:
            self.catalog.add_partitions(stored, changes.added)
        stored_again: Mapping[Values, str] = {**changes.moved, **changes.touched}
        if stored_again:
            self.catalog.change_partitions(stored, stored_again)
        if changes.dropped:
            self.catalog.drop_partitions(stored.entry.name, changes.dropped)


def _is_hudi(entry: TableEntry) -> bool:
    """Returns whether an entry belongs to a Hudi table."""
    return _TIME in entry.parameters or entry.parameters.get("spark.sql.sources.provider", "").lower() == "hudi"


def _last_synced(entry: TableEntry) -> Synced | None:
    time = entry.parameters.get(_TIME)
    return None if time is None else Synced(time, entry.parameters.get(_COMPLETION))


def _stamped_entry(entry: TableEntry, synced: Synced | None, *, writer: bool = False) -> TableEntry:
    """Adds to an entry the table's state, and the release whose entries it imitates."""
    more = {} if synced is None else {_TIME: synced.time}
    if synced is not None and synced.completion is not None:
        more[_COMPLETION] = synced.completion
    if writer:
        more[_WRITER] = WRITER_VERSION
    return replace(entry, parameters={**entry.parameters, **more})


def _columns_differ(stored: TableEntry, wanted: TableEntry) -> bool:
    """Returns whether columns are added, dropped or retyped, ignoring order and case
    (`HiveSchemaUtil.getSchemaDifference`)."""
    return (
        _column_types(stored) != _column_types(wanted) or _column_comments(wanted) - _column_comments(stored) != set()
    )


def _column_types(entry: TableEntry) -> dict[str, str]:
    # types of partition columns cannot be changed
    return {column.name.lower(): column.type.lower().replace(" ", "") for column in entry.columns}


def _column_comments(entry: TableEntry) -> set[tuple[str, str]]:
    return {(column.name.lower(), column.comment) for column in entry.columns if column.comment}


def _kept_comments(stored: TableEntry, wanted: TableEntry, settings: SyncSettings) -> tuple[CatalogColumn, ...]:
    known = {column.name.lower(): column.comment for column in stored.columns}
    if settings.options.get(config.COMMENTS):
        return wanted.columns
    return tuple(replace(column, comment=known.get(column.name.lower(), "")) for column in wanted.columns)


def _parameters_differ(stored: TableEntry, wanted: TableEntry) -> bool:
    return (
        not wanted.parameters.items() <= stored.parameters.items()
        or not wanted.serde_parameters.items() <= stored.serde_parameters.items()
        or stored.format != wanted.format
    )


def _with_parameters(stored: TableEntry, wanted: TableEntry) -> TableEntry:
    """Updates a stored entry with everything wanted except columns. Keeps parameters that others added."""
    serde = {**stored.serde_parameters, **wanted.serde_parameters}
    parameters = {**stored.parameters, **wanted.parameters}
    return replace(
        stored, format=wanted.format, location=wanted.location, parameters=parameters, serde_parameters=serde
    )
