"""Savepoints: commits whose files are kept, so that the table can be restored to them (`SavepointActionExecutor`,
1.2.0)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudi_py.errors import ConfigError, HistoryCleanedError
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.model.words import counted
from hudi_py.services.archive.service import archive_commits, archived_after
from hudi_py.services.clean.slices import read_savepoint, savepoints_of
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import ServiceReport
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.clean_records import CleanMetadata, CleanPlan, decode_clean_metadata
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.plans import SavepointMetadata, encode_savepoint
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import LockedAction
from hudi_py.transaction.instants import inflight_path
from hudi_py.view import FileSystemView

Files = Mapping[str, tuple[str, ...]]
"""Partition path to names of base and log files."""

SAVEPOINT_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("instant", "user", "comment")]
    + [("created", pa.timestamp("ms", "UTC"))]
    + [(name, pa.int64()) for name in ("num_partitions", "num_files")]
)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of a table."""

    instant: InstantTime
    """Requested time of the commit that it keeps."""
    user: str
    created_ms: int
    """Milliseconds since the epoch."""
    comment: str
    files: Files
    """Partition path to names of the base and log files that it keeps."""


@dataclass(frozen=True, slots=True, repr=False)
class SavepointReport(ServiceReport):
    """The result of `create_savepoint` or `delete_savepoint`; `instant` is the commit's."""

    savepoint: InstantTime | None = None
    """Requested time of the commit that has, or had, the savepoint. It is set even if the savepoint already existed."""
    num_partitions: int = 0
    num_files: int = 0
    """Files that the savepoint keeps, or kept."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            files = f"{counted(self.num_files, 'file')} in {counted(self.num_partitions, 'partition')}"
            yield files + (" kept" if self.service == "savepoint" else " released")


def list_savepoints(context: ServiceContext) -> list[Savepoint]:
    """Lists the savepoints of the table, oldest commit first. Raises CorruptFileError if one cannot be read."""
    timeline = context.timeline()
    savepoints: list[Savepoint] = []
    for instant in savepoints_of(timeline):
        metadata = read_savepoint(context.storage, timeline, instant)
        savepoints.append(Savepoint(instant.time, metadata.user, metadata.created_ms, metadata.comment, metadata.files))
    return savepoints


def savepoint_report(context: ServiceContext) -> pa.Table:
    """Lists the savepoints of the table, oldest commit first: `SAVEPOINT_SCHEMA`."""
    rows = [
        {
            "instant": savepoint.instant,
            "user": savepoint.user,
            "comment": savepoint.comment,
            "created": savepoint.created_ms,
            "num_partitions": len(savepoint.files),
            "num_files": sum(map(len, savepoint.files.values())),
        }
        for savepoint in list_savepoints(context)
    ]
    return pa.Table.from_pylist(rows, SAVEPOINT_SCHEMA)


def create_savepoint(
    context: ServiceContext, instant: str | None = None, *, user: str = "", comment: str = ""
) -> SavepointReport:
    """Protects the files that queries as of a commit need from cleaning, and the commit from archiving.

    If the commit already has a savepoint, nothing changes and the report's `reason` explains it.

    Args:
        instant: requested time of a completed commit; None: the latest one.
        user, comment: stored with the savepoint.

    Raises:
        ConfigError: the active timeline has no such completed commit.
        ConflictError: another engine is restoring the table.
        HistoryCleanedError: files of the commit have been cleaned, or may have been.
        LockError: the table lock could not be acquired in time.
    """
    with context.locked("create a savepoint") as table:
        timeline = table.timeline
        commit = _find_commit(context, timeline, instant)
        existing = timeline.find(commit.time, Action.SAVEPOINT)
        context.progress.phase("listing files")
        if existing is not None and existing.completed:
            reason = f"the commit {commit.time} already has a savepoint"
            return SavepointReport("savepoint", None, reason=reason, savepoint=commit.time)
        _check_retained(context, timeline, commit.time)
        view = context.view(table)
        files = _files_as_of(context, view, commit.time)
        _check_not_cleaned(context, timeline, view, commit, files)
        metadata = SavepointMetadata(user, time.time_ns() // 1_000_000, comment, files)
        action = LockedAction(table, commit.time, Action.SAVEPOINT)
        action.begin()
        done = action.complete(encode_savepoint(metadata), None)
    return SavepointReport(
        "savepoint",
        commit.time,
        done.completion_time,
        savepoint=commit.time,
        num_partitions=len(files),
        num_files=sum(map(len, files.values())),
    )


def delete_savepoint(context: ServiceContext, instant: str) -> SavepointReport:
    """Deletes a savepoint, so that its files can be cleaned and archived again.

    If there is no such savepoint, nothing changes and the report's `reason` explains it. If later commits have been
    archived (`hoodie.archive.beyond.savepoint`), the savepoint's commit is archived first: otherwise it would be the
    oldest one on the active timeline, and readers would no longer see the rows of the archived commits after it, as
    happens in Apache Hudi 1.2.0.

    Raises:
        ConflictError: another engine is restoring the table.
        LockError: the table lock could not be acquired in time.
    """
    with context.locked("delete a savepoint") as state:
        timeline = state.timeline
        existing = timeline.find(instant, Action.SAVEPOINT)
        if existing is None:
            saved = _name_latest(savepoint.time for savepoint in savepoints_of(timeline))
            return SavepointReport(
                "delete_savepoint", None, reason=f"there is no savepoint of {instant}; savepoints: {saved}"
            )
        files: Files = {}
        if existing.completed:
            commits = [commit for commit in timeline.write_completed if commit.time == existing.time]
            if commits and archived_after(state, existing.time):
                archive_commits(context, state, commits)
            files = read_savepoint(context.storage, timeline, existing).files
            # The completed file first (`SavepointHelpers.deleteSavepoint`): an inflight savepoint keeps nothing
            context.storage.delete(timeline.layout.path(existing.file_name))
        context.storage.delete(inflight_path(timeline.layout, existing.time, Action.SAVEPOINT))
    return SavepointReport(
        "delete_savepoint",
        existing.time,
        savepoint=existing.time,
        num_partitions=len(files),
        num_files=sum(map(len, files.values())),
    )


def _find_commit(context: ServiceContext, timeline: Timeline, instant: str | None) -> Instant:
    commits = timeline.write_completed
    if not commits:
        raise ConfigError(
            f"Cannot create a savepoint of {context.storage.uri}: its active timeline has no completed commit; write "
            "to it first"
        )
    if instant is None:
        return commits[-1]
    for commit in commits:
        if commit.time == instant:
            return commit
    raise ConfigError(
        f"Cannot create a savepoint of {context.storage.uri} at {instant}: the active timeline has no completed commit "
        f"with this requested time; the latest commits: {_name_latest(commit.time for commit in commits)}"
    )


def _check_retained(context: ServiceContext, timeline: Timeline, commit: InstantTime) -> None:
    """Refuses a commit before the earliest one that the last clean retained, or that a pending clean will retain."""
    cleans = [instant for instant in timeline.instants if instant.action is Action.CLEAN]
    if not cleans:
        return
    clean = _deletions_of(context, timeline, cleans[-1])
    if isinstance(clean, CleanPlan):
        retained = clean.earliest.time if clean.earliest is not None else ""
    else:
        retained = clean.earliest_commit_to_retain if clean is not None else ""
    if commit < retained:
        raise HistoryCleanedError(
            f"Cannot create a savepoint of {context.storage.uri} at {commit}: the clean {cleans[-1].time} keeps files "
            f"only from {retained} on, so files that the commit needs may be gone; choose a commit from then on",
            instant=commit,
        )


def _deletions_of(context: ServiceContext, timeline: Timeline, clean: Instant) -> CleanPlan | CleanMetadata | None:
    """Reads the result of a completed clean or the plan of a pending one; None if it has none or was archived since."""
    if not clean.completed:
        return PendingPlans(context.storage, timeline).clean(clean)
    path = timeline.layout.path(clean.file_name)
    try:
        content = context.storage.read(path)
    except FileNotFoundError:
        return None
    return decode_clean_metadata(content, f"the clean {context.storage.uri}/{path}") if content else None


def _files_as_of(context: ServiceContext, view: FileSystemView, commit: InstantTime) -> Files:
    """Returns the files that a merging query as of the commit reads, including the slices of compactions pending then.

    Raises HistoryCleanedError for one that is gone.
    """

    def names(partition: PartitionPath) -> tuple[str, ...]:
        file_names: list[str] = []
        for slice_ in view.latest_slices(partition, commit):
            if slice_.base_file is not None:
                file_names.append(str(slice_.base_file.name))
            file_names += [str(log.name) for log in slice_.log_files]
        return tuple(file_names)

    partitions = view.partitions()
    try:
        listed = dict(zip(partitions, in_threads(names, partitions, context.threads), strict=True))
    except HistoryCleanedError as error:
        raise _cleaned_error(context, commit, error.path or "") from error
    return {str(partition): names for partition, names in listed.items() if names}


def _check_not_cleaned(
    context: ServiceContext, timeline: Timeline, view: FileSystemView, commit: Instant, files: Files
) -> None:
    """Refuses a commit if a later clean has deleted files of it: policies that count versions do not retain commits."""
    there = {join_path(partition, name) for partition, names in files.items() for name in names}
    metadata = read_commit_metadata(context.storage, timeline.layout, commit)
    for stat in metadata.stats:
        if stat.path and stat.path not in there and context.storage.stat(stat.path) is None:
            raise _cleaned_error(context, commit.time, stat.path)
    kept = _base_instants(files)
    for clean in _cleans_since(context, timeline, commit):
        if isinstance(clean, CleanPlan):
            planned = (
                join_path(partition, path.rpartition("/")[2])
                for partition, paths in clean.files.items()
                for path in paths
            )
            lost = next((path for path in planned if path in there), None)
        else:
            lost = next(_deleted_files(clean, view, commit.time, kept), None)
        if lost is not None:
            raise _cleaned_error(context, commit.time, lost)


def _base_instants(files: Files) -> dict[tuple[str, str], str]:
    """Returns the base instant of each file group among some files; for groups without a base file, that of a log."""
    instants: dict[tuple[str, str], str] = {}
    for partition, names in files.items():
        for log in filter(None, map(parse_log_file_name, names)):
            instants.setdefault((partition, log.file_id), log.instant)
        for base in filter(None, map(parse_base_file_name, names)):
            instants[partition, base.file_id] = base.instant
    return instants


def _deleted_files(
    clean: CleanMetadata, view: FileSystemView, time: str, kept: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """Yields the paths of deleted files that were visible at a time and are newer than what is left of their file
    groups."""
    for part in clean.partitions:
        for name in part.deleted:
            file = parse_base_file_name(name) or parse_log_file_name(name)
            if file is None or file.instant > time:
                continue
            group = (part.partition_path, file.file_id)
            replaced_at = view.replaced.get(group)
            visible = replaced_at is None or replaced_at > time
            if visible and kept.get(group, "") < file.instant:
                yield join_path(part.partition_path, name)


def _cleans_since(context: ServiceContext, timeline: Timeline, commit: Instant) -> Iterator[CleanPlan | CleanMetadata]:
    """Yields the deletions of the cleans after a commit, and those planned by pending ones."""
    for clean in timeline.instants:
        if clean.action is Action.CLEAN and not (clean.completed and clean.time < commit.time):
            deletions = _deletions_of(context, timeline, clean)
            if deletions is not None:
                yield deletions
    if timeline.layout.has_completion_times:
        return
    # Layout 1 archives cleans by their own count, regardless of the commits before them
    for entry in archived_instants(
        context.storage,
        context.config(),
        ArchiveQuery(since=commit.time, chosen=lambda instant: instant.action is Action.CLEAN, metadata=True),
    ):
        if entry.metadata:
            yield decode_clean_metadata(entry.metadata, f"the archived clean {entry.time} of {context.storage.uri}")


def _cleaned_error(context: ServiceContext, commit: InstantTime, path: str) -> HistoryCleanedError:
    return HistoryCleanedError(
        f"Cannot create a savepoint of {context.storage.uri} at {commit}: its file {path} has been cleaned or is about "
        "to be; choose a later commit",
        path=path,
        instant=commit,
    )


def _name_latest(times: Iterable[str]) -> str:
    return ", ".join(sorted(times, reverse=True)[:5]) or "none"
