"""Tables whose files lack the meta columns or the partition columns."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.avro import decode_log_content
from hudi_py.formats.log import HeaderKey, read_blocks, read_content
from hudi_py.schema import META_FIELDS
from hudi_py.storage import open_storage
from tests.support.choice import cases

VIRTUAL = {"hoodie.populate.meta.fields": "false"}
DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}
QUICK = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.py.write.durable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
}
Rows = dict[str, int]
"""Value by key."""


def rows(*numbers: int, turn: int) -> pa.Table:
    listed = [{"id": f"r{n}", "k": n, "p": f"p{n % 2}", "o": turn, "v": 100 * turn + n} for n in numbers]
    kinds = {"id": pa.string(), "k": pa.int64(), "p": pa.string(), "o": pa.int64(), "v": pa.int64()}
    return pa.Table.from_pylist(listed, pa.schema(list(kinds.items())))


class Written:
    """A table, and what it must hold."""

    def __init__(self, path: Path, version: int, kind: str, options: dict[str, str], **more: Any) -> None:
        self.path = str(path)
        self.options = {**QUICK, **options}
        self.more = {
            "record_key": "id",
            "partition_by": "p",
            "ordering_by": "o",
            "table_type": kind,
            "table_version": version,
            **more,
        }
        self.held: Rows = {}
        self.turn = 0

    @property
    def table(self) -> hudi_py.Table:
        return hudi_py.open_table(self.path, self.options)

    def write(self, operation: str, *numbers: int) -> None:
        self.turn += 1
        data = rows(*numbers, turn=self.turn)
        hudi_py.write(self.path, data, operation, self.options, **self.more)
        if operation == "insert_overwrite":
            gone = {f"p{number % 2}" for number in numbers}
            self.held = {key: value for key, value in self.held.items() if f"p{int(key[1:]) % 2}" not in gone}
        for row in data.to_pylist():
            if operation == "delete":
                self.held.pop(row["id"], None)
            else:
                self.held[row["id"]] = row["v"]

    def check(self) -> pa.Table:
        found = self.table.scan().to_table()
        assert sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == sorted(self.held.items())
        assert found["p"].to_pylist() == [f"p{int(key[1:]) % 2}" for key in found["id"].to_pylist()]
        return found

    def files(self, pattern: str) -> list[Path]:
        return sorted(each for each in Path(self.path).glob(pattern) if ".hoodie" not in each.parts)


def merged_compacted_and_overwritten(table: Written, version: int, kind: str, on: str) -> None:
    """The rest of a table's life, from a merge on, checked after each step."""
    source = pa.table({"id": ["r2", "r20"], "k": [2, 20], "p": ["p0", "p0"], "o": [50, 50], "v": [7, 8]})
    merge = table.table.merge(source, on)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table.held |= {"r2": 7, "r20": 8}
    table.check()
    if kind == "mor":
        if version >= 8:
            assert table.table.log_compact(options={"hoodie.log.compaction.blocks.threshold": "2"}).instant is not None
            table.check()
        table.table.compact()
        table.check()
    table.turn = 60
    table.write("insert_overwrite", 1, 3)
    table.write("bulk_insert", 30, 31)
    table.check()


@pytest.mark.parametrize(
    ("version", "kind", "index"),
    cases(product((6, 8, 9), ("cow", "mor"), ("SIMPLE", "GLOBAL_SIMPLE", "BUCKET")), "no meta columns", 3),
)
def test_rows_without_meta_columns(tmp_path: Path, version: int, kind: str, index: str) -> None:
    more = {"hoodie.bucket.index.num.buckets": "2"} if index == "BUCKET" else {}
    table = Written(tmp_path / "t", version, kind, {**VIRTUAL, "hoodie.index.type": index, **more})
    table.write("insert", *range(8))
    table.write("upsert", 3, 4, 5, 8, 9)
    table.write("delete", 0, 5, 77)
    assert table.check().column_names == ["id", "k", "p", "o", "v"]
    assert table.table.update({"v": "v + 1000", "o": "9"}, "id = 'r3'").num_updated == 1
    table.held["r3"] += 1000
    assert table.table.delete_where("id IN ('r4', 'r9')").num_deleted == 2
    table.held = {key: value for key, value in table.held.items() if key not in ("r4", "r9")}
    table.check()
    merged_compacted_and_overwritten(table, version, kind, "t.id = s.id")
    for path in table.files("**/*.parquet"):
        metadata = pq.read_metadata(path)
        assert metadata.schema.to_arrow_schema().names == ["id", "k", "p", "o", "v"]
        assert not [key for key in metadata.metadata if b"bloom" in key or b"record_key" in key]
    assert table.table.metadata.verify().ok
    found = hudi_py.doctor(table.path, full=True)
    assert [each for each in found.findings if not each.code.startswith("environment")] == []
    assert any("keys" in each for each in found.checked)


def test_meta_columns_are_null_in_logs(tmp_path: Path) -> None:
    """As in those of Apache Hudi 1.2.0."""
    table = Written(tmp_path / "t", 9, "mor", VIRTUAL)
    table.write("insert", 1, 2)
    table.write("upsert", 1)
    (path,) = table.files("**/.*.log.*")
    storage = open_storage(path.parent)
    (block,) = read_blocks(storage, path.name, path.stat().st_size)
    schema = json.loads(block.header[HeaderKey.SCHEMA])
    found = decode_log_content([read_content(storage, block)], schema, context=path.name)
    assert found.schema.names == [*META_FIELDS, "id", "k", "p", "o", "v"]
    (row,) = found.to_pylist()
    assert [row[name] for name in META_FIELDS] == [None] * 5
    assert row["v"] == 201


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("given", [VIRTUAL, DROPPED], ids=["virtual", "dropped"])
def test_some_columns_are_set(tmp_path: Path, kind: str, given: dict[str, str]) -> None:
    table = Written(tmp_path / "t", 9, kind, {**given, "hoodie.spark.sql.merge.into.partial.updates": "true"})
    table.write("insert", 1, 2, 3)
    source = pa.table({"id": ["r1", "r2"], "p": ["p1", "p0"], "w": [7, 8]})
    merge = table.table.merge(source, "t.id = s.id and t.p = s.p").when_matched_update({"v": "s.w", "o": "9"})
    assert merge.execute().num_updated == 2
    table.held |= {"r1": 7, "r2": 8}
    table.check()
    some = pa.table({"id": ["r1", "r3"], "p": ["p1", "p1"], "o": [10, 10], "v": [70, 80]})
    if (kind, given) == ("mor", VIRTUAL):
        with pytest.raises(UnsupportedTableError, match="its logs hold complete rows only"):
            table.table.upsert(some, partial=True)
        return
    table.table.upsert(some, partial=True)
    table.held |= {"r1": 70, "r3": 80}
    assert table.check().sort_by("id")["k"].to_pylist() == [1, 2, 3]
    if kind == "mor":
        table.table.compact()
        assert table.check().sort_by("id")["k"].to_pylist() == [1, 2, 3]


KEYS: dict[str, Any] = {
    "text": pa.array(["a", "b", "ä"]),
    "int": pa.array([1, -2, 3], pa.int32()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-2.00"), Decimal("0.07")]),
    "boolean": pa.array([True, False, True]),
    "time": pa.array([datetime(2024, 1, day, 1, 2, 3, 456, timezone.utc) for day in (1, 2, 3)]),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("fields", ["text", "int,text", "decimal", "boolean,int", "time", "s.k"])
def test_keys_are_made_of_columns(tmp_path: Path, kind: str, fields: str) -> None:
    path = str(tmp_path / "t")
    data = pa.table({**KEYS, "s": pa.array([{"k": "x"}, {"k": "y"}, {"k": "z"}]), "v": [1, 2, 3]})
    given = {"record_key": fields, "table_type": kind}
    hudi_py.write(path, data, "upsert", {**VIRTUAL, **QUICK}, **given)
    changed = data.slice(1, 2).set_column(data.schema.names.index("v"), "v", pa.array([20, 30]))
    hudi_py.write(path, changed, "upsert", {**VIRTUAL, **QUICK}, **given)
    assert sorted(hudi_py.open_table(path).scan().to_table()["v"].to_pylist()) == [1, 20, 30]
    hudi_py.write(path, data.slice(2), "delete", {**VIRTUAL, **QUICK}, **given)
    assert sorted(hudi_py.open_table(path).scan().to_table()["v"].to_pylist()) == [1, 20]
    if kind == "mor":
        hudi_py.open_table(path, QUICK).compact()
        assert sorted(hudi_py.open_table(path).scan().to_table()["v"].to_pylist()) == [1, 20]


TEXTS = {"hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled": "true"}


@pytest.mark.parametrize(
    ("more", "options", "text"),
    [
        ({"record_key": None}, {}, "without a record key"),
        ({"partition_by": "p:SIMPLE"}, {}, "key generator CUSTOM"),
        ({"partition_by": "p,k"}, {}, "COMPLEX with the single record key 'id'"),
        ({"record_key": "d"}, {}, "record key column 'd' of type date32"),
        ({"record_key": "t"}, TEXTS, "record key column 't' of type timestamp"),
        ({}, {"hoodie.table.base.file.format": "ORC"}, "base files in ORC"),
        ({}, {"hoodie.index.type": "BLOOM"}, "hoodie.index.type = 'BLOOM'"),
        ({}, {"hoodie.index.type": "RECORD_INDEX"}, "hoodie.index.type = 'GLOBAL_RECORD_LEVEL_INDEX'"),
        ({}, {"hoodie.metadata.global.record.level.index.enable": "true"}, "hoodie.metadata.global.record.level.index"),
        ({}, {"hoodie.metadata.index.bloom.filter.enable": "true"}, "hoodie.metadata.index.bloom.filter.enable"),
    ],
)
def test_what_needs_stored_keys_is_refused(
    tmp_path: Path, more: dict[str, Any], options: dict[str, str], text: str
) -> None:
    table = Written(tmp_path / "t", 9, "cow", {**VIRTUAL, **options}, **more)
    data = rows(1, turn=1).append_column("d", pa.array([date(2024, 1, 1)]))
    data = data.append_column("t", pa.array([datetime(2024, 1, 1, tzinfo=timezone.utc)]))
    given = {name: value for name, value in table.more.items() if value is not None}
    with pytest.raises((ConfigError, UnsupportedTableError), match=text):
        hudi_py.write(table.path, data, "insert", table.options, **given)
    assert not (tmp_path / "t" / ".hoodie" / "timeline").exists() or not hudi_py.open_table(table.path).instants()


def test_tables_keep_their_columns(tmp_path: Path) -> None:
    table = Written(tmp_path / "t", 9, "cow", VIRTUAL)
    table.write("insert", 1, 2)
    with pytest.raises(ConfigError, match=r"hoodie\.populate\.meta\.fields: asked for true, the table has false"):
        hudi_py.write(table.path, rows(1, turn=2), "upsert", {"hoodie.populate.meta.fields": "true"})
    hudi_py.write(table.path, rows(1, turn=2), "upsert", QUICK)
    assert sorted(hudi_py.open_table(table.path).scan().to_table()["v"].to_pylist()) == [102, 201]
    with pytest.raises(ConfigError, match="made of record keys"):
        table.table.index("record_index", using="record_index")
    merge = table.table.merge(rows(1, turn=3), "t._hoodie_record_key = s.id").when_matched_update_all()
    with pytest.raises(ConfigError, match="it has no meta columns"):
        merge.execute()


# ---- metafiles of partitions


@pytest.mark.parametrize("version", [6, 9])
def test_metafiles_in_parquet(tmp_path: Path, version: int) -> None:
    table = Written(tmp_path / "t", version, "mor", {"hoodie.partition.metafile.use.base.format": "true"})
    table.write("insert", 1, 2)
    table.write("upsert", 1, 3)
    table.check()
    found = table.files("**/.hoodie_partition_metadata*")
    assert [file.name for file in found] == [".hoodie_partition_metadata.parquet"] * 2
    metadata = pq.read_metadata(found[0])
    first = min(table.table.instants()["instant"].to_pylist())
    assert metadata.num_rows == 0
    assert (metadata.metadata[b"commitTime"].decode(), metadata.metadata[b"partitionDepth"]) == (first, b"1")
    unlisted = hudi_py.open_table(table.path, {"hoodie.metadata.enable": "false"}).scan().to_table()
    assert sorted(unlisted["v"].to_pylist()) == sorted(table.held.values())
    with pytest.raises(UnsupportedTableError, match="metafiles are written in Parquet only"):
        Written(tmp_path / "o", 9, "cow", {**table.options, "hoodie.table.base.file.format": "ORC"}).write("insert", 1)


# ---- partition columns


STATS = {"hoodie.metadata.index.column.stats.enable": "true"}
DATED = {
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
}


@pytest.mark.parametrize(
    ("version", "kind", "more"),
    cases(
        [
            (version, kind, more)
            for version in (6, 8, 9)
            for kind in ("cow", "mor")
            for more in ({}, {"hoodie.index.type": "GLOBAL_SIMPLE"})
        ],
        "no partition columns",
        3,
    ),
)
def test_rows_without_partition_columns(tmp_path: Path, version: int, kind: str, more: dict[str, str]) -> None:
    table = Written(tmp_path / "t", version, kind, {**DROPPED, **STATS, **more})
    table.write("insert", *range(8))
    table.write("upsert", 3, 4, 5, 8, 9)
    table.write("delete", 0, 5, 77)
    assert table.check().column_names == [*META_FIELDS, "id", "k", "o", "v", "p"]
    assert table.table.update({"v": "v + 1000", "o": "9"}, "p = 'p1' and id = 'r3'").num_updated == 1
    table.held["r3"] += 1000
    assert table.table.delete_where("p = 'p0' and v > 108").num_deleted == 2
    table.held = {key: value for key, value in table.held.items() if key not in ("r4", "r8")}
    table.check()
    merged_compacted_and_overwritten(table, version, kind, "t.id = s.id and t.p = s.p")
    assert table.table.alter(add={"x": pa.int32()}).instant is not None
    table.check()
    for path in table.files("**/*.parquet"):
        assert pq.read_schema(path).names == [*META_FIELDS, "id", "k", "o", "v"]
    assert table.table.metadata.verify().ok
    found = hudi_py.doctor(table.path, full=True)
    assert [each for each in found.findings if not each.code.startswith("environment")] == []
    where = table.table.scan(filter="p = 'p1'").to_table()
    assert set(where["p"].to_pylist()) == {"p1"}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_partition_columns_are_texts_of_paths(tmp_path: Path, kind: str) -> None:
    """As in Apache Hudi 1.2.0."""
    path = str(tmp_path / "t")
    data = pa.table(
        {
            "d": [date(2024, 2, 29), None, date(1969, 1, 1)],
            "id": ["a", "b", "c"],
            "n": pa.array([1, -2, None], pa.int32()),
            "v": [1, 2, 3],
        }
    )
    given = {"record_key": "id", "partition_by": "d,n", "table_type": kind}
    hudi_py.write(path, data, "insert", {**DROPPED, **QUICK}, **given)
    hudi_py.write(path, data.slice(1), "upsert", {**DROPPED, **QUICK}, **given)
    found = hudi_py.open_table(path).scan(meta=False).to_table().sort_by("id")
    assert found.to_pydict() == {
        "id": ["a", "b", "c"],
        "v": [1, 2, 3],
        "d": ["2024-02-29", None, "1969-01-01"],
        "n": ["1", "-2", None],
    }
    hudi_py.write(path, data.slice(0, 1), "delete", {**DROPPED, **QUICK}, **given)
    assert hudi_py.open_table(path).scan(columns="id").to_table().num_rows == 2


@pytest.mark.parametrize(
    ("more", "options", "text"),
    [
        ({}, {"hoodie.table.base.file.format": "ORC"}, "base files in ORC"),
        ({"partition_by": "k:TIMESTAMP"}, DATED, "key generator CUSTOM"),
        ({"ordering_by": "k", "partition_by": "k"}, {}, "partition column 'k' as ordering field"),
        ({}, VIRTUAL, "upserts of Apache Hudi 1.2.0 fail"),
        ({"partition_by": "t"}, {}, "partition column 't' of type timestamp"),
        ({"partition_by": "s.p"}, {}, "partition field 's.p' of a struct"),
        ({}, {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}, "slash-separated dates"),
        ({}, {"hoodie.schema.on.read.enable": "true", "hoodie.datasource.write.reconcile.schema": "true"}, "on.read"),
    ],
)
def test_partition_columns_that_files_need_are_refused(
    tmp_path: Path, more: dict[str, Any], options: dict[str, str], text: str
) -> None:
    table = Written(tmp_path / "t", 9, "cow", {**DROPPED, **options}, **more)
    data = rows(1, turn=1).append_column("t", pa.array([datetime(2024, 1, 1, tzinfo=timezone.utc)]))
    data = data.append_column("s", pa.array([{"p": "x"}]))
    with pytest.raises(UnsupportedTableError, match=text):
        hudi_py.write(table.path, data, "insert", table.options, **table.more)


def test_changes_of_rows_without_partition_columns(tmp_path: Path) -> None:
    table = Written(tmp_path / "t", 9, "cow", {**DROPPED, "hoodie.table.cdc.enabled": "true"})
    table.write("insert", 1, 2)
    table.write("upsert", 2, 3)
    found = table.table.scan(query_type="cdc", begin="000").to_table().to_pylist()
    assert sorted(each["op"] for each in found) == ["i", "i", "i", "u"]
    assert all(json.loads(each["after"])["id"] in ("r1", "r2", "r3") for each in found)
