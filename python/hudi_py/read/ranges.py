"""Incremental queries: the commits of a range, and the rows that they wrote, as of the end of the range.

Rules of `IncrementalRelationV1`, `MergeOnReadIncrementalRelationV1` and `V2`, 1.2.0: commit metadata names the files;
the newest slice of these files is read for each file group, keeping rows whose `_hoodie_commit_time` is the requested
time of a commit in the range.

If a time or range probably contains less than was meant, the scan gets a note. Apache Hudi answers such scans silently.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, tzinfo

from hudi_py.config import Options, incremental
from hudi_py.config.incremental import FALLBACK, PATH_GLOB
from hudi_py.errors import ConfigError, HistoryCleanedError, UnsupportedTableError
from hudi_py.formats.log import read_blocks
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.instant import CommitTimes, CompletionTime, InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.model.properties import TableConfig
from hudi_py.read.planning.plan import ScanPlan, plan_scan
from hudi_py.read.request import Moment, ScanRequest
from hudi_py.read.snapshot import Snapshot, earliest_retained
from hudi_py.read.split import Split
from hudi_py.read.support import check_slices
from hudi_py.schema.patterns import glob_regex, matching
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.commits import Commit, InstantRange, first_hole, pin_at, read_commits
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.timeline.times import format_instant, parse_instant, table_zone
from hudi_py.view import FileSystemView, Lister, load_view

EARLIEST = "earliest"
BEFORE_ALL = "000"
"""Before every instant."""
_log = logging.getLogger(__name__)
_LIST_FROM = 8
"""Number of files of a folder from which on listing it is assumed to be cheaper than one stat per file."""


def time_of(value: Moment, state: TableState, *, by_completion: bool) -> str | int | date:
    """Converts a commit to its completion time. Returns other values unchanged.

    Raises:
        ConfigError: nothing was committed, or the completion time is unknown.
        CorruptFileError: the archive, which is read if the active timeline lacks the commit, is damaged.
    """
    if not isinstance(value, CommitTimes):
        return value
    if value.instant is None:
        raise ConfigError(f"Cannot take {value!r} as a point in time: it committed nothing; take an earlier result")
    if not by_completion:
        return value.instant
    time = value.completion_time or _completion_time(state, value.instant)
    if time is None:
        raise ConfigError(
            f"Cannot take the commit {value.instant} as a point in time: its completion time is unknown, as neither "
            "the active timeline nor the archive has it; give a time"
        )
    return time


def _completion_time(state: TableState, instant: InstantTime) -> CompletionTime | None:
    for active in state.timeline.completed:
        if active.time == instant:
            return active.completion_time
    archived = archived_instants(state.storage, state.config, ArchiveQuery(since=instant, until=instant))
    return next((write.completion_time for write in archived if write.time == instant), None)


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits of a range query."""

    commits: tuple[Commit, ...]
    """Oldest first, including compactions and clusterings."""
    end: Pin | None
    """The part of the timeline that is visible at the end of the range; None: all of it."""
    reachable_only: bool
    """Whether the oldest commits are left out if their files were cleaned, instead of an error (`earliest`)."""
    by_completion: bool = False
    """Whether the bounds are completion times; else they are requested times."""
    text: str = ""
    """The range for `explain`."""


def resolve_range(snapshot: Snapshot, request: ScanRequest) -> CommitRange:
    """Resolves the commits between two times (`IncrementalQueryAnalyzer`, `IncrementalRelationV1`, 1.2.0).

    The begin is exclusive: a completion time since table version 8, a requested time before; `earliest`: the first
    instant that can be read; None: only the last commit of the range. The end is inclusive, on the same axis; None: the
    newest. A bound may be a commit, so that a range continues after it.

    Raises:
        ConfigError: a time is not valid; or, before table version 8, a write is pending that was requested before
            completed ones, and the options declare that an error.
        UnsupportedTableError: the table does not store the commit of a row.
    """
    storage, config, timeline, options = snapshot.storage, snapshot.config, snapshot.timeline, request.options
    if not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"Table at {storage.uri} has hoodie.populate.meta.fields=false: incremental queries are not supported "
            "without the meta fields, which record the commit of a row; read its snapshot"
        )
    _check_version(config, options, storage.uri)
    zone = table_zone(config)
    policy = options.get(incremental.HOLLOW_COMMITS)
    by_transition = not timeline.layout.has_completion_times and policy == "USE_TRANSITION_TIME"
    by_completion = timeline.layout.has_completion_times or by_transition
    first, last = (
        None if bound is None else _bound_instant(time_of(bound, snapshot, by_completion=by_completion), zone)
        for bound in (request.begin, request.end)
    )
    if last == EARLIEST:
        raise ConfigError("Cannot end an incremental query at 'earliest'; give a time, or none for the newest commit")
    earliest = first == EARLIEST
    if not by_completion:
        last = _before_hole(storage, timeline, policy, last)
    if first is None:
        commits = _last_commit(snapshot, last, transition_times=by_transition)
    else:
        commits = read_commits(
            snapshot,
            InstantRange(None if earliest else first, last),
            skip_compaction=False,
            skip_clustering=False,
            transition_times=by_transition,
        )
    return CommitRange(
        tuple(commits),
        None if last is None else pin_at(timeline, last, transition_times=by_transition),
        earliest,
        by_completion,
        f"after {first or 'the commit before the last'} up to {last or 'the newest commit'}",
    )


@dataclass(frozen=True, slots=True)
class CommitLister(Lister):
    """Lists the files in commit metadata, with the sizes recorded there, whether or not they still exist.

    Source: `HoodieInputFormatUtils.listAffectedFilesForCommits`, 1.2.0.
    """

    found: Mapping[PartitionPath, Mapping[str, int]]
    """Maps partitions to file names with sizes."""

    @property
    def is_storage(self) -> bool:
        return False

    @classmethod
    def of(cls, commits: Iterable[Commit]) -> CommitLister:
        result: dict[PartitionPath, dict[str, int]] = defaultdict(dict)
        for commit in commits:
            for stat in commit.metadata.stats:
                if stat.path:
                    result[PartitionPath(stat.partition_path)][stat.path.rpartition("/")[2]] = stat.file_size
        return cls(result)

    def partitions(self) -> list[PartitionPath]:
        return sorted(self.found)

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        names = self.found.get(partition, {})
        return [FileInfo(join_path(partition, name), max(size, 0), 0) for name, size in sorted(names.items())]


def plan_incremental(
    snapshot: Snapshot,
    span: CommitRange,
    request: ScanRequest,
    *,
    rows_of: Collection[str] | None = None,
    fallback: bool = False,
) -> ScanPlan:
    """Plans the file slices that hold the rows of commits, as of the end of a range.

    Args:
        snapshot: the table's newest state, whose schema the rows have.
        rows_of: requested times of the commits whose rows are returned; None: all.
        fallback: read the newest state of the table instead if commits were archived or one of their files was cleaned.

    Raises:
        HistoryCleanedError: needed files were cleaned, and `fallback` is False.
        UnsupportedTableError: a slice cannot be read by this release.
    """
    commits: Sequence[Commit] = span.commits
    times = frozenset(commit.time for commit in commits) if rows_of is None else frozenset(rows_of)

    def plan_of(seen: Snapshot, view: FileSystemView | None) -> ScanPlan:
        # Apache Hudi 1.2.0 shows escaped partition values in ranges, unlike in snapshots; in the fallback too
        return plan_scan(seen, request, view=view, escaped=True)

    def finish(plan: ScanPlan) -> ScanPlan:
        spec = replace(plan.spec, commit_times=times)
        pattern = request.options.get(PATH_GLOB)
        splits = plan.splits if pattern is None else _matching_splits(snapshot, plan.splits, pattern)
        return replace(plan, spec=spec, splits=tuple(replace(split, spec=spec) for split in splits))

    # Apache Hudi's rule, even if the result needs none of these files
    if fallback and (any(commit.archived for commit in commits) or _lacks_files(snapshot.storage, commits)):
        _log.warning(
            "Commits or files of the range are gone from %s: reading its newest state instead, without rows that "
            "changed again after the range; %s=false makes this an error",
            snapshot.storage.uri,
            FALLBACK.key,
        )
        return finish(plan_of(snapshot, None))
    then = snapshot if span.end is None else replace(snapshot, timeline=snapshot.timeline.at(span.end))
    while True:
        view = load_view(then, CommitLister.of(commits))
        view.replaced = {**_replaced_groups(commits), **view.replaced}
        plan = plan_of(then, view)
        sizes = _existing_sizes(snapshot.storage, {path for split in plan.splits for path in _split_paths(split)})
        missing = {(split.partition, split.file_id) for split in plan.splits if not _split_paths(split) <= sizes.keys()}
        if not missing:
            splits = [_with_sizes(split, sizes) for split in plan.splits]
            return finish(replace(plan, splits=tuple(_with_bases(then, splits, request))))
        readable = first_readable(commits, missing)
        if not span.reachable_only:
            raise cleaned_range(snapshot, commits, readable)
        commits = _commits_from(commits, readable)
        times = times & {commit.time for commit in commits}


def note_on_time(snapshot: Snapshot, *, has_files: bool) -> str | None:
    """Returns a note on a time before the first commit or in the future.

    Args:
        has_files: whether the scan reads any file.
    """
    as_of, timeline = snapshot.as_of, snapshot.timeline
    if as_of is None:
        return None
    times = [instant.time for instant in timeline.write_completed]
    if not times:
        return None if has_files else f"as of {as_of} there are no rows: the table has no commits"
    first, last = min(times), max(times)
    if as_of < first and not has_files:
        return f"as of {as_of} there are no rows: the oldest active commit is {first} (a day means its midnight)"
    now = format_instant(wall_clock_ms(), table_zone(snapshot.config))
    if as_of > max(last, now):
        return f"{as_of} is in the future: the rows are those of now, {now}, which later commits will change"
    return None


def note_on_range(snapshot: Snapshot, request: ScanRequest, text: str, *, by_completion: bool) -> str | None:
    """Returns a note on a range without commits, unless it continues after a commit: then there is simply nothing new.

    Args:
        text: describes the range.
        by_completion: whether its bounds are completion times.
    """
    writes = snapshot.timeline.write_completed
    times = [(instant.completion_time or instant.time) if by_completion else instant.time for instant in writes]
    if isinstance(request.begin, CommitTimes) or request.begin in times:
        return None
    if not times:
        return f"the range ({text}) is empty: the table has no commits"
    kind = "completion" if by_completion else "requested"
    return f"the range ({text}) has no commits: it goes by {kind} times, and the newest commit's is {max(times)}"


def first_readable(commits: Sequence[Commit], missing: Collection[FileGroup]) -> Commit | None:
    """Returns the first commit after the last one that touched a missing file group; None if there is none."""
    readable: Commit | None = None
    for commit in reversed(commits):
        if not commit.metadata.written_groups.isdisjoint(missing):
            break
        readable = commit
    return readable


def cleaned_range(snapshot: Snapshot, commits: Sequence[Commit], readable: Commit | None) -> HistoryCleanedError:
    """Returns the error for a range that needs cleaned files; `readable` is its first commit that does not."""
    first, last = commits[0].completion_time, commits[-1].completion_time
    if readable is not None:
        hint = f"the earliest commit that can be read up to this end is {readable.completion_time}; begin before it"
    else:
        earliest = earliest_retained(snapshot)
        completed = next((i.completion_time for i in snapshot.timeline.completed if i.time == earliest), None)
        by_requested = not snapshot.timeline.layout.has_completion_times
        shown = earliest if by_requested or completed is None else completed
        hint = f"the earliest instant that can be read is {shown}; end later"
    return HistoryCleanedError(
        f"Table at {snapshot.storage.uri} cannot be read incrementally from {first} to {last}: files that the range "
        f"needs were cleaned; {hint}, or omit the end"
    )


def _bound_instant(value: str | int | date, zone: tzinfo) -> str:
    """Formats a bound as an instant; zeros mean the start of the table."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() == EARLIEST:
            return EARLIEST
        if text and not text.strip("0"):
            return text
    return parse_instant(value, zone)


def _before_hole(storage: Storage, timeline: Timeline, policy: str, last: str | None) -> str | None:
    """Returns the end of a range of requested times, which must not extend beyond a pending write."""
    hole = first_hole(storage, timeline)
    if hole is None or not any(instant.time > hole.time for instant in timeline.write_completed):
        return last
    if policy == "FAIL":
        raise ConfigError(
            f"Cannot read the table at {storage.uri} incrementally: {hole.action.value} {hole.time} is pending, and "
            f"later ones have completed; {incremental.HOLLOW_COMMITS.key}=BLOCK stops before it, "
            "USE_TRANSITION_TIME ranges by completion times"
        )
    before = max((i.time for i in timeline.write_completed if i.time < hole.time), default=BEFORE_ALL)
    return before if last is None else min(last, before)


def _last_commit(state: TableState, last: str | None, *, transition_times: bool) -> list[Commit]:
    """Returns the last commit up to a time that is not a table service, if there is one."""
    by_requested = not state.timeline.layout.has_completion_times and not transition_times
    times = sorted(i.time if by_requested else i.completion_time or i.time for i in state.timeline.write_completed)
    within = [time for time in times if last is None or time <= last]
    reach = 4
    while True:
        begin = within[-reach - 1] if len(within) > reach else None
        span = InstantRange(begin, last)
        commits = read_commits(state, span, transition_times=transition_times)
        if commits or begin is None:
            return commits[-1:]
        reach *= 8


def _check_version(config: TableConfig, options: Options, uri: str) -> None:
    meant = options.get(incremental.TABLE_VERSION)
    if meant and (meant >= 8) != config.has_completion_times:
        raise ConfigError(
            f"Option {options.name_of(incremental.TABLE_VERSION)} = '{meant}' does not match the table at {uri} of "
            f"version {config.version}: ranges use completion times since version 8, and requested times "
            "before; omit the option"
        )


def _commits_from(commits: Sequence[Commit], first: Commit | None) -> list[Commit]:
    """Returns the commits from `first` on; none if there is no such commit."""
    return [] if first is None else [commit for commit in commits if commit.sort_key >= first.sort_key]


def _replaced_groups(commits: Iterable[Commit]) -> dict[FileGroup, InstantTime]:
    return {group: commit.time for commit in commits for group in commit.metadata.replaced_groups}


def _split_paths(split: Split) -> set[str]:
    files: list[BaseFile | LogFile] = [*split.log_files] + ([split.base_file] if split.base_file else [])
    return {file.path for file in files}


def _lacks_files(storage: Storage, commits: Sequence[Commit]) -> bool:
    paths = {stat.path for commit in commits for stat in commit.metadata.stats if stat.path}
    return not paths <= _existing_sizes(storage, paths).keys()


def _existing_sizes(storage: Storage, paths: Collection[str]) -> dict[str, int]:
    """Maps paths to sizes of the files that exist. Folders with many of the paths are listed."""
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folders[path.rpartition("/")[0]].add(path)

    def look(folder: str) -> list[FileInfo | None]:
        wanted = folders[folder]
        return [*storage.list(folder)] if len(wanted) >= _LIST_FROM else [storage.stat(path) for path in sorted(wanted)]

    sizes = when_remote(storage, look, sorted(folders))
    infos = [info for infos in sizes for info in infos if info is not None and not info.is_dir]
    return {info.path: info.size for info in infos if info.path in folders[info.path.rpartition("/")[0]]}


def _with_sizes(split: Split, sizes: Mapping[str, int]) -> Split:
    """Returns the split with the files' actual sizes. Logs of table version 6 grow with every commit; a log shorter
    than recorded keeps the recorded size, so that reading it fails."""
    base = split.base_file
    return replace(
        split,
        base_file=None if base is None else replace(base, size=sizes[base.path]),
        log_files=tuple(replace(log, size=max(log.size, sizes[log.path])) for log in split.log_files),
    )


def _with_bases(snapshot: Snapshot, splits: Sequence[Split], request: ScanRequest) -> list[Split]:
    """Adds the base file from before the range to splits with partial updates in their logs but no base file.

    Apache Hudi merges the logs of a range alone, so its rows lack the columns that a partial update does not set.
    """
    if not snapshot.config.has_extended_log_blocks:
        return list(splits)
    storage = snapshot.storage

    def is_partial(split: Split) -> bool:
        logs = split.log_files if split.base_file is None else ()
        return any(block.is_partial for log in logs for block in read_blocks(storage, log.path, log.size))

    partial = when_remote(storage, is_partial, splits)
    if not any(partial):
        return list(splits)
    view = snapshot.view(by_metadata=False)
    result: list[Split] = []
    for split, needs_base in zip(splits, partial, strict=True):
        for slice_ in view.latest_slices(split.partition) if needs_base else ():
            if slice_.file_id == split.file_id:
                check_slices(snapshot.config, [slice_], storage.uri, request.bootstrap_sources)
                split = replace(split, base_file=slice_.base_file, log_files=slice_.log_files)
        result.append(split)
    return result


def _matching_splits(snapshot: Snapshot, splits: Sequence[Split], pattern: str) -> list[Split]:
    """Returns the splits whose base file, or else newest log, has a path that ends with the pattern."""
    files = [split.base_file if split.base_file is not None else split.log_files[-1] for split in splits]
    paths = [f"{snapshot.storage.uri}/{file.path}" for file in files]
    key = PATH_GLOB.key
    result = set(matching(glob_regex("*" + pattern, key), paths, key, whole=True))
    return [split for split, path in zip(splits, paths, strict=True) if path in result]
