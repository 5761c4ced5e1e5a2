"""`writeStream.format("hudi-py")` through Spark: batches, restarts, a query that is killed again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from tests.connector.conftest import CONNECT
from tests.connector.tables import FORMAT, PARTITIONED, read, rows
from tests.support.choice import few

pytestmark = pytest.mark.spark

PATIENCE_S = 250
KILLS = 20
FILES_A_KILL = 6
SCHEMA = "id long, p string, ts long"
INSERT = {"hoodie.datasource.write.operation": "insert"}


class Files:
    """A source of files, and a query over them whose batches have one file each."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.table = str(folder / "table")
        self.checkpoint = folder / "checkpoint"
        self.patience_s = PATIENCE_S
        (folder / "in").mkdir()

    def add(self, name: str, *ids: int) -> None:
        text = "".join(f'{{"id": {id}, "p": "{id % 2}", "ts": {id}}}\n' for id in ids)
        hidden = self.folder / f".{name}"
        hidden.write_text(text, "utf-8")
        hidden.rename(self.folder / "in" / f"{name}.json")  # a reader sees all of it

    @property
    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
        return reader.json(str(self.folder / "in"))

    def run(self, frame: DataFrame | None = None, mode: str = "append", **options: str) -> list[int]:
        """Run all batches; the ids in the table."""
        writer = (frame or self.stream).writeStream.format(FORMAT).options(**PARTITIONED, **options).outputMode(mode)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start(self.table)
        assert query.awaitTermination(self.patience_s)
        return [row[0] for row in rows(read(self.spark, self.table), "id")]

    def forget_the_end_of_the_last_batch(self) -> None:
        """As if Spark had been killed after the commit of the table and before its own."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def test_a_stream_into_a_table_restarts_where_it_stopped(files: Files) -> None:
    files.add("a", 1, 2, 3)
    files.add("b", 4)
    assert files.run(**INSERT) == [1, 2, 3, 4]
    files.forget_the_end_of_the_last_batch()
    files.add("c", 5)
    assert files.run(**INSERT) == [1, 2, 3, 4, 5]
    assert hudi_py.open_table(files.table).history().num_rows == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_stream_into_a_table_without_meta_columns(files: Files, kind: str) -> None:
    made = {"hoodie.populate.meta.fields": "false", "hoodie.datasource.write.table.type": kind}
    files.add("a", 1, 2, 3)
    files.add("b", 4, 2)
    assert files.run(**made) == [1, 2, 3, 4]
    files.forget_the_end_of_the_last_batch()
    files.add("c", 5, 1)
    assert files.run(**made) == [1, 2, 3, 4, 5]
    table = hudi_py.open_table(files.table)
    assert table.history().num_rows == 3
    assert sorted(table.scan(meta=False).to_table()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    bases = [each for each in Path(files.table).rglob("*.parquet") if ".hoodie" not in each.parts]
    assert bases
    assert all(pq.read_schema(each).names == ["id", "p", "ts"] for each in bases)
    findings = table.doctor(full=True).findings
    assert [each for each in findings if not each.code.startswith("environment")] == []


@pytest.mark.classic_only
def test_complete_output_replaces_the_rows(files: Files) -> None:
    files.add("a", 1, 2)
    files.add("b", 1)
    counts = files.stream.groupBy("id").count().selectExpr("id", "'x' as p", "count as ts")
    assert files.run(counts, "complete") == [1, 2]
    assert rows(read(files.spark, files.table), "id", "ts") == [(1, 2), (2, 1)]
    assert hudi_py.open_table(files.table).history()["action"].to_pylist()[-1] == "replacecommit"


def test_a_failed_batch_is_repeated_as_a_whole(files: Files) -> None:
    files.add("a", 1)
    files.run()
    files.add("b", 2, 3)
    failing = files.stream.selectExpr("id", "p", "if(id = 3, raise_error('three'), ts) as ts")
    with pytest.raises(PySparkException, match="three"):
        files.run(failing)
    assert files.run() == [1, 2, 3]
    assert hudi_py.open_table(files.table).history().num_rows == 2


_DRIVER = """
import sys
from pyspark.sql import SparkSession
folder, table, checkpoint = sys.argv[1:4]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
source = spark.readStream.schema("id long, p string, ts long").option("maxFilesPerTrigger", "1").json(folder)
options = dict(pair.split("=") for pair in sys.argv[4:])
writer = source.writeStream.format("hudi-py").options(**options).option("checkpointLocation", checkpoint)
writer.start(table).awaitTermination()
"""


def _files_below(folder: Path) -> int:
    """Completed commits of a timeline, or the batches that Spark has planned."""
    names = [each.name for each in folder.iterdir()] if folder.exists() else []
    return sum(name.endswith("commit") or name.isdigit() for name in names)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.skipif(CONNECT, reason="starts sessions of its own")
@pytest.mark.parametrize(
    ("version", "kind"), few([("6", "COPY_ON_WRITE"), ("9", "MERGE_ON_READ")], "killed queries", 1)
)
def test_a_query_killed_twenty_times(files: Files, version: str, kind: str) -> None:
    """All its processes at once, at any time; inserted rows would show a batch that is there twice."""
    made = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    options = [f"{key}={value}" for key, value in {**PARTITIONED, **made, **INSERT}.items()]
    command = [sys.executable, "-c", _DRIVER, str(files.folder / "in"), files.table, str(files.checkpoint), *options]
    timeline = Path(files.table, ".hoodie") if version == "6" else Path(files.table, ".hoodie", "timeline")
    choose = random.Random(7)
    expected: list[int] = []
    for run in range(KILLS):
        for number in range(FILES_A_KILL):
            ids = range(100 * len(expected), 100 * len(expected) + 3)
            files.add(f"{run:02}-{number}", *ids)
            expected += ids
        query = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # after a batch was committed, or while one is written
            watched = timeline if run % 2 == 0 else files.checkpoint / "offsets"
            before, until = _files_below(watched), time.monotonic() + PATIENCE_S
            while _files_below(watched) == before:
                assert query.poll() is None
                assert time.monotonic() < until, "nothing happens"
                time.sleep(0.02)
            time.sleep(choose.uniform(0, 3))
        finally:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()
    files.patience_s = 10 * FILES_A_KILL * KILLS  # for each batch, where the killed ones have left most to do
    assert sorted(files.run(**made, **INSERT)) == expected


def test_what_a_user_sees(files: Files) -> None:
    files.add("a", 1)
    mode: dict[str, Any] = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    with pytest.raises(PySparkException, match=r"ConfigError: Cannot stream with hoodie\.write\.concurrency\.mode"):
        files.run(**mode)
    with pytest.raises(PySparkException, match="does not support Update mode"):
        files.run(files.stream.groupBy("id").count().selectExpr("id", "'x' as p", "count as ts"), "update")
