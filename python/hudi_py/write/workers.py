"""Threads that write file groups side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Workers(Generic[T]):
    """A pool with a bounded queue, so that the rows of queued tasks do not pile up in memory. A context manager:
    leaving it cancels what has not begun and waits for the rest. `submit` is thread-safe."""

    def __init__(self, threads: int, *, at_most: int, max_bytes: int | None = None) -> None:
        """
        Args:
            at_most: tasks running or queued; `submit` blocks beyond that.
            max_bytes: bytes that these hold. A task that holds more runs alone.
        """
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="hudi-write")
        self._at_most, self._max_bytes = at_most, max_bytes
        self._sizes: list[int] = []
        """Bytes of the tasks that run or are queued."""
        self._changed = threading.Condition()
        self._running: list[Future[T]] = []
        self._results: list[T] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Workers[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def submit(self, task: Callable[[], T], size: int = 0) -> None:
        """Queue a task that holds `size` bytes. Raise what an earlier one raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(size))
            self._sizes.append(size)

        def run() -> T:
            try:
                return task()
            finally:
                with self._changed:
                    self._sizes.remove(size)
                    self._changed.notify_all()

        with self._lock:
            self._running.append(self._executor.submit(run))
            running = []
            for future in self._running:
                if future.done():
                    self._results.append(future.result())
                else:
                    running.append(future)
            self._running = running

    def _has_room(self, size: int) -> bool:
        fits = self._max_bytes is None or sum(self._sizes) + size <= self._max_bytes
        return not self._sizes or (fits and len(self._sizes) < self._at_most)

    def results(self) -> list[T]:
        """The results of all tasks once they are done, in no particular order; raises what one of them raised."""
        self._results += [future.result() for future in self._running]
        self._running = []
        return self._results
