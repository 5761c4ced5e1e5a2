"""Infers which files hold the changes of a commit (`HoodieCDCExtractor`, 1.2.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from hudi_py.errors import ConfigError, CorruptFileError, HistoryCleanedError, UnsupportedTableError
from hudi_py.model.changes import ENABLED, LoggingMode, logging_mode
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.read.snapshot import Snapshot
from hudi_py.read.split import Change, InferenceCase
from hudi_py.timeline.commits import Commit, InstantRange, read_commits
from hudi_py.timeline.state import BootstrapSources
from hudi_py.view import FileSystemView
from hudi_py.view.bootstrap import base_file_in, load_bootstrap_sources

_YIELDS_CHANGES = frozenset(
    {
        "INSERT",
        "UPSERT",
        "UPSERT_PREPPED",
        "DELETE",
        "DELETE_PREPPED",
        "BULK_INSERT",
        "DELETE_PARTITION",
        "INSERT_OVERWRITE",
        "INSERT_OVERWRITE_TABLE",
        "BOOTSTRAP",
    }
)
"""`WriteOperationType.yieldChanges`, 1.2.0."""
_DELETES = frozenset({"DELETE", "DELETE_PREPPED"})


class _WrittenFile(NamedTuple):
    """A file that a commit wrote to a file group."""

    at: tuple[str, str]
    """The commit's position among others."""
    name: str
    compacts: bool
    """Whether the commit changed no rows."""


def mode_of(snapshot: Snapshot) -> LoggingMode:
    """Returns how the table logs changes.

    Raises:
        ConfigError: the table does not log changes.
        UnsupportedTableError: the mode is unknown.
    """
    properties, uri = snapshot.config.properties, snapshot.storage.uri
    if not snapshot.config.cdc_enabled:
        raise ConfigError(
            f"Cannot read the changes of the table at {uri}: it does not log changes ({ENABLED} is "
            f"{properties.get(ENABLED, 'not set')}; it must be true when the table is created); run an incremental "
            "query in the format latest_state instead"
        )
    return logging_mode(snapshot.config, f"read the changes of the table at {uri}")


class Inference:
    """Finds the files of changes; lists a partition only if commit metadata is not enough."""

    def __init__(self, snapshot: Snapshot, partitions: Collection[str] | None) -> None:
        """`partitions`: paths of the partitions to include; None: all."""
        self.mode = mode_of(snapshot)
        self.touched: set[PartitionPath] = set()
        self._snapshot = snapshot
        self._uri = snapshot.storage.uri
        self._partitions = partitions
        self._names: dict[PartitionPath, frozenset[str]] = {}
        self._written: dict[bool, dict[tuple[str, str], list[_WrittenFile]]] = {}

    def changes_of(self, commit: Commit, *, check: bool = False) -> list[tuple[PartitionPath, FileId, Change]]:
        """Returns the changes of a commit, in the order of its metadata; empty if its operation changes no rows.

        Raises HistoryCleanedError if a file that it looks up was cleaned; with `check` it looks up all files.
        """
        result: list[tuple[PartitionPath, FileId, Change]] = []
        if commit.metadata.operation not in _YIELDS_CHANGES or commit.is_compaction:
            return result
        logs: dict[tuple[PartitionPath, FileId], list[WriteStat]] = defaultdict(list)
        for stat in commit.metadata.stats:
            partition, file_id = PartitionPath(stat.partition_path), FileId(stat.file_id)
            if not stat.path or not self._chosen(partition):
                continue
            if not stat.cdc_stats and parse_log_file_name(_file_name(stat.path)) is not None:
                # All log files of a commit in one file group become one change, so that each row occurs once
                logs[partition, file_id].append(stat)
            else:
                result.append((partition, file_id, self._of_base_file(commit, partition, stat)))
        for (partition, file_id), stats in logs.items():
            result.append((partition, file_id, self._of_logs(commit, partition, file_id, stats)))
        for path, file_ids in commit.metadata.replaced.items():
            partition = PartitionPath(path)
            if file_ids and self._chosen(partition):
                groups = [FileId(file_id) for file_id in file_ids]
                result += [(partition, file_id, self._replaced(commit, partition, file_id)) for file_id in groups]
        if check:
            for partition, _, change in result:
                self._check(commit, partition, change)
        return result

    def _check(self, commit: Commit, partition: PartitionPath, change: Change) -> None:
        names = self._names.get(partition)
        if names is None:
            files = self._files_view().lister.files(partition)
            names = self._names[partition] = frozenset(info.name for info in files)
        before = (change.before.base_file, *change.before.log_files) if change.before else ()
        for file in (change.after, *change.logs, *before):
            if file is not None and str(file.name) not in names:
                raise self._cleaned(commit, f"file {file.path}")

    def _chosen(self, partition: PartitionPath) -> bool:
        self.touched.add(partition)
        return self._partitions is None or partition in self._partitions

    def _of_base_file(self, commit: Commit, partition: PartitionPath, stat: WriteStat) -> Change:
        after = self._base_file(partition, _file_name(stat.path), stat.file_size)
        if stat.cdc_stats:
            logs = [_change_log(self._uri, path, size) for path, size in stat.cdc_stats.items()]
            before = None
            if self.mode is LoggingMode.OP_KEY_ONLY:
                before = self._base_file_before(commit, partition, stat)
            return Change(
                commit.time,
                InferenceCase.AS_IS,
                before=before,
                after=None if self.mode is LoggingMode.DATA_BEFORE_AFTER else after,
                logs=tuple(sorted(logs, key=lambda log: log.name.sort_key)),
            )
        deletes = commit.metadata.operation in _DELETES
        if deletes and not stat.num_writes and stat.num_deletes:
            before = self._base_file_before(commit, partition, stat)
            return Change(commit.time, InferenceCase.BASE_FILE_DELETE, before=before)
        whole = stat.num_writes == stat.num_inserts
        # an insert of Apache Hudi that fills a small file does not log its rows, and its own queries fail on them
        if not stat.num_updates and (whole or (not stat.num_deletes and self._snapshot.config.populates_meta_fields)):
            return Change(commit.time, InferenceCase.BASE_FILE_INSERT, after=after, own_rows=not whole)
        raise UnsupportedTableError(
            f"Cannot read the changes of {self._uri} at instant {commit.time}: it rewrote base file {stat.path} "
            f"({stat.num_updates} rows updated, {stat.num_deletes} deleted) without a change log, so {ENABLED} was not "
            "set then; begin the query after this instant"
        )

    def _base_file_before(self, commit: Commit, partition: PartitionPath, stat: WriteStat) -> FileSlice:
        """Returns the base file of the previous commit, alone."""
        file_id = FileId(stat.file_id)
        if stat.prev_base_file:
            base = self._base_file(partition, stat.prev_base_file, 0)
        else:
            slices = self._slices(partition, file_id)
            bases = (slice_.base_file for slice_ in slices if slice_.base_instant == stat.prev_commit)
            result = next((base for base in bases if base is not None), None)
            if result is None:
                raise self._cleaned(commit, f"the base file of {stat.prev_commit} in file group {file_id}")
            base = result
        return FileSlice(partition, file_id, stat.prev_commit, base)

    def _of_logs(self, commit: Commit, partition: PartitionPath, file_id: FileId, stats: Sequence[WriteStat]) -> Change:
        names = {_file_name(stat.path) for stat in stats}
        slices = self._slices(partition, file_id)
        index = next(
            (index for index, slice_ in enumerate(slices) if names & {str(log.name) for log in slice_.log_files}), None
        )
        if index is None or names - {str(log.name) for log in slices[index].log_files}:
            raise self._cleaned(commit, f"log file {sorted(names)[0]}")
        sizes = {_file_name(stat.path): stat.file_size for stat in stats}
        own = [
            replace(log, size=max(log.size, sizes[str(log.name)]))
            for log in slices[index].log_files
            if str(log.name) in names
        ]
        before = self._slice_before(commit, slices[index:], own)
        written = parse_base_file_name(stats[0].base_file or "")
        newest = self._files_view().newest_recorded_base(partition, file_id, before=commit.time)
        needed = max((name for name in (written, newest) if name), key=lambda name: name.instant, default=None)
        base = before.base_file if before else None
        if needed and (base is None or base.name.instant < needed.instant):  # an older slice has replaced it
            raise self._cleaned(commit, f"base file {needed}")
        return Change(
            commit.time, InferenceCase.LOG_FILE, before=before, before_as_of=_just_before(commit.time), logs=tuple(own)
        )

    def _slice_before(self, commit: Commit, slices: Sequence[FileSlice], own: Sequence[LogFile]) -> FileSlice | None:
        """Returns the slice that a reader would have merged before the commit wrote its log files to the first of the
        slices.

        A slice without a base file was opened by a compaction that had not completed, so the slice before it is added.
        """
        if self._snapshot.config.logs_named_by_instant:
            logs = [log for log in slices[0].log_files if log.name.instant < commit.time]
        else:
            # A log file of version 6 may hold blocks of several instants, which are chosen when it is read
            newest = max(log.name.sort_key for log in own)
            logs = [log for log in slices[0].log_files if log.name.sort_key <= newest]
        base = slices[0].base_file
        for older in slices[1:]:
            if base is not None:
                break
            base, logs = older.base_file, [*older.log_files, *logs]
        if base is None and not logs:
            return None
        instant = base.instant if base else slices[0].base_instant
        return FileSlice(slices[0].partition, slices[0].file_id, instant, base, tuple(logs))

    def _replaced(self, commit: Commit, partition: PartitionPath, file_id: FileId) -> Change:
        slices = self._slices(partition, file_id)
        logs: list[LogFile] = []
        base: BaseFile | None = None
        for slice_ in slices:
            base, logs = slice_.base_file, [*slice_.log_files, *logs]
            if base is not None:
                break
        names = {str(file.name) for file in (base, *logs) if file is not None}
        if not names or (self._may_be_cleaned(commit) and not names & self._newest_before(commit, partition, file_id)):
            raise self._cleaned(commit, f"file group {file_id} of partition '{partition}', which it replaced,")
        before = FileSlice(partition, file_id, slices[0].base_instant, base, tuple(logs))
        return Change(commit.time, InferenceCase.REPLACE_COMMIT, before=before)

    def _may_be_cleaned(self, commit: Commit) -> bool:
        """Returns whether a clean came after a commit. Cleans spare files of savepoints, so an older slice of a file
        group may remain after the newest one is gone. Cleans are archived, but never the newest ones."""
        completed = self._snapshot.timeline.completed
        return commit.archived or any(item.action is Action.CLEAN and item.time > commit.time for item in completed)

    def _newest_before(self, commit: Commit, partition: PartitionPath, file_id: FileId) -> set[str]:
        """Returns names of files that show a file group as a commit found it: those of the last write before, and of
        the last one that was no compaction."""
        for archived in (False, True):
            written = self._written_by(archived=archived).get((partition, file_id), ())
            earlier = [item for item in written if item.at < commit.sort_key]
            newest = max(earlier, default=None)
            changing = max((item for item in earlier if not item.compacts), default=None)
            if newest is not None and (changing is not None or archived):
                return {item.name for item in (newest, changing) if item is not None}
        return set()

    def _written_by(self, *, archived: bool) -> dict[tuple[str, str], list[_WrittenFile]]:
        """Returns what commits wrote, by partition and file id: commits on the active timeline, or also archived
        ones."""
        value = self._written.get(archived)
        if value is None:
            seen = self._snapshot
            value = self._written[archived] = defaultdict(list)
            for commit in read_commits(
                seen,
                InstantRange(),
                skip_compaction=False,
                skip_clustering=False,
                archived=archived,
            ):
                compacts = commit.is_compaction or commit.is_log_compaction
                for stat in commit.metadata.stats:
                    if stat.path:
                        written = _WrittenFile(commit.sort_key, _file_name(stat.path), compacts)
                        value[stat.partition_path, stat.file_id].append(written)
        return value

    @cached_property
    def _sources(self) -> BootstrapSources:
        seen = self._snapshot
        return load_bootstrap_sources(seen.storage, seen.config, seen.bootstrap)

    def _slices(self, partition: PartitionPath, file_id: FileId) -> list[FileSlice]:
        return self._files_view().slices_of(partition, file_id)

    def _files_view(self) -> FileSystemView:
        return self._snapshot.view(by_metadata=False)

    def _base_file(self, partition: PartitionPath, name: str, size: int) -> BaseFile:
        parsed = parse_base_file_name(name)
        if parsed is None:
            raise CorruptFileError(
                f"Cannot read the changes of {self._uri}: a commit names {name!r} as a base file, which it cannot be "
                "by its name; begin the query after that commit"
            )
        return base_file_in(self._sources, partition, parsed, size)

    def _cleaned(self, commit: Commit, what: str) -> HistoryCleanedError:
        return HistoryCleanedError(
            f"Cannot read the changes of {self._uri} at instant {commit.time}: {what} has been cleaned; begin the "
            "query after this instant"
        )


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _change_log(uri: str, path: str, size: int) -> LogFile:
    partition, _, name = path.rpartition("/")
    parsed = parse_log_file_name(name)
    if parsed is None:
        raise CorruptFileError(
            f"Cannot read the changes of {uri}: a commit names {path!r} as a change log, which it cannot be by its "
            "name; begin the query after that commit"
        )
    return LogFile(PartitionPath(partition), parsed, size)


def _just_before(instant: str) -> str:
    """Returns a string that sorts below the instant and above every earlier instant."""
    return f"{instant[:-1]}{chr(ord(instant[-1]) - 1)}~"
