"""The functions of expression indexes: every value equals that of Spark itself, in two time zones."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_py.expressions.functions import IndexFunction
from tests.oracle.client import Oracle
from tests.oracle.test_secondary_index import sql

UTC = datetime.timezone.utc
MOMENT = datetime.datetime
COLUMNS = pa.table(
    {
        "n": list(range(14)),
        "s": pa.array(
            [
                *("  Ab c ", "\u00e4\u00df\nX", "Zz-1", "\u0130I", "q\r\n", "\u2167\U0001f388ab", "", None),
                *(" \t x\u00a0", "\u0391\u03a3 \u03a3\u0391\u03a3", "100-200", "aXbXc", "\ufb01", "a.b.c"),
            ]
        ),
        "d": pa.array(
            [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None, datetime.date(1901, 1, 1)] * 3
            + [datetime.date(9999, 12, 31), datetime.date(1912, 2, 29)]
        ),
        "t": pa.array(
            [
                MOMENT(1969, 12, 31, 23, 59, 59, 999_999, UTC),
                MOMENT(2024, 2, 29, 12, 0, 0, 120_000, UTC),
                None,
                MOMENT(1900, 1, 1, tzinfo=UTC),
                MOMENT(2024, 3, 31, 1, 30, tzinfo=UTC),
                MOMENT(2024, 10, 27, 0, 30, tzinfo=UTC),
                MOMENT(2024, 6, 1, 22, 30, tzinfo=UTC),
            ]
            * 2,
            pa.timestamp("us", "UTC"),
        ),
        "l": pa.array(
            [0, -1, 1_700_000_000, 1_700_000_000_000, 2**62, None, -(2**63), 2**63 - 1]
            + [86399, 20240101, 2024, 253402300800, -2208988800, 5]
        ),
        "i": pa.array([0, -1, 7, None, 2024] * 2 + [2**31 - 1, -(2**31), 5, 6], pa.int32()),
        "f": pa.array(
            [
                0.0,
                -0.0,
                1.5,
                float("nan"),
                None,
                1e10,
                1e-5,
                123456789.125,
                float("inf"),
                -2.5,
                0.1,
                1 / 3,
                1e300,
                5e-324,
            ]
        ),
        "b": pa.array([True, False, None] * 4 + [True, True]),
        "dec": pa.array(
            [Decimal("1.50"), Decimal("-0.01"), None, Decimal("1700000000.99")] * 3 + [Decimal("5.00")] * 2,
            pa.decimal128(18, 2),
        ),
        "x": pa.array([b"ab\xc3\xa9", b"", None, b"hello"] * 3 + [b"zz"] * 2, pa.binary()),
        "ds": pa.array(
            [
                *("2024-02-29", "2024-2-3 04:05:06.5+01:00", " 2024 ", "2023-02-29", "x", None, "2024-01-01T10"),
                *("2024-01-01 10:11:12 Europe/Oslo", "+12024-01-01", "2024-03-31 02:30:00"),
                *("2024-01-01 10:11:12.1234567Z", "2024-1-1 1:2", "2024-01-01 ", "1944-03-15"),
            ]
        ),
        "df": pa.array(
            [
                *("2024-02-29 01:02:03", "2024-02-30 01:02:03", "20240229", "2024-1-1 1:1:1", "2024-02-29 01:02:03 "),
                *("x", None, "", "02/29/2024", "Feb 3, 2024", "2024-02-29T01:02:03.123Z", "12024-01-01 00:00:00"),
                *("1901-01-01 00:00:00", "2024-03-31 02:30:00"),
            ]
        ),
    }
)
Case = tuple[str, str, dict[str, str]]


def each(name: str, columns: str, **options: str) -> list[Case]:
    return [(name, column, options) for column in columns.split()]


def with_formats(names: str, columns: str, *formats: str) -> list[Case]:
    return [case for name in names.split() for text in formats for case in each(name, columns, format=text)]


ALL = "s d t l i f b dec x ds df"
CASES: list[Case] = [
    *(case for name in ("lower", "upper", "trim", "length") for case in each(name, ALL)),
    *(case for name in ("year", "month", "day", "hour") for case in each(name, "d t ds df")),
    *each("ltrim", "s"),
    *each("rtrim", "s"),
    *each("trim", "s", trimString=" Abc"),
    *each("ltrim", "s", trimString="\u00a0 "),
    *each("rtrim", "s l", trimString="0\n"),
    *(
        case
        for at, size in (
            *((1, 2), (0, 2), (2, 3), (-2, 1), (-9, 4), (-9, 9), (3, -1), (5, 100)),
            *((2, 2**31 - 1), (-3, 2**31 - 1)),
        )
        for case in each("substring", "s x l", pos=str(at), len=str(size))
    ),
    *(
        case
        for pattern, to in (
            *(("[a-z]+", "<$0>"), (r"(\w)(\w)", "$2$1"), ("a+", "-"), ("$", "E"), (".", "."), ("X", r"\$")),
            *(("[^a]", r"\\"), (r"\s+$", "_"), ("(?s)a.*", "")),
        )
        for case in each("regexp_replace", "s", pattern=pattern, replacement=to)
    ),
    *(
        case
        for pattern, group in ((r"(\d+)-(\d+)", "2"), ("([A-Z])([a-z])?", "2"), (r"^\s*(\S)", "1"), ("x|(y)", "1"))
        for case in each("regexp_extract", "s", pattern=pattern, idx=group)
    ),
    *(case for pattern in ("X", "", "[-. ]", "(?i)x", "a+") for case in each("split", "s", pattern=pattern)),
    *(
        case
        for days in ("10", "-800000")
        for name in ("date_add", "date_sub")
        for case in each(name, "d t ds", days=days)
    ),
    *each("to_date", "s d t l i f dec ds df"),
    *each("to_timestamp", "s d t l i f dec ds df"),
    *each("unix_timestamp", "d t df ds"),
    *with_formats(
        "to_date to_timestamp unix_timestamp",
        "df d",
        *("yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "y-M-d H:m:s", "MM/dd/yyyy", "MMM d, yyyy"),
        *("yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyy-MM-dd[ HH:mm:ss]"),
    ),
    *each("from_unixtime", "l i f dec s"),
    *with_formats(
        "from_unixtime",
        "l i",
        *("yyyy-MM-dd", "yy/M/d", "yyyyyy D", "EEE, d MMM yyyy hh:mm:ss a", "QQQ q yyyy G"),
        *("kk K SSS XXX xx Z", "MMMM EEEE QQQQ"),
    ),
    *with_formats(
        "date_format",
        "d t ds",
        *("yyyy-MM", "yyyy-MM-dd HH:mm:ss.SSSSSS", "HH", "yyyyMMdd''", "XXX XXXXX ZZZZ ZZZZZ x"),
    ),
]
_SIDES = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def call(name: str, column: str, options: dict[str, str]) -> str:
    if name in _SIDES and options:
        return f"TRIM({_SIDES[name]} {sql(options['trimString'])} FROM {column})"
    given = [text if key in ("pos", "len", "idx", "days") else sql(text) for key, text in options.items()]
    made = f"{name}({', '.join([column, *given])})"
    whole = {"to_timestamp": "unix_micros", **dict.fromkeys(("to_date", "date_add", "date_sub"), "unix_date")}
    if name == "split":
        return f"to_json(named_struct('v', {made}))"
    return f"{whole[name]}({made})" if name in whole else made


def ours(case: Case, zone: str) -> list[Any]:
    name, column, options = case
    found = IndexFunction(name, options).apply(COLUMNS[column].combine_chunks(), zone)
    if pa.types.is_timestamp(found.type) or pa.types.is_date32(found.type):
        found = found.view(pa.int64() if pa.types.is_timestamp(found.type) else pa.int32())
    return list(found.to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", "Europe/Oslo"])
def test_values_are_those_of_spark(oracle: Oracle, tmp_path: Path, zone: str) -> None:
    pq.write_table(COLUMNS, tmp_path / "columns.parquet")
    # otherwise what Spark 2 parsed in another way, is an error
    oracle.sql("SET spark.sql.legacy.timeParserPolicy=CORRECTED")
    oracle.sql("SET spark.sql.parquet.datetimeRebaseModeInRead=CORRECTED")
    oracle.sql(f"SET spark.sql.session.timeZone={zone}")
    try:
        for at in range(0, len(CASES), 40):
            some = CASES[at : at + 40]
            columns = ", ".join(f"{call(*case)} AS c{number}" for number, case in enumerate(some))
            rows = oracle.sql(f"SELECT n, {columns} FROM parquet.`{tmp_path / 'columns.parquet'}` ORDER BY n")
            for number, case in enumerate(some):
                theirs = [row.get(f"c{number}") for row in rows]
                if case[0] == "split":
                    theirs = [None if text is None else json.loads(text).get("v") for text in theirs]
                if case[1] != "x":  # bytes have no JSON
                    assert ours(case, zone) == theirs, case
    finally:
        oracle.sql("RESET spark.sql.session.timeZone")
        oracle.sql("RESET spark.sql.legacy.timeParserPolicy")
        oracle.sql("RESET spark.sql.parquet.datetimeRebaseModeInRead")
