"""The interface of all table locks, whether in a file, an object store or a service; how they wait, and renew a
lease."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Final, Protocol, TypeVar

from hudi_py.errors import LockError, Remedy
from hudi_py.storage import Storage
from hudi_py.transaction.locks.settings import LockSettings


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The holder of a table's lock."""

    provider: str
    """Class name of Apache Hudi's lock provider, without the package."""
    place: str
    """Where the lock is kept."""
    owner: str
    """Identifies the holder there; `break_lock` takes it."""
    since: datetime | None
    """When the lock was acquired or, if only that is known, last renewed."""
    expires: datetime | None
    """When others may take the lock unless it is renewed; None: never, or unknown."""
    process: str = ""
    """The holder's process, if it is a hudi-py writer."""


class TableLock(Protocol):
    """The lock of one table, held by one process at a time. A context manager; may be entered again once released."""

    def __enter__(self) -> TableLock:
        """Waits for the lock.

        Raises:
            LockError: it could not be acquired within the configured time, or access to it is denied.
        """
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases the lock, unless another process has taken it in the meantime."""
        ...

    def check(self) -> None:
        """Raises LockError if the lock is no longer held because it expired or was removed. Called right before an
        action completes, the one moment that must never overlap between two processes."""
        ...

    def moved(self, storage: Storage) -> None:
        """Follows the table's folder, which was moved to `storage` with a lock that is kept there."""
        ...

    def gone(self) -> None:
        """Forgets a lock that was kept in the table's folder: the table has been deleted, so there is nothing to
        release."""
        ...

    def holder(self) -> LockHolder | None:
        """Returns the current holder of the lock, this process or another; None if it is free."""
        ...

    def break_held(self, owner: str) -> bool:
        """Takes the lock away from a holder, as named by `holder`. Returns False if the lock is free or held by
        another."""
        ...


class LockProvider(Protocol):
    """Creates the lock of a table. Pickles; holds no credentials."""

    def __call__(
        self,
        storage: Storage,
        settings: LockSettings,
        *,
        purpose: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> TableLock:
        """Creates a lock without acquiring it.

        Args:
            purpose: what the lock is needed for; follows "Cannot" in error messages.
            storage_options: credentials for a lock stored elsewhere.
        """
        ...


class _CallersLock:
    """Replaces the lock where the caller already holds it."""

    def __enter__(self) -> _CallersLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def check(self) -> None:
        pass

    def moved(self, storage: Storage) -> None:
        pass

    def gone(self) -> None:
        pass

    def holder(self) -> None:
        return None

    def break_held(self, owner: str) -> bool:
        return False


def caller_holds_lock(
    storage: Storage, settings: LockSettings, *, purpose: str, storage_options: Mapping[str, str] | None = None
) -> TableLock:
    """Returns a lock that does nothing, for a metadata table, which is used under the lock of its table. Implements
    `LockProvider`."""
    return _CallersLock()


BREAK = Remedy("break the lock with Table.locks.release", cli="break the lock with `hudi-py locks break`")

_log = logging.getLogger(__name__)

NOT_RENEWED: Final = "was lost: its lease was not renewed in time, or another process broke the lock"
_FIRST_WAIT_S = 0.05


_Lock = TypeVar("_Lock", bound="HeldByContext")


class HeldByContext(ABC):
    """A lock that is acquired at the start of a `with` block and released at its end, by one thread at a time.

    Args:
        settings: expiry and patience.
        purpose: what the lock is needed for; part of messages.
    """

    place: str
    """Where the lock is, for messages."""

    def __init__(self, settings: LockSettings, purpose: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._purpose = purpose
        self._sleep = sleep

    @abstractmethod
    def acquire(self) -> None:
        """Waits for the lock."""

    @abstractmethod
    def release(self) -> None:
        """Releases the lock, unless it belongs to another holder."""

    def moved(self, storage: Storage) -> None:  # noqa: B027
        """Does nothing: the lock is not in the table's folder, or the folder cannot be moved."""

    def gone(self) -> None:  # noqa: B027
        """Does nothing: the lock is not in the table's folder."""

    def __enter__(self: _Lock) -> _Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _wait_for(
        self,
        attempt: Callable[[], bool],
        holder: Callable[[], str],
        *,
        patience_ms: int | None = None,
        longest_wait_s: float = 1.0,
    ) -> None:
        """Tries until the lock is acquired.

        Args:
            attempt: tries once; True if the lock was acquired.
            holder: describes the holder, for messages.
            patience_ms: maximum wait in milliseconds; None: as long as a lease needs to expire.

        Raises:
            LockError: it could not be acquired in time.
        """
        patience_ms = self._settings.lease_patience_ms if patience_ms is None else patience_ms
        started = time.monotonic()
        pause = min(_FIRST_WAIT_S, longest_wait_s)
        logged = False
        while not attempt():
            waited = time.monotonic() - started
            left = patience_ms / 1000 - waited
            if left <= 0:
                raise self._held_error(holder(), waited)
            if waited > 2 and not logged:
                _log.warning("waiting for the lock %s, held by %s", self.place, holder())
                logged = True
            self._sleep(min(pause, left))
            pause = min(pause * 2, longest_wait_s)

    def _held_error(self, holder: str, waited_s: float) -> LockError:
        """Builds the error of a lock that could not be acquired in time."""
        return LockError(
            f"Cannot {self._purpose}: the table lock {self.place} is held by {holder}, waited {waited_s:.1f} s; wait "
            f"for its holder, or {BREAK} if you know that the holder is gone",
            path=self.place,
            found=holder,
            remedies=(BREAK,),
        )

    def _lost_error(self, how: str, *, option: str = "") -> LockError:
        """Builds the error of a holder whose lock is now free or belongs to another.

        Args:
            how: what happened to the lock; follows its place in the message.
            option: option to raise for all writers if this happens again.
        """
        again = f"; if this happens again, raise {option} for all writers" if option else ""
        return LockError(
            f"Cannot {self._purpose}: the table lock {self.place} {how}; write again{again}", path=self.place
        )


class Renewal:
    """A thread that renews a lease until it is stopped, or until `renew` returns False because the lease is lost."""

    def __init__(self, renew: Callable[[], bool], interval_s: float, name: str) -> None:
        self._renew = renew
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread after any renewal already started."""
        self._stop.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                if not self._renew():
                    return
            except Exception as error:  # the next renewal may get through before the lease ends
                _log.warning("the table lock was not renewed: %s", error)
