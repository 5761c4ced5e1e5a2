"""One attempt at a plan whose execution writes data files: who is at it, what it leaves when it dies.

The state on the timeline stays Apache Hudi's own: requested, inflight (empty), completed. Beside it, in the folder of
running writes, lie the gate (files may be published while it is there), the heartbeat, and the owner, which outlives
the gate so that a commit that was killed can be told from one that is under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from hudi_py.errors import ConfigError, ConflictError, RolledBackError
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.storage import Storage
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.plans import decode_compaction_plan
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.write.heartbeat import Heartbeat, now_ms
from hudi_py.write.identity import (
    WriterIdentity,
    begin_work,
    end_work,
    new_writer_id,
    parse_writer,
    process_identity,
)
from hudi_py.write.instants import begin, inflight_path, requested_path, revert
from hudi_py.write.markers import read_markers
from hudi_py.write.paths import temporary_folder, write_folder
from hudi_py.write.publication import Publication
from hudi_py.write.recovery import examine
from hudi_py.write.rollback import forget_write
from hudi_py.write.staging import close_gate, gate_keeper, open_gate


@dataclass(frozen=True, slots=True)
class Attempt:
    """What every process of one attempt needs to know of it. Pickles; holds no credentials."""

    instant: InstantTime
    action: Action
    config: TableConfig
    """The table's properties when it began."""
    owner: WriterIdentity


def owner_path(instant: InstantTime) -> str:
    """Where the owner of an attempt is told."""
    return f"{write_folder(instant)}/owner"


def begin_attempt(
    context: ServiceContext, state: TableState, instant: InstantTime, action: Action, *, local: bool
) -> Attempt:
    """Takes a plan to inflight for a new attempt; the table lock must be held.

    What an attempt that died left behind is removed first.

    Args:
        state: what `locked` gave.
        local: whether this process lives until the attempt is over, so that its death ends it. Otherwise the heartbeat
            alone tells.

    Raises:
        ConfigError: there is no such pending plan.
        ConflictError: another attempt is under way.
    """
    storage, config, timeline = context.storage, state.config, state.timeline
    found = next((i for i in timeline.pending if i.time == instant and i.action is action), None)
    if found is None:
        raise ConfigError(
            f"Cannot run the {action.value} {instant} of {storage.uri}: there is no such pending plan; pending: "
            + (", ".join(i.time for i in timeline.pending if i.action is action) or "none")
        )
    if found.state is State.INFLIGHT or _owner(storage, instant) is not None:
        check_dead(context, timeline, found, "run")
        undo_attempt(storage, timeline.layout, instant, action)
    attempt = Attempt(instant, action, config, WriterIdentity(new_writer_id(), process_identity() if local else None))
    begin_work(attempt.owner.id)
    try:
        storage.put_if_absent(owner_path(instant), attempt.owner.to_json().encode())
        if not open_gate(storage, instant, attempt.owner):
            raise ConflictError(
                f"Cannot run the {action.value} {instant} of {storage.uri}: another process has begun it just now; "
                "wait until it is done"
            )
        _heartbeat(context, attempt).first_beat()
        begin(storage, timeline.layout, instant, action)
    except BaseException:  # whatever it is, this process is not at work any more
        end_work(attempt.owner.id)
        raise
    return attempt


def check_dead(context: ServiceContext, timeline: Timeline, service: Instant, purpose: str) -> None:
    """Raises ConflictError, which begins with "Cannot <purpose>", where somebody is at a pending table service."""
    storage, expiry_ms = context.storage, context.settings.heartbeat_expiry_ms
    owner, found = _owner(storage, service.time), examine(storage, timeline, service)
    if found.dead(expiry_ms) or (owner is not None and owner.provably_dead):
        return
    age_s = (now_ms() - (found.active_ms or 0)) / 1000
    raise ConflictError(
        f"Cannot {purpose} the {service.action.value} {service.time} of {storage.uri}: "
        f"{owner or found.writer or 'another engine'} is at it, its last sign of life {max(age_s, 0):.0f} s ago; wait "
        f"until it is done (a dead one counts as failed after {expiry_ms / 1000:.0f} s)"
    )


def join_attempt(context: ServiceContext, state: TableState, instant: InstantTime, action: Action) -> Attempt:
    """The attempt at a plan that is under way, for another process to take part in.

    Raises:
        ConfigError: none is under way.
    """
    owner = _owner(context.storage, instant)
    found = state.timeline.find(instant, action)
    if owner is None or found is None or found.state is not State.INFLIGHT:
        raise ConfigError(
            f"Cannot take part in the {action.value} {instant} of {context.storage.uri}: it is not under way; begin it"
        )
    return Attempt(instant, action, state.config, owner)


class Attendance:
    """One process's part in an attempt: as a context manager it keeps the heartbeat going."""

    def __init__(self, context: ServiceContext, attempt: Attempt) -> None:
        self._context = context
        self._attempt = attempt
        self._inflight = inflight_path(layout_for(attempt.config), attempt.instant, attempt.action)
        self._heartbeat = _heartbeat(context, attempt)
        self.publication = Publication(
            context.storage, attempt.config, attempt.instant, check_open=lambda: check_open(context.storage, attempt)
        )

    def __enter__(self) -> Attendance:
        """Raises RolledBackError: the attempt was given up in the meantime.

        That there was no heartbeat for too long, as nobody was there to take part, does no harm by itself.
        """
        check_open(self._context.storage, self._attempt)
        try:
            self._heartbeat.start()
        except RolledBackError:
            # whoever takes an attempt for dead undoes it under the table lock: nobody has, and nobody is about to
            with self._context.locked(f"go on with the {self._attempt.action.value} {self._attempt.instant}"):
                check_open(self._context.storage, self._attempt)
                self._heartbeat.first_beat()
            self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._context.storage.sync()  # another process may complete the attempt
        finally:
            self._heartbeat.stop()


def check_open(storage: Storage, attempt: Attempt) -> None:
    """Raises RolledBackError where the attempt takes no more files."""
    keeper = gate_keeper(storage, attempt.instant)
    if keeper is None:
        raise gone(storage, attempt, "it takes no more files")
    if keeper.id != attempt.owner.id:
        raise gone(storage, attempt, "another attempt has begun")
    if storage.stat(inflight_path(layout_for(attempt.config), attempt.instant, attempt.action)) is None:
        raise gone(storage, attempt, "its inflight file is gone")


def gone(storage: Storage, attempt: Attempt, what: str) -> RolledBackError:
    """The error of an attempt that comes too late."""
    return RolledBackError(
        f"Cannot go on with the {attempt.action.value} {attempt.instant} of {storage.uri}: {what}; it was given up, "
        "rolled back, or completed without this attempt"
    )


def close_attempt(storage: Storage, attempt: Attempt, reported: set[str]) -> None:
    """From here on no file is published; those that are not among `reported` are removed. The lock must be held.

    Raises:
        RolledBackError: the plan is another attempt's by now.
    """
    keeper = gate_keeper(storage, attempt.instant)
    owner = keeper if keeper is not None else _owner(storage, attempt.instant)
    if owner is None or owner.id != attempt.owner.id:
        raise gone(storage, attempt, "another attempt has begun" if owner is not None else "its owner is not told")
    close_gate(storage, attempt.instant)
    _remove_files(storage, attempt.instant, reported)


def end_attempt(storage: Storage, attempt: Attempt) -> None:
    """Removes what an attempt that was completed, or undone, keeps besides timeline and data."""
    forget_write(storage, attempt.instant)
    end_work(attempt.owner.id)


def give_up_attempt(context: ServiceContext, attempt: Attempt, purpose: str) -> None:
    """Undoes an attempt that failed; one that was completed, and one of another process, stays."""
    try:
        with context.locked(purpose) as state:
            timeline = state.timeline
            owner = _owner(context.storage, attempt.instant)
            pending = any(i.time == attempt.instant and i.action is attempt.action for i in timeline.pending)
            if pending and owner is not None and owner.id == attempt.owner.id:
                undo_attempt(context.storage, timeline.layout, attempt.instant, attempt.action)
    finally:
        end_work(attempt.owner.id)


def undo_attempt(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> None:
    """Removes the files of an attempt and takes its plan back to requested; the lock must be held. Safe to repeat."""
    close_gate(storage, instant)
    if read_markers(storage, instant) is None:
        _remove_unmarked(storage, layout, instant, action)
    _remove_files(storage, instant, set())
    revert(storage, layout, instant, action)
    forget_write(storage, instant)


def _remove_files(storage: Storage, instant: InstantTime, reported: set[str]) -> None:
    """Unpublished files first, so that no late rename finds its source; markers stay, and tell what is left to do
    should this process die."""
    storage.delete_tree(temporary_folder(instant))
    for marker in read_markers(storage, instant) or ():
        if marker.path not in reported:
            storage.delete(marker.path)


def _remove_unmarked(storage: Storage, layout: Layout, instant: InstantTime, action: Action) -> None:
    """What an attempt without markers wrote, found in the partitions of its plan: another engine's may have none."""
    try:
        content = storage.read(requested_path(layout, instant, action))
    except FileNotFoundError:
        return
    for partition in sorted({each.partition_path for each in decode_compaction_plan(content).operations}):
        for info in storage.list(partition):
            base, log = parse_base_file_name(info.name), parse_log_file_name(info.name)
            # in version 6 the logs of the slice that a compaction opens are named by it, too, and are not its own
            own = log if action is Action.LOG_COMPACTION else base
            if own is not None and own.instant == instant:
                storage.delete(info.path)


def _owner(storage: Storage, instant: InstantTime) -> WriterIdentity | None:
    try:
        return parse_writer(storage.read(owner_path(instant)))
    except FileNotFoundError:
        return None


def _heartbeat(context: ServiceContext, attempt: Attempt) -> Heartbeat:
    settings = context.settings
    return Heartbeat(
        context.storage,
        attempt.instant,
        interval_ms=settings.heartbeat_interval_ms,
        expiry_ms=settings.heartbeat_expiry_ms,
    )
