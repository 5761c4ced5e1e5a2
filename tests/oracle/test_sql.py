"""Statements of Apache Hudi's documentation: its SQL and ours, each on a table of its own, with the same results.

Sources: "SQL DDL", "SQL DML" and "SQL Procedures" of the documentation of 1.x, and the quick start for Spark SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_hudi import disable, enable, sql
from tests.oracle.client import Oracle

# Statements of a page, in order; `USING hudi` is the one word that differs. Rows of queries are compared.
QUICK_START = """
CREATE TABLE hudi_table (ts BIGINT, uuid STRING, rider STRING, driver STRING, fare DOUBLE, city STRING) USING hudi
TBLPROPERTIES (primaryKey = 'uuid') PARTITIONED BY (city) LOCATION '{path}';
INSERT INTO hudi_table VALUES
(1695159649087,'334e26e9-8355-45cc-97c6-c31daf0df330','rider-A','driver-K',19.10,'san_francisco'),
(1695091554788,'e96c4396-3fad-413a-a942-4cb36106d721','rider-C','driver-M',27.70 ,'san_francisco'),
(1695046462179,'9909a8b1-2d15-4d3d-8ec9-efc48c536a00','rider-D','driver-L',33.90 ,'san_francisco'),
(1695516137016,'e3cf430c-889d-4015-bc98-59bdce1e530c','rider-F','driver-P',34.15,'sao_paulo'),
(1695115999911,'c8abbe79-8d89-47ea-b4ce-4d224bae5bfa','rider-J','driver-T',17.85,'chennai');
SELECT ts, fare, rider, driver, city FROM hudi_table WHERE fare > 20.0;
UPDATE hudi_table SET fare = 25.0 WHERE rider = 'rider-D';
DELETE FROM hudi_table WHERE uuid = '334e26e9-8355-45cc-97c6-c31daf0df330';
MERGE INTO hudi_table AS target USING (SELECT * FROM VALUES
(1, 'e96c4396-3fad-413a-a942-4cb36106d721', 'rider-X', 'driver-M', 28.7D, 'san_francisco'),
(2, 'new', 'rider-Y', 'driver-N', 1.5D, 'chennai') AS r(ts, uuid, rider, driver, fare, city)) AS source
ON target.uuid = source.uuid
WHEN MATCHED THEN UPDATE SET target.fare = source.fare WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM hudi_table
"""
DML = """
CREATE TABLE hudi_table (id INT, name STRING, price DECIMAL(10,2), ts BIGINT, dt STRING, hh STRING) USING hudi
TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt, hh) LOCATION '{path}';
INSERT INTO hudi_table PARTITION (dt = '2021-12-09', hh = '10') SELECT 1, 'a1', 20, 1000;
INSERT INTO hudi_table PARTITION (dt = '2021-12-09', hh) VALUES (2, 'a2', 22.339, 1001, '11'), (2, 'b2', 1, 999, '11');
INSERT INTO hudi_table (dt, hh, id, ts) VALUES ('2021-12-10', '12', 3, 1.9);
INSERT INTO hudi_table SELECT id + 3, upper(name), price * 3, ts, dt, hh FROM hudi_table WHERE id <> 2;
SELECT * FROM hudi_table;
SHOW PARTITIONS hudi_table;
UPDATE hudi_table SET price = price * 2 + 0.005, name = id WHERE id = 1;
UPDATE hudi_table SET name = concat(substring(dt, 1, 4), '-', lpad(id, 3, '0')), ts = ts + 1 WHERE id = 3;
DELETE FROM hudi_table WHERE id IN (SELECT 4);
SELECT * FROM hudi_table;
MERGE INTO hudi_table AS t USING (
SELECT 1 AS id, 'm1' AS name, CAST(11.5 AS DECIMAL(10,2)) AS price, 2000L AS ts,
'2021-12-09' AS dt, '10' AS hh
UNION ALL SELECT 9, 'm9', 9, 2000L, '2021-12-11', '10') AS s ON t.id = s.id AND t.dt = s.dt AND t.hh = s.hh
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.name <> 'x' THEN INSERT *;
SELECT * FROM hudi_table;
INSERT OVERWRITE hudi_table PARTITION (dt = '2021-12-09', hh = '11') SELECT 7, 'o7', 7, 7;
INSERT OVERWRITE TABLE hudi_table PARTITION (dt, hh) SELECT 8, 'o8', 8, 8, '2021-12-10', '12';
SELECT * FROM hudi_table;
INSERT OVERWRITE hudi_table PARTITION (dt = '2021-12-10', hh = '12') SELECT 1, 'n', 1, 1 WHERE false;
TRUNCATE TABLE hudi_table PARTITION (dt = '2021-12-11', hh = '10');
SHOW PARTITIONS hudi_table;
ALTER TABLE hudi_table DROP PARTITION (dt = '2021-12-09', hh = '11');
SELECT * FROM hudi_table;
INSERT OVERWRITE hudi_table SELECT 5, 'last', 5, 5, '2022-01-01', '00';
SELECT * FROM hudi_table;
SHOW PARTITIONS hudi_table
"""
CTAS = """
CREATE TABLE hudi_table USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') LOCATION '{path}'
AS SELECT 1 AS id, 'a1' AS name, CAST(10 AS DECIMAL(10,2)) AS price;
INSERT INTO hudi_table VALUES (1, 'again', 5);
SELECT * FROM hudi_table;
CALL create_savepoint(table => 'hudi_table', user => 'u', comments => 'c');
DELETE FROM hudi_table WHERE name = 'again';
SELECT * FROM hudi_table;
CALL rollback_to_savepoint(table => 'hudi_table');
SELECT * FROM hudi_table;
CALL delete_savepoint(table => 'hudi_table');
CALL show_savepoints(table => 'hudi_table');
TRUNCATE TABLE hudi_table;
SELECT * FROM hudi_table
"""
KEYLESS = """
CREATE TABLE hudi_table (ts BIGINT, uuid STRING, rider STRING, driver STRING, fare DOUBLE, city STRING) USING HUDI
TBLPROPERTIES (type = '{kind}') PARTITIONED BY (city) LOCATION '{path}';
INSERT INTO hudi_table VALUES (1, 'u1', 'rider-A', 'driver-K', 19.10, 'san_francisco'),
(2, 'u2', 'rider-C', 'driver-M', 27.70 , 'san_francisco'), (3, 'u3', 'rider-D', 'driver-L', 33.90, 'sao_paulo'),
(3, 'u3', 'rider-D', 'driver-L', 33.90, 'sao_paulo'), (4, 'u4', 'rider-J', 'driver-T', 17.85, 'chennai');
SELECT ts, fare, rider, driver, city FROM hudi_table WHERE fare > 20.0;
UPDATE hudi_table SET fare = 25.0 WHERE rider = 'rider-D';
SELECT fare, rider FROM hudi_table;
CREATE TABLE fare_adjustment (ts BIGINT, uuid STRING, rider STRING, driver STRING, fare DOUBLE, city STRING) USING HUDI;
INSERT INTO fare_adjustment VALUES (5, 'u2', 'rider-C', 'driver-M', -2.70, 'san_francisco'),
(6, 'u4', 'rider-J', 'driver-T', 2.15, 'chennai'), (7, 'u7', 'rider-S', 'driver-W', 3, 'chennai'),
(8, 'u7', 'rider-S', 'driver-W', 3, 'chennai');
MERGE INTO hudi_table AS target USING fare_adjustment AS source ON target.uuid = source.uuid
WHEN MATCHED THEN UPDATE SET target.fare = {sum} WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM hudi_table;
MERGE INTO hudi_table t USING (SELECT 20D AS fare, 99 AS ts) s ON t.fare > s.fare
WHEN MATCHED THEN UPDATE SET ts = s.ts;
SELECT * FROM hudi_table;
DELETE FROM hudi_table WHERE uuid = 'u1';
INSERT OVERWRITE hudi_table PARTITION (city = 'chennai') SELECT 9, 'u9', 'r', 'd', 1.0;
SELECT * FROM hudi_table;
SELECT uuid, fare FROM hudi_table TIMESTAMP AS OF '2030-01-01' WHERE city = 'chennai';
SHOW PARTITIONS hudi_table;
SELECT uuid, fare FROM hudi_table_changes('hudi_table', 'latest_state', 'earliest');
INSERT OVERWRITE hudi_table SELECT 5, 'last', 'r', 'd', 5.0, 'rome';
SELECT * FROM hudi_table;
TRUNCATE TABLE hudi_table;
SELECT * FROM hudi_table
"""
DDL = """
CREATE TABLE IF NOT EXISTS hudi_table (id INT, name STRING, price DOUBLE) USING hudi;
INSERT INTO hudi_table VALUES (1, 'a', 2.5), (1, 'a', 2.5);
ALTER TABLE hudi_table RENAME TO hudi_table_renamed;
ALTER TABLE hudi_table_renamed ADD COLUMNS(remark STRING);
INSERT INTO hudi_table_renamed VALUES (2, "b", 3, "don't");
SELECT * FROM hudi_table_renamed;
SELECT value FROM (SELECT 1 AS value) WHERE 'x' = 'y';
CREATE TABLE IF NOT EXISTS hudi_table_partitioned (id BIGINT, name STRING, dt STRING, hh STRING) USING hudi
TBLPROPERTIES (
  type = 'cow' -- the default
)
PARTITIONED BY (dt);
INSERT INTO hudi_table_partitioned (id, name, dt, hh) VALUES (1, 'a', '2021-12-09', '10');
SELECT * FROM hudi_table_partitioned;
CREATE TABLE IF NOT EXISTS hudi_table_keyed (id INT, name STRING, price DOUBLE, ts BIGINT) USING hudi
OPTIONS (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', hoodie.parquet.max.file.size = "100000000")
LOCATION '{path}';
INSERT INTO hudi_table_keyed VALUES (1, 'a', 1, 10), (1, 'b', 2, 9), (2, 'c', 3, 10);
CREATE TABLE hudi_table_external USING hudi LOCATION '{path}';
SELECT * FROM hudi_table_external;
CREATE TABLE hudi_table_ctas USING hudi TBLPROPERTIES (type = '{kind}', preCombineField = 'ts') PARTITIONED BY (name)
AS SELECT id, price, ts, name FROM hudi_table_keyed;
SELECT * FROM hudi_table_ctas;
CREATE TABLE hudi_table_copy USING hudi LOCATION '{path}-copy' TBLPROPERTIES (type = 'cow')
AS SELECT id, ts, name FROM hudi_table_ctas;
SELECT * FROM hudi_table_copy;
ALTER TABLE hudi_table_keyed SET TBLPROPERTIES (hoodie.keep.max.commits = '30');
ALTER TABLE hudi_table_keyed SET TBLPROPERTIES ("note" = "don't drop this table");
ALTER TABLE hudi_table_keyed SET SERDEPROPERTIES ('key1' = 'value1');
UPDATE hudi_table_keyed SET price = price * 2, ts = 1111 WHERE id = 1;
DELETE FROM hudi_table_keyed WHERE id % 2 = 0;
ALTER TABLE hudi_table_keyed UNSET TBLPROPERTIES IF EXISTS (hoodie.keep.max.commits);
ALTER TABLE hudi_table_keyed UNSET TBLPROPERTIES IF EXISTS ('note');
SELECT * FROM hudi_table_keyed;
ALTER TABLE hudi_table_partitioned DROP PARTITION (dt = '2021-12-09');
SHOW PARTITIONS hudi_table_partitioned
"""
PAGES = {
    "quick start": QUICK_START,
    "dml": DML,
    "ctas and procedures": CTAS,
    "without keys": KEYLESS,
    "ddl": DDL,
}
TABLES = [
    *("hudi_table", "fare_adjustment", "hudi_table_renamed", "hudi_table_partitioned", "hudi_table_keyed"),
    *("hudi_table_external", "hudi_table_ctas", "hudi_table_copy"),
]
WORD = re.compile(r"\bUSING hudi\b", re.IGNORECASE)


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without meta columns, as text that does not depend on how numbers travel."""
    texts = []
    for row in rows:
        kept = {key: value for key, value in row.items() if not key.startswith("_hoodie")}
        texts.append(
            str({key: float(value) if key in ("price", "fare") and value else value for key, value in kept.items()})
        )
    return sorted(texts)


def way(spark: SparkSession, *, enabled: bool) -> Callable[[str], DataFrame]:
    """How statements are run."""
    if enabled:
        enable(spark)
        return spark.sql
    disable(spark)
    return partial(sql, spark)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "kind"),
    [
        pytest.param("quick start", "cow", marks=pytest.mark.nightly),
        pytest.param("without keys", "cow", marks=pytest.mark.nightly),
        pytest.param("ddl", "cow", marks=pytest.mark.long),
        pytest.param("dml", "mor", marks=pytest.mark.long),
        pytest.param("dml", "cow", marks=pytest.mark.long),
        pytest.param("ctas and procedures", "cow", marks=pytest.mark.long),
        pytest.param("ctas and procedures", "mor", marks=pytest.mark.long),
    ],
)
def test_the_statements_of_a_page(spark: SparkSession, oracle: Oracle, tmp_path: Path, page: str, kind: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run = way(spark, enabled=kind == "cow")
    # merge on read, Apache Hudi refuses columns of the table in values
    given = {"kind": kind, "sum": "source.fare" if kind == "mor" else "target.fare + source.fare"}
    try:
        for text in PAGES[page].split(";\n"):
            expected = oracle.sql(text.format(path=theirs, **given))
            found = run(WORD.sub("USING hudi-py", text.format(path=ours, **given)))
            assert shown([row.asDict() for row in found.collect()]) == shown(expected), text
        # keys that Apache Hudi's INSERT adds twice are in its table twice as well
        assert oracle.check(ours)["problems"] == oracle.check(theirs)["problems"]
        read = oracle.read(ours, drop_meta=True).to_pylist()
        assert shown(read) == shown(oracle.read(theirs, drop_meta=True).to_pylist())
    finally:
        for name in TABLES:
            oracle.sql(f"DROP TABLE IF EXISTS {name}")
            sql(spark, f"DROP TABLE IF EXISTS {name}")
        disable(spark)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["cow", pytest.param("mor", marks=pytest.mark.nightly)])
def test_procedures_that_show_commits(spark: SparkSession, oracle: Oracle, tmp_path: Path, kind: str) -> None:
    """Of one table, whose commits are by both."""
    path = str(tmp_path / "t")
    sql(
        spark,
        f"CREATE TABLE hudi_table (id INT, ts BIGINT, part STRING) USING hudi-py TBLPROPERTIES (type = '{kind}', "
        f"primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (part) LOCATION '{path}'",
    )
    try:
        sql(spark, "INSERT INTO hudi_table VALUES (1, 1, 'a'), (2, 1, 'b')")
        rows = sql(spark, "SELECT * FROM hudi_table").where("id = 1").toArrow()
        oracle.write(path, rows.drop_columns([name for name in rows.column_names if name.startswith("_hoodie")]))
        sql(spark, "UPDATE hudi_table SET ts = ts + 1")
        times = [row[0] for row in sql(spark, "CALL show_commits('hudi_table')").collect()]
        assert len(times) == 3
        calls = ["show_commits_metadata(table => 'hudi_table')", "stats_wa(table => 'hudi_table')"]
        calls += ["show_commit_extra_metadata(table => 'hudi_table')"]
        for name in ("files", "partitions", "write_stats", "extra_metadata"):
            calls += [f"show_commit_{name}(table => 'hudi_table', instant_time => '{time}')" for time in times]
        for call in calls:
            expected = oracle.call(path, call.replace("'hudi_table'", "'{table}'"))
            found = [row.asDict() for row in sql(spark, f"CALL {call}").collect()]
            assert sorted(found, key=repr) == sorted(expected, key=repr), call
    finally:
        sql(spark, "DROP TABLE IF EXISTS hudi_table")
