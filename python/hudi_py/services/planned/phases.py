"""The phases of planned services that write data files: plan, begin, execute units of the plan, commit.

A service defines how its plans are stored (`PlanCodec`), what a new plan contains, and how to execute one unit.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from hudi_py.metadata.files import MAX_LISTED_PARTITIONS, metadata_lister
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.codec import PlanCodec, PlanT, UnitT
from hudi_py.services.planned.service import PlanGain, Preview, Scheduled, ServiceReport, check_executed, execute_all
from hudi_py.storage.threads import in_threads, waiting_threads
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.plans import FileGroup
from hudi_py.timeline.state import TableState
from hudi_py.transaction.attempt import PlannedAction, undo_attempt
from hudi_py.transaction.owner.claim import Attempt, check_open
from hudi_py.transaction.recovery.plans import remove_plan
from hudi_py.transaction.session import LockedTable
from hudi_py.view import Lister, StorageLister

_log = logging.getLogger(__name__)

Settings = TypeVar("Settings")
Report_co = TypeVar("Report_co", bound=ServiceReport, covariant=True)


@dataclass(frozen=True, slots=True)
class Chosen(Generic[PlanT]):
    """The content of a new plan."""

    instant: InstantTime
    plan: PlanT | None
    """None if there is nothing to do."""
    reason: str = ""
    """Why there is nothing to do."""


@dataclass(frozen=True, slots=True)
class PlannedWork(Generic[Settings]):
    """A plan in progress. Its tasks are its units, in order. Implements `Work`."""

    attempt: Attempt
    num_tasks: int
    settings: Settings | None
    """How to execute units, resolved when the plan was begun."""
    removed: str = ""

    @property
    def instant(self) -> InstantTime:
        return self.attempt.instant


@dataclass(frozen=True, slots=True)
class PlannedUnit(Generic[UnitT, Settings]):
    """One unit of a plan in progress, and the attempt that executes it."""

    work: PlannedWork[Settings]
    running: PlannedAction
    unit: UnitT
    number: int
    """Number of the unit in its plan."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Maps paths of the plan's files to sizes in bytes, where the size is already known."""


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """The result of one unit. Pickles small."""

    task: int
    """Number of the unit in its plan."""
    stats: tuple[WriteStat, ...]
    """Statistics of the files written."""
    replaced: tuple[FileGroup, ...] = ()
    """File groups whose rows have moved to other file groups."""


class RewritingService(ABC, Generic[PlanT, UnitT, Settings, Report_co]):
    """A `PlannedService` that writes data files. Subclasses define what is planned, and how to execute one unit."""

    __slots__ = ()

    operation: ClassVar[str]
    """Name of the `WriteOperationType`."""
    doing: ClassVar[str]
    """The action in progress, for the progress line."""

    @property
    @abstractmethod
    def codec(self) -> PlanCodec[PlanT, UnitT]:
        """How its plans are stored."""

    @property
    def action(self) -> Action:
        """See `PlannedService.action`."""
        return self.codec.action

    @property
    def name(self) -> str:
        """See `PlannedService.name`."""
        return self.action.name.lower()

    @property
    @abstractmethod
    def local(self) -> bool:
        """Whether the process that begins a plan lives until it is completed; otherwise a heartbeat shows that the plan
        is being executed."""

    @abstractmethod
    def refused(self, context: ServiceContext) -> str:
        """Returns why a table like this needs no plan; empty if it may need one. Raises UnsupportedTableError if a
        feature of the table would be lost."""

    @abstractmethod
    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[PlanT]:
        """Chooses the content of a plan, if one is due. Changes nothing."""

    @abstractmethod
    def settings(
        self, context: ServiceContext, state: TableState, plan: PlanT, instant: InstantTime
    ) -> Settings | None:
        """Returns how to execute the units of a plan. Raises UnsupportedTableError if a feature would be lost."""

    @abstractmethod
    def execute_unit(self, context: ServiceContext, planned: PlannedUnit[UnitT, Settings]) -> UnitOutcome:
        """Executes one unit of the plan."""

    @abstractmethod
    def commit_extra(self, work: PlannedWork[Settings]) -> Mapping[str, str]:
        """Returns extra metadata of the commit."""

    @abstractmethod
    def report(
        self, work: PlannedWork[Settings], completion: CompletionTime | None, metadata: CommitMetadata
    ) -> Report_co:
        """Builds the report of a completed plan."""

    @abstractmethod
    def nothing(self, reason: str) -> Report_co:
        """See `PlannedService.nothing`."""

    def num_bytes(self, units: Sequence[UnitT]) -> int:
        """Estimates the bytes that units of a plan read and write; 0 if the plan does not show it."""
        return 0

    def gain(self, context: ServiceContext, state: TableState, plan: PlanT) -> PlanGain | None:
        """Estimates what a plan would improve; None if that is not estimated."""
        return None

    def still_needed(
        self, context: ServiceContext, state: TableState, units: tuple[UnitT, ...]
    ) -> tuple[tuple[UnitT, ...], str]:
        """Returns the units of a plan that are not obsolete when it begins, and why the others are."""
        return units, ""

    def locked(self, context: ServiceContext, purpose: str) -> AbstractContextManager[LockedTable]:
        """Locks the table to make a plan."""
        return context.locked(purpose)

    def before_commit(self, table: LockedTable, work: PlannedWork[Settings]) -> None:
        """Writes what counts from the commit on, besides data files. Called under the lock, and again after a crash."""

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans for what has been committed so far, if a plan is due.

        Raises:
            UnsupportedTableError: a feature of the table would be lost.
            ConfigError: an option does not fit the table.
            LockError: the table lock could not be acquired in time.
        """
        with self._request_plan(context, instant) as (_, scheduled):
            return scheduled

    def schedule_and_begin(
        self, context: ServiceContext, *, instant: InstantTime | None = None
    ) -> PlannedWork[Settings] | Scheduled:
        """See `PlannedService.schedule_and_begin`."""
        with ExitStack() as on_failure:
            with self._request_plan(context, instant) as (table, scheduled):
                if table is None or scheduled.instant is None:
                    return scheduled
                context.storage.sync()  # the plan, without which an inflight file shows nothing
                work = self._begin_plan(context, table.reread(), scheduled.instant, on_failure)
            on_failure.pop_all()
        return work

    def schedule_and_run(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Report_co:
        """See `PlannedService.schedule_and_run`."""
        begun = self.schedule_and_begin(context, instant=instant)
        if isinstance(begun, Scheduled):
            return self.nothing(begun.reason)
        return execute_all(self, context, begun)

    @contextmanager
    def _request_plan(
        self, context: ServiceContext, instant: InstantTime | None
    ) -> Iterator[tuple[LockedTable | None, Scheduled]]:
        """Locks the table and stores a plan, if one is due; None if a table like this needs none."""
        refused, title = self.refused(context), self.name.replace("_", " ")
        if refused:
            yield None, Scheduled(None, refused)
            return
        context.progress.phase(f"planning the {title}")
        with self.locked(context, f"plan a {title}") as table:
            if any(other.time == instant for other in table.plans.of(self.action)):
                yield table, Scheduled(instant)
                return
            chosen = self.choose(context, table, instant)
            if chosen.plan is None:
                yield table, Scheduled(None, chosen.reason)
                return
            self.codec.request(context.storage, table.timeline, chosen.instant, chosen.plan)
            yield table, Scheduled(chosen.instant)

    def preview(self, context: ServiceContext) -> Preview:
        """See `PlannedService.preview`."""
        refused = self.refused(context)
        if refused:
            return Preview((), refused)
        context.progress.phase(f"planning the {self.name.replace('_', ' ')}")
        state = context.state()
        chosen = self.choose(context, state, None)
        if chosen.plan is None:
            return Preview((), chosen.reason)
        return Preview(
            self.codec.rows(chosen.plan),
            chosen.reason,
            self.num_bytes(self.codec.units(chosen.plan)),
            self.gain(context, state, chosen.plan),
        )

    def plan_rows(self, plans: PendingPlans, instant: Instant) -> Sequence[Mapping[str, Any]]:
        """See `PlannedService.plan_rows`."""
        plan = plans.decoded(instant, self.codec.decode)
        return () if plan is None else self.codec.rows(plan)

    def plan_bytes(self, plans: PendingPlans, instant: Instant) -> int:
        """Estimates the bytes that a pending plan reads and writes; 0 if the plan does not show it."""
        plan = plans.decoded(instant, self.codec.decode)
        return 0 if plan is None else self.num_bytes(self.codec.units(plan))

    def planned(self, plans: PendingPlans) -> list[Instant]:
        """See `PlannedService.planned`."""
        return plans.of(self.action)

    def begin(self, context: ServiceContext, instant: InstantTime) -> PlannedWork[Settings]:
        """See `PlannedService.begin`. Obsolete units are removed from the plan.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is executing it.
            UnsupportedTableError: a feature of the table would be lost.
        """
        with ExitStack() as on_failure:
            with context.locked(f"begin the {self.action.value} {instant}") as table:
                work = self._begin_plan(context, table, instant, on_failure)
            on_failure.pop_all()
        return work

    def _begin_plan(
        self, context: ServiceContext, table: LockedTable, instant: InstantTime, on_failure: ExitStack
    ) -> PlannedWork[Settings]:
        """Begins a plan under the lock. `on_failure` is closed if an error occurs before the lock is released, because
        this process does not execute the plan then."""
        storage, timeline, action, codec = context.storage, table.timeline, self.action, self.codec
        plan = codec.existing(storage, timeline, instant)
        settings = self.settings(context, table, plan, instant)
        units = codec.units(plan)
        kept, reason = self.still_needed(context, table, units)
        begun = PlannedAction.begin(table, instant, action, local=self.local)
        on_failure.callback(begun.end)
        if len(kept) == len(units):
            return PlannedWork(begun.attempt, len(kept), settings)
        if kept:
            codec.rewrite(storage, timeline, instant, codec.with_units(plan, kept))
            return PlannedWork(begun.attempt, len(kept), settings)
        undo_attempt(storage, timeline.layout, instant, action)
        remove_plan(table, instant, action)
        begun.end()
        removed = f"the {action.value} {instant} was removed: {reason}"
        _log.warning("%s", removed)
        return PlannedWork(begun.attempt, 0, settings, removed=removed)

    def execute(self, context: ServiceContext, work: PlannedWork[Settings], tasks: Sequence[int]) -> list[UnitOutcome]:
        """Executes some units of a plan in parallel.

        Raises:
            RolledBackError: the attempt was given up in the meantime.
            HistoryCleanedError: a file of the plan is missing.
            UnsupportedTableError: a file contains something that cannot be rewritten.
        """
        check_open(context.storage, work.attempt)
        state = context.state()
        units = self.codec.units(self.codec.existing(context.storage, state.timeline, work.instant))
        sizes = _known_sizes(context, state, [file for task in tasks for file in self.codec.files(units[task])])
        threads = waiting_threads(context.threads, sizes.values()) if sizes else context.threads
        context.progress.phase(self.doing, len(tasks))
        with PlannedAction(context.session, work.attempt) as running:

            def outcome(task: int) -> UnitOutcome:
                return self.execute_unit(context, PlannedUnit(work, running, units[task], task, sizes))

            return in_threads(outcome, tasks, threads)

    def commit(
        self, context: ServiceContext, work: PlannedWork[Settings], outcomes: Sequence[UnitOutcome]
    ) -> Report_co:
        """Completes the action. Idempotent.

        Raises:
            ConfigError: a task has no outcome.
            ConflictError: a write has changed a file group that the plan replaces.
            RolledBackError: the attempt was given up in the meantime.
        """
        by_task = {outcome.task: outcome for outcome in outcomes}
        check_executed(context, str(work.attempt), work, by_task.keys())
        replaced: dict[str, list[str]] = defaultdict(list)
        for partition, file_id in sorted(group for outcome in by_task.values() for group in outcome.replaced):
            replaced[partition].append(file_id)
        metadata = CommitMetadata(
            operation=self.operation,
            stats=tuple(stat for task in sorted(by_task) for stat in by_task[task].stats),
            extra=self.commit_extra(work),
            compacted=self.action in COMPACTIONS,
            replaced={partition: tuple(file_ids) for partition, file_ids in replaced.items()},
        )
        done, metadata = PlannedAction(context.session, work.attempt).commit(
            metadata, first=lambda table: self.before_commit(table, work)
        )
        return self.report(work, done.completion_time, metadata)

    def give_up(self, context: ServiceContext, work: PlannedWork[Settings]) -> None:
        """Removes the files of the attempt; the plan stays."""
        PlannedAction(context.session, work.attempt).give_up()


def _known_sizes(context: ServiceContext, state: TableState, files: Iterable[tuple[str, str]]) -> Mapping[str, int]:
    """Maps paths of some files to sizes, as far as they are listed; empty for a local table, where a request for each
    file costs little."""
    storage = context.storage
    if storage.is_local:
        return {}
    wanted = {join_path(PartitionPath(partition), name): PartitionPath(partition) for partition, name in files}
    partitions = sorted(set(wanted.values()))
    lister: Lister = StorageLister(storage, state.config)
    if len(partitions) > MAX_LISTED_PARTITIONS:
        lister = metadata_lister(state)[0]
    lister.prefetch(partitions)
    return {info.path: info.size for partition in partitions for info in lister.files(partition) if info.path in wanted}
