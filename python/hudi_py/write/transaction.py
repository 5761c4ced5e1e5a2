"""A write of one instant: started, its files published under permits, committed or rolled back.

One transaction may span processes. The process that plans the write chooses the instant and pins what it saw; what it
hands on is a `TransactionHandle`, a small frozen value. Every process that takes part attaches to the handle:

    handle = WriteTransaction.plan(storage, config, action=..., operation="UPSERT", settings=...)   # one process
    with WriteTransaction.attach(handle, storage_options) as tx:                                    # any number of them
        permit = tx.publication.permit_base_file(partition, file_id, write_token, merges=False)
        ... write storage file permit.temp_path ...
        tx.publication.publish(permit)
    WriteTransaction.attach(handle, storage_options).commit(stats, schema_json=...)                 # one process

A writer that is one process says `with WriteTransaction.begin(...) as tx: ...; tx.commit(...)`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from types import TracebackType

from hudi_py.errors import ConfigError, ConflictError, HudiError, RolledBackError
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage, open_storage, with_durability
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.metadata import encode_commit_metadata, encode_replace_request
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Pin, Timeline, load_timeline
from hudi_py.view import FileSystemView, load_view
from hudi_py.write.conflicts import check_conflicts, pending_writes
from hudi_py.write.heartbeat import Heartbeat
from hudi_py.write.identity import (
    WRITER_KEY,
    ProcessIdentity,
    WriterIdentity,
    begin_work,
    end_work,
    new_writer_id,
    process_identity,
)
from hudi_py.write.instants import complete, inflight_path, requested_path
from hudi_py.write.locks import FileLock
from hudi_py.write.markers import read_markers
from hudi_py.write.metadata_drop import DropMetadata, warn_dropped
from hudi_py.write.paths import gate_path, stage_folder
from hudi_py.write.protocols import MetadataWriter, TableChange
from hudi_py.write.publication import Publication
from hudi_py.write.recovery import settled_timeline
from hudi_py.write.rollback import forget_write, is_rolled_back, rollback_instant
from hudi_py.write.settings import TransactionSettings
from hudi_py.write.staging import bar_gate, close_gate, gate_keeper, is_barred, open_gate

_log = logging.getLogger(__name__)


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
    zone: tzinfo
    """Zone in which all instants of this write are told, whichever process tells them: the planning process's zone,
    or UTC for tables in UTC."""
    settings: TransactionSettings
    metadata: MetadataWriter
    """Keeps the metadata table up within the commit, or drops it."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    instant: InstantTime
    completion_time: CompletionTime | None
    """None on timeline layout 1, which records none."""
    dropped_metadata_partitions: tuple[str, ...] = ()


class WriteTransaction:
    """One process's part in the write of an instant. Methods may be called from several threads.

    As a context manager it starts (`start`) on entry and, on exit, rests (`rest`); with `begin` leaving the block
    without a commit aborts the write, with `attach` it does not: only the process that owns the write decides.
    """

    def __init__(
        self,
        handle: TransactionHandle,
        storage: Storage,
        *,
        storage_options: Mapping[str, str] | None = None,
        clock: InstantClock | None = None,
        owns: bool = False,
    ) -> None:
        self.handle = handle
        self.storage = storage
        self._storage_options = storage_options
        self._clock = (
            clock
            if clock is not None
            else InstantClock(handle.config, local=handle.zone, skew_ms=handle.settings.clock_skew_ms)
        )
        self._owns = owns
        self._layout: Layout = layout_for(handle.config)
        self._inflight = inflight_path(self._layout, handle.instant, handle.action)
        self._heartbeat = Heartbeat(
            storage,
            handle.instant,
            interval_ms=handle.settings.heartbeat_interval_ms,
            expiry_ms=handle.settings.heartbeat_expiry_ms,
        )
        self.publication = Publication(storage, handle.config, handle.instant, check_open=self._check_open)
        """Where data files of the write get their permits and are published."""
        self._mutex = threading.RLock()
        self._timeline: Timeline | None = None
        self._view: FileSystemView | None = None
        self._done = False

    @classmethod
    def plan(
        cls,
        storage: Storage,
        config: TableConfig,
        *,
        action: Action,
        operation: str,
        settings: TransactionSettings | None = None,
        metadata: MetadataWriter | None = None,
        owner: ProcessIdentity | None = None,
        clock: InstantClock | None = None,
        instant: InstantTime | None = None,
        writer_id: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> TransactionHandle:
        """Recovers failed writes, then chooses the instant under the table lock and pins the timeline.

        Writes nothing of the new instant. `owner` is the process whose death ends the write, such as the driver of a
        distributed engine; None when it is not known, and then only the heartbeat tells.

        Raises:
            ConfigError: the metadata table holds indexes that can be neither kept up nor dropped, or the timeline is
                ahead of the clock.
            ConflictError: another write is under way; names its instant.
            LockError: the lock was not had in time.
        """
        settings = settings or TransactionSettings()
        clock = clock if clock is not None else InstantClock(config, skew_ms=settings.clock_skew_ms)
        metadata = metadata if metadata is not None else DropMetadata(settings.drop_indexes)
        _check_action(action)
        metadata.check(storage, config)
        with settled_timeline(
            storage,
            config,
            settings=settings,
            clock=clock,
            metadata=metadata,
            purpose="choose the instant of a write",
            storage_options=storage_options,
        ) as timeline:
            config = metadata.prepare(storage, config, timeline, clock)
            return _choose(
                storage, config, timeline, action, operation, settings, metadata, owner, clock, instant, writer_id
            )

    @classmethod
    def begin(
        cls,
        storage: Storage,
        config: TableConfig,
        *,
        action: Action,
        operation: str,
        settings: TransactionSettings | None = None,
        metadata: MetadataWriter | None = None,
        clock: InstantClock | None = None,
        instant: InstantTime | None = None,
        writer_id: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> WriteTransaction:
        """`plan` and `start` in one: for a writer that is one process. Raises what they raise."""
        settings = settings or TransactionSettings()
        clock = clock if clock is not None else InstantClock(config, skew_ms=settings.clock_skew_ms)
        metadata = metadata if metadata is not None else DropMetadata(settings.drop_indexes)
        _check_action(action)
        metadata.check(storage, config)
        transaction: WriteTransaction | None = None
        owner = process_identity()
        try:
            with settled_timeline(
                storage,
                config,
                settings=settings,
                clock=clock,
                metadata=metadata,
                purpose="begin a write",
                storage_options=storage_options,
            ) as timeline:
                config = metadata.prepare(storage, config, timeline, clock)
                handle = _choose(
                    storage, config, timeline, action, operation, settings, metadata, owner, clock, instant, writer_id
                )
                transaction = cls(handle, storage, storage_options=storage_options, clock=clock, owns=True)
                transaction._timeline = timeline  # shows what the pin does
                begin_work(handle.writer.id)
                transaction._make_pending(timeline)
                transaction._heartbeat.start()
            return transaction
        except BaseException:
            if transaction is not None:
                transaction.rest()
            raise

    @classmethod
    def attach(
        cls,
        handle: TransactionHandle,
        storage_options: Mapping[str, str] | None = None,
        *,
        storage: Storage | None = None,
        clock: InstantClock | None = None,
    ) -> WriteTransaction:
        """Takes part in a planned write. Touches no storage until `start`, `commit` or `abort`."""
        if storage is None:
            storage = with_durability(open_storage(handle.table_uri, storage_options), handle.settings.durable)
        return cls(handle, storage, storage_options=storage_options, clock=clock)

    # -- what the writer sees -------------------------------------------------------------------------------------

    @property
    def instant(self) -> InstantTime:
        return self.handle.instant

    @property
    def config(self) -> TableConfig:
        return self.handle.config

    @property
    def timeline(self) -> Timeline:
        """The timeline as pinned: what came later is hidden."""
        with self._mutex:
            if self._timeline is None:
                self._timeline = load_timeline(self.storage, self.config, self.handle.zone).at(self.handle.pin)
            return self._timeline

    @property
    def view(self) -> FileSystemView:
        """File system view over the pinned timeline; loaded once."""
        with self._mutex:
            if self._view is None:
                self._view = load_view(self.storage, self.config, self.timeline)
            return self._view

    @property
    def staging(self) -> str:
        """Folder for intermediate files of this write, relative to the base path: `.hoodie/.hudi_py/<instant>/stage`.

        Vanishes with the write.
        """
        return stage_folder(self.instant)

    @property
    def sidecars(self) -> str:
        """Folder in which writers of data files leave what the metadata table is to know of them."""
        return f"{self.staging}/sidecars"

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Makes the instant pending, if it is not, and keeps its heartbeat going from this process. Idempotent.

        Raises:
            ConflictError: the instant is another writer's, or another write began since the plan.
            RolledBackError: the write was rolled back, or is being committed, or its heartbeat expired.
        """
        with self._mutex:
            if not self._is_ours():
                with self._lock("begin a write"):
                    timeline = load_timeline(self.storage, self.config)
                    if not self._is_ours():
                        self._make_pending(timeline)
            self._check_open()
            begin_work(self.handle.writer.id)
            self._heartbeat.start()

    def rest(self) -> None:
        """Stops this process's heartbeat; the write stays pending. Idempotent."""
        self._heartbeat.stop()
        end_work(self.handle.writer.id)

    def __enter__(self) -> WriteTransaction:
        if not self._heartbeat.running:  # as `begin` leaves it
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._owns and not self._done:
                self.abort()
            if error is None and not self._done:
                self.storage.sync()  # another process commits what this one has written
        except (HudiError, OSError) as failure:  # the error inside the block, if any, is the one to tell
            _log.warning("the failed write %s was not rolled back, the next write will: %s", self.instant, failure)
        finally:
            self.rest()

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

        `schema_json`: Avro record without meta columns. `replaced`: partition path to replaced file ids
        (replacecommits). `extra` goes to `extraMetadata`. Idempotent: committing a published write again returns its
        times.

        Raises:
            ConflictError: another write, or a table service on the same file groups, came since the plan. The write is
                still pending: call `abort`.
            RolledBackError: the write was rolled back, or its heartbeat expired.
            LockError: the lock was not had in time.
        """
        metadata = CommitMetadata(
            operation=self.handle.operation,
            stats=tuple(stats),
            extra={**(extra or {}), "schema": schema_json},
            replaced={partition: tuple(ids) for partition, ids in (replaced or {}).items()},
        )
        with self._mutex:
            beating = self._heartbeat.running
            # whether it still is ours is found out under the lock
            if not beating and not self._is_ours():
                self.start()  # no task ran
                beating = True
            done: CommitResult | None = None
            try:
                if not beating:
                    with contextlib.suppress(RolledBackError):  # what is wrong is found out under the lock
                        self._heartbeat.start()
                with self._lock(f"commit the write {self.instant}") as lock:
                    timeline = load_timeline(self.storage, self.config)
                    done = self._published(timeline)
                    if done is None:
                        done = self._publish(timeline, metadata, lock)
            except BaseException as error:
                if done is None or not isinstance(error, OSError):
                    if not beating:
                        self._heartbeat.stop()
                    raise
                self._warn_left(error)
            self._heartbeat.stop()
            try:
                forget_write(self.storage, self.instant)
            except OSError as error:
                self._warn_left(error)
            self._finish()
        warn_dropped(self.config, done.dropped_metadata_partitions)
        return done

    def abort(self) -> None:
        """Rolls the write back. Idempotent.

        A published write stays published, an instant of another writer is left alone.

        Raises:
            LockError: the lock was not had in time. The next write rolls this one back.
        """
        with self._mutex:
            if self._done:
                return
            self._heartbeat.stop()
            with self._lock(f"roll the write {self.instant} back"):
                timeline = load_timeline(self.storage, self.config)
                keeper = gate_keeper(self.storage, self.instant)
                holder = self._holds(keeper)
                pending = _find(timeline.pending, self.instant, self.handle.action)
                if holder and pending is not None:
                    rollback_instant(
                        self.storage,
                        self.config,
                        pending,
                        clock=self._clock,
                        metadata=self.handle.metadata,
                    )
                elif holder:
                    forget_write(self.storage, self.instant)
                elif keeper is None and _find(timeline.instants, self.instant, self.handle.action) is None:
                    # Nothing began it yet, and an attempt of a task that is still on its way must not either
                    bar_gate(self.storage, self.instant)
            self._finish()

    # -- how ------------------------------------------------------------------------------------------------------

    def _lock(self, purpose: str) -> FileLock:
        return FileLock(self.storage, self.handle.settings.lock, purpose=purpose, storage_options=self._storage_options)

    def _holds(self, keeper: WriterIdentity | None) -> bool:
        """Whether the instant, in whatever state, is this writer's by its gate or by its inflight file."""
        if keeper is not None:
            return keeper.id == self.handle.writer.id
        try:
            return self._is_ours()
        except ConflictError:
            return False

    def _is_ours(self) -> bool:
        """Whether the instant is pending (or completed) by this writer. An empty inflight file proves nothing."""
        try:
            content = self.storage.read(self._inflight)
        except FileNotFoundError:
            return False
        if self.handle.writer.id.encode() in content:
            return True
        raise ConflictError(
            f"Cannot write to {self.storage.uri} under the instant {self.instant}: another writer has taken it "
            f"({self._inflight}); write again"
        )

    def _make_pending(self, timeline: Timeline) -> None:
        """Creates the instant's pending files; the table lock must be held and the inflight file not be ours."""
        handle = self.handle
        if _find(timeline.completed, handle.instant, handle.action) is not None:
            raise self.publication.gone("it is completed, and not by an inflight file of this writer")
        if is_rolled_back(self.storage, timeline, handle.instant):
            raise self.publication.gone("a rollback names it")
        if read_markers(self.storage, handle.instant):
            raise self.publication.gone("its inflight file has vanished")
        for instant in pending_writes(self.storage, timeline):
            if instant.time != handle.instant:
                raise ConflictError(
                    f"Cannot begin the write {handle.instant} of {self.storage.uri}: since it was planned the "
                    f"{instant.action.value} {instant.time} has begun; one writer at a time is supported: wait until "
                    "it is done and write again"
                )
        check_conflicts(self.storage, timeline, handle.pin, handle.instant, ())
        if timeline.write_completed and handle.instant < timeline.write_completed[0].time:
            raise self.publication.gone(
                "the timeline begins after it"
            )  # what was before is archived, and counts as committed
        if is_barred(self.storage, handle.instant):
            raise self.publication.gone("it was aborted before it began")
        # The gate comes first, so that every trace of the instant can be laid to its writer
        if not open_gate(self.storage, handle.instant, handle.writer):
            raise ConflictError(
                f"Cannot write to {self.storage.uri} under the instant {handle.instant}: another writer has taken it "
                f"({gate_path(handle.instant)}); write again"
            )
        self._heartbeat.first_beat()
        requested = encode_replace_request() if handle.action is Action.REPLACE_COMMIT else b""
        self.storage.put_if_absent(requested_path(self._layout, handle.instant, handle.action), requested)
        content = encode_commit_metadata(
            CommitMetadata(handle.operation, extra={WRITER_KEY: handle.writer.to_json()}),
            self._layout,
            action=handle.action,
            completed=False,
        )
        self.storage.put_if_absent(self._inflight, content)
        if not self._is_ours():
            raise self.publication.gone("its inflight file has vanished")

    def _check_open(self) -> None:
        if self.storage.stat(gate_path(self.instant)) is None:
            raise self.publication.gone("it takes no more files")
        if self.storage.stat(self._inflight) is None:
            raise self.publication.gone("its inflight file has vanished")

    def _published(self, timeline: Timeline) -> CommitResult | None:
        completed = _find(timeline.completed, self.instant, self.handle.action)
        if completed is None or not self._is_ours():
            return None
        return CommitResult(self.instant, completed.completion_time if self._layout.version >= 2 else None)

    def _publish(self, timeline: Timeline, metadata: CommitMetadata, lock: FileLock) -> CommitResult:
        """Everything between lock and unlock."""
        handle = self.handle
        if not self._is_ours():
            raise self.publication.gone("its inflight file has vanished")
        if is_rolled_back(self.storage, timeline, self.instant):
            raise self.publication.gone("a rollback names it")
        self._heartbeat.beat()
        touched = {(stat.partition_path, stat.file_id) for stat in metadata.stats}
        touched |= {(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids}
        check_conflicts(self.storage, timeline, handle.pin, self.instant, touched, self._logged(metadata))
        # read again under the lock: another engine may have made or dropped indexes since the write began
        state = TableState(load_table_config(self.storage), timeline)
        handle.metadata.check(self.storage, state.config)
        close_gate(self.storage, self.instant)
        self.publication.remove_unreported({stat.path for stat in metadata.stats})
        self.publication.check_files(metadata.stats)
        change = TableChange(self.instant, handle.action, metadata, sidecars=self.sidecars)
        recorded = handle.metadata.record(self.storage, state, change, self._clock)
        content = encode_commit_metadata(metadata, self._layout, action=handle.action, completed=True)
        completion = self._clock.next_completion(timeline, self.instant)
        lock.check()
        done = complete(self.storage, self._layout, self.instant, handle.action, completion, content)
        recorded.maintain(timeline.plus(done))
        return CommitResult(self.instant, completion if self._layout.version >= 2 else None, recorded.dropped)

    def _warn_left(self, error: OSError) -> None:
        """For what cannot be tidied up behind the commit: an error would have the caller write again."""
        _log.warning(
            "the write %s of %s is committed; what is left of it is removed by the next write: %s",
            self.instant,
            self.storage.uri,
            error,
        )

    def _logged(self, metadata: CommitMetadata) -> set[tuple[str, str]]:
        """File groups which only get logs that name this instant."""
        if self.config.version < 8:
            return set()
        logs = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is not None}
        others = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.log_version is None}
        replaced = {(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids}
        return logs - others - replaced

    def _finish(self) -> None:
        self._done = True
        end_work(self.handle.writer.id)


def _choose(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    action: Action,
    operation: str,
    settings: TransactionSettings,
    metadata: MetadataWriter,
    owner: ProcessIdentity | None,
    clock: InstantClock,
    instant: InstantTime | None,
    writer_id: str | None,
) -> TransactionHandle:
    return TransactionHandle(
        table_uri=storage.uri,
        instant=instant if instant is not None else clock.next_instant(timeline),
        action=action,
        operation=operation,
        config=config,
        pin=timeline.pin(),
        writer=WriterIdentity(writer_id or new_writer_id(), owner),
        zone=clock.zone,
        settings=settings,
        metadata=metadata,
    )


def _check_action(action: Action) -> None:
    if action not in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT):
        raise ConfigError(f"Cannot begin a write as {action.value}; expected commit, deltacommit or replacecommit")


def _find(instants: Sequence[Instant], time_: InstantTime, action: Action) -> Instant | None:
    for instant in instants:
        if instant.time == time_ and instant.action.comparable is action.comparable:
            return instant
    return None
