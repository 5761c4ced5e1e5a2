"""Schemas of writes: what Apache Hudi 1.2.0 made of the same incoming columns."""

from __future__ import annotations

import json
import pickle
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import SchemaMismatchError
from hudi_py.schema import StoredRows
from hudi_py.write.table.evolution import (
    EvolutionRules,
    WriteSchema,
    cast_exactly,
    existing_schema,
    may_hold,
    write_schema,
)


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
    return write_schema(TABLE, incoming, "t", EvolutionRules(("k", "p"), ("ts",), **more))


def with_type(name: str, kind: pa.DataType) -> pa.Schema:
    return INCOMING.set(INCOMING.get_field_index(name), pa.field(name, kind))


def kinds(schema: WriteSchema) -> dict[str, Any]:
    return {field["name"]: field["type"][1] for field in schema.avro["fields"]}


def test_a_new_table_has_the_names_apache_hudi_gives() -> None:
    made = write_schema(None, pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())]), "t")
    avro = made.avro
    assert (avro["name"], avro["namespace"]) == ("t_record", "hoodie.t")
    assert [field["type"] for field in avro["fields"]] == ["long", ["null", "string"]]
    assert not made.changes
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(("name", "record"), [("my-table", "my__table"), ("2024 trips", "__024__trips")])
def test_a_table_name_that_avro_does_not_admit(name: str, record: str) -> None:
    avro = write_schema(None, pa.schema([("s", pa.string())]), name).avro
    assert (avro["name"], avro["namespace"]) == (f"{record}_record", f"hoodie.{record}")


def test_the_same_columns_keep_the_schema_as_it_is_written() -> None:
    result = evolve(INCOMING)
    assert not result.changes
    assert json.loads(result.avro_json) == TABLE


def test_column_order_of_the_data_does_not_matter() -> None:
    assert not evolve(pa.schema(list(INCOMING)[::-1])).changes


def test_a_new_column_goes_to_the_end_and_is_nullable() -> None:
    result = evolve(pa.schema([pa.field("e", pa.int64(), nullable=False), *INCOMING]))
    assert result.changes
    assert result.avro["fields"][-1] == {"name": "e", "type": ["null", "long"], "default": None}
    assert result.avro["fields"][:-1] == TABLE["fields"]


# What becomes of a table's column (rows) under data of another type (columns):
# = the data is converted, every value has its like; c it is, value by value, where that is exact, and refused otherwise
# W the column is widened; w only where it is asked for, otherwise as c; a only where it is asked for; . refused
KINDS = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "dec": pa.decimal128(10, 2),
    "dec+": pa.decimal128(12, 2),
    "dec~": pa.decimal128(10, 4),
    "text": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
}
GRID = """
        bool  int   long  float double dec  dec+  dec~  text  bytes date  time  local
bool    =     .     .     .     .     .     .     .     .     .     .     .     .
int     .     =     W     w     w     c     c     c     a     .     .     .     .
long    .     =     =     w     w     c     c     c     a     .     .     .     .
float   .     c     c     =     W     .     .     .     a     .     .     .     .
double  .     =     c     =     =     c     c     c     a     .     .     .     .
dec     .     c     c     .     .     =     W     c     .     .     .     .     .
dec+    .     c     c     .     .     =     =     c     .     .     .     .     .
dec~    .     c     c     .     .     c     c     =     .     .     .     .     .
text    .     =     =     =     =     =     =     =     =     c     =     .     .
bytes   .     .     .     .     .     .     .     .     =     =     .     .     .
date    .     .     .     .     .     .     .     .     .     .     =     .     .
time    .     .     .     .     .     .     .     .     .     .     .     =     .
local   .     .     .     .     .     .     .     .     .     .     .     .     =
"""
_HEAD, *_LINES = [line.split() for line in GRID.strip().splitlines()]
CELLS = [(line[0], data, what) for line in _LINES for data, what in zip(_HEAD, line[1:], strict=True)]
VALUES: dict[str, list[Any]] = {
    "bool": [True, None],
    "int": [4096, -7, None],
    "long": [4096, -7, None],
    "float": [2.0, 3.0, None],
    "double": [2.0, -3.0, None],
    "dec": [Decimal("7.00"), None],
    "dec+": [Decimal("-3.00"), None],
    "dec~": [Decimal("0.0000"), Decimal("12.0000"), None],
    "text": ["a", "\u00e9", "", None],
    "bytes": [b"a", b"", None],
    "date": [date(2024, 2, 29), None],
    "time": [datetime(2024, 1, 1, tzinfo=timezone.utc), None],
    "local": [datetime(2024, 1, 1), None],
}
INEXACT: dict[tuple[str, str], Any] = {
    ("int", "float"): 1.5,
    ("int", "double"): 2.0**31,
    ("int", "dec"): Decimal("1.50"),
    ("long", "double"): float("nan"),
    ("long", "float"): 0.25,
    ("long", "dec~"): Decimal("0.0001"),
    ("float", "int"): 2**24 + 1,
    ("float", "long"): 2**24 + 1,
    ("double", "long"): 2**53 + 1,
    ("dec", "int"): 10**8,
    ("dec", "dec~"): Decimal("0.0001"),
    ("dec~", "dec"): Decimal("1234567.00"),
    ("dec+", "long"): 10**10,
    ("text", "bytes"): b"\xff",
}


def column(avro: WriteSchema) -> pa.DataType:
    return avro.arrow.field("c").type


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("table", "data", "what"), CELLS)
def test_every_type_of_a_table_under_every_type_of_data(table: str, data: str, what: str, nested: bool) -> None:
    def wrapped(kind: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field("element", pa.struct([("m", kind)]))) if nested else kind

    own, incoming = wrapped(KINDS[table]), pa.schema([("c", wrapped(KINDS[data]))])
    stored = write_schema(None, pa.schema([("c", own)]), "t").avro

    def made(*, widen: bool) -> WriteSchema:
        return write_schema(stored, incoming, "t", EvolutionRules(widen=widen))

    where = r"c\.element\.m" if nested else "c"
    refusal = rf"Column '{where}' is {_shown(table)} in the table and {_shown(data)} in the data"
    if what in "aw":
        change = made(widen=True)
        assert column(change) == incoming.field("c").type
        assert [str(each) for each in change.changes] == [f"{where}: {KINDS[table]} -> {KINDS[data]}".replace("\\", "")]
    if what in ".a":
        with pytest.raises(SchemaMismatchError, match=refusal) as error:
            made(widen=False)
        assert (f"make the table's column {KINDS[data]} for good" in str(error.value)) == (what == "a")
        if what == ".":
            with pytest.raises(SchemaMismatchError, match=refusal):
                made(widen=True)
        return
    schema = made(widen=False)
    assert column(schema) == (incoming.field("c").type if what == "W" else own)
    assert bool(schema.changes) == (what == "W")

    def batch(values: list[Any]) -> pa.RecordBatch:
        inner = [[{"m": value}] for value in values] if nested else values
        return pa.record_batch([pa.array(inner, incoming.field("c").type)], schema=incoming)

    found = [row["c"][0]["m"] if nested else row["c"] for row in schema.conform(batch(VALUES[data])).to_pylist()]
    if table not in ("text", "bytes") or data in ("text", "bytes"):
        expected = [value.encode() if table == "bytes" and isinstance(value, str) else value for value in VALUES[data]]
        expected = [value.decode() if table == "text" and isinstance(value, bytes) else value for value in expected]
        assert found == expected
    elif table == "text":
        assert all((text is None) == (value is None) for text, value in zip(found, VALUES[data], strict=True))
    if (table, data) in INEXACT:
        assert what in "cw"
        with pytest.raises(SchemaMismatchError, match=rf"Column '{where}' .*") as error:
            schema.conform(batch([INEXACT[table, data]]))
        assert ("hoodie.py.write.widen.columns=true" in str(error.value)) == (what == "w")


def _shown(name: str) -> str:
    return re.escape(str(KINDS[name]))


def test_key_columns_take_other_integers_and_never_change() -> None:
    made = write_schema(None, pa.schema([("k", pa.int32())]), "t")
    schema = write_schema(made.avro, pa.schema([("k", pa.int64())]), "t", EvolutionRules(("k",), widen=True))
    assert not schema.changes
    assert schema.conform(pa.record_batch({"k": [7]})).schema.types == [pa.int32()]
    with pytest.raises(SchemaMismatchError, match="'k' is int32 in the table and int64 in the data, which has a value"):
        schema.conform(pa.record_batch({"k": [2**31]}))


def test_changes_are_told_by_column() -> None:
    incoming = with_type("x", pa.int64()).append(pa.field("e", pa.struct([("a", pa.string())])))
    assert [str(change) for change in evolve(incoming).changes] == ["x: int32 -> int64", "e: new -> struct<a: string>"]


def test_converted_values() -> None:
    schema = evolve(with_type("s", pa.int64()))
    batch = pa.record_batch([[1], ["a"], [1], [2], pa.array([3], pa.int32()), [7]], schema=with_type("s", pa.int64()))
    assert schema.conform(batch).to_pylist() == [{"k": 1, "p": "a", "ts": 1, "v": 2, "x": 3, "s": "7"}]


def test_a_missing_column_is_refused_unless_null_is_asked_for() -> None:
    without = INCOMING.remove(INCOMING.get_field_index("s"))
    with pytest.raises(SchemaMismatchError, match="Column 's' of the table is missing in the data"):
        evolve(without)
    assert not evolve(without, set_null=True).changes


@pytest.mark.parametrize("name", ["k", "p"])
def test_key_and_partition_columns_are_never_left_out(name: str) -> None:
    without = INCOMING.remove(INCOMING.get_field_index(name))
    for set_null in (False, True):
        with pytest.raises(SchemaMismatchError, match=f"Column '{name}' of the table is missing .* need it for their"):
            evolve(without, set_null=set_null)


def test_a_column_of_another_case_is_named() -> None:
    with pytest.raises(SchemaMismatchError, match="'X': rename it"):
        evolve(pa.schema([field.with_name("X") if field.name == "x" else field for field in INCOMING]))


def test_a_misspelt_column_is_named_where_the_right_one_is_missing() -> None:
    misspelt = pa.schema([field.with_name("vv") if field.name == "v" else field for field in INCOMING])
    with pytest.raises(
        SchemaMismatchError, match="'v' of the table is missing in the data; the data has 'vv', which the"
    ):
        evolve(misspelt)
    assert [str(change) for change in evolve(misspelt, set_null=True).changes] == ["vv: new -> int64"]


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


def test_decimals_of_few_digits_become_floating_point_numbers() -> None:
    for kind, digits in ((pa.float64(), 15), (pa.float32(), 6)):
        decimals = [Decimal("2.5"), Decimal(-(10**digits) + 1).scaleb(-2), None]
        made = cast_exactly(pa.array(decimals, pa.decimal128(digits, 2)), kind, "x")
        assert made.type == kind
        assert made.cast(pa.decimal128(digits, 2)).to_pylist() == decimals
        assert not may_hold(kind, pa.decimal128(digits + 1, 2))


def test_an_ordering_column_may_become_a_wider_number() -> None:
    assert kinds(evolve(with_type("ts", pa.float64()), widen=True))["ts"] == "double"


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
    assert not evolve(with_type("s", pa.null())).changes
    with pytest.raises(SchemaMismatchError, match="'e'.*all null"):
        evolve(INCOMING.append(pa.field("e", pa.null())))
    with pytest.raises(SchemaMismatchError, match="'e'.*all null"):
        write_schema(None, pa.schema([("k", pa.int64()), ("e", pa.null())]), "t")


def test_nulls_in_a_required_column_are_refused() -> None:
    made = write_schema(None, pa.schema([pa.field("k", pa.int64(), nullable=False)]), "t")
    with pytest.raises(SchemaMismatchError, match="'k' of the data has 1 nulls in 2 rows"):
        made.conform(pa.record_batch({"k": pa.array([1, None])}))


def test_meta_columns_come_first_in_files() -> None:
    record = StoredRows().avro(existing_schema(TABLE).avro)
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
    assert not write_schema(back, pa.schema([("k", pa.int64()), ("c", pa.date32())]), "t").changes
