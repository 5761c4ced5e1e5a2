"""Savepoints: which files they keep, and which commits they are refused for."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import hudi_py
from hudi_py.errors import ConfigError, HistoryCleanedError
from hudi_py.model.instant import Action
from hudi_py.services.archive import archive
from hudi_py.services.archive.service import archive_commits
from hudi_py.services.compaction import Compaction
from hudi_py.services.recovery.savepoint import create_savepoint, delete_savepoint, list_savepoints
from hudi_py.storage import LocalStorage
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.clean_records import (
    CleanedPartition,
    CleanMetadata,
    CleanPlan,
    RetainedInstant,
    encode_clean_metadata,
    encode_clean_plan,
)
from tests.faults.tables import KINDS, data_files, make_table, read, rows, write
from tests.support.archiving import archiving
from tests.unit.services.recovering import context, of_action, times

IDS = [f"v{version}-{kind}" for version, kind in KINDS]


def kept(found) -> set[str]:
    return {f"{partition}/{name}" for partition, names in found.files.items() for name in names}


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=IDS)
def test_what_a_reader_of_the_commit_needs_is_kept(tmp_path, version, kind):
    make_table(tmp_path, version, kind)
    working = context(tmp_path)
    first, second = times(working.timeline())
    at_first = {path for path in data_files(tmp_path) if first in path and ".log." not in path}
    write(working.storage, rows(range(20, 24), 3), "insert", version, kind)
    report = create_savepoint(working, second, user="ann", comment="before the load")
    assert (report.instant, report.num_partitions) == (second, 2)
    (found,) = list_savepoints(working)
    assert (found.instant, found.user, found.comment) == (second, "ann", "before the load")
    assert sum(map(len, found.files.values())) == report.num_files
    newest = working.timeline().write_completed[-1].time
    assert kept(found) == {
        path for path in data_files(tmp_path) if newest not in path and not (kind == "cow" and first in path)
    }
    timeline = working.timeline()
    (instant,) = of_action(timeline, Action.SAVEPOINT)
    assert report.completion_time == (instant.completion_time if version >= 8 else None)
    assert working.storage.read(timeline.layout.path(f"{second}.savepoint.inflight")) == b""

    create_savepoint(working, first)
    assert kept(list_savepoints(working)[0]) == at_first | (
        # version 6 keeps the logs of a slice whole: which blocks count is told by their instants
        {path for path in kept(found) if ".log." in path} if (version, kind) == (6, "mor") else set()
    )


def test_without_an_instant_the_latest_commit_is_kept_and_only_once(tmp_path):
    make_table(tmp_path, 9, "mor")
    working = context(tmp_path)
    report = create_savepoint(working)
    assert report.instant == times(working.timeline())[-1]
    again = create_savepoint(working, report.instant)
    assert (again.instant, again.reason) == (None, f"the commit {report.instant} already has a savepoint")
    assert len(list_savepoints(working)) == 1
    assert pickle.loads(pickle.dumps(report)) == report


def test_one_that_broke_off_is_made_anew(tmp_path):
    make_table(tmp_path, 9, "mor")
    working = context(tmp_path)
    last = times(working.timeline())[-1]
    working.storage.put(f".hoodie/timeline/{last}.savepoint.inflight", b"")
    assert list_savepoints(working) == []
    assert create_savepoint(working).instant == last
    assert [found.instant for found in list_savepoints(working)] == [last]


@pytest.mark.parametrize("version", [6, 9])
def test_deleting_removes_its_files(tmp_path, version):
    make_table(tmp_path, version, "cow")
    working = context(tmp_path)
    report = create_savepoint(working)
    there = {info.path for info in working.storage.walk(".hoodie")}
    gone = delete_savepoint(working, report.instant)
    assert (gone.instant, gone.num_files) == (report.instant, report.num_files)
    assert list_savepoints(working) == []
    removed = there - {info.path for info in working.storage.walk(".hoodie")}
    assert sorted(path.rpartition(".savepoint")[2] for path in removed) == ["", ".inflight"]
    again = delete_savepoint(working, report.instant)
    assert (again.instant, again.reason) == (
        None,
        f"there is no savepoint of {report.instant}; savepoints: none",
    )


BEYOND = archiving(min_commits=1, max_commits=2, cleaner_policy="KEEP_LATEST_FILE_VERSIONS", beyond_savepoint=True)


@pytest.mark.parametrize("version", [6, 9])
def test_no_row_is_lost_from_sight_where_commits_after_savepoints_are_archived(tmp_path, version):
    """Older than the first commit without a savepoint counts as archived: there is one, and savepoints come and go."""
    for at in range(5):
        write(LocalStorage(str(tmp_path)), rows(range(4 * at, 4 * at + 4), at), "bulk_insert", version, "cow")
    working = context(tmp_path)
    commits = times(working.timeline())
    before = read(tmp_path)
    for saved in (commits[0], commits[2], commits[3]):
        create_savepoint(working, saved)
    assert archive(replace(working, options=BEYOND)).num_instants == 1  # the last one stays, though enough others do
    assert read(tmp_path) == before
    create_savepoint(working, commits[4])
    assert archive(replace(working, options=BEYOND)).num_instants == 0
    assert read(tmp_path) == before  # now all have savepoints
    delete_savepoint(working, commits[0])
    assert read(tmp_path) == before
    assert times(working.timeline()) == commits[2:]  # archived, as the one after it was before
    delete_savepoint(working, commits[4])
    assert times(working.timeline()) == commits[2:]  # nothing after it is archived
    write(working.storage, rows(range(20, 24), 9), "bulk_insert", version, "cow")
    assert len(read(tmp_path)) == len(before) + 4
    assert len(archived_instants(working.storage, working.config())) == 2


def test_an_unfinished_one_is_deleted_too(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    last = times(working.timeline())[-1]
    working.storage.put(f".hoodie/timeline/{last}.savepoint.inflight", b"")
    assert delete_savepoint(working, last).instant == last
    assert of_action(working.timeline(), Action.SAVEPOINT) == []


@pytest.mark.parametrize("version", [6, 9])
def test_while_a_compaction_is_pending_both_slices_are_kept(tmp_path, version):
    make_table(tmp_path, version, "mor")
    working = context(tmp_path)
    scheduled = Compaction(always=True).schedule(working).instant
    write(working.storage, rows(range(3), 3), "upsert", version, "mor")
    create_savepoint(working)
    (found,) = list_savepoints(working)
    assert kept(found) == data_files(tmp_path)
    assert scheduled is not None


def test_a_table_without_commits_has_none(tmp_path):
    hudi_py.create_table(str(tmp_path), rows(range(1), 1).schema, record_key="id")
    with pytest.raises(ConfigError, match="its active timeline has no completed commit"):
        create_savepoint(context(tmp_path))
    assert list_savepoints(context(tmp_path)) == []


def test_only_completed_commits(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    with pytest.raises(ConfigError, match="no completed commit with this requested time; the latest commits: 2"):
        create_savepoint(working, "20200101000000000")


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("version", [6, 9])
def test_what_a_clean_did_not_retain_is_refused(tmp_path, version, pending):
    make_table(tmp_path, version, "cow")
    working = context(tmp_path)
    first, second = times(working.timeline())
    clean = working.session.clock.next_instant(working.timeline())
    name = working.timeline().layout.path(f"{clean}.clean.requested")
    plan = CleanPlan("KEEP_LATEST_COMMITS", RetainedInstant(second, "commit"), second)
    working.storage.put(name, encode_clean_plan(plan))
    if not pending:
        done = encode_clean_metadata(CleanMetadata(clean, 1, second, second))
        completed = working.timeline().layout.completed_name(clean, Action.CLEAN, clean[:-1] + "9")
        working.storage.put(working.timeline().layout.path(completed), done)
    with pytest.raises(HistoryCleanedError, match=f"the clean {clean} keeps files only from {second} on"):
        create_savepoint(working, first)
    assert create_savepoint(working, second).num_files == 2


@pytest.mark.parametrize("pending", [False, True])
def test_a_clean_that_counts_versions_may_have_taken_files_of_any_commit(tmp_path, pending):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    first, second = times(working.timeline())
    old = {path for path in data_files(tmp_path) if first in path}
    parts = {path.partition("/")[0]: (path.rpartition("/")[2],) for path in old}
    clean = working.session.clock.next_instant(working.timeline())
    if pending:
        files = {partition: (f"/elsewhere/{partition}/{name}",) for partition, (name,) in parts.items()}
        plan = CleanPlan("KEEP_LATEST_FILE_VERSIONS", None, second, files)
        working.storage.put(f".hoodie/timeline/{clean}.clean.requested", encode_clean_plan(plan))
    else:
        policy = "KEEP_LATEST_FILE_VERSIONS"
        cleaned = tuple(CleanedPartition(partition, policy, names, names) for partition, names in parts.items())
        done = encode_clean_metadata(CleanMetadata(clean, 1, "", second, cleaned))
        working.storage.put(f".hoodie/timeline/{clean}_{clean[:-1]}9.clean", done)
        for path in old:
            working.storage.delete(path)
    with pytest.raises(HistoryCleanedError, match="its file [ab]/.* has been cleaned or is about to be"):
        create_savepoint(working, first)
    assert create_savepoint(working, second).num_files == 2


def test_an_archived_clean_may_have_taken_files_of_any_commit(tmp_path):
    """Layout 1 archives cleans by their own number; commits before them may be active still."""
    storage = LocalStorage(str(tmp_path))
    write(storage, rows(range(8), 1), "insert", 6, "cow")
    write(storage, rows(range(100, 104), 2).filter([False] * 4), "insert", 6, "cow")
    write(storage, rows(range(8), 3), "upsert", 6, "cow")
    working = context(tmp_path)
    before = times(working.timeline())[1]
    options = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    assert hudi_py.open_table(str(tmp_path)).clean(options=options).num_files == 2
    state = working.state()
    archive_commits(working, state, of_action(state.timeline, Action.CLEAN))
    assert of_action(working.timeline(), Action.CLEAN) == []
    with pytest.raises(HistoryCleanedError, match="its file [ab]/.* has been cleaned"):
        create_savepoint(working, before)


def test_slices_without_base_file_are_looked_for_too(tmp_path):
    make_table(tmp_path, 9, "cow")
    working = context(tmp_path)
    first, second = times(working.timeline())
    # as if the group of a partition that the second commit has not written to had begun with a log file
    write(working.storage, rows(range(4), 3), "upsert", 9, "cow")
    partition, name = "a", f".f9_{first}.log.1_0-1-0"
    clean = working.session.clock.next_instant(working.timeline())
    part = CleanedPartition(partition, "KEEP_LATEST_FILE_VERSIONS", (name,), (name,))
    done = encode_clean_metadata(CleanMetadata(clean, 1, "", second, (part,)))
    working.storage.put(f".hoodie/timeline/{clean}_{clean[:-1]}9.clean", done)
    with pytest.raises(HistoryCleanedError, match=r"its file a/\.f9_.*\.log\.1_0-1-0 has been cleaned"):
        create_savepoint(working, second)


def test_those_of_apache_hudi_are_listed(golden_copy):
    root = golden_copy("v9_mor_savepoint_restore")
    (found,) = list_savepoints(context(root, LocalStorage(str(root))))
    assert (found.instant, found.user, found.comment) == ("20261121015057469", "golden", "before the bad load")


def test_the_table_reads_as_before(tmp_path):
    make_table(tmp_path, 9, "mor")
    before = read(tmp_path)
    create_savepoint(context(tmp_path))
    assert read(tmp_path) == before


@pytest.mark.parametrize("given", [{"user": True}, {"comment": 3}])
def test_what_is_no_text_is_refused_before_anything_is_written(tmp_path, given):
    path = str(tmp_path / "t")
    hudi_py.write(path, [{"id": "a"}], record_key="id")
    table = hudi_py.open_table(path)
    (name,) = given
    with pytest.raises(ConfigError, match=f"^Cannot run the service savepoint with {name} = .* expected text"):
        table.savepoint(**given)
    assert table.instants()["action"].to_pylist() == ["commit"]
