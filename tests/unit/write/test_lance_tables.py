"""Tables with Lance base files: what is written, and what is refused. tests/oracle/test_lance.py asks Apache Hudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, CorruptFileError, UnsupportedTableError
from hudi_py.formats.base.files import read_footer
from hudi_py.interop.iceberg import publish
from hudi_py.storage import open_storage
from hudi_py.testing.machine import HudiPy, NewTable, check_writes
from tests.support.base_formats import check_operations, index_options, made, rows, texts
from tests.support.choice import cases

pytest.importorskip("lance.file")

LANCE = {
    "hoodie.table.base.file.format": "LANCE",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.py.write.durable": "false",
    # without it, Apache Hudi cannot write these tables
    "hoodie.write.record.merge.custom.implementation.classes": "org.apache.hudi.DefaultSparkRecordMerger",
}
POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])


def make(path: Path, version: int = 9, kind: str = "cow", **more: Any) -> hudi_py.Table:
    return made(path, rows([1, 2, 3, 4], 1, "a"), LANCE, version, kind, **more)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow"), (9, "cow"), (9, "mor")])
def test_operations(tmp_path: Path, version: int, kind: str) -> None:
    table = make(tmp_path / "t", version, kind)
    assert table.properties["hoodie.table.base.file.format"] == "LANCE"
    check_operations(table, tmp_path / "t", kind, rows, texts)
    assert table.scan(columns=[]).count() == 5


def test_footers_have_keys(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    storage = open_storage(tmp_path / "t")
    found = {}
    for row in table.files().to_pylist():
        footer = read_footer(storage, f"{row['partition']}/{row['base_file'].rpartition('/')[2]}")
        assert footer.bloom is not None
        found[row["partition"]] = (footer.min_key, footer.max_key, footer.num_rows)
    assert found == {"even": ("2", "4", 2), "odd": ("1", "3", 2)}


@pytest.mark.slow
def test_full_files(tmp_path: Path) -> None:
    small = {"hoodie.lance.max.file.size": "1"}
    table = make(tmp_path / "t", options=small)
    table.bulk_insert(rows(list(range(100, 40_100)), 2, "x"), options=small)
    assert table.files().num_rows > 4
    assert table.scan().count() == 40_004


def test_the_metadata_table_has_no_statistics(tmp_path: Path) -> None:
    """As in Apache Hudi, which has none of Lance files."""
    table = make(tmp_path / "t", 9, "mor", options={"hoodie.metadata.index.column.stats.enable": "true"})
    assert table.properties["hoodie.table.metadata.partitions"] == "files"


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX"])
def test_indexes(tmp_path: Path, index: str) -> None:
    options = index_options(index)
    table = make(tmp_path / "t", options=options)
    table.upsert(rows([2, 5], 2, "b"), options=options)
    assert texts(table) == ["a1", "a3", "a4", "b2", "b5"]
    assert texts(table, keys=["5"]) == ["b5"]


@pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.int32()), POINT, pa.list_(POINT)], ids=str)
def test_maps_and_structs_are_refused_before_there_is_a_table(tmp_path: Path, kind: pa.DataType) -> None:
    data = pa.table({"k": [1], "ts": [1], "m": pa.array([None], kind)})
    with pytest.raises(UnsupportedTableError, match="LANCE.*the column 'm': it has a (map|struct).*Parquet"):
        hudi_py.write(str(tmp_path / "t"), data, "upsert", LANCE, record_key="k", ordering_by="ts")
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_what_else_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    with pytest.raises(UnsupportedTableError, match="its base files are LANCE"):
        publish(table)
    with pytest.raises(ConfigError, match=r"bloom\.filter\.enable.*LANCE.*leave the option out"):
        table.upsert(rows([1], 2, "b"), options={"hoodie.metadata.index.bloom.filter.enable": "true"})
    with pytest.raises(ConfigError, match=r"secondary\.column.*Lance"):
        table.upsert(rows([1], 2, "b"), options={"hoodie.metadata.index.secondary.column": "s"})
    with pytest.raises(ConfigError, match="Cannot create the index 's'.*Lance"):
        table.index("s", "s")
    with pytest.raises(ConfigError, match=r"hoodie\.lance\.max\.file\.size"):
        table.upsert(rows([1], 2, "b"), options={"hoodie.lance.max.file.size": "0"})


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    bad = table.files()["base_file"].to_pylist()[0]
    place = next((tmp_path / "t").rglob(bad.rpartition("/")[2]))
    place.write_bytes(place.read_bytes()[:-50] + bytes(50))
    assert [finding.code for finding in table.doctor(full=True).findings] == ["files.corrupt"]
    with pytest.raises(CorruptFileError):
        table.upsert(rows([1, 2], 3, "c"))


@pytest.mark.slow
def test_columns_may_be_added_and_services_run(tmp_path: Path) -> None:
    table = make(tmp_path / "t", kind="mor")
    first = table.history().num_rows
    table.upsert(rows([9], 2, "n").append_column("more", pa.array([1.5])))
    table = hudi_py.open_table(str(tmp_path / "t"), {**LANCE, "hoodie.write.set.null.for.missing.columns": "true"})
    assert table.scan().to_table().sort_by("k")["more"].to_pylist() == [None] * 4 + [1.5]
    saved = table.savepoint()
    undone = table.upsert(rows([1], 5, "z"))
    table.rollback(undone.instant)
    assert texts(table) == ["a1", "a2", "a3", "a4", "n9"]
    for ts in range(6, 10):
        table.upsert(rows([1], ts, f"v{ts}-"))
        table.compact()
    table.delete_savepoint(saved.instant)
    table.clean(options={"hoodie.clean.commits.retained": "1"})
    assert texts(table) == ["a2", "a3", "a4", "n9", "v9-1"]
    assert table.history().num_rows > first
    assert saved


class _Lance(HudiPy):
    options = LANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind"), cases([(v, k) for v in (6, 8, 9) for k in ("cow", "mor")], "lance writes", 2)
)
def test_random_writes_read_back(version: int, kind: str) -> None:
    check_writes(NewTable(kind, version), writers=(_Lance(),), examples=4, steps=8)
