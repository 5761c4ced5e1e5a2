"""Incremental queries: the rows that the commits of a range wrote, as of the end of the range.

Rules of `IncrementalRelationV1`, `MergeOnReadIncrementalRelationV1` and `V2`, 1.2.0 (format reference 12.1): commit
metadata names the files; of each file group the newest slice of these files is read, keeping rows whose
`_hoodie_commit_time` is the requested time of a commit in the range.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_py.config.incremental import FALLBACK, PATH_GLOB
from hudi_py.errors import HistoryCleanedError
from hudi_py.formats.log import read_blocks
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.instant import InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.read.plan import ScanPlan, plan_scan
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot, earliest_retained
from hudi_py.read.split import Split
from hudi_py.read.support import check_slices
from hudi_py.schema.patterns import glob_regex, matching
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.commits import Commit
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.timeline import Pin
from hudi_py.view import FileSystemView, Lister, load_view

_log = logging.getLogger(__name__)

_LIST_FROM = 8
"""From this many files of a folder on, listing it is assumed to be cheaper than one stat per file."""


@dataclass(frozen=True, slots=True)
class CommitLister(Lister):
    """Lists the files in commit metadata, with the sizes recorded there, whether they still exist or not.

    Source: `HoodieInputFormatUtils.listAffectedFilesForCommits`, 1.2.0.
    """

    found: Mapping[PartitionPath, Mapping[str, int]]
    """Partition to file names with sizes."""

    @property
    def is_storage(self) -> bool:
        return False

    @classmethod
    def of(cls, commits: Iterable[Commit]) -> CommitLister:
        found: dict[PartitionPath, dict[str, int]] = defaultdict(dict)
        for commit in commits:
            for stat in commit.metadata.stats:
                if stat.path:
                    found[PartitionPath(stat.partition_path)][stat.path.rpartition("/")[2]] = stat.file_size
        return cls(found)

    def partitions(self) -> list[PartitionPath]:
        return sorted(self.found)

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        names = self.found.get(partition, {})
        return [FileInfo(join_path(partition, name), max(size, 0), 0) for name, size in sorted(names.items())]


def plan_incremental(
    snapshot: Snapshot,
    commits: Sequence[Commit],
    request: ScanRequest,
    *,
    end: Pin | None = None,
    rows_of: Collection[str] | None = None,
    fallback: bool = False,
    reachable_only: bool = False,
) -> ScanPlan:
    """The file slices that hold the rows of commits, as of the end of a range.

    Args:
        snapshot: the table's newest state, whose schema the rows have.
        commits: every commit of the range, including compactions and clusterings, which move rows between files.
        end: the part of the timeline that is visible at the end of the range; None: all of it.
        rows_of: requested times of the commits whose rows are returned; None: all.
        fallback: read the newest state of the table instead if commits were archived or one of their files was cleaned.
        reachable_only: leave out the oldest commits if their files were cleaned, instead of an error (`earliest`).

    Raises:
        HistoryCleanedError: needed files were cleaned, and `fallback` is False.
        UnsupportedTableError: a slice cannot be read by this release.
    """
    times = frozenset(commit.time for commit in commits) if rows_of is None else frozenset(rows_of)

    def plan_of(seen: Snapshot, view: FileSystemView | None) -> ScanPlan:
        # Apache Hudi 1.2.0 shows escaped partition values in ranges, unlike in snapshots; in the fallback too
        return plan_scan(seen, request, view=view, escaped=True)

    def finish(plan: ScanPlan) -> ScanPlan:
        spec = replace(plan.spec, commit_times=times)
        pattern = request.options.get(PATH_GLOB)
        splits = plan.splits if pattern is None else _matching(snapshot, plan.splits, pattern)
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
    then = snapshot if end is None else replace(snapshot, timeline=snapshot.timeline.at(end))
    while True:
        view = load_view(then, CommitLister.of(commits))
        view.replaced = {**_replaced(commits), **view.replaced}
        plan = plan_of(then, view)
        sizes = _sizes(snapshot.storage, {path for split in plan.splits for path in _paths(split)})
        missing = {(split.partition, split.file_id) for split in plan.splits if not _paths(split) <= sizes.keys()}
        if not missing:
            splits = [_with_sizes(split, sizes) for split in plan.splits]
            return finish(replace(plan, splits=tuple(_with_bases(then, splits, request))))
        readable = first_readable(commits, missing)
        if not reachable_only:
            raise cleaned_range(snapshot, commits, readable)
        commits = _from(commits, readable)
        times = times & {commit.time for commit in commits}


def _from(commits: Sequence[Commit], first: Commit | None) -> list[Commit]:
    """The commits from `first` on; none if there is no such."""
    return [] if first is None else [commit for commit in commits if commit.sort_key >= first.sort_key]


def first_readable(commits: Sequence[Commit], missing: Collection[FileGroup]) -> Commit | None:
    """The first commit after the last one that touched a missing file group; None if there is none."""
    readable: Commit | None = None
    for commit in reversed(commits):
        if not commit.metadata.written_groups.isdisjoint(missing):
            break
        readable = commit
    return readable


def cleaned_range(snapshot: Snapshot, commits: Sequence[Commit], readable: Commit | None) -> HistoryCleanedError:
    """The error for a range that needs cleaned files; `readable` is its first commit that does not."""
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


def _replaced(commits: Iterable[Commit]) -> dict[FileGroup, InstantTime]:
    return {group: commit.time for commit in commits for group in commit.metadata.replaced_groups}


def _paths(split: Split) -> set[str]:
    files: list[BaseFile | LogFile] = [*split.log_files] + ([split.base_file] if split.base_file else [])
    return {file.path for file in files}


def _lacks_files(storage: Storage, commits: Sequence[Commit]) -> bool:
    paths = {stat.path for commit in commits for stat in commit.metadata.stats if stat.path}
    return not paths <= _sizes(storage, paths).keys()


def _sizes(storage: Storage, paths: Collection[str]) -> dict[str, int]:
    """Path to size of the files that exist. Folders with many of the paths are listed."""
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folders[path.rpartition("/")[0]].add(path)

    def look(folder: str) -> list[FileInfo | None]:
        wanted = folders[folder]
        return [*storage.list(folder)] if len(wanted) >= _LIST_FROM else [storage.stat(path) for path in sorted(wanted)]

    found = when_remote(storage, look, sorted(folders))
    infos = [info for infos in found for info in infos if info is not None and not info.is_dir]
    return {info.path: info.size for info in infos if info.path in folders[info.path.rpartition("/")[0]]}


def _with_sizes(split: Split, sizes: Mapping[str, int]) -> Split:
    """The split with the files' actual sizes. Logs of table version 6 grow with every commit; a log that is shorter
    than recorded keeps the recorded size, so that reading it fails."""
    base = split.base_file
    return replace(
        split,
        base_file=None if base is None else replace(base, size=sizes[base.path]),
        log_files=tuple(replace(log, size=max(log.size, sizes[log.path])) for log in split.log_files),
    )


def _with_bases(snapshot: Snapshot, splits: Sequence[Split], request: ScanRequest) -> list[Split]:
    """The splits; those with partial updates in their logs but no base file get the base file from before the range.

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


def _matching(snapshot: Snapshot, splits: Sequence[Split], pattern: str) -> list[Split]:
    """The splits whose base file, or else newest log, has a path that ends with the pattern."""
    files = [split.base_file if split.base_file is not None else split.log_files[-1] for split in splits]
    paths = [f"{snapshot.storage.uri}/{file.path}" for file in files]
    key = PATH_GLOB.key
    found = set(matching(glob_regex("*" + pattern, key), paths, key, whole=True))
    return [split for split, path in zip(splits, paths, strict=True) if path in found]
