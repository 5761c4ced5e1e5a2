"""The functions of expression indexes: the values that Spark 3.5 computes. tests/oracle asks Spark itself."""

from __future__ import annotations

import datetime
import decimal
import pickle
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.expressions.functions import NAMES, IndexFunction, check_zone, filter_texts

OSLO = "Europe/Oslo"
UTC = datetime.timezone.utc
DAY = datetime.date(2024, 2, 29)
LOCAL = pa.timestamp("us")
INSTANT = pa.timestamp("us", "UTC")
EVE = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)


def values(name: str, given: Any, zone: str = "UTC", **options: str) -> list[Any]:
    """Those of the function; timestamps as microseconds, dates as days."""
    expression = pickle.loads(pickle.dumps(IndexFunction(name, {"expr": name, **options})))
    array = given if isinstance(given, pa.Array) else pa.array([given, None])
    assert not expression.check()
    assert not expression.check_column(array.type)
    found = expression.apply(array, zone)
    assert found.type == expression.result(array.type)
    for whole in (pa.int64(), pa.int32()):
        if pa.types.is_timestamp(found.type) or pa.types.is_date32(found.type):
            found = found.cast(whole) if found.type.bit_width == whole.bit_width else found
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("name", "options", "value", "expected"),
    [
        ("identity", {}, "x", "x"),
        ("lower", {}, "\u0130A\u03a3", "i\u0307a\u03c2"),
        ("upper", {}, "stra\u00dfe", "STRASSE"),
        ("lower", {}, 12, "12"),
        ("upper", {}, 1e10, "1.0E10"),
        ("lower", {}, True, "true"),
        ("trim", {}, "\t a ", "\t a"),
        ("ltrim", {"trimString": "xy"}, "yxaxy", "axy"),
        ("rtrim", {"trimString": "xy"}, "yxaxy", "yxa"),
        ("trim", {"trimString": ""}, " a ", " a "),
        ("length", {}, "a\U0001f388", 2),
        ("length", {}, b"\xc3\xa9", 2),
        ("substring", {"pos": "0", "len": "2"}, "abc", "ab"),
        ("substring", {"pos": "2", "len": "2147483647"}, "abc", "bc"),
        ("substring", {"pos": "-2", "len": "1"}, "a\U0001f388c", "\U0001f388"),
        ("substring", {"pos": "-5", "len": "3"}, "abc", "a"),
        ("substring", {"pos": "1", "len": "-1"}, "abc", ""),
        ("substring", {"pos": "-2", "len": "9"}, b"abc", b"bc"),
        ("regexp_replace", {"pattern": "a*", "replacement": "X"}, "baac", "XbXXcX"),
        ("regexp_replace", {"pattern": r"(\w)(\w)", "replacement": r"$2\$$10"}, "ab", "b$a0"),
        ("regexp_replace", {"pattern": "$", "replacement": "E"}, "a\r\n", "aE\r\nE"),
        ("regexp_replace", {"pattern": ".", "replacement": "."}, "a\u2028\n", ".\u2028\n"),
        ("regexp_replace", {"pattern": r"\Qa.\E+", "replacement": ""}, "aa..b", "ab"),
        ("regexp_extract", {"pattern": r"(\d+)-(?<to>\d+)", "idx": "2"}, "100-200", "200"),
        ("regexp_extract", {"pattern": "x|(y)", "idx": "1"}, "x", ""),
        ("regexp_extract", {"pattern": "(?i)[A-F\\d]+", "idx": "0"}, "zfF0g", "fF0"),
        ("split", {"pattern": "[1-9]+"}, "a12b3", ["a", "b", ""]),
        ("split", {"pattern": ""}, "ab", ["a", "b"]),
        ("year", {}, "-0044-03-15", -44),
        ("month", {}, DAY, 2),
        ("day", {}, " 2024-2-29 x", 29),
        ("date_add", {"days": "366"}, DAY, 20148),
        ("date_sub", {"days": "60"}, "2024-02-29T01", 19722),
        ("to_date", {}, "2023-02-29", None),
        ("to_date", {}, 2024, 19723),
        ("to_date", {"format": "MMM d, yyyy"}, "feb 29, 2024", 19782),
        ("to_date", {"format": "yyyyMMdd"}, "20240229", 19782),
        ("to_timestamp", {}, "1970-1-1 1:2:3.1234567+01:00", 123_123_456),
        ("to_timestamp", {}, 1.5, 1_500_000),
        ("to_timestamp", {}, decimal.Decimal("-1.50"), -1_500_000),
        ("to_timestamp", {"format": "y-M-d[ H]"}, "1970-1-1", 0),
        ("unix_timestamp", {}, "1970-01-02 00:00:00", 86400),
        ("unix_timestamp", {}, "1970-01-02", None),
        ("unix_timestamp", {}, EVE.replace(tzinfo=UTC), 0),
        ("to_timestamp", {}, 2**62, 2**63 - 1),
        ("to_timestamp", {}, -(2**62), -(2**63)),
        ("from_unixtime", {}, float("nan"), "1970-01-01 00:00:00"),
        ("from_unixtime", {}, float("inf"), "1969-12-31 23:59:59"),
        ("from_unixtime", {}, 1_700_000_000_000, "+55840-11-08 22:13:20"),
        ("from_unixtime", {}, 2**62, "1970-01-01 00:00:00"),
        ("from_unixtime", {"format": "yy/M EEE D QQQ 'o''clock' G"}, -1, "69/12 Wed 365 Q4 o'clock AD"),
        ("date_format", {"format": "yyyy-MM-dd'T'HH:mm:ss.SSSX"}, DAY, "2024-02-29T00:00:00.000Z"),
        ("date_format", {"format": "hh a K k"}, "2024-02-29 12:00:00", "12 PM 0 12"),
    ],
)
def test_values(name: str, options: dict[str, str], value: Any, expected: Any) -> None:
    assert values(name, value, **options) == [expected, None]


@pytest.mark.parametrize(
    ("name", "options", "given", "in_utc", "in_oslo"),
    [
        ("year", {}, pa.array([EVE.replace(tzinfo=UTC)], INSTANT), 1969, 1970),
        ("hour", {}, pa.array([EVE.replace(tzinfo=UTC)], INSTANT), 23, 0),
        ("to_date", {}, pa.array([EVE.replace(tzinfo=UTC)], INSTANT), -1, 0),
        ("from_unixtime", {"format": "HH XXX ZZZZ"}, pa.array([0]), "00 Z GMT", "01 +01:00 GMT+01:00"),
        ("unix_timestamp", {}, pa.array([DAY]), 1709164800, 1709161200),
        ("to_timestamp", {}, pa.array(["2024-03-31 02:30:00"]), 1711852200_000000, 1711848600_000000),
        ("to_timestamp", {}, pa.array(["2024-10-27 02:30:00"]), 1729996200_000000, 1729989000_000000),
        (
            "lower",
            {},
            pa.array([EVE.replace(tzinfo=UTC)], INSTANT),
            *("1969-12-31 23:59:59.999999", "1970-01-01 00:59:59.999999"),
        ),
    ],
)
def test_zones(name: str, options: dict[str, str], given: pa.Array, in_utc: Any, in_oslo: Any) -> None:
    assert IndexFunction(name, options).is_zoned(given.type)
    assert values(name, given, **options) == [in_utc]
    assert values(name, given, OSLO, **options) == [in_oslo]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("year", LOCAL), ("hour", LOCAL), ("to_date", pa.date32()), ("unix_timestamp", INSTANT), ("lower", pa.string())],
)
def test_what_depends_on_no_zone(name: str, kind: pa.DataType) -> None:
    assert not IndexFunction(name).is_zoned(kind)
    given = pa.array([EVE if pa.types.is_timestamp(kind) else None], LOCAL).cast(kind)
    assert values(name, given) == values(name, given, OSLO)


def test_empty_columns_and_those_of_nulls() -> None:
    needed = {
        "substring": {"pos": "1", "len": "1"},
        "regexp_replace": {"pattern": "a", "replacement": "b"},
        "regexp_extract": {"pattern": "a", "idx": "0"},
        "split": {"pattern": "a"},
        "date_format": {"format": "yyyy"},
        "date_add": {"days": "1"},
        "date_sub": {"days": "1"},
    }
    for name in NAMES:
        for rows in ([], [None, None]):
            assert values(name, pa.array(rows, pa.string()), **needed.get(name, {})) == rows


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("regexp_extract", {"pattern": r"\bx", "idx": "0"}, r"has \b, which is not supported"),
        ("regexp_extract", {"pattern": "[a&&b]", "idx": "0"}, "within [ ]"),
        ("regexp_extract", {"pattern": r"\p{L}", "idx": "0"}, r"has \p{L}"),
        ("regexp_extract", {"pattern": "(?m)x", "idx": "0"}, "has (?m)"),
        ("regexp_extract", {"pattern": "x{,2}", "idx": "0"}, "number of repetitions"),
        ("regexp_extract", {"pattern": "(x)", "idx": "2"}, "has no group 2"),
        ("regexp_replace", {"pattern": "x", "replacement": "$1"}, "names the group $1"),
        ("date_format", {"format": "yyyy{"}, "has {, which is reserved"),
        ("to_date", {"format": "EEE yyyy"}, "has EEE"),
        ("to_date", {"format": "yyyy yyyy"}, "more than one of the letters y"),
        ("date_add", {"days": "2147483648"}, "no whole number of 32 bits"),
    ],
)
def test_what_is_refused(name: str, options: dict[str, str], why: str) -> None:
    assert why in IndexFunction(name, options).check()


def test_equal_expressions() -> None:
    assert IndexFunction("trim", {"expr": "trim"}).same(IndexFunction("trim", {"trimString": " "}))
    assert not IndexFunction("trim").same(IndexFunction("ltrim"))
    assert not IndexFunction("date_add", {"days": "1"}).same(IndexFunction("date_add", {"days": "2"}))


def test_texts_in_filters() -> None:
    for given, expected in (
        (pa.array([0, 1_500_000, 60_000_000, None], LOCAL), ["1970-01-01T00:00", "1970-01-01T00:00:01.500"]),
        (pa.array([0, 1_500_000], INSTANT), ["1970-01-01 00:00:00.0", "1970-01-01 00:00:01.5"]),
        (pa.array([decimal.Decimal("0.00000010")]), ["1.0E-7"]),
        (pa.array([DAY]), ["2024-02-29"]),
        (pa.array([1.5, -0.0]), ["1.5", "-0.0"]),
        (pa.array([["a", "b"]]), ["WrappedArray(a, b)"]),
    ):
        assert filter_texts(given, "UTC").to_pylist()[: len(expected)] == expected


def test_zones_are_checked() -> None:
    check_zone("America/New_York")
    with pytest.raises(ValueError, match="there is no time zone 'Mars'"):
        check_zone("Mars")
