"""Filters answer as Spark's `where` does on the same rows, or are refused: a grid of types, operators and constants."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.expressions import Filter, parse_filter
from pyspark_hudi import read_table
from pyspark_hudi.condition import spark_condition
from pyspark_hudi.types import spark_schema
from tests.connector.conftest import CONNECT
from tests.connector.tables import read

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(CONNECT, reason="the same expressions are evaluated as without Connect"),
]

INSTANTS = [
    "2024-01-01 00:00:00",
    "2024-01-01 00:00:00.000001",
    "1969-12-31 23:59:59.999999",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "2024-01-01 12:30:00",
]
ROWS = pa.table(
    {
        "i": pa.array([0, 1, -1, 16777217, 2147483647, -2147483648, 5, None], pa.int32()),
        "l": pa.array([0, 1, -1, 9007199254740993, 2**63 - 1, -(2**63), 5, None], pa.int64()),
        "f": pa.array([0.1, -0.0, 1.0, 16777216.0, math.nan, math.inf, -1.5, None], pa.float32()),
        "d": pa.array([0.1, 0.0, 1.0, 9007199254740992.0, math.nan, -math.inf, 0.10000000149011612, None]),
        "n": pa.array(["0.10", "1.50", "-1.00", "3.30", "0.00", "9999999999.99", None, None]).cast(
            pa.decimal128(12, 2)
        ),
        "w": pa.array(["0.1", "1.000000000000000001", "-1", "3.3", "0", "99999999999999999999", "5", None]).cast(
            pa.decimal128(38, 18)
        ),
        "t": pa.array(["a", "A", "5", "", "2024-01-01", "a%b\\c", "é\nK", None]),
        "u": pa.array(["a", "b", "7", "", "2024-01-02", "İi", "Σς", None]),
        "b": pa.array([True, False, True, None, False, True, False, None]),
        "x": pa.array([b"a", b"", b"\x00\xff", b"5", b"ab", b"\x7f", None, None]),
        "c": pa.array(
            ["2024-01-01", "1970-01-01", "0001-01-01", "9999-12-31", "1969-12-31", "2024-02-29", None, None]
        ).cast(pa.date32()),
        "z": pa.array([*INSTANTS, None, None]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "y": pa.array([*reversed(INSTANTS), None, None]).cast(pa.timestamp("us")),
    }
)
CONSTANTS = [
    "0", "1", "-1", "5", "16777217", "2147483647", "2147483648", "-2147483648", "9007199254740993",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "99999999999999999999", "1L", "5S", "-1Y",
    "- 5", "-(5)", "0.1", "1.5", "-1.0", "3.3", "0.10", "1.000000000000000001", "9999999999.99",
    "0.123456789012345678901234567890", ".5", "5.", "12345678901234567890123456789012345678",
    "-1234567890123456789012345678.5", "1e0", "1E-1", "3.3e0", "-0e0", "9007199254740992e0", "1e300", "0.1F", "-0.1F",
    "16777216F", "1.5F", "3.3F", "1e-1F", "0.1D", "-0.0D", "0.1BD", "1.50BD", "CAST(0.1 AS FLOAT)",
    "CAST(16777217 AS FLOAT)", "CAST('0.1' AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST('Infinity' AS FLOAT)",
    "CAST('-inf' AS DOUBLE)", "CAST('NaN' AS DOUBLE)", "CAST(0.1 AS DOUBLE)", "CAST(0.1F AS DOUBLE)",
    "CAST(0.1D AS FLOAT)", "CAST(1e300 AS FLOAT)", "CAST(1.55 AS DECIMAL(2,1))", "CAST(1.45 AS DECIMAL(2,1))",
    "CAST(-1.55 AS DECIMAL(2,1))", "CAST('0.105' AS DECIMAL(12,2))", "CAST(1.5 AS DECIMAL)",
    "CAST(5 AS DECIMAL(38,18))", "CAST(1 AS DECIMAL(3))", "CAST(99 AS DECIMAL(2,1))", "CAST('x' AS DECIMAL(2,1))",
    "CAST(5 AS BIGINT)", "CAST('5' AS INT)", "CAST(300 AS TINYINT)", "CAST(NULL AS INT)",
    "CAST(NULL AS DECIMAL(12,2))", "NULL", "'a'", "'A'", "'5'", "' 5 '", "''", "'x'", "'1.5'", "'0.1'", "'3.3'",
    "'1e0'", "'NaN'", "'-0'", "'true'", "'t'", "'no'", "'2024-01-01'", "'2024-01-01 00:00:00'", "'2024-01-01T12:30'",
    "'2024-01-01 12:30:00.000001'", "'2024-01-01 14:30:00+02:00'", "'2024-01-01T12:30:00Z'",
    "'9999-12-31 23:59:59.999999'", "'0001-01-01'", "'2024-02-30'", "' 2024-02-29 '", "'a%b\\\\\\\\c'", "TRUE",
    "FALSE", "X'61'", "X'00FF'", "X''", "DATE '2024-01-01'", "DATE '1969-12-31'", "DATE '9999-12-31'",
    "CAST('2024-02-29' AS DATE)", "TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 00:00:00.000001'",
    "TIMESTAMP '2024-01-01 14:30:00+02:00'", "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '2024-01-01'",
    "TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '2024-02-29 00:00:00'",
    "TIMESTAMP_LTZ '1970-01-01 00:00:00'", "CAST(DATE '2024-01-01' AS TIMESTAMP)",
]  # fmt: skip
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
TEXTS = [
    r"t LIKE 'a%'", r"t LIKE '_'", r"t LIKE '%\\%b%'", r"t LIKE 'a\%b\\\\c'", r"t LIKE '%\\\\%'", "t LIKE ''",
    "t LIKE '%'", r"t LIKE 'é%K'", r"t LIKE 'é_K'", "t ILIKE 'A'", "u ILIKE 'i%'", "u ILIKE 'İI'", "u ILIKE 'σ_'",
    "u ILIKE 'Σ%'", r"t LIKE 'a\b'", r"t LIKE 'a\\'", r"t LIKE 'a\\x'", "t LIKE '%.%'", "t LIKE '(%'",
    "t LIKE '[a]%'", "t LIKE NULL", "NULL LIKE 'a'", "'a' LIKE 'a'", "t LIKE 'a' OR b", r"t = 'a\x'", r"t = '\A'",
    r"t = '\101'", r"t = '\u0041'", "t = 'a''b'", 't = "A"', r"t = 'a%b\\c'", r"t = 'a\%b\\c'", r"t = 'é\nK'",
    "t = 'é\nK'",
]  # fmt: skip
MIXED = [
    "NOT b", "b", "NOT b IS NULL", "!b IS NULL", "!b <=> FALSE", "b = TRUE = b", "b = i < 5", "b = (i < 5)",
    "b = i IS NULL", "i = 5 IS TRUE", "(i = 5) IS NOT TRUE", "b IS UNKNOWN", "b AND NULL", "b OR NULL", "NULL",
    "NULL = NULL", "NULL <=> NULL", "NULL IN (NULL)", "NULL IN (1)", "1 = 1", "1 IN (1, 2)", "5 BETWEEN i AND l",
    "i BETWEEN NULL AND 5", "i NOT BETWEEN 1 AND 1.5", "f BETWEEN 0.1F AND 0.1F", "f BETWEEN 0.1 AND 1",
    "f NOT BETWEEN 0.1F AND 1", "t BETWEEN '5' AND 'a'", "t BETWEEN 1 AND 5", "i + 1 > 1", "i + 1L > 1", "l - 1 = 4",
    "i * 2 = 10", "i + 0.5 = 5.5", "f + 1 = 1.1", "f + 1 = 1.1e0", "f + f = 0.2F", "f * 2 = 0.2F", "f + 0.1F = 0.2F",
    "i * 1e0 + 1 = 6", "i + l = 10", "-f = 1.5", "-d = -0.1", "-i = -5", "- -i = 5", "f + d = 0.2", "i + NULL = 1",
    "n + 1 = 2", "t + 1 = 6", "2147483647 + 1 = 0", "i = f", "i < f", "l = d", "i = n", "l = w", "f = d", "n = w",
    "n = f", "n = d", "w = d", "c = z", "c < y", "z = y", "t = u", "t = x", "t = i", "t = c", "b = i", "f <=> d",
    "i IN (l, 5)", "f IN (d, 0.1F)", "n IN (i, 1.5)", "i IN (1, l)", "t IN (u, 'A')", "t IN ('a', 5)",
    "t IN ('a', NULL)", "t IN (x, 'a')", "c IN (DATE '2024-01-01', '1970-01-01')", "c IN (z)",
    "c IN (TIMESTAMP '2024-01-01 00:00:00', DATE '1970-01-01')", "z IN (c, y)", "y IN (DATE '2024-01-01')",
    "i = 0x1F", "x = X'1'", "i IS DISTINCT FROM 5", "i IS NOT DISTINCT FROM 5", "i IS NOT DISTINCT FROM NULL",
    "(i, l) = (1, 2)", "CAST(i AS BIGINT) = 5", "CAST(t AS INT) = 5", "w = 5", "w IN (5)", "w = 99999999999999999999",
    "w = 0.12345678901234567890123", "i = 5 AND f = 0.1F OR d = 0.1", "NOT (f = 0.1F OR d > 1)",
    "NOT f IN (0.1F, NULL)", "f IN (0.1F, 0.1)", "f IN (0.1F, 1)", "f IN (0.0)", "d IN (-0.0D)",
    "f IN (CAST('NaN' AS FLOAT))", "d IN (CAST('NaN' AS DOUBLE), 1)", "i IN (1, 5.0, 16777217F)",
    "l IN (9007199254740993, 1e0)", "l IN (9007199254740992F)", "n IN (0.1, 1.5e0)", "n IN (3.3, 3.3F)",
    "w IN (3.3, 3.3e0)",
]  # fmt: skip


def conditions(rng: random.Random, lists: int) -> list[str]:
    columns = ROWS.column_names
    singles = [f"{c} {op} {k}" for c, op, k in itertools.product(columns, OPERATORS, CONSTANTS)]
    pairs = [f"{a} {op} {b}" for a, b in itertools.combinations(columns, 2) for op in OPERATORS]
    members = []
    for _ in range(lists):
        items = ", ".join(rng.sample(CONSTANTS, rng.randint(1, 4)))
        members.append(f"{rng.choice(columns)} {rng.choice(['', 'NOT '])}IN ({items})")
        low, high = rng.sample(CONSTANTS, 2)
        members.append(f"{rng.choice(columns)} {rng.choice(['', 'NOT '])}BETWEEN {low} AND {high}")
    return singles + pairs + members


def ours(text: str) -> tuple[Filter, list[bool | None]] | None:
    """The filter and its three-valued result for each row; None where it is refused."""
    try:
        parsed = parse_filter(text, ROWS.schema)
        assert parsed is not None
        return parsed, parsed.evaluate(ROWS).to_pylist()
    except ConfigError:
        return None


def judged(frame: DataFrame, texts: Sequence[str]) -> list[list[bool | None] | str]:
    """Spark's results, many conditions by one query; or its error."""
    try:
        found = frame.selectExpr(*(f"({text}\n) AS c{at}" for at, text in enumerate(texts))).toArrow()
        return [column.cast(pa.bool_()).to_pylist() for column in found.columns]
    except PySparkException as error:
        if len(texts) == 1:
            return [str(error).partition("\n")[0]]
        half = len(texts) // 2
        return judged(frame, texts[:half]) + judged(frame, texts[half:])


def differences(spark: SparkSession, texts: Sequence[str]) -> tuple[list[str], int]:
    """What differs from Spark, and how many conditions were answered."""
    frame = spark.createDataFrame(ROWS, spark_schema(ROWS.schema))
    answered = [(text, *answer) for text in texts if (answer := ours(text)) is not None]
    compared = [(text, text, own) for text, _, own in answered]
    found = _compared(frame, compared)
    # as `read_table` has Spark evaluate it, which must not depend on the session
    native = [(said, text, own) for text, parsed, own in answered if (said := spark_condition(parsed)) is not None]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        found += _compared(frame, native)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.session.timeZone", before)
    return found, len(answered)


def _compared(frame: DataFrame, given: Sequence[tuple[str, str, list[bool | None]]]) -> list[str]:
    found: list[str] = []
    for at in range(0, len(given), 400):
        part = given[at : at + 400]
        for (said, text, own), theirs in zip(part, judged(frame, [said for said, _, _ in part]), strict=True):
            if own != theirs:
                found.append(f"{text} as {said}: {own}, Spark: {theirs}")
    return found


def test_filters_answer_as_spark_does(spark: SparkSession) -> None:
    rng = random.Random(1)
    texts = [*TEXTS, *MIXED, *rng.sample(conditions(rng, 400), 300)]
    found, answered = differences(spark, texts)
    assert not found, "\n".join(found[:60])
    assert answered > len(texts) // 3


def test_reads_of_a_table_answer_as_where_does(spark: SparkSession, path: str) -> None:
    rows = ROWS.select(["i", "l", "f", "d", "n", "t", "c"]).append_column("id", pa.array(range(len(ROWS))))
    for at in range(0, len(rows), 4):
        hudi_py.write(path, rows.slice(at, 4), "bulk_insert", record_key="id")
    frame = spark.createDataFrame(rows)
    for text in ("f = 0.1F", "NOT f BETWEEN 0.1F AND 1 AND i < 5 OR n >= CAST(1.5 AS DECIMAL) AND l IN (5e0, 1e0)"):
        expected = sorted(row.id for row in frame.where(text).select("id").collect())
        assert expected
        loaded = read(spark, path, columns="id", filter=text)
        assert sorted(row.id for row in loaded.collect()) == expected, text
        assert sorted(row.id for row in read_table(spark, path, columns=["id"], filter=text).collect()) == expected, (
            text
        )


@pytest.mark.long
def test_every_filter_of_the_grid_answers_as_spark_does(spark: SparkSession) -> None:
    texts = conditions(random.Random(2), 1500)
    found, answered = differences(spark, texts)
    assert not found, "\n".join(found[:60])
    assert answered > len(texts) // 3
