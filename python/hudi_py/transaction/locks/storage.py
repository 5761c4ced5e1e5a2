"""The table lock in an object store: Java's lock file with a lease (`StorageBasedLockProvider`, 1.2.0).

The file is never deleted, and is written only if it is still the version that was read. A random id identifies the
holder, which owns the lock until `validUntil` and renews it. Writers of hudi-py store their process in the object's
metadata, so that a lock whose process is provably gone is taken over at once.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from hudi_py.config import concurrency as config
from hudi_py.errors import ConfigError, CorruptFileError, LockError
from hudi_py.model.layout import STORAGE_LOCK
from hudi_py.storage import Storage
from hudi_py.storage.base import ConditionalStorage
from hudi_py.storage.conditional import Version, VersionedObject
from hudi_py.transaction.locks.audit import LockAudit, TransactionRecord
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.table_lock import NOT_RENEWED, HeldByContext, LockHolder, Renewal
from hudi_py.transaction.owner.identity import WriterIdentity, begin_work, end_work, parse_writer, process_identity

_log = logging.getLogger(__name__)

DRIFT_MS: Final = 500
"""Allowed clock difference in milliseconds: another holder's lease ends this long after its `validUntil`."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Content of the lock file."""

    expired: bool
    valid_until_ms: int
    owner: str

    def to_json(self) -> bytes:
        content = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(content, separators=(",", ":")).encode()

    def is_held(self, now_ms: int) -> bool:
        return not self.expired and now_ms <= self.valid_until_ms + DRIFT_MS


def parse_lease(file: VersionedObject, place: str) -> Lease:
    """Parses a lock file. Raises CorruptFileError if it is not a lease."""
    try:
        content = json.loads(file.data)
        expired = content["expired"]
        if isinstance(expired, str):
            expired = expired.strip().lower() == "true"
        return Lease(bool(expired), int(float(content["validUntil"])), str(content["owner"]))
    except (ValueError, KeyError, TypeError):
        raise CorruptFileError(
            f"Cannot read the table lock {place}: it holds {file.data[:100]!r}, expected a JSON object with expired, "
            "validUntil and owner; delete the file when no writer is running",
            path=STORAGE_LOCK,
        ) from None


_RELEASED: Final[dict[str, tuple[Version, float]]] = {}
"""The version with which this process released a lock and the time, by place. If that version is still there, nobody
has taken the lock since, and one request takes it again."""
_AUDITED: Final[dict[str, tuple[bool, float]]] = {}
"""Whether the lock is audited, and when this process has looked, by place."""
_REMEMBERED_S: Final = 60


class StorageLock(HeldByContext):
    """The lock of one table, held by one thread at a time. Use as a context manager.

    Args:
        storage: storage of the table.
        settings: lease and wait settings.
        purpose: what the lock is needed for; part of messages.
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
        if not isinstance(storage, ConditionalStorage):
            raise ConfigError(
                f"Cannot {purpose}: StorageBasedLockProvider needs an object store, and {storage.uri} is not one, as "
                "in Apache Hudi; use FileSystemBasedLockProvider, or leave hoodie.write.lock.provider out"
            )
        super().__init__(settings, purpose, sleep=sleep)
        self._storage: ConditionalStorage = storage
        self.place = f"{storage.uri}/{STORAGE_LOCK}"
        self._lease_s = settings.get(config.STORAGE_VALIDITY_S)
        # A lease counts as lost slightly before others may take it, which leaves time to complete an instant
        self._margin_s = self._lease_s / 10
        self._now_ms = now_ms
        self._guard = threading.Lock()
        self._owner = ""
        self._note = ""
        self._version: Version | None = None
        self._valid_until_ms = 0
        self._deadline = 0.0
        self._renewal: Renewal | None = None
        self._record: TransactionRecord | None = None

    def acquire(self) -> None:
        """Waits for the lock.

        Raises:
            LockError: it could not be acquired in time, or access to it is denied.
            ConfigError: the store ignores write conditions.
        """
        self._owner = str(uuid.uuid4())
        writer = WriterIdentity(self._owner, process_identity())
        self._note = json.dumps({**json.loads(writer.to_json()), "since": self._now_ms()})
        begin_work(self._owner)
        try:
            self._wait_for(self._try_acquire, self._describe_holder)
        except BaseException as error:
            end_work(self._owner)
            if isinstance(error, PermissionError):
                raise LockError(
                    f"Cannot {self._purpose}: the table lock {self.place} cannot be read or written "
                    f"({error.strerror}); writes and table services need read and write access to the table",
                    path=STORAGE_LOCK,
                ) from error
            raise
        self._record = self._audited()
        self._renewal = Renewal(self._renew_lease, self._settings.renewal_s, f"hudi-lock-{self._owner}")

    def check(self) -> None:
        """Raises LockError if the lease has expired or another holder has the lock."""
        with self._guard:
            held = self._version is not None and time.monotonic() < self._deadline
        if held:
            file = self._storage.read_version(STORAGE_LOCK)
            lease = None if file is None else parse_lease(file, self.place)
            held = lease is not None and lease.owner == self._owner and not lease.expired
        if not held:
            raise self._lost_error(NOT_RENEWED, option=config.STORAGE_VALIDITY_S.key)

    def gone(self) -> None:
        """Does nothing: the lease is deleted with the table."""
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.stop()
            end_work(self._owner)

    def release(self) -> None:
        """Marks the lease as expired, unless it belongs to another holder."""
        renewal, self._renewal = self._renewal, None
        if renewal is None:
            return
        try:
            renewal.stop()
            with self._guard:
                version, self._version = self._version, None
            left, end_ms = None, self._now_ms()
            if version is not None:
                left = self._put_own(Lease(True, self._valid_until_ms, self._owner), version)
            if left is not None:
                _RELEASED[self.place] = left, time.monotonic()
                if self._record is not None:
                    self._record.add("END", end_ms)
            else:
                _log.warning("the table lock %s was taken away while held", self.place)
        except OSError as error:
            _log.warning("the table lock %s could not be released; others wait until it expires: %s", self.place, error)
        finally:
            end_work(self._owner)

    def holder(self) -> LockHolder | None:
        """Returns the current holder of the lock."""
        file = self._storage.read_version(STORAGE_LOCK)
        lease = None if file is None else parse_lease(file, self.place)
        if file is None or lease is None or not lease.is_held(self._now_ms()):
            return None
        writer = self._lease_writer(file, lease)
        since_ms = json.loads(file.note)["since"] if writer is not None else file.modified_ms
        return LockHolder(
            "StorageBasedLockProvider",
            self.place,
            lease.owner,
            _to_datetime(since_ms),
            _to_datetime(lease.valid_until_ms),
            "" if writer is None else str(writer),
        )

    def break_held(self, owner: str) -> bool:
        """Marks an owner's lease as expired."""
        file = self._storage.read_version(STORAGE_LOCK)
        lease = None if file is None else parse_lease(file, self.place)
        if file is None or lease is None or lease.owner != owner or not lease.is_held(self._now_ms()):
            return False
        broken = Lease(True, lease.valid_until_ms, owner)
        return self._storage.replace(STORAGE_LOCK, broken.to_json(), file.version) is not None

    def _audited(self) -> TransactionRecord | None:
        """Begins the record of this use of the lock, if the audit is enabled."""
        enabled, looked = _AUDITED.get(self.place, (False, float("-inf")))
        if time.monotonic() - looked > _REMEMBERED_S:
            try:
                enabled = LockAudit(self._storage).enabled
            except OSError as error:
                _log.warning("the table lock %s is not audited: %s", self.place, error)
                return None
            _AUDITED[self.place] = enabled, time.monotonic()
        if not enabled:
            return None
        return TransactionRecord(self._storage, self._owner, self._now_ms(), round(self._lease_s * 1000))

    def _try_acquire(self) -> bool:
        left, at = _RELEASED.pop(self.place, (None, 0.0))
        if left is not None and time.monotonic() - at < _REMEMBERED_S and self._replace_lease(left, self._put_lease):
            return True
        file = self._storage.read_version(STORAGE_LOCK)
        if file is not None:
            lease = parse_lease(file, self.place)
            writer = self._lease_writer(file, lease)
            if lease.is_held(self._now_ms()) and not (writer is not None and writer.provably_dead):
                return False
        return self._replace_lease(None if file is None else file.version, self._put_lease)

    def _renew_lease(self) -> bool:
        with self._guard:
            version = self._version
        renewed = version is not None and self._replace_lease(version, self._put_own)
        if renewed and self._record is not None:
            self._record.add("RENEW", self._now_ms())
        return renewed

    def _replace_lease(self, version: Version | None, put: Callable[[Lease, Version | None], Version | None]) -> bool:
        """Replaces a version by a lease that begins now. Returns False if another has already replaced that version."""
        asked = time.monotonic()
        valid_until_ms = self._now_ms() + round(self._lease_s * 1000)
        written = put(Lease(False, valid_until_ms, self._owner), version)
        with self._guard:
            self._version = written
            if written is None:
                return False
            self._valid_until_ms = valid_until_ms
            self._deadline = asked + self._lease_s - self._margin_s
            return True

    def _put_lease(self, lease: Lease, version: Version | None) -> Version | None:
        return self._storage.replace(STORAGE_LOCK, lease.to_json(), version, self._note)

    def _put_own(self, lease: Lease, version: Version | None) -> Version | None:
        """Writes this holder's own lease, whose version differs if the response to a renewal was lost."""
        written = self._put_lease(lease, version)
        if written is not None:
            return written
        file = self._storage.read_version(STORAGE_LOCK)
        current = None if file is None else parse_lease(file, self.place)
        if file is None or current is None or current.owner != self._owner or current.expired:
            return None
        return self._put_lease(lease, file.version)

    def _lease_writer(self, file: VersionedObject, lease: Lease) -> WriterIdentity | None:
        """Returns the hudi-py process that holds a lease; None if Apache Hudi has overwritten the process
        information."""
        writer = parse_writer(file.note) if file.note else None
        return writer if writer is not None and writer.id == lease.owner else None

    def _describe_holder(self) -> str:
        holder = self.holder()
        if holder is None:
            return "a writer that has just released it"
        who = holder.process or f"owner {holder.owner}"
        return f"{who} until {holder.expires:%Y-%m-%d %H:%M:%S} UTC unless it is renewed"


def _to_datetime(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc)
