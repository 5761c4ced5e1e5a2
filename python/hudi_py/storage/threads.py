"""The same for many files at a time, in their order."""

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
"""Requests to a storage at a time: what bounds them is waiting for answers, not the machine."""

_T = TypeVar("_T")
_R = TypeVar("_R")


_WAITING_BYTES: Final = 8 << 20


def processors() -> int:
    """Return the number of processors of this machine."""
    return os.cpu_count() or 1


def default_threads() -> int:
    """Return the threads of reads. At most 4: more contend for the interpreter, and each buffers what it reads."""
    return min(4, processors())


def write_threads(options: Options) -> int:
    """Return how many files are written in parallel: by default one for each processor."""
    return options.get(write_config.WRITE_THREADS) or processors()


def waiting_threads(threads: int, sizes: Iterable[int]) -> int:
    """Return the threads for work on files of these sizes: as many as there may be requests where all are small, since
    it mostly waits for a storage then."""
    return max(threads, REQUESTS) if all(size <= _WAITING_BYTES for size in sizes) else threads


def in_threads(work: Callable[[_T], _R], items: Iterable[_T], threads: int = REQUESTS) -> list[_R]:
    """What `work` makes of each item, in their order; in the caller's own thread where one is enough.

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
    """As `in_threads` where the storage answers over a network: files of a local folder come faster one by one."""
    return in_threads(work, items, 1 if storage.is_local else threads)


class Shared:
    """A check that threads ask for side by side: one run answers all who asked before it began."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._guard = threading.Lock()
        self._running = threading.Lock()
        self._next: Future[None] | None = None
        """Answers those who wait for the run after the present one."""

    def __call__(self) -> None:
        """Raises what the check raises."""
        with self._guard:
            first = self._next is None
            answer = self._next = self._next or Future()
        if first:
            with self._running:
                with self._guard:
                    self._next = None  # who asks from now on may have seen something newer
                try:
                    self._check()
                except BaseException as error:  # of any kind: the others must not wait forever
                    answer.set_exception(error)
                else:
                    answer.set_result(None)
        answer.result()
