"""A record index over all partitions is used only where record keys are known to be unique in the table."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py import ConfigError
from hudi_py.metadata.locations import read_scope
from hudi_py.storage import open_storage
from hudi_py.write import api
from hudi_py.write.operations import run_operation
from tests.support.choice import cases

NOTE = ".hoodie/.index_defs/record_keys.json"
GLOBAL = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
}
BY_KEY = {**GLOBAL, "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
TRUST = {"hoodie.py.record.index.trust": "true"}
SECONDARY = {
    "hoodie.metadata.index.secondary.enable": "true",
    "hoodie.metadata.index.secondary.column": "v",
}


def row(key: str, partition: str, value: int = 1) -> dict[str, Any]:
    return {"id": key, "p": partition, "v": value, "ts": value}


def write(path: str, rows: list[dict[str, Any]], operation: str = "upsert", options: Any = GLOBAL, **how: Any) -> None:
    how = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", **how}
    hudi_py.write(path, rows, operation, options, **how)


def steps(path: str, **how: Any) -> dict[str, tuple[int, int]]:
    """Slices before and after each step of pruning."""
    pruning = hudi_py.open_table(path).scan(**how).plan().pruning
    return {step.step: (step.before, step.after) for step in pruning}


def repeated(path: str) -> str | None:
    scope = read_scope(open_storage(path))
    return None if scope is None else scope.repeated


def make(path: str, version: int, kind: str) -> None:
    write(path, [row("a", "x"), row("b", "x")], table_version=version, table_type=kind)
    write(path, [row("c", "y"), row("d", "z")], "insert")


@pytest.mark.parametrize(
    ("version", "kind", "how"),
    cases(product((6, 8, 9), ("cow", "mor"), ("upsert", "insert", "bulk_insert", "at once")), "keys that repeat", 2),
)
def test_every_row_of_a_key_is_found_and_changed(tmp_path: Path, version: int, kind: str, how: str) -> None:
    path = str(tmp_path / "t")
    make(path, version, kind)
    assert steps(path, filter="id = 'a'")["record index"] == (3, 1)
    rows = [row("a", "y", 2)] if how != "at once" else [row("n", "x"), row("n", "y")]
    key, count = rows[0]["id"], 2
    with pytest.warns(UserWarning, match=f"record key '{key}' of 't' is in several file groups"):
        write(path, rows, "upsert" if how == "at once" else how)
    table = hudi_py.open_table(path)
    assert repeated(path) == key
    for scan in ({"filter": f"id = '{key}'"}, {"keys": [key]}, {"filter": f"_hoodie_record_key IN ('{key}', 'no')"}):
        assert table.scan(**scan).count() == count, scan
    assert table.update({"v": "9"}, f"id = '{key}'").num_updated == count
    assert table.scan(filter="v = 9").count() == count
    merged = table.merge([row(key, "?", 11)], on="t.id = s.id").when_matched_update({"v": "s.v", "ts": "s.ts"})
    assert merged.execute().num_updated == count
    assert table.scan(filter="v = 11").count() == count
    with pytest.raises(ConfigError, match=f"record key '{key}' of the table 't' is in several file groups"):
        write(path, [row("b", "x", 3)], options=BY_KEY)
    with pytest.raises(ConfigError, match="entries of such an index have no place"):
        table.index("by_v", "v")
    # one row goes, and the index knows none of them until it is built again
    assert table.delete(f"id = '{key}' AND p = 'y'").num_deleted == 1
    assert table.scan(keys=[key]).count() == 1
    table.metadata.rebuild("record_index")
    assert repeated(path) is None
    assert steps(path, keys=[key]).get("record index", (0, 1))[1] == 1  # of one slice there is nothing to leave out
    write(path, [row(key, "y", 12)], options=BY_KEY)
    assert table.delete(f"id = '{key}'").num_deleted == 1
    assert table.scan().count() == (3 if how != "at once" else 4)


def test_an_index_is_refused_over_keys_that_repeat(tmp_path: Path) -> None:
    """As in Apache Hudi 1.2.0, which fails to build it. A write that asks for one is not refused: it would be lost."""
    path = str(tmp_path / "t")
    write(path, [row("a", "x"), row("a", "y", 2)], options={})
    table = hudi_py.open_table(path)
    for name, column, using in (("record_index", "", "record_index"), ("by_v", "v", "secondary_index")):
        with pytest.raises(ConfigError, match="record key 'a' is in several file groups"):
            table.index(name, column, using=using, options=GLOBAL)
    assert {"record_index", "secondary_index_by_v"}.isdisjoint(table.indexes.list()["name"].to_pylist())
    write(path, [row("b", "x")], options={})
    with pytest.warns(UserWarning, match="several file groups"):
        write(path, [row("b", "x", 2)], options={**GLOBAL, **SECONDARY})
    # entries of a secondary index have no place: one for both rows, which is gone when one of them changes
    assert table.update({"v": "5"}, "id = 'a' AND p = 'y'").num_updated == 1
    assert table.scan(filter="v = 1").count() == 1
    assert {"secondary index"}.isdisjoint(steps(path, filter="v = 1"))


def test_writes_that_leave_keys_unique(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(path, 9, "cow")
    moves = {**BY_KEY, "hoodie.record.index.update.partition.path": "true"}
    write(path, [row("a", "y", 2)], options=moves)
    table = hudi_py.open_table(path)
    table.delete("id = 'c'")
    write(path, [row("c", "x", 3)])
    write(path, [row("b", "z", 3), row("e", "z")], "insert_overwrite_table")
    table.update({"v": "4"}, "id = 'e'")
    write(path, [row("b", "z", 4)], "insert", {**GLOBAL, "hoodie.datasource.insert.dup.policy": "drop"})
    write(path, [row("f", "x")], "bulk_insert")
    assert repeated(path) is None
    assert steps(path, keys=["f"])["record index"][1] == 1
    assert table.metadata.verify().ok


def test_a_write_that_was_not_seen_leaves_the_question_open(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(path, 9, "cow")
    note = tmp_path / "t" / NOTE
    before = note.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(path, [row("a", "y", 2)])
    note.write_bytes(before)  # as if Apache Hudi had written
    assert hudi_py.open_table(path).scan(keys=["a"]).count() == 2
    assert hudi_py.open_table(path, TRUST).scan(keys=["a"]).count() == 1
    write(path, [row("e", "y", 2)])
    assert note.read_bytes() == before
    assert hudi_py.open_table(path).scan(keys=["a"]).count() == 2
    note.write_bytes(b"{")
    with pytest.warns(UserWarning, match="files are not pruned by it"):
        assert hudi_py.open_table(path).scan(keys=["a"]).count() == 2


def test_a_key_that_another_writer_brings_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    make(path, 9, "cow")
    both = {
        **BY_KEY,
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": LOCK,
    }

    def meanwhile(*given: Any) -> Any:
        result = run_operation(*given)
        monkeypatch.undo()
        write(path, [row("n", "y")], options=both)
        return result

    monkeypatch.setattr(api, "run_operation", meanwhile)
    with pytest.warns(UserWarning, match="record key 'n'"):
        write(path, [row("n", "x")], options=both)
    assert repeated(path) == "n"
    assert hudi_py.open_table(path).scan(keys=["n"]).count() == 2
