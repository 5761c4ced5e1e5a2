"""Incremental queries: the rows which the commits of a range wrote, as they are at the end of the range.

Rules of `IncrementalRelationV1`, `MergeOnReadIncrementalRelationV1` and `V2`, 1.2.0 (format reference 12.1): files are
found from commit metadata; a file group's newest slice out of these files is read, and of its rows those whose
`_hoodie_commit_time` is the requested time of a commit of the range.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_py.config.incremental import PATH_GLOB
from hudi_py.errors import HistoryCleanedError
from hudi_py.formats.log import read_blocks
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.model.instant import InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.read.filter import Filter
from hudi_py.read.plan import Plan, plan_scan
from hudi_py.read.snapshot import Snapshot, earliest_retained
from hudi_py.read.split import SliceMode, Split
from hudi_py.schema.patterns import glob_regex, matching
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.commits import Commit
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.timeline import Pin
from hudi_py.view import FileSystemView, load_view

_LIST_FROM = 8
"""Files of a folder from which on one listing is taken to cost less than looking at each."""


@dataclass(frozen=True, slots=True)
class CommitLister:
    """Lists what commits wrote, whether it is still there or not; sizes are those of the metadata.

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
    *,
    end: Pin | None = None,
    rows_of: Collection[str] | None = None,
    columns: Sequence[str],
    condition: Filter | None,
    partitions: Sequence[str] | None = None,
    path_glob: str | None = None,
    limit: int | None = None,
    batch_rows: int,
    options: Mapping[str, str] | None = None,
    keys: Collection[str] | None = None,
    mode: SliceMode = "merge",
    emit_deletes: bool = False,
    fallback: bool = False,
    reachable_only: bool = False,
) -> Plan:
    """The file slices in which the rows of commits are, as of the end of a range.

    Args:
        snapshot: the table's newest state; its schema is that of the rows.
        commits: every commit of the range, compactions and clusterings included, since they move rows between files.
        end: what of the timeline there is at the end of the range; None: all of it.
        rows_of: requested times of the commits whose rows are returned; None: of all of them.
        path_glob: only slices whose newest file has a path that ends as this pattern says.
        fallback: read the newest state of the table instead, where commits are archived or one of their files was
            cleaned.
        reachable_only: leave out the oldest commits whose files were cleaned, instead of an error (`earliest`).

    Raises:
        HistoryCleanedError: files which the answer needs were cleaned, and `fallback` is False.
        UnsupportedTableError: a slice cannot be read right by this release.
    """
    times = frozenset(commit.time for commit in commits) if rows_of is None else frozenset(rows_of)

    def plan_of(seen: Snapshot, view: FileSystemView | None) -> Plan:
        return plan_scan(
            seen,
            columns=columns,
            condition=condition,
            query_type="snapshot",
            partitions=partitions,
            limit=limit,
            batch_rows=batch_rows,
            options=options,
            view=view,
            keys=keys,
            mode=mode,
            emit_deletes=emit_deletes,
            # as Apache Hudi 1.2.0 shows the rows of a range, unlike those of a snapshot; in the fallback too
            escaped=True,
        )

    def finish(plan: Plan) -> Plan:
        spec = replace(plan.spec, commit_times=times)
        splits = plan.splits if path_glob is None else _matching(snapshot, plan.splits, path_glob)
        return replace(plan, spec=spec, splits=tuple(replace(split, spec=spec) for split in splits))

    # Apache Hudi's rule, although the answer may need none of these files: what it gives may lack rows
    if fallback and (any(commit.archived for commit in commits) or _lacks_files(snapshot.storage, commits)):
        return finish(plan_of(snapshot, None))
    then = snapshot if end is None else replace(snapshot, timeline=snapshot.timeline.at(end))
    while True:
        view = load_view(snapshot.storage, snapshot.config, then.timeline, CommitLister.of(commits))
        view.replaced = {**_replaced(commits), **view.replaced}
        plan = plan_of(then, view)
        sizes = _sizes(snapshot.storage, {path for split in plan.splits for path in _paths(split)})
        missing = {(split.partition, split.file_id) for split in plan.splits if not _paths(split) <= sizes.keys()}
        if not missing:
            splits = [_with_sizes(split, sizes) for split in plan.splits]
            return finish(replace(plan, splits=tuple(_with_bases(then, splits))))
        readable = first_readable(commits, missing)
        if not reachable_only:
            raise cleaned_range(snapshot, commits, readable)
        commits = [] if readable is None else [commit for commit in commits if commit.sort_key >= readable.sort_key]
        times = times & {commit.time for commit in commits}


def first_readable(commits: Sequence[Commit], missing: Collection[FileGroup]) -> Commit | None:
    """The first commit after all that touched one of the missing file groups; None when there is none."""
    readable: Commit | None = None
    for commit in reversed(commits):
        if any((stat.partition_path, stat.file_id) in missing for stat in commit.metadata.stats):
            break
        readable = commit
    return readable


def cleaned_range(snapshot: Snapshot, commits: Sequence[Commit], readable: Commit | None) -> HistoryCleanedError:
    """What to raise when a range needs files that were cleaned; `readable` is its first commit that does not."""
    first, last = commits[0].completion_time, commits[-1].completion_time
    if readable is not None:
        hint = f"the earliest commit that can be read up to this end is {readable.completion_time}; begin before it"
    else:
        earliest = earliest_retained(snapshot.storage, snapshot.timeline)
        completed = next((i.completion_time for i in snapshot.timeline.completed if i.time == earliest), None)
        by_requested = snapshot.timeline.layout.version < 2
        shown = earliest if by_requested or completed is None else completed
        hint = f"the earliest instant that can be read is {shown}; end later"
    return HistoryCleanedError(
        f"Table at {snapshot.storage.uri} cannot be read incrementally from {first} to {last}: files which the range "
        f"needs were cleaned; {hint}, or leave the end out"
    )


def _replaced(commits: Iterable[Commit]) -> dict[FileGroup, InstantTime]:
    return {
        (partition, file_id): commit.time
        for commit in commits
        for partition, file_ids in commit.metadata.replaced.items()
        for file_id in file_ids
    }


def _paths(split: Split) -> set[str]:
    files: list[BaseFile | LogFile] = [*split.log_files] + ([split.base_file] if split.base_file else [])
    return {file.path for file in files}


def _lacks_files(storage: Storage, commits: Sequence[Commit]) -> bool:
    paths = {stat.path for commit in commits for stat in commit.metadata.stats if stat.path}
    return not paths <= _sizes(storage, paths).keys()


def _sizes(storage: Storage, paths: Collection[str]) -> dict[str, int]:
    """Path to size, without files that are gone. Folders of which many files are asked for are listed."""
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
    """A log of table version 6 grows with every commit, so the size in a commit's metadata may be an earlier one; a log
    that is shorter keeps it, for its reader to notice."""
    base = split.base_file
    return replace(
        split,
        base_file=None if base is None else replace(base, size=sizes[base.path]),
        log_files=tuple(replace(log, size=max(log.size, sizes[log.path])) for log in split.log_files),
    )


def _with_bases(snapshot: Snapshot, splits: Sequence[Split]) -> list[Split]:
    """The splits, those with log blocks of partial updates and no base file made whole.

    Apache Hudi merges the logs of a range alone, and so returns rows of such blocks with what was written for other
    columns. They are merged over the base file, which was written before the range.
    """
    if snapshot.config.version < 8:
        return list(splits)
    storage = snapshot.storage

    def is_partial(split: Split) -> bool:
        logs = split.log_files if split.base_file is None else ()
        return any(block.is_partial for log in logs for block in read_blocks(storage, log.path, log.size))

    partial = when_remote(storage, is_partial, splits)
    if not any(partial):
        return list(splits)
    view = load_view(storage, snapshot.config, snapshot.timeline)
    result: list[Split] = []
    for split, needs_base in zip(splits, partial, strict=True):
        found = [
            piece
            for piece in (view.latest_slices(split.partition) if needs_base else ())
            if piece.file_id == split.file_id
        ]
        result += [replace(split, base_file=piece.base_file, log_files=piece.log_files) for piece in found] or [split]
    return result


def _matching(snapshot: Snapshot, splits: Sequence[Split], pattern: str) -> list[Split]:
    """The splits whose path ends as a pattern says: that of the base file, or else of the newest log."""
    files = [split.base_file if split.base_file is not None else split.log_files[-1] for split in splits]
    paths = [f"{snapshot.storage.uri}/{file.path}" for file in files]
    key = PATH_GLOB.key
    found = set(matching(glob_regex("*" + pattern, key), paths, key, whole=True))
    return [split for split, path in zip(splits, paths, strict=True) if path in found]
