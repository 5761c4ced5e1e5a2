"""VECTOR and VARIANT columns in files and log blocks; the golden table v9_cow_vector is compared elsewhere."""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro import arrow_schema, decode_log_content, encode_log_content
from hudi_py.formats.base.parquet_writer import encode_parquet
from hudi_py.formats.hudi_types import vector_bytes, vector_lists, vector_type
from hudi_py.schema import conform


def vector(element: str, dimension: int, size: int, **other: Any) -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": f"vector_{element.lower()}_{dimension}",
        "size": size,
        "logicalType": "vector",
        "dimension": dimension,
        "elementType": element,
        "storageBacking": "FIXED_BYTES",
        **other,
    }


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


VARIANT = {**record(("metadata", "bytes"), ("value", "bytes")), "name": "variant", "logicalType": "variant"}
KINDS = [("FLOAT", pa.float32(), "<3f", [1.5, -2.0, 0.25]), ("DOUBLE", pa.float64(), "<3d", [1e300, -2.0, 0.1])]
KINDS += [("INT8", pa.int8(), "<3b", [1, -128, 127])]


@pytest.mark.parametrize(("name", "kind", "layout", "numbers"), KINDS)
def test_vectors(name: str, kind: pa.DataType, layout: str, numbers: list[Any]) -> None:
    size = struct.calcsize(layout)
    data = struct.pack(layout, *numbers)
    avro = record(("v", ["null", vector(name, 3, size)]), ("n", vector(name, 3, size, name="other")))
    expected = pa.list_(pa.field("element", kind, nullable=False))
    schema = arrow_schema(avro)
    assert schema == pa.schema([("v", expected), pa.field("n", expected, nullable=False)])

    plain = record(("v", ["null", {"type": "fixed", "name": "f", "size": size}]), ("n", "f"))
    rows = pa.table({"v": pa.array([None, data], pa.binary(size)), "n": pa.array([data, data], pa.binary(size))})
    decoded = decode_log_content([encode_log_content(rows, plain)], avro)
    assert decoded.to_pylist() == [{"v": None, "n": numbers}, {"v": numbers, "n": numbers}]

    for stored in (rows, pa.concat_tables([rows, rows]).combine_chunks().slice(2)):
        batch = stored.to_batches()[0]
        read = conform(batch, schema)
        assert read.schema == schema
        assert read.to_pylist() == decoded.to_pylist()


@pytest.mark.parametrize(
    "avro",
    [
        vector("HALF", 4, 8),
        vector("FLOAT", 4, 8),
        vector("FLOAT", 2, 8, storageBacking="PARQUET_LIST"),
        {**VARIANT, "fields": [*VARIANT["fields"], {"name": "typed_value", "type": ["null", "long"]}]},
    ],
)
def test_what_is_not_read_is_refused(avro: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedTableError, match="vector type|shredded variant"):
        arrow_schema(record(("v", avro)))


def test_a_variant_is_the_struct_of_its_bytes() -> None:
    schema = arrow_schema(record(("v", ["null", VARIANT])))
    binary = pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)
    assert schema.field("v").type == pa.struct(list(binary))
    spark = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    batch = pa.RecordBatch.from_arrays([pa.array([{"value": b"v", "metadata": b"m"}, None], spark)], names=["v"])
    assert conform(batch, schema).to_pylist() == [{"v": {"metadata": b"m", "value": b"v"}}, {"v": None}]


def test_a_shredded_file_is_refused() -> None:
    schema = arrow_schema(record(("v", ["null", VARIANT])))
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    batch = pa.RecordBatch.from_arrays([pa.array([{"metadata": b"m", "value": None, "typed_value": 1}], kind)], ["v"])
    with pytest.raises(UnsupportedTableError, match=r"'v' of a\.parquet is a shredded variant"):
        conform(batch, schema, context="a.parquet")


def test_bytes_that_are_no_vector() -> None:
    schema = arrow_schema(record(("v", ["null", vector("FLOAT", 2, 8)])))
    batch = pa.RecordBatch.from_arrays([pa.array([b"abc"], pa.binary(3))], ["v"])
    with pytest.raises(SchemaMismatchError, match="fixed_size_binary"):
        conform(batch, schema)


LISTS = st.lists(st.none() | st.lists(st.floats(width=32), min_size=3, max_size=3), max_size=20)


@given(LISTS, st.sampled_from(["list", "large", "fixed", "view", "slice"]))
def test_lists_become_bytes_and_lists_again(rows: list[list[float] | None], form: str) -> None:
    """Of every kind of list, and with values below null lists and beyond slices."""
    kinds = {
        "large": pa.large_list(pa.float32()),
        "fixed": pa.list_(pa.float32(), 3),
        "view": pa.list_view(pa.float32()),
    }
    array = pa.array([[9.0], *rows, [9.0, 9.0]] if form == "slice" else rows, kinds.get(form, pa.list_(pa.float32())))
    if form == "slice":
        array = array.slice(1, len(rows))
    stored = vector_bytes(array, pa.float32(), 3, "v")
    assert stored.type == pa.binary(12)
    assert stored.to_pylist() == [None if row is None else struct.pack("<3f", *row) for row in rows]
    stored.validate(full=True)
    again = vector_lists(stored, vector_type(pa.float32()))
    assert pa.array(rows, vector_type(pa.float32())).equals(again) or any(math.isnan(x) for r in rows if r for x in r)

    avro = record(("v", ["null", vector("FLOAT", 3, 12)]))
    batch = pa.table({"v": array})
    decoded = decode_log_content([encode_log_content(batch, avro)], avro)
    assert vector_bytes(decoded.column("v"), pa.float32(), 3, "v").equals(stored)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([[1.0, 2.0, 3.0], [1.0], None, []], r"2 of 4 rows have another number of values, the first one 1: \[1\.0\]"),
        ([[1.0, None, 3.0], None], r"1 of 2 rows have null among the values, the first one \[1\.0, None, 3\.0\]"),
        ([None, None, [None, 1.0, 2.0]], r"1 of 3 rows have null among the values, the first one \[None, 1\.0, 2\.0\]"),
    ],
)
def test_values_that_are_no_vectors(rows: list[list[float | None] | None], why: str) -> None:
    array = pa.array(rows, pa.list_(pa.float32()))
    with pytest.raises(SchemaMismatchError, match=rf"^Column 'v' is a VECTOR of 3 float .*{why}"):
        vector_bytes(array, pa.float32(), 3, "v")
    avro = record(("v", ["null", vector("FLOAT", 3, 12)]))
    with pytest.raises(SchemaMismatchError, match=why):
        encode_log_content(pa.table({"v": array}), avro)
    with pytest.raises(SchemaMismatchError, match=why):
        encode_parquet(pa.table({"v": array}), json.dumps(avro), "zstd")


def test_a_vector_of_another_type() -> None:
    with pytest.raises(
        SchemaMismatchError, match=r"'v' is a VECTOR of 2 float .* and list<item: double>|list<element: double>"
    ):
        vector_bytes(pa.array([[1.0, 2.0]]), pa.float32(), 2, "v")


def test_a_parquet_block_names_its_vectors() -> None:
    avro = record(("v", ["null", vector("FLOAT", 2, 8)]), ("n", vector("INT8", 2, 2)), ("x", "int"))
    rows = pa.table(
        {
            "v": pa.array([[1, 2], None], pa.list_(pa.float32())),
            "n": pa.array([[1, 2]] * 2, pa.list_(pa.int8())),
            "x": [1, 2],
        }
    )
    file = pq.ParquetFile(io.BytesIO(encode_parquet(rows.cast(arrow_schema(avro)), json.dumps(avro), "zstd")))
    assert file.metadata.metadata[b"hoodie.vector.columns"] == b"v:VECTOR(2),n:VECTOR(2, INT8)"
    assert [file.schema_arrow.field(at).type for at in range(3)] == [pa.binary(8), pa.binary(2), pa.int32()]
    assert (
        b"hoodie.vector.columns"
        not in pq.ParquetFile(io.BytesIO(encode_parquet(rows.select(["x"]), "{}", "zstd"))).metadata.metadata
    )
