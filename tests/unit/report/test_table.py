"""The report of real tables, and what notebooks show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hudi_py
from hudi_py.errors import ConfigError
from hudi_py.report.summary import Report, gather, summarise
from hudi_py.storage import open_storage
from tests.golden.tables import Extracted

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A merge-on-read table of three writes and a compaction, with logs and a partition of an odd name."""
    path = tmp_path_factory.mktemp("report") / "trips"
    for ts in range(3):
        rows = [{"id": f"{n}", "ts": ts, "city": ("<b>oslo</b>", "lima")[n % 2]} for n in range(10)]
        keys = {"record_key": "id", "ordering_by": "ts", "partition_by": "city"}
        hudi_py.write(path, rows, options=OPTIONS, table_type="mor", **keys)
        if ts == 1:
            hudi_py.open_table(path).compact(options=OPTIONS)
    return path


def summary(path: Path) -> Report:
    found = gather(hudi_py.open_table(path), open_storage(path))
    return summarise(found, str(path), {}, now_ms=1_900_000_000_000, release="1.0")


def test_the_report_is_what_the_table_says(path: Path) -> None:
    table, found = hudi_py.open_table(path), summary(path)
    files, history = table.files().to_pylist(), table.history().to_pylist()
    assert found.unknown == ()
    assert found.files.total.bytes == sum(row["base_bytes"] + row["log_bytes"] for row in files)
    assert found.files.waiting == len([row for row in files if row["log_files"]]) == 2
    assert {each.name: each.bytes for each in found.files.partitions} == {
        row["partition"]: row["num_bytes"] for row in table.partitions().to_pylist()
    }
    assert (found.activity.count, found.writes.commits) == (len(table.instants()), len(history))
    assert {lane.kind: lane.count for lane in found.activity.lanes} == {"deltacommit": 3, "compaction": 1}
    assert found.writes.bytes == sum(row["num_bytes"] for row in history)
    assert (found.writes.rows_changed, found.writes.rows_written) == (30, sum(row["num_writes"] for row in history))
    assert found.due == tuple(table.services.due())
    assert found.diagnosis is not None
    assert found.diagnosis.findings == table.doctor().findings
    assert {each.name for each in found.metadata} == set(found.overview.metadata_partitions)
    assert all(each.ready and each.groups for each in found.metadata)
    assert found.older is not None
    kept = [name for _, _, names in os.walk(path) for name in names if name.endswith(".parquet")]
    assert found.older.slices == len(kept) - len(files) == 2
    assert [each.name for each in found.columns] == ["id", "ts", "city", *table.schema.names[:5]]
    assert found.columns[0].roles == ("record key",)


def test_the_file(path: Path, tmp_path: Path) -> None:
    table = hudi_py.open_table(path)
    target = tmp_path / "trips.html"
    target.write_text("older")
    assert table.report(target) == str(target)
    text = target.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "&lt;b&gt;oslo&lt;/b&gt;" in text
    assert "<b>" not in text
    assert os.listdir(tmp_path) == ["trips.html"]
    with pytest.raises(ConfigError, match="is a folder"):
        table.report(tmp_path)
    with pytest.raises(ConfigError):
        table.report(target, options={"hoodie.parquet.small.file.limit": "many"})
    with pytest.raises(FileNotFoundError):
        table.report(tmp_path / "none" / "trips.html")


@pytest.mark.parametrize(
    "name", ["v6_mor_compaction_pending", "v9_cow_empty", "v9_cow_schema_on_read", "v9_mor_archived", "v9_mor_inflight"]
)
def test_tables_of_apache_hudi(name: str, golden: Extracted, tmp_path: Path) -> None:
    table = hudi_py.open_table(golden(name))
    text = Path(table.report(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert f"table version {table.version}" in text
    assert "What could not be found out" not in text


def test_damage_leaves_the_rest(tmp_path: Path, golden_copy: Extracted) -> None:
    copy = golden_copy("v9_mor_compaction")
    commit = next(each for each in sorted((copy / ".hoodie/timeline").glob("*_*.deltacommit")))
    commit.write_bytes(b"torn")
    text = Path(hudi_py.open_table(copy).report(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert "What could not be found out" in text
    assert "what was written: " in text
    assert "critical" in text
    assert "Instants by action" in text


def test_a_table_in_a_notebook(path: Path, tmp_path: Path) -> None:
    table = hudi_py.open_table(path)
    text = table._repr_html_()
    for said in ("trips", "merge on read", "4 instants", "<bdi>city</bdi>"):
        assert said in text
    assert "<script" not in text
    lost = tmp_path / "lost"
    hudi_py.write(lost, [{"id": "1"}], record_key="id")
    gone = hudi_py.open_table(lost)
    lost.rename(tmp_path / "elsewhere")
    assert "Record key" in gone._repr_html_()


def test_a_scan_in_a_notebook(path: Path) -> None:
    scan = hudi_py.open_table(path).scan(filter="city = '<b>oslo</b>'", limit=5)
    text = scan._repr_html_()
    for said in ("Scan", "1 of 2", "1, 1 of them merged with logs", "&lt;b&gt;oslo", "3 columns"):
        assert said in text
    assert "<b>" not in text
