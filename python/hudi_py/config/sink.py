"""Options of streaming writes (`DataSourceWriteOptions`, `HoodieSparkSqlWriter`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Option, Scope, declared, flag, integer, text

DEFAULT_IDENTIFIER = "default_single_writer"

IDENTIFIER = text(
    "hoodie.datasource.write.streaming.checkpoint.identifier",
    "The name under which a streaming query notes its batches in the table. Give each query on a table a name of its "
    "own; with several writers (`hoodie.write.concurrency.mode`) it is required.",
    Scope.WRITE,
    DEFAULT_IDENTIFIER,
    example="orders",
)
RETRY_COUNT = integer(
    "hoodie.datasource.write.streaming.retry.count",
    "How often the plan and the commit of a batch are tried in all, if another writer, the lock or the storage gets in "
    "the way.",
    Scope.WRITE,
    3,
    minimum=1,
    unit="tries",
)
RETRY_INTERVAL_MS = integer(
    "hoodie.datasource.write.streaming.retry.interval.ms",
    "Pause before a batch is tried again; doubled each time.",
    Scope.WRITE,
    2000,
    unit="milliseconds",
)
IGNORE_FAILED_BATCH = flag(
    "hoodie.datasource.write.streaming.ignore.failed.batch",
    "Whether the query goes on if a batch cannot be written. The rows of that batch are then lost, with a warning.",
    Scope.WRITE,
    False,
)
DISABLE_COMPACTION = flag(
    "hoodie.datasource.write.streaming.disable.compaction",
    "Whether to leave out the compaction that follows a batch on a merge-on-read table when it is due, for example "
    "because another process compacts.",
    Scope.WRITE,
    False,
)
BATCH_ID: Option[int] = integer(
    "hoodie.internal.spark.streaming.batch.id",
    "For `df.write` in `foreachBatch`: the id of the batch. A batch that the table holds already is not written again.",
    Scope.WRITE,
    -1,
    minimum=-1,
    example="17",
)

OPTIONS = declared(globals())
