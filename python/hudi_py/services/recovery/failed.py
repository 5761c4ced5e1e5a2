"""Rolls back the writes that have failed, and finishes rollbacks and restores that were killed, as the next write would
(`BaseHoodieTableServiceClient.rollbackFailedWrites`, 1.2.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hudi_py.config import concurrency
from hudi_py.model.instant import Action, Instant
from hudi_py.model.words import counted
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Due, InstantArgument, Service
from hudi_py.services.planned.service import listed
from hudi_py.services.recovery.rollback import UndoReport
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.recovery.failed_writes import examine, recover_failed_writes

_SERVICE: Final = "rollback_failed"
_RECOVERIES: Final = (Action.ROLLBACK, Action.RESTORE)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Pending actions other than plans of table services."""

    dead: tuple[Instant, ...]
    living: tuple[Instant, ...]


def roll_back_failed(context: ServiceContext, instant: str | None = None) -> UndoReport:
    """Rolls back every write that has failed, and finishes what earlier rollbacks and restores left behind. Running
    writes are left alone.

    Args:
        instant: must be None.

    Raises:
        ConflictError: a write is under way, and the options allow for one writer at a time.
        LockError: the table lock could not be acquired in time.
    """
    state = context.state()
    pending_actions = _pending_actions(context, state)
    reason = _why_not(context, pending_actions)
    if reason:
        return UndoReport(_SERVICE, None, reason=reason)
    after = recover_failed_writes(context.session)
    there = {(pending.time, pending.action.comparable) for pending in after.pending}
    gone = tuple(dead for dead in pending_actions.dead if (dead.time, dead.action.comparable) not in there)
    undone = tuple(dead.time for dead in reversed(gone) if dead.action not in _RECOVERIES)
    newest = _newest_recovery(after)
    if not gone or newest is None:
        return UndoReport(_SERVICE, None, reason="another process has rolled them back")
    return UndoReport(_SERVICE, newest.time, newest.completion_time, rolled_back=undone)


def _pending_actions(context: ServiceContext, state: TableState) -> _Pending:
    expiry_ms, storage, timeline = context.session.settings.heartbeat_expiry_ms, state.storage, state.timeline
    recoveries = [instant for instant in timeline.pending if instant.action in _RECOVERIES]
    every = [*PendingPlans(storage, timeline).writes, *recoveries]
    dead = tuple(instant for instant in every if examine(storage, timeline, instant).dead(expiry_ms))
    return _Pending(dead, tuple(instant for instant in every if instant not in dead))


def _why_not(context: ServiceContext, pending: _Pending) -> str:
    """Returns why nothing can be rolled back now; empty if something can."""
    if not pending.dead:
        running = f"; {counted(len(pending.living), 'write')} under way" if pending.living else ""
        return f"no write has failed{running}"
    if context.session.settings.keeps_failed_writes:
        return f"{concurrency.FAILED_WRITES.key} keeps failed writes"
    if pending.living and context.session.conflicts.one_at_a_time:
        first = pending.living[0]
        return f"the {first.action.value} {first.time} is under way, after which the next write rolls them back"
    return ""


def _newest_recovery(timeline: Timeline) -> Instant | None:
    recoveries = [instant for instant in timeline.completed if instant.action in _RECOVERIES]
    return recoveries[-1] if recoveries else None


def _find_due(context: ServiceContext, state: TableState) -> Due | None:
    if not state.timeline.pending:
        return None
    pending = _pending_actions(context, state)
    reason = _why_not(context, pending)
    if reason:
        return Due(_SERVICE, False, reason)
    return Due(
        _SERVICE, True, f"{listed([instant.time for instant in pending.dead], 'failed action')} to roll back or finish"
    )


ROLLBACK_FAILED: Final = Service(
    name=_SERVICE,
    help="Rolls back writes that have failed, and finishes rollbacks and restores that were killed",
    run=roll_back_failed,
    instant=InstantArgument.REFUSED,
    due=_find_due,
)
