"""VECTOR and VARIANT columns in files and log blocks; the golden table v9_cow_vector is compared elsewhere."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro import arrow_schema, decode_log_content, encode_log_content
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


@pytest.mark.parametrize("logical", ["vector", "variant"])
def test_tables_with_them_are_not_written(tmp_path: Path, logical: str) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    hudi_py.create_table(path, schema, {"hoodie.table.name": "t"}, record_key="id")
    properties = Path(path) / ".hoodie" / "hoodie.properties"
    own = vector("FLOAT", 2, 8) if logical == "vector" else VARIANT
    text = json.dumps(record(("id", "string"), ("v", ["null", own])), separators=(",", ":"))
    lines = [line for line in properties.read_text().splitlines() if "create.schema" not in line]
    properties.write_text("\n".join([*lines, f"hoodie.table.create.schema={text}"]) + "\n")
    with pytest.raises(UnsupportedTableError, match=f"column of type {logical}"):
        hudi_py.write(path, pa.table({"id": ["a"], "v": [1]}))
