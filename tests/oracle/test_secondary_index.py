"""Secondary indexes by turns: either side makes them, keeps up those of the other, and finds rows by them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn

OPTIONS = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    # see test_record_index
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
OURS = {**OPTIONS, "hoodie.time.generator.max_expected_clock_skew_ms": "1"}
LOCK = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
NAMES = [None, "a", "a$b", "\\", "c\\$d"]
SCHEMA = pa.schema([("k", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("name", pa.string())])
CASES = [(v, k, maker) for v in (8, 9) for k in ("cow", "mor") for maker in ("ours", "theirs")]


def batch(chance: random.Random, turn: int) -> list[dict[str, Any]]:
    ids = chance.sample(range(24), 8)
    return [{"k": f"k${i}", "p": "ab"[i % 2], "ts": turn, "name": chance.choice(NAMES)} for i in ids]


def sql(text: str) -> str:
    return "'" + text.replace("\\", "\\\\") + "'"


@pytest.mark.nightly
@in_turn("what writers keep up", 0, 4, chosen=None)
@pytest.mark.parametrize(("version", "kind", "maker"), cases(CASES, "secondary index", 1))
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str, maker: str) -> None:
    path, chance = str(tmp_path / "t"), random.Random(f"{version} {kind} {maker}")
    rows = batch(chance, 1)
    hudi_py.write(
        path,
        pa.Table.from_pylist(rows, SCHEMA),
        options=OURS,
        record_key="k",
        partition_by="p",
        ordering_by="ts",
        table_type=kind,
        table_version=version,
    )
    model = {row["k"]: row for row in rows}
    if maker == "ours":
        hudi_py.open_table(path, OURS).index("ix", "name")
    else:
        oracle.sql("CREATE INDEX ix ON {table} (name)", path, {**OPTIONS, **LOCK})
    steps = ["upsert", "upsert", "delete", "upsert", "upsert", "delete"]
    for turn, operation in enumerate(steps, 2):
        rows = batch(chance, turn)
        if operation == "delete":
            rows = [{**row, "ts": turn} for row in model.values()][:3]
        data = pa.Table.from_pylist(rows, SCHEMA)
        if (turn % 2 == 0) == (maker == "theirs"):
            hudi_py.write(path, data, operation, options=OURS)
        else:
            oracle.write(path, data, operation, options=OPTIONS)
        for row in rows:
            model.pop(row["k"], None)
            if operation == "upsert":
                model[row["k"]] = row
        if kind == "mor" and turn == 5:
            hudi_py.open_table(path, OURS).compact()
        report = hudi_py.open_table(path).metadata.verify()
        assert report.ok, (turn, operation, str(report))
        assert {check.partition: check.superfluous for check in report.partitions}["secondary_index_ix"] == 0
    for name in filter(None, NAMES):
        keys = sorted(row["k"] for row in model.values() if row["name"] == name)
        theirs = oracle.read(path, where=f"name = {sql(name)}", options=SKIPPING)
        assert sorted(theirs["k"].to_pylist()) == keys
        ours = hudi_py.open_table(path).scan(filter=f"name = {sql(name)}")
        assert sorted(ours.to_table()["k"].to_pylist()) == keys
    checked = oracle.check(path, keys=1, deep=True)
    assert checked["problems"] == []
    assert "secondary_index_ix" in checked["metadata_partitions"]


@pytest.mark.long
def test_apache_hudi_uses_ours(oracle: Oracle, tmp_path: Path) -> None:
    """It trusts the index: without its entries it finds nothing."""
    path = tmp_path / "t"
    rows = [{"k": f"k{i}", "p": str(i), "ts": 1, "name": f"n{i}"} for i in range(4)]
    hudi_py.write(str(path), pa.Table.from_pylist(rows, SCHEMA), options=OURS, record_key="k", partition_by="p")
    hudi_py.open_table(str(path), OURS).index("ix", "name")
    assert oracle.read(path, where="name = 'n2'", options=SKIPPING)["k"].to_pylist() == ["k2"]
    assert [row["index_name"] for row in oracle.sql("SHOW INDEXES FROM {table}", path)] == [
        "record_index",
        "secondary_index_ix",
    ]
    for file in (path / ".hoodie/metadata/secondary_index_ix").glob("*.hfile"):
        file.unlink()
    assert oracle.read(path, where="name = 'n2'", options=SKIPPING).num_rows == 0
    oracle.sql("DROP INDEX secondary_index_ix ON {table}", path, {**OPTIONS, **LOCK})
    assert hudi_py.open_table(str(path)).indexes.list()["name"].to_pylist() == ["record_index"]
