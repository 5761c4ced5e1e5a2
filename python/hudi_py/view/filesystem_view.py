"""File groups and their slices at an instant (`AbstractTableFileSystemView`, `HoodieFileGroup`, 1.2.0).

A slice is a base file and the log files to merge over it, identified by its base instant. Before table version 8 a log
file's name has the base instant of its slice; since then it has the delta commit that wrote it, and the log belongs to
the newest slice whose base instant is not later than the delta commit's completion.
"""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hudi_py.errors import HudiError, StorageError, first_line
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import (
    BaseFileName,
    FileId,
    LogFileName,
    PartitionPath,
    parse_base_file_name,
    parse_log_file_name,
)
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.archived import ArchivedCompletions
from hudi_py.timeline.metadata import FileGroup, read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.view.bootstrap import base_file_in, load_bootstrap_sources
from hudi_py.view.lister import Lister, StorageLister
from hudi_py.view.recorded import (
    RecordedFile,
    RecordedFiles,
    as_recorded,
    gone_error,
    lost_error,
    lost_files,
    read_recorded,
)

T = TypeVar("T")

_FIRST_PORTION: Final = 256
"""Partitions per portion, until it is known how many files they have."""
_PORTION_SIZE: Final = 100_000
"""Files per portion, or file groups if the number of files is unknown; a single partition may have more."""


@dataclass(slots=True)
class _Slice:
    base_instant: str
    base: BaseFile | None = None
    logs: list[LogFile] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """Committed slices of a file group, newest first, including the one of a pending compaction, which has no base
    file."""

    partition: PartitionPath
    file_id: FileId
    slices: list[_Slice]
    recorded: Sequence[RecordedFile] = ()
    """The group's files in commit metadata, if they are compared with the listing."""
    listed: Mapping[BaseFileName | LogFileName, int] = field(default_factory=dict)
    """Sizes of its existing files, if compared; includes logs that belong to no slice, such as those for a pending
    clustering."""
    lost: list[tuple[RecordedFile, int | None]] = field(default_factory=list)
    """Committed files of the newest slice that are missing or damaged; see `lost_files`."""


class FileSystemView:
    """File slices of a table as a timeline shows them.

    Files of uncommitted instants are hidden, and so are file groups that a completed replacecommit has replaced. Each
    partition is listed once, when it is first needed. Thread-safe.

    If the storage is listed, `latest_slices` and `latest_base_slices` raise for a file group whose requested slice
    lacks a committed file: `CorruptFileError`, or `HistoryCleanedError` if the table has changed since. With
    `proven_by` they do so for every lister.
    """

    def __init__(
        self,
        state: TableState,
        lister: Lister,
        *,
        pending_compaction: Mapping[FileGroup, InstantTime],
        pending_clustering: Mapping[FileGroup, InstantTime],
        replaced: Mapping[FileGroup, InstantTime],
        read_damaged: bool,
    ) -> None:
        self.state = state
        self.lister = lister
        self.pending_compaction = pending_compaction
        """Maps (partition path, file id) to the instant at which its compaction was scheduled."""
        self.pending_clustering = pending_clustering
        """Maps (partition path, file id) of input groups to the instant at which their clustering was scheduled."""
        self.replaced = replaced
        """Maps (partition path, file id) to the requested time of the replacecommit that replaced it."""
        self.sources = load_bootstrap_sources(state.storage, state.config, state.bootstrap)
        """Maps (partition path, file id) to the source file of a bootstrapped base file."""
        self._completions = ArchivedCompletions(state)
        self._read_damaged = read_damaged
        self._recorded: RecordedFiles | None = None
        self._groups: dict[PartitionPath, list[_Group]] = {}
        self._partitions: list[PartitionPath] | None = None
        self._proof: Lister | None = None
        self._lock = threading.Lock()

    @property
    def config(self) -> TableConfig:
        return self.state.config

    @property
    def timeline(self) -> Timeline:
        return self.state.timeline

    def proven_by(self, storage: Lister, lister: Lister) -> FileSystemView:
        """Returns a view for writers that uses `lister`, but lists a partition from `storage` if `lister` misses a
        committed file.

        That is a file of a newest slice, missing or shorter than recorded; if the storage lacks it too, that is an
        error. A writer must not ignore a file that another process has cleaned since, or that a metadata table lacks:
        it would add its keys again.
        """
        other = copy(self)
        other.lister, other._proof = lister, storage
        other._groups, other._partitions, other._lock = {}, None, threading.Lock()
        return other

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def partitions(self) -> list[PartitionPath]:
        """Returns the sorted paths of the table's partitions; `[""]` if it is not partitioned."""
        if self._partitions is None:
            paths = self.lister.partitions()
            # not for metadata tables, whose partitions may be deleted
            compared = self._proof is not None or self.lister.is_storage
            if compared and not self.config.is_metadata_table:
                written = {
                    partition
                    for partition, groups in self._read_recorded().items()
                    if any((partition, file_id) not in self.replaced for file_id in groups)
                }
                paths = sorted({*paths, *written})
            self._partitions = paths
        return list(self._partitions)

    def latest_slices(self, partition: PartitionPath, as_of: InstantTime | None = None) -> list[FileSlice]:
        """Returns the newest slice of each file group for a merging reader, sorted by file id.

        While a compaction is pending, this is the slice that it compacts, with the logs written since. With `as_of`,
        later base instants, logs (since version 8) and replacements do not count; blocks of version 6 logs are filtered
        when they are read.
        """
        result: list[FileSlice] = []
        for group in self._visible(partition, as_of):
            self._check_whole(group, as_of)
            slices = [slice_ for slice_ in group.slices if as_of is None or slice_.base_instant <= as_of]
            if not slices:
                continue
            newest = slices[0]
            base_instant, base, logs = newest.base_instant, newest.base, newest.logs
            if len(slices) > 1 and base_instant == self.pending_compaction.get((partition, group.file_id)):
                compacted = slices[1]
                base_instant, base = compacted.base_instant, compacted.base
                logs = sorted([*compacted.logs, *newest.logs], key=lambda log: log.name.sort_key)
            if as_of is not None and self.config.logs_named_by_instant:
                logs = [log for log in logs if log.name.instant <= as_of]
            if base is not None or logs:
                result.append(_file_slice(group, base_instant, base, logs))
        return result

    def latest_base_slices(self, partition: PartitionPath, as_of: InstantTime | None = None) -> list[FileSlice]:
        """Returns the newest base file of each file group that has one, without logs (read-optimized), sorted by file
        id."""
        result: list[FileSlice] = []
        for group in self._visible(partition, as_of):
            self._check_whole(group, as_of, base_only=True)
            for slice_ in group.slices:
                if slice_.base is not None and (as_of is None or slice_.base_instant <= as_of):
                    result.append(_file_slice(group, slice_.base_instant, slice_.base, []))
                    break
        return result

    def latest_slices_for_write(self, partition: PartitionPath) -> list[FileSlice]:
        """Returns the slice of each file group to which new logs belong, sorted by file id.

        While a compaction is pending this is the slice that it opened when it was scheduled, which has no base file and
        may be empty.
        """
        return [_slice_of(group, group.slices[0]) for group in self._visible(partition, None) if group.slices]

    def logs_of_pending_clustering(self, partition: PartitionPath) -> list[LogFile]:
        """Returns the logs of file groups that a pending clustering will make. While buckets of a consistent hashing
        index are resized, writers write to the new ones, too; until it completes, these logs belong to no slice."""
        pending = set(self.pending_clustering.values())
        if not pending:
            return []
        _, logs = self._sorted_out(partition, self.lister.files(partition))
        return [log for group in logs.values() for log in group if log.name.instant in pending]

    def lost_files(self, partition: PartitionPath) -> list[tuple[RecordedFile, int | None]]:
        """Returns files of the newest slices that completed commits wrote and the storage lacks or truncated, with
        their current size (None: missing). Empty if a metadata table is listed, which does not show it."""
        return [lost for group in self._visible(partition, None) for lost in group.lost]

    @contextmanager
    def naming_lost_files(self) -> Iterator[None]:
        """If a file is not found, lists everything that was listed so far from the storage.

        Raises:
            CorruptFileError, HistoryCleanedError: a committed file is lost, or was cleaned.
        """
        try:
            yield
        except FileNotFoundError as error:
            if self._proof is not None:
                listed = self.proven_by(self._proof, self._proof)
                for partition in list(self._groups):
                    try:
                        listed.latest_slices(partition)
                    except StorageError:  # not a sign of damage
                        raise
                    except HudiError as lost:
                        raise lost from error
            raise

    def every_slice(self, partition: PartitionPath) -> list[FileSlice]:
        """Returns all existing committed slices, including replaced file groups, by file id and then oldest first."""
        return [
            _slice_of(group, slice_)
            for group in self._load(partition)
            for slice_ in reversed(group.slices)
            if slice_.base is not None or slice_.logs
        ]

    def slices_of(self, partition: PartitionPath, file_id: FileId) -> list[FileSlice]:
        """Returns all committed slices of a file group, replaced or not, newest first; empty if there is no such group.

        A slice without a base file was opened by a compaction, or has only logs.
        """
        groups = (group for group in self._load(partition) if group.file_id == file_id)
        return [_slice_of(group, slice_) for group in groups for slice_ in group.slices]

    def newest_recorded_base(self, partition: PartitionPath, file_id: FileId, *, before: str) -> BaseFileName | None:
        """Returns the newest base file of a file group that an active commit of an earlier instant recorded, whether or
        not it still exists; None if there is none, or the view does not compare files with commit metadata."""
        files = (file for group in self._load(partition) if group.file_id == file_id for file in group.recorded)
        names = (file.name for file in files if file.commit < before and isinstance(file.name, BaseFileName))
        return max(names, key=lambda name: name.instant, default=None)

    def in_portions(
        self, partitions: Sequence[PartitionPath], work: Callable[[Sequence[PartitionPath]], Sequence[T]]
    ) -> list[T]:
        """Returns the results of `work` for a portion of the partitions at a time, in order. Limits what the view keeps
        in memory to one portion: its files are listed before, and released after."""
        results: list[T] = []
        at, step = 0, _FIRST_PORTION
        by_storage = self.lister.is_storage
        while at < len(partitions):
            some = partitions[at : at + step]
            size = self.lister.prefetch(some)
            outcome = work(some)
            turned, by_storage = self.lister.is_storage and not by_storage, self.lister.is_storage
            if at and turned:
                # the metadata table has turned out to be damaged: discard earlier listings
                self._forget(partitions)
                results, at, step = [], 0, _FIRST_PORTION
                continue
            size = max(size, len(some), sum(len(self._groups.get(path, ())) for path in some))
            if len(partitions) > _FIRST_PORTION:
                self._forget(some)
            results += outcome
            at += len(some)
            step = max(_PORTION_SIZE * len(some) // size, 1)
        return results

    def _forget(self, partitions: Sequence[PartitionPath]) -> None:
        with self._lock:
            for path in partitions:
                self._groups.pop(path, None)
        self.lister.forget(partitions)

    def _visible(self, partition: PartitionPath, as_of: InstantTime | None) -> list[_Group]:
        groups: list[_Group] = []
        for group in self._load(partition):
            replaced_at = self.replaced.get((partition, group.file_id))
            if replaced_at is None or (as_of is not None and replaced_at > as_of):
                groups.append(group)
        return groups

    def _check_whole(self, group: _Group, as_of: InstantTime | None, *, base_only: bool = False) -> None:
        """Raises if a file that a reader needs is lost; only warns with `read_damaged`."""
        lost = group.lost
        if as_of is not None and group.recorded:
            recorded = [file for file in group.recorded if file.commit <= as_of]
            listed = {name: size for name, size in group.listed.items() if name.instant <= as_of}
            lost = lost_files(recorded, listed, self.config, self.timeline)
        for file, size in lost:
            if base_only and isinstance(file.name, LogFileName):
                continue
            if as_of is not None and size is None and (file, size) not in group.lost:
                error = gone_error(self.state, file, as_of)
            else:
                error = lost_error(self.state, file, size)
            if not self._read_damaged:
                raise error
            warnings.warn(f"Rows are missing or old: {first_line(error)}", stacklevel=2)

    def _read_recorded(self) -> RecordedFiles:
        with self._lock:
            if self._recorded is None:
                self._recorded = read_recorded(self.state)
            return self._recorded

    def _load(self, partition: PartitionPath) -> list[_Group]:
        with self._lock:
            groups = self._groups.get(partition)
        if groups is None:
            groups = self._build(partition, self.lister.files(partition))
            if self._proof is not None and self.lister is not self._proof and any(group.lost for group in groups):
                groups = self._build(partition, self._proof.files(partition))
            with self._lock:
                groups = self._groups.setdefault(partition, groups)
        return groups

    def _build(self, partition: PartitionPath, files: list[FileInfo]) -> list[_Group]:
        bases, logs = self._sorted_out(partition, files)
        groups: list[_Group] = []
        compared = self._proof is not None or self.lister.is_storage
        recorded = self._read_recorded().get(partition, {}) if compared else {}
        for file_id in sorted(bases.keys() | logs.keys() | recorded.keys()):
            group_bases, group_logs = bases.get(file_id, {}), logs.get(file_id, [])
            group_logs.sort(key=lambda log: log.name.sort_key)
            written = recorded.get(file_id, ())
            listed: dict[BaseFileName | LogFileName, int] = {}
            lost: list[tuple[RecordedFile, int | None]] = []
            if written:
                listed |= {log.name: log.size for log in group_logs}
                listed |= {base.name: base.size for base in group_bases.values()}
                if (partition, file_id) not in self.replaced:  # the newest slice of a replaced group may be cleaned too
                    lost = lost_files(written, listed, self.config, self.timeline)
                if self.config.has_completion_times:
                    group_logs = as_recorded(group_logs, written)
            scheduled = self.pending_compaction.get((partition, file_id))
            ordered = self._slices(group_bases, group_logs, scheduled)
            groups.append(_Group(partition, file_id, ordered, written, listed, lost))
        return groups

    def _sorted_out(
        self, partition: PartitionPath, files: list[FileInfo]
    ) -> tuple[dict[FileId, dict[str, BaseFile]], dict[FileId, list[LogFile]]]:
        """Returns the base files that count, by instant, and the log files of each file group."""
        bases: dict[FileId, dict[str, BaseFile]] = defaultdict(dict)
        logs: dict[FileId, list[LogFile]] = defaultdict(list)
        extensions = base_extensions(self.config)
        for name, info in sorted((info.name, info) for info in files):
            log_name = parse_log_file_name(name)
            if log_name is not None:
                if not log_name.cdc:
                    logs[log_name.file_id].append(LogFile(partition, log_name, info.size))
                continue
            base_name = parse_base_file_name(name)
            if base_name is not None and base_name.extension in extensions and self._counts(base_name.instant):
                # Several attempts of a task may leave files of one instant: the last one counts
                file = base_file_in(self.sources, partition, base_name, info.size)
                bases[base_name.file_id][base_name.instant] = file
        return bases, logs

    def _slices(self, bases: dict[str, BaseFile], logs: list[LogFile], scheduled: str | None) -> list[_Slice]:
        """Returns the slices of a file group, the newest first. `scheduled`: instant of a pending compaction."""
        slices = {instant: _Slice(instant, base) for instant, base in bases.items()}
        if scheduled is not None:
            slices.setdefault(scheduled, _Slice(scheduled))
        if self.config.has_completion_times:
            self._assign_by_completion(slices, logs)
        else:
            self._assign_by_name(slices, logs)
        return [slices[instant] for instant in sorted(slices, reverse=True)]

    def _counts(self, instant_time: str) -> bool:
        return self.timeline.is_committed(instant_time)

    def _assign_by_name(self, slices: dict[str, _Slice], logs: list[LogFile]) -> None:
        for log in logs:
            instant = log.name.instant
            if instant not in slices:
                if not self._counts(instant):
                    continue
                # Either a delta commit from before a downgrade from version 8 or 9, whose logs are named by their own
                # instant, or the first one of a group without base files. Completion times are file times here, and
                # change when a table is copied, so the instant itself decides
                instant = max((earlier for earlier in slices if earlier < instant), default=instant)
            slices.setdefault(instant, _Slice(instant)).logs.append(log)

    def _assign_by_completion(self, slices: dict[str, _Slice], logs: list[LogFile]) -> None:
        for log in logs:
            completed = self._completions.of(log.name.instant, slices)
            if completed is None:
                continue
            key = max((instant for instant in slices if instant <= completed), default=log.name.instant)
            slices.setdefault(key, _Slice(key)).logs.append(log)


def base_extensions(config: TableConfig) -> frozenset[str]:
    """Returns the extensions of base files: the one of the table's format, or all if it may have several formats."""
    if config.properties.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true":
        return frozenset(("parquet", "orc", "hfile", "lance"))
    return frozenset((config.base_file_format.lower(),))


def load_view(state: TableState, lister: Lister | None = None, *, read_damaged: bool = False) -> FileSystemView:
    """Loads a view of the files that `lister` lists (None: the storage); reads pending plans and replaced file groups.

    `read_damaged`: whether to warn, instead of raising an error, about lost files.

    Raises:
        CorruptFileError: a plan or the metadata of a replacecommit cannot be read.
    """
    plans = PendingPlans(state.storage, state.timeline)

    def file_groups(instant: Instant) -> Iterable[FileGroup]:
        if not instant.completed:
            return plans.file_groups(instant)
        try:
            return read_commit_metadata(state.storage, state.timeline.layout, instant).replaced_groups
        except FileNotFoundError:  # archived since it was listed, so the groups that it replaced have been cleaned
            return ()

    instants = plans.of(Action.COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT)
    instants += [instant for instant in state.timeline.write_completed if instant.action is Action.REPLACE_COMMIT]
    compacting: dict[FileGroup, InstantTime] = {}
    clustering: dict[FileGroup, InstantTime] = {}
    replaced: dict[FileGroup, InstantTime] = {}
    for instant, groups in zip(instants, when_remote(state.storage, file_groups, instants), strict=True):
        # Instants are in order, so the newest one counts, as in Apache Hudi
        pending = compacting if instant.action is Action.COMPACTION else clustering
        (replaced if instant.completed else pending).update(dict.fromkeys(groups, instant.time))
    return FileSystemView(
        state,
        lister or StorageLister(state.storage, state.config),
        pending_compaction=compacting,
        pending_clustering=clustering,
        replaced=replaced,
        read_damaged=read_damaged,
    )


def _file_slice(group: _Group, base_instant: str, base: BaseFile | None, logs: list[LogFile]) -> FileSlice:
    return FileSlice(group.partition, group.file_id, base_instant, base, tuple(logs))


def _slice_of(group: _Group, slice_: _Slice) -> FileSlice:
    return _file_slice(group, slice_.base_instant, slice_.base, slice_.logs)
