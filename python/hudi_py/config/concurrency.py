"""Options of concurrent writers (`HoodieWriteConfig`, `HoodieLockConfig`, `HoodieCleanConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Scope, choice, declared, flag, integer

_PACKAGE = "org.apache.hudi.client.transaction."

SINGLE_WRITER: Final = "SINGLE_WRITER"
OPTIMISTIC: Final = "OPTIMISTIC_CONCURRENCY_CONTROL"
SIMPLE_STRATEGY: Final = _PACKAGE + "SimpleConcurrentFileWritesConflictResolutionStrategy"
PREFER_WRITER_STRATEGY: Final = _PACKAGE + "PreferWriterConflictResolutionStrategy"
BUCKET_STRATEGY: Final = _PACKAGE + "BucketIndexConcurrentFileWritesConflictResolutionStrategy"

MODE = choice(
    "hoodie.write.concurrency.mode",
    "How many writers a table has at the same time. With OPTIMISTIC_CONCURRENCY_CONTROL writes run side by side, and "
    "of two that change the same file group the later one fails. Set it, and the same lock, for every writer. See "
    "[Concurrent writers](concurrency.md).",
    Scope.LOCK,
    SINGLE_WRITER,
    (SINGLE_WRITER, OPTIMISTIC),
    not_built={
        "NON_BLOCKING_CONCURRENCY_CONTROL": "it needs the bucket index, which is not built yet; use "
        f"{OPTIMISTIC} with hoodie.write.num.retries.on.conflict.failures",
    },
)
STRATEGY = choice(
    "hoodie.write.lock.conflict.resolution.strategy",
    "Optimistic concurrency: which actions of others conflict with a write. "
    "SimpleConcurrentFileWritesConflictResolutionStrategy: writes and pending clusterings of the same file group. "
    "PreferWriterConflictResolutionStrategy: writes alone; clusterings check for conflicts themselves, so set it for "
    "every writer.",
    Scope.LOCK,
    SIMPLE_STRATEGY,
    (SIMPLE_STRATEGY, PREFER_WRITER_STRATEGY),
    not_built={BUCKET_STRATEGY.upper(): "it belongs to the bucket index, which is not built yet"},
)
RESOLVE_SCHEMAS = flag(
    "hoodie.write.concurrency.schema.conflict.resolution.enable",
    "Optimistic concurrency: whether a write fails if it changes the schema and another write has changed it "
    "differently meanwhile. A write that leaves the schema as it was takes over the other's.",
    Scope.LOCK,
    True,
)
RETRIES = integer(
    "hoodie.write.num.retries.on.conflict.failures",
    "Optimistic concurrency: how many times a write that failed because of a conflict is done again, under a new "
    "instant. Data that can be read only once is first copied to a temporary file. `df.write` does not retry "
    "writes whose tasks have written data files themselves, such as large inserts.",
    Scope.LOCK,
    0,
    unit="retries",
)
FAILED_WRITES = choice(
    "hoodie.clean.failed.writes.policy",
    "What happens to writes that failed. With one writer at a time the next write rolls them back (EAGER), and LAZY "
    "means the same. With optimistic concurrency the policy is always LAZY, as in Apache Hudi: the next write rolls "
    "back those whose heartbeat has expired or whose process is gone, and leaves the others alone.",
    Scope.LOCK,
    "EAGER",
    ("EAGER", "LAZY"),
    not_built={"NEVER": "a failed write would stay pending forever and block cleaning and archiving"},
    aliases=("hoodie.cleaner.policy.failed.writes",),
)

OPTIONS = declared(globals())
