"""Compaction by either side: each carries out the plans of the other, with the same rows, plans and statistics."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.services.compaction import CompactionReport
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.plans import CompactionPlan, decode_compaction_plan
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from tests.oracle.client import Oracle
from tests.oracle.test_interoperability import settings
from tests.support.choice import cases, in_turn

VERSIONS = (6, 8, 9)
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string()), ("note", pa.string())])
DUE = "hoodie.compact.inline.max.delta.commits=1"


def rows(ids: range, ts: int) -> pa.Table:
    cities = ("oslo", "lima", "pune")
    return pa.Table.from_pylist(
        [{"id": f"k{n}", "ts": ts, "city": cities[n % 3], "note": f"{n} at {ts}" if n % 5 else None} for n in ids],
        schema=SCHEMA,
    )


def compact(path: Path) -> CompactionReport:
    """Plans a compaction if none is pending, and carries out the oldest."""
    plans = hudi_py.open_table(str(path)).compaction
    if not plans.pending():
        assert plans.schedule() is not None
    report = plans.run()
    assert isinstance(report, CompactionReport)
    return report


def ours(path: Path, **query: str) -> pa.Table:
    return hudi_py.open_table(str(path)).scan(**query).to_table()


def same(oracle: Oracle, path: Path, before: pa.Table | None = None) -> pa.Table:
    """Both sides read the same rows, and `before` if given, but for the names of their files."""
    found = ours(path)
    assert_rows_equal(found, oracle.read(str(path)))
    if before is not None:
        assert_rows_equal(found.drop_columns("_hoodie_file_name"), before.drop_columns("_hoodie_file_name"))
    return found


def agree(oracle: Oracle, path: Path, before: pa.Table | None = None) -> pa.Table:
    """As `same`, and the table is sound."""
    found = same(oracle, path, before)
    assert oracle.check(str(path), keys=1)["problems"] == []
    return found


def timeline(path: Path) -> Timeline:
    storage = LocalStorage(str(path))
    return load_timeline(storage, load_table_config(storage))


def plan_of(path: Path, instant: str) -> CompactionPlan:
    layout = timeline(path).layout
    found = layout.path(layout.requested_name(instant, Action.COMPACTION))
    return decode_compaction_plan((path / found).read_bytes())


def newest_compaction(path: Path) -> CommitMetadata:
    found = [instant for instant in timeline(path).write_completed if instant.action is Action.COMMIT]
    return read_commit_metadata(LocalStorage(str(path)), timeline(path).layout, found[-1])


def make(oracle: Oracle, path: Path, version: int) -> None:
    """A table by Apache Hudi: base files, two log files each, deletes among them."""
    options = settings(version, "MERGE_ON_READ")
    off = {"hoodie.compact.inline": "false"}
    oracle.write(
        str(path),
        rows(range(0, 30), 100),
        "insert",
        key="id",
        ordering="ts",
        partition="city",
        type="mor",
        table_version=version,
        name="t",
        options={**options, **off},
    )
    oracle.write(str(path), rows(range(5, 12), 200), "upsert", options=off)
    oracle.write(str(path), rows(range(8, 18), 50), "upsert", options=off)  # too old to win
    oracle.write(str(path), rows(range(20, 23), 300), "delete", options=off)


@in_turn("compaction", 0, 2)
@pytest.mark.parametrize("version", cases(VERSIONS, "as they compact", 1))
def test_as_apache_hudi_compacts(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """The same table compacted by either: the same plan, rows and statistics."""
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    make(oracle, theirs, version)
    shutil.copytree(theirs, own)
    before = ours(own)
    oracle.call(str(theirs), f"run_compaction(op => 'scheduleAndExecute', table => '{{table}}', options => '{DUE}')")
    report = compact(own)
    assert report.instant is not None
    found = agree(oracle, own, before)
    assert_rows_equal(found.drop_columns("_hoodie_file_name"), ours(theirs).drop_columns("_hoodie_file_name"))
    assert_rows_equal(ours(own, query_type="read_optimized"), oracle.read(str(own), query_type="read_optimized"))

    their_plan = next(i.time for i in timeline(theirs).write_completed if i.action is Action.COMMIT)
    expected, planned = plan_of(theirs, their_plan), plan_of(own, report.instant)
    assert {each.file_id: each for each in planned.operations} == {each.file_id: each for each in expected.operations}
    assert (planned.missing_partitions, planned.extra) == (expected.missing_partitions, expected.extra)

    def comparable(metadata: CommitMetadata) -> dict[str, object]:
        """Statistics without what two runs never have in common."""
        return {
            stat.file_id: replace(
                stat,
                path="",
                total_write_bytes=0,
                file_size=0,
                upsert_time_ms=0,
                compacted=replace(stat.compacted, read_ms=0) if stat.compacted is not None else None,
            )
            for stat in metadata.stats
        }

    they, we = newest_compaction(theirs), newest_compaction(own)
    assert comparable(we) == comparable(they)
    assert (we.operation, we.compacted, we.extra) == (they.operation, they.compacted, they.extra)


@in_turn("compaction", 1, 2)
@pytest.mark.parametrize("version", cases(VERSIONS, "they carry out", 1))
def test_apache_hudi_carries_our_plan_out(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """Writes of both sides come between plan and execution."""
    path = tmp_path / "t"
    make(oracle, path, version)
    plans = hudi_py.open_table(str(path)).compaction
    scheduled = plans.schedule()
    assert scheduled is not None
    options = settings(version, "MERGE_ON_READ")
    hudi_py.write(str(path), rows(range(3, 9), 400), "upsert", options)
    oracle.write(str(path), rows(range(7, 14), 500), "upsert", options={"hoodie.compact.inline": "false"})
    before = same(oracle, path)
    oracle.call(str(path), f"run_compaction(op => 'run', table => '{{table}}', timestamp => {scheduled})")
    assert plans.pending() == []
    agree(oracle, path, before)
    assert len(newest_compaction(path).stats) == 3


@in_turn("services by turns", 0, 3)
@pytest.mark.parametrize("version", cases(VERSIONS, "we carry out", 1))
def test_we_carry_apache_hudis_plan_out(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """Writes of both sides come between plan and execution, and after it."""
    path = tmp_path / "t"
    make(oracle, path, version)
    oracle.call(str(path), f"run_compaction(op => 'schedule', table => '{{table}}', options => '{DUE}')")
    options = settings(version, "MERGE_ON_READ")
    oracle.write(str(path), rows(range(3, 9), 400), "upsert", options={"hoodie.compact.inline": "false"})
    hudi_py.write(str(path), rows(range(7, 14), 500), "upsert", options)
    before = same(oracle, path)
    report = compact(path)
    assert report.num_file_groups == 3
    same(oracle, path, before)
    oracle.write(str(path), rows(range(10, 25), 600), "upsert", options={"hoodie.compact.inline": "false"})
    hudi_py.write(str(path), rows(range(0, 4), 700), "upsert", options)
    before = same(oracle, path)
    compact(path)
    agree(oracle, path, before)


@pytest.mark.nightly
@pytest.mark.parametrize("version", cases((8, 9), "log compaction", 1))
def test_log_compaction_by_either(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """Apache Hudi carries our plan out, reads what we compacted, and compacts it."""
    path = tmp_path / "t"
    make(oracle, path, version)
    threshold = {"hoodie.log.compaction.blocks.threshold": "2"}
    plans = hudi_py.open_table(str(path), threshold).log_compaction
    planned = plans.schedule()
    assert planned is not None
    inline = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.enable": "true", **threshold}
    oracle.write(str(path), rows(range(3, 9), 400), "upsert", options={"hoodie.compact.inline": "false", **inline})
    assert plans.pending() == []
    same(oracle, path)
    options = settings(version, "MERGE_ON_READ")
    hudi_py.write(str(path), rows(range(7, 14), 500), "upsert", options)
    oracle.write(str(path), rows(range(10, 12), 600), "delete", options={"hoodie.compact.inline": "false"})
    before = same(oracle, path)
    report = hudi_py.open_table(str(path)).log_compact(options=threshold)
    assert report.instant is not None
    assert same(oracle, path).equals(before)
    assert oracle.check(str(path), keys=1, deep=True)["problems"] == []
    oracle.call(str(path), f"run_compaction(op => 'scheduleAndExecute', table => '{{table}}', options => '{DUE}')")
    same(oracle, path, before)


def _partial(oracle: Oracle, path: Path) -> None:
    """Updates of single columns, which overlap, and a delete."""
    oracle.sql(
        f"create table part (id int, name string, price double, qty bigint, ts bigint) using hudi tblproperties "
        f"(type='mor', primaryKey='id', preCombineField='ts') location '{path}'",
    )
    on = {"hoodie.spark.sql.merge.into.partial.updates": "true", "hoodie.compact.inline": "false"}
    new = "select explode(sequence(1, 20)) id"
    oracle.sql(f"insert into part select id, concat('n', id), id * 1.5, id * 10, 1000 from ({new})", options=on)
    for values, assigned in (
        ("explode(sequence(3, 8)) id, 99.5 price, 1200L ts", "t.price = s.price, t.ts = s.ts"),
        ("explode(sequence(6, 11)) id, 'renamed' name, 1300L ts", "t.name = s.name, t.ts = s.ts"),
        ("explode(sequence(1, 7)) id, 7L qty, 1250L ts", "t.qty = s.qty, t.ts = s.ts"),
    ):
        merge = f"merge into part t using (select {values}) s on t.id = s.id when matched then update set {assigned}"
        oracle.sql(merge, options=on)
    oracle.sql("delete from part where id = 9", options=on)
    oracle.sql("drop table part")


def _evolved(oracle: Oracle, path: Path) -> None:
    """Two ordering fields, and columns that came later."""
    off = {"hoodie.compact.inline": "false", "hoodie.table.ordering.fields": "ts,seq"}

    def some(ids: range, ts: int, seq: int, **more: object) -> pa.Table:
        return pa.Table.from_pylist([{"id": f"k{n}", "ts": ts, "seq": seq, "v": n, **more} for n in ids])

    oracle.write(
        str(path),
        some(range(20), 1, 1),
        "insert",
        key="id",
        ordering="ts,seq",
        type="mor",
        table_version=9,
        options=off,
    )
    oracle.write(str(path), some(range(3, 9), 1, 2, note="new"), "upsert", options=off)
    oracle.write(str(path), some(range(5, 12), 1, 1, note="tie or late"), "upsert", options=off)
    oracle.write(str(path), some(range(10, 12), 2, 0, note="x"), "delete", options=off)


def _on_read(oracle: Oracle, path: Path) -> None:
    """Columns that are told apart by their ids: one added, one renamed, one widened."""
    drop = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
    on = {"hoodie.schema.on.read.enable": "true", "hoodie.compact.inline": "false", drop: "true"}
    never = {**on, "hoodie.compact.inline.max.delta.commits": "100"}
    oracle.sql(
        f"create table evolving (id int, name string, qty int, ts bigint) using hudi tblproperties "
        f"(type='mor', primaryKey='id', preCombineField='ts') location '{path}'",
        options=on,
    )
    for statement in (
        "insert into evolving select id, concat('n', id), id as q, 1000 from (select explode(sequence(1, 12)) id)",
        "alter table evolving add columns (extra string after qty)",
        "update evolving set extra = 'e', ts = 1100 where id in (1, 2, 3)",
        "alter table evolving rename column name to full_name",
        "update evolving set full_name = 'renamed', ts = 1200 where id in (3, 4, 5)",
        "alter table evolving alter column qty type bigint",
        "update evolving set qty = 5000000000, ts = 1300 where id in (5, 6)",
    ):
        oracle.sql(statement, options=never)
    oracle.sql("drop table evolving")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "make_logs",
    cases([_partial, _evolved, _on_read], "kinds of logs", 1),
    ids=["partial updates", "evolution and ordering", "evolution on read"],
)
def test_every_kind_of_log(oracle: Oracle, tmp_path: Path, make_logs: Callable[[Oracle, Path], None]) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    make_logs(oracle, theirs)
    shutil.copytree(theirs, own)
    before = ours(own)
    # by its path: as a table, Spark SQL refuses one with two ordering fields
    oracle.sql(f"call run_compaction(op => 'scheduleAndExecute', path => '{theirs}', options => '{DUE}')")
    report = compact(own)
    assert report.num_log_files >= 3
    found = agree(oracle, own, before)
    assert_rows_equal(found.drop_columns("_hoodie_file_name"), ours(theirs).drop_columns("_hoodie_file_name"))
