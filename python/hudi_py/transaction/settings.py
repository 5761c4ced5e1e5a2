"""The settings of the write protocol, read from options once and passed along with a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo
from enum import Enum
from typing import TypeVar

from hudi_py.config import DEFAULTS, Options, Problems, clustering, concurrency
from hudi_py.config import write as write_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.read.planning.pin import PlanPin
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.timeline import Pin
from hudi_py.transaction.locks.settings import LockSettings

__all__ = ["LockSettings", "TransactionSettings"]

T = TypeVar("T")
ANY_STATE = "any"
"""Given by a write that may overwrite what it has not seen."""


class ConflictStrategy(str, Enum):
    """Which actions of other writers conflict with a write (`hoodie.write.lock.conflict.resolution.strategy`)."""

    SIMPLE = concurrency.SIMPLE_STRATEGY
    PREFER_WRITER = concurrency.PREFER_WRITER_STRATEGY
    BUCKET = concurrency.BUCKET_STRATEGY


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The options of a write that the protocol needs, and values derived from them. Pickles; holds no credentials."""

    options: Options = DEFAULTS
    lock: LockSettings = field(default_factory=LockSettings)

    @classmethod
    def of(cls, options: Options) -> TransactionSettings:
        """Reads the settings from the options of a write.

        Raises:
            ConfigError: the options contradict each other, do not name a lock that excludes every other writer where
                there are several, ask for early conflict detection with one writer at a time, or allow updates that a
                clustering would lose.
        """
        mode, problems = options.get(concurrency.MODE), Problems()
        lock = LockSettings(options)
        with problems.collected():
            _check_early(options, mode)
        with problems.collected():
            _check_shared(options, mode)
        with problems.collected():
            lock = LockSettings.of(options)
        problems.check()
        seen_of(options)
        settings = cls(options.without_credentials(), lock)
        _check_updates(settings)
        return settings

    def get(self, option: Option[T]) -> T:
        """Returns the value of an option of the write."""
        return self.options.get(option)

    @property
    def optimistic(self) -> bool:
        """Whether several writers work at the same time (`hoodie.write.concurrency.mode`)."""
        return self.get(concurrency.MODE) != concurrency.SINGLE_WRITER

    @property
    def shares_logs(self) -> bool:
        """Whether writes that only add logs to the same file groups do not conflict."""
        return self.get(concurrency.MODE) == concurrency.NON_BLOCKING

    @property
    def strategy(self) -> ConflictStrategy:
        """Which actions of others conflict with a write, if there are several writers."""
        by_bucket = self.get(write_config.INDEX_TYPE) == "BUCKET" and not self.options.given(concurrency.STRATEGY)
        if by_bucket or self.shares_logs:
            return ConflictStrategy.BUCKET
        return ConflictStrategy(self.get(concurrency.STRATEGY))

    @property
    def prefers_writer(self) -> bool:
        """Whether clusterings check for conflicts with writes, instead of the other way round."""
        return self.optimistic and self.strategy is ConflictStrategy.PREFER_WRITER

    @property
    def updates_planned(self) -> bool:
        """Whether a write may change file groups of a pending clustering, which is then not completed. Writes to
        buckets that change add their rows to both instead."""
        given = self.get(clustering.UPDATES_STRATEGY)
        if self.get(write_config.INDEX_TYPE) == "BUCKET" or given not in (None, clustering.ALLOW_UPDATES):
            return False
        return self.prefers_writer or given is not None

    @property
    def drops_clusterings(self) -> bool:
        """Whether the commit of such a write rolls the clustering back, and removes its plan."""
        return self.updates_planned and self.get(clustering.DROP_ON_CONFLICT)

    @property
    def clustering_expiry_ms(self) -> int | None:
        """Milliseconds without a sign of life after which a pending clustering is rolled back; None: never."""
        lazy = self.get(concurrency.FAILED_WRITES) == "LAZY" or self.optimistic
        return self.get(clustering.EXPIRES_AFTER_MIN) * 60_000 if lazy and self.get(clustering.EXPIRES) else None

    @property
    def keeps_failed_writes(self) -> bool:
        """Whether writes leave failed ones pending. Never with several writers, as in Apache Hudi."""
        return self.get(concurrency.FAILED_WRITES) == concurrency.NEVER and not self.optimistic

    @property
    def seen(self) -> Pin | None:
        """The state that the rows of the write were computed from, if that was before it began."""
        return seen_of(self.options)

    def clock(self, config: TableConfig, zone: tzinfo | None = None) -> InstantClock:
        """Returns a clock for a table's instants. It waits out the clock skew only if other writers may be active, as a
        configured lock provider implies: Apache Hudi's writers rely on the wait, ours read the timeline under the
        lock."""
        shared = self.optimistic or self.get(concurrency.LOCK_PROVIDER) is not None
        return InstantClock(config, local=zone, skew_ms=self.get(concurrency.MAX_CLOCK_SKEW_MS), waits=shared)

    @property
    def conflict_retries(self) -> int:
        """How often a write is repeated unchanged. A write computed from an earlier read does not get newer by that;
        only a caller that can read again can repeat it."""
        return self.get(concurrency.RETRIES) if self.optimistic and self.seen is None else 0

    @property
    def heartbeat_expiry_ms(self) -> int:
        """Milliseconds without a heartbeat after which a write counts as dead."""
        return self.get(concurrency.HEARTBEAT_INTERVAL_MS) * self.get(concurrency.HEARTBEAT_TOLERABLE_MISSES)


def seen_of(options: Options) -> Pin | None:
    """Returns the state that the rows of a write were computed from. Raises ConfigError if the option has no such
    state."""
    seen = options.get(concurrency.SEEN)
    return None if seen in (None, ANY_STATE) else PlanPin.decode(seen, concurrency.SEEN.key).state


def _check_early(options: Options, mode: str) -> None:
    if options.get(concurrency.EARLY_DETECTION) and mode != concurrency.OPTIMISTIC:
        raise ConfigError(
            f"Option {options.name_of(concurrency.EARLY_DETECTION)} = 'true' needs "
            f"{concurrency.MODE.key} = {concurrency.OPTIMISTIC!r}, which is {mode!r}: set it for all "
            "writers of the table, or leave early detection out",
            key=concurrency.MODE.key,
        )


def _check_updates(settings: TransactionSettings) -> None:
    """Refuses updates that Apache Hudi would lose if it ran the clustering (`SparkAllowUpdateStrategy`, 1.2.0)."""
    if settings.updates_planned and not (settings.prefers_writer or settings.drops_clusterings):
        raise ConfigError(
            f"Cannot write with {clustering.UPDATES_STRATEGY.key} = '{clustering.ALLOW_UPDATES}': Apache Hudi would "
            "complete a pending clustering of the updated file groups, and lose the updates; set "
            f"{clustering.DROP_ON_CONFLICT.key} = true, so that the write drops it, or "
            f"{concurrency.STRATEGY.key} = '{concurrency.PREFER_WRITER_STRATEGY}' for all writers and services",
            key=clustering.UPDATES_STRATEGY.key,
        )


def _check_shared(options: Options, mode: str) -> None:
    """Refuses several writers without a lock that they share."""
    provider = options.get(concurrency.LOCK_PROVIDER)
    if mode == concurrency.SINGLE_WRITER or provider not in (None, concurrency.IN_PROCESS_LOCK):
        return
    reason = "is not set" if provider is None else f"= {provider!r} excludes only writers of one process"
    raise ConfigError(
        f"Cannot write with {concurrency.MODE.key} = {mode!r}: {concurrency.LOCK_PROVIDER.key} {reason}; set a "
        f"lock that all writers share, such as {concurrency.FILE_SYSTEM_LOCK}, for every writer"
    )
