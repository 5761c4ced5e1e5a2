"""Pending writes of others: under way, silent, dead, or of another engine; and of writers side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hudi_py.errors import ConflictError, RolledBackError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.recovery import failed_writes as recovery
from tests.support.hand_writes import (
    SETTINGS,
    attach,
    begin,
    commit,
    data_files,
    java_pending,
    leftovers,
    new_table,
    plan,
    write_base,
)


@contextmanager
def again_and_again(act: Callable[[], object]) -> Iterator[None]:
    """Acts every few milliseconds in a thread."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(0.01):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


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

    told = f"{handle.instant} of writer {handle.writer.id} is under way"
    with again_and_again(tx._heartbeat.beat), pytest.raises(ConflictError, match=told):
        begin(storage, config)
    commit(tx, [])


def test_a_silent_pending_write_is_waited_for_then_rolled_back(storage, monkeypatch):
    config = new_table(storage)
    handle = plan(storage, config)
    with attach(handle, storage) as tx:
        write_base(tx, "a", "f")
    monkeypatch.setattr(recovery, "_POLL_S", 0.01)
    started = time.monotonic()
    storage.set_modified(f".hoodie/.heartbeat/{handle.instant}", now_ms() - SETTINGS.heartbeat_expiry_ms + 300)
    with begin(storage, config) as other:
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


def test_javas_pending_write_without_heartbeat_lives_by_its_files(storage, monkeypatch):
    config = new_table(storage)
    time_ = "20200101000000000"
    java_pending(storage, config, time_)
    path = f"a/f_0-1-2_{time_}.parquet"
    marker = f".hoodie/.temp/{time_}/{path}.marker.CREATE"
    storage.put(marker, b"")
    storage.put(path, b"x")
    monkeypatch.setattr(recovery, "_POLL_S", 0.01)

    told = f"{time_} of another engine is under way"
    with again_and_again(lambda: storage.touch(marker)), pytest.raises(ConflictError, match=told):
        begin(storage, config)
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


def test_stage_folders_of_vanished_writes_are_removed_by_the_next(storage):
    config = new_table(storage)
    storage.put(".hoodie/.hudi_py/20200101000000000/stage/x", b"1")
    storage.touch(".hoodie/.heartbeat/20200101000000000")
    with begin(storage, config) as tx:
        assert storage.stat(".hoodie/.hudi_py/20200101000000000") is None
        storage.put(f"{tx.staging}/y", b"2")
        commit(tx, [])
    assert leftovers(storage) == set()
