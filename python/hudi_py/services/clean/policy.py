"""Cleaning rules: policies, the earliest commit to retain, and when a clean is due.

Source: `CleanerUtils.getEarliestCommitToRetain` and `CleanPlanActionExecutor.needsCleaning`, 1.2.0.
"""

from __future__ import annotations

from datetime import tzinfo

from hudi_py.config import Options
from hudi_py.config import services as config
from hudi_py.config.services import (
    KEEP_LATEST_BY_HOURS,
    KEEP_LATEST_COMMITS,
    KEEP_LATEST_FILE_VERSIONS,
    check_clean,
    cleaning_policy,
)
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.words import counted
from hudi_py.schema.patterns import check_regex
from hudi_py.timeline.clean_records import CleanMetadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import format_instant

_HOUR_MS = 3_600_000
COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})


def check_cleaning(options: Options) -> None:
    """Raises ConfigError as `check_clean`, or for a pattern that is not a valid regular expression."""
    check_clean(options)
    pattern = options.get(config.CLEAN_PARTITION_REGEX)
    if pattern:
        check_regex(pattern, options.name_of(config.CLEAN_PARTITION_REGEX))


def newest_versions_only(options: Options) -> Options:
    """The options of a clean that keeps nothing but the newest version of each file group."""
    kept = {
        config.CLEAN_POLICY: KEEP_LATEST_FILE_VERSIONS,
        config.CLEAN_FILE_VERSIONS_RETAINED: "1",
        config.CLEAN_INCREMENTAL: "false",
    }
    return options.without(config.CLEAN_PARTITION_REGEX, config.CLEAN_PARTITIONS_SELECTED).replace(kept)


def earliest_to_retain(
    timeline: Timeline,
    options: Options,
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
        last_earliest: that of the last clean, from which `hoodie.clean.max.commits.to.clean` counts; empty if there
            was none.
        passed_over: pending actions that do not count.
    """
    completed = timeline.write_completed
    earliest: Instant | None = None
    policy, commits = cleaning_policy(options), options.get(config.CLEAN_COMMITS_RETAINED)
    if policy == KEEP_LATEST_COMMITS and len(completed) > commits:
        earliest = completed[-commits]
        pending = oldest_pending(timeline, passed_over)
        if pending is not None and earliest.sort_key > pending.sort_key:
            before = [instant for instant in completed if instant.time < pending.time]
            earliest = before[-1] if before else None
    elif policy == KEEP_LATEST_BY_HOURS:
        since = format_instant(now_ms - options.get(config.CLEAN_HOURS_RETAINED) * _HOUR_MS, zone)
        earliest = next((instant for instant in completed if instant.time >= since), None)
    if earliest is not None and last_earliest and options.given(config.MAX_COMMITS_TO_CLEAN):
        most = options.get(config.MAX_COMMITS_TO_CLEAN)
        due = [instant for instant in completed if last_earliest <= instant.time < earliest.time]
        if len(due) > most:
            earliest = due[most]
    return earliest


def oldest_pending(
    timeline: Timeline, passed_over: frozenset[Action] = frozenset({Action.LOG_COMPACTION})
) -> Instant | None:
    """The oldest pending write, compaction or clustering, apart from some actions."""
    writes = (i for i in timeline.pending if i.action.comparable in WRITE_ACTIONS)
    return next((instant for instant in writes if instant.action not in passed_over), None)


def reason_not_due(timeline: Timeline, options: Options, last: CleanMetadata | None) -> str:
    """Why no clean is due yet; empty if one is: after enough commits, or if the last one failed to delete files."""
    if last is not None and any(partition.failed for partition in last.partitions):
        return ""
    after = "" if last is None else last.last_completed
    commits = sum(1 for instant in timeline.write_completed if instant.time > after)
    needed = options.get(config.CLEAN_TRIGGER_MAX_COMMITS)
    if commits >= needed:
        return ""
    since = "" if last is None else f" since the last clean, {last.start_time}"
    return (
        f"{counted(commits, 'commit')}{since}; a clean is due after {needed} ({config.CLEAN_TRIGGER_MAX_COMMITS.key})"
    )


def reason_nothing_retained(timeline: Timeline, options: Options) -> str:
    """Why there is no earliest commit to retain, so nothing is cleaned."""
    count = len(timeline.write_completed)
    if cleaning_policy(options) == KEEP_LATEST_BY_HOURS:
        hours = counted(options.get(config.CLEAN_HOURS_RETAINED), "hour")
        return f"no commit in the last {hours} ({config.CLEAN_HOURS_RETAINED.key})"
    pending = oldest_pending(timeline)
    retained = options.get(config.CLEAN_COMMITS_RETAINED)
    if count > retained and pending is not None:
        return f"the {pending.action.value} {pending.time} is pending, and there is no commit before it"
    return (
        f"the active timeline has {counted(count, 'commit')}, and {retained} are kept "
        f"({config.CLEAN_COMMITS_RETAINED.key})"
    )
