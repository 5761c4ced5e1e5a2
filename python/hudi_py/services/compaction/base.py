"""What compaction and log compaction have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from hudi_py.config import Options
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.phases import PlannedUnit, PlannedWork, RewritingService
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.state import TableState

CompactionWork = PlannedWork[RewriteSettings]
CompactionSlice = PlannedUnit[CompactionOperation, RewriteSettings]


@dataclass(frozen=True, slots=True)
class LogRewriting(RewritingService[CompactionPlan, CompactionOperation, RewriteSettings, CompactionReport]):
    """The common part of compaction and log compaction: rewrites file slices with logs. Pickles if `rewrite` does."""

    doing: ClassVar[str] = "compacting"

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
    def table_settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings:
        """How to rewrite the slices of a table of rows. Raises UnsupportedTableError."""

    def refused(self, context: ServiceContext) -> str:
        config = context.config()
        if not config.is_mor:
            return f"the table is {config.table_type}; only MERGE_ON_READ tables have logs to compact"
        if self.rewrite is None:
            self.check_table(config, context.options)
        return ""

    def settings(
        self, context: ServiceContext, state: TableState, plan: CompactionPlan, instant: InstantTime
    ) -> RewriteSettings | None:
        return self.table_settings(context, state, instant) if self.rewrite is None else None

    def commit_extra(self, work: CompactionWork) -> Mapping[str, str]:
        return work.settings.extra if work.settings is not None else self.extra

    def report(
        self, work: CompactionWork, completion: CompletionTime | None, metadata: CommitMetadata
    ) -> CompactionReport:
        return CompactionReport.of(self.name, work.instant, completion, metadata)

    def nothing(self, reason: str) -> CompactionReport:
        return CompactionReport(self.name, None, reason=reason)
