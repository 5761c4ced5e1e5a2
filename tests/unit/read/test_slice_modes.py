"""What each mode reads of a file slice, with deletes as rows and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.formats.log import HeaderKey
from hudi_py.read import read_split
from hudi_py.read.split import SliceMode
from hudi_py.schema import OPERATION
from tests.unit.read.tables import MadeTable, deletes, instant

MARKED = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("_hoodie_is_deleted", pa.bool_())])


def one(key: str, ts: int, gone: bool = False) -> dict[str, Any]:
    return {"id": key, "ts": ts, "name": f"{key}{ts}", "_hoodie_is_deleted": gone}


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    table = MadeTable(str(tmp_path / "t"), schema=MARKED)
    table.base(1, [one("a", 1), one("b", 5), one("c", 1), one("d", 1)])
    table.commit(1)
    table.log(2, [one("a", 2), one("b", 2), one("n", 1)], deletes("c", ts=4))
    table.commit(2)
    table.log(3, [one("a", 3), one("d", 9, True), one("m", 1)], deletes("x"))
    table.commit(3)
    return table


def read(
    table: MadeTable, mode: SliceMode, files: str = "both", *, emit_deletes: bool = False, skip_rows: int = 0
) -> list[tuple[Any, ...]]:
    """Names, keys, ordering values and operations of the rows. `files`: `both`, `base` or `logs`."""
    scan = hudi_py.open_table(table.uri).scan(emit_deletes=emit_deletes)
    (split,) = scan.splits()
    columns = ("name", "_hoodie_record_key", "ts", "_hoodie_commit_time")
    columns += (OPERATION,) * emit_deletes
    split = replace(split, spec=replace(split.spec, mode=mode, columns=columns, emit_deletes=emit_deletes))
    if files != "both":
        split = replace(split, log_files=()) if files == "base" else replace(split, base_file=None)
    found = [values for batch in read_split(split, skip_rows=skip_rows) for values in batch.to_pylist()]
    assert all(values["_hoodie_commit_time"] is not None for values in found)
    return [tuple(values[name] for name in columns if name != "_hoodie_commit_time") for values in found]


def names(rows: list[tuple[Any, ...]]) -> list[str]:
    return [found[0] for found in rows]


def test_modes_without_deletes(table: MadeTable) -> None:
    assert names(read(table, "merge")) == ["b5", "a3", "n1", "m1"]
    assert names(read(table, "merge", "base")) == ["a1", "b5", "c1", "d1"]
    assert names(read(table, "merge", "logs")) == ["a3", "b2", "n1", "m1"]
    assert names(read(table, "skip")) == ["a1", "b5", "c1", "d1", "a2", "b2", "n1", "a3", "d9", "m1"]
    assert names(read(table, "skip", "logs")) == ["a2", "b2", "n1", "a3", "d9", "m1"]


def test_deletes_as_rows(table: MadeTable) -> None:
    # deletes come last, a base row which stayed first; log rows in the order in which their keys first appeared
    merged = read(table, "merge", emit_deletes=True)
    assert merged[:4] == [("b5", "b", 5, "I"), ("a3", "a", 3, "I"), ("n1", "n", 1, "I"), ("m1", "m", 1, "I")]
    assert set(merged[4:]) == {("d9", "d", 9, "D"), (None, "c", 4, "D"), (None, "x", None, "D")}
    assert len(merged) == 7
    assert read(table, "skip", "logs", emit_deletes=True) == [
        ("a2", "a", 2, "I"),
        ("b2", "b", 2, "I"),
        ("n1", "n", 1, "I"),
        (None, "c", 4, "D"),
        ("a3", "a", 3, "I"),
        ("d9", "d", 9, "D"),
        ("m1", "m", 1, "I"),
        (None, "x", None, "D"),
    ]
    assert read(table, "merge", "logs", emit_deletes=True)[-1][-1] == "D"
    assert names(read(table, "unmerged"))[4:] == ["a2", "b2", "n1", None, "a3", "d9", "m1", None]
    assert names(read(table, "merge", "base", emit_deletes=True)) == ["a1", "b5", "c1", "d1"]


@pytest.mark.parametrize("files", ["both", "base", "logs"])
@pytest.mark.parametrize("mode", ["merge", "skip", "unmerged"])
def test_a_split_resumes_after_rows(table: MadeTable, mode: SliceMode, files: str) -> None:
    whole = read(table, mode, files, emit_deletes=True)
    for skipped in range(len(whole) + 1):
        assert read(table, mode, files, emit_deletes=True, skip_rows=skipped) == whole[skipped:]


def test_modes_where_there_is_nothing(tmp_path: Path) -> None:
    table = MadeTable(str(tmp_path / "t"), schema=MARKED)
    table.log(2, [one("a", 2)])
    table.commit(2)
    assert read(table, "merge", "base") == []
    assert names(read(table, "skip")) == names(read(table, "merge", "logs")) == ["a2"]
    bare = MadeTable(str(tmp_path / "bare"), schema=MARKED)
    bare.base(1, [one("a", 1)])
    bare.commit(1)
    assert read(bare, "merge", "logs") == read(bare, "skip", "logs") == []
    assert names(read(bare, "skip")) == ["a1"]


def test_deletes_of_partial_updates_and_payloads_as_rows(tmp_path: Path) -> None:
    properties = {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload",
        "hoodie.table.precombine.field": "ts",
    }
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("Op", pa.string())])
    table = MadeTable(str(tmp_path / "t"), version=6, schema=schema, properties=properties)
    rows = [{"id": key, "ts": 1, "name": key, "Op": "I"} for key in "abc"]
    table.base(1, rows)
    table.commit(1)
    table.log(2, [{**rows[0], "ts": 2, "Op": "D"}, {**rows[1], "ts": 3}], deletes("c"), base_at=1, number=1)
    table.commit(2)
    found = read(table, "merge", emit_deletes=True)
    assert sorted(found, key=str) == sorted([("b", "b", 3, "I"), ("a", "a", 2, "D"), (None, "c", None, "D")], key=str)
    partial = MadeTable(str(tmp_path / "p"), schema=MARKED)
    partial.base(1, [one("a", 1), one("b", 1)])
    partial.commit(1)
    part = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    partial.log(2, [{"id": "a", "ts": 5}], deletes("b"), schema=part, header={HeaderKey.IS_PARTIAL: "true"})
    partial.commit(2)
    assert sorted(read(partial, "merge", emit_deletes=True), key=str) == [("a1", "a", 5, "I"), (None, "b", None, "D")]


def test_deletes_carry_the_commit_that_deleted(table: MadeTable) -> None:
    scan = hudi_py.open_table(table.uri).scan(emit_deletes=True, columns=["_hoodie_commit_time", "_hoodie_record_key"])
    times = {values["_hoodie_record_key"]: values["_hoodie_commit_time"] for values in scan.to_table().to_pylist()}
    assert times == {
        "a": instant(3),
        "b": instant(1),
        "c": instant(2),
        "d": instant(3),
        "m": instant(3),
        "n": instant(2),
        "x": instant(3),
    }


@pytest.mark.parametrize("mode", ["merge", "skip", "unmerged"])
def test_a_block_that_cannot_be_read_is_refused_before_any_row(tmp_path: Path, mode: SliceMode) -> None:
    properties = {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
        "hoodie.table.precombine.field": "ts",
    }
    table = MadeTable(str(tmp_path / "t"), version=6, schema=MARKED, properties=properties)
    table.base(1, [one("a", 1)])
    table.commit(1)
    table.log(2, [one("a", 2)], base_at=1, header={HeaderKey.IS_PARTIAL: "true"})
    table.commit(2)
    (split,) = hudi_py.open_table(table.uri).scan().splits()
    rows = read_split(replace(split, spec=replace(split.spec, mode=mode)))
    with pytest.raises(hudi_py.UnsupportedTableError, match="PartialUpdateAvroPayload"):
        next(rows)
