"""A write of one instant: started, its files published under permits, committed or rolled back.

One transaction may span processes. The process that plans the write chooses the instant and pins what it saw; what it
hands on is a `TransactionHandle`, a small frozen value. Every process that takes part attaches to the handle:

    handle = WriteTransaction.plan(storage, config, action=..., operation="UPSERT", settings=...)   # one process
    with WriteTransaction.attach(handle, storage_options) as tx:                                    # any number of them
        permit = tx.permit_base_file(partition, file_id, write_token, merges=False)
        ... write storage file permit.temp_path ...
        tx.publish(permit)
    WriteTransaction.attach(handle, storage_options).commit(stats, schema_json=...)                 # one process

A writer that is one process says `with WriteTransaction.begin(...) as tx: ...; tx.commit(...)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.view import FileSystemView
from hudi_py.write.identity import ProcessIdentity, WriterIdentity
from hudi_py.write.settings import TransactionSettings


@dataclass(frozen=True, slots=True)
class TransactionHandle:
    """What every process of one write needs to know of it. Pickles small, holds no credentials."""

    table_uri: str
    instant: InstantTime
    action: Action
    """`COMMIT`, `DELTA_COMMIT` or `REPLACE_COMMIT`."""
    operation: str
    """Name of a `WriteOperationType`, e.g. `UPSERT`, `INSERT_OVERWRITE_TABLE`."""
    config: TableConfig
    """The table's properties when the write was planned."""
    pin: Pin
    """What the planning process saw of the timeline."""
    writer: WriterIdentity
    zone: str
    """IANA name of the zone in which the instants of this write are told; `UTC` for tables in UTC."""
    settings: TransactionSettings


@dataclass(frozen=True, slots=True)
class FilePermit:
    """Leave to publish one data file: its marker exists. All paths relative to the table's base path."""

    path: str
    """Where readers will find the file."""
    temp_path: str
    """Where it is written."""
    marker_path: str


@dataclass(frozen=True, slots=True)
class CommitResult:
    instant: InstantTime
    completion_time: CompletionTime | None
    """None on timeline layout 1, which records none."""
    dropped_metadata_partitions: tuple[str, ...] = ()


class WriteTransaction:
    """One process's part in the write of an instant. Methods may be called from several threads.

    As a context manager it starts (`start`) on entry and, on exit, rests (`rest`); with `begin` an exception inside the
    block aborts the write, with `attach` it does not: only the process that owns the write decides.
    """

    handle: TransactionHandle
    storage: Storage

    @classmethod
    def plan(
        cls,
        storage: Storage,
        config: TableConfig,
        *,
        action: Action,
        operation: str,
        settings: TransactionSettings | None = None,
        owner: ProcessIdentity | None = None,
        clock: InstantClock | None = None,
        instant: InstantTime | None = None,
        writer_id: str | None = None,
    ) -> TransactionHandle:
        """Recovers failed writes, then chooses the instant under the table lock and pins the timeline.

        Writes nothing of the new instant. `owner` is the process whose death ends the write: this one when None is
        given and the write begins here (`begin`); in a distributed engine the driver, or None when it is not known,
        and then only the heartbeat tells.

        Raises:
            ConfigError: the metadata table holds indexes that this release neither maintains nor may drop
                (`hoodie.write.py.drop.indexes`), or the timeline is ahead of the clock.
            ConflictError: another write is under way; names its instant.
            LockError: the lock was not had in time.
        """

    @classmethod
    def begin(
        cls,
        storage: Storage,
        config: TableConfig,
        *,
        action: Action,
        operation: str,
        settings: TransactionSettings | None = None,
        clock: InstantClock | None = None,
        instant: InstantTime | None = None,
        writer_id: str | None = None,
    ) -> WriteTransaction:
        """`plan` and `start` in one: for a writer that is one process. Raises what they raise."""

    @classmethod
    def attach(
        cls,
        handle: TransactionHandle,
        storage_options: Mapping[str, str] | None = None,
        *,
        storage: Storage | None = None,
    ) -> WriteTransaction:
        """Takes part in a planned write. Touches no storage until `start`, `commit` or `abort`."""

    # -- what the writer sees -------------------------------------------------------------------------------------

    @property
    def instant(self) -> InstantTime: ...

    @property
    def config(self) -> TableConfig: ...

    @property
    def timeline(self) -> Timeline:
        """The timeline as pinned: what came later is hidden."""

    @property
    def view(self) -> FileSystemView:
        """File system view over the pinned timeline; loaded once."""

    @property
    def staging(self) -> str:
        """Folder for intermediate files of this write, relative to the base path: `.hoodie/.hudi_py/<instant>/stage`.

        Vanishes with the write.
        """

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Makes the instant pending, if it is not, and keeps its heartbeat going from this process. Idempotent.

        Raises:
            ConflictError: the instant is another writer's, or another write began since the plan.
            RolledBackError: the write was rolled back, or is being committed, or its heartbeat expired.
        """

    def rest(self) -> None:
        """Stops this process's heartbeat; the write stays pending. Idempotent."""

    def __enter__(self) -> WriteTransaction: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    # -- data files -----------------------------------------------------------------------------------------------

    def permit_base_file(
        self, partition: PartitionPath, file_id: FileId, write_token: str, *, merges: bool
    ) -> FilePermit:
        """Creates the marker of a base file of this instant (and the partition's metafile, if absent).

        `merges`: the file replaces an earlier version of its file group (marker type MERGE, otherwise CREATE).
        `write_token` (`<task>-<stage>-<attempt>`) must be unique to the attempt.

        Raises:
            RolledBackError: the write takes no more files.
        """

    def permit_log_file(
        self,
        partition: PartitionPath,
        file_id: FileId,
        write_token: str,
        *,
        base_instant: str | None = None,
        version: int = 1,
    ) -> FilePermit:
        """The same for a log file. Table version 6 names it by the slice's `base_instant` and the next free `version`;
        since version 8 its name holds this instant and both are left alone."""

    def publish(self, permit: FilePermit) -> None:
        """Moves a completely written file to its place, if its permit still stands.

        Raises:
            RolledBackError: the permit, or the file, was taken away: the attempt is to give up.
        """

    def discard(self, permit: FilePermit) -> None:
        """Gives a permit back: removes marker, temporary file and file. Absent ones are fine."""

    # -- the end --------------------------------------------------------------------------------------------------

    def commit(
        self,
        stats: Sequence[WriteStat],
        *,
        schema_json: str,
        replaced: Mapping[str, Sequence[str]] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Publishes the write: `stats` name every file of it; files of attempts they do not name are removed.

        `schema_json`: Avro record without meta columns. `replaced`: partition path to replaced file ids (replacecommits).
        `extra` goes to `extraMetadata`. Idempotent: committing a published write again returns its times.

        Raises:
            ConflictError: another write, or a table service on the same file groups, came since the plan. The write is
                still pending: call `abort`.
            RolledBackError: the write was rolled back, or its heartbeat expired.
            LockError: the lock was not had in time.
        """

    def abort(self) -> None:
        """Rolls the write back. Idempotent; a published write stays published, an instant of another writer is left alone."""
