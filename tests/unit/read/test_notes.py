"""What a scan says when its time or range holds less than was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.read import ranges
from tests.unit.read.tables import MadeTable, completion, instant, row
from tests.unit.timeline.archives import entry, put_archive


@pytest.fixture(params=[6, 9])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> hudi_py.Table:
    made = MadeTable(str(tmp_path / "t"), version=request.param, mor=False)
    for at in (1, 2):
        made.base(at, [row("a", at)])
        made.commit(at)
    return hudi_py.open_table(made.uri)


def note_of(table: hudi_py.Table, caplog: pytest.LogCaptureFixture, **how: Any) -> str | None:
    """The note of a scan, which is logged as a warning and shown by `explain`."""
    caplog.clear()
    scan = table.scan(**how)
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    note = scan.plan().note
    assert found == ([] if note is None else [f"reading {table.uri}: {note}"])
    assert ("\n  note        " in scan.explain()) == (note is not None)
    return note


def test_times(table: hudi_py.Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert note_of(table, caplog) is None
    assert note_of(table, caplog, as_of=instant(1)) is None
    monkeypatch.setattr(ranges, "wall_clock_ms", lambda: 1_704_164_645_678)
    assert note_of(table, caplog, as_of="2024-01-02 03:04:05.678") is None
    assert note_of(table, caplog, as_of="2024-01-03") == (
        "20240103000000000 is in the future: the rows are those of now, 20240102030405678, which later commits will "
        "change"
    )
    before = f"there are no rows: the oldest active commit is {instant(1)} (a day means its midnight)"
    assert note_of(table, caplog, as_of="2024-01-01") == f"as of 20240101000000000 {before}"
    assert table.scan(as_of="2024-01-01").to_table().num_rows == 0
    monkeypatch.setattr(ranges, "wall_clock_ms", lambda: 0)  # a clock that is behind the table's
    assert note_of(table, caplog, as_of=instant(2)) is None


def test_ranges(table: hudi_py.Table, caplog: pytest.LogCaptureFixture) -> None:
    by_completion = table.version >= 8
    newest = completion(2) if by_completion else instant(2)
    kind = "completion" if by_completion else "requested"
    how: dict[str, Any] = {"query_type": "incremental"}
    assert note_of(table, caplog, **how, begin="000") is None
    assert note_of(table, caplog, **how, begin=newest) is None  # continues after a commit: nothing is new
    for begin, end in (("2025-01-01", None), ("2023-01-01", "2023-06-01")):
        note = note_of(table, caplog, **how, begin=begin, end=end)
        assert note is not None
        assert note.startswith(f"the range (after {begin.replace('-', '')}000000000 up to ")
        assert note.endswith(f") has no commits: it goes by {kind} times, and the newest commit's is {newest}")
    options = {"hoodie.datasource.read.begin.instanttime": "20250101000000"}
    assert note_of(table, caplog, **how, options=options)


def test_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "t")
    logs = {"hoodie.table.cdc.enabled": "true"}
    result = hudi_py.write(path, [{"id": 1, "ts": 1}], record_key="id", ordering_by="ts", options=logs)
    table = hudi_py.open_table(path)
    how: dict[str, Any] = {"query_type": "cdc"}
    assert note_of(table, caplog, **how, begin="000") is None
    assert note_of(table, caplog, **how, begin=result) is None
    assert f"by requested times, and the newest commit's is {result.instant}" in str(
        note_of(table, caplog, **how, begin="2999-01-01")
    )


def test_a_table_without_commits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = hudi_py.open_table(MadeTable(str(tmp_path / "t")).uri)
    assert note_of(table, caplog) is None
    assert note_of(table, caplog, as_of="2024-01-01") == (
        "as of 20240101000000000 there are no rows: the table has no commits"
    )
    note = note_of(table, caplog, query_type="incremental", begin="000")
    assert note == "the range (after 000 up to the newest commit) is empty: the table has no commits"


def test_archived_commits_may_have_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = MadeTable(str(tmp_path / "t"), version=6, mor=False)
    made.base(1, [row("a", 1)])
    made.base(2, [row("a", 2)])
    made.commit(2)
    put_archive(made.storage, [entry(instant(1))])
    table = hudi_py.open_table(made.uri)
    assert note_of(table, caplog, as_of=instant(1)) is None
    assert table.scan(as_of=instant(1)).to_table()["ts"].to_pylist() == [1]
    note = note_of(table, caplog, as_of="2024-01-01")
    assert note is not None
    assert f"the oldest active commit is {instant(2)}" in note
