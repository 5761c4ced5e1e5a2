"""Logs with Parquet blocks that we write: Apache Hudi reads, compacts and adds to them."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

import hudi_py
from hudi_py.formats.log import BlockType, read_blocks
from hudi_py.storage import open_storage
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.oracle.test_partial_updates import QUICK, rows
from tests.support.choice import cases

pytestmark = pytest.mark.slow

PARQUET = {"hoodie.logfile.data.block.format": "parquet"}


def data_blocks(path: Path) -> set[BlockType]:
    storage, found = open_storage(str(path)), set()
    for log in path.rglob(".*.log.*"):
        if ".hoodie" not in log.parts and log.suffix != ".crc":
            blocks = read_blocks(storage, str(log.relative_to(path)), log.stat().st_size)
            found |= {block.type for block in blocks if block.type.is_data}
    return found


@pytest.mark.parametrize(
    ("version", "ordering", "partial"),
    cases(
        [each for each in product((6, 8, 9), ("ts", None), (False, True)) if each[0] > 6 or not each[2]],
        "Parquet logs",
        1,
    ),
)
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, ordering: str | None, partial: bool) -> None:
    rnd = random.Random(f"{version} {ordering} {partial}")
    path, options = tmp_path / "t", {**QUICK, **PARQUET}
    theirs = {**PARQUET, "hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
    keys = {"record_key": "id", "partition_by": "p", "ordering_by": ordering}
    whole = rows(rnd, list(range(60)), 10)
    hudi_py.write(path, whole, options=options, **keys, table_type="mor", table_version=version)
    table = hudi_py.open_table(path, options)

    def agree() -> None:
        assert_rows_equal(table.scan().to_table(), oracle.read(path))

    for at in (12, 13):
        names = ("name", "spots") if partial else ("name", "price", "seen", "spots")
        table.upsert(rows(rnd, rnd.sample(range(60), 25), at, names), partial=partial)
        agree()
    table.delete(rows(rnd, [0, 1, 2, 3], 20))
    table.update({"name": "'by a statement'"}, "price > 20")
    agree()
    assert data_blocks(path) == {BlockType.PARQUET}
    # Apache Hudi skips a file group if no single file of it can match a filter
    found = oracle.check(path)["problems"]
    assert [problem for problem in found if "with data skipping" not in problem] == []
    kept = range(
        0 if ordering else 4, 60
    )  # without, Apache Hudi cannot read a row that logs delete and then have again
    oracle.write(path, rows(rnd, rnd.sample(kept, 20), 21), options=theirs)
    agree()
    before = table.scan().to_table()
    oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')", theirs)
    agree()
    assert_rows_equal(table.scan().to_table(), before)
    table.upsert(rows(rnd, rnd.sample(range(60), 20), 22))
    table.compact()
    agree()
    assert table.metadata.verify().ok
