"""The JSON metadata of an Iceberg table, its changes, and partition specs, whose values come from the paths of Hudi's
partitions and never from files.

Changes are the `TableUpdate`s of Iceberg's REST catalog, which every pyiceberg catalog accepts; `applied` applies them
to metadata without a catalog.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudi_py.interop.iceberg.columns import Json
from hudi_py.model.names import NULL_PARTITION, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.read.partition import partition_values, path_parts, path_values, paths_hold_values

MAIN: Final = "main"
FIRST_PARTITION_ID: Final = 1000
_METADATA_LOG: Final = 10
"""Number of former metadata files to keep, for `write.metadata.previous-versions-max`."""
FIXED_PROPERTIES: Final = {
    # engines must not delete Hudi's files: neither when they expire snapshots, nor on DROP TABLE ... PURGE
    "gc.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(_METADATA_LOG),
}


def new_metadata(location: str, fields: Sequence[Json], last_id: int, timestamp_ms: int) -> Json:
    """Builds the metadata of an empty table without partitions."""
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": timestamp_ms,
        "last-column-id": last_id,
        "current-schema-id": 0,
        "schemas": [schema_json(0, fields)],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": FIRST_PARTITION_ID - 1,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }


def schema_json(number: int, fields: Sequence[Json]) -> Json:
    return {"type": "struct", "schema-id": number, "fields": list(fields), "identifier-field-ids": []}


def current_schema(metadata: Json) -> Json:
    """Returns the current schema of the table."""
    number = metadata["current-schema-id"]
    return next(item for item in metadata["schemas"] if item["schema-id"] == number)


def current_snapshot(metadata: Json) -> Json | None:
    """Returns the newest snapshot; None if nothing was published yet."""
    ref = metadata.get("refs", {}).get(MAIN)
    number = metadata.get("current-snapshot-id") if ref is None else ref["snapshot-id"]
    return next((item for item in metadata.get("snapshots") or () if item["snapshot-id"] == number), None)


def snapshots(metadata: Json) -> list[Json]:
    """Returns all snapshots that are kept, oldest first."""
    return sorted(metadata.get("snapshots") or (), key=lambda item: int(item["sequence-number"]))


def properties(metadata: Json) -> dict[str, str]:
    return dict(metadata.get("properties") or {})


def applied(metadata: Json, updates: Iterable[Json]) -> Json:
    """Applies changes to metadata."""
    result = {**metadata, "properties": properties(metadata)}
    for update in updates:
        _APPLY[update["action"]](result, update)
    return result


def with_log(metadata: Json, former: str, former_ms: int) -> tuple[Json, list[str]]:
    """Adds the location of the former metadata to the log, and returns the former ones that exceed its length."""
    log = [*metadata["metadata-log"], {"metadata-file": former, "timestamp-ms": former_ms}]
    dropped = [item["metadata-file"] for item in log[:-_METADATA_LOG]]
    return {**metadata, "metadata-log": log[-_METADATA_LOG:]}, dropped


def _add_schema(metadata: Json, update: Json) -> None:
    schema = update["schema"]
    metadata["schemas"] = [*metadata["schemas"], schema]
    metadata["last-column-id"] = max(metadata["last-column-id"], update["last-column-id"])


def _set_schema(metadata: Json, update: Json) -> None:
    metadata["current-schema-id"] = update["schema-id"]


def _add_spec(metadata: Json, update: Json) -> None:
    spec = update["spec"]
    metadata["partition-specs"] = [*metadata["partition-specs"], spec]
    numbers = [field["field-id"] for field in spec["fields"]]
    metadata["last-partition-id"] = max([metadata["last-partition-id"], *numbers])


def _set_spec(metadata: Json, update: Json) -> None:
    metadata["default-spec-id"] = update["spec-id"]


def _set_properties(metadata: Json, update: Json) -> None:
    metadata["properties"].update(update["updates"])


def _add_snapshot(metadata: Json, update: Json) -> None:
    snapshot = update["snapshot"]
    metadata["snapshots"] = [*metadata["snapshots"], snapshot]
    metadata["last-sequence-number"] = snapshot["sequence-number"]
    metadata["last-updated-ms"] = snapshot["timestamp-ms"]


def _set_ref(metadata: Json, update: Json) -> None:
    number = update["snapshot-id"]
    metadata["refs"] = {**metadata["refs"], update["ref-name"]: {"snapshot-id": number, "type": update["type"]}}
    if update["ref-name"] == MAIN:
        metadata["current-snapshot-id"] = number
        entry = {"snapshot-id": number, "timestamp-ms": metadata["last-updated-ms"]}
        metadata["snapshot-log"] = [*metadata["snapshot-log"], entry]


def _remove_snapshots(metadata: Json, update: Json) -> None:
    gone = set(update["snapshot-ids"])
    kept = [item for item in metadata["snapshots"] if item["snapshot-id"] not in gone]
    metadata["snapshots"] = [_without_parent(item, gone) for item in kept]
    metadata["snapshot-log"] = [item for item in metadata["snapshot-log"] if item["snapshot-id"] not in gone]
    used = {metadata["current-schema-id"], *(item.get("schema-id") for item in kept)}
    metadata["schemas"] = [item for item in metadata["schemas"] if item["schema-id"] in used]


def _without_parent(snapshot: Json, gone: set[Any]) -> Json:
    if snapshot.get("parent-snapshot-id") not in gone:
        return snapshot
    return {key: value for key, value in snapshot.items() if key != "parent-snapshot-id"}


_APPLY: Final = {
    "add-schema": _add_schema,
    "set-current-schema": _set_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_spec,
    "set-properties": _set_properties,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshots": _remove_snapshots,
}


def values_of(config: TableConfig, schema: pa.Schema, path: PartitionPath, uri: str) -> dict[str, Any]:
    """Returns the partition columns for which a partition's path gives the value that all of its rows share, with this
    value.

    Other columns are read from the files. Raises UnsupportedTableError if the path lacks the value of a column that
    files do not have.
    """
    fields = [name for name in config.partition_fields if name in schema.names]
    known = partition_values(config, schema, path)
    parts = path_parts(config, path) if paths_hold_values(config) else None
    known |= {
        name: pa.scalar(None, schema.field(name).type) for name, text in (parts or {}).items() if text == NULL_PARTITION
    }
    known |= dict(path_values(config, schema, path, uri))
    return {name: known[name].as_py() for name in fields if name in known}


def hidden_columns(config: TableConfig) -> frozenset[str]:
    """Returns partition columns that writers leave out of files, or leave empty in them (`drop.partition.columns`)."""
    return frozenset(config.partition_fields) if config.drops_partition_columns else frozenset()


@dataclass(frozen=True, slots=True)
class Specs:
    """The partition specs of a table, each the identity of some columns."""

    known: tuple[Json, ...]
    added: tuple[Json, ...] = ()

    def with_columns(self, names: Iterable[str], ids: Mapping[str, int]) -> tuple[Specs, Json]:
        """Returns the specs including the one with these columns, and that spec."""
        wanted = [(name, ids[name]) for name in names]
        for spec in (*self.known, *self.added):
            if [(field["source-id"], field["transform"]) for field in spec["fields"]] == [
                (number, "identity") for _, number in wanted
            ]:
                return self, spec
        every = [field for spec in (*self.known, *self.added) for field in spec["fields"]]
        numbers = {field["source-id"]: field["field-id"] for field in every if field["transform"] == "identity"}
        names_of = {field["source-id"]: field["name"] for field in every if field["transform"] == "identity"}
        following = max([FIRST_PARTITION_ID - 1, *(field["field-id"] for field in every)]) + 1
        fields = []
        for name, number in wanted:
            if number not in numbers:
                numbers[number], names_of[number], following = following, name, following + 1
            own = {"source-id": number, "field-id": numbers[number], "transform": "identity"}
            fields.append({**own, "name": names_of[number]})
        spec = {"spec-id": max(item["spec-id"] for item in (*self.known, *self.added)) + 1, "fields": fields}
        return Specs(self.known, (*self.added, spec)), spec
