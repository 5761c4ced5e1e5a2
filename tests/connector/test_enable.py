"""`enable` and `disable`: loads of the format, and tables of `register_sql`, go the way of `read_table`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.errors import ConfigError
from pyspark_hudi import disable, enable, register_sql
from pyspark_hudi.hooks import _Hook
from tests.connector.tables import FORMAT, read, rows

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


def test_what_the_plain_format_reads(enabled: SparkSession, table: str) -> None:
    projected = enabled.read.format(FORMAT).schema("v LONG, id LONG").load(table)
    assert not is_native(projected)
    assert rows(projected, "id", "v") == AFTER
    assert read(enabled, table, view="files").count() == 3
    assert not is_native(read(enabled, table, **{"hoodie.py.read.native": "never"}))
    assert enabled.readStream.format(FORMAT).load(table).isStreaming
    file = read(enabled, table).inputFiles()[0]
    assert enabled.read.parquet(file).count() == enabled.read.format("parquet").load(file).count() == 3


def error_of(reads: Any) -> tuple[type, str]:
    with pytest.raises(PySparkException) as caught:
        reads().collect()
    return caught.type, next(line for line in str(caught.value).splitlines()[::-1] if "hudi_py.errors" in line)


def test_errors_are_those_of_the_plain_format(spark: SparkSession, table: str) -> None:
    wrong = [
        lambda: read(spark, f"{table}/absent"),
        lambda: read(spark, table, **{"hoodie.datasource.query.typ": "snapshot"}),
        lambda: read(spark, table, columns="nope"),
        lambda: spark.read.format(FORMAT).load(),
        lambda: spark.read.format(FORMAT).load([table, table]),
    ]
    plain = [error_of(each) for each in wrong]
    enable(spark)
    try:
        assert [error_of(each) for each in wrong] == plain
    finally:
        disable(spark)


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
def test_temporary_views(enabled: SparkSession, table: str) -> None:
    register_sql(enabled, "native", table, options={"columns": "id,v"}, temporary=True)
    hudi_py.write(table, [{"id": 9, "p": "a", "ts": 2, "v": 90}])
    frame = enabled.table("native")
    assert is_native(frame)
    assert rows(frame) == AFTER
    with pytest.raises(ConfigError, match="not a valid table name"):
        register_sql(enabled, "a b", table, temporary=True)


@pytest.mark.slow
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
