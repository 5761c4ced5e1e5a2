"""`write_table`: Spark shuffles rows by file group. Equal to what `hudi_py.write` makes of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, SchemaMismatchError, TableNotFoundError
from pyspark_hudi import write_table
from pyspark_hudi.table import FORMAT
from pyspark_hudi.table_writer import _Shuffle
from tests.connector.tables import KEYED, PARTITIONED, read, rows
from tests.connector.test_write import ALL_TYPES, TYPES, VALUES
from tests.faults.tables import leftovers
from tests.support.choice import cases

pytestmark = pytest.mark.spark

QUIET = {"hoodie.py.write.durable": "false", "hoodie.py.local.max.bytes": "0"}
"""Tasks write, however few the rows are."""
INDEXES = {
    "simple": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "moving": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.record.index.update.partition.path": "true",
    },
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
}


def numbers(spark: SparkSession, start: int, end: int, *columns: str) -> DataFrame:
    """Rows of which nine of ten are in one partition."""
    return spark.range(start, end, 1, 3).selectExpr("id", "IF(id % 10 = 3, 'b', 'a') p", *columns)


def stored(path: str) -> list[tuple[object, ...]]:
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "id", "p", "ts", "v"]
    table = hudi_py.open_table(path).scan(columns=columns).to_table()
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


def left(path: str) -> set[str]:
    """What a write should have removed."""
    return set(leftovers(Path(path)))


@pytest.mark.parametrize(
    ("version", "kind", "index"),
    cases(product((6, 8, 9), ("cow", "mor"), INDEXES), "write_table", 2, quick=[(9, "mor", "simple")]),
)
def test_equal_to_the_core(spark: SparkSession, path: str, version: int, kind: str, index: str) -> None:
    options = {
        **PARTITIONED,
        **QUIET,
        **INDEXES[index],
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": TYPES[kind],
        "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
    }
    twice = numbers(spark, 20, 60, "2L ts", "id v").union(numbers(spark, 40, 90, "3L ts", "-id v"))
    steps = [
        ("bulk_insert", numbers(spark, 0, 50, "1L ts", "id * 10 v")),
        ("upsert", twice.union(spark.sql("SELECT 7L, 'c', 4L, 0L"))),
        ("delete", numbers(spark, 0, 100, "0L ts", "id v").where("id % 9 = 0")),
    ]
    if index != "simple" or version != 9:
        steps.insert(2, ("insert", numbers(spark, 100, 130, "1L ts", "id v")))
        steps.append(("insert_overwrite", numbers(spark, 3, 4, "9L ts", "id v")))
    for operation, frame in steps:
        result = write_table(frame, path, operation=operation, options=options)
        one = hudi_py.write(f"{path}-core", frame.toArrow(), operation, options)
        counts = [(each.num_inserted, each.num_updated, each.num_deleted) for each in (result, one)]
        assert counts[0] == counts[1], operation
        assert stored(path) == stored(f"{path}-core"), operation
        history = hudi_py.open_table(path).history().to_pylist()
        assert (history[-1]["instant"], history[-1]["operation"]) == (result.instant, operation.upper())
    assert hudi_py.open_table(path).metadata.verify().ok
    assert not left(path)


@pytest.mark.nightly
@pytest.mark.classic_only
def test_every_type(spark: SparkSession, path: str) -> None:
    frame = spark.createDataFrame([VALUES, (2, *[None] * 19)], ALL_TYPES)
    for _ in range(2):
        write_table(frame, path, options={**KEYED, **QUIET})
    assert rows(read(spark, path)) == rows(frame)


def test_what_is_refused_is_an_error_of_the_core(spark: SparkSession, path: str) -> None:
    frame = numbers(spark, 0, 3, "1L ts", "id v")
    with pytest.raises(TableNotFoundError, match="Cannot run delete on the table"):
        write_table(frame, path, operation="delete", options=PARTITIONED)
    with pytest.raises(ConfigError, match="Argument operation='upsert' contradicts option"):
        write_table(frame, path, options={**PARTITIONED, "hoodie.datasource.write.operation": "insert"})
    with pytest.raises(ConfigError, match=r"Unknown option hoodie\.nothing"):
        write_table(frame, path, options={**PARTITIONED, "hoodie.nothing": "1"})
    with pytest.raises(SchemaMismatchError, match="'wrong'"):
        write_table(frame.selectExpr("id", "p", "INTERVAL 1 MONTH wrong"), path, options=PARTITIONED)
    assert not Path(path).exists()


@pytest.mark.slow
def test_no_rows(spark: SparkSession, path: str) -> None:
    none = numbers(spark, 0, 0, "1L ts", "id v")
    result = write_table(none, path, options={**PARTITIONED, **QUIET})
    assert (result.num_inserted, result.num_files) == (0, 0)
    assert result.instant is not None
    assert write_table(none, path, options={"hoodie.allow.empty.commit": "false"}).instant is None
    assert len(hudi_py.open_table(path).history()) == 1


def meddling(frame: DataFrame, path: str, marker: str, *, fails: bool) -> DataFrame:
    """The frame, in whose first evaluation after `marker` is there a task fails, or another write to the table
    commits."""
    options = {**PARTITIONED, **QUIET, **OPTIMISTIC}

    def meddle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow

        import hudi_py

        for batch in batches:
            if 25 in batch.column("id").to_pylist() and len(batch.schema) > 2:
                try:
                    os.remove(marker)
                except FileNotFoundError:
                    pass
                else:
                    if fails:
                        raise ValueError("once")
                    other = {"id": [25], "p": ["a"], "ts": [8], "v": [-1]}
                    hudi_py.write(path, pyarrow.table(other), options=options)
            yield batch

    return frame.mapInArrow(meddle, frame.schema)


OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}


@pytest.mark.nightly
@pytest.mark.classic_only
def test_a_task_that_fails_once_runs_again(spark: SparkSession, path: str, tmp_path: Path) -> None:
    options = {**PARTITIONED, **QUIET}
    write_table(numbers(spark, 0, 50, "1L ts", "id v"), path, options=options)
    marker = tmp_path / "marker"
    marker.touch()
    frame = meddling(numbers(spark, 20, 70, "2L ts", "id + 1 v"), path, str(marker), fails=True)
    result = write_table(frame, path, options=options)
    assert not marker.exists()
    assert (result.num_updated, result.num_inserted) == (30, 20)
    expected = [(n, n if n < 20 else n + 1) for n in range(70)]
    assert rows(read(spark, path), "id", "v") == sorted(expected, key=repr)


@pytest.mark.nightly
def test_a_conflict_is_an_error_or_the_write_is_repeated(spark: SparkSession, path: str, tmp_path: Path) -> None:
    options = {**PARTITIONED, **QUIET, **OPTIMISTIC}
    write_table(numbers(spark, 0, 50, "1L ts", "id v"), path, options=options)
    marker = tmp_path / "marker"
    frame = meddling(numbers(spark, 20, 70, "2L ts", "id + 1 v"), path, str(marker), fails=False)
    marker.touch()
    with pytest.raises(ConflictError):
        write_table(frame, path, options=options)
    assert rows(read(spark, path), "id", "v") == sorted([(n, -1 if n == 25 else n) for n in range(50)], key=repr)
    assert not left(path)
    marker.touch()
    again = {**options, "hoodie.write.num.retries.on.conflict.failures": "3"}
    assert write_table(frame, path, options=again).retries == 1
    expected = [(n, n if n < 20 else -1 if n == 25 else n + 1) for n in range(70)]
    assert rows(read(spark, path), "id", "v") == sorted(expected, key=repr)


@pytest.mark.slow
def test_rows_that_do_not_fit_end_the_write(spark: SparkSession, path: str) -> None:
    options = {**PARTITIONED, **QUIET}
    write_table(numbers(spark, 0, 9, "1L ts", "id v"), path, options=options)
    with pytest.raises((SchemaMismatchError, PySparkException)):
        write_table(numbers(spark, 0, 9, "1L ts", "id v").selectExpr("NULLIF(id, 5) id", "p", "ts", "v"), path)
    assert len(rows(read(spark, path), "id")) == 9
    assert hudi_py.open_table(path).timeline.pending == ()


def test_rows_with_generated_keys(spark: SparkSession, path: str) -> None:
    for _ in range(2):
        result = write_table(numbers(spark, 0, 20, "1L ts", "id v"), path, options={"hoodie.table.name": "t", **QUIET})
    assert result.num_inserted == 20
    assert result.num_updated in (0, None)
    table = hudi_py.open_table(path)
    keys = table.scan(columns=["_hoodie_record_key"]).to_table().column(0).to_pylist()
    assert len(keys) == len(set(keys)) == 40
    assert "hoodie.table.recordkey.fields" not in table.properties


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_one_process_merges_few_rows(
    spark: SparkSession, path: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a job that counts them, however many Catalyst expects; it tries again itself after a conflict."""
    options = {**PARTITIONED, **OPTIMISTIC, "hoodie.datasource.write.table.type": TYPES[kind]}
    options |= {"hoodie.py.write.durable": "false", "hoodie.write.num.retries.on.conflict.failures": "3"}
    hudi_py.write(path, numbers(spark, 0, 50, "1L ts", "id v").toArrow(), options=options)
    monkeypatch.setattr(_Shuffle, "frame", None)
    unknown = spark.read.format(FORMAT).load(path).where("id < 20").selectExpr("id", "p", "2L ts", "id + 1 v")
    result = write_table(unknown, path, options=options)
    assert (result.num_updated, result.num_inserted) == (20, 0)
    marker = tmp_path / "marker"
    marker.touch()
    result = write_table(
        meddling(numbers(spark, 20, 70, "2L ts", "id + 1 v"), path, str(marker), fails=False), path, options=options
    )
    not_older = 29 if kind == "cow" else 30  # logs take what is older, too
    assert (result.num_updated, result.num_inserted, result.retries) == (not_older, 20, 1)
    assert rows(read(spark, path), "id", "v") == sorted([(n, -1 if n == 25 else n + 1) for n in range(70)], key=repr)
    assert not left(path)


def test_the_number_of_tasks_is_that_of_spark_if_it_is_not_set(spark: SparkSession, path: str) -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.unset(name)
    try:
        assert write_table(numbers(spark, 0, 2, "1L ts", "id v"), path, options={**KEYED, **QUIET}).num_inserted == 2
    finally:
        spark.conf.set(name, before or "")
