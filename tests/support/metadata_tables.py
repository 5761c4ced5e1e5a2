"""Writes metadata tables for tests: as Apache Hudi 1.2.0 lays them out, with records that a test makes up."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_deletes
from hudi_py.metadata.keys import file_groups
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config, update_table_config
from tests.support.hfiles import build_hfile

INITIAL = "00000000000000000"
_WRAPPERS: Sequence[tuple[str, Any]] = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", "string"),
    ("DateWrapper", "int"),
)


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


_BOUND = ["null", *(_record(name, ("value", kind)) for name, kind in _WRAPPERS)]
_STATS = _record(
    "HoodieMetadataColumnStats",
    ("fileName", ["null", "string"]),
    ("columnName", ["null", "string"]),
    ("minValue", _BOUND),
    ("maxValue", ["null", *(name for name, _ in _WRAPPERS)]),
    ("valueCount", ["null", "long"]),
    ("nullCount", ["null", "long"]),
    ("isDeleted", "boolean"),
    ("isTightBound", "boolean"),
)
_INFO = _record("HoodieMetadataFileInfo", ("size", "long"), ("isDeleted", "boolean"))
SCHEMA = _record(
    "HoodieMetadataRecord",
    ("_hoodie_commit_time", ["null", "string"]),
    ("key", "string"),
    ("type", "int"),
    ("filesystemMetadata", ["null", {"type": "map", "values": _INFO}]),
    ("ColumnStatsMetadata", ["null", _STATS]),
)
_PARSED = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))


def files_record(files: Mapping[str, int | None], kind: int = 2) -> bytes:
    """A record of `files`: names with their sizes, None for those removed."""
    infos = {name: {"size": size or 0, "isDeleted": size is None} for name, size in files.items()}
    return _encoded({"type": kind, "filesystemMetadata": infos})


def stats_record(
    column: str,
    low: object,
    high: object,
    *,
    values: int = 1,
    nulls: int = 0,
    tight: bool = False,
    removed: bool = False,
) -> bytes:
    """A record of `column_stats` or `partition_stats`; the wrapper follows from the Python type."""
    fields = {"fileName": "f", "columnName": column, "minValue": _wrap(low), "maxValue": _wrap(high)}
    counts = {"valueCount": values, "nullCount": nulls, "isDeleted": removed, "isTightBound": tight}
    return _encoded({"type": 3, "ColumnStatsMetadata": {**fields, **counts}})


def _wrap(value: object) -> object:
    if value is None:
        return None
    names = {bool: "BooleanWrapper", int: "LongWrapper", float: "DoubleWrapper", str: "StringWrapper"}
    return (names[type(value)], {"value": value})


def _encoded(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED, {"key": "", **record})
    return out.getvalue()


class MetadataTableWriter:
    """Puts a metadata table of version 9 beside a table. Instants complete a millisecond after they were requested."""

    def __init__(self, storage: Storage, partitions: Sequence[str] = ("files",)) -> None:
        self.storage = storage
        name = load_table_config(storage).name
        properties = {
            "hoodie.table.name": f"{name}_metadata",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.base.file.format": "HFILE",
            "hoodie.populate.meta.fields": "false",
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        storage.put(".hoodie/metadata/.hoodie/hoodie.properties", text.encode())
        update_table_config(storage, {"hoodie.table.metadata.partitions": ",".join(partitions)})
        self.complete(INITIAL)

    def complete(self, instant: str, action: str = "deltacommit") -> None:
        done = f"{int(instant) + 1:017}" if instant != INITIAL else "20200101000000000"
        self.storage.put(f".hoodie/metadata/.hoodie/timeline/{instant}_{done}.{action}", b"")

    def base(self, group: str, records: Mapping[str, bytes], instant: str = INITIAL, **shape: Any) -> str:
        """A base file of a file group (`files/files-0000-0`); its path."""
        path = f".hoodie/metadata/{group}_0-1-1_{instant}.hfile"
        entries = sorted((key.encode(), value) for key, value in records.items())
        self.storage.put(path, build_hfile(entries, info={"schema": json.dumps(SCHEMA).encode()}, **shape))
        return path

    def log(self, group: str, instant: str, records: Mapping[str, bytes], deletes: Sequence[str] = ()) -> str:
        """A log file with a block of records, then one of deletes; its path."""
        partition, _, file_id = group.rpartition("/")
        path = f".hoodie/metadata/{partition}/.{file_id}_{instant}.log.1_0-1-1"
        entries = sorted((key.encode(), value) for key, value in records.items())
        header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(SCHEMA)}
        data = encode_block(BlockType.HFILE, header, build_hfile(entries)) if entries else b""
        if deletes or not entries:
            keys, partitions = pa.array(list(deletes), pa.string()), pa.array([partition] * len(deletes), pa.string())
            data += encode_block(BlockType.DELETE, header, encode_deletes(keys, partitions, None))
        self.storage.put(path, data)
        return path

    def grouped(self, prefix: str, count: int, records: Mapping[str, bytes]) -> None:
        """Base files of several file groups, each with the records that belong to it."""
        numbers = file_groups(records, count).tolist()
        for group in range(count):
            own = {key: value for (key, value), n in zip(records.items(), numbers, strict=True) if n == group}
            self.base(f"{prefix}{group:04}-0", own)
