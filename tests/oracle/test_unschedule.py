"""Plans dropped: Apache Hudi reads, writes and compacts on as if they had never been."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import ConflictError
from hudi_py.services.compaction import Compaction
from hudi_py.storage import LocalStorage
from hudi_py.transaction.owner.identity import end_work
from hudi_py.wiring import serving
from tests.oracle.client import Oracle
from tests.oracle.test_compaction import DUE, agree, make, newest_compaction, ours, rows, same, timeline
from tests.oracle.test_interoperability import settings
from tests.support.choice import cases, in_turn

OFF = {"hoodie.compact.inline": "false"}


@in_turn("dropped plans", 0, 2)
@pytest.mark.parametrize("version", cases([6, 8, 9], "goes on without it", 1))
def test_apache_hudi_goes_on_without_it(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """Its own plan, one of ours, and one that had begun; in version 8 and later with writes behind them."""
    path = tmp_path / "t"
    make(oracle, path, version)
    table, options = hudi_py.open_table(str(path)), {**settings(version, "MERGE_ON_READ"), **OFF}
    oracle.call(str(path), f"run_compaction(op => 'schedule', table => '{{table}}', options => '{DUE}')")
    (theirs,) = table.compaction.pending()
    if version >= 8:
        oracle.write(str(path), rows(range(3, 9), 400), "upsert", options=OFF)
        hudi_py.write(str(path), rows(range(7, 14), 500), "upsert", options)
    before = same(oracle, path)
    assert table.services.unschedule(theirs).rollback is None
    same(oracle, path, before)
    hudi_py.write(str(path), rows(range(23, 30), 600), "upsert", options)
    planned = table.compaction.schedule()
    assert planned is not None
    with serving(LocalStorage(str(path)), {}, "a compaction that dies") as context:
        work = Compaction().begin(context, planned)
        Compaction().execute(context, work, range(work.num_tasks))
        end_work(work.attempt.owner.id)
    before = ours(path)
    assert table.services.unschedule(planned).rollback is not None
    agree(oracle, path, before)
    oracle.write(str(path), rows(range(1, 3), 700), "upsert", options=OFF)
    before = same(oracle, path)
    oracle.call(str(path), f"run_compaction(op => 'scheduleAndExecute', table => '{{table}}', options => '{DUE}')")
    same(oracle, path, before)
    assert len(newest_compaction(path).stats) == 3
    assert timeline(path).pending == ()
    hudi_py.write(str(path), rows(range(23, 30), 800), "upsert", options)
    before = same(oracle, path)
    assert table.compact().num_file_groups == 3
    agree(oracle, path, before)
    assert table.metadata.verify().ok


@pytest.mark.nightly
def test_in_version_6_rows_would_be_lost(oracle: Oracle, oracle_015: Oracle, tmp_path: Path) -> None:
    """Of a plan that is only deleted Apache Hudi 0.15 does not find what was written behind it, as 1.2.0 does."""
    path, lost = tmp_path / "t", tmp_path / "lost"
    make(oracle, path, 6)
    table = hudi_py.open_table(str(path))
    planned = table.compaction.schedule()
    assert planned is not None
    oracle.write(str(path), rows(range(3, 9), 400), "upsert", options=OFF)
    before = same(oracle, path)
    with pytest.raises(ConflictError, match="no longer be found"):
        table.services.unschedule(planned)
    shutil.copytree(path, lost)
    (lost / ".hoodie" / f"{planned}.compaction.requested").unlink()
    listed = {"hoodie.metadata.enable": "false"}
    assert 400 in oracle.read(str(lost), options=listed)["ts"].to_pylist()
    assert 400 not in oracle_015.read(str(lost), options=listed)["ts"].to_pylist()
    assert 400 not in hudi_py.open_table(str(lost), listed).scan().to_table()["ts"].to_pylist()
    assert table.compaction.run().instant == planned
    agree(oracle, path, before)


@pytest.mark.nightly
@pytest.mark.parametrize("version", cases([6, 8, 9], "other plans", 1))
def test_other_plans(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """A clean; and from version 8 on a log compaction."""
    path = tmp_path / "t"
    make(oracle, path, version)
    table = hudi_py.open_table(str(path), {"hoodie.log.compaction.blocks.threshold": "2"})
    if version >= 8:
        planned = table.log_compaction.schedule()
        assert planned is not None
        table.services.unschedule(planned)
    table.compact()
    keep = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    planned = table.cleaning.schedule(options=keep)
    assert planned is not None
    before = same(oracle, path)
    table.services.unschedule(planned)
    assert timeline(path).pending == ()
    same(oracle, path, before)
    oracle.call(
        str(path),
        "run_clean(table => '{table}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1)",
    )
    same(oracle, path, before)
    oracle.write(str(path), rows(range(1, 3), 700), "upsert", options=OFF)
    agree(oracle, path)


@pytest.mark.nightly
@in_turn("dropped plans", 1, 2)
@pytest.mark.parametrize(("version", "kind"), cases([(6, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")], "a clustering", 1))
def test_a_clustering(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Its plan is in the way of updates; without it both go on, and Apache Hudi plans another one and runs it."""
    path = tmp_path / "t"
    options = settings(version, kind)
    hudi_py.write(str(path), rows(range(20), 100), "upsert", options)
    oracle.call(str(path), "run_clustering(table => '{table}', op => 'schedule')")
    (planned,) = (instant.time for instant in timeline(path).pending)
    before = same(oracle, path)
    with pytest.raises(ConflictError, match=f"the pending clustering {planned} is about to replace it"):
        hudi_py.write(str(path), rows(range(3), 200), "upsert", options)
    assert hudi_py.open_table(str(path)).services.unschedule(planned).plan == "clustering"
    same(oracle, path, before)
    hudi_py.write(str(path), rows(range(3), 200), "upsert", options)
    oracle.write(str(path), rows(range(5, 8), 300), "upsert", options=OFF)
    before = same(oracle, path)
    oracle.call(str(path), "run_clustering(table => '{table}', op => 'scheduleAndExecute')")
    assert timeline(path).pending == ()
    agree(oracle, path, before)
    hudi_py.write(str(path), rows(range(3), 400), "upsert", options)
    assert hudi_py.open_table(str(path)).metadata.verify().ok
    assert oracle.check(str(path), deep=True)["problems"] == []
