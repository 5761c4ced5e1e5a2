"""Heartbeats: the modification time of `.hoodie/.heartbeat/<instant>` (`HoodieHeartbeatClient`, 1.2.0)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from hudi_py.errors import RolledBackError
from hudi_py.model.instant import InstantTime
from hudi_py.model.layout import heartbeat_path
from hudi_py.storage import Storage

_log = logging.getLogger(__name__)


def now_ms() -> int:
    """Returns the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def last_beat_ms(storage: Storage, instant: InstantTime) -> int | None:
    """Returns when the instant's heartbeat was last renewed, in milliseconds since the epoch; None if it has none."""
    info = storage.stat(heartbeat_path(instant))
    return None if info is None else info.modified_ms


def remove_heartbeat(storage: Storage, instant: InstantTime) -> None:
    storage.delete(heartbeat_path(instant))


class Heartbeat:
    """Renews the heartbeat of one instant from this process. A missing or expired one is never renewed."""

    def __init__(
        self,
        storage: Storage,
        instant: InstantTime,
        *,
        interval_ms: int,
        expiry_ms: int,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._storage = storage
        self._instant = instant
        self._interval_ms = interval_ms
        self._expiry_ms = expiry_ms
        self._clock_ms = clock_ms
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> bool:
        """Whether this process renews the heartbeat."""
        return self._thread is not None and self._thread.is_alive()

    def first_beat(self) -> None:
        """Creates the heartbeat when the write begins."""
        self._storage.touch(heartbeat_path(self._instant))

    def check(self) -> int:
        """Returns the age of the heartbeat in milliseconds.

        Raises:
            RolledBackError: it is missing or expired: another writer may roll the write back.
        """
        last = last_beat_ms(self._storage, self._instant)
        if last is None:
            raise RolledBackError(
                f"Cannot continue the write {self._instant}: its heartbeat file is missing, so it was rolled back or "
                "has been committed; write again",
                instant=self._instant,
            )
        age_ms = self._clock_ms() - last
        if age_ms > self._expiry_ms:
            raise RolledBackError(
                f"Cannot continue the write {self._instant}: its last heartbeat is {age_ms / 1000:.0f} s old and "
                f"expired after {self._expiry_ms / 1000:.0f} s (hoodie.client.heartbeat.interval_in_ms); write again",
                instant=self._instant,
                expected=self._expiry_ms,
                found=age_ms,
            )
        return age_ms

    def beat(self) -> None:
        """Renews the heartbeat once. Raises RolledBackError if it is missing or expired."""
        self.check()
        self._storage.touch(heartbeat_path(self._instant))

    def keep(self) -> None:
        """Renews the heartbeat unless it is younger than half an interval. Raises RolledBackError if it is missing or
        expired."""
        if self.check() > self._interval_ms / 2:
            self._storage.touch(heartbeat_path(self._instant))

    def start(self, *, fresh: bool = False) -> None:
        """Renews the heartbeat now and, in a thread, at every interval until `stop`. Idempotent.

        `fresh`: `first_beat` has just created it, so the first renewal is due after an interval.

        Raises:
            RolledBackError: the heartbeat is missing or expired.
        """
        with self._lock:
            if self.running:
                return
            if not fresh:
                self.beat()
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._renew_until_stopped, name=f"hudi-heartbeat-{self._instant}", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Stops the thread; the file stays. Idempotent."""
        with self._lock:
            self._stop.set()
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
            self._thread = None

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._interval_ms / 1000):
            try:
                self.beat()
            except RolledBackError as error:
                _log.warning("heartbeat stops: %s", error)
                return
            except OSError as error:  # from the storage: the next renewal may succeed before the expiry
                _log.warning("heartbeat of %s missed: %s", self._instant, error)
