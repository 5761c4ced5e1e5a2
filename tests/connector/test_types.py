"""Arrow types of tables and those that Spark expects. No JVM."""

from __future__ import annotations

import decimal
import re

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    CharType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from hudi_py.errors import SchemaMismatchError
from pyspark_hudi.reader import MAX_ROWS, MIN_ROWS, sized
from pyspark_hudi.types import arrow_schema, spark_schema, to_target

TABLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("ntz", pa.timestamp("us")),
        pa.field("day", pa.date32()),
        pa.field("raw", pa.binary()),
        pa.field("s", pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.list_(pa.string()))])),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.timestamp("us", "UTC"), nullable=False))),
        pa.field("a", pa.list_(pa.field("element", pa.struct([pa.field("k", pa.float64())]), nullable=False))),
    ]
)
ROWS = [
    {
        "id": 1,
        "d": decimal.Decimal("1.25"),
        "ts": 1_700_000_000_123_456,
        "ntz": -1,
        "day": -1,
        "raw": b"\x00",
        "s": {"x": 1, "y": ["a", None]},
        "m": [("k", 5)],
        "a": [{"k": 1.5}],
    },
    {"id": 2, "d": None, "ts": None, "ntz": None, "day": None, "raw": None, "s": None, "m": None, "a": None},
]


def target() -> pa.Schema:
    return arrow_schema(StructType.fromJson(spark_schema(TABLE).jsonValue()))


def test_every_column_and_member_may_be_null() -> None:
    assert spark_schema(TABLE).simpleString() == (
        "struct<id:bigint,d:decimal(10,2),ts:timestamp,ntz:timestamp_ntz,day:date,raw:binary,"
        "s:struct<x:int,y:array<string>>,m:map<string,timestamp>,a:array<struct<k:double>>>"
    )
    assert all(field.nullable for field in spark_schema(TABLE))
    assert target().field("s").type.field("x").nullable


def test_batches_get_exactly_the_schema_that_spark_expects() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, TABLE)
    for given in (batch, batch.slice(1), batch.slice(0, 0), pa.concat_batches([batch, batch]).slice(1, 2)):
        done = to_target(given, target())
        assert done.schema.equals(target())
        assert done.to_pylist() == given.to_pylist()
        done.validate(full=True)


def test_columns_are_matched_by_name() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    wanted = pa.schema([("b", pa.int64()), ("a", pa.int32())])
    assert to_target(batch, wanted).to_pydict() == {"b": [2], "a": [1]}


def test_what_spark_does_not_take_is_changed() -> None:
    columns = {
        "large": pa.array(["x", None], pa.large_string()),
        "coded": pa.array(["x", "x"]).dictionary_encode(),
        "zone": pa.array([1, None], pa.timestamp("us", "Europe/Rome")),
    }
    wanted = pa.schema([("large", pa.string()), ("coded", pa.string()), ("zone", pa.timestamp("us", "UTC"))])
    done = to_target(pa.RecordBatch.from_pydict(columns), wanted)
    assert done.schema.equals(wanted)
    assert done.column("coded").to_pylist() == ["x", "x"]
    with pytest.raises(SchemaMismatchError):
        to_target(pa.RecordBatch.from_pydict({"large": pa.array([1.5])}), pa.schema([("large", pa.int32())]))


def test_batches_are_of_a_size_that_suits_spark() -> None:
    sizes = [1, 10, MIN_ROWS, 3, MIN_ROWS - 1, 5, 3 * MAX_ROWS + 7, 2]
    given = [pa.RecordBatch.from_pydict({"n": pa.array(range(size))}) for size in sizes]
    done = list(sized(iter(given)))
    assert pa.Table.from_batches(done).equals(pa.Table.from_batches(given))
    assert all(batch.num_rows <= MAX_ROWS for batch in done)
    assert (
        sum(batch.num_rows < MIN_ROWS for batch in done) == 4
    )  # the first, before, at the end of and after the large one
    assert list(sized(iter([]))) == []


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        (YearMonthIntervalType(0, 1), "c", "interval year to month"),
        (ArrayType(YearMonthIntervalType(0, 0)), "c.element", "interval year"),
        (MapType(StringType(), CharType(3)), "c.value", "char(3)"),
        (StructType([StructField("x", CalendarIntervalType())]), "c.x", "interval"),
        (ArrayType(NullType(), False), "c", "array<void>"),
    ],
)
def test_a_type_that_has_no_place_in_arrow_is_named_with_its_column(kind: DataType, path: str, name: str) -> None:
    schema = StructType([StructField("id", LongType()), StructField("c", kind)])
    with pytest.raises(SchemaMismatchError, match=re.escape(f"Column '{path}' has the Spark type {name}, ")):
        arrow_schema(schema)
