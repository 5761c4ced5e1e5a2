"""Prunes file slices by the locations of record keys: from the record index, and from secondary indexes, which give
keys to locate."""

from __future__ import annotations

from typing import Final

from hudi_py.config import indexes
from hudi_py.metadata.definitions import index_definitions
from hudi_py.metadata.locations import (
    SECONDARY_PREFIX,
    is_by_partition,
    keys_of_secondary,
    read_scope,
    record_locations,
)
from hudi_py.metadata.table import RECORD_INDEX, MetadataTable
from hudi_py.model.files import FileSlice
from hudi_py.model.words import counted
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows, both

_MAX_VALUES: Final = 10_000


def _is_applicable(sought: SoughtRows) -> bool:
    metadata = sought.metadata
    known = sought.is_newest and sought.merged and metadata is not None and metadata.has(RECORD_INDEX)
    return known and (sought.keys is not None or bool(sought.texts))


def _by_location(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    """Returns the slices where the record index has the keys of the filter, or the keys from secondary indexes."""
    metadata = sought.metadata
    if metadata is None or len(slices) < 2:
        return None
    if not sought.looked_up(lambda: _has_every_row(sought, metadata)):
        return Kept(slices, "not used: record keys are not known to be unique in the table")
    result = sought.looked_up(lambda: _secondary_keys(sought, metadata))
    keys, name = (sought.keys, "") if result is None else (both(sought.keys, result[0]), result[1])
    places = None if keys is None else _key_places(sought, metadata, keys)
    if keys is None or places is None:
        return None
    kept = [slice_ for slice_ in slices if (slice_.partition, slice_.file_id) in places]
    why = counted(len(keys), "key")
    return Kept(kept, f"{name}: {why}", "secondary index") if name else Kept(kept, why)


def _has_every_row(sought: SoughtRows, metadata: MetadataTable) -> bool:
    """Returns whether the record index knows every row: a global index has one location for a key."""
    storage, config, timeline = sought.snapshot.storage, sought.snapshot.config, sought.snapshot.timeline
    trusted = sought.request.options.get(indexes.RECORD_INDEX_TRUST)
    if trusted or is_by_partition(storage, config, metadata.file_groups(RECORD_INDEX)):
        return True
    scope = read_scope(storage)
    return scope is not None and scope.is_unique(config, timeline)


def _secondary_keys(sought: SoughtRows, metadata: MetadataTable) -> tuple[frozenset[str], str] | None:
    """Returns record keys from secondary indexes, and the names of the indexes; None if no index fits the filter."""
    if not sought.texts or not any(name.startswith(SECONDARY_PREFIX) for name in metadata.partitions):
        return None
    keys: frozenset[str] | None = None
    names: list[str] = []
    for definition in index_definitions(sought.snapshot.storage, sought.snapshot.config):
        fields = definition.source_fields
        if definition.kind != "secondary_index" or not metadata.has(definition.name) or len(fields) != 1:
            continue
        field = fields[0]
        values = None if field in sought.columns_from_paths else sought.texts.get(field)
        if values is not None and len(values) <= _MAX_VALUES:
            keys = both(keys, keys_of_secondary(metadata, definition, values))
            names.append(definition.name[len(SECONDARY_PREFIX) :])
    return None if keys is None else (keys, ", ".join(names))


def _key_places(sought: SoughtRows, metadata: MetadataTable, keys: frozenset[str]) -> set[tuple[str, str]] | None:
    """Returns (partition, file group) of these keys; None if the record index is not conclusive.

    A merge-on-read table may have a key that its index lacks: Apache Hudi 1.2.0 removes the key when a log deletes the
    row, and treats a later insert of the same key as an update, which does not change the index.
    """
    locations = record_locations(metadata, keys)
    config = sought.snapshot.config
    if config.is_mor:
        prefix = f"{config.record_key_fields[0]}:" if len(config.record_key_fields) == 1 else None
        for key in keys - locations.keys():
            # a key of one column has two forms; the table uses one of them
            other = None if prefix is None else key[len(prefix) :] if key.startswith(prefix) else prefix + key
            if other not in locations:
                return None
    return set().union(*locations.values())


BY_LOCATION: Final = Pruner("record index", _is_applicable, _by_location)
