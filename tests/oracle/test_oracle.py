"""The oracle itself: what it answers, and what becomes of a request that fails or takes too long."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle import environment
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": pa.array(["a", None, "ü"]),
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2024, 1, 2, 3, 4, 5, 678901, timezone.utc)] * 3, pa.timestamp("us", "UTC")),
        "local": pa.array([datetime(2024, 1, 2, 3, 4, 5)] * 3, pa.timestamp("us")),
        "tags": pa.array([["x", None], [], None], pa.list_(pa.string())),
        "part": pa.array(["p", "p", "q"]),
    }
)


def test_rows_come_back_as_written(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    instants = oracle.write(path, ROWS, "insert", key="id", ordering="at", partition="part", type="mor")
    assert [(i["action"], i["state"]) for i in instants] == [("deltacommit", "COMPLETED")]
    assert_rows_equal(oracle.read(path, drop_meta=True), ROWS)
    assert oracle.read(path, columns=["id"], where="part = 'q'").to_pydict() == {"id": [3]}
    assert oracle.timeline(path) == instants
    assert oracle.sql("select count(*) n from {table}", path) == [{"n": 3}]
    assert oracle.call(path, "show_commits(table => '{table}')")[0]["total_records_written"] == 3
    assert oracle.check(path)["problems"] == []


def test_an_error_is_raised_and_the_next_request_works(oracle: Oracle, tmp_path: Path) -> None:
    with pytest.raises(OracleError, match="no_such_function"):
        oracle.sql("select no_such_function(1)")
    assert oracle.sql("select 1 as one") == [{"one": 1}]


STUB = """
import json, sys, time
for line in sys.stdin:
    if "no end" in line:
        time.sleep(600)
    print(json.dumps({"id": 0, "ok": True, "rows": [{"one": 1}]}), flush=True)
"""


def test_a_request_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Asked of a stand-in, as the tests after it would pay for another JVM."""
    (tmp_path / "oracle.py").write_text(STUB)
    monkeypatch.setattr(environment, "HERE", tmp_path)
    monkeypatch.setattr(environment, "python", lambda: Path(sys.executable))
    stub = Oracle()
    assert stub.sql("select 1 as one") == [{"one": 1}]
    with pytest.raises(OracleError, match=r"did not answer within 0\.01 s"):
        stub.request("sql", text="no end", timeout=0.01)
    assert stub.sql("select 1 as one") == [{"one": 1}]
    stub.close()


@pytest.mark.nightly
def test_a_request_to_the_jvm_that_takes_too_long_is_ended(oracle: Oracle) -> None:
    oracle.request("version")  # the JVM runs
    with pytest.raises(OracleError, match=r"did not answer within 0\.01 s"):
        oracle.request("sql", text="select count(*) from range(100000000)", timeout=0.01)
    assert oracle.sql("select 1 as one") == [{"one": 1}]


@pytest.mark.nightly
def test_an_older_release_writes_version_6(oracle_015: Oracle, oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    oracle_015.write(path, ROWS.drop(["local"]), "upsert", key="id", ordering="at", partition="part", type="cow")
    properties = (path / ".hoodie" / "hoodie.properties").read_text()
    assert "hoodie.table.version=6\n" in properties
    assert_rows_equal(oracle.read(path, drop_meta=True), ROWS.drop(["local"]))


@pytest.mark.nightly
def test_a_table_that_was_named_leaves_no_schema_to_another(oracle_015: Oracle, tmp_path: Path) -> None:
    """Apache Hudi 0.15 makes a table with the schema of the catalog's table of that name, and most are called `t`."""
    paths = tmp_path / "a" / "t", tmp_path / "b" / "t"
    for path, columns in zip(paths, (["id", "at", "name"], ["id", "at", "part"]), strict=True):
        rows = ROWS.select(columns)
        oracle_015.write(path, rows, "upsert", key="id", ordering="at", type="cow")
        assert oracle_015.sql("select count(*) n from {table}", path) == [{"n": 3}]
        assert_rows_equal(oracle_015.read(path, drop_meta=True), rows)


@pytest.mark.slow
@pytest.mark.parametrize("deep", cases([False, True], "deep checks", 1))
def test_statistics_which_lose_rows_are_found(oracle: Oracle, tmp_path: Path, deep: bool) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.parquet.compression.codec": "uncompressed",
    }
    rows = ROWS.select(["id", "part"]).append_column("name", pa.array(["bbbb", "cccc", "dddd"]))
    hudi_py.write(str(path), rows, "insert", options)
    assert oracle.check(path, deep=deep)["problems"] == []
    # Another value in the file, and in its footer, than the metadata table's statistics know
    (file,) = path.glob("q/*.parquet")
    file.write_bytes(file.read_bytes().replace(b"dddd", b"zzzz"))
    problems = oracle.check(path, deep=deep)["problems"]
    assert any("name = 'zzzz': 0 rows with data skipping, 1 without" in each for each in problems), problems
    assert any("ranges of" in each and "'zzzz'" in each for each in problems) == deep
