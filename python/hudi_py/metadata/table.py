"""The metadata table: which of its files and instants count, and its records by partition and key.

It is a merge-on-read table of HFiles below `.hoodie/metadata`, whose partitions are indexes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.merge import CommittedInstants
from hudi_py.metadata.keys import file_groups
from hudi_py.metadata.records import (
    ALL,
    NO_FIELDS,
    KeySelection,
    RecordFields,
    RecordVersions,
    Stamps,
    assemble,
    check_parts,
    read_newest_parts,
    read_parts,
)
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import WRITE_ACTIONS, Action
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, FolderStorage, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.timeline.times import is_special
from hudi_py.view import FileSystemView, StorageLister, load_view

FILES: Final = "files"
COLUMN_STATS: Final = "column_stats"
PARTITION_STATS: Final = "partition_stats"
BLOOM_FILTERS: Final = "bloom_filters"
RECORD_INDEX: Final = "record_index"
GROUP_NUMBER: Final = re.compile(r"(.*)-(\d{4,18})-0")

_CHECKED: Final[dict[str, Stamps]] = {}
"""Files that this process found undamaged, by the URI of the metadata table."""
_MAX_CHECKED: Final = 64
_VIEWS: Final[dict[str, tuple[Storage, FileSystemView]]] = {}
"""Views of metadata tables that this process checked last, with the storage of their table, by its URI."""


class CachedLister(StorageLister):
    """Lists each folder of the storage once."""

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        super().__init__(storage, config)
        self._files: dict[PartitionPath, list[FileInfo]] = {}
        self.every: dict[CommittedInstants, dict[str, dict[str, int]]] = {}
        """Fully read `files` partitions, by the instants that count; see `metadata.files.read_files`."""

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        if partition not in self._files:
            self._files[partition] = super().files(partition)
        return self._files[partition]


def own_view_for_write(storage: Storage, own: TableState) -> FileSystemView:
    """Returns a view of the metadata table for writing records under its table's lock.

    Reuses the view that this process checked when the action began if the timeline is unchanged. Since table version 8
    logs are named by their own instant, so leftovers of failed writes do not matter.

    Args:
        storage: of the table.
        own: the metadata table.
    """
    before = _checked(storage) if own.config.has_completion_times else None
    if before is not None and before.timeline.files == own.timeline.files:
        return before
    return load_view(own, CachedLister(own.storage, own.config))


def forget_checked(storage: Storage) -> None:
    """Forgets the views that `own_view_for_write` reuses, before another check. `storage` is the table's."""
    _VIEWS.pop(storage.uri, None)


def checked_view(storage: Storage, config: TableConfig) -> FileSystemView | None:
    """Returns the view of the metadata table that this process checked while holding the table lock; None if it checked
    none. Call it with the lock still held.

    Args:
        storage, config: of the table.
    """
    return _checked(storage) if FILES in config.metadata_partitions else None


def _checked(storage: Storage) -> FileSystemView | None:
    root, view = _VIEWS.get(storage.uri, (None, None))
    return view if root is storage else None


class MetadataTable:
    """The metadata table as of a timeline of its table; see `open_metadata`.

    Reads only the records that are requested, and caches only the listing of its partitions.
    """

    def __init__(self, state: TableState, own_view: FileSystemView | None = None) -> None:
        self.partitions = state.config.metadata_partitions
        """The partitions that readers may use."""
        self.storage = FolderStorage(state.storage, METADATA_TABLE)
        self._root = state.storage
        config = load_table_config(self.storage) if own_view is None else own_view.config
        if config.base_file_format != "HFILE" or not config.is_mor:
            raise UnsupportedTableError(
                f"Cannot read the metadata table at {self.storage.uri}: it is a {config.table_type} table of "
                f"{config.base_file_format} files; supported: MERGE_ON_READ tables of HFILE files"
            )
        self.timeline = load_timeline(self.storage, config) if own_view is None else own_view.timeline
        self._check_maintained(state.timeline)
        if own_view is None:
            own = TableState(self.storage, config, self.timeline)
            own_view = load_view(own, CachedLister(self.storage, config))
        self._view = own_view
        self._committed = valid_instants(self.timeline, state.timeline)
        # a savepoint has the time of its completed commit; an indexing changes no partition that counts
        others = (Action.SAVEPOINT, Action.INDEXING)
        pending = {instant.time for instant in state.timeline.pending if instant.action not in others}
        newest = state.timeline.instants[-1].time if state.timeline.instants else ""
        self.is_newest = not any(
            instant.time in pending or instant.time > newest
            for instant in self.timeline.completed
            if instant.action.comparable is Action.DELTA_COMMIT
        )
        """Whether all its records come from writes that are completed on the table's timeline. Only then do partition
        statistics and record locations, which describe the newest state, describe the state of the timeline."""
        self._slices: dict[str, Mapping[str, Sequence[FileSlice]]] = {}

    def has(self, partition: str) -> bool:
        """Returns whether readers may use a partition."""
        return partition in self.partitions

    def records(
        self,
        partition: str,
        fields: RecordFields,
        *,
        keys: Iterable[str] | None = None,
        prefixes: Iterable[str] | None = None,
        hashed: Mapping[str, str] | None = None,
        group_prefix: str | None = None,
    ) -> RecordVersions:
        """Reads versions of a partition's records; all of them unless `keys` or `prefixes` are given.

        Args:
            keys, prefixes: only records with these keys, or with these key prefixes.
            hashed: for keys or prefixes whose file group is not determined by the key itself, the text to hash;
                None: prefixes are looked up in every file group.
            group_prefix: only file groups whose ids have this prefix, see `file_groups`.

        Raises:
            CorruptFileError, UnsupportedTableError, FileNotFoundError: see `read_parts`.
        """
        tasks: list[tuple[int, FileSlice, KeySelection]] = []
        number = 0
        wanted = None if keys is None else sorted(set(keys))
        starts = None if prefixes is None else sorted(set(prefixes))
        for prefix, slices in self.file_groups(partition).items():
            if group_prefix is not None and prefix != group_prefix:
                continue
            for at, slice_ in enumerate(slices):
                tasks.append((number + at, slice_, ALL))
            if wanted is not None:
                chosen = _by_group(wanted, hashed, len(slices))
                tasks[number:] = [
                    (number + at, slices[at], KeySelection(keys=tuple(some))) for at, some in chosen.items()
                ]
            elif starts is not None and hashed is not None:
                chosen = _by_group(starts, hashed, len(slices))
                tasks[number:] = [
                    (number + at, slices[at], KeySelection(prefixes=tuple(some))) for at, some in chosen.items()
                ]
            elif starts is not None:
                tasks[number:] = [(n, slice_, KeySelection(prefixes=tuple(starts))) for n, slice_, _ in tasks[number:]]
            number = len(tasks)
        stamps = None if self.storage.is_local else self._stamps([partition])
        parts = read_parts(self.storage, tasks, self._committed, stamps)
        return assemble(parts, fields)

    def logged_keys(self, partition: str) -> pa.Array:
        """Returns the distinct keys of the records in a partition's logs, deleted ones included. Raises as
        `records`."""
        slices = [slice_ for versions in self.file_groups(partition).values() for slice_ in versions]
        tasks = [(number, replace(slice_, base_file=None), ALL) for number, slice_ in enumerate(slices)]
        parts = read_parts(self.storage, tasks, self._committed)
        return assemble(parts, NO_FIELDS).keys.unique()

    def every_file(self, read: Callable[[MetadataTable], dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
        """Returns the result of `read` on the `files` partition, computed once for all users of the same view and the
        same instants, such as a write and the recording of its commit. Must not be modified."""
        lister = self._view.lister
        if not isinstance(lister, CachedLister):
            return read(self)
        if self._committed not in lister.every:
            lister.every[self._committed] = read(self)
        return lister.every[self._committed]

    def standing_records(
        self,
        partition: str,
        fields: RecordFields,
        keys: Sequence[str],
        resets: Callable[[RecordVersions], npt.NDArray[np.bool_]],
    ) -> RecordVersions:
        """Reads as `records` with `keys` as prefixes, but may leave out versions that later ones replace.

        Reads from the newest log back until each key is found, and the rest only if one of them extends older versions,
        so the cost does not grow with the number of logs.

        Args:
            keys: whole keys, each once.
            resets: which versions replace those before them.
        """
        groups = [slice_ for slices in self.file_groups(partition).values() for slice_ in slices]
        tasks = [(at, slice_, KeySelection(prefixes=tuple(sorted(keys)))) for at, slice_ in enumerate(groups)]
        stamps = None if self.storage.is_local else self._stamps([partition])
        parts, is_whole = read_newest_parts(self.storage, tasks, self._committed, len(keys), stamps)
        versions = assemble(parts, fields)
        if is_whole or resets(versions)[versions.is_last()].all():
            return versions
        return self.records(partition, fields, prefixes=keys)

    def file_groups(self, partition: str) -> Mapping[str, Sequence[FileSlice]]:
        """Returns the newest slices of a partition's file groups in order of their numbers, by the prefix of their ids.

        There is only one prefix, except in a record index by data partition, which has one for each of them.

        Raises:
            CorruptFileError: there are no file groups, except in a record index, or numbers are missing.
        """
        groups = self._slices.get(partition)
        if groups is None:
            groups = self._slices[partition] = self._file_groups(partition)
        return groups

    def check(self) -> None:
        """Checks for files that are lost, or damaged in a way that shows without reading their records.

        Lists the partitions, and opens only files that this process has not checked yet, or whose size or modification
        time has changed since.

        Raises:
            CorruptFileError, FileNotFoundError: the metadata table is damaged.
        """
        before, stamps = _CHECKED.get(self.storage.uri, {}), self._stamps(self.partitions)
        slices = [
            replace(
                slice_,
                base_file=slice_.base_file if _is_new(slice_.base_file, stamps, before) else None,
                log_files=tuple(log for log in slice_.log_files if _is_new(log, stamps, before)),
            )
            for partition in self.partitions
            for group in self.file_groups(partition).values()
            for slice_ in group
        ]
        new = [slice_ for slice_ in slices if slice_.base_file or slice_.log_files]
        check_parts(self.storage, new, self._committed, stamps)
        if len(_CHECKED) >= _MAX_CHECKED:
            _CHECKED.clear()
            _VIEWS.clear()
        _CHECKED[self.storage.uri] = stamps
        if isinstance(self._view.lister, CachedLister):
            _VIEWS[self._root.uri] = self._root, self._view

    def _stamps(self, partitions: Iterable[str]) -> Stamps:
        """Returns size and modification time of the files of some partitions, by path."""
        folders = [PartitionPath(partition) for partition in partitions]
        listings = when_remote(self.storage, self._view.lister.files, folders)
        return {info.path: (info.size, info.modified_ms) for infos in listings for info in infos}

    def _file_groups(self, partition: str) -> Mapping[str, Sequence[FileSlice]]:
        groups = numbered_groups(self.storage.uri, partition, self._view.latest_slices(PartitionPath(partition)))
        if not groups and partition != RECORD_INDEX:
            raise CorruptFileError(
                f"Partition '{partition}' of the metadata table at {self.storage.uri} has no file groups"
            )
        return groups

    def _made(self) -> str:
        """Returns the time at which the metadata table existed at the latest: its first completion, which is its
        creation unless that was archived. An upgrade from version 6 may have given initial instants their own times."""
        completions = (instant.completion_time or "" for instant in self.timeline.completed)
        return min((time for time in completions if not is_special(time)), default="")

    def _check_maintained(self, timeline: Timeline) -> None:
        """Raises CorruptFileError if a writer has not maintained the metadata table.

        Every write since the metadata table was created has an instant with the same time in it.
        """
        own = {instant.time for instant in self.timeline.completed}
        first = min((time for time in own if not _is_initial(time)), default=None)
        start = max(first or "", self.timeline.start or "")
        # a rollback does not count: it may undo an attempt to write to a table without a metadata table
        if not self.timeline.write_completed:
            raise CorruptFileError(f"The metadata table at {self.storage.uri} has no completed instant")
        timed = self.timeline.layout.has_completion_times and timeline.layout.has_completion_times
        made = self._made() if timed else ""
        is_whole = timed and any(map(_is_initial, own))
        for instant in timeline.completed:
            if instant.action.comparable not in WRITE_ACTIONS or instant.time in own:
                continue
            # a planned service that completed late may have the earliest time of all, if older instants were archived
            kept = is_whole or (first is not None and instant.time > start)
            if kept and (not timed or (instant.completion_time or "") > made):
                raise CorruptFileError(
                    f"The metadata table at {self.storage.uri} lacks the {instant.action.comparable.value} of "
                    f"{instant.time}: another writer did not maintain it"
                )


def valid_instants(own: Timeline, timeline: Timeline) -> CommittedInstants:
    """Returns instants whose log blocks count (`HoodieTableMetadataUtil.getValidInstantTimestamps`, 1.2.0).

    These are the completed instants of the table and of the metadata table, except those that are pending on the
    table's timeline: a block is written before the table's instant completes. Instants older than the metadata table's
    timeline were archived there, so they completed; commits that were rolled back since are among them.

    Args:
        own: timeline of the metadata table.
        timeline: timeline of its table.
    """
    pending = {instant.time for instant in timeline.pending}
    completed = {instant.time for instant in timeline.completed}
    completed |= {instant.time for instant in own.completed if instant.time not in pending}
    start = min([own.start or "", *pending]) if own.start else ""
    return CommittedInstants(start, frozenset(completed))


def open_metadata(state: TableState, own_view: FileSystemView | None = None) -> MetadataTable | None:
    """Opens the metadata table; None if the table's properties name none of its partitions, and before table version 6.

    Older metadata tables have other file ids, and only the listing of files.

    Args:
        state: of the table. Its timeline may be pinned: later completions do not count here either.
        own_view: a view of the metadata table's newest timeline, if the caller has one.

    Raises:
        TableNotFoundError, CorruptFileError, UnsupportedTableError: it is missing or damaged, its version or form is
            not supported, or it lacks commits of its table.
    """
    if state.config.version < 6 or FILES not in state.config.metadata_partitions:
        return None
    return MetadataTable(state, own_view)


def numbered_groups(uri: str, partition: str, slices: Sequence[FileSlice]) -> Mapping[str, Sequence[FileSlice]]:
    """Groups the slices of a partition by the prefix of their file ids, in order of the numbers after it.

    Args:
        uri: URI of the metadata table, for errors.

    Raises:
        CorruptFileError: an id has no number, or numbers are missing.
    """
    by_prefix: dict[str, list[tuple[int, FileSlice]]] = {}
    for slice_ in slices:
        parsed = GROUP_NUMBER.fullmatch(slice_.file_id)
        if parsed is None:
            raise CorruptFileError(
                f"Partition '{partition}' of the metadata table at {uri} has a file group {slice_.file_id!r}; expected "
                "an id that ends in a number of four digits and -0"
            )
        by_prefix.setdefault(parsed[1], []).append((int(parsed[2]), slice_))
    result: dict[str, Sequence[FileSlice]] = {}
    for prefix, numbered in by_prefix.items():
        numbered.sort(key=lambda entry: entry[0])
        if [number for number, _ in numbered] != list(range(len(numbered))):
            raise CorruptFileError(
                f"Partition '{partition}' of the metadata table at {uri} has the file groups "
                f"{[number for number, _ in numbered]} of {prefix}; expected numbers from 0 without gaps"
            )
        result[prefix] = [slice_ for _, slice_ in numbered]
    return result


def _by_group(keys: Sequence[str], hashed: Mapping[str, str] | None, count: int) -> dict[int, list[str]]:
    chosen: dict[int, list[str]] = {}
    texts = keys if hashed is None else [hashed.get(key, key) for key in keys]
    for key, group in zip(keys, file_groups(texts, count).tolist() if count > 1 else [0] * len(keys), strict=True):
        chosen.setdefault(group, []).append(key)
    return chosen


def _is_new(file: BaseFile | LogFile | None, stamps: Stamps, before: Stamps) -> bool:
    return file is not None and (file.path not in stamps or stamps[file.path] != before.get(file.path))


def _is_initial(time: str) -> bool:
    """Returns whether partitions were initialised at an instant."""
    return time.startswith("00000000000000")
