"""What services would do, and reports of earlier states: nothing is changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConflictError, HistoryCleanedError

BY_HAND = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
KEYED: dict[str, Any] = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
ONE_VERSION = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inserts, then five updates, the last one of partition `a` alone."""
    path = tmp_path_factory.mktemp("previews") / "t"
    for ts in range(6):
        rows = [{"id": n, "p": "ab"[n % 2], "ts": ts} for n in range(8) if ts < 5 or n % 2 == 0]
        hudi_py.write(path, rows, "upsert", BY_HAND, **KEYED)
    return path


@pytest.fixture
def table(made: Path, tmp_path: Path) -> hudi_py.Table:
    """A copy of the table that the test may change."""
    shutil.copytree(made, tmp_path / "t")
    return hudi_py.open_table(tmp_path / "t", BY_HAND)


def state_files(table: hudi_py.Table) -> list[str]:
    return [file.file_name for file in table.timeline.files]


def test_a_compaction_is_as_previewed(table: hudi_py.Table) -> None:
    before = state_files(table)
    preview = table.compaction.preview()
    assert (preview.reason, [len(row["files"]) for row in preview.rows]) == ("", [6, 5])
    assert state_files(table) == before
    table.compaction.schedule()
    planned = [
        {name: row[name] for name in ("partition", "file_id", "files")} for row in table.services.pending().to_pylist()
    ]
    assert sorted(map(str, planned)) == sorted(map(str, preview.rows))
    assert "not in a pending plan" in table.compaction.preview().reason


def test_a_log_compaction_is_as_previewed(table: hudi_py.Table) -> None:
    assert [row["partition"] for row in table.log_compaction.preview().rows] == ["a"]
    few = {"hoodie.log.compaction.blocks.threshold": "9"}
    assert "no file group has 9 log files" in table.log_compaction.preview(options=few).reason


def test_a_clean_is_as_previewed(table: hudi_py.Table) -> None:
    table.compact()
    before = state_files(table)
    preview = table.cleaning.preview(options=ONE_VERSION)
    assert sum(len(row["files"]) for row in preview.rows) == 11
    assert state_files(table) == before
    assert table.clean(options=ONE_VERSION).num_files == 11
    assert "no file is superfluous" in table.cleaning.preview(options=ONE_VERSION).reason


def test_an_archive_is_as_previewed(table: hudi_py.Table) -> None:
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    few |= {"hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED", "hoodie.metadata.compact.max.delta.commits": "1"}
    hudi_py.write(table.uri.removeprefix("file://"), [{"id": 0, "p": "a", "ts": 9}], "upsert", {**BY_HAND, **few})
    before = state_files(table)
    preview = table.preview_archive(options=few)
    assert state_files(table) == before
    done = table.archive(options=few)
    assert len(preview.instants) == done.num_instants > 0
    assert preview.instants[-1].time == done.instant
    assert "may have up to" in table.preview_archive().reason


def test_a_rollback_is_as_previewed(table: hudi_py.Table) -> None:
    *_, earlier, newest = table.instants()["instant"].to_pylist()
    with pytest.raises(ConflictError, match="newer instants"):
        table.preview_rollback(earlier)
    before = state_files(table)
    assert table.preview_rollback(earlier, with_newer=True) == [newest, earlier]
    assert state_files(table) == before
    table.rollback(earlier, with_newer=True)
    assert table.preview_rollback(earlier) == []


def test_a_restore_is_as_previewed(table: hudi_py.Table) -> None:
    saved = table.instants()["instant"][3].as_py()
    table.savepoint(saved)
    before = state_files(table)
    preview = table.preview_restore(saved)
    assert state_files(table) == before
    assert tuple(preview) == table.restore(saved).rolled_back
    assert table.preview_restore(saved) == []


def test_what_is_due(table: hudi_py.Table) -> None:
    due = {each.service: each for each in table.services.due(options=ONE_VERSION)}
    assert due["compaction"].due
    assert due["compaction"].reason == "6 delta commits not compacted, 2 file groups with logs"
    assert not due["archive"].due
    table.compact()
    due = {each.service: each for each in table.services.due(options=ONE_VERSION)}
    assert (due["compaction"].due, due["clean"].due) == (False, True)
    assert due["clean"].reason == "11 files in 2 partitions can be deleted"


def test_files_and_partitions_as_of_a_time(table: hudi_py.Table) -> None:
    times = table.history()["instant"].to_pylist()
    assert [len(row["log_files"]) for row in table.files(as_of=times[2]).to_pylist()] == [2, 2]
    assert [len(row["log_files"]) for row in table.files().to_pylist()] == [5, 4]
    assert table.partitions(as_of=times[0])["num_files"].to_pylist() == [1, 1]
    table.compact()
    table.clean(options=ONE_VERSION)
    with pytest.raises(HistoryCleanedError):
        table.files(as_of=times[0])


def test_history_counts_the_rows_written(table: hudi_py.Table) -> None:
    table.compact()
    assert table.history()["num_writes"].to_pylist() == [8, 8, 8, 8, 8, 4, 8]
