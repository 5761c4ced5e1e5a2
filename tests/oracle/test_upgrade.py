"""Upgrades and downgrades of either side: Apache Hudi reads, writes, compacts and cleans what ours leave, and the other
way round."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.model.names import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import load_table_config
from tests.golden.old.tables import extract
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
META = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)


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
    return table.drop_columns([name for name in table.column_names if name in META]).slice(0, count)


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


OLD = (
    *("v2_cow", "v2_mor", "v2_cow_layout_0", "v3_mor", "v4_cow"),
    *("v5_12_cow", "v5_12_mor_metadata", "v5_12_mor_archived"),
)
KEPT = {"hoodie.skip.default.partition.validation": "true"}


def properties_of(path: str) -> dict[str, str]:
    """The properties but those of the metadata table, which either side builds, and of the layout."""
    found = load_table_config(LocalStorage(path)).properties
    left_out = ("hoodie.table.metadata.", "hoodie.timeline.layout.", "hoodie.table.checksum")
    return {key: text for key, text in found.items() if not key.startswith(left_out)}


@pytest.mark.nightly
@pytest.mark.parametrize("name", cases(OLD, "upgrade old", 3))
def test_tables_of_old_releases(oracle: Oracle, tmp_path: Path, name: str) -> None:
    """Upgraded to version 6 and on to 9; both read the same, and both write."""
    path = str(extract(name, tmp_path))
    before = hudi_py.open_table(path).scan().count()
    for to in (6, 9):
        hudi_py.open_table(path).upgrade(to, options=KEPT)
        found = check_equal(oracle, path)
        assert found.num_rows == before
        oracle.write(path, rows_of(found, 2), "upsert", options={**OWN, "hoodie.write.table.version": str(to)})
        assert version_of(path) == to
        hudi_py.write(path, rows_of(check_equal(oracle, path), 1))
        check_equal(oracle, path)
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.nightly
@pytest.mark.parametrize("name", cases([name for name in OLD if name != "v2_mor"], "upgrade old 0.15", 3))
def test_as_0_15_upgrades_them(oracle_015: Oracle, tmp_path: Path, name: str) -> None:
    """Its writes upgrade the table with what they are given; ours find it out."""
    theirs, ours = (str(extract(name, tmp_path / side)) for side in ("theirs", "ours"))
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    named = hive if load_table_config(LocalStorage(theirs)).partition_fields else {}
    row = rows_of(hudi_py.open_table(ours).scan().to_table(), 1)
    oracle_015.write(theirs, row, "upsert", options={**KEPT, **named})
    hudi_py.open_table(ours).upgrade(6, options=KEPT)
    assert properties_of(ours) == properties_of(theirs)
    assert_rows_equal(oracle_015.read(ours), hudi_py.open_table(ours).scan().to_table())
    oracle_015.write(ours, row, "upsert")
    check_equal(oracle_015, ours)
    hudi_py.write(ours, row)
    check_equal(oracle_015, ours)
