"""What inserts do with keys that the table has: the results of the same writes by Apache Hudi 1.2.0."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, DuplicateKeyError
from hudi_py.wiring import service_target
from hudi_py.write.api import write_options
from hudi_py.write.distributed import TaskId, commit_write, plan_write, run_task

POLICY = "hoodie.datasource.insert.dup.policy"
OLDER = "hoodie.datasource.write.insert.drop.duplicates"
COMBINE = "hoodie.combine.before.insert"
QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}

OLD = [("b", 1, "old")]
BOTH = [("a", 3, "a3"), ("a", 5, "a5")]
DATA = pa.table({"id": ["a", "b", "a"], "ts": [5, 9, 3], "v": ["a5", "new", "a3"], "p": ["x", "x", "x"]})


def make(path: Path, **more: object) -> str:
    first = pa.table({"id": ["b"], "ts": [1], "v": ["old"], "p": ["x"]})
    keywords = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", **more}
    hudi_py.write(path, first, "bulk_insert", QUICK, **keywords)  # type: ignore[arg-type]
    return str(path)


def rows(path: str) -> list[tuple[object, ...]]:
    found = hudi_py.open_table(path).scan(columns=["id", "ts", "v"]).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [*BOTH, *OLD, ("b", 9, "new")]),
        ({POLICY: "drop"}, [*BOTH, *OLD]),
        ({POLICY: "DROP", COMBINE: "true"}, [BOTH[1], *OLD]),
        ({OLDER: "true"}, [BOTH[1], *OLD]),
        ({OLDER: "true", POLICY: "none"}, [BOTH[1], *OLD]),
        ({OLDER: "true", COMBINE: "false"}, [*BOTH, *OLD]),
        ({POLICY: "fail"}, None),
        ({OLDER: "true", POLICY: "fail"}, None),
    ],
)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_insert(tmp_path: Path, options: dict[str, str], expected: list[object] | None, kind: str) -> None:
    path = make(tmp_path / "t", table_type=kind)
    if expected is not None:
        hudi_py.open_table(path).insert(DATA, options={**QUICK, **options})
        assert rows(path) == expected
        return
    with pytest.raises(DuplicateKeyError, match="already has the key 'b' in partition 'x'"):
        hudi_py.open_table(path).insert(DATA, options={**QUICK, **options})
    assert rows(path) == OLD


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "RECORD_LEVEL_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_the_index_decides_whether_a_key_of_another_partition_is_known(tmp_path: Path, index: str) -> None:
    options = {**QUICK, "hoodie.index.type": index}
    if "RECORD" in index:
        options[f"hoodie.metadata.{index.lower().replace('_', '.').removesuffix('.index')}.index.enable"] = "true"
    first = pa.table({"id": ["b"], "ts": [1], "v": ["old"], "p": ["x"]})
    path = str(tmp_path / "t")
    hudi_py.write(path, first, "upsert", options, record_key="id", partition_by="p", ordering_by="ts")
    there = pa.table({"id": ["b"], "ts": [5], "v": ["b5"], "p": ["y"]})
    hudi_py.write(path, there, "insert", {**options, POLICY: "drop"})
    assert rows(path) == (OLD if index.startswith("GLOBAL") else [*OLD, ("b", 5, "b5")])


def test_an_upsert_becomes_an_insert(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    result = hudi_py.open_table(path).upsert(DATA, options={**QUICK, POLICY: "drop"})
    assert (result.operation, result.num_inserted, result.num_updated) == ("insert", 2, 0)
    assert rows(path) == [*BOTH, *OLD]
    assert hudi_py.open_table(path).history()["operation"].to_pylist() == ["BULK_INSERT", "INSERT"]


def test_other_operations(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    table = hudi_py.open_table(path)
    for option, value in ((OLDER, "true"), (POLICY, "drop")):
        refused = f"Option {option} = '{value}' is not supported with the operation bulk_insert"
        with pytest.raises(ConfigError, match=refused):
            table.bulk_insert(DATA, options={option: value})
    assert rows(path) == OLD
    table.bulk_insert(DATA, options={**QUICK, POLICY: "fail"})  # ignored, as by Apache Hudi
    assert rows(path) == [*BOTH, *OLD, ("b", 9, "new")]
    table.insert_overwrite(DATA, options={**QUICK, OLDER: "true"})  # only combines
    assert rows(path) == [BOTH[1], ("b", 9, "new")]


def test_keys_within_the_data_are_no_duplicates(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = DATA.filter(pa.compute.equal(DATA["id"], "a"))
    hudi_py.write(path, data, "insert", {**QUICK, POLICY: "fail"}, record_key="id", ordering_by="ts")
    assert rows(path) == BOTH


def test_buckets_are_refused(tmp_path: Path) -> None:
    options = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", POLICY: "drop"}
    with pytest.raises(ConfigError, match="finds the bucket of a key"):
        hudi_py.write(tmp_path / "t", DATA, "insert", options, record_key="id", ordering_by="ts")


def test_tasks_leave_inserts_to_the_commit(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    options = write_options({**QUICK, POLICY: "drop", "hoodie.datasource.write.operation": "upsert"})
    write = plan_write(service_target(path, options), DATA.schema)
    results = [run_task(write, TaskId(number), DATA.slice(number, 1).to_batches()) for number in range(3)]
    commit_write(write, results)
    assert rows(path) == [*BOTH, *OLD]
