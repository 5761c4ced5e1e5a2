"""Images of changes as text: Jackson's JSON of Spark rows, and Avro's of logged records."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hudi_py
from hudi_py.read.changes.texts import record_text, row_text, stored_types

INNER = pa.struct([("n", pa.int32()), ("text", pa.string())])
SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("long", pa.int64()),
        ("real", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("items", pa.list_(pa.string())),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("inner", INNER),
        ("inners", pa.list_(INNER)),
    ]
)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
INT = st.none() | st.integers(-(2**31), 2**31 - 1)
STRUCT = st.none() | st.fixed_dictionaries({"n": INT, "text": st.none() | TEXT})
ROW = st.fixed_dictionaries(
    {
        "flag": st.none() | st.booleans(),
        "long": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": st.none() | st.floats(),
        "text": st.none() | TEXT,
        "bytes": st.none() | st.binary(max_size=8),
        "items": st.none() | st.lists(st.none() | TEXT, max_size=4),
        "pairs": st.none()
        | st.dictionaries(TEXT, st.none() | st.integers(0, 9), max_size=9).map(lambda d: [*d.items()]),
        "inner": STRUCT,
        "inners": st.none() | st.lists(STRUCT, max_size=3),
    }
)


def shown(value: Any, kind: pa.DataType, *, spark: bool) -> Any:
    """What a JSON parser must give for a value: in Spark's form without the members that are null."""
    if value is None:
        return None
    if pa.types.is_binary(kind):
        return base64.b64encode(value).decode() if spark else value.decode("latin-1")
    if pa.types.is_floating(kind) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if pa.types.is_list(kind):
        return [shown(item, kind.value_type, spark=spark) for item in value]
    members = dict(value) if pa.types.is_map(kind) else value
    if pa.types.is_map(kind):
        types = dict.fromkeys(members, kind.item_type)
    elif pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
    else:
        return value
    found = {name: shown(member, types[name], spark=spark) for name, member in members.items()}
    return {name: member for name, member in found.items() if member is not None} if spark else found


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=6), st.integers(0, 3))
def test_a_json_parser_reads_the_row_back(rows: list[dict[str, Any]], start: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA).slice(start)
    kind = pa.struct(list(SCHEMA))
    for spark, texts in ((True, row_text(batch)), (False, record_text(batch.to_struct_array()))):
        assert texts.type == pa.string()
        expected = [shown(row, kind, spark=spark) for row in rows[start:]]
        parsed = [json.loads(text) for text in texts.to_pylist()]
        # nan is not itself, and -0.0 is 0.0: compare as written
        assert [repr(each) for each in map(sorted_items, parsed)] == [
            repr(each) for each in map(sorted_items, expected)
        ]


def sorted_items(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((name, sorted_items(member)) for name, member in value.items())
    return [sorted_items(item) for item in value] if isinstance(value, list) else value


# As Java 17 prints them (Double.toString, Float.toString)
DOUBLES = {
    0.0: "0.0",
    1.0: "1.0",
    -17.25: "-17.25",
    0.001: "0.001",
    0.00099: "9.9E-4",
    9999999.0: "9999999.0",
    1e7: "1.0E7",
    1.5e10: "1.5E10",
    -2.5e-300: "-2.5E-300",
    1e300: "1.0E300",
    5e-324: "4.9E-324",
    1e-323: "9.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    123456.789: "123456.789",
    math.inf: '"Infinity"',
    -math.inf: '"-Infinity"',
}


def test_numbers_are_those_of_java() -> None:
    values = [*DOUBLES, -0.0, math.nan]
    texts = row_text(pa.record_batch({"x": pa.array(values)}))
    assert texts.to_pylist() == [f'{{"x":{text}}}' for text in [*DOUBLES.values(), "-0.0", '"NaN"']]
    singles = pa.array([0.1, 1e10, 16777216.0, 3.4028235e38, 1e-5, 0.5], pa.float32())
    expected = ["0.1", "1.0E10", "1.6777216E7", "3.4028235E38", "1.0E-5", "0.5"]
    assert row_text(pa.record_batch({"x": singles})).to_pylist() == [f'{{"x":{text}}}' for text in expected]


def test_large_maps_and_structs_come_in_the_order_of_hash_maps() -> None:
    """The orders which Apache Hudi gave for these keys."""
    keys = [f"key{number}" for number in range(9)]
    pairs = pa.array([[(key, at) for at, key in enumerate(keys)]], pa.map_(pa.string(), pa.int32()))
    rows = pa.record_batch({"m": pairs})
    scala, java = row_text(rows)[0].as_py(), record_text(rows.to_struct_array())[0].as_py()
    assert list(json.loads(scala)["m"]) == [f"key{number}" for number in (4, 0, 5, 8, 1, 2, 6, 7, 3)]
    assert list(json.loads(java)["m"]) == [f"key{number}" for number in (1, 2, 0, 5, 6, 3, 4, 7, 8)]
    struct = pa.array([dict.fromkeys(("aa", "bb", "cc", "dd", "ee", "ff"), 1)])
    assert list(json.loads(row_text(pa.record_batch({"s": struct}))[0].as_py())["s"]) == [
        "cc",
        "aa",
        "bb",
        "ee",
        "ff",
        "dd",
    ]


def test_records_are_written_as_they_are_stored() -> None:
    avro = {
        "type": "record",
        "name": "r",
        "fields": [
            {
                "name": "d",
                "type": [
                    "null",
                    {"type": "fixed", "name": "f", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 1},
                ],
            },
            {"name": "b", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}},
            {"name": "t", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-micros"}}},
            {"name": "u", "type": [{"type": "int", "logicalType": "date"}, "string"]},
        ],
    }
    stored = stored_types(avro)
    assert "logicalType" not in json.dumps(stored)
    assert stored["fields"][0]["type"][1]["size"] == 3
    union = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    batch = pa.record_batch(
        {
            "d": pa.array([b"\x00\x30\xff", None], pa.binary(3)),
            "b": pa.array([b"\x80\x00a", b""]),
            "t": pa.array([[1, 2], []], pa.list_(pa.int64())),
            "u": pa.array([{"member0": 5}, {"member1": "x"}], union),
        }
    )
    assert record_text(batch.to_struct_array()).to_pylist() == [
        '{"d": [0, 48, -1], "b": "\\u0080\\u0000a", "t": [1, 2], "u": 5}',
        '{"d": null, "b": "", "t": [], "u": "x"}',
    ]
    assert record_text(pa.nulls(2, pa.struct([("a", pa.int32())]))).to_pylist() == ["null", "null"]


def test_types_that_no_table_has() -> None:
    with pytest.raises(hudi_py.UnsupportedTableError, match="duration"):
        row_text(pa.record_batch({"x": pa.array([1], pa.duration("s"))}))
    with pytest.raises(hudi_py.UnsupportedTableError, match="date32"):
        record_text(pa.array([1], pa.int32()).view(pa.date32()))


def test_no_columns_and_no_rows() -> None:
    assert row_text(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))).to_pylist() == ["{}", "{}"]
    assert len(row_text(pa.RecordBatch.from_pylist([], SCHEMA))) == 0
