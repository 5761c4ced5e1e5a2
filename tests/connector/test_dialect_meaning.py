"""Statements in sessions whose settings change what expressions mean: the same rows as `where` selects there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.expressions import parse_filter
from pyspark_hudi import sql
from pyspark_hudi.dialect.meaning import Meaning

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
ROWS = pa.table(
    {
        "id": pa.array(range(6)),
        "z": pa.array([0, 19_800_000_000, 19_799_999_999, 86_400_000_000, -1, None], pa.timestamp("us", "UTC")),
        "day": pa.array([0, 0, 0, 0, 1, 2], pa.date32()),
        "f": pa.array([0.1, 16777216.0, 2.0, 0.5, -1.0, None], pa.float32()),
        "i": pa.array([0, 16777217, 2, 0, 1, None], pa.int32()),
        "v": ["it's", "its", r"a\nb", "a\nb", "id", None],
    }
)
KOLKATA = {"spark.sql.session.timeZone": "Asia/Kolkata"}
LENIENT = {"spark.sql.ansi.enabled": "false"}
ESCAPED = {"spark.sql.parser.escapedStringLiterals": "true"}
CASES: list[tuple[Mapping[str, str], str]] = [
    ({}, "v = 'it''s'"),
    ({}, r"v = r'a\nb' OR v = 'it\'s'"),
    (KOLKATA, "z >= TIMESTAMP '1970-01-01 05:30:00' AND z < TIMESTAMP '1970-01-01 11:00:00'"),
    (KOLKATA, "z < '1970-01-01 05:30:00'"),
    (KOLKATA, "z > day"),
    (LENIENT, "f = i"),
    (LENIENT, "i IN ('0', f)"),
    (ESCAPED, r"v = 'a\nb'"),
]


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, str(old))


def make(path: str) -> None:
    hudi_py.write(path, ROWS, "insert", QUIET, record_key="id", table_type="MERGE_ON_READ")


def kept(path: str) -> list[int]:
    return sorted(hudi_py.open_table(path).scan(["id"]).to_table()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(("given", "condition"), CASES)
def test_deletes(spark: SparkSession, path: str, given: Mapping[str, str], condition: str) -> None:
    make(path)
    with settings(spark, given):
        frame = spark.read.format("hudi-py").load(path)
        gone = {row.id for row in frame.where(condition).select("id").collect()}
        assert gone
        sql(spark, f"DELETE FROM hudi.`{path}` AS t WHERE {condition}")
    assert kept(path) == [key for key in range(6) if key not in gone]


@pytest.mark.slow
def test_merges(spark: SparkSession, path: str) -> None:
    make(path)
    start = f"MERGE INTO hudi.`{path}` t USING (SELECT 3 AS id, DATE '1970-01-01' AS d) s "
    with settings(spark, KOLKATA):
        with pytest.raises(ConfigError, match=r"its meaning depends on spark\.sql\.session\.timeZone=Asia/Kolkata"):
            sql(spark, start + "ON t.id = s.id WHEN MATCHED AND t.z > s.d THEN DELETE")
        with pytest.raises(ConfigError, match=r"its meaning depends on spark\.sql\.session\.timeZone=Asia/Kolkata"):
            sql(spark, start + "ON t.id = s.id AND t.z > s.d WHEN MATCHED THEN DELETE")
        sql(
            spark,
            start + "ON t.id = s.id WHEN MATCHED THEN UPDATE SET z = s.d WHEN NOT MATCHED BY SOURCE AND "
            "t.z >= TIMESTAMP '1970-01-01 11:00:00' THEN DELETE",
        )
    assert kept(path) == [0, 2, 3, 4, 5]
    (found,) = hudi_py.open_table(path).scan(["z"], "id = 3").to_table()["z"].cast(pa.int64()).to_pylist()
    assert found == -19_800_000_000


def test_what_is_left_to_spark(spark: SparkSession) -> None:
    parse = partial(parse_filter, schema=ROWS.schema)
    assert all(Meaning(spark).shared(condition, parse) for _, condition in CASES)
    assert Meaning(spark).differs("hash(i) = 1", parse) is None
    for given, condition in CASES:
        with settings(spark, given):
            meaning = Meaning(spark)
            text = meaning.in_moments(condition)
            assert meaning.shared(text, parse) == (not given or text != condition)
            assert meaning.shared("id = 5 AND v = 'x' AND day = '1970-01-01'", parse)
    with settings(spark, KOLKATA):
        moved = Meaning(spark).in_moments("z > TIMESTAMP'1970-1-1' -- TIMESTAMP '1970-01-01'")
    assert moved == "z > TIMESTAMP '1969-12-31 18:30:00.000000+00:00' -- TIMESTAMP '1970-01-01'"
