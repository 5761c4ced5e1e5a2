"""`df.write.format("hudi-py")`: operations, versions, types, modes, and many kinds of partitioning."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import HudiError
from pyspark_hudi import write_table
from tests.connector.tables import FORMAT, KEYED, PARTITIONED, read, rows, save
from tests.support.choice import cases

pytestmark = pytest.mark.spark

TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@pytest.mark.parametrize(
    ("version", "kind"),
    cases(product((6, 8, 9), ("cow", "mor")), "every operation", 1, quick=[]),
)
@pytest.mark.connect_only("9-mor")
@pytest.mark.connect_first
def test_every_operation(spark: SparkSession, path: str, version: int, kind: str) -> None:
    options = {
        **PARTITIONED,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": TYPES[kind],
    }
    base = spark.range(20).selectExpr("id", "cast(id % 3 as string) p", "1L ts", "id * 10 v")
    save(base, path, options, "bulk_insert")
    save(base.selectExpr("id + 20 id", "p", "ts", "v"), path, options, "insert")
    save(base.where("id < 5").selectExpr("id", "p", "2L ts", "-v v"), path, options, "upsert")
    save(base.where("id >= 18"), path, options, "delete")
    expected = {n: (str(n % 3), n * 10) for n in range(18)} | {n + 20: (str(n % 3), n * 10) for n in range(20)}
    expected |= {n: (str(n % 3), -n * 10) for n in range(5)}
    frame = read(spark, path)
    assert rows(frame, "id", "p", "v") == sorted(((n, *rest) for n, rest in expected.items()), key=repr)
    assert frame.where("_hoodie_partition_path <> p or _hoodie_record_key <> cast(id as string)").count() == 0
    table = hudi_py.open_table(path)
    assert (table.version, table.table_type) == (version, TYPES[kind])
    assert [row["operation"].lower() for row in table.history().to_pylist()] == [
        "bulk_insert",
        "insert",
        "upsert",
        "delete",
    ]
    assert not list(Path(path, ".hoodie", ".hudi_py").glob("*/*"))


def test_changes_are_logged(spark: SparkSession, path: str) -> None:
    options = {**PARTITIONED, "hoodie.table.cdc.enabled": "true"}
    save(spark.range(2).selectExpr("id", "'a' p", "1L ts", "id * 10 v"), path, options, "insert")
    save(spark.range(1, 3).selectExpr("id", "'a' p", "2L ts", "-1L v").repartition(2), path, options, "upsert")
    assert len(list(Path(path).glob("*/.*.cdc"))) == 1
    query = {"hoodie.datasource.query.type": "cdc", "hoodie.datasource.read.begin.instanttime": "000"}
    changes = spark.read.format(FORMAT).options(**query).load(path)
    images = [f"get_json_object({name}, '$.v') {name}" for name in ("before", "after")]
    assert rows(changes.selectExpr("op", *images)) == [
        ("i", None, "-1"),
        ("i", None, "0"),
        ("i", None, "10"),
        ("u", "10", "-1"),
    ]


def test_upsert_keeps_the_greatest_ordering_value(spark: SparkSession, path: str) -> None:
    data = [(1, "a", 5, 50), (1, "a", 9, 90), (1, "a", 7, 70), (2, "a", 1, 10)]
    save(spark.createDataFrame(data, "id long, p string, ts long, v long").repartition(4), path, PARTITIONED)
    assert rows(read(spark, path), "id", "v") == [(1, 90), (2, 10)]
    save(spark.createDataFrame([(1, "a", 8, 80)], "id long, p string, ts long, v long"), path, PARTITIONED)
    assert rows(read(spark, path), "id", "v") == [(1, 90), (2, 10)]


def test_columns_left_out_become_null_where_that_is_asked_for(spark: SparkSession, path: str) -> None:
    save(
        spark.createDataFrame([(1, "a", 5, 50), (2, "a", 5, 60)], "id long, p string, ts long, v long"),
        path,
        PARTITIONED,
    )
    less = spark.createDataFrame([(1, "a", 6), (3, "b", 6)], "id long, p string, ts long")
    with pytest.raises(PySparkException, match="Column 'v' of the table is missing in the data"):
        save(less, path, PARTITIONED)
    save(less, path, {**PARTITIONED, "hoodie.write.set.null.for.missing.columns": "true"})
    assert rows(read(spark, path), "id", "v") == [(1, None), (2, 60), (3, None)]


ALL_TYPES = """
    id long, b boolean, y byte, s short, i int, l long, f float, d double, t string, bin binary, dt date, ts timestamp,
    ntz timestamp_ntz, d5 decimal(5,2), d18 decimal(18,6), d38 decimal(38,18), st struct<x: int, y: struct<z: string>>,
    ar array<struct<k: string, n: int>>, m map<string, decimal(10,2)>, nested map<string, array<timestamp>>
"""
VALUES = (
    1,
    True,
    -3,
    7,
    -8,
    2**62,
    1.5,
    -2.25,
    "ü",
    bytearray(b"\x00\xff"),
    date(1969, 12, 31),
    datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc),
    datetime(1583, 5, 6, 7, 8, 9, 1),
    Decimal("-123.45"),
    Decimal("123456789012.345678"),
    Decimal("-12345678901234567890.123456789012345678"),
    (1, ("deep",)),
    [("a", 1), None, (None, 2)],
    {"k": Decimal("1.25"), "null": None},
    {"t": [datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc), None]},
)


@pytest.mark.parametrize(("version", "kind"), cases(product((6, 9), ("cow", "mor")), "types", 1, quick=[(9, "cow")]))
@pytest.mark.connect_only("9-cow")
def test_every_type(spark: SparkSession, path: str, version: int, kind: str) -> None:
    options = {**KEYED, "hoodie.write.table.version": str(version), "hoodie.datasource.write.table.type": TYPES[kind]}
    frame = spark.createDataFrame([VALUES, (2, *[None] * 19)], ALL_TYPES)
    save(frame, path, options)
    save(frame.where("id = 1"), path, options)  # in a merge-on-read table: once more, by way of a log
    back = read(spark, path)
    assert rows(back) == rows(frame)
    kinds = dict(back.dtypes)
    # a Hudi table has no integers of less than 32 bits
    expected = {name: {"tinyint": "int", "smallint": "int"}.get(kind, kind) for name, kind in frame.dtypes}
    assert {name: kinds[name] for name in expected} == expected


def test_a_read_frame_may_be_written_back(spark: SparkSession, path: str, tmp_path: Path) -> None:
    base = spark.range(10).selectExpr("id", "'a' p", "1L ts", "id v")
    save(base, path, PARTITIONED)
    other = str(tmp_path / "other")
    save(read(spark, path), other, PARTITIONED)
    save(read(spark, path).selectExpr("*").where("id < 3"), path, PARTITIONED)
    assert rows(read(spark, path)) == rows(base) == rows(read(spark, other))
    times = {row[0] for row in read(spark, other).select("_hoodie_commit_time").distinct().collect()}
    assert times == set(hudi_py.open_table(other).history().column("instant").to_pylist())


@pytest.mark.parametrize(
    ("operation", "version"),
    cases(product(("upsert", "insert", "bulk_insert"), (6, 9)), "overwrite", 2, quick=[("upsert", 9)]),
)
@pytest.mark.connect_only("upsert-9")
def test_overwrite_replaces_the_table(spark: SparkSession, path: str, version: int, operation: str) -> None:
    options = {**PARTITIONED, "hoodie.write.table.version": str(version)}
    save(spark.range(10).selectExpr("id", "cast(id % 2 as string) p", "1L ts", "id v"), path, options)
    twice = [(1, "a", 1, 10), (1, "a", 2, 20), (2, "0", 1, 30)]
    frame = spark.createDataFrame(twice, "id long, p string, ts long, v long")
    save(frame, path, options, operation, "overwrite")
    # as in Apache Hudi an upsert keeps one row of a key, an insert each
    expected = [(1, "a", 20), (2, "0", 30)] if operation == "upsert" else [(1, "a", 10), (1, "a", 20), (2, "0", 30)]
    assert rows(read(spark, path), "id", "p", "v") == expected
    assert hudi_py.open_table(path).history().column("action").to_pylist() == ["commit", "replacecommit"]


def test_overwrite_of_a_table_from_itself(spark: SparkSession, path: str) -> None:
    save(spark.range(10).selectExpr("id", "cast(id % 2 as string) p", "1L ts", "id v"), path, PARTITIONED)
    kept = read(spark, path).where("id < 5").selectExpr("id", "p", "ts", "v + 100 v")
    save(kept, path, PARTITIONED, mode="overwrite")
    assert rows(read(spark, path), "id", "v") == [(n, n + 100) for n in range(5)]


@pytest.mark.parametrize("operation", cases(["insert", "bulk_insert", "upsert"], "few files", 1))
@pytest.mark.classic_only
def test_many_and_empty_partitions_make_few_files(spark: SparkSession, path: str, operation: str) -> None:
    frame = (
        spark.range(0, 300, 1, 12)
        .where("id % 12 < 9 or id < 100")
        .selectExpr("id", "cast(id % 3 as string) p", "1L ts", "id v")
    )
    save(frame, path, PARTITIONED, operation)
    assert rows(read(spark, path), "id", "p", "v") == rows(frame, "id", "p", "v")
    assert len(list(Path(path).glob("*/*.parquet"))) == 3
    sequence = read(spark, path).select("_hoodie_commit_seqno").distinct().count()
    assert sequence == frame.count()


@pytest.mark.classic_only
def test_large_pieces_are_files_of_their_tasks(spark: SparkSession, path: str) -> None:
    frame = spark.range(0, 120_000, 1, 2).selectExpr("id", "repeat(cast(id as string), 150) v")
    save(frame, path, KEYED, "bulk_insert")
    files = [file.name for file in Path(path).glob("*.parquet")]
    assert {name.split("_")[1].split("-")[0] for name in files} == {"0", "1"}
    assert read(spark, path, columns="id").distinct().count() == 120_000


def test_a_frame_without_rows(spark: SparkSession, path: str) -> None:
    frame = spark.range(0).selectExpr("id", "'a' p", "1L ts")
    save(frame, path, PARTITIONED)
    assert rows(read(spark, path)) == []
    save(frame, path, {**PARTITIONED, "hoodie.allow.empty.commit": "false"})
    assert hudi_py.open_table(path).history().num_rows == 1


OPTIMISTIC = {
    **PARTITIONED,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.time.generator.max_expected_clock_skew_ms": "2",
}
RETRIES = "hoodie.write.num.retries.on.conflict.failures"


@pytest.mark.parametrize(
    ("version", "kind"),
    cases(product((6, 8, 9), ("cow", "mor")), "conflicts through Spark", 1, quick=[(9, "cow")]),
)
def test_a_write_in_conflict_fails_or_is_written_again(spark: SparkSession, path: str, version: int, kind: str) -> None:
    """Another process writes to the same file group while a task computes its rows."""
    options = {
        **OPTIMISTIC,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": TYPES[kind],
    }
    save(spark.createDataFrame([(n, "a", 1, 0) for n in range(3)], "id long, p string, ts long, v long"), path, options)

    def beside(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            theirs = pa.table({"id": [1, 2], "p": ["a", "a"], "ts": [2, 2], "v": [20, 20]})
            hudi_py.write(path, theirs, options=options)
            yield batch

    ours = spark.createDataFrame([(0, "a", 3, 30), (1, "a", 3, 30)], "id long, p string, ts long, v long").coalesce(1)
    ours = ours.mapInArrow(beside, ours.schema)
    with pytest.raises(PySparkException, match=f"changed the file group .*{RETRIES}"):
        save(ours, path, options)
    assert rows(read(spark, path), "id", "v") == [(0, 0), (1, 20), (2, 20)]
    save(ours, path, {**options, RETRIES: "3"})
    assert rows(read(spark, path), "id", "v") == [(0, 30), (1, 30), (2, 20)]
    timeline = hudi_py.open_table(path).timeline
    assert timeline.pending == ()
    assert len(timeline.write_completed) == 4


def test_writes_at_once_of_one_session(spark: SparkSession, path: str) -> None:
    schema = "id long, p string, ts long, v long"
    save(spark.createDataFrame([(n, "a", 1, 0) for n in range(4)], schema), path, OPTIMISTIC)

    def write(first: int) -> None:
        ours = spark.createDataFrame([(n, "a", 2 + first, first) for n in (first, first + 1)], schema)
        save(ours, path, {**OPTIMISTIC, RETRIES: "20"})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [1, 2]))
    assert rows(read(spark, path), "id", "v") == [(0, 0), (1, 1), (2, 2), (3, 2)]
    assert len(hudi_py.open_table(path).timeline.write_completed) == 3


@pytest.mark.parametrize("operation", ["upsert", pytest.param("bulk_insert", marks=pytest.mark.slow)])
@pytest.mark.connect_only("upsert")
@pytest.mark.connect_first
def test_a_task_that_is_tried_again(spark: SparkSession, path: str, operation: str) -> None:
    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise ValueError("first attempt")

    frame = spark.range(0, 1000, 1, 3).selectExpr("id", "cast(id % 2 as string) p", "1L ts", "id v")
    save(frame.mapInArrow(fails_once, frame.schema), path, PARTITIONED, operation)
    assert rows(read(spark, path), "id", "p", "v") == rows(frame, "id", "p", "v")
    written = {row[0] for row in read(spark, path).select("_hoodie_file_name").distinct().collect()}
    assert {file.name for file in Path(path).glob("*/*.parquet")} == written


@pytest.mark.slow
def test_a_failed_write_leaves_the_table_as_it_was(spark: SparkSession, path: str) -> None:
    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ValueError("always")

    frame = spark.range(0, 100, 1, 2).selectExpr("id", "cast(id % 2 as string) p", "1L ts", "id v")
    save(frame, path, PARTITIONED)
    before = rows(frame, "id", "v")
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="always"):
            save(
                frame.selectExpr("id", "p", "ts", "-v v").mapInArrow(fails, frame.schema), path, PARTITIONED, mode=mode
            )
        assert rows(read(spark, path), "id", "v") == before
    save(frame.selectExpr("id", "p", "2L ts", "v + 1 v"), path, PARTITIONED)
    assert rows(read(spark, path), "id", "v") == [(n, v + 1) for n, v in before]


REFUSED = (
    ({"hoodie.clustering.async.enabled": "true"}, "hoodie.clustering.async.enabled = 'true'"),
    ({"hoodie.datasource.hive_sync.mode": "jdbc"}, "hoodie.datasource.hive_sync.mode"),
    ({"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "CONSISTENT_HASHING"),
    ({"hoodie.datasource.write.recordkey.field": "v"}, "contradict"),
    ({"hoodie.datasource.write.table.type": "MERGE_ON_READ"}, "contradict"),
)


@pytest.mark.connect_first
def test_refused_writes_change_nothing(spark: SparkSession, path: str) -> None:
    frame = spark.range(3).selectExpr("id", "'a' p", "1L ts", "id v")
    save(frame, path, PARTITIONED)
    before = set(Path(path).rglob("*.parquet"))
    for more, message in REFUSED:
        with pytest.raises(PySparkException, match=message):
            save(frame.selectExpr("id", "p", "ts", "-v v"), path, {**PARTITIONED, **more})
        assert set(Path(path).rglob("*.parquet")) == before, message
    assert rows(read(spark, path), "v") == [(0,), (1,), (2,)]


@pytest.mark.connect_first
def test_what_a_first_write_needs(spark: SparkSession, path: str) -> None:
    frame = spark.range(3).selectExpr("id", "id v")
    with pytest.raises(PySparkException, match="TableNotFoundError|none"):
        save(frame, path, KEYED, "delete")
    save(frame, path, {"hoodie.datasource.write.recordkey.field": "id"})
    assert hudi_py.open_table(path).properties["hoodie.table.name"] == "table"
    for _ in range(2):  # without a record key, each row gets one of its own
        save(frame, path + "2", {})
    assert "hoodie.table.recordkey.fields" not in hudi_py.open_table(path + "2").properties
    keys = hudi_py.open_table(path + "2").scan(["_hoodie_record_key"]).to_table()
    assert keys.num_rows == len(set(keys.column(0).to_pylist())) == 6


def test_a_first_write_that_fails_leaves_no_table(spark: SparkSession, path: str) -> None:
    frame = spark.range(3).selectExpr("NULLIF(id, 1) id", "cast(id as string) p", "id v")
    with pytest.raises(PySparkException, match="every row needs a key"):
        save(frame, path, {**KEYED, "hoodie.datasource.write.partitionpath.field": "p"})
    assert list(Path(path).iterdir()) == []
    tasks = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.py.local.max.bytes": "0"}
    broken = frame.selectExpr("v id", "IF(v = 1, CAST(raise_error('broken') AS STRING), p) p")
    partitioned = {**tasks, "hoodie.datasource.write.partitionpath.field": "p"}
    for rows_ in (frame, broken):  # of these the rows fail while they are written, and while they are counted
        with pytest.raises((HudiError, PySparkException), match=r"every row needs a key|broken"):
            write_table(rows_, path, options=partitioned)
        assert not [file for file in Path(path).rglob("*") if file.is_file()]  # a late task may have asked for the lock
    save(frame, path, {"hoodie.datasource.write.recordkey.field": "v"})
    assert hudi_py.open_table(path).scan().count() == 3


def test_only_append_and_overwrite_are_modes(spark: SparkSession, path: str) -> None:
    with pytest.raises(PySparkException, match="errorifexists|UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        spark.range(3).write.format(FORMAT).options(**KEYED).save(path)


def test_options_beside_the_rows(spark: SparkSession, path: str) -> None:
    frame = spark.range(3).selectExpr("id", "'a' p", "1L ts")
    save(frame, path, {**PARTITIONED, "_job": "nightly", "hoodie.upsert.shuffle.parallelism": "2"})
    timeline = Path(path, ".hoodie", "timeline")
    assert any(b"nightly" in file.read_bytes() for file in timeline.glob("*.commit"))
