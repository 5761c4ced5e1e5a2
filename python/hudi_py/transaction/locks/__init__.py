"""Table locks: their interface, and the providers among which options choose."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from hudi_py.config import Options, Scope
from hudi_py.config import concurrency as config
from hudi_py.errors import LockError, Remedy
from hudi_py.storage import Storage
from hudi_py.storage.base import ConditionalStorage
from hudi_py.transaction.locks.audit import AuditReport, LockAudit
from hudi_py.transaction.locks.dynamodb import DynamoLock
from hudi_py.transaction.locks.file import NO_ACCESS, FileLock
from hudi_py.transaction.locks.in_process import InProcessLock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.storage import StorageLock
from hudi_py.transaction.locks.table_lock import LockHolder, LockProvider, TableLock, caller_holds_lock
from hudi_py.transaction.locks.zookeeper import ZookeeperLock

__all__ = [
    "NO_ACCESS",
    "AuditReport",
    "FileLock",
    "LockAudit",
    "LockHolder",
    "LockProvider",
    "TableLock",
    "TableLocks",
    "break_lock",
    "caller_holds_lock",
    "lock_holders",
    "table_lock",
]


_log = logging.getLogger(__name__)

_HOLDERS: Final = Remedy("look at Table.locks.holders() again", cli="look at `hudi-py locks show` again")

_LOCKS: Final[Mapping[str, Callable[..., TableLock]]] = {
    config.FILE_SYSTEM_LOCK: FileLock,
    config.STORAGE_LOCK: StorageLock,
    config.IN_PROCESS_LOCK: InProcessLock,
    config.ZOOKEEPER_LOCK: ZookeeperLock,
    config.ZOOKEEPER_IMPLICIT_LOCK: ZookeeperLock,
    config.DYNAMODB_LOCK: DynamoLock,
    config.DYNAMODB_IMPLICIT_LOCK: DynamoLock,
}


def table_lock(
    storage: Storage, settings: LockSettings, *, purpose: str, storage_options: Mapping[str, str] | None = None
) -> TableLock:
    """Creates the lock that the settings name, by default one stored with the table. This is the `LockProvider` of
    tables.

    Raises:
        ConfigError: the lock cannot be kept on this storage.
    """
    provider = settings.get(config.LOCK_PROVIDER)
    if provider is None:
        beside = isinstance(storage, ConditionalStorage) and settings.get(config.LOCK_PATH) is None
        provider = config.STORAGE_LOCK if beside else config.FILE_SYSTEM_LOCK
    return _LOCKS[provider](storage, settings, purpose=purpose, storage_options=storage_options)


class TableLocks:
    """The lock of a table. `options` configure it, like those of writes, and override those with which the table was
    opened."""

    def __init__(
        self, storage: Storage, options: Mapping[str, Any], storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._storage = storage
        self._options = options
        self._storage_options = storage_options

    @property
    def audit(self) -> LockAudit:
        """Returns the records of who held the lock, if it is kept in an object store."""
        return LockAudit(self._storage)

    def holders(self, *, options: Mapping[str, Any] | None = None) -> list[LockHolder]:
        """Returns the holder of the lock: a list of one, or empty."""
        return lock_holders(self._storage, {**self._options, **(options or {})}, self._storage_options)

    def release(self, owner: str, *, options: Mapping[str, Any] | None = None) -> None:
        """Releases the lock of an owner whose process has ended, named as in `holders`. An owner that is still running
        fails before it completes anything.

        Raises:
            LockError: the lock is free, or held by another owner.
        """
        break_lock(self._storage, owner, {**self._options, **(options or {})}, self._storage_options)


def lock_holders(
    storage: Storage, options: Mapping[str, Any], storage_options: Mapping[str, str] | None = None
) -> list[LockHolder]:
    """Returns the holder of a table's lock: a list of one, or empty.

    Args:
        options: write options, which name the lock.
    """
    holder = _open_lock(storage, options, "look at the table lock", storage_options).holder()
    return [] if holder is None else [holder]


def break_lock(
    storage: Storage, owner: str, options: Mapping[str, Any], storage_options: Mapping[str, str] | None = None
) -> None:
    """Takes the lock away from a holder that is gone. A holder that is still running notices before it completes its
    action, and fails.

    Args:
        owner: the holder, as `lock_holders` names it.
        options: write options, which name the lock.

    Raises:
        LockError: the lock is free, or held by another owner.
    """
    lock = _open_lock(storage, options, "break the table lock", storage_options)
    if lock.break_held(owner):
        _log.warning("broke the table lock of %s, held by %s", storage.uri, owner)
        return
    holder = lock.holder()
    raise LockError(
        f"Cannot break the lock of {storage.uri}: its holder is {'nobody' if holder is None else holder.owner}, not "
        f"{owner}; {_HOLDERS}",
        remedies=(_HOLDERS,),
        found=None if holder is None else holder.owner,
        expected=owner,
    )


def _open_lock(
    storage: Storage, options: Mapping[str, Any], purpose: str, storage_options: Mapping[str, str] | None
) -> TableLock:
    resolved = Options.resolve(options, Scope.WRITE)
    return table_lock(storage, LockSettings.of(resolved), purpose=purpose, storage_options=storage_options)
