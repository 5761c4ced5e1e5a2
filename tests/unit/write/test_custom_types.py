"""Writes to tables with VECTOR, VARIANT and BLOB columns: what is declared, what is refused, and services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config.write import PARTIAL_UPSERT
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.hudi_types import BLOB_TYPE, VARIANT_TYPE, Vector, vector_columns
from hudi_py.formats.log import HeaderKey, read_blocks
from hudi_py.storage import open_storage
from tests.support.choice import cases

FLOATS = pa.list_(pa.float32())
NUMBER = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x2a"}
INLINE = {"type": "INLINE", "data": b"abc", "reference": None}
OUTSIDE = {
    "type": "OUT_OF_LINE",
    "data": None,
    "reference": {"external_path": "x", "offset": None, "length": 3, "managed": True},
}
NULLS = {"hoodie.write.set.null.for.missing.columns": "true"}


def field(name: str, text: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"hudi_type": text})


SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        field("e", "VECTOR(2)", FLOATS),
        field("e2", "VECTOR(2)", FLOATS),
        field("v", "VARIANT", VARIANT_TYPE),
        field("b", "BLOB", BLOB_TYPE),
        ("s", pa.struct([field("b", "BLOB", BLOB_TYPE), ("x", pa.int32())])),
        ("ts", pa.int64()),
    ]
)


def row(key: str, ts: int, **more: Any) -> dict[str, Any]:
    full = {"e": [ts, 0.5], "e2": [0.25, ts], "v": NUMBER, "b": OUTSIDE, "s": {"b": INLINE, "x": None}}
    return {"id": key, **full, "ts": ts, **more}


def table(*rows: dict[str, Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema)


def empty(key: str) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMA.names), "id": key, "ts": 1}


def create(path: Path, kind: str = "cow", version: int = 9, **options: str) -> str:
    first = table(row("a", 1), row("b", 1), empty("c"))
    how: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "table_type": kind, "table_version": version}
    hudi_py.write(str(path), first, options=options, **how)
    return str(path)


def rows_of(path: str) -> list[dict[str, Any]]:
    found = hudi_py.open_table(path).scan(meta=False).to_table()
    return sorted(found.to_pylist(), key=lambda each: str(each["id"]))


def blocks(kind: str) -> dict[str, str]:
    return {"hoodie.logfile.data.block.format": kind}


PRODUCT = [(v, kind, logs) for v in (6, 8, 9) for kind, logs in (("cow", ""), ("mor", "avro"), ("mor", "parquet"))]


@pytest.mark.parametrize(("version", "kind", "logs"), cases(PRODUCT, "custom types", 4))
def test_writes_and_services(tmp_path: Path, version: int, kind: str, logs: str) -> None:
    options = blocks(logs) if logs else {}
    path = create(tmp_path / "t", kind, version, **options)
    for ts in (5, 6):
        hudi_py.write(path, table(row("b", ts), row(f"n{ts}", ts), empty("a") | {"ts": ts}), options=options)
    expected = [empty("a") | {"ts": 6}, row("b", 6), empty("c"), row("n5", 5), row("n6", 6)]
    assert rows_of(path) == expected
    if kind == "mor":
        if version > 6:
            hudi_py.open_table(path).log_compact(options={"hoodie.log.compaction.blocks.threshold": "1"})
            assert rows_of(path) == expected
        hudi_py.open_table(path).compact()
        assert rows_of(path) == expected
    changed = hudi_py.open_table(path)
    changed.update({"e": "e2", "v": "NULL", "ts": "ts + 1"}, "id = 'b'")
    expected[1] = row("b", 7, e=[0.25, 6], e2=[0.25, 6], v=None)
    assert rows_of(path) == expected
    source = pa.Table.from_pylist([{"id": "c", "e": [8, 9], "ts": 9}], SCHEMA).select(["id", "e", "ts"])
    merge = hudi_py.open_table(path).merge(source, on="id")
    merge.when_matched_update({"e": "s.e", "e2": "t.e", "ts": "s.ts"}).execute()
    expected[2] = empty("c") | {"e": [8, 9], "ts": 9}
    assert rows_of(path) == expected
    hudi_py.open_table(path).delete_where("e2 IS NULL")
    assert rows_of(path) == [expected[1], *expected[3:]]
    assert [each.metadata for each in hudi_py.open_table(path).schema if each.metadata] == [
        each.metadata for each in SCHEMA if each.metadata
    ]


def test_a_partial_log_block_defines_the_vector_it_names(tmp_path: Path) -> None:
    """`e2` alone is in the block; in the table's schema `e` defines its type."""
    path = create(tmp_path / "t", "mor")
    source = pa.Table.from_pylist([{"id": "a", "e2": [7, 8], "ts": 9}], SCHEMA).select(["id", "e2", "ts"])
    hudi_py.write(path, source, options={PARTIAL_UPSERT.key: "true"})
    assert rows_of(path)[0] == row("a", 9, e=[1, 0.5], e2=[7, 8])
    storage = open_storage(path)
    (log,) = (info for info in storage.walk() if ".log." in info.name and not info.path.startswith(".hoodie"))
    (block,) = read_blocks(storage, log.path, log.size)
    schema = json.loads(block.header[HeaderKey.SCHEMA])
    assert vector_columns(schema) == {"e2": Vector(2)}


def test_data_without_declarations(tmp_path: Path) -> None:
    """Lists of every kind, structs with members in another order, and numbers that fit exactly."""
    path = create(tmp_path / "t")
    plain = table(row("a", 3)).cast(pa.schema([each.remove_metadata() for each in SCHEMA]))
    hudi_py.write(path, plain)
    assert rows_of(path)[0] == row("a", 3)
    order = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    others = pa.schema([("id", pa.string()), ("e", pa.list_(pa.int32(), 2)), ("v", order), ("ts", pa.int64())])
    hudi_py.write(path, table({"id": "a", "e": [3, 4], "v": NUMBER, "ts": 4}, schema=others), options=NULLS)
    assert rows_of(path)[0] == {**empty("a"), "e": [3, 4], "v": NUMBER, "ts": 4}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1.0, 2.0, 3.0]], FLOATS), r"1 of 1 rows have another number of values, the first one 3"),
        (pa.array([[1.0, None]], FLOATS), r"1 of 1 rows have null among the values, the first one \[1\.0, None\]"),
        (
            pa.array([[1.0, 2.0]]),
            r"is VECTOR\(2\) in the table and list<.*double> in the data; cast the data to list<fl",
        ),
        (pa.array([["1", "2"]]), r"is VECTOR\(2\) in the table and list<.*string> in the data"),
        (pa.array([b"12345678"]), r"is VECTOR\(2\) in the table and binary in the data"),
    ],
)
def test_wrong_vectors(tmp_path: Path, column: pa.Array, message: str) -> None:
    path = create(tmp_path / "t")
    with pytest.raises(
        SchemaMismatchError, match=rf"^Column 'e' {message}|^Column 'e' is a VECTOR of 2 float .*{message}"
    ):
        hudi_py.write(path, pa.table({"id": ["a"], "e": column, "ts": [9]}), options=NULLS)
    assert len(rows_of(path)) == 3
    assert hudi_py.open_table(path).scan().count() == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            field("e", "VECTOR(3)", FLOATS),
            r"'e' is VECTOR\(2\) in the table and VECTOR\(3\) in the data; the type cannot",
        ),
        (
            field("e", "VECTOR(2, INT8)", pa.list_(pa.int8())),
            r"VECTOR\(2\) in the table and VECTOR\(2, INT8\) in the data",
        ),
        (field("ts", "VARIANT", VARIANT_TYPE), r"'ts' is int64 in the table and VARIANT in the data; the type cannot"),
        (
            pa.field("v", pa.struct([("metadata", pa.binary())])),
            r"'v' is VARIANT in the table and struct<metadata: binary>",
        ),
        (pa.field("b", pa.binary()), r"'b' is BLOB in the table and binary in the data"),
    ],
)
def test_types_never_change(tmp_path: Path, given: pa.Field, message: str) -> None:
    path = create(tmp_path / "t")
    schema = pa.schema(
        [each for each in (pa.field("id", pa.string()), pa.field("ts", pa.int64())) if each.name != given.name]
    )
    rows = schema.append(given).empty_table()
    with pytest.raises(SchemaMismatchError, match=message):
        hudi_py.write(path, rows, options={**NULLS, "hoodie.py.write.widen.columns": "true"})


def test_blobs_of_no_known_kind(tmp_path: Path) -> None:
    path = create(tmp_path / "t")
    for wrong in ({"b": {**INLINE, "type": "FILE"}}, {"s": {"b": {**INLINE, "type": "FILE"}, "x": 1}}):
        with pytest.raises(SchemaMismatchError, match=r"Column '(s\.)?b' is a BLOB, and 1 of its values .*'FILE'"):
            hudi_py.write(path, table(row("a", 9, **wrong)))


def test_new_columns(tmp_path: Path) -> None:
    path = create(tmp_path / "t", "mor")
    wider = SCHEMA.append(field("n", "VECTOR(2)", FLOATS)).append(
        field("d", "VECTOR(1, DOUBLE)", pa.list_(pa.float64()))
    )
    result = hudi_py.write(path, table(row("d", 2, n=[1, 2], d=[0.1]), schema=wider))
    assert [str(change) for change in result.schema_changes] == ["n: new -> VECTOR(2)", "d: new -> VECTOR(1, DOUBLE)"]
    assert rows_of(path)[3] == row("d", 2, n=[1, 2], d=[0.1])
    altered = hudi_py.open_table(path)
    altered.alter(
        add={"x": field("x", "BLOB", BLOB_TYPE), "s.v": field("v", "VARIANT", VARIANT_TYPE)}, move={"n": "after id"}
    )
    schema = hudi_py.open_table(path).schema
    assert schema.field("n").metadata == {b"hudi_type": b"VECTOR(2)"}
    assert schema.field("x").metadata == {b"hudi_type": b"BLOB"}
    assert schema.field("s").type.field("v").metadata == {b"hudi_type": b"VARIANT"}
    hudi_py.open_table(path).compact()
    assert rows_of(path)[3] == row("d", 2, n=[1, 2], d=[0.1], x=None, s={"b": INLINE, "x": None, "v": None})
    for arguments, message in (
        ({"type": {"e": pa.list_(pa.float64())}}, "Cannot change 'e' from its Avro type"),
        ({"type": {"ts": field("ts", "VECTOR(2)", FLOATS)}}, "which a column keeps from its beginning"),
        ({"add": {"s.e": field("e", "VECTOR(2)", FLOATS)}}, "a vector must be a column of the table"),
        ({"drop": "e", "options": {"hoodie.schema.on.read.enable": "true"}}, "schema on read does not support"),
    ):
        with pytest.raises((ConfigError, SchemaMismatchError, UnsupportedTableError), match=message):
            hudi_py.open_table(path).alter(**arguments)


@pytest.mark.parametrize("version", [6, 9])
def test_change_data_capture(tmp_path: Path, version: int) -> None:
    """Vectors are refused: Apache Hudi 1.2.0 fails to write and read their changes. Variants and blobs are logged."""
    options = {"hoodie.table.cdc.enabled": "true"}
    with pytest.raises(UnsupportedTableError, match=r"change data capture .* the VECTOR column 'e'"):
        create(tmp_path / "t", version=version, **options)
    schema = pa.schema([each for each in SCHEMA if not each.name.startswith("e")])
    path = str(tmp_path / "u")
    how: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "table_version": version}
    rows = [{name: row(key, 1)[name] for name in schema.names} for key in "ab"]
    hudi_py.write(path, table(*rows, schema=schema), options=options, **how)
    hudi_py.write(path, table(rows[0] | {"b": INLINE, "ts": 2}, schema=schema))
    changes = hudi_py.open_table(path).scan(query_type="cdc", begin="000").to_table().to_pylist()
    (change,) = (each for each in changes if each["op"] == "u")
    kinds = [json.loads(change[side])["b"]["type"] for side in ("before", "after")]
    assert kinds == ["OUT_OF_LINE", "INLINE"]
    wider = schema.append(SCHEMA.field("e"))
    with pytest.raises(UnsupportedTableError, match="the VECTOR column 'e'"):
        hudi_py.write(path, table(rows[0] | {"e": [1, 2]}, schema=wider))


@pytest.mark.parametrize(("form", "name"), [("ORC", "e"), ("ORC", "v"), ("LANCE", "e"), ("LANCE", "b")])
def test_other_base_files(tmp_path: Path, form: str, name: str) -> None:
    rows = table(row("a", 1)).select(["id", name])
    with pytest.raises(UnsupportedTableError, match=f"base files are {form}"):
        hudi_py.write(str(tmp_path / "t"), rows, record_key="id", options={"hoodie.table.base.file.format": form})


def test_blobs_in_orc_files(tmp_path: Path) -> None:
    path, rows = str(tmp_path / "t"), table(row("a", 1), empty("b")).select(["id", "b"])
    hudi_py.write(path, rows, record_key="id", options={"hoodie.table.base.file.format": "ORC"})
    hudi_py.write(path, rows.slice(1))
    assert rows_of(path) == [{"id": "a", "b": OUTSIDE}, {"id": "b", "b": None}]


def test_statistics_and_files(tmp_path: Path) -> None:
    """No statistics for such columns, and a footer that names the vectors."""
    path = create(tmp_path / "t", **{"hoodie.metadata.index.column.stats.enable": "true"})
    definition = json.loads((tmp_path / "t" / ".hoodie" / ".index_defs" / "index.json").read_text())
    fields = definition["indexDefinitions"]["column_stats"]["sourceFields"]
    assert [name for name in fields if not name.startswith("_hoodie")] == ["id", "ts"]
    (file,) = (tmp_path / "t").glob("*.parquet")
    footer = pq.ParquetFile(file)
    assert footer.metadata.metadata[b"hoodie.vector.columns"] == b"e:VECTOR(2),e2:VECTOR(2)"
    assert footer.schema_arrow.field("e").type == pa.binary(8)
    assert hudi_py.open_table(path).metadata.verify().ok


def test_read_and_written_to_another_table(tmp_path: Path) -> None:
    path, other = create(tmp_path / "t"), str(tmp_path / "other")
    hudi_py.write(other, hudi_py.open_table(path).scan().to_table(), record_key="id", ordering_by="ts")
    assert rows_of(other) == rows_of(path)
    assert hudi_py.open_table(other).schema.field("v").metadata == {b"hudi_type": b"VARIANT"}


def test_rows_that_move_between_partitions(tmp_path: Path) -> None:
    """A global index packs rows of several sources together; null structs have members that may not be null."""
    path = str(tmp_path / "t")
    schema = SCHEMA.append(pa.field("p", pa.string()))
    options = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    how: dict[str, Any] = {"record_key": "id", "ordering_by": "ts", "partition_by": "p", "options": options}
    first = [row("a", 1, p="x"), empty("b") | {"p": "x"}, row("c", 1, p="y")]
    hudi_py.write(path, table(*first, schema=schema), **how)
    moved = [row("a", 2, p="y"), empty("b") | {"p": "y", "ts": 2}]
    hudi_py.write(path, table(*moved, schema=schema), options=options)
    assert rows_of(path) == [*moved, first[2]]


def test_a_file_that_is_written_again_for_its_nan(tmp_path: Path) -> None:
    """A NaN after the first row group; null blobs have members that may not be null."""
    path = str(tmp_path / "t")
    columns = pa.schema([("id", pa.string()), ("x", pa.float64()), SCHEMA.field("e"), SCHEMA.field("b")])
    rows = [{"id": f"{at:04}", "x": 1.0, "e": [at, 1], "b": None if at % 2 else OUTSIDE} for at in range(2000)]
    rows[-1] |= {"x": float("nan")}
    small = {"hoodie.parquet.block.size": "4096", "hoodie.parquet.max.file.size": "100000000"}
    hudi_py.write(path, table(*rows, schema=columns), record_key="id", options=small)
    found = rows_of(path)
    assert [each["e"] for each in found] == [[at, 1] for at in range(2000)]
    assert [each["b"] for each in found] == [each["b"] for each in rows]
