"""Options of the table lock, the clock and the heartbeat (`HoodieLockConfig`, `HoodieTimeGeneratorConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Scope, integer, optional_choice, optional_text

_SINCE = "0.1.0"
_PACKAGE = "org.apache.hudi.client.transaction.lock."

FILE_SYSTEM_LOCK: Final = _PACKAGE + "FileSystemBasedLockProvider"
IN_PROCESS_LOCK: Final = _PACKAGE + "InProcessLockProvider"

LOCK_PROVIDER = optional_choice(
    "hoodie.write.lock.provider",
    "Both values mean the file-system lock: a write may have several processes, so a lock within one process would "
    "not protect it. If Apache Hudi writes at the same time, set the file-system lock on both sides. hudi-py then "
    "checks the lock again after acquiring it, because Apache Hudi may remove it when releasing its own.",
    Scope.LOCK,
    (FILE_SYSTEM_LOCK, IN_PROCESS_LOCK),
    since=_SINCE,
)
LOCK_PATH = optional_text(
    "hoodie.write.lock.filesystem.path",
    "Folder of the lock file. Default: `.hoodie` of the table.",
    Scope.LOCK,
    since=_SINCE,
)
LOCK_EXPIRE_MINUTES = integer(
    "hoodie.write.lock.filesystem.expire",
    "A lock file older than this is taken over; 0: never.",
    Scope.LOCK,
    0,
    unit="minutes",
    since=_SINCE,
)
LOCK_RETRIES = integer(
    "hoodie.write.lock.client.num_retries",
    "Number of retries for the lock before the write gives up.",
    Scope.LOCK,
    50,
    unit="tries",
    since=_SINCE,
)
LOCK_RETRY_WAIT_MS = integer(
    "hoodie.write.lock.client.wait_time_ms_between_retry",
    "Pause between two attempts to acquire the lock.",
    Scope.LOCK,
    5000,
    unit="milliseconds",
    since=_SINCE,
)
LOCK_WAIT_MS = integer(
    "hoodie.write.lock.wait_time_ms",
    "How long one attempt to acquire the lock waits.",
    Scope.LOCK,
    60000,
    unit="milliseconds",
    since=_SINCE,
)
MAX_CLOCK_SKEW_MS = integer(
    "hoodie.time.generator.max_expected_clock_skew_ms",
    "How far the clocks of writers may differ: a new instant waits this long, and a timeline further ahead of the "
    "clock is refused.",
    Scope.LOCK,
    200,
    unit="milliseconds",
    since=_SINCE,
)
HEARTBEAT_INTERVAL_MS = integer(
    "hoodie.client.heartbeat.interval_in_ms",
    "How often a running write shows that it is alive.",
    Scope.LOCK,
    60000,
    minimum=1,
    unit="milliseconds",
    since=_SINCE,
)
HEARTBEAT_TOLERABLE_MISSES = integer(
    "hoodie.client.heartbeat.tolerable.misses",
    "Number of intervals without a heartbeat after which a write counts as dead; the next write rolls it back.",
    Scope.LOCK,
    2,
    unit="beats",
    since=_SINCE,
)

OPTIONS = (
    LOCK_PROVIDER,
    LOCK_PATH,
    LOCK_EXPIRE_MINUTES,
    LOCK_RETRIES,
    LOCK_RETRY_WAIT_MS,
    LOCK_WAIT_MS,
    MAX_CLOCK_SKEW_MS,
    HEARTBEAT_INTERVAL_MS,
    HEARTBEAT_TOLERABLE_MISSES,
)
