"""Tables whose metadata table is kept up, written in memory, and what must hold of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import pyarrow as pa

import hudi_py
from hudi_py.config import Options
from hudi_py.metadata import open_metadata
from hudi_py.metadata.files import read_files
from hudi_py.metadata.keys import ALL_PARTITIONS, partition_of_key
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.storage import FolderStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.session import WriteTarget
from hudi_py.view import StorageLister
from hudi_py.write.api import TableArguments, write_options, write_rows
from hudi_py.write.result import WriteResult

QUICK = {
    "hoodie.table.name": "t",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.time.generator.max_expected_clock_skew_ms": "20",
    "hoodie.py.write.threads": "1",
}


def rows(ids: Iterable[int], ts: int) -> pa.Table:
    found = list(ids)
    return pa.table(
        {
            "id": pa.array(found, pa.int64()),
            "name": pa.array([f"n{i}-{ts}" for i in found], pa.string()),
            "ts": pa.array([ts] * len(found), pa.int64()),
            "p": pa.array(["ab"[i % 2] for i in found], pa.string()),
        }
    )


def write(
    storage: Storage,
    data: pa.Table,
    operation: str = "upsert",
    *,
    version: int = 9,
    kind: str = "mor",
    partitioned: bool = True,
    options: Mapping[str, str] | None = None,
) -> WriteResult:
    resolved = write_options(
        {**QUICK, **(options or {})},
        TableArguments(
            record_key="id",
            partition_by="p" if partitioned else None,
            ordering_by="ts",
            table_type=kind,
            table_version=version,
        ),
    )
    return write_rows(WriteTarget(storage, resolved, writer(options)), data, operation)


def writer(options: Mapping[str, str] | None = None) -> MetadataTableWriter:
    return MetadataTableWriter(Options.resolve(dict(options or {}), defaults={}))


def clock(storage: Storage) -> InstantClock:
    return InstantClock(load_table_config(storage), skew_ms=20)


def timeline(storage: Storage) -> Timeline:
    return load_timeline(storage, load_table_config(storage))


def own_timeline(storage: Storage) -> Timeline:
    own = FolderStorage(storage, ".hoodie/metadata")
    return load_timeline(own, load_table_config(own))


def check_listing(storage: Storage) -> dict[str, dict[str, int]]:
    """What the metadata table lists, having compared it with the storage."""
    config = load_table_config(storage)
    metadata = open_metadata(TableState(storage, config, timeline(storage)))
    assert metadata is not None
    known = read_files(metadata)
    recorded = {partition_of_key(key): known.get(key, {}) for key in known[ALL_PARTITIONS]}
    lister = StorageLister(storage, config)
    present: dict[str, dict[str, int]] = {}
    for partition in lister.partitions():
        files = lister.files(partition)
        if files:
            present[partition] = {
                info.name: info.size
                for info in files
                if parse_base_file_name(info.name) is not None or parse_log_file_name(info.name) is not None
            }
    assert recorded == present
    return recorded


def read(storage: Storage, options: Mapping[str, str] | None = None) -> dict[int, int]:
    """id to ts; reading by the metadata table must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = hudi_py.open_table(storage.uri, dict(options or {})).scan(columns=["id", "ts"]).to_table()
    return dict(zip(table["id"].to_pylist(), table["ts"].to_pylist(), strict=True))
