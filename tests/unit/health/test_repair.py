"""A repair mends what was planted, keeps what it removes, and can be undone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, UnsupportedTableError
from hudi_py.health import CODES, Diagnosis, RepairPlan, Severity
from hudi_py.health.diagnose import diagnose
from hudi_py.health.mending import rewrite, run
from hudi_py.health.mending.ledger import keeping, undo, write_note
from hudi_py.storage import MemoryStorage, open_storage
from tests.support.choice import cases
from tests.support.damage import files_of
from tests.support.ill_tables import BY_NAME, FAULTS, KEYS, MENDED, OPTIONS, Fault, add, now, set_property, state, table

KEPT = ".hoodie/.hudi_py_repair/"


@pytest.fixture
def copied(made: Callable[[int, str], Path], tmp_path: Path) -> Callable[[int, str], Path]:
    def get(version: int, kind: str) -> Path:
        return Path(shutil.copytree(made(version, kind), tmp_path / "t"))

    return get


def options_of(fault: Fault) -> dict[str, Any]:
    return {**OPTIONS, **fault.options}


def examine(path: Path, *, full: bool = False) -> Diagnosis:
    return diagnose(open_storage(path), OPTIONS, full=full)


def planned(path: Path, fault: Fault) -> RepairPlan:
    return hudi_py.repair_plan(path, options_of(fault), full=fault.full, lose_rows=fault.lost is not None)


def rows(path: Path) -> list[tuple[object, ...]]:
    found = hudi_py.open_table(path).scan(["id", "p", "ts", "v"]).to_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def expected(path: Path, fault: Fault, before: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The rows after a repair."""
    if fault.code in ("keys.duplicate", "keys.across"):  # the newest of a key wins
        partition = "a" if fault.code == "keys.duplicate" else "b"
        newest = [(key, partition, 9, 9.0) for key in ("k00", "k02")]
        return sorted([*newest, *(row for row in before if row[0] not in ("k00", "k02"))])
    return before


@pytest.mark.parametrize(("name", "version", "kind"), cases(MENDED, "mended tables", 12, quick=[]))
def test_a_fault_is_mended_and_the_repair_undone(
    name: str, version: int, kind: str, copied: Callable[[int, str], Path]
) -> None:
    fault = BY_NAME[name]
    path = copied(version, kind)
    before = rows(path)
    fault.plant(path)
    ill = files_of(path)
    plan = planned(path, fault)
    assert fault.code in {code for step in plan.to_dict()["steps"] for code in step["codes"]}, str(plan)
    assert json.dumps(plan.to_dict())
    assert files_of(path) == ill
    report = hudi_py.repair(path, plan, options_of(fault))
    assert report.done == tuple(step.sentence for step in plan.steps)
    assert json.dumps(report.to_dict())
    found = examine(path, full=True)
    assert {finding.code for finding in found.findings if finding.code != "timeline.planned"} == {"repair.kept"}, str(
        found
    )
    after = rows(path)
    if fault.lost is None:
        assert after == expected(path, fault, before)
        assert report.rows_lost == 0
    else:
        assert report.rows_lost == fault.lost
        assert set(after) <= set(before) | {(key, p, 1, v - 1) for key, p, _, v in before}  # type: ignore[operator]
    assert report.id is not None
    hudi_py.undo_repair(path, report.id, OPTIONS)
    undone = {each: data for each, data in files_of(path).items() if each != ".hoodie/lock"}
    assert undone == {each: data for each, data in ill.items() if each != ".hoodie/lock"}


def test_a_mended_table_goes_on(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    BY_NAME["keys twice"].plant(path)
    opened = table(path)
    report = opened.repair(opened.repair_plan())
    assert [kept.id for kept in opened.health.repairs()] == [report.id]
    opened.upsert([{"id": "k00", "p": "a", "ts": 10, "v": 10.0}])
    assert report.id is not None
    with pytest.raises(ConflictError, match="has been written to since"):
        opened.health.undo(report.id)
    assert examine(path, full=True).healthy
    assert opened.scan(filter="id = 'k00'").to_table()["v"].to_pylist() == [10.0]
    kept = opened.health.forget(report.id)
    assert kept.steps == report.done
    assert opened.health.repairs() == []
    assert not any(each.startswith(KEPT) for each in files_of(path))
    with pytest.raises(ConfigError, match="there is no such repair; kept are none"):
        opened.health.undo(report.id)


def test_a_plan_that_no_longer_holds_is_refused(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "mor")
    BY_NAME["a file of no instant"].plant(path)
    opened = table(path)
    plan = opened.repair_plan()
    (path / plan.steps[0].arguments["paths"][0]).unlink()
    before = files_of(path)
    with pytest.raises(ConflictError, match="the plan no longer holds"):
        opened.repair(plan)
    assert files_of(path) == before
    assert opened.repair(opened.repair_plan()).id is None


def test_a_plan_is_of_one_table(copied: Callable[[int, str], Path], made: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    BY_NAME["staging left"].plant(path)
    with pytest.raises(ConfigError, match="by a plan for"):
        table(made(9, "cow")).repair(table(path).repair_plan())


def test_a_table_in_memory_is_mended() -> None:
    uri = "memory://health-memory"
    for value in (1.0, 2.0):
        rows = [{"id": key, "p": "a", "ts": int(value), "v": value} for key in "xyz"]
        options = {**OPTIONS, "hoodie.parquet.small.file.limit": "0"}
        hudi_py.write(uri, rows, "bulk_insert", options, record_key="id", partition_by="p", ordering_by="ts")
    report = hudi_py.repair(uri, hudi_py.repair_plan(uri, OPTIONS), OPTIONS)
    assert hudi_py.open_table(uri).scan().to_table()["v"].to_pylist() == [2.0] * 3
    assert hudi_py.doctor(uri, OPTIONS).healthy
    assert report.id is not None
    hudi_py.undo_repair(uri, report.id)
    assert hudi_py.open_table(uri).scan().count() == 6


def test_what_is_lost_is_named_and_only_with_leave(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    BY_NAME["base file gone"].plant(path)
    opened = table(path)
    plan = opened.repair_plan()
    assert not plan.steps
    assert plan.left[0].code == "files.missing"
    assert "not repaired" in str(plan)


@pytest.mark.slow
def test_keys_in_damaged_pages_are_named(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    file = max((path / "a").glob("*.parquet"), key=lambda each: each.name.rpartition("_")[2])
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    at = next(each.data_page_offset for each in columns if each.path_in_schema == "v")
    data = bytearray(file.read_bytes())
    data[at + 30] ^= 0xFF
    file.write_bytes(bytes(data))
    report = table(path).repair(table(path).repair_plan(table(path).doctor(full=True), lose_rows=True))
    assert report.rows_lost == 6
    assert report.keys_lost == tuple(f"k{n:02}" for n in range(0, 12, 2))
    assert {row[1] for row in rows(path)} == {"b"}


def test_lost_properties_need_what_no_file_tells(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "mor")
    (path / ".hoodie/hoodie.properties").unlink()
    plan = hudi_py.repair_plan(path)
    before = files_of(path)
    with pytest.raises(ConfigError, match=r"nothing proves hoodie.table.recordkey.fields: .*give the option"):
        hudi_py.repair(path, plan)
    some = {key: value for key, value in KEYS.items() if not key.endswith("ordering.fields")}
    with pytest.raises(ConfigError, match=r"nothing proves hoodie.table.ordering.fields"):
        hudi_py.repair(path, plan, some)
    assert files_of(path) == before


def test_tables_that_cannot_be_written_again_are_refused(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    BY_NAME["keys twice"].plant(path)
    set_property(path, hoodie__table__keygenerator__type="TIMESTAMP")
    plan = hudi_py.repair_plan(path)
    before = files_of(path)
    with pytest.raises(UnsupportedTableError):
        hudi_py.repair(path, plan)
    assert files_of(path) == before


@pytest.mark.slow
def test_a_killed_repair_is_undone(copied: Callable[[int, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(9, "cow")
    BY_NAME["keys twice"].plant(path)
    BY_NAME["staging left"].plant(path)
    ill = files_of(path)
    opened = table(path)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hudi_py.transaction.transaction.WriteTransaction.commit", die)
    with pytest.raises(KeyboardInterrupt):
        opened.repair(opened.repair_plan())
    monkeypatch.undo()
    found = examine(path).of("repair.unfinished")
    assert len(found) == 1
    opened.health.undo(str(found[0].details["id"]))
    assert files_of(path) == ill


def test_repairs_are_undone_in_turn(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    opened = table(path)
    ids = []
    for name in ("staging left", "heartbeat left"):
        BY_NAME[name].plant(path)
        report = opened.repair(opened.repair_plan())
        assert report.id is not None
        ids.append(report.id)
    with pytest.raises(ConflictError, match=f"the later repair {ids[1]} is kept"):
        opened.health.undo(ids[0])
    for id_ in reversed(ids):
        opened.health.undo(id_)
    assert {finding.code for finding in examine(path).findings} == {"leftovers.staging", "leftovers.heartbeats"}


@pytest.mark.parametrize("version", [6, 9])
def test_readers_do_not_see_what_is_kept(version: int, copied: Callable[[int, str], Path]) -> None:
    path = copied(version, "cow")
    before = rows(path), table(path).instants().to_pylist(), table(path).partitions().to_pylist()
    add(path, f"{KEPT}1/kept/a/.hoodie_partition_metadata", "commitTime=1")
    shutil.copytree(path / "a", path / KEPT / "1/kept/b")
    shutil.copytree(path / ".hoodie/metadata", path / KEPT / "1/kept/.hoodie/metadata")
    assert (rows(path), table(path).instants().to_pylist(), table(path).partitions().to_pylist()) == before
    assert table(path).metadata.verify().ok


@pytest.mark.parametrize("renames", [True, False])
def test_a_storage_keeps_what_changes(renames: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStorage, "can_rename", renames)
    storage = MemoryStorage(f"health-keeping-{renames}")
    for path in ("a", "b", "c/d", "c/e", "f"):
        storage.put(path, path.encode())
    folder = ".hoodie/.hudi_py_repair/1"
    kept = keeping(storage, folder)
    write_note(storage, "1", "begun", ["x"])
    assert kept.delete("a")
    assert not kept.delete("a")
    kept.put("a", b"new")
    kept.put("b", b"other")
    kept.put("b", b"third")
    kept.delete_tree("c")
    assert kept.put_if_absent("g", b"g")
    assert not kept.put_if_absent("f", b"g")
    with kept.open_output("h") as sink:
        sink.write(b"h")
    assert kept.delete("h")
    kept.touch("i")
    kept.rename("i", "j")
    kept.rename("f", "k")
    kept.put(".hoodie/lock", b"mine")
    assert kept.delete(".hoodie/lock")
    there = {info.path: storage.read(info.path) for info in storage.walk("") if not info.path.startswith(".hoodie")}
    assert there == {"a": b"new", "b": b"third", "g": b"g", "j": b"", "k": b"f"}
    undo(storage, "1")
    there = {info.path: storage.read(info.path) for info in storage.walk("")}
    assert there == {path: path.encode() for path in ("a", "b", "c/d", "c/e", "f")}


def test_a_repair_waits_for_nobody_it_breaks(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    BY_NAME["lock of a dead process"].plant(path)
    state(path, f"{now(path)}.commit.requested", age_s=86_400)
    opened = table(path)
    plan = opened.repair_plan()
    assert [step.kind.value for step in plan.steps] == ["break lock", "recover"]
    opened.repair(plan)
    assert {finding.code for finding in examine(path).findings} <= {"repair.kept", "leftovers.locks"}


def test_mended_codes_have_a_fault_that_is_mended() -> None:
    mended = {fault.code for fault in FAULTS if fault.mended}
    claimed = {name for name, code in CODES.items() if code.repaired}
    assert claimed - mended == {"index.record", "metadata.index"}  # mended with the golden table below
    assert mended <= claimed


@pytest.mark.slow
def test_an_index_of_apache_hudi_is_mended(golden_copy: Callable[[str], Path]) -> None:
    path = golden_copy("v9_mor_long_unicode_keys")
    found = examine(path, full=True)
    assert {finding.code for finding in found.findings if finding.severity >= Severity.WARNING} == {"index.record"}
    opened = hudi_py.open_table(path)
    before = sorted(map(str, opened.scan().to_table().to_pylist()))
    opened.repair(opened.repair_plan(found))
    assert sorted(map(str, opened.scan().to_table().to_pylist())) == before
    assert examine(path, full=True).healthy


@pytest.mark.slow
def test_a_write_meanwhile_is_not_lost(copied: Callable[[int, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(9, "cow")
    BY_NAME["keys twice"].plant(path)
    opened = table(path)
    plan = opened.repair_plan()
    read = rewrite.rows_of

    def then_write(*arguments: Any) -> Any:
        found = read(*arguments)
        table(path).upsert([{"id": "k04", "p": "a", "ts": 20, "v": 20.0}])
        return found

    monkeypatch.setattr(run, "rows_of", then_write)
    with pytest.raises(ConflictError, match="it was written after the plan was made"):
        opened.repair(plan)
    assert opened.scan(filter="id = 'k04'").to_table()["v"].to_pylist() == [20.0]


@pytest.mark.slow
def test_damaged_rows_are_not_dropped_with_duplicates(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "mor")
    opened = table(path)
    opened.bulk_insert([{"id": "k00", "p": "a", "ts": 9, "v": 9.0}])
    plan = opened.repair_plan()
    BY_NAME["log cut"].plant(path)
    writes = opened.history().num_rows
    with pytest.raises(CorruptFileError, match="of its"):
        opened.repair(plan)
    assert opened.history().num_rows == writes


def test_read_only_tables_are_refused_before_anything_is_done(copied: Callable[[int, str], Path]) -> None:
    path = copied(9, "cow")
    BY_NAME["keys twice"].plant(path)
    BY_NAME["staging left"].plant(path)
    plan = hudi_py.repair_plan(path)
    set_property(path, hoodie__table__keygenerator__type="GLOBAL_DELETE")
    before = files_of(path)
    with pytest.raises(UnsupportedTableError):
        hudi_py.repair(path, plan)
    assert files_of(path) == before
