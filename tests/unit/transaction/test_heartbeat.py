"""Heartbeats: renewed while alive, never revived."""

from __future__ import annotations

import time

import pytest

from hudi_py.errors import RolledBackError
from hudi_py.model.instant import InstantTime
from hudi_py.storage import MemoryStorage
from hudi_py.transaction.owner.heartbeat import Heartbeat, last_beat_ms, now_ms, remove_heartbeat

T = InstantTime("20260101000000000")
PATH = f".hoodie/.heartbeat/{T}"


def heartbeat(storage: MemoryStorage, interval_ms: int = 60_000) -> Heartbeat:
    return Heartbeat(storage, T, interval_ms=interval_ms, expiry_ms=120_000)


def test_the_first_beat_makes_an_empty_file_where_java_looks(storage):
    beat = heartbeat(storage)
    before = now_ms()
    beat.first_beat()
    assert storage.read(PATH) == b""
    assert before <= (last_beat_ms(storage, T) or 0) <= now_ms()
    beat.check()


def test_a_beat_renews(storage):
    beat = heartbeat(storage)
    beat.first_beat()
    before = now_ms()
    storage.set_modified(PATH, before - 60_000)
    beat.beat()
    assert (last_beat_ms(storage, T) or 0) >= before


def test_an_expired_beat_is_never_renewed(storage):
    now = now_ms()
    beat = Heartbeat(storage, T, interval_ms=60_000, expiry_ms=120_000, clock_ms=lambda: now)
    beat.first_beat()
    old = now - 121_000
    storage.set_modified(PATH, old)
    for act in (beat.beat, beat.start, beat.check):
        with pytest.raises(RolledBackError, match="last heartbeat is 121 s old"):
            act()
    assert last_beat_ms(storage, T) == old


def test_a_missing_beat_is_never_revived(storage):
    beat = heartbeat(storage)
    beat.first_beat()
    remove_heartbeat(storage, T)
    with pytest.raises(RolledBackError, match="heartbeat file is missing"):
        beat.start()
    assert last_beat_ms(storage, T) is None


def test_the_thread_beats_until_it_is_stopped(storage):
    beat = heartbeat(storage, interval_ms=10)
    beat.first_beat()
    beat.start()
    beat.start()
    started = now_ms()
    storage.set_modified(PATH, started - 60_000)
    deadline = time.monotonic() + 60
    while (last_beat_ms(storage, T) or 0) < started:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    beat.stop()
    beat.stop()
    quiet = now_ms() - 100_000
    storage.set_modified(PATH, quiet)
    time.sleep(0.05)
    assert last_beat_ms(storage, T) == quiet


def test_the_thread_ends_when_the_write_was_taken_away(storage):
    beat = heartbeat(storage, interval_ms=10)
    beat.first_beat()
    beat.start()
    remove_heartbeat(storage, T)
    thread = beat._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert last_beat_ms(storage, T) is None
