"""After `enable`: writes that name a table of the catalog, and where the catalog lists it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.errors import ConfigError, SchemaMismatchError, TableExistsError
from pyspark_hudi import disable, enable, register_sql
from pyspark_hudi.catalog import path_of_view
from tests.connector.tables import FORMAT, KEYED, rows

pytestmark = pytest.mark.spark

COLUMNS = "id int, name string, p string, ts long"
OPTIONS = {**KEYED, "hoodie.table.ordering.fields": "ts"}
UPSERT = {"hoodie.datasource.write.operation": "upsert"}


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    enable(spark)
    yield spark
    disable(spark)


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    made = f"n_{uuid.uuid4().hex[:8]}"
    yield made
    enable(spark)
    spark.sql(f"DROP TABLE IF EXISTS {made} PURGE")
    disable(spark)


def frame(spark: SparkSession, *given: tuple[Any, ...], columns: str = COLUMNS) -> DataFrame:
    return spark.createDataFrame(list(given), columns)


def writer(data: DataFrame, mode: str | None = None, **options: str) -> Any:
    return data.write.format(FORMAT).options(**{**OPTIONS, **options}).mode(mode)


def path_of(spark: SparkSession, name: str) -> str:
    found = str(spark.sql(f"SHOW CREATE TABLE {name}").collect()[0][0])
    return found.split("LOCATION '")[1].split("'")[0].removeprefix("file:")


def properties(path: str) -> dict[str, str]:
    return dict(hudi_py.open_table(path).properties)


def operations(path: str) -> list[str]:
    """Newest last."""
    found = hudi_py.open_table(path).history().to_pylist()
    return [str(each["operation"]) for each in sorted(found, key=lambda each: str(each["instant"]))]


def refused(kind: type[Exception], said: str, act: Callable[[], object]) -> None:
    with pytest.raises(kind, match=said):
        act()


@pytest.mark.slow
def test_save_as_table(enabled: SparkSession, name: str) -> None:
    """A new table has what CREATE TABLE ... AS gives it in Apache Hudi: rows by a bulk insert, partition columns last,
    in Hive's style; what there is takes rows by name."""
    first = frame(enabled, (1, "a", "x", 1), (2, "b", "y", 1), (2, "c", "y", 2))
    with pytest.warns(UserWarning, match="The property hoodie.datasource.write.operation = 'upsert' .* has no effect"):
        writer(first, **UPSERT).partitionBy("p").saveAsTable(name)
    path = path_of(enabled, name)
    assert rows(enabled.table(name)) == [(1, "a", 1, "x"), (2, "b", 1, "y"), (2, "c", 2, "y")]
    assert operations(path) == ["BULK_INSERT"]
    found = properties(path)
    assert found["hoodie.table.name"] == name
    assert found["hoodie.table.recordkey.fields"] == "id"
    assert found["hoodie.table.ordering.fields"] == "ts"
    assert found["hoodie.table.partition.fields"] == "p"
    assert found["hoodie.datasource.write.hive_style_partitioning"] == "true"
    for mode in (None, "error"):
        refused(
            TableExistsError,
            r"one already, append to it by mode\('append'\)",
            lambda m=mode: writer(first, m).saveAsTable(name),
        )
    writer(frame(enabled, (9, "z", "z", 1)), "ignore").saveAsTable(name)
    more = enabled.createDataFrame([(3, "x", "new", 1), (9, "x", "up", 5)], "ts long, p string, name string, id int")
    writer(more, "append", **UPSERT).saveAsTable(name)
    assert operations(path)[1:] == ["UPSERT"]
    assert rows(enabled.sql(f"SELECT id, name FROM {name} WHERE id = 1")) == [(1, "new")]
    refused(
        SchemaMismatchError,
        "the rows have the columns id, ts",
        lambda: writer(first.select("id", "ts"), "append").saveAsTable(name),
    )
    refused(
        ConfigError,
        "partitioned by ts: its partition columns are p",
        lambda: writer(first, "append").partitionBy("ts").saveAsTable(name),
    )
    refused(
        ConfigError, "with the path /other: it is at", lambda: writer(first, "append", path="/other").saveAsTable(name)
    )
    refused(ConfigError, "as another format; add", lambda: first.write.mode("append").saveAsTable(name))
    refused(ConfigError, "with bucketBy", lambda: writer(first).bucketBy(2, "id").saveAsTable(name))
    writer(frame(enabled, (4, "d", "x", 1, 7), columns=f"{COLUMNS}, extra int"), "overwrite").saveAsTable(name)
    assert operations(path)[2:] == ["INSERT_OVERWRITE_TABLE"]
    assert rows(enabled.table(name), "id", "name", "p", "ts", "extra") == [(4, "d", "x", 1, 7)]
    enabled.sql(f"DROP TABLE {name}")
    assert not enabled.catalog.tableExists(name)
    assert not Path(path).exists()


@pytest.mark.nightly
def test_save_as_table_at_a_path(enabled: SparkSession, name: str, path: str) -> None:
    first = frame(enabled, (1, "a", "x", 1))
    first.write.save(path, FORMAT, "append", **OPTIONS)
    refused(TableExistsError, "there is a table at", lambda: writer(first, path=path).saveAsTable(name))
    assert not enabled.catalog.tableExists(name)
    writer(frame(enabled, (2, "b", "y", 1)), "append", path=path).saveAsTable(name)
    assert rows(enabled.table(name), "id", "name") == [(1, "a"), (2, "b")]
    assert operations(path) == ["UPSERT", "INSERT"]
    enabled.sql(f"DROP TABLE {name}")
    assert Path(path).exists()
    enabled.range(1).createOrReplaceTempView(name)
    refused(TableExistsError, "no Hudi table", lambda: writer(first, "append").saveAsTable(name))
    enabled.catalog.dropTempView(name)
    refused(
        ConfigError,
        "the catalog would show it",
        lambda: writer(first, **{"storage.secret.aws_key": "k"}).saveAsTable(name),
    )
    refused(ConfigError, r"it names a path; use save\(", lambda: writer(first).saveAsTable(f"hudi.`{path}`"))
    refused(PySparkException, "SCHEMA_NOT_FOUND", lambda: writer(first).saveAsTable("no_such_schema.t"))
    first.write.format("parquet").saveAsTable(name)
    assert enabled.table(name).columns == first.columns
    enabled.sql(f"DROP TABLE {name}")


@pytest.mark.slow
def test_insert_into(enabled: SparkSession, name: str) -> None:
    """Rows are those of INSERT: by position, or by name if all names are the table's; modes but overwrite append."""
    enabled.sql(
        f"CREATE TABLE {name} (id INT, name STRING, ts BIGINT, p STRING) USING hudi PARTITIONED BY (p) "
        "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts')"
    )
    path = path_of(enabled, name)
    frame(enabled, (1, "a", 1, "x"), (2, "b", 1, "y"), columns="a int, b string, c long, d string").write.insertInto(
        name
    )
    frame(enabled, ("z", 9, "d", 4), columns="p string, ts long, name string, id int").write.mode("ignore").insertInto(
        name
    )
    with pytest.warns(UserWarning, match="has no effect on insertInto.*SET hoodie.spark.sql.insert.into.operation"):
        writer(frame(enabled, (7, 8, 1, "x"), columns="a long, b int, c int, d string"), **UPSERT).insertInto(name)
    assert rows(enabled.table(name)) == [(1, "a", 1, "x"), (2, "b", 1, "y"), (4, "d", 9, "z"), (7, "8", 1, "x")]
    for given, said in (((5, "e", 1), "not enough data columns"), ((5, "e", 1, "x", 7), "too many data columns")):
        wrong = enabled.createDataFrame([given], [f"c{at}" for at in range(len(given))])
        refused(SchemaMismatchError, said, lambda w=wrong: w.write.insertInto(name))
    refused(
        SchemaMismatchError,
        "cannot safely cast",
        lambda: frame(enabled, ("6", "f", 1, "x"), columns="a string, b string, c long, d string").write.insertInto(
            name
        ),
    )
    one = frame(enabled, (3, "o", 1, "x"), columns="id int, name string, ts long, p string")
    refused(PySparkException, "partitionBy", lambda: one.write.partitionBy("p").insertInto(name))
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        one.write.insertInto(name, overwrite=True)
    finally:
        enabled.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(enabled.table(name), "id") == [(2,), (3,), (4,)]
    one.write.mode("overwrite").insertInto(name)
    assert rows(enabled.table(name), "id") == [(3,)]
    assert operations(path) == [*["INSERT"] * 3, "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"]
    refused(PySparkException, "TABLE_OR_VIEW_NOT_FOUND", lambda: one.write.insertInto("absent"))


@pytest.mark.slow
@pytest.mark.classic_only
def test_streams_into_tables(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    """A stream makes its table with the keys of its options, then writes to it as to a path."""
    source = tmp_path / "source"
    frame(enabled, (1, "a", "x", 1), (2, "b", "y", 1)).coalesce(1).write.parquet(str(source))

    def stream(**options: str) -> Any:
        read = enabled.readStream.schema(COLUMNS).parquet(str(source)).writeStream.options(**options)
        return read.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)

    stream(**OPTIONS).format(FORMAT).partitionBy("p").toTable(name).awaitTermination()
    assert rows(enabled.table(name), "id", "name", "p") == [(1, "a", "x"), (2, "b", "y")]
    path = path_of(enabled, name)
    assert properties(path)["hoodie.table.recordkey.fields"] == "id"
    frame(enabled, (2, "c", "y", 2)).coalesce(1).write.mode("append").parquet(str(source))
    stream().toTable(name, FORMAT, queryName=name).awaitTermination()
    assert rows(enabled.table(name), "id", "name", "p") == [(1, "a", "x"), (2, "c", "y")]
    refused(ConfigError, "as another format; add", lambda: stream().toTable(name))
    refused(ConfigError, "with the path /other", lambda: stream(path="/other").format(FORMAT).toTable(name))


@pytest.mark.slow
def test_write_to(enabled: SparkSession, name: str) -> None:
    first = frame(enabled, (1, "a", "x", 1), (2, "b", "y", 1))
    made = first.writeTo(name).using(FORMAT).tableProperty("primaryKey", "id").tableProperty("orderingFields", "ts")
    made.partitionedBy(first.p).create()
    path = path_of(enabled, name)
    assert operations(path) == ["BULK_INSERT"]
    first.selectExpr("p", "ts + 1 AS ts", "'new' AS name", "id").where("id = 1").writeTo(name).append()
    assert rows(enabled.table(name), "id", "name", "p") == [(1, "new", "x"), (2, "b", "y")]
    refused(TableExistsError, "one already", lambda: first.writeTo(name).using(FORMAT).create())
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("insertInto", lambda: first.writeTo(name).overwritePartitions()),
        ("DELETE FROM", lambda: first.writeTo(name).overwrite(first.id == 1)),
        ("saveAsTable", lambda: first.writeTo(name).createOrReplace()),
        ("saveAsTable", lambda: first.writeTo("absent").using(FORMAT).replace()),
    ]
    for said, act in wrong:
        refused(ConfigError, said, act)


def test_tables_are_listed_once(enabled: SparkSession, name: str, path: str) -> None:
    hudi_py.write(path, [{"id": 1}], record_key="id")
    register_sql(enabled, name, path)
    enabled.range(1).write.format("parquet").saveAsTable(f"{name}_own_table")
    mode = enabled.conf.get("spark.sql.codegen.factoryMode")
    try:
        enabled.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")  # without code, Spark cannot make its own `Table`
        listed = [row["tableName"] for row in enabled.sql(f"SHOW TABLES LIKE '{name}*'").collect()]
        assert sorted(listed) == [name, f"{name}_own_table"]
        assert [each.name for each in enabled.catalog.listTables(pattern=f"{name}*") if not each.isTemporary] == listed
        disable(enabled)
        assert len(enabled.catalog.listTables(pattern=f"{name}*")) == 3
        assert enabled.sql(f"SHOW TABLES LIKE '{name}*'").count() == 3
    finally:
        enabled.conf.set("spark.sql.codegen.factoryMode", mode)
        enabled.sql(f"DROP TABLE {name}_own_table")
    enable(enabled)
    assert path_of_view(enabled, f"default.{name}") == path  # registered without its schema
    assert enabled.sql(f"SHOW TABLES IN default LIKE '{name}_table'").collect() == []
    assert enabled.sql(f"SELECT id FROM {name}").collect() == [(1,)]
