"""State of a publication, stored for the next one: which commits it showed, and which manifests name its files.

With it, a publication reads only file groups that commits have changed since, and only manifests that may name their
files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hudi_py.errors import CorruptFileError
from hudi_py.interop.iceberg.target import MetadataFiles
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.limits import parse_json
from hudi_py.model.names import FileId, PartitionPath, join_path
from hudi_py.model.properties import TableConfig
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline

_FORMAT: Final = 1
_NO_ROWS: Final = frozenset((Action.CLEAN, Action.SAVEPOINT, Action.INDEXING))
"""Completed actions that do not change the result of a query."""

_WRITES: Final = frozenset(action.value for action in WRITE_ACTIONS)

Group = tuple[PartitionPath, FileId]
Ranges = tuple[tuple[str, str], ...]
"""First and last location of the base files that a manifest names, and of the side files."""


@dataclass(frozen=True, slots=True)
class Index:
    """The stored state of a publication."""

    table: str
    """Digest of the table's properties."""
    start: str
    """First active write instant of the timeline."""
    newest: str
    """Requested time of the newest completed write."""
    completed: frozenset[str] = field(repr=False)
    pending: frozenset[str] = field(repr=False)
    """Pending instants, in the form of `_instant_text`."""
    ranges: Mapping[str, Ranges] = field(repr=False)
    """Ranges by the locations of the manifests."""

    @classmethod
    def of(cls, config: TableConfig, timeline: Timeline, ranges: Mapping[str, Ranges]) -> Index:
        """Builds the index of a publication of this state."""
        last = timeline.last_completed
        return cls(
            digest(config),
            timeline.start or "",
            "" if last is None else last.time,
            frozenset(map(_instant_text, timeline.completed)),
            frozenset(item.time for item in timeline.pending),
            ranges,
        )

    def encode(self) -> bytes:
        members = {
            "format": _FORMAT,
            "table": self.table,
            "start": self.start,
            "newest": self.newest,
            "completed": sorted(self.completed),
            "pending": sorted(self.pending),
            "ranges": self.ranges,
        }
        return json.dumps(members, separators=(",", ":")).encode()

    def changed_groups(self, state: TableState) -> frozenset[Group] | None:
        """Returns the file groups whose rows commits may have changed since; None if commits do not say."""
        if (
            not state.config.logs_named_by_instant
            or self.table != digest(state.config)
            or not self._follows(state.timeline)
        ):
            # before version 8, blocks of a log become valid without a change of the file
            return None
        new = [item for item in state.timeline.completed if _instant_text(item) not in self.completed]
        writes = [item for item in new if item.action.comparable in WRITE_ACTIONS]
        if any(item.action not in _NO_ROWS for item in new if item not in writes):
            return None  # a rollback, restore or an unknown action
        result: set[Group] = set()
        for commit in when_remote(
            state.storage, lambda item: read_commit_metadata(state.storage, state.timeline.layout, item), writes
        ):
            result.update((PartitionPath(stat.partition_path), FileId(stat.file_id)) for stat in commit.stats)
            for partition, names in commit.replaced.items():
                result.update((PartitionPath(partition), FileId(name)) for name in names)
        return frozenset(result)

    def _follows(self, timeline: Timeline) -> bool:
        """Returns whether all instants that were completed then still count, and none can have been completed and
        archived since."""
        start, now = timeline.start or "", set(map(_instant_text, timeline.completed))
        writes = (item.partition(".") for item in self.completed - now)
        if any(time >= start and action in _WRITES for time, _, action in writes):
            return False  # one was rolled back
        if self.start == start:
            return True
        active = {instant.time for instant in timeline.instants}
        return bool(self.newest) and self.newest in active and self.pending <= active


def read_index(files: MetadataFiles, location: str | None) -> Index | None:
    """Reads the index of a publication; None if it has none that this release can use."""
    if location is None:
        return None
    try:
        members = parse_json(files.read(location))
        if members["format"] != _FORMAT:
            return None
        return Index(
            members["table"],
            members["start"],
            members["newest"],
            frozenset(members["completed"]),
            frozenset(members["pending"]),
            {path: tuple((low, high) for low, high in item) for path, item in members["ranges"].items()},
        )
    except (CorruptFileError, ValueError, KeyError, TypeError):
        return None  # read everything instead


def digest(config: TableConfig) -> str:
    """Returns a digest of a table's properties."""
    return hashlib.sha256(repr(sorted(config.properties.items())).encode()).hexdigest()[:16]


def group_name(group: Group) -> str:
    """Returns a short text for a file group, with which the names of its side files begin."""
    return hashlib.sha256(repr((str(group[0]), str(group[1]))).encode()).hexdigest()[:12]


def prefixes(files: MetadataFiles, group: Group) -> tuple[str, str]:
    """Returns the prefixes of the locations of a group's base files and side files."""
    base = files.located(f"{join_path(group[0], str(group[1]))}_")
    return base, files.located(files.side_prefix + group_name(group))


def ranges_of(files: MetadataFiles, locations: Iterable[str]) -> Ranges:
    """Returns the ranges of the locations that a manifest names."""
    item = sorted(locations)
    kinds = ([place for place in item if files.is_side(place) is side] for side in (False, True))
    return tuple((some[0], some[-1]) for some in kinds if some)


def may_name(ranges: Ranges | None, prefix: str) -> bool:
    """Returns whether a manifest may name a file whose location begins with a text. `ranges` None: unknown."""
    return ranges is None or any(low[: len(prefix)] <= prefix <= high for low, high in ranges)


def _instant_text(instant: Instant) -> str:
    return f"{instant.time}.{instant.action.comparable.value}"
