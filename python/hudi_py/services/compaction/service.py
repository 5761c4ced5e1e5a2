"""Compaction as a planned service (`ScheduleCompactionActionExecutor`, `RunCompactionActionExecutor`,
`BaseHoodieTableServiceClient.completeCompaction`, 1.2.0)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Final

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.file_stats.columns import indexed_columns
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.services.compaction.base import CompactionSlice, LogRewriting
from hudi_py.services.compaction.execute import compact_slice
from hudi_py.services.compaction.plan import (
    COMPACTION_PLANS,
    CompactionScope,
    busy_groups,
    operations_of,
    partitions_to_consider,
    plan_compaction,
)
from hudi_py.services.compaction.rewrite import RewriteSettings, check_compactable, rewrite_slice
from hudi_py.services.compaction.trigger import Trigger, why_not_due
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.codec import PlanCodec
from hudi_py.services.planned.phases import Chosen, UnitOutcome
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan, FileGroup
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import SCHEMA_KEY
from hudi_py.timeline.times import format_instant
from hudi_py.write.settings import max_file_size

_NO_LOGS: Final = "no file group has logs to compact that are not in a pending plan"


@dataclass(frozen=True, slots=True)
class Compaction(LogRewriting):
    """Compaction of a merge-on-read table."""

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
            found = operations_of(
                view,
                sorted({partition for partition, _ in among}),
                scope,
                wanted=lambda slice_: (slice_.partition, slice_.file_id) in among,
            )
            # it leaves file groups out in any partition, which an incremental plan would not consider again
            left_out = tuple(map(str, view.partitions()))
            return Chosen(chosen, CompactionPlan(tuple(found), left_out) if found else None, "" if found else _NO_LOGS)
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
        found = RewriteSettings.of(state, context.options, as_of=instant)
        schema = found.extra[SCHEMA_KEY]
        wanted = context.session.metadata.sidecar(state.config, schema)
        if wanted is None or not wanted.columns:
            return found
        columns = indexed_columns(schema, names=wanted.columns)
        return replace(found, range_columns=tuple(column for column in columns if column.name in wanted.columns))

    def execute_unit(self, context: ServiceContext, planned: CompactionSlice) -> UnitOutcome:
        return UnitOutcome(planned.number, (compact_slice(context, planned, self.rewrite or rewrite_slice),))
