"""The write protocol: who may write, what is published, what never is."""

from __future__ import annotations

import io
import pickle
import threading
import time
from dataclasses import replace

import fastavro
import pytest

from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, RolledBackError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, InstantTime
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.metadata import decode_commit_metadata, encode_commit_metadata
from hudi_py.timeline.properties import update_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.write import recovery
from hudi_py.write.identity import WRITER_KEY, ProcessIdentity, WriterIdentity, end_work, parse_writer
from hudi_py.write.settings import TransactionSettings
from hudi_py.write.transaction import WriteTransaction
from tests.support.hand_writes import (
    IMPATIENT,
    SCHEMA,
    SETTINGS,
    begin,
    commit,
    data_files,
    fast_clock,
    first_write,
    leftovers,
    new_table,
    snapshot,
    update,
    write_action,
    write_base,
    write_log,
    write_update,
)

VERSIONS = [(version, mor) for version in (6, 8, 9) for mor in (False, True)]
DEAD = ProcessIdentity("elsewhere", "long ago", 1, "1")


@pytest.fixture
def storage(request) -> MemoryStorage:
    return MemoryStorage(request.node.nodeid)


def plan(storage, config, **changes):
    arguments = {
        "action": write_action(config),
        "operation": "UPSERT",
        "settings": SETTINGS,
        "clock": fast_clock(config),
        **changes,
    }
    return WriteTransaction.plan(storage, config, **arguments)


def attach(handle, storage):
    return WriteTransaction.attach(handle, storage=storage, clock=fast_clock(handle.config))


@pytest.mark.parametrize(("version", "mor"), VERSIONS)
def test_a_write_is_seen_when_it_is_committed_and_leaves_nothing_else(storage, version, mor):
    config = new_table(storage, version, mor=mor)
    first = first_write(storage, config)
    before = snapshot(storage, config)
    assert {partition: len(slices) for partition, slices in before.items()} == {"a": 1, "b": 1}
    with begin(storage, config) as tx:
        stats = write_update(tx)
        assert snapshot(storage, config) == before
        result = commit(tx, stats, extra={"who": "me"})
    assert result.instant > first.instant
    after = snapshot(storage, config)
    assert after != before
    assert leftovers(storage) == set()
    timeline = load_timeline(storage, config)
    last = timeline.last_completed
    assert last is not None
    assert (last.time, last.action) == (result.instant, write_action(config))
    if version >= 8:
        assert result.completion_time == last.completion_time
        assert result.completion_time > result.instant
        assert first.completion_time < result.completion_time
    else:
        assert result.completion_time is None
    metadata = decode_commit_metadata(storage.read(timeline.layout.path(last.file_name)))
    assert metadata.operation == "UPSERT"
    assert metadata.extra == {"schema": SCHEMA, "who": "me"}
    assert {stat.path for stat in metadata.stats} == {stat.path for stat in stats}


def test_state_files_are_named_and_filled_as_apache_hudi_does(storage):
    config = new_table(storage, 6)
    with begin(storage, config) as tx:
        time_ = tx.instant
        assert storage.read(f".hoodie/{time_}.commit.requested") == b""
        inflight = decode_commit_metadata(storage.read(f".hoodie/{time_}.inflight"))
        writer = parse_writer(inflight.extra[WRITER_KEY])
        assert writer == tx.handle.writer
        assert storage.read(f".hoodie/.heartbeat/{time_}") == b""
        permit = tx.publication.permit_base_file("a/b", "f", "0-1-0", merges=True)
        assert permit.path == f"a/b/f_0-1-0_{time_}.parquet"
        assert permit.marker_path == f".hoodie/.temp/{time_}/a/b/f_0-1-0_{time_}.parquet.marker.MERGE"
        assert not permit.temp_path.startswith(".hoodie/.temp")
        metafile = storage.read("a/b/.hoodie_partition_metadata").decode()
        assert f"commitTime={time_}\n" in metafile
        assert "partitionDepth=2\n" in metafile
        commit(tx, [])
    assert storage.read(f".hoodie/{time_}.commit").startswith(b"{")


def test_a_replacecommit_has_its_plan_and_replaces_at_the_end(storage):
    config = new_table(storage, 9)
    first_write(storage, config)
    before = snapshot(storage, config)
    with begin(storage, config, action=Action.REPLACE_COMMIT, operation="INSERT_OVERWRITE_TABLE") as tx:
        requested = storage.read(f".hoodie/timeline/{tx.instant}.replacecommit.requested")
        assert requested.startswith(b"Obj\x01")
        stats = [write_base(tx, "c", "new")]
        assert snapshot(storage, config) == before
        commit(tx, stats, replaced={"a": ["f-a"], "b": ["f-b"]})
    assert set(snapshot(storage, config)) == {"c"}
    assert len(data_files(storage)) == 3


def test_log_markers_and_names(storage):
    for version, marker, name in (
        (6, "APPEND", ".f_20200101000000000.log.3_0-1-0"),
        (9, "CREATE", ".f_{}.log.1_0-1-0"),
    ):
        place = MemoryStorage(f"{storage.name}{version}")
        config = new_table(place, version, mor=True)
        with begin(place, config) as tx:
            stat = write_log(tx, "a", "f", base_instant="20200101000000000", version=3 if version == 6 else 1)
            assert stat.path == "a/" + name.format(tx.instant)
            assert place.stat(f".hoodie/.temp/{tx.instant}/{stat.path}.marker.{marker}") is not None
            if version == 6:
                with pytest.raises(ConfigError, match="base instant"):
                    tx.publication.permit_log_file("a", "g", "0-1-0")
            tx.abort()


def test_attempts_that_did_not_report_are_removed_and_late_ones_fail(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        good = write_base(tx, "a", "f", token="0-1-1")
        write_base(tx, "a", "f", token="0-1-0")  # published, not reported
        late = tx.publication.permit_base_file("a", "f", "0-1-2", merges=False)
        with storage.open_output(late.temp_path) as out:
            out.write(b"late")
        commit(tx, [good])
    assert data_files(storage) == {good.path}
    with pytest.raises(RolledBackError, match="permit"):
        tx.publication.publish(late)
    with storage.open_output(late.temp_path) as out:  # it writes on, and even makes its permit anew
        out.write(b"late")
    storage.touch(late.marker_path)
    with pytest.raises(RolledBackError):
        tx.publication.publish(late)
    with pytest.raises(RolledBackError):
        tx.publication.permit_base_file("a", "g", "0-1-3", merges=False)
    assert data_files(storage) == {good.path}


def test_a_rename_after_the_last_check_fails_once_the_write_is_over(storage):
    """The attempt was past its checks when the commit removed what it would have moved."""
    config = new_table(storage)
    with begin(storage, config) as tx:
        good = write_base(tx, "a", "f")
        late = tx.publication.permit_base_file("a", "f", "0-1-2", merges=False)
        with storage.open_output(late.temp_path) as out:
            out.write(b"late")
        commit(tx, [good])
    with pytest.raises(FileNotFoundError):
        storage.rename(late.temp_path, late.path)


def test_discard_gives_everything_back(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        permit = tx.publication.permit_base_file("a", "f", "0-1-0", merges=False)
        storage.put(permit.temp_path, b"x")
        tx.publication.discard(permit)
        tx.publication.discard(permit)
        with pytest.raises(RolledBackError, match="permit"):
            tx.publication.publish(permit)
        commit(tx, [])
    assert data_files(storage) == set()


def test_a_file_that_is_not_as_reported_is_not_published(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        with pytest.raises(CorruptFileError, match="bytes"):
            commit(tx, [replace(stat, file_size=stat.file_size + 1)])
        tx.abort()
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        storage.delete(stat.path)
        with pytest.raises(RolledBackError, match=stat.path):
            commit(tx, [stat])
        tx.abort()
    assert load_timeline(storage, config).write_completed == ()
    assert leftovers(storage) == set()


@pytest.mark.parametrize(("version", "mor"), VERSIONS)
def test_an_error_inside_the_block_rolls_back(storage, version, mor):
    config = new_table(storage, version, mor=mor)
    first_write(storage, config)
    before, files = snapshot(storage, config), data_files(storage)
    with pytest.raises(KeyError), begin(storage, config) as tx:
        raise KeyError(write_update(tx))
    assert snapshot(storage, config) == before
    rollback_logs = {path for path in data_files(storage) if path.endswith("_1-0-1")}
    if version == 6 and mor:
        assert len(rollback_logs) == 2
        assert files < data_files(storage) - rollback_logs
    else:
        assert data_files(storage) == files
    assert leftovers(storage) == set()
    actions = [instant.action for instant in load_timeline(storage, config).instants]
    assert actions == [write_action(config), Action.ROLLBACK]
    update(storage, config)
    assert snapshot(storage, config) != before


def test_commit_and_abort_are_idempotent_and_commit_wins(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        stats = [write_base(tx, "a", "f")]
        first = commit(tx, stats)
        again = commit(attach(tx.handle, storage), stats)
        assert (again.instant, again.completion_time) == (first.instant, first.completion_time)
        tx.abort()
        attach(tx.handle, storage).abort()
    assert data_files(storage) == {stats[0].path}
    assert leftovers(storage) == set()
    assert len(load_timeline(storage, config).instants) == 1


def test_nothing_is_published_after_abort(storage):
    config = new_table(storage)
    tx = begin(storage, config)
    stats = [write_base(tx, "a", "f")]
    tx.abort()
    tx.abort()
    assert data_files(storage) == set()
    with pytest.raises(RolledBackError):
        commit(attach(tx.handle, storage), stats)
    with pytest.raises(RolledBackError):
        attach(tx.handle, storage).start()
    with pytest.raises(RolledBackError):
        write_base(tx, "a", "g")
    assert [i.action for i in load_timeline(storage, config).instants] == [Action.ROLLBACK]
    assert leftovers(storage) == set()


def test_a_write_that_was_aborted_before_it_began_is_not_begun_by_a_late_attempt(storage):
    config = new_table(storage)
    handle = plan(storage, config)
    attach(handle, storage).abort()
    with pytest.raises(RolledBackError, match="aborted before it began"):
        attach(handle, storage).start()
    assert load_timeline(storage, config).instants == ()
    with begin(storage, config) as tx:
        commit(tx, [write_base(tx, "a", "f")])
    assert leftovers(storage) == set()


# -- several processes ---------------------------------------------------------------------------------------------


def test_a_plan_writes_nothing_and_travels(storage):
    config = new_table(storage)
    files = {info.path for info in storage.walk()}
    handle = plan(storage, config)
    assert {info.path for info in storage.walk()} == files
    data = pickle.dumps(handle)
    assert len(data) < 8_000
    assert pickle.loads(data) == handle


def test_tasks_and_commit_in_different_places(storage):
    config = new_table(storage)
    handle = pickle.loads(pickle.dumps(plan(storage, config)))
    stats = []
    for task in range(3):
        with attach(handle, storage) as tx:
            stats.append(write_base(tx, "a", f"f{task}", token=f"{task}-1-0"))
    assert load_timeline(storage, config).pending[0].time == handle.instant
    result = commit(attach(handle, storage), stats)
    assert result.instant == handle.instant
    assert len(snapshot(storage, config)["a"]) == 3
    assert leftovers(storage) == set()


def test_commit_without_any_task(storage):
    config = new_table(storage)
    handle = plan(storage, config)
    commit(attach(handle, storage), [])
    assert [i.time for i in load_timeline(storage, config).completed] == [handle.instant]
    assert leftovers(storage) == set()


def test_an_error_in_a_task_leaves_the_write_pending(storage):
    config = new_table(storage)
    handle = plan(storage, config)
    with pytest.raises(KeyError), attach(handle, storage) as tx:
        raise KeyError(write_base(tx, "a", "f", token="0-1-0"))
    with attach(handle, storage) as tx:
        stat = write_base(tx, "a", "f", token="0-1-1")
    commit(attach(handle, storage), [stat])
    assert data_files(storage) == {stat.path}


def test_two_writers_with_the_same_instant_one_fails_before_any_data_file(storage):
    config = new_table(storage)
    one = plan(storage, config)
    two = plan(storage, config, instant=one.instant)
    assert one.instant == two.instant
    with attach(one, storage) as tx:
        for act in (lambda: attach(two, storage).start(), lambda: commit(attach(two, storage), [])):
            with pytest.raises(ConflictError, match=one.instant):
                act()
        attach(two, storage).abort()
        assert data_files(storage) == set()
        stat = write_base(tx, "a", "f")
    commit(attach(one, storage), [stat])
    attach(two, storage).abort()
    with pytest.raises(ConflictError, match=one.instant):
        commit(attach(two, storage), [])
    assert data_files(storage) == {stat.path}


def test_an_empty_inflight_file_proves_nothing(storage):
    """Java's inflight files may be empty."""
    config = new_table(storage)
    handle = plan(storage, config)
    storage.put(f".hoodie/timeline/{handle.instant}.commit.requested", b"")
    storage.put(f".hoodie/timeline/{handle.instant}.inflight", b"")
    with pytest.raises(ConflictError, match=handle.instant):
        attach(handle, storage).start()
    attach(handle, storage).abort()
    assert storage.stat(f".hoodie/timeline/{handle.instant}.inflight") is not None


def test_plans_made_side_by_side_the_first_to_begin_goes_on(storage):
    config = new_table(storage)
    one, two = plan(storage, config), plan(storage, config)
    assert one.instant < two.instant or one.instant == two.instant
    with attach(two, storage) as tx:
        stat = write_base(tx, "a", "f")
        with pytest.raises(ConflictError, match=two.instant):
            attach(replace(one, instant=InstantTime(one.instant[:-1] + "0")), storage).start()
    commit(attach(two, storage), [stat])
    with pytest.raises(ConflictError):
        attach(one, storage).start()


# -- pending writes of others ----------------------------------------------------------------------------------------


def test_a_write_under_way_in_this_process_is_named(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        with pytest.raises(ConflictError, match=f"{tx.instant} of writer {tx.handle.writer.id}.* is under way"):
            begin(storage, config)
        commit(tx, [])


def test_a_pending_write_that_beats_is_named(storage, monkeypatch):
    config = new_table(storage)
    handle = plan(storage, config)  # its owner is not known
    tx = attach(handle, storage)
    tx.start()
    monkeypatch.setattr(recovery, "_POLL_S", 0.01)

    def beat_later() -> None:
        time.sleep(0.05)
        tx._heartbeat.beat()

    beating = threading.Thread(target=beat_later)
    beating.start()
    with pytest.raises(ConflictError, match=f"{handle.instant} of writer {handle.writer.id} is under way"):
        begin(storage, config)
    beating.join()
    commit(tx, [])


def test_a_silent_pending_write_is_waited_for_then_rolled_back(storage, monkeypatch):
    config = new_table(storage)
    handle = plan(storage, config)
    with attach(handle, storage) as tx:
        write_base(tx, "a", "f")
    monkeypatch.setattr(recovery, "_POLL_S", 0.01)
    settings = replace(SETTINGS, heartbeat_interval_ms=150, heartbeat_misses=2)
    started = time.monotonic()
    with begin(storage, config, settings=settings) as other:
        assert time.monotonic() - started > 0.2
        assert data_files(storage) == set()
        with pytest.raises(RolledBackError):
            commit(attach(handle, storage), [])
        commit(other, [])


def test_a_write_whose_process_is_gone_is_rolled_back_at_once(storage, monkeypatch):
    config = new_table(storage)
    tx = begin(storage, config)
    write_base(tx, "a", "f")
    tx._heartbeat.stop()
    end_work(tx.handle.writer.id)  # this process is not at work on it any more
    with begin(storage, config) as other:
        assert data_files(storage) == set()
        commit(other, [])
    actions = [instant.action for instant in load_timeline(storage, config).instants]
    assert actions == [Action.ROLLBACK, Action.COMMIT]


def test_an_expired_heartbeat_ends_the_write(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        storage.set_modified(f".hoodie/.heartbeat/{tx.instant}", 0)
        with pytest.raises(RolledBackError, match="heartbeat"):
            commit(tx, [stat])
        tx.abort()
    assert load_timeline(storage, config).completed[0].action is Action.ROLLBACK


def java_pending(storage, config, time_: str, inflight: bytes | None = b"") -> None:
    folder = load_timeline(storage, config).layout.folder
    action = write_action(config).value
    storage.put(f"{folder}/{time_}.{action}.requested", b"")
    if inflight is not None:
        name = f"{time_}.inflight" if action == "commit" else f"{time_}.{action}.inflight"
        storage.put(f"{folder}/{name}", inflight)


def test_javas_pending_write_without_heartbeat_lives_by_its_files(storage, monkeypatch):
    config = new_table(storage)
    time_ = "20200101000000000"
    java_pending(storage, config, time_)
    path = f"a/f_0-1-2_{time_}.parquet"
    marker = f".hoodie/.temp/{time_}/{path}.marker.CREATE"
    storage.put(marker, b"")
    storage.put(path, b"x")
    monkeypatch.setattr(recovery, "_POLL_S", 0.01)

    touching = threading.Timer(0.1, lambda: storage.touch(marker))
    touching.start()
    with pytest.raises(ConflictError, match=f"{time_} of another engine is under way"):
        begin(storage, config)
    touching.join()
    for info in [*storage.walk(".hoodie/timeline"), *storage.walk(".hoodie/.temp")]:
        storage.set_modified(info.path, 0)
    with begin(storage, config) as tx:
        assert data_files(storage) == set()
        commit(tx, [])
    assert storage.stat(f".hoodie/.temp/{time_}") is None


def test_table_services_are_left_alone(storage):
    config = new_table(storage, 9, mor=True)
    folder = ".hoodie/timeline"
    names = ["20200101000000000.compaction.requested", "20200101000000001.clean.requested"]
    for name in names:
        storage.put(f"{folder}/{name}", b"")
    with begin(storage, config) as tx:
        commit(tx, [])
    assert {name for name in names if storage.stat(f"{folder}/{name}")} == set(names)


# -- what happened since the plan ------------------------------------------------------------------------------------


def completed_by_java(storage, config, metadata, action: Action = Action.COMMIT, *, instant=None) -> str:
    timeline = load_timeline(storage, config)
    clock = fast_clock(config)
    time_ = instant or clock.next_instant(timeline)
    content = encode_commit_metadata(metadata, timeline.layout, action=action, completed=True)
    completion = clock.next_completion(timeline)
    storage.put(timeline.layout.path(timeline.layout.completed_name(time_, action, completion)), content)
    return time_


@pytest.mark.parametrize("version", [6, 9])
def test_another_write_since_the_plan_is_a_conflict(storage, version):
    config = new_table(storage, version)
    first_write(storage, config)
    with begin(storage, config) as tx:
        stats = write_update(tx)
        other = completed_by_java(storage, config, CommitMetadata("INSERT"))
        with pytest.raises(ConflictError, match=rf"commit {other} \(INSERT\) has been completed"):
            commit(tx, stats)
        tx.abort()
    assert len(data_files(storage)) == 2


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_since_the_plan_conflicts_where_it_overlaps(storage, version):
    """Logs that name their own instant, as since version 8, are none."""
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    for groups, conflicts in ((("a",), version < 8), (("b",), False)):
        with begin(storage, config) as tx:
            stats = write_update(tx, ["a"])
            compacted = CommitMetadata(
                "COMPACT",
                stats=tuple(replace(stats[0], partition_path=g, file_id=f"f-{g}") for g in groups),
                compacted=True,
            )
            other = completed_by_java(storage, config, compacted)
            if conflicts:
                with pytest.raises(ConflictError, match=f"{other} has rewritten the file group f-a of partition 'a'"):
                    commit(tx, stats)
                tx.abort()
            else:
                commit(tx, stats)


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_that_was_pending_when_the_write_was_planned_is_no_conflict(storage, version):
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    earlier = fast_clock(config).next_instant(load_timeline(storage, config))
    time.sleep(0.005)
    with begin(storage, config) as tx:
        assert earlier < tx.instant
        stats = write_update(tx, ["a"])
        compacted = CommitMetadata("COMPACT", stats=(replace(stats[0], log_version=None),), compacted=True)
        completed_by_java(storage, config, compacted, instant=earlier)
        commit(tx, stats)


def test_a_write_begun_by_another_engine_since_the_plan_is_a_conflict(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        java_pending(storage, config, fast_clock(config).next_instant(load_timeline(storage, config)))
        with pytest.raises(ConflictError, match="is under way"):
            commit(tx, [])


def test_a_rollback_by_another_engine_ends_the_write(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        for name in ("inflight", "commit.requested"):
            storage.delete(f".hoodie/timeline/{tx.instant}.{name}")
        with pytest.raises(RolledBackError):
            write_base(tx, "a", "g")
        with pytest.raises((RolledBackError, ConflictError)):
            commit(tx, [stat])


# -- the metadata table ----------------------------------------------------------------------------------------------


def with_metadata_table(storage, partitions: str) -> None:
    update_table_config(storage, {"hoodie.table.metadata.partitions": partitions})
    storage.put(".hoodie/metadata/.hoodie/hoodie.properties", b"x")
    storage.put(
        ".hoodie/.index_defs/index.json", b'{"indexDefinitions": {"column_stats": {"indexName": "column_stats"}}}'
    )


def test_the_metadata_table_goes_in_the_commit_that_outdates_it(storage):
    config = new_table(storage)
    with_metadata_table(storage, "column_stats,files,partition_stats")
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        assert storage.stat(".hoodie/metadata") is not None
        with pytest.warns(UserWarning, match="Dropped the metadata table"):
            result = commit(tx, [stat])
    assert result.dropped_metadata_partitions == ("column_stats", "files", "partition_stats")
    assert storage.stat(".hoodie/metadata") is None
    text = storage.read(".hoodie/hoodie.properties").decode()
    assert "metadata.partitions" not in text
    assert storage.read(".hoodie/.index_defs/index.json") == b'{\n  "indexDefinitions": {}\n}'


def test_indexes_made_on_purpose_are_not_dropped_unasked(storage):
    config = new_table(storage)
    with_metadata_table(storage, "files,record_index,secondary_index_x")
    config = load_config(storage)
    for act in (plan, begin):
        with pytest.raises(ConfigError, match="record_index, secondary_index_x"):
            act(storage, config)
    settings = replace(SETTINGS, drop_indexes=True)
    with begin(storage, config, settings=settings) as tx, pytest.warns(UserWarning, match="record_index"):
        commit(tx, [])
    assert storage.stat(".hoodie/metadata") is None


def test_an_index_made_since_the_plan_stops_the_commit(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        with_metadata_table(storage, "files,record_index")
        with pytest.raises(ConfigError, match="record_index"):
            commit(tx, [write_base(tx, "a", "f")])
        tx.abort()
    assert storage.stat(".hoodie/metadata") is not None
    assert data_files(storage) == set()


def load_config(storage):
    from hudi_py.timeline.properties import load_table_config

    return load_table_config(storage)


# -- the rest --------------------------------------------------------------------------------------------------------


def test_stage_folders_of_vanished_writes_are_removed_by_the_next(storage):
    config = new_table(storage)
    storage.put(".hoodie/.hudi_py/20200101000000000/stage/x", b"1")
    storage.touch(".hoodie/.heartbeat/20200101000000000")
    with begin(storage, config) as tx:
        assert storage.stat(".hoodie/.hudi_py/20200101000000000") is None
        storage.put(f"{tx.staging}/y", b"2")
        commit(tx, [])
    assert leftovers(storage) == set()


def test_no_secret_is_written(storage):
    config = new_table(storage)
    handle = plan(storage, config)
    options = {"aws_secret_access_key": "hunter2"}
    with WriteTransaction.attach(handle, options, storage=storage, clock=fast_clock(config)) as tx:
        write_base(tx, "a", "f")
        assert b"hunter2" not in pickle.dumps(tx.handle)
        assert not any(b"hunter2" in storage.read(info.path) for info in storage.walk())
        tx.abort()


def test_writer_identity_round_trips():
    for writer in (WriterIdentity("a" * 32), WriterIdentity("b" * 32, DEAD)):
        assert parse_writer(writer.to_json()) == writer
    for text in ("", "{}", "[]", '{"id": 1}', b"\xff"):
        assert parse_writer(text) is None


def test_settings_default_to_apache_hudis():
    settings = TransactionSettings()
    assert settings.heartbeat_expiry_ms == 120_000
    assert IMPATIENT.lock.patience_ms == 50


# -- table services scheduled by others ------------------------------------------------------------------------------


def avro_file(fields: list[dict[str, object]], record: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "Plan", "fields": fields}, [record])
    return out.getvalue()


def piece(name: str) -> dict[str, object]:
    texts = [{"name": field, "type": "string"} for field in ("partitionPath", "fileId", "baseInstantTime")]
    return {"type": "record", "name": name, "fields": texts}


def compaction_plan(partition: str, file_id: str) -> bytes:
    operation = {"partitionPath": partition, "fileId": file_id, "baseInstantTime": "0"}
    fields = [{"name": "operations", "type": {"type": "array", "items": piece("Operation")}}]
    return avro_file(fields, {"operations": [operation]})


def clustering_plan(partition: str, file_id: str) -> bytes:
    slices = {"name": "slices", "type": {"type": "array", "items": piece("Slice")}}
    group = {"type": "record", "name": "Group", "fields": [slices]}
    groups = {"name": "inputGroups", "type": {"type": "array", "items": group}}
    fields = [
        {"name": "operationType", "type": "string"},
        {"name": "clusteringPlan", "type": {"type": "record", "name": "Clustering", "fields": [groups]}},
    ]
    found = {"partitionPath": partition, "fileId": file_id, "baseInstantTime": "0"}
    return avro_file(fields, {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [found]}]}})


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("action", [Action.COMPACTION, Action.CLUSTERING])
def test_a_service_scheduled_since_the_plan_conflicts_where_it_overlaps(storage, version, action):
    config = new_table(storage, version, mor=True)
    first_write(storage, config)
    plan_of = compaction_plan if action is Action.COMPACTION else clustering_plan
    in_the_way = version < 8 or action is Action.CLUSTERING
    for partition, conflicts in (("a", in_the_way), ("b", False)):
        with begin(storage, config) as tx:
            stats = write_update(tx, ["a"])
            timeline = load_timeline(storage, config)
            time_ = fast_clock(config).next_instant(timeline)
            path = timeline.layout.path(timeline.layout.requested_name(time_, action))
            storage.put(path, plan_of(partition, f"f-{partition}"))
            if conflicts:
                with pytest.raises(ConflictError, match=f"{time_} is going to rewrite the file group f-a"):
                    commit(tx, stats)
                tx.abort()
                storage.delete(path)
            else:
                commit(tx, stats)
                if partition == "a":
                    storage.delete(path)
    assert [i.time for i in load_timeline(storage, config).pending] == [time_]


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_clustering_is_no_failed_write(storage, version):
    """Version 6 names it like any other replacecommit."""
    config = new_table(storage, version)
    first_write(storage, config)
    layout = load_timeline(storage, config).layout
    for name, content in (
        (layout.requested_name("20200101000000000", Action.CLUSTERING), clustering_plan("a", "f-a")),
        (layout.inflight_name("20200101000000000", Action.CLUSTERING), b""),
    ):
        storage.put(layout.path(name), content)
        storage.set_modified(layout.path(name), 0)
    with begin(storage, config) as tx:
        stats = write_update(tx, ["a"])
        with pytest.raises(ConflictError, match="is going to rewrite"):
            commit(tx, stats)
        tx.abort()
    with begin(storage, config) as tx:
        commit(tx, write_update(tx, ["b"]))
    assert [i.time for i in load_timeline(storage, config).pending] == ["20200101000000000"]
