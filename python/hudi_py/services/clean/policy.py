"""Cleaning rules: policies, the earliest commit to retain, when a clean is due, and the partitions that have changed.

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
from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.operation import ADDING
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.schema.patterns import check_regex
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.clean_records import CleanMetadata, decode_clean_metadata
from hudi_py.timeline.metadata import decode_rollback_metadata, read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import format_instant

_HOUR_MS = 3_600_000
COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})


def check_cleaning(options: Options) -> None:
    """Raises ConfigError as `check_clean` does, or for an invalid regular expression."""
    check_clean(options)
    pattern = options.get(config.CLEAN_PARTITION_REGEX)
    if pattern:
        check_regex(pattern, options.name_of(config.CLEAN_PARTITION_REGEX))


def newest_versions_only(options: Options) -> Options:
    """Returns the options of a clean that keeps nothing but the newest version of each file group."""
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
    """Returns the earliest completed commit as of which the table stays readable; None: nothing is cleaned.

    By commits, it is no later than the newest commit before the oldest pending write or clustering. It is always None
    under KEEP_LATEST_FILE_VERSIONS, which does not count commits.

    Args:
        now_ms: milliseconds since the epoch.
        zone: time zone of the table's instants.
        last_earliest: result of the last clean, from which `hoodie.clean.max.commits.to.clean` counts; empty if there
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
    """Returns the oldest pending write, compaction or clustering, apart from some actions."""
    writes = (i for i in timeline.pending if i.action.comparable in WRITE_ACTIONS)
    return next((instant for instant in writes if instant.action not in passed_over), None)


def reason_not_due(timeline: Timeline, options: Options, last: CleanMetadata | None) -> str:
    """Returns why no clean is due yet; empty if one is: after enough commits, or if the last one failed to delete
    files."""
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
    """Returns why there is no earliest commit to retain, so that nothing is cleaned."""
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


FILTERED = "hudi_py.partition_filter"
"""Key in the extra metadata of a clean of chosen partitions only: the next clean cannot continue from it."""

# Inserts of these operations into new file groups supersede nothing (`WriteOperationType.isUpsert`,
# `isInsertWithoutReplace`)
_UPSERTS = ADDING | {f"{name}_PREPPED" for name in ADDING}
_PLANNED = frozenset({Action.COMPACTION.value, Action.LOG_COMPACTION.value, Action.CLUSTERING.value})


def last_clean(storage: Storage, timeline: Timeline) -> tuple[Instant, CleanMetadata] | None:
    """Finds the completed clean with the greatest requested time; None if the active timeline has none.

    Cleans with an empty file, left by a crash on a storage that does not write files atomically, are skipped.
    """
    for instant in reversed(timeline.completed):
        if instant.action is Action.CLEAN:
            path = timeline.layout.path(instant.file_name)
            try:
                content = storage.read(path)
            except FileNotFoundError:  # archived since it was listed
                continue
            if content:
                return instant, decode_clean_metadata(content, f"the clean {storage.uri}/{path}")
    return None


def changed_partitions(
    state: TableState,
    last: tuple[Instant, CleanMetadata] | None,
    earliest: Instant,
    savepoints: tuple[str, ...],
) -> set[str] | None:
    """Returns the partitions with files that may have become superfluous since the last clean; None: all partitions.

    Apache Hudi considers only the requested times of commits. hudi-py also counts commits that completed after the last
    clean was planned, whatever their requested time, and partitions in which the last clean failed to delete a file.

    Args:
        earliest: the earliest commit to retain now.
        savepoints: times of the existing savepoints.
    """
    if last is None or not state.config.partition_fields:
        return None
    instant, metadata = last
    since = metadata.earliest_commit_to_retain
    if not since or (state.timeline.start is not None and since < state.timeline.start):
        return None
    if metadata.savepoints - set(savepoints) or FILTERED in metadata.extra:
        return None
    if _released_files(state, instant):
        return None
    commits = [
        commit
        for commit in state.timeline.write_completed
        if commit.time < earliest.time and (commit.time >= since or (commit.completion_time or "") > instant.time)
    ]
    partitions = {partition.partition_path for partition in metadata.partitions if partition.failed}

    def touched(commit: Instant) -> set[str]:
        content = read_commit_metadata(state.storage, state.timeline.layout, commit, may_be_empty=True)
        return _superseded_partitions(content, commit.action, state.config)

    try:
        return partitions.union(*when_remote(state.storage, touched, commits))
    except FileNotFoundError:  # a commit was archived since it was listed
        return None


def _superseded_partitions(commit: CommitMetadata, action: Action, config: TableConfig) -> set[str]:
    """Returns the partitions in which a commit may have superseded files."""
    if action is Action.COMMIT and not config.is_mor and commit.operation in _UPSERTS:
        return {stat.partition_path for stat in commit.stats if stat.prev_commit not in ("", NO_PREVIOUS_COMMIT)}
    return {stat.partition_path for stat in commit.stats} | set(commit.replaced)


def _released_files(state: TableState, last: Instant) -> bool:
    """Returns whether files that the last clean had to keep are no longer needed: a restore, or the rollback of a
    plan."""
    for instant in state.timeline.completed:
        if instant.action not in (Action.ROLLBACK, Action.RESTORE) or (instant.completion_time or "") <= last.time:
            continue
        if instant.action is Action.RESTORE:
            return True
        path = state.timeline.layout.path(instant.file_name)
        try:
            content = state.storage.read(path)
        except FileNotFoundError:
            return True
        if content and decode_rollback_metadata(content, f"the rollback {state.storage.uri}/{path}").action in _PLANNED:
            return True
    return False
