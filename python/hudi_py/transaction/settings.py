"""Settings of the write protocol, resolved from options once and carried along with a write."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_py.config import Options
from hudi_py.config import lock as lock_config
from hudi_py.config import recovery as recovery_config
from hudi_py.config import write as write_config
from hudi_py.transaction.locks.settings import LockSettings

__all__ = ["LockSettings", "TransactionSettings"]


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

    conflict_retries: int = 0
    """How often a write whose input is still there is redone, as a whole and under a new instant, after a conflict."""
    rollback_by_markers: bool = True
    """Are failed writes rolled back by their markers where they have any?"""
    durable: bool = True
    """Is what is written to local file systems forced to disk?"""

    @classmethod
    def of(cls, options: Options) -> TransactionSettings:
        """The settings that the options of a write ask for."""
        return cls(
            lock=LockSettings.of(options),
            heartbeat_interval_ms=options.get(lock_config.HEARTBEAT_INTERVAL_MS),
            heartbeat_misses=options.get(lock_config.HEARTBEAT_TOLERABLE_MISSES),
            clock_skew_ms=options.get(lock_config.MAX_CLOCK_SKEW_MS),
            drop_indexes=options.get(write_config.DROP_INDEXES),
            rollback_by_markers=options.get(recovery_config.ROLLBACK_BY_MARKERS),
            durable=options.get(write_config.DURABLE),
        )

    @property
    def heartbeat_expiry_ms(self) -> int:
        return self.heartbeat_interval_ms * self.heartbeat_misses
