"""Indexes that either side builds beside writers, and plans that the other side runs or drops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.metadata_write.table.beside import BesideWriters
from hudi_py.metadata_write.table.create import OpenedPartitions
from hudi_py.services.indexing import Indexing
from hudi_py.services.planned.service import execute_all
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.owner.identity import end_work
from hudi_py.wiring import metadata_writer
from tests.oracle.client import Oracle, OracleError
from tests.support.record_index import indexed, stored

pytestmark = pytest.mark.slow

QUICK = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.index.async": "true",
    "hoodie.parquet.small.file.limit": "0",
}
LOCK = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.auto.delete.partitions": "false",
}
GLOBAL = {"hoodie.metadata.global.record.level.index.enable": "true"}


def rows(ids: range, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"{i:03}" for i in ids],
            "p": ["ab"[i % 2] for i in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "s": [f"x{i % 5}" for i in ids],
        }
    )


def made(path: Path, version: int, kind: str) -> str:
    given = {**QUICK, "hoodie.table.name": "t"}
    fixed: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
    options = {**given, "hoodie.write.table.version": str(version)}
    table = "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
    options["hoodie.datasource.write.table.type"] = table
    hudi_py.write(str(path), rows(range(10), 1), "insert", options, **fixed)
    hudi_py.write(str(path), rows(range(5, 15), 2), "upsert", options)
    return str(path)


def upsert(path: str, ids: range, ts: int, options: Mapping[str, str] | None = None) -> None:
    hudi_py.write(path, rows(ids, ts), "upsert", {**QUICK, **(options or {})})


def check(oracle: Oracle, path: str, *names: str) -> None:
    table = hudi_py.open_table(path)
    report = table.metadata.verify()
    assert report.ok, report
    assert {*names} <= {each.partition for each in report.partitions}
    assert_rows_equal(oracle.read(path), table.scan().to_table())
    assert oracle.check(path)["problems"] == []
    if "record_index" in names:
        assert indexed(path) == stored(path)
        skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
        assert oracle.read(path, where="id = '012'", options=skipping).num_rows == 1


def index(oracle: Oracle, path: str, *types: str, **given: Any) -> dict[str, Any]:
    return oracle.request("index", path=path, types=list(types), **given)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow"), (6, "cow")])
def test_apache_hudi_goes_on_with_what_is_built_beside_its_writer(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits between opening and filling, and after filling."""
    path = made(tmp_path / "t", version, kind)
    fill, filled = BesideWriters.fill, list[str]()

    def slow(self: BesideWriters, opened: OpenedPartitions, check: Any) -> None:
        if not filled:
            oracle.write(path, rows(range(12, 20), 3), options=LOCK)
            upsert(path, range(2), 4)
        filled.extend(opened.names)
        fill(self, opened, check)
        if len(filled) == len(opened.names):
            oracle.write(path, rows(range(18, 24), 5), options=LOCK)

    monkeypatch.setattr(BesideWriters, "fill", slow)
    names = ["record_index", "column_stats", "bloom_filters", *(["partition_stats"] if version > 6 else [])]
    report = hudi_py.open_table(path, QUICK).services.run("indexing", partitions=",".join(names))
    assert report.instant is not None
    monkeypatch.undo()
    check(oracle, path, *names)
    found = {each["requested"]: each for each in oracle.timeline(path)}
    assert found[report.instant]["action"] == "indexing"
    assert found[report.instant]["state"] == "COMPLETED"
    for ts in range(6, 9):
        oracle.write(path, rows(range(ts, ts + 20), ts), options={**LOCK, **GLOBAL})
        upsert(path, range(ts + 20, ts + 22), ts, GLOBAL)
    check(oracle, path, *names)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 8])
def test_named_ones(oracle: Oracle, tmp_path: Path, version: int) -> None:
    path = made(tmp_path / "t", version, "mor")
    table = hudi_py.open_table(path, {**QUICK, **GLOBAL})
    assert table.index("by_s", "s")
    check(oracle, path, "record_index", "secondary_index_by_s")
    assert {row["index_name"] for row in oracle.sql("show indexes from {table}", path=path)} >= {"record_index"}
    oracle.write(path, rows(range(12, 20), 3), options={**LOCK, **GLOBAL})
    check(oracle, path, "record_index", "secondary_index_by_s")
    assert oracle.read(path, where="s = 'x2'").num_rows == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 8, 6])
def test_apache_hudi_runs_our_plan(oracle: Oracle, tmp_path: Path, version: int) -> None:
    path = made(tmp_path / "t", version, "cow")
    instant = hudi_py.open_table(path, QUICK).services.planned("indexing", partitions="bloom_filters").schedule()
    given = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    assert index(oracle, path, phase="execute", instant=instant, options=given)["done"]
    upsert(path, range(12, 20), 3)
    check(oracle, path, "bloom_filters")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 8, 6])
def test_we_run_and_drop_plans_of_apache_hudi(oracle: Oracle, tmp_path: Path, version: int) -> None:
    path = made(tmp_path / "t", version, "cow")
    given = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    table = hudi_py.open_table(path, QUICK)
    first = index(oracle, path, "bloom_filters", phase="schedule", options=given)["instant"]
    assert table.indexing.pending() == [first]
    assert table.services.unschedule(first).plan == "indexing"
    second = index(oracle, path, "record_index", phase="schedule", options=GLOBAL)["instant"]
    upsert(path, range(12, 20), 3)
    assert table.indexing.run().instant == second
    check(oracle, path, "record_index")
    # and it goes on with what we dropped
    third = index(oracle, path, "bloom_filters", options=given)
    assert third["done"], third
    check(oracle, path, "bloom_filters", "record_index")


@pytest.mark.nightly
def test_what_its_dead_indexer_left_is_resumed(oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Hudi cannot run a plan again that is inflight."""
    path = made(tmp_path / "t", 9, "mor")
    given = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    instant = index(oracle, path, "bloom_filters", phase="schedule", options=given)["instant"]
    Path(path, f".hoodie/timeline/{instant}.indexing.inflight").touch()
    with pytest.raises(OracleError, match="No requested index instant found"):
        index(oracle, path, phase="execute", instant=instant, options=given)
    with hudi_py.open_table(path, QUICK)._serving("indexing") as context:
        with monkeypatch.context() as patch:
            for module in ("services.indexing", "transaction.recovery.failed_writes"):
                patch.setattr(f"hudi_py.{module}.now_ms", lambda: now_ms() + 3_600_000)
            work = Indexing().begin(context, instant)
        assert execute_all(Indexing(), context, work).partitions == ("bloom_filters",)
    check(oracle, path, "bloom_filters")


@pytest.mark.nightly
def test_its_writers_feed_what_a_dead_process_of_ours_was_building(oracle: Oracle, tmp_path: Path) -> None:
    path = made(tmp_path / "t", 9, "mor")
    table = hudi_py.open_table(path, QUICK)
    with table._serving("indexing") as context:
        instant = Indexing("record_index").schedule(context).instant
        assert instant is not None
        work = Indexing().begin(context, instant)
        builder = metadata_writer(Options.resolve(QUICK, defaults={})).builder
        assert builder is not None
        with context.locked("open") as locked:
            builder.open(locked.session, locked.timeline, ["record_index"], instant)
    end_work(work.attempt.owner.id)
    oracle.write(path, rows(range(12, 20), 3), options={**LOCK, **GLOBAL})
    oracle.write(path, rows(range(20, 24), 4), options=LOCK)
    assert oracle.check(path)["problems"] == []
    assert table.indexing.run().instant == instant
    check(oracle, path, "record_index")
