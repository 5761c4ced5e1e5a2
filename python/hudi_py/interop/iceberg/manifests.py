"""Manifests and manifest lists: the Avro files that name an Iceberg table's files (specification, version 2)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from hudi_py.errors import CorruptFileError, first_line
from hudi_py.formats.avro import minimal_fixed_size
from hudi_py.interop.iceberg.columns import Json

EXISTING, ADDED, REMOVED = 0, 1, 2
"""Status of an entry."""
DATA, POSITION_DELETES = 0, 1
"""Content of a file. A manifest holds either data files (0) or delete files (1)."""
_CODEC: Final = "deflate"
_MAPS: Final = frozenset({"value_counts", "null_value_counts", "lower_bounds", "upper_bounds"})


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file of an Iceberg table."""

    status: int
    snapshot_id: int | None
    sequence: int | None
    """Number of the snapshot that added it; None for the one that is being written."""
    spec_id: int
    file: Json
    """`data_file` of the specification; all members if the entry was read in full."""

    @property
    def path(self) -> str:
        return str(self.file["file_path"])

    @property
    def content(self) -> int:
        return int(self.file["content"])

    def as_status(self, status: int, snapshot_id: int | None = None) -> ManifestEntry:
        return replace(self, status=status, snapshot_id=self.snapshot_id if snapshot_id is None else snapshot_id)


def data_file(path: str, content: int, partition: Mapping[str, Any], rows: int, size: int, **more: Any) -> Json:
    """Builds a `data_file` for a Parquet file.

    Args:
        partition: values by the names of the fields of its partition spec.
        more: further members, such as bounds: maps have ids as keys.
    """
    return {
        "content": content,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": dict(partition),
        "record_count": rows,
        "file_size_in_bytes": size,
        **more,
    }


def write_manifest(entries: Sequence[ManifestEntry], schema: Json, spec: Json) -> bytes:
    """Encodes a manifest of entries with the same spec, which are either data files or delete files."""
    import fastavro

    kinds = {field["id"]: field["type"] for field in schema["fields"]}
    partition = [(field["name"], kinds[field["source-id"]], field["field-id"]) for field in spec["fields"]]
    content = "data" if not entries or entries[0].content == DATA else "deletes"
    metadata = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": json.dumps(spec["fields"]),
        "partition-spec-id": str(spec["spec-id"]),
        "format-version": "2",
        "content": content,
    }
    records = (
        {
            "status": entry.status,
            "snapshot_id": entry.snapshot_id,
            "sequence_number": entry.sequence,
            "file_sequence_number": entry.sequence,
            "data_file": {key: _id_pairs(value) if key in _MAPS else value for key, value in entry.file.items()},
        }
        for entry in entries
    )
    out = io.BytesIO()
    avro = fastavro.parse_schema(_entry_schema(partition))
    fastavro.writer(out, avro, records, codec=_CODEC, metadata=metadata)
    return out.getvalue()


def _id_pairs(values: Any) -> Any:
    """Converts a map with ids as keys to its Avro form, unless it has it already."""
    if not isinstance(values, dict):
        return values
    return [{"key": number, "value": value} for number, value in values.items()]


def read_manifest(data: bytes, manifest: Json, *, whole: bool) -> list[ManifestEntry]:
    """Reads the entries of a manifest, including those of removed files.

    Args:
        manifest: its entry in a manifest list.
        whole: whether to read all of a file's members; otherwise those that identify and count it.

    Raises:
        CorruptFileError: it is not a manifest.
    """
    records = _read_records(data, manifest["manifest_path"], None if whole else _brief_schema())
    result = []
    for record in records:
        sequence = record.get("sequence_number")
        if sequence is None and record["status"] == ADDED:
            sequence = manifest["sequence_number"]
        snapshot = record.get("snapshot_id")
        snapshot = manifest["added_snapshot_id"] if snapshot is None else snapshot
        result.append(
            ManifestEntry(record["status"], snapshot, sequence, manifest["partition_spec_id"], record["data_file"])
        )
    return result


def manifest_entry(
    path: str, size: int, entries: Sequence[ManifestEntry], schema: Json, spec: Json, snapshot: tuple[int, int]
) -> Json:
    """Builds the entry of a new manifest in a manifest list.

    Args:
        snapshot: id and sequence number of the one that is being written.
    """
    by_status = {
        status: [entry for entry in entries if entry.status == status] for status in (ADDED, EXISTING, REMOVED)
    }
    live = [snapshot[1] if entry.sequence is None else entry.sequence for entry in entries if entry.status != REMOVED]
    counts = {name: by_status[status] for name, status in _COUNTED}
    return {
        "manifest_path": path,
        "manifest_length": size,
        "partition_spec_id": spec["spec-id"],
        "content": 0 if not entries or entries[0].content == DATA else 1,
        "sequence_number": snapshot[1],
        "min_sequence_number": min(live, default=snapshot[1]),
        "added_snapshot_id": snapshot[0],
        **{f"{name}_files_count": len(item) for name, item in counts.items()},
        **{f"{name}_rows_count": sum(one.file["record_count"] for one in item) for name, item in counts.items()},
        "partitions": _partition_summaries([entry.file["partition"] for entry in entries], schema, spec),
    }


_COUNTED: Final = (("added", ADDED), ("existing", EXISTING), ("deleted", REMOVED))


def write_list(manifests: Sequence[Json], snapshot_id: int, parent: int | None, sequence: int) -> bytes:
    """Encodes the manifest list of a snapshot."""
    import fastavro

    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": "2",
    }
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(_list_schema()), manifests, codec=_CODEC, metadata=metadata)
    return out.getvalue()


def read_list(data: bytes, path: str) -> list[Json]:
    """Reads the manifests of a snapshot. Raises CorruptFileError."""
    return _read_records(data, path, None)


def value_bytes(kind: str, value: Any) -> bytes:
    """Encodes a value as Iceberg stores bounds (specification, appendix D)."""
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if isinstance(value, Decimal):
        value = int(value.scaleb(_decimal_scale(kind)).to_integral_value())
    if kind.startswith("decimal"):
        number = int(value)
        return number.to_bytes(max(1, (number + (number < 0)).bit_length() // 8 + 1), "big", signed=True)
    if isinstance(value, date):
        value = (value - _EPOCH).days
    if kind in ("int", "date"):
        return int(value).to_bytes(4, "little", signed=True)
    if kind in ("long", "timestamp", "timestamptz", "time"):
        return int(value).to_bytes(8, "little", signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)


_EPOCH: Final = date(1970, 1, 1)


def _decimal_scale(kind: str) -> int:
    return int(kind.rpartition(",")[2].rstrip(")"))


def _partition_summaries(partitions: Iterable[Mapping[str, Any]], schema: Json, spec: Json) -> list[Json]:
    kinds = {field["id"]: field["type"] for field in schema["fields"]}
    item = list(partitions)
    result = []
    for field in spec["fields"]:
        kind = kinds[field["source-id"]]
        values = [partition[field["name"]] for partition in item]
        known = [value for value in values if value is not None]
        bounds = [value_bytes(kind, pick(known)) for pick in (min, max)] if known else [None, None]
        summary = {"contains_null": len(known) < len(values), "contains_nan": False}
        result.append({**summary, "lower_bound": bounds[0], "upper_bound": bounds[1]})
    return result


def _read_records(data: bytes, path: str, schema: Any) -> list[Json]:
    import fastavro

    try:
        return list(fastavro.reader(io.BytesIO(data), schema))  # type: ignore[arg-type]
    except Exception as error:  # fastavro raises anything for corrupt bytes
        raise CorruptFileError(
            f"Cannot read the Iceberg metadata {path}: {first_line(error)}; publish the table anew: unpublish, publish",
            path=path,
        ) from error


# -- Avro schemas


def _avro_field(name: str, number: int, kind: Any, optional: bool = False) -> Json:
    if not optional:
        return {"name": name, "type": kind, "field-id": number}
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _ids_to(name: str, number: int, key: int, value: int, kind: str) -> Json:
    """Returns the type of a map with ids as keys, which Avro's own maps do not support."""
    record = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_avro_field("key", key, "int"), _avro_field("value", value, kind)],
    }
    return _avro_field(name, number, {"type": "array", "items": record, "logicalType": "map"}, True)


def _avro_kind(kind: str) -> Any:
    if kind == "date":
        return {"type": "int", "logicalType": "date"}
    if kind.startswith("decimal"):
        precision = int(kind[len("decimal(") :].partition(",")[0])
        size, scale = minimal_fixed_size(precision), _decimal_scale(kind)
        parts = {"size": size, "logicalType": "decimal", "precision": precision, "scale": scale}
        return {"type": "fixed", "name": f"decimal_{precision}_{scale}", **parts}
    return kind


def _entry_schema(partition: Sequence[tuple[str, str, int]]) -> Json:
    values = [_avro_field(name, number, _avro_kind(kind), True) for name, kind, number in partition]
    file = [
        _avro_field("content", 134, "int"),
        _avro_field("file_path", 100, "string"),
        _avro_field("file_format", 101, "string"),
        _avro_field("partition", 102, {"type": "record", "name": "r102", "fields": values}),
        _avro_field("record_count", 103, "long"),
        _avro_field("file_size_in_bytes", 104, "long"),
        _ids_to("column_sizes", 108, 117, 118, "long"),
        _ids_to("value_counts", 109, 119, 120, "long"),
        _ids_to("null_value_counts", 110, 121, 122, "long"),
        _ids_to("nan_value_counts", 137, 138, 139, "long"),
        _ids_to("lower_bounds", 125, 126, 127, "bytes"),
        _ids_to("upper_bounds", 128, 129, 130, "bytes"),
        _avro_field("key_metadata", 131, "bytes", True),
        _avro_field("split_offsets", 132, {"type": "array", "items": "long", "element-id": 133}, True),
        _avro_field("equality_ids", 135, {"type": "array", "items": "int", "element-id": 136}, True),
        _avro_field("sort_order_id", 140, "int", True),
    ]
    return _entry(file)


@lru_cache(maxsize=1)
def _brief_schema() -> Any:
    import fastavro

    return fastavro.parse_schema(
        _entry(
            [
                _avro_field("content", 134, "int"),
                _avro_field("file_path", 100, "string"),
                _avro_field("record_count", 103, "long"),
                _avro_field("file_size_in_bytes", 104, "long"),
            ]
        )
    )


def _entry(file: Sequence[Json]) -> Json:
    fields = [
        _avro_field("status", 0, "int"),
        _avro_field("snapshot_id", 1, "long", True),
        _avro_field("sequence_number", 3, "long", True),
        _avro_field("file_sequence_number", 4, "long", True),
        _avro_field("data_file", 2, {"type": "record", "name": "r2", "fields": list(file)}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def _list_schema() -> Json:
    summary = [
        _avro_field("contains_null", 509, "boolean"),
        _avro_field("contains_nan", 518, "boolean", True),
        _avro_field("lower_bound", 510, "bytes", True),
        _avro_field("upper_bound", 511, "bytes", True),
    ]
    items = {"type": "record", "name": "r508", "fields": summary}
    fields = [
        _avro_field("manifest_path", 500, "string"),
        _avro_field("manifest_length", 501, "long"),
        _avro_field("partition_spec_id", 502, "int"),
        _avro_field("content", 517, "int"),
        _avro_field("sequence_number", 515, "long"),
        _avro_field("min_sequence_number", 516, "long"),
        _avro_field("added_snapshot_id", 503, "long"),
        _avro_field("added_files_count", 504, "int"),
        _avro_field("existing_files_count", 505, "int"),
        _avro_field("deleted_files_count", 506, "int"),
        _avro_field("added_rows_count", 512, "long"),
        _avro_field("existing_rows_count", 513, "long"),
        _avro_field("deleted_rows_count", 514, "long"),
        _avro_field("partitions", 507, {"type": "array", "items": items, "element-id": 508}, True),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}
