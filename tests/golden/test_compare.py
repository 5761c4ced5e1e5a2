"""The comparison itself: what it takes for equal, and what not."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.testing.rows import assert_rows_equal

NESTED = pa.struct([("a", pa.list_(pa.timestamp("us", "UTC"))), ("m", pa.map_(pa.string(), pa.float64()))])
AT = datetime(2024, 3, 31, 1, 30, tzinfo=timezone.utc)


def one(value: Any, kind: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(value, kind)})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (one([1, 2, None], pa.int32()), one([None, 2, 1], pa.int32())),
        (one([math.nan], pa.float64()), one([-math.nan], pa.float64())),
        (one([AT], pa.timestamp("us", "Europe/Madrid")), one([AT], pa.timestamp("us", "UTC"))),
        (one([AT], pa.timestamp("ms", "UTC")), one([AT], pa.timestamp("us", "+00:00"))),
        (one(["a"], pa.large_string()), one(["a"], pa.string())),
        (one(["a", None], pa.dictionary(pa.int32(), pa.string())), one([None, "a"], pa.string())),
        (
            one([[("k", 1), ("j", 2)]], pa.map_(pa.string(), pa.int32())),
            one([[("j", 2), ("k", 1)]], pa.map_(pa.string(), pa.int32())),
        ),
        (one([[1]], pa.list_(pa.field("item", pa.int32()))), one([[1]], pa.list_(pa.field("element", pa.int32())))),
        (one([-(2**62)], pa.timestamp("us")), one([-(2**62)], pa.timestamp("us"))),
    ],
)
def test_equal(ours: pa.Table, theirs: pa.Table) -> None:
    assert_rows_equal(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (one([1, 1, 2], pa.int32()), one([1, 2, 2], pa.int32()), "rows differ"),
        (one([1], pa.int32()), one([1, 1], pa.int32()), "rows differ: 1 rows, expected 2"),
        (one([1], pa.int32()), one([1], pa.int64()), "types differ: x: int32, expected int64"),
        (one([0.0], pa.float64()), one([-0.0], pa.float64()), "rows differ"),
        (one([None], pa.string()), one([""], pa.string()), "rows differ"),
        (
            one([AT], pa.timestamp("us", "UTC")),
            one([AT + timedelta(microseconds=1)], pa.timestamp("us", "UTC")),
            "rows differ",
        ),
        (one([AT], pa.timestamp("us", "UTC")), one([AT.replace(tzinfo=None)], pa.timestamp("us")), "types differ"),
        (one([Decimal("1.0")], pa.decimal128(5, 1)), one([Decimal("1.00")], pa.decimal128(5, 2)), "types differ"),
        (
            one([{"a": [AT, None], "m": [("k", 1.0)]}], NESTED),
            one([{"a": [AT], "m": [("k", 1.0)]}], NESTED),
            "rows differ",
        ),
        (
            one([{"a": [AT], "m": [("k", math.nan)]}], NESTED),
            one([{"a": [AT], "m": [("k", 1.0)]}], NESTED),
            "rows differ",
        ),
        (one([{"a": None, "m": None}], NESTED), one([None], NESTED), "rows differ"),
        (pa.table({"x": [1], "y": [1]}), one([1], pa.int64()), r"unexpected \['y'\]"),
        (pa.table({"y": [1]}), one([1], pa.int64()), r"missing \['x'\]"),
    ],
)
def test_different(ours: pa.Table, theirs: pa.Table, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_rows_equal(ours, theirs)


def test_columns_that_depend_on_the_reader_are_left_out() -> None:
    ours = pa.table({"x": [1], "_hoodie_file_name": ["a"]})
    assert_rows_equal(ours, pa.table({"x": [1], "_hoodie_file_name": ["b"]}))
    with pytest.raises(AssertionError, match="rows differ"):
        assert_rows_equal(ours, pa.table({"x": [1], "_hoodie_file_name": ["b"]}), ignore=())
