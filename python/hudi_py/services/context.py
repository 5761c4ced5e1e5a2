"""What a table service works with, and how its action completes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.metadata.files import metadata_lister
from hudi_py.model.instant import Action, CompletionTime
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage, with_durability
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import check_writable, load_table_config
from hudi_py.timeline.state import TableState, load_state
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView, load_view
from hudi_py.write.instants import complete
from hudi_py.write.locks import FileLock
from hudi_py.write.metadata_drop import warn_dropped
from hudi_py.write.progress import Progress
from hudi_py.write.protocols import MetadataWriter, Recorded, TableChange
from hudi_py.write.recovery import finish_recovery
from hudi_py.write.restore import pending_restores
from hudi_py.write.rollback import pending_rollbacks
from hudi_py.write.settings import TransactionSettings


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """One call of a table service: the table, what was asked for, and how the table is kept consistent."""

    storage: Storage
    options: Options
    settings: TransactionSettings
    clock: InstantClock
    metadata: MetadataWriter | None = None
    """None: the table is a metadata table itself, which has none."""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    progress: Progress = field(default_factory=Progress.silent)
    locks: bool = True
    """False: the caller holds the table lock already."""
    _held: list[FileLock] = field(default_factory=list, repr=False, compare=False)
    """The table lock while `locked` has it."""

    @classmethod
    def of(
        cls,
        storage: Storage,
        options: Options,
        metadata: MetadataWriter | None,
        *,
        config: TableConfig | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        clock: InstantClock | None = None,
    ) -> ServiceContext:
        """A context as options ask for it.

        `config`: None: read now.

        Raises:
            TableNotFoundError, UnsupportedTableError: there is no table, or it is of a version which is only read.
        """
        settings = TransactionSettings.of(options)
        storage = with_durability(storage, settings.durable)
        config = config if config is not None else load_table_config(storage)
        check_writable(config)
        return cls(
            storage,
            options,
            settings,
            clock if clock is not None else InstantClock(config, skew_ms=settings.clock_skew_ms),
            metadata,
            storage_options,
            progress or Progress.silent(),
        )

    @property
    def threads(self) -> int:
        """How many files are worked on side by side."""
        return self.options.get(write_config.WRITE_THREADS) or os.cpu_count() or 1

    def config(self) -> TableConfig:
        """The table's properties as they are now."""
        return load_table_config(self.storage)

    def state(self) -> TableState:
        """Properties and active timeline as they are now."""
        return load_state(self.storage, self.clock.zone)

    def timeline(self) -> Timeline:
        """The active timeline as it is now."""
        return self.state().timeline

    def view(self, state: TableState) -> FileSystemView:
        """File slices as of a state; listed by the metadata table where there is one to trust."""
        config, timeline = state.config, state.timeline
        lister = metadata_lister(self.storage, config, timeline)[0] if self.metadata is not None else None
        return load_view(self.storage, config, timeline, lister)

    @contextlib.contextmanager
    def locked(self, purpose: str) -> Iterator[TableState]:
        """The table under its lock, read once there is no other process about. `purpose` goes on from "Cannot ...".

        A restore or rollback that a dead process left half done is finished first: until then no plan can be made on
        the table, nor one carried out.

        Raises:
            ConflictError: another engine is restoring the table.
            LockError: the lock was not had in time.
        """
        if not self.locks:
            yield self.state()
            return
        lock = FileLock(self.storage, self.settings.lock, purpose=purpose, storage_options=self.storage_options)
        with lock:
            state = self.state()
            if pending_restores(state.timeline) or pending_rollbacks(state.timeline):
                finish_recovery(
                    self.storage, state.config, settings=self.settings, clock=self.clock, metadata=self.metadata
                )
                state = self.state()
            self._held.append(lock)
            try:
                yield state
                self.storage.sync()  # what no completed file follows, such as a plan that was dropped
            finally:
                self._held.remove(lock)

    def check_lock(self) -> None:
        """Raises LockError when the table lock that `locked` has is not ours any more: somebody took it away."""
        for lock in self._held:
            lock.check()


def complete_action(
    context: ServiceContext, state: TableState, action: Action, change: TableChange, content: bytes
) -> CompletionTime | None:
    """Completes an inflight action: metadata table, completed file, metadata table's services. The lock must be held.

    Args:
        state: what `locked` gave.
        action: that of the pending files, such as `COMPACTION`; `change.action` is what it completes as.
        content: of the completed file.

    Returns:
        The completion time; None on timeline layout 1, which records none.

    Raises:
        ConflictError: the action is not inflight, or completed already.
        LockError: the lock was taken away meanwhile; nothing is completed.
    """
    storage, timeline = context.storage, state.timeline
    recorded = Recorded()
    if context.metadata is not None:
        recorded = context.metadata.record(storage, state, change, context.clock)
    completion = context.clock.next_completion(timeline, change.instant)
    context.check_lock()
    done = complete(storage, timeline.layout, change.instant, action, completion, content)
    recorded.maintain(timeline.plus(done))
    warn_dropped(state.config, recorded.dropped)
    return completion if timeline.layout.version >= 2 else None
