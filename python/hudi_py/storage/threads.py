"""Runs a function over many items in threads, and keeps their order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.storage.base import Storage

REQUESTS: Final = 16
"""Maximum number of concurrent requests to a storage: they mostly wait for answers, so the machine does not limit
them."""

_T = TypeVar("_T")
_R = TypeVar("_R")


_WAITING_BYTES: Final = 8 << 20


def processors() -> int:
    """Returns the number of processors of this machine."""
    return os.cpu_count() or 1


def default_threads() -> int:
    """Returns the number of threads for reads: at most 4, since more contend for the interpreter and each buffers what
    it reads."""
    return min(4, processors())


def write_threads(options: Options) -> int:
    """Returns how many files to write in parallel: by default one for each processor."""
    return options.get(write_config.WRITE_THREADS) or processors()


def waiting_threads(threads: int, sizes: Iterable[int]) -> int:
    """Returns the number of threads for work on files of these sizes. If all are small, the work mostly waits for the
    storage, so there may be as many threads as requests."""
    return max(threads, REQUESTS) if all(size <= _WAITING_BYTES for size in sizes) else threads


def in_threads(work: Callable[[_T], _R], items: Iterable[_T], threads: int = REQUESTS) -> list[_R]:
    """Applies `work` to each item in threads and returns the results in order. A single item runs in the caller's
    thread.

    Raises:
        Exception: what `work` raised first, in the order of the items; those not begun by then are not begun any more.
    """
    every = list(items)
    workers = min(threads, len(every))
    if workers < 2:
        return [work(item) for item in every]
    with ThreadPoolExecutor(workers, "hudi-py") as pool:
        return list(pool.map(work, every))


def when_remote(storage: Storage, work: Callable[[_T], _R], items: Iterable[_T], threads: int = REQUESTS) -> list[_R]:
    """Runs as `in_threads` if the storage is remote; files of a local folder are read faster one by one."""
    return in_threads(work, items, 1 if storage.is_local else threads)


class Shared:
    """Coalesces concurrent calls of a check: one run serves every caller that was waiting when it began."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._guard = threading.Lock()
        self._running = threading.Lock()
        self._next: Future[None] | None = None
        """Result for the callers that wait for the run after the current one."""

    def __call__(self) -> None:
        """Raises what the check raises."""
        with self._guard:
            first = self._next is None
            answer = self._next = self._next or Future()
        if first:
            with self._running:
                with self._guard:
                    self._next = None  # later callers may have seen something newer
                try:
                    self._check()
                except BaseException as error:  # of any kind: the others must not wait forever
                    answer.set_exception(error)
                else:
                    answer.set_result(None)
        answer.result()
