"""Apache Hudi and we tell the same changes: random writes and services, every logging mode, any range."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("note", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
EVOLVED = 104
"""From this write on rows have one more column."""
EXTRA = pa.field("extra", pa.int32())
CITIES = ("oslo", "rome")
NO_BASE_FILE = "No value present in Option"
MODES = ("op_key_only", "data_before", "data_before_after")


class Writer:
    """Random writes of Apache Hudi to one table."""

    def __init__(self, oracle: Oracle, path: Path, version: int, kind: str, mode: str) -> None:
        self.oracle, self.path, self.version, self.kind = oracle, path, version, kind
        self.rnd = random.Random(f"{version} {kind} {mode}")
        self.time = 100
        self.options = {
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": mode.upper() if version >= 8 else mode,
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.parquet.small.file.limit": self.rnd.choice(("0", "104857600")),
        }

    def rows(self, keys: list[int]) -> pa.Table:
        self.time += 1
        rnd = self.rnd
        rows = [
            {
                "id": f"k{key}",
                "ts": self.time - rnd.choice((0, 0, 0, 2)),  # some come late
                "city": CITIES[key % 2],
                "note": rnd.choice((None, "plain", 'quo"te', "líne\nbreak", "\u2028")),
                "price": rnd.choice((None, 0.1, 1e10, -2.5e-7, float("nan"), 3.0)),
                "tags": rnd.choice((None, [], [("a", 1), ("b", None)], [(f"t{n}", n) for n in range(6)])),
                "at": rnd.choice((None, 1_700_000_000_123_456)),
            }
            for key in keys
        ]
        if self.time < EVOLVED:
            return pa.Table.from_pylist(rows, SCHEMA)
        return pa.Table.from_pylist([{**row, "extra": rnd.choice((None, 7))} for row in rows], SCHEMA.append(EXTRA))

    def write(self, keys: list[int], operation: str = "upsert") -> None:
        self.oracle.write(
            self.path,
            self.rows(keys),
            operation,
            key="id",
            ordering="ts",
            partition="city",
            type=self.kind,
            table_version=self.version,
            options=self.options,
        )

    def some(self, count: int, among: int = 40) -> list[int]:
        return self.rnd.sample(range(among), count)

    def compaction(self, op: str) -> None:
        few = "hoodie.compact.inline.max.delta.commits=1"
        call = f"run_compaction(op => '{op}', table => '{{table}}', options => '{few}')"
        self.oracle.call(self.path, call, options=self.options)

    def compact_all(self) -> None:
        """`run` may plan and run a new compaction, and leave the pending one."""
        for _ in range(4):
            if all(each["state"] == "COMPLETED" for each in self.oracle.timeline(self.path)):
                return
            self.compaction("run")
        raise AssertionError(f"compactions are pending: {self.oracle.timeline(self.path)}")


def compare(oracle: Oracle, path: Path, begin: str, end: str | None = None) -> pa.Table:
    """Both sides' changes of a range; ours."""
    ours = hudi_py.open_table(str(path)).scan(query_type="cdc", begin=begin, end=end)
    rows = ours.to_table()
    assert ours.count() == rows.num_rows
    try:
        theirs = oracle.read(path, query_type="cdc", begin=begin, end=end)
    except OracleError as error:
        # Apache Hudi 1.2.0 takes commits of version 6, which are JSON, for Avro as soon as there are log files; and it
        # has no base file for logs which were written while a compaction was pending that has completed since
        text = str(error)
        assert ours.snapshot.config.is_mor
        assert "InvalidAvroMagicException" in text if ours.snapshot.config.version == 6 else NO_BASE_FILE in text
        return rows
    assert_rows_equal(rows, theirs)
    return rows


def replay(changes: pa.Table) -> dict[str, Any]:
    """The table's rows after its changes were applied in order, `id` to `ts`; each change fits what was before it."""
    state: dict[str, Any] = {}
    order = {"d": 0, "u": 1, "i": 2}
    for change in sorted(changes.to_pylist(), key=lambda change: (change["ts_ms"], order[change["op"]])):
        before, after = (json.loads(change[name] or "null") for name in ("before", "after"))
        if change["op"] == "i":
            assert before is None
            assert after["id"] not in state
        else:
            assert state.pop(before["id"]) == before["ts"]
        if change["op"] == "d":
            assert after is None
        else:
            state[after["id"]] = after["ts"]
    return state


@pytest.mark.parametrize(("version", "kind", "mode"), cases(product((6, 9), ("cow", "mor"), MODES), "changes", 1))
def test_changes_are_those_of_apache_hudi(oracle: Oracle, tmp_path: Path, version: int, kind: str, mode: str) -> None:
    table = tmp_path / f"changes_{version}_{kind}_{mode}"
    writer = Writer(oracle, table, version, kind, mode)
    writer.write(list(range(20)), "insert")
    for _ in range(2):
        writer.write(writer.some(8))
    writer.write(writer.some(6), "delete")
    writer.write(writer.some(8))
    if kind == "mor":
        writer.compaction("schedule")
        if mode == "data_before":
            writer.write(writer.some(8))
            writer.write(writer.some(3), "delete")
            compare(oracle, table, "000")
        writer.compact_all()
        writer.write(writer.some(6))
    writer.write([key for key in writer.some(20) if key % 2], "insert_overwrite")
    writer.write(writer.some(8))
    oracle.call(table, "run_clustering(table => '{table}', op => 'scheduleAndExecute')", options=writer.options)
    writer.write(writer.some(8))
    writer.write([0], "delete_partition")
    writer.write(writer.some(8))

    changes = compare(oracle, table, "000")
    snapshot = hudi_py.open_table(str(table)).scan(["id", "ts"]).to_table()
    assert replay(changes) == dict(zip(snapshot["id"].to_pylist(), snapshot["ts"].to_pylist(), strict=True))

    times = sorted(time for each in oracle.timeline(table) for time in (each["requested"], each["completed"]))
    whole = sum(
        compare(oracle, table, begin, end).num_rows
        for begin, end in zip(["000", *times[4::5]], times[4::5], strict=False)
    )
    last = times[4::5][-1]
    assert whole + compare(oracle, table, last).num_rows == changes.num_rows, "a change comes once"
