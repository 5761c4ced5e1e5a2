"""Entries of the record index: after any history they are the rows of the table, each where it is, and no others."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.file_stats.sidecar import SidecarSettings
from hudi_py.formats.avro import decode_values
from hudi_py.metadata.locations import location_id, partition_groups
from hudi_py.metadata_write.encoding.records import SCHEMA_JSON, MetadataRecords
from hudi_py.metadata_write.partitions import record_entries
from hudi_py.metadata_write.partitions.record_entries import RecordEntries, RecordLocation
from hudi_py.metadata_write.partitions.record_index import RecordIndex, is_partitioned
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.storage import MemoryStorage, open_storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.timeline.times import epoch_ms, table_zone
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import load_view
from tests.support.choice import cases

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.metadata.enable": "false"}
_GLOBAL = Options.resolve({"hoodie.metadata.global.record.level.index.enable": "true"}, defaults={})
_PARTITIONED = Options.resolve({"hoodie.metadata.record.level.index.enable": "true"}, defaults={})

Place = tuple[str, str]
"""Partition path and file id."""


def _rows(keys: list[int], ts: list[int], deleted: list[bool]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "p": pa.array([f"p{key % 3}" for key in keys], pa.string()),
            "ts": pa.array(ts, pa.int64()),
            "_hoodie_is_deleted": pa.array(deleted, pa.bool_()),
        }
    )


def _source(path: str, options: Options) -> TableSource:
    """The table as of now: files of later instants do not count."""
    storage = open_storage(path)
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    return TableSource(storage, config, timeline, load_view(TableState(storage, config, timeline)), "", options)


def _places(path: str) -> dict[str, Place]:
    rows = (
        hudi_py.open_table(path).scan(["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]).to_table()
    )
    return {
        row["_hoodie_record_key"]: (row["_hoodie_partition_path"], row["_hoodie_file_name"].split("_")[0])
        for row in rows.to_pylist()
    }


@dataclass
class _Index:
    """What a metadata table would hold."""

    by_partition: bool = False
    entries: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def apply(self, chunks: Iterable[MetadataRecords]) -> None:
        seen: set[tuple[str, str]] = set()
        for chunk in chunks:
            assert (chunk.partition, chunk.group) == ("record_index", None)
            assert (chunk.prefix is not None) == self.by_partition
            own = [(chunk.prefix or "", key) for key in [*chunk.keys.to_pylist(), *chunk.deleted.to_pylist()]]
            assert len(set(own)) == len(own)
            assert not seen & set(own)
            seen |= set(own)
            schema = json.loads(SCHEMA_JSON)
            batches = decode_values(chunk.values, schema, context="test") if len(chunk.keys) else ()
            rows = [row for batch in batches for row in batch.to_pylist()]
            for key, row in zip(chunk.keys.to_pylist(), rows, strict=True):
                assert (row["key"], row["type"]) == ("", 5)
                self.entries[chunk.prefix or "", key] = row["recordIndexMetadata"]
            for key in chunk.deleted.to_pylist():
                self.entries.pop((chunk.prefix or "", key), None)

    def places(self) -> dict[str, Place]:
        found = {key: (row["partitionName"], location_id(row)) for (_, key), row in self.entries.items()}
        for (prefix, _), row in self.entries.items():
            assert prefix == (partition_groups(row["partitionName"]) if self.by_partition else "")
        return found


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> MemoryStorage:
    storage = MemoryStorage(str(uuid.uuid4()))
    monkeypatch.setattr(WriteTransaction, "keep_sidecar", lambda self, sidecar, path: sidecar.save(storage, "s", path))
    monkeypatch.setattr(MetadataTableWriter, "sidecar", lambda *_: SidecarSettings(keys=True))
    return storage


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "options"), cases(product((6, 9), ("cow", "mor"), (_GLOBAL, _PARTITIONED)), "any history", 3)
)
def test_any_history_leaves_the_rows_that_are_there(
    tmp_path: Path, kept: MemoryStorage, version: int, kind: str, options: Options
) -> None:
    chance = random.Random(f"{version}{kind}{options is _PARTITIONED or None}")
    path = str(tmp_path / "t")
    table: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts"}
    table |= {"table_type": kind, "table_version": version}
    data = _rows(list(range(12)), [10] * 12, [False] * 12)
    hudi_py.write(path, data, "insert", QUICK, **table)
    builder = RecordIndex()
    told, derived = _Index(options is _PARTITIONED), _Index(options is _PARTITIONED)
    for index in (told, derived):
        index.apply(builder.initial(_source(path, options)))
        assert index.places() == _places(path)
    for turn in range(6):
        keys = chance.sample(range(20), 6)
        operation = chance.choice(["upsert", "upsert", "delete", "insert", "insert_overwrite_table"])
        if operation == "insert":
            keys = [100 * (turn + 1) + key for key in keys[:2]]
        marks = [operation == "upsert" and chance.random() < 0.4 for _ in keys]
        source = _source(path, options)
        result = hudi_py.write(path, _rows(keys, [chance.randrange(5, 16) for _ in keys], marks), operation, QUICK)
        assert result.instant is not None
        completed = _source(path, options).timeline.write_completed[-1]
        metadata = read_commit_metadata(source.storage, source.timeline.layout, completed)
        change = TableChange(result.instant, completed.action, metadata)
        derived.apply(builder.changes(source, change))
        with_sidecars = _Sidecars(source.storage, kept)
        told.apply(builder.changes(replace(source, storage=with_sidecars), replace(change, sidecars="s")))  # type: ignore[arg-type]
        assert derived.places() == _places(path), (turn, operation)
        assert told.places() == _places(path), (turn, operation)
        zone = table_zone(source.config)
        new = {row["instantTime"] for row in told.entries.values()}
        assert max(new) <= epoch_ms(result.instant, zone)


class _Sidecars:
    """A storage with sidecars of another one below `s`."""

    def __init__(self, storage: Any, sidecars: MemoryStorage) -> None:
        self._storage = storage
        self._sidecars = sidecars

    def read(self, path: str) -> bytes:
        return bytes((self._sidecars if path.startswith("s/") else self._storage).read(path))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def test_compactions_change_nothing_and_clusterings_keep_what_they_replace(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = _rows(list(range(6)), [1] * 6, [False] * 6)
    result = hudi_py.write(path, data, "insert", QUICK, record_key="k", partition_by="p")
    assert result.instant is not None
    source = _source(path, _GLOBAL)
    (completed,) = _source(path, _GLOBAL).timeline.write_completed
    metadata = read_commit_metadata(source.storage, source.timeline.layout, completed)
    change = TableChange(result.instant, completed.action, metadata)
    assert list(RecordIndex().changes(source, replace(change, commit=replace(metadata, operation="COMPACT")))) == []
    assert list(RecordIndex().changes(source, replace(change, commit=None))) == []
    now = _source(path, _GLOBAL)
    ids = {
        str(partition): tuple(str(slice_.file_id) for slice_ in now.view.latest_slices(partition))
        for partition in now.view.partitions()
    }
    clustering = replace(metadata, operation="CLUSTER", replaced=ids)
    index = _Index()
    index.apply(RecordIndex().changes(now, replace(change, commit=clustering)))
    assert index.places() == _places(path)
    gone = replace(metadata, operation="DELETE_PARTITION", replaced={"p1": ids["p1"]}, stats=())
    index.apply(RecordIndex().changes(now, replace(change, commit=gone)))
    assert index.places() == {key: place for key, place in _places(path).items() if place[0] != "p1"}


def _collect(by_partition: bool, budget: int) -> _Index:
    index = _Index(by_partition)
    with RecordEntries(by_partition=by_partition, budget=budget) as entries:
        old = entries.place(RecordLocation("a", "0a0b0c0d-0000-4000-8000-00000000000f-3", 5))
        new = entries.place(RecordLocation("b-_/x", "bucket-of-another-form", 6))
        entries.remove(pa.array([f"k{number}" for number in range(50, 150)]), "a")
        entries.add(pa.array([f"k{number}" for number in range(100)]), old)
        entries.add(pa.array([f"k{number}" for number in range(90, 120)]), new)
        index.entries = {("" if not by_partition else partition_groups("a"), "k149"): {"stale": True}}
        index.apply(entries.records())
    return index


@pytest.mark.parametrize("budget", [1 << 20, 100])
@pytest.mark.parametrize("by_partition", [False, True])
def test_one_entry_for_each_key_the_latest_of_those_that_are_there(
    monkeypatch: pytest.MonkeyPatch, budget: int, by_partition: bool
) -> None:
    monkeypatch.setattr(record_entries, "_CHUNK_ROWS", 7)
    index = _collect(by_partition, budget)
    first = ("a", "0a0b0c0d-0000-4000-8000-00000000000f-3")
    second = ("b-_/x", "bucket-of-another-form")
    if by_partition:
        assert partition_groups("b-_/x") == "record-index-b%2D%5F%2Fx"
        assert {key for prefix, key in index.entries if prefix == partition_groups("a")} == {
            f"k{n}" for n in range(100)
        }
        assert len(index.entries) == 130
        return
    places = index.places()
    assert places == {**{f"k{n}": first for n in range(90)}, **{f"k{n}": second for n in range(90, 120)}}
    assert index.entries["", "k95"] == {
        "partitionName": "b-_/x",
        "fileIdHighBits": -1,
        "fileIdLowBits": -1,
        "fileIndex": -1,
        "fileId": "bucket-of-another-form",
        "instantTime": 6,
        "fileIdEncoding": 1,
        "position": None,
    }
    assert index.entries["", "k1"]["fileIndex"] == 3
    assert (index.entries["", "k1"]["fileId"], index.entries["", "k1"]["fileIdEncoding"]) == ("", 0)


@pytest.mark.parametrize(
    ("names", "partitioned"),
    [
        ([".record-index-0000-0_00000000000000011.log.1_0-0-0", "record-index-0012-0_0-1-1_20240101.hfile"], False),
        ([".record-index-2024-0000-0_20240101000000000.log.1_0-0-0"], True),
        ([".record-index--0000-0_20240101000000000.log.1_0-0-0"], True),
        ([".hoodie_partition_metadata"], False),
    ],
)
def test_without_definitions_the_file_groups_tell(tmp_path: Path, names: list[str], partitioned: bool) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, _rows([1], [1], [False]), "insert", QUICK, record_key="k")
    source = _source(path, _PARTITIONED if not partitioned else _GLOBAL)
    for name in names:
        source.storage.put(f".hoodie/metadata/record_index/{name}", b"")
    config = update_table_config(source.storage, {"hoodie.table.metadata.partitions": "files,record_index"})
    assert is_partitioned(replace(source, config=config)) == partitioned


def test_file_groups_are_counted_out_by_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = _rows(list(range(3000)), [1] * 3000, [False] * 3000)
    hudi_py.write(path, data, "bulk_insert", QUICK, record_key="k", partition_by="p")
    builder = RecordIndex()
    assert builder.file_groups(_source(path, _GLOBAL)) == 10
    # 100 entries of 48 bytes a group, 3000 rows doubled
    small = _GLOBAL.replace({indexes_config.RECORD_INDEX_MAX_GROUP_BYTES: "4800"})
    assert builder.file_groups(_source(path, small)) == 60
    fewest, most = indexes_config.GLOBAL_RECORD_INDEX_MIN_GROUPS, indexes_config.GLOBAL_RECORD_INDEX_MAX_GROUPS
    assert builder.file_groups(_source(path, small.replace({most: "25"}))) == 25
    assert builder.file_groups(_source(path, small.replace({fewest: "70", most: "90"}))) == 70
    prefixes = ["record-index-p0", "record-index-p1", "record-index-p2"]
    by_partition = _PARTITIONED.replace({indexes_config.RECORD_INDEX_MAX_GROUP_BYTES: "4800"})
    assert builder.file_groups(_source(path, by_partition)) == dict.fromkeys(prefixes, 10)
    assert builder.file_groups(_source(path, _PARTITIONED)) == dict.fromkeys(prefixes, 1)
