"""Writes spread over tasks, in conflict with others: staged rows are written again under a new instant."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.config import write as write_config
from hudi_py.errors import ConflictError
from hudi_py.storage import open_storage
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import after_commit, metadata_writer, service_target
from hudi_py.write import staging
from hudi_py.write.distributed import (
    DistributedWrite,
    TaskId,
    TaskResult,
    abort_write,
    commit_write,
    plan_write,
    run_task,
)
from tests.faults.tables import leftovers
from tests.support.writers import options

OPTIONS = {
    **options(9, "cow"),
    "hoodie.write.num.retries.on.conflict.failures": "0",
    "hoodie.write.set.null.for.missing.columns": "true",
}


def rows(ids: range, value: str, **more: list[object]) -> pa.Table:
    count = len(ids)
    columns = {"id": list(ids), "p": ["a"] * count, "ts": [1] * count, "v": [value] * count, **more}
    return pa.table(columns)


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(range(6), "first"), options=OPTIONS)
    return path


def planned(root: str, retries: int, operation: str = "upsert", **changes: bool) -> DistributedWrite:
    given = {
        **OPTIONS,
        "hoodie.write.num.retries.on.conflict.failures": str(retries),
        "hoodie.datasource.write.operation": operation,
    }
    resolved = Options.resolve(given, Scope.WRITE, defaults={})
    return plan_write(service_target(root, resolved), rows(range(1), "").schema, **changes)


def test_a_plan_has_the_options_once(root):
    given = {**OPTIONS, "storage.token": "hush", "hoodie.metadata.dir.filter.regex": "a_folder_left_out"}
    resolved = Options.resolve(given, Scope.WRITE, defaults={})
    metadata, after = metadata_writer(resolved), after_commit(resolved)
    assert after
    plan = plan_write(WriteTarget(open_storage(root), resolved, metadata, after), rows(range(1), "").schema)
    assert pickle.dumps(plan).count(b"a_folder_left_out") == 1
    abort_write(plan)


def read(root: str) -> dict[int, str]:
    found = hudi_py.open_table(root).scan(columns=["id", "v"]).to_table()
    assert len(set(found["id"].to_pylist())) == found.num_rows
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_staged_rows_are_written_again(root):
    """Beside another write, which has added a column: the second attempt sees it."""
    write = planned(root, 3)
    results = [run_task(write, TaskId(0), rows(range(4), "ours").to_batches())]
    hudi_py.write(root, rows(range(2, 6), "theirs", extra=[1, 2, 3, 4]), options=OPTIONS)
    done = commit_write(write, results)
    assert done is not None
    assert done.instant > write.handle.instant
    assert read(root) == {0: "ours", 1: "ours", 2: "ours", 3: "ours", 4: "theirs", 5: "theirs"}
    table = hudi_py.open_table(root)
    assert "extra" in table.schema.names
    assert table.timeline.pending == ()
    assert table.timeline.find(write.handle.instant) is None
    assert leftovers(Path(root)) == set()
    abort_write(write)
    assert len(read(root)) == 6


def test_without_retries_it_fails_and_is_undone(root):
    write = planned(root, 0)
    results = [run_task(write, TaskId(0), rows(range(4), "ours").to_batches())]
    hudi_py.write(root, rows(range(2, 6), "theirs"), options=OPTIONS)
    with pytest.raises(ConflictError, match=r"hoodie\.write\.num\.retries\.on\.conflict\.failures"):
        commit_write(write, results)
    abort_write(write)
    assert set(read(root).values()) == {"first", "theirs"}
    assert leftovers(Path(root)) == set()


def overwriting(root, monkeypatch, retries: int) -> tuple[DistributedWrite, list[TaskResult]]:
    """A write whose tasks have written files, some of its rows staged, and a write of others meanwhile."""
    monkeypatch.setattr(staging, "SMALL_BYTES", 1000)
    write = planned(root, retries, "bulk_insert", overwrite=True)
    data = [rows(range(100), "ours").to_batches(), rows(range(100, 103), "ours").to_batches()]
    results = [run_task(write, TaskId(task), batches) for task, batches in enumerate(data)]
    assert results[0].stats
    assert results[1].staged is not None
    hudi_py.write(root, rows(range(2, 6), "theirs", extra=[1, 2, 3, 4]), options=OPTIONS)
    return write, results


def test_what_tasks_have_written_is_read_back_and_written_again(root, monkeypatch):
    """Files belong to the instant of the plan."""
    write, results = overwriting(root, monkeypatch, 3)
    done = commit_write(write, results)
    assert done is not None
    assert done.instant > write.handle.instant
    assert read(root) == dict.fromkeys(range(103), "ours")
    table = hudi_py.open_table(root)
    assert "extra" in table.schema.names
    assert table.timeline.find(write.handle.instant) is None
    assert table.metadata.verify().ok
    assert leftovers(Path(root)) == set()


def test_more_than_one_process_is_to_write_is_not_written_again(root, monkeypatch):
    write, results = overwriting(root, monkeypatch, 3)
    little = write.options.replace({write_config.STAGING_MAX_BYTES: str(results[0].stats[0].file_size)})
    with pytest.raises(ConflictError):
        commit_write(replace(write, settings=replace(write.settings, options=little)), results)
    abort_write(write)
    assert set(read(root).values()) == {"first", "theirs"}


def test_partition_columns_are_read_back_from_paths(tmp_path, monkeypatch):
    """Files lack them."""
    monkeypatch.setitem(OPTIONS, "hoodie.datasource.write.drop.partition.columns", "true")
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(range(6), "first"), options=OPTIONS)
    write, results = overwriting(path, monkeypatch, 3)
    assert commit_write(write, results) is not None
    assert read(path) == dict.fromkeys(range(103), "ours")
    assert hudi_py.open_table(path).scan().to_table()["p"].unique().to_pylist() == ["a"]
