"""The table lock between threads of one process (`InProcessLockProvider`, 1.2.0)."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone

from hudi_py.config import Options
from hudi_py.config import concurrency as config
from hudi_py.errors import ConfigError
from hudi_py.storage import Storage
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.table_lock import HeldByContext, LockHolder

_held: dict[str, LockHolder] = {}
"""Holders by table URI."""
_guard = threading.Lock()


class InProcessLock(HeldByContext):
    """The lock of one table, held by one thread at a time. Use as a context manager."""

    def __init__(
        self,
        storage: Storage,
        settings: LockSettings,
        *,
        purpose: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.place = storage.uri
        super().__init__(settings, purpose)
        self._owner = ""

    def acquire(self) -> None:
        """Waits for the lock. Raises LockError if it could not be acquired in time."""
        self._owner = str(uuid.uuid4())
        self._wait_for(self._try_acquire, self._describe_holder, longest_wait_s=0.1)

    def check(self) -> None:
        """Raises LockError if the lock was broken."""
        holder = self.holder()
        if holder is None or holder.owner != self._owner:
            raise self._lost_error("was broken")

    def release(self) -> None:
        """Releases the lock, unless it belongs to another holder."""
        self.break_held(self._owner)

    def holder(self) -> LockHolder | None:
        """Returns the current holder of the lock."""
        with _guard:
            return _held.get(self.place)

    def break_held(self, owner: str) -> bool:
        """Takes the lock away from an owner."""
        with _guard:
            holder = _held.get(self.place)
            if holder is None or holder.owner != owner:
                return False
            del _held[self.place]
            return True

    def _try_acquire(self) -> bool:
        mine = LockHolder(
            "InProcessLockProvider",
            self.place,
            self._owner,
            datetime.fromtimestamp(time.time(), timezone.utc),
            None,
            f"thread {threading.current_thread().name} of process {os.getpid()}",
        )
        with _guard:
            return _held.setdefault(self.place, mine) is mine

    def _describe_holder(self) -> str:
        holder = self.holder()
        return "a thread that has just released it" if holder is None else holder.process


def check_many_processes(options: Options) -> None:
    """Raises ConfigError if the configured lock cannot protect work shared by several processes."""
    if options.get(config.LOCK_PROVIDER) == config.IN_PROCESS_LOCK:
        raise ConfigError(
            f"Option {config.LOCK_PROVIDER.key} = '{config.IN_PROCESS_LOCK}' is not supported through Spark: writes "
            "and services run in several processes, which this lock does not exclude; use FileSystemBasedLockProvider, "
            "or StorageBasedLockProvider on object stores",
            key=config.LOCK_PROVIDER.key,
        )
