"""Settings of the write protocol, resolved from options once and carried along with a write."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The table's file-system lock (`FileSystemBasedLockProvider`, `LockConfiguration`, 1.2.0)."""

    path: str | None = None
    """Folder of the lock file; None: the table's `.hoodie`."""
    expire_minutes: int = 0
    """A lock file older than this may be broken; 0: never."""
    wait_ms: int = 60_000
    """Longest wait of one attempt."""
    retries: int = 15
    """Attempts after the first."""
    retry_wait_ms: int = 1_000
    """Wait between attempts, doubled each time ..."""
    retry_max_wait_ms: int = 16_000
    """... up to this."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """What the protocol needs of the write options. Pickles; holds no credentials."""

    lock: LockSettings = field(default_factory=LockSettings)
    heartbeat_interval_ms: int = 60_000
    heartbeat_misses: int = 2
    """A heartbeat is expired when older than interval times misses."""
    clock_skew_ms: int = 200
    drop_indexes: bool = False
    """May metadata-table indexes that queries were built on (record, secondary, expression) be dropped?"""

    @property
    def heartbeat_expiry_ms(self) -> int:
        return self.heartbeat_interval_ms * self.heartbeat_misses
