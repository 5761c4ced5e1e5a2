"""Reads several splits at once, in order and with a bounded number of batches in memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 2
"""Batches that each split may buffer while another one is consumed."""
_POLL_SECONDS = 0.1


def ordered(items: Sequence[T], read: Callable[[T], Iterator[R]], threads: int) -> Iterator[R]:
    """Yields the results of `read` item by item, reading up to `threads` items at the same time.

    An error is raised in the place of the item's results. The threads stop when the caller stops iterating.
    """
    if threads <= 1 or len(items) <= 1:
        for item in items:
            yield from read(item)
        return
    stop = threading.Event()
    channels: dict[int, queue.Queue[tuple[str, object]]] = {}
    workers: dict[int, threading.Thread] = {}

    def produce(at: int) -> None:
        channel = channels[at]
        try:
            for result in read(items[at]):
                if not _put(channel, ("result", result), stop):
                    return
            _put(channel, ("end", None), stop)
        except BaseException as error:  # passed on to the consumer, which would wait forever otherwise
            _put(channel, ("error", error), stop)

    def start(at: int) -> None:
        channels[at] = queue.Queue(_AHEAD)
        workers[at] = threading.Thread(target=produce, args=(at,), name=f"hudi-read-{at}", daemon=True)
        workers[at].start()

    try:
        for at in range(min(threads, len(items))):
            start(at)
        for at in range(len(items)):
            channel = channels[at]
            while True:
                kind, value = channel.get()
                if kind == "end":
                    break
                if kind == "error":
                    assert isinstance(value, BaseException)
                    raise value
                yield value  # type: ignore[misc]
            del channels[at], workers[at]
            if at + threads < len(items):
                start(at + threads)
    finally:
        stop.set()
        for worker in list(workers.values()):
            worker.join()


def _put(channel: queue.Queue[tuple[str, object]], value: tuple[str, object], stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            channel.put(value, timeout=_POLL_SECONDS)
            return True
        except queue.Full:
            continue
    return False
