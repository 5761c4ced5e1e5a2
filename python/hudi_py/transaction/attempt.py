"""One attempt at an action that writes data files: begun, joined by any number of processes, then closed or undone.

Its state on the timeline is Apache Hudi's: requested, inflight, completed. Everything else is in the folder of running
writes (`owner.claim`).
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from hudi_py.errors import ConfigError, ConflictError, RolledBackError
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.layout import owner_path
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.pending_plans import compaction_plan
from hudi_py.timeline.plan_checks import check_partition
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import begin, revert
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
from hudi_py.transaction.publication import Publication, check_files, remove_unreported
from hudi_py.transaction.recovery.failed_writes import consistent, examine
from hudi_py.transaction.session import LockedTable, TableSession


def heartbeat_of(session: TableSession, instant: InstantTime) -> Heartbeat:
    """The heartbeat of an instant, at the configured interval."""
    settings = session.settings
    return Heartbeat(
        session.storage, instant, interval_ms=settings.heartbeat_interval_ms, expiry_ms=settings.heartbeat_expiry_ms
    )


def begin_attempt(table: LockedTable, instant: InstantTime, action: Action, *, local: bool) -> Attempt:
    """Moves a plan to inflight for a new attempt, after removing what a dead attempt left behind.

    Args:
        local: whether this process lives until the attempt is over, so that its death ends the attempt. Otherwise only
            the heartbeat shows whether it is alive.

    Raises:
        ConfigError: there is no such pending plan.
        ConflictError: another attempt is under way.
    """
    session, storage = table.session, table.session.storage
    found = next((each for each in table.plans.of(action) if each.time == instant), None)
    if found is None:
        raise ConfigError(
            f"Cannot run the {action.value} {instant} of {storage.uri}: there is no such pending plan; pending: "
            + (", ".join(each.time for each in table.plans.of(action)) or "none"),
            instant=instant,
        )
    if found.state is State.INFLIGHT or holder(storage, session.layout, instant, action) is not None:
        check_dead(session, table.timeline, found, "run")
        undo_attempt(storage, session.layout, instant, action)
    owner = WriterIdentity(new_writer_id(), process_identity() if local else None)
    attempt = Attempt(instant, action, table.config, owner)
    begin_work(owner.id)
    try:
        storage.put_if_absent(owner_path(instant), owner.to_json().encode())
        claim(storage, attempt)
        heartbeat_of(session, instant).first_beat()
        begin(storage, session.layout, instant, action)
    except BaseException:  # whatever the cause, this process no longer works on it
        end_work(owner.id)
        raise
    return attempt


def check_dead(session: TableSession, timeline: Timeline, service: Instant, purpose: str) -> None:
    """Raises ConflictError, whose message begins with "Cannot <purpose>", if a pending table service is running."""
    expiry_ms = session.settings.heartbeat_expiry_ms
    found = examine(session.storage, timeline, service)
    if found.dead(expiry_ms):
        return
    age_s = (now_ms() - (found.active_ms or 0)) / 1000
    raise ConflictError(
        f"Cannot {purpose} the {service.action.value} {service.time} of {session.storage.uri}: "
        f"{found.writer or 'another engine'} is running it, its last sign of life {max(age_s, 0):.0f} s ago; wait "
        f"until it is done (a dead one counts as failed after {expiry_ms / 1000:.0f} s)",
        instant=service.time,
    )


def join_attempt(session: TableSession, state: TableState, instant: InstantTime, action: Action) -> Attempt:
    """The running attempt at a plan, for another process to join.

    Raises:
        ConfigError: no attempt is running.
    """
    owner = holder(session.storage, session.layout, instant, action)
    found = state.timeline.find(instant, action)
    if owner is None or found is None or found.state is not State.INFLIGHT:
        raise ConfigError(
            f"Cannot take part in the {action.value} {instant} of {session.storage.uri}: it is not under way; begin it",
            instant=instant,
        )
    return Attempt(instant, action, state.config, owner)


class Participation:
    """One process's part in an attempt; as a context manager it keeps the heartbeat alive."""

    def __init__(self, session: TableSession, attempt: Attempt) -> None:
        self._session = session
        self._attempt = attempt
        self._heartbeat = heartbeat_of(session, attempt.instant)
        self.publication = Publication(session.storage, attempt)

    def __enter__(self) -> Participation:
        """Raises RolledBackError if the attempt was given up in the meantime.

        An expired heartbeat alone is harmless: no process took part for a while.
        """
        session, attempt = self._session, self._attempt
        check_open(session.storage, attempt)
        try:
            self._heartbeat.start()
        except RolledBackError:
            # a process that considers an attempt dead undoes it under the table lock, so none did and none will
            with consistent(session, f"continue the {attempt}"):
                check_open(session.storage, attempt)
                self._heartbeat.first_beat()
            self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._session.storage.sync()  # another process may complete the attempt
        finally:
            self._heartbeat.stop()


def close_attempt(table: LockedTable, attempt: Attempt, stats: Iterable[WriteStat], *, owned: bool = False) -> None:
    """Stops publication: from now on no file is published, and files not in `stats` are removed.

    `owned`: the caller has found, under this lock, that the instant belongs to the attempt.

    Raises:
        RolledBackError: the instant now belongs to another attempt, or a file in `stats` is missing.
        CorruptFileError: a file in `stats` does not have the size that was written.
    """
    storage = table.session.storage
    if not owned:
        owner = holder(storage, table.session.layout, attempt.instant, attempt.action)
        if owner is None or owner.id != attempt.owner.id:
            what = "another attempt has begun" if owner is not None else "its owner is unknown"
            raise superseded(storage, attempt, what)
    close_claim(storage, attempt.instant)
    reported = list(stats)
    remove_unreported(storage, attempt.instant, {path for stat in reported for path in stat.files})
    check_files(storage, attempt, reported)


def end_attempt(storage: Storage, attempt: Attempt) -> None:
    """Removes what a completed or undone attempt keeps besides timeline and data."""
    forget_write(storage, attempt.instant)
    end_work(attempt.owner.id)


def give_up_attempt(session: TableSession, attempt: Attempt) -> None:
    """Undoes a failed attempt at a plan, unless it was completed or belongs to another process."""
    try:
        with consistent(session, f"give up the {attempt}") as table:
            owner = holder(session.storage, session.layout, attempt.instant, attempt.action)
            pending = any(each.time == attempt.instant for each in table.plans.of(attempt.action))
            if pending and owner is not None and owner.id == attempt.owner.id:
                undo_attempt(session.storage, session.layout, attempt.instant, attempt.action)
    finally:
        end_work(attempt.owner.id)


def undo_attempt(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> None:
    """Removes the files of an attempt and moves its plan back to requested; the lock must be held. Safe to repeat."""
    revoke_claim(storage, instant)
    if read_markers(storage, instant) is None:
        _remove_unmarked(storage, layout, instant, action)
    remove_unreported(storage, instant, set())
    revert(storage, layout, instant, action)
    forget_write(storage, instant)


def _remove_unmarked(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> None:
    """Removes files of an attempt without markers, as another engine's may be, found in the partitions of its plan."""
    plan = compaction_plan(storage, layout, instant, action)
    for partition in sorted({each.partition_path for each in plan.operations}) if plan is not None else ():
        check_partition(partition, f"undo the {action.value} {instant} of {storage.uri}")
        for info in storage.list(partition):
            base, log = parse_base_file_name(info.name), parse_log_file_name(info.name)
            # in version 6 the logs of the slice that a compaction opens are named by it too, but are not its own
            own = log if action is Action.LOG_COMPACTION or (log is not None and log.cdc) else base
            if own is not None and own.instant == instant:
                storage.delete(info.path)
