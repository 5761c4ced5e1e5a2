"""How VECTOR, VARIANT and BLOB are declared, and their Avro types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.avro import arrow_schema, avro_schema
from hudi_py.formats.hudi_types import (
    BLOB_TYPE,
    VARIANT_TYPE,
    Vector,
    parse_type,
    shared_names,
    spelled_out,
    vector_columns,
)

FLOATS = pa.list_(pa.float32())


def field(name: str, text: str, kind: pa.DataType, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={"hudi_type": text})


def made(*fields: pa.Field) -> dict[str, Any]:
    return avro_schema(pa.schema(list(fields)), "t_record", "hoodie.t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VECTOR(3)", Vector(3)),
        (" vector ( 16 , double ) ", Vector(16, "DOUBLE")),
        ("VECTOR(2, INT8, FIXED_BYTES)", Vector(2, "INT8")),
        ("variant", "VARIANT"),
        ("BLOB", "BLOB"),
        ("BLOB()", "BLOB"),
    ],
)
def test_texts(text: str, expected: Vector | str) -> None:
    assert parse_type(text, "c") == expected
    if isinstance(expected, Vector):
        assert parse_type(expected.text, "c") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "VECTOR",
        "VECTOR()",
        "VECTOR(0)",
        "VECTOR(-1)",
        "VECTOR(x)",
        "VECTOR(3, HALF)",
        "VECTOR(3, FLOAT, LIST)",
        "VECTOR(3",
        "VECTOR(3, FLOAT, FIXED_BYTES, 1)",
        "VECTOR(999999999)",
        "BLOB(1)",
        "VARIANT(2)",
        "STRING",
        "VECTOR(3) x",
    ],
)
def test_texts_that_are_refused(text: str) -> None:
    with pytest.raises(SchemaMismatchError, match=r"Column 'c' has the hudi_type .* supported: VECTOR"):
        parse_type(text, "c")


def test_equal_types_share_a_name() -> None:
    """As Apache Hudi 1.2.0 writes it; tests/oracle/test_custom_types.py compares the text."""
    avro = made(
        field("a", "VECTOR(3)", FLOATS),
        field("b", "VECTOR(3)", pa.list_(pa.float32(), 3), nullable=False),
        field("c", "BLOB", BLOB_TYPE),
        pa.field("s", pa.struct([field("c", "BLOB", BLOB_TYPE), field("v", "VARIANT", VARIANT_TYPE)])),
        field("v", "VARIANT", VARIANT_TYPE),
    )
    types = {each["name"]: each["type"] for each in avro["fields"]}
    assert types["a"][1]["name"] == "vector_float_3"
    assert types["b"] == "vector_float_3"
    assert types["s"][1]["fields"][0]["type"] == ["null", "blob"]
    assert types["v"] == ["null", "variant"]
    arrow = arrow_schema(avro)
    assert arrow.field("a").metadata == arrow.field("b").metadata == {b"hudi_type": b"VECTOR(3)"}
    assert arrow.field("s").type.field("c").metadata == {b"hudi_type": b"BLOB"}
    assert made(*arrow) == avro, "what is read declares the same"
    assert vector_columns(avro) == {"a": Vector(3), "b": Vector(3)}


def test_a_part_of_a_schema_defines_what_it_names() -> None:
    whole = made(field("a", "VECTOR(3)", FLOATS), field("b", "VECTOR(3)", FLOATS), field("c", "VECTOR(2)", FLOATS))
    part = shared_names({**whole, "fields": whole["fields"][1:]}, whole)
    assert part["fields"][0]["type"] == whole["fields"][0]["type"]
    assert list(vector_columns(part)) == ["b", "c"]
    moved = shared_names({**whole, "fields": whole["fields"][::-1]})
    assert moved["fields"][1]["type"] == whole["fields"][0]["type"]
    assert moved["fields"][2]["type"] == ["null", "vector_float_3"]
    everywhere = spelled_out(whole)
    assert everywhere["fields"][1]["type"] == everywhere["fields"][0]["type"]
    assert shared_names(everywhere) == whole


def test_variants_that_are_named_after_their_column_keep_their_names() -> None:
    """As Apache Hudi on Spark 4 makes them of Spark's VariantType."""
    plain = [{"name": name, "type": "bytes"} for name in ("metadata", "value")]
    own = {"type": "record", "name": "v", "namespace": "hoodie.t", "fields": plain, "logicalType": "variant"}
    record = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "v", "type": ["null", own]}, {"name": "w", "type": "hoodie.t.v"}],
    }
    assert shared_names(record) == record
    assert arrow_schema(record).field("w").metadata == {b"hudi_type": b"VARIANT"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            field("c", "VECTOR(3)", pa.list_(pa.float64())),
            r"'c' of type list<.*> as VECTOR\(3\): its values must be list<float>",
        ),
        (field("c", "VECTOR(3)", pa.list_(pa.float32(), 2)), "its lists have 2 values"),
        (field("c", "VECTOR(3)", pa.string()), r"'c' of type string as VECTOR\(3\)"),
        (
            pa.field("s", pa.struct([field("c", "VECTOR(3)", FLOATS)])),
            r"'s\.c' as VECTOR\(3\): a vector must be a column",
        ),
        (
            pa.field("l", pa.list_(field("element", "VECTOR(3)", FLOATS))),
            r"'l\.element' as VECTOR\(3\): a vector must be",
        ),
        (field("c", "BLOB", pa.binary()), "as BLOB: its values must be struct<type"),
        (field("c", "BLOB", VARIANT_TYPE), "as BLOB: its values must be struct<type"),
        (field("c", "VARIANT", pa.struct([*VARIANT_TYPE, pa.field("typed_value", pa.int64())])), "as VARIANT"),
    ],
)
def test_declarations_that_do_not_fit(wrong: pa.Field, why: str) -> None:
    with pytest.raises(SchemaMismatchError, match=rf"cannot write column .*{why}"):
        made(wrong)


def test_values_of_lists_and_maps_are_declared_with_the_column() -> None:
    avro = made(field("l", "BLOB", pa.list_(BLOB_TYPE)), field("m", "VARIANT", pa.map_(pa.string(), VARIANT_TYPE)))
    arrow = arrow_schema(avro)
    assert arrow.field("l").type.value_field.metadata == {b"hudi_type": b"BLOB"}
    assert arrow.field("m").type.item_field.metadata == {b"hudi_type": b"VARIANT"}
