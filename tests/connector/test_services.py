"""`run_service`: table services by Spark, classic and Connect."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError, TableNotFoundError
from hudi_py.services.distributed import ServiceCall, Work
from pyspark_hudi import calls, read_table, run_service
from pyspark_hudi.failure import raised_here
from pyspark_hudi.remote import _in_task

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}


def make(path: str, kind: str = "mor", writes: int = 4, **options: str) -> list[dict[str, Any]]:
    """A table of three partitions, written a few times over; its rows."""
    rows: list[dict[str, Any]] = []
    for ts in range(writes):
        rows = [{"id": n, "p": "abc"[n % 3], "ts": ts, "v": n * 1.5} for n in range(12)]
        hudi_py.write(path, rows, "upsert", {**QUIET, **options}, **KEYED, table_type=kind)
    return rows


def read(path: str, **query: Any) -> list[dict[str, Any]]:
    found = hudi_py.open_table(path).scan(["id", "p", "ts", "v"], **query).to_table()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def instants(path: str, action: str) -> list[str]:
    return [row["instant"] for row in hudi_py.open_table(path).instants().to_pylist() if row["action"] == action]


def test_compaction_in_tasks(spark: SparkSession, path: str) -> None:
    rows = make(path, **{"hoodie.table.cdc.enabled": "true"})
    changes = hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table()
    report = run_service(spark, path, "compaction")
    assert (report["service"], report["reason"]) == ("compaction", "")
    logs = {f".{file.name.partition('_')[0]}" for file in Path(path).glob(f"*/*_{report['instant']}.parquet")}
    assert {file.name.partition("_")[0] for file in Path(path).glob("*/.*.cdc")} == logs
    assert hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table().equals(changes)
    assert instants(path, "commit") == [report["instant"]]
    files = hudi_py.open_table(path).files().to_pylist()
    assert len(files) == 3
    assert all(row["base_instant"] == report["instant"] and not row["log_files"] for row in files)
    assert read(path) == rows
    again = run_service(spark, path, "compaction")
    assert again["instant"] is None
    assert "no file group has logs" in again["reason"]


def test_a_plan_made_now_and_run_later(spark: SparkSession, path: str) -> None:
    make(path)
    planned = run_service(spark, path, "compaction", phase="schedule")
    table = hudi_py.open_table(path)
    assert table.compaction.pending() == [planned["instant"]]
    rows = [{"id": n, "p": "abc"[n % 3], "ts": 9, "v": 0.5} for n in range(12)]
    hudi_py.write(path, rows, "upsert", QUIET)
    done = run_service(spark, path, "compaction", phase="execute", instant=planned["instant"])
    assert done["instant"] == planned["instant"]
    assert table.compaction.pending() == []
    assert read(path) == rows
    nothing = run_service(spark, path, "compaction", phase="execute")
    assert (nothing["instant"], nothing["reason"], nothing["num_rows"]) == (None, "no plan is pending", 0)


@pytest.mark.classic_only
def test_pending_plans_first_then_what_is_left(spark: SparkSession, path: str) -> None:
    """As `Table.compact()` does."""
    make(path, writes=2)
    table = hudi_py.open_table(path)
    planned = table.compaction.schedule()
    rows = [{"id": n, "p": "abc"[n % 3], "ts": 9, "v": 0.5} for n in range(12)]
    hudi_py.write(path, rows, "upsert", QUIET)
    report = run_service(spark, path, "compaction")
    assert instants(path, "commit") == [planned, report["instant"]]
    assert not any(row["log_files"] for row in table.files().to_pylist())
    assert report.keys() == table.compact().to_dict().keys()
    assert read(path) == rows


@pytest.mark.slow
def test_a_plan_that_cannot_be_carried_out_stays(spark: SparkSession, path: str) -> None:
    """A task fails as often as Spark tries it, with the core's error; nothing of the attempt is left."""
    rows = make(path)
    planned = run_service(spark, path, "compaction", phase="schedule")["instant"]
    row = hudi_py.open_table(path).files().to_pylist()[1]
    torn = Path(path, row["partition"], row["log_files"][0])
    torn.rename(torn.with_suffix(".away"))
    with pytest.raises(HistoryCleanedError, match=f"the file {row['partition']}/{torn.name} of the plan is missing"):
        run_service(spark, path, "compaction")
    assert hudi_py.open_table(path).services.pending()["state"].to_pylist() == ["REQUESTED"] * 3
    assert not [name for name in Path(path).rglob("*.parquet") if planned in name.name]
    torn.with_suffix(".away").rename(torn)
    assert run_service(spark, path, "compaction")["instant"] == planned
    assert read(path) == rows


@pytest.mark.classic_only
def test_a_clean_that_lost_its_plan_is_removed(spark: SparkSession, path: str) -> None:
    make(path, "cow", writes=3)
    one = {"hoodie.clean.commits.retained": "1"}
    planned = run_service(spark, path, "clean", phase="schedule", options=one)["instant"]
    (requested,) = Path(path).rglob(f"{planned}.clean.requested")
    requested.write_bytes(b"")
    told = run_service(spark, path, "clean", phase="execute")
    assert (told["instant"], told["reason"]) == (None, f"the clean {planned} had no plan and was removed")
    assert run_service(spark, path, "clean", options=one)["num_files"] == 3


@pytest.mark.classic_only
def test_clean_and_archive(spark: SparkSession, path: str) -> None:
    rows = make(path, "cow", writes=7)
    before = sum(row["num_files"] for row in hudi_py.open_table(path).partitions().to_pylist())
    report = run_service(spark, path, "clean", options={"hoodie.cleaner.commits.retained": "1"})
    assert report["instant"] == instants(path, "clean")[0]
    assert report["num_files"] == 3 * 5
    assert before == 3
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.cleaner.commits.retained": "1"}
    archived = run_service(spark, path, "archive", options={**keep, "hoodie.metadata.enable": "false"})
    assert archived["num_instants"] > 0
    assert len(instants(path, "commit")) < 7
    assert read(path) == rows


def test_a_plan_is_dropped(spark: SparkSession, path: str) -> None:
    rows = make(path)
    planned = run_service(spark, path, "compaction", phase="schedule")["instant"]
    report = run_service(spark, path, "unschedule", instant=int(planned))
    assert (report["service"], report["instant"], report["plan"]) == ("unschedule", planned, "compaction")
    assert hudi_py.open_table(path).services.pending().num_rows == 0
    assert read(path) == rows
    with pytest.raises(
        ConfigError, match=rf"^Cannot unschedule {planned} of .*: there is no such plan; pending: none$"
    ):
        run_service(spark, path, "unschedule", instant=planned)


@pytest.mark.slow
def test_a_log_compaction_that_was_overtaken_is_dropped(spark: SparkSession, path: str) -> None:
    rows = make(path)
    few = {"hoodie.log.compaction.blocks.threshold": "2"}
    planned = run_service(spark, path, "log_compaction", phase="schedule", options=few)["instant"]
    run_service(spark, path, "compaction")
    report = run_service(spark, path, "log_compaction", options=few)
    assert report["instant"] is None
    assert report["reason"].startswith(f"the logcompaction {planned} was removed: later compactions cover the logs")
    assert hudi_py.open_table(path).services.pending().num_rows == 0
    assert read(path) == rows


@pytest.mark.slow
@pytest.mark.classic_only
def test_savepoint_restore_and_rollback(spark: SparkSession, path: str) -> None:
    rows = make(path)
    saved = run_service(spark, path, "savepoint", user="ana", comment="before")["instant"]
    (row,) = hudi_py.open_table(path).savepoints.list().to_pylist()
    assert (row["instant"], row["user"], row["comment"]) == (saved, "ana", "before")
    more = [{"id": n, "p": "abc"[n % 3], "ts": 50, "v": -1.0} for n in range(12)]
    last = hudi_py.write(path, more, "upsert", QUIET).instant
    newest = hudi_py.write(path, more, "upsert", QUIET).instant
    with pytest.raises(ConflictError, match=f"in this order: {newest}; or set with_newer=True"):
        run_service(spark, path, "rollback", instant=last)
    assert run_service(spark, path, "rollback", instant=last, with_newer=True)["rolled_back"] == [newest, last]
    assert read(path) == rows
    hudi_py.write(path, more, "upsert", QUIET)
    run_service(spark, path, "restore", instant=saved)
    assert read(path) == rows
    assert run_service(spark, path, "delete_savepoint", instant=saved)["instant"] == saved


def test_what_cannot_be_run_is_told(spark: SparkSession, path: str) -> None:
    make(path, writes=1)
    with pytest.raises(ConfigError, match="'compact'; services are compaction"):
        run_service(spark, path, "compact")
    with pytest.raises(ConfigError, match="phase 'schedule' of the service archive; it has no phases"):
        run_service(spark, path, "archive", phase="schedule")
    with pytest.raises(ConfigError, match="without an instant; give instant="):
        run_service(spark, path, "rollback")
    with pytest.raises(ConfigError, match="compaction with the instant 'foo': a new plan gets a new instant; "):
        run_service(spark, path, "compaction", phase="schedule", instant="foo")
    with pytest.raises(ConfigError, match="archive with the instant '2026': it takes none; leave it out"):
        run_service(spark, path, "archive", instant="2026")
    with pytest.raises(ConfigError, match="clean with comment: only savepoint takes this argument; it takes only"):
        run_service(spark, path, "clean", comment="spring")


@pytest.mark.slow
def test_errors_are_those_of_the_core(spark: SparkSession, path: str) -> None:
    """Neither wrapped nor with Spark's traceback in their text; that is the context."""
    make(path, writes=1)
    with pytest.raises(ConfigError, match=r"^Cannot run the compaction 20200101000000000 of .* pending: none$") as told:
        run_service(spark, path, "compaction", phase="execute", instant="20200101000000000")
    assert told.value.fields == {"instant": "20200101000000000"}
    first = hudi_py.open_table(path).instants()["instant"].to_pylist()[0]
    run_service(spark, path, "savepoint")
    with pytest.raises(ConflictError, match=r"^Cannot roll back .* it has a savepoint; delete the savepoint first$"):
        run_service(spark, path, "rollback", instant=first)
    with pytest.raises(ConfigError, match=r"^Unknown option hoodie\.clean\.commit\.retained: did you mean"):
        run_service(spark, path, "clean", options={"hoodie.clean.commit.retained": "1"})
    with pytest.raises(TableNotFoundError, match=r"^No Hudi table at .*missing; "):
        run_service(spark, path + "missing", "archive")
    spark.conf.set("spark.sql.execution.pyspark.udf.hideTraceback.enabled", "true")
    try:
        with pytest.raises(TableNotFoundError, match=r"^No Hudi table at .*missing; "):
            run_service(spark, path + "missing", "archive")
        with pytest.raises(TableNotFoundError, match=r"^No Hudi table at .*missing; "):
            read_table(spark, path + "missing")
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.udf.hideTraceback.enabled")
    with pytest.raises(PySparkException, match="no_such_table"), raised_here():
        spark.table("no_such_table").collect()


def test_services_follow_a_write_through_spark(spark: SparkSession, path: str) -> None:
    make(path)
    frame = spark.createDataFrame([(1, "b", 20, 1.0)], "id long, p string, ts long, v double")
    options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    frame.write.format("hudi-py").options(**options).mode("append").save(path)
    assert len(instants(path, "commit")) == 1
    assert [row["ts"] for row in read(path)].count(20) == 1
    assert hudi_py.open_table(path).metadata.verify().ok


def test_an_executor_that_does_not_see_the_table_tells(path: str) -> None:
    """Each process of a call opens the table by itself, with what the pickled call says."""
    make(path, writes=2)
    planned = hudi_py.open_table(path).compaction.schedule()
    call, work = begun(path, str(planned))
    assert len(pickle.dumps((call, work))) < 20_000
    assert "hush" not in repr(begun_request(path, {"storage.password": "hush"}).call())
    elsewhere = replace(call, path=path + "elsewhere")
    (number,) = [pa.record_batch({"task": [0]})]
    with pytest.raises(TableNotFoundError, match=r"elsewhere: .* its executor on .* cannot: give a path that all"):
        list(_in_task(calls.execute_plan, (elsewhere, work, [0]), iter([number])))
    assert list(_in_task(calls.execute_plan, (elsewhere, work, [0]), iter([]))) == []
    call, work = pickle.loads(pickle.dumps((call, work)))
    outcomes = [each for tasks in ([0, 1], [2], [2]) for each in calls.execute_plan(call, work, [0, 1, 2], tasks)]
    assert calls.commit_plan(call, work, outcomes) == calls.commit_plan(call, work, outcomes)
    assert instants(path, "commit") == [planned]
    assert {row["ts"] for row in read(path)} == {1}


def begun_request(path: str, options: dict[str, str]) -> calls.ServiceRequest:
    return calls.ServiceRequest(path, options, "compaction", ())


def begun(path: str, instant: str) -> tuple[ServiceCall, Work]:
    call, plan = calls.begin_plan(begun_request(path, {}), instant, False)
    assert plan.work is not None
    return call, plan.work


def test_tasks_of_a_cluster_that_was_full_go_on(path: str) -> None:
    """Between the beginning and the first task nobody beats, however long that is."""
    rows = make(path, writes=2)
    planned = hudi_py.open_table(path).compaction.schedule()
    call, work = begun(path, str(planned))
    os.utime(Path(path, ".hoodie", ".heartbeat", str(planned)), (1, 1))
    calls.commit_plan(call, work, calls.execute_plan(call, work, [0, 1, 2], [0, 1, 2]))
    assert instants(path, "commit") == [planned]
    assert read(path) == rows


def test_clustering_by_a_shuffle(spark: SparkSession, path: str) -> None:
    """Sorted rows of a large group go to tasks by ranges; a small group is one task's."""
    prefix = "hoodie.clustering.plan.strategy."
    small = {**QUIET, "hoodie.parquet.small.file.limit": "0"}
    for first in (0, 4_000):
        rows = [
            {"id": n, "p": "b" if n % 1_000 == 0 else "a", "ts": 1, "v": n * 7919 % 8_009}
            for n in range(first, first + 4_000)
        ]
        hudi_py.write(path, rows, "insert", small, **KEYED)
    size = sum(file.stat().st_size for file in Path(path, "a").glob("*.parquet"))
    sizes = {f"{prefix}target.file.max.bytes": str(size // 3)}
    report = run_service(spark, path, "clustering", sort_by="v", options={**small, **sizes})
    assert (report["num_replaced"], report["num_rows"], report["reason"]) == (4, 8_000, "")
    files = [pq.read_table(file)["v"].to_pylist() for file in Path(path, "a").glob(f"*_{report['instant']}.parquet")]
    assert len(files) >= 3
    assert len(list(Path(path, "b").glob(f"*_{report['instant']}.parquet"))) == 1
    assert [v for values in sorted(files) for v in values] == sorted(v for values in files for v in values)
    assert sorted(row["v"] for row in read(path)) == sorted(n * 7919 % 8_009 for n in range(8_000))
    assert hudi_py.open_table(path).doctor(full=True).healthy
