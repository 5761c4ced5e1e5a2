"""Schemas of writes: what Apache Hudi 1.2.0 made of the same incoming columns."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.write.evolution import WriteSchema, existing_schema, write_schema


def fields(**types: Any) -> list[dict[str, Any]]:
    return [{"name": name, "type": ["null", kind], "default": None} for name, kind in types.items()]


TABLE: dict[str, Any] = {
    "type": "record",
    "name": "t_record",
    "namespace": "hoodie.t",
    "fields": fields(k="long", p="string", ts="long", v="long", x="int", s="string"),
}
INCOMING = pa.schema(
    [
        ("k", pa.int64()),
        ("p", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.int64()),
        ("x", pa.int32()),
        ("s", pa.string()),
    ]
)


def evolve(incoming: pa.Schema, **more: Any) -> WriteSchema:
    return write_schema(TABLE, incoming, "t", fixed=("k", "p"), numeric_only=("ts",), **more)


def with_type(name: str, kind: pa.DataType) -> pa.Schema:
    return INCOMING.set(INCOMING.get_field_index(name), pa.field(name, kind))


def kinds(schema: WriteSchema) -> dict[str, Any]:
    return {field["name"]: field["type"][1] for field in schema.avro["fields"]}


def test_a_new_table_has_the_names_apache_hudi_gives() -> None:
    made = write_schema(None, pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())]), "t")
    avro = made.avro
    assert (avro["name"], avro["namespace"]) == ("t_record", "hoodie.t")
    assert [field["type"] for field in avro["fields"]] == ["long", ["null", "string"]]
    assert made.changed
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(("name", "record"), [("my-table", "my__table"), ("2024 trips", "__024__trips")])
def test_a_table_name_that_avro_does_not_admit(name: str, record: str) -> None:
    avro = write_schema(None, pa.schema([("s", pa.string())]), name).avro
    assert (avro["name"], avro["namespace"]) == (f"{record}_record", f"hoodie.{record}")


def test_the_same_columns_keep_the_schema_as_it_is_written() -> None:
    result = evolve(INCOMING)
    assert not result.changed
    assert json.loads(result.avro_json) == TABLE


def test_column_order_of_the_data_does_not_matter() -> None:
    assert not evolve(pa.schema(list(INCOMING)[::-1])).changed


def test_a_new_column_goes_to_the_end_and_is_nullable() -> None:
    result = evolve(pa.schema([pa.field("e", pa.int64(), nullable=False), *INCOMING]))
    assert result.changed
    assert result.avro["fields"][-1] == {"name": "e", "type": ["null", "long"], "default": None}
    assert result.avro["fields"][:-1] == TABLE["fields"]


@pytest.mark.parametrize(("kind", "avro"), [(pa.int64(), "long"), (pa.float64(), "double"), (pa.string(), "string")])
def test_a_wider_type_widens_the_column(kind: pa.DataType, avro: str) -> None:
    assert kinds(evolve(with_type("x", kind)))["x"] == avro


@pytest.mark.parametrize(("name", "kind"), [("v", pa.int32()), ("s", pa.int64()), ("s", pa.date32())])
def test_a_narrower_type_is_converted(name: str, kind: pa.DataType) -> None:
    result = evolve(with_type(name, kind))
    assert not result.changed


def test_converted_values() -> None:
    schema = evolve(with_type("s", pa.int64()))
    batch = pa.record_batch([[1], ["a"], [1], [2], pa.array([3], pa.int32()), [7]], schema=with_type("s", pa.int64()))
    assert schema.conform(batch).to_pylist() == [{"k": 1, "p": "a", "ts": 1, "v": 2, "x": 3, "s": "7"}]


def test_a_missing_column_is_refused_unless_null_is_asked_for() -> None:
    without = INCOMING.remove(INCOMING.get_field_index("s"))
    with pytest.raises(SchemaMismatchError, match="Column 's' of the table is missing in the data"):
        evolve(without)
    assert not evolve(without, set_null_for_missing=True).changed


@pytest.mark.parametrize("name", ["k", "p"])
def test_key_and_partition_columns_are_never_left_out(name: str) -> None:
    without = INCOMING.remove(INCOMING.get_field_index(name))
    for set_null in (False, True):
        with pytest.raises(SchemaMismatchError, match=f"Column '{name}' of the table is missing .* need it for their"):
            evolve(without, set_null_for_missing=set_null)


def test_a_column_of_another_case_is_named() -> None:
    with pytest.raises(SchemaMismatchError, match="'X': rename it"):
        evolve(pa.schema([field.with_name("X") if field.name == "x" else field for field in INCOMING]))


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("x", pa.bool_(), "neither can be converted"),
        ("k", pa.string(), "key or partition column"),
        ("ts", pa.string(), "ordering column"),
    ],
)
def test_types_that_do_not_go_together(name: str, kind: pa.DataType, text: str) -> None:
    with pytest.raises(SchemaMismatchError, match=text):
        evolve(with_type(name, kind))


def test_an_ordering_column_may_become_a_wider_number() -> None:
    assert kinds(evolve(with_type("ts", pa.float64())))["ts"] == "double"


def test_wall_clock_and_instant_are_not_mixed() -> None:
    made = write_schema(None, pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC"))]), "t")
    with pytest.raises(SchemaMismatchError, match="'t'"):
        write_schema(made.avro, pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))]), "t")


def test_nested_columns_evolve_member_by_member() -> None:
    old = pa.schema([("k", pa.int64()), ("n", pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32()))]))])
    new = pa.struct([("b", pa.string()), ("a", pa.int64()), ("l", pa.list_(pa.int64()))])
    made = write_schema(None, old, "t")
    result = write_schema(made.avro, pa.schema([("k", pa.int64()), ("n", new)]), "t")
    kind = result.arrow.field("n").type
    assert [field.name for field in kind] == ["a", "l", "b"]
    assert kind.field("a").type == pa.int64()
    assert kind.field("l").type.value_type == pa.int64()
    with pytest.raises(SchemaMismatchError, match=r"Column 'n\.a' of the table is missing"):
        write_schema(made.avro, pa.schema([("k", pa.int64()), ("n", pa.struct([("l", pa.list_(pa.int32()))]))]), "t")


def test_null_columns_take_the_tables_type() -> None:
    assert not evolve(with_type("s", pa.null())).changed
    with pytest.raises(SchemaMismatchError, match="'e'.*all null"):
        evolve(INCOMING.append(pa.field("e", pa.null())))
    with pytest.raises(SchemaMismatchError, match="'e'.*all null"):
        write_schema(None, pa.schema([("k", pa.int64()), ("e", pa.null())]), "t")


def test_nulls_in_a_required_column_are_refused() -> None:
    made = write_schema(None, pa.schema([pa.field("k", pa.int64(), nullable=False)]), "t")
    with pytest.raises(SchemaMismatchError, match="'k' of the data has 1 nulls in 2 rows"):
        made.conform(pa.record_batch({"k": pa.array([1, None])}))


def test_meta_columns_come_first_in_files() -> None:
    record = json.loads(existing_schema(TABLE).avro_with_meta_json)
    assert [field["name"] for field in record["fields"]][:6] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "k",
    ]


@pytest.mark.parametrize(
    "stored",
    [
        {"type": "int", "logicalType": "date"},
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    ],
)
def test_a_date_or_decimal_does_not_become_text(stored: dict[str, Any]) -> None:
    """Apache Hudi parses such texts as dates or decimals, and its upserts fail where the column has become text."""
    table = {**TABLE, "fields": TABLE["fields"][:1] + fields(c=stored)}
    with pytest.raises(
        SchemaMismatchError, match=r"Column 'c' is d.* in the table and string in the data.*cast the data"
    ):
        write_schema(table, pa.schema([("k", pa.int64()), ("c", pa.string())]), "t")
    back = {**TABLE, "fields": TABLE["fields"][:1] + fields(c="string")}
    assert not write_schema(back, pa.schema([("k", pa.int64()), ("c", pa.date32())]), "t").changed
