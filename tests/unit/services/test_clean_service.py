"""Cleans as instants: scheduled, begun, executed in tasks, completed; what the next clean makes of failures."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.model.instant import Action, State
from hudi_py.model.properties import TableConfig
from hudi_py.services.clean import CleanReport
from hudi_py.services.planned.service import AnyService, pending_instants, run, run_all
from hudi_py.timeline.clean_records import CleanMetadata, decode_clean_metadata, decode_clean_plan, encode_clean_plan
from hudi_py.timeline.plans import RollbackMetadata, encode_rollback_metadata
from hudi_py.timeline.properties import update_table_config
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import inflight_path, requested_path
from hudi_py.transaction.locks import caller_holds_lock
from hudi_py.transaction.protocols import MetadataUpdate, NoMetadata, TableChange
from hudi_py.transaction.session import TableSession
from hudi_py.view import StorageLister
from tests.support.clean_tables import HandMadeTable

F1 = ("a", "f1")
F2 = ("b", "f2")

every_version = pytest.mark.parametrize("version", [6, 8, 9])


def old_table(version: int = 9, updates: int = 5, **kinds: Any) -> HandMadeTable:
    table = HandMadeTable(version, **kinds)
    table.insert(F1, F2)
    for _ in range(updates):
        table.update(F1, F2)
    return table


def last_metadata(table: HandMadeTable) -> CleanMetadata:
    instant = [instant for instant in table.timeline.completed if instant.action is Action.CLEAN][-1]
    return decode_clean_metadata(table.storage.read(table.layout.path(instant.file_name)))


def schedule(table: HandMadeTable, **options: object) -> str:
    table.tick()
    scheduled = table.cleaning.schedule(table.context(**options))
    assert scheduled.instant is not None, scheduled.reason
    return scheduled.instant


@every_version
def test_the_files_of_an_instant(version: int) -> None:
    table = old_table(version)
    time = schedule(table, commits=2)
    service: AnyService[CleanReport] = table.cleaning
    assert pending_instants(service, table.context()) == [time]
    planned = table.planned_files(commits=2, trigger=0)
    plan_bytes = table.storage.read(requested_path(table.layout, time, Action.CLEAN))
    report = table.run(time, commits=2)
    states = table.timeline.states_of(table.timeline.find(time, Action.CLEAN))  # type: ignore[arg-type]
    assert [state.state for state in states] == [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
    # Apache Hudi before 1.1 goes on from the inflight file
    assert table.storage.read(inflight_path(table.layout, time, Action.CLEAN)) == plan_bytes
    metadata = last_metadata(table)
    plan = decode_clean_plan(plan_bytes)
    assert (metadata.start_time, metadata.last_completed) == (time, plan.last_completed)
    assert plan.earliest is not None
    assert metadata.earliest_commit_to_retain == plan.earliest.time
    assert [part.partition_path for part in metadata.partitions] == ["a", "b"]
    for part in metadata.partitions:
        assert part.policy == "KEEP_LATEST_COMMITS"
        assert part.planned == part.deleted
        assert not part.failed
        assert {f"{part.partition_path}/{name}" for name in part.deleted} <= planned
    assert report.num_files == len(planned) == 6
    assert report.num_partitions == 2
    assert report.num_bytes == sum(len(path.rpartition("/")[2]) for path in planned)
    assert (report.completion_time is None) is (version == 6)
    assert not planned & table.files()


def test_an_empty_plan_makes_no_instant() -> None:
    table = old_table(updates=1)
    report = table.clean(commits=2)
    assert report == CleanReport(
        "clean", None, reason="the active timeline has 2 commits, and 2 are kept (hoodie.clean.commits.retained)"
    )
    table.insert(("c", "f3"))
    report = table.clean(commits=2)
    assert report.instant is None
    assert report.reason.startswith(
        "no file is superfluous in the 3 partitions considered; kept: what queries as of 2023"
    )
    assert report.to_dict()["num_files"] == 0
    assert not [file for file in table.timeline.files if file.action is Action.CLEAN]


def test_the_requested_time_may_be_given() -> None:
    table = old_table()
    time = table.tick() + "002"
    scheduled = table.cleaning.schedule(table.context(commits=2), instant=time)  # type: ignore[arg-type]
    assert scheduled.instant == time
    assert table.run(time, commits=2).num_files == 6  # type: ignore[arg-type]


def test_a_pending_clean_is_finished_before_another_is_planned() -> None:
    table = old_table()
    time = schedule(table, commits=2)
    scheduled = table.cleaning.schedule(table.context(commits=1))
    assert scheduled.instant is None
    assert scheduled.reason == f"the clean {time} is pending and has to be finished first"
    report = table.clean(commits=1, trigger=0)
    cleans = [instant.time for instant in table.timeline.completed if instant.action is Action.CLEAN]
    assert cleans == [time, report.instant]
    assert pending_instants(table.cleaning, table.context()) == []


def test_the_report_of_a_finished_clean_where_nothing_more_is_to_do() -> None:
    table = old_table()
    time = schedule(table, commits=2)
    assert table.clean(commits=2).instant == time


@every_version
def test_an_inflight_clean_is_gone_on_with(version: int) -> None:
    table = old_table(version)
    time = schedule(table, commits=2)
    context = table.context(commits=2)
    work = table.cleaning.begin(context, time)
    first = sorted(table.planned_files(commits=2, trigger=0))[0]
    table.storage.delete(first)
    # its process died; another one begins
    again = table.cleaning.begin(context, time)
    assert again.num_tasks == work.num_tasks
    report = run(table.cleaning, context, time)
    assert isinstance(report, CleanReport)
    # the file that was gone already counts, or the metadata table would keep it
    assert report.num_files == 6
    assert not report.failed


def test_work_and_outcomes_travel_and_tasks_may_run_anywhere() -> None:
    table = HandMadeTable()
    groups = [(f"p{number % 7}", f"g{number}") for number in range(90)]
    table.insert(*groups)
    for _ in range(3):
        table.update(*groups)
    context = table.context(commits=1)
    work = table.cleaning.begin(context, schedule(table, commits=1))
    assert work.num_tasks == 3
    assert len(pickle.dumps(work)) < 600
    travelled = pickle.loads(pickle.dumps(work))
    service = table.cleaning
    outcomes = service.execute(context, travelled, [2]) + service.execute(context, travelled, [0])
    with pytest.raises(ConfigError, match="1 of its 3 tasks were not executed, the first is 1"):
        service.commit(context, work, outcomes)
    outcomes += service.execute(context, travelled, [1, 2])
    report = service.commit(context, work, pickle.loads(pickle.dumps(outcomes)))
    assert (report.num_files, report.num_partitions) == (180, 7)
    # 20 of the 180 names have one digit
    assert report.num_bytes == 180 * len("g00_0-1-0_20231114222620000.parquet") - 20
    assert service.execute(context, work, []) == []


def test_completing_twice_gives_the_report_again() -> None:
    table = old_table()
    context = table.context(commits=2)
    time = schedule(table, commits=2)
    work = table.cleaning.begin(context, time)
    outcomes = table.cleaning.execute(context, work, range(work.num_tasks))
    report = table.cleaning.commit(context, work, outcomes)
    again = table.cleaning.commit(context, work, outcomes)
    assert again == replace(report, num_bytes=None)
    late = table.cleaning.begin(context, time)
    assert late.num_tasks == 0
    assert table.cleaning.commit(context, late, []) == again


def test_there_is_no_such_clean() -> None:
    table = old_table()
    with pytest.raises(ConfigError, match="there is no such pending plan; pending: none"):
        table.cleaning.begin(table.context(), "20200101000000000")  # type: ignore[arg-type]


def test_a_clean_whose_plan_was_never_written_is_removed() -> None:
    table = old_table()
    time = table.request(Action.CLEAN, b"")
    report = table.run(time)
    assert report.instant is None
    assert report.reason == f"the clean {time} had no plan and was removed"
    assert not [file for file in table.timeline.files if file.action is Action.CLEAN]
    assert table.clean(commits=2).num_files == 6


def test_files_of_a_bootstrap_source_are_refused_before_anything_is_deleted() -> None:
    table = old_table()
    time = schedule(table, commits=2)
    path = requested_path(table.layout, time, Action.CLEAN)
    plan = decode_clean_plan(table.storage.read(path))
    encoded = encode_clean_plan(plan)
    # the first flag of the encoded files becomes true
    first = plan.files["a"][0].encode()
    at = encoded.index(first) + len(first)
    assert encoded[at : at + 2] == b"\x02\x00"
    table.storage.put(path, encoded[:at] + b"\x02\x01" + encoded[at + 2 :])
    before = table.files()
    with pytest.raises(UnsupportedTableError, match="a file of the source that the table was bootstrapped from"):
        table.run(time)
    assert table.files() == before


# ---- failed deletions


@every_version
def test_files_that_cannot_be_deleted_are_recorded_and_tried_again(version: int) -> None:
    table = old_table(version)
    stuck = sorted(table.planned_files(commits=2))[0]
    table.storage.stuck = {stuck.rpartition("/")[2]}
    report = table.clean(commits=2)
    assert report.failed == (stuck,)
    assert report.num_files == 5
    failed = [name for part in last_metadata(table).partitions for name in part.failed]
    assert failed == [stuck.rpartition("/")[2]]
    # without a new commit, too
    assert table.clean(commits=2).failed == (stuck,)
    table.storage.stuck = set()
    table.insert(("c", "f9"))
    report = table.clean(commits=2)
    assert report.failed == ()
    assert stuck not in table.files()


def test_what_the_metadata_table_forgot_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Hudi drops a file from the metadata table whether or not it was deleted."""
    table = old_table()
    stuck = sorted(table.planned_files(commits=2))[0]
    table.storage.stuck = {stuck.rpartition("/")[2]}
    table.clean(commits=2)
    listed = StorageLister.files
    monkeypatch.setattr(
        StorageLister, "files", lambda self, path: [info for info in listed(self, path) if info.path != stuck]
    )
    assert table.planned_files(commits=2) == {stuck}
    table.storage.stuck = set()
    assert table.clean(commits=2).num_files == 1
    assert table.storage.stat(stuck) is None
    assert table.planned_files(commits=2, trigger=0) == set()


def test_a_failure_of_one_attempt_counts_only_if_no_other_succeeded() -> None:
    table = old_table()
    context = table.context(commits=2)
    work = table.cleaning.begin(context, schedule(table, commits=2))
    table.storage.stuck = {sorted(table.planned_files(commits=2, trigger=0))[0].rpartition("/")[2]}
    failed = table.cleaning.execute(context, work, [0])
    assert "no permission" in failed[0].failed[0][2]
    table.storage.stuck = set()
    report = table.cleaning.commit(context, work, failed + table.cleaning.execute(context, work, [0]))
    assert report.failed == ()
    assert report.num_files == 6


# ---- what happens between plan and execution


def test_a_file_that_was_savepointed_after_the_plan_stays() -> None:
    table = old_table()
    times = [instant.time for instant in table.timeline.write_completed]
    time = schedule(table, commits=2)
    table.savepoint(times[1])
    report = table.run(time, commits=2)
    kept = {f"a/f1_0-1-0_{times[1]}.parquet", f"b/f2_0-1-0_{times[1]}.parquet"}
    assert kept <= table.files()
    assert set(report.failed) == kept
    assert report.num_files == 4
    # once it is gone they go
    table.delete_savepoint(times[1])
    table.insert(("c", "f9"))
    assert kept <= table.planned_files(commits=2)


@every_version
def test_the_version_that_became_the_newest_by_a_rollback_stays(version: int) -> None:
    table = old_table(version)
    times = [instant.time for instant in table.timeline.write_completed]
    time = schedule(table, versions=1)
    # two commits are rolled back by hand
    for undone in times[-2:]:
        for file in table.timeline.files:
            if file.time == undone:
                table.storage.delete(table.layout.path(file.file_name))
        for path in table.files():
            if undone in path:
                table.storage.delete(path)
    rollback = table.request(Action.ROLLBACK)
    metadata = RollbackMetadata(rollback, 1, times[-1], "commit")
    table.complete(rollback, Action.ROLLBACK, encode_rollback_metadata(metadata))
    kept = {f"a/f1_0-1-0_{times[-3]}.parquet", f"b/f2_0-1-0_{times[-3]}.parquet"}
    report = table.run(time)
    assert table.files() == kept
    assert set(report.failed) == kept


def test_a_partition_that_a_write_came_back_to_stays() -> None:
    table = old_table()
    table.replace([F1], [])
    time = schedule(table, versions=1)
    table.insert(("a", "f5"))
    report = table.run(time, versions=1)
    assert report.deleted_partitions == ()
    newest = table.timeline.write_completed[-1].time
    assert [path for path in table.files() if path.startswith("a/")] == [f"a/f5_0-1-0_{newest}.parquet"]
    assert table.storage.stat("a/.hoodie_partition_metadata") is not None


def test_no_partition_goes_while_a_write_is_pending() -> None:
    table = old_table()
    table.replace([F1], [])
    time = schedule(table, versions=1)
    table.begin()
    assert table.run(time, versions=1).deleted_partitions == ()
    assert table.storage.stat("a/.hoodie_partition_metadata") is not None


@pytest.mark.parametrize("version", [6, 9])
def test_a_partition_goes_while_a_compaction_of_another_is_pending(version: int) -> None:
    table = HandMadeTable(version, mor=True)
    table.insert(("a", "f1"), ("b", "f2"))
    table.replace([("b", "f2")], [])
    for _ in range(3):
        table.update(("a", "f1"))
    table.schedule_compaction(("a", "f1"))
    assert table.clean(commits=1).deleted_partitions == ("b",)
    assert table.storage.list("b") == []


# ---- progress without files


def test_a_clean_without_files_notes_how_far_it_went() -> None:
    table = HandMadeTable()
    for number in range(5):
        table.insert(("a", f"g{number}"))
    assert table.clean(commits=2).instant is None
    report = table.clean(commits=2, empty_hours=3)
    assert report.instant is not None
    assert report.num_files == 0
    assert report.earliest_retained == table.timeline.write_completed[-2].time
    assert last_metadata(table).partitions == ()
    table.insert(("a", "g8"))
    assert table.clean(commits=2, empty_hours=3).instant is None
    table.tick(200)
    # more is retained now: where the last one stopped stays
    again = table.clean(commits=5, empty_hours=3)
    assert again.earliest_retained == report.earliest_retained


# ---- the metadata table is told


class Telling:
    """A `MetadataWriter` that remembers what it was told."""

    maintains = True

    def __init__(self) -> None:
        self.changes: list[TableChange] = []
        self.completed_before: list[bool] = []

    def check(self, session: TableSession, rolled_back: tuple[Any, ...] = ()) -> None:
        pass

    def prepare(self, session: TableSession, timeline: Timeline) -> TableConfig:
        return session.config

    def sidecar(self, config: TableConfig, schema_json: str) -> None:
        return None

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        found = timeline.find(change.instant, Action.CLEAN)
        self.completed_before.append(found is not None and found.completed)
        self.changes.append(change)
        return MetadataUpdate()


def test_the_metadata_table_is_told_of_files_that_are_gone_and_of_no_others() -> None:
    table = old_table()
    table.replace([F2], [])
    planned = table.planned_files(versions=1)
    stuck = next(path for path in sorted(planned) if path.startswith("a/"))
    table.storage.stuck = {stuck.rpartition("/")[2]}
    telling = Telling()
    context = table.context(versions=1)
    context = replace(context, session=replace(context.session, metadata=telling))
    report = run_all(table.cleaning, context)
    assert report.failed == (stuck,)
    (change,) = telling.changes
    assert (change.instant, change.action) == (report.instant, Action.CLEAN)
    told = {f"{partition}/{name}" for partition, names in change.deleted.items() for name in names}
    assert told == planned - {stuck}
    assert change.deleted_partitions == ("b",)
    assert telling.completed_before == [False]


def test_a_metadata_table_is_cleaned_once_it_was_compacted() -> None:
    table = HandMadeTable(mor=True, partitioned=False)
    table.config = update_table_config(table.storage, {"hoodie.table.base.file.format": "HFILE"})
    context = table.context(versions=1)
    context = replace(context, session=replace(context.session, metadata=NoMetadata(), locks=caller_holds_lock))
    table.insert(("", "files-0000-0"))
    group = ("", "files-0000-0")
    for _ in range(3):
        table.update(group)
        table.finish_compaction(table.schedule_compaction(group), group)
    report = run_all(table.cleaning, context)
    assert report.num_files == 6
    table.update(group)
    scheduled = table.cleaning.schedule(context)
    assert scheduled.instant is None
    assert scheduled.reason == "the metadata table has not been compacted since the last clean"
    table.finish_compaction(table.schedule_compaction(group), group)
    assert run_all(table.cleaning, context).num_files == 2
