"""Conditions on partition columns leave out what Python reads, and no row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.formats.keys.hashing import xx_hash64
from hudi_py.testing.rows import assert_rows_equal
from pyspark_hudi import read_table
from pyspark_hudi.native import NativePlan
from pyspark_hudi.pruning import matching
from pyspark_hudi.tasks import rows_of
from tests.connector.conftest import CONNECT
from tests.connector.tables import read, rows

pytestmark = pytest.mark.spark

MOR: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "table_type": "mor"}
STAYS = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
EACH = {"hoodie.py.read.native": "always", "hoodie.py.read.open.cost.bytes": "1", "hoodie.py.read.min.tasks": "6"}
"""A task for each slice."""
CONDITIONS = {
    "y = 1 AND m = 'a'": (2, 2),
    "y = 1": (6, 2),
    "m IN ('a', 'z')": (4, 4),
    "y > 1 OR m = 'c'": (10, 4),
    "y <=> 2 AND NOT m = 'b'": (4, 2),
    "y = 3 OR y IS NULL OR m IS NULL": (6, 4),
    "y = 2 AND v < 0": (6, 2),
    "y = 1 OR v = 1": (12, 4),
    "m LIKE 'a%'": (4, 4),
    "CAST(y AS STRING) = '1'": (6, 2),
}
"""Condition to the most parts that Python reads, of 12 of one task each, and of 4 of three tasks each."""


def parts_read(frame: DataFrame) -> int:
    """How often the plan of a classic session calls Python."""
    plan: Any = frame
    return int(plan._jdf.queryExecution().optimizedPlan().toString().count("MapInArrow"))


@pytest.fixture
def table(path: str) -> str:
    """Six partitions, each with updates in a log."""
    data = [{"id": n, "ts": 1, "v": n, "y": 1 + n % 2, "m": "abc"[n % 3]} for n in range(24)]
    hudi_py.write(path, data, partition_by=["y", "m"], **MOR)
    hudi_py.write(path, [{**row, "ts": 2, "v": -1} for row in data[:12]])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("at_most", [32, 2])
def test_conditions_on_partition_columns(
    spark: SparkSession, table: str, at_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_hudi.native._PRUNED_BYTES", 0)
    monkeypatch.setattr("pyspark_hudi.pruning._MAX_PARTS", at_most)
    plain, frame = read(spark, table).cache(), read_table(spark, table, options=EACH)
    assert frame.schema == plain.schema
    assert_rows_equal(frame.toArrow(), plain.toArrow())
    assert CONNECT or parts_read(frame) == 2  # without conditions
    frame.createOrReplaceTempView("parts")
    assert CONNECT or parts_read(spark.table("parts")) == (4 if at_most == 2 else 12)
    for condition, (each, few) in CONDITIONS.items():
        asked = spark.sql(f"SELECT v, id FROM parts WHERE {condition}")
        assert rows(asked) == rows(plain.where(condition).select("v", "id")), condition
        if not CONNECT:
            assert parts_read(asked) <= (few if at_most == 2 else each), condition
    plain.unpersist()


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("y = 1 AND m = 'a'", 1),
        ("Y = 1", 3),
        ("m IN ('a', 'z') AND v < 0", 2),
        ("y = 3", 0),
        ("y <=> 2", 3),
        ("y IS NULL OR m = 'b'", 2),
        ("y = 1 OR v = 1", 6),
        ("v < 0", 6),
        ('m = "a"', 6),  # which may be the name of a column
        ("CAST(y AS STRING) = '1'", 6),
        ("y = (SELECT 1)", 6),
        ("unknown = 1", 6),
    ],
)
def test_splits_that_a_condition_of_spark_leaves(
    table: str, condition: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_hudi.native._PRUNED_BYTES", 0)
    rest = NativePlan.of(table, Options.resolve(EACH, Scope.READ)).rest()
    assert len(rest.splits) == 6
    found = matching(rest, condition)
    assert len(found.splits) == left
    assert found.spec is rest.spec


@pytest.mark.skipif(CONNECT, reason="behind Spark Connect there are no parts")
def test_a_condition_makes_only_the_parts_that_it_needs(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_hudi.native._PRUNED_BYTES", 0)
    frame, wanted = read_table(spark, table, options=EACH), rows(read(spark, table).where("y = 1 AND m = 'a'"))
    made: list[int] = []

    def counted_rows(*arguments: Any) -> DataFrame:
        made.append(1)
        return rows_of(*arguments)

    monkeypatch.setattr("pyspark_hudi.pruning.rows_of", counted_rows)
    found = frame.where("y = 1 AND m = 'a'")
    assert len(made) == parts_read(found) == 2  # which rows logs replace, and the rows that they add
    assert rows(found) == wanted
    assert rows(frame.select(*frame.columns).filter("m = 'a' AND y = 1")) == wanted
    assert len(made) == 4
    assert rows(frame.where("y = 7")) == []
    assert len(made) == 6


def test_rows_whose_value_is_not_that_of_their_path(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_hudi.native._PRUNED_BYTES", 0)
    data = [{"id": n, "ts": 1, "p": "abc"[n % 3]} for n in range(9)]
    hudi_py.write(path, data, partition_by="p", options=STAYS, **MOR)
    newer = [{"id": n, "ts": 2, "p": text} for n, text in enumerate("bbc")]
    hudi_py.write(path, newer, options=STAYS)
    frame = read_table(spark, path, options=EACH)
    found = frame.where("p = 'b'")
    assert rows(found, "id", "_hoodie_partition_path") == [(1, "b"), (4, "b"), (7, "b")]
    assert rows(frame.where("p = 'a'"), "id", "p") == [(0, "a"), (3, "a"), (6, "a")]
    assert rows(frame.where("p = 'c'"), "id", "ts") == [(2, 2), (5, 1), (8, 1)]
    if not CONNECT:
        assert parts_read(frame) == 2
        assert parts_read(found) == 2  # what is replaced and the rows of b, as rows have the value of the path
    hudi_py.write(path, [{"id": 5, "p": "c"}, {"id": 0, "p": "b"}], "delete", STAYS)  # such logs have no statistics
    frame = read_table(spark, path, options=EACH)
    assert rows(frame.where("p = 'b'"), "id") == [(1,), (4,), (7,)]
    assert rows(frame.where("p >= 'c'"), "id") == [(2,), (8,)]
    hudi_py.write(path, [{"id": 3, "ts": 3, "p": "c"}], options=STAYS)
    hudi_py.open_table(path).compact()
    frame = read_table(spark, path, options={"hoodie.py.read.native": "always"})
    assert rows(frame.where("p = 'a'"), "id", "ts") == [(3, 3), (6, 1)], "the base file has another value, too"
    assert rows(frame.where("p = 'c'"), "id") == [(2,), (8,)]


@pytest.mark.slow
def test_conditions_after_other_steps(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_hudi.native._PRUNED_BYTES", 0)
    plain, frame = read(spark, table), read_table(spark, table, options=EACH)
    named = spark.createDataFrame([(1, "one")], "y int, name string")
    steps: dict[str, Any] = {
        "columns by name": lambda each: each.select("id", "v", "y").where("y = 1"),
        "columns of the frame": lambda each: each.select(each.id, each.y).where(each.y == 1),
        "a condition on another column first": lambda each: each.where("v < 0").filter(each["Y"] == 1).select("id"),
        "fewer columns": lambda each: each.drop("v", "ts").where("Y = 1"),
        "a name": lambda each: each.alias("t").where("t.y = 1").select("t.id"),
        "a new column": lambda each: each.withColumn("w", each.v + 1).where("y = 1 AND w = 0"),
        "a column renamed": lambda each: each.withColumnRenamed("v", "w").where("y = 1 AND w < 0"),
        "expressions": lambda each: each.selectExpr("id + 1", "y").where("y = 1"),
        "a join": lambda each: each.join(named, "y").where("y = 1").select("id", "name"),
        "a frame with a column of one before": lambda each: each.where(each.y == 1).where(each.v < 0).select(each.id),
    }
    for name, step in steps.items():
        found, whole = step(frame), step(plain)
        assert found.columns == whole.columns, name
        assert sorted(map(str, found.collect())) == sorted(map(str, whole.collect())), name
        assert CONNECT or parts_read(found) < 12, name
    assert sorted(frame.groupBy("y").count().collect()) == sorted(plain.groupBy("y").count().collect())
    if not CONNECT:
        assert parts_read(frame.selectExpr("sum(v)")) == parts_read(frame.where("v < 0")) == 2
        cached = frame.cache()
        assert "InMemoryRelation" in cached.where("y = 1")._jdf.queryExecution().withCachedData().toString()
        cached.unpersist()


def test_names_whose_hashes_are_alike(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = rows(read(spark, table), "id", "v")
    assert rows(read_table(spark, table, options=EACH), "id", "v") == wanted
    monkeypatch.setattr("pyspark_hudi.table.have_distinct_hashes", lambda names, bits: False)
    assert rows(read_table(spark, table, options=EACH), "id", "v") == wanted


def test_hashes_are_those_of_spark(spark: SparkSession) -> None:
    names = [
        "",
        "a",
        "é\U0001f600",
        "0f0c3a9e-8b0f-4c70-9f5b-3c1c3a0c7c1e-0_0-1-0_20260101000000000.parquet",
        "x" * 200,
    ]
    frame = spark.createDataFrame([(name,) for name in names], "name string").selectExpr("xxhash64(name)")
    assert [row[0] for row in frame.collect()] == xx_hash64(pa.array(names), 42).view(np.int64).tolist()
