"""Tables whose files lack the meta columns or the partition columns through Spark: all ways to write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from pyspark_hudi import delete_from, merge_into, read_table, run_service, sql, update, write_table
from tests.connector.tables import PARTITIONED
from tests.support.choice import cases

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VIRTUAL = {"hoodie.populate.meta.fields": "false"}
DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}
META = [f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")]


def numbers(spark: SparkSession, start: int, end: int, value: str) -> DataFrame:
    return spark.range(start, end, 1, 2).selectExpr("id", "IF(id % 3 = 0, 'b', 'a') AS p", "1L AS ts", f"{value} AS v")


def values(frame: DataFrame) -> dict[int, float]:
    rows = frame.select("id", "v", "p").collect()
    assert all(row.p == ("b" if row.id % 3 == 0 else "a") for row in rows)
    found = {row.id: float(row.v) for row in rows}
    assert len(found) == len(rows)
    return found


def check_files(path: str, given: Mapping[str, str]) -> None:
    expected = ["id", *(["p"] if given != DROPPED else []), "ts", "v"]
    for file in Path(path).rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            names = pq.read_schema(file).names
            assert sorted(names) == sorted([*(META if given == DROPPED else []), *expected]), file
    found = hudi_py.open_table(path).doctor(full=True)
    assert [each for each in found.findings if not each.code.startswith("environment")] == []


@pytest.mark.parametrize(
    ("given", "kind"),
    cases(
        [(given, kind) for given in (VIRTUAL, DROPPED) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")],
        "stored rows through spark",
        2,
    ),
)
def test_all_ways(spark: SparkSession, path: str, given: Mapping[str, str], kind: str) -> None:
    options = {**PARTITIONED, **given, "hoodie.py.write.durable": "false", "hoodie.datasource.write.table.type": kind}
    bulk = {**options, "hoodie.datasource.write.operation": "bulk_insert"}
    numbers(spark, 0, 9, "id * 1D").write.format("hudi-py").options(**bulk).mode("append").save(path)
    numbers(spark, 6, 12, "id * 2D").write.format("hudi-py").options(**options).mode("append").save(path)
    expected = {number: number * (2.0 if number >= 6 else 1.0) for number in range(12)}
    assert values(spark.read.format("hudi-py").load(path)) == expected
    tasks = {"hoodie.py.local.max.bytes": "0"}
    write_table(numbers(spark, 10, 15, "id * 3D"), path, options=options | tasks)
    expected |= {number: number * 3.0 for number in range(10, 15)}
    write_table(numbers(spark, 13, 14, "0D"), path, operation="delete", options=options | tasks)
    del expected[13]
    update(spark, path, {"v": "v + 1"}, "id < 3", options=tasks)
    expected |= {number: number + 1.0 for number in range(3)}
    delete_from(spark, path, "id = 4 AND p = 'a'", options=tasks)
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
    check_files(path, given)


@pytest.mark.parametrize("given", cases([VIRTUAL, DROPPED], "stored rows by statements", 1))
def test_statements(spark: SparkSession, path: str, given: Mapping[str, str]) -> None:
    properties = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    sql(
        spark,
        f"CREATE TABLE stored_rows (id BIGINT, ts BIGINT, v DOUBLE, p STRING) USING hudi PARTITIONED BY (p) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor', {properties})",
    )
    try:
        sql(spark, "INSERT INTO stored_rows SELECT id, 1L, id * 1D, IF(id % 3 = 0, 'b', 'a') FROM range(6)")
        sql(spark, "UPDATE stored_rows SET v = v + 10 WHERE id < 2")
        sql(spark, "DELETE FROM stored_rows WHERE id = 5")
        sql(
            spark,
            "MERGE INTO stored_rows t USING (SELECT id, 2L AS ts, 7D AS v, IF(id % 3 = 0, 'b', 'a') AS p FROM "
            "range(4, 8)) s ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        )
        expected = {0: 10.0, 1: 11.0, 2: 2.0, 3: 3.0, **dict.fromkeys(range(4, 8), 7.0)}
        assert values(spark.read.format("hudi-py").load(path)) == expected
        assert hudi_py.open_table(path).properties[next(iter(given))] == next(iter(given.values()))
        check_files(path, given)
    finally:
        sql(spark, "DROP TABLE stored_rows")
