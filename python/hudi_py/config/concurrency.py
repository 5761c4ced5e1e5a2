"""Options of several writers: lock, clock and heartbeat, conflicts, and the rollback of failed writes.

`HoodieWriteConfig`, `HoodieLockConfig`, `HoodieTimeGeneratorConfig` and `HoodieCleanConfig`, 1.2.0.
"""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Option, Scope, choice, declared, flag, integer, optional_choice, optional_text

_LOCK_PACKAGE = "org.apache.hudi.client.transaction.lock."
_AWS_PACKAGE = "org.apache.hudi.aws.transaction.lock."

FILE_SYSTEM_LOCK: Final = _LOCK_PACKAGE + "FileSystemBasedLockProvider"
STORAGE_LOCK: Final = _LOCK_PACKAGE + "StorageBasedLockProvider"
IN_PROCESS_LOCK: Final = _LOCK_PACKAGE + "InProcessLockProvider"
ZOOKEEPER_LOCK: Final = _LOCK_PACKAGE + "ZookeeperBasedLockProvider"
ZOOKEEPER_IMPLICIT_LOCK: Final = _LOCK_PACKAGE + "ZookeeperBasedImplicitBasePathLockProvider"
DYNAMODB_LOCK: Final = _AWS_PACKAGE + "DynamoDBBasedLockProvider"
DYNAMODB_IMPLICIT_LOCK: Final = _AWS_PACKAGE + "DynamoDBBasedImplicitPartitionKeyLockProvider"
PROVIDERS: Final = (
    FILE_SYSTEM_LOCK,
    STORAGE_LOCK,
    IN_PROCESS_LOCK,
    ZOOKEEPER_LOCK,
    ZOOKEEPER_IMPLICIT_LOCK,
    DYNAMODB_LOCK,
    DYNAMODB_IMPLICIT_LOCK,
)
_BY_NAME: Final = {spelling.lower(): name for name in PROVIDERS for spelling in (name, name.rpartition(".")[2])}


def _parse_provider(value: str) -> str:
    provider = _BY_NAME.get(value.strip().lower())
    if provider is None:
        raise ValueError("one of " + ", ".join(PROVIDERS) + ", with or without the package")
    return provider


LOCK_PROVIDER: Option[str | None] = Option(
    "hoodie.write.lock.provider",
    "choice",
    _parse_provider,
    None,
    "The provider of the table lock; the name may be given without its package. Default: `StorageBasedLockProvider` "
    "on object stores, `FileSystemBasedLockProvider` elsewhere. All writers of a table, including Apache Hudi, must "
    "use the same one. `InProcessLockProvider` protects threads of one process only, so Spark writes refuse it. The "
    "providers for ZooKeeper and DynamoDB need the extras `zookeeper` and `dynamodb`. If "
    "`FileSystemBasedLockProvider` is set, hudi-py checks the lock again after acquiring it, because Apache Hudi may "
    "remove it when releasing its own.",
    Scope.LOCK,
    choices=PROVIDERS,
)
STORAGE_VALIDITY_S = integer(
    "hoodie.write.lock.storage.validity.timeout.secs",
    "How long the lock in an object store is valid without renewal. At least ten times the renewal interval.",
    Scope.LOCK,
    300,
    minimum=10,
    unit="seconds",
)
STORAGE_RENEW_S = integer(
    "hoodie.write.lock.storage.renew.interval.secs",
    "How often the lock in an object store is renewed.",
    Scope.LOCK,
    30,
    minimum=1,
    unit="seconds",
    aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",),
)
ZOOKEEPER_URL = optional_text(
    "hoodie.write.lock.zookeeper.url",
    "Servers of the ZooKeeper that holds the lock, as `host:port,host:port`.",
    Scope.LOCK,
    example="zk1:2181,zk2:2181",
)
ZOOKEEPER_PORT = optional_text(
    "hoodie.write.lock.zookeeper.port",
    "Port of the servers in `hoodie.write.lock.zookeeper.url` that are given without one.",
    Scope.LOCK,
    example="2181",
)
ZOOKEEPER_BASE_PATH = optional_text(
    "hoodie.write.lock.zookeeper.base_path",
    "Node below which the lock's node is created. `ZookeeperBasedImplicitBasePathLockProvider` derives it from the "
    "table's path instead.",
    Scope.LOCK,
    example="/hudi/locks",
)
ZOOKEEPER_LOCK_KEY = optional_text(
    "hoodie.write.lock.zookeeper.lock_key",
    "Name of the lock's node below the base path. Default: the table's name.",
    Scope.LOCK,
    example="trips",
)
ZOOKEEPER_SESSION_MS = integer(
    "hoodie.write.lock.zookeeper.session_timeout_ms",
    "How long ZooKeeper waits for a lost connection before it releases the lock.",
    Scope.LOCK,
    60_000,
    minimum=1,
    unit="milliseconds",
)
ZOOKEEPER_CONNECTION_MS = integer(
    "hoodie.write.lock.zookeeper.connection_timeout_ms",
    "How long to wait for a connection to ZooKeeper.",
    Scope.LOCK,
    15_000,
    minimum=1,
    unit="milliseconds",
)
DYNAMODB_TABLE = optional_text(
    "hoodie.write.lock.dynamodb.table",
    "DynamoDB table that holds the locks; created if it does not exist. Default: `hudi_locks`.",
    Scope.LOCK,
    example="hudi_locks",
)
DYNAMODB_KEY = optional_text(
    "hoodie.write.lock.dynamodb.partition_key",
    "Key of this table's lock. Default: the table's name. `DynamoDBBasedImplicitPartitionKeyLockProvider` derives it "
    "from the table's path instead.",
    Scope.LOCK,
    example="trips",
)
DYNAMODB_REGION = optional_text(
    "hoodie.write.lock.dynamodb.region",
    "Region of the DynamoDB table. Default: the environment variable `AWS_REGION`, else `us-east-1`.",
    Scope.LOCK,
    example="eu-central-1",
)
DYNAMODB_ENDPOINT = optional_text(
    "hoodie.write.lock.dynamodb.endpoint_url",
    "Address of DynamoDB, if it is not the region's.",
    Scope.LOCK,
    example="http://localhost:8000",
)
DYNAMODB_BILLING = choice(
    "hoodie.write.lock.dynamodb.billing_mode",
    "Billing mode of a DynamoDB table that is created.",
    Scope.LOCK,
    "PAY_PER_REQUEST",
    ("PAY_PER_REQUEST", "PROVISIONED"),
)
DYNAMODB_READ_CAPACITY = integer(
    "hoodie.write.lock.dynamodb.read_capacity",
    "Read capacity of a DynamoDB table that is created with billing mode `PROVISIONED`.",
    Scope.LOCK,
    20,
    minimum=1,
)
DYNAMODB_WRITE_CAPACITY = integer(
    "hoodie.write.lock.dynamodb.write_capacity",
    "Write capacity of a DynamoDB table that is created with billing mode `PROVISIONED`.",
    Scope.LOCK,
    10,
    minimum=1,
)
DYNAMODB_CREATION_MS = integer(
    "hoodie.write.lock.dynamodb.table_creation_timeout",
    "How long to wait for a DynamoDB table that is created.",
    Scope.LOCK,
    120_000,
    unit="milliseconds",
)
LOCK_PATH = optional_text(
    "hoodie.write.lock.filesystem.path",
    "Folder of the lock file. Default: `.hoodie` of the table.",
    Scope.LOCK,
    example="/data/locks",
)
LOCK_EXPIRE_MINUTES = integer(
    "hoodie.write.lock.filesystem.expire",
    "A lock file older than this is taken over; 0: never.",
    Scope.LOCK,
    0,
    unit="minutes",
    example="30",
)
LOCK_RETRIES = integer(
    "hoodie.write.lock.client.num_retries",
    "Number of retries for the lock before the write gives up.",
    Scope.LOCK,
    50,
    unit="tries",
)
LOCK_RETRY_WAIT_MS = integer(
    "hoodie.write.lock.client.wait_time_ms_between_retry",
    "Pause between two attempts to acquire the lock.",
    Scope.LOCK,
    5000,
    unit="milliseconds",
)
LOCK_WAIT_MS = integer(
    "hoodie.write.lock.wait_time_ms",
    "How long one attempt to acquire the lock waits.",
    Scope.LOCK,
    60000,
    unit="milliseconds",
)
MAX_CLOCK_SKEW_MS = integer(
    "hoodie.time.generator.max_expected_clock_skew_ms",
    "How far the clocks of writers may differ. A timeline further ahead of the clock is refused. If there may be "
    "several writers (optimistic concurrency, or a lock provider is set), each new instant waits this long.",
    Scope.LOCK,
    200,
    unit="milliseconds",
)
HEARTBEAT_INTERVAL_MS = integer(
    "hoodie.client.heartbeat.interval_in_ms",
    "How often a running write shows that it is alive.",
    Scope.LOCK,
    60000,
    minimum=1,
    unit="milliseconds",
)
HEARTBEAT_TOLERABLE_MISSES = integer(
    "hoodie.client.heartbeat.tolerable.misses",
    "Number of intervals without a heartbeat after which a write counts as dead; the next write rolls it back.",
    Scope.LOCK,
    2,
    unit="beats",
)

LOCK_OPTIONS = declared(globals())


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
    f"({LOCK_PROVIDER.key}): see docs/concurrency.md"
)
"""Last sentence of the error that a writer raises when another one blocks it."""

STRATEGY = choice(
    "hoodie.write.lock.conflict.resolution.strategy",
    "Optimistic concurrency: which actions of others conflict with a write. "
    "SimpleConcurrentFileWritesConflictResolutionStrategy: writes and pending clusterings of the same file group. "
    "PreferWriterConflictResolutionStrategy: only writes; clusterings check for conflicts themselves, so set it for "
    "every writer. BucketIndexConcurrentFileWritesConflictResolutionStrategy: as the first, but by bucket, so that two "
    "writes that both make the first file of a bucket conflict; the default with `hoodie.index.type=BUCKET`.",
    Scope.LOCK,
    SIMPLE_STRATEGY,
    (SIMPLE_STRATEGY, PREFER_WRITER_STRATEGY, BUCKET_STRATEGY),
)
RESOLVE_SCHEMAS = flag(
    "hoodie.write.concurrency.schema.conflict.resolution.enable",
    "Optimistic concurrency: whether a write fails if it changes the schema and another write has changed it "
    "differently in the meantime. A write that does not change the schema adopts that of the other write.",
    Scope.LOCK,
    True,
)
RETRIES = integer(
    "hoodie.write.num.retries.on.conflict.failures",
    "Optimistic concurrency: how often a write that failed because of a conflict is repeated, under a new instant. "
    "Data that can be read only once is first copied to a temporary file. Through `df.write` one process writes again "
    "what the tasks have staged or written, as far as `hoodie.py.staging.max.bytes` allows.",
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
    "Optimistic concurrency: whether a write checks the markers of other writes before each of its data files, and "
    "fails at once if an earlier one is changing the same file group. Otherwise conflicts are found when a write "
    "commits.",
    Scope.LOCK,
    False,
)
EARLY_STRATEGY = optional_choice(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    "How conflicts are found early. All of Apache Hudi's strategies mean the same here: hudi-py has no timeline "
    "server that could check periodically, and no lock for each file group.",
    Scope.LOCK,
    EARLY_STRATEGIES,
)
EARLY_COMMITS = flag(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    "Early detection: whether a write also fails at once if a completed write has changed the file group.",
    Scope.LOCK,
    False,
)

SEEN = optional_text(
    "hoodie.py.write.seen",
    "The state of the table that the rows of a write, or the source of a statement, were computed from: `Scan.pin`, or "
    "the column `pin` of the view `plan`. If another write has changed the same file groups since, the write is a "
    "conflict, so that it cannot overwrite what it has not seen; it is not repeated. Inserts overwrite nothing, and "
    "ignore it. Statements of SQL, and writes by `write_table`, of rows that `read_table` has read of the same table "
    "set it. `any`: the write is no conflict, whatever was read.",
    Scope.WRITE,
    example="any",
)

OPTIONS = declared(globals(), LOCK_OPTIONS)


ROLLBACK_BY_MARKERS = flag(
    "hoodie.rollback.using.markers",
    "Whether a rollback finds the files of a failed write by its markers. If false, or if there are no markers, the "
    "table is listed.",
    Scope.SERVICE,
    True,
)

ROLLBACK_OPTIONS = declared(globals(), LOCK_OPTIONS, OPTIONS)
