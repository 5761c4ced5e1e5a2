"""Procedures that repair one kind of problem."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.health.procedures import REPAIRS, run_repair_procedure
from hudi_py.model.properties import parse_properties
from tests.support.choice import cases
from tests.support.ill_tables import BY_NAME, now, state

OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}


def call(path: Path, name: str, /, **given: Any) -> list[tuple[Any, ...]]:
    report = run_repair_procedure(str(path), OPTIONS, name, given)
    assert report.schema == REPAIRS[name].columns
    return [tuple(row.values()) for row in report.to_pylist()]


def make(path: Path, version: int = 9, kind: str = "cow") -> hudi_py.Table:
    given: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind}
    rows = [{"id": n, "p": "ab"[n % 2], "ts": 1, "v": float(n)} for n in range(6)]
    hudi_py.write(str(path), rows, options=OPTIONS, table_version=version, **given)
    return hudi_py.open_table(str(path), options=OPTIONS)


def values(path: Path) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for row in hudi_py.open_table(str(path)).scan(["id", "v"]).to_table().to_pylist():
        found.setdefault(row["id"], []).append(row["v"])
    return found


def test_partition_metafiles_are_added(tmp_path: Path) -> None:
    make(tmp_path / "t")
    (tmp_path / "t/a/.hoodie_partition_metadata").unlink()
    lacking = [("a", "No", "None"), ("b", "Yes", "None")]
    assert call(tmp_path / "t", "repair_add_partition_meta") == lacking
    assert call(tmp_path / "t", "repair_add_partition_meta", dry_run=False)[0] == ("a", "No", "Repaired")
    assert call(tmp_path / "t", "repair_add_partition_meta")[0] == ("a", "Yes", "None")
    hudi_py.write(str(tmp_path / "plain"), [{"id": 1}], record_key="id")
    assert [row[0] for row in call(tmp_path / "plain", "repair_add_partition_meta")] == [""]


@pytest.mark.parametrize(("version", "kind"), cases(product((6, 8, 9), ("cow", "mor")), "metafiles", 2))
def test_partition_metafiles_are_migrated(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    table = make(path, version, kind)
    before = (path / "a/.hoodie_partition_metadata").read_text()
    planned = [(each, "true", "false", "MIGRATE") for each in "ab"]
    assert call(path, "repair_migrate_partition_meta") == planned
    assert table.properties.get("hoodie.partition.metafile.use.base.format", "false") == "false"
    done = [(each, "true", "false", "MIGRATED") for each in "ab"]
    assert call(path, "repair_migrate_partition_meta", dry_run=False) == done
    assert table.properties["hoodie.partition.metafile.use.base.format"] == "true"
    assert not (path / "a/.hoodie_partition_metadata").exists()
    footer = pq.read_metadata(path / "a/.hoodie_partition_metadata.parquet").metadata
    assert f"commitTime={footer[b'commitTime'].decode()}\n" in before
    assert call(path, "repair_migrate_partition_meta") == [(each, "false", "true", "NONE") for each in "ab"]
    table.upsert([{"id": 9, "p": "c", "ts": 1, "v": 9.0}])
    assert sorted(each.name for each in (path / "c").glob(".hoodie_*")) == [".hoodie_partition_metadata.parquet"]
    assert len(values(path)) == 7


def test_corrupt_cleans_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    time = now(path)
    files = [state(path, f"{time}.clean.{each}", b"garbage") for each in ("requested", "inflight")]
    assert call(path, "repair_corrupted_clean_files") == [(True,)]
    assert not any(each.exists() for each in files)
    assert call(path, "repair_corrupted_clean_files") == [(True,)]
    assert len(hudi_py.open_table(str(path)).health.repairs()) == 1, "what was removed is kept"


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_duplicates_are_removed(tmp_path: Path, kind: str) -> None:
    path, out = tmp_path / "t", tmp_path / "out"
    table = make(path, 9, kind)
    table.insert([{"id": n, "p": "ab"[n % 2], "ts": 0, "v": 100.0 + n} for n in range(4)])
    assert sorted(values(path)[0]) == [0.0, 100.0]
    given = {"duplicated_partition_path": "a", "repaired_output_path": str(out)}
    (text,) = call(path, "repair_deduplicate", **given)
    assert text == (f"Deduplicated files placed in: {out}.",)
    copies = [row for each in sorted(out.iterdir()) for row in pq.read_table(each).to_pylist()]
    assert sorted((row["id"], row["v"]) for row in copies) == [(0, 100.0), (2, 102.0), (4, 4.0)]
    with pytest.raises(ConfigError, match="it is not empty"):
        call(path, "repair_deduplicate", **given)
    before = table.history().num_rows
    assert call(path, "repair_deduplicate", **given, dry_run=False) == [("Deduplicated files placed in: a.",)]
    assert (values(path)[0], values(path)[4]) == ([100.0], [4.0])
    assert len(values(path)[1]) == 2, "of another partition"
    call(path, "repair_deduplicate", **given, dry_run=False, dedupe_type="upsert_type")
    assert table.history().num_rows == before + 1
    for wrong, message in (
        ({"dedupe_type": "any"}, "supported: insert_type, update_type, upsert_type"),
        ({"duplicated_partition_path": "none"}, "no such partition with rows"),
        ({"repaired_output_path": f"{path}/a"}, "lies in the table"),
    ):
        with pytest.raises(ConfigError, match=message):
            call(path, "repair_deduplicate", **{**given, **wrong})


def test_properties_are_replaced(tmp_path: Path) -> None:
    path, file = tmp_path / "t", tmp_path / "new"
    make(path)
    stored = path / ".hoodie/hoodie.properties"
    old = parse_properties(stored.read_text())

    def replace(text: str) -> dict[Any, tuple[Any, Any]]:
        file.write_text(text)
        return {row[0]: row[1:] for row in call(path, "repair_overwrite_hoodie_props", new_props_file_path=str(file))}

    text = stored.read_text().replace("hoodie.table.ordering.fields=ts\n", "hoodie.extra=1\n")
    changed = {key: pair for key, pair in replace(text).items() if pair[0] != pair[1]}
    assert changed == {"hoodie.table.ordering.fields": ("ts", "null"), "hoodie.extra": ("null", "1")}
    assert not (path / ".hoodie/hoodie.properties.backup").exists()
    good = stored.read_bytes()
    for wrong, message in (
        ("hoodie.table.name=x\n", "it has no hoodie.table.version; it has no hoodie.table.type"),
        (text.replace("version=9", "version=8"), "changes hoodie.table.version from 9 to 8.*Table.upgrade"),
        (text.replace("COPY_ON_WRITE", "MERGE_ON_READ"), "Table.change_type"),
        (text.replace("COPY_ON_WRITE", "COPY"), "is none of"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(wrong)
    with pytest.raises(ConfigError, match="there is no file"):
        call(path, "repair_overwrite_hoodie_props", new_props_file_path=str(tmp_path / "none"))
    assert stored.read_bytes() == good
    stored.write_bytes(b"")
    assert replace(text)["hoodie.table.name"][0] == "null"
    assert parse_properties(stored.read_text())["hoodie.table.checksum"] == old["hoodie.table.checksum"]
    assert len(values(path)) == 6


def test_markers_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    for instant in ("101", "102"):
        folder = path / ".hoodie/.temp" / instant / "a"
        folder.mkdir(parents=True)
        (folder / "f.marker.CREATE").touch()
    assert call(path, "delete_marker", instant_time="101,102") == [(True,)]
    assert list((path / ".hoodie/.temp").iterdir()) == []
    BY_NAME["dead write with markers"].plant(path)
    (pending,) = (each.time for each in hudi_py.open_table(str(path)).timeline.pending)
    with pytest.raises(ConflictError, match="the instant is pending"):
        call(path, "delete_marker", instant_time=str(pending))
    with pytest.raises(ConfigError, match="it is not an instant"):
        call(path, "delete_marker", instant_time="../a")
