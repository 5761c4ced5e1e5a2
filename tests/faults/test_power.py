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
from tests.support.power import Kept, after_failure, distinct, make, recorded

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
    found = table.scan().to_table()
    if not found.num_rows:
        return []
    listed: Rows = found.select(SCHEMA.names).sort_by("id").to_pylist()
    return listed


def fail_everywhere(root: Path, tmp_path: Path, act: Callable[[Path], object], go_on: Callable[[Path], object]) -> None:
    """`act` on the table at `root`, with a power failure at each point; `go_on` on some of what is left."""
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
        if number % _EVERY == 0:
            go_on(left)
        shutil.rmtree(left, ignore_errors=True)
    assert number > 5
    assert found == {before == after, True}


UPDATE = rows(range(2, 14), 3)


def goes_on_without_metadata_table(version: int, kind: str) -> Callable[[Path], None]:
    def go_on(root: Path) -> None:
        write(root, rows(range(20, 23), 4), "upsert", version, kind, PLAIN)
        assert {20, 21, 22} <= {row["id"] for row in read(root)}

    return go_on


def goes_on(version: int, kind: str) -> Callable[[Path], None]:
    """The next write."""

    def go_on(root: Path) -> None:
        write(root, rows(range(20, 23), 4), "upsert", version, kind)
        assert {20, 21, 22} <= {row["id"] for row in read(root)}
        report = hudi_py.open_table(str(root)).metadata.verify()
        assert report.ok, str(report)
        assert not report.reason

    return go_on


SLOW = pytest.mark.slow
_EVERY = 12
"""The next write is tried on each so many of the states that failures leave."""
FEW = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.table.services.enabled": "false",
}
PLAIN = {"hoodie.metadata.enable": "false"}


def made(root: Path, version: int, kind: str, given: dict[str, str] | None = None) -> None:
    """Two commits: ids 0 to 9, of which 0 to 3 updated."""
    write(root, rows(range(10), 1), "insert", version, kind, given)
    write(root, rows(range(4), 2), "upsert", version, kind, given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        pytest.param(version, kind, marks=[] if (version, kind) == (6, "mor") else [SLOW])
        for version in (6, 9)
        for kind in ("cow", "mor")
    ],
)
def test_upsert(tmp_path, version, kind):
    root = tmp_path / "t"
    made(root, version, kind)
    fail_everywhere(root, tmp_path, lambda path: write(path, UPDATE, "upsert", version, kind), goes_on(version, kind))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_upsert_without_a_metadata_table(tmp_path, version, kind):
    root = tmp_path / "t"
    made(root, version, kind, PLAIN)
    go_on = goes_on_without_metadata_table(version, kind)
    fail_everywhere(root, tmp_path, lambda path: write(path, UPDATE, "upsert", version, kind, PLAIN), go_on)


@pytest.mark.slow
def test_the_first_write(tmp_path):
    fail_everywhere(
        tmp_path / "new",
        tmp_path,
        lambda path: write(path, UPDATE, "insert", 9, "mor"),
        lambda path: write(path, UPDATE, "upsert", 9, "mor"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_rollback(tmp_path, version, kind):
    root = tmp_path / "t"
    made(root, version, kind)
    last = hudi_py.open_table(str(root)).timeline.write_completed[-1].time
    given = options(version, kind)
    fail_everywhere(
        root, tmp_path, lambda path: hudi_py.open_table(str(path), given).rollback(last), goes_on(version, kind)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_a_write_that_rolls_back_another(tmp_path, version, kind):
    root = tmp_path / "t"
    made(root, version, kind)
    left = dead_write(root, tmp_path, version, kind)
    fail_everywhere(
        left, tmp_path, lambda path: write(path, rows(range(1), 9), "upsert", version, kind), goes_on(version, kind)
    )


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "version", "kind"),
    [
        ("clean", 9, "cow"),
        ("compact", 9, "mor"),
        ("archive", 9, "cow"),
        ("archive", 6, "cow"),
    ],
)
def test_services(tmp_path, service, version, kind):
    root = tmp_path / "t"
    # the metadata table holds archiving back until it was compacted
    more = {**FEW, **(PLAIN if service == "archive" else {})}
    given = options(version, kind, more)
    made(root, version, kind, more)
    for ts in range(3, 7):
        write(root, rows(range(ts), ts), "upsert", version, kind, more)
    go_on = goes_on_without_metadata_table(version, kind) if service == "archive" else goes_on(version, kind)
    count = len(list(root.rglob("*")))
    fail_everywhere(root, tmp_path, lambda path: getattr(hudi_py.open_table(str(path), given), service)(), go_on)
    assert len(list(root.rglob("*"))) != count


def dead_write(root: Path, tmp_path: Path, version: int, kind: str) -> Path:
    """The table with a write whose process died before its commit."""
    with recorded(root) as recorder:
        write(root, UPDATE, "upsert", version, kind)
    published = [number for number, cut in enumerate(recorder.cuts) if cut.after.startswith("rename ")]
    left = tmp_path / "dead"
    make(after_failure(recorder.cuts[published[-1]], Kept(), root), left)
    return left
