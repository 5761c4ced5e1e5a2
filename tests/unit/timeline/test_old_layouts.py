"""Timeline layout 0, in which one file goes through the states of an instant, and names of old releases."""

from __future__ import annotations

import io

import fastavro
import pytest

from hudi_py.model.instant import Action, State
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view import load_view

OLD = Layout(0, ".hoodie")
CONFIG = TableConfig(
    {
        "hoodie.table.name": "t",
        "hoodie.table.version": "2",
        "hoodie.timeline.layout.version": "0",
        "hoodie.table.type": "MERGE_ON_READ",
    }
)


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        ("20210101101010.commit", Action.COMMIT, State.COMPLETED),
        ("20210101101010.inflight", Action.COMMIT, State.INFLIGHT),
        ("20210101101010.commit.requested", Action.COMMIT, State.REQUESTED),
        ("20210101101010.deltacommit", Action.DELTA_COMMIT, State.COMPLETED),
        ("20210101101010.deltacommit.inflight", Action.DELTA_COMMIT, State.INFLIGHT),
        ("20210101101010.compaction.requested", Action.COMPACTION, State.REQUESTED),
        ("20210101101010.compaction.inflight", Action.COMPACTION, State.INFLIGHT),
        ("20210101101010.clean", Action.CLEAN, State.COMPLETED),
        ("20210101101010.clean.inflight", Action.CLEAN, State.INFLIGHT),
        ("20210101101010.rollback", Action.ROLLBACK, State.COMPLETED),
        ("20210101101010.savepoint", Action.SAVEPOINT, State.COMPLETED),
        ("20210101101010.replacecommit", Action.REPLACE_COMMIT, State.COMPLETED),
    ],
)
def test_names(name: str, action: Action, state: State) -> None:
    found = OLD.parse(name)
    assert found is not None
    assert (found.time, found.action, found.state, found.file_name) == ("20210101101010", action, state, name)
    assert not found.legacy


@pytest.mark.parametrize(
    "name", ["20210101101010_20210101101011.commit", "20210101101010.compaction", "hoodie.properties", "archived"]
)
def test_other_names(name: str) -> None:
    assert OLD.parse(name) is None


def test_one_file_an_instant() -> None:
    storage = MemoryStorage("layout-0")
    for name in ("20210101101010.commit", "20210101101020.deltacommit", "20210101101030.inflight"):
        storage.put(f".hoodie/{name}", b"")
    storage.put(".hoodie/.aux/20210101101015.compaction.requested", b"")
    timeline = load_timeline(storage, CONFIG)
    assert [(i.time, i.state) for i in timeline.instants] == [
        ("20210101101010", State.COMPLETED),
        ("20210101101020", State.COMPLETED),
        ("20210101101030", State.INFLIGHT),
    ]
    assert timeline.start == "20210101101010"
    assert timeline.is_committed("20210101101009")
    # 17 digits sort behind the 14 they begin with, and before the next second
    assert timeline.is_committed("20210101101009999")
    assert not timeline.is_committed("20210101101010000")


def compaction_plan() -> bytes:
    text = {"type": "string"}
    operation = {
        "type": "record",
        "name": "HoodieCompactionOperation",
        "fields": [{"name": "fileId", "type": text}, {"name": "partitionPath", "type": text}],
    }
    operations = {"name": "operations", "type": {"type": "array", "items": operation}}
    schema = {"type": "record", "name": "HoodieCompactionPlan", "fields": [operations]}
    plan = {"operations": [{"fileId": "f1", "partitionPath": ""}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [plan])
    return out.getvalue()


@pytest.mark.parametrize("layout", ["0", "1"])
def test_the_plan_of_a_compaction_that_runs_is_in_the_auxiliary_folder(layout: str) -> None:
    storage = MemoryStorage(f"aux-{layout}")
    config = TableConfig({**CONFIG.properties, "hoodie.timeline.layout.version": layout})
    for name in ("20210101101010.deltacommit", "20210101101020.compaction.inflight", "20210101101030.deltacommit"):
        storage.put(f".hoodie/{name}", b"{}")
    storage.put(".hoodie/.aux/20210101101020.compaction.requested", compaction_plan())
    storage.put(".hoodie_partition_metadata", b"commitTime=20210101101010\npartitionDepth=0\n")
    for name in ("f1_0-1-2_20210101101010.parquet", ".f1_20210101101010.log.1", ".f1_20210101101020.log.1_0-1-2"):
        storage.put(name, b"x")
    view = load_view(TableState(storage, config, load_timeline(storage, config)))
    assert view.pending_compaction == {("", "f1"): "20210101101020"}
    (found,) = view.latest_slices(view.partitions()[0])
    assert found.base_instant == "20210101101010"
    assert [str(log.name) for log in found.log_files] == [".f1_20210101101010.log.1", ".f1_20210101101020.log.1_0-1-2"]


def test_the_plan_on_the_timeline_comes_first() -> None:
    assert Layout(1, ".hoodie").plan_paths("1", Action.COMPACTION) == (
        ".hoodie/1.compaction.requested",
        ".hoodie/.aux/1.compaction.requested",
    )
    assert Layout(1, ".hoodie").plan_paths("1", Action.CLUSTERING) == (".hoodie/1.replacecommit.requested",)
    assert Layout(2, ".hoodie/timeline").plan_paths("1", Action.COMPACTION) == (
        ".hoodie/timeline/1.compaction.requested",
    )


def test_log_files_without_write_token() -> None:
    found = parse_log_file_name(".f1-0_20210101101010.log.3")
    assert found is not None
    assert (found.file_id, found.instant, found.version, found.write_token) == ("f1-0", "20210101101010", 3, "")
    assert str(found) == ".f1-0_20210101101010.log.3"
    later = parse_log_file_name(".f1-0_20210101101010.log.3_0-1-2")
    assert later is not None
    assert found.sort_key < later.sort_key


def test_base_files_of_other_tokens() -> None:
    # releases before 0.5 wrote the number of the task alone
    found = parse_base_file_name("f1-0_17_20210101101010.parquet")
    assert found is not None
    assert (found.file_id, found.write_token, found.instant) == ("f1-0", "17", "20210101101010")
