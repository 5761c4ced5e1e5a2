"""A publication after a small commit reads and writes only what changed, and gives the rows that a full one gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.interop.iceberg import publication, publish, snapshot
from hudi_py.interop.iceberg.manifests import read_manifest
from tests.support.iceberg import assert_published, iceberg_table, metadata, newest

pytest.importorskip("pyiceberg")
pytestmark = pytest.mark.slow

OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.index.bloom.num_entries": "10",
}
KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering_by": "ts"}


def rows(ts: int, cities: list[int], keys: int = 3) -> pa.Table:
    places = [f"c{city:02}" for city in cities for _ in range(keys)]
    return pa.table(
        {
            "id": [f"{place}-{number % keys}" for number, place in enumerate(places)],
            "ts": pa.array([ts] * len(places), pa.int64()),
            "city": places,
            "fare": [number * 1.5 + ts for number in range(len(places))],
        }
    )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that were opened; `all` where all of them were."""
    found: list[str] = []

    def read(data: bytes, manifest: Any, *, whole: bool) -> Any:
        found.append(manifest["manifest_path"])
        return read_manifest(data, manifest, whole=whole)

    def read_all(files: Any, parent: Any) -> Any:
        found.append("all")
        return snapshot.load_state(files, parent)

    monkeypatch.setattr(snapshot, "read_manifest", read)
    monkeypatch.setattr(publication, "load_state", read_all)
    return found


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_only_manifests_that_may_name_changed_files_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str], kind: str
) -> None:
    monkeypatch.setattr(snapshot, "MANIFEST_FILES", 4)
    hudi_py.write(tmp_path, rows(1, list(range(16))), options=OPTIONS, **KEYED, table_type=kind)
    table = hudi_py.open_table(tmp_path, OPTIONS)
    publish(table)
    assert opened == ["all"]
    before = metadata(tmp_path)["snapshots"][-1]["manifest-list"]
    for ts, city in ((2, 3), (3, 13), (4, 3)):
        table.upsert(rows(ts, [city], 1))
        opened.clear()
        report = publish(table)
        assert report.changed
        assert (report.added_files, report.removed_files) == ((1, 1) if kind == "cow" else (2, 0 if ts < 4 else 2))
        # of four and more: the one that names the partition's files, to look and to rewrite, and small ones
        assert "all" not in opened
        assert len(set(opened)) <= 4
    opened.clear()
    assert not publish(table).changed
    assert opened == []
    assert assert_published(tmp_path).num_rows == 48
    found = iceberg_table(newest(tmp_path))
    manifests = found.current_snapshot().manifests(found.io)
    oldest = found.metadata.snapshots[0].snapshot_id
    first = {each.manifest_path for each in manifests if each.added_snapshot_id == oldest}
    assert len(first) >= 2
    assert before != metadata(tmp_path)["snapshots"][-1]["manifest-list"]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_and_totals_are_those_of_a_full_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str], kind: str
) -> None:
    monkeypatch.setattr(snapshot, "MANIFEST_FILES", 4)
    monkeypatch.setattr(snapshot, "_MAX_SMALL_MANIFESTS", 3)
    hudi_py.write(tmp_path, rows(1, list(range(9))), options=OPTIONS, **KEYED, table_type=kind)
    table = hudi_py.open_table(tmp_path, OPTIONS)
    publish(table)
    overwritten = {"hoodie.datasource.overwrite.mode": "dynamic"}

    def undone() -> None:
        written = table.upsert(rows(8, [8]))
        publish(table)
        table.rollback(written.instant)

    steps: dict[str, tuple[Callable[[], object], bool]] = {
        "update": (lambda: table.upsert(rows(2, [1, 5], 2)), True),
        "delete": (lambda: table.delete("id = 'c05-2'"), True),
        "delete all of a group": (lambda: table.delete("city = 'c06'"), True),
        "new partition": (lambda: table.insert(rows(3, [20], 2)), True),
        "overwrite a partition": (lambda: table.insert_overwrite(rows(4, [1], 1), options=overwritten), True),
        "drop a partition": (lambda: table.delete_partition("c02"), True),
        "two commits": (lambda: (table.upsert(rows(5, [3])), table.upsert(rows(6, [3, 4], 1))), True),
        "compaction": (lambda: table.compact() if kind == "mor" else None, True),
        "clean": (lambda: table.clean(options={"hoodie.clean.commits.retained": "2"}), True),
        "after the clean": (lambda: table.upsert(rows(7, [3, 20], 1)), True),
        "savepoint": (lambda: table.savepoint(), True),
        "rollback": (undone, False),
        "new column": (lambda: table.upsert(rows(9, [7], 1).append_column("more", pa.array([1], pa.int32()))), True),
    }
    for name, (step, part) in steps.items():
        opened.clear()
        step()
        publish(table)
        assert ("all" not in opened) is part, name
        assert_published(tmp_path)
    summary = metadata(tmp_path)["snapshots"][-1]["summary"]
    files = iceberg_table(newest(tmp_path)).inspect.files().to_pylist()
    data, deletes = ([each for each in files if (each["content"] == 0) is kind] for kind in (True, False))
    assert {name: int(value) for name, value in summary.items() if name.startswith("total-")} == {
        "total-data-files": len(data),
        "total-delete-files": len(deletes),
        "total-records": sum(each["record_count"] for each in data),
        "total-position-deletes": sum(each["record_count"] for each in deletes),
        "total-equality-deletes": 0,
        "total-files-size": sum(each["file_size_in_bytes"] for each in files),
    }


def test_all_is_read_where_commits_do_not_name_all_changes(tmp_path: Path, opened: list[str]) -> None:
    hudi_py.write(tmp_path / "6", rows(1, [1, 2]), options=OPTIONS, **KEYED, table_type="mor", table_version=6)
    publish(tmp_path / "6")
    opened.clear()
    hudi_py.write(tmp_path / "6", rows(2, [1]), options=OPTIONS)
    publish(tmp_path / "6")
    assert opened[0] == "all"
    assert_published(tmp_path / "6")
    path = tmp_path / "9"
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    archive = {**OPTIONS, **few}
    hudi_py.write(path, rows(1, [1, 2]), options=OPTIONS, **KEYED)
    table = hudi_py.open_table(path, archive)
    publish(table)
    for ts in range(2, 8):
        table.upsert(rows(ts, [ts % 3]))
    table.archive()
    opened.clear()
    publish(table)  # commits that it should look at are archived
    assert opened[0] == "all"
    assert_published(path)
    for lost in (path / "metadata").glob("*-index-*"):
        lost.unlink()
    table.upsert(rows(9, [1]))
    opened.clear()
    publish(table)
    assert opened[0] == "all"
    assert_published(path)
    table.upsert(rows(10, [1]))
    opened.clear()
    publish(table, base_files_only=True)
    assert opened[0] == "all"
