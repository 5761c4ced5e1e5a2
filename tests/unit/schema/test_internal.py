"""Columns told apart by id, and timestamps whose type the table's schema corrects."""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError
from hudi_py.schema import SchemaHistory
from hudi_py.schema.internal import parse_history, parse_internal_schema, timestamp_repairs


def column(number: int, name: str, kind: Any = "string") -> dict[str, Any]:
    return {"id": number, "name": name, "optional": True, "type": kind}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "fields": list(fields)}


def array(number: int, element: Any) -> dict[str, Any]:
    return {"type": "array", "element_id": number, "element": element, "element_optional": True}


def mapped(number: int, value: Any) -> dict[str, Any]:
    key = {"key_id": number, "key": "string"}
    return {"type": "map", **key, "value_id": number + 1, "value": value, "value_optional": True}


def version(number: int, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"max_column_id": 99, "version_id": number, **record(*fields)}


def history(*versions: dict[str, Any]) -> SchemaHistory:
    parsed = parse_history(json.dumps({"schemas": list(reversed(versions))}))
    return SchemaHistory(parse_internal_schema(json.dumps(versions[-1])), parsed)


def test_renamed_dropped_added_again_and_reordered() -> None:
    found = history(
        version(0, column(0, "a"), column(1, "b"), column(2, "c", "int")),
        version(20, column(2, "n", "long"), column(0, "b"), column(3, "c")),
    )
    target = pa.schema([("n", pa.int64()), ("b", pa.string()), ("c", pa.string()), ("new", pa.string())])
    batch = pa.RecordBatch.from_pydict({"a": ["1"], "b": ["2"], "c": pa.array([3], pa.int32())})
    assert found.columns("10", target.names) == ["c", "a", "new"]
    assert found.conform(batch, "10", target).to_pylist() == [{"n": 3, "b": "1", "c": None, "new": None}]
    same = pa.RecordBatch.from_pydict({"n": [3], "b": ["1"], "c": ["x"]})
    assert found.conform(same, "20", target).to_pylist() == [{"n": 3, "b": "1", "c": "x", "new": None}]
    assert found.sources("20") is None
    assert pickle.loads(pickle.dumps(found)) == found


def test_nested() -> None:
    old = record(column(10, "x", "int"), column(11, "y"))
    new = record(column(11, "z"), column(12, "y"), column(10, "x", "long"))
    found = history(
        version(0, column(0, "s", old), column(1, "l", array(5, old)), column(2, "m", mapped(6, old))),
        version(9, column(0, "t", new), column(1, "l", array(5, new)), column(2, "m", mapped(6, new))),
    )
    struct = pa.struct([("z", pa.string()), ("y", pa.string()), ("x", pa.int64())])
    target = pa.schema([("t", struct), ("l", pa.list_(struct)), ("m", pa.map_(pa.string(), struct))])
    value = {"x": 1, "y": "one"}
    kind = pa.struct([("x", pa.int32()), ("y", pa.string())])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([value, None], kind),
            pa.array([[value, None], None], pa.list_(kind)),
            pa.array([[("k", value)], None], pa.map_(pa.string(), kind)),
        ],
        names=["s", "l", "m"],
    )
    expected = {"z": "one", "y": None, "x": 1}
    for rows in (batch, pa.concat_batches([batch, batch]).slice(2)):
        assert found.conform(rows, "3", target).to_pylist() == [
            {"t": expected, "l": [expected, None], "m": [("k", expected)]},
            {"t": None, "l": None, "m": None},
        ]


def test_instants_before_the_first_version_go_by_name() -> None:
    found = history(version(20, column(0, "a")))
    assert found.at("10") is None
    assert found.columns("10", ["a", "b"]) == ["a", "b"]
    assert found.at("not a number") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"schemas":1}',
        '{"schemas":[{"type":"record","fields":[{"id":1,"name":"a","type":{"type":"what"}}]}]}',
        json.dumps({"schemas": [version(1, column(1, "a"), column(1, "b"))]}),
        '{"schemas":[{"version_id":1e999,"type":"record","fields":[]}]}',
        '{"schemas":[{"type":"record","fields":[{"id":1,"name":"a","type":'
        + '{"type":"array","element_id":1,"element":' * 500,
    ],
)
def test_corrupt_history(text: str) -> None:
    with pytest.raises(CorruptFileError, match="a schema history"):
        parse_history(text)


def timestamps(**logical: str | None) -> dict[str, Any]:
    def kind(name: str | None) -> Any:
        return ["null", "long" if name is None else {"type": "long", "logicalType": name}]

    fields: list[Any] = [{"name": n, "type": kind(t)} for n, t in logical.items()]
    inner = {"type": "record", "name": "r", "fields": fields}
    nested = [
        {"name": "s", "type": ["null", inner]},
        {"name": "l", "type": {"type": "array", "items": "r"}},
        {"name": "m", "type": {"type": "map", "values": {**inner, "name": "q"}}},
    ]
    return {**inner, "name": "t", "fields": fields + nested}


TABLE = timestamps(a="timestamp-millis", b="local-timestamp-millis", c="local-timestamp-micros", d="timestamp-micros")


def test_which_timestamps_are_repaired() -> None:
    assert dict(timestamp_repairs(TABLE)) == {
        f"{place}{name}": kind
        for place in ("", "s.", "m.value.")
        for name, kind in (("a", "timestamp-millis"), ("b", "local-timestamp-millis"), ("c", "local-timestamp-micros"))
    }
    assert timestamp_repairs(timestamps(d="timestamp-micros", e=None)) == ()


def test_writer_schemas_are_repaired() -> None:
    found = SchemaHistory(repairs=timestamp_repairs(TABLE))
    wrong = timestamps(a="timestamp-micros", b="local-timestamp-micros", c=None, d="timestamp-micros")
    repaired = found.writer_schema(wrong)
    assert repaired["fields"][:4] == TABLE["fields"][:4]
    assert repaired["fields"][4]["type"][1]["fields"] == TABLE["fields"][:4]
    assert repaired["fields"][6]["type"]["values"]["fields"] == TABLE["fields"][:4]
    assert found.writer_schema(TABLE) == TABLE
    # a plain long is repaired only to a local timestamp
    assert found.writer_schema(timestamps(a=None)) == timestamps(a=None)
    assert SchemaHistory().writer_schema(wrong) is wrong


def test_files_are_repaired() -> None:
    found = SchemaHistory(repairs=timestamp_repairs(TABLE))
    millis = 1_700_000_000_123
    at = datetime(2023, 11, 14, 22, 13, 20, 123000)
    kind = pa.struct([("a", pa.timestamp("us", "UTC")), ("c", pa.int64())])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([millis, None], pa.timestamp("us", "UTC")),
            pa.array([millis, None], pa.int64()),
            pa.array([millis * 1000, None], pa.int64()),
            pa.array([{"a": millis, "c": millis * 1000}, None], kind),
        ],
        names=["a", "b", "c", "s"],
    )
    utc, local = pa.timestamp("us", "UTC"), pa.timestamp("us")
    target = pa.schema([("a", utc), ("b", local), ("c", local), ("s", pa.struct([("a", utc), ("c", local)]))])
    aware = at.replace(tzinfo=timezone.utc)
    expected = {"a": aware, "b": at, "c": at, "s": {"a": aware, "c": at}}
    rows = found.conform(batch, "1", target)
    assert rows.schema == target
    assert rows.to_pylist() == [expected, dict.fromkeys(expected)]
    right = pa.RecordBatch.from_arrays([pa.array([millis], pa.timestamp("ms", "UTC"))], names=["a"])
    assert found.conform(right, "1", target.empty_table().select(["a"]).schema).to_pylist() == [{"a": aware}]
