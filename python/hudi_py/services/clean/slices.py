"""Builds file slices with all their files from file names alone, and collects the files that savepoints and plans need.

The rules are those of `view.filesystem_view`, except that change data files, which readers do not merge, belong to
their slice here. For speed, names are split by hand and the view's classes are not used: planning a clean considers
every file of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hudi_py.model.instant import Action, Instant
from hudi_py.storage import Storage
from hudi_py.timeline.archived import ArchivedCompletions
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.plans import SavepointMetadata, decode_savepoint
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView
from hudi_py.view.filesystem_view import base_extensions

CHANGE_LOG: Final = ".cdc"
"""Suffix of the names of change logs."""
LogKey = tuple[str, int, str, bool]
"""Instant, version, write token, whether it holds change data."""


@dataclass(slots=True)
class Slice:
    """A committed file slice, or one that a pending compaction has opened."""

    base_instant: str
    names: list[str] = field(default_factory=list)
    """Base files, then logs in their order."""


class Slicer:
    """Groups the files of partitions into the slices of a view's timeline. Thread-safe."""

    def __init__(self, view: FileSystemView) -> None:
        self._by_completion = view.config.has_completion_times
        self._extensions = base_extensions(view.config)
        self._timeline = view.timeline
        self._scheduled = view.pending_compaction
        # caches by requested time: there are few instants and many files
        self._committed: dict[str, bool] = {}
        self._completed: dict[str, str | None] = {}
        self._archived = ArchivedCompletions(view.state)

    def groups(self, partition: str, names: Iterable[str]) -> dict[str, list[Slice]]:
        """Maps file ids to slices, newest first. Files of uncommitted instants are left out."""
        slices: dict[str, dict[str, Slice]] = {}
        logs: dict[str, list[tuple[LogKey, str]]] = {}
        committed = self._committed
        for name in names:
            if name[:1] == ".":
                log = split_log_name(name)
                if log is not None:
                    logs.setdefault(log[0], []).append((log[1], name))
                continue
            base = split_base_name(name)
            if base is None or base[2] not in self._extensions:
                continue
            file_id, instant, _ = base
            counts = committed.get(instant)
            if counts is None:
                counts = committed[instant] = self._timeline.is_committed(instant)
            if counts:
                of_group = slices.get(file_id)
                if of_group is None:
                    of_group = slices[file_id] = {}
                slice_ = of_group.get(instant)
                if slice_ is None:
                    of_group[instant] = Slice(instant, [name])
                else:
                    slice_.names.append(name)
        for file_id in {*slices, *logs} if self._scheduled else ():
            scheduled = self._scheduled.get((partition, file_id))
            if scheduled is not None:
                slices.setdefault(file_id, {}).setdefault(scheduled, Slice(scheduled))
        for file_id, of_logs in logs.items():
            of_logs.sort()
            self._assign_logs(slices.setdefault(file_id, {}), of_logs)
        return {
            file_id: [of_group[instant] for instant in sorted(of_group, reverse=True)]
            for file_id, of_group in slices.items()
            if of_group
        }

    def _assign_logs(self, slices: dict[str, Slice], logs: list[tuple[LogKey, str]]) -> None:
        for (instant, _, _, _), name in logs:
            if self._by_completion:
                if instant not in self._completed:
                    self._completed[instant] = self._timeline.completion_time(instant)
                completed = self._completed[instant]
                if self._timeline.is_archived(instant):
                    completed = self._archived.of(instant, slices)
                if completed is None:
                    continue
                key = max((base for base in slices if base <= completed), default=instant)
            elif instant in slices or self._timeline.is_committed(instant):
                key = instant
            else:
                continue
            slices.setdefault(key, Slice(key)).names.append(name)


def split_base_name(name: str) -> tuple[str, str, str] | None:
    """Returns file id, instant and extension if `parse_base_file_name` accepts the name, with any extension."""
    parts = name.split("_")
    if len(parts) != 3 or not parts[0] or not parts[1] or parts[0][0] == ".":
        return None
    instant, _, extension = parts[2].partition(".")
    return (parts[0], instant, extension) if instant.isdecimal() else None


def split_log_name(name: str) -> tuple[str, LogKey] | None:
    """Returns file id and sort key of a log file if `parse_log_file_name` accepts the name."""
    file_id, _, rest = name[1:].partition("_")
    instant, log, rest = rest.partition(".log.")
    if not log or not file_id or not instant or "." in file_id or "." in instant or "_" in instant:
        return None
    version, has_token, token = rest.partition("_")
    if not version.isdecimal():
        return None
    cdc = token.endswith(CHANGE_LOG)
    if cdc:
        token = token[: -len(CHANGE_LOG)]
    if has_token:
        numbers = token.split("-")
        if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
            return None
    return file_id, (instant, int(version), token, cdc)


def is_data_file(name: str) -> bool:
    """Returns whether a file is a base, log or change data file, in any format."""
    return (split_log_name(name) if name[:1] == "." else split_base_name(name)) is not None


@dataclass(frozen=True, slots=True)
class Guards:
    """The files that a clean must keep."""

    savepoints: tuple[str, ...] = ()
    """Times of the savepoints, oldest first."""
    savepointed: frozenset[str] = frozenset()
    """File names of savepoints; a slice with one of them is kept as a whole."""
    compacting: Mapping[FileGroup, str] = field(default_factory=dict)
    """Maps each file group of a pending compaction or log compaction to the base instant of its first slice to keep."""
    clustering: frozenset[tuple[str, str]] = frozenset()
    """Partition path and name of the files that pending clusterings read."""

    def needs(self, partition: str, file_id: str, base_instant: str) -> bool:
        """Returns whether a pending compaction or log compaction needs a slice."""
        since = self.compacting.get((partition, file_id))
        return since is not None and base_instant >= since


def savepoints_of(timeline: Timeline) -> list[Instant]:
    """Returns the completed savepoints, oldest commit first."""
    return [instant for instant in timeline.completed if instant.action is Action.SAVEPOINT]


def read_savepoint(storage: Storage, timeline: Timeline, savepoint: Instant) -> SavepointMetadata:
    """Reads the content of a completed savepoint. Raises CorruptFileError."""
    path = timeline.layout.path(savepoint.file_name)
    return decode_savepoint(storage.read(path), f"the savepoint {storage.uri}/{path}")


def load_guards(storage: Storage, timeline: Timeline) -> Guards:
    """Reads the savepoints and the pending plans of a timeline.

    Raises:
        CorruptFileError: one of them cannot be read, so nothing may be deleted.
    """
    savepoints = savepoints_of(timeline)
    names: set[str] = set()
    for savepoint in savepoints:
        for files in read_savepoint(storage, timeline, savepoint).files.values():
            names.update(files)
    compacting: dict[FileGroup, str] = {}
    clustering: set[tuple[str, str]] = set()
    plans = PendingPlans(storage, timeline)
    for instant in plans.of(*COMPACTIONS):
        plan = plans.compaction(instant)
        for operation in plan.operations if plan is not None else ():
            group = (operation.partition_path, operation.file_id)
            compacting[group] = min(operation.base_instant, compacting.get(group, operation.base_instant))
    for instant in plans.clusterings:
        clustering_plan = plans.clustering(instant)
        for slice_ in clustering_plan.slices if clustering_plan is not None else ():
            clustering.update((slice_.partition_path, name) for name in slice_.files)
    return Guards(tuple(instant.time for instant in savepoints), frozenset(names), compacting, frozenset(clustering))
