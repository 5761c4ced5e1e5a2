"""Instants: the entries of a table's timeline, their names and their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NewType, Protocol, runtime_checkable

InstantTime = NewType("InstantTime", str)
"""Requested time, `yyyyMMddHHmmssSSS` (17 digits; 14 in tables of old releases), in the table's time zone."""
CompletionTime = NewType("CompletionTime", str)
"""Completion time in the same form; written into completed file names since table version 8."""


class Action(str, Enum):
    """What an instant does to the table."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMA_COMMIT = "schemacommit"

    @property
    def comparable(self) -> Action:
        """Returns the action of a completed instant of this kind (`InstantComparators`, 1.2.0)."""
        return _COMPARABLE.get(self, self)


_COMPARABLE = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}

WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""Comparable actions that publish data files."""


class State(IntEnum):
    """State of an instant, in ascending order."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


@dataclass(frozen=True, slots=True)
class Instant:
    """An action on the timeline, in its highest state."""

    time: InstantTime
    action: Action
    """From the file's name: a pending compaction is `COMPACTION`, a completed one is `COMMIT`."""
    state: State
    file_name: str
    """Name within the timeline folder."""
    completion_time: CompletionTime | None = None
    """None while pending. In layout 1, the modification time of the completed file, in the table's time zone."""
    legacy: bool = False
    """True for a completed layout-2 file without a completion time in its name, whose content is layout-1 JSON."""
    sort_key: tuple[str, str, int] = field(init=False, repr=False, compare=False)
    """Sort key: requested time, comparable action, state (`InstantComparators.RequestedTimeBasedComparator`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sort_key", (self.time, self.action.comparable.value, int(self.state)))

    @property
    def completed(self) -> bool:
        return self.state is State.COMPLETED


@runtime_checkable
class CommitTimes(Protocol):
    """The two times of a commit, such as those of a `WriteResult`. Both are None if nothing was committed."""

    @property
    def instant(self) -> InstantTime | None:
        """Requested time."""

    @property
    def completion_time(self) -> CompletionTime | None:
        """None also in timeline layout 1."""
