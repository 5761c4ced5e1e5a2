"""The same for many files at a time, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from hudi_py.storage.base import Storage

REQUESTS: Final = 16
"""Requests to a storage at a time: what bounds them is waiting for answers, not the machine."""

_T = TypeVar("_T")
_R = TypeVar("_R")


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
