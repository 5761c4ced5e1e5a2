"""What a clustering gains, before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import hudi_py
from hudi_py.cli.main import main
from hudi_py.services.clustering.gain import ClusteringGain
from tests.unit.services.clustering.test_clustering import PLAN, QUICK

STATS = {"hoodie.metadata.index.column.stats.enable": "true"}
NONE = {"hoodie.metadata.index.column.stats.enable": "false"}


def make(path: str, options: dict[str, str], **made: Any) -> None:
    """Eight files whose values of v overlap completely, and those of ts not at all."""
    for ts in range(8):
        rows = range(400)
        data = {"k": [f"{ts}-{row}" for row in rows], "ts": [ts * 1_000 + row for row in rows], "v": [*rows]}
        hudi_py.write(path, pa.table(data), "insert", {**QUICK, **options}, record_key="k", **made)


def gain_of(path: str, options: dict[str, str]) -> ClusteringGain:
    found = hudi_py.open_table(path, {**QUICK, **options}).clustering.preview().gain
    assert isinstance(found, ClusteringGain)
    return found


@pytest.mark.parametrize("options", [STATS, NONE], ids=["statistics", "footers"])
def test_files_and_ranges(tmp_path: Path, options: dict[str, str]) -> None:
    path = str(tmp_path)
    make(path, options)
    size = sum(file.stat().st_size for file in tmp_path.glob("*.parquet"))
    given = {**options, f"{PLAN}sort.columns": "V,ts", f"{PLAN}target.file.max.bytes": str(-(-size // 4))}
    gain = gain_of(path, given)
    assert (gain.files, gain.files_after, gain.small_files, gain.small_files_after) == (8, 4, 8, 4)
    by_value, by_time = gain.columns
    assert (by_value.name, by_value.opened) == ("v", 8.0)
    assert by_value.opened_after == 1.0
    assert (by_time.name, by_time.opened, by_time.opened_after) == ("ts", 1.0, 4.0)
    assert gain.files_saved == 7
    assert "8 files become 4; a filter for one value of v opens 8.0 of them on average, then about" in str(gain)
    table = hudi_py.open_table(path, {**QUICK, **given})
    assert table.cluster().num_files == 4
    measured = gain_of(path, given).columns
    assert measured[0].opened == pytest.approx(by_value.opened_after, abs=0.5)
    assert 2 <= measured[1].opened <= by_time.opened_after
    curve = {**given, "hoodie.layout.optimize.strategy": "zorder"}
    expected = gain_of(path, curve)
    assert all(column.opened_after == pytest.approx(2.0, abs=0.5) for column in expected.columns)


def test_unknown_ranges(tmp_path: Path) -> None:
    """Logs have no footers, and a column without order no range: only files are counted."""
    path = str(tmp_path)
    make(path, NONE, table_type="mor", ordering_by="ts")
    data = pa.table({"k": ["0-1"], "ts": [9_000], "v": [1]})
    hudi_py.write(path, data, "upsert", {**QUICK, **NONE})
    gain = gain_of(path, {**NONE, f"{PLAN}sort.columns": "v"})
    assert (gain.files, gain.files_after, gain.columns) == (8, 1, ())
    assert gain.files_saved == 7
    assert gain_of(path, NONE).columns == ()


def test_the_doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run, what is due, and the doctor show the same."""
    monkeypatch.setattr("hudi_py.health.files._MIN_SMALL_FILES", 5)
    path = str(tmp_path)
    make(path, STATS)
    sorting = {f"{PLAN}sort.columns": "v"}
    shown = CliRunner().invoke(main, ["cluster", path, "--dry-run", "--sort-by", "v"]).output
    words = "8 files become 1; a filter for one value of v opens 8.0 of them on average, then about 1.0"
    assert f"Gain: {words}." in shown
    parsed = CliRunner().invoke(main, ["cluster", path, "--dry-run", "--sort-by", "v", "--json"]).output
    assert json.loads(parsed)["gain"]["files_after"] == 1
    inline = {"hoodie.clustering.inline": "true", **sorting}
    (due,) = (each for each in hudi_py.open_table(path, inline).services.due() if each.service == "clustering")
    assert due.reason == f"8 file groups to join or sort: {words}"
    assert (due.due, due.files) == (True, 7)
    (finding,) = (each for each in hudi_py.doctor(path).findings if each.code == "files.small")
    assert finding.what.endswith("By a clustering of these partitions, 8 files become 1")
    assert (finding.details["files_clustered"], finding.details["files_after"]) == (8, 1)
    hudi_py.open_table(path, QUICK).clustering.schedule()
    (finding,) = (each for each in hudi_py.doctor(path).findings if each.code == "files.small")
    assert "files_after" not in finding.details  # all of them are in the pending plan
