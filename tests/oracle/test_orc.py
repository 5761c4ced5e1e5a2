"""Tables with ORC base files, written by hudi-py and by Apache Hudi in turns.

Apache Hudi 1.2.0 fails to compact and to cluster such tables, to find keys in them by bloom filters, and to bulk insert
with Spark's row writer; and it loses rows of merge-on-read tables by its ranges of partitions, so those are off here.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases, in_turn

pytestmark = pytest.mark.slow

FORMAT = {"hoodie.table.base.file.format": "ORC"}
NO_RANGES = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
NO_ROW_WRITER = {"hoodie.datasource.write.row.writer.enable": "false"}
NO_COMPACTION = {"hoodie.compact.inline.max.delta.commits": "1000"}
"""Else a batch write of Apache Hudi to a merge-on-read table compacts it after every fifth."""
ROUNDS = 7
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
UTC = timezone.utc


class Turns:
    """One table, two writers, and what it must hold."""

    def __init__(self, oracle: Oracle, path: Path, version: int, kind: str) -> None:
        self.oracle, self.path, self.kind = oracle, str(path), kind
        self.options = FORMAT | NO_RANGES
        self.made: dict[str, Any] = {
            "record_key": "id",
            "ordering_by": "ts",
            "partition_by": "city",
            "table_type": KINDS[kind],
            "table_version": version,
        }
        self.version = version
        self.chance = random.Random(version * 10 + len(kind))
        self.state: dict[int, str] = {}
        self.ts = 0

    def write(self, ours: bool, operation: str) -> None:
        self.ts += 1
        known = sorted(self.state)
        keys = self.chance.sample(range(40), 6)
        if operation == "insert" or operation == "bulk_insert":
            keys = [key for key in range(40, 400) if key not in self.state][:3]
        elif operation == "delete":
            keys = self.chance.sample(known, 2)
        rows = pa.table(
            {
                "id": keys,
                "ts": [self.ts] * len(keys),
                "city": [("oslo", "lima")[key % 2] for key in keys],
                "note": [None if key % 7 == 0 else f"n{key}-{self.ts}" for key in keys],
                "price": pa.array([Decimal(key) / 4 for key in keys], pa.decimal128(24, 2)),
                "tags": pa.array([[f"t{key}", None] for key in keys], pa.list_(pa.string())),
            }
        )
        if ours:
            hudi_py.write(self.path, rows, operation, self.options, **self.made)
        elif self.ts == 1:
            options = self.options | NO_ROW_WRITER
            self.oracle.write(
                self.path,
                rows,
                operation,
                key="id",
                ordering="ts",
                partition="city",
                type=self.kind,
                table_version=self.version,
                options=options,
            )
        else:
            self.oracle.write(self.path, rows, operation, options=self.options | NO_ROW_WRITER | NO_COMPACTION)
        for key in keys:
            if operation == "delete":
                self.state.pop(key)
            else:
                self.state[key] = f"{self.ts}"

    def check(self) -> None:
        table = hudi_py.open_table(self.path)
        ours = table.scan().to_table()
        assert dict(zip(ours["id"].to_pylist(), map(str, ours["ts"].to_pylist()), strict=True)) == self.state
        assert ours.num_rows == len(self.state)
        assert_rows_equal(ours, self.oracle.read(self.path))
        some = table.scan(filter="id > 20 AND price < 60").to_table()
        assert_rows_equal(some, self.oracle.read(self.path, where="id > 20 and price < 60"))

    def services(self) -> None:
        table = hudi_py.open_table(self.path, self.options)
        if self.kind == "mor":
            table.compact()
            self.check()
            assert_rows_equal(
                table.scan(query_type="read_optimized").to_table(),
                self.oracle.read(self.path, query_type="read_optimized"),
            )
        self.write(True, "upsert")
        last = table.history().to_pylist()[-1]["instant"]
        before = hudi_py.open_table(self.path).scan(as_of=last).count()
        assert before
        assert self.oracle.check(self.path)["problems"] == []
        assert hudi_py.open_table(self.path).doctor(full=True).findings == ()


@pytest.mark.parametrize(
    ("version", "kind", "first"),
    cases([(v, k, o) for v in (6, 8, 9) for k in KINDS for o in (True, False)], "orc by turns", 1),
)
def test_writes_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str, first: bool) -> None:
    turns = Turns(oracle, tmp_path / "t", version, kind)
    turns.write(first, "upsert")
    turns.check()
    for number, operation in enumerate(("upsert", "delete", "insert", "upsert", "bulk_insert", "delete", "upsert")):
        turns.write((number % 2 == 0) is not first, operation)
        turns.check()
    turns.services()
    turns.write(False, "upsert")
    turns.check()


AT = datetime(2024, 1, 2, 3, 4, 5, 123456, UTC)
INSIDE = pa.struct([("x", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("l", pa.list_(pa.string()))])
TYPES = pa.table(
    {
        "id": [0, 1, 2, 3],
        "ts": [1, 1, 1, 1],
        "day": [date(2024, 2, 29), None, date(1970, 1, 1), date(1600, 1, 1)],
        "at": pa.array([AT, None, datetime(1969, 12, 31, 23, 59, 58, 0, UTC), AT], INSIDE[1].type),
        "local": pa.array([AT.replace(tzinfo=None), None, datetime(1960, 1, 1, 0, 0, 0, 1), None], pa.timestamp("us")),
        "small": pa.array([Decimal("1.50"), None, Decimal("-2.25"), None], pa.decimal128(10, 2)),
        "large": pa.array([Decimal("1.50"), None, Decimal("-" + "9" * 25), None], pa.decimal128(30, 2)),
        "bytes": [b"\0\xff", None, b"", b"a"],
        "flag": [True, None, False, True],
        "float": pa.array([1.5, None, float("nan"), -0.0], pa.float32()),
        "double": pa.array([1.5, None, float("nan"), 3.0]),
        "list": pa.array([[1, None], None, [], [2]], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1.5)], None, [("b", None)], []], pa.map_(pa.string(), pa.float64())),
        "struct": pa.array([{"x": 1, "t": AT, "l": ["a", None]}, None, {"x": None, "t": None, "l": []}, None], INSIDE),
        "deep": pa.array([[{"x": 1, "t": AT, "l": None}, None], None, [], [None]], pa.list_(INSIDE)),
    }
)


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), cases([(6, "cow"), (9, "cow"), (9, "mor")], "orc types", 1))
def test_types(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Apache Hudi reads what hudi-py writes, base files and, of merge-on-read tables, logs beside them."""
    path = tmp_path / "t"
    made: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "table_type": KINDS[kind]}
    hudi_py.write(str(path), TYPES, "insert", FORMAT, **made, table_version=version)
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(path))
    for where in (
        "day = date'2024-02-29'",
        "at = timestamp'2024-01-02 03:04:05.123456Z'",
        "at < timestamp'1970-01-01 00:00:00Z'",
        "double > 2",  # NaN too
        "small = 1.5",
    ):
        assert_rows_equal(hudi_py.open_table(str(path)).scan(filter=where).to_table(), oracle.read(path, where=where))
    newer = TYPES.slice(1, 2).set_column(1, "ts", pa.array([2, 2]))
    hudi_py.write(str(path), newer, "upsert", FORMAT)
    found = hudi_py.open_table(str(path)).scan(meta=False).to_table().sort_by("id")
    expected = pa.concat_tables([TYPES.slice(0, 1), newer, TYPES.slice(3)])
    assert str(found.to_pylist()) == str(expected.to_pylist())
    assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(path))


@pytest.mark.nightly
@in_turn("orc changes", 0, 2)
def test_changes(oracle: Oracle, tmp_path: Path) -> None:
    """Change data capture of a table both write."""
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3], "ts": [1, 1, 1], "s": ["a", "b", "c"]})
    options = FORMAT | {"hoodie.table.cdc.enabled": "true"}
    hudi_py.write(str(path), rows, "insert", options, record_key="id", ordering_by="ts")
    oracle.write(path, pa.table({"id": [1, 4], "ts": [2, 2], "s": ["x", "y"]}), options=FORMAT | NO_RANGES)
    hudi_py.write(str(path), pa.table({"id": [2], "ts": [3], "s": [""]}), "delete")
    ours = hudi_py.open_table(str(path)).scan(query_type="cdc", begin="000").to_table()
    theirs = oracle.read(path, query_type="cdc", begin="000")
    columns = ["op", "ts_ms", "before", "after"]
    assert sorted(map(str, ours.select(columns).to_pylist())) == sorted(map(str, theirs.select(columns).to_pylist()))
    assert ours["op"].to_pylist().count("d") == 1


@in_turn("orc changes", 1, 2)
def test_what_apache_hudi_cannot_do(oracle: Oracle, tmp_path: Path) -> None:
    """As the documentation says: once this fails, there is less to avoid."""
    path = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "ts": [1, 1], "p": ["a", "b"]})
    made = {"record_key": "id", "ordering_by": "ts", "partition_by": "p", "table_type": "MERGE_ON_READ"}
    hudi_py.write(str(path), rows, "insert", FORMAT, **made)  # type: ignore[arg-type]
    oracle.write(path, pa.table({"id": [1], "ts": [2], "p": ["a"]}))
    with pytest.raises(OracleError, match="Not support write to Orc file"):
        oracle.call(
            path,
            "run_compaction(op => 'scheduleAndExecute', table => '{table}')",
            options={"hoodie.compact.inline.max.delta.commits": "1"},
        )
    with pytest.raises(OracleError, match=r"\.orc format not supported yet"):
        oracle.write(path, rows, "bulk_insert")
    with pytest.raises(OracleError, match="UserMetadataItem"):
        oracle.write(tmp_path / "t", rows, options={"hoodie.index.type": "BLOOM"})
    assert hudi_py.open_table(str(path)).scan(filter="id = 2").count() == 1
