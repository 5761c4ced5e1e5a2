"""The audit of the table lock in an object store: a file for each transaction, with a line of JSON whenever its owner
acquired, renewed or released the lock (`StorageLockProviderAuditService`, `SetAuditLockProcedure`,
`ValidateAuditLockProcedure`, `CleanupAuditLockProcedure`, 1.2.0).
"""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hudi_py.errors import ConfigError
from hudi_py.model.layout import LOCK_AUDIT, LOCK_AUDIT_CONFIG
from hudi_py.model.limits import parse_json
from hudi_py.model.words import Spoken, counted
from hudi_py.storage import FileInfo, Storage

_log = logging.getLogger(__name__)

_ENABLED: Final = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"
_SUFFIX: Final = ".jsonl"
_DAY_MS: Final = 86_400_000
DEFAULT_AGE_DAYS: Final = 7


@dataclass(frozen=True, slots=True)
class Transaction:
    """A recorded use of the lock; times in milliseconds since the epoch."""

    file: str
    """Name of its file."""
    start_ms: int
    end_ms: int | None
    """When the lock was released; None if that was not recorded."""
    expires_ms: int | None
    """When the lease recorded last was to end."""

    @property
    def effective_end_ms(self) -> int:
        """Returns until when the lock counts as held."""
        return next(moment for moment in (self.end_ms, self.expires_ms, self.start_ms) if moment is not None)


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport(Spoken):
    """The result of examining the recorded transactions."""

    num_files: int
    num_transactions: int
    """Number of files that could be parsed."""
    errors: tuple[str, ...] = ()
    """Transactions that overlap, and files that could not be parsed."""
    warnings: tuple[str, ...] = ()
    """Transactions whose end is not recorded."""
    nothing: str = ""
    """Why there was nothing to examine."""

    @property
    def result(self) -> str:
        """`PASSED`, `WARNING` or `FAILED`."""
        return "FAILED" if self.errors else "WARNING" if self.warnings else "PASSED"

    @property
    def details(self) -> str:
        """Returns the findings in one text, as Apache Hudi words them."""
        if self.nothing:
            return f"{self.nothing} - nothing to validate"
        if not self.num_transactions:
            return "Failed to parse any audit files"
        counts = (
            f"Audit Files: {self.num_files} total, {self.num_transactions} parsed successfully, "
            f"{self.num_files - self.num_transactions} failed to parse"
        )
        if self.result == "PASSED":
            return f"All audit lock transactions validated successfully. {counts}"
        return f"{counts}. {', '.join((*self.errors, *self.warnings))}"

    @property
    def num_issues(self) -> int:
        return len(self.errors) + len(self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to JSON types, by name."""
        return {
            "result": self.result,
            "num_files": self.num_files,
            "num_transactions": self.num_transactions,
            "errors": list(self.errors),
            "warnings": list(self.warnings),
        }

    def _text(self) -> str:
        return f"{self.result.lower()}: {self.details}"


class TransactionRecord:
    """The record that a holder of the lock keeps. A record that cannot be written is logged, and holds nothing up.

    Args:
        owner: id of the holder.
        start_ms: when it acquired the lock, in milliseconds since the epoch.
        lease_ms: duration of its lease.
    """

    def __init__(self, storage: Storage, owner: str, start_ms: int, lease_ms: int) -> None:
        self._storage = storage
        self._owner = owner
        self._start_ms = start_ms
        self._lease_ms = lease_ms
        self._lines = b""
        self.add("START", start_ms)

    def add(self, state: str, now_ms: int) -> None:
        """Adds an event: `START`, `RENEW` or `END`."""
        event = {
            "ownerId": self._owner,
            "transactionStartTime": self._start_ms,
            "timestamp": now_ms,
            "state": state,
            "lockExpiration": now_ms + self._lease_ms,
            "lockHeld": state != "END",
        }
        self._lines += json.dumps(event, separators=(",", ":")).encode() + b"\n"
        path = f"{LOCK_AUDIT}/{self._start_ms}_{self._owner}{_SUFFIX}"
        try:
            self._storage.put(path, self._lines)
        except OSError as error:
            _log.warning("the use of the table lock could not be recorded in %s/%s: %s", self._storage.uri, path, error)


class LockAudit:
    """The records of who held the lock of a table in an object store, and when."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def config_path(self) -> str:
        """Returns the path of the file that enables the audit."""
        return f"{self._storage.uri}/{LOCK_AUDIT_CONFIG}"

    @property
    def folder(self) -> str:
        """Returns the folder of the records."""
        return f"{self._storage.uri}/{LOCK_AUDIT}"

    @property
    def enabled(self) -> bool:
        """Returns whether writers are asked to record their transactions; False if the file that says so is
        damaged, as for Apache Hudi."""
        try:
            content: Any = parse_json(self._storage.read(LOCK_AUDIT_CONFIG))
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(content, dict) and content.get(_ENABLED) is True

    def set_enabled(self, enabled: bool) -> None:
        """Enables or disables the audit. Records that exist stay."""
        content = json.dumps({_ENABLED: enabled}, separators=(",", ":"))
        self._storage.put(LOCK_AUDIT_CONFIG, content.encode())
        self._storage.sync()

    def validate(self) -> AuditReport:
        """Examines the records: no transaction may begin before another has ended, and each should have ended."""
        files = self._files()
        if not files:
            return AuditReport(0, 0, nothing=f"No audit {'files' if self.has_folder() else 'folder'} found")
        transactions, damaged = [], []
        for info in files:
            try:
                transactions.append(_transaction(info.name, self._storage.read(info.path)))
            except FileNotFoundError:  # removed meanwhile
                continue
            except (ValueError, KeyError, TypeError):
                damaged.append(f"[ERROR] Failed to parse audit file: {info.name}")
        transactions.sort(key=lambda record: record.start_ms)
        warnings = (
            f"[WARNING] {record.file} => transaction did not end gracefully. This could be due to driver OOM or "
            "non-graceful shutdown."
            for record in transactions
            if record.end_ms is None
        )
        errors = (*_overlaps(transactions), *damaged)
        return AuditReport(len(transactions) + len(damaged), len(transactions), errors, tuple(warnings))

    def clean_up(self, age_days: int = DEFAULT_AGE_DAYS, *, dry_run: bool = False) -> list[str]:
        """Deletes records whose files were last changed longer ago, and returns the names of the files.

        Args:
            age_days: how many days records are kept.
            dry_run: only return the names.

        Raises:
            ConfigError: the age is not positive.
        """
        if age_days <= 0:
            raise ConfigError(
                f"Cannot delete records of the lock of {self._storage.uri} with age_days = {age_days}: "
                "age_days must be a positive integer"
            )
        until = time.time_ns() // 1_000_000 - age_days * _DAY_MS
        old = [info for info in self._files() if info.modified_ms < until]
        for info in () if dry_run else old:
            self._storage.delete(info.path)
        return [info.name for info in old]

    def has_folder(self) -> bool:
        """Returns whether anything was ever recorded."""
        return bool(self._storage.list(LOCK_AUDIT)) or self._storage.stat(LOCK_AUDIT) is not None

    def _files(self) -> list[FileInfo]:
        return [info for info in self._storage.list(LOCK_AUDIT) if not info.is_dir and info.name.endswith(_SUFFIX)]

    def __repr__(self) -> str:
        return f"LockAudit({self._storage.uri!r}, {counted(len(self._files()), 'file')})"


def _transaction(name: str, data: bytes) -> Transaction:
    """Parses the file of a transaction. Raises ValueError, KeyError or TypeError if it is none."""
    events: list[Any] = [parse_json(line) for line in data.decode().splitlines() if line.strip()]
    if not events:
        raise ValueError("no events")
    starts, ends = ([event["timestamp"] for event in events if event["state"] == state] for state in ("START", "END"))
    begun = events[0]["transactionStartTime"]
    expires = events[-1].get("lockExpiration")
    return Transaction(
        name,
        int(starts[0] if starts else begun),
        int(ends[-1]) if ends else None,
        None if expires is None else int(expires),
    )


def _overlaps(transactions: list[Transaction]) -> Iterator[str]:
    """Yields a sentence for each pair that overlaps, of transactions by their start."""
    starts = [record.start_ms for record in transactions]
    for place, record in enumerate(transactions):
        for other in transactions[place + 1 : bisect_left(starts, record.effective_end_ms, place + 1)]:
            yield f"[ERROR] {record.file} => overlaps with {other.file}"
