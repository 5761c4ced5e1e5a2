"""A power failure at every point of a write or service, where what was not flushed is lost, torn or kept at random:
the table reads as before or as after, the next write goes on from there, and what has returned is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import TableNotFoundError
from tests.faults.tables import SCHEMA, Rows, rows
from tests.support.power import Recorder, distinct, make, recorded

OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.write.lock.wait_time_ms": "5000",
    "hoodie.py.write.threads": "2",
}


def options(version: int, kind: str, given: dict[str, str] | None = None) -> dict[str, str]:
    return {
        **OPTIONS,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.table.name": "t",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.write.table.version": str(version),
        **(given or {}),
    }


def write(root: Path, data: pa.Table, operation: str, version: int, kind: str, given: dict[str, str] | None = None):
    return hudi_py.write(str(root), data, operation, options(version, kind, given))


def read(root: Path) -> Rows:
    """Rows sorted by key; none where there is no table."""
    try:
        table = hudi_py.open_table(str(root))
    except TableNotFoundError:
        return []
    found: Rows = table.scan(columns=SCHEMA.names).to_table().sort_by("id").to_pylist()
    return found


def fail_everywhere(
    root: Path, tmp_path: Path, act: Callable[[Path], object], after_failure: Callable[[Path], object], every: int
) -> Recorder:
    """`act` on the table at `root`, with a power failure at each point; `after_failure` on every so many of what is
    left."""
    before = read(root) if root.exists() else []
    with recorded(root) as recorder:
        act(root)
    after = read(root)
    assert recorder.flushes > 5
    found: set[bool] = set()
    number = 0
    for number, (what, end, tree) in enumerate(distinct(recorder, root)):
        left = tmp_path / "left"
        make(tree, left)
        there = read(left)
        assert there in (before, after), what
        if end:
            assert there == after, what
        found.add(there == after)
        if number % every == 0:
            after_failure(left)
        shutil.rmtree(left, ignore_errors=True)
    assert number > 20
    return recorder


UPDATE = rows(range(2, 14), 3)


def goes_on(version: int, kind: str) -> Callable[[Path], None]:
    """The next write."""

    def go_on(root: Path) -> None:
        write(root, rows(range(20, 23), 4), "upsert", version, kind)
        assert {20, 21, 22} <= {row["id"] for row in read(root)}
        report = hudi_py.open_table(str(root)).metadata.verify()
        assert report.ok and not report.reason, str(report)

    return go_on


KINDS = [
    pytest.param(version, kind, marks=[pytest.mark.slow] if (version, kind) in ((6, "cow"), (9, "cow")) else [])
    for version in (6, 9)
    for kind in ("cow", "mor")
]


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_upsert(tmp_path, version, kind):
    root = tmp_path / "t"
    write(root, rows(range(10), 1), "insert", version, kind)
    write(root, rows(range(4), 2), "upsert", version, kind)
    fail_everywhere(
        root, tmp_path, lambda path: write(path, UPDATE, "upsert", version, kind), goes_on(version, kind), 25
    )
