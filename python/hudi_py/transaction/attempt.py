"""The life of an action that writes data files: begun, joined by any number of processes, then completed or undone.

An action is executed in attempts. Its state on the timeline is Apache Hudi's: requested, inflight, completed.
Everything else is in the folder of running writes (`owner.claim`). A write is a `WriteTransaction`, the execution of a
plan a `PlannedAction`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from hudi_py.config.concurrency import HEARTBEAT_INTERVAL_MS
from hudi_py.errors import ConflictError, RolledBackError
from hudi_py.file_stats.sidecar import Sidecar, holds_sidecars, release_sidecars
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.layout import owner_path, sidecar_folder
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.storage import Storage
from hudi_py.timeline.bucket_rules import remove_buckets
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import encode_commit_metadata, read_commit_metadata
from hudi_py.timeline.pending_plans import check_partition, planned_groups, read_plan
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import CommitResult, LockedAction
from hudi_py.transaction.column_ids import ColumnIds
from hudi_py.transaction.conflicts import WriteScope
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.markers import read_markers
from hudi_py.transaction.owner.claim import (
    Attempt,
    check_open,
    claim,
    close_claim,
    forget_write,
    holder,
    revoke_claim,
    superseded,
)
from hudi_py.transaction.owner.heartbeat import Heartbeat, now_ms
from hudi_py.transaction.owner.identity import WriterIdentity, begin_work, end_work, new_writer_id, process_identity
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.publication import Publication, check_files, remove_unreported
from hudi_py.transaction.recovery.failed_writes import consistent, examine
from hudi_py.transaction.session import LockedTable, TableSession

if TYPE_CHECKING:
    from hudi_py.transaction.conflicts.early import EarlyDetection

RunningT = TypeVar("RunningT", bound="RunningAction")


class RunningAction(ABC):
    """One process's part in an attempt at an action: its publication and its heartbeat.

    As a context manager it calls `start` on entry and `rest` on exit.
    """

    def __init__(self, session: TableSession, attempt: Attempt, early: EarlyDetection | None = None) -> None:
        self.session = session
        self.storage = session.storage
        self.attempt = attempt
        self.publication = Publication(session.storage, attempt, early)
        """Grants permits for data files of the action and publishes them."""
        settings = session.settings
        self._heartbeat = Heartbeat(
            session.storage,
            attempt.instant,
            interval_ms=settings.get(HEARTBEAT_INTERVAL_MS),
            expiry_ms=settings.heartbeat_expiry_ms,
        )

    @property
    def instant(self) -> InstantTime:
        return self.attempt.instant

    @property
    def sidecars(self) -> str:
        """Folder of the sidecars, in which writers of data files store statistics for the metadata table."""
        return sidecar_folder(self.instant)

    @property
    @abstractmethod
    def keeps_sidecars(self) -> bool:
        """Whether `keep_sidecar` keeps what this process knows of data files until the action completes."""

    def keep_sidecar(self, sidecar: Sidecar, path: str) -> None:
        """Keeps the sidecar of a data file in memory, if there is room. `path` is the file's path in the table."""
        sidecar.hold(self.storage, self.sidecars, path)

    @abstractmethod
    def start(self) -> None:
        """Keeps the heartbeat alive from this process. Raises RolledBackError if the attempt was given up."""

    def rest(self) -> None:
        """Stops this process's heartbeat; the action stays pending. Idempotent."""
        self._heartbeat.stop()

    def __enter__(self: RunningT) -> RunningT:
        if not self._heartbeat.running:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.storage.sync()  # another process may complete the action
        finally:
            self.rest()

    def _lock_action(self, table: LockedTable) -> LockedAction:
        """Returns the action as one that the holder of the lock moves along the timeline."""
        return LockedAction(table, self.instant, self.attempt.action)

    def _publish_attempt(
        self,
        table: LockedTable,
        metadata: CommitMetadata,
        *,
        sidecars: str,
        ids: ColumnIds | None = None,
        knows_keys: bool = False,
    ) -> CommitResult:
        """Completes the attempt, which owns the instant, under the table lock. No file can be published from now on,
        and files without statistics are removed.

        Args:
            sidecars: folder of the sidecars; empty if there are none.
            ids: ids of the columns, if the table's schema evolves on read.
            knows_keys: see `TableChange`.

        Raises:
            RolledBackError: a file in the statistics is missing.
            CorruptFileError: such a file does not have the size that was written.
        """
        storage, attempt = self.storage, self.attempt
        close_claim(storage, attempt.instant)
        remove_unreported(storage, attempt.instant, {path for stat in metadata.stats for path in stat.files})
        check_files(storage, attempt, metadata.stats)
        if ids is not None:
            ids.store(table, attempt.instant)
        change = TableChange(
            attempt.instant, attempt.action.comparable, metadata, sidecars=sidecars, knows_keys=knows_keys
        )
        content = encode_commit_metadata(metadata, table.timeline.layout, action=attempt.action, completed=True)
        return self._lock_action(table).complete(content, change)


class PlannedAction(RunningAction):
    """One process's part in an attempt at a plan, such as that of a compaction. The plan stays if the attempt fails."""

    @classmethod
    def begin(cls, table: LockedTable, instant: InstantTime, action: Action, *, local: bool) -> PlannedAction:
        """Moves a plan to inflight for a new attempt, after removing what a dead attempt left behind.

        Args:
            local: whether this process lives until the attempt is over, so that its death ends the attempt. Otherwise
                only the heartbeat shows whether it is alive.

        Raises:
            ConfigError: there is no such pending plan.
            ConflictError: another attempt is under way.
        """
        session, storage = table.session, table.session.storage
        pending = LockedAction(table, instant, action).check_pending()
        if pending.state is State.INFLIGHT or holder(storage, session.layout, instant, action) is not None:
            check_dead(session, table.timeline, pending, "run")
            undo_attempt(storage, session.layout, instant, action)
        owner = WriterIdentity(new_writer_id(), process_identity() if local else None)
        begun = cls(session, Attempt(instant, action, table.config, owner))
        begin_work(owner.id)
        try:
            storage.put_if_absent(owner_path(instant), owner.to_json().encode())
            claim(storage, begun.attempt)
            begun._heartbeat.first_beat()
            begun._lock_action(table).begin()
        except BaseException:  # whatever happened, this process no longer works on it
            begun.end()
            raise
        return begun

    @property
    def keeps_sidecars(self) -> bool:
        """See `RunningAction.keeps_sidecars`. True only in the process that will commit."""
        owner = self.attempt.owner.process
        return owner is not None and owner == process_identity()

    def start(self) -> None:
        """See `RunningAction.start`. An expired heartbeat alone is harmless: no process took part for a while."""
        check_open(self.storage, self.attempt)
        try:
            self._heartbeat.start()
        except RolledBackError:
            # a process that considers an attempt dead undoes it under the table lock, so nobody did and nobody will
            with consistent(self.session, f"continue the {self.attempt}"):
                check_open(self.storage, self.attempt)
                self._heartbeat.first_beat()
            self._heartbeat.start()

    def commit(
        self, metadata: CommitMetadata, *, first: Callable[[LockedTable], None] | None = None
    ) -> tuple[CommitResult, CommitMetadata]:
        """Completes the action, and returns the metadata with which it was completed. Idempotent.

        Args:
            first: called under the lock once it is known that the action can be completed.

        Raises:
            ConflictError: a write that the plan does not have has changed a file group that it replaces.
            RolledBackError: the instant now belongs to another attempt, or a file is missing.
            CorruptFileError: a file does not have the size that was written.
        """
        storage, attempt = self.storage, self.attempt
        with consistent(self.session, f"commit the {attempt}") as table:
            done = self._lock_action(table).completed
            if done is not None:
                completion = table.session.completion_shown(done.completion_time)
                stored = read_commit_metadata(storage, table.timeline.layout, done)
                return CommitResult(self.instant, completion), stored
            self.check_owner(table)
            scope = WriteScope.of(self.instant, table.timeline.pin_before(self.instant), metadata, table.config)
            table.session.conflicts.check_plan(table, scope)
            if first is not None:
                first(table)
            held = self.sidecars if holds_sidecars(storage, self.sidecars) else ""
            completed = self._publish_attempt(table, metadata, sidecars=held)
        forget_write(storage, self.instant)
        self.end()
        release_sidecars(storage, self.sidecars)
        return completed, metadata

    def check_owner(self, table: LockedTable) -> None:
        """Raises RolledBackError if the plan is missing, or belongs to another attempt. The table lock is held."""
        attempt = self.attempt
        if table.timeline.find(self.instant, attempt.action) is None:
            raise superseded(self.storage, attempt, "its plan is missing")
        owner = holder(self.storage, table.session.layout, self.instant, attempt.action)
        if owner is None or owner.id != attempt.owner.id:
            what = "another attempt has begun" if owner is not None else "its owner is unknown"
            raise superseded(self.storage, attempt, what)

    def complete(self, table: LockedTable, content: bytes) -> CommitResult:
        """Completes an action that changes no rows. The caller holds the table lock, and has checked the owner.

        Args:
            content: of the completed file.
        """
        close_claim(self.storage, self.instant)
        done = self._lock_action(table).complete(content, None)
        self.rest()  # it would write its heartbeat again
        forget_write(self.storage, self.instant)
        self.end()
        return done

    def give_up(self, *, first: Callable[[LockedTable], None] | None = None) -> None:
        """Undoes a failed attempt, unless it was completed or belongs to another process. The plan stays.

        Args:
            first: called under the lock if the attempt is undone.
        """
        storage, attempt = self.storage, self.attempt
        release_sidecars(storage, self.sidecars)
        try:
            with consistent(self.session, f"give up the {attempt}") as table:
                owner = holder(storage, self.session.layout, self.instant, attempt.action)
                pending = any(instant.time == self.instant for instant in table.plans.of(attempt.action))
                if pending and owner is not None and owner.id == attempt.owner.id:
                    if first is not None:
                        first(table)
                    undo_attempt(storage, self.session.layout, self.instant, attempt.action)
        finally:
            self.end()

    def end(self) -> None:
        """Records that this process no longer works on the attempt. Idempotent."""
        end_work(self.attempt.owner.id)


def check_dead(session: TableSession, timeline: Timeline, service: Instant, purpose: str) -> None:
    """Raises ConflictError, whose message begins with "Cannot <purpose>", if a pending table service is running."""
    expiry_ms = session.settings.heartbeat_expiry_ms
    write = examine(session.storage, timeline, service)
    if write.dead(expiry_ms):
        return
    age_s = (now_ms() - (write.active_ms or 0)) / 1000
    raise ConflictError(
        f"Cannot {purpose} the {service.action.value} {service.time} of {session.storage.uri}: "
        f"{write.writer or 'another engine'} is running it, its last sign of life {max(age_s, 0):.0f} s ago; wait "
        f"until it is done (a dead one counts as failed after {expiry_ms / 1000:.0f} s)",
        instant=service.time,
    )


def undo_attempt(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> None:
    """Removes the files of an attempt and moves its plan back to requested; the lock must be held. Safe to repeat."""
    revoke_claim(storage, instant)
    if read_markers(storage, instant) is None:
        _remove_unmarked(storage, layout, instant, action)
    remove_unreported(storage, instant, set())
    if action is Action.CLUSTERING:
        remove_buckets(storage, instant)
    InstantFiles(storage, layout, instant, action).revert()
    forget_write(storage, instant)


def _remove_unmarked(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> None:
    """Removes files of an attempt without markers, as another engine's may be, found in the partitions of its plan."""
    data, context = read_plan(storage, layout, instant, action)
    for partition in sorted({partition for partition, _ in planned_groups(action, data, context)}):
        check_partition(partition, f"undo the {action.value} {instant} of {storage.uri}")
        for info in storage.list(partition):
            base, log = parse_base_file_name(info.name), parse_log_file_name(info.name)
            # in version 6 the logs of the slice that a compaction opens are named by it too, but are not its own
            own = log if action is Action.LOG_COMPACTION or (log is not None and log.cdc) else base
            if own is not None and own.instant == instant:
                storage.delete(info.path)
