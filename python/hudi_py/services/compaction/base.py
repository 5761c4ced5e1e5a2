"""What compaction and log compaction have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudi_py.config import Options
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.services.compaction.plan import compaction_rows
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.phases import PlannedSlice, SliceService, SliceWork
from hudi_py.services.planned.service import Preview, Scheduled
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.plans import CompactionPlan
from hudi_py.timeline.state import TableState
from hudi_py.transaction.instants import request

CompactionWork = SliceWork[RewriteSettings]
CompactionSlice = PlannedSlice[RewriteSettings]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a plan of an instant would compact."""

    instant: InstantTime
    plan: CompactionPlan | None
    """None if there is nothing to do."""
    reason: str = ""
    """Why there is nothing to do."""


def not_mor(config: TableConfig) -> str:
    """Why a copy-on-write table is not compacted."""
    return f"the table is {config.table_type}; only MERGE_ON_READ tables have logs to compact"


@dataclass(frozen=True, slots=True)
class LogRewriting(SliceService[RewriteSettings, CompactionReport]):
    """The common part of compaction and log compaction: rewrites file slices with logs. Pickles if `rewrite` does."""

    always: bool = False
    """Whether to plan whenever there are enough logs, even if the options do not make a plan due."""
    local: bool = True
    rewrite: Rewrite | None = None
    """Writes the new file of a slice; None: as for tables of rows."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Extra metadata of the commit; used with `rewrite`."""

    @abstractmethod
    def check_table(self, config: TableConfig, options: Options) -> None:
        """Raises UnsupportedTableError if a feature of the table would be lost."""

    @abstractmethod
    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen:
        """Chooses the slices of a plan, if one is due. Changes nothing."""

    @abstractmethod
    def table_settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings:
        """How to rewrite the slices of a table of rows. Raises UnsupportedTableError."""

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans for what has been committed so far, if a plan is due.

        Raises:
            UnsupportedTableError: a feature of the table would be lost.
            ConfigError: the strategy works by days, and the path of a partition is not a date.
            LockError: the table lock could not be acquired in time.
        """
        config, title = context.config(), self.name.replace("_", " ")
        if not config.is_mor:
            return Scheduled(None, not_mor(config))
        context.progress.phase(f"planning the {title}")
        if self.rewrite is None:
            self.check_table(config, context.options)
        with context.locked(f"plan a {title}") as table:
            if any(each.time == instant for each in table.plans.of(self.action)):
                return Scheduled(instant)
            chosen = self.choose(context, table, instant)
            if chosen.plan is None:
                return Scheduled(None, chosen.reason)
            content = encode_compaction_plan(chosen.plan, log_compaction=self.action is Action.LOG_COMPACTION)
            request(context.storage, table.timeline.layout, chosen.instant, self.action, content)
            return Scheduled(chosen.instant)

    def preview(self, context: ServiceContext) -> Preview:
        config = context.config()
        if not config.is_mor:
            return Preview((), not_mor(config))
        self.check_table(config, context.options)
        context.progress.phase(f"planning the {self.name.replace('_', ' ')}")
        chosen = self.choose(context, context.state(), None)
        return Preview(() if chosen.plan is None else compaction_rows(chosen.plan), chosen.reason)

    def plan_rows(self, plans: PendingPlans, instant: Instant) -> Sequence[Mapping[str, Any]]:
        """See `PlannedService.plan_rows`."""
        plan = plans.compaction(instant)
        return () if plan is None else compaction_rows(plan)

    def settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings | None:
        return self.table_settings(context, state, instant) if self.rewrite is None else None

    def commit_extra(self, work: CompactionWork) -> Mapping[str, str]:
        return work.settings.extra if work.settings is not None else self.extra

    def report(
        self, instant: InstantTime, completion: CompletionTime | None, metadata: CommitMetadata
    ) -> CompactionReport:
        return CompactionReport.of(self.name, instant, completion, metadata)

    def nothing(self, reason: str) -> CompactionReport:
        return CompactionReport(self.name, None, reason=reason)
