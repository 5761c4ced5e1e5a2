"""Ends an action: records it in the metadata table, then completes it on the timeline.

Only the order matters. Readers rely on the completed file alone, so everything they need is written before it: the data
files, then their records in the metadata table. Maintenance follows, and its failures change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hudi_py.errors import ConfigError
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime
from hudi_py.storage.base import ConditionalStorage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.metadata_drop import warn_dropped
from hudi_py.transaction.protocols import MetadataUpdate, TableChange
from hudi_py.transaction.session import LockedTable


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The part of an operation that is left to commit."""

    stats: Sequence[WriteStat]
    """One for each file written."""
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The file groups that the commit replaces, by partition path."""
    relied_on: Sequence[str] = ()
    """Partitions of the metadata table that it has read. They must exist until its commit: where files are gone
    already, keys would be considered new."""
    knows_keys: bool = False
    """Whether it has looked its keys up in all partitions."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A completed action."""

    instant: InstantTime
    completion_time: CompletionTime | None
    """None on timeline layout 1, which does not store completion times."""
    dropped_metadata_partitions: tuple[str, ...] = ()
    timeline: Timeline | None = field(default=None, compare=False, repr=False)
    """The table's timeline including the action; None if it had been completed before."""


@dataclass(frozen=True, slots=True)
class LockedAction:
    """An action that the holder of the table lock moves along the timeline: requested, inflight, completed.

    An action that writes data files is executed in attempts, see `attempt`.
    """

    table: LockedTable
    """The timeline of this table need not contain the action's own files."""
    instant: InstantTime
    action: Action
    """The action of the pending files, such as `COMPACTION`."""

    @property
    def layout(self) -> Layout:
        return self.table.timeline.layout

    @property
    def files(self) -> InstantFiles:
        return InstantFiles(self.table.storage, self.layout, self.instant, self.action)

    @property
    def completed(self) -> Instant | None:
        """The instant if it is completed."""
        instant = self.table.timeline.find(self.instant, self.action)
        return instant if instant is not None and instant.completed else None

    def check_pending(self) -> Instant:
        """Returns the pending instant. Raises ConfigError if there is none."""
        pending = self.table.plans.of(self.action)
        for instant in pending:
            if instant.time == self.instant:
                return instant
        raise ConfigError(
            f"Cannot run the {self.action.value} {self.instant} of {self.table.storage.uri}: there is no such pending "
            f"plan; pending: {', '.join(other.time for other in pending) or 'none'}",
            instant=self.instant,
        )

    def request(self, content: bytes) -> None:
        """Stores the plan. Raises ConflictError if the instant was requested with another plan."""
        self.files.request(content)

    def begin(self, content: bytes = b"", *, requested: bool = False) -> None:
        """Moves the action to inflight, see `InstantFiles.begin`."""
        self.files.begin(content, requested=requested)

    def remove(self) -> None:
        """Deletes the files of the pending action. Idempotent."""
        self.files.remove_pending()

    def complete(
        self, content: bytes, change: TableChange | None, *, in_between: Callable[[], None] | None = None
    ) -> CommitResult:
        """Completes the inflight action: metadata table, completed file, services of the metadata table.

        Args:
            content: content of the completed file.
            change: the completed action, for the metadata table; None for those that it does not record (savepoints).
            in_between: changes the timeline after the metadata table is updated and before the action completes.

        Raises:
            ConflictError: the action is not inflight, or is already completed.
            LockError: the lock was lost in the meantime; nothing is completed.
        """
        session, timeline = self.table.session, self.table.timeline
        update = MetadataUpdate()
        if change is not None:
            update = session.metadata.record(session, timeline, change)
        if in_between is not None:
            in_between()
            timeline = session.timeline()
        if not session.layout.has_completion_times and isinstance(session.storage, ConditionalStorage):
            # the modification time of the file, in whole seconds, is its completion time
            session.clock.wait_second(self.instant)
        completion = session.clock.next_completion(timeline, self.instant)
        if session.settings.optimistic and session.layout.has_completion_times:
            session.clock.wait_skew()  # moves the next writer's clock past it, as Apache Hudi's writers expect
        self.table.lock.check()
        done = InstantFiles(session.storage, session.layout, self.instant, self.action).complete(completion, content)
        timeline = timeline.plus(done)
        update.maintain(timeline)
        warn_dropped(session.config, update.dropped)
        return CommitResult(self.instant, session.completion_shown(completion), update.dropped, timeline)
