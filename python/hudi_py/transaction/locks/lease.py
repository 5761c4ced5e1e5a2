"""Waits for a lock and renews it in a thread; shared by the locks that are leases."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeVar

from hudi_py.errors import LockError, Remedy
from hudi_py.storage import Storage

BREAK = Remedy("break the lock with Table.locks.release", cli="break the lock with `hudi-py locks break`")

_log = logging.getLogger(__name__)

NOT_RENEWED: Final = "was lost: its lease was not renewed in time, or another process broke the lock"
_FIRST_WAIT_S = 0.05


_Lock = TypeVar("_Lock", bound="HeldByContext")


class HeldByContext(ABC):
    """A lock that is acquired at the start of a `with` block and released at its end."""

    @abstractmethod
    def acquire(self) -> None:
        """Waits for the lock."""

    @abstractmethod
    def release(self) -> None:
        """Releases the lock, unless it belongs to another holder."""

    def moved(self, storage: Storage) -> None:  # noqa: B027
        """The lock is not kept in the table's folder, or in one that cannot be moved."""

    def gone(self) -> None:  # noqa: B027
        """The lock is not kept in the table's folder."""

    def __enter__(self: _Lock) -> _Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def wait_for(
    attempt: Callable[[], bool],
    holder: Callable[[], str],
    *,
    purpose: str,
    place: str,
    patience_ms: int,
    longest_wait_s: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Tries until the lock is acquired.

    Args:
        attempt: tries once; True if the lock was acquired.
        holder: describes the holder, for messages.
        patience_ms: maximum wait in milliseconds.

    Raises:
        LockError: it could not be acquired in time.
    """
    started = time.monotonic()
    pause = min(_FIRST_WAIT_S, longest_wait_s)
    logged = False
    while not attempt():
        waited = time.monotonic() - started
        left = patience_ms / 1000 - waited
        if left <= 0:
            found = holder()
            raise LockError(
                f"Cannot {purpose}: the table lock {place} is held by {found}, waited {waited:.1f} s; wait for its "
                f"holder, or {BREAK} if you know that the holder is gone",
                path=place,
                found=found,
                remedies=(BREAK,),
            )
        if waited > 2 and not logged:
            _log.warning("waiting for the lock %s, held by %s", place, holder())
            logged = True
        sleep(min(pause, left))
        pause = min(pause * 2, longest_wait_s)


def lost_lock(purpose: str, place: str, how: str, *, option: str = "") -> LockError:
    """The error of a holder whose lock is now free or belongs to another.

    Args:
        how: what happened to the lock; follows its place in the message.
        option: option to raise for all writers if this happens again.
    """
    again = f"; if this happens again, raise {option} for all writers" if option else ""
    return LockError(f"Cannot {purpose}: the table lock {place} {how}; write again{again}", path=place)


class Renewal:
    """A thread that renews a lease until it is stopped, or until `renew` returns False because the lease is lost."""

    def __init__(self, renew: Callable[[], bool], interval_s: float, name: str) -> None:
        self._renew = renew
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread after any renewal already started."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                if not self._renew():
                    return
            except Exception as error:  # the next renewal may get through before the lease ends
                _log.warning("the table lock was not renewed: %s", error)
