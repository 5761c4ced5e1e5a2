"""Arrow to Avro data blocks: the forms a column may come in, and what is refused."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.avro import arrow_schema, avro_schema, decode_log_content, encode_log_content
from hudi_py.formats.avro import encode as encode_module
from hudi_py.formats.avro import rows as rows_module

UTC = datetime.timezone.utc


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def batch(**columns: Any) -> pa.RecordBatch:
    arrays = [c if isinstance(c, pa.Array) else pa.array(c) for c in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def round_trip(rows: pa.RecordBatch | pa.Table, schema: Any) -> list[dict[str, Any]]:
    return decode_log_content([encode_log_content(rows, schema)], schema).to_pylist()


def test_the_bytes_of_a_block() -> None:
    schema = record(k="string", n=optional("int"), d=["double", "null"])
    content = encode_log_content(batch(k=["a", "bc"], n=pa.array([None, -65], pa.int32()), d=[1.0, None]), schema)
    first = b"\x02a" + b"\x00" + b"\x00" + struct.pack("<d", 1.0)
    second = b"\x04bc" + b"\x02\x81\x01" + b"\x02"
    assert content == struct.pack(">iii", 3, 2, len(first)) + first + struct.pack(">i", len(second)) + second


def test_no_rows() -> None:
    schema = record(k="string")
    assert encode_log_content(batch(k=pa.array([], pa.string())), schema) == struct.pack(">ii", 3, 0)
    assert encode_log_content(pa.table({"k": pa.chunked_array([], pa.string())}), schema) == struct.pack(">ii", 3, 0)


def test_rows_without_bytes() -> None:
    schema = record(n="null")
    assert encode_log_content(batch(n=pa.nulls(2)), schema) == struct.pack(">iiii", 3, 2, 0, 0)


def test_columns_are_matched_by_name_and_missing_ones_are_null() -> None:
    inner = {
        "type": "record",
        "name": "s",
        "fields": [{"name": "x", "type": optional("int")}, {"name": "y", "type": "int"}],
    }
    schema = record(a="int", b=optional("string"), s=inner)
    structs = pa.array([{"y": 5}, {"y": 6}], pa.struct([("y", pa.int32())]))
    rows = pa.RecordBatch.from_arrays([structs, pa.array([1, 2], pa.int32())], ["s", "a"])
    assert round_trip(rows, schema) == [
        {"a": 1, "b": None, "s": {"x": None, "y": 5}},
        {"a": 2, "b": None, "s": {"x": None, "y": 6}},
    ]


TEXTS = ["x", None, "", "längst", "x"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXTS, pa.string()),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS, pa.string()).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 0]), pa.array(["x", None, "", "längst"])),
        pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4, 5], pa.array(TEXTS)),
        pa.array(["no", "no", *TEXTS, "no"]).slice(2, 5),
        pa.array(["no", "no", *TEXTS, "no"]).dictionary_encode().slice(2, 5),
    ],
)
def test_every_form_of_a_string_column(column: pa.Array) -> None:
    assert round_trip(batch(s=column), record(s=optional("string"))) == [{"s": text} for text in TEXTS]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)])
def test_every_form_of_a_binary_column(kind: pa.DataType) -> None:
    values = [b"abc", None, b"\xff\x00\xfe"]
    column = pa.array(values, kind)
    assert round_trip(batch(b=column), record(b=optional("bytes"))) == [{"b": v} for v in values]
    fixed = {"type": "fixed", "name": "f", "size": 3}
    assert round_trip(batch(b=column), record(b=optional(fixed))) == [{"b": v} for v in values]


NUMBERS = [[1, None], [], None, [3]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(NUMBERS, pa.list_(pa.int32())),
        pa.array(NUMBERS, pa.list_(pa.int8())),
        pa.array(NUMBERS, pa.large_list(pa.int32())),
        pa.array(NUMBERS, pa.list_view(pa.int32())),
        pa.array([[9], [9], *NUMBERS, [9]], pa.list_(pa.int32())).slice(2, 4),
        pa.array([[9], [9], *NUMBERS, [9]], pa.large_list(pa.int32())).slice(2, 4),
    ],
)
def test_every_form_of_a_list_column(column: pa.Array) -> None:
    schema = record(l=optional({"type": "array", "items": optional("int")}))
    assert round_trip(batch(l=column), schema) == [{"l": v} for v in NUMBERS]


def test_fixed_size_lists_with_nulls() -> None:
    values = [[1, 2], None, [3, 4]]
    schema = record(l=optional({"type": "array", "items": "int"}))
    assert round_trip(batch(l=pa.array(values, pa.list_(pa.int32(), 2))), schema) == [{"l": v} for v in values]


def test_chunked_tables_and_dictionaries_that_differ() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    table = pa.table({"s": pa.chunked_array(chunks), "n": pa.chunked_array([[1], [2, 3, 4]], pa.int64())})
    expected = [{"s": s, "n": n} for s, n in zip("abca", [1, 2, 3, 4], strict=True)]
    assert round_trip(table, record(s="string", n="long")) == expected


def test_timestamps_of_other_units_and_zones() -> None:
    instant = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    for kind in (pa.timestamp("s", "Europe/Paris"), pa.timestamp("ms", "+02:00"), pa.timestamp("ns", "UTC")):
        assert round_trip(batch(t=pa.array([instant], kind)), record(t=micros)) == [{"t": instant}]
    exact = pa.array([1_000, -1_000], pa.timestamp("ns", "UTC"))
    assert decode_log_content([encode_log_content(batch(t=exact), record(t=micros))], record(t=micros)).column(
        "t"
    ).cast(pa.int64()).to_pylist() == [1, -1]
    with pytest.raises(SchemaMismatchError, match=r"column 't'.*lose data"):
        encode_log_content(batch(t=pa.array([1_500], pa.timestamp("ns", "UTC"))), record(t=micros))
    with pytest.raises(SchemaMismatchError, match="column 't'"):
        encode_log_content(batch(t=pa.array([0], pa.timestamp("us"))), record(t=micros))


def test_milliseconds_are_rounded_down() -> None:
    schema = record(t={"type": "long", "logicalType": "timestamp-millis"})
    column = pa.array([1_000, 1_999, -1, -1_000, -1_001], pa.timestamp("us", "UTC"))
    content = encode_log_content(batch(t=column), schema)
    assert [content[i + 4] for i in range(8, len(content), 5)] == [2, 2, 1, 1, 3]  # zigzag 1, 1, -1, -1, -2


def test_dates_times_and_numbers_of_other_widths() -> None:
    schema = record(
        d={"type": "int", "logicalType": "date"},
        ms={"type": "int", "logicalType": "time-millis"},
        us={"type": "long", "logicalType": "time-micros"},
        n="long",
        f="double",
    )
    noon = datetime.time(12)
    rows = batch(
        d=pa.array([datetime.date(2024, 1, 2)], pa.date64()),
        ms=pa.array([noon], pa.time32("ms")),
        us=pa.array([noon], pa.time64("us")),
        n=pa.array([7], pa.uint16()),
        f=pa.array([0.5], pa.float32()),
    )
    assert round_trip(rows, schema) == [
        {"d": datetime.date(2024, 1, 2), "ms": 12 * 3600 * 1000, "us": 12 * 3600 * 10**6, "n": 7, "f": 0.5}
    ]


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(12, 1), pa.decimal128(7, 3), pa.decimal256(60, 2)])
def test_decimals_of_other_digits(kind: pa.DataType) -> None:
    fixed = {"type": "fixed", "name": "f", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 3}
    loose = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 3}
    values = [Decimal("12.3"), None, Decimal("-0.5")]
    rows = batch(a=pa.array(values, kind), b=pa.array(values, kind))
    assert round_trip(rows, record(a=optional(fixed), b=optional(loose))) == [{"a": v, "b": v} for v in values]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 16])
def test_minimal_decimals_on_bytes_are_those_of_java(size: int) -> None:
    edge = 1 << (8 * size - 1)
    numbers = [n for n in (edge - 1, edge, -edge, -edge - 1, 0, -1, 127, 128, -128, -129) if abs(n) < 10**38]
    schema = record(d={"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0})
    content = encode_log_content(batch(d=pa.array([Decimal(n) for n in numbers], pa.decimal128(38, 0))), schema)
    at = 8
    for number in numbers:
        body = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        assert content[at + 4 : at + 5 + len(body)] == bytes([2 * len(body)]) + body
        at += 5 + len(body)


def test_values_behind_nulls_are_not_written() -> None:
    strings = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 1, 4, 5], np.int32)), pa.py_buffer(b"abcde")]
    )
    lists = pa.Array.from_buffers(
        pa.list_(pa.int32()),
        3,
        [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 1, 3, 3], np.int32))],
        children=[pa.array([1, None, 3], pa.int32())],
    )
    structs = pa.StructArray.from_arrays(
        [pa.array(["p", "q", "r"]), lists], ["s", "l"], mask=pa.array([False, False, True])
    )
    items = {"type": "array", "items": "int"}
    inner = {
        "type": "record",
        "name": "inner",
        "fields": [{"name": "s", "type": "string"}, {"name": "l", "type": optional(items)}],
    }
    schema = record(s=optional("string"), l=optional(items), r=optional(inner))
    rows = batch(s=strings, l=lists, r=structs)
    expected = [
        {"s": "a", "l": [1], "r": {"s": "p", "l": [1]}},
        {"s": None, "l": None, "r": {"s": "q", "l": None}},
        {"s": "e", "l": [], "r": None},
    ]
    assert round_trip(rows, schema) == expected
    assert round_trip(rows.slice(1), schema) == expected[1:]
    assert round_trip(rows.slice(0, 2), schema) == expected[:2]


def test_lists_of_nothing_and_of_nulls() -> None:
    schema = record(a={"type": "array", "items": optional("string")}, b={"type": "map", "values": optional("int")})
    kinds = pa.list_(pa.string()), pa.map_(pa.string(), pa.int32())
    empty = batch(a=pa.array([[], []], kinds[0]), b=pa.array([{}, {}], kinds[1]))
    assert round_trip(empty, schema) == [{"a": [], "b": []}] * 2
    nulls = batch(a=pa.array([[None, None], []], kinds[0]), b=pa.array([[("k", None)], []], kinds[1]))
    assert round_trip(nulls, schema) == [{"a": [None, None], "b": [("k", None)]}, {"a": [], "b": []}]
    untyped = batch(a=pa.array([[None, None], []], pa.list_(pa.null())), b=nulls.column("b"))
    assert encode_log_content(untyped, schema) == encode_log_content(nulls, schema)


def test_sliced_maps_of_structs() -> None:
    kind = pa.map_(pa.string(), pa.struct([("x", pa.int32())]))
    column = pa.array([[("a", {"x": 1})], None, [("b", None), ("c", {"x": None})], []], kind)
    schema = avro_schema(pa.schema([("m", kind)]), "r", "n")
    for begin in range(5):
        for end in range(begin, 5):
            part = column.slice(begin, end - begin)
            assert round_trip(batch(m=part), schema) == [{"m": v} for v in part.to_pylist()]


def test_unions_take_the_first_member_that_is_set() -> None:
    schema = record(u=["string", "null", "long", "boolean"], n=["int", "long"])
    kind = pa.struct([("member0", pa.string()), ("member1", pa.int64()), ("member2", pa.bool_())])
    values = [
        {"member0": "a", "member1": 1, "member2": None},
        {"member0": None, "member1": 2, "member2": True},
        None,
        {"member0": None, "member1": None, "member2": False},
        {"member0": None, "member1": None, "member2": None},
    ]
    rows = batch(u=pa.array(values, kind), n=pa.array([1, 2**40, 3, 4, 5]))
    none = {"member0": None, "member1": None, "member2": None}
    assert [row["u"] for row in round_trip(rows, schema)] == [
        {**none, "member0": "a"},
        {**none, "member1": 2},
        None,
        {**none, "member2": False},
        None,
    ]
    assert [row["n"] for row in round_trip(rows, schema)] == [1, 2**40, 3, 4, 5]
    with pytest.raises(SchemaMismatchError, match=r"column 'u'.*no null"):
        encode_log_content(batch(u=pa.array([None], kind)), record(u=["string", "long", "boolean"]))


@pytest.mark.parametrize(
    ("column", "avro", "message"),
    [
        (pa.array([1, None, None]), "long", "2 of 3 values are null"),
        (pa.array(["a"]), "long", "of type string: its type in the table is int64"),
        (pa.array([1.0]), "float", "of type double"),
        (pa.array([2**31]), "int", "column 'c' of type int64 as int32"),
        (pa.array([1]), "string", "of type int64"),
        (pa.array(["a"]), "bytes", "of type string"),
        (pa.array([1]), "boolean", "of type int64"),
        (pa.array([1]), {"type": "int", "logicalType": "date"}, "of type int64"),
        (pa.array([1]), {"type": "array", "items": "int"}, "is array"),
        (pa.array([1]), {"type": "map", "values": "int"}, "is map"),
        (pa.array([1]), record(x="int"), "is record"),
        (pa.array([1]), "null", "it has values"),
        (pa.array([b"ab"]), {"type": "fixed", "name": "f", "size": 3}, "column 'c'"),
        (pa.array(["C"]), {"type": "enum", "name": "e", "symbols": ["A", "B"]}, "'C'.*symbols A, B"),
        (pa.array([{"x": 1, "z": 2}]), record(x="long"), r"'c\.z': the Avro schema has no such field"),
        (pa.array([{"z": None}], pa.struct([])), record(x="int"), r"'c\.x': 1 of 1 values are null"),
        (pa.array([[1, None]]), {"type": "array", "items": "long"}, "column 'c': 1 of 2 values are null"),
        (
            pa.array([Decimal("1.25")]),
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
            "column 'c' of type decimal128",
        ),
        (
            pa.array([Decimal(1000)], pa.decimal128(4, 0)),
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0},
            "column 'c' of type decimal128",
        ),
    ],
)
def test_what_does_not_fit_names_the_column(column: pa.Array, avro: Any, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        encode_log_content(batch(c=column), record(c=avro))


def test_unknown_missing_and_double_columns() -> None:
    schema = record(a="int", b=optional("int"))
    with pytest.raises(SchemaMismatchError, match="column 'z'"):
        encode_log_content(batch(a=pa.array([1], pa.int32()), z=[1]), schema)
    with pytest.raises(SchemaMismatchError, match="without column 'a'"):
        encode_log_content(batch(b=pa.array([1], pa.int32())), schema)
    with pytest.raises(SchemaMismatchError, match="twice"):
        encode_log_content(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), schema)


def test_a_decimal_whose_bytes_exceed_its_digits() -> None:
    wild = pa.Array.from_buffers(pa.decimal128(3, 0), 1, [None, pa.py_buffer((10**9).to_bytes(16, "little"))])
    schema = record(d={"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 0})
    with pytest.raises(SchemaMismatchError, match="more digits"):
        encode_log_content(batch(d=wild), schema)


def test_rows_too_large_for_one_piece_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record(s="string", l={"type": "array", "items": "int"}, b="bytes")
    rows = batch(
        s=pa.array(["x" * 40] * 20, pa.large_string()),
        l=pa.array([[1, 2, 3]] * 20, pa.list_(pa.int32())),
        b=pa.array([b"y" * 40] * 20),
    )
    content = encode_log_content(rows, schema)
    monkeypatch.setattr(rows_module, "_LIMIT", 400)
    monkeypatch.setattr(encode_module, "_LIMIT", 400)
    assert encode_log_content(rows, schema) == content
    monkeypatch.setattr(rows_module, "_LIMIT", 60)
    with pytest.raises(SchemaMismatchError, match="more than 2 GiB"):
        encode_log_content(rows, schema)


def test_many_rows_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record(k="string", n=optional("long"), l={"type": "array", "items": optional("string")})
    table = pa.table(
        {
            "k": [f"k{i}" for i in range(1000)],
            "n": [None if i % 9 == 0 else i**5 for i in range(1000)],
            "l": [["v"] * (i % 13) for i in range(1000)],
        }
    )
    content = encode_log_content(table, schema)
    monkeypatch.setattr(encode_module, "CHUNK_ROWS", 64)
    assert encode_log_content(table, schema) == content
    decoded = decode_log_content([content], schema)
    assert decoded.schema == arrow_schema(schema)
    assert decoded.to_pydict() == table.to_pydict()
