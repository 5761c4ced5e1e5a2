"""Tables of `write_table` and Apache Hudi, by turns. The shuffles are done here; `tests/connector` has Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases
from tests.support.engine import write_routed

pytestmark = pytest.mark.slow

RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
TABLES = [(version, kind, index) for version in (6, 8, 9) for kind in ("cow", "mor") for index in ("simple", "record")]


def batch(keys: range, turn: int) -> pa.Table:
    listed = [{"k": f"k{key}", "p": f"p{key % 2}", "ts": turn, "v": turn * 1000 + key} for key in keys]
    return pa.Table.from_pylist([*listed, *listed[::3]])


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind", "index"), cases(TABLES, "routed writes and Apache Hudi", 1))
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str, index: str) -> None:
    path = str(tmp_path / "t")
    both = RECORD_INDEX if index == "record" else {}
    ours = {
        **both,
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
        "hoodie.write.table.version": str(version),
    }
    rows: dict[str, int] = {}

    def check() -> None:
        for found in (oracle.read(path, columns=["k", "v"]), hudi_py.open_table(path).scan(["k", "v"]).to_table()):
            assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == rows
            assert found.num_rows == len(rows)

    steps: list[tuple[str, range, bool]] = [
        ("upsert", range(40), True),
        ("upsert", range(30, 60), False),
        ("upsert", range(20, 70), True),
        ("delete", range(0, 70, 4), True),
        ("upsert", range(60, 80), False),
    ]
    for turn, (operation, keys, is_ours) in enumerate(steps, 1):
        data: Any = batch(keys, turn)
        if is_ours:
            write_routed(path, data, operation, ours)
        else:
            oracle.write(path, data, operation, options=both)
        for row in data.to_pylist():
            if operation == "delete":
                rows.pop(row["k"], None)
            else:
                rows[row["k"]] = row["v"]
        check()
    assert oracle.check(path, keys=1, deep=True)["problems"] == []
