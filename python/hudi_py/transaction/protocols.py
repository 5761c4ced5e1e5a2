"""Interfaces that actions need from higher layers: metadata table updates within each action, and what follows a
commit. Declared here, implemented in `metadata_write` and `services`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hudi_py.file_stats.sidecar import SidecarSettings
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline

if TYPE_CHECKING:
    from hudi_py.transaction.session import TableSession


@dataclass(frozen=True, slots=True)
class TableChange:
    """The changes of an action to the table, which the metadata table records before the action completes."""

    instant: InstantTime
    action: Action
    """The completed action: a compaction is a `COMMIT`, a log compaction a `DELTA_COMMIT`."""
    commit: CommitMetadata | None = None
    """Metadata of commits, deltacommits and replacecommits."""
    added: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Size in bytes by partition path and file name, of files that no statistics in `commit` name (rollback blocks)."""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of deleted files by partition path (clean, rollback, restore)."""
    deleted_partitions: tuple[str, ...] = ()
    """Partitions deleted altogether (clean)."""
    rolled_back: tuple[InstantTime, ...] = ()
    """Undone instants (rollback, restore)."""
    sidecars: str = ""
    """Folder with the sidecars of the action's files, relative to the base path; empty if there are none."""
    knows_keys: bool = False
    """Whether the keys that the action adds were looked up in the whole table, in its current state."""


def _no_maintenance(timeline: Timeline) -> None:
    """Does nothing: there is no metadata table to maintain."""


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """The result of recording an action in the metadata table, and what remains to be done."""

    dropped: tuple[str, ...] = ()
    """The metadata partitions that had to be dropped, sorted."""
    maintain: Callable[[Timeline], None] = _no_maintenance
    """Runs the metadata table's own services that are due. Must be called with the timeline that has the action's
    completed file, while the table lock is still held. Failures are logged and never undo the action."""


class OpenedIndexes(Protocol):
    """Partitions of the metadata table that are being built. Belongs to one process."""

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions, in order of creation."""
        ...

    @property
    def state(self) -> TableState:
        """The state of the table that they are built from."""
        ...


OpenedT = TypeVar("OpenedT", bound=OpenedIndexes)


class IndexBuilder(Protocol[OpenedT]):
    """Builds partitions of the metadata table beside writers: `open`, `fill`, `publish`. The caller of all methods that
    take a session holds the table lock. Pickles."""

    def wanted(self, state: TableState) -> tuple[str, ...]:
        """Returns the partitions that the options ask for and the table lacks, in order of creation."""
        ...

    def check(self, state: TableState, names: Collection[str]) -> None:
        """Raises ConfigError if the table cannot have one of these partitions, or lacks one that it needs."""
        ...

    def define(self, session: TableSession, timeline: Timeline, names: Collection[str]) -> None:
        """Stores what the options decide about partitions, for whoever builds them."""
        ...

    def stages(self, config: TableConfig, names: Collection[str]) -> list[tuple[str, ...]]:
        """Puts these partitions in the order in which they are built: those that need others follow them."""
        ...

    def needs_lock(self, config: TableConfig) -> bool:
        """Returns whether they are built under the table lock, as files do not show which write they belong to (logs of
        table version 6)."""
        ...

    def open(self, session: TableSession, timeline: Timeline, names: Collection[str], instant: InstantTime) -> OpenedT:
        """Creates empty partitions, which writers update from then on.

        Args:
            instant: of the indexing, which is inflight.

        Raises:
            ConflictError: a write is under way, and the table has version 6; or there is no metadata table.
            CorruptFileError: data files are lost.
        """
        ...

    def fill(self, opened: OpenedT, check: Callable[[], None]) -> None:
        """Writes the records of the state from which the partitions are built. The lock need not be held.

        Args:
            check: called before and after each file; raises if none may be written any more.

        Raises:
            FileNotFoundError, CorruptFileError, HistoryCleanedError: a file of that state is missing.
        """
        ...

    def publish(self, session: TableSession, timeline: Timeline, opened: OpenedT) -> str:
        """Lets readers use the partitions, unless they must be built again. Returns why; empty if readers use them.

        Raises:
            ConfigError: the table can no longer have them.
        """
        ...

    def clear(
        self, session: TableSession, names: Collection[str], instant: InstantTime, *, keep_published: bool = True
    ) -> None:
        """Removes what an attempt at an indexing made of these partitions, which it can no longer write. Idempotent.

        Args:
            names: all partitions of the plan.
            instant: of the indexing.
            keep_published: keeps those that readers use.
        """
        ...

    def forget(self, session: TableSession, names: Collection[str]) -> None:
        """Removes what `define` stored, of the partitions that the table does not have. Idempotent."""
        ...


class MetadataWriter(Protocol):
    """Keeps the metadata table of a table up to date. Pickles; holds no credentials.

    The caller of every method except `check` and `sidecar` holds the table lock. The properties are the `config` of the
    session.
    """

    @property
    def maintains(self) -> bool:
        """Whether a metadata table is kept, so that its listings can be relied on, rather than dropped."""
        ...

    @property
    def builder(self) -> IndexBuilder[Any] | None:
        """Builds partitions beside writers; None if no metadata table is kept."""
        ...

    def check(self, session: TableSession, rolled_back: tuple[InstantTime, ...] = ()) -> None:
        """Refuses, before anything is done, an action that would leave a metadata partition wrong.

        `rolled_back`: asks about a rollback of these instants rather than a write.

        Raises:
            ConfigError: there are partitions that can be neither maintained nor dropped.
        """
        ...

    def prepare(self, session: TableSession, timeline: Timeline) -> TableConfig:
        """Finishes what a killed process left, before an instant is chosen, and creates, extends or drops the
        metadata table as the options ask. Idempotent. Returns the properties afterwards.

        Pending writes in the timeline belong to live writers: their changes are not undone, and their files are left
        out of new partitions."""
        ...

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        """Records the change in the metadata table before the action's completed file is written. Idempotent per
        instant. Properties and timeline were read after the table lock was acquired."""
        ...

    def convert(self, session: TableSession, timeline: Timeline, version: int) -> TableConfig:
        """Prepares the metadata table for another version of the table: finishes what a killed process left, drops the
        partitions that the version cannot have, and compacts logs that it would not find. Drops the metadata table if
        it cannot be kept. No write is pending. Returns the properties afterwards."""
        ...

    def sidecar(self, config: TableConfig, schema_json: str) -> SidecarSettings | None:
        """Returns what writers of data files store about each file in its sidecar, given the properties that `prepare`
        returned and the Avro schema of the write; None: nothing. The lock need not be held."""
        ...


@dataclass(frozen=True, slots=True)
class NoMetadata:
    """The `MetadataWriter` of tables without a metadata table, such as metadata tables themselves."""

    maintains: bool = False
    builder: None = None

    def check(self, session: TableSession, rolled_back: tuple[InstantTime, ...] = ()) -> None:
        """See `MetadataWriter.check`."""

    def prepare(self, session: TableSession, timeline: Timeline) -> TableConfig:
        """See `MetadataWriter.prepare`."""
        return session.config

    def record(self, session: TableSession, timeline: Timeline, change: TableChange) -> MetadataUpdate:
        """See `MetadataWriter.record`."""
        return MetadataUpdate()

    def convert(self, session: TableSession, timeline: Timeline, version: int) -> TableConfig:
        """See `MetadataWriter.convert`."""
        return session.config

    def sidecar(self, config: TableConfig, schema_json: str) -> SidecarSettings | None:
        """See `MetadataWriter.sidecar`."""
        return None


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed write, passed to the steps that follow it."""

    instant: InstantTime
    completion_time: CompletionTime | None
    """None on timeline layout 1, which does not store completion times."""
    operation: str
    """Name of a `WriteOperationType`."""
    partitions: tuple[str, ...]
    """Partition paths with files written or replaced, sorted."""
    files: tuple[str, ...]
    """Paths of the data files written, relative to the base path."""
    timeline: Timeline | None = None
    """The timeline with the commit; None if it is not known."""


class AfterCommit(Protocol):
    """A step after a commit once the lock is free, such as a table service. Pickles; holds no credentials."""

    def check(self, config: TableConfig) -> None:
        """Refuses tables, before the write, on which the step would fail after each commit.

        Raises:
            UnsupportedTableError: names what is unsupported and the alternative.
        """
        ...

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Runs what is due. Returns the names of the steps taken.

        The session is the write's: only properties that no other process changes, such as the type, are reliable.
        """
        ...
