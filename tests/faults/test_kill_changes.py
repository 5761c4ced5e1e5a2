"""Writes and compactions that log changes, killed at every call that changes the storage: no change log is left over,
and none is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hudi_py
from hudi_py.model.changes import ENABLED
from hudi_py.storage import LocalStorage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import load_timeline
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import data_files, leftovers, make_table, read, recover, rows, write
from tests.faults.test_kill import kill_everywhere
from tests.faults.test_kill_compaction import compact
from tests.support.choice import every

pytestmark = pytest.mark.slow


def make(root: Path, version: int, kind: str) -> None:
    make_table(root, version, kind)
    update_table_config(LocalStorage(str(root)), {ENABLED: "true"})


def change_logs(root: Path) -> tuple[set[str], set[str]]:
    """Those that completed commits name, and those that are there."""
    storage = LocalStorage(str(root))
    timeline = load_timeline(storage, load_table_config(storage))
    named = {
        path
        for instant in timeline.write_completed
        for stat in read_commit_metadata(storage, timeline.layout, instant).stats
        for path in stat.cdc_stats or {}
    }
    return named, {path for path in data_files(root) if path.endswith(".cdc")}


@pytest.mark.parametrize(("version", "torn"), [(6, False), (9, True)], ids=["v6-before", "v9-torn"])
def test_upsert(tmp_path: Path, version: int, torn: bool) -> None:
    table = tmp_path / "table"
    make(table, version, "cow")
    kill_everywhere(table, tmp_path, "upsert", version, "cow", torn=torn)
    named, found = change_logs(tmp_path / "whole")
    assert named == found
    assert len(found) == 2


@pytest.mark.parametrize(("version", "torn"), [(6, True), (9, False)], ids=["v6-torn", "v9-before"])
def test_compaction(tmp_path: Path, version: int, torn: bool) -> None:
    table = tmp_path / "table"
    make(table, version, "mor")
    before = read(table)
    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    counting = KillingStorage(str(whole))
    compact(counting)
    named, found = change_logs(whole)
    assert named == found
    assert len(found) == 2
    for call in every(12, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        storage, killing = LocalStorage(str(root)), KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            compact(killing)
        where = killing.calls[-1]
        if call // 12 % 2:  # a write comes first
            write(storage, rows(range(8, 9), 9), "upsert", version, "mor")
        recover(storage)
        compact(storage)
        compact(storage)
        recover(storage)
        named, found = change_logs(root)
        assert named == found, where
        assert len(found) >= 2
        assert leftovers(root) == set(), where
        changes = hudi_py.open_table(root).scan(query_type="cdc", begin="000").to_table()
        assert changes["op"].to_pylist().count("i") == len(before), where
        shutil.rmtree(root)
