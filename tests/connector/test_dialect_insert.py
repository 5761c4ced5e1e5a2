"""INSERT INTO: columns by name or by position, and members of structs. The rows are those of Apache Hudi 1.2.0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hudi_py.errors import SchemaMismatchError
from pyspark_hudi import merge_into, sql
from pyspark_hudi.dialect.store import fits_by_name


@pytest.fixture(autouse=True)
def dropped(spark: SparkSession) -> Iterator[None]:
    yield
    sql(spark, "DROP TABLE IF EXISTS trips")


def create(spark: SparkSession, path: str, columns: str, partitions: str = "", kind: str = "cow") -> None:
    by = f"PARTITIONED BY ({partitions})" if partitions else ""
    sql(
        spark,
        f"CREATE TABLE trips ({columns}) USING hudi-py TBLPROPERTIES (primaryKey = 'id', type = '{kind}') {by} "
        f"LOCATION '{path}'",
    )


def stored(spark: SparkSession, columns: str = "*") -> list[tuple[object, ...]]:
    found = sql(spark, f"SELECT {columns} FROM trips ORDER BY id").collect()
    return [tuple(value.asDict(True) if hasattr(value, "asDict") else value for value in row) for row in found]


@pytest.mark.slow
def test_names_or_places(spark: SparkSession, path: str) -> None:
    create(spark, path, "id INT, a INT, b INT")
    for text in (
        "SELECT 3 AS b, 2 AS a, 1 AS id",
        "SELECT 2 AS other, 3 AS b, 4 AS b",  # not all by name
        "VALUES (3, 2, 3)",
        "(b, a, id) SELECT 3 AS id, 2 AS a, 4 AS b",
        "SELECT B, A, ID FROM VALUES (3L, 2, 5) AS given(B, A, ID)",
    ):
        sql(spark, f"INSERT INTO trips {text}")
    assert stored(spark, "id, a, b") == [(1, 2, 3), (2, 3, 4), (3, 2, 3), (4, 2, 3), (5, 2, 3)]
    with pytest.raises(SchemaMismatchError, match="column 'b': cannot safely cast string to int"):
        sql(spark, "INSERT INTO trips SELECT 'x' AS b, 2 AS a, 1 AS id")
    with pytest.raises(SchemaMismatchError, match="the query has several columns 'id'"):
        sql(spark, "INSERT INTO trips SELECT 1 AS id, 2 AS id, 3 AS b")


@pytest.mark.slow
def test_partition_columns_come_last(spark: SparkSession, path: str) -> None:
    create(spark, path, "id INT, name STRING, dt STRING, ht STRING", "dt, ht")
    sql(spark, "INSERT INTO trips PARTITION (dt, ht) SELECT 1 AS id, 'd' AS dt, 'a1' AS name, 'h' AS ht")
    sql(spark, "INSERT INTO trips PARTITION (dt = 'd', ht) SELECT 'h' AS ht, 'a2' AS name, 2 AS id")
    sql(spark, "ALTER TABLE trips ADD COLUMNS (ext INT)")
    sql(spark, "INSERT INTO trips VALUES (3, 'a3', 7, 'd', 'h')")
    sql(spark, "INSERT INTO trips PARTITION (ht = 'h', dt) VALUES (4, 'a4', 8, 'd')")
    sql(spark, "INSERT INTO trips SELECT * FROM trips WHERE id = 3")
    assert stored(spark, "id, name, ext, dt, ht, _hoodie_partition_path AS path") == [
        (1, "a1", None, "d", "h", "dt=d/ht=h"),
        (2, "a2", None, "d", "h", "dt=d/ht=h"),
        (3, "a3", 7, "d", "h", "dt=d/ht=h"),
        (3, "a3", 7, "d", "h", "dt=d/ht=h"),
        (4, "a4", 8, "d", "h", "dt=d/ht=h"),
    ]
    with pytest.raises(SchemaMismatchError, match="too many data columns: the query has 4 for id, name, ext"):
        sql(spark, "INSERT INTO trips PARTITION (dt = 'd', ht = 'h') SELECT 'x' AS dt, 1 AS id, 'a' AS name, 2 AS ext")


STRUCTS = (
    "id INT, s STRUCT<x: INT, y: STRING>, d STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, "
    "m MAP<STRING, STRUCT<a: INT, b: INT>>"
)


@pytest.mark.slow
def test_members_of_structs(spark: SparkSession, path: str) -> None:
    create(spark, path, STRUCTS, kind="mor")
    for text in (
        # one name is no member's: all by position
        """SELECT 1 AS id, struct(5, 'x') AS s, named_struct('b', 10, 'a', 20) AS d, array(struct(7L, 8)) AS l,
        map('z', struct(7, 8)) AS m""",
        """SELECT named_struct('b', 10, 'a', 20) AS d, named_struct('Y', 'x', 'x', 5) AS s, 2 AS id,
        array(named_struct('b', 1, 'a', 2), NULL) AS l, map('k', named_struct('b', 1, 'a', 2)) AS m""",
        "VALUES (3, struct(5, 6), struct(NULL, 7), NULL, NULL)",
        "(id, d) VALUES (4, named_struct('b', 10, 'a', 20))",
    ):
        sql(spark, f"INSERT INTO trips {text}")
    assert stored(spark, "id, s, d") == [
        (1, {"x": 5, "y": "x"}, {"a": 10, "b": 20}),
        (2, {"x": 5, "y": "x"}, {"a": 20, "b": 10}),
        (3, {"x": 5, "y": "6"}, {"a": None, "b": 7}),
        (4, None, {"a": 10, "b": 20}),
    ]
    assert stored(spark, "id, l[0], size(l), m['z'], m['k']") == [
        (1, {"a": 7, "b": 8}, 1, {"a": 7, "b": 8}, None),
        (2, {"a": 2, "b": 1}, 2, None, {"a": 2, "b": 1}),
        (3, None, None, None, None),
        (4, None, None, None, None),
    ]
    with pytest.raises(SchemaMismatchError, match="column 'd': it has the members a, b, and the value col1"):
        sql(spark, "INSERT INTO trips SELECT 5, NULL, struct(6), NULL, NULL")
    with pytest.raises(SchemaMismatchError, match="column 'd.a': cannot safely cast string to int"):
        sql(spark, "INSERT INTO trips SELECT 5, NULL, struct('6', 7), NULL, NULL")

    # what is assigned is cast by position
    sql(spark, "DELETE FROM trips WHERE id = 4")
    sql(spark, "UPDATE trips SET s = struct(6, 'new'), d = named_struct('b', 1, 'a', 2) WHERE id = 1")
    sql(spark, "UPDATE trips SET l = array(struct(3, 4)), m = map('z', struct('5', 6)), d = NULL WHERE id = 2")
    sql(
        spark,
        "MERGE INTO trips t USING (SELECT 3 AS id, struct(7, 'merged') AS s, named_struct('b', 3, 'a', 4) AS d) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.s, d = s.d",
    )
    source = spark.sql("SELECT 1 AS id, array(struct(8, 9)) AS l")
    merge_into(spark, path, source, "id").when_matched_update({"l": "s.l"}).execute()
    assert stored(spark, "id, s, d, l[0], m['z']") == [
        (1, {"x": 6, "y": "new"}, {"a": 1, "b": 2}, {"a": 8, "b": 9}, {"a": 7, "b": 8}),
        (2, {"x": 5, "y": "x"}, None, {"a": 3, "b": 4}, {"a": 5, "b": 6}),
        (3, {"x": 7, "y": "merged"}, {"a": 3, "b": 4}, None, None),
    ]
    with pytest.raises(Exception, match=r"DATATYPE_MISMATCH"):
        sql(spark, "UPDATE trips SET d = struct(1)")


@pytest.mark.parametrize(
    ("source", "fits"),
    [
        ("s STRUCT<B: INT, a: STRING>", True),
        ("s STRUCT<a: INT>", False),
        ("s STRUCT<a: INT, c: INT>", False),
        ("s STRUCT<a: INT, b: INT, c: INT>", False),
        ("s INT", True),
    ],
)
def test_structs_by_name(source: str, fits: bool) -> None:
    given, own = (StructType.fromDDL(text)[0].dataType for text in (source, "s STRUCT<a: INT, b: INT>"))
    assert fits_by_name(given, own) is fits
