"""Compaction from plan to commit, on small tables in memory."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import (
    ConfigError,
    ConflictError,
    CorruptFileError,
    HistoryCleanedError,
    LockError,
    RolledBackError,
)
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.names import parse_log_file_name
from hudi_py.services.compaction import Compaction, CompactionReport
from hudi_py.services.compaction.plan import COMPACTION_PLANS, partitions_to_consider
from hudi_py.services.compaction.service import CompactionWork
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import pending_instants, run
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.services.recovery.rollback import rollback
from hudi_py.storage import LocalStorage, MemoryStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.recovery import failed_writes as recovery
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import service_target
from tests.faults.tables import rows, write
from tests.golden import tables
from tests.support.sessions import changed

VERSIONS = (6, 8, 9)
ALWAYS = Compaction(always=True)


@pytest.fixture
def storage(request) -> MemoryStorage:
    return MemoryStorage(re.sub(r"\W+", "-", request.node.nodeid))


def make(storage: Storage, version: int, kind: str = "mor") -> None:
    """ids 0 to 9 in two partitions; 0 to 3 updated, 2 and 3 deleted again."""
    write(storage, rows(range(10), 1), "insert", version, kind)
    write(storage, rows(range(4), 2), "upsert", version, kind)
    write(storage, rows(range(2, 4), 3), "delete", version, kind)


def context(storage: Storage, options: Mapping[str, object] | None = None) -> ServiceContext:
    found = ServiceContext.of(
        WriteTarget(
            storage,
            Options.resolve({"hoodie.time.generator.max_expected_clock_skew_ms": 1, **(options or {})}),
            NoMetadata(),
        )
    )
    clock = InstantClock(found.config(), skew_ms=0)
    return replace(found, session=replace(found.session, clock=clock))


def read(storage: MemoryStorage, query_type: str = "snapshot") -> pa.Table:
    return hudi_py.open_table(storage.uri, {"hoodie.metadata.enable": "false"}).scan(query_type=query_type).to_table()


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    """Whether the rows are equal but for the names of their files."""
    first, second = (
        table.drop_columns("_hoodie_file_name").sort_by("_hoodie_record_key") for table in (found, expected)
    )
    return bool(first.equals(second))


def leftovers(storage: MemoryStorage) -> list[str]:
    folders = (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.hudi_py")
    return [info.path for folder in folders for info in storage.walk(folder)]


@pytest.mark.parametrize("version", VERSIONS)
def test_logs_become_base_files(storage: MemoryStorage, version: int) -> None:
    make(storage, version)
    before = read(storage)
    own = context(storage)
    scheduled = ALWAYS.schedule(own)
    assert pending_instants(ALWAYS, own) == [scheduled.instant]
    assert same_rows(read(storage), before)
    report = run(ALWAYS, own)
    assert isinstance(report, CompactionReport)
    assert report == replace(
        report,
        service="compaction",
        instant=scheduled.instant,
        reason="",
        num_file_groups=2,
        num_log_files=4,
        num_rows=8,
        num_updated=2,
        num_inserted=0,
        num_deleted=2,
    )
    assert (report.completion_time is None) is (version == 6)
    after = read(storage)
    assert same_rows(after, before)
    assert same_rows(read(storage, "read_optimized"), before)
    where = set(zip(after["p"].to_pylist(), after["_hoodie_file_name"].to_pylist(), strict=True))
    assert len(where) == 2
    for partition, name in where:
        assert name.endswith(f"_{scheduled.instant}.parquet")
        assert storage.stat(f"{partition}/{name}") is not None
    assert pending_instants(ALWAYS, own) == []
    assert leftovers(storage) == []
    again = ALWAYS.schedule(own)
    assert again.instant is None
    assert "no file group has logs" in again.reason


@pytest.mark.parametrize("version", VERSIONS)
def test_writes_go_on_while_a_compaction_is_pending(storage: MemoryStorage, version: int) -> None:
    make(storage, version)
    own = context(storage)
    first = ALWAYS.schedule(own).instant
    assert first is not None
    write(storage, rows(range(3, 7), 4), "upsert", version, "mor")
    expected = read(storage)
    logs = [name for info in storage.walk() if (name := parse_log_file_name(info.name)) is not None]
    assert any(name.instant == first for name in logs) is (version == 6)
    # groups of a pending plan are not planned again
    assert ALWAYS.schedule(own).instant is None
    report = run(ALWAYS, own)
    assert report.instant == first
    assert same_rows(read(storage), expected)
    assert not same_rows(read(storage, "read_optimized"), expected)
    assert run(ALWAYS, own, ALWAYS.schedule(own).instant).instant != first
    assert same_rows(read(storage), expected)
    assert same_rows(read(storage, "read_optimized"), expected)


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_that_began_before_the_plan_is_carried_out_may_commit_after_it(
    storage: MemoryStorage, version: int
) -> None:
    make(storage, version)
    own = context(storage)
    assert ALWAYS.schedule(own).instant is not None
    ran: list[object] = []

    class Meanwhile:
        """A storage whose first log file of the write makes the compaction run."""

        def __getattr__(self, name: str) -> object:
            return getattr(storage, name)

        def rename(self, source: str, target: str) -> None:
            if not ran and ".log." in target:
                ran.append(run(ALWAYS, own))
            storage.rename(source, target)

    write(Meanwhile(), rows(range(3, 7), 4), "upsert", version, "mor")  # type: ignore[arg-type]
    assert len(ran) == 1
    found = dict(zip(*(read(storage)[name].to_pylist() for name in ("id", "ts")), strict=True))
    assert found == {0: 2, 1: 2, 3: 4, 4: 4, 5: 4, 6: 4, 7: 1, 8: 1, 9: 1}


def test_when_nothing_is_due_the_reason_is_told(storage: MemoryStorage) -> None:
    make(storage, 9)
    own = context(storage)
    scheduled = Compaction().schedule(own)
    assert scheduled.instant is None
    assert "3 delta commits since the last compaction, due after 5" in scheduled.reason
    due = Compaction().schedule(context(storage, {"hoodie.compact.inline.max.delta.commits": 3}))
    assert due.instant is not None
    assert run(Compaction(), own).instant == due.instant
    assert run(Compaction(), own).reason == "no plan is pending"


def test_a_copy_on_write_table_has_nothing_to_compact(storage: MemoryStorage) -> None:
    make(storage, 9, "cow")
    assert "COPY_ON_WRITE" in ALWAYS.schedule(context(storage)).reason


def test_tasks_are_executed_apart_and_again(storage: MemoryStorage) -> None:
    """What crosses processes pickles; files of attempts that are not reported vanish."""
    make(storage, 9)
    before = read(storage)
    own = context(storage)
    instant = ALWAYS.schedule(own).instant
    assert instant is not None
    work = pickle.loads(pickle.dumps(ALWAYS.begin(own, instant)))
    assert work.num_tasks == 2
    first = ALWAYS.execute(own, work, [0])
    again = pickle.loads(pickle.dumps(ALWAYS.execute(own, work, [0, 1])))
    assert len([i for i in storage.walk() if i.name.endswith(f"_{instant}.parquet")]) == 3
    with pytest.raises(ConfigError, match="1 of its 2 tasks were not executed, the first is 1"):
        ALWAYS.commit(own, work, first)
    report = ALWAYS.commit(own, work, again)
    assert {i.path for i in storage.walk() if i.name.endswith(f"_{instant}.parquet")} == {
        o.stats[0].path for o in again
    }
    assert ALWAYS.commit(own, work, again) == report
    assert same_rows(read(storage), before)
    assert leftovers(storage) == []
    with pytest.raises(RolledBackError, match="given up"):
        ALWAYS.execute(own, work, [0])


def test_what_was_given_up_can_be_run_again(storage: MemoryStorage) -> None:
    make(storage, 9)
    before = {info.path for info in storage.walk()}
    own = context(storage)
    instant = ALWAYS.schedule(own).instant
    assert instant is not None
    work = ALWAYS.begin(own, instant)
    outcomes = ALWAYS.execute(own, work, [0, 1])
    ALWAYS.give_up(own, work)
    assert {info.path for info in storage.walk()} - before == {f".hoodie/timeline/{instant}.compaction.requested"}
    with pytest.raises(RolledBackError):
        ALWAYS.commit(own, work, outcomes)
    assert run(ALWAYS, own).instant == instant
    ALWAYS.give_up(own, work)  # of another attempt, which has completed
    assert read(storage, "read_optimized").num_rows == 8


def test_why_it_failed_is_told_though_it_cannot_be_undone_either(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(storage, 9)
    own = context(storage)
    instant = ALWAYS.schedule(own).instant

    def fail(*_: object) -> None:
        raise CorruptFileError("the log x is torn")

    def refuse(*_: object) -> None:
        raise LockError("the lock is held by another")

    with monkeypatch.context() as patched:
        patched.setattr(Compaction, "execute", fail)
        patched.setattr("hudi_py.transaction.attempt.undo_attempt", refuse)
        with pytest.raises(CorruptFileError, match="the log x is torn"):
            run(ALWAYS, own)
    assert f"the next attempt will undo the failed compaction {instant}: the lock is held by another" in caplog.text
    assert run(ALWAYS, own).instant == instant


def test_two_processes_are_not_at_one_plan(storage: MemoryStorage) -> None:
    make(storage, 9)
    own = context(storage)
    instant = ALWAYS.schedule(own).instant
    assert instant is not None
    work = ALWAYS.begin(own, instant)
    with pytest.raises(ConflictError, match=rf"{instant}.*is running it"):
        ALWAYS.begin(own, instant)
    with pytest.raises(ConflictError):
        run(ALWAYS, own)
    assert len(ALWAYS.execute(own, work, [0])) == 1
    # as if its process had died: the next one begins anew
    end_work(work.attempt.owner.id)
    again = ALWAYS.begin(own, instant)
    assert not [info for info in storage.walk() if info.name.endswith(f"_{instant}.parquet")]
    with pytest.raises(RolledBackError, match="another attempt has begun"):
        ALWAYS.commit(own, work, ALWAYS.execute(own, again, [0, 1]))


def test_without_its_process_the_heartbeat_tells(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    make(storage, 9)
    own = context(storage)
    apart = Compaction(always=True, local=False)
    instant = apart.schedule(own).instant
    assert instant is not None
    apart.begin(own, instant)
    with pytest.raises(ConflictError, match="last sign of life 0 s ago"):
        apart.begin(own, instant)
    later = now_ms() + own.session.settings.heartbeat_expiry_ms + 1
    monkeypatch.setattr(recovery, "now_ms", lambda: later)
    assert run(ALWAYS, own).instant == instant


def begun_long_ago(storage: Storage, folder: Path) -> tuple[ServiceContext, Compaction, CompactionWork, Path]:
    """A compaction that was begun for other processes, whose heartbeat, the file named last, has expired since."""
    own, apart = context(storage), Compaction(always=True, local=False)
    instant = apart.schedule(own).instant
    assert instant is not None
    work = apart.begin(own, instant)
    beat = folder / ".hoodie" / ".heartbeat" / instant
    os.utime(beat, (1, 1))
    return own, apart, work, beat


def test_tasks_that_begin_late_go_on(tmp_path) -> None:
    """Nobody beats from the beginning of a plan to the first task, which a cluster may keep waiting."""
    storage = LocalStorage(str(tmp_path))
    make(storage, 9)
    before = read(storage)
    own, apart, work, beat = begun_long_ago(storage, tmp_path)
    outcomes = apart.execute(own, work, [0])
    assert beat.stat().st_mtime > 1
    os.utime(beat, (1, 1))
    outcomes += apart.execute(own, work, [1])
    assert apart.commit(own, work, outcomes).instant == work.instant
    assert same_rows(read(storage), before)
    assert leftovers(storage) == []


def test_a_late_task_takes_the_lock_before_it_beats_again(tmp_path) -> None:
    """Whoever takes the attempt for dead undoes it under that lock."""
    storage = LocalStorage(str(tmp_path))
    make(storage, 9)
    own, apart, work, beat = begun_long_ago(storage, tmp_path)
    settings = changed(own.session.settings, LOCK_WAIT_MS=50, LOCK_RETRIES=0)
    with own.locked("look at it"), pytest.raises(LockError, match=f"continue the compaction {work.instant}"):
        apart.execute(replace(own, session=replace(own.session, settings=settings)), work, [0])
    assert beat.stat().st_mtime == 1


@pytest.mark.parametrize("undo", ["rollback", "another attempt", "unschedule"])
def test_a_late_task_of_an_attempt_that_was_undone_ends(tmp_path, undo: str) -> None:
    storage = LocalStorage(str(tmp_path))
    make(storage, 9)
    own, apart, work, beat = begun_long_ago(storage, tmp_path)
    if undo == "rollback":
        rollback(own, work.instant)
    elif undo == "unschedule":
        unschedule(own, work.instant)
    else:
        apart.begin(own, work.instant)
        os.utime(beat, (1, 1))
    files = {info.path for info in storage.walk()}
    with pytest.raises(RolledBackError, match="another attempt" if undo == "another attempt" else "no more files"):
        apart.execute(own, work, [0])
    assert {info.path for info in storage.walk()} == files
    assert undo != "another attempt" or beat.stat().st_mtime == 1


def test_a_plan_whose_files_are_gone_is_refused(storage: MemoryStorage) -> None:
    make(storage, 9)
    own = context(storage)
    instant = ALWAYS.schedule(own).instant
    assert instant is not None
    plan = COMPACTION_PLANS.existing(storage, own.timeline(), instant)
    storage.delete(f"{plan.operations[0].partition_path}/{plan.operations[0].log_files[0]}")
    with pytest.raises(HistoryCleanedError, match="unschedule it, or restore an earlier savepoint"):
        run(ALWAYS, own)
    assert pending_instants(ALWAYS, own) == [instant]
    assert leftovers(storage) == []
    with pytest.raises(ConfigError, match=f"no such pending plan; pending: {instant}"):
        run(ALWAYS, own, InstantTime("20200101000000000"))


def test_the_commit_is_that_of_a_compaction(storage: MemoryStorage) -> None:
    make(storage, 9)
    own = context(storage)
    instant = ALWAYS.schedule(own).instant
    run(ALWAYS, own)
    timeline = own.timeline()
    found = timeline.find(instant or "", Action.COMMIT)
    assert found is not None
    metadata = read_commit_metadata(storage, timeline.layout, found)
    assert (metadata.operation, metadata.compacted) == ("COMPACT", True)
    assert '"name":"t_record"' in metadata.extra["schema"]
    for stat in metadata.stats:
        assert stat.prev_base_file is not None
        assert stat.prev_base_file.endswith(f"_{stat.prev_commit}.parquet")
        assert stat.compacted is not None
        assert (stat.compacted.files, stat.compacted.blocks) == (2, 2)


def looked_at(own: ServiceContext) -> list[str]:
    """Partitions at which a plan made now would look."""
    state = own.state()
    return partitions_to_consider(own.storage, state.timeline, own.view(state), "99991231000000000")


def test_planning_looks_where_something_was_written_since(storage: MemoryStorage) -> None:
    make(storage, 9)
    own = context(storage)

    assert looked_at(own) == ["a", "b"]
    run(ALWAYS, own, ALWAYS.schedule(own).instant)
    assert looked_at(own) == []
    write(storage, rows(range(0, 1), 5), "upsert", 9, "mor")
    assert looked_at(own) == ["a"]
    write(storage, rows(range(1, 2), 5), "upsert", 9, "mor")
    small = context(storage, {"hoodie.compaction.logfile.size.threshold": 10**9})
    assert ALWAYS.schedule(small).instant is None
    assert looked_at(own) == ["a", "b"]


def test_what_was_left_out_is_looked_at_next(storage: MemoryStorage) -> None:
    make(storage, 9)
    write(storage, rows(range(0, 9, 2), 5), "upsert", 9, "mor")  # the logs of a are larger now
    by_number = {
        "hoodie.compaction.logfile.num.threshold": 3,
        "hoodie.compaction.strategy": "LogFileNumBasedCompactionStrategy",
    }
    own = context(storage, by_number)
    instant = ALWAYS.schedule(own).instant
    assert instant is not None
    plan = COMPACTION_PLANS.existing(storage, own.timeline(), instant)
    assert ([o.partition_path for o in plan.operations], plan.missing_partitions) == (["a"], ("b",))
    run(ALWAYS, own)
    assert looked_at(own) == ["b"]


def test_on_demand_every_partition_is_looked_at(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "p": ["a", "b"]})
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    for _ in range(2):
        hudi_py.write(str(tmp_path), data, "upsert", options, record_key="id", partition_by="p")
    table = hudi_py.open_table(str(tmp_path))
    by_path = {
        "hoodie.compaction.strategy": "PartitionRegexBasedCompactionStrategy",
        "hoodie.compaction.partition.path.regex": "a",
    }
    assert table.compact(options=by_path).num_file_groups == 1
    # as in Apache Hudi, what is planned after commits is not told of the partitions that were passed over
    own = ServiceContext.of(WriteTarget(LocalStorage(str(tmp_path)), Options.resolve({}), NoMetadata()))
    assert looked_at(own) == []
    assert table.compact().num_file_groups == 1
    assert table.scan(query_type="read_optimized").to_table().num_rows == 2
    assert "no file group has logs" in table.compact().reason


@pytest.mark.parametrize("marked", [True, False])
def test_a_killed_attempt_of_another_engine_is_waited_for_by_name(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    """Apache Hudi leaves an empty inflight file, and markers where it has not removed them already."""
    make(storage, 9)
    own = context(storage)
    instant = ALWAYS.schedule(own).instant
    storage.put(f".hoodie/timeline/{instant}.compaction.inflight", b"")
    orphan = f"a/00000000-0000-0000-0000-000000000000-0_0-0-0_{instant}.parquet"
    storage.put(orphan, b"half a file")
    if marked:
        storage.put(f".hoodie/.temp/{instant}/{orphan}.marker.MERGE", b"")
    with pytest.raises(ConflictError, match="another engine is running it"):
        run(ALWAYS, own)
    later = now_ms() + own.session.settings.heartbeat_expiry_ms + 1
    monkeypatch.setattr(recovery, "now_ms", lambda: later)
    assert run(ALWAYS, own).instant == instant
    assert storage.stat(orphan) is None


@pytest.mark.parametrize(
    "name",
    [
        "v6_mor_many_logs",
        "v6_mor_no_meta_fields",
        "v6_mor_partial_update_payload",
        "v6_mor_rollback",
        "v6_mor_timestamp_keygen",
        "v8_mor_compaction_pending",
        "v8_mor_parquet_blocks",
        "v9_mor_all_deleted",
        "v9_mor_all_types",
        "v9_mor_debezium_postgres",
        "v9_mor_evolve_types",
        "v9_mor_multi_ordering",
    ],
)
@pytest.mark.sampled(6)
def test_tables_of_apache_hudi(name: str, tmp_path: Path) -> None:
    path = tables.load()[name].extract(tmp_path)
    listed = {"hoodie.metadata.enable": "false"}

    def whole(query_type: str = "snapshot") -> pa.Table:
        found = hudi_py.open_table(str(path), listed).scan(query_type=query_type).to_table()
        kept = [column for column in found.column_names if column != "_hoodie_file_name"]
        order = [(column, "ascending") for column in kept if column in ("_hoodie_record_key", "id", "uuid")]
        return found.select(kept).sort_by(order)

    before = whole()
    options = Options.resolve({})
    own = ServiceContext.of(service_target(LocalStorage(str(path)), options))
    while pending_instants(ALWAYS, own) or ALWAYS.schedule(own).instant is not None:
        run(ALWAYS, own)
    assert whole().equals(before)
    assert whole("read_optimized").equals(before)


def test_a_log_that_was_cut_is_not_compacted(tmp_path: Path) -> None:
    path = tables.load()["v6_mor_torn_log"].extract(tmp_path)
    with pytest.raises(CorruptFileError, match="of its 1670 bytes"):
        ALWAYS.schedule(ServiceContext.of(WriteTarget(LocalStorage(str(path)), Options.resolve({}), NoMetadata())))
