"""Upgrades and downgrades of either side: Apache Hudi reads, writes, compacts and cleans what ours leave, and the other
way round."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import load_table_config
from tests.golden.tables import Extracted
from tests.oracle.client import Oracle
from tests.support.choice import cases

pytestmark = pytest.mark.slow

NAMES = {6: "SIX", 8: "EIGHT", 9: "NINE"}
GOLDEN = [
    *("v6_cow_archived", "v6_cow_column_stats", "v6_mor_compaction", "v6_mor_record_index", "v6_mor_rollback"),
    *("v6_mor_compaction_pending", "v6_mor_overwrite_latest", "v8_mor_parquet_blocks", "v8_cow_event_time"),
    *("v9_mor_archived", "v9_mor_secondary_index", "v9_cow_clustering", "v9_mor_mdt_compaction"),
]
PATHS = {6: (8, 9, 8, 6), 8: (9, 6, 8), 9: (8, 6, 9)}
OWN = {"hoodie.write.auto.upgrade": "false"}


def version_of(path: str) -> int:
    return load_table_config(LocalStorage(path)).version


def change(path: str, to: int) -> None:
    table = hudi_py.open_table(path)
    (table.upgrade if to > version_of(path) else table.downgrade)(to)
    assert version_of(path) == to


def check_equal(oracle: Oracle, path: str) -> pa.Table:
    """Both read the same rows, and Apache Hudi finds no fault."""
    found = hudi_py.open_table(path).scan().to_table()
    assert_rows_equal(oracle.read(path), found)
    assert oracle.check(path)["problems"] == []
    return found


def rows_of(table: pa.Table, count: int) -> pa.Table:
    return table.drop_columns([name for name in table.column_names if name.startswith("_hoodie_")]).slice(0, count)


@pytest.mark.parametrize("name", cases(GOLDEN, "upgrade golden", 2))
def test_golden_tables(oracle: Oracle, golden: Extracted, tmp_path: Path, name: str) -> None:
    """Through all versions; after each, both read the same, and after each second one Apache Hudi writes."""
    path = str(tmp_path / name)
    shutil.copytree(golden(name), path)
    before = hudi_py.open_table(path).scan().to_table()
    for at, to in enumerate(PATHS[version_of(path)]):
        change(path, to)
        found = check_equal(oracle, path)
        assert found.num_rows == before.num_rows
        if at % 2:
            oracle.write(path, rows_of(found, 3), "upsert", options={**OWN, "hoodie.write.table.version": str(to)})
            assert version_of(path) == to
            check_equal(oracle, path)
            if load_table_config(LocalStorage(path)).is_mor:
                oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')")
            oracle.call(path, "run_clean(table => '{table}', retain_commits => 1)")
            check_equal(oracle, path)
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.parametrize(("version", "kind"), cases([(6, "cow"), (6, "mor"), (9, "cow"), (9, "mor")], "upgrade own", 1))
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """One side upgrades or downgrades, the other goes back, with writes of both in between."""
    path = str(tmp_path / "t")
    options = {"hoodie.metadata.record.index.enable": "true"} if kind == "cow" else {}
    keys = {"record_key": "id", "ordering_by": "ts", "table_type": kind, "table_version": version}
    state: dict[str, int] = {}
    ts = 0

    def write(by_oracle: bool) -> None:
        nonlocal ts
        ts += 1
        ids = [str(i) for i in range(ts % 3, 9, 2)]
        state.update(dict.fromkeys(ids, ts))
        data = pa.table({"id": ids, "ts": pa.array([ts] * len(ids), pa.int64()), "note": [f"n{ts}"] * len(ids)})
        if by_oracle:
            now = {**OWN, "hoodie.write.table.version": str(version_of(path))}
            oracle.write(path, data, "upsert", options=now)
        else:
            hudi_py.write(path, data, **{**keys, "table_version": None}, options=options) if ts > 1 else hudi_py.write(
                path, data, **keys, options=options
            )
        found = check_equal(oracle, path)
        assert dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)) == state

    for _ in range(3):
        write(by_oracle=False)
    there, back = (9, 6) if version == 6 else (6, 9)
    for first in (True, False):  # who changes the version first
        for to, ours in ((there, first), (back, not first)):
            if ours:
                change(path, to)
            else:
                kind_of = "upgrade" if to > version_of(path) else "downgrade"
                oracle.call(path, f"{kind_of}_table(table => '{{table}}', to_version => '{NAMES[to]}')")
                assert version_of(path) == to
            write(by_oracle=True)
            write(by_oracle=False)
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.nightly
def test_an_old_release_reads_it(oracle_015: Oracle, golden: Extracted, tmp_path: Path) -> None:
    """0.15.0 reads and writes what a downgrade to version 6 leaves."""
    for name in ("v9_mor_event_time", "v8_cow_event_time"):
        path = str(tmp_path / name)
        shutil.copytree(golden(name), path)
        change(path, 6)
        found = check_equal(oracle_015, path)
        oracle_015.write(path, rows_of(found, 3), "upsert")
        check_equal(oracle_015, path)
