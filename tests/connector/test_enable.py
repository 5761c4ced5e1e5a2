"""`enable` and `disable`: loads of the format, and tables of `register_sql`, go the way of `read_table`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.errors import ConfigError, TableExistsError
from pyspark_hudi import disable, enable, merge_into, register_sql, run_service, update
from pyspark_hudi.hooks import _Hook
from tests.connector.tables import FORMAT, PARTITIONED, read, rows, save

pytestmark = pytest.mark.spark

BEFORE = [(n, n * 10) for n in range(1, 9)]
AFTER = sorted([(0, -1), *BEFORE], key=repr)


@pytest.fixture
def table(path: str) -> str:
    """Three partitions; one has a log."""
    data = [{"id": n, "p": "abc"[n % 3], "ts": 1, "v": n * 10} for n in range(9)]
    hudi_py.write(path, data, record_key="id", partition_by="p", ordering_by="ts", table_type="mor")
    hudi_py.write(path, [{"id": 0, "p": "a", "ts": 2, "v": -1}])
    return path


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    enable(spark)
    yield spark
    disable(spark)


@pytest.fixture
def pair(spark: SparkSession, table: str) -> Iterator[str]:
    name = f"h_{uuid.uuid4().hex[:8]}"
    register_sql(spark, name, table)
    yield name
    spark.sql(f"DROP VIEW IF EXISTS {name}")
    spark.sql(f"DROP TABLE IF EXISTS {name}_table")


def is_native(frame: DataFrame) -> bool:
    """Whether Spark's own reader reads files."""
    return len(frame.inputFiles()) > 0


def test_only_between_enable_and_disable(spark: SparkSession, table: str) -> None:
    classes = [dict(vars(each)) for each in type(spark).__mro__]
    old = spark.read.format(FORMAT)
    assert not is_native(old.load(table))
    enable(spark)
    try:
        enable(spark)
        frame = read(spark, table)
        assert is_native(frame)
        assert rows(frame, "id", "v") == AFTER
        assert not is_native(old.load(table))
        assert type(spark.read).__name__ == "DataFrameReader"
        reader = spark.read.format(FORMAT)
    finally:
        disable(spark)
        disable(spark)
    assert [dict(vars(each)) for each in type(spark).__mro__] == classes
    for later in (reader.load(table), read(spark, table)):
        assert not is_native(later)
        assert later.schema == frame.schema
    assert rows(frame, "id", "v") == AFTER  # stays as it is


@pytest.mark.slow
def test_every_way_to_say_it(enabled: SparkSession, table: str) -> None:
    read, instants = enabled.read, hudi_py.open_table(table).history().column("instant").to_pylist()
    assert is_native(read.option("columns", "id,v").format("HUDI-PY").load(table))
    assert enabled.read.load(table, format=FORMAT, columns="v,id").columns == ["v", "id"]
    chosen = enabled.read.format(FORMAT).options(filter="v < 20", path=table).option("hoodie.memory", None).load()
    assert rows(chosen, "id", "v") == [(0, -1), (1, 10)]
    assert is_native(chosen)
    assert enabled.read.format(FORMAT).option("As.Of.Instant", instants[0]).load(table).where("v < 0").count() == 0
    some = enabled.read.format(FORMAT).option("hoodie.metadata.enable", False).load(table)
    assert is_native(some)


@pytest.mark.classic_only
def test_what_the_plain_format_reads(enabled: SparkSession, table: str) -> None:
    projected = enabled.read.format(FORMAT).schema("v LONG, id LONG").load(table)
    assert not is_native(projected)
    assert rows(projected, "id", "v") == AFTER
    assert read(enabled, table, view="files").count() == 3
    assert not is_native(read(enabled, table, **{"hoodie.py.read.native": "never"}))
    assert enabled.readStream.format(FORMAT).load(table).isStreaming
    file = read(enabled, table).inputFiles()[0]
    assert enabled.read.parquet(file).count() == enabled.read.format("parquet").load(file).count() == 3


def raised(act: Callable[[], object]) -> tuple[type, str]:
    """The class of an error, and the line of its text that says what is wrong."""
    with pytest.raises((PySparkException, IllegalArgumentException)) as caught:
        act()
    lines = [line.strip() for line in str(caught.value).splitlines()]
    kind = AnalysisException if issubclass(caught.type, AnalysisException) else caught.type
    return kind, next((line for line in lines if line.startswith("hudi_py.errors.")), lines[0])


def test_errors_are_those_of_the_plain_format(spark: SparkSession, table: str) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: read(spark, f"{table}/absent").collect(),
        lambda: read(spark, table, **{"hoodie.datasource.query.typ": "snapshot"}).collect(),
        lambda: read(spark, table, columns="nope").collect(),
        lambda: spark.read.format(FORMAT).load().collect(),
        lambda: spark.read.format(FORMAT).load([table, table]).collect(),
    ]
    plain = [raised(each) for each in wrong]
    enable(spark)
    try:
        assert [raised(each) for each in wrong] == plain
    finally:
        disable(spark)


def test_reads_take_the_options_of_the_session(enabled: SparkSession, table: str) -> None:
    """Those of a read weigh more; writes take none."""
    key = "hoodie.datasource.query.type"
    for named in (key, f"spark.{key}"):
        enabled.conf.set(named, "read_optimized")
        try:
            assert (0, 0) in rows(read(enabled, table), "id", "v")
            assert rows(read(enabled, table, **{key: "snapshot"}), "id", "v") == AFTER
            assert (0, 0) in rows(enabled.sql(f"SELECT * FROM hudi.`{table}`"), "id", "v")
        finally:
            enabled.conf.unset(named)
    assert rows(read(enabled, table), "id", "v") == AFTER


@pytest.mark.nightly
def test_a_second_name_of_the_format(spark: SparkSession, table: str) -> None:
    enable(spark, "Hudi")
    try:
        frame = spark.read.format("hudi").load(table)
        assert is_native(frame)
        frame.where("id = 1").selectExpr("id", "p", "2L AS ts", "7L AS v").write.format("HUDI").mode("append").save(
            table
        )
        assert spark.read.format("hudi").load(table).where("v = 7").count() == 1
        with pytest.raises(AnalysisException, match="did you mean"):
            spark.read.format("hudi").option("hoodie.datasource.query.typ", "snapshot").load(table).collect()
    finally:
        disable(spark)


def test_a_time_before_the_first_commit_is_said_in_this_process(
    enabled: SparkSession, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(enabled, table, **{"as.of.instant": "2020-01-01"}).count() == 0
    (said,) = {text.partition(": as of")[2] for text in caplog.messages if ": as of" in text}
    assert said.startswith(" 20200101000000000 there are no rows: the oldest active commit is ")


def test_modes_that_make_tables_and_their_partitions(enabled: SparkSession, path: str) -> None:
    """As in Apache Hudi, where the option weighs more than `partitionBy`."""
    frame = enabled.createDataFrame([(1, "a", 1, 10)], "id long, p string, ts long, v long")
    keyed = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.ordering.fields": "ts"}
    frame.write.format(FORMAT).options(**keyed).partitionBy("p").save(path)
    assert Path(path, "a").is_dir()
    for mode in ("error", None):
        with pytest.raises(TableExistsError, match="there is one already; write to it with mode"):
            frame.write.format(FORMAT).options(**keyed).mode(mode).save(path)
    changed = frame.selectExpr("id", "p", "2L ts", "v + 1 v")
    changed.write.save(path, FORMAT, "ignore", ["v"], **keyed)
    assert rows(read(enabled, path), "v") == [(10,)]
    changed.write.format(FORMAT).options(**keyed).mode("overwrite").partitionBy(["p"]).save(path)
    assert rows(read(enabled, path), "v") == [(11,)]
    one = {**keyed, "hoodie.datasource.write.partitionpath.field": "ts"}
    frame.write.format(FORMAT).options(**one).partitionBy("p").mode("ignore").save(path + "2")
    assert Path(path + "2", "1").is_dir()


def test_the_plain_format_has_the_columns_of_now(
    enabled: SparkSession, table: str, pair: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the native way fails, it says why, and the catalog's older columns do not show."""
    hudi_py.write(table, [{"id": 0, "p": "a", "ts": 3, "v": -1, "more": 7}])

    def fails(*_: object, **__: object) -> None:
        raise ImportError("no pandas here")

    monkeypatch.setattr("pyspark_hudi.table.read_table", fails)
    with caplog.at_level("WARNING"):
        for frame in (enabled.sql(f"SELECT id, more FROM {pair}"), enabled.table(pair), read(enabled, table)):
            assert not is_native(frame)
            assert rows(frame.where("id = 0"), "more") == [(7,)]
    assert caplog.text.count("by the plain format, which takes longer: no pandas here") == 3


@pytest.mark.slow
def test_tables_of_the_catalog(enabled: SparkSession, pair: str, table: str) -> None:
    for frame in (enabled.table(pair), enabled.read.table(pair.upper()), enabled.sql(f"SELECT * FROM {pair}")):
        assert is_native(frame)
        assert rows(frame, "id", "v") == AFTER
    joined = enabled.sql(
        f"WITH some AS (SELECT id FROM {pair} WHERE v < :most) "
        f"SELECT {pair}.id, '{{}}' FROM {pair} JOIN some ON some.id = {pair}.id WHERE {pair}.v > 0 ORDER BY id",
        {"most": 30},
    )
    assert is_native(joined)
    assert list(map(tuple, joined.collect())) == [(1, "{}"), (2, "{}")]
    given = enabled.sql(f"SELECT id FROM {pair} WHERE v IN (SELECT id * 10 FROM {{some}})", some=enabled.range(1, 3))
    assert is_native(given)
    assert rows(given) == [(1,), (2,)]
    hudi_py.write(table, [{"id": 9, "p": "a", "ts": 2, "v": 90}])
    assert enabled.sql(f"SELECT count(*) FROM {pair}").first() == (10,)
    own = enabled.sql(f"WITH {pair} AS (SELECT 1 one) SELECT * FROM {pair}")
    assert rows(own) == [(1,)]
    with pytest.raises(PySparkException, match="nope"):
        enabled.sql(f"SELECT nope FROM {pair}").collect()
    enabled.range(2).createOrReplaceTempView(pair)
    try:
        assert enabled.sql(f"SELECT * FROM {pair}").columns == enabled.table(pair).columns == ["id"]
    finally:
        enabled.catalog.dropTempView(pair)


@pytest.mark.slow
def test_writes(enabled: SparkSession, path: str) -> None:
    frame = enabled.createDataFrame([(1, "a", 1, 10), (2, "b", 1, 20)], "id long, p string, ts long, v long")
    save(frame, path, PARTITIONED)
    frame.selectExpr("id", "p", "2L ts", "v + 1 v").write.save(path, FORMAT, "append", **PARTITIONED)
    assert rows(read(enabled, path), "id", "v") == [(1, 11), (2, 21)]


@pytest.mark.slow
@pytest.mark.classic_only
def test_operations_and_modes(enabled: SparkSession, path: str) -> None:
    frame = enabled.createDataFrame([(1, "a", 1, 10), (2, "b", 1, 20)], "id long, p string, ts long, v long")
    save(frame, path, PARTITIONED, "bulk_insert")
    save(frame.where("id = 1"), path, PARTITIONED, "delete")
    assert rows(read(enabled, path), "id") == [(2,)]
    groups = hudi_py.open_table(path).files()["file_id"].to_pylist()
    save(enabled.createDataFrame([(3, "b", 1, 30)], frame.schema), path, PARTITIONED, "insert")
    assert hudi_py.open_table(path).files()["file_id"].to_pylist() == groups  # small files are filled up
    save(frame, path, PARTITIONED, mode="overwrite")
    assert rows(read(enabled, path), "id", "v") == [(1, 10), (2, 20)]


@pytest.mark.nightly
def test_writes_to_tables_of_the_catalog(enabled: SparkSession, pair: str, table: str) -> None:
    frame = enabled.createDataFrame([(1, "b", 3, -2)], "id long, p string, ts long, v long")
    for name in (pair, f"{pair}_table"):
        frame.selectExpr("id", "p", "ts", "v").writeTo(name).append()
    frame.writeTo(pair).option("hoodie.datasource.write.operation", "delete").append()
    assert 1 not in [row[0] for row in rows(enabled.table(pair), "id")]
    with pytest.raises(PySparkException):
        frame.writeTo("absent").overwritePartitions()
    assert enabled.table(pair).count() == 8


@pytest.mark.classic_only
def test_errors_of_writes_are_those_of_the_plain_format(spark: SparkSession, table: str) -> None:
    frame = spark.createDataFrame([(1, "b", 3, "x")], "id long, p string, ts long, v string")
    wrong: list[Callable[[], object]] = [
        lambda: save(frame, table, {}),
        lambda: save(frame.drop("v"), table, {"hoodie.datasource.write.recordkey.field": "v"}),
        lambda: save(frame.drop("v"), table, {"hoodie.datasource.write.operation": "upsrt"}),
        lambda: frame.write.format(FORMAT).mode("append").save(),
    ]
    plain = [raised(each) for each in wrong]
    enable(spark)
    try:
        assert [raised(each) for each in wrong] == plain
    finally:
        disable(spark)
    assert len(hudi_py.open_table(table).history()) == 2


@pytest.mark.slow
def test_temporary_views(enabled: SparkSession, table: str) -> None:
    register_sql(enabled, "native", table, options={"columns": "id,v"}, temporary=True)
    hudi_py.write(table, [{"id": 9, "p": "a", "ts": 2, "v": 90}])
    frame = enabled.table("native")
    assert is_native(frame)
    assert rows(frame) == AFTER
    with pytest.raises(ConfigError, match="not a valid table name"):
        register_sql(enabled, "a b", table, temporary=True)


@pytest.mark.nightly
@pytest.mark.classic_only
def test_many_threads(spark: SparkSession, table: str) -> None:
    def work(n: int) -> int:
        (enable if n % 3 else disable)(spark)
        return read(spark, table, columns="id").count()

    reads = vars(type(spark))["read"]
    try:
        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(work, range(12))) == {9}
    finally:
        disable(spark)
    assert vars(type(spark))["read"] is reads


def test_another_pyspark() -> None:
    with pytest.raises(ConfigError, match=r"Cannot enable hudi-py in PySpark .*\.Other has no read as expected"):
        _Hook.of(type("Other", (), {"read": 3}), "read", lambda original: original)


def test_statements_and_services_keep_their_own_way(enabled: SparkSession, table: str) -> None:
    """They are writes with an option that says what to do instead of writing the rows."""
    before = rows(read(enabled, table), "id", "v")
    source = enabled.createDataFrame([(1, 100)], "id long, v long")
    merged = merge_into(enabled, table, source, "id").when_matched_update({"v": "s.v"}).execute()
    assert (merged.num_inserted, merged.num_updated) == (0, 1)
    assert update(enabled, table, {"v": "v + 1"}, "id = 1").num_updated == 1
    assert rows(read(enabled, table), "id", "v") == sorted(
        [*(row for row in before if row[0] != 1), (1, 101)], key=repr
    )
    assert run_service(enabled, table, "clean") is not None


@pytest.mark.slow
def test_statements_of_spark_sql(enabled: SparkSession, path: str) -> None:
    """`spark.sql` runs what `pyspark_hudi.sql` runs, with parameters; other statements are Spark's."""

    def answer(text: str, *args: Any, **given: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in enabled.sql(text, *args, **given).collect()]

    assert (
        answer(
            "CREATE TABLE spoken (id INT, ts BIGINT, fare DOUBLE, city STRING) USING hudi-py PARTITIONED BY (city) "
            f"TBLPROPERTIES (type = 'mor', primaryKey = 'id', orderingFields = 'ts') LOCATION '{path}'"
        )
        == []
    )
    try:
        answer("INSERT INTO spoken VALUES (1, 1, 10, 'oslo'), (2, 1, 20, 'lima'), (3, 1, 30, 'lima')")
        first = hudi_py.open_table(path).timeline.completed[-1].completion_time
        answer("UPDATE spoken SET fare = :fare, ts = 2 WHERE city = :city AND id = 2", {"fare": 2.5, "city": "lima"})
        answer("DELETE FROM spoken WHERE id = ?", [3])
        more = enabled.createDataFrame(
            [(1, 5, 11.0, "oslo"), (4, 5, 44.0, "a'b")], "id int, ts long, fare double, city string"
        )
        answer(
            "MERGE INTO spoken t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s.fare > {least} THEN INSERT *",
            source=more,
            least=40,
        )
        expected = [(1, 11.0, "oslo"), (2, 2.5, "lima"), (4, 44.0, "a'b")]
        assert answer("SELECT id, fare, city FROM spoken ORDER BY id") == expected
        assert (
            answer(f"SELECT id, fare, city FROM hudi.`{path}` WHERE id > :least ORDER BY id", {"least": 1})
            == expected[1:]
        )
        assert answer(f"SELECT count(*), sum(fare) FROM spoken TIMESTAMP AS OF '{first}'") == [(3, 60.0)]
        assert [row[0] for row in answer("SHOW PARTITIONS spoken")] == ["city=a'b", "city=lima", "city=oslo"]
        answer("ALTER TABLE spoken ADD COLUMNS (note STRING)")
        assert "note" in enabled.table("spoken").columns
        assert len(answer("CALL show_commits(table => 'spoken', limit => 1)")) == 1
        with pytest.raises(ConfigError, match="has the parameter :b without a value"):
            answer("DELETE FROM spoken WHERE id = :b", {"a": 1})
        with pytest.raises(ConfigError, match="value of type list"):
            answer("DELETE FROM spoken WHERE id = :b", {"b": [1]})
        assert not [view for view in enabled.catalog.listTables() if view.name.startswith("hudi_py_")]
    finally:
        answer("DROP TABLE spoken")
    assert not enabled.catalog.tableExists("spoken")
    answer("CREATE OR REPLACE TEMPORARY VIEW others AS SELECT 1 AS id")
    with pytest.raises(Exception, match="UNSUPPORTED_FEATURE|TABLE_OR_VIEW_NOT_FOUND|UPDATE"):
        answer("UPDATE others SET id = 1")
    assert answer("SELECT :a + 1 FROM others", {"a": 1}) == [(2,)]
    answer("DROP VIEW others")
