"""Hudi tables that the session's catalog has under a name: after `enable`, queries find path and options."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudi_py
from pyspark_hudi import disable, enable, register_sql
from pyspark_hudi.catalog import entry_of
from tests.connector.tables import rows

pytestmark = pytest.mark.spark

ALL = [(1, 10), (2, 20), (3, 31)]


@pytest.fixture
def table(path: str) -> str:
    """Merge on read, with a log that only snapshots show."""
    data = [{"id": n, "ts": 1, "v": n * 10} for n in (1, 2, 3)]
    hudi_py.write(path, data, record_key="id", ordering_by="ts", table_type="mor")
    hudi_py.write(path, [{"id": 3, "ts": 2, "v": 31}])
    return path


@pytest.fixture
def name(spark: SparkSession, table: str) -> Iterator[str]:
    """An entry of the catalog, in a schema of its own."""
    schema = f"s_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE SCHEMA {schema}")
    spark.sql(f"CREATE TABLE {schema}.t (id BIGINT, ts BIGINT, v BIGINT) USING `hudi-py` LOCATION '{table}'")
    yield f"{schema}.t"
    spark.sql(f"DROP SCHEMA {schema} CASCADE")


def test_a_table_of_the_catalog(spark: SparkSession, name: str, table: str) -> None:
    with pytest.raises(PySparkException, match=r"WITH \(path = '\.\.\.'\), or use pyspark_hudi.register_sql.*enable"):
        spark.table(name).collect()
    enable(spark)
    try:
        assert rows(spark.table(name), "id", "v") == ALL
        assert rows(spark.read.table(name), "id", "v") == ALL
        assert rows(spark.sql(f"SELECT id, v FROM {name}"), "id", "v") == ALL
        query = (
            f"WITH big AS (SELECT * FROM {name} WHERE v > 15) SELECT t.id, big.v FROM {name} JOIN big ON big.id = t.id"
        )
        assert rows(spark.sql(query), "id", "v") == ALL[1:]
        assert spark.sql(f"SELECT '{{x}}' AS x, x.v FROM {name} x WHERE id = 1").collect() == [("{x}", 10)]
        assert spark.sql(f"SELECT v FROM {name} WHERE id = :n", args={"n": 2}).collect() == [(20,)]
        hudi_py.write(table, [{"id": 4, "ts": 1, "v": 40}])
        assert spark.table(name).count() == 4
        view = name.partition(".")[0] + "_v"
        register_sql(spark, view, table)
        both = f"SELECT count(*) FROM {view} JOIN {name} AS o ON {view}.id = o.id"
        assert spark.sql(both).collect() == [(4,)]
        spark.sql(f"DROP VIEW {view}")
        spark.sql(f"DROP TABLE {view}_table")
        with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.table("no.such_table")
        assert spark.sql("SELECT * FROM VALUES (1) AS t(a)").collect() == [(1,)]
    finally:
        disable(spark)


def test_entries(spark: SparkSession, name: str, table: str) -> None:
    found = entry_of(spark, name)
    assert found is not None
    assert found.path.rstrip("/").endswith(table.rstrip("/").rpartition("/")[2])
    assert found.options == {}
    schema = name.partition(".")[0]
    spark.sql(f"CREATE TABLE {schema}.plain (a INT) USING parquet")
    for other in (f"{schema}.plain", f"{schema}.none", "a.b.c.d", "it's"):
        assert entry_of(spark, other) is None
    optimized = "OPTIONS (`hoodie.query.as.ro.table` 'true')"
    spark.sql(f"CREATE TABLE {schema}.ro (id BIGINT, v BIGINT) USING `hudi-py` {optimized} LOCATION '{table}'")
    entry = entry_of(spark, f"{schema}.ro")
    assert entry is not None
    assert entry.options == {"hoodie.datasource.query.type": "read_optimized"}
