"""Options of table services that remove old data: clean, archive and partition TTL.

`HoodieCleanConfig`, `HoodieArchivalConfig` and `HoodieTTLConfig`, 1.2.0; the merge of small archive files as of 0.15.0,
the last release that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudi_py.config.option import Option, Scope, choice, declared, flag, integer, names, optional_choice, optional_text
from hudi_py.errors import ConfigError

if TYPE_CHECKING:
    from hudi_py.config.options import Options

ENABLED = flag(
    "hoodie.table.services.enabled",
    "Whether table services follow a commit. With `false`, writes neither plan nor run any, regardless of the "
    "services' own options; they can still be run on demand.",
    Scope.SERVICE,
    True,
)
FAIL_ON_ERROR = flag(
    "hoodie.fail.writes.on.inline.table.service.exception",
    "Whether a table service that fails after a commit raises an error to the writer, although the write is "
    "committed. `false`: logs a warning.",
    Scope.SERVICE,
    True,
)
AUTO_UPGRADE = flag(
    "hoodie.write.auto.upgrade",
    "Whether a write to a table of an older version upgrades it to version 9 once it is committed. Apache Hudi does "
    "so by default, before the write.",
    Scope.SERVICE,
    False,
)

SKIP_DEFAULT_PARTITION = flag(
    "hoodie.skip.default.partition.validation",
    "Whether an upgrade takes tables of versions 2 to 4 with the partition `default`, to which old releases wrote rows "
    "with a null partition value. These rows stay there, and new rows with nulls go to another partition.",
    Scope.SERVICE,
    False,
)

OPTIONS = declared(globals())


_SERVICE = Scope.SERVICE

KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"

CLEAN_AUTOMATIC = flag(
    "hoodie.clean.automatic",
    "Whether a clean follows each commit. It deletes file versions that no query of the retained commits needs.",
    _SERVICE,
    True,
)
CLEAN_POLICY = optional_choice(
    "hoodie.clean.policy",
    "Which file versions to keep: those needed by queries as of the newest commits (KEEP_LATEST_COMMITS) or as of the "
    "commits of the last hours (KEEP_LATEST_BY_HOURS), or a number of versions of each file group "
    "(KEEP_LATEST_FILE_VERSIONS). Default: the policy whose number is set, if it is the only one; otherwise "
    "KEEP_LATEST_COMMITS.",
    _SERVICE,
    (KEEP_LATEST_COMMITS, KEEP_LATEST_FILE_VERSIONS, KEEP_LATEST_BY_HOURS),
    aliases=("hoodie.cleaner.policy", "clean.policy"),
)
CLEAN_COMMITS_RETAINED = integer(
    "hoodie.clean.commits.retained",
    "KEEP_LATEST_COMMITS: number of commits that stay available for time travel and incremental reads.",
    _SERVICE,
    10,
    minimum=1,
    unit="commits",
    aliases=("hoodie.cleaner.commits.retained", "clean.retain_commits"),
)
CLEAN_HOURS_RETAINED = integer(
    "hoodie.clean.hours.retained",
    "KEEP_LATEST_BY_HOURS: commits no older than this stay available for time travel and incremental reads.",
    _SERVICE,
    24,
    unit="hours",
    aliases=("hoodie.cleaner.hours.retained", "clean.retain_hours"),
)
CLEAN_FILE_VERSIONS_RETAINED = integer(
    "hoodie.clean.fileversions.retained",
    "KEEP_LATEST_FILE_VERSIONS: number of versions to keep of each file group. The version that a pending compaction "
    "will write counts; versions held by a savepoint do not.",
    _SERVICE,
    3,
    minimum=1,
    unit="versions",
    aliases=("hoodie.cleaner.fileversions.retained", "clean.retain_file_versions"),
)
CLEAN_INCREMENTAL = flag(
    "hoodie.clean.incremental.enabled",
    "Whether a clean by commits or hours considers only partitions that changed since the last one.",
    _SERVICE,
    True,
    aliases=("hoodie.cleaner.incremental.mode",),
)
CLEAN_TRIGGER_STRATEGY = choice(
    "hoodie.clean.trigger.strategy",
    "When a clean is due: after a number of commits since the last one.",
    _SERVICE,
    "NUM_COMMITS",
    ("NUM_COMMITS",),
)
CLEAN_TRIGGER_MAX_COMMITS = integer(
    "hoodie.clean.trigger.max.commits",
    "A commit is followed by a clean after this many commits since the last one. A clean on demand does not wait.",
    _SERVICE,
    1,
    unit="commits",
    aliases=("hoodie.clean.max.commits",),
)
MAX_COMMITS_TO_CLEAN = integer(
    "hoodie.clean.max.commits.to.clean",
    "By commits or hours: maximum number of commits by which a clean advances beyond the last one.",
    _SERVICE,
    2**63 - 1,
    minimum=1,
    unit="commits",
    example="20",
)
CLEAN_PARALLELISM = integer(
    "hoodie.clean.parallelism",
    "Maximum number of parts into which the deletions of a clean are divided; the parts run in parallel.",
    _SERVICE,
    200,
    minimum=1,
    unit="parts",
    aliases=("hoodie.cleaner.parallelism",),
)
CLEAN_PARTITION_REGEX = optional_text(
    "hoodie.clean.partition.filter.regex",
    "Clean only partitions whose whole path matches; not with incremental cleaning.",
    _SERVICE,
    aliases=("hoodie.cleaner.partition.filter.regex",),
    example="city=o.*",
)
CLEAN_PARTITIONS_SELECTED = names(
    "hoodie.clean.partition.filter.selected",
    "Clean only these partitions; not with incremental cleaning. Takes precedence over the pattern.",
    _SERVICE,
    aliases=("hoodie.cleaner.partition.filter.selected",),
    example="city=oslo",
)
EMPTY_CLEAN_INTERVAL_HOURS = integer(
    "hoodie.write.empty.clean.interval.hours",
    "Incremental cleaning: a clean that finds nothing to delete is recorded on the timeline if the last one is older "
    "than this, so that the next one starts from there; -1: never.",
    _SERVICE,
    -1,
    minimum=-1,
    unit="hours",
    example="24",
)

CLEAN_OPTIONS = declared(globals(), OPTIONS)


ARCHIVE_AUTOMATIC = flag(
    "hoodie.archive.automatic",
    "Whether instants are archived after a commit if there are more than `hoodie.keep.max.commits`.",
    Scope.SERVICE,
    True,
)
ARCHIVE_ASYNC = flag(
    "hoodie.archive.async",
    "Only matters if `hoodie.archive.automatic` is true. Apache Hudi then archives in parallel with the write; "
    "hudi-py still archives after the commit, which takes milliseconds.",
    Scope.SERVICE,
    False,
)
ARCHIVE_MAX_COMMITS = integer(
    "hoodie.keep.max.commits",
    "Maximum number of completed commits on the active timeline before some are archived. More stay if cleaning needs "
    "them.",
    Scope.SERVICE,
    30,
    minimum=1,
    aliases=("archive.max_commits",),
)
ARCHIVE_MIN_COMMITS = integer(
    "hoodie.keep.min.commits",
    "Number of completed commits that stay on the active timeline when older ones are archived. Must be smaller than "
    "`hoodie.keep.max.commits`. More stay if cleaning needs them.",
    Scope.SERVICE,
    20,
    minimum=1,
    aliases=("archive.min_commits",),
)
ARCHIVE_BATCH_SIZE = integer(
    "hoodie.commits.archival.batch",
    "Tables before version 8: number of entries in a block of an archive file, one entry for each state of an instant.",
    Scope.SERVICE,
    10,
    minimum=1,
)
ARCHIVE_BEYOND_SAVEPOINT = flag(
    "hoodie.archive.beyond.savepoint",
    "Whether commits after the first savepoint are archived too; commits with a savepoint always stay. Otherwise "
    "archiving stops at the first savepoint. Apache Hudi 1.2.0 no longer sees the rows of such commits; hudi-py does, "
    "and once it has deleted the savepoint Apache Hudi sees them again.",
    Scope.SERVICE,
    False,
)
ARCHIVE_BLOCK_ON_CLEAN = flag(
    "hoodie.archive.block.on.latest.clean.ectr",
    "Whether the earliest commit that the last clean retained, and all later ones, stay on the active timeline.",
    Scope.SERVICE,
    False,
)
ARCHIVE_MERGE = flag(
    "hoodie.archive.merge.enable",
    "Tables before version 8: whether small archive files are merged into larger ones after archiving.",
    Scope.SERVICE,
    False,
)
ARCHIVE_MERGE_LIMIT = integer(
    "hoodie.archive.merge.small.file.limit.bytes",
    "Archive files up to this size are merged. The newest larger file and all older files stay as they are.",
    Scope.SERVICE,
    20 << 20,
    unit="bytes",
)
ARCHIVE_MERGE_BATCH = integer(
    "hoodie.archive.merge.files.batch.size",
    "Number of small archive files from which they are merged.",
    Scope.SERVICE,
    10,
    minimum=2,
)
ARCHIVE_COMPACTION_BATCH = integer(
    "hoodie.timeline.compaction.batch.size",
    "Tables from version 8 on: number of archive files of one level that are merged into one file of the next level.",
    Scope.SERVICE,
    10,
    minimum=2,
)
ARCHIVE_COMPACTION_TARGET = integer(
    "hoodie.timeline.compaction.target.file.max.bytes",
    "Tables from version 8 on: approximate maximum size of merged archive files.",
    Scope.SERVICE,
    1000 << 20,
    unit="bytes",
    minimum=1,
)
ARCHIVE_MANIFESTS_RETAINED = integer(
    "hoodie.timeline.manifest.retained.versions",
    "Tables from version 8 on: number of archive versions that stay available to readers that have already opened "
    "them.",
    Scope.SERVICE,
    3,
    minimum=1,
)

ARCHIVE_OPTIONS = declared(globals(), OPTIONS, CLEAN_OPTIONS)


_TTL = "hoodie.partition.ttl."
_STRATEGY_PACKAGE = "org.apache.hudi.table.action.ttl.strategy."
KEEP_BY_TIME: Final = "KEEP_BY_TIME"
KEEP_BY_CREATION_TIME: Final = "KEEP_BY_CREATION_TIME"
_STRATEGY_CLASSES = {"KeepByTimeStrategy": KEEP_BY_TIME, "KeepByCreationTimeStrategy": KEEP_BY_CREATION_TIME}


def _strategy_class(value: str) -> str | None:
    """Parses the name of a strategy: Apache Hudi's, which becomes its type, or `module:Class`."""
    name = value.strip().removeprefix(_STRATEGY_PACKAGE)
    module, colon, attribute = (part.strip() for part in name.partition(":"))
    if name in _STRATEGY_CLASSES:
        return _STRATEGY_CLASSES[name]
    if name and not (colon and module and attribute):
        raise ValueError(" or ".join(_STRATEGY_CLASSES) + ", or module:Class of a class in Python")
    return name or None


TTL_INLINE = flag(
    f"{_TTL}inline",
    "Whether a commit is followed by dropping the partitions that have expired.",
    Scope.SERVICE,
    False,
)
TTL_STRATEGY_TYPE = choice(
    f"{_TTL}management.strategy.type",
    "From which time partitions are kept: from their last write, or from their creation.",
    Scope.SERVICE,
    KEEP_BY_TIME,
    (KEEP_BY_TIME, KEEP_BY_CREATION_TIME),
)
TTL_STRATEGY_CLASS: Option[str | None] = Option(
    f"{_TTL}strategy.class",
    "class name",
    _strategy_class,
    None,
    "Decides which partitions have expired, whatever the type: a strategy of Apache Hudi's, or a Python class as "
    "`module:Class`, see `hudi_py.services.ttl.PartitionStrategy`.",
    Scope.SERVICE,
    example="KeepByCreationTimeStrategy",
)
TTL_DAYS_RETAINED = integer(
    f"{_TTL}strategy.days.retain",
    "Days after which a partition has expired; 0 or less: never.",
    Scope.SERVICE,
    -1,
    minimum=-1,
    unit="days",
    example="90",
)
TTL_PARTITIONS = names(
    f"{_TTL}strategy.partition.selected",
    "Paths of the partitions that may expire, separated by commas; empty: all.",
    Scope.SERVICE,
    example="2026/01/31,2026/02/01",
)
TTL_MAX_PARTITIONS = integer(
    f"{_TTL}strategy.max.delete.partitions",
    "Maximum number of partitions that are dropped at once, oldest first.",
    Scope.SERVICE,
    1000,
    minimum=1,
    unit="partitions",
)

TTL_OPTIONS = declared(globals(), OPTIONS, CLEAN_OPTIONS, ARCHIVE_OPTIONS)


def cleaning_policy(options: Options) -> str:
    """Returns the policy that is set, or infers it from the only number that is set (`HoodieCleanConfig`)."""
    policy = options.get(CLEAN_POLICY)
    if policy is not None:
        return policy
    numbers = {
        KEEP_LATEST_COMMITS: CLEAN_COMMITS_RETAINED,
        KEEP_LATEST_BY_HOURS: CLEAN_HOURS_RETAINED,
        KEEP_LATEST_FILE_VERSIONS: CLEAN_FILE_VERSIONS_RETAINED,
    }
    given = [policy for policy, option in numbers.items() if options.given(option)]
    return given[0] if len(given) == 1 else KEEP_LATEST_COMMITS


def check_clean(options: Options) -> None:
    """Raises ConfigError if partitions are chosen by name or pattern while incremental cleaning is on."""
    chosen = next((item for item in (CLEAN_PARTITIONS_SELECTED, CLEAN_PARTITION_REGEX) if options.get(item)), None)
    if chosen is not None and options.get(CLEAN_INCREMENTAL):
        raise ConfigError(
            f"Option {options.name_of(chosen)} cannot be used with incremental cleaning, which chooses the partitions "
            f"itself; set {CLEAN_INCREMENTAL.key} to false, or leave the option out"
        )


def check_archive(options: Options) -> None:
    """Raises ConfigError unless the maximum number of active commits exceeds the minimum."""
    most, least = options.get(ARCHIVE_MAX_COMMITS), options.get(ARCHIVE_MIN_COMMITS)
    if most <= least:
        raise ConfigError(
            f"Cannot archive with {ARCHIVE_MAX_COMMITS.key} = {most} and {ARCHIVE_MIN_COMMITS.key} = {least}: the "
            "first must be greater than the second"
        )
