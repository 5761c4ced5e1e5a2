"""Table locks: their interface and the providers."""

from __future__ import annotations

from hudi_py.transaction.locks.choose import TableLocks, break_lock, lock_holders, table_lock
from hudi_py.transaction.locks.file import NO_ACCESS, FileLock
from hudi_py.transaction.locks.table_lock import LockHolder, LockProvider, TableLock, caller_holds_lock

__all__ = [
    "NO_ACCESS",
    "FileLock",
    "LockHolder",
    "LockProvider",
    "TableLock",
    "TableLocks",
    "break_lock",
    "caller_holds_lock",
    "lock_holders",
    "table_lock",
]
