"""The table lock: Java's file-system lock file (`FileSystemBasedLockProvider`, 1.2.0).

The lock is a file created only if absent, deleted on release. Java writes a description of its thread into it and
judges a lock by the file's age alone; ours holds the identity of its process, so that a lock whose process is provably
gone can be broken at once.

The file does not record who has waited longest, so a process that keeps acquiring the lock could starve the others.
Waiting processes of hudi-py note that in a file beside the lock, and a process that has just released the lock lets
them try first. Apache Hudi does not know this file: it tries as often as
`hoodie.write.lock.client.wait_time_ms_between_retry` says.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone

from hudi_py.config import concurrency as config
from hudi_py.errors import ConfigError, LockError
from hudi_py.model.layout import LOCK_FILE, META_FOLDER
from hudi_py.model.names import join_path
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.base import ConditionalStorage
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.table_lock import HeldByContext, LockHolder
from hudi_py.transaction.owner.identity import (
    WriterIdentity,
    begin_work,
    end_work,
    new_writer_id,
    parse_writer,
    process_identity,
)

_log = logging.getLogger(__name__)

NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors that the system returns where this user may not write."""
_MAX_WAIT_S = 0.1
_SETTLING_S = 0.05
_BREAKER_PATIENCE_S = 1.0
_WAITING = "lock.waiting"
_WAITING_LIFE_S = 1.0
"""Seconds for which the file of waiting processes counts after its last change."""
_TOMBSTONE = "lock.broken."
_TOMBSTONE_LIFE_MS = 24 * 3600 * 1000

_released: dict[str, float] = {}
"""When this process released locks: place, and monotonic seconds."""


class FileLock(HeldByContext):
    """The lock of one table, held by one thread at a time. Use as a context manager.

    Args:
        storage: the table's.
        settings: place, expiry and patience.
        purpose: what the lock is wanted for; part of messages.
        storage_options: credentials for the lock's folder when it is not the table's own.
    """

    def __init__(
        self,
        storage: Storage,
        settings: LockSettings,
        *,
        purpose: str,
        storage_options: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(settings, purpose, sleep=sleep)
        elsewhere = settings.get(config.LOCK_PATH)
        self._storage, folder = storage, META_FOLDER
        if elsewhere is not None:
            self._storage, folder = open_storage(elsewhere, storage_options), ""
        if isinstance(self._storage, ConditionalStorage):
            raise ConfigError(
                f"Cannot {purpose}: FileSystemBasedLockProvider cannot keep the table lock in {self._storage.uri}: "
                "object "
                "stores have no atomic rename, and Apache Hudi refuses it too; use StorageBasedLockProvider, or leave "
                "hoodie.write.lock.provider out"
            )
        self._folder = folder
        self.path = join_path(folder, LOCK_FILE)
        self.place = f"{self._storage.uri}/{self.path}"
        self._waiting = join_path(folder, _WAITING)
        self._now_ms = now_ms
        self._held: bytes | None = None
        self._holder_id = ""
        self._shared = settings.shared
        """Whether Apache Hudi uses the lock, too."""
        self._stuck: tuple[bytes | None, float] = (None, 0.0)
        self._noted: float | None = None
        """When this process last noted that it waits, in monotonic seconds."""

    @property
    def held(self) -> bool:
        return self._held is not None

    def acquire(self) -> None:
        """Waits for the lock.

        Raises:
            LockError: it could not be acquired in time (names the lock file, its holder and its age), or its file may
                not be written.
        """
        # One random id for each acquisition: a tombstone of it can exist only once
        holder = WriterIdentity(new_writer_id(), process_identity())
        content = holder.to_json().encode()
        begin_work(holder.id)
        try:
            self._give_way()
            self._wait_for(
                lambda: self._try_acquire(content),
                self._describe_holder,
                patience_ms=self._settings.patience_ms,
                longest_wait_s=min(self._settings.get(config.LOCK_RETRY_WAIT_MS) / 1000, _MAX_WAIT_S),
            )
        except BaseException as error:
            end_work(holder.id)
            if isinstance(error, OSError) and error.errno in NO_ACCESS:
                raise LockError(
                    f"Cannot {self._purpose}: the table lock {self.place} cannot be written "
                    f"({error.strerror}); writes and table services need write access to the table's folder: give it "
                    "to this user",
                    path=self.path,
                ) from error
            raise
        finally:
            self._note_end()
        self._held, self._holder_id = content, holder.id

    def _try_acquire(self, content: bytes) -> bool:
        if self._try_once(content) or (self._break_dead() and self._try_once(content)):
            return True
        self._shared = self._shared or self._is_foreign()
        self._note_waiting()
        return False

    def _try_once(self, content: bytes) -> bool:
        """Tries once. Returns whether we hold the lock.

        Apache Hudi's provider deletes the file twice on release, and the second time it may delete ours. On local file
        systems, it also creates its file over one that was created just before. So where Apache Hudi uses the lock too,
        only a file that is still there a moment later counts.
        """
        if not self._storage.put_if_absent(self.path, content):
            return False
        if self._shared:
            self._sleep(_SETTLING_S)
            return self._read_content() == content
        return True

    def _give_way(self) -> None:
        """Lets waiting processes try first, if this process has just released the lock."""
        if time.monotonic() - _released.get(self.place, -math.inf) < _WAITING_LIFE_S:
            info = self._storage.stat(self._waiting)
            if info is not None and self._now_ms() - info.modified_ms < _WAITING_LIFE_S * 1000:
                self._sleep(2 * _MAX_WAIT_S)

    def _note_waiting(self) -> None:
        now = time.monotonic()
        if self._noted is None or now - self._noted > _WAITING_LIFE_S / 4:
            self._noted = now
            with contextlib.suppress(OSError):
                self._storage.touch(self._waiting)

    def _note_end(self) -> None:
        if self._noted is not None:
            self._noted = None
            with contextlib.suppress(OSError):
                self._storage.delete(self._waiting)  # other waiting processes note it again

    def _is_foreign(self) -> bool:
        content = self._read_content()
        return content is not None and parse_writer(content) is None

    def check(self) -> None:
        """Raises LockError if the lock is not ours anymore: another process considered it expired, or deleted it."""
        if self._held is None or self._read_content() != self._held:
            raise self._lost_error("was taken away", option=config.LOCK_EXPIRE_MINUTES.key)

    def moved(self, storage: Storage) -> None:
        """Does nothing: a lock in the table's folder has been moved with it."""
        if self._settings.get(config.LOCK_PATH) is None:
            self._storage = storage

    def gone(self) -> None:
        """Does nothing: a lock in the table's folder is deleted with it."""
        if self._settings.get(config.LOCK_PATH) is None:
            self._held = None
            end_work(self._holder_id)

    def release(self) -> None:
        """Releases the lock; one that is not ours anymore is left alone."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            if self._read_content() == held:
                self._storage.delete(self.path)
            else:
                _log.warning("the table lock %s was taken away while held", self.place)
        finally:
            _released[self.place] = time.monotonic()
            end_work(self._holder_id)

    def holder(self) -> LockHolder | None:
        """Returns the current holder of the lock. A holder that is Apache Hudi is identified by the time of its file,
        in milliseconds."""
        content, info = self._read_content(), self._storage.stat(self.path)
        if content is None or info is None:
            return None
        writer = parse_writer(content)
        since = datetime.fromtimestamp(info.modified_ms / 1000, timezone.utc)
        lasts = timedelta(minutes=self._settings.get(config.LOCK_EXPIRE_MINUTES))
        return LockHolder(
            "FileSystemBasedLockProvider",
            self.place,
            str(info.modified_ms) if writer is None else writer.id,
            since,
            since + lasts if lasts else None,
            "" if writer is None else str(writer),
        )

    def break_held(self, owner: str) -> bool:
        """Moves the lock file of an owner away."""
        holder = self.holder()
        if holder is None or holder.owner != owner:
            return False
        try:
            self._storage.rename(self.path, join_path(self._folder, _TOMBSTONE + owner))
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _read_content(self) -> bytes | None:
        try:
            return self._storage.read(self.path)
        except FileNotFoundError:
            return None

    def _describe_holder(self) -> str:
        content, info = self._read_content(), self._storage.stat(self.path)
        if content is None or info is None:
            return "a writer that has just released it"
        writer = parse_writer(content)
        age = max(self._now_ms() - info.modified_ms, 0) / 1000
        return f"{writer if writer is not None else 'a process that left no identity'} for {age:.0f} s"

    def _break_dead(self) -> bool:
        """Removes a lock that is provably dead or expired. Returns whether the lock may be free now."""
        content, info = self._read_content(), self._storage.stat(self.path)
        if content is None or info is None:
            return True
        writer = parse_writer(content)
        if writer is not None and writer.provably_dead:
            mark, why = writer.id, "its process is gone"
        elif 0 < self._settings.get(config.LOCK_EXPIRE_MINUTES) * 60_000 < self._now_ms() - info.modified_ms:
            mark, why = (writer.id if writer is not None else str(info.modified_ms)), "it has expired"
        else:
            return False
        # Its holder may have released it before it ended, and another may hold the lock by now. A process that is gone
        # releases nothing anymore, so a file that is still there after this check is its own
        if self._read_content() != content:
            return True
        # A rename never overwrites, so each dead lock is moved away once: a process that judged it late cannot remove
        # the lock of the process that has taken its place
        tombstone = join_path(self._folder, _TOMBSTONE + mark)
        try:
            self._storage.rename(self.path, tombstone)
        except FileNotFoundError:
            return True
        except FileExistsError:
            return self._break_again(content, f"{tombstone}.{new_writer_id()}")
        _log.warning("broke the table lock %s: %s", self.place, why)
        self._sweep_tombstones()
        return True

    def _break_again(self, content: bytes, tombstone: str) -> bool:
        """Handles a dead lock that has a tombstone but is still there: the process that breaks it is at work, or died
        halfway."""
        seen, since = self._stuck
        if seen != content:
            self._stuck = content, time.monotonic()
            return False
        if time.monotonic() - since < _BREAKER_PATIENCE_S:
            return False
        try:
            self._storage.rename(self.path, tombstone)
        except FileNotFoundError:
            return True
        if self._storage.read(tombstone) != content:
            # another writer's lock: give it back. If a third writer came in between, the owner notices in `check`
            # before it publishes anything
            with contextlib.suppress(FileExistsError):
                self._storage.rename(tombstone, self.path)
        return True

    def _sweep_tombstones(self) -> None:
        for info in self._storage.list(self._folder):
            if info.name.startswith(_TOMBSTONE) and self._now_ms() - info.modified_ms > _TOMBSTONE_LIFE_MS:
                self._storage.delete(info.path)
