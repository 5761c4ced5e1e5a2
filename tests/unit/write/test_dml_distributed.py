"""Statements that several processes run: the staged source, and the run in one process."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.model.layout import SOURCES
from hudi_py.wiring import write_target
from hudi_py.write.context import TaskId
from hudi_py.write.dml.distributed import (
    Delete,
    MergeBuilder,
    MergeCall,
    MergePlan,
    SpreadPlan,
    Update,
    WriteResult,
    abort_merge,
    commit_merge,
    plan_merge,
    run_change,
    stage_source,
)

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])


def planned(path: Path, plan: MergePlan) -> MergeCall:
    resolved = Options.resolve({}, Scope.WRITE)
    call = plan_merge(write_target(str(path), resolved), plan, SCHEMA)
    return pickle.loads(pickle.dumps(call))


def updated(path: Path, change: Update) -> Any:
    resolved = Options.resolve({}, Scope.WRITE)
    return run_change(write_target(str(path), resolved), change)


def merging(on: str = "t.id = s.id") -> MergeBuilder:
    def never(plan: MergePlan) -> Any:
        raise AssertionError(plan)

    builder = MergeBuilder(MergePlan((on,), ()), never)
    builder._outcome.executed = True  # only its plan counts here
    return builder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [{"id": n, "p": "ab"[n % 2], "v": float(n)} for n in range(4)]
    hudi_py.write(tmp_path / "t", rows, record_key="id", partition_by="p")
    return tmp_path / "t"


def values(path: Path) -> dict[int, float]:
    return {row["id"]: row["v"] for row in hudi_py.open_table(path).scan().to_table().to_pylist()}


def test_a_source_of_several_tasks(path: Path) -> None:
    plan = merging().when_matched_update({"v": "s.v"}).when_not_matched_insert_all().plan
    call = planned(path, plan)
    staged = []
    for task in range(3):
        rows = pa.RecordBatch.from_pylist([{"id": 2 * task, "p": "a", "v": -1.0}] if task else [], SCHEMA)
        staged.append(stage_source(call, TaskId(task), [rows]))
    assert staged[0] is None
    hudi_py.write(path, [{"id": 9, "p": "b", "v": 9.0}])  # which removes what finished writes left
    result = commit_merge(call, [each for each in staged if each is not None])
    assert isinstance(result, WriteResult)
    assert (result.num_inserted, result.num_updated) == (1, 1)
    assert values(path) == {0: 0.0, 1: 1.0, 2: -1.0, 3: 3.0, 4: -1.0, 9: 9.0}
    assert not list(Path(path, SOURCES).iterdir())


def test_a_statement_that_does_not_fit_is_refused_before_its_source_is_read(path: Path) -> None:
    with pytest.raises(ConfigError, match="required to match on all record key columns"):
        planned(path, merging("t.v > s.v").when_matched_delete().plan)
    with pytest.raises(SchemaMismatchError, match="Cannot set the column 'w', which the table lacks"):
        updated(path, Update({"w": 1}, None))


def test_a_failed_task_leaves_nothing(path: Path) -> None:
    call = planned(path, merging("t.id = 1 DIV s.id").when_matched_delete().plan)
    rows = pa.RecordBatch.from_pylist([{"id": 0, "p": "a", "v": 0.0}], SCHEMA)
    with pytest.raises(ConfigError, match="cannot be evaluated"):
        stage_source(call, TaskId(0), [rows])
    abort_merge(call)
    assert not list(Path(path, SOURCES).iterdir())


def test_constants_travel_as_they_are(tmp_path: Path) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    given: dict[str, Any] = {
        "i": 7,
        "b": True,
        "f": 0.1,
        "d": Decimal("1.50"),
        "x": b"\x00\xff",
        "day": datetime.date(2026, 1, 2),
        "at": datetime.datetime(2026, 1, 2, 3, tzinfo=zone),
        "s": None,
        "n": pa.scalar(3, pa.int16()),
    }
    kinds = [pa.int32(), pa.bool_(), pa.float32(), pa.decimal128(9, 2), pa.binary(), pa.date32()]
    kinds += [pa.timestamp("us", "UTC"), pa.string(), pa.int64()]
    schema = pa.schema([("id", pa.int64()), *zip(given, kinds, strict=True)])
    hudi_py.write(tmp_path / "t", pa.Table.from_pylist([{"id": 1, "s": "x"}], schema), record_key="id")
    assert updated(tmp_path / "t", Update(given, None)).num_updated == 1
    (row,) = hudi_py.open_table(tmp_path / "t").scan(list(given)).to_table().to_pylist()
    assert row == {**given, "f": pa.scalar(0.1, pa.float32()).as_py(), "at": given["at"], "n": 3}
    with pytest.raises(ConfigError, match="is of type object; supported: None, bool"):
        updated(tmp_path / "t", Update({"s": object()}, None))


def test_tasks_get_the_options_of_the_storage(path: Path) -> None:
    given = {"hoodie.py.local.max.bytes": "0", "storage.some_key": "secret"}
    resolved = Options.resolve(given, Scope.WRITE)
    spread = run_change(write_target(str(path), resolved), Delete("id = 1"))
    assert isinstance(spread, SpreadPlan)
    assert dict(spread.statement.write.storage_options) == {"some_key": "secret"}
    assert "secret" not in repr(spread)


def test_a_merge_is_bound_again_if_the_columns_have_changed(path: Path) -> None:
    plan = merging().when_matched_update({"v": "s.v"}).when_not_matched_insert_all().plan
    call = planned(path, plan)
    staged = stage_source(call, TaskId(0), [pa.RecordBatch.from_pylist([{"id": 7, "p": "a", "v": 1.0}], SCHEMA)])
    assert staged is not None
    hudi_py.open_table(path).alter(add={"w": pa.string()})
    with pytest.raises(SchemaMismatchError, match="needs the column 'w', which the source lacks"):
        commit_merge(call, [staged])
    assert not list(Path(path, SOURCES).iterdir())
