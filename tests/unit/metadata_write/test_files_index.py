"""Records of the `files` partition: what each kind of action makes of it."""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
import pytest

from hudi_py.config import Options
from hudi_py.formats.avro import decode_values
from hudi_py.metadata_write.encoding.records import SCHEMA_JSON, MetadataRecords
from hudi_py.metadata_write.partitions.base import listed
from hudi_py.metadata_write.partitions.files import FilesIndex
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.properties import TableConfig
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import timeline_of
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import load_view

T = InstantTime("20260101000000000")
CONFIG = TableConfig({"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.table.partition.fields": "p"})


def source(storage: MemoryStorage | None = None, given: dict[str, str] | None = None) -> TableSource:
    layout = layout_for(CONFIG)
    files = [
        Instant(T, Action.COMMIT, State.COMPLETED, f"{T}_1.commit", CompletionTime("20260101000000001")),
        Instant(
            InstantTime("20251231000000000"),
            Action.COMPACTION,
            State.REQUESTED,
            "20251231000000000.compaction.requested",
        ),
    ]
    storage = storage or MemoryStorage(f"files-{uuid.uuid4()}")
    timeline = timeline_of(layout, files)
    view = load_view(TableState(MemoryStorage(f"files-{uuid.uuid4()}"), CONFIG, timeline_of(layout, [])))
    return TableSource(storage, CONFIG, timeline, view, "", Options.resolve(given, defaults={}))


def decoded(chunks) -> dict[str, dict[str, tuple[int, bool]]]:
    found: dict[str, dict[str, tuple[int, bool]]] = {}
    for chunk in chunks:
        assert isinstance(chunk, MetadataRecords)
        columns = ["filesystemMetadata", "type"]
        batches = decode_values(chunk.values, json.loads(SCHEMA_JSON), columns, context="test")
        table = pa.Table.from_batches(batches) if len(chunk.keys) else None
        for row, key in enumerate(chunk.keys.to_pylist()):
            assert key not in found
            assert table is not None
            assert table["type"][row].as_py() == (1 if key == "__all_partitions__" else 2)
            entries = table["filesystemMetadata"][row].as_py()
            found[key] = {name: (info["size"], info["isDeleted"]) for name, info in entries}
    return found


def changes(change: TableChange) -> dict[str, dict[str, tuple[int, bool]]]:
    return decoded(FilesIndex().changes(source(), change))


def test_a_commit_adds_files_change_data_and_partitions():
    stats = (
        WriteStat("f1", "a/f1_0-0-0_1.parquet", "a", file_size=10),
        WriteStat("f1", "a/.f1_1.log.1_0-0-0", "a", file_size=5, cdc_stats={"a/.f1_1.log.1_0-0-0.cdc": 7}),
        WriteStat("f1", "a/.f1_1.log.1_0-0-0", "a", file_size=9),
        WriteStat("f2", "b/c/f2_0-0-0_1.parquet", "b/c", file_size=11),
        WriteStat("f3", "", "d"),
    )
    found = changes(TableChange(T, Action.DELTA_COMMIT, CommitMetadata("UPSERT", stats)))
    assert found == {
        "a": {"f1_0-0-0_1.parquet": (10, False), ".f1_1.log.1_0-0-0": (9, False), ".f1_1.log.1_0-0-0.cdc": (7, False)},
        "b/c": {"f2_0-0-0_1.parquet": (11, False)},
        "d": {},
        "__all_partitions__": {"a": (0, False), "b/c": (0, False), "d": (0, False)},
    }


def test_an_unpartitioned_table_has_a_name_for_its_partition():
    stat = WriteStat("f1", "f1_0-0-0_1.parquet", "", file_size=10)
    found = changes(TableChange(T, Action.COMMIT, CommitMetadata("INSERT", (stat,))))
    assert found == {".": {"f1_0-0-0_1.parquet": (10, False)}, "__all_partitions__": {".": (0, False)}}


def test_a_clean_removes_files_and_partitions():
    change = TableChange(T, Action.CLEAN, deleted={"a": ("x", "y"), "b": ("z",)}, deleted_partitions=("b",))
    assert changes(change) == {
        "a": {"x": (0, True), "y": (0, True)},
        "b": {"z": (0, True)},
        "__all_partitions__": {"b": (0, True)},
    }
    assert "__all_partitions__" not in changes(TableChange(T, Action.CLEAN, deleted={"a": ("x",)}))


def test_a_rollback_adds_its_log_files():
    change = TableChange(T, Action.ROLLBACK, added={"a": {"log": 100}}, deleted={"a": ("base",), "b": ("other",)})
    assert changes(change) == {"a": {"log": (100, False), "base": (0, True)}, "b": {"other": (0, True)}}


def test_files_of_actions_that_are_not_completed_are_not_listed():
    storage = MemoryStorage(f"files-{uuid.uuid4()}")
    names = {
        f"f_0-0-0_{T}.parquet": True,
        "f_0-0-0_20251231000000000.parquet": False,  # of the pending compaction
        "f_0-0-0_20260202000000000.parquet": False,  # newer than anything completed
        f".f_{T}.log.1_0-0-0": True,
        ".f_20260202000000000.log.1_0-0-0": False,
        ".hoodie_partition_metadata": False,
        "notes.txt": False,
    }
    for name in names:
        storage.put(f"a/{name}", b"12345")
    storage.put("tmp/.hoodie_partition_metadata", b"")
    expected = {name: 5 for name, there in names.items() if there}
    assert list(listed(source(storage))) == [{"a": expected, "tmp": {}}]
    assert list(listed(source(storage, {"hoodie.metadata.dir.filter.regex": "t.p"}))) == [{"a": expected}]
    made = decoded(FilesIndex().initial(source(storage)))
    assert made["a"] == dict.fromkeys(expected, (5, False))
    assert made["__all_partitions__"] == {"a": (0, False), "tmp": (0, False)}


@pytest.mark.parametrize("same", [True, False])
def test_differences_make_the_recorded_listing_the_present_one(same):
    present = {"a": {"x": 1, "y": 2}, "new": {"n": 3}}
    recorded = present if same else {"a": {"x": 1, "z": 4}, "old": {"o": 5}}
    found = decoded(FilesIndex().differences(present, recorded))
    expected = {
        "a": {"y": (2, False), "z": (0, True)},
        "new": {"n": (3, False)},
        "old": {"o": (0, True)},
        "__all_partitions__": {"old": (0, True), "new": (0, False)},
    }
    assert found == ({"__all_partitions__": {}} if same else expected)
