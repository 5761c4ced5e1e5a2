"""Spark SQL: temporary views, tables with their path, persistent views."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import ConfigError
from pyspark_hudi import register, register_sql, run_service
from pyspark_hudi.environment import missing
from tests.connector.tables import PARTITIONED, read, rows
from tests.golden.tables import Extracted

pytestmark = pytest.mark.spark


@pytest.fixture
def table(path: str) -> str:
    data = [{"id": n, "p": "ab"[n % 2], "ts": 1, "v": 10 * n} for n in range(1, 5)]
    hudi_py.write(path, data, options=PARTITIONED)
    return path


@pytest.fixture
def catalog_table(spark: SparkSession, table: str) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE TABLE {name} USING `hudi-py` OPTIONS (path '{table}')")
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_a_temporary_view(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING `hudi-py` OPTIONS (path '{table}')")
    assert spark.sql("SELECT sum(v) FROM v").first() == (100,)
    assert spark.sql("SELECT sum(v) FROM v WHERE p = 'a'").first() == (60,)
    assert spark.sql("SELECT count(*) FROM v").first() == (4,)
    two = "SELECT id FROM v WHERE v = 10 UNION ALL SELECT id FROM v WHERE v = 40"
    assert rows(spark.sql(two)) == [(1,), (4,)]
    selves = "SELECT l.id FROM v l JOIN v r ON l.id = r.id WHERE l.v > 10 AND r.v < 40"
    assert rows(spark.sql(selves)) == [(2,), (3,)]
    assert rows(spark.sql("SELECT id FROM v WHERE v IN (SELECT v FROM v WHERE p = 'b')")) == [(1,), (3,)]


def test_a_temporary_view_takes_options(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW w USING `hudi-py` OPTIONS (path '{table}', columns 'id,v', filter 'v > 20')"
    )
    assert rows(spark.sql("SELECT * FROM w")) == [(3, 30), (4, 40)]


def test_insert_into_a_temporary_view(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW i USING `hudi-py` OPTIONS (path '{table}', columns 'id,p,ts,v')")
    spark.sql("INSERT INTO i VALUES (4, 'a', 2, 41), (5, 'b', 2, 50)")
    assert rows(read(spark, table), "id", "v") == [(1, 10), (2, 20), (3, 30), (4, 41), (5, 50)]


def test_a_temporary_view_shows_its_first_snapshot(spark: SparkSession, table: str) -> None:
    register_sql(spark, "frozen", table, options={"columns": "id,p,ts,v"}, temporary=True)
    assert spark.sql("SELECT sum(v) FROM frozen").first() == (100,)
    spark.sql("INSERT INTO frozen VALUES (5, 'b', 2, 50)")
    assert spark.sql("SELECT sum(v) FROM frozen").first() == (100,)
    spark.sql("REFRESH TABLE frozen")
    assert spark.sql("SELECT sum(v) FROM frozen").first() == (100,)
    register_sql(spark, "frozen", table, options={"columns": "id,p,ts,v"}, temporary=True)
    assert spark.sql("SELECT sum(v) FROM frozen").first() == (150,)


@pytest.fixture
def pair(spark: SparkSession) -> Iterator[str]:
    name = f"h_{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP VIEW IF EXISTS {name}")
    spark.sql(f"DROP TABLE IF EXISTS {name}_table")


def test_a_table_and_its_view(spark: SparkSession, table: str, pair: str) -> None:
    register_sql(spark, pair, table)
    assert spark.sql(f"SELECT sum(v) FROM {pair}").first() == (100,)
    keys = "`hoodie.datasource.write.recordkey.field` = 'id'"
    row = "null, null, null, null, null, 5L, 'b', 2L, 50L"
    spark.sql(f"INSERT INTO {pair}_table WITH (path = '{table}', {keys}) VALUES ({row})")
    assert spark.sql(f"SELECT sum(v) FROM {pair}").first() == (150,)
    made = spark.sql(f"DESCRIBE TABLE EXTENDED {pair}").where("col_name = 'Created Time'").collect()
    register_sql(spark, pair, table)
    assert spark.sql(f"DESCRIBE TABLE EXTENDED {pair}").where("col_name = 'Created Time'").collect() == made
    hudi_py.write(table, [{"id": 6, "p": "b", "ts": 2, "v": 60, "more": "x"}])
    register_sql(spark, pair, table)
    assert rows(spark.sql(f"SELECT id, more FROM {pair} WHERE more IS NOT NULL")) == [(6, "x")]
    register_sql(spark, pair, table, options={"filter": "p = 'b' and v > 40"})
    assert rows(spark.sql(f"SELECT id FROM {pair}")) == [(5,), (6,)]
    before = sorted(Path(table).rglob("*"))
    spark.sql(f"DROP VIEW {pair}")
    spark.sql(f"DROP TABLE {pair}_table")
    assert sorted(Path(table).rglob("*")) == before


def test_a_pair_has_the_types_of_the_table(spark: SparkSession, golden: Extracted, pair: str) -> None:
    path = str(golden("v9_cow_all_types"))
    register_sql(spark, pair, path)
    plain = read(spark, path)
    assert spark.table(pair).schema == plain.schema
    assert spark.table(pair).count() == plain.count()


def test_names_that_are_taken_or_none(spark: SparkSession, table: str, catalog_table: str) -> None:
    with pytest.raises(ConfigError, match="a table or view with this name exists"):
        register_sql(spark, catalog_table, table)
    with pytest.raises(ConfigError, match="is not a valid table name"):
        register_sql(spark, "a; DROP TABLE b", table)
    with pytest.raises(ConfigError, match="give both, or neither"):
        register_sql(spark, "name")
    with pytest.raises(ConfigError, match="option storage.secret: the catalog would show it") as caught:
        register_sql(spark, "name", table, options={"storage.secret": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_table_with_its_path(spark: SparkSession, table: str, catalog_table: str) -> None:
    assert spark.sql(f"SELECT count(*) FROM {catalog_table} WITH (path = '{table}')").first() == (4,)
    filtered = f"SELECT id FROM {catalog_table} WITH (path = '{table}', filter = 'v > 20')"
    assert rows(spark.sql(filtered)) == [(3,), (4,)]


def test_a_persistent_view_sees_new_commits(spark: SparkSession, table: str, catalog_table: str) -> None:
    view = f"{catalog_table}_view"
    spark.sql(f"CREATE VIEW {view} AS SELECT * FROM {catalog_table} WITH (path = '{table}')")
    try:
        assert spark.sql(f"SELECT sum(v) FROM {view}").first() == (100,)
        hudi_py.write(table, [{"id": 5, "p": "a", "ts": 1, "v": 50}])
        assert spark.sql(f"SELECT sum(v) FROM {view}").first() == (150,)
        two = f"SELECT id FROM {view} WHERE v = 10 UNION ALL SELECT id FROM {view} WHERE v = 50"
        assert rows(spark.sql(two)) == [(1,), (5,)]
    finally:
        spark.sql(f"DROP VIEW {view}")


def test_what_a_table_of_the_catalog_does_not_hold(spark: SparkSession, table: str, catalog_table: str) -> None:
    how = "WITH \\(path = '...'\\), or use pyspark_hudi.register_sql"
    for statement in (f"SELECT * FROM {catalog_table}", f"INSERT INTO {catalog_table} SELECT * FROM {catalog_table}"):
        with pytest.raises(PySparkException, match=how):
            spark.sql(statement).collect()
    spark.sql(f"ALTER TABLE {catalog_table} ADD COLUMN more STRING")
    with pytest.raises(PySparkException, match="no column 'more'.* ALTER TABLE changes"):
        spark.sql(f"SELECT * FROM {catalog_table} WITH (path = '{table}')").collect()


@pytest.mark.nightly
def test_the_format_under_another_name_in_a_thread_of_its_own(spark: SparkSession, path: str) -> None:
    frame = spark.range(3).selectExpr("id", "'a' p", "1L ts", "id v")

    def work() -> None:
        register(spark, name="hudi")
        frame.write.format("hudi").options(**PARTITIONED).mode("append").save(path)
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW named USING hudi OPTIONS (path '{path}')")

    with ThreadPoolExecutor(1) as threads:
        threads.submit(work).result()
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(run_service, spark, path, "clean").result()["instant"] is None
    assert rows(spark.table("named")) == [(n, "a", 1, n) for n in range(3)]
    with pytest.raises(ConfigError, match="another data source with this name"):
        register(spark, name="parquet")


@pytest.mark.classic_only
def test_the_libraries_of_sparks_python(spark: SparkSession) -> None:
    found = spark.read.format("hudi-py").option("view", "environment").load().collect()
    assert [row["library"] for row in found] == ["python", "pyarrow", "numpy", "fastavro", "sqlglot"]
    assert missing(row.asDict() for row in found) == []
