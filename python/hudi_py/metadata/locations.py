"""Locates records: the record index, secondary indexes, and bloom filters of base files.

A global record index has one location for each key, so it finds every row only if record keys are unique in the table.
In Apache Hudi 1.2.0 an index does not record with which `hoodie.index.type` its table is written, and inserts look up
no keys. So hudi-py stores what it knows (`KeyScope`) next to the index definitions, where Java reads only `index.json`:
the writes whose keys it has checked, or a key with several locations. If there is any other write, it is unknown
whether keys are unique.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.formats.arrays import combined
from hudi_py.formats.keys.bloom import BloomFilter
from hudi_py.metadata.definitions import IndexDefinition, index_definitions
from hudi_py.metadata.keys import (
    UNPARTITIONED,
    bloom_filter_key,
    partition_of_key,
    record_key_of_secondary,
    secondary_prefix,
)
from hudi_py.metadata.records import RecordFields, payload_field, struct_member
from hudi_py.metadata.table import BLOOM_FILTERS, RECORD_INDEX, MetadataTable
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant, InstantTime
from hudi_py.model.layout import RECORD_KEYS
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline

SECONDARY_PREFIX: Final = "secondary_index_"
EXPRESSION_PREFIX: Final = "expr_index_"
_RECORD: Final = "recordIndexMetadata"
_SECONDARY: Final = "SecondaryIndexMetadata"
_BLOOM: Final = "BloomFilterMetadata"
_RECORD_SCHEMA: Final = pa.schema(
    [
        ("partitionName", pa.string()),
        ("fileIdHighBits", pa.int64()),
        ("fileIdLowBits", pa.int64()),
        ("fileIndex", pa.int32()),
        ("fileId", pa.string()),
        ("fileIdEncoding", pa.int32()),
    ]
)
_BLOOM_SCHEMA: Final = pa.schema([("type", pa.string()), ("bloomFilter", pa.binary()), ("isDeleted", pa.bool_())])
_DELETED_SCHEMA: Final = pa.schema([("isDeleted", pa.bool_())])
_RAW: Final = 1
"""`fileIdEncoding` of ids that are stored as text; other ids are a UUID and a number."""
_NO_INDEX: Final = -1
_ESCAPED: Final = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^_-]")
"""Characters of a partition path that are escaped in file names."""
_GLOBAL_GROUPS: Final = "record-index"


def record_locations(metadata: MetadataTable, keys: Iterable[str]) -> dict[str, set[tuple[str, str]]]:
    """Looks up the (partition, file id) of each record key in the table; several if keys are unique only within a
    partition.

    Raises:
        CorruptFileError: the index has no file groups.
    """
    _check_groups(metadata)
    versions = metadata.records(RECORD_INDEX, _members(_RECORD, _RECORD_SCHEMA), keys=keys)
    rows = versions.newest()
    places: dict[str, set[tuple[str, str]]] = {}
    # a loop over the keys of the request
    taken = pa.array(rows)
    for key, row in zip(versions.keys.take(taken).to_pylist(), versions.fields.take(taken).to_pylist(), strict=True):
        places.setdefault(key, set()).add((partition_of_key(row["partitionName"] or ""), location_id(row)))
    return places


def moved_keys(metadata: MetadataTable) -> dict[str, set[tuple[str, str]]]:
    """Returns the keys in the logs of a global record index that have more than one location in its base files and logs
    together, each with all of its (partition, file id), former ones included. Raises as `record_locations`."""
    _check_groups(metadata)
    keys = metadata.logged_keys(RECORD_INDEX).to_pylist()
    if not keys:
        return {}
    versions = metadata.records(RECORD_INDEX, _members(_RECORD, _RECORD_SCHEMA), keys=keys)
    places_of_keys: dict[str, set[tuple[str, str]]] = {}
    there = pa.array(np.flatnonzero(~versions.deleted))
    # a loop over what was written while the index was being built
    for key, row in zip(versions.keys.take(there).to_pylist(), versions.fields.take(there).to_pylist(), strict=True):
        places_of_keys.setdefault(key, set()).add((partition_of_key(row["partitionName"] or ""), location_id(row)))
    return {key: places for key, places in places_of_keys.items() if len(places) > 1}


@dataclass(frozen=True, slots=True)
class Places:
    """The location of each key: string, null if the table has no row with it."""

    partitions: pa.StringArray
    file_ids: pa.StringArray


def places_of(metadata: MetadataTable, keys: pa.StringArray, group_prefix: str | None = None) -> Places:
    """Looks up the location of each key in the record index.

    Args:
        keys: without nulls; may repeat.
        group_prefix: for an index by data partition, the prefix of the file groups to search, see `partition_groups`;
            None: the index is global, and each key has one location.

    Raises:
        CorruptFileError: a global index has no file groups.
    """
    if group_prefix is None:
        _check_groups(metadata)
    elif group_prefix not in metadata.file_groups(RECORD_INDEX):
        nothing = pa.nulls(len(keys), pa.string())
        return Places(nothing, nothing)
    fields, distinct = _members(_RECORD, _RECORD_SCHEMA), keys.unique().to_pylist()
    versions = metadata.records(RECORD_INDEX, fields, keys=distinct, group_prefix=group_prefix)
    rows = pa.array(versions.newest())
    fields = versions.fields.take(rows)
    names = ["fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding"]
    # thousands of rows share few file groups, so each id is built once
    parts = [pc.fill_null(fields[name].cast(pa.string()), "") for name in names]
    groups = pc.binary_join_element_wise(*parts, "\0").combine_chunks().dictionary_encode()
    codes = groups.indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    ids = pa.array([location_id(row) for row in fields.take(pa.array(first)).to_pylist()], pa.string())
    indexed = versions.keys.take(rows)
    at = pc.index_in(keys, value_set=indexed)
    partitions = pc.if_else(pc.equal(fields["partitionName"], UNPARTITIONED), "", fields["partitionName"])
    return Places(combined(partitions).take(at), ids.take(groups.indices).take(at))


def _check_groups(metadata: MetadataTable) -> None:
    if not metadata.file_groups(RECORD_INDEX):
        raise CorruptFileError(f"Partition '{RECORD_INDEX}' of the metadata table at {metadata.storage.uri} is empty")


def partition_groups(partition: str) -> str:
    """Returns the prefix of the ids of the file groups for one data partition, in a record index by data partition
    (`HoodieTableMetadataUtil.getFileIDForFileGroup`, `PartitionPathEncodeUtils.escapeFileName`, 1.2.0)."""
    return "record-index-" + _ESCAPED.sub(lambda matched: f"%{ord(matched[0]):02X}", partition)


def is_by_partition(storage: Storage, config: TableConfig, prefixes: Collection[str]) -> bool:
    """Returns whether the record index is by data partition, from its file groups or, if it has none, its definition.

    The definition may be outdated: Apache Hudi 1.2.0 keeps it when it drops an index, and does not update it when it
    creates one of the other kind. Releases before 1.0 do not store it.

    Args:
        prefixes: prefixes of the ids of its file groups.
    """
    if prefixes:
        return _GLOBAL_GROUPS not in prefixes
    return any(
        definition.name == RECORD_INDEX and definition.options.get("isPartitioned", "").lower() == "true"
        for definition in index_definitions(storage, config)
    )


def location_id(row: Mapping[str, Any]) -> str:
    """Decodes the file id in a record of the record index
    (`HoodieTableMetadataUtil.getLocationFromRecordIndexInfo`)."""
    if row["fileIdEncoding"] == _RAW:
        return row["fileId"] or ""
    high, low, index = row["fileIdHighBits"], row["fileIdLowBits"], row["fileIndex"]
    if high is None or low is None or index is None:
        raise CorruptFileError(f"A record of the record index has no valid file id: {dict(row)}")
    text = str(uuid.UUID(int=(high & 0xFFFFFFFFFFFFFFFF) << 64 | low & 0xFFFFFFFFFFFFFFFF))
    return text if index == _NO_INDEX else f"{text}-{index}"


def keys_of_secondary(
    metadata: MetadataTable, definition: IndexDefinition, values: Iterable[str | None]
) -> frozenset[str]:
    """Looks up the record keys of rows whose secondary column has one of these values, given as text (None: null)."""
    prefixes = {secondary_prefix(value) for value in values}
    # version 1 hashes the whole key, so the value does not determine the file group
    hashed = {prefix: prefix for prefix in prefixes} if definition.version == "V2" else None
    fields = _members(_SECONDARY, _DELETED_SCHEMA)
    versions = metadata.records(definition.name, fields, prefixes=prefixes, hashed=hashed)
    rows = versions.newest()
    removed = pc.fill_null(versions.fields.take(pa.array(rows))["isDeleted"], False)
    live = versions.keys.take(pa.array(rows)).filter(pc.invert(removed))
    return frozenset(record_key_of_secondary(key) for key in live.to_pylist())


def bloom_filters(
    metadata: MetadataTable, files: Iterable[tuple[str, str]], partition: str = BLOOM_FILTERS
) -> dict[tuple[str, str], BloomFilter]:
    """Reads bloom filters of files, by (partition, name); files without one are left out.

    Args:
        partition: that of record keys in base files, or of an expression index.
    """
    places = {bloom_filter_key(partition, name): (partition, name) for partition, name in files}
    versions = metadata.records(partition, _members(_BLOOM, _BLOOM_SCHEMA), keys=places)
    taken = pa.array(versions.newest())
    filters: dict[tuple[str, str], BloomFilter] = {}
    for key, row in zip(versions.keys.take(taken).to_pylist(), versions.fields.take(taken).to_pylist(), strict=True):
        if row["isDeleted"] is False and row["bloomFilter"]:
            place = places[key]
            text = row["bloomFilter"].decode("ascii", "replace")
            filters[place] = BloomFilter.decode(text, row["type"] or None, context="/".join(place))
    return filters


def _members(field: str, schema: pa.Schema) -> RecordFields:
    """Returns members of one field of a record as columns; members that the writer's release lacks are null."""

    def normalise(batch: pa.RecordBatch, avro: Any) -> pa.RecordBatch:
        record = payload_field(batch, field)
        columns = [struct_member(record, member.name, member.type) for member in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return RecordFields([field], schema, normalise)


@dataclass(frozen=True, slots=True)
class KeyScope:
    """What is known about the uniqueness of a table's record keys."""

    seen: frozenset[str] = frozenset()
    """Requested times of the writes on the active timeline that are known to have left keys unique."""
    repeated: str | None = None
    """A key with rows in several file groups."""

    def is_unique(self, config: TableConfig, timeline: Timeline) -> bool:
        """Returns whether keys are unique in the state of a timeline."""
        return self.repeated is None and not _unseen(self.seen, config, timeline)


def read_scope(storage: Storage) -> KeyScope | None:
    """Reads the stored scope; None if there is none. Read it after the timeline: a write updates it before it
    completes.

    Raises:
        CorruptFileError: the note is damaged.
    """
    try:
        data = json.loads(storage.read(RECORD_KEYS))
        repeated = data.get("repeated")
        return KeyScope(frozenset(map(str, data.get("unique") or ())), None if repeated is None else str(repeated))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {storage.uri}/{RECORD_KEYS}: {error!r}") from error


def note_built(state: TableState, repeated: str | None) -> None:
    """Stores the result of building an index from all files of a timeline. The table lock must be held."""
    _put(state.storage, KeyScope(frozenset(instant.time for instant in _writes(state.timeline)), repeated))


def note_write(
    storage: Storage, scope: KeyScope, timeline: Timeline, instant: InstantTime, repeated: str | None
) -> None:
    """Stores what a write does to keys that were unique, before it completes. The table lock must be held.

    Args:
        scope: what was known before.
        timeline: in which the write is pending.
        repeated: a key that it has put into several file groups.
    """
    active = {write.time for write in _writes(timeline)}
    _put(storage, KeyScope((scope.seen & active) | {instant}) if repeated is None else KeyScope(repeated=repeated))


def _put(storage: Storage, scope: KeyScope) -> None:
    known = {"unique": sorted(scope.seen)} if scope.repeated is None else {"repeated": scope.repeated}
    storage.put(RECORD_KEYS, json.dumps(known).encode())


def _writes(timeline: Timeline) -> list[Instant]:
    return [instant for instant in timeline.completed if instant.action.comparable in WRITE_ACTIONS]


def _unseen(seen: frozenset[str], config: TableConfig, timeline: Timeline) -> list[Instant]:
    """Returns writes that may have added keys and are not among `seen`. Compactions, the only commits of merge-on-read
    tables, add none."""
    writes = [instant for instant in _writes(timeline) if instant.time not in seen]
    return [instant for instant in writes if not (config.is_mor and instant.action is Action.COMMIT)]
