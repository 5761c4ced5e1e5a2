"""A catalog in memory, and tables to register."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.interop.catalogs.entry import IncompatibleError, Registered, StoredEntry, TableEntry, Values
from hudi_py.interop.catalogs.register import register_hive_like
from hudi_py.interop.catalogs.settings import SyncSettings
from hudi_py.storage import open_storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import load_state

FAST = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}
HIVE = "hoodie.datasource.hive_sync."


class MemoryCatalog:
    """Holds entries as a Hive metastore would. Notes the calls that change something."""

    def __init__(
        self, name: str = "hms", *, databases: Sequence[str] = ("default",), database: str = "default"
    ) -> None:
        self.name = name
        self.databases = set(databases)
        self.database = database
        self.tables: dict[str, TableEntry] = {}
        self.known: dict[str, dict[Values, str]] = {}
        self.calls: list[str] = []
        self.strict = False

    def has_database(self) -> bool:
        return self.database in self.databases

    def create_database(self) -> None:
        self.calls.append("create_database")
        self.databases.add(self.database)

    def table(self, name: str) -> StoredEntry | None:
        entry = self.tables.get(name)
        return None if entry is None else StoredEntry(entry, {})

    def create(self, entry: TableEntry) -> None:
        self.calls.append(f"create {entry.name}")
        self.tables[entry.name], self.known[entry.name] = entry, {}

    def alter(self, stored: StoredEntry, entry: TableEntry, *, cascade: bool) -> None:
        if self.strict and [each.type for each in entry.columns] != [each.type for each in stored.entry.columns]:
            raise IncompatibleError("types are incompatible")
        self.calls.append(f"alter {entry.name}{' cascade' if cascade else ''}")
        self.tables[entry.name] = entry

    def drop(self, name: str) -> None:
        self.calls.append(f"drop {name}")
        del self.tables[name], self.known[name]

    def partitions(self, name: str) -> dict[Values, str]:
        return dict(self.known[name])

    def add_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        self.calls.append(f"add {sorted(locations)}")
        self.known[stored.entry.name].update(locations)

    def change_partitions(self, stored: StoredEntry, locations: Mapping[Values, str]) -> None:
        self.calls.append(f"change {sorted(locations)}")
        self.known[stored.entry.name].update(locations)

    def drop_partitions(self, name: str, values: Sequence[Values]) -> None:
        self.calls.append(f"drop {sorted(values)}")
        for each in values:
            self.known[name].pop(each, None)

    def close(self) -> None:
        pass


def made(path: Path, rows: Sequence[Mapping[str, Any]], **arguments: Any) -> str:
    """Writes rows to a table at a path, which it returns."""
    options = {**FAST, "hoodie.metadata.enable": "false", **arguments.pop("options", {})}
    hudi_py.write(path, list(rows), options=options, **arguments)
    return str(path)


def registered(catalog: MemoryCatalog, path: str, **options: object) -> list[Registered]:
    """Registers a table with a catalog; options without their prefix `hoodie.datasource.hive_sync.`, `_` for `.`."""
    given = {key if key.startswith("hoodie") else HIVE + key: str(value).lower() for key, value in options.items()}
    settings = SyncSettings.of(Options.resolve(given, Scope.WRITE), enabled=True)
    assert settings is not None
    settings = replace(settings, catalogs=(catalog.name,))
    storage = open_storage(path)
    config = load_table_config(storage)
    names = settings.names(config, catalog.name)
    source = load_state(storage)
    return register_hive_like(catalog, source, settings, names.database, names.table)
