"""`read_table`: the rows of a plain load, partly by Spark's own Parquet reader; and what a LIMIT leaves unread."""

from __future__ import annotations

import datetime
import decimal
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.types import LongType, StringType, StructField, StructType

import hudi_py
import pyspark_hudi
from hudi_py.errors import ConfigError, HistoryCleanedError, SchemaMismatchError
from hudi_py.expressions import parse_filter
from hudi_py.testing.rows import assert_rows_equal
from pyspark_hudi.condition import spark_condition
from pyspark_hudi.native import NativePlan
from pyspark_hudi.types import arrow_schema, spark_schema
from tests.connector.conftest import CONNECT
from tests.connector.tables import FORMAT, read, rows
from tests.golden.tables import Extracted

pytestmark = pytest.mark.spark

KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts"}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
# hive-style, timestamps as partitions, escaped paths, logs, nulls, evolution, columns which are not in the files
TABLES = (
    "v9_cow_multi_partition",
    "v9_cow_timestamp_keygen",
    "v8_mor_url_encoded",
    "v9_mor_bucket_logs_only",
    "v9_cow_null_partition",
    "v9_cow_evolve_types",
    "v9_cow_drop_partition_columns",
    "v6_cow_ops",
)


ALWAYS = {"hoodie.py.read.native": "always"}
"""Else Python alone reads small slices with logs."""


def read_table(spark: SparkSession, path: Any, *, options: dict[str, str] | None = None, **given: Any) -> DataFrame:
    return pyspark_hudi.read_table(spark, path, options={**ALWAYS, **(options or {})}, **given)


def files_read(frame: DataFrame) -> int:
    """How many files Spark's own reader is given."""
    return len(frame.inputFiles())


@pytest.mark.parametrize("name", TABLES[:1] if CONNECT else TABLES)
def test_rows_columns_and_order_are_those_of_a_load(spark: SparkSession, golden: Extracted, name: str) -> None:
    path = str(golden(name))
    plain, fast = read(spark, path), read_table(spark, path)
    assert fast.schema == plain.schema
    assert_rows_equal(fast.toArrow(), plain.toArrow())


@pytest.fixture
def table(path: str) -> str:
    """Three partitions of hive-style paths; one has a log."""
    data = [{"id": n, "p": "0123"[n % 3], "ts": 1, "v": n * 10} for n in range(9)]
    hudi_py.write(path, data, options=HIVE, **KEYED, table_type="mor")
    hudi_py.write(path, [{"id": 0, "p": "0", "ts": 2, "v": -1}])
    return path


def test_both_readers_together(spark: SparkSession, table: str) -> None:
    frame = read_table(spark, table)
    assert rows(frame, "id", "v") == sorted([(0, -1), *((n, n * 10) for n in range(1, 9))], key=repr)
    assert dict(frame.dtypes)["p"] == "string"  # not what a folder's name looks like
    assert files_read(frame) == 3
    assert files_read(read_table(spark, table, options={"hoodie.py.read.native": "never"})) == 0
    some = read_table(spark, table, columns=["v", "_hoodie_record_key"], filter="v < 30 and p <> '2'")
    assert some.columns == ["v", "_hoodie_record_key"]
    assert sorted(map(tuple, some.collect())) == [(-1, "0"), (10, "1")]
    assert files_read(some) == 2
    assert rows(read_table(spark, table, filter="v + 0 = 10"), "id") == [(1,)]
    assert rows(read_table(spark, table, columns=["id"], options={"filter": "p = '9'"})) == []
    joined = frame.alias("l").where("l.v < 25").join(frame.alias("r").where("r.v > 0"), "id")
    assert rows(joined, "id") == [(1,), (2,)]


@pytest.mark.nightly
@pytest.mark.classic_only
def test_one_frame_used_often(spark: SparkSession, table: str) -> None:
    """Deletes and rows of the past in logs, a view, a cached frame, a union, and a self-join without the right side."""
    hudi_py.write(table, [{"id": 3, "p": "0", "ts": 2, "v": 0}], "delete")
    hudi_py.write(table, [{"id": 6, "p": "0", "ts": 0, "v": 0}, {"id": 9, "p": "0", "ts": 1, "v": 90}])
    frame = read_table(spark, table)
    expected = sorted([(0, -1), *((n, n * 10) for n in (1, 2, 4, 5, 6, 7, 8, 9))], key=repr)
    assert rows(read(spark, table), "id", "v") == expected
    assert rows(frame, "id", "v") == expected
    frame.createOrReplaceTempView("often")
    twice = "SELECT id FROM often WHERE v < 20 UNION ALL SELECT id FROM often WHERE id IN (SELECT id FROM often)"
    assert spark.sql(twice).count() == 2 + 9
    assert rows(frame.join(frame.where("v > 40").select("id"), "id", "left_anti"), "id") == [(0,), (1,), (2,), (4,)]
    assert frame.where("p = '0'").union(frame.where("v = 90")).count() == 4
    cached = frame.cache()
    assert [cached.count(), cached.where("id = 3").count(), cached.where("id = 9").count()] == [9, 0, 1]
    cached.unpersist()
    assert rows(frame.groupBy("p").count()) == [("0", 3), ("1", 3), ("2", 3)]


@pytest.mark.nightly
@pytest.mark.classic_only
def test_more_files_than_one_reader_lists(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [{"id": n, "p": f"{n % 7}", "v": n} for n in range(21)]
    hudi_py.write(path, data, record_key="id", partition_by="p", table_type="mor")
    hudi_py.write(path, [{"id": n, "p": f"{n % 7}", "v": -n} for n in range(0, 21, 2)])
    expected = [(n, n if n % 2 else -n) for n in range(21)]
    parallelism = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    for at_once, readers, few in ((2, 10, 0), (2, 2, 1 << 30)):
        monkeypatch.setattr("pyspark_hudi.table._LISTED_AT_ONCE", at_once)
        monkeypatch.setattr("pyspark_hudi.table._MAX_READERS", readers)
        monkeypatch.setattr("pyspark_hudi.table._LISTED_BY_A_JOB", 4)
        monkeypatch.setattr("pyspark_hudi.table._BROADCAST_BYTES", few)
        frame = read_table(spark, path)
        assert sorted(map(tuple, frame.select("id", "v").collect())) == expected
        assert files_read(frame) == 7
        assert spark.conf.get(parallelism, None) is None


@pytest.mark.slow
@pytest.mark.classic_only
def test_incremental_reads(spark: SparkSession, table: str) -> None:
    hudi_py.write(table, [{"id": 1, "p": "1", "ts": 2, "v": -2}, {"id": 0, "p": "0", "ts": 1, "v": -3}])
    times = hudi_py.open_table(table).history().column("completion_time").to_pylist()
    for begin in ("000", *times[:-1]):
        ranged = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
        fast = read_table(spark, table, options=ranged)
        assert rows(fast, "id", "v") == rows(read(spark, table, **ranged), "id", "v") != []
        assert files_read(fast) == (3 if begin == "000" else 0)  # the later commits wrote logs alone


@pytest.mark.skipif(CONNECT, reason="Spark counts behind Spark Connect")
def test_a_count_reads_no_rows(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(frame: DataFrame) -> int:
        by_spark.append(frame)
        return original(frame)

    by_spark: list[DataFrame] = []
    kind = type(spark.range(0))
    original = kind.count
    monkeypatch.setattr(kind, "count", count)
    hudi_py.write(table, [{"id": 3, "p": "0", "ts": 2, "v": 0}], "delete")
    hudi_py.write(table, [{"id": 6, "p": "0", "ts": 0, "v": 0}, {"id": 9, "p": "0", "ts": 1, "v": 90}])
    begin = hudi_py.open_table(table).history().column("completion_time").to_pylist()[0]
    ranged = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
    frame, changed = read_table(spark, table), read_table(spark, table, options=ranged)
    counts = [len(frame.collect()), len(changed.collect())]
    assert [frame.count(), changed.count()] == counts == [9, 3]
    monkeypatch.setattr("pyspark_hudi.counting._MAX_FOOTERS", 1)
    assert [frame.count(), changed.count()] == counts
    assert by_spark == []
    assert [frame.where("v > 0").count(), frame.limit(2).count(), frame.select("v").count()] == [8, 2, 9]
    assert read_table(spark, table, filter="v > 0").count() == 8
    assert len(by_spark) == 4
    cached = frame.cache()
    assert cached.count() == 9
    assert len(by_spark) == 5
    for file in Path(table, "p=0").glob(".*.log.*"):
        file.unlink()
    assert (cached.count(), cached.where("id = 9").count()) == (9, 1)
    cached.unpersist()
    monkeypatch.setattr("pyspark_hudi.counting._MAX_FOOTERS", 256)
    with pytest.raises(PySparkException, match="is missing"):
        cached.count()


def test_a_file_cleaned_between_plan_and_load(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*arguments: Any) -> Any:
        found = plan(*arguments)
        next(Path(table, "p=1").glob("*.parquet")).unlink()
        return found

    plan: Any = pyspark_hudi.table._by_source if CONNECT else NativePlan.of
    monkeypatch.setattr("pyspark_hudi.table._by_source" if CONNECT else "pyspark_hudi.native.NativePlan.of", planned)
    with pytest.raises(HistoryCleanedError, match=r"^A base file of .* was cleaned since this read was planned"):
        read_table(spark, table)


@pytest.mark.classic_only
def test_damage_is_an_error(spark: SparkSession, table: str) -> None:
    frame = read_table(spark, table)
    (log,) = Path(table, "p=0").glob(".*.log.*")
    whole = log.read_bytes()
    log.write_bytes(whole[:-40])
    with pytest.raises(PySparkException, match="CorruptFileError"):
        frame.collect()
    log.write_bytes(whole)
    (base,) = Path(table, "p=1").glob("*.parquet")
    data = bytearray(base.read_bytes())
    chunk = pq.read_metadata(base).row_group(0).column(8)
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 1] ^= 1  # its last byte
    base.write_bytes(data)
    with pytest.raises(Exception, match="Encountered error while reading file"):  # py4j's, of classic Spark
        frame.select("v").collect()


def test_a_frame_is_one_snapshot_whenever_it_is_used(spark: SparkSession, table: str) -> None:
    before = read_table(spark, table)
    hudi_py.write(table, [{"id": 0, "p": "0", "ts": 3, "v": -2}, {"id": 1, "p": "1", "ts": 3, "v": -2}])
    hudi_py.write(table, [{"id": 100, "p": "9", "ts": 3, "v": -2}])
    pin = read(spark, table, view="plan").collect()[0]["pin"]
    pinned = read(spark, table, **{"hoodie.py.read.pin": pin})
    hudi_py.write(table, [{"id": 101, "p": "9", "ts": 3, "v": -3}])
    for _ in range(2):
        assert pinned.count() == 10
        if CONNECT:  # its server forgets what a plain load resolved to after sixteen other plans
            assert [len(spark.range(n).columns) for n in range(20)] == [1] * 20
        assert rows(before, "id", "v") == sorted([(0, -1), *((n, n * 10) for n in range(1, 9))], key=repr)
    assert before.where("v = -1").count() == 1
    assert rows(read_table(spark, table).where("v < -1"), "id") == [(0,), (1,), (100,), (101,)]


def test_what_does_not_go_together(spark: SparkSession, table: str) -> None:
    with pytest.raises(ConfigError, match="contradicts the option filter='v = 1'"):
        read_table(spark, table, filter="v = 2", options={"filter": "v = 1"})
    with pytest.raises(ConfigError, match="view"):
        read_table(spark, table, options={"view": "files"})
    for wrong in (col("v") > 1, "", " "):
        with pytest.raises(ConfigError, match="supported: a condition as text"):
            read_table(spark, table, filter=wrong)  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatchError, match=r"^Table at .* has no column 'nope'"):
        read_table(spark, table, columns=["nope"])
    with pytest.raises(ConfigError, match="^Cannot read the relative path 'here'"):
        read_table(spark, "here")


def test_paths_of_pathlib_and_of_the_home(spark: SparkSession, table: str) -> None:
    found = rows(read_table(spark, table), "id")
    assert rows(read_table(spark, Path(table)), "id") == found
    from_home = "~/" + os.path.relpath(table, os.path.expanduser("~"))
    assert rows(spark.read.format("hudi-py").load(from_home), "id") == found


def test_bad_options_are_reported_at_once(spark: SparkSession, table: str) -> None:
    wrong = {"hoodie.datasource.query.typ": "snapshot", "hoodie.datasource.merge.type": "skip"}
    with pytest.raises(ConfigError, match=r"^2 options are not valid: \(1\) .*\(query_type= of Table.scan\).*; \(2\) "):
        read_table(spark, table, options=wrong)


@pytest.mark.classic_only
def test_options_reach_the_plan(spark: SparkSession, table: str) -> None:
    instants = hudi_py.open_table(table).history().column("instant").to_pylist()
    first = read_table(spark, table, options={"as.of.instant": instants[0]})
    assert rows(first, "id", "v") == [(n, n * 10) for n in range(9)]
    assert files_read(first) == 3
    optimized = read_table(spark, table, options={"hoodie.datasource.query.type": "read_optimized"})
    assert rows(optimized, "v") == rows(first, "v")
    ranged = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}
    assert read_table(spark, table, options=ranged).count() == 9
    assert rows(read_table(spark, table, options={"hoodie.py.read.keys": '["3", "4"]'}), "id") == [(3,), (4,)]


def test_views_through_spark(spark: SparkSession, table: str) -> None:
    splits = read(spark, table, view="splits", **ALWAYS).select("kind", "native", "why_not_native")
    assert rows(splits) == [("base + log", True, None), ("base", True, None), ("base", True, None)]
    files = read(spark, table, view="files", columns="partition,base_bytes", filter="base_bytes > 0")
    assert files.columns == ["partition", "base_bytes"]
    assert sorted(row[0] for row in files.select("partition").collect()) == ["p=0", "p=1", "p=2"]
    assert read(spark, table, view="timeline").where("action = 'deltacommit'").count() == 2
    explained = read(spark, table, view="plan").collect()[0]["explain"]
    assert "3 of 3" in explained
    with pytest.raises(PySparkException, match="'view'|view = 'nothing'"):
        read(spark, table, view="nothing").collect()


@pytest.mark.slow
@pytest.mark.classic_only
def test_a_projection_by_schema_of_an_incremental_read(spark: SparkSession, table: str) -> None:
    begin = hudi_py.open_table(table).history().column("completion_time").to_pylist()[0]
    wanted = StructType([StructField("V", LongType()), StructField("_hoodie_record_key", StringType())])
    reader = spark.read.format(FORMAT).schema(wanted).option("hoodie.datasource.query.type", "incremental")
    frame = reader.option("hoodie.datasource.read.begin.instanttime", begin).load(table)
    assert frame.columns == ["V", "_hoodie_record_key"]
    assert rows(frame, "V", "_hoodie_record_key") == [(-1, "0")]
    assert rows(read(spark, table, **{"hoodie.py.read.keys": "5"}), "id", "v") == [(5, 50)]


SECOND = datetime.timedelta(seconds=1)
NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
DATA = pa.table(
    {
        "i": pa.array([1, 2, None, -(2**31)], pa.int32()),
        "l": pa.array([1, None, 2**53 + 1, 3]),
        "f": pa.array([0.1, float("nan"), None, -0.0], pa.float32()),
        "d": pa.array([0.1, float("nan"), float("inf"), None]),
        "c": pa.array(
            [decimal.Decimal("1.50"), None, decimal.Decimal("-2.25"), decimal.Decimal(0)], pa.decimal128(9, 2)
        ),
        "s": pa.array(["a", "ab%", None, ""]),
        "b": pa.array([True, None, False, True]),
        "y": pa.array([b"\x00\xff", b"", None, b"a"]),
        "dt": pa.array([NOON.date(), None, datetime.date(1600, 1, 1), datetime.date(1970, 1, 1)]),
        "ts": pa.array([NOON, NOON + SECOND, None, NOON - SECOND], pa.timestamp("us", "UTC")),
        "nz": pa.array([NOON.replace(tzinfo=None), None, NOON.replace(tzinfo=None) + SECOND, None], pa.timestamp("us")),
        "st": pa.array([{"x": 1}, {"x": None}, None, {"x": 3}], pa.struct([("x", pa.int32())])),
    }
)
TRANSLATED = (
    "i = 1", "i <> 1", "i <=> NULL", "i > 1.5D or l < 3", "i = 2147483648", "l >= 9007199254740993L", "i in (1, NULL)",
    "i not in (1, 2)", "i between 1 and 2", "not (i < 2 and l > 0)", "f = 'nan'", "d > 1e300", "d <> 0.1D", "d = 'NaN'",
    "d < 'inf'", "f < 0.2D", "f >= 0.0D", "f <= 0.1F", "s = 'a'", "s like 'a%'", "s like '_'", "s not like '%b%'",
    "s < 'ab'", "s = ''", "b", "not b", "b is true", "b is not false", "b = (i = 1)", "y = X'00ff'", "y > X'00'",
    "dt = DATE '2024-02-29'", "dt < DATE '1970-01-01'", "dt in (DATE '1970-01-01')", "dt = '1600-01-01'",
    "ts = TIMESTAMP '2024-02-29 12:00:00'", "ts > '2024-02-29T12:00:00'", "ts <= TIMESTAMP '2024-02-29 12:00:00.5'",
    "nz = TIMESTAMP_NTZ '2024-02-29 12:00:00'", "st.x = 1", "st.x is null", "st is null and i = 1", "c = 1.5",
    "c > -2.25", "c in (0.00, 1.50)", "`s` is not null", "i is null or l is null", "true", "null", "b or null",
)  # fmt: skip
NOT_TRANSLATED = (
    "i + 1 = 2",
    "i > 0.5",
    "s = 'it\\'s'",
    "s ilike 'A%'",
    "dt < ts",
    "ts < nz",
    "dt < DATE '0001-01-01'",
)


@pytest.fixture
def session_zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.skipif(CONNECT, reason="the meaning of a condition does not depend on the kind of session")
def test_a_translated_filter_means_the_same(spark: SparkSession, session_zone: None) -> None:
    filters = {text: parse_filter(text, DATA.schema) for text in TRANSLATED}
    translated = {text: spark_condition(found) for text, found in filters.items() if found is not None}
    assert [text for text in TRANSLATED if not translated[text]] == []
    source = DATA.cast(arrow_schema(spark_schema(DATA.schema)))
    frame = spark.createDataFrame(source.append_column("n", pa.array(range(4)))).coalesce(1).sort("n")
    asked = {text: expr(sql).alias(f"c{at}") for at, (text, sql) in enumerate(translated.items()) if sql}
    answers = frame.select(*asked.values()).toArrow()
    for column, text in zip(answers.columns, asked, strict=True):
        found = filters[text]
        assert found is not None
        assert column.to_pylist() == found.evaluate(DATA).to_pylist(), text


@pytest.mark.parametrize("text", NOT_TRANSLATED)
@pytest.mark.classic_only
def test_what_depends_on_the_session_is_not_translated(text: str) -> None:
    found = parse_filter(text, DATA.schema)
    assert found is not None
    assert spark_condition(found) is None


@pytest.mark.classic_only
def test_a_limit_leaves_files_unread(spark: SparkSession, path: str) -> None:
    count = 150_000
    data = {
        "id": pa.array(range(count)),
        "p": pa.array(["a", "b"] * (count // 2)),
        "v": pa.array(map(str, range(count))),
    }
    hudi_py.write(path, pa.table(data), "bulk_insert", record_key="id", partition_by="p")
    frame = read(spark, path, **{"hoodie.py.read.min.tasks": "1", "hoodie.py.read.batch.rows": "20000"})
    assert len(frame.limit(1).collect()) == 1
    (last,) = Path(path, "b").glob("*.parquet")
    last.unlink()
    assert len(frame.limit(10).collect()) == 10
    with pytest.raises(PySparkException, match="is missing"):
        frame.count()
