"""The phases of planned services that rewrite file slices: begin a plan, execute its tasks, commit it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, TypeVar

from hudi_py.errors import ConfigError
from hudi_py.metadata.files import FEW_PARTITIONS, metadata_lister
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action, CompletionTime, InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.removal import remove_plan
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.planned.service import check_executed
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads, waiting_threads
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.pending_plans import compaction_plan
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.attempt import PlannedAction, undo_attempt
from hudi_py.transaction.instants import requested_path
from hudi_py.transaction.owner.claim import Attempt, check_open
from hudi_py.view import Lister, StorageLister

_log = logging.getLogger(__name__)

Settings = TypeVar("Settings")
Report_co = TypeVar("Report_co", bound=ServiceReport, covariant=True)


@dataclass(frozen=True, slots=True)
class SliceWork(Generic[Settings]):
    """A plan in progress. Its tasks are its operations, in order. Implements `Work`."""

    attempt: Attempt
    num_tasks: int
    settings: Settings | None
    """How to rewrite slices, resolved when the plan was begun."""
    removed: str = ""

    @property
    def instant(self) -> InstantTime:
        return self.attempt.instant


@dataclass(frozen=True, slots=True)
class PlannedSlice(Generic[Settings]):
    """One operation of a plan in progress, and the attempt that executes it."""

    work: SliceWork[Settings]
    running: PlannedAction
    operation: CompactionOperation
    number: int
    """Number of the operation in its plan."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Path to size in bytes of files of the plan that need not be looked up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one operation."""

    task: int
    stat: WriteStat


class SliceService(ABC, Generic[Settings, Report_co]):
    """The phases of a `PlannedService` after planning. Subclasses define how to rewrite one slice."""

    __slots__ = ()

    action: ClassVar[Action]
    operation: ClassVar[str]
    """Name of the `WriteOperationType`."""

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
    def settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> Settings | None:
        """How to rewrite the slices of the plan. Raises UnsupportedTableError if a feature would be lost."""

    @abstractmethod
    def rewrite_one(self, context: ServiceContext, planned: PlannedSlice[Settings]) -> WriteStat:
        """Executes one operation of the plan."""

    @abstractmethod
    def commit_extra(self, work: SliceWork[Settings]) -> Mapping[str, str]:
        """Extra metadata of the commit."""

    @abstractmethod
    def report(self, instant: InstantTime, completion: CompletionTime | None, metadata: CommitMetadata) -> Report_co:
        """The report of a completed plan."""

    def still_needed(
        self, context: ServiceContext, state: TableState, operations: tuple[CompactionOperation, ...]
    ) -> tuple[CompactionOperation, ...]:
        """The operations of a plan that are not obsolete when it begins."""
        return operations

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        return [instant.time for instant in context.timeline().pending if instant.action is self.action]

    def begin(self, context: ServiceContext, instant: InstantTime) -> SliceWork[Settings]:
        """See `PlannedService.begin`. Obsolete operations are removed from the plan.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is executing it.
            UnsupportedTableError: a feature of the table would be lost.
        """
        begun: PlannedAction | None = None
        storage, action = context.storage, self.action
        try:
            with context.locked(f"begin the {action.value} {instant}") as table:
                timeline = table.timeline
                plan = existing_plan(storage, timeline, instant, action)
                settings = self.settings(context, table, instant)
                kept = self.still_needed(context, table, plan.operations)
                obsolete = bool(plan.operations) and not kept
                begun = PlannedAction.begin(table, instant, action, local=self.local)
                if obsolete:
                    undo_attempt(storage, timeline.layout, instant, action)
                    remove_plan(table, instant, action)
                elif len(kept) < len(plan.operations):
                    rewrite_plan(storage, timeline, instant, action, replace(plan, operations=kept))
        except BaseException:  # in any case, this process is not executing the plan
            if begun is not None:
                begun.end()
            raise
        if not obsolete:
            return SliceWork(begun.attempt, len(kept), settings)
        begun.end()
        reason = (
            f"the {action.value} {instant} was removed: later compactions cover the logs of its file groups, or the "
            "file groups were replaced"
        )
        _log.warning("%s", reason)
        return SliceWork(begun.attempt, 0, settings, removed=reason)

    def execute(self, context: ServiceContext, work: SliceWork[Settings], tasks: Sequence[int]) -> list[Outcome]:
        """Executes some operations of a plan in parallel.

        Raises:
            RolledBackError: the attempt was given up in the meantime.
            HistoryCleanedError: a file of the plan is missing.
            UnsupportedTableError: the logs contain something that cannot be rewritten.
        """
        check_open(context.storage, work.attempt)
        state = context.state()
        plan = existing_plan(context.storage, state.timeline, work.instant, self.action)
        sizes = _sizes(context, state, [plan.operations[task] for task in tasks])
        threads = waiting_threads(context.threads, sizes.values()) if sizes else context.threads
        context.progress.phase("compacting", len(tasks))
        with PlannedAction(context.session, work.attempt) as running:

            def outcome(task: int) -> Outcome:
                planned = PlannedSlice(work, running, plan.operations[task], task, sizes)
                return Outcome(task, self.rewrite_one(context, planned))

            return in_threads(outcome, tasks, threads)

    def commit(self, context: ServiceContext, work: SliceWork[Settings], outcomes: Sequence[Outcome]) -> Report_co:
        """Completes the action. Idempotent.

        Raises:
            ConfigError: a task has no outcome.
            RolledBackError: the attempt was given up in the meantime.
        """
        stats = {outcome.task: outcome.stat for outcome in outcomes}
        check_executed(context, str(work.attempt), work, stats.keys())
        metadata = CommitMetadata(
            operation=self.operation,
            stats=tuple(stats[task] for task in sorted(stats)),
            extra=self.commit_extra(work),
            compacted=True,
        )
        done, metadata = PlannedAction(context.session, work.attempt).commit(metadata)
        return self.report(work.instant, done.completion_time, metadata)

    def give_up(self, context: ServiceContext, work: SliceWork[Settings]) -> None:
        """Removes the files of the attempt; the plan stays."""
        PlannedAction(context.session, work.attempt).give_up()


def _sizes(context: ServiceContext, state: TableState, operations: Sequence[CompactionOperation]) -> Mapping[str, int]:
    """Path to size of the files of some operations, as far as they are listed; empty for a local table, where looking
    at each file costs little."""
    storage = context.storage
    if storage.is_local:
        return {}
    partitions = sorted({PartitionPath(operation.partition_path) for operation in operations})
    wanted = {
        join_path(PartitionPath(each.partition_path), name)
        for each in operations
        for name in (each.base_file, *each.log_files)
        if name is not None
    }
    lister: Lister = StorageLister(storage, state.config)
    if len(partitions) > FEW_PARTITIONS:
        lister = metadata_lister(state)[0]
    lister.prefetch(partitions)
    return {info.path: info.size for partition in partitions for info in lister.files(partition) if info.path in wanted}


def existing_plan(storage: Storage, timeline: Timeline, instant: InstantTime, action: Action) -> CompactionPlan:
    """The plan of a compaction or log compaction, pending or completed.

    Raises:
        ConfigError: there is no such plan.
    """
    plan = compaction_plan(storage, timeline.layout, instant, action)
    if plan is None:
        raise ConfigError(
            f"Cannot run the {action.value} {instant} of {storage.uri}: there is no such plan; pending: "
            + (", ".join(i.time for i in timeline.pending if i.action is action) or "none"),
            instant=instant,
        )
    return plan


def rewrite_plan(
    storage: Storage, timeline: Timeline, instant: InstantTime, action: Action, plan: CompactionPlan
) -> None:
    """Replaces the plan of a pending compaction or log compaction."""
    content = encode_compaction_plan(plan, log_compaction=action is Action.LOG_COMPACTION)
    storage.put(requested_path(timeline.layout, instant, action), content)
