"""Restores: back to a savepoint whatever came after it, in Apache Hudi's order, and what is refused."""

from __future__ import annotations

import os
import pickle

import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.services.archive import archive
from hudi_py.services.compaction import Compaction
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint, delete_savepoint
from hudi_py.storage import LocalStorage, MemoryStorage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.plans import decode_restore_metadata, decode_restore_plan, encode_restore_plan
from hudi_py.timeline.timeline import timeline_of
from hudi_py.transaction.recovery.restore import plan_restore
from tests.faults.tables import KINDS, data_files, leftovers, make_table, read, rows, write
from tests.support.hand_writes import new_table
from tests.support.sessions import session_of
from tests.unit.services.recovering import Recorder, compact, context, of_action, times

IDS = [f"v{version}-{kind}" for version, kind in KINDS]


def instants_of(plan) -> list[tuple[str, str]]:
    return [(info.time, info.action) for info in plan.instants]


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=IDS)
@pytest.mark.sampled(3)
def test_all_since_the_savepoint_is_undone(tmp_path, version, kind):
    make_table(tmp_path, version, kind)
    before, files = read(tmp_path), data_files(tmp_path)
    working = context(tmp_path)
    savepoint = create_savepoint(working).instant
    write(working.storage, rows(range(2, 14), 3), "upsert", version, kind)
    write(working.storage, rows(range(3), 9), "delete", version, kind)
    write(working.storage, rows(range(5, 8), 7), "insert_overwrite_table", version, kind)
    write(working.storage, rows(range(20, 24), 8), "insert", version, kind)
    since = [time for time in times(working.timeline()) if time > savepoint]
    last = rollback(working, since.pop())  # its rollback goes with the restore
    report = restore(working, savepoint)
    assert report.savepoint == savepoint
    assert report.rolled_back == tuple(reversed(since))
    assert read(tmp_path) == before
    timeline = working.timeline()
    assert times(timeline)[-1] == savepoint
    assert timeline.pending == ()
    assert of_action(timeline, Action.ROLLBACK) == []
    assert timeline.find(last.instant) is None
    assert leftovers(tmp_path) == set()
    added = data_files(tmp_path) - files
    if version == 6 and kind == "mor":
        assert added
        assert all(".log." in path for path in added)
    else:
        assert added == set()
    (done,) = of_action(timeline, Action.RESTORE)
    assert report.completion_time == (done.completion_time if version >= 8 else None)
    plan = decode_restore_plan(working.storage.read(timeline.layout.path(f"{done.time}.restore.requested")))
    assert (plan.savepoint, [time for time, _ in instants_of(plan)]) == (savepoint, list(reversed(since)))
    metadata = decode_restore_metadata(working.storage.read(timeline.layout.path(done.file_name)))
    assert metadata.instants == plan.instants
    assert set(metadata.rollbacks) == set(since)

    again = restore(working)
    assert (again.instant, again.reason) == (None, f"nothing was written since {savepoint}")
    write(working.storage, rows(range(2, 14), 3), "upsert", version, kind)
    assert [row["ts"] for row in read(tmp_path)] == [2, 2] + [3] * 12
    restore(working)
    assert read(tmp_path) == before


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("until", ["requested", "inflight", "completed"])
@pytest.mark.sampled(3)
def test_compactions_go_with_their_plans(tmp_path, version, until):
    """Version 6: the logs of the slice that a compaction opened must go, or they would hide the slice before it."""
    make_table(tmp_path, version, "mor")
    before = read(tmp_path)
    working = context(tmp_path)
    create_savepoint(working)
    scheduled = Compaction(always=True).schedule(working).instant
    write(working.storage, rows(range(3), 3), "upsert", version, "mor")
    if until != "requested":
        service = Compaction(local=False)
        work = service.begin(working, scheduled)
        outcomes = service.execute(working, work, range(work.num_tasks))
        if until == "completed":
            service.commit(working, work, outcomes)
    write(working.storage, rows(range(4), 4), "upsert", version, "mor")
    report = restore(working)
    assert scheduled in report.rolled_back
    timeline = working.timeline()
    assert timeline.pending == ()
    assert timeline.find(scheduled) is None
    assert read(tmp_path) == before
    assert not [path for path in data_files(tmp_path) if scheduled in path]
    compact(tmp_path)
    assert read(tmp_path) == before


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_from_before_stays(tmp_path, version):
    make_table(tmp_path, version, "mor")
    working = context(tmp_path)
    scheduled = Compaction(always=True).schedule(working).instant
    write(working.storage, rows(range(3), 3), "upsert", version, "mor")
    create_savepoint(working)
    before = read(tmp_path)
    service = Compaction()
    work = service.begin(working, scheduled)
    service.commit(working, work, service.execute(working, work, range(work.num_tasks)))
    write(working.storage, rows(range(4), 4), "upsert", version, "mor")
    report = restore(working)
    assert scheduled not in report.rolled_back
    assert len(report.rolled_back) == 1
    assert working.timeline().find(scheduled).completed
    assert read(tmp_path) == before


def test_the_order_is_that_of_apache_hudi():
    """Pending clusterings, then what is pending, then by completion time; compactions by requested time."""
    layout = Layout(2, ".hoodie/timeline")

    def files(*names: str) -> list[Instant]:
        found = [layout.parse(name) for name in names]
        assert None not in found
        return [instant for instant in found if instant is not None]

    day = "20240101"
    timeline = timeline_of(
        layout,
        files(
            f"{day}000000001_{day}000000900.commit",  # requested before the savepoint: its slice is older
            f"{day}000000002_{day}000000600.deltacommit",  # completed after it
            f"{day}000000003.compaction.requested",
            f"{day}000000004_{day}000000500.deltacommit",
            f"{day}000000004_{day}000000501.savepoint",
            f"{day}000000005_{day}000000800.deltacommit",
            f"{day}000000006_{day}000000700.deltacommit",
            f"{day}000000007_{day}000000710.commit",
            f"{day}000000008.clustering.inflight",
            f"{day}000000009.compaction.requested",
            f"{day}000000010_{day}000000720.clean",
        ),
    )
    (commit,) = [i for i in timeline.write_completed if i.time == f"{day}000000004"]
    storage = MemoryStorage("restore plan")
    mor = new_table(storage, 9, mor=True)
    plan = plan_restore(session_of(storage, config=mor), timeline, commit)
    assert [(time[-2:], action) for time, action in instants_of(plan)] == [
        ("08", "clustering"),
        ("09", "compaction"),
        ("05", "deltacommit"),
        ("07", "commit"),
        ("06", "deltacommit"),
        ("02", "deltacommit"),
    ]


def test_layout_1_has_only_requested_times():
    layout = Layout(1, ".hoodie")
    names = ["20240101000000001.commit", "20240101000000002.commit", "20240101000000003.commit"]
    # as a copy of the table has them: modified in any order
    timeline = timeline_of(
        layout,
        [
            Instant(InstantTime(name[:17]), Action.COMMIT, State.COMPLETED, name, f"2025010100000000{9 - number}")
            for number, name in enumerate(names)
        ],
    )
    storage = MemoryStorage("restore plan of layout 1")
    cow = new_table(storage, 6)
    plan = plan_restore(session_of(storage, config=cow), timeline, timeline.completed[1])
    assert instants_of(plan) == [("20240101000000003", "commit")]


def test_the_metadata_table_is_told_once(tmp_path):
    make_table(tmp_path, 9, "mor")
    files = data_files(tmp_path)
    recorder = Recorder()
    working = context(tmp_path, metadata=recorder)
    create_savepoint(working)
    write(working.storage, rows(range(3), 3), "upsert", 9, "mor")
    write(working.storage, rows(range(20, 23), 4), "upsert", 9, "mor")
    gone = data_files(tmp_path) - files
    recorder.changes.clear()
    report = restore(working)
    (change,) = recorder.changes
    assert (change.instant, change.action, change.rolled_back) == (report.instant, Action.RESTORE, report.rolled_back)
    assert {f"{p}/{name}" for p, names in change.deleted.items() for name in names} == gone
    assert report.num_files_deleted == len(gone)


def test_later_savepoints_are_in_the_way(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    first, second = times(working.timeline())
    create_savepoint(working, first)
    create_savepoint(working, second)
    after = read(tmp_path)
    with pytest.raises(ConflictError, match=f"the later commits {second} have savepoints; delete them first"):
        restore(working, first)
    assert read(tmp_path) == after
    delete_savepoint(working, second)
    assert restore(working, first).rolled_back == (second,)


def test_without_a_savepoint_there_is_nothing_to_restore(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    with pytest.raises(ConfigError, match="to its latest savepoint: there is no such savepoint; savepoints: none"):
        restore(working)
    saved = create_savepoint(working).instant
    with pytest.raises(ConfigError, match=f"to 2024: there is no such savepoint; savepoints: {saved}"):
        restore(working, "2024")


def test_a_savepoint_with_missing_files_is_not_restored(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    create_savepoint(working)
    (lost, *_) = sorted(path for path in data_files(tmp_path) if times(working.timeline())[-1] in path)
    write(working.storage, rows(range(20), 3), "upsert", 9, "cow")
    after = read(tmp_path)
    working.storage.delete(lost)
    with pytest.raises(HistoryCleanedError, match=f"1 files of the savepoint are missing, such as {lost}"):
        restore(working)
    assert read(tmp_path) == after


@pytest.mark.parametrize("version", [6, 9])
def test_what_is_archived_cannot_be_undone(tmp_path, version):
    make_table(tmp_path, version, "cow")
    working = context(tmp_path)
    create_savepoint(working)
    for number in range(4):
        write(working.storage, rows(range(3), 3 + number), "upsert", version, "cow")
    since = times(working.timeline())[2:]
    options = {
        "hoodie.archive.beyond.savepoint": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    archive(context(tmp_path, options=options))
    left = times(working.timeline())
    assert set(since) - set(left)
    with pytest.raises(HistoryCleanedError, match=f"later commits have been archived .* such as {since[0]}"):
        restore(working)
    assert times(working.timeline()) == left


def test_a_young_restore_of_another_engine_is_waited_for(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    savepoint = create_savepoint(working).instant
    before = read(tmp_path)
    write(working.storage, rows(range(20), 3), "upsert", 9, "cow")
    trial = context(tmp_path)
    plan = plan_restore(trial.session, trial.timeline(), trial.timeline().find(savepoint))
    theirs = "20200101000000000"
    path = f".hoodie/timeline/{theirs}.restore.requested"
    working.storage.put(path, encode_restore_plan(plan))
    with pytest.raises(ConflictError, match=f"the restore {theirs} of another engine is under way"):
        create_savepoint(working)
    os.utime(tmp_path / path, (0, 0))
    create_savepoint(working)
    assert read(tmp_path) == before
    assert of_action(working.timeline(), Action.RESTORE)[0].completed


def test_reports_pickle(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    create_savepoint(working, times(working.timeline())[0])
    report = restore(working)
    assert pickle.loads(pickle.dumps(report)) == report
    assert report.to_dict()["savepoint"] == report.savepoint


def test_one_that_apache_hudi_began_is_finished(golden_copy):
    """The golden table as it would be had Apache Hudi died before it completed its restore."""
    root = golden_copy("v9_mor_savepoint_restore")
    storage = LocalStorage(str(root))
    working = context(root, storage)
    timeline = working.timeline()
    (done,) = of_action(timeline, Action.RESTORE)
    (later,) = [i for i in timeline.write_completed if i.time > done.time]
    with pytest.warns(UserWarning, match="Dropped the metadata table"):
        report = rollback(working, later.time)
    assert report.rolled_back == (later.time,)
    before = [row["ts"] for row in _rows(root)]
    storage.delete(timeline.layout.path(done.file_name))
    for info in storage.list(".hoodie/timeline"):
        if "restore" in info.name:
            os.utime(f"{root}/{info.path}", (0, 0))
    assert restore(working).reason.startswith("nothing was written since")
    (finished,) = of_action(working.timeline(), Action.RESTORE)
    assert finished.completed
    assert finished.time == done.time
    assert [row["ts"] for row in _rows(root)] == before


def _rows(root):
    listed = {"hoodie.metadata.enable": "false"}
    return hudi_py.open_table(str(root), listed).scan(columns=["uuid", "ts"]).to_table().sort_by("uuid").to_pylist()


@pytest.mark.filterwarnings("ignore:Dropped the metadata table")
@pytest.mark.parametrize(
    "name",
    [
        "v6_cow_ops",
        "v6_mor_clustering_pending",
        "v6_mor_compaction",
        "v6_mor_compaction_pending",
        "v6_mor_logcompaction",
        "v6_mor_many_logs",
        "v8_mor_compaction_pending",
        "v8_mor_many_logs",
        "v8_mor_overwrite_table",
        "v9_cow_clustering",
        "v9_cow_overwrite",
        "v9_mor_upgraded_from_6",
    ],
)
@pytest.mark.sampled(6)
def test_what_apache_hudi_wrote_is_taken_back(golden_copy, name):
    """The rows after a restore are those that time travel found at the savepoint."""
    root = golden_copy(name)
    options = {"hoodie.client.heartbeat.interval_in_ms": "1", "hoodie.client.heartbeat.tolerable.misses": "1"}
    working = context(root, options=options)
    wanted = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"]

    def found(as_of: str | None = None) -> list[dict[str, object]]:
        table = hudi_py.open_table(str(root), {"hoodie.metadata.enable": "false"})
        rows = table.scan(columns=wanted, as_of=as_of).to_table()
        return rows.sort_by([(column, "ascending") for column in wanted]).to_pylist()

    commits = times(working.timeline())
    savepoint = commits[len(commits) // 4]
    expected = found(savepoint)
    create_savepoint(working, savepoint)
    pending = {i.time for i in working.timeline().pending if i.time > savepoint}
    report = restore(working, savepoint)
    assert set(report.rolled_back) == {time for time in commits if time > savepoint} | pending
    assert found() == expected
    assert times(working.timeline())[-1] == savepoint
    assert [i for i in working.timeline().pending if i.time > savepoint] == []
