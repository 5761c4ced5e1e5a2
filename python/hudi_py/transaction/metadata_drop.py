"""Drops the metadata table when a write switches it off.

Java's readers miss a commit that the metadata table lacks, so the commit that would outdate the metadata table also
drops it: first the properties that make readers trust it, then its folder, then the definitions of its indexes
(`HoodieTableMetadataUtil.deleteMetadataTable`, 1.2.0).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_py.config import concurrency
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.file_stats.sidecar import SidecarSettings
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.layout import INDEX_DEFINITIONS, METADATA_TABLE
from hudi_py.model.properties import METADATA_TO_MAKE, TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import MetadataUpdate, TableChange

if TYPE_CHECKING:
    from hudi_py.transaction.session import TableSession

DROPPABLE = frozenset({"files", "column_stats", "partition_stats", "bloom_filters"})
"""Java's next write rebuilds these automatically; other indexes are made on request and are costly to rebuild."""

_WHOLE = "files"
"""The partition that is dropped only with the whole metadata table."""
_PARTITIONS = "hoodie.table.metadata.partitions"
_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
_DEFINITIONS = "hoodie.table.index.defs.path"


@dataclass(frozen=True, slots=True)
class DropMetadata:
    """A `MetadataWriter` that drops the metadata table with the first action that would outdate it."""

    drop_indexes: bool = False
    """Whether metadata-table indexes made on request (record, secondary, expression) may be dropped."""

    @property
    def maintains(self) -> bool:
        return False

    @property
    def builder(self) -> None:
        return None

    def check(self, session: TableSession, rolled_back: tuple[InstantTime, ...] = ()) -> None:
        if not rolled_back or _has_changes_of(session.storage, rolled_back):
            check_droppable(session.config, drop_indexes=self.drop_indexes)

    def prepare(self, session: TableSession, timeline: Timeline) -> TableConfig:
        return session.config

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        if change.action is Action.ROLLBACK and not _has_changes_of(session.storage, change.rolled_back):
            return MetadataUpdate()  # it has no records of the undone instants
        return MetadataUpdate(drop_metadata_table(session.storage, drop_indexes=self.drop_indexes))

    def convert(self, session: TableSession, timeline: Timeline, version: int) -> TableConfig:
        drop_metadata_table(session.storage, drop_indexes=self.drop_indexes)
        return load_table_config(session.storage)

    def sidecar(self, config: TableConfig, schema_json: str) -> SidecarSettings | None:
        return None


def check_droppable(config: TableConfig, *, drop_indexes: bool) -> None:
    """Refuses a write that would have to drop an index made on request.

    Raises:
        ConfigError: such an index exists and `drop_indexes` is False.
    """
    there = {*config.metadata_partitions, *config.metadata_partitions_inflight, *config.metadata_partitions_to_make}
    kept = sorted(there - DROPPABLE)
    if kept and not drop_indexes:
        raise ConfigError(
            f"Cannot write to the table {config.name!r} without its metadata table (hoodie.metadata.enable=false): it "
            f"holds the indexes {', '.join(kept)}, which would be dropped with it; write with it, or "
            "with hoodie.py.drop.indexes=true, which drops the whole metadata table"
        )


def drop_metadata_table(storage: Storage, *, drop_indexes: bool, to_make: Collection[str] = ()) -> tuple[str, ...]:
    """Drops the metadata table if there is one; the table lock must be held. Safe to repeat after a crash.

    Args:
        to_make: partitions that the caller creates next. The properties list them in case of a crash, and their
            definitions stay, since they give the kind of each index.

    Returns:
        The former partitions, sorted: pass them to `warn_dropped`.

    Raises:
        ConfigError: as `check_droppable`; nothing is changed then.
    """
    config = load_table_config(storage)
    check_droppable(config, drop_indexes=drop_indexes)
    dropped = tuple(sorted(set(config.metadata_partitions + config.metadata_partitions_inflight)))
    changes = {_PARTITIONS: None, _INFLIGHT: None, METADATA_TO_MAKE: ",".join(sorted(to_make)) or None}
    if to_make or not changes.keys().isdisjoint(config.properties):
        update_table_config(storage, changes)
    there = storage.stat(METADATA_TABLE) is not None or bool(storage.list(METADATA_TABLE))
    if there:
        storage.delete_tree(METADATA_TABLE)
    if dropped or there:
        _clear_definitions(storage, config, to_make)
    return dropped


def warn_dropped(config: TableConfig, dropped: tuple[str, ...]) -> None:
    """Warns that the metadata table or some of its indexes were dropped. Must be called after the commit."""
    if not dropped:
        return
    names = ", ".join(dropped)
    text = (
        f"Dropped the metadata table of {config.name!r} (partitions {names}): reads list the storage instead, and the "
        "next write with hoodie.metadata.enable=true rebuilds it"
        if _WHOLE in dropped
        else f"Dropped the indexes {names} of {config.name!r}, which hudi-py does not maintain"
    )
    warnings.warn(text, UserWarning, stacklevel=2)


def _has_changes_of(storage: Storage, instants: tuple[InstantTime, ...]) -> bool:
    """Returns whether the metadata table has changes of the instants, which must not outlive them."""
    meta = f"{METADATA_TABLE}/.hoodie"
    names = [info.name for folder in (meta, f"{meta}/timeline") for info in storage.list(folder)]
    return any(name.startswith(instants) for name in names)


def _clear_definitions(storage: Storage, config: TableConfig, kept: Collection[str]) -> None:
    path = config.properties.get(_DEFINITIONS, INDEX_DEFINITIONS).strip("/")
    try:
        content = json.loads(storage.read(path))
    except FileNotFoundError:
        return
    except ValueError as error:
        raise CorruptFileError(f"Cannot read the index definitions {path}: {error}; expected JSON") from error
    definitions = content.get("indexDefinitions") if isinstance(content, dict) else None
    left = (
        {name: definition for name, definition in definitions.items() if name in kept}
        if isinstance(definitions, dict)
        else {}
    )
    if definitions and left != definitions:
        storage.put(path, json.dumps({**content, "indexDefinitions": left}, indent=2).encode())


def dropped_meanwhile(
    instant: InstantTime, before: TableConfig, now: TableConfig, relied_on: Collection[str]
) -> ConflictError | None:
    """Returns the error of a write that read partitions of the metadata table which another writer has dropped since;
    None if they all still exist. Properties are changed before any file is removed.

    Args:
        before, now: the properties when the write was planned, and the current ones.
        relied_on: the partitions.
    """
    gone = sorted({*relied_on} & {*before.metadata_partitions} - {*now.metadata_partitions})
    if not gone:
        return None
    return ConflictError(
        f"Cannot continue the write {instant}: another writer has dropped the metadata partition {', '.join(gone)}, "
        f"which was used to look up keys; nothing was published: write again ({concurrency.RETRIES.key} does so "
        "automatically)",
        instant=instant,
    )
