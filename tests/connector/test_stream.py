"""`spark.readStream.format("hudi-py")`: triggers, restarts, limits, sinks."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import hudi_py
from pyspark_hudi import run_service
from pyspark_hudi.stream import ADMISSION
from tests.connector.tables import FORMAT, PARTITIONED, read, rows
from tests.golden.tables import Extracted

pytestmark = pytest.mark.spark

START_OFFSET = "hoodie.datasource.streaming.startOffset"
ONE = {"hoodie.py.read.streaming.max.commits": "1"}
NOW = {"availableNow": True}
PATIENCE_S = 250


def upsert(path: str, **values: int) -> None:
    data = [{"id": id, "p": id[0], "ts": v, "v": v} for id, v in values.items()]
    hudi_py.write(path, data, record_key="id", ordering_by="ts", partition_by="p", table_type="MERGE_ON_READ")


@pytest.fixture
def table(path: str) -> str:
    """Three commits."""
    upsert(path, a=1, b=1)
    upsert(path, b=2, c=2)
    upsert(path, a=3)
    return path


class Query:
    """A query whose batches are kept, with their numbers, in a folder: on Connect they are handled by the server."""

    def __init__(self, spark: SparkSession, table: str, folder: Path, shown: str = "id v", **options: str) -> None:
        self.spark = spark
        self.table = table
        self.folder = folder
        self.shown = shown.split()
        self.options = options

    def start(self, **trigger: Any) -> Any:
        frame = self.spark.readStream.format(FORMAT).options(**self.options).load(self.table)
        shown, out = self.shown, f"{self.folder}/out"

        def keep(batch: DataFrame, number: int) -> None:
            batch.select(*shown).withColumn("batch", lit(number)).write.mode("append").parquet(out)

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", f"{self.folder}/checkpoint")
        return writer.trigger(**trigger).start()

    def run(self, **trigger: Any) -> list[list[tuple[Any, ...]]]:
        """Run to the end; the rows of all batches, this run's and earlier ones'."""
        query = self.start(**(trigger or NOW))
        assert query.awaitTermination(PATIENCE_S)
        return self.batches()

    def batches(self) -> list[list[tuple[Any, ...]]]:
        found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for file in (self.folder / "out").glob("*.parquet"):
            for row in pq.read_table(file).to_pylist():
                found[row["batch"]].append(tuple(row[name] for name in self.shown))
        return [sorted(found[number]) for number in sorted(found)]


def _wait(done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.1)


SNAPSHOT = [("a", 3), ("b", 2), ("c", 2)]
COMMITS = [[("a", 1), ("b", 1)], [("b", 2), ("c", 2)], [("a", 3)]]


def test_a_snapshot_then_the_commits_after_it(spark: SparkSession, table: str, tmp_path: Path) -> None:
    query = Query(spark, table, tmp_path)
    assert query.run() == [SNAPSHOT]
    upsert(table, d=4)
    hudi_py.write(table, [{"id": id, "p": id, "ts": 5, "v": 5, "more": "x"} for id in "da"])
    assert query.run() == [SNAPSHOT, [("a", 5), ("d", 5)]]
    assert query.run(once=True) == [SNAPSHOT, [("a", 5), ("d", 5)]]  # from the checkpoint, and nothing is new


@pytest.mark.nightly
def test_limits_and_restart_between_them(spark: SparkSession, table: str, tmp_path: Path) -> None:
    query = Query(spark, table, tmp_path, **ONE, **{START_OFFSET: "earliest"})
    last = [("a", 3), ("b", 2), ("c", 2)]
    # Before 4.2 Spark takes all there is in one batch of `availableNow`
    expected = COMMITS if ADMISSION else [last]
    assert query.run() == expected
    upsert(table, d=4)
    upsert(table, d=5)
    more = [[("d", 4)], [("d", 5)]] if ADMISSION else [[("d", 5)]]
    assert query.run() == [*expected, *more]
    # whatever the limit, `once` is one batch
    whole = Query(spark, table, tmp_path / "once", **ONE, **{START_OFFSET: "earliest"})
    assert whole.run(once=True) == [[("a", 3), ("b", 2), ("c", 2), ("d", 5)]]


@pytest.mark.nightly
@pytest.mark.classic_only
def test_processing_time(spark: SparkSession, table: str, tmp_path: Path) -> None:
    query = Query(spark, table, tmp_path, **{START_OFFSET: "latest", **ONE})
    running = query.start(processingTime="200 milliseconds")
    try:
        _wait(lambda: running.status["message"].startswith("Waiting for"))
        upsert(table, d=4)
        _wait(lambda: query.batches() == [[("d", 4)]])
        upsert(table, d=5)
        upsert(table, e=5)
        _wait(lambda: query.batches() == [[("d", 4)], [("d", 5)], [("e", 5)]])
    finally:
        running.stop()
    upsert(table, f=6)
    assert query.run()[-1] == [("f", 6)]


@pytest.mark.classic_only
def test_columns_filter_and_schema(spark: SparkSession, table: str, tmp_path: Path) -> None:
    options = {"filter": "p <> 'b' and v < 3", "columns": "v,id", START_OFFSET: "earliest", **ONE}
    frame = spark.readStream.format(FORMAT).options(**options).load(table)
    assert frame.columns == ["v", "id"]
    assert frame.isStreaming
    found = Query(spark, table, tmp_path, **options).run()
    assert [each for each in found if each] == ([[("a", 1)], [("c", 2)]] if ADMISSION else [[("c", 2)]])


@pytest.mark.nightly
@pytest.mark.classic_only
def test_a_file_sink(spark: SparkSession, table: str, tmp_path: Path) -> None:
    def run() -> None:
        frame = spark.readStream.format(FORMAT).load(table).select("id", "v")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/c")
        assert writer.option("path", f"{tmp_path}/o").trigger(availableNow=True).start().awaitTermination(PATIENCE_S)

    run()
    upsert(table, d=4)
    run()
    found = spark.read.parquet(f"{tmp_path}/o").collect()
    assert sorted(map(tuple, found)) == [*SNAPSHOT, ("d", 4)]


@pytest.mark.slow
@pytest.mark.classic_only
def test_changes(spark: SparkSession, tmp_path: Path) -> None:
    """Each change once, deletes among them, from the first commit."""
    path = str(Extracted(tmp_path)("v9_cow_cdc_before_after"))
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
    }
    query = Query(spark, path, tmp_path / "q", "op ts_ms before after", **options, **ONE)
    found = query.run()
    whole = spark.read.format(FORMAT).options(**options, **{"read.start-commit": "000"}).load(path).collect()
    assert sorted(row for each in found for row in each) == sorted(map(tuple, whole))
    assert {row[0] for each in found for row in each} == {"i", "u", "d"}
    if ADMISSION:
        assert all(len({row[1] for row in each}) <= 1 for each in found)
    assert query.run() == found


@pytest.mark.slow
@pytest.mark.classic_only
def test_a_consumer_that_the_cleaner_overtook(spark: SparkSession, tmp_path: Path) -> None:
    path = str(Extracted(tmp_path)("v8_cow_cleaning"))
    start = {START_OFFSET: "000", **ONE}
    slow = Query(spark, path, tmp_path / "q", "_hoodie_record_key", **start)
    if ADMISSION:  # else Spark makes one batch, which needs the newest files alone
        with pytest.raises(PySparkException, match="HistoryCleanedError.*is slower than the cleaner"):
            slow.run()
    declared = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    found = Query(spark, path, tmp_path / "r", "_hoodie_record_key", **start, **declared).run()
    newest = hudi_py.open_table(path).scan(columns=["_hoodie_record_key"]).to_table().to_pydict()
    assert {row[0] for each in found for row in each} == set(newest["_hoodie_record_key"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.datasource.query.type": "read_optimized"}, "Cannot stream with .*read_optimized"),
        ({"view": "files"}, "Cannot stream with the option view"),
        ({"columns": "idd"}, "no column 'idd'.*did you mean 'id'"),
    ],
)
@pytest.mark.classic_only
def test_refusals(spark: SparkSession, table: str, tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        Query(spark, table, tmp_path, "id", **options).run()


@pytest.mark.parametrize("more", [{}, {"hoodie.datasource.query.type": "incremental"}])
@pytest.mark.classic_only
def test_a_start_that_is_no_time_is_told_at_load(spark: SparkSession, table: str, more: dict[str, str]) -> None:
    with pytest.raises(AnalysisException, match="Cannot take 'soon' as the time of an instant"):
        spark.readStream.format(FORMAT).options(**{START_OFFSET: "soon", **more}).load(table).schema  # noqa: B018


@pytest.mark.slow
@pytest.mark.classic_only
def test_a_schema_that_no_longer_fits(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """A query whose table is made anew with other columns: while it handles a batch, as it looks at the table between
    two of them, and might find half of it."""
    other = f"{table}.other"

    def keep(batch: DataFrame, number: int) -> None:
        hudi_py.write(other, [{"id": "a", "p": "a", "ts": 1, "v": "text"}], record_key="id", ordering_by="ts")
        shutil.rmtree(table)
        shutil.move(other, table)

    writer = spark.readStream.format(FORMAT).load(table).select("id", "v").writeStream.foreachBatch(keep)
    running = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(processingTime="1 second").start()
    with pytest.raises(PySparkException, match="Cannot continue the stream.*column 'v' as int64.*string now"):
        running.awaitTermination(PATIENCE_S)


def started(writer: Any) -> Any:
    """The query. Spark Connect gives the Python process of `foreachBatch` ten seconds to start, however busy it is."""
    for _ in range(3):
        try:
            return writer.start()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
    return writer.start()


@pytest.mark.slow
@pytest.mark.parametrize("compaction", ["hoodie.compact.inline", "hoodie.compact.schedule.inline"])
def test_into_a_table(spark: SparkSession, table: str, tmp_path: Path, compaction: str) -> None:
    """Upserts by `foreachBatch`; the table is compacted by the write that makes it due, or such a write plans it."""
    target = str(tmp_path / "target")
    options = {**PARTITIONED, "hoodie.datasource.write.table.type": "MERGE_ON_READ", compaction: "true"}
    options["hoodie.compact.inline.max.delta.commits"] = "2"

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.format("hudi-py").options(**options).mode("append").save(target)

    for more in ({}, {"b": 6}, {"a": 7}):
        if more:
            upsert(table, **more)
        writer = spark.readStream.format(FORMAT).load(table).writeStream.foreachBatch(keep)
        query = started(writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(**NOW))
        assert query.awaitTermination(PATIENCE_S)
    expected = [("a", 7), ("b", 6), ("c", 2)]
    assert rows(read(spark, target), "id", "v") == expected
    actions = [row["action"] for row in hudi_py.open_table(target).instants().to_pylist()]
    if compaction == "hoodie.compact.inline":
        assert actions == ["deltacommit", "deltacommit", "commit", "deltacommit"]
        return
    assert actions == ["deltacommit", "deltacommit", "compaction", "deltacommit"]
    assert run_service(spark, target, "compaction", phase="execute")["num_file_groups"] == 1
    assert rows(read(spark, target), "id", "v") == expected
