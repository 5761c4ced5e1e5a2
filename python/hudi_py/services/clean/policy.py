"""Cleaning rules: policies, the earliest commit to retain, and when a clean is due.

Source: `CleanerUtils.getEarliestCommitToRetain` and `CleanPlanActionExecutor.needsCleaning`, 1.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import tzinfo

from hudi_py.config import Options
from hudi_py.config import clean as clean_config
from hudi_py.config.clean import KEEP_LATEST_BY_HOURS, KEEP_LATEST_COMMITS, KEEP_LATEST_FILE_VERSIONS
from hudi_py.errors import ConfigError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.words import counted
from hudi_py.schema.patterns import check_regex
from hudi_py.timeline.clean_records import CleanMetadata
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import format_instant

_HOUR_MS = 3_600_000
_UNLIMITED = clean_config.MAX_COMMITS_TO_CLEAN.default
COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})


@dataclass(frozen=True, slots=True)
class CleanSettings:
    """The settings of a clean. Pickles."""

    policy: str = KEEP_LATEST_COMMITS
    commits_retained: int = 10
    hours_retained: int = 24
    file_versions_retained: int = 3
    incremental: bool = True
    trigger_max_commits: int = 1
    max_commits_to_clean: int = _UNLIMITED
    parallelism: int = 200
    partition_regex: str | None = None
    partitions_selected: tuple[str, ...] = ()
    empty_interval_hours: int = -1
    groups: frozenset[FileGroup] | None = None
    """Only these file groups; None: all. Of these, the change logs of all versions go too."""

    @classmethod
    def of(cls, options: Options) -> CleanSettings:
        """The settings that the options describe.

        Raises:
            ConfigError: partitions are chosen by name or pattern although incremental cleaning is on, or the pattern is
                not a valid regular expression.
        """
        settings = cls(
            policy=policy_of(options),
            commits_retained=options.get(clean_config.COMMITS_RETAINED),
            hours_retained=options.get(clean_config.HOURS_RETAINED),
            file_versions_retained=options.get(clean_config.FILE_VERSIONS_RETAINED),
            incremental=options.get(clean_config.INCREMENTAL),
            trigger_max_commits=options.get(clean_config.TRIGGER_MAX_COMMITS),
            max_commits_to_clean=options.get(clean_config.MAX_COMMITS_TO_CLEAN),
            parallelism=options.get(clean_config.PARALLELISM),
            partition_regex=options.get(clean_config.PARTITION_REGEX),
            partitions_selected=options.get(clean_config.PARTITIONS_SELECTED),
            empty_interval_hours=options.get(clean_config.EMPTY_CLEAN_INTERVAL_HOURS),
        )
        if settings.filtered and settings.incremental:
            chosen = clean_config.PARTITIONS_SELECTED if settings.partitions_selected else clean_config.PARTITION_REGEX
            raise ConfigError(
                f"Option {options.name_of(chosen)} cannot be used with incremental cleaning, which chooses the "
                f"partitions itself; set {clean_config.INCREMENTAL.key} to false, or leave the option out"
            )
        check_regex(settings.partition_regex or "", options.name_of(clean_config.PARTITION_REGEX))
        return settings

    @property
    def filtered(self) -> bool:
        """Whether only some partitions are cleaned."""
        return bool(self.partitions_selected or self.partition_regex or self.groups is not None)

    def newest_of(self, groups: frozenset[FileGroup]) -> CleanSettings:
        """Settings that keep nothing but the newest version of some file groups, and their change logs neither."""
        return replace(
            self,
            policy=KEEP_LATEST_FILE_VERSIONS,
            file_versions_retained=1,
            incremental=False,
            partition_regex=None,
            partitions_selected=(),
            groups=groups,
        )

    @property
    def by_versions(self) -> bool:
        return self.policy == KEEP_LATEST_FILE_VERSIONS


def policy_of(options: Options) -> str:
    """The policy that is set, or else the only one whose number is set (inferred as in `HoodieCleanConfig`, 1.2.0)."""
    policy = options.get(clean_config.POLICY)
    if policy is not None:
        return policy
    numbers = {
        KEEP_LATEST_COMMITS: clean_config.COMMITS_RETAINED,
        KEEP_LATEST_BY_HOURS: clean_config.HOURS_RETAINED,
        KEEP_LATEST_FILE_VERSIONS: clean_config.FILE_VERSIONS_RETAINED,
    }
    given = [policy for policy, option in numbers.items() if options.given(option)]
    return given[0] if len(given) == 1 else KEEP_LATEST_COMMITS


def earliest_to_retain(
    timeline: Timeline,
    settings: CleanSettings,
    *,
    now_ms: int,
    zone: tzinfo,
    last_earliest: str = "",
    passed_over: frozenset[Action] = frozenset({Action.LOG_COMPACTION}),
) -> Instant | None:
    """The earliest completed commit as of which the table stays readable; None: nothing is cleaned.

    By commits, it is no later than the newest commit before the oldest pending write or clustering. It is always None
    under KEEP_LATEST_FILE_VERSIONS, which does not count commits.

    Args:
        now_ms: milliseconds since the epoch.
        zone: of the table's instants.
        last_earliest: that of the last clean, from which `max_commits_to_clean` counts; empty if there was none.
        passed_over: pending actions that do not count.
    """
    completed = timeline.write_completed
    earliest: Instant | None = None
    if settings.policy == KEEP_LATEST_COMMITS and len(completed) > settings.commits_retained:
        earliest = completed[-settings.commits_retained]
        pending = oldest_pending(timeline, passed_over)
        if pending is not None and earliest.sort_key > pending.sort_key:
            before = [instant for instant in completed if instant.time < pending.time]
            earliest = before[-1] if before else None
    elif settings.policy == KEEP_LATEST_BY_HOURS:
        since = format_instant(now_ms - settings.hours_retained * _HOUR_MS, zone)
        earliest = next((instant for instant in completed if instant.time >= since), None)
    if earliest is not None and last_earliest and settings.max_commits_to_clean != _UNLIMITED:
        due = [instant for instant in completed if last_earliest <= instant.time < earliest.time]
        if len(due) > settings.max_commits_to_clean:
            earliest = due[settings.max_commits_to_clean]
    return earliest


def oldest_pending(
    timeline: Timeline, passed_over: frozenset[Action] = frozenset({Action.LOG_COMPACTION})
) -> Instant | None:
    """The oldest pending write, compaction or clustering, apart from some actions."""
    writes = (i for i in timeline.pending if i.action.comparable in WRITE_ACTIONS)
    return next((instant for instant in writes if instant.action not in passed_over), None)


def reason_not_due(timeline: Timeline, settings: CleanSettings, last: CleanMetadata | None) -> str:
    """Why no clean is due yet; empty if one is: after enough commits, or if the last one failed to delete files."""
    if last is not None and any(partition.failed for partition in last.partitions):
        return ""
    after = "" if last is None else last.last_completed
    commits = sum(1 for instant in timeline.write_completed if instant.time > after)
    if commits >= settings.trigger_max_commits:
        return ""
    since = "" if last is None else f" since the last clean, {last.start_time}"
    return (
        f"{counted(commits, 'commit')}{since}; a clean is due after {settings.trigger_max_commits} "
        f"({clean_config.TRIGGER_MAX_COMMITS.key})"
    )


def reason_nothing_retained(timeline: Timeline, settings: CleanSettings) -> str:
    """Why there is no earliest commit to retain, so nothing is cleaned."""
    count = len(timeline.write_completed)
    if settings.policy == KEEP_LATEST_BY_HOURS:
        return f"no commit in the last {counted(settings.hours_retained, 'hour')} ({clean_config.HOURS_RETAINED.key})"
    pending = oldest_pending(timeline)
    if count > settings.commits_retained and pending is not None:
        return f"the {pending.action.value} {pending.time} is pending, and there is no commit before it"
    return (
        f"the active timeline has {counted(count, 'commit')}, and {settings.commits_retained} are kept "
        f"({clean_config.COMMITS_RETAINED.key})"
    )
