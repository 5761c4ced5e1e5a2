"""What every lock of a table does, whatever keeps it: a file, an object store, a service."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from hudi_py.storage import Storage
from hudi_py.transaction.settings import LockSettings


class TableLock(Protocol):
    """The lock of one table, held by one process at a time. A context manager; may be entered again once released."""

    def __enter__(self) -> object:
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

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def check(self) -> None:
        pass


def caller_holds_lock(
    storage: Storage, settings: LockSettings, *, purpose: str, storage_options: Mapping[str, str] | None = None
) -> TableLock:
    """A `LockProvider` for a metadata table, which is worked on under the lock of its table."""
    return _CallersLock()
