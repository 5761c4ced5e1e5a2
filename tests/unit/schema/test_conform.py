from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.schema import META_FIELDS, conform, with_meta, without_meta


def column(array: pa.Array, target: pa.DataType) -> pa.Array:
    batch = conform(pa.record_batch({"c": array}), pa.schema([("c", target)]))
    batch.validate(full=True)
    assert batch.schema.field("c").type == target
    return batch.column(0)


def test_columns_are_matched_by_name_and_missing_ones_are_null() -> None:
    batch = pa.record_batch({"b": [1, 2], "extra": ["x", "y"], "a": ["p", "q"]})
    target = pa.schema([("a", pa.string()), ("new", pa.decimal128(5, 2)), ("b", pa.int64())])
    result = conform(batch, target)
    assert result.schema == target
    assert result.to_pydict() == {"a": ["p", "q"], "new": [None, None], "b": [1, 2]}


def test_same_schema_is_passed_through() -> None:
    batch = pa.record_batch({"a": [1]})
    assert conform(batch, batch.schema) is batch


def test_rows_are_kept_without_columns() -> None:
    assert conform(pa.record_batch({"a": [1, 2, 3]}), pa.schema([])).num_rows == 3


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None], pa.int32(), pa.int64(), [1, None]),
        ([1, None], pa.int32(), pa.float64(), [1.0, None]),
        ([2**62], pa.int64(), pa.float32(), [float(2**62)]),
        ([-5, None], pa.int64(), pa.string(), ["-5", None]),
        ([0.1, None, float("nan")], pa.float32(), pa.string(), ["0.1", None, "NaN"]),
        ([1e10, 100.0, 1e-5, -0.0, 1e7], pa.float64(), pa.string(), ["1.0E10", "100.0", "1.0E-5", "-0.0", "1.0E7"]),
        ([0.1, None], pa.float32(), pa.float64(), [0.1, None]),
        ([b"x", None], pa.binary(), pa.string(), ["x", None]),
        (["x", None], pa.string(), pa.binary(), [b"x", None]),
        (["x", None], pa.large_string(), pa.string(), ["x", None]),
        ([datetime.date(2024, 2, 29)], pa.date32(), pa.string(), ["2024-02-29"]),
        ([7], pa.timestamp("ms"), pa.timestamp("us", "UTC"), None),
        ([7000], pa.timestamp("ns"), pa.timestamp("us"), None),
    ],
)
def test_promotions(
    values: list[object], source: pa.DataType, target: pa.DataType, expected: list[object] | None
) -> None:
    result = column(pa.array(values, source), target)
    if expected is None:
        assert result.cast(pa.int64()).to_pylist() == [7000 if source.unit == "ms" else 7]
    else:
        assert result.to_pylist() == expected


def test_decimals_widen_but_never_narrow() -> None:
    source = pa.array([None, 1], pa.int32()).cast(pa.decimal128(10, 0)).cast(pa.decimal128(12, 2))
    assert column(source, pa.decimal128(20, 4)).to_pylist()[1] == 1
    with pytest.raises(SchemaMismatchError, match=r"decimal128\(12, 2\)"):
        column(source, pa.decimal128(12, 3))


@pytest.mark.parametrize(
    ("source", "target"),
    [(pa.int64(), pa.int32()), (pa.string(), pa.int64()), (pa.float64(), pa.int64()), (pa.bool_(), pa.string())],
)
def test_other_changes_are_refused(source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"Column 'c' of part/f.parquet is .* cannot be read as"):
        conform(pa.record_batch({"c": pa.nulls(1, source)}), pa.schema([("c", target)]), context="part/f.parquet")


@pytest.mark.parametrize(("start", "length"), [(0, 3), (1, 2), (1, 1), (2, 0)])
def test_nested_columns_evolve_inside_slices(start: int, length: int) -> None:
    member = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.field("array", pa.struct([("q", pa.int32())]))))])
    rows = [{"x": 1, "l": [{"q": 1}, None]}, None, {"x": None, "l": []}]
    maps = [[("a", 1)], None, [("b", None)]]
    batch = pa.record_batch({"s": pa.array(rows, member), "m": pa.array(maps, pa.map_(pa.string(), pa.int32()))})
    wide = pa.struct(
        [("new", pa.string()), ("l", pa.list_(pa.struct([("q", pa.int64()), ("w", pa.date32())]))), ("x", pa.string())]
    )
    result = conform(batch.slice(start, length), pa.schema([("s", wide), ("m", pa.map_(pa.string(), pa.int64()))]))
    result.validate(full=True)
    expected = [
        {"new": None, "l": [{"q": 1, "w": None}, None], "x": "1"},
        None,
        {"new": None, "l": [], "x": None},
    ]
    assert result.column(0).to_pylist() == expected[start : start + length]
    assert result.column(1).to_pylist() == maps[start : start + length]


def test_meta_columns_come_first_once() -> None:
    schema = with_meta(pa.schema([("id", pa.int64()), ("_hoodie_commit_time", pa.string())]))
    assert schema.names == [*META_FIELDS, "id"]
    assert without_meta(schema).names == ["id"]


@pytest.mark.parametrize(
    ("values", "source", "expected"),
    [
        ([1, -1, None, 10**8], pa.int32(), ["1.00", "-1.00", None, None]),
        ([2**53 + 1], pa.int64(), [None]),
        (
            [1.125, 2.5, 1e300, float("nan"), float("-inf"), -0.005],
            pa.float64(),
            ["1.13", "2.50", None, None, None, "-0.01"],
        ),
        ([1.1, 3.455], pa.float32(), ["1.10", "3.46"]),
        ([" 12.345", "1e2", "junk", "", "NaN", None], pa.string(), ["12.35", "100.00", None, None, None, None]),
    ],
)
def test_numbers_and_texts_as_decimals(values: list[object], source: pa.DataType, expected: list[str | None]) -> None:
    result = column(pa.array(values, source), pa.decimal128(10, 2))
    assert [None if value is None else str(value) for value in result.to_pylist()] == expected


def test_texts_as_dates() -> None:
    texts = ["2024-02-29", " 2024-2-9 ", "2024", "2024-02-30", "junk", None, "2024-01-02T03:04"]
    day = datetime.date
    assert column(pa.array(texts), pa.date32()).to_pylist() == [
        day(2024, 2, 29),
        day(2024, 2, 9),
        day(2024, 1, 1),
        None,
        None,
        None,
        day(2024, 1, 2),
    ]


def test_timestamps_as_texts() -> None:
    values = [0, 1_500_000, 1, None, -1]
    expected = [
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:01.5",
        "1970-01-01 00:00:00.000001",
        None,
        "1969-12-31 23:59:59.999999",
    ]
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        assert column(pa.array(values, pa.int64()).cast(kind), pa.string()).to_pylist() == expected
