"""Bootstrapped tables of Apache Hudi (data/bootstrap/README.md): skeletons beside the files they were made from."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.expressions.filter import parse_filter
from hudi_py.formats.hfile import HFile, open_hfile
from hudi_py.model.files import BaseFile, SourceFile
from hudi_py.model.names import PartitionPath, parse_base_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.read.slices import base_file
from hudi_py.read.slices.base_file import BaseFileReader, folder_values
from hudi_py.storage import Storage, open_beside, open_storage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.view import bootstrap
from hudi_py.view.bootstrap import check_source, load_bootstrap_sources
from tests.support import archives

DATA = Path(__file__).parent / "data" / "bootstrap"
WAS_AT = "file:/data/bootstrap"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables, where the sources they name are looked for below `tmp_path`."""
    archives.extract(DATA / "tables.tar.gz", tmp_path)

    def moved(storage: Storage, uri: str) -> Storage:
        assert uri.startswith(WAS_AT)
        return open_beside(storage, str(tmp_path) + uri.removeprefix(WAS_AT))

    monkeypatch.setattr(base_file, "open_beside", moved)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "label", "query"),
    [
        ("mor9", "first", {"as_of": "00000000000001"}),
        ("mor9", "snapshot", {}),
        ("mor9", "read_optimized", {"query_type": "read_optimized"}),
        ("cow6", "first", {"as_of": "00000000000001"}),
        ("cow6", "snapshot", {}),
        ("cow6", "read_optimized", {"query_type": "read_optimized"}),
        ("full9", "snapshot", {}),
    ],
)
def test_rows_are_those_of_apache_hudi(folder: Path, name: str, label: str, query: Mapping[str, Any]) -> None:
    expected = pq.read_table(DATA / f"{name}-{label}.parquet")
    scan = hudi_py.open_table(str(folder / name)).scan(**query)
    rows = scan.to_table()
    assert_rows_equal(rows, expected)
    assert rows.column_names == expected.column_names
    assert scan.count() == expected.num_rows


def test_filters_columns_and_division(folder: Path) -> None:
    table = hudi_py.open_table(str(folder / "mor9"))
    assert table.scan(columns=["city"], filter="n = 9").to_table().to_pylist() == [{"city": "rome"}]
    assert table.scan(columns=["id"], filter="city = 'rome' and n > 9").count() == 2
    assert table.scan(columns=["_hoodie_record_key"], filter="name is null").count() == 2 + 1
    assert set(table.scan(columns=["city", "ts"], filter="n < 3").to_table().to_pylist()[0]) == {"city", "ts"}
    splits = table.scan(query_type="read_optimized").splits(target_bytes=1)
    rows = [row for split in pickle.loads(pickle.dumps(splits)) for row in hudi_py.read_split(split)]
    assert sum(batch.num_rows for batch in rows) == 12


def skeleton(folder: Path, name: str = "mor9") -> tuple[Storage, BaseFile]:
    storage = open_storage(str(folder / name))
    config = TableConfig({"hoodie.bootstrap.base.path": WAS_AT})
    sources = load_bootstrap_sources(storage, config)
    partition = PartitionPath("city=oslo" if name == "mor9" else "")
    info = next(info for info in storage.list(partition) if info.name.endswith("00000000000001.parquet"))
    parsed = parse_base_file_name(info.name)
    assert parsed is not None
    return storage, BaseFile(partition, parsed, info.size, sources[partition, parsed.file_id])


SCHEMA = pa.schema([("_hoodie_record_key", pa.string()), ("city", pa.string()), ("n", pa.int64()), ("new", pa.bool_())])


def read(storage: Storage, base: BaseFile, schema: pa.Schema = SCHEMA) -> list[pa.RecordBatch]:
    with BaseFileReader(storage, base) as reader:
        return list(reader.batches(schema))


def test_batches_of_any_size_stay_side_by_side(folder: Path) -> None:
    storage, base = skeleton(folder)
    size = (folder / "source" / "city=oslo" / "part-0.parquet").stat().st_size
    assert base.source == SourceFile(f"{WAS_AT}/source/city=oslo/part-0.parquet", size)
    for rows in (1, 2, 100):
        with BaseFileReader(storage, base) as reader:
            found = pa.Table.from_batches(reader.batches(SCHEMA, batch_rows=rows))
        assert found.to_pylist() == [
            {"_hoodie_record_key": f"k{at}", "city": "oslo", "n": at, "new": None} for at in range(1, 8)
        ]
    with BaseFileReader(storage, base) as reader:
        assert reader.row_group_sizes() == []
        assert reader.matching_row_groups(None, parse_filter("n = 100", SCHEMA)) is None


def test_a_source_that_is_gone_or_another(folder: Path) -> None:
    storage, base = skeleton(folder)
    source = folder / "source" / "city=oslo" / "part-0.parquet"
    rows = pq.read_table(source)
    pq.write_table(rows.slice(0, 5), source)
    with pytest.raises(CorruptFileError, match=r"bytes, but had \d+ when it was bootstrapped"):
        read(storage, base)
    assert base.source is not None
    with pytest.raises(CorruptFileError, match="another number of rows"):
        read(storage, replace(base, source=SourceFile(base.source.uri)))
    source.unlink()
    with pytest.raises(CorruptFileError, match=r"source file:/data/bootstrap/source/.* is missing"):
        read(storage, base)
    # what the skeleton alone tells is read nevertheless
    keys = read(storage, base, pa.schema([SCHEMA.field(0)]))
    assert sum(batch.num_rows for batch in keys) == 7


@pytest.mark.parametrize(
    ("table", "base", "source", "allowed", "wrong"),
    [
        ("file:///t", "file:/data/raw", "file:///data/raw/p/f.parquet", "", ""),
        ("file:///t", "/data/raw/", "file:/data/raw/f.parquet", "", ""),
        ("s3://b/t", "s3a://b/raw", "s3://b/raw/f.parquet", "", ""),
        ("hdfs://nn:8020/t", "/raw", "hdfs://nn:8020/raw/f.parquet", "", ""),
        ("file:///t", "file:/data/raw", "file:///data/rawest/f.parquet", "", "not below"),
        ("file:///t", "file:/data/raw", "file:///data/raw/../secret/f.parquet", "", "not below"),
        ("s3://b/t", "s3a://b/raw", "s3://other/raw/f.parquet", "s3://other", "not below"),
        ("s3://b/t", "/raw", "http://evil/raw/f.parquet", "", "in another store"),
        ("s3://b/t", "s3://raw/x", "s3a://raw/x/f.parquet", "", "set hoodie.py.read.bootstrap.sources to s3://raw/x"),
        ("s3://b/t", "s3://raw/x", "s3a://raw/x/f.parquet", "gs://y,s3://raw/x/", ""),
        ("s3://b/t", "s3://raw/x", "s3a://raw/x/f.parquet", "s3://raw/other", "in another store"),
        ("s3://b/t", "file:/etc", "file:/etc/f.parquet", "", "in another store"),
        ("file:///t", "s3://raw/x", "s3://raw/x/f.parquet", "", "in another store"),
        ("hdfs://nn:8020/t", "hdfs://evil/raw", "hdfs://evil/raw/f.parquet", "", "in another store"),
    ],
)
def test_sources_lie_below_the_base_path_and_in_the_store_of_the_table(
    table: str, base: str, source: str, allowed: str, wrong: str
) -> None:
    config = TableConfig({"hoodie.bootstrap.base.path": base})
    with pytest.raises(UnsupportedTableError, match=wrong) if wrong else nullcontext():
        check_source(table, config, source, allowed.split(","))


def test_a_source_elsewhere_is_refused_when_the_read_is_planned(folder: Path) -> None:
    properties = folder / "mor9" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("/data/bootstrap/source", "/other"))
    with pytest.raises(UnsupportedTableError, match="which is not below hoodie.bootstrap.base.path=/other;"):
        hudi_py.open_table(str(folder / "mor9")).scan().explain()


def test_a_skeleton_without_index_is_refused(folder: Path) -> None:
    for path in (folder / "mor9" / ".hoodie" / ".aux" / ".bootstrap").rglob("*.hfile"):
        path.unlink()
    with pytest.raises(UnsupportedTableError, match="no bootstrap index that names its source"):
        hudi_py.open_table(str(folder / "mor9")).scan().to_table()


def test_indexes_of_other_kinds(folder: Path) -> None:
    storage = open_storage(str(folder / "mor9"))
    base = {"hoodie.bootstrap.base.path": "/x"}
    assert load_bootstrap_sources(storage, TableConfig({})) == {}
    assert load_bootstrap_sources(storage, TableConfig({**base, "hoodie.bootstrap.index.enable": "false"})) == {}
    assert len(load_bootstrap_sources(storage, TableConfig({**base, "hoodie.bootstrap.index.type": "hfile"}))) == 2
    with pytest.raises(UnsupportedTableError, match="my.Index"):
        load_bootstrap_sources(storage, TableConfig({**base, "hoodie.bootstrap.index.class": "my.Index"}))


def test_an_open_table_reads_its_index_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def noted(storage: Storage, path: str, size: int) -> HFile:
        opened.append(storage.uri)
        return open_hfile(storage, path, size)

    monkeypatch.setattr(bootstrap, "open_hfile", noted)
    table = hudi_py.open_table(str(folder / "mor9"))
    assert [table.scan(filter="n = 9").count() for _ in range(3)] == [1, 1, 1]
    assert len(opened) == 1
    assert hudi_py.open_table(str(folder / "mor9")).scan().count() == 12
    assert len(opened) == 2


def test_a_damaged_index(folder: Path) -> None:
    path = next((folder / "mor9" / ".hoodie" / ".aux" / ".bootstrap" / ".partitions").glob("*.hfile"))
    data = path.read_bytes()
    for damaged in (b"", data[:-9], data[: len(data) // 2], b"x" * len(data)):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            hudi_py.open_table(str(folder / "mor9")).scan()


def test_values_of_source_folders() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.date32()), ("d", pa.int32())])
    found = folder_values("file:/x=1/b=p%20q/d=__HIVE_DEFAULT_PARTITION__/f.parquet", batch, schema)
    assert found.to_pylist() == [{"a": 1, "b": "p q", "d": None}, {"a": 2, "b": "p q", "d": None}]
    with pytest.raises(UnsupportedTableError, match="'c=yesterday' does not give"):
        folder_values("file:/c=yesterday/f.parquet", batch, schema)
    assert folder_values("file:/a=7/f.parquet", batch, schema) is batch


def sources(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for name in ("source", "flat") for path in (folder / name).rglob("*.parquet")}


def content(table: hudi_py.Table, **query: Any) -> dict[str, tuple[Any, ...]]:
    rows = table.scan(columns=["id", "name", "n", "city"], **query).to_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["name"], row["n"], row["city"]) for row in rows}


INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "index", "more"),
    [
        ("mor9", "SIMPLE", {}),
        ("mor9", "RECORD_INDEX", INDEXES),
        ("mor9", "BLOOM", INDEXES),
        ("cow6", "GLOBAL_BLOOM", {}),
        ("cow6", "SIMPLE", INDEXES),
    ],
)
def test_writes_and_services(folder: Path, name: str, index: str, more: Mapping[str, str]) -> None:
    """Every service of a bootstrapped table, whose sources stay as they are."""
    before, path = sources(folder), str(folder / name)
    options = {"hoodie.index.type": index, "hoodie.metadata.enable": "true", **more}
    expected = content(hudi_py.open_table(path))
    rows = pa.table({"id": ["k1", "k30"], "name": ["x", "y"], "n": [100, 101], "ts": [9, 9], "city": ["oslo", "oslo"]})
    result = hudi_py.write(path, rows, options=options)
    assert result.num_updated in (1, None)
    expected |= {"k1": ("x", 100, "oslo"), "k30": ("y", 101, "oslo")}
    table = hudi_py.open_table(path, options=options)
    assert content(table) == expected
    assert content(table, filter="n = 100") == {"k1": ("x", 100, "oslo")}
    assert content(table, filter="n = 11") == {key: row for key, row in expected.items() if row[1] == 11}
    assert table.metadata.verify().ok
    table.delete_where("id = 'k3'")
    del expected["k3"]
    if name == "mor9":
        assert table.compact(options={"hoodie.compact.inline.max.delta.commits": "1"}).instant is not None
        assert content(table) == content(table, query_type="read_optimized") == expected
    table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "n"})
    assert content(table) == expected
    cleaned = table.clean(options={"hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "true"})
    hudi_py.write(path, rows.slice(0, 1), options=options)
    table.clean(options={"hoodie.clean.commits.retained": "1"})
    assert not list((folder / name).rglob("*_00000000000001.parquet")), cleaned
    assert content(table) == expected
    assert table.metadata.verify().ok
    assert sources(folder) == before


def test_a_source_elsewhere_is_refused_before_a_write_begins(folder: Path) -> None:
    properties = folder / "mor9" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("/data/bootstrap/source", "/other"))
    files = sorted(folder.rglob("*"))
    rows = pa.table({"id": ["k1"], "name": ["x"], "n": [1], "ts": [9], "city": ["oslo"]})
    for act in (lambda: hudi_py.write(str(folder / "mor9"), rows), hudi_py.open_table(str(folder / "mor9")).compact):
        with pytest.raises(UnsupportedTableError, match="which is not below hoodie.bootstrap.base.path=/other;"):
            act()
    assert sorted(folder.rglob("*")) == files


def test_a_plan_cannot_name_another_source(folder: Path) -> None:
    """The source is that of the index, whatever a plan says."""
    row = pa.table({"id": ["k8"], "name": ["x"], "n": [8], "ts": [9], "city": ["rome"]})
    hudi_py.write(str(folder / "mor9"), row, options={"hoodie.metadata.enable": "false"})
    table = hudi_py.open_table(str(folder / "mor9"))
    expected = content(table)
    instant = table.compaction.schedule(options={"hoodie.compact.inline.max.delta.commits": "1"})
    assert instant is not None
    storage = open_storage(str(folder / "mor9"))
    path = next(info.path for info in storage.walk(".hoodie") if info.name.startswith(f"{instant}.compaction"))
    plan = storage.read(path)
    assert b"city=rome/part-0" in plan
    storage.put(path, plan.replace(b"city=rome/part-0", b"city=oslo/part-0"))
    table.compaction.run(instant)
    assert content(table) == expected
