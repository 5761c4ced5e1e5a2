"""Declares what compaction and log compaction have in common: their work and their report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from hudi_py.config import Options
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, show_bytes
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.phases import PlannedUnit, PlannedWork, RewritingService
from hudi_py.services.planned.report import ServiceReport
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.state import TableState


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(ServiceReport):
    """What a compaction, or a log compaction, did."""

    num_file_groups: int = 0
    num_log_files: int = 0
    """Log files that were merged away."""
    num_rows: int = 0
    """Rows in the new files."""
    num_updated: int = 0
    num_inserted: int = 0
    num_deleted: int = 0
    log_bytes: int = 0
    """Bytes of the log blocks that were merged."""
    written_bytes: int = 0
    """Bytes of the new files."""

    @classmethod
    def of(
        cls, service: str, instant: InstantTime, completion: CompletionTime | None, metadata: CommitMetadata
    ) -> CompactionReport:
        """The report of a completed action."""
        stats = metadata.stats
        logs = [stat.compacted for stat in stats if stat.compacted is not None]
        return cls(
            service,
            instant,
            completion,
            num_file_groups=len(stats),
            num_log_files=sum(log.files for log in logs),
            num_rows=sum(stat.num_writes for stat in stats),
            num_updated=sum(stat.num_updates for stat in stats),
            num_inserted=sum(stat.num_inserts for stat in stats),
            num_deleted=sum(stat.num_deletes for stat in stats),
            log_bytes=sum(log.size for log in logs),
            written_bytes=sum(stat.file_size for stat in stats),
        )

    def _summary(self) -> Iterator[str]:
        if self.instant is None:
            return
        yield counted(self.num_file_groups, "file group")
        yield f"{counted(self.num_log_files, 'log file')} ({show_bytes(self.log_bytes)}) merged"
        changes = {"updated": self.num_updated, "inserted": self.num_inserted, "deleted": self.num_deleted}
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in changes.items() if count)
        rows = counted(self.num_rows, "row") + (f" ({kinds})" if kinds else "")
        yield f"{rows}, {show_bytes(self.written_bytes)} written"


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
