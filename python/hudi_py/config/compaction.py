"""Options of compaction and log compaction (`HoodieCompactionConfig`, 1.2.0)."""

from __future__ import annotations

from hudi_py.config.option import Option, Scope, choice, declared, flag, integer, optional_text

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
"""Class names of the strategies, without their package."""


def _parse_strategies(value: str) -> tuple[str, ...]:
    names = []
    for part in value.split(","):
        name = part.strip().removeprefix(_PACKAGE)
        if name not in STRATEGIES:
            raise ValueError("one or more of " + ", ".join(STRATEGIES) + ", separated by commas")
        names.append(name)
    return tuple(names)


INLINE = flag(
    "hoodie.compact.inline",
    "Whether a commit to a merge-on-read table is followed by the compaction that is due, and by pending ones.",
    Scope.SERVICE,
    False,
)
ASYNC = flag(
    "hoodie.datasource.compaction.async.enable",
    "With `false`, a commit to a merge-on-read table is followed by the compaction that is due, as with "
    "`hoodie.compact.inline`. With `true`, compactions run separately from writes, when they are started.",
    Scope.SERVICE,
    True,
)
SCHEDULE_INLINE = flag(
    "hoodie.compact.schedule.inline",
    "Whether a commit to a merge-on-read table is followed by planning the compaction that is due, to be run later.",
    Scope.SERVICE,
    False,
)
TRIGGER_STRATEGY = choice(
    "hoodie.compact.inline.trigger.strategy",
    "When a compaction is due: after a number of delta commits (counted from the last compaction, or from the last "
    "plan), after a time, after either or both.",
    Scope.SERVICE,
    "NUM_COMMITS",
    ("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
)
MAX_DELTA_COMMITS = integer(
    "hoodie.compact.inline.max.delta.commits",
    "Number of delta commits after which a compaction is due.",
    Scope.SERVICE,
    5,
    unit="commits",
)
MAX_DELTA_SECONDS = integer(
    "hoodie.compact.inline.max.delta.seconds",
    "Time after which a compaction is due, if the trigger strategy uses the time.",
    Scope.SERVICE,
    3600,
    unit="seconds",
)
STRATEGY: Option[tuple[str, ...]] = Option(
    "hoodie.compaction.strategy",
    "comma-separated list",
    _parse_strategies,
    ("LogFileSizeBasedCompactionStrategy",),
    "Which file groups a compaction takes, and in which order: "
    + ", ".join(f"`{name}`" for name in STRATEGIES)
    + ", with or without their package. If several are given, each chooses from what the one before it left.",
    Scope.SERVICE,
    example="BoundedIOCompactionStrategy",
)
TARGET_IO_MB = integer(
    "hoodie.compaction.target.io",
    "Approximate amount of data that one compaction reads and writes; the rest is left for the next one.",
    Scope.SERVICE,
    500 * 1024,
    unit="MB",
)
LOG_SIZE_THRESHOLD = integer(
    "hoodie.compaction.logfile.size.threshold",
    "File groups with smaller logs are left out (LogFileSizeBasedCompactionStrategy).",
    Scope.SERVICE,
    0,
    unit="bytes",
    example="1048576",
)
LOG_NUM_THRESHOLD = integer(
    "hoodie.compaction.logfile.num.threshold",
    "File groups with fewer log files are left out (LogFileNumBasedCompactionStrategy).",
    Scope.SERVICE,
    0,
    unit="files",
    example="3",
)
DAY_PARTITIONS = integer(
    "hoodie.compaction.daybased.target.partitions",
    "Number of latest daily partitions to consider (strategies by day or partition).",
    Scope.SERVICE,
    10,
    unit="partitions",
)
PARTITION_REGEX = optional_text(
    "hoodie.compaction.partition.path.regex",
    "Only partitions whose path contains a match are considered (PartitionRegexBasedCompactionStrategy).",
    Scope.SERVICE,
    example="city=o.*",
)
INCREMENTAL = flag(
    "hoodie.table.services.incremental.enabled",
    "Whether planning a compaction or clustering after a commit considers only partitions written since the last one. "
    "On demand, all are considered.",
    Scope.SERVICE,
    True,
)
PLAN_GENERATOR = choice(
    "hoodie.compaction.plan.generator",
    "The class that makes plans; there is only one.",
    Scope.SERVICE,
    _PLAN_GENERATOR,
    (_PLAN_GENERATOR,),
)
LOG_INLINE = flag(
    "hoodie.log.compaction.inline",
    "Whether a commit to a merge-on-read table is followed by a log compaction, which merges many log files into one.",
    Scope.SERVICE,
    False,
)
LOG_BLOCKS_THRESHOLD = integer(
    "hoodie.log.compaction.blocks.threshold",
    "Log compaction: file groups with fewer log files, and fewer log blocks, are left out.",
    Scope.SERVICE,
    5,
    unit="blocks",
)

OPTIONS = declared(globals())
