"""Compaction as a planned service (`ScheduleCompactionActionExecutor`, `RunCompactionActionExecutor`,
`BaseHoodieTableServiceClient.completeCompaction`, `HoodieCompactor`, 1.2.0), and what it shares with log compaction."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Final

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.errors import ConfigError
from hudi_py.file_stats.columns import indexed_columns
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.merge.base import Watch
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted, show_bytes
from hudi_py.services.compaction.plan import (
    COMPACTION_PLANS,
    CompactionScope,
    busy_groups,
    operations_of,
    partitions_to_consider,
    plan_compaction,
    rewritten_bytes,
)
from hudi_py.services.compaction.rewrite import (
    Rewrite,
    RewriteSettings,
    RewriteTask,
    Rewritten,
    check_compactable,
    rewrite_slice,
)
from hudi_py.services.compaction.trigger import Trigger, since_compaction, why_not_due
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, Service, Step, run_step, schedule_step
from hudi_py.services.planned.codec import PlanCodec, missing_file, slice_of
from hudi_py.services.planned.phases import Chosen, PlannedUnit, PlannedWork, RewritingService, UnitOutcome
from hudi_py.services.planned.service import ServiceReport, planned_files
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan, FileGroup
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import SCHEMA_KEY
from hudi_py.timeline.times import format_instant
from hudi_py.transaction.publication import FilePermit
from hudi_py.write.changes import change_log
from hudi_py.write.context import TaskId
from hudi_py.write.settings import max_file_size


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(ServiceReport):
    """The result of a compaction or log compaction."""

    num_file_groups: int = 0
    num_log_files: int = 0
    """Log files that were merged."""
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
        """Builds the report of a completed action."""
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
    """Whether to plan whenever there are enough logs, even if a plan is not due by the options."""
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
        """Returns how to rewrite the slices of a table of rows. Raises UnsupportedTableError."""

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

    def num_bytes(self, units: Sequence[CompactionOperation]) -> int:
        return sum(rewritten_bytes(unit.metrics) for unit in units)

    def commit_extra(self, work: CompactionWork) -> Mapping[str, str]:
        return work.settings.extra if work.settings is not None else self.extra

    def report(
        self, work: CompactionWork, completion: CompletionTime | None, metadata: CommitMetadata
    ) -> CompactionReport:
        return CompactionReport.of(self.name, work.instant, completion, metadata)

    def nothing(self, reason: str) -> CompactionReport:
        return CompactionReport(self.name, None, reason=reason)


def compact_slice(context: ServiceContext, planned: CompactionSlice, rewrite: Rewrite) -> WriteStat:
    """Writes and publishes the new base file of one operation.

    Raises:
        RolledBackError: the attempt was given up in the meantime.
        HistoryCleanedError: a file of the plan is missing.
    """
    started = time.monotonic()
    whole = slice_of(context, planned.unit, planned.sizes)
    base = whole.base_file
    publication, settings, token = planned.running.publication, planned.work.settings, str(TaskId.fresh(planned.number))
    extension = planned.work.attempt.config.base_file_extension
    permit = publication.permit_base_file(
        whole.partition, whole.file_id, token, merges=base is not None, extension=extension
    )
    logging = None if settings is None else settings.changes
    with change_log(publication, logging, planned.work.instant, whole.partition, whole.file_id, token) as changes:
        done = publish_rewritten(
            context, planned, rewrite, whole, permit, watch=None if changes is None else changes.add
        )
        cdc_stats = None if changes is None else changes.finish()
    if done.ranges is not None and planned.running.keeps_sidecars:
        sidecar = Sidecar()
        sidecar.set_ranges(done.ranges)
        planned.running.keep_sidecar(sidecar, permit.path)
    took_ms = int((time.monotonic() - started) * 1000)
    return WriteStat.of_base_file(
        done.file(whole, permit.path, took_ms), base, cdc_stats=cdc_stats, compacted=done.logs
    )


def publish_rewritten(
    context: ServiceContext,
    planned: CompactionSlice,
    rewrite: Rewrite,
    whole: FileSlice,
    permit: FilePermit,
    *,
    watch: Watch | None = None,
) -> Rewritten:
    """Writes the new file of a slice to the path of the permit, and publishes it. `watch`: see `RewriteTask`.

    Raises:
        HistoryCleanedError: a file of the plan is missing.
    """
    storage, work = context.storage, planned.work
    name = permit.path.rpartition("/")[2]
    task = RewriteTask(
        storage, work.attempt.config, context.options, work.instant, whole, permit.temp_path, name, work.settings, watch
    )
    try:
        with planned.running.publication.publishing(permit):
            done = rewrite(task)
    except FileNotFoundError as error:
        raise missing_file(storage, f"compact the file group {whole.file_id}", whole.partition, error) from error
    context.progress.wrote(done.size)
    return done


_NO_LOGS: Final = "no file group has logs to compact that are not in a pending plan"


@dataclass(frozen=True, slots=True)
class Compaction(LogRewriting):
    """The compaction of a merge-on-read table."""

    operation: ClassVar[str] = "COMPACT"

    groups: frozenset[FileGroup] | None = None
    """Compacts these file groups, whatever the strategy; None: those that the strategy chooses."""

    @property
    def codec(self) -> PlanCodec[CompactionPlan, CompactionOperation]:
        return COMPACTION_PLANS

    def check_table(self, config: TableConfig, options: Options) -> None:
        check_compactable(config)

    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[CompactionPlan]:
        config, timeline, options, storage = state.config, state.timeline, context.options, context.storage
        now = instant or InstantTime(format_instant(wall_clock_ms(), context.session.zone))
        if not self.always:
            reason = why_not_due(Trigger.of(options), timeline, now, context.session.zone)
            if reason:
                return Chosen(now, None, reason)
        if not config.logs_named_by_instant and not context.session.settings.optimistic:
            # Blocks of pending writes may be in log files that the plan names, and would be lost with them. With
            # several writers, such writes conflict with the plan instead
            pending = PendingPlans(storage, timeline).writes
            writes = [write for write in pending if instant is None or write.time < instant]
            if writes:
                return Chosen(
                    now,
                    None,
                    f"the {writes[0].action.value} {writes[0].time} is pending, and in table version {config.version} "
                    "a compaction is planned only while no write is pending",
                )
        view = context.view(state)
        # on demand, all partitions are listed: plans do not record which ones a strategy skipped
        looks_up = not (config.is_metadata_table or self.always)
        incremental = options.get(compaction_config.INCREMENTAL) and looks_up
        chosen = instant if instant is not None else context.session.clock.next_instant(timeline)
        busy = busy_groups(storage, timeline, view, log_compactions=False)
        scope = CompactionScope(chosen, busy, max_file_size(config, options))
        if self.groups is not None:
            among = self.groups
            operations = operations_of(
                view,
                sorted({partition for partition, _ in among}),
                scope,
                wanted=lambda slice_: (slice_.partition, slice_.file_id) in among,
            )
            # it leaves file groups out in any partition, which an incremental plan would not consider again
            left_out = tuple(map(str, view.partitions()))
            return Chosen(
                chosen,
                CompactionPlan(tuple(operations), left_out) if operations else None,
                "" if operations else _NO_LOGS,
            )
        plan = plan_compaction(
            view,
            partitions_to_consider(storage, timeline, view, chosen) if incremental else list(view.partitions()),
            options,
            scope,
            today=datetime.now(context.session.zone).date(),
            records_missing=options.get(compaction_config.INCREMENTAL),
        )
        if not plan.operations:
            return Chosen(chosen, None, _NO_LOGS)
        return Chosen(chosen, plan)

    def table_settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings:
        settings = RewriteSettings.of(state, context.options, as_of=instant)
        schema = settings.extra[SCHEMA_KEY]
        wanted = context.session.metadata.sidecar(state.config, schema)
        if wanted is None or not wanted.columns:
            return settings
        columns = indexed_columns(schema, names=wanted.columns)
        return replace(settings, range_columns=tuple(column for column in columns if column.name in wanted.columns))

    def execute_unit(self, context: ServiceContext, planned: CompactionSlice) -> UnitOutcome:
        return UnitOutcome(planned.number, (compact_slice(context, planned, self.rewrite or rewrite_slice),))


def _runs_inline(options: Options) -> bool:
    # `DataSourceUtils.createHoodieConfig`: a table that is not compacted asynchronously is compacted inline
    return options.get(compaction_config.INLINE) or not options.get(compaction_config.ASYNC)


def _steps_after_commit(options: Options, config: TableConfig) -> Iterator[Step]:
    if not config.is_mor:
        return
    if _runs_inline(options):
        yield run_step(Compaction())
    elif options.get(compaction_config.SCHEDULE_INLINE):
        yield schedule_step(Compaction())


def _check_options(options: Options) -> None:
    if options.get(compaction_config.INLINE) and options.get(compaction_config.SCHEDULE_INLINE):
        raise ConfigError(  # `HoodieWriteConfig.validate`, 1.2.0
            f"Cannot write with {compaction_config.INLINE.key} = true and {compaction_config.SCHEDULE_INLINE.key} "
            "= true: a commit is followed either by a compaction or by a plan to run later; set only one of them"
        )


def _check_table(options: Options, config: TableConfig) -> None:
    if config.is_mor and (_runs_inline(options) or options.get(compaction_config.SCHEDULE_INLINE)):
        check_compactable(config)


def _find_due(context: ServiceContext, state: TableState) -> Due | None:
    if not state.config.is_mor:
        return None
    now = InstantTime(format_instant(wall_clock_ms(), context.session.zone))
    reason = why_not_due(Trigger.of(context.options), state.timeline, now, context.session.zone)
    backlog = since_compaction(state.timeline)
    if reason or backlog is None:
        return Due("compaction", False, reason)
    preview = Compaction().preview(context)  # as a step after a commit plans it
    if not preview.rows:
        return Due("compaction", False, preview.reason)
    groups = counted(len(preview.rows), "file group")
    waiting = f"{counted(backlog.count, 'delta commit')} not compacted, {groups} with logs"
    files = sum(map(planned_files, preview.rows))
    return Due("compaction", True, waiting, files=files, num_bytes=preview.num_bytes)


def _make_compaction(*, local: bool, when_due: bool = False) -> Compaction:
    return Compaction(always=not when_due, local=local)


COMPACTION: Final = Service(
    name="compaction",
    help="Merges logs into new base files",
    plans=_make_compaction,
    arguments=(Argument("when_due", bool, "whether to plan only if a compaction is due by the options"),),
    command="compact",
    after_commit=AfterCommitRule(
        _steps_after_commit,
        check_options=_check_options,
        check_table=_check_table,
        switch={compaction_config.INLINE: "true", compaction_config.SCHEDULE_INLINE: "false"},
        left=lambda options, config: config.is_mor,
    ),
    due=_find_due,
)
