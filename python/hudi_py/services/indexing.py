"""Builds partitions of the metadata table beside writers, as an action on the timeline.

A plan names partitions. Executing it opens them under the table lock, fills them without it, and publishes them under
the lock again (`transaction.protocols.IndexBuilder`). What was opened stays as long as the attempt does: writers of
both implementations feed the partitions that the table's properties name as inflight.

Sources: `ScheduleIndexActionExecutor`, `RunIndexActionExecutor`, `AbstractIndexingCatchupTask` (1.2.0).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NoReturn

from hudi_py.config import indexes as config
from hudi_py.errors import ConfigError, ConflictError, CorruptFileError, HistoryCleanedError
from hudi_py.metadata.table import FILES
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Argument, Due, Service
from hudi_py.services.planned.service import Preview, Scheduled, ServiceReport, execute_all
from hudi_py.timeline.pending_plans import PendingPlans, read_plan
from hudi_py.timeline.plans import (
    IndexPartition,
    IndexPlan,
    decode_index_plan,
    encode_index_metadata,
    encode_index_plan,
)
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import LockedAction
from hudi_py.transaction.attempt import PlannedAction, check_dead
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.owner.claim import Attempt, check_open, forget_write, holder
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.owner.identity import WriterIdentity
from hudi_py.transaction.protocols import IndexBuilder, OpenedIndexes
from hudi_py.transaction.recovery.failed_writes import consistent, examine, recover_failed_writes
from hudi_py.transaction.session import LockedTable

_log = logging.getLogger(__name__)

_TRIES: Final = 3
"""How often partitions are opened before they are filled under the lock, where nothing changes."""
_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class IndexingReport(ServiceReport):
    """The result of an indexing."""

    partitions: tuple[str, ...] = ()
    """The partitions of the metadata table that were built."""

    def _summary(self) -> Iterator[str]:
        if self.partitions:
            yield f"built {', '.join(self.partitions)}"


@dataclass(frozen=True, slots=True)
class IndexingWork:
    """A plan in progress. It has no tasks: one process builds all. Implements `Work`."""

    attempt: Attempt
    plan: IndexPlan
    stages: tuple[tuple[str, ...], ...] = ()
    """The partitions to build, in order."""
    removed: str = ""
    num_tasks: ClassVar[int] = 0

    @property
    def instant(self) -> InstantTime:
        return self.attempt.instant


@dataclass(frozen=True, slots=True)
class Indexing:
    """The planned service.

    Attributes:
        partitions: names of the partitions of a new plan, separated by commas; empty: those that the options ask for.
        local: whether the process that begins a plan lives until it is completed.
        first: called under the lock before a plan is made, to define what it has.
        sleep: waits for some seconds.
    """

    partitions: str = ""
    local: bool = True
    first: Callable[[LockedTable], None] | None = field(default=None, repr=False, compare=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)
    name: ClassVar[str] = "indexing"

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """See `PlannedService.schedule`.

        Raises:
            ConfigError: the table cannot have a partition, or no metadata table is kept.
            LockError: the table lock could not be acquired in time.
        """
        with self._request_plan(context, instant) as (_, scheduled):
            return scheduled

    def schedule_and_begin(
        self, context: ServiceContext, *, instant: InstantTime | None = None
    ) -> IndexingWork | Scheduled:
        """See `PlannedService.schedule_and_begin`."""
        with ExitStack() as on_failure:
            with self._request_plan(context, instant) as (table, scheduled):
                if scheduled.instant is None:
                    return scheduled
                context.storage.sync()  # the plan, without which an inflight file shows nothing
                work = self._begin_plan(context, table.reread(), scheduled.instant, on_failure)
            on_failure.pop_all()
        return work

    def schedule_and_run(self, context: ServiceContext, *, instant: InstantTime | None = None) -> IndexingReport:
        """See `PlannedService.schedule_and_run`."""
        begun = self.schedule_and_begin(context, instant=instant)
        return self.nothing(begun.reason) if isinstance(begun, Scheduled) else execute_all(self, context, begun)

    def planned(self, plans: PendingPlans) -> list[Instant]:
        """See `PlannedService.planned`."""
        return plans.of(Action.INDEXING)

    def plan_rows(self, plans: PendingPlans, instant: Instant) -> Sequence[Mapping[str, Any]]:
        """See `PlannedService.plan_rows`: the folder of each partition."""
        plan = plans.indexing(instant)
        return () if plan is None else _plan_rows(plan.names)

    def preview(self, context: ServiceContext) -> Preview:
        """See `PlannedService.preview`."""
        state = context.state()
        chosen, reason = self._choose_partitions(
            _find_builder(context), state, PendingPlans(context.storage, state.timeline)
        )
        return Preview(_plan_rows(chosen), reason)

    def begin(self, context: ServiceContext, instant: InstantTime) -> IndexingWork:
        """See `PlannedService.begin`. Removes what an earlier attempt left, of whichever implementation.

        Raises:
            ConfigError: there is no such plan, or the table can no longer have a partition.
            ConflictError: another process is executing it, or another plan with one of its partitions.
        """
        with ExitStack() as on_failure:
            with context.locked(f"begin the indexing {instant}") as table:
                work = self._begin_plan(context, table, instant, on_failure)
            on_failure.pop_all()
        return work

    def execute(self, context: ServiceContext, work: IndexingWork, tasks: Sequence[int]) -> list[NoReturn]:
        """See `PlannedService.execute`: there are no tasks."""
        return []

    def commit(self, context: ServiceContext, work: IndexingWork, outcomes: Sequence[NoReturn]) -> IndexingReport:
        """Builds the partitions and completes the plan.

        Raises:
            ConfigError: the table cannot have a partition, as rows show.
            ConflictError: a write of another engine that was under way at the beginning is not over in time.
            RolledBackError: the attempt was given up in the meantime.
        """
        builder = _find_builder(context)
        with PlannedAction(context.session, work.attempt) as running:
            if not context.session.config.logs_named_by_instant:  # as long as they are there, nothing can be built
                recover_failed_writes(context.session)
            for number, stage in enumerate(work.stages):
                last = number == len(work.stages) - 1
                done = self._build_stage(context, builder, running, work, stage, last=last)
                if done is not None:
                    return done
            with consistent(context.session, f"complete the indexing {work.instant}") as table:
                running.check_owner(table)
                return self._complete_plan(table, running, work)

    def nothing(self, reason: str) -> IndexingReport:
        """See `PlannedService.nothing`."""
        return IndexingReport(self.name, None, reason=reason)

    def give_up(self, context: ServiceContext, work: IndexingWork) -> None:
        """See `PlannedService.give_up`: removes what is not published."""
        builder = _find_builder(context)

        def undo(table: LockedTable) -> None:
            builder.clear(table.session, work.plan.names, work.instant)

        PlannedAction(context.session, work.attempt).give_up(first=undo)

    # -- internals ------------------------------------------------------------------------------------------------

    @contextmanager
    def _request_plan(
        self, context: ServiceContext, instant: InstantTime | None
    ) -> Iterator[tuple[LockedTable, Scheduled]]:
        """Locks the table and stores a plan, if there is something to build."""
        builder = _find_builder(context)
        context.progress.phase("planning the indexing")
        with context.locked("plan an indexing") as table:
            if any(pending.time == instant for pending in table.plans.of(Action.INDEXING)):
                yield table, Scheduled(instant)
                return
            if self.first is not None:
                self.first(table)
                table = table.reread()
            chosen, reason = self._choose_partitions(builder, table, table.plans)
            if not chosen:
                yield table, Scheduled(None, reason)
                return
            builder.define(table.session, table.timeline, chosen)
            time_ = instant if instant is not None else context.session.clock.next_instant(table.timeline)
            upto = _find_upto(table.timeline)
            plan = IndexPlan(tuple(IndexPartition(name, upto) for name in chosen))
            LockedAction(table, time_, Action.INDEXING).request(encode_index_plan(plan))
            yield table, Scheduled(time_)

    def _choose_partitions(
        self, builder: IndexBuilder[Any], state: TableState, plans: PendingPlans
    ) -> tuple[tuple[str, ...], str]:
        """Returns the partitions of a new plan, or why there are none."""
        given = tuple(name for part in self.partitions.split(",") if (name := part.strip()))
        names = given or builder.wanted(state)
        if not _find_upto(state.timeline):
            return (), "the table has no commits; the next write makes what it asks for"
        planned = {name: pending.time for pending in plans.of(Action.INDEXING) for name in _find_names(plans, pending)}
        there = {*state.config.metadata_partitions, *state.config.metadata_partitions_inflight}
        left = tuple(name for name in names if name not in there and name not in planned)
        if not left:
            waiting = [f"{name} is in the pending plan {planned[name]}" for name in names if name in planned]
            return (), "; ".join(waiting) or "the table has every index that is asked for"
        if FILES in left:  # as in Apache Hudi, the others follow once it exists
            left = (FILES,)
        builder.check(state, left)
        return left, ""

    def _begin_plan(
        self, context: ServiceContext, table: LockedTable, instant: InstantTime, on_failure: ExitStack
    ) -> IndexingWork:
        """Begins a plan under the lock. `on_failure` is closed if the lock is not released in peace, as this process is
        not executing the plan then."""
        builder = _find_builder(context)
        plan = _read_index_plan(table, instant)
        indexing = LockedAction(table, instant, Action.INDEXING).check_pending()
        fresh = indexing.state is State.REQUESTED and _find_owner(table, indexing) is None
        left, table = self._find_left(builder, table, indexing, plan)
        begun = PlannedAction.begin(table, instant, Action.INDEXING, local=self.local)
        on_failure.callback(begun.end)
        if fresh and not left:
            begun.end()
            return IndexingWork(begun.attempt, plan, removed=_drop_files(table, indexing))
        return IndexingWork(begun.attempt, plan, tuple(builder.stages(table.config, left)))

    def _find_left(
        self, builder: IndexBuilder[Any], table: LockedTable, indexing: Instant, plan: IndexPlan
    ) -> tuple[tuple[str, ...], LockedTable]:
        """Removes what earlier attempts at a plan made. Returns the partitions left to build, and the table then."""
        if not plan.partitions:
            raise ConfigError(
                f"Cannot run the indexing {indexing.time} of {table.storage.uri}: its plan names no partitions; drop "
                "it with unschedule",
                instant=indexing.time,
            )
        ours = _find_owner(table, indexing) is not None
        if indexing.state is State.INFLIGHT or ours:
            check_over(table, indexing, plan.names, "run")
        # Apache Hudi publishes partitions before they have caught up, and readers must not use those of a dead attempt
        trusted = indexing.state is State.REQUESTED or ours
        published = {*table.config.metadata_partitions} if trusted else set()
        left = tuple(name for name in plan.names if name not in published)
        for other in table.plans.of(Action.INDEXING):
            theirs = _find_names(table.plans, other)
            if other.time != indexing.time and other.state is State.INFLIGHT and {*theirs} & {*left}:
                check_over(table, other, theirs, f"run the indexing {indexing.time}, as long as there is")
        builder.check(table, left)
        builder.clear(table.session, plan.names, indexing.time, keep_published=trusted)
        return left, table.reread()

    def _build_stage(
        self,
        context: ServiceContext,
        builder: IndexBuilder[OpenedIndexes],
        running: PlannedAction,
        work: IndexingWork,
        stage: Sequence[str],
        *,
        last: bool,
    ) -> IndexingReport | None:
        """Builds the partitions of a stage. With the last one, completes the plan in the same step."""
        purpose = f"build {', '.join(stage)} of"
        for left in reversed(range(_TRIES)):
            if not left or builder.needs_lock(context.session.config):
                with self._lock_when_quiet(context, running, purpose) as table:
                    opened = builder.open(table.session, table.timeline, stage, work.instant)
                    self._fill_partitions(context, builder, running, opened)
                    why = builder.publish(table.session.reread(), table.timeline, opened)
                    assert not why, why  # nothing has changed since
                    return self._complete_plan(table.reread(), running, work) if last else None
            with consistent(context.session, purpose) as table:
                running.check_owner(table)
                opened = builder.open(table.session, table.timeline, stage, work.instant)
            try:
                self._fill_partitions(context, builder, running, opened)
            except (FileNotFoundError, CorruptFileError, HistoryCleanedError):
                if context.timeline().completed == opened.state.timeline.completed:
                    raise
                _log.info("%s: files of the state being indexed were removed meanwhile", context.storage.uri)
                continue
            with self._lock_when_quiet(context, running, purpose) as table:
                why = builder.publish(table.session, table.timeline, opened)
                if not why:
                    return self._complete_plan(table.reread(), running, work) if last else None
            _log.info("%s: %s is built again: %s", context.storage.uri, ", ".join(stage), why)
        raise AssertionError("the last try returns")

    def _fill_partitions(
        self,
        context: ServiceContext,
        builder: IndexBuilder[OpenedIndexes],
        running: PlannedAction,
        opened: OpenedIndexes,
    ) -> None:
        context.progress.phase(f"building {', '.join(opened.names)}")
        builder.fill(opened, lambda: check_open(context.storage, running.attempt))

    @contextmanager
    def _lock_when_quiet(self, context: ServiceContext, running: PlannedAction, purpose: str) -> Iterator[LockedTable]:
        """Locks the table when no write of another engine is under way: it would not know of what is published now.
        Writes of hudi-py look when they commit."""
        timeout_s = context.options.get(config.INDEX_CHECK_TIMEOUT)
        began = now_ms()
        while True:
            with consistent(context.session, purpose) as table:
                running.check_owner(table)
                living = [
                    pending
                    for pending in table.timeline.pending
                    if _changes_files(pending) and _is_foreign(table, pending)
                ]
                if not living:
                    yield table
                    return
            if now_ms() - began > timeout_s * 1000:
                raise ConflictError(
                    f"Cannot complete the indexing {running.instant} of {context.storage.uri}: the "
                    f"{living[0].action.value} {living[0].time} of another engine, which may not know of the index, is "
                    f"still under way after {timeout_s} s; run it again later, or wait longer "
                    f"({config.INDEX_CHECK_TIMEOUT.key})",
                    instant=living[0].time,
                )
            self.sleep(_POLL_S)

    def _complete_plan(self, table: LockedTable, running: PlannedAction, work: IndexingWork) -> IndexingReport:
        done = running.complete(table, encode_index_metadata(work.plan.partitions))
        return IndexingReport(self.name, work.instant, done.completion_time, partitions=work.plan.names)


def _is_foreign(table: LockedTable, instant: Instant) -> bool:
    """Returns whether another engine may be executing a pending action."""
    state = examine(table.storage, table.timeline, instant)
    return state.writer is None and not state.dead(table.session.settings.heartbeat_expiry_ms)


def _changes_files(instant: Instant) -> bool:
    """Returns whether a pending action may be about to change data files: a plan that was not begun waits."""
    if instant.action in (Action.INDEXING, Action.SAVEPOINT, Action.ROLLBACK, Action.RESTORE, Action.CLEAN):
        return False
    planned = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
    return instant.state is State.INFLIGHT or instant.action not in planned


@dataclass(frozen=True, slots=True)
class PendingIndexing:
    """A plan that is not completed."""

    instant: InstantTime
    names: tuple[str, ...]
    """The partitions that it builds."""


def pending_indexings(state: TableState) -> list[PendingIndexing]:
    """Returns the plans that are not completed, oldest first."""
    plans = PendingPlans(state.storage, state.timeline)
    return [PendingIndexing(pending.time, _find_names(plans, pending)) for pending in plans.of(Action.INDEXING)]


def check_over(table: LockedTable, indexing: Instant, names: Sequence[str], purpose: str) -> None:
    """Raises ConflictError, whose message begins with "Cannot <purpose>", if a process is executing a plan.

    Apache Hudi has no heartbeat for it: besides the plan's files, those that it writes show that it is alive.
    """
    check_dead(table.session, table.timeline, indexing, purpose)
    if _find_owner(table, indexing) is not None:
        return
    expiry_ms = table.session.settings.heartbeat_expiry_ms
    newest = max(
        (info.modified_ms for name in names for info in table.storage.list(f"{METADATA_TABLE}/{name}")), default=0
    )
    if now_ms() - newest <= expiry_ms:
        raise ConflictError(
            f"Cannot {purpose} the indexing {indexing.time} of {table.storage.uri}: another engine is running it, and "
            f"wrote to {', '.join(names)} {(now_ms() - newest) / 1000:.0f} s ago; wait until it is done (a dead "
            f"one counts as failed after {expiry_ms / 1000:.0f} s)",
            instant=indexing.time,
        )


def drop_plan(table: LockedTable, indexing: Instant) -> None:
    """Removes a pending plan that no process is executing, and what was built of it. The table lock must be held."""
    builder = table.session.metadata.builder
    plan = table.plans.indexing(indexing)
    if builder is not None and plan is not None and plan.partitions:
        ours = _find_owner(table, indexing) is not None
        begun = indexing.state is State.INFLIGHT or ours
        if begun:
            check_over(table, indexing, plan.names, "unschedule")
        trusted = ours or not begun
        building = set(plan.names) - ({*table.config.metadata_partitions} if trusted else set())
        if begun:
            builder.clear(table.session, plan.names, indexing.time, keep_published=trusted)
        plans = [other for other in table.plans.of(Action.INDEXING) if other.time != indexing.time]
        others = {name for other in plans for name in _find_names(table.plans, other)}
        builder.forget(table.session.reread(), building - others)
    _drop_files(table, indexing)


def _find_owner(table: LockedTable, indexing: Instant) -> WriterIdentity | None:
    """Returns the process of hudi-py that works or last worked on a plan."""
    return holder(table.storage, table.session.layout, indexing.time, Action.INDEXING)


def _drop_files(table: LockedTable, indexing: Instant) -> str:
    """Removes the files of a plan. Returns what to say of it."""
    forget_write(table.storage, indexing.time)
    InstantFiles(table.storage, table.timeline.layout, indexing.time, Action.INDEXING).remove_pending()
    return f"the indexing {indexing.time} was removed: the table has all of its partitions"


def _find_builder(context: ServiceContext) -> IndexBuilder[Any]:
    builder = context.session.metadata.builder
    if builder is None:
        raise ConfigError(
            f"Cannot build an index of {context.storage.uri}: hoodie.metadata.enable is false; leave it out"
        )
    return builder


def _read_index_plan(table: LockedTable, instant: InstantTime) -> IndexPlan:
    data, context = read_plan(table.storage, table.timeline.layout, instant, Action.INDEXING)
    return decode_index_plan(data, context) if data else IndexPlan(())


def _find_names(plans: PendingPlans, instant: Instant) -> tuple[str, ...]:
    """Returns the partitions of a pending plan."""
    plan = plans.indexing(instant)
    return () if plan is None else plan.names


def _find_upto(timeline: Timeline) -> str:
    """Returns the newest completed write before all pending ones (`getContiguousCompletedWriteTimeline`), or ""."""
    first = min((pending.time for pending in timeline.pending if _changes_files(pending)), default="~")
    return max((write.time for write in timeline.write_completed if write.time < first), default="")


def _plan_rows(names: Collection[str]) -> tuple[Mapping[str, Any], ...]:
    return tuple({"partition": f"{METADATA_TABLE}/{name}", "file_id": None, "files": []} for name in names)


def _find_due(context: ServiceContext, _: TableState) -> Due | None:
    """Returns what is to build; None without the option, as writes make what they ask for then."""
    if not context.options.get(config.INDEX_ASYNC) or context.session.metadata.builder is None:
        return None
    preview = Indexing().preview(context)
    names = ", ".join(str(row["partition"]).rpartition("/")[2] for row in preview.rows)
    return Due("indexing", bool(preview.rows), f"{names} to build" if preview.rows else preview.reason)


INDEXING: Final = Service(
    name="indexing",
    help="Builds indexes of the metadata table beside writers",
    plans=Indexing,
    arguments=(
        Argument(
            "partitions",
            str,
            "partitions of the metadata table that a new plan has, separated by commas; default: those that the "
            "options ask for",
        ),
    ),
    due=_find_due,
)
