"""`option("view", ...)`, pins, and which files Spark's own reader may take. No JVM."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, CorruptFileError, HudiError
from hudi_py.read import plan_table, read_split
from hudi_py.read.planning.pin import PlanPin
from hudi_py.testing.rows import assert_rows_equal
from pyspark_hudi import DefaultSource
from pyspark_hudi.types import arrow_schema
from tests.golden.tables import Extracted, load
from tests.support.choice import cases

KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
NEVER_NATIVE = ("v6_cow_orc", "v9_cow_drop_partition_columns", "v9_cow_schema_on_read", "v9_cow_timestamp_keygen")
ALL_NATIVE = ("v6_cow_ops", "v8_cow_composite_key", "v9_cow_multi_partition")


ALWAYS = {"hoodie.py.read.native": "always"}
"""Else Python alone reads small slices with logs."""


def view(path: str, name: str, **options: str) -> pa.Table:
    """A view as Spark gets it: planned in one process, read in another."""
    source = DefaultSource({"path": path, "view": name, **ALWAYS, **options})
    schema = source.schema()
    source = pickle.loads(pickle.dumps(source))
    reader = source.reader(schema)
    (partition,) = pickle.loads(pickle.dumps(reader.partitions()))
    task = pickle.loads(pickle.dumps(reader))
    return pa.Table.from_batches(list(task.read(partition)), arrow_schema(schema))


def plan(path: str, **options: str) -> dict[str, Any]:
    (row,) = view(path, "plan", **options).to_pylist()
    return dict(row)


def rows(path: str, **options: str) -> pa.Table:
    planned = plan_table(path, Options.resolve(options, Scope.READ), None).plan
    batches = [batch for split in planned.splits for batch in read_split(split)]
    return pa.Table.from_batches(batches, planned.spec.output_schema)


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    data = [{"id": n, "p": "abc"[n % 3], "ts": 1, "v": n * 1.5} for n in range(9)]
    hudi_py.write(path, data, **KEYED, table_type="mor")
    hudi_py.write(path, [{"id": 0, "p": "a", "ts": 2, "v": -1.0}])
    return path


def test_files_partitions_and_timeline_are_the_tables_reports(path: str) -> None:
    table = hudi_py.open_table(path)
    for name, report in (("files", table.files()), ("partitions", table.partitions()), ("timeline", table.instants())):
        found = view(path, name)
        assert found.column_names == report.column_names
        assert found.to_pylist() == report.to_pylist()


def test_columns_and_filter_choose_from_a_view(path: str) -> None:
    found = view(path, "files", columns="partition, base_bytes", filter="partition <> 'b' and log_bytes = 0")
    assert found.column_names == ["partition", "base_bytes"]
    assert found.column("partition").to_pylist() == ["c"]
    with pytest.raises(HudiError, match="no column 'partitio'.*did you mean 'partition'"):
        view(path, "files", columns="partitio")


def test_a_view_is_of_the_instant_that_is_asked_for(path: str) -> None:
    first, second = hudi_py.open_table(path).history().column("instant").to_pylist()
    before = view(path, "files", **{"as.of.instant": first})
    assert before.column("log_bytes").to_pylist() == [0, 0, 0]
    assert sum(view(path, "files", **{"as.of.instant": second}).column("log_bytes").to_pylist()) > 0


def test_a_view_does_not_change_when_the_table_does(path: str) -> None:
    source = DefaultSource({"path": path, "view": "files"})
    schema = source.schema()
    hudi_py.write(path, [{"id": 100, "p": "new", "ts": 1, "v": 0.0}])
    reader = source.reader(schema)
    (partition,) = reader.partitions()
    table = pa.Table.from_batches(list(reader.read(partition)))
    assert "new" not in table.column("partition").to_pylist()
    assert "new" in view(path, "files").column("partition").to_pylist()


def test_splits_tell_what_is_read_and_by_whom(path: str) -> None:
    every = {row["partition"]: row for row in view(path, "splits").to_pylist()}
    assert {name: row["kind"] for name, row in every.items()} == {"a": "base + log", "b": "base", "c": "base"}
    assert {name: row["native"] for name, row in every.items()} == {"a": True, "b": True, "c": True}
    keyed = view(path, "splits", **{"hoodie.py.read.keys": "1"}).to_pylist()
    assert {row["why_not_native"] for row in keyed} == {"rows are chosen by their key"}
    assert every["b"]["base_bytes"] > 0
    assert [row["partition"] for row in view(path, "splits", filter="p = 'b'").to_pylist()] == ["b"]
    optimized = view(path, "splits", **{"hoodie.datasource.query.type": "read_optimized"})
    assert optimized.column("native").to_pylist() == [True] * 3


def test_the_plan_is_one_row_that_explains(path: str) -> None:
    found = plan(path, columns="v,id", filter="v > 3")
    assert found["explain"].startswith("Scan of file://")
    assert "v > 3" in found["explain"]
    assert found["columns"] == ["v", "id"]
    assert (found["num_splits"], found["other_splits"]) == (3, 0)
    assert (len(found["native_files"]), len(found["merged_files"])) == (2, 1)
    assert all(file.startswith(f"file://{path}/") for file in found["native_files"] + found["merged_files"])
    assert found["explain"].endswith("by Spark's Parquet reader  3 base files, 1 merged with logs")
    assert [field["name"] for field in json.loads(found["native_schema"])["fields"]] == ["id", "v"]
    assert found["native_condition"] == "(`v` > CAST('3.0' AS DOUBLE))"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hoodie.py.read.native": "never"}, "hoodie.py.read.native is never"),
        ({"storage.secret": "hunter2"}, "Spark's reader does not get the storage options"),
        ({"filter": "v + 1 > 3"}, "the filter may mean something else in another Spark session"),
        ({"hoodie.py.read.keys": "1"}, "rows are chosen by their key"),
    ],
)
def test_what_spark_cannot_be_trusted_with_is_ours(path: str, options: dict[str, str], why: str) -> None:
    splits = view(path, "splits", **options).to_pylist()
    assert [row["native"] for row in splits] == [False] * len(splits)
    assert why in [row["why_not_native"] for row in splits]
    assert plan(path, **options)["native_files"] == []
    assert "hunter2" not in str(plan(path, **options))


def test_changes_are_planned_and_pinned_too(golden: Extracted) -> None:
    path = str(golden("v9_mor_cdc_op_key"))
    cdc = {"hoodie.datasource.query.type": "cdc", "hoodie.datasource.read.begin.instanttime": "000"}
    (split,) = view(path, "splits", **cdc).to_pylist()
    assert (split["kind"], split["base_file"], split["native"]) == ("changes", None, False)
    assert split["why_not_native"] == "its rows are computed changes"
    chosen = {**cdc, "filter": "op = 'd'", "columns": "op,ts_ms"}
    pinned = {"hoodie.py.read.pin": plan(path, **chosen)["pin"]}
    assert rows(path, **chosen, **pinned).to_pylist() == rows(path, **chosen).to_pylist() != []


def test_a_pin_shows_the_state_it_was_made_in(path: str) -> None:
    found = plan(path)
    before, merged = rows(path), rows(path, **{"hoodie.py.read.pin": found["other_pin"]})
    hudi_py.write(path, [{"id": 1, "p": "b", "ts": 2, "v": -1.0}, {"id": 100, "p": "z", "ts": 2, "v": 0.0}])
    pinned = {"hoodie.py.read.pin": found["pin"]}
    assert_rows_equal(rows(path, **pinned), before)
    assert rows(path, **{"hoodie.py.read.pin": found["other_pin"]}).equals(merged)
    assert set(merged.column("p").to_pylist()) == {"a"}
    filtered = rows(path, **pinned, filter="v < 3", columns="id")
    assert sorted(filtered.column("id").to_pylist()) == [0, 1]
    assert rows(path, **pinned, **{"hoodie.py.read.keys": '["1", "100"]'}).column("id").to_pylist() == [1]
    assert view(path, "files", **pinned).num_rows == 3
    assert len(found["pin"]) < 400


def test_a_pin_tells_of_files_that_are_gone(path: str) -> None:
    # drops the metadata table, which would still list them
    hudi_py.write(path, [{"id": 0, "p": "a", "ts": 3, "v": 0.0}], options={"hoodie.metadata.enable": "false"})
    pinned = {"hoodie.py.read.pin": plan(path)["pin"]}
    for file in Path(path, "b").glob("*.parquet"):
        file.unlink()
    with pytest.raises(CorruptFileError, match="is missing"):
        rows(path, **pinned)


@pytest.mark.parametrize("text", ["nonsense", "", "eJwDAAAAAAE=", "eJyrVkrLL8pNLFGyMqwFABwuBAU="])
def test_a_text_that_is_no_pin_is_refused(path: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.py\.read\.pin.*view `plan`"):
        PlanPin.decode(text)


def test_pins_are_the_same_in_every_process(path: str) -> None:
    assert plan(path)["pin"] == plan(path)["pin"]
    pin = PlanPin.decode(plan(path)["pin"])
    assert PlanPin.decode(pin.encode()) == pin
    assert len(pin.slices) == 3


@pytest.mark.parametrize(
    "name", cases(sorted(load()), "native files", 15, quick=[*NEVER_NATIVE, *ALL_NATIVE, *sorted(load())[::4]])
)
def test_native_files_hold_the_rows_as_the_table_shows_them(golden: Extracted, name: str) -> None:
    """Read without any of our rules, by the columns of the plan, they are the splits' rows."""
    path = str(golden(name))
    options = Options.resolve({}, Scope.READ)
    try:
        planned = plan_table(path, options, None)
    except HudiError:
        pytest.skip("the table is refused")
    found = plan(path)
    native = dict(zip(view(path, "splits").column("base_file").to_pylist(), planned.plan.splits, strict=True))
    for file in found["native_files"]:
        split = native[file.rpartition("/")[2]]
        ours = pa.Table.from_batches(list(read_split(split)), split.output_schema)
        theirs = pq.read_table(file.removeprefix("file://"), columns=found["columns"], partitioning=None)
        for field in split.output_schema:
            if field.name not in theirs.column_names:
                theirs = theirs.append_column(field, pa.nulls(theirs.num_rows, field.type))
        assert_rows_equal(ours, theirs.select(found["columns"]))
    pinned = {"hoodie.py.read.pin": found["pin"]}
    assert [split.file_id for split in plan_table(path, Options.resolve(pinned, Scope.READ), None).plan.splits] == [
        split.file_id for split in planned.plan.splits
    ]
    if name in NEVER_NATIVE:
        assert found["native_files"] == []
    if name in ALL_NATIVE:
        assert found["other_splits"] == 0


def test_slices_that_python_alone_merges_faster(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    auto = {"hoodie.py.read.native": "auto"}
    assert "  by the data source  1: the slices with logs are small" in plan(path, **auto)["explain"]
    monkeypatch.setattr("pyspark_hudi.native._SMALL_BYTES", 0)
    assert len(plan(path, **auto)["merged_files"]) == 1
    monkeypatch.setattr("pyspark_hudi.native._MAX_LOGS", 0)
    explained = plan(path, **auto)["explain"]
    assert "  by the data source  1: its logs are much larger than its base file" in explained
    assert "  by Spark's Parquet reader  2 base files, 0 merged with logs" in explained


def test_pending_plans_of_services(path: str) -> None:
    assert view(path, "plans").num_rows == 0
    instant = hudi_py.open_table(path).compaction.schedule()
    (row,) = view(path, "plans").to_pylist()  # one file group has a log
    assert (row["service"], row["instant"], row["partition"], len(row["files"])) == ("compaction", instant, "a", 2)
