"""What actions need from higher layers: updates of the metadata table within each action, and what follows a commit.
Declared here, implemented in `metadata_write` and `services`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hudi_py.file_stats.sidecar import SidecarSettings
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.timeline import Timeline

if TYPE_CHECKING:
    from hudi_py.transaction.session import TableSession


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an action changes in the table, for the metadata table to record before the action completes."""

    instant: InstantTime
    action: Action
    """As it completes: a compaction is a `COMMIT`, a log compaction a `DELTA_COMMIT`."""
    commit: CommitMetadata | None = None
    """Of commits, deltacommits and replacecommits."""
    added: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Partition path, file name, bytes: files which no statistic of `commit` names (rollback blocks)."""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to names of deleted files (clean, rollback, restore)."""
    deleted_partitions: tuple[str, ...] = ()
    """Partitions that were deleted altogether (clean)."""
    rolled_back: tuple[InstantTime, ...] = ()
    """Instants undone (rollback, restore)."""
    sidecars: str = ""
    """Folder with the sidecars of the action's files, relative to the base path; empty: there are none."""


def _nothing(timeline: Timeline) -> None:
    """The maintenance of a metadata table that needs none."""


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """What recording an action did to the metadata table, and what remains to be done."""

    dropped: tuple[str, ...] = ()
    """The metadata partitions which had to be dropped, sorted."""
    maintain: Callable[[Timeline], None] = _nothing
    """To be called with the timeline once the action's completed file is on it, the table lock still held: runs the
    metadata table's own services where they are due. Failures are logged, and never undo the action."""


class MetadataWriter(Protocol):
    """Keeps the metadata table of a table up to date. Pickles; holds no credentials.

    The caller of every method but `check` and `sidecar` holds the table lock. The properties are the `config` of the
    session.
    """

    def check(self, session: TableSession, rolled_back: tuple[InstantTime, ...] = ()) -> None:
        """Refuses, before anything is done, what would leave a metadata partition wrong.

        `rolled_back`: asked for a rollback of these instants rather than for a write.

        Raises:
            ConfigError: there are partitions that can be neither kept up nor dropped.
        """
        ...

    def prepare(self, session: TableSession, timeline: Timeline) -> TableConfig:
        """Before an instant is chosen: ends what a killed process left half done, and makes, extends or drops the
        metadata table as the options ask. Idempotent. Returns the properties as they are then.

        Writes that are pending in the timeline belong to living writers: their changes are not undone, and their files
        are left out of what is made."""
        ...

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        """Makes the same change in the metadata table, before the action's completed file exists. Idempotent per
        instant. Properties and timeline were read since the table lock was acquired."""
        ...

    def sidecar(self, config: TableConfig, schema_json: str) -> SidecarSettings | None:
        """What the writers of data files note of each file in its sidecar, by the properties as `prepare` left them and
        the Avro schema of the write; None: nothing. The lock need not be held."""
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """A write that was committed, for what follows it."""

    instant: InstantTime
    completion_time: CompletionTime | None
    """None on timeline layout 1, which stores none."""
    operation: str
    """Name of a `WriteOperationType`."""
    partitions: tuple[str, ...]
    """Partition paths with files written or replaced, sorted."""
    files: tuple[str, ...]
    """Paths of the data files written, relative to the base path."""


class AfterCommit(Protocol):
    """What follows a commit once the lock is free, such as table services. Pickles; holds no credentials."""

    def check(self, config: TableConfig) -> None:
        """Before the write: refuses tables on which this fails after each commit.

        Raises:
            UnsupportedTableError: what cannot be done, and what instead.
        """
        ...

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Does what is due. Returns the names of what was done.

        The session is the write's: of its properties only those count that no other process changes, such as the type.
        """
        ...


def run_after(after: Iterable[AfterCommit], session: TableSession, committed: Committed) -> tuple[str, ...]:
    """Runs all that follows a commit, in order. Returns the names of what was done."""
    return tuple(name for each in after for name in each.run(session, committed))
