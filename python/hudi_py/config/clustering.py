"""Options of clustering (`HoodieClusteringConfig`, `HoodieLayoutConfig`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hudi_py.config.option import Option, Scope, choice, declared, flag, harmless, integer, names, optional_text

_PLAN = "hoodie.clustering.plan.strategy."
_PLANS_PACKAGE = "org.apache.hudi.client.clustering.plan.strategy."
RUNS_PACKAGE: Final = "org.apache.hudi.client.clustering.run.strategy."

_UPDATES_PACKAGE = "org.apache.hudi.client.clustering.update.strategy."
REJECT_UPDATES: Final = "SparkRejectUpdateStrategy"
ALLOW_UPDATES: Final = "SparkAllowUpdateStrategy"

SIZE_BASED: Final = "SparkSizeBasedClusteringPlanStrategy"
SINGLE_FILE: Final = "SparkSingleFileSortPlanStrategy"
STREAM_COPY: Final = "SparkStreamCopyClusteringPlanStrategy"
CONSISTENT_HASHING: Final = (
    "SparkConsistentBucketClusteringPlanStrategy",
    "SparkConsistentBucketClusteringExecutionStrategy",
    "SingleSparkJobConsistentHashingExecutionStrategy",
)
"""Classes that change hash buckets, as `resize_buckets` does."""
FILTERING: Final = {
    "SparkRecentDaysClusteringPlanStrategy": "RECENT_DAYS",
    "JavaRecentDaysClusteringPlanStrategy": "RECENT_DAYS",
    "SparkSelectedPartitionsClusteringPlanStrategy": "SELECTED_PARTITIONS",
}
"""Classes of earlier releases, and the filter modes that replace them (`ClusteringPlanStrategy.
checkAndGetClusteringPlanStrategy`, 1.2.0)."""
SORT_AND_SIZE: Final = "SparkSortAndSizeExecutionStrategy"
SINGLE_FILE_SORT: Final = "SparkSingleFileSortExecutionStrategy"
STREAM_COPY_RUN: Final = "SparkStreamCopyClusteringExecutionStrategy"
BINARY_COPY_RUN: Final = "SparkBinaryCopyClusteringExecutionStrategy"
COPIES: Final = (BINARY_COPY_RUN, STREAM_COPY_RUN)
"""Classes that, if they can, write one file for each group, whose rows keep their order."""
_REFUSED = {"CommitBasedClusteringPlanStrategy": "its plans cannot be read, not even by Apache Hudi"}


def _strategy_parser(
    package: str, known: tuple[str, ...], renamed: Mapping[str, str], others: tuple[str, ...] = CONSISTENT_HASHING
) -> Callable[[str], str]:
    """Returns the parser of a class name, which may lack its package. `others`: names that errors do not list."""

    def parse(value: str) -> str:
        name = value.strip().removeprefix(package)
        name = renamed.get(name, name)
        if name not in (*known, *others):
            raise ValueError(" or ".join(known) + (f"; {_REFUSED[name]}" if name in _REFUSED else ""))
        return name

    return parse


def _parse_layout(value: str) -> str:
    layout = value.strip().upper().replace("Z-ORDER", "ZORDER")
    if layout not in LAYOUTS:
        raise ValueError("one of " + ", ".join(LAYOUTS))
    return layout


LAYOUTS: Final = ("LINEAR", "ZORDER", "HILBERT")

INLINE = flag(
    "hoodie.clustering.inline",
    "Whether a commit is followed by pending clusterings, and by a new one if it is due.",
    Scope.SERVICE,
    False,
    aliases=("hoodie.datasource.clustering.inline.enable",),
)
INLINE_MAX_COMMITS = integer(
    "hoodie.clustering.inline.max.commits",
    "Number of commits since the last clustering after which one is due, with `hoodie.clustering.inline`.",
    Scope.SERVICE,
    4,
    unit="commits",
)
SCHEDULE_INLINE = flag(
    "hoodie.clustering.schedule.inline",
    "Whether a commit is followed by planning a clustering if it is due, to be run later.",
    Scope.SERVICE,
    False,
)
ASYNC_MAX_COMMITS = integer(
    "hoodie.clustering.async.max.commits",
    "Number of commits since the last clustering after which one is due, with `hoodie.clustering.schedule.inline`.",
    Scope.SERVICE,
    4,
    unit="commits",
)
PLAN_STRATEGY: Option[str] = Option(
    f"{_PLAN}class",
    "class name",
    _strategy_parser(
        _PLANS_PACKAGE,
        (SIZE_BASED, SINGLE_FILE, STREAM_COPY),
        {"JavaSizeBasedClusteringPlanStrategy": SIZE_BASED},
        (*CONSISTENT_HASHING, *FILTERING),
    ),
    SIZE_BASED,
    f"How file slices are grouped: {SIZE_BASED} fills groups of up to `{_PLAN}max.bytes.per.group` with them, "
    f"{SINGLE_FILE} puts each into a group of its own. {STREAM_COPY} also begins a group where the Parquet schema "
    "changes, and plans that Apache Hudi copies files without decoding them. With or without the package.",
    Scope.SERVICE,
    example=SINGLE_FILE,
)
RUN_STRATEGY: Option[str] = Option(
    "hoodie.clustering.execution.strategy.class",
    "class name",
    _strategy_parser(
        RUNS_PACKAGE,
        (SORT_AND_SIZE, SINGLE_FILE_SORT, *COPIES),
        {"JavaSortAndSizeExecutionStrategy": SORT_AND_SIZE},
    ),
    SORT_AND_SIZE,
    f"What a plan records about its execution: {SORT_AND_SIZE} writes files of up to `{_PLAN}target.file.max.bytes`, "
    f"{SINGLE_FILE_SORT} one file for each group; so do {BINARY_COPY_RUN} and {STREAM_COPY_RUN} for Parquet files of "
    "copy-on-write tables, without sorting them. With or without the package.",
    Scope.SERVICE,
    example=SINGLE_FILE_SORT,
)
FILTER_MODE = choice(
    "hoodie.clustering.plan.partition.filter.mode",
    "Which partitions a plan covers: all; the latest ones by name; those between two names; or, by the hour of the "
    "day, every 24th.",
    Scope.SERVICE,
    "NONE",
    ("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
)
LOOKBACK_PARTITIONS = integer(
    f"{_PLAN}daybased.lookback.partitions",
    "RECENT_DAYS: how many partitions a plan covers, counted from the latest; 0: all.",
    Scope.SERVICE,
    2,
    unit="partitions",
)
SKIPPED_PARTITIONS = integer(
    f"{_PLAN}daybased.skipfromlatest.partitions",
    "RECENT_DAYS: how many of the latest partitions are left out.",
    Scope.SERVICE,
    0,
    unit="partitions",
    example="1",
)
BEGIN_PARTITION = optional_text(
    f"{_PLAN}cluster.begin.partition",
    "SELECTED_PARTITIONS: the first partition path, by comparison of texts.",
    Scope.SERVICE,
    example="2026-01-01",
)
END_PARTITION = optional_text(
    f"{_PLAN}cluster.end.partition",
    "SELECTED_PARTITIONS: the last partition path.",
    Scope.SERVICE,
    example="2026-01-31",
)
PARTITION_REGEX = optional_text(
    f"{_PLAN}partition.regex.pattern",
    f"Only partitions whose whole path matches are considered; without effect with `{_PLAN}partition.selected`.",
    Scope.SERVICE,
    example="city=o.*",
)
PARTITIONS = names(
    f"{_PLAN}partition.selected", "Only these partition paths are considered.", Scope.SERVICE, example="oslo,paris"
)
SMALL_FILE_LIMIT = integer(
    f"{_PLAN}small.file.limit",
    "Base files of at least this size stay as they are.",
    Scope.SERVICE,
    300 * 1024 * 1024,
    unit="bytes",
)
MAX_GROUP_BYTES = integer(
    f"{_PLAN}max.bytes.per.group",
    "Maximum bytes of base files in a group; a larger file is a group of its own. Groups are rewritten independently "
    "of each other.",
    Scope.SERVICE,
    2 * 1024 * 1024 * 1024,
    unit="bytes",
)
MAX_GROUPS = integer(
    f"{_PLAN}max.num.groups", "Maximum number of groups in a plan.", Scope.SERVICE, 30, minimum=1, unit="groups"
)
TARGET_FILE_BYTES = integer(
    f"{_PLAN}target.file.max.bytes",
    "Size at which a new file is full.",
    Scope.SERVICE,
    1024 * 1024 * 1024,
    minimum=1,
    unit="bytes",
)
SINGLE_GROUPS = flag(
    f"{_PLAN}single.group.clustering.enabled",
    "Whether a group may consist of one file slice that becomes one file: it is sorted, and its logs are merged.",
    Scope.SERVICE,
    True,
)
SLICES_SORT_BY: Option[tuple[str, ...]] = Option(
    f"{_PLAN}file.slices.sort.by",
    "comma-separated list",
    lambda value: _slice_orders(value),
    ("SIZE",),
    "In which order file slices go into groups: the largest base files first (SIZE), the oldest first (INSTANT_TIME), "
    "or both.",
    Scope.SERVICE,
    example="INSTANT_TIME,SIZE",
)
SORT_COLUMNS = names(
    f"{_PLAN}sort.columns",
    "Columns by which the rows of each group are sorted; none: rows keep their order.",
    Scope.SERVICE,
    example="city,ts",
)
LAYOUT: Option[str] = Option(
    "hoodie.layout.optimize.strategy",
    "choice",
    _parse_layout,
    "LINEAR",
    "How rows are sorted by several columns: by one after the other, or along a Z-order or Hilbert curve, which keeps "
    "rows together that are close in all columns.",
    Scope.SERVICE,
    choices=LAYOUTS,
)
CURVE_METHOD = choice(
    "hoodie.layout.optimize.curve.build.method",
    "How values are mapped to positions on a curve: by their own bits, or by their ranks in a sample of the rows, "
    "which suits values that are distributed unevenly, such as texts with a common prefix.",
    Scope.SERVICE,
    "DIRECT",
    ("DIRECT", "SAMPLE"),
)
UPDATES_STRATEGY: Option[str | None] = Option(
    "hoodie.clustering.updates.strategy",
    "class name",
    _strategy_parser(
        _UPDATES_PACKAGE, (REJECT_UPDATES, ALLOW_UPDATES), {}, ("SparkConsistentBucketDuplicateUpdateStrategy",)
    ),
    None,
    f"Whether a write may change file groups of a pending clustering: no ({REJECT_UPDATES}), or yes ({ALLOW_UPDATES}), "
    "which is the default with PreferWriterConflictResolutionStrategy: the clustering then fails. Otherwise it needs "
    "`hoodie.clustering.rollback.pending.replacecommit.on.conflict`, because Apache Hudi would complete the clustering "
    "and lose the changes. Without effect on tables with buckets. With or without the package.",
    Scope.SERVICE,
    example=ALLOW_UPDATES,
)
DROP_ON_CONFLICT = flag(
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
    f"Whether the commit of a write that changes file groups of a pending clustering rolls the clustering back, and "
    f"removes its plan, with {ALLOW_UPDATES}. A clustering that a process is running is never rolled back.",
    Scope.SERVICE,
    False,
)
EXPIRES = flag(
    "hoodie.clustering.enable.expirations",
    "Whether writes with `hoodie.clean.failed.writes.policy=LAZY` roll back pending clusterings without a sign of life "
    "for `hoodie.clustering.expiration.threshold.mins`, and remove their plans.",
    Scope.SERVICE,
    False,
)
EXPIRES_AFTER_MIN = integer(
    "hoodie.clustering.expiration.threshold.mins",
    "Minutes after which a pending clustering expires, with `hoodie.clustering.enable.expirations`.",
    Scope.SERVICE,
    60,
    unit="minutes",
)
CURVE_SAMPLE_SIZE = integer(
    "hoodie.layout.optimize.build.curve.sample.size",
    "SAMPLE: maximum number of ranges of values of a column; up to 20 times as many rows are sampled.",
    Scope.SERVICE,
    200_000,
    minimum=2,
    unit="ranges",
)
COPY_OTHER_SCHEMAS = flag(
    f"{_PLAN}binary.copy.schema.evolution.enable",
    f"{STREAM_COPY}: whether a group may have files with different Parquet schemas.",
    Scope.SERVICE,
    False,
)
SORT_BY_KEY_LAST = flag(
    "hoodie.bulkinsert.sort.suffix.record_key",
    "Whether a clustering sorts rows with equal sort columns by record key (LINEAR).",
    Scope.SERVICE,
    False,
)


def _slice_orders(value: str) -> tuple[str, ...]:
    methods = tuple(part.strip().upper() for part in value.split(",") if part.strip())
    if not methods or not {*methods} <= {"SIZE", "INSTANT_TIME"}:
        raise ValueError("SIZE, INSTANT_TIME, or both, separated by commas")
    return methods


_PARALLEL = "How many threads of Spark's driver Apache Hudi uses."
IGNORED = (
    harmless("hoodie.clustering.max.parallelism", _PARALLEL, Scope.SERVICE),
    harmless("hoodie.clustering.group.read.parallelism", _PARALLEL, Scope.SERVICE),
    harmless("hoodie.clustering.plan.generation.use.local.engine.context", _PARALLEL, Scope.SERVICE),
    harmless(
        "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution",
        "A clustering is planned only if all pending writes check for conflicts.",
        Scope.SERVICE,
    ),
    harmless(f"{_PLAN}earliest.commit.to.cluster", "Of a strategy that is refused by its own name.", Scope.SERVICE),
    harmless("hoodie.layout.optimize.enable", "Deprecated, without effect.", Scope.SERVICE),
    harmless("hoodie.layout.optimize.data.skipping.enable", "Deprecated, without effect.", Scope.SERVICE),
)

OPTIONS = declared(globals())
