"""Ids, types and names of columns, partitions by path, and files that Iceberg would read in another way."""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.base.parquet_writer import NAN_COLUMNS
from hudi_py.interop.iceberg import publish
from hudi_py.interop.iceberg.columns import PublishedColumns, evolve
from hudi_py.interop.iceberg.footers import Reading, counts_and_bounds, why_not_read
from hudi_py.interop.iceberg.manifests import (
    ADDED,
    ManifestEntry,
    data_file,
    manifest_entry,
    read_manifest,
    value_bytes,
    write_list,
    write_manifest,
)
from hudi_py.interop.iceberg.metadata import Specs, schema_json
from tests.support.iceberg import assert_published, iceberg_table, metadata, newest, read

pytest.importorskip("pyiceberg")

PLAIN = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.metadata.enable": "false"}
BY_ID = {**PLAIN, "hoodie.schema.on.read.enable": "true"}
KEYED: dict[str, Any] = {"record_key": "id", "ordering_by": "ts"}


def columns(schema: pa.Schema, before: Any = (), last_id: int = 0, **properties: str) -> Any:
    return evolve(schema, None, PublishedColumns(before, last_id, properties), table="t")


def ids(path: Path) -> dict[str, int]:
    return {field["name"]: field["id"] for field in metadata(path)["schemas"][-1]["fields"]}


def test_columns_keep_their_ids_by_name(tmp_path: Path) -> None:
    hudi_py.write(tmp_path, pa.table({"id": ["a"], "ts": [1], "v": pa.array([1], pa.int32())}), options=PLAIN, **KEYED)
    publish(tmp_path)
    first = ids(tmp_path)
    wider = pa.table({"id": ["b"], "ts": [1], "v": pa.array([1 << 40]), "note": [{"x": [1]}]})
    hudi_py.write(tmp_path, wider, options=PLAIN)
    publish(tmp_path)
    assert_published(tmp_path)
    assert {name: ids(tmp_path)[name] for name in first} == first
    kinds = {field["name"]: field["type"] for field in metadata(tmp_path)["schemas"][-1]["fields"]}
    assert kinds["v"] == "long"
    assert kinds["note"]["fields"][0]["type"]["element"] == "long"
    old = metadata(tmp_path)["snapshots"][0]["snapshot-id"]
    assert read(tmp_path, snapshot_id=old).column_names[-1] == "v"


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_columns_keep_their_ids_through_renames(tmp_path: Path, kind: str) -> None:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1], "v": [1, 2], "w": ["x", "y"], "s": [{"p": 1, "q": 2}] * 2})
    hudi_py.write(tmp_path, rows, options=BY_ID, **KEYED, table_type=kind)
    table = hudi_py.open_table(tmp_path, BY_ID)
    publish(table)
    table.alter(rename={"v": "value", "s.p": "part"}, drop="w", add={"late": pa.string()}, options=BY_ID)
    first = ids(tmp_path)
    publish(table)
    assert_published(tmp_path)
    assert ids(tmp_path)["value"] == first["v"]
    assert ids(tmp_path)["late"] > max(first.values())
    new = pa.table(
        {"id": ["b", "c"], "ts": [2, 2], "value": [7, 8], "s": [{"part": 5, "q": 6}] * 2, "late": ["z", "z"]}
    )
    table.upsert(new)
    publish(table)
    rows = assert_published(tmp_path)
    assert sorted(rows.column("value").to_pylist()) == [1, 7, 8]
    # a state of the past has its columns
    snapshots = metadata(tmp_path)["snapshots"]
    assert read(tmp_path, snapshot_id=snapshots[0]["snapshot-id"]).column("w").to_pylist() == ["x", "y"]


def test_a_name_that_another_column_had(tmp_path: Path) -> None:
    hudi_py.write(tmp_path, pa.table({"id": ["a"], "ts": [1], "v": [1], "w": [2]}), options=BY_ID, **KEYED)
    table = hudi_py.open_table(tmp_path, BY_ID)
    publish(table)
    table.alter(rename={"v": "old"}, options=BY_ID)
    table.alter(add={"v": pa.int64()}, options=BY_ID)
    with pytest.raises(UnsupportedTableError, match="column old is named v there, and another column has had"):
        publish(table)
    table.insert_overwrite_table(pa.table({"id": ["a"], "ts": [2], "old": [1], "w": [2], "v": [3]}))
    publish(table)
    assert_published(tmp_path)
    assert len(metadata(tmp_path)["snapshots"]) == 1  # those before would show other values as v


def test_types_that_iceberg_cannot_change_or_does_not_have() -> None:
    first = columns(pa.schema([("v", pa.int64())]))
    for kind in (
        pa.string(),
        pa.int32(),
        pa.list_(pa.int64()),
        pa.struct([("x", pa.int64())]),
        pa.map_(pa.string(), pa.int8()),
    ):
        with pytest.raises(UnsupportedTableError, match="column v has the type .* it was published as long, which"):
            columns(pa.schema([("v", kind)]), first.fields, first.last_id)
    nested = columns(pa.schema([("v", pa.list_(pa.int64()))]))
    with pytest.raises(UnsupportedTableError, match="published as list"):
        columns(pa.schema([("v", pa.int64())]), nested.fields, nested.last_id)
    for kind, why in (
        (pa.timestamp("ns"), "timestamps of Iceberg's format version 2 have microseconds"),
        (pa.decimal256(50, 2), "has no such type"),
        (pa.struct([]), "an empty struct has no columns"),
        (pa.uint64(), "has no such type"),
    ):
        with pytest.raises(UnsupportedTableError, match=f"column s.v has the type .*{why}"):
            columns(pa.schema([("s", pa.struct([("v", kind)]))]))


def test_a_column_that_comes_back_has_another_id() -> None:
    first = columns(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    second = columns(pa.schema([("a", pa.int64())]), first.fields, first.last_id, **first.properties())
    assert [entry["names"] for entry in second.mapping] == [["a"], ["b"]]
    assert not second.reassigned
    third = columns(
        pa.schema([("a", pa.int64()), ("b", pa.string())]), second.fields, second.last_id, **second.properties()
    )
    assert third.ids() == {"a": 1, "b": 3}
    assert third.reassigned


def test_partitions_are_those_of_the_path(tmp_path: Path) -> None:
    day = datetime.date(2026, 1, 31)
    rows = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "ts": [1] * 4,
            "day": [day, day, None, day],
            "n": pa.array([1, -2, 3, None], pa.int32()),
            "city": ["a b/c=%", "é", "x", ""],
        }
    )
    options = {
        **PLAIN,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    by = ["day", "n", "city"]
    hudi_py.write(tmp_path, rows.slice(0, 3), options=options, partition_by=by, **KEYED, table_type="mor")
    hudi_py.write(tmp_path, rows.slice(0, 1), options=PLAIN)
    publish(tmp_path)
    assert_published(tmp_path)
    table = iceberg_table(newest(tmp_path))
    assert [field.name for field in table.spec().fields] == by
    found = {tuple(task.file.partition[at] for at in range(3)) for task in table.scan().plan_files()}
    days = (day - datetime.date(1970, 1, 1)).days
    assert {
        (value if value is None or isinstance(value, int) else (value - datetime.date(1970, 1, 1)).days, *rest)
        for value, *rest in found
    } == {
        (days, 1, "a b/c=%"),
        (days, -2, "é"),
        (None, 3, "x"),
    }
    assert table.scan(row_filter="city = 'é'").to_arrow().column("id").to_pylist() == ["b"]
    # an empty text has the path of nulls: engines would differ
    hudi_py.write(tmp_path, rows.slice(3, 1), options=PLAIN)
    with pytest.raises(
        UnsupportedTableError, match="column city has values there, and is null by the partition's path"
    ):
        publish(tmp_path)


def test_partitions_of_which_the_path_does_not_tell_the_value(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1], "f": [1.5, 2.5]})
    hudi_py.write(tmp_path, rows, options=PLAIN, partition_by="f", **KEYED)
    publish(tmp_path)
    assert_published(tmp_path)
    assert metadata(tmp_path)["partition-specs"] == [{"spec-id": 0, "fields": []}]


def test_specs_are_reused() -> None:
    specs = Specs(({"spec-id": 0, "fields": []},))
    specs, both = specs.with_columns(("a", "b"), {"a": 7, "b": 9})
    specs, one = specs.with_columns(("b",), {"a": 7, "b": 9})
    specs, again = specs.with_columns(("a", "b"), {"a": 7, "b": 9})
    assert both is again
    assert [field["field-id"] for field in both["fields"]] == [1000, 1001]
    assert [field["field-id"] for field in one["fields"]] == [1001]
    assert (specs.with_columns((), {})[1]["spec-id"], one["spec-id"]) == (0, 2)


def test_the_partition_metadata_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "ts": [1], "city": ["metadata"]})
    hudi_py.write(tmp_path, rows, options=PLAIN, partition_by="city", **KEYED)
    with pytest.raises(UnsupportedTableError, match="its partition 'metadata' is in the folder reserved for"):
        publish(tmp_path)


INT64 = pa.schema([("v", pa.int64())])
UTC = pa.timestamp("us", "UTC")
OLD_LIST = pa.list_(pa.field("array", pa.int64()))
WITH_MORE = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))


@pytest.mark.parametrize(
    ("stored", "table", "written", "why"),
    [
        (UTC, UTC, {"use_deprecated_int96_timestamps": True}, "INT96 timestamps"),
        (pa.timestamp("ns"), pa.timestamp("us"), {}, r"column v is timestamp\[ns\] there and timestamp in Iceberg"),
        (pa.timestamp("us"), UTC, {}, "and timestamptz in Iceberg"),
        (pa.int64(), pa.int32(), {}, "column v is int64 there and int in Iceberg"),
        (pa.int32(), pa.float64(), {}, "column v is int32 there and double in Iceberg"),
        (pa.decimal128(9, 2), pa.decimal128(9, 3), {}, "column v is decimal"),
        (OLD_LIST, pa.list_(pa.int64()), {"use_compliant_nested_type": False}, "are named array, as in lists of two"),
        (pa.int64(), pa.list_(pa.int64()), {}, "column v is int64 there and a list in Iceberg"),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.int32())]), {}, r"column v\.x is int64"),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), {}, r"column v\.value is int64"),
        (pa.int32(), pa.int64(), {}, None),
        (pa.float32(), pa.float64(), {}, None),
        (pa.timestamp("ms", "UTC"), UTC, {}, None),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), {}, None),
        (pa.list_(pa.struct([("x", pa.int64())])), WITH_MORE, {}, None),
    ],
)  # fmt: skip
def test_files_that_iceberg_reads_in_another_way(
    tmp_path: Path, stored: pa.DataType, table: pa.DataType, written: dict[str, Any], why: str | None
) -> None:
    found = footer(tmp_path, pa.table({"v": pa.nulls(2, stored)}), **written)
    assert_why(found, reading(pa.schema([("v", table)])), why)


def test_files_with_ids_of_others_and_with_old_dates(tmp_path: Path) -> None:
    ids = pa.schema([pa.field("v", pa.int64(), metadata={b"PARQUET:field_id": b"7"})])
    assert_why(
        footer(tmp_path, pa.table({"v": [1]}, ids)), reading(INT64), "column v has a field id of another program"
    )
    days = pa.schema([("v", pa.date32())], {b"org.apache.spark.legacyDateTime": b""})
    found = footer(tmp_path, pa.table({"v": pa.nulls(1, pa.date32())}, days))
    assert_why(found, reading(days), "column v counts days in the old calendar")


def footer(path: Path, table: pa.Table, **written: Any) -> pq.FileMetaData:
    pq.write_table(table, path / "f.parquet", **written)
    return pq.read_metadata(path / "f.parquet")


def reading(schema: pa.Schema, **more: Any) -> Reading:
    found = columns(schema)
    return Reading(found.fields, found.mapping, None, more)


def assert_why(found: pq.FileMetaData, reading: Reading, why: str | None) -> None:
    reason = why_not_read(found, reading)
    if why is None:
        assert reason is None
    else:
        assert reason is not None
        assert re.search(why, reason), reason


def test_values_of_partitions_are_those_of_files(tmp_path: Path) -> None:
    schema = pa.schema([("v", pa.string()), ("n", pa.int64())])
    found = footer(tmp_path, pa.table({"v": ["a", "a", None], "n": [1, 1, 1]}, schema))
    assert_why(found, reading(schema, n=1), None)
    assert_why(found, reading(schema, n=2), "column n may have other values there than 2 by the partition's path")
    assert_why(found, reading(schema, v="a"), "column v may have other values")
    assert_why(found, reading(schema, v=None), "column v has values there, and is null by the partition's path")
    nulls = footer(tmp_path, pa.table({"v": pa.nulls(3, pa.string()), "n": [1, 1, 1]}, schema))
    assert_why(nulls, reading(schema, v=None), None)


def test_bounds(tmp_path: Path) -> None:
    stamp = datetime.datetime(2026, 1, 31, 1, 2, 3, tzinfo=datetime.timezone.utc)
    values: dict[str, tuple[pa.DataType, list[Any], tuple[Any, Any]]] = {
        "i": (pa.int32(), [3, -1, None], (-1, 3)),
        "t": (pa.timestamp("ms", "UTC"), [stamp, None, None], (1769821323000000,) * 2),
        "d": (pa.date32(), [datetime.date(1969, 12, 31), None, datetime.date(1970, 1, 2)], (-1, 1)),
        "c": (pa.decimal128(20, 2), [Decimal("-1.28"), Decimal("300.00"), None], (Decimal("-1.28"), Decimal("300.00"))),
        "b": (pa.bool_(), [True, False, None], (False, True)),
        "s": (pa.string(), ["a" * 20, None, "z" * 15 + "\ud7ff" + "z"], ("a" * 16, "z" * 15 + "\ue000")),
        "x": (pa.binary(), [b"\x00" * 20, b"\x01" + b"\xff" * 20, None], (b"\x00" * 16, b"\x02")),
    }
    schema = pa.schema([(name, kind) for name, (kind, _, _) in values.items()])
    table = pa.table({name: pa.array(some, kind) for name, (kind, some, _) in values.items()})
    given = columns(
        pa.schema([field.with_type(pa.timestamp("us", "UTC")) if field.name == "t" else field for field in schema])
    )
    found = counts_and_bounds(footer(tmp_path, table, row_group_size=1), Reading(given.fields, given.mapping, None, {}))
    kinds = {field["name"]: field["type"] for field in given.fields}
    for name, (_, some, (low, high)) in values.items():
        number = given.ids()[name]
        assert found["lower_bounds"][number] == value_bytes(kinds[name], low), name
        assert found["upper_bounds"][number] == value_bytes(kinds[name], high), name
        assert found["null_value_counts"][number] == some.count(None)
        assert found["value_counts"][number] == 3
    assert len(found["split_offsets"]) == 3
    assert value_bytes("decimal(20, 2)", Decimal("-1.28")) == b"\x80"
    floats = pa.table({"f": [1.5, -2.0], "g": [float("nan"), 1.0]})
    given = columns(floats.schema)
    read = Reading(given.fields, given.mapping, None, {})
    # Arrow's bounds ignore NaN; which columns hold some is known if hudi-py wrote the file
    assert "lower_bounds" not in counts_and_bounds(footer(tmp_path, floats), read)
    known = floats.replace_schema_metadata({NAN_COLUMNS: "g"})
    bounds = counts_and_bounds(footer(tmp_path, known), read)["lower_bounds"]
    assert bounds == {1: bytes.fromhex("00000000000000c0")}


def test_a_manifest_as_pyiceberg_reads_it(tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import read_manifest_list

    schema = schema_json(0, columns(pa.schema([("day", pa.date32()), ("c", pa.decimal128(9, 2))])).fields)
    _, spec = Specs(({"spec-id": 0, "fields": []},)).with_columns(("day", "c"), {"day": 1, "c": 2})
    values = [
        {"day": datetime.date(2026, 1, day), "c": Decimal(day).scaleb(-2) if day > 1 else None} for day in (1, 2, 3)
    ]
    entries = [
        ManifestEntry(ADDED, 5, None, 1, data_file(f"file:/t/{at}", 0, value, 10, 100, lower_bounds={1: b"a"}))
        for at, value in enumerate(values)
    ]
    data = write_manifest(entries, schema, spec)
    entry = manifest_entry(f"file://{tmp_path}/m.avro", len(data), entries, schema, spec, (5, 2))
    (tmp_path / "m.avro").write_bytes(data)
    (tmp_path / "l.avro").write_bytes(write_list([entry], 5, None, 2))
    assert [each.file["partition"] for each in read_manifest(data, entry, whole=True)] == values
    assert {(each.sequence, each.spec_id) for each in read_manifest(data, entry, whole=False)} == {(2, 1)}
    io = PyArrowFileIO()
    (found,) = read_manifest_list(io.new_input(f"file://{tmp_path}/l.avro"))
    assert (found.added_files_count, found.added_rows_count, found.sequence_number) == (3, 30, 2)
    assert found.partitions[1].contains_null
    assert found.partitions[1].lower_bound == b"\x02"
    files = [each.data_file for each in found.fetch_manifest_entry(io)]
    assert [each.partition[1] for each in files] == [value["c"] for value in values]
    assert files[0].lower_bounds == {1: b"a"}


def test_damaged_metadata_is_named(tmp_path: Path) -> None:
    hudi_py.write(tmp_path, pa.table({"id": ["a"], "ts": [1]}), options=PLAIN, **KEYED)
    publish(tmp_path)
    for each in (tmp_path / "metadata").glob("*manifest*"):
        each.write_bytes(b"none")
    hudi_py.write(tmp_path, pa.table({"id": ["a"], "ts": [2]}), options=PLAIN)
    with pytest.raises(hudi_py.CorruptFileError, match="Cannot read the Iceberg metadata file:.*unpublish, publish"):
        publish(tmp_path)
    for each in (tmp_path / "metadata").glob("*manifest*"):
        each.unlink()
    with pytest.raises(hudi_py.CorruptFileError, match="it is missing; unpublish the table and publish it again"):
        publish(tmp_path)
    assert json.loads((tmp_path / "metadata" / "v1.metadata.json").read_text())["format-version"] == 2
