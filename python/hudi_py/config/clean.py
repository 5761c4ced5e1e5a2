"""Options of cleaning: which file versions go, and when (`HoodieCleanConfig`, 1.2.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_py.config.option import Scope, choice, declared, flag, integer, names, optional_choice, optional_text
from hudi_py.errors import ConfigError

if TYPE_CHECKING:
    from hudi_py.config.options import Options

_SERVICE = Scope.SERVICE

KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"

AUTOMATIC = flag(
    "hoodie.clean.automatic",
    "Whether a clean follows each commit. It deletes file versions that no query of the retained commits needs.",
    _SERVICE,
    True,
)
POLICY = optional_choice(
    "hoodie.clean.policy",
    "Which file versions to keep: those needed by queries as of the newest commits (KEEP_LATEST_COMMITS) or as of the "
    "commits of the last hours (KEEP_LATEST_BY_HOURS), or a number of versions of each file group "
    "(KEEP_LATEST_FILE_VERSIONS). Default: the policy whose number is set, if it is the only one; otherwise "
    "KEEP_LATEST_COMMITS.",
    _SERVICE,
    (KEEP_LATEST_COMMITS, KEEP_LATEST_FILE_VERSIONS, KEEP_LATEST_BY_HOURS),
    aliases=("hoodie.cleaner.policy", "clean.policy"),
)
COMMITS_RETAINED = integer(
    "hoodie.clean.commits.retained",
    "KEEP_LATEST_COMMITS: number of commits that stay available for time travel and incremental reads.",
    _SERVICE,
    10,
    minimum=1,
    unit="commits",
    aliases=("hoodie.cleaner.commits.retained", "clean.retain_commits"),
)
HOURS_RETAINED = integer(
    "hoodie.clean.hours.retained",
    "KEEP_LATEST_BY_HOURS: commits no older than this stay available for time travel and incremental reads.",
    _SERVICE,
    24,
    unit="hours",
    aliases=("hoodie.cleaner.hours.retained", "clean.retain_hours"),
)
FILE_VERSIONS_RETAINED = integer(
    "hoodie.clean.fileversions.retained",
    "KEEP_LATEST_FILE_VERSIONS: number of versions to keep of each file group. The version that a pending compaction "
    "will write counts; versions held by a savepoint do not.",
    _SERVICE,
    3,
    minimum=1,
    unit="versions",
    aliases=("hoodie.cleaner.fileversions.retained", "clean.retain_file_versions"),
)
INCREMENTAL = flag(
    "hoodie.clean.incremental.enabled",
    "Whether a clean by commits or hours considers only partitions that changed since the last one.",
    _SERVICE,
    True,
    aliases=("hoodie.cleaner.incremental.mode",),
)
TRIGGER_STRATEGY = choice(
    "hoodie.clean.trigger.strategy",
    "When a clean is due: after a number of commits since the last one.",
    _SERVICE,
    "NUM_COMMITS",
    ("NUM_COMMITS",),
)
TRIGGER_MAX_COMMITS = integer(
    "hoodie.clean.trigger.max.commits",
    "A commit is followed by a clean after this many commits since the last one. One that is asked for does not wait.",
    _SERVICE,
    1,
    unit="commits",
    aliases=("hoodie.clean.max.commits",),
)
MAX_COMMITS_TO_CLEAN = integer(
    "hoodie.clean.max.commits.to.clean",
    "By commits or hours: maximum number of commits by which one clean advances from where the last one stopped.",
    _SERVICE,
    2**63 - 1,
    minimum=1,
    unit="commits",
    example="20",
)
PARALLELISM = integer(
    "hoodie.clean.parallelism",
    "Maximum number of parts into which the deletions of a clean are divided; the parts run in parallel.",
    _SERVICE,
    200,
    minimum=1,
    unit="parts",
    aliases=("hoodie.cleaner.parallelism",),
)
PARTITION_REGEX = optional_text(
    "hoodie.clean.partition.filter.regex",
    "Clean only partitions whose whole path matches; not with incremental cleaning.",
    _SERVICE,
    aliases=("hoodie.cleaner.partition.filter.regex",),
    example="city=o.*",
)
PARTITIONS_SELECTED = names(
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

OPTIONS = declared(globals())


def cleaning_policy(options: Options) -> str:
    """Return the policy that is set, or else the only one whose number is set (inferred as in `HoodieCleanConfig`)."""
    policy = options.get(POLICY)
    if policy is not None:
        return policy
    numbers = {
        KEEP_LATEST_COMMITS: COMMITS_RETAINED,
        KEEP_LATEST_BY_HOURS: HOURS_RETAINED,
        KEEP_LATEST_FILE_VERSIONS: FILE_VERSIONS_RETAINED,
    }
    given = [policy for policy, option in numbers.items() if options.given(option)]
    return given[0] if len(given) == 1 else KEEP_LATEST_COMMITS


def check_clean(options: Options) -> None:
    """Raises ConfigError if partitions are chosen by name or pattern although incremental cleaning is on."""
    chosen = next((each for each in (PARTITIONS_SELECTED, PARTITION_REGEX) if options.get(each)), None)
    if chosen is not None and options.get(INCREMENTAL):
        raise ConfigError(
            f"Option {options.name_of(chosen)} cannot be used with incremental cleaning, which chooses the partitions "
            f"itself; set {INCREMENTAL.key} to false, or leave the option out"
        )
