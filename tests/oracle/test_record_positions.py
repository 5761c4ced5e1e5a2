"""Logs of ours that say which rows of the base file they change: Apache Hudi reads them by these positions and by key,
adds to them and compacts them."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.formats.log import HeaderKey, read_blocks
from hudi_py.storage import open_storage
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.oracle.test_partial_updates import QUICK, rows
from tests.support.choice import cases

pytestmark = pytest.mark.slow

BOTH = [{"hoodie.merge.use.record.positions": text} for text in ("true", "false")]


def made(rnd: random.Random, keys: list[int], at: int) -> pa.Table:
    return rows(rnd, keys, at, ("name", "price", "seen", "spots"))


def positions(path: Path) -> list[bool]:
    """For each block of the table's logs, whether it has positions."""
    storage, found = open_storage(str(path)), []
    for log in sorted(path.rglob(".*.log.*")):
        if ".hoodie" not in log.parts and log.suffix != ".crc":
            for block in read_blocks(storage, str(log.relative_to(path)), log.stat().st_size):
                instant = block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
                assert (instant is None) == (HeaderKey.RECORD_POSITIONS not in block.header)
                found.append(instant is not None)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("version", "ordering", "form", "index"),
    cases(list(product((6, 8, 9), ("ts", None), ("avro", "parquet"), ("SIMPLE", "BLOOM"))), "record positions", 1),
)
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, ordering: str | None, form: str, index: str) -> None:
    rnd = random.Random(f"{version} {ordering} {form}")
    path = tmp_path / "t"
    options = {**QUICK, "hoodie.logfile.data.block.format": form, "hoodie.index.type": index}
    options["hoodie.write.record.positions"] = "true"
    theirs = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
    keys = {"record_key": "id", "partition_by": "p", "ordering_by": ordering}
    whole = made(rnd, list(range(60)), 10)
    hudi_py.write(path, whole, options=options, **keys, table_type="mor", table_version=version)
    table = hudi_py.open_table(path, options)

    def agree() -> None:
        own = table.scan().to_table()
        for way in BOTH:
            assert_rows_equal(own, oracle.read(path, options=way))

    for at in (12, 9, 13):  # the second are older rows
        table.upsert(made(rnd, rnd.sample(range(60), 25), at))
        agree()
    table.delete(made(rnd, [0, 1, 2, 3], 20))
    agree()
    told = positions(path)
    assert told
    assert set(told) == {version > 6}
    assert oracle.check(path)["problems"] == []
    # without an ordering column, Apache Hudi cannot read a row that logs delete and then have again
    kept = range(0 if ordering else 4, 60)
    oracle.write(path, made(rnd, rnd.sample(kept, 20), 21), options=theirs)
    agree()
    table.upsert(made(rnd, rnd.sample(kept, 20), 22))
    agree()
    before = table.scan().to_table()
    oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')", theirs)
    agree()
    assert_rows_equal(table.scan().to_table(), before)
    table.upsert(made(rnd, rnd.sample(range(60), 20), 23))
    agree()
    table.compact()
    agree()
    assert table.metadata.verify().ok


@pytest.mark.nightly
def test_without(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rnd = random.Random(0)
    options = {**QUICK, "hoodie.write.record.positions": "false"}
    hudi_py.write(path, made(rnd, list(range(9)), 10), options=options, record_key="id", table_type="mor")
    hudi_py.write(path, made(rnd, [1, 4], 11), options=options)
    assert positions(path) == [False]
    assert_rows_equal(hudi_py.open_table(path).scan().to_table(), oracle.read(path))
