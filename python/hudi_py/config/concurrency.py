"""Options of concurrent writers (`HoodieWriteConfig`, `HoodieLockConfig`, `HoodieCleanConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config import lock
from hudi_py.config.option import Scope, choice, declared, flag, integer, optional_choice, optional_text

_PACKAGE = "org.apache.hudi.client.transaction."

SINGLE_WRITER: Final = "SINGLE_WRITER"
OPTIMISTIC: Final = "OPTIMISTIC_CONCURRENCY_CONTROL"
NON_BLOCKING: Final = "NON_BLOCKING_CONCURRENCY_CONTROL"
NEVER: Final = "NEVER"
SIMPLE_STRATEGY: Final = _PACKAGE + "SimpleConcurrentFileWritesConflictResolutionStrategy"
PREFER_WRITER_STRATEGY: Final = _PACKAGE + "PreferWriterConflictResolutionStrategy"
BUCKET_STRATEGY: Final = _PACKAGE + "BucketIndexConcurrentFileWritesConflictResolutionStrategy"
EARLY_STRATEGIES: Final = (
    "org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy",
    "org.apache.hudi.table.marker.SimpleTransactionDirectMarkerBasedDetectionStrategy",
    "org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy",
)

MODE = choice(
    "hoodie.write.concurrency.mode",
    "How many writers a table has at the same time. With OPTIMISTIC_CONCURRENCY_CONTROL writes run side by side, and "
    "of two that change the same file group the later one fails. With NON_BLOCKING_CONCURRENCY_CONTROL, for "
    "merge-on-read tables of version 8 or 9 with a bucket index, both add logs to it. Set it, and the same lock, for "
    "every writer. See [Concurrent writers](concurrency.md).",
    Scope.LOCK,
    SINGLE_WRITER,
    (SINGLE_WRITER, OPTIMISTIC, NON_BLOCKING),
)
ONE_WRITER: Final = (
    f"a table has one writer at a time, unless all of them set {MODE.key}={OPTIMISTIC} and a lock that they share "
    f"({lock.LOCK_PROVIDER.key}): see docs/concurrency.md"
)
"""Ends the error of a writer that another one is in the way of."""

STRATEGY = choice(
    "hoodie.write.lock.conflict.resolution.strategy",
    "Optimistic concurrency: which actions of others conflict with a write. "
    "SimpleConcurrentFileWritesConflictResolutionStrategy: writes and pending clusterings of the same file group. "
    "PreferWriterConflictResolutionStrategy: writes alone; clusterings check for conflicts themselves, so set it for "
    "every writer. BucketIndexConcurrentFileWritesConflictResolutionStrategy: as the first, but by bucket, so that two "
    "writes that both make the first file of a bucket conflict; the default with `hoodie.index.type=BUCKET`.",
    Scope.LOCK,
    SIMPLE_STRATEGY,
    (SIMPLE_STRATEGY, PREFER_WRITER_STRATEGY, BUCKET_STRATEGY),
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
    "instant. Data that can be read only once is first copied to a temporary file. Through `df.write` one process "
    "writes again what the tasks have staged or written, as far as `hoodie.py.staging.max.bytes` allows.",
    Scope.LOCK,
    0,
    unit="retries",
    example="3",
)
FAILED_WRITES = choice(
    "hoodie.clean.failed.writes.policy",
    "What happens to writes that failed. With one writer at a time the next write rolls them back (EAGER), and LAZY "
    "means the same. NEVER: writes leave them pending, and readers do not see them; cleaning and archiving stop before "
    "them, so roll them back with `Table.rollback`. With optimistic concurrency the policy is always LAZY, as in "
    "Apache Hudi: the next write rolls back those whose heartbeat has expired or whose process is gone, and leaves the "
    "others alone.",
    Scope.LOCK,
    "EAGER",
    ("EAGER", "LAZY", NEVER),
    aliases=("hoodie.cleaner.policy.failed.writes",),
)

EARLY_DETECTION = flag(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    "Optimistic concurrency: whether a write looks, before each of its data files, for the markers of other writes, "
    "and fails at once if one that began earlier is changing the same file group. Otherwise conflicts are found when a "
    "write commits.",
    Scope.LOCK,
    False,
)
EARLY_STRATEGY = optional_choice(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    "How conflicts are found early. All of Apache Hudi's strategies mean the same here: hudi-py has no timeline server "
    "that could look from time to time, and no lock for each file group.",
    Scope.LOCK,
    EARLY_STRATEGIES,
)
EARLY_COMMITS = flag(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    "Early detection: whether a write fails at once, too, if another one has changed the file group and is completed.",
    Scope.LOCK,
    False,
)

SEEN = optional_text(
    "hoodie.py.write.seen",
    "The state of the table that the rows of a write, or the source of a statement, were computed from: `Scan.pin`, or "
    "the column `pin` of the view `plan`. If another write has changed the same file groups since, the write is a "
    "conflict, so that it cannot overwrite what it has not seen; it is not repeated. Inserts overwrite nothing, and "
    "ignore it. Statements of SQL, and writes by `write_table`, of rows that `read_table` has read of the same table "
    "set it. `any`: whatever was read, the write stands.",
    Scope.WRITE,
    example="any",
)

OPTIONS = declared(globals())
