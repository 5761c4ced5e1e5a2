"""Work on many files at a time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from hudi_py.storage import LocalStorage, MemoryStorage
from hudi_py.storage.threads import Shared, in_threads, when_remote


def test_results_come_in_the_order_of_the_items() -> None:
    second = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second.wait(200), "items are worked on one after the other"
        if item == 1:
            second.set()
        return item * item

    assert in_threads(work, range(5)) == [0, 1, 4, 9, 16]
    assert in_threads(work, iter([]), 4) == []


def test_one_thread_is_the_callers_own() -> None:
    def work(_: int) -> int:
        return threading.get_ident()

    assert set(in_threads(work, range(3), 1)) == {threading.get_ident()}
    assert in_threads(work, [7]) == [threading.get_ident()]
    assert threading.get_ident() not in in_threads(work, range(3), 2)


def test_what_fails_first_is_raised_and_the_rest_is_not_begun() -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            raise FileNotFoundError("gone")
        threading.Event().wait(0.05)

    with pytest.raises(FileNotFoundError, match="gone"):
        in_threads(work, range(1000), 2)
    assert len(begun) < 500  # the caller has 25 seconds for what takes it none: the machine may be busy


def test_a_local_folder_is_asked_by_one_thread(tmp_path: Path) -> None:
    def work(_: int) -> int:
        return threading.get_ident()

    assert set(when_remote(LocalStorage(str(tmp_path)), work, range(3))) == {threading.get_ident()}
    remote = MemoryStorage()
    assert remote.is_local is False
    assert threading.get_ident() not in when_remote(remote, work, range(3))


def test_a_shared_check_answers_those_who_asked_before_it_began() -> None:
    begun, go, runs = threading.Event(), threading.Event(), []

    def check() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            begun.set()
            assert go.wait(200)

    shared = Shared(check)
    first = threading.Thread(target=shared)
    first.start()
    assert begun.wait(200)
    asking = threading.Semaphore(0)

    def ask() -> None:
        asking.release()
        shared()

    others = [threading.Thread(target=ask) for _ in range(8)]
    for other in others:  # each may rely on what it did before: the run under way is too early for it
        other.start()
    for _ in others:
        assert asking.acquire(timeout=200)
    time.sleep(0.1)
    go.set()
    for thread in (first, *others):
        thread.join()
    assert 2 <= len(runs) < 9
    shared()
    assert len(runs) > 2


def test_a_shared_check_that_fails_fails_for_who_asked_and_is_made_again() -> None:
    wrong = [True]

    def check() -> None:
        if wrong:
            raise ValueError("closed")

    shared = Shared(check)
    with pytest.raises(ValueError, match="closed"):
        shared()
    wrong.clear()
    shared()
