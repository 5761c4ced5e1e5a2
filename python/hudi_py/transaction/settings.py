"""Settings of the write protocol, read from options once and passed along with a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo
from enum import Enum

from hudi_py.config import Options, Problems, concurrency
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.read.planning.pin import PlanPin
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.timeline import Pin
from hudi_py.transaction.locks.settings import LockSettings

__all__ = ["LockSettings", "TransactionSettings"]

ANY_STATE = "any"
"""What a write says that may overwrite what it has not seen."""


class ConflictStrategy(str, Enum):
    """Which actions of other writers conflict with a write (`hoodie.write.lock.conflict.resolution.strategy`)."""

    SIMPLE = concurrency.SIMPLE_STRATEGY
    PREFER_WRITER = concurrency.PREFER_WRITER_STRATEGY
    BUCKET = concurrency.BUCKET_STRATEGY


@dataclass(frozen=True, slots=True)
class OptimisticSettings:
    """How concurrent writes find conflicts when they commit."""

    strategy: ConflictStrategy = ConflictStrategy.SIMPLE
    resolve_schemas: bool = True
    """Whether schema changes by two writes are compared."""
    retries: int = 0
    """How often a whole write is repeated under a new instant after a conflict."""
    early: bool = False
    """Whether a write looks for conflicts before each of its files, not only at its commit."""
    early_commits: bool = False
    """Whether it then also looks at completed writes, not only at markers."""
    shares_logs: bool = False
    """Whether writes that only add logs to the same file groups do not conflict (non-blocking concurrency control)."""

    @classmethod
    def of(cls, options: Options) -> OptimisticSettings | None:
        """The settings in the options of a write; None if they ask for one writer at a time.

        Raises:
            ConfigError: the options do not name a lock that excludes every other writer, or ask for early conflict
                detection with one writer at a time.
        """
        mode = options.get(concurrency.MODE)
        early = options.get(concurrency.EARLY_DETECTION)
        problems = Problems()
        with problems.collected():
            _check_early(options, mode)
        with problems.collected():
            _check_shared(options, mode)
        problems.check()
        if mode == concurrency.SINGLE_WRITER:
            return None
        shares_logs = mode == concurrency.NON_BLOCKING
        strategy = ConflictStrategy(options.get(concurrency.STRATEGY))
        by_bucket = options.get(write_config.INDEX_TYPE) == "BUCKET" and not options.given(concurrency.STRATEGY)
        return cls(
            ConflictStrategy.BUCKET if by_bucket or shares_logs else strategy,
            options.get(concurrency.RESOLVE_SCHEMAS),
            options.get(concurrency.RETRIES),
            early,
            options.get(concurrency.EARLY_COMMITS),
            shares_logs,
        )


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The write options that the protocol needs. Pickles; holds no credentials."""

    lock: LockSettings = field(default_factory=LockSettings)
    heartbeat_interval_ms: int = concurrency.HEARTBEAT_INTERVAL_MS.default
    heartbeat_misses: int = concurrency.HEARTBEAT_TOLERABLE_MISSES.default
    """Number of intervals after which a heartbeat expires."""
    clock_skew_ms: int = concurrency.MAX_CLOCK_SKEW_MS.default
    drop_indexes: bool = write_config.DROP_INDEXES.default
    """Whether metadata-table indexes made on request (record, secondary, expression) may be dropped."""
    optimistic: OptimisticSettings | None = None
    """How concurrent writers work together; None: one writer at a time."""
    keeps_failed_writes: bool = False
    """Whether writes leave failed ones pending. Never with several writers, as in Apache Hudi."""
    rollback_by_markers: bool = concurrency.ROLLBACK_BY_MARKERS.default
    """Whether failed writes are rolled back by their markers if they have any."""
    durable: bool = write_config.DURABLE.default
    """Whether writes to local file systems are forced to disk."""
    seen: Pin | None = None
    """The state that the rows of the write were computed from, if that was before it began."""

    @classmethod
    def of(cls, options: Options) -> TransactionSettings:
        """The settings in the options of a write. Raises ConfigError if they contradict each other."""
        seen = options.get(concurrency.SEEN)
        problems, optimistic, lock = Problems(), None, LockSettings()
        with problems.collected():
            optimistic = OptimisticSettings.of(options)
        with problems.collected():
            lock = LockSettings.of(options)
        problems.check()
        never = options.get(concurrency.FAILED_WRITES) == concurrency.NEVER
        return cls(
            lock=lock,
            heartbeat_interval_ms=options.get(concurrency.HEARTBEAT_INTERVAL_MS),
            heartbeat_misses=options.get(concurrency.HEARTBEAT_TOLERABLE_MISSES),
            clock_skew_ms=options.get(concurrency.MAX_CLOCK_SKEW_MS),
            drop_indexes=options.get(write_config.DROP_INDEXES),
            optimistic=optimistic,
            keeps_failed_writes=never and optimistic is None,
            rollback_by_markers=options.get(concurrency.ROLLBACK_BY_MARKERS),
            durable=options.get(write_config.DURABLE),
            seen=None if seen in (None, ANY_STATE) else PlanPin.decode(seen, concurrency.SEEN.key).state,
        )

    def clock(self, config: TableConfig, zone: tzinfo | None = None) -> InstantClock:
        """A clock for a table's instants. It waits out the clock skew only if other writers may be active, as a
        configured lock provider implies: Apache Hudi's rely on the wait, ours read the timeline under the lock."""
        shared = self.optimistic is not None or self.lock.provider is not None
        return InstantClock(config, local=zone, skew_ms=self.clock_skew_ms, waits=shared)

    @property
    def conflict_retries(self) -> int:
        """How often a write is repeated as it is. What was read before it began stays as old as it is, so that only
        those who can read it again can repeat the write."""
        return self.optimistic.retries if self.optimistic is not None and self.seen is None else 0

    @property
    def heartbeat_expiry_ms(self) -> int:
        return self.heartbeat_interval_ms * self.heartbeat_misses


def _check_early(options: Options, mode: str) -> None:
    if options.get(concurrency.EARLY_DETECTION) and mode != concurrency.OPTIMISTIC:
        raise ConfigError(
            f"Option {options.name_of(concurrency.EARLY_DETECTION)} = 'true' needs "
            f"{concurrency.MODE.key} = {concurrency.OPTIMISTIC!r}, which is {mode!r}: set it for all "
            "writers of the table, or leave early detection out",
            key=concurrency.MODE.key,
        )


def _check_shared(options: Options, mode: str) -> None:
    """Refuses several writers without a lock that they share."""
    provider = options.get(concurrency.LOCK_PROVIDER)
    if mode == concurrency.SINGLE_WRITER or provider not in (None, concurrency.IN_PROCESS_LOCK):
        return
    found = "is not set" if provider is None else f"= {provider!r} excludes only writers of one process"
    raise ConfigError(
        f"Cannot write with {concurrency.MODE.key} = {mode!r}: {concurrency.LOCK_PROVIDER.key} {found}; set a "
        f"lock that all writers share, such as {concurrency.FILE_SYSTEM_LOCK}, for every writer"
    )
