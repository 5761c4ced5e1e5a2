"""Changes of the type: the same rows before and after, in hudi-py's queries of all kinds."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, UnsupportedTableError
from hudi_py.health.diagnose import diagnose
from hudi_py.model.instant import Action
from hudi_py.storage import open_storage
from tests.support.choice import cases
from tests.support.ill_tables import BY_NAME

OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.metadata.global.record.level.index.enable": "true",
}


def write(path: Path, ids: list[int], ts: int, **new: Any) -> str:
    rows = [{"id": n, "p": "ab"[n % 2], "ts": ts, "v": f"{n}-{ts}"} for n in ids]
    instant = hudi_py.write(str(path), rows, options=OPTIONS, **new).instant
    assert instant is not None
    return str(instant)


def make(path: Path, version: int, kind: str) -> list[str]:
    """Writes to new and known keys, with a compaction in between."""
    new = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind, "table_version": version}
    times = [write(path, [0, 1, 2, 3], 1, **new), write(path, [2, 3, 4], 2)]
    if kind == "mor":
        hudi_py.open_table(str(path), options=OPTIONS).compact()
    return [*times, write(path, [5, 6], 3), write(path, [0, 6], 4)]


def values(path: Path, **scan: Any) -> dict[int, str]:
    found = hudi_py.open_table(str(path)).scan(["id", "v"], **scan).to_table()
    assert found.num_rows == len(set(found["id"].to_pylist()))
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def actions(path: Path) -> set[Action]:
    return {each.action for each in hudi_py.open_table(str(path)).timeline.write_completed}


@pytest.mark.parametrize(("version", "kind"), cases(product((6, 8, 9), ("cow", "mor")), "change of the type", 3))
def test_rows_stay(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    times = make(path, version, kind)
    table = hudi_py.open_table(str(path), options=OPTIONS)
    before, old = values(path), values(path, as_of=times[1])
    changes = values(path, query_type="incremental", begin=times[2] if version == 6 else "000")
    source, target = ("MERGE_ON_READ", "COPY_ON_WRITE") if kind == "mor" else ("COPY_ON_WRITE", "MERGE_ON_READ")
    planned = table.change_type(target, dry_run=True)
    assert (planned.source, planned.target, table.table_type) == (source, target, source)
    assert planned.reason == "this was a dry run"
    assert planned.undo == f"hudi-py change-type PATH {source}"
    assert any("compacted" in step for step in planned.steps) == (kind == "mor")
    done = table.change_type(target)
    assert done.num_instants == 4
    assert str(done) == f"change type: {source} to {target}, 4 instants renamed"
    assert table.table_type == target
    expected = {Action.COMMIT} if kind == "mor" else {Action.DELTA_COMMIT}
    assert actions(path) == expected
    assert values(path) == before
    assert values(path, as_of=times[1]) == old
    assert values(path, query_type="incremental", begin=times[2] if version == 6 else "000") == changes
    assert values(path, keys=["6"]) == {6: "6-4"}
    assert values(path, query_type="read_optimized") == before
    write(path, [1, 9], 5)
    after = {**before, 1: "1-5", 9: "9-5"}
    assert values(path) == after
    assert any(table.files()["log_files"].to_pylist()) == (kind == "cow")
    found = diagnose(open_storage(path), OPTIONS, full=True)
    assert found.healthy, str(found)
    back = table.change_type(source)
    assert (back.source, back.target) == (target, source)
    assert values(path) == after
    write(path, [2], 6)
    assert values(path) == {**after, 2: "2-6"}
    assert diagnose(open_storage(path), OPTIONS, full=True).healthy
    assert table.change_type(source).reason == f"the table is {source} already"


def test_compactions_stay_what_they_are(tmp_path: Path) -> None:
    """There and back, so that incremental queries skip them as before."""
    path = tmp_path / "t"
    make(path, 9, "mor")
    table = hudi_py.open_table(str(path), options=OPTIONS)
    compactions = [each.time for each in table.timeline.completed if each.action is Action.COMMIT]
    assert len(compactions) == 1
    table.change_type("cow")
    table.change_type("mor")
    found = [each.time for each in table.timeline.completed if each.action is Action.COMMIT]
    assert found[:1] == compactions
    assert len(found) == 2, "one more of the change itself"
    assert actions(path) == {Action.COMMIT, Action.DELTA_COMMIT}


def test_log_compactions_and_plans_come_first(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, 9, "mor")
    write(path, [0, 6], 5)
    table = hudi_py.open_table(str(path), options=OPTIONS)
    table.log_compact(options={"hoodie.log.compaction.blocks.threshold": "2"})
    assert table.compaction.schedule() is not None
    write(path, [0], 6)
    planned = table.change_type("cow", dry_run=True)
    assert planned.steps[0] == "1 pending plan of compactions run"
    before = values(path)
    table.change_type("cow")
    assert not table.timeline.pending
    assert values(path) == before
    assert not any(table.files()["log_files"].to_pylist())


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, 9, "cow")
    table = hudi_py.open_table(str(path), options=OPTIONS)
    with pytest.raises(ConfigError, match="supported types are COPY_ON_WRITE and MERGE_ON_READ, or cow and mor"):
        table.change_type("both")
    with pytest.raises(ConfigError, match="with the instant '123': it takes none"):
        table.services.run("change_type", instant="123", to="mor")
    hashed = tmp_path / "hashed"
    options = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    rows = [{"id": 1, "ts": 1}]
    hudi_py.write(str(hashed), rows, options=options, record_key="id", ordering_by="ts", table_type="mor")
    with pytest.raises(UnsupportedTableError, match="consistent hashing, which needs MERGE_ON_READ; write its rows"):
        hudi_py.open_table(str(hashed), options=options).change_type("cow")
    binary = tmp_path / "binary"
    data = pa.table({"id": [1], "ts": pa.array([b"a"])})
    hudi_py.write(str(binary), data, record_key="id", ordering_by="ts")
    with pytest.raises(UnsupportedTableError, match="ordering column 'ts' is binary"):
        hudi_py.open_table(str(binary)).change_type("mor")


def test_failed_writes_that_are_kept_are_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, 9, "cow")
    before = values(path)
    BY_NAME["dead write with markers"].plant(path)
    table = hudi_py.open_table(str(path), options=OPTIONS)
    table.change_type("mor")
    assert not table.timeline.pending, "it was rolled back"
    assert values(path) == before
    _index(path)
    with pytest.raises(ConflictError, match="an index is being built"):
        table.change_type("cow")


def _index(path: Path) -> None:
    """A table with an index that another engine is building."""
    file = path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text() + "hoodie.table.metadata.partitions.inflight=column_stats\n")


_KEEP = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@pytest.mark.parametrize("version", [6, 9])
def test_logs_do_not_come_back_to_a_copy_on_write_table(tmp_path: Path, version: int) -> None:
    """Its writers would lose their rows."""
    path = tmp_path / "t"
    new = {"record_key": "id", "ordering_by": "ts", "table_type": "mor", "table_version": version}
    first, second = (hudi_py.write(path, [{"id": 1, "ts": ts}], options=_KEEP, **new) for ts in (1, 2))
    table = hudi_py.open_table(path, _KEEP)
    table.savepoint(second.instant)
    table.change_type("cow")
    (compaction,) = {*table.instants()["instant"].to_pylist()} - {first.instant, second.instant}
    after = table.upsert([{"id": 2, "ts": 3}])
    with pytest.raises(ConflictError, match="changed to COPY_ON_WRITE afterwards"):
        table.restore(second.instant)
    with pytest.raises(ConflictError, match="changed to COPY_ON_WRITE afterwards"):
        table.rollback(compaction, with_newer=True)
    with pytest.raises(UnsupportedTableError, match="was MERGE_ON_READ then"):
        table.export(tmp_path / "copy", as_of=second.instant)
    assert not (tmp_path / "copy").exists()
    table.rollback(after)
    table.upsert([{"id": 3, "ts": 1}])
    assert sorted(table.scan(["id", "ts"]).to_table().to_pylist(), key=str) == [{"id": 1, "ts": 2}, {"id": 3, "ts": 1}]
