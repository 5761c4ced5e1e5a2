"""What every lock of a table does, whatever keeps it: a file, an object store, a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Protocol

from hudi_py.storage import Storage
from hudi_py.transaction.locks.settings import LockSettings


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds the lock of a table."""

    provider: str
    """Class name of Apache Hudi's lock provider, without the package."""
    place: str
    """Where the lock is kept."""
    owner: str
    """What the holder is known by there; `break_lock` takes it."""
    since: datetime | None
    """When the lock was acquired; where only that is known, when it was last renewed."""
    expires: datetime | None
    """When others may take the lock unless it is renewed; None: it does not expire, or that is not known."""
    process: str = ""
    """The holder's process, where it is a writer of hudi-py."""


class TableLock(Protocol):
    """The lock of one table, held by one process at a time. A context manager; may be entered again once released."""

    def __enter__(self) -> TableLock:
        """Waits for the lock.

        Raises:
            LockError: it could not be acquired within the configured time, or may not be written.
        """
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases the lock; leaves one alone that another process has taken meanwhile."""
        ...

    def check(self) -> None:
        """Raises LockError where the lock is no longer held: it expired, or was removed. Called right before an action
        completes, the one moment at which two processes must not meet."""
        ...

    def holder(self) -> LockHolder | None:
        """Who holds the lock now, this process or another; None when it is free."""
        ...

    def break_held(self, owner: str) -> bool:
        """Takes the lock away from a holder, as `holder` names it. False when somebody else holds it, or nobody."""
        ...


class LockProvider(Protocol):
    """Makes the lock of a table. Pickles; holds no credentials."""

    def __call__(
        self,
        storage: Storage,
        settings: LockSettings,
        *,
        purpose: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> TableLock:
        """A lock, not yet acquired.

        Args:
            purpose: what the lock is needed for, as error messages say it after "Cannot".
            storage_options: credentials for a lock that is kept elsewhere.
        """
        ...


class _CallersLock:
    """Stands in where the caller holds the lock already."""

    def __enter__(self) -> _CallersLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def check(self) -> None:
        pass

    def holder(self) -> None:
        return None

    def break_held(self, owner: str) -> bool:
        return False


def caller_holds_lock(
    storage: Storage, settings: LockSettings, *, purpose: str, storage_options: Mapping[str, str] | None = None
) -> TableLock:
    """A `LockProvider` for a metadata table, which is worked on under the lock of its table."""
    return _CallersLock()
