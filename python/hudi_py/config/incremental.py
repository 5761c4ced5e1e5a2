"""Options of incremental queries: ranges, change format, what becomes of holes and of cleaned files.

`DataSourceReadOptions`, `HoodieCommonConfig` and `FlinkOptions`, 1.2.0. Streams read some of them too.
"""

from __future__ import annotations

from hudi_py.config.option import Option, Scope, choice, flag, integer, optional_text, text

_SINCE = "0.1.0"
LATEST_STATE, CDC = "latest_state", "cdc"

FORMAT = choice(
    "hoodie.datasource.query.incremental.format",
    "What an incremental query returns: the rows as they are at the end of the range (`latest_state`), or each change "
    "with its images before and after (`cdc`; needs `hoodie.table.cdc.enabled` on the table).",
    Scope.READ,
    LATEST_STATE,
    (LATEST_STATE, CDC),
    since=_SINCE,
)
BEGIN = optional_text(
    "hoodie.datasource.read.begin.instanttime",
    "Where the range of an incremental query begins, exclusive: a completion time since table version 8, a requested "
    "time before. `000`: the start of the table. `earliest`: the first instant whose files are still there. Without it "
    "the query returns the last commit of the range alone. Of changes (`cdc`) it is a requested time in every "
    "version, as `ts_ms` is, and has to be given.",
    Scope.READ,
    aliases=("read.start-commit",),
    since=_SINCE,
)
END = optional_text(
    "hoodie.datasource.read.end.instanttime",
    "Where the range of an incremental query ends, inclusive, a time as where it begins; without it, at the newest "
    "commit.",
    Scope.READ,
    aliases=("read.end-commit",),
    since=_SINCE,
)
PATH_GLOB = optional_text(
    "hoodie.datasource.read.incr.path.glob",
    "An incremental query returns only rows of files whose path ends as this pattern says, for example `/2024/*/*`.",
    Scope.READ,
    since=_SINCE,
)
FILTERS = text(
    "hoodie.datasource.read.incr.filters",
    "Comma-separated conditions, which rows of an incremental query must all satisfy, besides `filter`.",
    Scope.READ,
    "",
    since=_SINCE,
)
FALLBACK: Option[bool | None] = Option(
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
    "true or false",
    flag("", "", Scope.READ, False).parse,
    None,
    "Whether an incremental query whose range holds archived commits, or needs files that were cleaned, takes the "
    "rows of its commits from the newest state of the table: those changed again after the range are then missing. "
    "Where it is false, such a query reads the archived timeline, and fails when files are gone. As in Apache Hudi it "
    "is true for tables of version 8 and later, and false before.",
    Scope.READ,
    since=_SINCE,
)
HOLLOW_COMMITS = choice(
    "hoodie.read.timeline.holes.resolution.policy",
    "Tables before version 8: what an incremental query does where a write is pending and later ones have completed. "
    "`FAIL`; `BLOCK`: stops before the pending one; `USE_TRANSITION_TIME`: the range is on completion times, told by "
    "the modification times of the timeline's files. A stream blocks unless told otherwise.",
    Scope.READ,
    "FAIL",
    ("FAIL", "BLOCK", "USE_TRANSITION_TIME"),
    aliases=("hoodie.datasource.read.handle.hollow.commit",),
    since=_SINCE,
)
SCHEMA_AT_END = flag(
    "hoodie.datasource.read.schema.use.end.instanttime",
    "Whether an incremental query returns the columns which the table had at the range's last commit, instead of those "
    "of now.",
    Scope.READ,
    False,
    since=_SINCE,
)
SKIP_COMPACTION = flag(
    "hoodie.datasource.read.incr.skip_compact",
    "Whether compactions count as commits of a range. They bring no rows of their own; a stream skips them unless told "
    "otherwise.",
    Scope.READ,
    False,
    aliases=("read.streaming.skip_compaction",),
    since=_SINCE,
)
SKIP_CLUSTERING = flag(
    "hoodie.datasource.read.incr.skip_cluster",
    "Whether clusterings are left out of a stream, which rewrite rows and change none. A stream skips them unless told "
    "otherwise; in a batch query it changes nothing.",
    Scope.READ,
    False,
    aliases=("read.streaming.skip_clustering",),
    since=_SINCE,
)
TABLE_VERSION = integer(
    "hoodie.datasource.read.incr.table.version",
    "The table version whose rules of ranges are meant; it must go with the table's own, since ranges are on "
    "completion times from version 8 on. 0: the table's own.",
    Scope.READ,
    0,
    since=_SINCE,
)

OPTIONS = (
    FORMAT,
    BEGIN,
    END,
    PATH_GLOB,
    FILTERS,
    FALLBACK,
    HOLLOW_COMMITS,
    SCHEMA_AT_END,
    SKIP_COMPACTION,
    SKIP_CLUSTERING,
    TABLE_VERSION,
)
