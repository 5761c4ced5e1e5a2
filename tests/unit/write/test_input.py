"""What callers hand over arrives as record batches in table types."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.write.input import BATCH_ROWS, Input, normalise_type, null_columns, read_input

TABLE = pa.table({"k": [1, 2, 3], "s": ["a", None, "c"]})


def rows(source: Input) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pa.Table.from_batches(list(source.batches()), source.schema).to_pylist()
    return found


class Stream:
    """An object with nothing but the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    ("data", "replayable"),
    [
        (TABLE, True),
        (TABLE.to_batches()[0], True),
        (TABLE.to_pylist(), True),
        (Array(), True),
        (TABLE.to_reader(), False),
        (Stream(), False),
        (ds.dataset(TABLE), True),
        (ds.dataset(TABLE).scanner(), False),
    ],
    ids=["table", "batch", "dicts", "c array", "reader", "c stream", "dataset", "scanner"],
)
def test_every_source_gives_the_same_rows(data: object, replayable: bool) -> None:
    source = read_input(data)
    assert source.replayable is replayable
    assert rows(source) == TABLE.to_pylist()
    if replayable:
        assert rows(source) == TABLE.to_pylist()


def test_pandas_without_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": [1, 2], "t": pandas.to_datetime(["2024-01-01", "2024-01-02"])}, index=[7, 9])
    source = read_input(frame)
    assert source.schema == pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])
    assert rows(source)[1] == {"k": 2, "t": datetime(2024, 1, 2)}


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    source = read_input(polars.DataFrame({"k": [1, 2], "s": ["a", "b"]}))
    assert source.schema == pa.schema([("k", pa.int64()), ("s", pa.string())])
    assert [row["s"] for row in rows(source)] == ["a", "b"]


def test_meta_columns_are_left_out() -> None:
    table = TABLE.append_column("_hoodie_commit_time", pa.array(["1", "2", "3"]))
    assert read_input(table).schema.names == ["k", "s"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.decimal256(20, 3), pa.decimal128(20, 3)),
        (pa.large_list(pa.int16()), pa.list_(pa.field("element", pa.int32()))),
        (pa.list_(pa.float32(), 3), pa.list_(pa.field("element", pa.float32()))),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("a", pa.uint8())]), pa.struct([("a", pa.int32())])),
    ],
)
def test_types_are_widened_to_those_of_tables(kind: pa.DataType, expected: pa.DataType) -> None:
    assert normalise_type(kind, "c") == expected
    empty = pa.table({"c": pa.array([], kind), "k": pa.array([], pa.int64())})
    assert read_input(empty).schema.field("c").type == expected


@pytest.mark.parametrize(
    "kind",
    [pa.uint64(), pa.duration("s"), pa.decimal256(60, 2), pa.decimal128(5, -2), pa.map_(pa.int64(), pa.int64())],
)
def test_other_types_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"Column 'c\.x' has the type .* which no Hudi table can hold"):
        read_input(pa.table({"c": pa.array([], pa.struct([("x", kind)]))}))


@pytest.mark.parametrize("name", ["variant", "geography", "geometry"])
def test_types_that_spark_hands_on_as_structs_are_refused_by_name(name: str) -> None:
    marked = pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={name: "true"})])
    with pytest.raises(SchemaMismatchError, match=rf"Column 'c\.x' has Spark's type {name}, which cannot"):
        read_input(pa.table({"c": pa.array([], pa.struct([("x", marked)]))}))


def test_values_are_cast_and_kept() -> None:
    table = pa.table(
        {
            "d": pa.array(["x", None, "x"]).dictionary_encode(),
            "t": pa.array([datetime(2024, 1, 1, tzinfo=timezone.utc)] * 3, pa.timestamp("ms", "Asia/Tokyo")),
            "l": pa.array([[1], None, [2, None]], pa.large_list(pa.int16())),
            "n": pa.array([Decimal("1.5")] * 3, pa.decimal256(10, 2)),
        }
    )
    assert rows(read_input(table))[2] == {
        "d": "x",
        "t": datetime(2024, 1, 1, tzinfo=timezone.utc),
        "l": [2, None],
        "n": Decimal("1.50"),
    }


def test_a_timestamp_finer_than_microseconds_is_refused_not_cut() -> None:
    table = pa.table({"t": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(SchemaMismatchError, match=r"Column 't' of type timestamp\[ns\].*round it first"):
        list(read_input(table).batches())


def test_columns_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="'K' occurs more than once"):
        read_input(pa.table({"k": [1], "K": [2]}))


@pytest.mark.parametrize("data", [None, 3, "rows", [1, 2], {"k": [1]}])
def test_what_has_no_rows_is_refused(data: object) -> None:
    with pytest.raises(SchemaMismatchError, match="Cannot read rows from"):
        read_input(data)


def test_null_columns_wait_for_the_table() -> None:
    source = read_input([{"k": 1, "x": None}])
    assert null_columns(source.schema) == ["x"]


def test_large_batches_are_cut() -> None:
    source = read_input(pa.table({"k": pa.array(range(BATCH_ROWS + 5))}))
    assert [batch.num_rows for batch in source.batches()] == [BATCH_ROWS, 5]
    assert source.num_rows == BATCH_ROWS + 5


def test_a_struct_without_fields_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'s\.t' is a struct without fields"):
        read_input(pa.table({"id": ["a"], "s": pa.array([{"t": {}}], pa.struct([("t", pa.struct([]))]))}))


def test_names_within_a_struct_differ_by_more_than_case() -> None:
    """Spark cannot read the table otherwise (COLUMN_ALREADY_EXISTS)."""
    kind = pa.list_(pa.struct([("a", pa.int64()), ("A", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match=r"'s\.element\.A' occurs more than once"):
        read_input(pa.table({"id": ["a"], "s": pa.array([[]], kind)}))


@pytest.mark.parametrize("kind", [pa.string(), pa.int32()])
def test_a_delete_marker_is_boolean(kind: pa.DataType) -> None:
    """Apache Hudi refuses others, and cannot read logs with them."""
    with pytest.raises(SchemaMismatchError, match=f"'_hoodie_is_deleted', .* has the type {kind}, and must be boolean"):
        read_input(pa.table({"id": ["a"], "_hoodie_is_deleted": pa.array([None], kind)}))
    assert (
        read_input(pa.table({"id": ["a"], "_hoodie_is_deleted": pa.nulls(1)})).schema.names[1] == "_hoodie_is_deleted"
    )
