"""Prunes file slices by the record keys that a scan seeks: by their locations from the record index, and from secondary
indexes, which give keys to locate; and slices without logs by bloom filters, from the metadata table or from footers,
and by the bounds in footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from hudi_py.config import indexes
from hudi_py.errors import HudiError, StorageError
from hudi_py.expressions.filter import Filter
from hudi_py.formats.base.files import open_base_file
from hudi_py.formats.base.reader import OpenBaseFile
from hudi_py.metadata.definitions import index_definitions
from hudi_py.metadata.locations import (
    SECONDARY_PREFIX,
    bloom_filters,
    is_by_partition,
    keys_of_secondary,
    read_scope,
    record_locations,
)
from hudi_py.metadata.table import BLOOM_FILTERS, RECORD_INDEX, MetadataTable
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.words import counted
from hudi_py.read.pruning.bounds import row_groups_to_read
from hudi_py.read.pruning.keys import key_bounds
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows, both, place_of
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads

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


_MAX_FOOTERS: Final = 256
"""Maximum number of footers read while planning; tasks read them anyway."""


def _has_filters(sought: SoughtRows) -> bool:
    return bool(sought.keys) and sought.metadata is not None and sought.metadata.has(BLOOM_FILTERS)


def _by_bloom_filter(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    """Returns the slices that remain after the bloom filters in the metadata table."""
    among, keys = _without_logs(slices), sought.keys or frozenset()
    if not among or sought.metadata is None:
        return None
    filters = bloom_filters(sought.metadata, [(file.partition, str(file.name)) for file in among])
    wanted = _sorted_keys(keys)
    matches = {place: item.might_contain_any(wanted) for place, item in filters.items()}
    sought.answered |= matches.keys()
    return Kept(_matching_slices(slices, matches), counted(len(keys), "key"))


def _by_footer(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice] | None:
    """Returns the slices that remain after the footers of base files that no bloom filter in the metadata table
    decided."""
    keys = sought.keys or frozenset()
    left = [file for file in _without_logs(slices) if place_of(file) not in sought.answered]
    left = [file for file in left if file.name.extension == "parquet"]
    if not 1 < len(left) <= _MAX_FOOTERS:
        return None
    kept = in_threads(lambda file: _may_have(sought.snapshot.storage, file, keys), left)
    return Kept(_matching_slices(slices, dict(zip(map(place_of, left), kept, strict=True))), counted(len(keys), "key"))


def _may_have(storage: Storage, file: BaseFile, keys: frozenset[str]) -> bool:
    """Returns whether a base file may have one of the keys, by the bounds and the bloom filter in its footer."""
    wanted = _sorted_keys(keys)
    try:
        with open_base_file(storage, file.path) as opened:
            footer = opened.footer
            inside = footer.in_range(wanted)
            if inside is not None:
                wanted = wanted.filter(inside)
            elif footer.min_key is None and not _has_row_groups(opened, keys):
                return False
        bloom = footer.bloom if len(wanted) else None
        return bool(len(wanted)) and (bloom is None or bloom.might_contain_any(wanted))
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError):
        return True  # reading the file raises the error


def _has_row_groups(file: OpenBaseFile, keys: frozenset[str]) -> bool:
    """Returns whether a row group may have one of the keys, by the statistics of the key column."""
    if file.parquet is None:
        return True
    node = key_bounds(keys)[0]
    groups = range(file.parquet.metadata.num_row_groups)
    return bool(row_groups_to_read(file.parquet, groups, Filter("", node.columns(), predicate=node)))


def _sorted_keys(keys: frozenset[str]) -> pa.Array:
    return pa.array(sorted(keys), pa.string())


def _without_logs(slices: Sequence[FileSlice]) -> list[BaseFile]:
    """Returns the base files of slices without logs."""
    return [slice_.base_file for slice_ in slices if slice_.base_file is not None and not slice_.log_files]


def _matching_slices(slices: Sequence[FileSlice], matches: Mapping[tuple[str, str], bool]) -> list[FileSlice]:
    """Removes slices without logs whose base file does not match."""
    missed = {id(file) for file in _without_logs(slices) if not matches.get(place_of(file), True)}
    return [slice_ for slice_ in slices if id(slice_.base_file) not in missed]


BY_BLOOM_FILTER: Final = Pruner("bloom filters", _has_filters, _by_bloom_filter)
BY_FOOTER: Final = Pruner("footers", lambda sought: bool(sought.keys), _by_footer, by_metadata=False)
