"""Ranges of columns: which columns, of rows, of footers, put together."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_py.errors import SchemaMismatchError
from hudi_py.file_stats.columns import IndexedColumn, ValueType, indexed_columns
from hudi_py.file_stats.footers import footer_ranges, written_ranges
from hudi_py.file_stats.ranges import ColumnRanges, column_ranges, promoted, widest
from hudi_py.formats.base.parquet_writer import BaseFileWriter, FileLayout
from hudi_py.storage.memory import MemoryStorage

D = decimal.Decimal
NAN = float("nan")


def shown(ranges: ColumnRanges) -> dict[str, tuple[Any, Any, int, int]]:
    """Column to low, high, values and nulls; floats as texts, so that NaN and the zeros can be told apart."""

    def bound(struct: dict[str, Any] | None) -> Any:
        told = [value for value in (struct or {}).values() if value is not None]
        value = told[0] if told else None
        if isinstance(value, float):
            return str(value)
        return int(value) if isinstance(value, D) else value

    return {
        row["column"]: (bound(row["low"]), bound(row["high"]), row["values"], row["nulls"])
        for row in ranges.rows.to_pylist()
    }


def record(*fields: tuple[str, Any]) -> str:
    return json.dumps(
        {
            "type": "record",
            "name": "r",
            "namespace": "hoodie.r",
            "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields],
        }
    )


def fixed(name: str, precision: int, scale: int) -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": name,
        "size": 16,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


INNER = {
    "type": "record",
    "name": "st",
    "namespace": "hoodie.r",
    "fields": [{"name": "x", "type": "int"}, {"name": "day", "type": {"type": "int", "logicalType": "date"}}],
}
SCHEMA = record(
    ("id", "string"),
    ("n", "long"),
    ("d", fixed("a", 30, 15)),
    ("wide", fixed("b", 38, 10)),
    ("list", {"type": "array", "items": "int"}),
    ("map", {"type": "map", "values": "int"}),
    ("kind", {"type": "enum", "name": "e", "symbols": ["A"]}),
    ("st", INNER),
    ("again", "st"),
    ("t", {"type": "long", "logicalType": "timestamp-millis"}),
    ("u", ["int", "string"]),
    ("raw", "bytes"),
)


def names(columns: tuple[IndexedColumn, ...]) -> list[str]:
    return [column.name for column in columns]


META = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"]


def test_first_columns_of_types_with_an_order() -> None:
    assert names(indexed_columns(SCHEMA)) == [*META, "id", "n", "d", "wide", "t", "raw"]
    assert names(indexed_columns(SCHEMA, limit=2)) == [*META, "id", "n"]
    assert names(indexed_columns(SCHEMA, meta_columns=False, limit=1)) == ["id"]
    assert names(indexed_columns("")) == META


def test_version_one_holds_no_wide_decimals() -> None:
    assert "wide" not in names(indexed_columns(SCHEMA, index_version=1))
    assert "d" in names(indexed_columns(SCHEMA, index_version=1))


def test_named_columns() -> None:
    asked = ("raw", "st.x", "again.day", "list", "no.such", "n", "_hoodie_record_key", "_hoodie_commit_seqno", "st")
    found = indexed_columns(SCHEMA, names=asked)
    assert names(found) == [*META, "raw", "st.x", "again.day", "n", "_hoodie_commit_seqno"]
    kinds = {column.name: column.type for column in found}
    assert (kinds["st.x"], kinds["again.day"]) == (ValueType.INT, ValueType.DATE)
    decimals = indexed_columns(SCHEMA, names=("d",), meta_columns=False)[0]
    assert (decimals.type, decimals.detail) == (ValueType.DECIMAL, "30,15")


def test_a_schema_must_be_a_record() -> None:
    with pytest.raises(SchemaMismatchError):
        indexed_columns('"int"')


COLUMNS = [
    IndexedColumn("b", ValueType.BOOLEAN),
    IndexedColumn("i", ValueType.INT),
    IndexedColumn("f", ValueType.FLOAT),
    IndexedColumn("z", ValueType.DOUBLE),
    IndexedColumn("s", ValueType.STRING),
    IndexedColumn("raw", ValueType.BYTES),
    IndexedColumn("d", ValueType.DECIMAL, 38, 10),
    IndexedColumn("day", ValueType.DATE),
    IndexedColumn("ts", ValueType.TIMESTAMP_MICROS),
    IndexedColumn("ms", ValueType.TIMESTAMP_MILLIS),
    IndexedColumn("st.x", ValueType.INT),
    IndexedColumn("none", ValueType.STRING),
    IndexedColumn("absent", ValueType.LONG),
]
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.timezone.utc)
ROWS = pa.RecordBatch.from_pydict(
    {
        "b": pa.array([True, None, False]),
        "i": pa.array([5, -7, None], pa.int16()),
        "f": pa.array([0.1, NAN, None], pa.float32()),
        "z": pa.array([0.0, -0.0, 0.0]),
        "s": pa.array(["\uffee", "\U0001f600", "z"]).dictionary_encode(),
        "raw": pa.array([b"\x7f", b"\x80", b""]),
        "d": pa.array([D("1.5"), D("-1234567890123456789012345678.5"), None], pa.decimal128(38, 10)),
        "day": pa.array([dt.date(1582, 10, 10), dt.date(9999, 12, 31), None]),
        "ts": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
        "ms": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
        "st": pa.array([{"x": 3}, None, {"x": None}], pa.struct([("x", pa.int32())])),
        "none": pa.nulls(3, pa.string()),
    }
)
EXPECTED = {
    "b": (0, 1, 3, 1),
    "i": (-7, 5, 3, 1),
    "f": (str(float(pa.scalar(0.1, pa.float32()).as_py())), "nan", 3, 1),
    "z": ("-0.0", "0.0", 3, 0),
    "s": ("z", "\U0001f600", 3, 0),
    "raw": (b"", b"\x80", 3, 0),
    "d": (-12345678901234567890123456785000000000, 15000000000, 3, 1),
    "day": (-141432, 2932896, 3, 1),
    "ts": (-1, -1, 3, 2),
    "ms": (-1, -1, 3, 2),
    "st.x": (3, 3, 3, 2),
    "none": (None, None, 3, 3),
    "absent": (None, None, 3, 3),
}


def test_ranges_of_rows() -> None:
    found = column_ranges(ROWS, COLUMNS)
    assert shown(found) == EXPECTED
    assert shown(column_ranges(iter([ROWS.slice(0, 1), ROWS.slice(1)]), COLUMNS)) == EXPECTED
    assert shown(pickle.loads(pickle.dumps(found))) == EXPECTED


def test_ranges_of_no_rows_tell_no_type() -> None:
    found = column_ranges(ROWS.slice(0, 0), COLUMNS)
    assert set(found.rows["type"].to_pylist()) == {int(ValueType.NULL)}
    assert set(shown(found).values()) == {(None, None, 0, 0)}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.none() | st.floats(width=32)), min_size=1, max_size=4), st.data())
def test_parts_put_together_are_the_whole(parts: list[list[float | None]], data: Any) -> None:
    texts = [data.draw(st.lists(st.none() | st.text(), min_size=len(part), max_size=len(part))) for part in parts]
    columns = [IndexedColumn("f", ValueType.FLOAT), IndexedColumn("s", ValueType.STRING)]
    batches = [
        pa.RecordBatch.from_pydict({"f": pa.array(part, pa.float32()), "s": pa.array(text, pa.string())})
        for part, text in zip(parts, texts, strict=True)
    ]
    merged = ColumnRanges.merged([column_ranges(batch, columns) for batch in batches], columns)
    assert shown(merged) == shown(column_ranges(batches, columns))


def test_types_are_promoted_when_put_together() -> None:
    old = column_ranges(
        pa.RecordBatch.from_pydict(
            {"a": pa.array([1, 2], pa.int32()), "f": pa.array([0.1], pa.float32()).take([0, 0])}
        ),
        [IndexedColumn("a", ValueType.INT), IndexedColumn("f", ValueType.FLOAT)],
    )
    new_columns = [IndexedColumn("f", ValueType.DOUBLE), IndexedColumn("a", ValueType.LONG)]
    new = column_ranges(pa.RecordBatch.from_pydict({"a": [2**40], "f": [0.5]}), new_columns)
    merged = ColumnRanges.merged([old, new], new_columns)
    assert shown(merged) == {"f": ("0.1", "0.5", 3, 0), "a": (1, 2**40, 3, 0)}
    assert list(shown(merged)) == ["f", "a"]
    assert merged.rows["type"].to_pylist() == [int(ValueType.DOUBLE), int(ValueType.LONG)]


def test_decimals_are_rescaled_and_what_has_no_order_in_common_is_wide() -> None:
    narrow, wide = IndexedColumn("d", ValueType.DECIMAL, 5, 2), IndexedColumn("d", ValueType.DECIMAL, 9, 4)
    assert promoted(-125, 150, narrow, wide) == (-12500, 15000)
    assert promoted(-12501, 15001, wide, narrow) == (-126, 151)
    number, text = IndexedColumn("n", ValueType.INT), IndexedColumn("n", ValueType.STRING)
    assert promoted(9, 10, number, text) == widest(text)
    millis, micros = IndexedColumn("t", ValueType.TIMESTAMP_MILLIS), IndexedColumn("t", ValueType.TIMESTAMP_MICROS)
    assert promoted(-1, 1, millis, micros) == (-1000, 1000)
    assert promoted(-1001, 1001, micros, millis) == (-2, 2)


@pytest.mark.parametrize("kind", [kind for kind in ValueType if kind not in (ValueType.V1, ValueType.NULL)])
def test_every_type_has_widest_bounds(kind: ValueType) -> None:
    low, high = widest(IndexedColumn("x", kind, 5, 2))
    assert low is not None
    assert high is not None


def written(table: pa.Table, **options: Any) -> MemoryStorage:
    storage = MemoryStorage()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    storage.put("t/a.parquet", sink.getvalue().to_pybytes())
    return storage


def test_footers_tell_the_same_as_rows() -> None:
    storage = written(pa.Table.from_batches([ROWS]), row_group_size=2)
    found = shown(footer_ranges(storage, "t/a.parquet", COLUMNS))
    # zeros of both signs are within a footer's range anyway, and an absent column has none
    expected = {name: row for name, row in EXPECTED.items() if name != "absent"}
    assert found == expected


def test_types_are_those_of_the_file() -> None:
    table = pa.table({"a": pa.array([1], pa.int32()), "d": pa.array([D("1.25")], pa.decimal128(5, 2))})
    asked = [IndexedColumn("a", ValueType.LONG), IndexedColumn("d", ValueType.DECIMAL, 9, 4)]
    rows = footer_ranges(written(table), "t/a.parquet", asked).rows.to_pylist()
    assert [(row["type"], row["detail"]) for row in rows] == [(3, None), (10, "5,2")]
    assert all(row["size"] > 0 and row["raw_size"] > 0 for row in rows)


def test_nulls_of_numbers_have_javas_default_bounds() -> None:
    table = pa.table({"i": pa.nulls(2, pa.int32()), "s": pa.nulls(2, pa.string()), "z": pa.nulls(2, pa.float64())})
    asked = [IndexedColumn(name, ValueType.NULL) for name in "isz"]
    found = shown(footer_ranges(written(table), "t/a.parquet", asked))
    assert found == {"i": (0, 0, 2, 2), "s": (None, None, 2, 2), "z": ("0.0", "0.0", 2, 2)}


@pytest.mark.parametrize("values", [[1.0, NAN, -3.0], [NAN], [NAN, None], [0.0], [-0.0, 5.0]])
@pytest.mark.parametrize("told", [True, False])
def test_nan_is_found_though_footers_leave_it_out(values: list[float | None], told: bool) -> None:
    storage = written(pa.table({"x": pa.array(values, pa.float64())}))
    there = {"x"} if any(value is not None and math.isnan(value) for value in values) else set()
    asked = [IndexedColumn("x", ValueType.DOUBLE)]
    low, high, _, _ = shown(footer_ranges(storage, "t/a.parquet", asked, nan=there if told else None))["x"]
    assert (high == "nan") == bool(there)
    assert (low == "nan") == all(value is None or math.isnan(value) for value in values)
    if low == "0.0":
        pytest.fail("a zero as the least value is negative, in case that of the other sign is looked for")


def test_long_texts_are_read() -> None:
    table = pa.table({"s": ["a" * 5000, "b" * 5000], "short": ["x", "y"]})
    asked = [IndexedColumn("s", ValueType.STRING), IndexedColumn("short", ValueType.STRING)]
    found = shown(footer_ranges(written(table), "t/a.parquet", asked))
    assert found == {"s": ("a" * 5000, "b" * 5000, 2, 0), "short": ("x", "y", 2, 0)}


def test_files_without_statistics_are_read() -> None:
    storage = written(pa.Table.from_batches([ROWS]), write_statistics=False, use_deprecated_int96_timestamps=True)
    found = shown(footer_ranges(storage, "t/a.parquet", COLUMNS))
    expected = {name: row for name, row in EXPECTED.items() if name != "absent"}
    # the type is that of INT96, in microseconds
    assert found == {**expected, "ms": (-1, -1, 3, 2)}


def test_ranges_of_a_file_as_it_is_written() -> None:
    storage = MemoryStorage()
    data = ROWS.append_column("long", pa.array(["a" * 5000, None, "b"])).append_column(
        "fs", pa.array([{"y": NAN}, {"y": 1.0}, None], pa.struct([("y", pa.float64())]))
    )
    asked = [*COLUMNS[:-1], IndexedColumn("long", ValueType.STRING), IndexedColumn("fs.y", ValueType.DOUBLE)]
    with BaseFileWriter(
        storage, "t/a.parquet", data.schema, "{}", bloom=None, layout=FileLayout(row_group_bytes=100)
    ) as writer:
        writer.write(data)
        summary = writer.close()
    assert summary.metadata is not None
    assert summary.nan == {"f", "fs.y"}
    told = written_ranges(storage, "t/a.parquet", summary.metadata, asked, summary.nan)
    assert shown(told) == shown(footer_ranges(storage, "t/a.parquet", asked))
    assert pq.read_metadata(pa.BufferReader(storage.read("t/a.parquet"))).metadata[b"hudi_py.nan_columns"] == b"f,fs.y"
    assert shown(told)["fs.y"] == ("1.0", "nan", 3, 1)
    assert shown(told)["long"] == ("a" * 5000, "b", 3, 1)
