"""What `explain` tells of a scan."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_py
from tests.unit.read.tables import MadeTable, instant, row

OTHER = "22222222-2222-3333-4444-555555555555-0"


@pytest.fixture
def table(tmp_path: Path) -> hudi_py.Table:
    made = MadeTable(str(tmp_path / "t"))
    made.base(1, [row("a", 1)])
    made.base(1, [row("b", 1)], file_id=OTHER)
    made.base(1, [row("c", 1)], file_id=OTHER.replace("2", "3"))
    made.commit(1)
    made.log(2, [row("a", 2)])
    made.commit(2)
    return hudi_py.open_table(made.uri)


def test_each_part_of_a_plan_is_told(table: hudi_py.Table) -> None:
    text = table.scan(columns=["id", "name"], filter="price > 0", limit=5).explain()
    lines = [line.split() for line in text.splitlines()]
    assert lines[0][:3] == ["Scan", "of", table.uri]
    assert ["columns", "2", "of", "9:", "id,", "name"] in lines
    assert ["filter", "price", ">", "0"] in lines
    assert ["limit", "5"] in lines
    assert ["listed", "by", "storage"] in lines
    assert ["partition", "path", "1", "->", "1", "partitions"] in lines
    assert ["merge", "EVENT_TIME_ORDERING", "by", "ts"] in lines
    assert any(line[:2] == ["slices", "3,"] for line in lines)
    assert "base + 1 log" in text
    assert "row groups" in text


def test_what_was_left_out_comes_with_its_reason(table: hudi_py.Table) -> None:
    text = table.scan(keys=["zzz", "y", "x", "w"]).explain()
    assert "keys        w, x, y, ... (4 in all)" in text
    assert "footers         3 -> 1 slices  (4 keys)" in text
    # the slice with a log stays: the log could hold any key
    assert "slices      1, 1 of them merged" in text


def test_other_modes_and_states(table: hudi_py.Table) -> None:
    assert "mode        unmerged, deletes are rows" in table.scan(merge="unmerged", emit_deletes=True).explain()
    assert f"as of {instant(1)}" in table.scan(as_of=instant(1)).explain()
