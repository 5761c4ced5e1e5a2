"""Avro data blocks to Arrow: values, projection, many blocks, and bytes that lie."""

from __future__ import annotations

import base64
import datetime
import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.avro import arrow_schema, decode_log_batches, decode_log_content, encode_log_content
from hudi_py.formats.avro import decode as decode_module

BLOCK = json.loads(Path(__file__).with_name("test_avro_block.json").read_text("utf-8"))
"""A data block of a log file by Apache Hudi 1.2.0: three rows of all types, and its SCHEMA header."""
UTC = datetime.timezone.utc


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def block(*records: bytes, version: int = 3, count: int | None = None) -> bytes:
    framed = b"".join(struct.pack(">i", len(r)) + r for r in records)
    return struct.pack(">ii", version, len(records) if count is None else count) + framed


def written(schema: dict[str, Any], rows: list[dict[str, Any]]) -> bytes:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    records = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        records.append(out.getvalue())
    return block(*records)


def test_a_block_by_apache_hudi() -> None:
    content, schema = base64.b64decode(BLOCK["content"]), json.loads(BLOCK["schema"])
    batch = decode_log_content([content], schema)
    assert batch.schema == arrow_schema(schema)
    assert batch.column("_hoodie_record_key").to_pylist() == ["10", "12", "14"]
    first = batch.to_pylist()[0]
    assert first["_hoodie_commit_seqno"] == "20261121020900651_0_11"
    assert first["f"] == -1.5
    assert first["dec30"] == Decimal("-99999999999999999999.9999999999")
    assert first["bin"] == b"\x7f\xdb\xd96\xa3\x10"
    assert first["dt"] == datetime.date(1986, 1, 3)
    assert first["tm"] == datetime.datetime(2012, 11, 22, 4, 58, 8, 206857, tzinfo=UTC)
    assert first["tn"] == datetime.datetime(2059, 12, 2, 12, 18, 59, 311402)
    assert first["arr"] == [None, -1]
    assert first["arrs"] == [None]
    assert first["arrarr"] is None
    assert first["m"] == [("k0", None), ("k1", 0.0)]
    assert first["ms"][1] == ("k1", {"p": 0.0, "q": [" lead685"]})
    assert first["st"] == {
        "a": 464131,
        "b": "Ωmega875",
        "c": {"d": datetime.date(2050, 9, 13), "e": Decimal("2614238.128"), "t": None},
    }
    assert encode_log_content(batch, schema) == content


def test_columns_come_in_the_order_of_the_schema_and_unknown_ones_are_left_out() -> None:
    schema = record(a="int", b={"type": "array", "items": ["null", "string"]}, c="string", d="double")
    content = written(schema, [{"a": i, "b": ["x", None], "c": str(i), "d": 0.5} for i in range(3)])
    batch = decode_log_content([content], schema, ["d", "c", "nowhere"])
    assert batch.to_pydict() == {"c": ["0", "1", "2"], "d": [0.5] * 3}
    assert decode_log_content([content], schema, []).num_rows == 3
    assert decode_log_content([content], schema, []).num_columns == 0


def test_blocks_of_one_schema_are_concatenated_in_order() -> None:
    schema = record(k="string", v=["null", "long"])
    rows = [{"k": f"k{i}", "v": None if i % 3 == 0 else i * 10**9} for i in range(50)]
    contents = [written(schema, rows[:7]), written(schema, []), bytearray(written(schema, rows[7:]))]
    assert decode_log_content(contents, schema).to_pylist() == rows
    assert [b.num_rows for b in decode_log_batches(contents, schema)] == [50]


def test_no_rows_have_the_schema_all_the_same() -> None:
    schema = record(k="string", v=["null", "long"])
    assert decode_log_content([], schema).schema == arrow_schema(schema)
    assert decode_log_content([block()], schema, {"v"}).schema.names == ["v"]
    assert decode_log_content([block()], schema).num_rows == 0


def test_chunks_and_buffers_join(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record(k="string", l={"type": "array", "items": "int"})
    rows = [{"k": "x" * i, "l": list(range(i % 5))} for i in range(40)]
    contents = [written(schema, rows[i : i + 10]) for i in range(0, 40, 10)]
    monkeypatch.setattr(decode_module, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(decode_module, "_BUFFER_BYTES", 500)
    assert len(list(decode_log_batches(contents, schema))) > 10
    assert decode_log_content(contents, schema).to_pylist() == rows


def test_milliseconds_become_microseconds() -> None:
    schema = record(t={"type": "long", "logicalType": "timestamp-millis"})
    content = block(b"\x02", b"\x01")  # 1 and -1
    assert decode_log_content([content], schema).column("t").cast(pa.int64()).to_pylist() == [1000, -1000]
    with pytest.raises(CorruptFileError, match=r"field 't'.*milliseconds"):
        decode_log_content([block(b"\xff" * 9 + b"\x01")], schema)


def test_decimals_of_every_width() -> None:
    wide = {"type": "fixed", "name": "w", "size": 40, "logicalType": "decimal", "precision": 20, "scale": 2}
    loose = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 1}
    schema = record(w=["null", wide], b=loose)
    padded = (-7).to_bytes(40, "big", signed=True)
    content = block(
        b"\x02" + padded + b"\x00",  # no bytes at all are zero
        b"\x00" + bytes([2 * 45]) + (10**49).to_bytes(45, "big"),
        b"\x02" + (10**19).to_bytes(40, "big") + b"\x02\xff",
    )
    assert decode_log_content([content], schema).to_pylist() == [
        {"w": Decimal("-0.07"), "b": Decimal("0.0")},
        {"w": None, "b": Decimal(10**49).scaleb(-1)},
        {"w": Decimal(10**17), "b": Decimal("-0.1")},
    ]
    for bad in (
        b"\x02\x01" + bytes(39) + b"\x00",
        b"\x00" + bytes([2 * 45, 1]) + bytes(44),
        b"\x02" + bytes(20) + b"\xff" * 20 + b"\0",
    ):
        with pytest.raises(CorruptFileError, match="does not fit"):
            decode_log_content([block(bad)], schema)


def test_a_decimal_of_too_many_digits_is_corrupt() -> None:
    schema = record(d={"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 0})
    assert decode_log_content([block(b"\x03\xe7")], schema).to_pylist() == [{"d": Decimal(999)}]
    with pytest.raises(CorruptFileError):
        decode_log_content([block(b"\x03\xe8")], schema)


def test_null_fixed_values_wider_than_the_rest_of_the_block() -> None:
    fixed = {"type": "fixed", "name": "f", "size": 100}
    schema = record(a=["null", fixed], b=["null", "f"])
    content = block(b"\x02" + bytes(range(100)) + b"\x00", b"\x00\x00", b"\x00\x00")
    assert decode_log_content([content], schema).to_pylist() == [
        {"a": bytes(range(100)), "b": None},
        {"a": None, "b": None},
        {"a": None, "b": None},
    ]


def test_required_members_below_a_null_struct() -> None:
    inner = {
        "type": "record",
        "name": "inner",
        "fields": [
            {"name": "i", "type": "int"},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
            {"name": "l", "type": {"type": "array", "items": "string"}},
            {"name": "u", "type": ["int", "string", "boolean"]},
        ],
    }
    schema = record(s=["null", inner])
    given = b"\x02" + b"\x0a" + b"\x02\x09" + b"\x02" + b"\x02\x02x\x00" + b"\x02\x02y"
    batch = decode_log_content([block(b"\x00", given, b"\x00")], schema)
    member = {"member0": None, "member1": "y", "member2": None}
    assert batch.to_pylist() == [
        {"s": None},
        {"s": {"i": 5, "d": Decimal(9), "e": "B", "l": ["x"], "u": member}},
        {"s": None},
    ]
    assert batch.column("s").field("i").null_count == 0
    assert encode_log_content(batch, schema) == block(b"\x00", given, b"\x00")


def test_unions_of_numbers_are_the_wider_one() -> None:
    schema = record(n=["int", "long"], x=["null", "double", "float"])
    content = block(
        b"\x00\x05" + b"\x04" + struct.pack("<f", 0.5), b"\x02\x06" + b"\x02" + struct.pack("<d", 0.1), b"\x00\x01\x00"
    )
    assert decode_log_content([content], schema).to_pydict() == {"n": [-3, 3, -1], "x": [0.5, 0.1, None]}


def test_long_and_short_lists_and_blocks_with_a_size() -> None:
    schema = record(l={"type": "array", "items": ["null", "int"]}, d={"type": "array", "items": "double"})
    rows = [{"l": [None if j % 7 == 0 else j for j in range(n)], "d": [0.5] * n} for n in [*range(80), 3000, 0, 1]]
    assert decode_log_content([written(schema, rows)], schema).to_pylist() == rows
    # two blocks, the first with a negative count and its size in bytes
    several = b"\x03\x08\x02\x02\x02\x04" + b"\x02\x02\x06" + b"\x00" + b"\x00"
    assert decode_log_content([block(several)], schema).to_pylist() == [{"l": [1, 2, 3], "d": []}]


def test_lists_without_bytes() -> None:
    schema = record(n={"type": "array", "items": "null"}, e={"type": "array", "items": record_of_nothing()})
    assert decode_log_content([block(b"\x06\x00\x04\x00")], schema).to_pylist() == [{"n": [None] * 3, "e": [{}, {}]}]


def record_of_nothing() -> dict[str, Any]:
    return {"type": "record", "name": "nothing", "fields": []}


def test_recursive_columns_can_be_skipped_but_not_read() -> None:
    tree = {
        "type": "record",
        "name": "tree",
        "fields": [
            {"name": "v", "type": "int"},
            {"name": "kids", "type": {"type": "array", "items": "tree"}},
            {"name": "next", "type": ["null", "tree"]},
        ],
    }
    schema = record(a="int", t=tree, z="string")
    leaf = {"v": 1, "kids": [], "next": None}
    rows = [{"a": i, "t": {"v": 2, "kids": [leaf, leaf], "next": leaf}, "z": f"z{i}"} for i in range(60)]
    content = written(schema, rows)
    assert decode_log_content([content], schema, {"a", "z"}).to_pylist() == [{"a": i, "z": f"z{i}"} for i in range(60)]
    with pytest.raises(UnsupportedTableError, match="contains itself"):
        decode_log_content([content], schema)
    endless = record(a="int", r={"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]})
    with pytest.raises(CorruptFileError, match="too deeply"):
        decode_log_content([block(b"\x02")], endless, {"a"})


SIMPLE = record(s="string", n=["null", "int"], l={"type": "array", "items": ["null", "long"]})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"\0\0\0\3\0\0", "expected at least the"),
        (block(version=0), "version 0"),
        (block(version=4), "version 4"),
        (block(count=-1), "claims -1 records"),
        (block(count=2**31 - 1) + bytes(92), "claims 2147483647 records in 100 bytes"),
        (block(b"\x00\x00\x00", count=2), "claims 2 records"),
        (block(b"\x00\x00\x00" + bytes(8), count=2), "runs past the end"),
        (block(b"\x00\x00\x00")[:-1], "do not end where"),
        (block(b"\x00\x00\x00") + b"\0", "do not end where"),
        (struct.pack(">iii", 3, 1, -4), "do not end where"),
        (struct.pack(">iii", 3, 1, 2**31 - 1), "do not end where"),
        (struct.pack(">iiii", 3, 2, 2**31 - 1, 0), "runs past the end"),
        (block(b"\x00\x00\x00\x00"), "does not end where its length says"),
        (block(b"\x00\x00"), "(?s)."),
        (block(b"\x01\x00\x00"), "field 's'.*length is negative"),
        (block(b"\xfe\xff\xff\xff\x0f\x00\x00"), "field 's'.*runs past the end"),
        (block(b"\xff" * 9 + b"\x01" + b"\x00\x00"), "field 's'.*length is negative"),
        (block(b"\xff" * 10 + b"\x00\x00"), "field 's'.*longer than 64 bits"),
        (block(b"\x02\xff\x00\x00"), "field 's'.*UTF8"),
        (block(b"\x00\x04\x00"), "field 'n'.*another index"),
        (block(b"\x00\x02" + b"\x80" * 4 + b"\x10\x00"), "field 'n'.*more than 32 bits"),
        (block(b"\x00\x00\xfe\xff\xff\xff\x0f"), "field 'l'.*claims"),
        (block(b"\x00\x00" + b"\xff" * 9 + b"\x01"), "field 'l'"),
        (block(b"\x00\x00\x01\x01\x00"), "field 'l'.*negative size"),
        (block(b"\x00\x00\x02\x06\x00"), "field 'l'.*another index"),
        (block(b"\x00\x00\x02\x02"), "field 'l'.*past the end"),
    ],
)
def test_corrupt_bytes_name_the_file_and_the_field(content: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message) as found:
        decode_log_content([content], SIMPLE, context=".f.log.1_0-1-2")
    assert "of .f.log.1_0-1-2" in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("column", ["s", "n", "l"])
def test_corrupt_lengths_are_found_in_skipped_fields_too(column: str) -> None:
    bad = {"s": b"\x01\x00\x00", "n": b"\x00\x06\x00", "l": b"\x00\x00\xfe\xff\xff\xff\x0f"}[column]
    with pytest.raises(CorruptFileError):
        decode_log_content([block(bad)], SIMPLE, set())


def test_every_truncation_of_a_block_is_corrupt() -> None:
    content, schema = base64.b64decode(BLOCK["content"]), json.loads(BLOCK["schema"])
    for size in range(len(content)):
        with pytest.raises(CorruptFileError):
            decode_log_content([content[:size]], schema)


@pytest.mark.parametrize("items", ["null", {"type": "array", "items": "null"}])
def test_lists_that_claim_billions_of_items_without_bytes(items: Any) -> None:
    claim = b"\xfe\xff\xff\xff\x0f\x00"  # 2**31 - 1
    schema = record(l={"type": "array", "items": items})
    body = claim if items == "null" else b"\x02" + claim + b"\x00"
    with pytest.raises(CorruptFileError, match="claims"):
        decode_log_content([block(body)], schema)
    many = b"\x80\x80\x80\x02\x00"  # 2**21 items, many times over
    with pytest.raises(CorruptFileError, match=r"without bytes|claims"):
        decode_log_content([block(*([many if items == "null" else b"\x02" + many + b"\x00"] * 40))], schema)


def test_a_fixed_type_larger_than_the_block() -> None:
    schema = record(f=["null", {"type": "fixed", "name": "f", "size": 1 << 20}])
    assert decode_log_content([block(b"\x00")], schema).to_pylist() == [{"f": None}]
    with pytest.raises(CorruptFileError):
        decode_log_content([block(b"\x02abc")], schema)


def test_booleans_and_enums_out_of_range() -> None:
    schema = record(b="boolean", e={"type": "enum", "name": "e", "symbols": ["A"]})
    assert decode_log_content([block(b"\x01\x00")], schema).to_pylist() == [{"b": True, "e": "A"}]
    for bad in (b"\x02\x00", b"\x00\x02", b"\x00\x01"):
        with pytest.raises(CorruptFileError):
            decode_log_content([block(bad)], schema)


def test_names_of_nested_fields_in_errors() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "string"}]}
    schema = record(o={"type": "record", "name": "o", "fields": [{"name": "i", "type": ["null", inner]}]})
    with pytest.raises(CorruptFileError, match=r"field 'o\.i\.x': "):
        decode_log_content([block(b"\x02\x01")], schema)


def test_a_broken_schema_is_no_corrupt_file() -> None:
    with pytest.raises(SchemaMismatchError, match="'lnog'"):
        decode_log_content([block()], record(a="lnog"))
