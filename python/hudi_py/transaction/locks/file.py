"""The table lock: Java's file-system lock file (`FileSystemBasedLockProvider`, 1.2.0).

The lock is a file created only if absent, deleted on release. Java writes a description of its thread into it and
judges a lock by the file's age alone; ours holds the identity of its process, so that a lock whose process is provably
gone can be broken at once.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from types import TracebackType

from hudi_py.errors import ConfigError, LockError
from hudi_py.model.names import join_path
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.base import ConditionalStorage
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.table_lock import LockHolder
from hudi_py.transaction.owner.identity import (
    WriterIdentity,
    begin_work,
    end_work,
    new_writer_id,
    parse_writer,
    process_identity,
)
from hudi_py.transaction.paths import LOCK_FILE, META_FOLDER

_log = logging.getLogger(__name__)

NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
"""What the system answers where this user may not write."""
_FIRST_WAIT_MS = 20
_LONGEST_WAIT_MS = 500
_SETTLING_S = 0.05
_BREAKER_PATIENCE_S = 1.0
_TOMBSTONE = "lock.broken."
_TOMBSTONE_LIFE_MS = 24 * 3600 * 1000


class FileLock:
    """The lock of one table, to be held by one thread at a time. Use as a context manager.

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
        if settings.path is None:
            self._storage, folder = storage, META_FOLDER
        else:
            self._storage, folder = open_storage(settings.path, storage_options), ""
        if isinstance(self._storage, ConditionalStorage):
            raise ConfigError(
                f"Cannot {purpose}: FileSystemBasedLockProvider cannot keep the table lock in {self._storage.uri}: "
                "object "
                "stores have no atomic rename, and Apache Hudi refuses it too; use StorageBasedLockProvider, or leave "
                "hoodie.write.lock.provider out"
            )
        self._folder = folder
        self.path = join_path(folder, LOCK_FILE)
        self._settings = settings
        self._purpose = purpose
        self._sleep = sleep
        self._now_ms = now_ms
        self._held: bytes | None = None
        self._holder_id = ""
        self._stuck: tuple[bytes | None, float] = (None, 0.0)

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

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
            self._wait(content)
        except BaseException as error:
            end_work(holder.id)
            if isinstance(error, OSError) and error.errno in NO_ACCESS:
                raise LockError(
                    f"Cannot {self._purpose}: the table lock {self._storage.uri}/{self.path} cannot be written "
                    f"({error.strerror}); writes and table services need write access to the table's folder: give it "
                    "to this user",
                    path=self.path,
                ) from error
            raise
        self._held, self._holder_id = content, holder.id

    def _wait(self, content: bytes) -> None:
        started = time.monotonic()
        patience_ms = self._settings.patience_ms
        wait_ms = _FIRST_WAIT_MS
        told = False
        foreign = self._settings.shared
        while not self._had(content, foreign):
            foreign = foreign or self._is_foreign()
            if self._break_dead():
                continue
            waited_ms = (time.monotonic() - started) * 1000
            if waited_ms >= patience_ms:
                raise LockError(
                    f"Cannot {self._purpose}: the table lock {self._storage.uri}/{self.path} is held by "
                    f"{self._holder()}, waited {waited_ms / 1000:.1f} s; wait for its holder, or delete the file if "
                    "you know that the holder is gone",
                    path=self.path,
                    found=self._holder(),
                )
            if waited_ms > 2000 and not told:
                _log.warning("waiting for the lock %s/%s, held by %s", self._storage.uri, self.path, self._holder())
                told = True
            self._sleep(min(wait_ms, max(patience_ms - waited_ms, 1)) / 1000)
            wait_ms = min(wait_ms * 2, self._settings.retry_wait_ms, _LONGEST_WAIT_MS)

    def _had(self, content: bytes, foreign: bool) -> bool:
        """Tries once. True when the lock is ours.

        Args:
            foreign: Apache Hudi uses the lock, too. Its provider deletes the file twice when it gives the lock
                back, the second time maybe one that has become ours, and on local file systems creates the file over
                one that has come just before: what is still there a moment later stays.
        """
        if not self._storage.put_if_absent(self.path, content):
            return False
        if foreign:
            self._sleep(_SETTLING_S)
            return self._content() == content
        return True

    def _is_foreign(self) -> bool:
        content = self._content()
        return content is not None and parse_writer(content) is None

    def check(self) -> None:
        """Raises LockError when the lock is not ours any more: another process took it for expired, or deleted it."""
        if self._held is None or self._content() != self._held:
            raise LockError(
                f"Cannot {self._purpose}: the table lock {self._storage.uri}/{self.path} was taken away; write again; "
                "if this happens again, raise hoodie.write.lock.filesystem.expire for all writers",
                path=self.path,
            )

    def release(self) -> None:
        """Gives the lock back; one that is not ours any more is left alone."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            if self._content() == held:
                self._storage.delete(self.path)
            else:
                _log.warning("the table lock %s/%s was taken away while held", self._storage.uri, self.path)
        finally:
            end_work(self._holder_id)

    def holder(self) -> LockHolder | None:
        """Who holds the lock now. One of Apache Hudi is known by the time of its file, in milliseconds."""
        content, info = self._content(), self._storage.stat(self.path)
        if content is None or info is None:
            return None
        writer = parse_writer(content)
        since = datetime.fromtimestamp(info.modified_ms / 1000, timezone.utc)
        lasts = timedelta(minutes=self._settings.expire_minutes)
        return LockHolder(
            "FileSystemBasedLockProvider",
            f"{self._storage.uri}/{self.path}",
            str(info.modified_ms) if writer is None else writer.id,
            since,
            since + lasts if lasts else None,
            "" if writer is None else str(writer),
        )

    def break_held(self, owner: str) -> bool:
        """Moves the lock file of an owner away."""
        found = self.holder()
        if found is None or found.owner != owner:
            return False
        try:
            self._storage.rename(self.path, join_path(self._folder, _TOMBSTONE + owner))
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _content(self) -> bytes | None:
        try:
            return self._storage.read(self.path)
        except FileNotFoundError:
            return None

    def _holder(self) -> str:
        content, info = self._content(), self._storage.stat(self.path)
        if content is None or info is None:
            return "a writer that has just released it"
        writer = parse_writer(content)
        age = max(self._now_ms() - info.modified_ms, 0) / 1000
        return f"{writer if writer is not None else 'a process that left no identity'} for {age:.0f} s"

    def _break_dead(self) -> bool:
        """Removes a lock that is provably dead or expired. True when the lock may be free now."""
        content, info = self._content(), self._storage.stat(self.path)
        if content is None or info is None:
            return True
        writer = parse_writer(content)
        if writer is not None and writer.provably_dead:
            mark, why = writer.id, "its process is gone"
        elif 0 < self._settings.expire_minutes * 60_000 < self._now_ms() - info.modified_ms:
            mark, why = (writer.id if writer is not None else str(info.modified_ms)), "it has expired"
        else:
            return False
        # Its holder may have released it before he went, and the lock be another's by now. Who is gone releases nothing
        # any more, so what is still there after the judgement is his
        if self._content() != content:
            return True
        # A rename never overwrites, so each dead lock is moved away once: whoever judged it late cannot remove the
        # lock of the process that has taken its place
        tombstone = join_path(self._folder, _TOMBSTONE + mark)
        try:
            self._storage.rename(self.path, tombstone)
        except FileNotFoundError:
            return True
        except FileExistsError:
            return self._break_again(content, f"{tombstone}.{new_writer_id()}")
        _log.warning("broke the table lock %s/%s: %s", self._storage.uri, self.path, why)
        self._sweep_tombstones()
        return True

    def _break_again(self, content: bytes, tombstone: str) -> bool:
        """For a dead lock that has its tombstone and is still there: its breaker is at it, or died half way."""
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
            # the lock of somebody else: give it back. Should a third one have come in between, the owner finds out by
            # `check` before he publishes anything
            with contextlib.suppress(FileExistsError):
                self._storage.rename(tombstone, self.path)
        return True

    def _sweep_tombstones(self) -> None:
        for info in self._storage.list(self._folder):
            if info.name.startswith(_TOMBSTONE) and self._now_ms() - info.modified_ms > _TOMBSTONE_LIFE_MS:
                self._storage.delete(info.path)
