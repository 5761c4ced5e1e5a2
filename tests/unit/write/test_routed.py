"""Writes whose rows an engine shuffles by file group, with the shuffles done here: equal to those of one process."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConflictError, DuplicateKeyError, HudiError
from hudi_py.metadata.keys import file_groups
from hudi_py.wiring import service_target
from hudi_py.write import distributed, routing
from hudi_py.write.distributed import TaskId, abort_write, commit_write, plan_write, run_task
from hudi_py.write.result import WriteResult
from hudi_py.write.routed import Sizes
from hudi_py.write.routing import PART
from tests.faults.tables import leftovers
from tests.support.choice import cases
from tests.support.engine import Engine, write_routed
from tests.support.writers import options

INDEXES = {
    "simple": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "record": {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
    },
    "global": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
    "moving": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.record.index.update.partition.path": "true",
    },
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
}


def rows(ids: Iterable[int], ts: int, v: int, *, parts: int = 3, deleted: Iterable[int] = ()) -> pa.Table:
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": ["abc"[n % parts] for n in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "v": pa.array([v + at for at in range(len(ids))], pa.int64()),
            "_hoodie_is_deleted": [n in set(deleted) for n in ids],
        }
    )


def stored(root: str) -> list[tuple[Any, ...]]:
    columns = ["_hoodie_partition_path", "_hoodie_record_key", "id", "p", "ts", "v"]
    table = hudi_py.open_table(root).scan(columns=columns).to_table()
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


def counts_of(result: WriteResult) -> tuple[int | None, ...]:
    return result.num_inserted, result.num_updated, result.num_deleted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "index"),
    cases(product((6, 8, 9), ("cow", "mor"), INDEXES), "routed writes", 1),
)
def test_equal_to_the_writes_of_one_process(tmp_path: Path, version: int, kind: str, index: str) -> None:
    given = {**options(version, kind), "hoodie.record.merge.mode": "EVENT_TIME_ORDERING", **INDEXES[index]}
    if index == "record" and version < 9:
        given |= INDEXES["simple"]
    alone, spread = str(tmp_path / "alone"), str(tmp_path / "spread")
    twice = pa.concat_tables([rows(range(30, 60), 5, 100), rows(range(45, 80), 5, 500), rows(range(50, 55), 4, 900)])
    steps = [
        ("bulk_insert", rows(range(40), 1, 0), {}),
        ("insert", rows(range(40, 50), 1, 50), {}),
        ("upsert", twice, {}),
        ("upsert", rows(range(0, 90, 3), 6, 1000, parts=2, deleted=range(0, 30, 2)), {}),
        ("delete", rows(range(0, 120, 7), 0, 0), {}),
        ("insert_overwrite", rows(range(1, 30, 3), 7, 2000), {}),
        ("upsert", rows(range(200, 260), 1, 3000), {}),
    ]
    if index != "bucket":
        known = {"hoodie.datasource.insert.dup.policy": "drop"}
        steps.insert(5, ("insert", rows(range(60, 130), 8, 4000), known))
    for operation, data, more in steps:
        one = hudi_py.write(alone, data, operation, {**given, **more})
        other = write_routed(spread, data, operation, {**given, **more})
        assert counts_of(one) == counts_of(other), operation
        assert stored(alone) == stored(spread), operation
    table = hudi_py.open_table(spread)
    assert table.metadata.verify().ok
    assert table.timeline.pending == ()
    assert leftovers(Path(spread)) == set()


def base(tmp_path: Path, kind: str = "cow", **more: str) -> tuple[str, dict[str, str]]:
    given = {**options(9, kind), "hoodie.record.merge.mode": "EVENT_TIME_ORDERING", **more}
    root = str(tmp_path / "t")
    hudi_py.write(root, rows(range(40), 1, 0), options=given)
    return root, given


@pytest.mark.slow
@pytest.mark.parametrize("index", ["simple", "moving"])
def test_wrong_counts_only_change_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    """As where two evaluations of the input differ, or a partition has far more rows than the others."""
    monkeypatch.setattr(routing, "_LOOKUP_ROWS", 7)
    root, given = base(tmp_path, **INDEXES[index])
    data = pa.concat_tables([rows(range(20, 400), 2, 1000, parts=1), rows(range(20, 30), 3, 5000)])
    engine = Engine(root, data, "upsert", given)
    tasks = engine.routed(Sizes({"a": 120, "elsewhere": 9}, 2_000_000))
    result = commit_write(engine.write, engine.ran(tasks))
    other = str(tmp_path / "other")
    hudi_py.write(other, rows(range(40), 1, 0), options=given)
    assert counts_of(result) == counts_of(hudi_py.write(other, data, options=given))
    assert stored(root) == stored(other)
    assert result.num_files > 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("index", ["simple", "moving"])
@pytest.mark.parametrize("most", [0, 9])
def test_few_rows_are_looked_up_by_the_tasks_that_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, most: int
) -> None:
    """Not where a key may be in other partitions: its rows must come to one task."""
    monkeypatch.setattr(routing, "_TASKS_OF_A_PARTITION", most)
    root, given = base(tmp_path, **INDEXES[index])
    data = pa.concat_tables([rows(range(30, 50), 2, 100 * n) for n in range(3)])
    engine = Engine(root, data, "upsert", given)
    in_place = index == "simple" and most > 0
    parts = [row["parts"] for row in engine.measured()]
    assert parts == ([10, 0, 0] if index == "moving" else [int(not in_place)] * 3)
    engine.commit()
    other = str(tmp_path / "other")
    hudi_py.write(other, rows(range(40), 1, 0), options=given)
    hudi_py.write(other, data, options=given)
    assert stored(root) == stored(other)


def test_of_equal_rows_the_last_of_the_input_counts(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    data = pa.concat_tables([rows(range(30, 50), 2, 100 * n) for n in range(7)])
    write_routed(root, data, "upsert", given)
    assert {row[2]: row[5] for row in stored(root) if row[2] >= 30} == {n: 570 + n for n in range(30, 50)}


def test_new_rows_fill_up_small_files(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    before = {row["file_id"] for row in hudi_py.open_table(root).files().to_pylist()}
    for operation in ("insert", "upsert"):
        write_routed(root, rows(range(100, 160), 1, 0), operation, given)
    assert {row["file_id"] for row in hudi_py.open_table(root).files().to_pylist()} == before
    full = {**given, "hoodie.parquet.small.file.limit": "0", "hoodie.parquet.max.file.size": "4000"}
    result = write_routed(root, rows(range(200, 290), 1, 0), "insert", full)
    assert result.num_inserted == 90
    assert result.num_files > 3


def test_a_task_may_run_several_times(tmp_path: Path) -> None:
    """Retries and speculative attempts: files of those that do not report are removed."""
    root, given = base(tmp_path)
    engine = Engine(root, rows(range(20, 60), 2, 100), "upsert", given)
    tasks = engine.routed()
    for attempt in (1, 2):
        results = [run_task(engine.write, TaskId(at, 1, attempt), task) for at, task in enumerate(tasks)]
    commit_write(engine.write, results)
    assert {row[2]: row[5] for row in stored(root) if row[2] >= 20} == {n: 80 + n for n in range(20, 60)}
    listed = hudi_py.open_table(root).files().to_pylist()
    assert (
        len(list(Path(root).rglob("*.parquet"))) - len(list(Path(root, ".hoodie").rglob("*.parquet")))
        == len(listed) + 3
    )
    assert leftovers(Path(root)) == set()


def test_a_file_group_in_two_tasks_is_refused(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    before = stored(root)
    engine = Engine(root, rows(range(0, 30, 3), 2, 100), "upsert", given)
    (task,) = (task for task in engine.routed() if task)
    results = engine.ran([task[:1], task[1:]])
    with pytest.raises(HudiError, match="two tasks have written the file group"):
        commit_write(engine.write, results)
    abort_write(engine.write)
    assert stored(root) == before
    assert leftovers(Path(root)) == set()


def test_another_write_since_the_plan_is_a_conflict(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    engine = Engine(root, rows(range(20), 2, 100), "upsert", given)
    results = engine.ran(engine.routed())
    hudi_py.write(root, rows(range(10), 3, 900), options=given)
    before = stored(root)
    with pytest.raises(ConflictError):
        commit_write(engine.write, results)
    abort_write(engine.write)
    assert stored(root) == before


def test_known_keys_may_be_refused(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    more = {**given, "hoodie.datasource.insert.dup.policy": "fail"}
    assert write_routed(root, rows(range(40, 50), 1, 0), "insert", more).num_inserted == 10
    with pytest.raises(DuplicateKeyError, match="already has the key '49'"):
        write_routed(root, rows(range(49, 60), 1, 0), "insert", more)
    assert len(stored(root)) == 50


@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_PATH_REPARTITION"])
def test_bulk_inserts_in_order(tmp_path: Path, mode: str) -> None:
    given = {**options(9, "cow"), "hoodie.bulkinsert.sort.mode": mode}
    root = str(tmp_path / "t")
    result = write_routed(root, rows(range(60, 0, -1), 1, 0), "bulk_insert", given)
    assert result.num_inserted == 60
    # the first half of all rows in order ends within the second partition
    assert result.num_files == (4 if mode == "GLOBAL_SORT" else 3)
    keys = hudi_py.open_table(root).scan(columns=["_hoodie_record_key", "_hoodie_file_name"]).to_table()
    ranges = []
    for name in keys["_hoodie_file_name"].unique().to_pylist():
        some = keys.filter(pa.compute.equal(keys["_hoodie_file_name"], name))["_hoodie_record_key"].to_pylist()
        assert mode != "GLOBAL_SORT" or some == sorted(some)
        ranges.append(some)
    assert sum(map(len, ranges)) == 60


def test_no_rows(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    before = stored(root)
    empty = rows([], 1, 0)
    assert counts_of(write_routed(root, empty, "upsert", given)) == (0, 0, 0)
    assert write_routed(root, empty, "upsert", {**given, "hoodie.allow.empty.commit": "false"}).instant is None
    assert stored(root) == before
    assert len(hudi_py.open_table(root).history()) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "index", "operation"),
    cases(
        [
            *product(("cow", "mor"), ("simple", "global", "moving"), ("upsert", "delete")),
            *product(("cow",), ("simple",), ("insert_overwrite", "insert_overwrite_table")),
        ],
        "staged rows in parts",
        3,
    ),
)
def test_many_staged_rows_are_merged_in_parts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    index: str,
    operation: str,
) -> None:
    monkeypatch.setattr(distributed, "TASK_MEMORY", 1000)
    monkeypatch.setattr(routing, "_LOOKUP_ROWS", 10)
    more = {"hoodie.combine.before.insert": "true"} if operation.startswith("insert") else {}
    root, given = base(tmp_path, kind, **INDEXES[index], **more)
    data = pa.concat_tables([rows(range(20, 90), 2, 100, parts=2), rows(range(50, 60), 1, 900)])
    other = str(tmp_path / "other")
    hudi_py.write(other, rows(range(40), 1, 0), options=given)
    one = hudi_py.write(other, data, operation, given)
    staging = {"hoodie.py.staging.max.bytes": "10", "hoodie.datasource.write.operation": operation}
    resolved = Options.resolve({**given, **staging}, Scope.WRITE, defaults={})
    write = plan_write(service_target(root, resolved), data.schema)
    halves = [data.slice(0, 40), data.slice(40)]
    result = commit_write(write, [run_task(write, TaskId(at), half.to_batches()) for at, half in enumerate(halves)])
    assert counts_of(result) == counts_of(one)
    assert stored(root) == stored(other)
    assert "pyspark_hudi.write_table lets Spark's tasks merge them" in caplog.text
    assert leftovers(Path(root)) == set()


def test_plans_of_all_types_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    kinds = [pa.int32(), pa.float32(), pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.decimal128(10, 2)]
    kinds += [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ms"), pa.binary(5)]
    kinds += [pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.list_(pa.float64()))])]
    given = options(9, "mor")
    data = rows(range(9), 1, 0)
    for number, kind in enumerate(kinds):
        data = data.append_column(f"c{number}", pa.nulls(9, kind))
    del given["hoodie.table.timeline.timezone"]
    write_routed(str(tmp_path / "t"), data, "upsert", given)
    assert len(stored(str(tmp_path / "t"))) == 9


def test_a_batch_of_a_stream_is_written_once(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    batch = {"hoodie.datasource.write.streaming.checkpoint.identifier": "q"}
    batch |= {"hoodie.internal.spark.streaming.batch.id": "4"}
    assert write_routed(root, rows(range(40, 50), 1, 0), "upsert", {**given, **batch}).num_inserted == 10
    again = Engine(root, rows(range(50, 60), 1, 0), "upsert", {**given, **batch})
    assert "4" in (again.plan.committed or "")


@pytest.mark.parametrize("at_once", [500_000, 20])
def test_each_file_group_of_a_record_index_is_read_for_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(routing, "_GLOBAL_LOOKUP_ROWS", at_once)
    root, given = base(tmp_path, **INDEXES["global"])
    data = rows(range(20, 420), 2, 1000)
    engine = Engine(root, data, "upsert", given)
    measured = engine.measured()
    groups, splits = measured[0]["index_groups"], 1 if at_once > 400 else 400 // (at_once * 10)
    assert groups == 10
    assert [row["parts"] for row in measured] == [groups * splits, 0, 0]
    sizes = Sizes.of(measured)
    numbered = engine.each(engine.tasks, lambda steps, task: steps.number(sizes, task, parts=True))
    found = pa.Table.from_batches([batch for task in numbered for batch in task])
    parts = found[PART.name].to_numpy()
    assert set(parts) == set(range(groups * splits))
    assert (parts % groups == file_groups(pa.array([f"{each}" for each in found["id"].to_pylist()]), groups)).all()
    assert counts_of(engine.commit()) == (380, 20, 0)


def test_partitions_to_delete_are_the_only_columns_that_are_read(tmp_path: Path) -> None:
    root, given = base(tmp_path)
    engine = Engine(root, rows([1, 2, 4, 5], 1, 0), "delete_partition", given)
    assert engine.write.incoming.names == ["p"]
    engine.commit()
    assert {row[0] for row in stored(root)} == {"a"}
