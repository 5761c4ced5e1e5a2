"""Locks of a table: what one does, and the kinds there are."""

from __future__ import annotations

from hudi_py.transaction.locks.file import NO_ACCESS, FileLock
from hudi_py.transaction.locks.table_lock import LockProvider, TableLock, caller_holds_lock

__all__ = ["NO_ACCESS", "FileLock", "LockProvider", "TableLock", "caller_holds_lock"]
