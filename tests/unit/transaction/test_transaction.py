"""The write protocol: who may write, what is published, what never is."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from hudi_py.errors import ConfigError, CorruptFileError, LockError, RolledBackError
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FolderStorage, LocalStorage, MemoryStorage, Storage
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.owner.identity import WRITER_KEY, ProcessIdentity, WriterIdentity, parse_writer
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import FileSystemView
from hudi_py.write.retry import NothingToDoError, begin_planned
from tests.support.hand_writes import (
    IMPATIENT,
    SCHEMA,
    SETTINGS,
    attach,
    begin,
    commit,
    data_files,
    fast_clock,
    first_write,
    leftovers,
    new_table,
    plan,
    snapshot,
    update,
    write_action,
    write_base,
    write_log,
    write_update,
)
from tests.support.sessions import session_of

VERSIONS = [(version, mor) for version in (6, 8, 9) for mor in (False, True)]
DEAD = ProcessIdentity("elsewhere", "long ago", 1, "1")


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
        permit = tx.publication.permit_base_file("a/b", "f", "0-1-0", merges=False)
        assert permit.path == f"a/b/f_0-1-0_{time_}.parquet"
        assert permit.marker_path == f".hoodie/.temp/{time_}/a/b/f_0-1-0_{time_}.parquet.marker.CREATE"
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


def test_a_lock_taken_away_while_the_commit_is_prepared_publishes_nothing(storage):
    class Slow(DropMetadata):
        def record(self, session, *arguments):
            recorded = super().record(session, *arguments)
            session.storage.put(".hoodie/lock", b"of another writer, who took ours for expired")
            return recorded

    config = new_table(storage, 9)
    first = first_write(storage, config)
    tx = begin(storage, config, metadata=Slow())
    stats = write_update(tx)
    with pytest.raises(LockError, match="taken away"):
        commit(tx, stats)
    tx.rest()
    completed = load_timeline(storage, config).last_completed
    assert completed is not None
    assert completed.time == first.instant


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


class Broken(FolderStorage):
    """Refuses to delete from `first` on, and loses the answer of what creates a completed file."""

    def __init__(self, storage: Storage, first: str, *, loses: bool) -> None:
        super().__init__(storage, "")
        self._first = first
        self._loses = loses
        self._breaks = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        created = super().put_if_absent(path, data)
        if path.endswith(".commit"):
            self._breaks = True
            if self._loses:
                raise OSError("the connection was reset")
        return created

    def delete(self, path: str) -> bool:
        self._refuse(path)
        return super().delete(path)

    def delete_tree(self, path: str) -> None:
        self._refuse(path)
        super().delete_tree(path)

    def _refuse(self, path: str) -> None:
        if self._breaks and path.startswith(self._first):
            raise OSError(f"{path} is busy")


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize("first", [".hoodie/lock", ".hoodie/.heartbeat", ".hoodie/.temp", ".hoodie/.hudi_py"])
@pytest.mark.parametrize("version", [6, 9])
def test_what_fails_behind_the_commit_is_no_failed_write(tmp_path, version, first, loses, caplog):
    """Whoever is told of an error writes again: his rows would be there twice."""
    storage = LocalStorage(str(tmp_path))
    config = new_table(storage, version)
    broken = Broken(storage, first, loses=loses)
    with begin(broken, config) as tx:
        stats = [write_base(tx, "a", "f")]
        first_commit = commit(tx, stats)
    assert data_files(storage) == {stats[0].path}
    assert load_timeline(storage, config).completed[0].time == first_commit.instant
    assert f"{first_commit.instant} of {broken.uri} is committed" in caplog.text
    update(storage, config)
    assert leftovers(storage) == set()


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


def _request_clean(storage: Storage, config: TableConfig) -> None:
    time_ = fast_clock(config).next_instant(load_timeline(storage, config))
    InstantFiles(storage, load_timeline(storage, config).layout, time_, Action.CLEAN).request(b"")


@pytest.mark.parametrize(
    ("moves", "plans"),
    [(lambda storage, config: None, 1), (update, 2), (_request_clean, 2)],
    ids=["no", "write", "plan"],
)
def test_what_is_planned_without_the_lock_is_planned_again_if_the_timeline_has_moved(storage, moves, plans):
    config = new_table(storage)
    first_write(storage, config)
    views: list[FileSystemView] = []

    def plan_(view: FileSystemView) -> int:
        views.append(view)
        if len(views) == 1:
            moves(storage, config)
        return len(views)

    session = session_of(storage, config=config, settings=SETTINGS, clock=fast_clock(config))
    with begin_planned(session, plan_, action=Action.COMMIT, operation="UPSERT") as (tx, planned):
        assert planned == len(views) == plans
        assert tx.timeline.instants == views[-1].timeline.instants
        commit(tx, write_update(tx))


@pytest.mark.parametrize("plans", [1, 2])
def test_a_plan_with_nothing_to_do_leaves_nothing(storage, plans):
    config = new_table(storage)
    first_write(storage, config)
    calls: list[int] = []

    def plan_(view: FileSystemView) -> None:
        calls.append(1)
        if len(calls) == plans:
            raise NothingToDoError("it is done")
        update(storage, config)

    session = session_of(storage, config=config, settings=SETTINGS, clock=fast_clock(config))
    with pytest.raises(NothingToDoError), begin_planned(session, plan_, action=Action.COMMIT, operation="UPSERT"):
        raise AssertionError("it has begun")
    assert load_timeline(storage, config).pending == ()
    assert leftovers(storage) == set()
