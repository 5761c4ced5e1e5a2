"""Dates of partition paths against those that Apache Hudi 1.2.0 made of the same values (`data/make_dates.py`)."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions.dates import DateRule
from hudi_py.expressions.dates.patterns import DateParser, DatePrinter

PREFIX = "hoodie.keygen.timebased."
RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).parent.joinpath("data", "dates.json").read_text())
for _each in RECORDED:
    if _each["options"]["timestamp.type"] == "DATE_STRING":  # years of more digits are refused here
        _each["values"] = [[value, text if text and text[4] == "-" else None] for value, text in _each["values"]]


def rule(**options: str) -> DateRule:
    return DateRule.of({PREFIX + name.replace("_", "."): text for name, text in options.items()})


def array(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.string() if any(isinstance(value, str) for value in values) else pa.int64())


def test_every_recorded_value_is_printed_as_by_apache_hudi() -> None:
    for each in RECORDED:
        made = DateRule.of({PREFIX + name: text for name, text in each["options"].items()})
        good = [pair for pair in each["values"] if pair[1] is not None]
        texts = made.texts(array([value for value, _ in good]), "t").to_pylist()
        assert list(zip((value for value, _ in good), texts, strict=True)) == [tuple(pair) for pair in good], each[
            "options"
        ]
        refused = array([value for value, text in each["values"] if text is None])
        fits = np.zeros(len(refused), np.bool_)
        for parser in made.parsers:
            parsed = parser.parse(refused)
            fits |= parsed.fit & parsed.exist
        for value in refused.filter(pa.array(fits)).to_pylist() + refused[:2].to_pylist():  # clocks skip some times
            with pytest.raises(SchemaMismatchError, match="Column 't' holds"):
                made.texts(array([value]), "t")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_texts_depend_on_their_value_alone(data: st.DataObject) -> None:
    each = data.draw(st.sampled_from(RECORDED))
    good = [pair for pair in each["values"] if pair[1] is not None]
    some = data.draw(st.lists(st.sampled_from(good), max_size=30))
    made = DateRule.of({PREFIX + name: text for name, text in each["options"].items()})
    values = array([value for value, _ in some]) if some else array([each["values"][0][0]])[:0]
    assert made.texts(values, "t").to_pylist() == [text for _, text in some]
    assert made.texts(values.dictionary_encode(), "t").to_pylist() == [text for _, text in some]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), min_size=1, max_size=20),
    st.sampled_from(
        ["yyyy-MM-dd'T'HH:mm:ss.SSS", "yyyyMMddHHmmssSSS", "d MMMM yyyy kk:mm:ss.SSS", "DDD/yyyy KK a mm ss SSS"]
    ),
)
def test_what_is_printed_is_parsed(times: list[datetime], pattern: str) -> None:
    local = np.array(times, "datetime64[ms]").astype(np.int64)
    printed = DatePrinter(pattern, "k").print(local, np.zeros_like(local))
    found = DateParser(pattern, "k").parse(printed)
    assert (found.fit & found.exist).all()
    assert found.local.tolist() == local.tolist()


def test_numbers_of_all_types_count_in_whole_units() -> None:
    seconds = rule(timestamp_type="UNIX_TIMESTAMP", output_dateformat="HHmmss", timezone="UTC")
    for values in (
        pa.array([61.9, -61.9, float("nan"), None]),
        pa.array([61.5, -61.5, 0.5, None], pa.float32()),
        pa.array([Decimal("61.99"), Decimal("-61.99"), Decimal("0.99"), None], pa.decimal128(10, 2)),
        pa.array([61, -61, 0, None], pa.int32()),
    ):
        assert seconds.texts(values, "t").to_pylist() == ["000101", "235859", "000000", "000001"]


def test_dates_count_as_days_and_timestamps_as_microseconds() -> None:
    time = datetime(2024, 1, 2, 3, 4, 5, 678901, timezone.utc)
    days = rule(
        timestamp_type="SCALAR", timestamp_scalar_time_unit="DAYS", output_dateformat="yyyyMMdd", timezone="UTC"
    )
    assert days.texts(pa.array([time.date(), None]), "t").to_pylist() == ["20240102", "19700102"]
    micros = rule(timestamp_type="EPOCHMICROSECONDS", output_dateformat="HHmmss.SSS", timezone="UTC")
    assert micros.texts(pa.array([time]), "t").to_pylist() == ["030405.678"]


def test_without_zones_that_of_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    numbers = rule(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy-MM-dd HH ZZ")
    texts = rule(
        timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-dd,yyyy-MM-ddZ", output_dateformat="yyyy-MM-dd HH ZZ"
    )
    monkeypatch.setenv("TZ", "UTC")  # as in another process of the write
    assert numbers.texts(pa.array([0]), "t").to_pylist() == ["1970-01-01 09 +09:00"]
    assert texts.texts(pa.array(["2020-01-01", "2020-01-01Z"]), "t").to_pylist() == [
        "2020-01-01 00 +09:00",
        "2020-01-01 00 +00:00",
    ]


def test_the_least_number_of_nanoseconds() -> None:
    """`Long.MIN_VALUE` has no magnitude; Apache Hudi 1.2.0 wrote 1677-09-21 for it."""
    made = rule(timestamp_type="SCALAR", timestamp_scalar_time_unit="nanoseconds", output_dateformat="yyyy-MM-dd")
    values = pa.array([-(2**63), -(2**63) + 1, -1_000_001, -1_000_000, -999_999, 2**63 - 1])
    assert made.texts(values, "t").to_pylist() == ["1677-09-21"] * 2 + ["1969-12-31"] * 2 + ["1970-01-01", "2262-04-11"]


def test_the_first_pattern_that_a_text_has_the_form_of_decides() -> None:
    """Apache Hudi 1.2.0 refuses the 94th of November of the year 6 rather than take it for the 11th of June 1994."""
    made = rule(timestamp_type="DATE_STRING", input_dateformat="yyyy/MM/dd,MM/dd/yy,yyyy-MM", output_dateformat="yyyy")
    assert made.texts(pa.array(["06/11/04", "2024-05", "2024/01/02"]), "t").to_pylist() == ["0006", "2024", "2024"]
    with pytest.raises(SchemaMismatchError, match="holds '06/11/94'.*the pattern is yyyy/MM/dd "):
        made.texts(pa.array(["2024-05", "06/11/94"]), "t")


def test_old_names_of_options_count() -> None:
    old = "hoodie.deltastreamer.keygen.timebased."
    made = DateRule.of(
        {old + "timestamp.type": "UNIX_TIMESTAMP", old + "output.dateformat": "yyyy", old + "timezone": "UTC"}
    )
    assert made.texts(pa.array([0]), "t").to_pylist() == ["1970"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timestamp_type": "unix_timestamp"}, "which is 'unix_timestamp'; expected one of UNIX_TIMESTAMP"),
        ({"output_dateformat": ""}, r"needs hoodie\.keygen\.timebased\.output\.dateformat"),
        ({"output_dateformat": "yyyy-uu"}, "'yyyy-uu' has uu, which is not supported; supported: C Y y x w M"),
        ({"output_dateformat": "yyyy zzz"}, "has zzz, which is not supported"),
        ({"output_dateformat": "HH ZZZ"}, "has ZZZ, which is not supported"),
        ({"timezone": "EST"}, "timezone = 'EST' is not a supported time zone"),
        ({"output_timezone": "Mars/Olympus"}, "output.timezone = 'Mars/Olympus' is not a supported time zone"),
        ({"timestamp_type": "SCALAR", "timestamp_scalar_time_unit": "weeks"}, "'WEEKS' is not one of NANOSECONDS"),
        ({"timestamp_type": "DATE_STRING"}, r"with the type DATE_STRING needs .*input\.dateformat"),
        ({"timestamp_type": "MIXED", "input_dateformat": "MM-dd"}, "'MM-dd' has no year"),
        ({"timestamp_type": "MIXED", "input_dateformat": "yyyy EEE"}, "has EEE, which is not supported"),
        ({"timestamp_type": "MIXED", "input_dateformat": "yyyy-MM-dd HH hh"}, "more than one of the letters H h K k"),
        (
            {"timestamp_type": "MIXED", "input_dateformat": "yyyy", "input_dateformat_list_delimiter_regex": "("},
            "is not a valid pattern",
        ),
    ],
)
def test_what_is_not_supported_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rule(**{"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyy", **options})


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (pa.array(["2020"]), ConfigError, "type string cannot be a partition value of a timestamp key generator"),
        (pa.array([True]), ConfigError, "type bool cannot be a partition value"),
        (pa.array([253_402_300_800]), SchemaMismatchError, "holds 253402300800, .* its year is not one of 1 to 9999"),
        (pa.array([2**62]), SchemaMismatchError, "its year is not one of 1 to 9999"),
        (pa.array([1e300]), SchemaMismatchError, "holds '1e[+]300'"),
    ],
)
def test_columns_and_values_that_are_no_times(values: pa.Array, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rule(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy", timezone="UTC").texts(values, "t")


def test_texts_are_needed_where_dates_are_texts() -> None:
    texts = rule(timestamp_type="DATE_STRING", input_dateformat="yyyy", output_dateformat="yyyy", timezone="UTC")
    with pytest.raises(ConfigError, match="type int64 .* DATE_STRING or MIXED; supported: texts"):
        texts.texts(pa.array([2020]), "t")
