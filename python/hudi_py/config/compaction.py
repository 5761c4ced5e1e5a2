"""Options of compaction and log compaction (`HoodieCompactionConfig`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Option, Scope, choice, flag, integer, optional_text

_SINCE = "0.1.0"
_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_PLAN_GENERATOR = "org.apache.hudi.table.action.compact.plan.generators.HoodieCompactionPlanGenerator"

STRATEGIES = (
    "LogFileSizeBasedCompactionStrategy",
    "LogFileNumBasedCompactionStrategy",
    "BoundedIOCompactionStrategy",
    "UnBoundedCompactionStrategy",
    "DayBasedCompactionStrategy",
    "BoundedPartitionAwareCompactionStrategy",
    "UnBoundedPartitionAwareCompactionStrategy",
    "PartitionRegexBasedCompactionStrategy",
)
"""Names of the strategies' classes, without their package."""


def _strategies(value: str) -> tuple[str, ...]:
    names = []
    for part in value.split(","):
        name = part.strip().removeprefix(_PACKAGE)
        if name not in STRATEGIES:
            raise ValueError("one or more of " + ", ".join(STRATEGIES) + ", separated by commas")
        names.append(name)
    return tuple(names)


INLINE = flag(
    "hoodie.compact.inline",
    "Whether a commit to a merge-on-read table is followed by the compaction that is due, and by those still pending.",
    Scope.SERVICE,
    False,
    since=_SINCE,
)
ASYNC = flag(
    "hoodie.datasource.compaction.async.enable",
    "`false` has a commit to a merge-on-read table followed by the compaction that is due, as `hoodie.compact.inline` "
    "does; `true` asks for nothing: compactions run beside writes where someone runs them.",
    Scope.SERVICE,
    True,
    since=_SINCE,
)
SCHEDULE_INLINE = flag(
    "hoodie.compact.schedule.inline",
    "Whether a commit to a merge-on-read table is followed by planning the compaction that is due; someone else runs "
    "it.",
    Scope.SERVICE,
    False,
    since=_SINCE,
)
TRIGGER_STRATEGY = choice(
    "hoodie.compact.inline.trigger.strategy",
    "When a compaction is due: after a number of delta commits (counted from the last compaction, or from the last "
    "plan), after a time, after either or both.",
    Scope.SERVICE,
    "NUM_COMMITS",
    ("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    since=_SINCE,
)
MAX_DELTA_COMMITS = integer(
    "hoodie.compact.inline.max.delta.commits",
    "Delta commits after which a compaction is due.",
    Scope.SERVICE,
    5,
    unit="commits",
    since=_SINCE,
)
MAX_DELTA_SECONDS = integer(
    "hoodie.compact.inline.max.delta.seconds",
    "Time after which a compaction is due, where the trigger strategy looks at the time.",
    Scope.SERVICE,
    3600,
    unit="seconds",
    since=_SINCE,
)
STRATEGY: Option[tuple[str, ...]] = Option(
    "hoodie.compaction.strategy",
    "comma-separated list",
    _strategies,
    ("LogFileSizeBasedCompactionStrategy",),
    "Which file groups a compaction takes, and in which order: "
    + ", ".join(f"`{name}`" for name in STRATEGIES)
    + ", with or without their package. Of several, each chooses from what the one before it left.",
    Scope.SERVICE,
    since=_SINCE,
)
TARGET_IO_MB = integer(
    "hoodie.compaction.target.io",
    "How much one compaction reads and writes, about; what is more is left for the next one.",
    Scope.SERVICE,
    500 * 1024,
    unit="MB",
    since=_SINCE,
)
LOG_SIZE_THRESHOLD = integer(
    "hoodie.compaction.logfile.size.threshold",
    "File groups whose logs are smaller are left out (LogFileSizeBasedCompactionStrategy).",
    Scope.SERVICE,
    0,
    unit="bytes",
    since=_SINCE,
)
LOG_NUM_THRESHOLD = integer(
    "hoodie.compaction.logfile.num.threshold",
    "File groups with fewer log files are left out (LogFileNumBasedCompactionStrategy).",
    Scope.SERVICE,
    0,
    unit="files",
    since=_SINCE,
)
DAY_PARTITIONS = integer(
    "hoodie.compaction.daybased.target.partitions",
    "How many of the latest daily partitions are looked at (the strategies by day or partition).",
    Scope.SERVICE,
    10,
    unit="partitions",
    since=_SINCE,
)
PARTITION_REGEX = optional_text(
    "hoodie.compaction.partition.path.regex",
    "Partitions whose path has a match are looked at (PartitionRegexBasedCompactionStrategy).",
    Scope.SERVICE,
    since=_SINCE,
)
INCREMENTAL = flag(
    "hoodie.table.services.incremental.enabled",
    "Whether planning a compaction after a commit looks only at partitions that were written since the last one; on "
    "demand all are looked at.",
    Scope.SERVICE,
    True,
    since=_SINCE,
)
PLAN_GENERATOR = choice(
    "hoodie.compaction.plan.generator",
    "The class that makes plans; there is one.",
    Scope.SERVICE,
    _PLAN_GENERATOR,
    (_PLAN_GENERATOR,),
    since=_SINCE,
)
LOG_INLINE = flag(
    "hoodie.log.compaction.inline",
    "Whether a commit to a merge-on-read table is followed by a log compaction, which makes one log file of many.",
    Scope.SERVICE,
    False,
    since=_SINCE,
)
LOG_BLOCKS_THRESHOLD = integer(
    "hoodie.log.compaction.blocks.threshold",
    "Log compaction: file groups with fewer log files, and fewer log blocks, are left out.",
    Scope.SERVICE,
    5,
    unit="blocks",
    since=_SINCE,
)

OPTIONS = (
    INLINE,
    ASYNC,
    SCHEDULE_INLINE,
    TRIGGER_STRATEGY,
    MAX_DELTA_COMMITS,
    MAX_DELTA_SECONDS,
    STRATEGY,
    TARGET_IO_MB,
    LOG_SIZE_THRESHOLD,
    LOG_NUM_THRESHOLD,
    DAY_PARTITIONS,
    PARTITION_REGEX,
    INCREMENTAL,
    PLAN_GENERATOR,
    LOG_INLINE,
    LOG_BLOCKS_THRESHOLD,
)
