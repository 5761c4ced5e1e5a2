"""The table and the options that a table service works with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from hudi_py.config import Options
from hudi_py.metadata.files import metadata_lister
from hudi_py.model.properties import TableConfig
from hudi_py.progress import Progress
from hudi_py.storage import Storage
from hudi_py.storage.threads import write_threads
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import check_writable
from hudi_py.timeline.state import TableState, load_state
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import MetadataWriter
from hudi_py.transaction.recovery.failed_writes import consistent
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.view import FileSystemView, load_view


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """One call of a table service."""

    session: TableSession
    options: Options
    progress: Progress = field(default_factory=Progress.silent)

    @classmethod
    def of(
        cls,
        storage: Storage,
        options: Options,
        metadata: MetadataWriter,
        *,
        config: TableConfig | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        clock: InstantClock | None = None,
    ) -> ServiceContext:
        """Return the context that the options describe. For the arguments see `TableSession.of`.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedTableError: the table's version can only be read.
        """
        session = TableSession.of(
            storage, options, metadata, config=config, clock=clock, storage_options=storage_options
        )
        check_writable(session.config)
        return cls(session, options, progress or Progress.silent())

    @property
    def storage(self) -> Storage:
        return self.session.storage

    @property
    def threads(self) -> int:
        """How many files are processed in parallel."""
        return write_threads(self.options)

    def config(self) -> TableConfig:
        """The table's current properties."""
        return self.session.reread().config

    def state(self) -> TableState:
        """The current properties and active timeline."""
        return load_state(self.storage, self.session.zone)

    def timeline(self) -> Timeline:
        """The current active timeline."""
        return self.state().timeline

    def view(self, state: TableState) -> FileSystemView:
        """The file slices of a state, listed from the metadata table if it is valid."""
        lister, _ = metadata_lister(state)
        return load_view(state, lister)

    def locked(self, purpose: str) -> AbstractContextManager[LockedTable]:
        """See `consistent`."""
        return consistent(self.session, purpose)
