"""Determines the partitions that a clean by commits or hours has to consider.

The last clean went up to its earliest commit to retain. Files that have become superfluous since were superseded by a
commit from there on, or by one that was pending then. If these commits are not known, all partitions are cleaned.
Apache Hudi's rules are in `CleanPlanner.getPartitionPathsForCleanByCommits`, 1.2.0.
"""

from __future__ import annotations

from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata
from hudi_py.model.instant import Action, Instant
from hudi_py.model.operation import ADDING
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.clean_records import CleanMetadata, decode_clean_metadata
from hudi_py.timeline.metadata import decode_rollback_metadata, read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline

FILTERED = "hudi_py.partition_filter"
"""Key in the extra metadata of a clean of chosen partitions only: the next clean cannot continue from it."""

# Inserts of these operations into new file groups supersede nothing (`WriteOperationType.isUpsert`,
# `isInsertWithoutReplace`)
_UPSERTS = ADDING | {f"{name}_PREPPED" for name in ADDING}
_PLANNED = frozenset({Action.COMPACTION.value, Action.LOG_COMPACTION.value, Action.CLUSTERING.value})


def last_clean(storage: Storage, timeline: Timeline) -> tuple[Instant, CleanMetadata] | None:
    """The completed clean with the greatest requested time; None if the active timeline has none.

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
    """Partitions with files that may have become superfluous since the last clean; None: all partitions.

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
    found = {partition.partition_path for partition in metadata.partitions if partition.failed}

    def touched(commit: Instant) -> set[str]:
        content = read_commit_metadata(state.storage, state.timeline.layout, commit, may_be_empty=True)
        return _superseding(content, commit.action, state.config)

    try:
        return found.union(*when_remote(state.storage, touched, commits))
    except FileNotFoundError:  # a commit was archived since it was listed
        return None


def _superseding(commit: CommitMetadata, action: Action, config: TableConfig) -> set[str]:
    """Partitions in which a commit may have superseded files."""
    if action is Action.COMMIT and not config.is_mor and commit.operation in _UPSERTS:
        return {stat.partition_path for stat in commit.stats if stat.prev_commit not in ("", NO_PREVIOUS_COMMIT)}
    return {stat.partition_path for stat in commit.stats} | set(commit.replaced)


def _released_files(state: TableState, last: Instant) -> bool:
    """Whether files that the last clean had to keep are no longer needed: a restore, or the rollback of a plan."""
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
