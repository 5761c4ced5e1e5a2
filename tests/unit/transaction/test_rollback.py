"""Rolling back failed writes: Apache Hudi's and our own, by markers and by listing, killed half way."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from hudi_py.errors import ConfigError
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, read_blocks
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, State
from hudi_py.storage import LocalStorage, MemoryStorage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import (
    RollbackPlan,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_commit_metadata,
    encode_rollback_plan,
)
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.recovery.rollback import is_rolled_back
from tests.support import sessions
from tests.support.hand_writes import (
    SETTINGS,
    begin,
    commit,
    data_files,
    fast_clock,
    first_write,
    leftovers,
    new_table,
    snapshot,
    write_base,
    write_update,
)
from tests.support.sessions import roll_back, session_of


def recover(storage, config):
    return sessions.recover(storage, settings=SETTINGS, clock=fast_clock(config))


def rollbacks(storage, config):
    return [i for i in load_timeline(storage, config).instants if i.action is Action.ROLLBACK]


def write_java_log(storage, path: str, instant: str) -> None:
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: "{}"}
    storage.put(path, encode_block(BlockType.DELETE, header, b"\0\0\0\3\0\0\0\1\0"))


@pytest.mark.parametrize("name", ["v6_mor_inflight", "v9_mor_inflight"])
def test_apache_hudis_failed_delta_commit_without_markers(golden_copy, name):
    """The marker folder is gone, so what the instant wrote is found by listing; version 6 looks into the logs."""
    storage = LocalStorage(str(golden_copy(name)))
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    (failed,) = PendingPlans(storage, timeline).writes
    before = data_files(storage)
    written = {path for path in before if failed.time in path}
    assert written
    with pytest.warns(UserWarning, match="metadata table") if config.metadata_partitions else nullcontext():
        after = recover(storage, config)
    assert PendingPlans(storage, after).writes == []
    assert is_rolled_back(storage, after, failed.time)
    added = data_files(storage) - before
    assert before - data_files(storage) == written
    if config.version >= 8:
        assert added == set()
        return
    for path in added:
        assert path.endswith("_1-0-1")
        (block,) = read_blocks(storage, path, storage.stat(path).size)
        assert block.is_rollback
        assert block.header[HeaderKey.TARGET_INSTANT_TIME] == failed.time


def test_a_rollback_on_the_timeline_is_as_apache_hudis(storage):
    config = new_table(storage, 9, mor=True)
    first_write(storage, config)
    tx = begin(storage, config)
    paths = [stat.path for stat in (*write_update(tx, ["a"]), write_base(tx, "b", "g"))]
    tx.abort()
    (rollback,) = rollbacks(storage, config)
    layout = load_timeline(storage, config).layout
    plan = decode_rollback_plan(storage.read(f".hoodie/timeline/{rollback.time}.rollback.requested"))
    assert (plan.instant, plan.action) == (tx.instant, "deltacommit")
    assert sorted(path for request in plan.requests for path in request.files_to_delete) == sorted(
        f"{storage.uri}/{path}" for path in paths
    )
    assert {(request.file_id, request.latest_base_instant) for request in plan.requests} == {("", "")}
    assert storage.read(f".hoodie/timeline/{rollback.time}.rollback.inflight") == b""
    metadata = decode_rollback_metadata(storage.read(layout.path(rollback.file_name)))
    assert (metadata.start_time, metadata.instant, metadata.action) == (rollback.time, tx.instant, "deltacommit")
    assert {part.partition_path: len(part.deleted) for part in metadata.partitions} == {"a": 1, "b": 1}


def test_version_6_appends_rollback_blocks_in_new_logs(storage):
    config = new_table(storage, 6, mor=True)
    base = first_write(storage, config).instant
    tx = begin(storage, config)
    (stat,) = write_update(tx, ["a"])
    new = write_base(tx, "b", "g")
    tx.abort()
    files = data_files(storage)
    assert stat.path in files
    assert new.path not in files
    added = f"a/.f-a_{base}.log.2_1-0-1"
    (block,) = read_blocks(storage, added, storage.stat(added).size)
    (rollback,) = rollbacks(storage, config)
    assert dict(block.header) == {
        HeaderKey.INSTANT_TIME: rollback.time,
        HeaderKey.TARGET_INSTANT_TIME: tx.instant,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    layout = load_timeline(storage, config).layout
    metadata = decode_rollback_metadata(storage.read(layout.path(rollback.file_name)))
    (part,) = [part for part in metadata.partitions if part.partition_path == "a"]
    assert dict(part.failed_logs) == {f"{storage.uri}/{stat.path}": stat.file_size}
    assert dict(part.rollback_logs) == {f"{storage.uri}/{added}": storage.stat(added).size}
    with begin(storage, config) as again:
        (next_log,) = write_update(again, ["a"])
        assert ".log.3_" in next_log.path
        commit(again, [next_log])


def test_an_append_marker_of_old_releases_names_the_base_file(storage):
    config = new_table(storage, 6, mor=True)
    base = first_write(storage, config).instant
    failed = "20200101000000000"
    for suffix in ("requested", "inflight"):
        storage.put(f".hoodie/{failed}.deltacommit.{suffix}", b"")
    write_java_log(storage, f"a/.f-a_{base}.log.1_0-9-9", failed)
    storage.touch(f".hoodie/.temp/{failed}/a/f-a_0-1-0_{base}.parquet.marker.APPEND")
    for info in [*storage.walk(".hoodie")]:
        storage.set_modified(info.path, 0)
    recover(storage, config)
    assert storage.stat(f"a/.f-a_{base}.log.2_1-0-1") is not None
    assert storage.stat(f"a/f-a_0-1-0_{base}.parquet") is not None


def test_a_requested_instant_has_written_nothing(storage):
    config = new_table(storage)
    storage.put(".hoodie/timeline/20200101000000000.commit.requested", b"")
    storage.set_modified(".hoodie/timeline/20200101000000000.commit.requested", 0)
    recover(storage, config)
    (rollback,) = rollbacks(storage, config)
    plan = decode_rollback_plan(storage.read(f".hoodie/timeline/{rollback.time}.rollback.requested"))
    assert plan.requests == ()
    assert load_timeline(storage, config).find("20200101000000000") is None


def test_a_killed_rollback_of_apache_hudi_is_finished_by_its_plan_after_the_table_moved(storage):
    """The plan holds absolute paths of where the table once was."""
    config = new_table(storage)
    tx = begin(storage, config)
    stat = write_base(tx, "a", "f")
    tx.abort()
    (rollback,) = rollbacks(storage, config)
    request = f".hoodie/timeline/{rollback.time}.rollback.requested"
    plan = storage.read(request)

    other = MemoryStorage(storage.name + " moved")
    config = new_table(other)
    other.put(request, plan)
    other.put(stat.path, b"x")
    other.put(f".hoodie/timeline/{tx.instant}.commit.requested", b"")
    other.put(f".hoodie/timeline/{tx.instant}.inflight", b"")
    recover(other, config)
    assert data_files(other) == set()
    assert [i.completed for i in rollbacks(other, config)] == [True]
    assert len(load_timeline(other, config).instants) == 1


def test_a_rollback_whose_plan_was_never_written_is_dropped(storage):
    config = new_table(storage)
    first_write(storage, config)
    storage.put(".hoodie/timeline/20200101000000000.rollback.requested", b"")
    recover(storage, config)
    assert rollbacks(storage, config) == []


def test_a_young_pending_rollback_of_a_table_service_is_left_alone(storage):
    """Apache Hudi may be at it."""
    config = new_table(storage, 9, mor=True)
    first_write(storage, config)
    compaction, rollback = "20200101000000000", "20200101000000001"
    storage.put(f".hoodie/timeline/{compaction}.compaction.requested", b"")
    storage.put(f".hoodie/timeline/{compaction}.compaction.inflight", b"")
    plan = encode_rollback_plan(RollbackPlan(compaction, "compaction"))
    storage.put(f".hoodie/timeline/{rollback}.rollback.requested", plan)
    with begin(storage, config) as tx:
        commit(tx, [])
    assert [i.completed for i in rollbacks(storage, config)] == [False]
    storage.set_modified(f".hoodie/timeline/{rollback}.rollback.requested", 0)
    recover(storage, config)
    assert [i.completed for i in rollbacks(storage, config)] == [True]
    assert load_timeline(storage, config).find(compaction).state is State.REQUESTED


def test_a_rollback_of_an_attempt_does_not_undo_the_next_one(storage):
    """A compaction was rolled back by a process that died, and run anew since: that stands."""
    config = new_table(storage, 9, mor=True)
    first_write(storage, config)
    compaction, rollback = load_timeline(storage, config).instants[-1].time[:-3] + "999", "20991231235959999"
    for name in (f"{compaction}.compaction.requested", f"{compaction}.compaction.inflight"):
        storage.put(f".hoodie/timeline/{name}", b"")
    done = f".hoodie/timeline/{compaction}_{compaction}.commit"
    storage.put(
        done,
        encode_commit_metadata(CommitMetadata("COMPACT"), layout_for(config), action=Action.COMMIT, completed=True),
    )
    plan = encode_rollback_plan(RollbackPlan(compaction, "compaction"))
    storage.put(f".hoodie/timeline/{rollback}.rollback.requested", plan)
    storage.set_modified(f".hoodie/timeline/{rollback}.rollback.requested", 0)
    recover(storage, config)
    assert rollbacks(storage, config) == []
    assert storage.stat(done) is not None


def test_several_failed_writes_go_newest_first(storage):
    config = new_table(storage)
    first_write(storage, config)
    before = snapshot(storage, config)
    times = ["20200101000000000", "20200101000000001"]
    for time_ in times:
        storage.put(f".hoodie/timeline/{time_}.commit.requested", b"")
        storage.put(f".hoodie/timeline/{time_}.inflight", b"")
        storage.put(f"a/g_0-1-0_{time_}.parquet", b"x")
        storage.put(f".hoodie/.temp/{time_}/a/g_0-1-0_{time_}.parquet.marker.CREATE", b"")
    for info in storage.walk(".hoodie"):
        storage.set_modified(info.path, 0)
    recover(storage, config)
    assert snapshot(storage, config) == before
    assert len(data_files(storage)) == 2
    order = [
        decode_rollback_plan(storage.read(f".hoodie/timeline/{i.time}.rollback.requested")).instant
        for i in rollbacks(storage, config)
    ]
    assert order == times[::-1]
    assert leftovers(storage) == set()


def test_the_metadata_table_goes_when_it_knows_the_failed_write(storage):
    config = new_table(storage)
    tx = begin(storage, config)
    write_base(tx, "a", "f")
    update_table_config(storage, {"hoodie.table.metadata.partitions": "files"})
    mdt = f".hoodie/metadata/.hoodie/timeline/{tx.instant}_{tx.instant}.deltacommit"
    storage.put(mdt, b"x")
    with pytest.warns(UserWarning, match="Dropped the metadata table"):
        tx.abort()
    assert storage.stat(".hoodie/metadata") is None
    assert load_table_config(storage).metadata_partitions == ()


def test_the_metadata_table_stays_when_it_knows_nothing_of_it(storage):
    config = new_table(storage)
    tx = begin(storage, config)
    write_base(tx, "a", "f")
    update_table_config(storage, {"hoodie.table.metadata.partitions": "files"})
    storage.put(".hoodie/metadata/.hoodie/timeline/20200101000000000_20200101000000001.deltacommit", b"x")
    tx.abort()
    assert load_table_config(storage).metadata_partitions == ("files",)


def test_a_rollback_that_would_drop_an_index_is_refused_before_anything_changes(storage):
    config = new_table(storage)
    tx = begin(storage, config)
    stat = write_base(tx, "a", "f")
    update_table_config(storage, {"hoodie.table.metadata.partitions": "files,record_index"})
    storage.put(f".hoodie/metadata/.hoodie/timeline/{tx.instant}_{tx.instant}.deltacommit", b"x")
    with pytest.raises(ConfigError, match="record_index"):
        tx.abort()
    assert storage.stat(stat.path) is not None
    (pending,) = load_timeline(storage, config).pending
    assert (pending.time, pending.action) == (tx.instant, Action.COMMIT)


def test_a_rollback_is_the_same_when_it_is_repeated(storage):
    config = new_table(storage, 6, mor=True)
    first_write(storage, config)
    tx = begin(storage, config)
    write_update(tx)
    (failed,) = PendingPlans(storage, load_timeline(storage, config)).writes
    names = [f".hoodie/{tx.instant}.deltacommit.{state}" for state in ("requested", "inflight")]
    contents = {name: storage.read(name) for name in names}
    roll_back(session_of(storage, clock=fast_clock(config)), failed)
    files = data_files(storage)
    (done,) = rollbacks(storage, config)
    storage.delete(f".hoodie/{done.time}.rollback")  # killed before it completed
    for name, content in contents.items():
        storage.put(name, content)
    assert roll_back(session_of(storage, clock=fast_clock(config)), failed) == done.time
    assert data_files(storage) == files
