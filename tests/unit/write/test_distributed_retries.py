"""Writes spread over tasks, in conflict with others: staged rows are written again under a new instant."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConflictError
from hudi_py.wiring import metadata_writer
from hudi_py.write import distributed
from hudi_py.write.distributed import DistributedWrite, TaskId, abort_write, commit_write, plan_write, run_task
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
    return plan_write(root, resolved, rows(range(1), "").schema, metadata=metadata_writer(resolved), **changes)


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


def test_what_tasks_have_written_is_not_written_again(root, monkeypatch):
    """Files belong to the instant of the plan."""
    monkeypatch.setattr(distributed, "SMALL_BYTES", 1)
    write = planned(root, 3, "bulk_insert", overwrite=True)
    results = [run_task(write, TaskId(0), rows(range(4), "ours").to_batches())]
    assert results[0].stats
    hudi_py.write(root, rows(range(2, 6), "theirs"), options=OPTIONS)
    with pytest.raises(ConflictError):
        commit_write(write, results)
    abort_write(write)
    assert set(read(root).values()) == {"first", "theirs"}
