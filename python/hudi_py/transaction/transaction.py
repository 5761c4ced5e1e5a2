"""A write of one instant: started, its files published under permits, then committed or rolled back.

One transaction may span processes. The process that plans the write chooses the instant, pins the timeline and passes
on a `TransactionHandle`, a small frozen value. Every process that takes part attaches to the handle:

    handle = WriteTransaction.plan(session, action=..., operation="UPSERT")                 # one process
    with WriteTransaction.attach(handle, storage_options) as tx:                            # any number of them
        permit = tx.publication.permit_base_file(partition, file_id, write_token, merges=False)
        ... write storage file permit.temp_path ...
        tx.publication.publish(permit)
    WriteTransaction.attach(handle, storage_options).commit(written, schema_json=...)       # one process

A single-process writer uses `with WriteTransaction.begin(...) as tx: ...; tx.commit(...)`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError, HudiError, RolledBackError
from hudi_py.file_stats.sidecar import Sidecar, release_sidecars
from hudi_py.metadata.table import checked_view
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.layout import ARCHIVE, stage_folder
from hudi_py.model.names import PartitionPath, nested_partitions
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, show_bytes
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import encode_commit_metadata, encode_replace_request
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import SCHEMA_KEY
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import CommitResult, OperationResult
from hudi_py.transaction.attempt import RunningAction
from hudi_py.transaction.column_ids import ColumnIds
from hudi_py.transaction.conflicts import WriteScope, completed_since
from hudi_py.transaction.conflicts.early import EarlyDetection
from hudi_py.transaction.conflicts.policy import check_seen
from hudi_py.transaction.handle import TransactionHandle, check_not_recreated, new_handle, note_first_commit, prepared
from hudi_py.transaction.instants import requested_path
from hudi_py.transaction.markers import read_markers
from hudi_py.transaction.metadata_drop import dropped_meanwhile
from hudi_py.transaction.owner.claim import (
    Attempt,
    check_open,
    claim,
    forbid,
    forget_write,
    holder,
    is_forbidden,
    superseded,
)
from hudi_py.transaction.owner.identity import (
    WRITER_KEY,
    ProcessIdentity,
    WriterIdentity,
    begin_work,
    end_work,
    new_writer_id,
    process_identity,
)
from hudi_py.transaction.partition_metafile import nested_error
from hudi_py.transaction.recovery.clusterings import drop_overlapping
from hudi_py.transaction.recovery.rollback import is_rolled_back, rollback_instant
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.view import FileSystemView

_log = logging.getLogger(__name__)


class WriteTransaction(RunningAction):
    """One process's part in the write of an instant. Methods may be called from several threads.

    As a context manager it calls `start` on entry and `rest` on exit. Leaving the block without a commit aborts a write
    from `begin`, but not one from `attach`: only the process that owns the write decides.
    """

    def __init__(self, session: TableSession, handle: TransactionHandle, *, owns: bool = False) -> None:
        early = None
        if handle.settings.get(concurrency.EARLY_DETECTION):
            early = EarlyDetection(session, WriteScope(handle.instant, handle.pin))
        super().__init__(session, Attempt(handle.instant, handle.action, handle.config, handle.writer), early)
        self.handle = handle
        self._owns = owns
        self._layout: Layout = session.layout
        self._mutex = threading.RLock()
        self._timeline: Timeline | None = None
        self._view: FileSystemView | None = None
        self._checked: FileSystemView | None = None
        """The metadata table with the pinned timeline, if this process has begun the write."""
        self._done = False

    @classmethod
    def plan(
        cls,
        session: TableSession,
        *,
        action: Action,
        operation: str,
        owner: ProcessIdentity | None = None,
        instant: InstantTime | None = None,
        writer_id: str | None = None,
    ) -> TransactionHandle:
        """Recovers failed writes, then chooses the instant under the table lock and pins the timeline.

        Writes nothing of the new instant. `owner` is the process whose death ends the write, such as the driver of a
        distributed engine; if None, only the heartbeat shows whether the write is alive.

        Raises:
            ConfigError: the metadata table holds indexes that can be neither maintained nor dropped, or the timeline is
                ahead of the clock.
            ConflictError: another write is under way; names its instant.
            LockError: the lock could not be acquired in time.
        """
        with prepared(session, action, "choose the instant of a write") as table:
            return new_handle(table, action, operation, WriterIdentity(writer_id or new_writer_id(), owner), instant)

    @classmethod
    def begin(
        cls,
        session: TableSession,
        *,
        action: Action,
        operation: str,
        instant: InstantTime | None = None,
        writer_id: str | None = None,
    ) -> WriteTransaction:
        """Plans and starts a write, for a writer with a single process. Raises what `plan` and `start` raise."""
        transaction: WriteTransaction | None = None
        writer = WriterIdentity(writer_id or new_writer_id(), process_identity())
        try:
            with prepared(session, action, "begin a write") as table:
                handle = new_handle(table, action, operation, writer, instant)
                transaction = cls(table.session, handle, owns=True)
                transaction._timeline = table.timeline  # equal to the pinned one
                transaction._checked = checked_view(table.session.storage, table.config)
                begin_work(writer.id)
                transaction._make_pending(table, fresh=instant is None)
                transaction._heartbeat.start(fresh=True)
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
        session = TableSession.open(
            storage if storage is not None else open_storage(handle.table_uri, storage_options),
            handle.metadata,
            config=handle.config,
            settings=handle.settings,
            clock=clock or handle.settings.clock(handle.config, handle.zone),
            storage_options=storage_options,
        )
        return cls(replace(session, locks=handle.locks, conflicts=handle.conflicts, after=handle.after), handle)

    # -- the writer's view ----------------------------------------------------------------------------------------

    @property
    def config(self) -> TableConfig:
        return self.handle.config

    @property
    def timeline(self) -> Timeline:
        """The timeline as pinned, without later instants."""
        with self._mutex:
            if self._timeline is None:
                self._timeline = self.session.timeline().at(self.handle.pin)
            return self._timeline

    @property
    def state(self) -> TableState:
        """The table as the write sees it."""
        return self.session.at(self.config).state(self.timeline)

    @property
    def view(self) -> FileSystemView:
        """File system view over the pinned timeline; loaded once."""
        with self._mutex:
            if self._view is None:
                self._view = self.session.view_for_write(self.timeline, checked=self._checked)
            return self._view

    def share(self, view: FileSystemView) -> None:
        """Reuses a view that the caller has loaded over the same timeline, except for what it has listed."""
        with self._mutex:
            self._view = self.session.view_for_write(self.timeline, like=view, checked=self._checked)

    @property
    def alone(self) -> bool:
        """Whether this process writes and commits all files: it began the write and has not passed its handle on."""
        return self._owns

    @property
    def keeps_sidecars(self) -> bool:
        """See `RunningAction.keeps_sidecars`."""
        return True

    def keep_sidecar(self, sidecar: Sidecar, path: str) -> None:
        """See `RunningAction.keep_sidecar`. The sidecar is stored if there is no room, or another process commits."""
        if not self.alone or not sidecar.hold(self.storage, self.sidecars, path):
            sidecar.save(self.storage, self.sidecars, path)

    @property
    def staging(self) -> str:
        """Folder for intermediate files of this write, relative to the base path: `.hoodie/.hudi_py/<instant>/stage`.

        Removed with the write.
        """
        return stage_folder(self.instant)

    # -- life cycle -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Makes the instant pending, if it is not yet, and keeps its heartbeat alive from this process. Idempotent.

        Raises:
            ConflictError: the instant belongs to another writer, or another write began since the plan.
            RolledBackError: the write was rolled back, or is being committed, or its heartbeat expired.
        """
        with self._mutex:
            if not self._is_ours():
                with self.session.locked("begin a write") as table:
                    if not self._is_ours():
                        self._make_pending(table)
            check_open(self.storage, self.attempt)
            begin_work(self.handle.writer.id)
            self._heartbeat.start()

    def rest(self) -> None:
        """Stops this process's heartbeat; the write stays pending. Idempotent."""
        super().rest()
        release_sidecars(self.storage, self.sidecars)
        end_work(self.handle.writer.id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._owns and not self._done:
                self.abort()
            if error is None and not self._done:
                self.storage.sync()  # another process commits what this one has written
        except (HudiError, OSError) as failure:  # the error inside the block, if any, matters more
            _log.warning("the failed write %s was not rolled back, the next write will: %s", self.instant, failure)
        finally:
            self.rest()

    # -- completion -----------------------------------------------------------------------------------------------

    def commit(
        self,
        written: OperationResult,
        *,
        schema_json: str,
        extra: Mapping[str, str] | None = None,
        ids: ColumnIds | None = None,
    ) -> CommitResult:
        """Publishes the write: `written` names all of its files; others, from abandoned attempts, are removed.

        `schema_json`: Avro record without meta columns. `extra` goes to `extraMetadata`. `ids`: of the columns, if the
        table's schema evolves on read. Idempotent: committing a published write again returns its times.

        Raises:
            ConflictError: another write, or a table service on the same file groups, came since the plan, or a
                partition in `OperationResult.relied_on` has been dropped. The write is still pending: call `abort`.
            RolledBackError: the write was rolled back, or its heartbeat expired.
            LockError: the lock could not be acquired in time.
            ConfigError: one new partition lies in another. Call `abort`.
        """
        for outer, inner in nested_partitions(stat.partition_path for stat in written.stats):
            # of tasks that each knew only one of them
            self.check_nested(outer, inner)
        ids = None if ids is None else ids.of_write(self.instant)
        schemas = {SCHEMA_KEY: schema_json} if ids is None else ids.extra(schema_json)
        metadata = CommitMetadata(
            operation=self.handle.operation,
            stats=tuple(written.stats),
            extra={**(extra or {}), **schemas},
            replaced={partition: tuple(ids) for partition, ids in written.replaced.items()},
        )
        with self._mutex:
            beating = self._heartbeat.running
            # whether the write is still ours is checked under the lock
            if not beating and not self._is_ours():
                self.start()  # no task ran
                beating = True
            done: CommitResult | None = None
            try:
                if not beating:
                    with contextlib.suppress(RolledBackError):  # checked under the lock
                        self._heartbeat.start()
                with self.session.locked(f"commit the write {self.instant}") as table:
                    done = self._commit_locked(table, metadata, written, ids)
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
            self._finish_write()
        return done

    def check_nested(self, outer: str, inner: str) -> None:
        """Checks that two partitions of the write, one within the other, had rows before it.

        Raises:
            ConfigError: one is new.
        """
        for partition in (inner, outer):
            if not self.view.latest_slices(PartitionPath(partition)):
                raise nested_error(self.storage.uri, outer, inner, new=partition)

    def abort(self) -> None:
        """Rolls the write back. Idempotent.

        A published write stays published, and another writer's instant is left alone.

        Raises:
            LockError: the lock could not be acquired in time. The next write rolls this one back.
        """
        with self._mutex:
            if self._done:
                return
            self._heartbeat.stop()
            with self.session.locked(f"roll the write {self.instant} back") as table:
                timeline = table.timeline
                owner = holder(self.storage, self._layout, self.instant, self.handle.action)
                ours = owner is not None and owner.id == self.handle.writer.id
                begun = timeline.find(self.instant, self.handle.action)
                if ours and begun is not None and not begun.completed:
                    _log.info("the write %s of %s is given up", self.instant, self.storage.uri)
                    rollback_instant(table, begun)
                elif ours:
                    forget_write(self.storage, self.instant)
                elif owner is None and begun is None:
                    # nothing has begun it yet, and a late task attempt must not
                    forbid(self.storage, self.instant)
            self._finish_write()

    # -- internals ------------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        """Returns whether the instant is pending (or completed) by this writer. An empty inflight file proves
        nothing."""
        try:
            content = self.storage.read(self.attempt.inflight)
        except FileNotFoundError:
            return False
        if self.handle.writer.id.encode() in content:
            return True
        raise ConflictError(
            f"Cannot write to {self.storage.uri} under the instant {self.instant}: another writer has taken it "
            f"({self.attempt.inflight}); write again",
            path=self.attempt.inflight,
            instant=self.instant,
        )

    def _make_pending(self, table: LockedTable, *, fresh: bool = False) -> None:
        """Creates the instant's pending files. The table lock must be held; the inflight file must not be ours.

        `fresh`: the instant was chosen under this lock, so nothing can have been left under it.
        """
        handle, timeline = self.handle, table.timeline
        check_not_recreated(self.session, handle.config, table.config)
        if self._lock_action(table).completed is not None:
            raise self._superseded_error("it is completed, and not by an inflight file of this writer")
        if is_rolled_back(self.storage, timeline, handle.instant):
            raise self._superseded_error("a rollback names it")
        if not fresh and read_markers(self.storage, handle.instant):
            raise self._superseded_error("its inflight file has vanished")
        self.session.conflicts.check_begin(table, WriteScope(handle.instant, handle.pin, pending=handle.pending))
        if self._is_archived(timeline):
            # everything before it is archived, and counts as committed
            raise self._superseded_error("the timeline begins after it")
        if not fresh and is_forbidden(self.storage, handle.instant):
            raise self._superseded_error("it was aborted before it began")
        claim(self.storage, self.attempt)  # comes first, so that every trace of the instant names its writer
        self._heartbeat.first_beat()
        requested = encode_replace_request(handle.operation) if handle.action is Action.REPLACE_COMMIT else b""
        self.storage.put_if_absent(requested_path(self._layout, handle.instant, handle.action), requested)
        content = encode_commit_metadata(
            CommitMetadata(handle.operation, extra={WRITER_KEY: handle.writer.to_json()}),
            self._layout,
            action=handle.action,
            completed=False,
        )
        if not self.storage.put_if_absent(self.attempt.inflight, content) and not self._is_ours():
            raise self._superseded_error("its inflight file has vanished")
        _log.info("the write %s of %s begins: %s", handle.instant, self.storage.uri, handle.operation)

    def _is_archived(self, timeline: Timeline) -> bool:
        """Returns whether the timeline has been archived up to a later instant since the write was planned."""
        if not timeline.write_completed or self.instant >= timeline.write_completed[0].time:
            return False
        # if several writers begin on an empty table, any of them may commit first
        several = not self.session.conflicts.one_at_a_time and not self.handle.pin.time
        return not several or any(True for _ in self.storage.list(f"{self._layout.folder}/{ARCHIVE}"))

    def _superseded_error(self, what: str) -> RolledBackError:
        return superseded(self.storage, self.attempt, what)

    def _commit_locked(
        self,
        table: LockedTable,
        metadata: CommitMetadata,
        written: OperationResult,
        ids: ColumnIds | None,
    ) -> CommitResult:
        """Commits under the table lock."""
        completed = self._lock_action(table).completed
        if completed is not None and self._is_ours():
            return CommitResult(self.instant, self.session.completion_shown(completed.completion_time))
        handle, timeline = self.handle, table.timeline
        if not self._is_ours():
            raise self._superseded_error("its inflight file has vanished")
        if is_rolled_back(self.storage, timeline, self.instant):
            raise self._superseded_error("a rollback names it")
        self._heartbeat.keep()
        scope = WriteScope.of(self.instant, handle.pin, metadata, self.config, handle.pending)
        if handle.settings.seen is not None:
            check_seen(table, scope, handle.settings.seen, handle.operation)
        table = drop_overlapping(table, scope.touched, handle.settings)
        schema = self.session.conflicts.check_commit(table, scope)
        if schema is not None:
            # in tables whose columns have ids, only an insertion of columns by another write gets here
            ids = None if ids is None else ids.of_table(self.storage, table.timeline)
            metadata = replace(
                metadata, extra={**metadata.extra, **({SCHEMA_KEY: schema} if ids is None else ids.extra(schema))}
            )
        gone = dropped_meanwhile(self.instant, self.config, table.config, written.relied_on)
        if gone is not None:
            raise gone
        # by the current properties: another engine may have created or dropped indexes since the write began
        handle.metadata.check(table.session)
        knows_keys = written.knows_keys and not completed_since(timeline, scope)
        done = self._publish_attempt(table, metadata, sidecars=self.sidecars, ids=ids, knows_keys=knows_keys)
        _log_commit(self.storage.uri, self.instant, metadata)
        note_first_commit(table, self.instant)
        return done

    def _warn_left(self, error: OSError) -> None:
        """Warns about leftovers that cannot be removed after the commit; an error would make the caller write again."""
        _log.warning(
            "the write %s of %s is committed; the next write removes what is left of it: %s",
            self.instant,
            self.storage.uri,
            error,
        )

    def _finish_write(self) -> None:
        self._done = True
        end_work(self.handle.writer.id)


def _log_commit(table: str, instant: InstantTime, metadata: CommitMetadata) -> None:
    stats = metadata.stats
    for stat in stats if _log.isEnabledFor(logging.DEBUG) else ():
        _log.debug(
            "the write %s has %s: %s inserted, %s updated, %s deleted, %s",
            *(instant, stat.path, stat.num_inserts, stat.num_updates, stat.num_deletes, show_bytes(stat.file_size)),
        )
    _log.info(
        "the write %s of %s is committed: %s, %s inserted, %s updated, %s deleted, %s in %s, %s",
        *(instant, table, metadata.operation),
        sum(stat.num_inserts for stat in stats),
        sum(stat.num_updates for stat in stats),
        sum(stat.num_deletes for stat in stats),
        *(counted(len(stats), "file"), counted(len({stat.partition_path for stat in stats}), "partition")),
        show_bytes(sum(stat.file_size for stat in stats)),
    )
