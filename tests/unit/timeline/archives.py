"""Archives made by hand: log files of layout 1, and the history of layout 2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.formats.avro import encode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, encode_block
from hudi_py.storage import Storage

_TEXT = ["null", "string"]
_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": [
        {"name": "fileId", "type": _TEXT, "default": None},
        {"name": "path", "type": _TEXT, "default": None},
        {"name": "numWrites", "type": ["null", "long"], "default": None},
    ],
}
ENTRY: dict[str, Any] = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {
            "name": "hoodieCommitMetadata",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "HoodieCommitMetadata",
                    "fields": [
                        {
                            "name": "partitionToWriteStats",
                            "type": ["null", {"type": "map", "values": {"type": "array", "items": _STAT}}],
                            "default": None,
                        },
                        {
                            "name": "extraMetadata",
                            "type": ["null", {"type": "map", "values": "string"}],
                            "default": None,
                        },
                        {"name": "operationType", "type": _TEXT, "default": None},
                    ],
                },
            ],
            "default": None,
        },
        {
            "name": "hoodieCleanerPlan",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "HoodieCleanerPlan",
                    "fields": [
                        {"name": "policy", "type": "string"},
                        # a record that is defined elsewhere in the archive's schema
                        {"name": "stat", "type": ["null", "HoodieWriteStat"], "default": None},
                    ],
                },
            ],
            "default": None,
        },
        {"name": "commitTime", "type": _TEXT, "default": None},
        {"name": "actionType", "type": _TEXT, "default": None},
        {"name": "actionState", "type": _TEXT, "default": None},
        {"name": "stateTransitionTime", "type": _TEXT, "default": None},
    ],
}
_STAT_TYPE = pa.struct([("fileId", pa.string()), ("path", pa.string()), ("numWrites", pa.int64())])
_ARROW = pa.schema(
    [
        (
            "hoodieCommitMetadata",
            pa.struct(
                [
                    ("partitionToWriteStats", pa.map_(pa.string(), pa.list_(pa.field("element", _STAT_TYPE)))),
                    ("extraMetadata", pa.map_(pa.string(), pa.string())),
                    ("operationType", pa.string()),
                ]
            ),
        ),
        ("hoodieCleanerPlan", pa.struct([("policy", pa.string()), ("stat", _STAT_TYPE)])),
        ("commitTime", pa.string()),
        ("actionType", pa.string()),
        ("actionState", pa.string()),
        ("stateTransitionTime", pa.string()),
    ]
)


def entry(
    time: str,
    action: str = "commit",
    state: str | None = "COMPLETED",
    *,
    at: str | None = None,
    paths: Mapping[str, Sequence[str]] | None = None,
    operation: str = "UPSERT",
    policy: str | None = None,
) -> dict[str, Any]:
    """One state of an instant; `paths`: partition to the paths that a completed commit wrote."""
    commit = None
    if paths is not None:
        stats = [
            (
                partition,
                [
                    {"fileId": path.rpartition("/")[2].lstrip(".").partition("_")[0], "path": path, "numWrites": 1}
                    for path in found
                ],
            )
            for partition, found in paths.items()
        ]
        commit = {"partitionToWriteStats": stats, "extraMetadata": [], "operationType": operation}
    return {
        "hoodieCommitMetadata": commit,
        "hoodieCleanerPlan": None if policy is None else {"policy": policy, "stat": None},
        "commitTime": time,
        "actionType": action,
        "actionState": state,
        "stateTransitionTime": at,
    }


def archive_block(entries: Sequence[Mapping[str, Any]]) -> bytes:
    table = pa.Table.from_pylist([dict(each) for each in entries], _ARROW)
    return encode_block(BlockType.AVRO, {HeaderKey.SCHEMA: json.dumps(ENTRY)}, encode_log_content(table, ENTRY))


def put_archive(
    storage: Storage, *blocks: Sequence[Mapping[str, Any]], number: int = 1, folder: str = "archived", raw: bytes = b""
) -> str:
    """A log file of layout 1's archive."""
    path = f".hoodie/{folder}/.commits_.archive.{number}_1-0-1"
    storage.put(path, b"".join(archive_block(block) for block in blocks) + raw)
    return path


HISTORY = ".hoodie/timeline/history"


def put_run(storage: Storage, instants: Sequence[Mapping[str, Any]], level: int = 0) -> str:
    """A run of layout 2's history: instantTime, completionTime, action, metadata, plan; its name."""
    kinds = pa.schema(
        [("instantTime", pa.string()), ("completionTime", pa.string()), ("action", pa.string())]
        + [("metadata", pa.binary()), ("plan", pa.binary())]
    )
    table = pa.Table.from_pylist([dict(each) for each in instants], kinds)
    table = table.append_column(
        pa.field("version", pa.int32(), nullable=False), pa.array([1] * len(instants), pa.int32())
    )
    times = table["instantTime"].to_pylist()
    name = f"{times[0]}_{times[-1]}_{level}.parquet"
    with storage.open_output(f"{HISTORY}/{name}") as sink:
        pq.write_table(table, sink)
    return name


def put_manifest(storage: Storage, number: int, names: Sequence[str], *, newest: bool = True) -> None:
    files = [{"fileName": name, "fileLen": 1} for name in names]
    storage.put(f"{HISTORY}/manifest_{number}", json.dumps({"files": files}, indent=2).encode())
    if newest:
        storage.put(f"{HISTORY}/_version_", str(number).encode())
