from __future__ import annotations

import io
import itertools
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.clustering_records import decode_clustering_plan
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    decode_commit_metadata,
    decode_compaction_plan,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_commit_metadata,
    encode_replace_request,
    encode_rollback_metadata,
    encode_rollback_plan,
    read_commit_metadata,
)
from hudi_py.timeline.records import encode_record

_NAMES = itertools.count()
LAYOUTS = {1: Layout(1, ".hoodie"), 2: Layout(2, ".hoodie/timeline")}
BASE = WriteStat(
    file_id="f1-0",
    path="p=1/f1-0_0-1-2_20260101000000000.parquet",
    partition_path="p=1",
    prev_commit="20250101000000000",
    num_writes=10,
    num_inserts=3,
    num_updates=4,
    num_deletes=1,
    total_write_bytes=1000,
    file_size=1000,
    prev_base_file="f1-0_0-1-1_20250101000000000.parquet",
    create_time_ms=5,
    upsert_time_ms=6,
)
LOG = WriteStat(
    file_id="f2-0",
    path="p=2/.f2-0_20260101000000000.log.1_0-1-2",
    partition_path="p=2",
    num_writes=2,
    num_updates=2,
    total_write_bytes=50,
    file_size=50,
    log_version=1,
    log_offset=0,
    base_file="f2-0_0-1-1_20250101000000000.parquet",
    log_files=(".f2-0_20260101000000000.log.1_0-1-2",),
    cdc_stats={"p=2/.f2-0_20260101000000000.log.1_0-1-2.cdc": 7},
)
METADATA = CommitMetadata("UPSERT", (BASE, LOG), {"schema": '{"type":"record"}', "k": "ü"})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("completed", [True, False])
def test_there_and_back(version: int, completed: bool) -> None:
    data = encode_commit_metadata(METADATA, LAYOUTS[version], action=Action.DELTA_COMMIT, completed=completed)
    assert decode_commit_metadata(data) == METADATA


@pytest.mark.parametrize("version", [1, 2])
def test_replacecommit(version: int) -> None:
    metadata = CommitMetadata("INSERT_OVERWRITE", (BASE,), {}, replaced={"p=1": ("a-0", "b-0"), "": ("c-0",)})
    data = encode_commit_metadata(metadata, LAYOUTS[version], action=Action.REPLACE_COMMIT, completed=True)
    assert decode_commit_metadata(data) == metadata
    pending = encode_commit_metadata(metadata, LAYOUTS[version], action=Action.REPLACE_COMMIT, completed=False)
    assert decode_commit_metadata(pending).replaced == {}


def test_json_of_layout_1() -> None:
    data = encode_commit_metadata(METADATA, LAYOUTS[1], action=Action.DELTA_COMMIT, completed=True)
    assert data.startswith(b'{\n  "partitionToWriteStats" : {\n    "p=1" : [')
    content = json.loads(data)
    assert list(content) == ["partitionToWriteStats", "compacted", "extraMetadata", "operationType"]
    base, log = (content["partitionToWriteStats"][partition][0] for partition in ("p=1", "p=2"))
    assert (base["numUpdateWrites"], base["numInserts"], base["fileSizeInBytes"]) == (4, 3, 1000)
    assert "logVersion" not in base
    assert (log["logVersion"], log["prevCommit"]) == (1, "null")
    assert log["logFiles"] == [".f2-0_20260101000000000.log.1_0-1-2"]
    assert "ü".encode() in data


def test_avro_of_layout_2() -> None:
    data = encode_commit_metadata(METADATA, LAYOUTS[2], action=Action.COMMIT, completed=True)
    reader = fastavro.reader(io.BytesIO(data))
    (content,) = list(reader)
    assert reader.codec == "null"
    assert reader.writer_schema["name"].rpartition(".")[2] == "HoodieCommitMetadata"
    assert content["version"] is None
    assert content["operationType"] == "UPSERT"
    base, log = (content["partitionToWriteStats"][partition][0] for partition in ("p=1", "p=2"))
    assert (base["logVersion"], base["baseFile"], base["logFiles"], base["numUpdates"]) == (None, None, None, 0)
    assert (log["logVersion"], log["logOffset"], log["prevCommit"]) == (1, 0, "null")
    assert json.dumps(reader.writer_schema).count("avro.java.string") > 5


def test_inflight_carries_its_writer() -> None:
    metadata = CommitMetadata("UPSERT", extra={"writer": "id"})
    for layout in LAYOUTS.values():
        data = encode_commit_metadata(metadata, layout, action=Action.COMMIT, completed=False)
        assert decode_commit_metadata(data).extra == {"writer": "id"}
    assert decode_commit_metadata(b"").extra == {}


def test_missing_and_unknown_fields() -> None:
    data = json.dumps(
        {
            "partitionToWriteStats": {"p": [{"fileId": "f", "path": None, "prevCommit": None, "new": {"x": 1}}]},
            "extraMetadata": {"schema": None, "a": "b"},
            "new": [1],
        }
    ).encode()
    metadata = decode_commit_metadata(data)
    assert metadata == CommitMetadata("UNKNOWN", (WriteStat("f", "", "p"),), {"a": "b"})
    assert decode_commit_metadata(b"{}") == CommitMetadata("UNKNOWN")


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"nonsense",
        b"\xff\xfe",
        b"Obj\x01",
        b"Obj\x01\xff\xff\xff",
        b'{"partitionToWriteStats": 3}',
        b'{"partitionToWriteStats": {"p": {"fileId": "f"}}}',
        b'{"partitionToWriteStats": {"p": [3]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": "many"}]}}',
        b'{"extraMetadata": {"schema": 3}}',
        b'{"compacted": "no"}',
        b"[" * 100_000,
        b'{"extraMetadata": {"key": "\\ud83d"}}',
    ],
)
def test_corrupt_metadata(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="some file"):
        decode_commit_metadata(data, "some file")


@given(st.integers(0, 2_000), st.integers(0, 255))
def test_a_changed_byte_is_no_crash(position: int, value: int) -> None:
    data = bytearray(encode_commit_metadata(METADATA, LAYOUTS[2], action=Action.COMMIT, completed=True))
    data[position % len(data)] = value
    try:
        decode_commit_metadata(bytes(data))
    except CorruptFileError:
        return


def test_reading_names_the_file() -> None:
    storage = MemoryStorage(f"metadata-{next(_NAMES)}")
    layout = LAYOUTS[2]
    for name, data in (("10_11.commit", b"{"), ("20_21.commit", b""), ("30.commit", b"{}")):
        storage.put(layout.path(name), data)
    for name, words in (("10_11.commit", "10_11.commit.*JSON"), ("20_21.commit", "20_21.commit.*empty")):
        instant = layout.parse(name)
        assert instant is not None
        with pytest.raises(CorruptFileError, match=words):
            read_commit_metadata(storage, layout, instant)
    legacy = layout.parse("30.commit")
    assert legacy is not None
    assert read_commit_metadata(storage, layout, legacy).operation == "UNKNOWN"
    storage.delete(layout.path("30.commit"))
    with pytest.raises(FileNotFoundError):
        read_commit_metadata(storage, layout, legacy)


def test_rollback_plan() -> None:
    plan = RollbackPlan(
        "10",
        "deltacommit",
        (
            RollbackRequest("p=1", "", "", ("file:///t/p=1/a",), {}),
            RollbackRequest("p=2", "f-0", "05", (), {"file:///t/p=2/.f-0_05.log.1_0-0-0": 12}),
        ),
    )
    assert decode_rollback_plan(encode_rollback_plan(plan)) == plan
    assert decode_rollback_plan(encode_rollback_plan(RollbackPlan("10", "commit"))).requests == ()


def test_rollback_metadata() -> None:
    metadata = RollbackMetadata(
        "20",
        7,
        "10",
        "commit",
        (RollbackPartition("", ("file:///t/a", "file:///t/b")), RollbackPartition("p", (), ("c",), {"l": 1}, {"m": 2})),
    )
    data = encode_rollback_metadata(metadata)
    assert decode_rollback_metadata(data) == metadata
    (content,) = list(fastavro.reader(io.BytesIO(data)))
    assert content["totalFilesDeleted"] == 2
    assert content["commitsRollback"] == ["10"]


def test_replace_request() -> None:
    assert decode_clustering_plan(encode_replace_request("INSERT_OVERWRITE")) is None
    assert decode_clustering_plan(encode_replace_request("DELETE_PARTITION")) is None
    assert decode_clustering_plan(b"") is None
    (content,) = list(fastavro.reader(io.BytesIO(encode_replace_request("INSERT_OVERWRITE"))))
    assert set(content.values()) == {None}


def test_clustering_groups() -> None:
    data = encode_record("HoodieRequestedReplaceMetadata", {
        "operationType": "CLUSTER",
        "clusteringPlan": {"inputGroups": [
            {"slices": [{"fileId": "a-0", "partitionPath": "p"}, {"fileId": "b-0", "partitionPath": ""}]},
            {"slices": [{"fileId": "c-0", "partitionPath": "q"}]},
        ]},
    })  # fmt: skip
    found = decode_clustering_plan(data)
    assert found is not None
    assert [(each.partition_path, each.file_id) for each in found.slices] == [("p", "a-0"), ("", "b-0"), ("q", "c-0")]


def test_compaction_plan() -> None:
    schema = {
        "type": "record",
        "name": "HoodieCompactionPlan",
        "fields": [{"name": "operations", "type": ["null", {"type": "array", "items": {
            "type": "record", "name": "HoodieCompactionOperation", "fields": [
                {"name": "baseInstantTime", "type": ["null", "string"]},
                {"name": "deltaFilePaths", "type": ["null", {"type": "array", "items": "string"}]},
                {"name": "dataFilePath", "type": ["null", "string"]},
                {"name": "fileId", "type": ["null", "string"]},
                {"name": "partitionPath", "type": ["null", "string"]},
            ]}}]}],
    }  # fmt: skip
    out = io.BytesIO()
    operation = {
        "baseInstantTime": "10", "deltaFilePaths": [".f-0_10.log.1_0-0-0"], "dataFilePath": None, "fileId": "f-0",
        "partitionPath": "p",
    }  # fmt: skip
    fastavro.writer(out, schema, [{"operations": [operation]}])
    (found,) = decode_compaction_plan(out.getvalue()).operations
    assert (found.partition_path, found.file_id, found.base_instant) == ("p", "f-0", "10")
    assert (found.base_file, found.log_files) == (None, (".f-0_10.log.1_0-0-0",))
    with pytest.raises(CorruptFileError, match="the plan x"):
        decode_compaction_plan(b"{}", "the plan x")
