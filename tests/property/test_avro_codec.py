"""The Avro codec against fastavro, over random schemas and values.

A case has the schema as a table would have it and the same without logical types, by which fastavro writes plain
numbers and bytes over their whole range. Expected Arrow values are plain too: numbers for dates and times, unscaled
decimals.
"""

from __future__ import annotations

import copy
import io
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudi_py.errors import CorruptFileError
from hudi_py.formats.avro import arrow_schema, decode_log_batches, decode_log_content, encode_log_content
from hudi_py.formats.avro import decode as decode_module
from hudi_py.formats.avro import encode as encode_module
from hudi_py.formats.avro import encode as encoders_module

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
INT = st.one_of(st.sampled_from([-(2**31), 2**31 - 1, 0, -1, 63, 64, -64, -65, 8191]), st.integers(-(2**31), 2**31 - 1))
LONG = st.one_of(
    st.sampled_from([-(2**63), 2**63 - 1, 2**55, -(2**55), 2**55 - 1, 2**62, -(2**62), 2**34, 2**27]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-100, 100),
)
TEXT = st.one_of(st.text(max_size=20), st.sampled_from(["", "x" * 200, "é" * 100, "\U0001f600"]))


@dataclass
class Kind:
    """A type: the schema with and without logical types, values for fastavro, and what Arrow should then hold."""

    schema: Any
    plain: Any
    values: st.SearchStrategy[Any]
    expected: Callable[[Any], Any] = lambda value: value
    branch: str = ""
    """How fastavro names it in a union."""


_names = itertools.count()


def _same(schema: Any, values: st.SearchStrategy[Any], **more: Any) -> Kind:
    branch = schema if isinstance(schema, str) else schema.get("name", schema["type"])
    return Kind(schema, schema, values, branch=branch, **more)


def _logical(kind: str, logical: str, values: st.SearchStrategy[Any], factor: int = 1) -> Kind:
    return Kind({"type": kind, "logicalType": logical}, kind, values, lambda v: v * factor, kind)


def _minimal(value: int) -> bytes:
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    precision = draw(st.integers(1, 76))
    scale = draw(st.integers(0, precision))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    numbers = st.one_of(st.integers(-(10**precision) + 1, 10**precision - 1), st.integers(-9, 9))

    def back(raw: bytes) -> int:
        return int.from_bytes(raw, "big", signed=True)

    if draw(st.booleans()):
        return Kind({"type": "bytes", **logical}, "bytes", numbers.map(_minimal), back, "bytes")
    size = len(_minimal(10**precision - 1)) + draw(st.sampled_from([0, 0, 1, 20]))
    plain = {"type": "fixed", "name": f"d{next(_names)}", "size": size}
    raw = numbers.map(lambda v: v.to_bytes(size, "big", signed=True))
    return Kind({**plain, **logical}, plain, raw, back, plain["name"])


@st.composite
def leaves(draw: st.DrawFn) -> Kind:
    symbols = ["A", "B", "CC"]
    millis = st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1)
    kinds: list[Callable[[], Kind]] = [
        lambda: _same("int", INT),
        lambda: _same("long", LONG),
        lambda: _same("float", st.floats(width=32, allow_nan=False)),
        lambda: _same("double", st.floats(allow_nan=False)),
        lambda: _same("boolean", st.booleans()),
        lambda: _same("string", TEXT),
        lambda: _same("bytes", st.binary(max_size=70)),
        lambda: _same("null", st.none()),
        lambda: _logical("int", "date", INT),
        lambda: _logical("int", "time-millis", INT),
        lambda: _logical("long", "time-micros", LONG),
        lambda: _logical("long", "timestamp-millis", millis, 1000),
        lambda: _logical("long", "timestamp-micros", LONG),
        lambda: _logical("long", "timestamp-nanos", LONG),
        lambda: _logical("long", "local-timestamp-millis", millis, 1000),
        lambda: _logical("long", "local-timestamp-micros", LONG),
        lambda: _logical("string", "uuid", TEXT),
        lambda: _same({"type": "fixed", "name": f"x{next(_names)}", "size": 7}, st.binary(min_size=7, max_size=7)),
        lambda: _same({"type": "fixed", "name": f"x{next(_names)}", "size": 90}, st.binary(min_size=90, max_size=90)),
        lambda: _same({"type": "enum", "name": f"e{next(_names)}", "symbols": symbols}, st.sampled_from(symbols)),
        lambda: draw(decimals()),
    ]
    return draw(st.sampled_from(kinds))()


@st.composite
def types(draw: st.DrawFn, depth: int) -> Kind:
    shapes = ["leaf", "leaf", "nullable", "record", "array", "map", "choice"] if depth else ["leaf", "nullable leaf"]
    shape = draw(st.sampled_from(shapes))
    if shape == "leaf":
        return draw(leaves())
    if shape in ("nullable", "nullable leaf"):
        source = types(depth - 1) if shape == "nullable" else leaves()
        value = draw(source.filter(lambda k: k.branch not in ("union", "null")))
        first = draw(st.booleans())
        schema, plain = (["null", s] if first else [s, "null"] for s in (value.schema, value.plain))
        expected = lambda v, back=value.expected: None if v is None else back(v)  # noqa: E731
        return Kind(schema, plain, st.one_of(st.none(), value.values), expected, "union")
    if shape == "record":
        return draw(records(depth - 1))
    if shape == "choice":
        return draw(choices())
    item = draw(types(depth - 1))
    if shape == "array":
        return Kind(
            {"type": "array", "items": item.schema},
            {"type": "array", "items": item.plain},
            st.lists(item.values, max_size=4),
            lambda values: [item.expected(v) for v in values],
            "array",
        )
    return Kind(
        {"type": "map", "values": item.schema},
        {"type": "map", "values": item.plain},
        st.dictionaries(st.text(max_size=5), item.values, max_size=3),
        lambda values: [(k, item.expected(v)) for k, v in values.items()],
        "map",
    )


@st.composite
def choices(draw: st.DrawFn) -> Kind:
    """A union of three branches or more, of different kinds: those that fastavro can be told by name."""
    found: dict[str, Kind] = {}
    named = leaves().filter(lambda k: isinstance(k.plain, str))
    for kind in draw(st.lists(named, min_size=6, max_size=9)):
        found.setdefault(kind.branch, kind)
    if set(found) - {"null"} in ({"int", "long"}, {"float", "double"}):
        found["string"] = _same("string", TEXT)
    kinds = list(found.values())
    members = [k for k in kinds if k.branch != "null"]

    def tagged(kind: Kind) -> st.SearchStrategy[Any]:
        return st.none() if kind.branch == "null" else kind.values.map(lambda v: (kind.branch, v))

    def expected(value: Any) -> Any:
        if value is None:
            return None
        return {f"member{i}": k.expected(value[1]) if k.branch == value[0] else None for i, k in enumerate(members)}

    if len(kinds) < 3:
        kinds = members = [_same("string", TEXT), _same("long", LONG), _same("boolean", st.booleans())]
    values = st.one_of([tagged(k) for k in kinds])
    return Kind([k.schema for k in kinds], [k.plain for k in kinds], values, expected, "union")


@st.composite
def records(draw: st.DrawFn, depth: int) -> Kind:
    fields = [(f"f{i}", draw(types(depth))) for i in range(draw(st.integers(1, 4)))]
    name = f"r{next(_names)}"
    return Kind(
        {"type": "record", "name": name, "fields": [{"name": n, "type": k.schema} for n, k in fields]},
        {"type": "record", "name": name, "fields": [{"name": n, "type": k.plain} for n, k in fields]},
        st.fixed_dictionaries({n: k.values for n, k in fields}),
        lambda row: {n: k.expected(row[n]) for n, k in fields},
        name,
    )


@dataclass
class Case:
    schema: dict[str, Any]
    frames: list[bytes]
    expected: list[dict[str, Any]]

    def content(self, begin: int = 0, end: int | None = None) -> bytes:
        frames = self.frames[begin:end]
        return struct.pack(">ii", 3, len(frames)) + b"".join(frames)


@st.composite
def cases(draw: st.DrawFn, min_rows: int = 0) -> Case:
    kind = draw(records(3))
    rows = draw(st.lists(kind.values, min_size=min_rows, max_size=12))
    parsed = fastavro.parse_schema(copy.deepcopy(kind.plain))
    frames = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        frames.append(struct.pack(">i", out.tell()) + out.getvalue())
    return Case(kind.schema, frames, [kind.expected(row) for row in rows])


def plain(value: pa.Scalar) -> Any:
    """A scalar as numbers, bytes and strings."""
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: plain(value[name]) for name in value.type.names}
    if isinstance(value, pa.MapScalar):
        return [(plain(entry["key"]), plain(entry["value"])) for entry in value.values]
    if isinstance(value, pa.ListScalar):
        return [plain(item) for item in value.values]
    if isinstance(value, (pa.TimestampScalar, pa.Date32Scalar)):
        return value.value
    if isinstance(value, (pa.Decimal128Scalar, pa.Decimal256Scalar)):
        return int(value.as_py().scaleb(value.type.scale, Context(prec=80)))
    return value.as_py()


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = {name: [plain(value) for value in batch.column(name)] for name in batch.schema.names}
    return [{name: values[i] for name, values in columns.items()} for i in range(batch.num_rows)]


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Any:
    """Chunks of a few rows, so that the cases reach over their borders."""
    patch = pytest.MonkeyPatch()
    patch.setattr(decode_module, "_CHUNK_ROWS", 5)
    patch.setattr(encode_module, "CHUNK_ROWS", 4)
    patch.setattr(encoders_module, "CHUNK_ROWS", 6)
    yield
    patch.undo()


@QUICK
@given(cases())
def test_decodes_what_fastavro_writes(case: Case) -> None:
    batch = decode_log_content([case.content()], case.schema)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(case.schema)
    assert rows_of(batch) == case.expected


@QUICK
@given(cases(), st.data())
def test_decodes_several_blocks_and_a_projection(case: Case, data: st.DataObject) -> None:
    names = [field["name"] for field in case.schema["fields"]]
    columns = data.draw(st.sets(st.sampled_from([*names, "absent"])))
    cut = data.draw(st.integers(0, len(case.frames)))
    batch = decode_log_content([case.content(0, cut), memoryview(case.content(cut))], case.schema, columns)
    assert batch.schema.names == [name for name in names if name in columns]
    assert batch.num_rows == len(case.expected)
    assert rows_of(batch) == [{n: v for n, v in row.items() if n in columns} for row in case.expected]


@QUICK
@given(cases(), st.data())
def test_encodes_the_bytes_fastavro_writes(case: Case, data: st.DataObject) -> None:
    batch = decode_log_content([case.content()], case.schema)
    assert encode_log_content(batch, case.schema) == case.content()
    begin = data.draw(st.integers(0, len(case.frames)))
    end = data.draw(st.integers(begin, len(case.frames)))
    assert encode_log_content(batch.slice(begin, end - begin), case.schema) == case.content(begin, end)
    pieces = [batch.slice(0, begin), batch.slice(begin, end - begin), batch.slice(end)]
    assert encode_log_content(pa.Table.from_batches(pieces), case.schema) == case.content()


@QUICK
@given(cases(min_rows=1), st.data())
def test_corrupt_bytes_are_an_error_or_rows(case: Case, data: st.DataObject) -> None:
    content = bytearray(case.content())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    names = [field["name"] for field in case.schema["fields"]]
    for columns in (None, set(names[:1])):
        for batch in _decoded_or_refused(content, case.schema, columns):
            batch.validate(full=True)


def _decoded_or_refused(content: bytes | bytearray, schema: Any, columns: set[str] | None) -> list[pa.RecordBatch]:
    try:
        return list(decode_log_batches([content], schema, columns, context="a.log"))
    except CorruptFileError as error:
        if "of a.log" not in str(error):
            raise AssertionError("the error does not name the file") from error
        return []
