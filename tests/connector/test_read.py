"""`spark.read.format("hudi-py")`: projections, filters, time travel, one snapshot per DataFrame, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import hudi_py
from tests.connector.tables import FORMAT, KEYED, PARTITIONED, read, rows

pytestmark = pytest.mark.spark

MOR = {**KEYED, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "ts"}


@pytest.fixture
def table(path: str) -> str:
    """Three rows in three partitions, copy on write."""
    hudi_py.write(
        path,
        [
            {"id": 1, "p": "a", "ts": 1, "v": 10},
            {"id": 2, "p": "b", "ts": 1, "v": 20},
            {"id": 3, "p": "c", "ts": 1, "v": 30},
        ],
        options=PARTITIONED,
    )
    return path


def test_columns_come_in_the_order_asked_for(spark: SparkSession, table: str) -> None:
    frame = read(spark, table, columns="v, `_hoodie_record_key`,id")
    assert frame.columns == ["v", "_hoodie_record_key", "id"]
    assert sorted(map(tuple, frame.collect())) == [(10, "1", 1), (20, "2", 2), (30, "3", 3)]


def test_a_schema_is_a_projection_by_name(spark: SparkSession, table: str) -> None:
    wanted = StructType([StructField("v", LongType()), StructField("P", StringType()), StructField("id", StringType())])
    frame = spark.read.format(FORMAT).schema(wanted).load(table)
    assert frame.columns == ["v", "P", "id"]
    assert sorted(map(tuple, frame.collect())) == [(10, "a", "1"), (20, "b", "2"), (30, "c", "3")]
    narrow = StructType([StructField("v", IntegerType())])
    with pytest.raises(PySparkException, match="Cannot read column 'v' .* as int32: it is int64"):
        spark.read.format(FORMAT).schema(narrow).load(table).collect()
    with pytest.raises(PySparkException, match="give one of them"):
        spark.read.format(FORMAT).schema(wanted).option("columns", "id").load(table).collect()


def test_a_filter_chooses_rows_exactly(spark: SparkSession, table: str) -> None:
    assert rows(read(spark, table, filter="v >= 20 and p <> 'c'"), "id") == [(2,)]
    assert rows(read(spark, table, filter="v = 11")) == []
    assert rows(read(spark, table, filter="p = 'zzz'")) == []
    assert read(spark, table, filter="p in ('a', 'b')", columns="id").count() == 2
    with pytest.raises(PySparkException, match="SchemaMismatchError|ConfigError"):
        read(spark, table, filter="nope = 1").collect()


def test_a_filter_does_not_surface_a_stale_log_row(spark: SparkSession, path: str) -> None:
    hudi_py.write(path, [{"id": 1, "ts": 10, "v": "new"}, {"id": 2, "ts": 10, "v": "other"}], options=MOR)
    hudi_py.write(path, [{"id": 1, "ts": 5, "v": "stale"}], options=MOR)
    assert rows(read(spark, path), "id", "v") == [(1, "new"), (2, "other")]
    assert rows(read(spark, path, filter="v = 'stale'")) == []
    assert rows(read(spark, path, filter="v = 'new'"), "id") == [(1,)]
    assert rows(read(spark, path).where("v = 'stale'")) == []
    assert rows(read(spark, path, **{"hoodie.datasource.query.type": "read_optimized"}), "v") == [("new",), ("other",)]


def test_one_frame_used_twice_keeps_its_rows(spark: SparkSession, table: str) -> None:
    frame = read(spark, table)
    assert frame.where("v = 10").count() == 1
    assert frame.count() == 3
    assert frame.where("v = 20 or v = 30").count() == 2
    assert frame.where("v = 10").union(frame.where("v = 20")).count() == 2
    joined = frame.alias("l").where("l.v < 25").join(frame.alias("r").where("r.v > 15"), "id")
    assert rows(joined, "id") == [(2,)]


def test_a_frame_is_one_snapshot(spark: SparkSession, table: str) -> None:
    before = read(spark, table)
    assert before.columns  # on Connect the schema is resolved when it is asked for
    hudi_py.write(table, [{"id": 1, "p": "a", "ts": 2, "v": 11}, {"id": 4, "p": "d", "ts": 2, "v": 40}])
    assert rows(before, "id", "v") == [(1, 10), (2, 20), (3, 30)]
    assert rows(before.join(before.select("id"), "id"), "v") == [(10,), (20,), (30,)]
    assert rows(read(spark, table), "id", "v") == [(1, 11), (2, 20), (3, 30), (4, 40)]


def test_time_travel(spark: SparkSession, table: str) -> None:
    first = hudi_py.open_table(table).history().column("instant").to_pylist()[0]
    hudi_py.write(table, [{"id": 1, "p": "a", "ts": 2, "v": 11}])
    day = f"{first[:4]}-{first[4:6]}-{first[6:8]}"
    spelled = f"{day} {first[8:10]}:{first[10:12]}:{first[12:14]}.{first[14:]}"
    for text in (first, spelled):
        assert rows(read(spark, table, **{"as.of.instant": text}), "v") == [(10,), (20,), (30,)]
    assert rows(read(spark, table, **{"as.of.instant": "2001-01-01"})) == []
    with pytest.raises(PySparkException, match="ConfigError.*yesterday"):
        read(spark, table, **{"as.of.instant": "yesterday"}).collect()


def test_a_table_without_rows(spark: SparkSession, table: str) -> None:
    hudi_py.write(table, [{"id": n, "p": p} for n, p in ((1, "a"), (2, "b"), (3, "c"))], "delete")
    frame = read(spark, table)
    assert frame.collect() == []
    assert frame.count() == 0
    assert "v" in frame.columns


def test_small_batches_are_all_read(spark: SparkSession, table: str) -> None:
    assert read(spark, table, **{"hoodie.py.read.batch.rows": "1"}).count() == 3


REFUSED: tuple[tuple[dict[str, str], str | None, str], ...] = (
    ({"hoodie.datasource.query.type": "newest"}, None, "hoodie.datasource.query.type = 'newest'.*snapshot"),
    ({"hoodie.datasource.query.typ": "snapshot"}, None, "did you mean hoodie.datasource.query.type"),
    ({"column": "id"}, None, "did you mean columns"),
    ({"columns": "idd"}, None, "no column 'idd'.*did you mean 'id'"),
    ({}, "relative/table", "relative path 'relative/table'.*absolute"),
    ({}, "/no/such/table", "TableNotFoundError.*/no/such/table"),
    ({}, "/no/such/*", "wildcards"),
)


def test_refusals_say_it_all_in_one_line(spark: SparkSession, table: str) -> None:
    for options, where, message in REFUSED:
        with pytest.raises(PySparkException, match=message):
            read(spark, where or table, **options).schema  # noqa: B018


def test_a_path_is_needed_and_only_one(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match="without its path"):
        spark.read.format(FORMAT).load().collect()
    with pytest.raises(PySparkException, match="several paths"):
        spark.read.format(FORMAT).load([table, table]).collect()


def test_storage_options_are_not_shown(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        read(spark, "/no/such/table", **{"storage.secret": "hunter2"}).collect()
    assert "hunter2" not in str(caught.value)


def test_a_frame_whose_files_are_gone_says_what_to_do(spark: SparkSession, table: str) -> None:
    frame = read(spark, table)
    assert frame.count() == 3
    for file in Path(table).glob("*/*.parquet"):
        file.unlink()
    with pytest.raises(PySparkException, match="CorruptFileError.* is missing"):
        frame.collect()
