"""VECTOR, VARIANT and BLOB columns: Apache Hudi reads, upserts and compacts what hudi-py writes, and the other way
round.

Apache Hudi reads and compacts variants on Spark 4 only. On Spark 3.5 it writes them, and rewrites the files of
copy-on-write tables; what it wrote is read with hudi-py.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import UnsupportedTableError
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases

VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
REFERENCE = pa.struct(
    [
        pa.field("external_path", pa.string(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("managed", pa.bool_(), nullable=False),
    ]
)
BLOB = pa.struct([pa.field("type", pa.string(), nullable=False), ("data", pa.binary()), ("reference", REFERENCE)])
INLINE = {"type": "INLINE", "data": b"\x00bytes", "reference": None}
OUT_OF_LINE = {
    "type": "OUT_OF_LINE",
    "data": None,
    "reference": {"external_path": "s3://b/x", "offset": 7, "length": None, "managed": False},
}
NUMBER = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x2a"}
TEXT = {"metadata": b"\x01\x00\x00", "value": b"\x05a"}
SQL_COLUMNS = "id string, e vector(3), e2 vector(3), d vector(2, double), i vector(4, int8), b blob, b2 blob, ts bigint"
TYPES = {
    "e": "VECTOR(3)",
    "e2": "VECTOR(3)",
    "d": "VECTOR(2, DOUBLE)",
    "i": "VECTOR(4, INT8)",
    "b": "BLOB",
    "b2": "BLOB",
}
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
PRODUCT = list(product((6, 8, 9), ("cow", "mor")))


def declared(name: str, text: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"hudi_type": text})


def schema(*more: pa.Field) -> pa.Schema:
    return pa.schema(
        [
            ("id", pa.string()),
            declared("e", TYPES["e"], pa.list_(pa.float32(), 3)),
            declared("e2", TYPES["e2"], pa.list_(pa.field("element", pa.float32(), nullable=False))),
            declared("d", TYPES["d"], pa.list_(pa.float64())),
            declared("i", TYPES["i"], pa.list_(pa.int8())),
            declared("b", "BLOB", BLOB),
            declared("b2", "BLOB", BLOB),
            *more,
            ("ts", pa.int64()),
        ]
    )


def row(number: int, ts: int) -> dict[str, Any]:
    floats = [ts + 0.5, -1.0, 3.0e38]
    return {
        "id": f"k{number}",
        "e": floats,
        "e2": floats[::-1],
        "d": [ts / 3, 1e-300],
        "i": [number, -128, 127, 0],
        "b": INLINE,
        "b2": OUT_OF_LINE,
        "ts": ts,
    }


def empty(number: int) -> dict[str, Any]:
    return {"id": f"k{number}", "ts": 1}


def whole(rows: list[dict[str, Any]], columns: pa.Schema) -> list[dict[str, Any]]:
    return sorted(pa.Table.from_pylist(rows, columns).to_pylist(), key=lambda each: str(each["id"]))


def ours(path: Path) -> list[dict[str, Any]]:
    found = hudi_py.open_table(str(path)).scan().to_table()
    return own_columns(found)


def own_columns(found: pa.Table) -> list[dict[str, Any]]:
    kept = found.select([name for name in found.column_names if not name.startswith("_hoodie_")])
    return sorted(kept.to_pylist(), key=lambda each: str(each["id"]))


def options(version: int, kind: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.datasource.write.table.type": KINDS[kind],
        "hoodie.write.table.version": str(version),
        "hoodie.metadata.index.column.stats.enable": "true",
        **more,
    }


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), cases(PRODUCT, "custom types, ours", 1))
def test_ours(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """Apache Hudi reads ours equal, upserts into it and compacts it, and we read that, and go on."""
    path, columns = tmp_path / "t", schema()
    chosen = options(version, kind)
    first = [row(1, 1), row(2, 1), row(3, 1), empty(4)]
    hudi_py.write(str(path), pa.Table.from_pylist(first, columns), record_key="id", ordering_by="ts", options=chosen)
    hudi_py.write(str(path), pa.Table.from_pylist([row(2, 5), row(5, 5)], columns))
    expected = whole([row(1, 1), row(2, 5), row(3, 1), empty(4), row(5, 5)], columns)
    assert ours(path) == expected
    assert own_columns(oracle.read(path)) == expected
    assert oracle.check(path, deep=True)["problems"] == []

    plain = pa.schema([field.remove_metadata() for field in columns])
    oracle.write(path, pa.Table.from_pylist([row(3, 9), row(6, 9)], plain), types=TYPES)
    expected = whole([row(1, 1), row(2, 5), row(3, 9), empty(4), row(5, 5), row(6, 9)], columns)
    assert ours(path) == expected
    if kind == "mor":
        oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')")
        assert ours(path) == expected
    hudi_py.write(str(path), pa.Table.from_pylist([row(1, 11)], columns))
    expected[0] = whole([row(1, 11)], columns)[0]
    assert ours(path) == expected
    if kind == "mor":
        hudi_py.open_table(str(path)).compact()
        assert ours(path) == expected
    assert own_columns(oracle.read(path)) == expected
    assert oracle.check(path, deep=True)["problems"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), cases(PRODUCT, "custom types, its", 1))
def test_its(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    """We write to a table that SQL of Apache Hudi created, with lists of Arrow and without declarations."""
    path, columns = tmp_path / "t", schema()
    properties = f"type='{kind}', primaryKey='id', preCombineField='ts', 'hoodie.write.table.version'='{version}'"
    name = f"its_{kind}_{version}"
    oracle.sql(f"create table {name} ({SQL_COLUMNS}) using hudi tblproperties ({properties}) location '{path}'")
    oracle.sql(
        f"insert into {name} select 'k0', array(1f,2f,3f), null, array(1d,2d), array(1Y,2Y,3Y,4Y), null, null, 1"
    )
    hudi_py.write(str(path), pa.Table.from_pylist([row(1, 1), row(2, 1)], columns))
    plain = pa.schema([field.remove_metadata() for field in columns])
    hudi_py.write(str(path), pa.Table.from_pylist([row(2, 7), empty(3)], plain))
    oracle.sql(f"update {name} set e = array(9f, 8f, 7f), ts = 20 where id = 'k1'")
    zero = {"id": "k0", "e": [1, 2, 3], "d": [1, 2], "i": [1, 2, 3, 4], "ts": 1}
    expected = whole(
        [zero, {**row(1, 20), **{k: row(1, 1)[k] for k in ("e2", "d")}, "e": [9, 8, 7]}, row(2, 7), empty(3)], columns
    )
    assert ours(path) == expected
    assert own_columns(oracle.read(path)) == expected
    assert oracle.check(path, deep=True)["problems"] == []


@pytest.mark.parametrize(("version", "kind"), cases(PRODUCT, "variants", 1))
def test_variants(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    columns = pa.schema(
        [("id", pa.string()), declared("v", "VARIANT", VARIANT), declared("w", "VARIANT", VARIANT), ("ts", pa.int64())]
    )
    plain = pa.schema([field.remove_metadata() for field in columns])

    def rows(*given: tuple[str, Any, int], to: pa.Schema = columns) -> pa.Table:
        return pa.Table.from_pylist([{"id": key, "v": v, "w": v, "ts": ts} for key, v, ts in given], to)

    first = rows(("a", NUMBER, 1), ("b", TEXT, 1), ("c", None, 1))
    hudi_py.write(str(path), first, record_key="id", ordering_by="ts", options=options(version, kind))
    types = {"v": "VARIANT", "w": "VARIANT"}
    oracle.write(path, rows(("b", NUMBER, 2), ("d", TEXT, 2), to=plain), types=types)
    expected = rows(("a", NUMBER, 1), ("b", NUMBER, 2), ("c", None, 1), ("d", TEXT, 2)).to_pylist()
    assert ours(path) == expected
    if kind == "mor":
        hudi_py.open_table(str(path)).compact()  # its blocks beside ours
        assert ours(path) == expected

    other = tmp_path / "its"
    oracle.write(other, first.cast(plain), key="id", ordering="ts", type=kind, table_version=version, types=types)
    hudi_py.write(str(other), rows(("b", NUMBER, 2), ("d", TEXT, 2)))
    assert ours(other) == expected
    oracle.write(other, rows(("a", TEXT, 3), to=plain), types=types)
    expected[0] = {"id": "a", "v": TEXT, "w": TEXT, "ts": 3}
    assert ours(other) == expected
    with pytest.raises(OracleError, match="VARIANT type is only supported in Spark 4"):
        oracle.read(other)


def test_the_files_are_alike(oracle: Oracle, tmp_path: Path) -> None:
    """Columns, schema and vector entry of a Parquet file, and the schema of the commit, are those of Apache Hudi."""
    columns, made = schema(), tmp_path / "its"
    oracle.sql(
        f"create table alike ({SQL_COLUMNS}) using hudi tblproperties (primaryKey='id', preCombineField='ts') "
        f"location '{made}'"
    )
    oracle.sql("insert into alike select 'k0', array(1f,2f,3f), null, array(1d,2d), array(1Y,2Y,3Y,4Y), null, null, 1")
    own = tmp_path / "ours"
    chosen = {"hoodie.table.name": "alike"}
    hudi_py.write(
        str(own), pa.Table.from_pylist([row(1, 1)], columns), record_key="id", ordering_by="ts", options=chosen
    )
    footers = [pq.ParquetFile(next(path.glob("*.parquet"))) for path in (own, made)]
    for key in (b"parquet.avro.schema", b"hoodie.vector.columns"):
        assert footers[0].metadata.metadata[key] == footers[1].metadata.metadata[key]
    # Arrow reads Java's enums as binary, and writes none
    shown = [[str(field) for field in footer.schema_arrow] for footer in footers]
    assert shown[0] == [
        text.replace("struct<type: binary not null", "struct<type: string not null") for text in shown[1]
    ]


def test_parquet_logs_nested_blobs_and_new_columns(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    columns = pa.schema(
        [
            ("id", pa.string()),
            declared("e", "VECTOR(2)", pa.list_(pa.float32())),
            declared("bs", "BLOB", pa.list_(BLOB)),
            ("ts", pa.int64()),
        ]
    )
    first = {"id": "k1", "e": [1, 2], "bs": [INLINE, None, OUT_OF_LINE], "ts": 1}
    logs = options(9, "mor", **{"hoodie.logfile.data.block.format": "parquet"})
    hudi_py.write(str(path), pa.Table.from_pylist([first], columns), record_key="id", ordering_by="ts", options=logs)
    changed = {"id": "k1", "e": [3, 4], "bs": [], "ts": 2}
    hudi_py.write(str(path), pa.Table.from_pylist([changed], columns), options=logs)
    assert ours(path) == [changed] == own_columns(oracle.read(path))
    wider = columns.append(declared("e2", "VECTOR(2)", pa.list_(pa.float32()))).append(declared("b", "BLOB", BLOB))
    second = {"id": "k2", "e": [5, 6], "bs": None, "ts": 3, "e2": [7, 8], "b": INLINE}
    hudi_py.write(str(path), pa.Table.from_pylist([second], wider))
    expected = [{**changed, "e2": None, "b": None}, second]
    assert ours(path) == expected == own_columns(oracle.read(path))
    hudi_py.open_table(str(path)).compact()
    assert ours(path) == expected == own_columns(oracle.read(path))
    assert oracle.check(path, deep=True)["problems"] == []


@pytest.mark.nightly
def test_what_apache_hudi_cannot_write(oracle: Oracle, tmp_path: Path) -> None:
    """Vectors in change logs and in ORC files: its writes fail, ours are refused."""
    columns = pa.schema([("id", pa.string()), declared("e", "VECTOR(2)", pa.list_(pa.float32())), ("ts", pa.int64())])
    rows = pa.Table.from_pylist([{"id": "a", "e": [1, 2], "ts": 1}], columns)
    plain = rows.cast(pa.schema([field.remove_metadata() for field in columns]))
    for name, chosen in (
        ("cdc", {"hoodie.table.cdc.enabled": "true"}),
        ("orc", {"hoodie.table.base.file.format": "ORC"}),
    ):
        with pytest.raises(UnsupportedTableError, match="VECTOR"):
            hudi_py.write(str(tmp_path / name), rows, record_key="id", ordering_by="ts", options=chosen)
        with pytest.raises(OracleError, match="VECTOR"):
            written_twice(oracle, tmp_path / f"its_{name}", plain, chosen)


def written_twice(oracle: Oracle, path: Path, rows: pa.Table, chosen: dict[str, str]) -> None:
    """The second write has change logs."""
    for _ in range(2):
        oracle.write(path, rows, key="id", ordering="ts", type="cow", types={"e": "VECTOR(2)"}, options=chosen)
