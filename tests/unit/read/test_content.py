"""What base files and log blocks hold: formats, renamed columns, corrected timestamps, dropped partition columns."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import hudi_py
from hudi_py.errors import UnsupportedTableError
from hudi_py.model.names import BaseFileName, FileId, join_path
from hudi_py.schema import FILE_NAME
from tests.unit.read.tables import FILE_ID, SCHEMA, MadeTable, instant, row

OTHER_ID = FileId("99999999-2222-3333-4444-555555555555-0")
SEVERAL = {"hoodie.table.multiple.base.file.formats.enable": "true"}


def orc_base(table: MadeTable, at: int, rows: list[dict[str, Any]], file_id: FileId, **how: Any) -> None:
    """A base file as `MadeTable.base` writes them, in ORC."""
    name = str(BaseFileName(file_id, "0-1-2", instant(at), "orc"))
    made = table.rows(rows, at)
    named = made.set_column(made.schema.get_field_index(FILE_NAME), FILE_NAME, pa.array([name] * len(rows)))
    with table.storage.open_output(join_path(how.pop("partition", ""), name)) as sink:
        orc.write_table(named, sink, **how)


def names(table: hudi_py.Table, **how: Any) -> list[tuple[str, str]]:
    rows = table.scan(**how).to_table()
    return sorted(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


@pytest.mark.parametrize("properties", [{"hoodie.table.base.file.format": "ORC"}, SEVERAL])
def test_orc_files_are_merged_divided_and_counted(tmp_path: Path, properties: dict[str, str]) -> None:
    table = MadeTable(str(tmp_path / "t"), properties=properties)
    orc_base(table, 1, [row(f"k{at:03}", 1) for at in range(400)], FILE_ID, stripe_size=1024, batch_size=100)
    table.commit(1)
    opened = hudi_py.open_table(table.uri)
    assert opened.scan().count() == 400
    splits = opened.scan(columns=["id"]).splits(target_bytes=100)
    assert len(splits) > 1
    read = [
        row
        for split in pickle.loads(pickle.dumps(splits))
        for batch in hudi_py.read_split(split)
        for row in batch["id"]
    ]
    assert [value.as_py() for value in read] == [f"k{at:03}" for at in range(400)]
    assert opened.scan(filter="id = 'k007'").count() == 1
    table.log(2, [row("k001", 2, "new"), row("z", 2, "added")])
    table.commit(2)
    opened = hudi_py.open_table(table.uri)
    assert names(opened, filter="name <> 'n'") == [("k001", "new"), ("z", "added")]
    assert opened.scan().count() == 401
    assert opened.scan(query_type="read_optimized").count() == 400


def test_files_of_several_formats(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path / "t"), properties=SEVERAL)
    table.base(1, [row("a", 1, "parquet")])
    orc_base(table, 1, [row("b", 1, "orc")], OTHER_ID)
    table.commit(1)
    assert names(hudi_py.open_table(table.uri)) == [("a", "parquet"), ("b", "orc")]


def test_files_of_another_format_are_no_base_files(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path / "t"))
    table.base(1, [row("a", 1, "parquet")])
    orc_base(table, 1, [row("b", 1, "orc")], OTHER_ID)
    table.commit(1)
    assert names(hudi_py.open_table(table.uri)) == [("a", "parquet")]


@pytest.mark.parametrize("extension", ["hfile"])
def test_base_files_of_other_formats_are_refused(tmp_path: Path, extension: str) -> None:
    table = MadeTable(str(tmp_path / "t"), properties=SEVERAL)
    table.storage.put(str(BaseFileName(FILE_ID, "0-1-2", instant(1), extension)), b"x")
    table.commit(1)
    with pytest.raises(UnsupportedTableError, match=f"base file format={extension}"):
        hudi_py.open_table(table.uri).scan()
    other = MadeTable(str(tmp_path / "u"), properties={"hoodie.table.base.file.format": extension})
    with pytest.raises(UnsupportedTableError, match=f"hoodie.table.base.file.format={extension.upper()}"):
        hudi_py.open_table(other.uri).scan()


@pytest.mark.parametrize("kind", [{"type": "long", "logicalType": "ordinal"}, {"type": "string", "logicalType": "geo"}])
def test_unknown_logical_types_are_refused(tmp_path: Path, kind: dict[str, str]) -> None:
    nested = {"type": "array", "items": ["null", kind]}
    fields = [{"name": "id", "type": "string"}, {"name": "odd", "type": ["null", nested]}]
    table = MadeTable(str(tmp_path / "t"))
    table.base(1, [row("a", 1)])
    table.commit(1, avro={"type": "record", "name": "r", "fields": fields})
    with pytest.raises(UnsupportedTableError, match=rf"column 'odd\.element' of logical type '{kind['logicalType']}'"):
        hudi_py.open_table(table.uri).scan()


def test_tables_of_another_format_are_refused(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path / "t"), properties={"hoodie.table.format": "iceberg"})
    with pytest.raises(UnsupportedTableError, match="hoodie.table.format=iceberg"):
        hudi_py.open_table(table.uri).scan()


# ---- schema on read


def internal(version: int, *fields: tuple[int, str, str]) -> dict[str, Any]:
    columns = [{"id": at, "name": name, "optional": True, "type": kind} for at, name, kind in fields]
    return {"max_column_id": 20, "version_id": version, "type": "record", "fields": columns}


OLD = internal(0, (0, "id", "string"), (1, "ts", "long"), (2, "name", "string"), (3, "price", "double"))
NEW = internal(
    int(instant(2)),
    (0, "id", "string"),
    (3, "name", "string"),
    (1, "ts", "long"),
    (4, "price", "double"),
    (2, "who", "string"),
)
EVOLVED = pa.schema(
    [("id", pa.string()), ("name", pa.string()), ("ts", pa.int64()), ("price", pa.float64()), ("who", pa.string())]
)


@pytest.mark.parametrize("version", [6, 9])
def test_columns_by_id_in_base_files_and_logs(tmp_path: Path, version: int) -> None:
    # name became who, price became a text called name, and a price was added again
    table = MadeTable(str(tmp_path / "t"), version=version)
    table.base(1, [row("a", 1, "ann", 1.5), row("b", 1, "bob", None), row("c", 1, "cid", 2.5)], row_group_rows=1)
    table.commit(1)
    table.log(1, [row("b", 2, "bea", 9.0)], base_at=1)
    extra = {"latest_schema": json.dumps(NEW)}
    name = f"{instant(2)}.schemacommit" if version == 6 else f"{instant(2)}_{instant(3)}.schemacommit"
    table.storage.put(f".hoodie/.schema/{name}", json.dumps({"schemas": [NEW, OLD]}).encode())
    table.schema = EVOLVED
    latest = {"id": "c", "name": "7", "ts": 3, "price": 0.5, "who": "cyd"}
    table.log(2, [latest], base_at=1, number=2)
    table.commit(2, history=extra)
    opened = hudi_py.open_table(table.uri)
    assert opened.scan().schema.names[5:] == EVOLVED.names
    rows = {each["id"]: each for each in opened.scan().to_table().select(EVOLVED.names).to_pylist()}
    assert rows == {
        "a": {"id": "a", "name": "1.5", "ts": 1, "price": None, "who": "ann"},
        "b": {"id": "b", "name": "9.0", "ts": 2, "price": None, "who": "bea"},
        "c": latest,
    }
    # what the footer of the base file says of a column "name" is not told of this one
    found = opened.scan(query_type="read_optimized", filter="name = '2.5'", columns=["who"]).to_table()
    assert found.to_pylist() == [{"who": "cid"}]
    assert opened.scan(query_type="read_optimized", filter="price is null").count() == 3
    before = opened.scan(as_of=instant(1)).to_table()
    assert before.schema.names[5:] == SCHEMA.names
    assert before["name"].to_pylist()[0] == "ann"


# ---- timestamps


def test_timestamps_of_base_files_and_logs_are_repaired(tmp_path: Path) -> None:
    millis = 1_700_000_000_123
    stored = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    fields: list[dict[str, Any]] = [{"name": name, "type": kind} for name, kind in (("id", "string"), ("ts", "long"))]
    fields.append({"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]})
    avro = {"type": "record", "name": "r", "fields": fields}
    table = MadeTable(str(tmp_path / "t"), schema=stored)
    table.base(1, [{"id": "a", "ts": 1, "at": millis}], row_group_rows=1)
    table.commit(1, avro=avro)
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000, timezone.utc)
    opened = hudi_py.open_table(table.uri)
    assert opened.scan(filter="at > '2023-01-01'").to_table()["at"].to_pylist() == [moment]
    table.log(2, [{"id": "b", "ts": 1, "at": millis}])
    table.commit(2, avro=avro)
    assert hudi_py.open_table(table.uri).scan().to_table()["at"].to_pylist() == [moment, moment]


# ---- partition columns


PARTITIONED = {
    "hoodie.table.partition.fields": "day,city",
    "hoodie.table.keygenerator.type": "COMPLEX",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.drop.partition.columns": "true",
}


def test_dropped_partition_columns_of_slices_with_logs(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path / "t"), properties=PARTITIONED)
    kept = {"day": {"type": "int", "logicalType": "date"}, "city": "string"}
    fields = [
        {"name": n, "type": ["null", k]}
        for n, k in (("id", "string"), ("ts", "long"), ("name", "string"), *kept.items())
    ]
    avro = {"type": "record", "name": "r", "fields": fields}
    table.schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string())])
    path = "day=2024-02-29/city=__HIVE_DEFAULT_PARTITION__"
    table.partition(path)
    table.base(1, [{"id": "a", "ts": 1, "name": "n"}], partition=path)
    table.commit(1, avro=avro)
    table.log(2, [{"id": "b", "ts": 1, "name": "m"}], partition=path)
    table.commit(2, avro=avro)
    opened = hudi_py.open_table(table.uri)
    rows = opened.scan(columns=["id", "day", "city"]).to_table().to_pylist()
    assert rows == [{"id": key, "day": date(2024, 2, 29), "city": None} for key in ("a", "b")]
    assert opened.scan(filter="city is null and day = '2024-02-29'").count() == 2
    assert opened.scan(filter="day < '2024-02-29'").count() == 0


def test_timestamp_key_generators_show_texts(tmp_path: Path) -> None:
    properties = {
        "hoodie.table.partition.fields": "at",
        "hoodie.table.keygenerator.type": "TIMESTAMP",
    }
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = MadeTable(str(tmp_path / "t"), schema=schema, properties=properties)
    table.partition("2024")
    table.base(1, [{"id": "a", "ts": 1, "at": datetime(2024, 1, 2, 3, 4, 5, 600)}], partition="2024", row_group_rows=1)
    table.commit(1)
    opened = hudi_py.open_table(table.uri)
    assert opened.scan().to_table()["at"].to_pylist() == ["2024-01-02 03:04:05.0006"]
    assert opened.scan(filter="at like '2024-01-02%'").count() == 1


@pytest.mark.parametrize("extension", ["", ".parquet", ".orc"])
def test_partition_metafiles_of_any_form(tmp_path: Path, extension: str) -> None:
    properties = {"hoodie.table.partition.fields": "name", "hoodie.table.keygenerator.type": "SIMPLE"}
    table = MadeTable(str(tmp_path / "t"), properties=properties)
    table.storage.put(f"n/.hoodie_partition_metadata{extension}", b"")
    table.storage.put("left/.hoodie_partition_metadata_0-1-0", b"")
    table.base(1, [row("a", 1)], partition="n")
    table.base(1, [row("b", 1)], partition="left")
    table.commit(1)
    assert hudi_py.open_table(table.uri).scan().to_table()["id"].to_pylist() == ["a"]
