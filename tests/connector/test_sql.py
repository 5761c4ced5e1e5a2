"""Spark SQL: temporary views, tables with their path, persistent views."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudi_py
from tests.connector.tables import PARTITIONED, read, rows

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


def test_a_table_with_its_path(spark: SparkSession, table: str, catalog_table: str) -> None:
    assert spark.sql(f"SELECT count(*) FROM {catalog_table} WITH (path = '{table}')").first() == (4,)
    filtered = f"SELECT id FROM {catalog_table} WITH (path = '{table}', filter = 'v > 20')"
    assert rows(spark.sql(filtered)) == [(3,), (4,)]
    with pytest.raises(PySparkException, match="WITH \\(path"):
        spark.sql(f"SELECT * FROM {catalog_table}").collect()


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
