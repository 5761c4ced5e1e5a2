"""Avro schemas to Arrow and back, against schemas that Apache Hudi wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro import arrow_schema, arrow_type, avro_schema, minimal_fixed_size, record_name

SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_name("test_avro_schemas.json").read_text("utf-8"))
"""`schema` of commits of Apache Hudi 0.15.0 and 1.2.0, by table."""
US = pa.timestamp("us", "UTC")


def named(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "name": "n", **members}


@pytest.mark.parametrize("table", [name for name in SCHEMAS if name != "v9_cow_blob"])
def test_arrow_and_back_is_the_text_hudi_wrote(table: str) -> None:
    name, namespace = record_name(table)
    again = avro_schema(arrow_schema(SCHEMAS[table]), name, namespace)
    assert json.dumps(again) == json.dumps(SCHEMAS[table])


def test_arrow_types_of_a_table_of_all_types() -> None:
    schema = arrow_schema(SCHEMAS["v9_mor_parquet_blocks"])
    assert schema.field("dec38").type == pa.decimal128(38, 18)
    assert schema.field("tm").type == US
    assert schema.field("tn").type == pa.timestamp("us")
    assert schema.field("dt").type == pa.date32()
    assert schema.field("bin").type == pa.binary()
    assert schema.field("m").type == pa.map_(pa.string(), pa.float64())
    inner = pa.struct([("d", pa.date32()), ("e", pa.decimal128(10, 3)), ("t", US)])
    assert schema.field("st").type == pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", inner)])
    assert schema.field("arrs").type.value_field.name == "element"
    assert all(field.nullable for field in schema)


def test_a_record_in_the_empty_namespace_and_an_enum() -> None:
    schema = arrow_schema(SCHEMAS["v9_cow_blob"])
    reference = schema.field("payload").type.field("reference").type
    assert schema.field("payload").type.field("type") == pa.field("type", pa.string(), nullable=False)
    assert reference.field("managed") == pa.field("managed", pa.bool_(), nullable=False)
    assert reference.field("offset") == pa.field("offset", pa.int64())


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
        ({"type": "long", "logicalType": "time-micros"}, pa.int64()),
        ({"type": "long", "logicalType": "timestamp-millis"}, US),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("ns", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "string", "logicalType": "timestamp-micros"}, pa.string()),
        ({"type": "long", "logicalType": "unheard-of"}, pa.int64()),
        ({"type": {"type": "long", "logicalType": "timestamp-micros"}}, US),
        (["null", "long"], pa.int64()),
        (["long", "null"], pa.int64()),
        (["int", "long"], pa.int64()),
        (["null", "double", "float"], pa.float64()),
        (["null", "int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())])),
        (["string"], pa.struct([("member0", pa.string())])),
        (named("fixed", size=12, logicalType="duration"), pa.binary(12)),
        (named("fixed", size=5, logicalType="decimal", precision=11, scale=2), pa.decimal128(11, 2)),
        # the digits do not fit: Avro ignores such a logical type
        (named("fixed", size=5, logicalType="decimal", precision=12, scale=2), pa.binary(5)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, pa.decimal256(39, 0)),
        (named("enum", symbols=["A"]), pa.string()),
        ({"type": "array", "items": "int"}, pa.list_(pa.field("element", pa.int32(), nullable=False))),
    ],
)
def test_arrow_type(avro: Any, arrow: pa.DataType) -> None:
    assert arrow_type(avro) == arrow


def test_named_types_are_found_by_name_in_their_namespace() -> None:
    schema = {
        "type": "record",
        "name": "a.b.outer",
        "fields": [
            {"name": "one", "type": {"type": "fixed", "name": "id", "size": 4}},
            {"name": "two", "type": ["null", "id"]},
            {"name": "three", "type": {"type": "array", "items": "a.b.id"}},
            {"name": "four", "type": {"type": "record", "name": "inner", "namespace": "c", "fields": []}},
            {"name": "five", "type": "c.inner"},
        ],
    }
    arrow = arrow_schema(schema)
    assert arrow.field("two") == pa.field("two", pa.binary(4))
    assert arrow.field("three").type.value_type == pa.binary(4)
    assert arrow.field("five").type == pa.struct([])


@pytest.mark.parametrize(
    ("avro", "message"),
    [
        ("strnig", "'strnig' is not defined"),
        ({"items": "int"}, "no type"),
        ({"type": "array"}, "no 'items'"),
        (named("record", fields=[{"name": "a"}]), "lacks name or type"),
        (named("record", fields=[{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]), "two fields 'a'"),
        (named("fixed", size=-1), "not a number of bytes"),
        ([], "empty"),
        (["null", ["int", "string"]], "holds a union"),
        (["null", "int", "null"], "null twice"),
    ],
)
def test_what_is_no_avro_schema_is_refused(avro: Any, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        arrow_type(avro)


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: Any = "int"
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaMismatchError, match="nested deeper"):
        arrow_type(schema)


@pytest.mark.parametrize(
    ("avro", "message"),
    [
        (named("record", fields=[{"name": "next", "type": ["null", "n"]}]), "contains itself"),
        (named("fixed", size=16, logicalType="vector", dimension=5, elementType="FLOAT"), "vector"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 77}, "at most 76 digits"),
    ],
)
def test_what_arrow_cannot_hold_is_unsupported(avro: Any, message: str) -> None:
    with pytest.raises(UnsupportedTableError, match=message):
        arrow_type(avro)


def test_rows_must_be_a_record() -> None:
    with pytest.raises(SchemaMismatchError, match="must be a record"):
        arrow_schema("long")


@pytest.mark.parametrize(
    ("arrow", "avro"),
    [
        (pa.int8(), "int"),
        (pa.uint16(), "int"),
        (pa.uint32(), "long"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.binary(4), "bytes"),
        (pa.date64(), {"type": "int", "logicalType": "date"}),
        (pa.timestamp("ns", "Europe/Paris"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.timestamp("s"), {"type": "long", "logicalType": "local-timestamp-micros"}),
        (pa.large_list(pa.int32()), {"type": "array", "items": ["null", "int"]}),
        (pa.list_(pa.field("x", pa.int32(), nullable=False), 3), {"type": "array", "items": "int"}),
        (pa.map_(pa.large_string(), pa.int64()), {"type": "map", "values": ["null", "long"]}),
        (pa.struct([("member0", pa.int32()), ("member1", pa.string())]), ["int", "string"]),
        (
            pa.decimal256(76, 3),
            {
                "type": "fixed",
                "name": "fixed",
                "namespace": "hoodie.t.t_record.c",
                "size": 32,
                "logicalType": "decimal",
                "precision": 76,
                "scale": 3,
            },
        ),
    ],
)
def test_avro_type_of_a_required_column(arrow: pa.DataType, avro: Any) -> None:
    schema = avro_schema(pa.schema([pa.field("c", arrow, nullable=False)]), "t_record", "hoodie.t")
    assert schema == {
        "type": "record",
        "name": "t_record",
        "namespace": "hoodie.t",
        "fields": [{"name": "c", "type": avro}],
    }


def test_nullable_unions_and_comments() -> None:
    union = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    commented = pa.field("b", pa.int64(), metadata={"comment": "the second"})
    schema = avro_schema(pa.schema([pa.field("a", union), commented]), "r", "")
    assert schema["fields"] == [
        {"name": "a", "type": ["null", "int", "string"], "default": None},
        {"name": "b", "type": ["null", "long"], "doc": "the second", "default": None},
    ]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (pa.field("t", pa.time64("us")), "column 't'.*cast it"),
        (pa.field("s", pa.struct([("u", pa.uint64())])), r"column 's\.u'"),
        (pa.field("m", pa.map_(pa.int32(), pa.int32())), "keys must be strings"),
        (pa.field("d", pa.decimal128(5, -2)), "scale"),
        (pa.field("two words", pa.int32()), "rename"),
        (pa.field("1st", pa.int32()), "rename"),
        (pa.field("", pa.int32()), "rename"),
        (pa.field("s", pa.struct([("x", pa.int32()), ("x", pa.int32())])), "twice"),
    ],
)
def test_columns_hudi_cannot_hold_are_named(field: pa.Field, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        avro_schema(pa.schema([field]), "r", "n")


def test_letters_of_other_alphabets_are_names() -> None:
    assert avro_schema(pa.schema([("größe", pa.int32())]), "r", "n")["fields"][0]["name"] == "größe"


def test_record_names_are_sanitised_as_hudi_does() -> None:
    assert record_name("trips") == ("trips_record", "hoodie.trips")
    assert record_name("my-table.v2") == ("my__table__v2_record", "hoodie.my__table__v2")
    assert record_name("9lives") == ("__lives_record", "hoodie.__lives")


def test_minimal_fixed_sizes() -> None:
    sizes = {1: 1, 2: 1, 3: 2, 5: 3, 9: 4, 10: 5, 18: 8, 19: 9, 20: 9, 30: 13, 38: 16, 76: 32}
    assert {digits: minimal_fixed_size(digits) for digits in sizes} == sizes
