"""The interface of all table locks, whether stored in a file, an object store or a service."""

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
        """The table has been deleted, with a lock that was kept in its folder: there is nothing to release."""
        ...

    def holder(self) -> LockHolder | None:
        """The current holder of the lock, this process or another; None if it is free."""
        ...

    def break_held(self, owner: str) -> bool:
        """Takes the lock away from a holder, as named by `holder`. False if the lock is free or held by another."""
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
    """A `LockProvider` for a metadata table, which is used under the lock of its table."""
    return _CallersLock()
