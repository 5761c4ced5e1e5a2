"""Options of incremental queries and of streams from and into a table.

Streams share the hole policies and change formats of incremental queries. Sources: `DataSourceReadOptions`,
`HoodieCommonConfig`, `FlinkOptions` and `HoodieStreamingSink`, 1.2.0.
"""

from __future__ import annotations

from hudi_py.config.option import Option, Scope, choice, declared, flag, integer, optional_text, text

LATEST_STATE, CDC = "latest_state", "cdc"

FORMAT = choice(
    "hoodie.datasource.query.incremental.format",
    "What an incremental query returns: the rows as of the end of the range (`latest_state`), or each change with its "
    "before and after images (`cdc`; needs `hoodie.table.cdc.enabled` on the table).",
    Scope.READ,
    LATEST_STATE,
    (LATEST_STATE, CDC),
)
BEGIN = optional_text(
    "hoodie.datasource.read.begin.instanttime",
    "Start of the range of an incremental query, exclusive: a completion time since table version 8, a requested time "
    "before. `000`: the start of the table. `earliest`: the first instant whose files still exist. Without it, the "
    "query returns only the last commit of the range. For changes (`cdc`) it is required, and is a requested time in "
    "every version, like `ts_ms`.",
    Scope.READ,
    aliases=("read.start-commit",),
    example="20260131101530123",
)
END = optional_text(
    "hoodie.datasource.read.end.instanttime",
    "End of the range of an incremental query, inclusive, in the same kind of time as the start. Default: the newest "
    "commit.",
    Scope.READ,
    aliases=("read.end-commit",),
    example="20260201000000000",
)
PATH_GLOB = optional_text(
    "hoodie.datasource.read.incr.path.glob",
    "An incremental query returns only rows of files whose path ends with a match of this pattern, for example "
    "`/2024/*/*`.",
    Scope.READ,
    example="/2026/*/*",
)
FILTERS = text(
    "hoodie.datasource.read.incr.filters",
    "Comma-separated conditions that rows of an incremental query must satisfy, in addition to `filter`.",
    Scope.READ,
    "",
    example="fare > 10",
)
FALLBACK: Option[bool | None] = Option(
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
    "true or false",
    flag("", "", Scope.READ, False).parse,
    None,
    "Whether an incremental query whose range contains archived commits, or needs files that were cleaned, takes the "
    "rows of its commits from the newest state of the table; rows that changed again after the range are then "
    "missing. If false, such a query reads the archived timeline, and fails if files are gone. As in Apache Hudi, the "
    "default is true for tables of version 8 and later, and false before.",
    Scope.READ,
)
HOLLOW_COMMITS = choice(
    "hoodie.read.timeline.holes.resolution.policy",
    "Tables before version 8: what an incremental query does if a write is pending and later ones have completed. "
    "`FAIL`: raises an error. `BLOCK`: stops before the pending write. `USE_TRANSITION_TIME`: the range uses "
    "completion times, taken from the modification times of the timeline's files. A stream uses `BLOCK` by default.",
    Scope.READ,
    "FAIL",
    ("FAIL", "BLOCK", "USE_TRANSITION_TIME"),
    aliases=("hoodie.datasource.read.handle.hollow.commit",),
)
SCHEMA_AT_END = flag(
    "hoodie.datasource.read.schema.use.end.instanttime",
    "Whether an incremental query returns the columns that the table had at the range's last commit, instead of the "
    "current ones.",
    Scope.READ,
    False,
)
SKIP_COMPACTION = flag(
    "hoodie.datasource.read.incr.skip_compact",
    "Whether a stream skips compactions, which bring no rows of their own. A stream skips them by default; in a batch "
    "query this changes nothing.",
    Scope.READ,
    False,
    aliases=("read.streaming.skip_compaction",),
)
SKIP_CLUSTERING = flag(
    "hoodie.datasource.read.incr.skip_cluster",
    "Whether a stream skips clusterings, which rewrite rows without changing them. A stream skips them by default; in "
    "a batch query this changes nothing.",
    Scope.READ,
    False,
    aliases=("read.streaming.skip_clustering",),
)
TABLE_VERSION = integer(
    "hoodie.datasource.read.incr.table.version",
    "The table version whose range rules apply. It must be compatible with the table's own version, because ranges "
    "use completion times from version 8 on. 0: the table's own.",
    Scope.READ,
    0,
    example="9",
)

OPTIONS = declared(globals())


STREAM_START_OFFSET = optional_text(
    "hoodie.datasource.streaming.startOffset",
    "Where a new streaming query starts: `earliest` (the first commit whose files still exist), `latest` (commits "
    "after the start), or an instant (exclusive). Without it, the first batch is a snapshot of the table, and later "
    "commits follow. A query with a checkpoint resumes there.",
    Scope.READ,
    example="earliest",
)
STREAM_MAX_COMMITS = integer(
    "hoodie.py.read.streaming.max.commits",
    "Maximum number of commits in one micro-batch; 0: no limit. With 1, a batch has the rows of one commit; with "
    "more, it has the last version of each key in the batch. The initial snapshot is one batch.",
    Scope.READ,
    0,
    unit="commits",
    aliases=("read.commits.limit",),
    example="10",
)
STREAM_MAX_BYTES = integer(
    "hoodie.py.read.streaming.max.bytes",
    "A micro-batch takes no further commit once its commits wrote this many bytes, but always at least one; 0: no "
    "limit.",
    Scope.READ,
    0,
    unit="bytes",
    example="1073741824",
)

STREAM_OPTIONS = declared(globals(), OPTIONS)


SINK_DEFAULT_IDENTIFIER = "default_single_writer"

SINK_IDENTIFIER = text(
    "hoodie.datasource.write.streaming.checkpoint.identifier",
    "The name under which a streaming query records its batches in the table. Give each query on a table its own "
    "name; with several writers (`hoodie.write.concurrency.mode`) it is required.",
    Scope.WRITE,
    SINK_DEFAULT_IDENTIFIER,
    example="orders",
)
SINK_RETRY_COUNT = integer(
    "hoodie.datasource.write.streaming.retry.count",
    "How often the plan and the commit of a batch are tried in total, if another writer, the lock or the storage "
    "makes them fail.",
    Scope.WRITE,
    3,
    minimum=1,
    unit="tries",
)
SINK_RETRY_INTERVAL_MS = integer(
    "hoodie.datasource.write.streaming.retry.interval.ms",
    "Pause before a batch is tried again; doubled each time.",
    Scope.WRITE,
    2000,
    unit="milliseconds",
)
SINK_IGNORE_FAILED_BATCH = flag(
    "hoodie.datasource.write.streaming.ignore.failed.batch",
    "Whether the query continues if a batch cannot be written. The rows of that batch are then lost, with a warning.",
    Scope.WRITE,
    False,
)
SINK_DISABLE_COMPACTION = flag(
    "hoodie.datasource.write.streaming.disable.compaction",
    "Whether to leave out the compaction that follows a batch on a merge-on-read table when it is due, for example "
    "because another process compacts.",
    Scope.WRITE,
    False,
)
SINK_BATCH_ID: Option[int] = integer(
    "hoodie.internal.spark.streaming.batch.id",
    "For `df.write` in `foreachBatch`: the id of the batch. A batch that is already in the table is not written again.",
    Scope.WRITE,
    -1,
    minimum=-1,
    example="17",
)

SINK_OPTIONS = declared(globals(), OPTIONS, STREAM_OPTIONS)
