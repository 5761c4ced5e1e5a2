"""`sql`: statements on Hudi tables, classic and Connect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError, TableExistsError, UnsupportedTableError
from pyspark_hudi import disable, enable, run_service, sql
from tests.golden.old.tables import extract

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


@pytest.fixture(autouse=True)
def dropped(spark: SparkSession) -> Iterator[None]:
    def drop() -> None:
        for name in ("trips", "copy", "kept"):
            sql(spark, f"DROP TABLE IF EXISTS {name}")

    drop()  # what other modules left, which share the session
    yield
    drop()
    for setting in spark.sql("SET").collect():
        if setting.key.startswith("hoodie."):
            spark.conf.unset(setting.key)


def rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sql(spark, text).collect()]


def create(spark: SparkSession, path: str, kind: str = "cow", partitions: str = "PARTITIONED BY (city)") -> None:
    sql(
        spark,
        "CREATE TABLE trips (id INT, ts BIGINT, fare DOUBLE, city STRING) USING hudi-py "
        f"TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts') {partitions} LOCATION '{path}'",
    )


def test_a_few_statements(spark: SparkSession, path: str) -> None:
    create(spark, path)
    assert sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo'), (2, 1, 20, 'lima')").columns == []
    sql(spark, "UPDATE trips AS t SET t.fare = t.fare * 2 WHERE t.city = 'lima'")
    assert rows(spark, "SELECT id, fare, city FROM trips ORDER BY id") == [(1, 10.0, "oslo"), (2, 40.0, "lima")]


def test_tables_are_told_as_tables(spark: SparkSession, path: str) -> None:
    """Other tools go by what SHOW TABLE EXTENDED says of them, as dbt does."""
    create(spark, path)
    for pattern in ("LIKE 'trips*'", "IN default LIKE 'trips'"):
        ((schema, name, temporary, told),) = rows(spark, f"SHOW TABLE EXTENDED {pattern}")
        assert (schema, name, temporary) == ("default", "trips", False)
        assert "Table: trips\n" in told
        assert "Provider: hudi-py" in told
        assert "Type: VIEW" not in told
    assert rows(spark, "SHOW TABLE EXTENDED LIKE 'trips_table'") == []


@pytest.mark.slow
def test_the_statements_of_the_page(spark: SparkSession, path: str) -> None:
    """Those of docs/sql.md, with the rows that it shows."""
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = re.findall(r"(.+?);\n((?:-- [^\n]*\n)*)\n*", "".join(blocks).replace("/data/trips", path), re.DOTALL)
    assert len(shown) > 15
    for text, expected in shown:
        found = "".join(f"-- {row}\n" for row in rows(spark, text))
        assert found == expected, text
    assert hudi_py.open_table(path).scan().count() == 4, "DROP TABLE keeps the files at a LOCATION"
    assert not spark.catalog.tableExists("trips")
    properties = hudi_py.open_table(path).properties
    assert properties["hoodie.datasource.write.hive_style_partitioning"] == "true"
    assert (properties["hoodie.table.name"], properties["hoodie.database.name"]) == ("trips", "default")


@pytest.mark.slow
def test_what_spark_evaluates(spark: SparkSession, path: str) -> None:
    create(spark, path, "mor")
    sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo'), (2, 1, 20, 'lima'), (3, 1, 30, 'lima')")
    sql(spark, "INSERT INTO trips (city, id) SELECT 'rome', 4")
    sql(
        spark,
        "UPDATE trips AS t SET t.fare = length(repeat(t.city, 2)), ts = 9 WHERE t.id IN (SELECT max(id) FROM trips)",
    )
    sql(spark, "DELETE FROM trips t WHERE EXISTS (SELECT 1 FROM VALUES (2) AS s(id) WHERE s.id = t.id)")
    expected = [(1, 1, 10.0, "oslo"), (3, 1, 30.0, "lima"), (4, 9, 8.0, "rome")]
    assert rows(spark, "SELECT id, ts, fare, city FROM trips ORDER BY id") == expected
    sql(
        spark,
        """MERGE INTO trips USING (SELECT * FROM VALUES (3, '2026'), (5, '7')) AS s (id, n) ON trips.id = s.id
        WHEN MATCHED AND hash(s.n) <> 1 THEN UPDATE SET fare = least(double(reverse(s.n)), 99), ts = 2
        WHEN NOT MATCHED THEN INSERT (id, ts, city) VALUES (s.id, date_diff(DATE '2026-01-02', '2026-01-01'), s.n)""",
    )
    first = rows(spark, "CALL show_commits('trips')")[-1]
    assert (first[2], first[7]) == ("deltacommit", 3)
    old = rows(
        spark, f"SELECT count(*), max(x.id) FROM trips TIMESTAMP AS OF '{first[0]}' x, trips AS y WHERE y.id = 1"
    )
    assert old == [(3, 3)]
    found = rows(spark, f"SELECT id, ts, fare, city FROM hudi.`{path}` WHERE id IN (3, 5) ORDER BY id")
    assert found == [(3, 2, 99.0, "lima"), (5, 1, None, "7")]
    with pytest.raises(ConfigError, match="Expression .* uses"):
        sql(spark, "MERGE INTO trips t USING trips s ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = hash(t.ts)")


def test_names_constants_and_comments_as_spark_sees_them(spark: SparkSession, path: str) -> None:
    """In every statement, and with the table's schema before its name."""
    location = f"USING hudi-py TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}'"
    sql(spark, f"CREATE TABLE odd (id INT, end INT, case STRING, b BINARY) {location}")
    sql(spark, "INSERT INTO spark_catalog.default.odd VALUES (1, DEFAULT, 'x', X'0AFF'), (2, 5, DEFAULT, X'')")
    sql(spark, "INSERT INTO odd SELECT 3, DEFAULT, 'z', :b", {"b": b"\x01"})
    sql(spark, "UPDATE odd SET end = CASE WHEN end IS NULL THEN 7 ELSE end END, case = DEFAULT WHERE b = X'0AFF'")
    sql(
        spark,
        "UPDATE spark_catalog.default.odd SET case = 'q' "
        "WHERE default.odd.id = 2 AND spark_catalog.default.odd.end = 5",
    )
    sql(spark, "DELETE FROM odd WHERE b = :b /* /* nested */ OR true */", {"b": b"\x01"})
    with pytest.raises(ParseException):
        sql(spark, "-- a comment that goes on \\\nDELETE FROM odd")
    sql(
        spark,
        "MERGE INTO default.odd USING (SELECT 4 AS id, 1 AS end) s ON default.odd.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, end, case) VALUES (s.id, s.end, DEFAULT)",
    )
    found = rows(spark, "SELECT id, end, case, b FROM spark_catalog.default.odd ORDER BY id")
    assert found == [(1, 7, None, b"\x0a\xff"), (2, 5, "q", b""), (4, 1, None, None)]
    sql(spark, "DROP TABLE spark_catalog.default.odd")
    assert not spark.catalog.tableExists("odd")


@pytest.mark.slow
def test_overwriting(spark: SparkSession, path: str, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: spark.conf.unset("hoodie.datasource.overwrite.mode"))  # other tests have this session
    create(spark, path)
    sql(spark, "INSERT INTO trips VALUES (1, 1, 1, 'a'), (2, 1, 1, 'b'), (3, 1, 1, 'c')")
    sql(spark, "INSERT OVERWRITE trips PARTITION (city = 'a') SELECT 4, 1, 2")
    sql(spark, "SET hoodie.datasource.overwrite.mode = DYNAMIC")
    sql(spark, "INSERT OVERWRITE TABLE trips PARTITION (city) SELECT 5, 1, 2, 'b'")
    assert rows(spark, "SELECT id, city FROM trips ORDER BY id") == [(3, "c"), (4, "a"), (5, "b")]
    sql(spark, "SET hoodie.datasource.overwrite.mode = STATIC")
    sql(spark, "INSERT OVERWRITE trips PARTITION (city = 'c') SELECT 4, 1, 2 WHERE false")
    assert rows(spark, "SHOW PARTITIONS trips") == [("city=a",), ("city=b",)]
    sql(spark, "INSERT OVERWRITE trips SELECT id, ts, fare, 'd' FROM trips WHERE id = 4")
    assert rows(spark, "SELECT id, city FROM trips") == [(4, "d")]
    sql(spark, "INSERT INTO trips VALUES (1, 1, 1, 'a')")
    sql(spark, "INSERT OVERWRITE TABLE trips PARTITION (city) SELECT 5, 1, 2, 'b'")
    assert rows(spark, "SELECT id, city FROM trips") == [(5, "b")]
    with pytest.raises(ConfigError, match="separates paths by commas"):
        sql(spark, "INSERT OVERWRITE trips PARTITION (city = 'a,b') SELECT 4, 1, 2")
    for value, told in (("a,b", "',' separates paths"), ("*", "stands for any text")):
        with pytest.raises(ConfigError, match=told):
            sql(spark, f"ALTER TABLE trips DROP PARTITION (city = '{value}')")


@pytest.mark.nightly
def test_overwriting_partitions_by_some_of_their_columns(spark: SparkSession, path: str) -> None:
    sql(
        spark,
        "CREATE TABLE trips (id INT, day DATE, city STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') "
        f"PARTITIONED BY (day, city) LOCATION '{path}'",
    )
    first, second = "DATE '2026-01-01'", "DATE '2026-01-02'"
    sql(spark, f"INSERT INTO trips VALUES (1, {first}, 'a'), (2, {first}, 'b'), (3, {second}, 'a')")
    sql(spark, "INSERT OVERWRITE trips PARTITION (day = '2026-01-01', city) SELECT 4, 'c'")
    assert rows(spark, "SELECT id, city FROM trips ORDER BY id") == [(3, "a"), (4, "c")]
    sql(spark, "INSERT OVERWRITE trips PARTITION (day, city = 'x') SELECT 5, DATE '2026-01-03'")
    assert rows(spark, "SELECT id, city FROM trips ORDER BY id") == [(3, "a"), (4, "c"), (5, "x")]


@pytest.mark.slow
def test_tables_by_location_and_query(spark: SparkSession, path: str, tmp_path: Path) -> None:
    sql(spark, "CREATE TABLE kept USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT 1 AS id, 'x' AS v")
    where = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"), "kept")
    assert hudi_py.open_table(where).scan(["id", "v"]).to_table().to_pylist() == [{"id": 1, "v": "x"}]
    with pytest.raises(TableExistsError, match="Cannot create the table kept: it already exists"):
        sql(spark, "CREATE TABLE kept (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    sql(spark, "CREATE TABLE IF NOT EXISTS kept (id INT) USING hudi")
    sql(spark, f"CREATE TABLE copy USING hudi LOCATION '{where}'")
    sql(spark, "INSERT INTO copy BY NAME SELECT 'y' AS v, 2 AS id")
    assert rows(spark, "WITH kept AS (SELECT 5 AS id) SELECT id FROM kept UNION ALL SELECT id FROM copy") == [
        (5,),
        (1,),
        (2,),
    ]
    assert rows(spark, "SELECT * FROM VALUES (1), (2) AS copy(id)") == [(1,), (2,)]
    sql(spark, "DROP TABLE copy")
    assert where.exists()
    sql(spark, "DROP TABLE kept")
    assert not where.exists()


@pytest.mark.slow
def test_values_are_stored_as_in_spark(spark: SparkSession, path: str) -> None:
    create(spark, path, partitions="")
    sql(spark, "INSERT INTO trips VALUES (1, 2.7, 1, 5)")
    assert rows(spark, "SELECT ts, fare, city FROM trips") == [(2, 1.0, "5")]
    with pytest.raises(SchemaMismatchError, match="column 'id': cannot safely cast string to int"):
        sql(spark, "INSERT INTO trips VALUES ('1', 1, 1, 'x')")
    with pytest.raises(Exception, match="a value of type bigint overflows int"):
        sql(spark, "INSERT INTO trips VALUES (99999999999, 1, 1, 'x')")
    with pytest.raises(SchemaMismatchError, match="not enough data columns: the query has 2 for id, ts, fare, city"):
        sql(spark, "INSERT INTO trips VALUES (1, 2)")
    sql(spark, "UPDATE trips SET fare = '1.5', ts = 3, city = NULL")
    assert rows(spark, "SELECT ts, fare, city FROM trips") == [(3, 1.5, None)]


@pytest.mark.slow
def test_what_is_refused_names_what_to_do(spark: SparkSession, path: str) -> None:
    create(spark, path)
    for text, message in {
        "CREATE TABLE copy (id INT) USING hudi TBLPROPERTIES (provider = '1')": "'provider': the catalog keeps it",
        "CREATE TABLE copy (id INT) USING hudi TBLPROPERTIES (hoodie.x = '1')": "Unknown option hoodie.x",
        "ALTER TABLE trips REPLACE COLUMNS (x INT)": "supported: ADD COLUMNS, RENAME COLUMN",
        "ALTER TABLE trips ADD COLUMN x INT NOT NULL": "a new column takes a type, COMMENT, FIRST or AFTER",
        "ALTER TABLE trips RENAME COLUMN fare TO price": "schema.on.read.enable=true allows for it",
        "ALTER TABLE trips SET TBLPROPERTIES (type = 'mor')": "it is fixed when a table is created",
        "ALTER TABLE trips SET TBLPROPERTIES ('hoodie.x' = '1')": "Unknown option hoodie.x",
        "ALTER TABLE trips SET TBLPROPERTIES (hoodie.table.name = 'x')": "it is fixed when a table is created",
        "UPDATE trips SET city.a = 'x'": "Cannot set 'city.a', a member of a struct",
        f"ALTER TABLE hudi.`{path}` RENAME TO kept": "a table named by its path has no name",
        "ALTER TABLE trips DROP PARTITION (city = 'a', City = 'b')": "the partition column 'City' is named twice",
        "CREATE TABLE copy USING hudi PARTITIONED BY (city)": "leave the clause out, or give columns",
        "TRUNCATE TABLE trips PARTITION (id = 1)": "all partition columns need a value; they are city",
        "CALL hdfs_parquet_import(table => 'trips')": "Cannot call the procedure without target_path",
        f"CALL hdfs_parquet_import('t', 'COPY_ON_WRITE', '/none', '{path}', 'id', 'city', '/x')": "there is a table",
        "CALL run_bootstrap(table => 'trips')": "Cannot call the procedure without base_path",
        f"CALL run_bootstrap('t', 'COPY_ON_WRITE', '/none', '{path}', 'id')": "there are no .parquet or .orc files",
        "CALL delete_marker(table => 'trips')": "without instant_time",
        "CALL sync_validate(dst_table => 'trips')": "without a table; give src_table => 'name'$",
        "CALL sync_validate('trips', 'trips', 'all')": "supported: complete, latestPartitions",
        "CALL sync_validate('trips', 'trips', 'latestPartitions')": "has no column 'datestr'",
        "CALL hive_sync(table => 'trips', use_jdbc => 'true')": "use_jdbc",
        "CALL set_audit_lock(table => 'trips', state => 'on')": "supported: enabled, disabled",
        "CALL set_audit_lock(state => 'enabled')": "without a table; give table => 'name' or path",
        "CALL run_rollback_inflight_tableservice('trips', NULL, '123')": "has begun; begun are none",
        "CALL show_fs_path_detail('/no/such/folder')": "there is no such file or folder",
        "CALL show_commit(table => 'trips')": "there is none of this name, the nearest is show_commits; CALL help()",
        "CALL help('show_comits')": "Cannot describe the procedure .* the nearest is show_commits",
        "CALL show_commits('trips', 1, 2)": "argument number 3: it takes 2 by position; give others by name, CALL help",
        "CALL delete_savepoint('trips', '12345')": "there is no savepoint of 12345; savepoints: none",
        "CALL run_compaction(op => 'schedule', table => 'trips')": "it is copy-on-write, without logs to compact",
        "RUN COMPACTION ON trips": "it is copy-on-write, without logs to compact",
        "CALL show_commits(table => 'nothing')": "no Hudi table is registered by this name",
        "UPDATE trips SET id = 2": "disallowed assignment clause in UPDATE statement for record key field 'id'",
        "SELECT * FROM trips VERSION AS OF 1": "use TIMESTAMP AS OF",
        f"CREATE VIEW v AS SELECT * FROM hudi.`{path}`": "register the table with register_sql",
    }.items():
        with pytest.raises(ConfigError, match=message):
            sql(spark, text)


@pytest.mark.slow
def test_tables_are_altered(spark: SparkSession, path: str) -> None:
    create(spark, path, "mor")
    sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo')")
    sql(
        spark,
        "ALTER TABLE trips ADD COLUMNS (tip DECIMAL(8, 2) COMMENT 'net' AFTER id, more MAP<STRING, STRUCT<a: INT>>)",
    )
    sql(spark, "ALTER TABLE trips ADD COLUMN note STRING FIRST")
    sql(spark, "ALTER TABLE trips SET TBLPROPERTIES ('team' = 'me', 'kept' = '1')")
    spark.conf.set("hoodie.schema.on.read.enable", "true")
    try:
        for text in (
            "ALTER TABLE trips RENAME COLUMN note TO remark",
            "ALTER TABLE trips ALTER COLUMN remark AFTER ts",
            "ALTER TABLE trips ALTER fare TYPE STRING",
            "ALTER TABLE trips CHANGE COLUMN fare price STRING COMMENT 'with tax' FIRST",
            "ALTER TABLE trips ADD COLUMNS (more.value.b DATE FIRST)",
            "ALTER TABLE trips ALTER COLUMN tip DROP NOT NULL",
            "ALTER TABLE trips DROP COLUMNS IF EXISTS (tip, nothing, more.value.c)",
            f"ALTER TABLE hudi.`{path}` ADD COLUMN last INT",
        ):
            sql(spark, text)
    finally:
        spark.conf.unset("hoodie.schema.on.read.enable")
    sql(spark, "ALTER TABLE trips UNSET TBLPROPERTIES IF EXISTS (team, nothing)")
    sql(spark, "ALTER TABLE trips RENAME TO kept")
    columns = sql(spark, "SELECT * EXCEPT (_hoodie_commit_time) FROM kept").columns[4:]
    assert columns == ["price", "id", "ts", "remark", "city", "more", "last"]
    sql(
        spark,
        "INSERT INTO kept (id, ts, price, city, more) "
        "VALUES (2, 1, '9', 'lima', map('k', named_struct('b', DATE '2026-01-01', 'a', 3)))",
    )
    found = rows(spark, "SELECT id, price, more['k'].b, more['k'].a FROM kept ORDER BY id")
    assert [found[0], found[1][:2], str(found[1][2]), found[1][3]] == [
        (1, "10.0", None, None),
        (2, "9"),
        "2026-01-01",
        3,
    ]
    assert ("kept", "1") in rows(spark, "SHOW TBLPROPERTIES kept")
    assert not spark.catalog.tableExists("trips")
    assert hudi_py.open_table(path).properties["hoodie.table.name"] == "kept"
    schema = hudi_py.open_table(path).schema
    assert str(schema.field("more").type) == "map<string, struct<b: date32[day], a: int32>>"


@pytest.mark.slow
@pytest.mark.parametrize("enabled", [False, True])
def test_tables_without_keys(spark: SparkSession, path: str, enabled: bool) -> None:
    if enabled:
        enable(spark)
    run = spark.sql if enabled else partial(sql, spark)

    def found() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in run("SELECT id, fare, city FROM trips").sort("id", "fare").collect()]

    try:
        run(
            "CREATE TABLE trips (id INT, fare DOUBLE, city STRING) USING hudi-py "
            f"PARTITIONED BY (city) LOCATION '{path}'"
        )
        run("INSERT INTO trips VALUES (1, 1, 'oslo'), (1, 1, 'oslo'), (2, 2, 'lima')")
        run("UPDATE trips SET fare = fare + 1 WHERE id = 1")
        run("UPDATE trips SET fare = fare * length(reverse(city)) WHERE id IN (SELECT 2)")
        assert found() == [(1, 2.0, "oslo"), (1, 2.0, "oslo"), (2, 8.0, "lima")]
        run(
            "MERGE INTO trips t USING (SELECT * FROM VALUES (1.5D, 'oslo'), (9D, 'rome') AS v(least, city)) s "
            "ON t.city = s.city AND t.fare > s.least WHEN MATCHED THEN UPDATE SET fare = t.fare + s.least "
            "WHEN NOT MATCHED THEN INSERT (id, fare, city) VALUES (7, s.least, s.city)"
        )
        run("DELETE FROM trips WHERE EXISTS (SELECT 1 FROM VALUES ('lima') AS v(city) WHERE v.city = trips.city)")
        assert found() == [(1, 3.5, "oslo"), (1, 3.5, "oslo"), (7, 9.0, "rome")]
        run("INSERT OVERWRITE trips PARTITION (city = 'rome') SELECT 8, 1")
        run("DELETE FROM trips WHERE id = 1")
        assert found() == [(8, 1.0, "rome")]
        assert rows(spark, "SELECT DISTINCT id, fare FROM hudi_table_changes('trips', 'latest_state', 'earliest')") == [
            (8, 1.0)
        ]
        ((text,),) = rows(spark, "SHOW CREATE TABLE trips")
        run("DROP TABLE trips")
        run(text)
        run("CREATE TABLE kept USING hudi-py AS SELECT id, fare FROM trips")
        run("INSERT INTO kept SELECT * FROM kept")
        assert run("SELECT count(*) FROM kept").collect()[0][0] == 2
        with pytest.raises(ConfigError, match="of the table kept: it is not partitioned"):
            run("ALTER TABLE kept DROP PARTITION (id = 1)")
    finally:
        disable(spark)


@pytest.mark.nightly
def test_managed_tables_move(spark: SparkSession) -> None:
    sql(spark, "CREATE TABLE trips (id INT) USING hudi TBLPROPERTIES (hoodie.cleaner.commits.retained = '3')")
    sql(spark, "INSERT INTO trips VALUES (1)")
    sql(spark, "ALTER TABLE trips RENAME TO kept")
    where = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    assert not (where / "trips").exists()
    assert hudi_py.open_table(where / "kept").properties["hoodie.table.name"] == "kept"
    sql(spark, "CREATE TABLE trips (id INT) USING hudi")
    sql(spark, "INSERT INTO kept VALUES (2)")
    sql(spark, "ALTER TABLE kept SET TBLPROPERTIES (hoodie.datasource.write.operation = 'bulk_insert', note = 'x')")
    sql(spark, "INSERT INTO kept VALUES (3)")
    operations = hudi_py.open_table(where / "kept").history().to_pylist()
    assert [row["operation"] for row in operations] == ["INSERT", "INSERT", "BULK_INSERT"]
    assert rows(spark, "SELECT id FROM kept ORDER BY id") == [(1,), (2,), (3,)]
    assert rows(spark, "SELECT id FROM trips") == []
    with pytest.raises(ConfigError, match="there is a table or view with this name"):
        sql(spark, "ALTER TABLE kept RENAME TO trips")
    sql(spark, "DROP TABLE kept")
    assert not (where / "kept").exists()


@pytest.mark.slow
def test_partition_ttl(spark: SparkSession, golden_copy: Callable[[str], Path]) -> None:
    """A golden table is older than a day."""
    path = str(golden_copy("v9_mor_compaction"))
    sql(spark, f"CREATE TABLE trips USING hudi-py LOCATION '{path}'")
    expired = run_service(spark, path, "ttl", retain_days=1, dry_run=True)["partitions"]
    assert len(expired) == 3
    assert rows(spark, "CALL run_ttl('trips', 'keep_by_creation_time', 100000)") == []
    key = "hoodie.partition.ttl.strategy.max.delete.partitions"
    dropped = rows(spark, f"CALL run_ttl(table => 'trips', retain_days => 1, options => '{key}=2')")
    assert dropped == [(each,) for each in expired[:2]]
    (report,) = rows(spark, "CALL run_service('trips', 'ttl', retain_days => 1)")
    assert json.loads(report[-1])["partitions"] == list(expired[2:])
    assert rows(spark, "SELECT * FROM trips") == []
    with pytest.raises(ConfigError, match="KEEP_FOREVER"):
        rows(spark, "CALL run_ttl('trips', 'KEEP_FOREVER', 1)")


@pytest.mark.slow
def test_versions(spark: SparkSession, golden_copy: Callable[[str], Path]) -> None:
    path = str(golden_copy("v6_cow_archived"))
    sql(spark, f"CREATE TABLE versions USING hudi-py LOCATION '{path}'")
    before = rows(spark, "SELECT uuid, fare FROM versions ORDER BY uuid")
    planned = run_service(spark, path, "upgrade", dry_run=True)
    assert planned["properties"]["hoodie.table.version"] == "9"
    assert rows(spark, "CALL upgrade_table(table => 'versions', to_version => 'NINE')") == [(True,)]
    assert rows(spark, "SELECT uuid, fare FROM versions ORDER BY uuid") == before
    assert rows(spark, "CALL downgrade_table('versions', '6')") == [(True,)]
    assert rows(spark, "SELECT uuid, fare FROM versions ORDER BY uuid") == before
    with pytest.raises(ConfigError, match="there is no version 7"):
        rows(spark, "CALL upgrade_table('versions', '7')")
    sql(spark, "DROP TABLE versions")


@pytest.mark.slow
def test_an_old_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(extract("v5_12_mor_ordering_date", tmp_path))
    sql(spark, f"CREATE TABLE old USING hudi-py LOCATION '{path}'")
    before = rows(spark, "SELECT id FROM old")
    with pytest.raises(UnsupportedTableError, match="upgrade it with CALL upgrade_table"):
        sql(spark, "DELETE FROM old WHERE id = 'kept'")
    assert rows(spark, "CALL upgrade_table(table => 'old', to_version => 'SIX')") == [(True,)]
    assert rows(spark, "SELECT id FROM old") == before
    sql(spark, "DELETE FROM old WHERE id = 'kept'")
    assert rows(spark, "SELECT id FROM old") == []
    sql(spark, "DROP TABLE old")


@pytest.mark.slow
def test_procedures(spark: SparkSession, path: str) -> None:
    create(spark, path, "mor")
    sql(spark, "INSERT INTO trips VALUES (1, 1, 1, 'a')")
    sql(spark, "UPDATE trips SET fare = 2")
    assert rows(spark, "CALL run_compaction(op => 'run', table => 'trips')") == [], "none is due"
    (scheduled,) = rows(spark, f"CALL run_compaction(op => 'schedule', path => '{path}')")
    assert scheduled[1:] == (1, "REQUESTED")
    assert rows(spark, "CALL show_compaction(table => 'trips')") == [scheduled]
    assert rows(spark, "CALL run_compaction(op => 'run', table => 'trips')") == [(scheduled[0], 1, "COMPLETED")]
    sql(spark, "UPDATE trips SET fare = fare + 0")
    one = "hoodie.compact.inline.max.delta.commits=1"
    (run,) = rows(spark, f"CALL run_compaction(op => 'run', table => 'trips', options => '{one}')")
    assert run[1:] == (1, "COMPLETED")
    sql(spark, "UPDATE trips SET fare = fare + 0")
    (scheduled,) = rows(spark, "CALL run_compaction(op => 'schedule', table => 'trips')")
    assert rows(spark, "CALL run_compaction(op => 'execute', table => 'trips')") == [(scheduled[0], 1, "COMPLETED")]
    assert rows(spark, "CALL create_savepoint(table => 'trips', user => 'me')") == [(True,)]
    ((saved,),) = rows(spark, "CALL show_savepoints(table => 'trips')")
    sql(spark, "UPDATE trips SET fare = 3")
    assert rows(spark, "CALL rollback_to_savepoint(table => 'trips')") == [(True,)]
    assert rows(spark, "SELECT fare FROM trips") == [(2.0,)]
    assert rows(spark, f"CALL delete_savepoint('trips', '{saved}')") == [(True,)]
    assert (
        dict(rows(spark, "CALL show_table_properties(table => 'trips', limit => 99)"))["hoodie.table.name"] == "trips"
    )
    assert rows(spark, "CALL run_clean(table => 'trips', retain_commits => 9)") == []


@pytest.mark.nightly
def test_procedures_that_show_commits(spark: SparkSession, path: str) -> None:
    sql(spark, "SET hoodie.metadata.enable = false")  # its compactions come before what is archived
    create(spark, path)
    sql(spark, "INSERT INTO trips VALUES (1, 1, 1, 'a'), (2, 1, 1, 'b')")
    sql(spark, "UPDATE trips SET fare = 2 WHERE id = 1")
    second, first = (row[0] for row in rows(spark, "CALL show_commits('trips')"))
    assert len(rows(spark, f"CALL show_commits(PATH => '{path}', limit => 1)")) == 1
    shown = rows(spark, "CALL show_commits_metadata(table => 'trips')")
    assert rows(spark, f"CALL show_commits_metadata(path => '{path}')") == shown
    assert [(row[0], row[3].rpartition("=")[2], row[5], row[6]) for row in shown] == [
        (second, "a", first, 1),
        (first, "a", "null", 1),
        (first, "b", "null", 1),
    ]
    assert len(rows(spark, "CALL show_commits_metadata('trips', 1)")) == 1
    ((action, _, _, previous, updated, written, _, errors, size),) = rows(
        spark, f"CALL show_commit_files(table => 'trips', instant_time => '{second}')"
    )
    assert (action, previous, updated, written, errors) == ("commit", first, 1, 1, 0)
    ((_, total, records, average),) = rows(spark, f"CALL show_commit_write_stats('trips', 10, '{second}')")
    assert (total, records, average) == (size, 1, size)
    parts = rows(spark, f"CALL show_commit_partitions(table => 'trips', instant_time => '{first}')")
    assert [row[2:6] for row in parts] == [(1, 0, 1, 0), (1, 0, 1, 0)]
    keys = {row[2] for row in rows(spark, "CALL show_commit_extra_metadata(table => 'trips')")}
    assert "schema" in keys
    assert rows(spark, f"CALL show_commit_extra_metadata('trips', 9, '{first}', 'schema')")[0][0] == first
    assert rows(spark, "CALL stats_wa(table => 'trips')") == [
        (first, 0, 2, "0"),
        (second, 1, 1, "1.00"),
        ("Total", 1, 3, "3.00"),
    ]
    with pytest.raises(ConfigError, match="no completed commit of this time"):
        sql(spark, "CALL show_commit_files(table => 'trips', instant_time => '17')")
    assert rows(spark, "CALL show_archived_commits(table => 'trips')") == []
    archiving = "table => 'trips', min_commits => 1, max_commits => 2, retain_commits => 1"
    for fare in (3, 4):
        sql(spark, f"UPDATE trips SET fare = {fare} WHERE id = 1")
    sql(spark, f"CALL archive_commits({archiving})")
    span = "start_ts => '0', end_ts => '9'"
    archived = rows(spark, f"CALL show_archived_commits(table => 'trips', {span})")
    assert archived[-1][0] == first
    assert archived[-1][3:] == (2, 0, 2, 2, 0, 0)
    assert rows(spark, "CALL show_archived_commits_metadata('trips', 10, '0', '9')")[-1][:6] == shown[-1][:6]
    assert rows(spark, "CALL show_archived_commits(table => 'trips')") == []  # of today: by default a day ago at most
    named = "filter => \"key = 'hoodie.table.name'\""
    assert rows(spark, f"CALL show_table_properties(table => 'trips', limit => 99, {named})") == [
        ("hoodie.table.name", "trips")
    ]
    assert len(rows(spark, "CALL show_metadata_table_partitions(table => 'trips')")) == 2
    assert "show_commit_files" in rows(spark, "CALL help()")[0][0]
    assert "instant_time (default: None)" in rows(spark, "CALL help(cmd => 'show_commit_files')")[0][0]


@pytest.mark.nightly
def test_procedures_that_show_actions_and_files(spark: SparkSession, path: str, tmp_path: Path) -> None:
    sql(spark, "SET hoodie.metadata.enable = true")
    create(spark, path, "mor")
    for ts in (1, 2):
        sql(spark, f"INSERT INTO trips VALUES (1, {ts}, 1, 'a'), (2, {ts}, 1, 'b')")
    undone, first = (row[0] for row in rows(spark, "CALL show_commits('trips')"))
    sql(spark, f"CALL rollback_to_instant('trips', '{undone}')")
    ((rollback, *rest),) = rows(spark, "CALL show_rollbacks('trips')")
    assert rest[0] == undone
    detail = rows(spark, f"CALL show_rollback_detail(table => 'trips', instant_time => '{rollback}')")
    assert {row[:2] for row in detail} == {(rollback, f"[{undone}]")}
    timeline = rows(spark, f"CALL show_timeline(path => '{path}', showarchived => true)")
    assert [(row[0], row[7]) for row in timeline] == [(rollback, f"Rolled back: {undone}"), (first, None)]
    named = "filter => \"action = 'rollback'\""
    assert rows(spark, f"CALL show_timeline(table => 'trips', {named})") == timeline[:1]
    assert rows(spark, "CALL show_cleans('trips')") == rows(spark, "CALL show_clean_plans('trips')") == []
    ((compared,),) = rows(spark, f"CALL commits_compare('trips', '{path}')")
    assert compared.endswith("is ahead by 0 commits. Commits to catch up - []")
    sql(spark, "UPDATE trips SET ts = 9 WHERE id = 1")
    slices = rows(spark, "CALL show_fsview_latest('trips')")
    assert [(row[0].rpartition("=")[2], row[5]) for row in slices] == [("a", 1), ("b", 0)]
    assert len(rows(spark, "CALL show_fsview_all(table => 'trips', limit => 1)")) == 1
    assert rows(spark, "CALL stats_file_sizes('trips')")[-1][0] == "ALL"
    ((log,),) = rows(spark, f"CALL show_logfile_records(table => 'trips', log_file_path_pattern => '{path}/*/.*log*')")
    assert '"ts": 9' in log
    assert rows(spark, "CALL validate_metadata_table_files('trips')") == []
    for procedure, word in (("delete", "Deleted"), ("create", "Created"), ("init", "Initialized")):
        assert rows(spark, f"CALL {procedure}_metadata_table('trips')")[0][0].startswith(f"{word} Metadata Table ")
    with pytest.raises(ConfigError, match="it exists, with .*files.*; CALL init_metadata_table"):
        sql(spark, "CALL create_metadata_table('trips')")
    assert dict(rows(spark, "CALL show_metadata_table_stats('trips')"))["files.logFileCount"].isdigit()
    folder = tmp_path / "exported"
    with pytest.raises(ConfigError, match="it is not a folder of this machine"):
        sql(spark, f"CALL export_instants('trips', '{folder}')")
    folder.mkdir()
    assert rows(spark, f"CALL export_instants('trips', '{folder}')") == [(f"Exported 3 Instants to {folder}",)]
    assert len([*folder.iterdir()]) == 3
    assert "`Partition path` STRING" in rows(spark, "CALL help('show_metadata_column_stats_overlap')")[0][0]


@pytest.mark.slow
def test_procedures_that_copy_rows(spark: SparkSession, path: str) -> None:
    create(spark, path)
    sql(spark, "INSERT INTO trips VALUES (1, 1, 1, 'a'), (2, 1, 1, 'b')")
    sql(spark, "UPDATE trips SET fare = 2 WHERE id = 1")
    second, first = (row[0] for row in rows(spark, "CALL show_commits('trips')"))
    given = f"table => 'trips', as_of_instant => '{first}'"
    assert rows(spark, f"CALL copy_to_temp_view({given}, view_name => 'before')") == [(0,)]
    assert sorted(spark.sql("SELECT id, fare FROM before").collect()) == [(1, 1.0), (2, 1.0)]
    with pytest.raises(Exception, match="already exists"):
        sql(spark, f"CALL copy_to_temp_view({given}, view_name => 'before')")
    sql(spark, "CALL copy_to_temp_view(table => 'trips', view_name => 'before', replace => true)")
    assert sorted(spark.sql("SELECT id, fare FROM before").collect()) == [(1, 2.0), (2, 1.0)]
    try:
        copying = "CALL copy_to_table(table => 'trips', new_table => 'copied'"
        assert rows(spark, f"{copying}, columns => 'id, fare')") == [(0,)]
        assert rows(spark, f"{copying}, save_mode => 'append')") == [(0,)]
        assert sorted(spark.sql("SELECT * FROM copied").collect()) == [(1, 2.0), (1, 2.0), (2, 1.0), (2, 1.0)]
        span = f"query_type => 'incremental', begin_instance_time => '{first}', end_instance_time => '{second}'"
        completed = {row[0]: row[1] for row in rows(spark, "CALL show_commits('trips')")}
        span = span.replace(first, completed[first]).replace(second, completed[second])
        rows(spark, f"{copying}, {span})")
        assert sorted(spark.sql("SELECT * FROM copied").collect()) == [(1, 2.0)]
    finally:
        spark.sql("DROP TABLE IF EXISTS copied")
        spark.catalog.dropTempView("before")
    with pytest.raises(ConfigError, match="to itself"):
        sql(spark, "CALL copy_to_table(table => 'trips', new_table => 'trips')")
    with pytest.raises(ConfigError, match="supported: overwrite, append"):
        sql(spark, "CALL copy_to_table(table => 'trips', new_table => 'x', save_mode => 'ignore')")
    ((result, _),) = rows(spark, "CALL truncate_table(table => 'trips')")
    assert result == "SUCCESS"
    assert rows(spark, "SELECT * FROM trips") == []


@pytest.mark.slow
def test_bucket_rules(spark: SparkSession, path: str) -> None:
    """`partition_bucket_index_manager`, with the texts of Apache Hudi 1.2.0."""
    create(spark, path)
    options = "hoodie.index.type=BUCKET,hoodie.bucket.index.num.buckets=2"
    for each in options.split(","):
        sql(spark, f"SET {each.replace('=', ' = ')}")
    sql(spark, "INSERT INTO trips SELECT id, 1, 1, if(id % 2 = 0, 'a', 'b') FROM range(20)")
    manager = "CALL partition_bucket_index_manager(table => 'trips'"
    assert rows(spark, f"{manager})") == [("ERROR", "INVALID_OPERATION", "No valid operation specified")]
    changing = f"{manager}, overwrite => 'city=a,3', bucket_number => 2"
    assert rows(spark, f"{changing})") == [("SUCCESS", "DRY_RUN_OVERWRITE", "\ncity=a => 3\n")]
    details = "Expression: city=a,3, Bucket Number: 2, Dry Run: false"
    assert rows(spark, f"{changing}, dry_run => false)") == [("SUCCESS", "OVERWRITE", details)]
    ((_, _, shown),) = rows(spark, f"{manager}, show_config => true)")
    found = re.fullmatch(
        r"PartitionBucketIndexHashingConfig\(expressions=city=a,3, defaultBucketNumber=2, rule=regex, version=1, "
        r"instant=(\d+)\)",
        shown,
    )
    assert found
    assert rows(spark, "SELECT count(*) FROM trips") == [(20,)]
    sql(spark, "UPDATE trips SET fare = 2 WHERE id < 5")
    (answer,) = rows(spark, f"{manager}, add => 'city=b,4', dry_run => false)")
    assert answer[2] == "Expression: city=b,4;city=a,3, Bucket Number: 2, Dry Run: false"
    assert rows(spark, f"{manager}, rollback => '17')") == [("FAILED", "ROLLBACK", None)]
    newest = hudi_py.open_table(path).rescale_buckets().rules[-1][0]
    assert rows(spark, f"{manager}, rollback => '{newest}')") == [("SUCCESS", "ROLLBACK", f"true to rollback {newest}")]
    assert len(hudi_py.open_table(path).rescale_buckets().rules) == 1
    assert rows(spark, "SELECT count(*), sum(fare) FROM trips") == [(20, 25.0)]
    for each in options.split(","):
        sql(spark, f"RESET {each.partition('=')[0]}")


def test_other_statements_are_sparks(spark: SparkSession) -> None:
    assert rows(spark, "SELECT '{x}' AS a, 1 -- FROM hudi.`/x`") == [("{x}", 1)]
    sql(spark, "CREATE OR REPLACE TEMPORARY VIEW plain AS SELECT 1 AS id")
    assert rows(spark, "SELECT id FROM plain") == [(1,)]
    with pytest.raises(Exception, match="UNSUPPORTED_FEATURE|TABLE_OR_VIEW_NOT_FOUND|UPDATE"):
        sql(spark, "UPDATE plain SET id = 1")
    sql(spark, "DROP VIEW plain")


@pytest.mark.slow
def test_tables_like_others(spark: SparkSession, path: str) -> None:
    sql(
        spark,
        "CREATE TABLE trips (id INT, ts BIGINT, city STRING) USING hudi PARTITIONED BY (city) TBLPROPERTIES "
        "(type = 'mor', primaryKey = 'id', preCombineField = 'ts', payloadType = 'own', "
        "'hoodie.metadata.enable' = 'false', "
        "'hoodie.datasource.write.hive_style_partitioning' = 'false')",
    )
    sql(spark, f"CREATE TABLE copy LIKE trips LOCATION '{path}' USING hudi TBLPROPERTIES (primaryKey = 'id,ts')")
    sql(spark, "INSERT INTO copy VALUES (1, 2, 'oslo')")
    table = hudi_py.open_table(path)
    kept = ("recordkey.fields", "partition.fields", "ordering.fields", "type")
    assert [table.properties[f"hoodie.table.{key}"] for key in kept] == ["id,ts", "city", "ts", "MERGE_ON_READ"]
    assert not (Path(path) / ".hoodie" / "metadata").exists(), "options of writes are those of the other table"
    assert (Path(path) / "oslo").is_dir(), "so is the layout"
    shown = {row[0] for row in rows(spark, "SHOW TBLPROPERTIES trips")}
    assert "payloadType" in shown, "a property that is no option is kept"
    with pytest.raises(TableExistsError, match="already exists"):
        sql(spark, "CREATE TABLE copy LIKE trips USING hudi")
    sql(spark, "CREATE TABLE IF NOT EXISTS copy LIKE trips USING hudi")
    assert rows(spark, "SELECT id, city FROM copy") == [(1, "oslo")]
    sql(spark, "CREATE TABLE kept LIKE copy_table USING hudi")
    sql(spark, "INSERT INTO kept VALUES (7, 2, 'rome')")
    assert rows(spark, "SELECT id, ts, city FROM kept") == [(7, 2, "rome")]
    with pytest.raises(Exception, match="cannot be found"):
        sql(spark, "CREATE TABLE more LIKE nothing USING hudi")
    with pytest.warns(UserWarning, match="'preCombine'.*did you mean preCombineField"):
        sql(spark, "CREATE TABLE IF NOT EXISTS other_t (id INT) USING hudi TBLPROPERTIES (preCombine = 'id')")
    sql(spark, "DROP TABLE other_t")
    with pytest.raises(ConfigError, match="keeps it for itself"):
        sql(spark, "CREATE TABLE other_t (id INT) USING hudi TBLPROPERTIES (owner = 'me')")


@pytest.mark.slow
def test_partitions_are_added(spark: SparkSession, path: str) -> None:
    create(spark, path)
    sql(spark, "ALTER TABLE trips ADD PARTITION (city = 'oslo') PARTITION (city = 'bern')")
    assert rows(spark, "SHOW PARTITIONS trips") == [("city=bern",), ("city=oslo",)]
    with pytest.raises(ConfigError, match="city=oslo .*exists already"):
        sql(spark, "ALTER TABLE trips ADD PARTITION (city = 'rome') PARTITION (city = 'oslo')")
    assert not (Path(path) / "city=rome").exists()
    sql(spark, "ALTER TABLE trips ADD IF NOT EXISTS PARTITION (city = 'oslo')")
    for text, told in (
        ("(city = 'a') LOCATION '/tmp/x'", "is always in its folder"),
        ("(id = 1)", "all partition columns"),
    ):
        with pytest.raises(ConfigError, match=told):
            sql(spark, f"ALTER TABLE trips ADD PARTITION {text}")
    sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo')")
    assert rows(spark, "SHOW PARTITIONS trips") == [("city=oslo",)]
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.slow
def test_queries_by_function_and_slashes(spark: SparkSession, path: str) -> None:
    sql(
        spark,
        f"CREATE TABLE trips (id INT, ts BIGINT, day STRING) USING hudi PARTITIONED BY (day) LOCATION '{path}' "
        "TBLPROPERTIES (type = 'mor', primaryKey = 'id', "
        "'hoodie.datasource.write.slash.separated.date.partitioning' = 'true')",
    )
    sql(spark, "INSERT INTO trips VALUES (1, 1, '2026-01-05'), (2, 1, '2026-01-06')")
    assert (Path(path) / "2026" / "01" / "05").is_dir()
    assert rows(spark, "SHOW PARTITIONS trips") == [("day=2026-01-05",), ("day=2026-01-06",)]
    assert rows(spark, "SHOW PARTITIONS trips PARTITION (day = '2026-01-05')") == [("day=2026-01-05",)]
    sql(spark, "UPDATE trips SET ts = 9 WHERE id = 1")
    query = "SELECT q.id, ts FROM hudi_query('{}', '{}'{}) {} ORDER BY id"
    for more, alias in (("", "q"), (", map('columns', 'id,ts')", "AS q")):
        assert rows(spark, query.format("trips", "read_optimized", more, alias)) == [(1, 1), (2, 1)]
        assert rows(spark, query.format(path, "snapshot", more, alias)) == [(1, 9), (2, 1)]
    assert rows(spark, "SELECT max(hudi_query.ts) FROM hudi_query('trips', 'snapshot') WHERE id < 3") == [(9,)]
    with pytest.raises(ConfigError, match="does not support the query type 'incremental'"):
        sql(spark, "SELECT * FROM hudi_query('trips', 'incremental')")
    with pytest.raises(ConfigError, match="for the table 'other': no Hudi table is registered by this name"):
        sql(spark, "SELECT * FROM hudi_query('other', 'snapshot')")
    sql(spark, "UPDATE trips SET ts = 10 WHERE id = 1")
    sql(spark, "CALL run_compaction(op => 'schedule', table => 'trips')")
    assert [row[1:] for row in rows(spark, "CALL show_compaction('trips')")] == [(1, "REQUESTED")]
    sql(spark, "CALL run_compaction(op => 'execute', table => 'trips')")
    sql(spark, "UPDATE trips SET ts = 11 WHERE id = 2")
    sql(spark, "CALL run_compaction(op => 'schedule', table => 'trips')")
    shown = rows(spark, "CALL show_compaction('trips')")
    assert [row[1:] for row in shown] == [(1, "REQUESTED"), (1, "COMPLETED")], "newest first"
    assert rows(spark, "CALL show_compaction(table => 'trips', limit => 1)") == shown[:1]
    sql(spark, "CALL run_compaction(op => 'execute', table => 'trips')")
    (plan,) = rows(spark, "CALL run_clustering(table => 'trips', op => 'schedule', order => 'ts')")
    assert plan[1:] == (2, "REQUESTED", "*")
    shown = rows(spark, "CALL show_clustering(table => 'trips', show_involved_partition => true)")
    assert shown == [(plan[0], 2, "REQUESTED", "2026/01/05,2026/01/06")]
    with pytest.raises(ConfigError, match="name partitions by selected_partitions"):
        sql(spark, "CALL run_clustering(table => 'trips', predicate => 'day > 1')")
    assert rows(spark, "CALL run_clustering('trips', op => 'execute')") == [(plan[0], 2, "COMPLETED", "*")]
    chosen = "table => 'trips', selected_partitions => '2026/01/05', show_involved_partition => true"
    (done,) = rows(spark, f"CALL run_clustering({chosen}, order => 'ts,id', order_strategy => 'z-order')")
    assert done[1:] == (1, "COMPLETED", "2026/01/05")
    assert [row[0] for row in rows(spark, "CALL show_clustering('trips')")] == [done[0], plan[0]]
    with pytest.warns(UserWarning, match="'comment' of create_savepoint has no effect.*did you mean comments"):
        assert rows(spark, "CALL create_savepoint(table => 'trips', comment => 'x')") == [(True,)]
    sql(spark, "INSERT INTO trips VALUES (3, 1, '2026-01-06')")
    with pytest.raises(ConfigError, match="on ts: a record index is one of the record key, which is id"):
        sql(spark, "CREATE INDEX record_index ON trips (ts)")
    sql(spark, "CREATE INDEX record_index ON trips (id)")


@pytest.mark.nightly
def test_a_second_name_that_reads_base_files(spark: SparkSession, path: str) -> None:
    create(spark, path, "mor")
    sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo')")
    sql(spark, "UPDATE trips SET fare = 20")
    entry = f"USING hudi TBLPROPERTIES ('hoodie.query.as.ro.table' = '{{}}') LOCATION '{path}'"
    sql(spark, f"CREATE TABLE copy {entry.format('true')}")
    sql(spark, f"CREATE TABLE kept {entry.format('false')}")
    query = "SELECT c.fare, k.fare FROM copy c JOIN kept k ON c.id = k.id"
    assert rows(spark, query) == [(10.0, 20.0)]
    sql(spark, "ALTER TABLE copy ADD COLUMNS (note STRING)")
    assert rows(spark, query) == [(10.0, 20.0)], "the entry stays what it is"
    with pytest.raises(ConfigError, match="a second name of a merge-on-read table"):
        sql(spark, f"CREATE TABLE other_t {entry.format('true').replace(path, path + '2')}")
    with pytest.warns(UserWarning, match="operation = 'upsert' of the table other_t has no effect"):
        sql(
            spark,
            "CREATE TABLE other_t (id INT) USING hudi TBLPROPERTIES (hoodie.datasource.write.operation = 'upsert')",
        )
    assert rows(spark, "MSCK REPAIR TABLE other_t") == []
    sql(spark, "DROP TABLE other_t")
    sql(spark, "SCHEDULE COMPACTION ON trips")
    ((instant, size, state),) = rows(spark, f"SHOW COMPACTION ON '{path}' LIMIT 3")
    assert (size, state) == (1, "REQUESTED")
    assert rows(spark, f"RUN COMPACTION ON trips AT {instant}") == [(instant, 1, "COMPLETED")]
    assert rows(spark, query) == [(20.0, 20.0)]


@pytest.mark.slow
def test_procedures_that_repair_and_audit(spark: SparkSession, path: str, tmp_path: Path) -> None:
    create(spark, path)
    sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo'), (2, 1, 20, 'lima')")
    (Path(path) / "city=oslo/.hoodie_partition_metadata").unlink()
    both = [("city=lima", "Yes", "None"), ("city=oslo", "No", "None")]
    assert rows(spark, "CALL repair_add_partition_meta('trips')") == both
    mended = rows(spark, "CALL repair_add_partition_meta(table => 'trips', dry_run => false)")
    assert mended == [both[0], ("city=oslo", "No", "Repaired")]
    assert rows(spark, "CALL repair_add_partition_meta('trips')")[1] == ("city=oslo", "Yes", "None")
    assert rows(spark, "CALL repair_migrate_partition_meta('trips')")[0] == ("city=lima", "true", "false", "MIGRATE")
    assert rows(spark, "CALL repair_corrupted_clean_files(table => 'trips')") == [(True,)]
    assert rows(spark, "CALL delete_marker(table => 'trips', instant_time => '101,102')") == [(True,)]
    new = tmp_path / "new.properties"
    new.write_text((Path(path) / ".hoodie/hoodie.properties").read_text() + "hoodie.extra=1\n")
    changed = rows(spark, f"CALL repair_overwrite_hoodie_props('trips', '{new}')")
    assert ("hoodie.extra", "null", "1") in changed
    copies = tmp_path / "copies"
    ((text,),) = rows(spark, f"CALL repair_deduplicate('trips', 'city=oslo', '{copies}')")
    assert text == f"Deduplicated files placed in: {copies}."
    assert len(list(copies.iterdir())) == 1
    ((folders, _, size, _, shown, consumed, quota, space),) = rows(
        spark, f"CALL show_fs_path_detail('{path}/city=*', limit => 1)"
    )
    assert (folders, consumed, quota, space) == (1, size, -1, -1)
    assert shown.startswith(f"file:{path}/city=")
    assert rows(spark, "CALL set_audit_lock(table => 'trips', state => 'ENABLED')") == [
        ("trips", "enabled", "Lock audit logging successfully enabled")
    ]
    ((name, enabled, config, folder),) = rows(spark, f"CALL show_audit_lock_status(path => '{path}')")
    assert (name, enabled) == (path, True)
    assert (config, folder) == (f"{path}/.hoodie/.locks/audit_enabled.json", f"{path}/.hoodie/.locks/audit")
    assert rows(spark, "CALL validate_audit_lock('trips')") == [
        ("trips", "PASSED", 0, 0, "No audit folder found - nothing to validate")
    ]
    assert rows(spark, "CALL cleanup_audit_lock('trips', age_days => 3)") == [
        ("trips", 0, False, 3, "No audit folder found - nothing to cleanup")
    ]


@pytest.mark.slow
def test_two_tables_are_compared_and_files_imported(spark: SparkSession, path: str, tmp_path: Path) -> None:
    create(spark, path)
    sql(spark, "INSERT INTO trips VALUES (1, 1, 10, 'oslo'), (2, 1, 20, 'lima')")
    other = str(tmp_path / "other")
    sql(
        spark,
        f"CREATE TABLE copy (id INT, name STRING) USING hudi-py TBLPROPERTIES (primaryKey = 'id') LOCATION '{other}'",
    )
    assert rows(spark, "CALL sync_validate('trips', 'copy', 'complete')") == [
        ("Count difference now is count(trips) - count(copy) == 2. Catach up count is 2",)
    ]
    sql(spark, "INSERT INTO copy VALUES (1, 'a')")
    assert rows(spark, "CALL sync_validate('trips', 'copy', 'complete', 'jdbc:hive2://none', 'x')") == [
        ("Count difference now is count(copy) - count(trips) == -1. Catach up count is 1",)
    ]
    source, target = tmp_path / "source", tmp_path / "imported"
    data = [("a", 1486080000, "x"), ("b", 1486200000, "y")]
    spark.createDataFrame(data, "key STRING, ts LONG, rider STRING").write.parquet(f"{source}/deep")
    schema = tmp_path / "schema.avsc"
    fields = [{"name": "ts", "type": "long"}, {"name": "key", "type": "string"}, {"name": "rider", "type": "string"}]
    schema.write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    given = f"'imported', 'COPY_ON_WRITE', '{source}', '{target}', 'key', 'ts', '{schema}'"
    assert rows(spark, f"CALL hdfs_parquet_import({given})") == [(0,)]
    with pytest.raises(ConfigError, match="there is a table already"):
        sql(spark, f"CALL hdfs_parquet_import({given})")
    assert rows(spark, f"CALL hdfs_parquet_import({given}, 'upsert')") == [(0,)]
    found = rows(spark, f"SELECT key, bigint(ts), rider FROM hudi.`{target}` ORDER BY key")
    assert found == data
    assert len(list(target.glob("2017/02/0*"))) == 2
    schema.write_text("[1")
    with pytest.raises(ConfigError, match="no Avro schema of a record"):
        sql(spark, f"CALL hdfs_parquet_import({given}, 'upsert')")
