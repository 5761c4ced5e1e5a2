"""A table in one process, with the state that its actions share."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import NoReturn

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.config.write import DROP_INDEXES, DURABLE
from hudi_py.metadata.files import WriteLister
from hudi_py.model.instant import CompletionTime
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage, with_durability
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import BootstrapIndexes, TableState
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.conflicts import ConflictPolicy, conflict_policy
from hudi_py.transaction.locks import LockProvider, TableLock, caller_holds_lock, table_lock
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.protocols import AfterCommit, Committed, MetadataWriter
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.view import FileSystemView, StorageLister, load_view
from hudi_py.view.bootstrap import check_sources

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TableSession:
    """A table and the means to keep it consistent. Belongs to one process, like its clock, and does not pickle.
    Processes of an action share its handle instead (`TransactionHandle`, `Attempt`)."""

    storage: Storage
    config: TableConfig
    """The properties as this process last read them; those read under the lock are in `LockedTable`."""
    clock: InstantClock
    settings: TransactionSettings
    metadata: MetadataWriter
    """Records each action in the metadata table."""
    conflicts: ConflictPolicy
    """Decides which actions of other writers prevent a write from completing."""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    locks: LockProvider = table_lock
    after: tuple[AfterCommit, ...] = ()
    """The steps after each commit of a write, such as table services."""
    bootstrap: BootstrapIndexes = field(default_factory=dict, kw_only=True, repr=False)
    """See `TableState.bootstrap`."""

    @classmethod
    def open(
        cls,
        storage: Storage,
        metadata: MetadataWriter,
        *,
        config: TableConfig | None = None,
        settings: TransactionSettings | None = None,
        clock: InstantClock | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> TableSession:
        """Opens a session of the table at `storage`.

        Args:
            config: the properties; by default they are read now.
            clock: by default, a clock in the table's time zone.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedTableError: the table was bootstrapped from files that must not be read (`check_source`).
        """
        settings = settings if settings is not None else TransactionSettings()
        storage = with_durability(storage, settings.get(DURABLE))
        config = config if config is not None else load_table_config(storage)
        allowed = read_config.bootstrap_folders(settings.get(read_config.BOOTSTRAP_SOURCES))
        indexes = check_sources(storage, config, allowed)
        clock = clock if clock is not None else settings.clock(config)
        policy = conflict_policy(settings)
        return cls(storage, config, clock, settings, metadata, policy, storage_options, bootstrap=indexes)

    @property
    def layout(self) -> Layout:
        return layout_for(self.config)

    @property
    def zone(self) -> tzinfo:
        """The time zone of the table's instants."""
        return self.clock.zone

    def reread(self) -> TableSession:
        """Returns the same session with the current properties."""
        return self.at(load_table_config(self.storage))

    def at(self, config: TableConfig) -> TableSession:
        """Returns the same session with other properties, which this process has just written or read."""
        return replace(self, config=config)

    def timeline(self, *, locked: bool = False) -> Timeline:
        """Reads the current active timeline; for `locked` see `load_timeline`. The callers of some sessions, such as
        those of metadata tables, always hold the lock."""
        return load_timeline(self.storage, self.config, self.zone, locked=locked or self.locks is caller_holds_lock)

    def state(self, timeline: Timeline | None = None) -> TableState:
        """Returns the table with a timeline, by default the current one."""
        timeline = self.timeline() if timeline is None else timeline
        return TableState(self.storage, self.config, timeline, bootstrap=self.bootstrap)

    def view(self, timeline: Timeline) -> FileSystemView:
        """Returns the file slices of a timeline, as listed from storage."""
        return load_view(self.state(timeline))

    def view_for_write(
        self, timeline: Timeline, *, like: FileSystemView | None = None, checked: FileSystemView | None = None
    ) -> FileSystemView:
        """Returns the file slices of a timeline for a write: listed by the metadata table where it agrees with the
        timeline, else from storage (`FileSystemView.proven_by`).

        Args:
            like: a view of the same timeline, whose plans and replaced file groups need not be read again.
            checked: a view of the metadata table as it was with this timeline; None: opened when it is needed.
        """
        view = self.view(timeline) if like is None else like
        if not self.metadata.maintains:
            return view
        lister = WriteLister(view.state, checked)
        return view.proven_by(StorageLister(self.storage, self.config), lister)

    def completion_shown(self, completion: CompletionTime | None) -> CompletionTime | None:
        """Returns a completion time as reported in results: None on timeline layout 1, which does not store any."""
        return completion if self.layout.has_completion_times else None

    @contextmanager
    def locked(self, purpose: str) -> Iterator[LockedTable]:
        """Locks the table and reads it once the lock is acquired. `purpose` follows "Cannot" in messages.

        Raises:
            LockError: the lock could not be acquired within the configured time.
        """
        lock = self.locks(self.storage, self.settings.lock, purpose=purpose, storage_options=self.storage_options)
        began = time.monotonic()
        with lock:
            locked = time.monotonic()
            _log.debug("locked %s after %.3f s, to %s", self.storage.uri, locked - began, purpose)
            yield LockedTable.read(self, lock)
            self.storage.sync()  # flushes writes that no completed file follows, such as the removal of a plan
        _log.debug("unlocked %s after %.3f s", self.storage.uri, time.monotonic() - locked)

    def run_after(self, committed: Committed) -> tuple[str, ...]:
        """Runs the steps after a commit, in order. Returns the names of those taken."""
        return tuple(name for step in self.after for name in step.run(self, committed))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a TableSession belongs to its process and may hold credentials; it cannot be pickled")


@dataclass(frozen=True, slots=True, eq=False)
class WriteTarget:
    """A table that a call changes, which need not exist yet: where it is, the options of the call, and what each commit
    does besides its own files. Belongs to one process, like a session."""

    storage: Storage
    options: Options
    """With those of the storage."""
    metadata: MetadataWriter | None = None
    """Records each action in the metadata table; None: actions that would outdate it drop it."""
    after: tuple[AfterCommit, ...] = ()
    """See `TableSession.after`."""
    clock: InstantClock | None = field(default=None, kw_only=True)
    """None: a clock in the table's time zone."""

    @property
    def durable(self) -> Storage:
        """The storage, which flushes written files to disk if the options say so."""
        return with_durability(self.storage, self.options.get(DURABLE))

    def check(self, config: TableConfig) -> None:
        """Refuses a table on which a step after each commit would fail. Raises as `AfterCommit.check`."""
        for step in self.after:
            step.check(config)

    def session(self, config: TableConfig | None = None) -> TableSession:
        """Opens a session of the table.

        Args:
            config: the properties; by default they are read now.

        Raises:
            ConfigError: options contradict each other.
            TableNotFoundError, UnsupportedTableError: as `TableSession.open`.
        """
        settings = TransactionSettings.of(self.options)
        session = TableSession.open(
            self.storage,
            self.metadata or DropMetadata(settings.get(DROP_INDEXES)),
            config=config,
            settings=settings,
            clock=self.clock,
            storage_options=self.options.for_storage(),
        )
        return replace(session, after=self.after) if self.after else session


@dataclass(frozen=True, slots=True, eq=False)
class LockedTable(TableState):
    """A table under its lock; valid until the lock is released."""

    session: TableSession
    """The session with the properties read under the lock."""
    lock: TableLock
    plans: PendingPlans
    """Plans of the timeline's pending instants."""

    @classmethod
    def read(cls, session: TableSession, lock: TableLock) -> LockedTable:
        """Reads the current properties and timeline."""
        current = session.reread()
        timeline = current.timeline(locked=True)
        plans = PendingPlans(session.storage, timeline)
        return cls(session.storage, current.config, timeline, current, lock, plans, bootstrap=current.bootstrap)

    def reread(self) -> LockedTable:
        """Returns the table after this process has changed it under the same lock."""
        return LockedTable.read(self.session, self.lock)
