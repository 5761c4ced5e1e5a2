"""Rolling back on demand: completed writes and services, those that are pending, and what is refused."""

from __future__ import annotations

import itertools
import pickle

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError, UnsupportedTableError
from hudi_py.model.instant import Action, State
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.planned.service import run_all
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint
from hudi_py.storage import LocalStorage
from hudi_py.timeline.metadata import decode_rollback_metadata, decode_rollback_plan
from hudi_py.transaction.owner.claim import revoke_claim
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.recovery.failed_writes import recover_failed_writes
from hudi_py.transaction.transaction import WriteTransaction
from tests.faults.tables import KINDS, data_files, leftovers, make_table, read, rows, write
from tests.support.choice import cases
from tests.unit.services.recovering import Recorder, compact, context, of_action, times

IDS = [f"v{version}-{kind}" for version, kind in KINDS]
VERSIONS = [6, 8, 9]


@pytest.mark.parametrize(
    ("version", "kind", "operation"),
    cases([(*table, each) for table in KINDS for each in ("upsert", "delete", "insert_overwrite_table")], "last", 9),
)
def test_the_last_write_is_undone(tmp_path, version, kind, operation):
    make_table(tmp_path, version, kind)
    before, files = read(tmp_path), data_files(tmp_path)
    write(LocalStorage(str(tmp_path)), rows(range(2, 14), 3), operation, version, kind)
    written = data_files(tmp_path) - files
    working = context(tmp_path)
    last = working.timeline().write_completed[-1]
    report = rollback(working, last.time)
    assert report.rolled_back == (last.time,)
    assert read(tmp_path) == before
    timeline = working.timeline()
    assert timeline.find(last.time) is None
    assert timeline.pending == ()
    assert leftovers(tmp_path) == set()
    (done,) = of_action(timeline, Action.ROLLBACK)
    assert (report.instant, report.completion_time) == (done.time, done.completion_time if version >= 8 else None)
    metadata = decode_rollback_metadata(working.storage.read(timeline.layout.path(done.file_name)))
    assert (metadata.instant, metadata.action) == (last.time, last.action.value)
    blocks = {path for path in data_files(tmp_path) if path.endswith("_1-0-1")}
    assert len(blocks) == report.num_rollback_blocks
    left = data_files(tmp_path) - files - blocks
    assert len(written - left) == report.num_files_deleted
    if version == 6 and kind == "mor":
        assert all(".log." in path for path in left)
        assert {path.rpartition(".log.")[0] for path in left} == {path.rpartition(".log.")[0] for path in blocks}
    else:
        assert left == blocks == set()

    again = rollback(working, last.time)
    assert again == report
    write(LocalStorage(str(tmp_path)), rows(range(2, 14), 3), "upsert", version, kind)
    assert [row["ts"] for row in read(tmp_path)] == [2, 2] + [3] * 12


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=IDS)
def test_the_first_write_is_undone_last(tmp_path, version, kind):
    make_table(tmp_path, version, kind)
    working = context(tmp_path)
    first, second = times(working.timeline())
    with pytest.raises(ConflictError, match=f"roll them back first, in this order: {second}"):
        rollback(working, first)
    report = rollback(working, first, with_newer=True)
    assert report.rolled_back == (second, first)
    assert hudi_py.open_table(str(tmp_path)).scan().to_table().num_rows == 0
    assert len(of_action(working.timeline(), Action.ROLLBACK)) == 2
    write(LocalStorage(str(tmp_path)), rows(range(5), 3), "upsert", version, kind)
    assert len(read(tmp_path)) == 5


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compaction_is_undone(tmp_path, version):
    make_table(tmp_path, version, "mor")
    before, files = read(tmp_path), data_files(tmp_path)
    compact(tmp_path)
    assert data_files(tmp_path) > files
    working = context(tmp_path)
    last = working.timeline().write_completed[-1]
    assert last.action is Action.COMMIT
    report = rollback(working, last.time)
    assert (report.plan_kept, report.num_files_deleted) == (False, 2)
    assert working.timeline().find(last.time) is None
    assert (read(tmp_path), data_files(tmp_path)) == (before, files)
    compact(tmp_path)
    assert read(tmp_path) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_writes_on_top_of_a_compaction_are_undone_with_it(tmp_path, version):
    make_table(tmp_path, version, "mor")
    before = read(tmp_path)
    working = context(tmp_path)
    scheduled = Compaction(always=True).schedule(working).instant
    write(working.storage, rows(range(3), 3), "upsert", version, "mor")  # goes to the slice the compaction opened
    work = Compaction().begin(working, scheduled)
    Compaction().commit(working, work, Compaction().execute(working, work, range(work.num_tasks)))
    write(working.storage, rows(range(3), 4), "upsert", version, "mor")
    report = rollback(working, scheduled, with_newer=True)
    assert len(report.rolled_back) == 3
    assert report.rolled_back[-1] == scheduled
    assert read(tmp_path) == before
    write(working.storage, rows(range(10), 5), "upsert", version, "mor")
    assert {row["ts"] for row in read(tmp_path)} == {5}


@pytest.mark.parametrize("by_markers", ["true", "false"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.sampled(3)
def test_a_pending_compaction_keeps_its_plan(tmp_path, version, by_markers):
    make_table(tmp_path, version, "mor")
    before, files = read(tmp_path), data_files(tmp_path)
    dead = context(tmp_path)
    scheduled = Compaction(always=True).schedule(dead).instant
    report = rollback(dead, scheduled)
    assert (report.instant, report.plan_kept) == (None, True)
    assert "has not begun" in report.reason
    write(dead.storage, rows(range(3), 3), "upsert", version, "mor")
    after = read(tmp_path)
    logs = data_files(tmp_path) - files
    work = Compaction(local=False).begin(dead, scheduled)
    Compaction(local=False).execute(dead, work, range(work.num_tasks))
    compacted = data_files(tmp_path) - files - logs
    assert len(compacted) == 2
    with pytest.raises(ConflictError, match="is running it, its last sign of life"):
        rollback(dead, scheduled)
    options = {
        "hoodie.rollback.using.markers": by_markers,
        "hoodie.client.heartbeat.interval_in_ms": "1",
        "hoodie.client.heartbeat.tolerable.misses": "1",
    }
    report = rollback(context(tmp_path, options=options), scheduled)
    assert (report.plan_kept, report.rolled_back, report.num_files_deleted) == (True, (scheduled,), 2)
    assert data_files(tmp_path) == files | logs
    timeline = dead.timeline()
    assert timeline.find(scheduled).state is State.REQUESTED
    plan = f"{report.instant}.rollback.requested"
    assert decode_rollback_plan(dead.storage.read(timeline.layout.path(plan))).action == "compaction"
    assert read(tmp_path) == after
    compact_pending = Compaction().begin(dead, scheduled)
    outcomes = Compaction().execute(dead, compact_pending, range(compact_pending.num_tasks))
    Compaction().commit(dead, compact_pending, outcomes)
    assert read(tmp_path) == after != before


def test_a_compaction_that_died_in_its_commit_is_not_waited_for(tmp_path):
    """It had closed its gate, so the owner alone tells that its process is gone."""
    make_table(tmp_path, 9, "mor")
    before, own = read(tmp_path), context(tmp_path)
    scheduled = Compaction(always=True).schedule(own).instant
    work = Compaction().begin(own, scheduled)
    revoke_claim(own.storage, scheduled)
    with pytest.raises(ConflictError, match=f"writer {work.attempt.owner.id} .* is running it"):
        rollback(own, scheduled)
    end_work(work.attempt.owner.id)
    assert rollback(own, scheduled).plan_kept
    assert read(tmp_path) == before


def test_the_metadata_table_is_told(tmp_path):
    make_table(tmp_path, 6, "mor")
    recorder = Recorder()
    recorder.changes.clear()
    working = context(tmp_path, metadata=recorder)
    report = rollback(working, times(working.timeline())[-1])
    (change,) = recorder.changes
    assert (change.instant, change.action, change.rolled_back) == (report.instant, Action.ROLLBACK, report.rolled_back)
    assert dict(change.deleted) == {}
    sizes = {f"{p}/{name}": size for p, files in change.added.items() for name, size in files.items()}
    # the logs that hold the blocks stay, and it may not know of them
    logs = {path for path in data_files(tmp_path) if ".log." in path}
    assert sizes == {path: working.storage.stat(path).size for path in logs}
    assert sum(path.endswith("_1-0-1") for path in logs) == 2


def test_partitions_left_empty_are_none_that_the_metadata_table_lacks(tmp_path):
    one, other = ({"id": [1], "p": [name]} for name in "ab")
    options = {"hoodie.clean.automatic": "false"}
    hudi_py.write(str(tmp_path), pa.table(one), "insert", options, record_key="id", partition_by="p")
    written = hudi_py.write(str(tmp_path), pa.table(other), "insert", options, record_key="id", partition_by="p")
    table = hudi_py.open_table(str(tmp_path))
    table.rollback(written.instant)
    assert (tmp_path / "b" / ".hoodie_partition_metadata").exists()
    assert table.metadata.verify().ok
    # once there is a file of a commit it is needed
    (data,) = (tmp_path / "a").glob("*.parquet")
    (tmp_path / "b" / f"11111111-{data.name}").write_bytes(data.read_bytes())
    (check,) = table.metadata.verify("files").partitions
    assert (check.missing, check.wrong) == (1, 1)


def test_what_is_no_instant_is_refused(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    with pytest.raises(
        ConfigError,
        match="the active timeline has no such instant, and archived ones cannot be undone; the latest writes: 20",
    ):
        rollback(working, "20200101000000000")
    working.storage.put(".hoodie/timeline/20200101000000000_20200101000000001.clean", b"")
    with pytest.raises(ConfigError, match="Cannot roll back the clean 20200101000000000 of .*: only writes"):
        rollback(working, "20200101000000000")


def test_a_savepoint_keeps_its_commit(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    last = times(working.timeline())[-1]
    create_savepoint(working)
    with pytest.raises(ConflictError, match="it has a savepoint; delete the savepoint first"):
        rollback(working, last)
    assert times(working.timeline())[-1] == last


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_keeps_the_files_it_names(tmp_path, version):
    make_table(tmp_path, version, "mor")
    working = context(tmp_path)
    last = times(working.timeline())[-1]
    scheduled = Compaction(always=True).schedule(working).instant
    with pytest.raises(ConflictError, match=f"the pending compaction {scheduled} will rewrite the file group"):
        rollback(working, last)
    assert working.timeline().find(last).completed


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite_table"])
def test_rows_of_versions_that_were_cleaned_are_not_lost(tmp_path, operation):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    kept = data_files(tmp_path)
    write(working.storage, rows(range(10), 3), operation, 9, "cow")
    after = read(tmp_path)
    for path in kept:  # as a clean that keeps one version does
        working.storage.delete(path)
    with pytest.raises(
        HistoryCleanedError, match="the previous version of .* has been cleaned, so its rows would be lost"
    ):
        rollback(working, times(working.timeline())[-1])
    assert read(tmp_path) == after


OLDER = [
    (version, kind, last)
    for version, kind in KINDS
    for last in ("insert", "insert_overwrite_table", "compaction")
    if (kind, last) != ("cow", "compaction")  # there are no logs
]


@pytest.mark.parametrize(
    ("version", "kind", "last"),
    cases(OLDER, "older versions", 6),
)
def test_older_versions_which_a_savepoint_keeps_are_not_enough(tmp_path, version, kind, last):
    storage = LocalStorage(str(tmp_path))
    write(storage, rows(range(10), 1), "insert", version, kind)
    create_savepoint(context(tmp_path))
    if last == "compaction":
        write(storage, rows(range(4, 8), 2), "upsert", version, kind)
        compact(tmp_path)
        write(storage, rows(range(2, 6), 3), "upsert", version, kind)
        compact(tmp_path)
    else:
        write(storage, rows(range(10, 14), 2), "insert", version, kind)  # into the same files
        write(storage, rows(range(20, 24), 3), last, version, kind)
    policy = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "1"}
    assert run_all(Cleaning(), context(tmp_path, options=policy)).num_files
    after, working = read(tmp_path), context(tmp_path)
    with pytest.raises(HistoryCleanedError, match="so its rows would be lost"):
        rollback(working, times(working.timeline())[-1])
    assert read(tmp_path) == after


@pytest.mark.parametrize(("version", "kind"), [(9, "cow"), (6, "mor")])
def test_newer_ones_stay_where_one_of_them_cannot_be_undone(tmp_path, version, kind):
    storage = LocalStorage(str(tmp_path))
    for step in range(4):
        write(storage, rows(range(4 * step, 4 * step + 4), step), "insert", version, kind)
    working = context(tmp_path)
    first, second, *_ = times(working.timeline())
    for path in data_files(tmp_path):
        if path.endswith(f"_{first}.parquet"):
            storage.delete(path)
    after = read(tmp_path)
    with pytest.raises(HistoryCleanedError, match=f"roll back the .* {second} of"):
        rollback(working, second, with_newer=True)
    assert read(tmp_path) == after
    assert len(times(working.timeline())) == 4


def test_failed_writes_go_first(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    before = read(tmp_path)
    dead = "20200101000000000"
    for name in (f"{dead}.commit.requested", f"{dead}.inflight"):
        working.storage.put(f".hoodie/timeline/{name}", b"")
    working.storage.put(f"a/f-0_0-1-0_{dead}.parquet", b"x")
    options = {"hoodie.client.heartbeat.interval_in_ms": "1", "hoodie.client.heartbeat.tolerable.misses": "1"}
    report = rollback(context(tmp_path, options=options), dead)
    assert (report.rolled_back, report.num_files_deleted) == ((dead,), 1)
    assert read(tmp_path) == before


def test_of_several_writers_the_living_ones_are_left_alone_by_a_recovery_and_refused_by_a_restore(tmp_path):
    make_table(tmp_path, 9, "cow")
    savepoint = create_savepoint(context(tmp_path)).instant
    write(LocalStorage(str(tmp_path)), rows(range(3), 3), "upsert", 9, "cow")
    options = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    }
    session = context(tmp_path, options=options).session

    def begun() -> WriteTransaction:
        return WriteTransaction.begin(session, action=Action.COMMIT, operation="UPSERT")

    dead, living = begun(), begun()
    dead.rest()  # its process is not at work on it any more
    with living:
        recover_failed_writes(session)
        assert [instant.time for instant in session.timeline().pending] == [living.instant]
        with pytest.raises(ConflictError, match=f"{living.instant} .* is under way"):
            restore(context(tmp_path, options=options), savepoint)


def test_reports_pickle_and_are_json(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    report = rollback(working, times(working.timeline())[-1])
    assert pickle.loads(pickle.dumps(report)) == report
    assert report.to_dict()["service"] == "rollback"


@pytest.mark.filterwarnings("ignore:Dropped the metadata table")
@pytest.mark.parametrize(
    "name",
    [
        "v6_cow_cdc_before",
        "v6_cow_ops",
        "v6_mor_compaction",
        "v6_mor_logcompaction",
        "v6_mor_many_logs",
        "v6_mor_ops",
        "v8_cow_cleaning",
        "v8_mor_many_logs",
        "v8_mor_overwrite_table",
        "v9_cow_cdc_before_after",
        "v9_cow_clustering",
        "v9_cow_overwrite",
        "v9_mor_bucket_logs_only",
        "v9_mor_upgraded_from_6",
    ],
)
@pytest.mark.sampled(6)
def test_what_apache_hudi_wrote_is_undone_to_what_it_was(golden_copy, name):
    """The rows after a rollback are those that time travel found before it; nothing of the instant is left."""
    root = golden_copy(name)
    working = context(root)
    wanted = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"]

    def found(as_of: str | None) -> list[dict[str, object]]:
        table = hudi_py.open_table(str(root), {"hoodie.metadata.enable": "false"})
        rows = table.scan(columns=wanted, as_of=as_of).to_table()
        return rows.sort_by([(column, "ascending") for column in wanted]).to_pylist()

    commits = times(working.timeline())
    steps: list[tuple[str, list[dict[str, object]]]] = []
    for before, last in reversed([*itertools.pairwise(commits)]):
        try:
            steps.append((last, found(before)))
        except HistoryCleanedError:
            break
    assert steps
    for last, rows_before in steps:
        try:
            report = rollback(working, last)
        except HistoryCleanedError:
            assert any(i.action is Action.CLEAN for i in working.timeline().instants)
            break
        assert report.rolled_back == (last,)
        assert found(None) == rows_before, last
        assert {path for path in data_files(root) if f"_{last}" in path} == set()


@pytest.mark.filterwarnings("ignore:Dropped the metadata table")
def test_logs_of_several_commits_from_before_an_upgrade_are_refused(golden_copy):
    """Appended to, as on HDFS: without the other commit's rows the log cannot go."""
    root = golden_copy("v9_mor_upgraded_from_6")
    first, second = sorted((root / "city=pune").glob(".*_20261121020406036.log.*"))
    second.write_bytes(first.read_bytes() + second.read_bytes())
    working = context(root)
    before = times(working.timeline())
    create_savepoint(working, before[1])
    for undo in (lambda: rollback(working, before[2], with_newer=True), lambda: restore(working)):
        with pytest.raises(
            UnsupportedTableError, match="before the table was upgraded, it wrote to .*, as did other commits"
        ):
            undo()
        assert times(working.timeline()) == before
        assert not working.timeline().pending
