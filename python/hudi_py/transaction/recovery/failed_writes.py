"""Before a write, rolls back failed writes of others, and waits for running ones or refuses the write."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hudi_py.config import concurrency
from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.layout import BACKUP, marker_folder
from hudi_py.model.properties import BOOTSTRAP_COPIES, FIRST_WRITE
from hudi_py.model.words import visible
from hudi_py.storage import Storage
from hudi_py.timeline.pending_plans import check_rollback_plan
from hudi_py.timeline.properties import check_writable, update_table_config
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import InstantFiles, inflight_path, requested_path
from hudi_py.transaction.owner.claim import PLANNED, claimant, holder, remove_write_folder, sweep_vanished
from hudi_py.transaction.owner.heartbeat import last_beat_ms, now_ms
from hudi_py.transaction.owner.identity import WriterIdentity, parse_writer, process_identity
from hudi_py.transaction.recovery.plans import remove_plan
from hudi_py.transaction.recovery.restore import (
    completed_restore_of,
    finish_restore,
    sweep_rollbacks,
)
from hudi_py.transaction.recovery.rollback import (
    finish_rollback,
    rollback_instant,
)
from hudi_py.transaction.session import LockedTable, TableSession
from hudi_py.view.bootstrap import FULL_INSTANT

_log = logging.getLogger(__name__)

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that was begun but not completed."""

    instant: Instant
    writer: WriterIdentity | None
    """None if another engine wrote it."""
    active_ms: int | None
    """Last sign of life in milliseconds since the epoch: the heartbeat, or else the newest of the pending files and
    markers."""

    def dead(self, expiry_ms: int) -> bool:
        """Returns whether it may be rolled back: its process has provably ended, or it gave no sign of life for
        `expiry_ms`."""
        if self.writer is not None and self.writer.provably_dead:
            return True
        return self.active_ms is None or now_ms() - self.active_ms > expiry_ms


def examine(storage: Storage, timeline: Timeline, instant: Instant) -> PendingWrite:
    """Finds the writer of a pending instant, and its last sign of life."""
    writer = holder(storage, timeline.layout, instant.time, instant.action)
    beat = last_beat_ms(storage, instant.time)
    # hudi-py's heartbeats are created before the inflight file, so its writes without one are over
    if beat is None and writer is None:
        paths = [
            requested_path(timeline.layout, instant.time, instant.action),
            inflight_path(timeline.layout, instant.time, instant.action),
        ]
        times = [info.modified_ms for path in paths if (info := storage.stat(path)) is not None]
        times += [info.modified_ms for info in storage.walk(marker_folder(instant.time))]
        beat = max(times, default=None)
    return PendingWrite(instant, writer, beat)


def refuse_living(table: LockedTable, instants: Iterable[Instant], what: str) -> None:
    """Refuses an operation on a table as long as one of its pending actions may be running.

    Args:
        what: the operation; follows "Cannot" in the message.

    Raises:
        ConflictError: names the first of these instants that is not known to be dead.
    """
    session = table.session
    for instant in instants:
        write = examine(session.storage, table.timeline, instant)
        if not write.dead(session.settings.heartbeat_expiry_ms):
            raise ConflictError(
                f"Cannot {what} at {session.storage.uri}: the {instant.action.value} {instant.time} of "
                f"{write.writer or 'another engine'} is under way; wait until it is done (a dead one counts as failed "
                f"after {session.settings.heartbeat_expiry_ms / 1000:.0f} s)",
                instant=instant.time,
            )


def recover_failed_writes(session: TableSession) -> Timeline:
    """Rolls back every failed write and finishes killed rollbacks, as the next write would. Returns the new timeline.

    Raises:
        ConflictError: a write is under way, and the options allow for one writer at a time; names its instant.
        LockError: the table lock could not be acquired in time.
    """
    with recovered(session, "recover failed writes", beside=True) as table:
        return table.timeline


@contextmanager
def recovered(
    session: TableSession,
    purpose: str,
    *,
    beside: bool = False,
    keep_failed: bool = False,
    bootstraps: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[LockedTable]:
    """Locks the table once no write is pending.

    A pending write without a sign of life is waited for, without the lock, until its heartbeat expires, and then rolled
    back. Pending table services are left alone.

    Args:
        beside: leaves live writes alone, if the session's conflict policy allows for concurrent writers.
        keep_failed: leaves failed writes pending (policy NEVER, `CleanerUtils.rollbackFailedWrites`, 1.2.0).
        bootstraps: rolls failed bootstraps back as well; the caller removes the rest of the table.

    Raises:
        ConflictError: a pending write is alive, or the table's bootstrap has failed; names its instant.
        LockError: the lock could not be acquired in time.
        UnsupportedTableError: the table version can only be read.
    """
    check_writable(session.config)
    expiry_ms = session.settings.heartbeat_expiry_ms
    first_seen: dict[str, int | None] = {}
    shown = False
    while True:
        with session.locked(purpose) as table:
            if session.storage.stat(BACKUP) is not None:
                update_table_config(session.storage, {})  # finishes an interrupted update of the properties
                table = table.reread()
            living = _living_restores(table)
            if not living:
                table = _drop_expired(_finish_recovery(table))
                undone = _being_rolled_back(table)
                writes = [
                    examine(session.storage, table.timeline, instant)
                    for instant in table.plans.writes
                    if instant.time not in undone
                ]
                dead = [write for write in writes if write.dead(expiry_ms)]
                alone = not beside or session.conflicts.one_at_a_time
                living = [write for write in writes if write not in dead] if alone else []
            if not living:
                if not bootstraps:
                    _refuse_half_bootstrapped(table, purpose)
                if keep_failed:
                    dead = []
                for write in reversed(dead):  # newest first, as Java requires
                    _log.warning("rolling back the failed %s %s", write.instant.action.value, write.instant.time)
                    rollback_instant(table, write.instant)
                if dead:
                    table = table.reread()
                sweep_vanished(session.storage, {instant.time for instant in table.timeline.pending})
                yield table
                return
        for write in living:
            _refuse_beating(session, write, first_seen, concurrency.ONE_WRITER if beside else "")
        _show_wait(living[0], expiry_ms, first=not shown)
        shown = True
        sleep(_POLL_S)


def bootstrap_left(table: LockedTable) -> InstantTime | None:
    """Returns the commit that the bootstrap of a table lacks, if it was killed or is under way; else None."""
    for instant in table.timeline.pending:
        if instant.time <= FULL_INSTANT:
            return instant.time
    if BOOTSTRAP_COPIES not in table.config.properties:
        return None
    done = any(instant.time == FULL_INSTANT for instant in table.timeline.write_completed)
    return None if done else InstantTime(FULL_INSTANT)


def _refuse_half_bootstrapped(table: LockedTable, purpose: str) -> None:
    """Refuses to work on what a killed bootstrap left. Apache Hudi undoes the bootstrap, and continues with an empty
    table."""
    left = bootstrap_left(table)
    maker = parse_writer(table.config.properties.get(FIRST_WRITE, ""))
    own = maker is not None and maker.process == process_identity() and not maker.provably_dead
    if left is not None and not own:
        raise ConflictError(
            f"Cannot {purpose} of {table.session.storage.uri}: its bootstrap was not completed, and only some rows may "
            "be there; bootstrap it again, which first removes what there is, or remove the table",
            instant=left,
        )


@contextmanager
def consistent(session: TableSession, purpose: str) -> Iterator[LockedTable]:
    """Locks the table and finishes killed restores and rollbacks, before which no plan can be made or executed. Failed
    writes stay as they are. A metadata table is recovered by its own writer.

    Raises:
        ConflictError: another engine is restoring the table.
        LockError: the lock could not be acquired in time.
    """
    with session.locked(purpose) as table:
        if table.plans.of(Action.RESTORE, Action.ROLLBACK) and not session.config.is_metadata_table:
            for living in _living_restores(table):
                raise ConflictError(
                    f"Cannot {purpose} of {session.storage.uri}: the restore {living.instant.time} of another engine "
                    "is under way; wait until it is done (a dead one is finished after "
                    f"{session.settings.heartbeat_expiry_ms / 1000:.0f} s)",
                    instant=living.instant.time,
                )
            table = _finish_recovery(table)
        yield table


def _drop_expired(table: LockedTable) -> LockedTable:
    """Returns the table after rolling back pending clusterings that have expired, and removing their plans
    (`BaseHoodieTableServiceClient.getInstantsToRollbackForLazyCleanPolicy`, 1.2.0)."""
    session, dropped = table.session, False
    expiry_ms = session.settings.clustering_expiry_ms
    if expiry_ms is None:
        return table
    for instant in table.plans.clusterings:
        attempt = examine(session.storage, table.timeline, instant)
        is_old = attempt.active_ms is None or now_ms() - attempt.active_ms >= expiry_ms
        if is_old and attempt.dead(session.settings.heartbeat_expiry_ms):
            _log.warning("the clustering %s of %s has expired, and is dropped", instant.time, session.storage.uri)
            remove_plan(table, instant.time, instant.action)
            dropped = True
    return table.reread() if dropped else table


def _finish_recovery(table: LockedTable) -> LockedTable:
    """Returns the table after finishing killed restores, then killed rollbacks, and removing interrupted savepoints."""
    session, storage = table.session, table.session.storage
    changed = False
    for restore in table.plans.of(Action.RESTORE):
        changed = True
        restore_plan = table.plans.restore(restore)
        if restore_plan is None:
            # its writer died before there was a plan, so it did nothing
            InstantFiles(storage, session.layout, restore.time, Action.RESTORE).remove_pending()
            remove_write_folder(storage, restore.time)
            continue
        _log.warning("finishing the restore %s to %s", restore.time, restore_plan.savepoint)
        finish_restore(table, restore.time, restore_plan)
    if changed:
        table = table.reread()
    if _finish_rollbacks(table):
        changed = True
        table = table.reread()
    for savepoint in table.timeline.pending:
        if savepoint.action is Action.SAVEPOINT and _is_old(table, savepoint):
            storage.delete(inflight_path(session.layout, savepoint.time, Action.SAVEPOINT))
            changed = True
    return table.reread() if changed else table


def _living_restores(table: LockedTable) -> list[PendingWrite]:
    """Returns the restores that another engine may be executing. Our own hold the lock, so they are over once we hold
    it."""
    storage, restores = table.session.storage, table.plans.of(Action.RESTORE)
    if not restores or all(claimant(storage, restore.time) is not None for restore in restores):
        return []
    living: list[PendingWrite] = []
    rollbacks = [_changed_ms(table, rollback) for rollback in table.plans.of(Action.ROLLBACK)]
    for restore in restores:
        if claimant(storage, restore.time) is None:
            newest = max([_changed_ms(table, restore), *rollbacks])
            living.append(PendingWrite(restore, None, newest))
    return [restore for restore in living if not restore.dead(table.session.settings.heartbeat_expiry_ms)]


def _finish_rollbacks(table: LockedTable) -> bool:
    """Finishes or gives up killed rollbacks. Returns whether there were any."""
    storage, timeline = table.session.storage, table.timeline
    writes = {instant.time for instant in table.plans.writes}
    changed = False
    for rollback in table.plans.of(Action.ROLLBACK):
        plan = table.plans.rollback(rollback)
        if plan is None:
            # its writer died before there was a plan, so it did nothing
            storage.delete(requested_path(timeline.layout, rollback.time, Action.ROLLBACK))
            changed = True
            continue
        check_rollback_plan(storage, rollback.time, plan)
        if table.session.settings.optimistic and not _is_abandoned(table, rollback):
            continue  # Apache Hudi executes rollbacks without the lock
        target = timeline.find(plan.instant, Action(plan.action))
        if target is None and completed_restore_of(storage, timeline, plan.instant) is not None:
            sweep_rollbacks(storage, timeline, (InstantTime(plan.instant),))
        elif target is not None and target.time not in writes and not _is_abandoned(table, rollback):
            continue  # another engine may be executing it
        elif (
            target is not None
            and target.completed
            and (Action(plan.action) in PLANNED or timeline.write_completed[-1].time > target.time)
        ):
            # Overtaken by another attempt of the table service, or by a commit before it began, as instants are undone
            # newest first
            InstantFiles(storage, timeline.layout, rollback.time, Action.ROLLBACK).remove_pending()
            remove_write_folder(storage, rollback.time)
        else:
            _log.warning("finishing the rollback %s of %s", rollback.time, plan.instant)
            finish_rollback(table, rollback.time, plan)
        changed = True
    return changed


def _being_rolled_back(table: LockedTable) -> set[str]:
    """Returns the requested times of the instants being undone by pending rollbacks that another engine may be
    executing."""
    plans = (table.plans.rollback(rollback) for rollback in table.plans.of(Action.ROLLBACK))
    return {plan.instant for plan in plans if plan is not None}


def _is_abandoned(table: LockedTable, instant: Instant) -> bool:
    """Returns whether a pending rollback was given up: it is old, or our own and planned under the lock that this
    process now holds."""
    return claimant(table.session.storage, instant.time) is not None or _is_old(table, instant)


def _is_old(table: LockedTable, instant: Instant) -> bool:
    active_ms = max(_changed_ms(table, instant), last_beat_ms(table.session.storage, instant.time) or 0)
    return now_ms() - active_ms > table.session.settings.heartbeat_expiry_ms


def _changed_ms(table: LockedTable, instant: Instant) -> int:
    """Returns when a state file of the instant was last written, in milliseconds since the epoch."""
    storage, timeline = table.session.storage, table.timeline
    infos = (storage.stat(timeline.layout.path(file.file_name)) for file in timeline.states_of(instant))
    return max((info.modified_ms for info in infos if info is not None), default=0)


def _refuse_beating(session: TableSession, write: PendingWrite, first_seen: dict[str, int | None], remedy: str) -> None:
    expiry_s = session.settings.heartbeat_expiry_ms / 1000
    before = first_seen.setdefault(write.instant.time, write.active_ms)
    age_s = (now_ms() - (write.active_ms or 0)) / 1000
    beating = write.active_ms is not None and write.active_ms != before
    if beating or (write.writer is not None and write.writer.provably_alive):
        raise ConflictError(
            f"Cannot write to {session.storage.uri}: the {write.instant.action.value} {write.instant.time} of "
            f"{write.writer or 'another engine'} is under way, its last sign of life {max(age_s, 0):.0f} s ago; wait "
            f"until it is done (a dead one counts as failed after {expiry_s:.0f} s)"
            + (f"; {remedy}" if remedy and write.instant.action is not Action.RESTORE else ""),
            instant=write.instant.time,
        )


def _show_wait(write: PendingWrite, expiry_ms: int, *, first: bool) -> None:
    left_s = max((expiry_ms - (now_ms() - (write.active_ms or 0))) / 1000, 0)
    text = (
        f"waiting up to {left_s:.0f} s for the pending {write.instant.action.value} {write.instant.time} of "
        f"{visible(str(write.writer or 'another engine'))}, which shows no life, before it is rolled back"
    )
    if first:
        _log.warning("%s", text)
    elif sys.stderr.isatty():
        print(f"\rhudi-py: {text}\033[K", end="" if left_s > _POLL_S else "\n", file=sys.stderr, flush=True)
