"""Tables with ORC base files through Spark: the source, `write_table`, `read_table`, statements and SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from pyspark_hudi import delete_from, merge_into, read_table, run_service, sql, update, write_table
from tests.connector.tables import PARTITIONED
from tests.support.choice import cases

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ORC = {**PARTITIONED, "hoodie.table.base.file.format": "ORC", "hoodie.py.write.durable": "false"}


def numbers(spark: SparkSession, start: int, end: int, value: str) -> DataFrame:
    texts = ("id", "IF(id % 3 = 0, 'b', 'a') AS p", "1L AS ts", f"{value} AS v")
    return spark.range(start, end, 1, 2).selectExpr(*texts, "TIMESTAMP '2024-01-02 03:04:05.123456' AS at")


def values(frame: DataFrame) -> dict[int, float]:
    found = {row.id: float(row.v) for row in frame.select("id", "v").collect()}
    assert len(found) == frame.count()
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("kind", cases(("COPY_ON_WRITE", "MERGE_ON_READ"), "orc through spark", 1))
def test_all_ways(spark: SparkSession, path: str, kind: str) -> None:
    options = {**ORC, "hoodie.datasource.write.table.type": kind}
    bulk = {**options, "hoodie.datasource.write.operation": "bulk_insert"}
    numbers(spark, 0, 9, "id * 1D").write.format("hudi-py").options(**bulk).mode("append").save(path)
    numbers(spark, 6, 12, "id * 2D").write.format("hudi-py").options(**options).mode("append").save(path)
    expected = {number: number * (2.0 if number >= 6 else 1.0) for number in range(12)}
    assert values(spark.read.format("hudi-py").load(path)) == expected
    tasks = {"hoodie.py.local.max.bytes": "0"}
    write_table(numbers(spark, 10, 15, "id * 3D"), path, options=options | tasks)
    expected |= {number: number * 3.0 for number in range(10, 15)}
    update(spark, path, {"v": "v + 1"}, "id < 3", options=tasks)
    expected |= {number: number + 1.0 for number in range(3)}
    delete_from(spark, path, "id = 4", options=tasks)
    del expected[4]
    source = numbers(spark, 14, 17, "id * 5D")
    merge = merge_into(spark, path, source, "t.id = s.id AND t.p = s.p", options=tasks)
    merge.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()
    expected |= {number: number * 5.0 for number in range(14, 17)}
    if kind == "MERGE_ON_READ":
        run_service(spark, path, "compaction")
    for frame in (spark.read.format("hudi-py").load(path), read_table(spark, path)):
        assert values(frame) == expected
        assert values(frame.where("id > 8 AND p = 'b'")) == {n: v for n, v in expected.items() if n > 8 and n % 3 == 0}
        assert {row.at.microsecond for row in frame.collect()} == {123456}
    files = [file for file in Path(path).rglob("*_*_*.*") if ".hoodie" not in file.parts and file.name[0] != "."]
    assert {file.suffix for file in files} == {".orc"}
    assert hudi_py.open_table(path).doctor(full=True).findings == ()


def test_sql(spark: SparkSession, path: str) -> None:
    sql(
        spark,
        "CREATE TABLE orc_rows (id INT, ts BIGINT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        f"preCombineField = 'ts', type = 'mor', 'hoodie.table.base.file.format' = 'ORC') LOCATION '{path}'",
    )
    sql(spark, "INSERT INTO orc_rows VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c')")
    sql(spark, "UPDATE orc_rows SET v = 'x' WHERE id = 1")
    sql(spark, "DELETE FROM orc_rows WHERE id = 2")
    assert sorted(tuple(row) for row in sql(spark, "SELECT id, v FROM orc_rows").collect()) == [(1, "x"), (3, "c")]
    assert hudi_py.open_table(path).properties["hoodie.table.base.file.format"] == "ORC"
    assert any(file.suffix == ".orc" for file in Path(path).iterdir())
    sql(spark, "DROP TABLE orc_rows")
