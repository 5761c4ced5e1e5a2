"""VECTOR, VARIANT and BLOB columns through Spark: SQL, DataFrames and Spark's VariantType; classic and Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType, LongType, StringType, StructField, StructType, VariantType

import hudi_py
from pyspark_hudi import read_table, sql, write_table
from tests.support.choice import cases

BLOB = "named_struct('type', 'INLINE', 'data', CAST('abc' AS BINARY), 'reference', NULL)"
INLINE = {"type": "INLINE", "data": b"abc", "reference": None}
NAMES = ("custom", "other")


@pytest.fixture(autouse=True)
def dropped(spark: SparkSession) -> Iterator[None]:
    def drop() -> None:
        for name in NAMES:
            sql(spark, f"DROP TABLE IF EXISTS {name}")

    drop()
    yield
    drop()


def create(spark: SparkSession, path: str, kind: str) -> None:
    sql(
        spark,
        "CREATE TABLE custom (id STRING, emb VECTOR(3), d VECTOR(2, DOUBLE), i VECTOR(2, INT8), v VARIANT, blob BLOB, "
        "s STRUCT<b: BLOB, blob: INT>, l ARRAY<BLOB>, m MAP<STRING, BLOB>, ts BIGINT) USING hudi-py "
        f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts') LOCATION '{path}'",
    )


def core(path: str, *columns: str) -> list[dict[str, Any]]:
    found = hudi_py.open_table(path).scan().to_table()
    return sorted(found.select(["id", *columns]).to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", cases(("cow", "mor"), "custom types, SQL", 1))
def test_statements(spark: SparkSession, path: str, kind: str) -> None:
    create(spark, path, kind)
    own = hudi_py.open_table(path).schema
    assert own.field("emb").metadata == {b"hudi_type": b"VECTOR(3)"}
    assert own.field("v").metadata == {b"hudi_type": b"VARIANT"}
    sql(
        spark,
        "INSERT INTO custom SELECT 'a', array(0.1, 2, 3), array(1, 2), array(1, -2), "
        f"parse_json('{{\"x\": 1}}'), {BLOB}, "
        f"named_struct('b', {BLOB}, 'blob', 7), array({BLOB}, NULL), map('k', {BLOB}), 1",
    )
    sql(spark, "INSERT INTO custom (id, emb, ts) VALUES ('b', array(1F, 2F, 3F), 1), ('c', NULL, 1)")
    sql(spark, "UPDATE custom SET emb = array(7F, 8F, 9F), ts = 2 WHERE id = 'b'")
    sql(
        spark,
        "MERGE INTO custom t USING (SELECT 'c' AS id, array(4F, 5F, 6F) AS emb, parse_json('[true]') AS v, 3L AS ts) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.emb = s.emb, t.v = s.v, t.ts = s.ts",
    )
    found = sql(spark, "SELECT id, emb, CAST(v AS STRING) AS v, blob, ts FROM custom ORDER BY id").collect()
    assert [(row.id, row.v, row.ts) for row in found] == [("a", '{"x":1}', 1), ("b", None, 2), ("c", "[true]", 3)]
    assert [list(row.emb) for row in found[1:]] == [[7, 8, 9], [4, 5, 6]]
    assert found[0].blob.data == b"abc"
    nested = core(path, "s", "l", "m", "i", "d")[0]
    assert nested["s"] == {"b": INLINE, "blob": 7}
    assert (nested["l"], nested["m"]) == ([INLINE, None], [("k", INLINE)])
    assert (nested["i"], nested["d"]) == ([1, -2], [1, 2])
    (shown,) = sql(spark, "SHOW CREATE TABLE custom").collect()
    for text in ("`emb` VECTOR(3)", "`d` VECTOR(2, DOUBLE)", "`v` variant", "`blob` BLOB", "`l` ARRAY<BLOB>"):
        assert text in shown[0]
    sql(spark, "ALTER TABLE custom ADD COLUMNS (more VECTOR(1, DOUBLE), s.c BLOB AFTER b)")
    sql(spark, "INSERT INTO custom (id, more, ts) VALUES ('d', array(0.25D), 9)")
    assert core(path, "more")[-1] == {"id": "d", "more": [0.25]}
    altered = hudi_py.open_table(path).schema
    assert altered.field("more").metadata == {b"hudi_type": b"VECTOR(1, DOUBLE)"}
    assert altered.field("s").type.field("c").metadata == {b"hudi_type": b"BLOB"}
    sql(spark, "DELETE FROM custom WHERE id IN ('a', 'd')")
    assert [row["id"] for row in core(path)] == ["b", "c"]
    with pytest.raises(Exception, match=r"Column 'emb' is a VECTOR of 3 float .* 1 of 1 rows"):
        sql(spark, "INSERT INTO custom (id, emb, ts) VALUES ('d', array(1F, 2F), 1)")
    assert [row["id"] for row in core(path)] == ["b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", cases(("mor", "cow"), "custom types, DataFrames", 1))
def test_data_frames(spark: SparkSession, path: str, kind: str) -> None:
    """Column metadata declares a new table's columns; reading gives the same, which may be written again."""
    schema = StructType(
        [
            StructField("id", StringType()),
            StructField("emb", ArrayType(FloatType(), False), metadata={"hudi_type": "VECTOR(2)"}),
            StructField("ts", LongType()),
        ]
    )
    rows = spark.createDataFrame([("a", [1.0, 2.0], 1), ("b", None, 1)], schema)
    rows = rows.selectExpr(
        "*", "CASE WHEN id = 'a' THEN parse_json('1') END AS v", "named_struct('type', 'x') AS plain"
    )
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE" if kind == "cow" else "MERGE_ON_READ",
    }
    rows.write.format("hudi-py").options(**options).mode("append").save(path)
    own = hudi_py.open_table(path).schema
    assert own.field("emb").metadata == {b"hudi_type": b"VECTOR(2)"}
    assert own.field("v").metadata == {b"hudi_type": b"VARIANT"}
    assert own.field("plain").metadata is None
    changed = spark.createDataFrame([("b", [3.0, 4.0], 2), ("c", [5.0, 6.0], 2)], schema)
    changed = changed.selectExpr("*", "parse_json('[2]') AS v", "named_struct('type', 'x') AS plain")
    write_table(changed, path, options=options)
    expected = [("a", [1, 2], "1"), ("b", [3, 4], "[2]"), ("c", [5, 6], "[2]")]
    for frame in (spark.read.format("hudi-py").load(path), read_table(spark, path)):
        assert frame.schema["emb"].metadata == {"hudi_type": "VECTOR(2)"}
        assert frame.schema["emb"].dataType == ArrayType(FloatType(), False)
        assert frame.schema["v"].dataType == VariantType()
        found = frame.selectExpr("id", "emb", "CAST(v AS STRING)").orderBy("id").collect()
        assert [(row[0], list(row[1]), row[2]) for row in found] == expected
        assert frame.where("variant_get(v, '$[0]', 'int') = 2").count() == 2
    again = f"{path}_again"
    read_table(spark, path).write.format("hudi-py").options(**options).mode("append").save(again)
    assert hudi_py.open_table(again).schema.field("emb").metadata == {b"hudi_type": b"VECTOR(2)"}
    assert core(again, "emb", "v", "plain") == core(path, "emb", "v", "plain")
    other = changed.withMetadata("emb", {"hudi_type": "VECTOR(3)"}).write.format("hudi-py").options(**options)
    with pytest.raises(Exception, match=r"Column 'emb' is VECTOR\(2\) in the table and VECTOR\(3\) in the data"):
        other.mode("append").save(path)
