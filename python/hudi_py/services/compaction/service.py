"""Compaction as a planned service (`ScheduleCompactionActionExecutor`, `RunCompactionActionExecutor`,
`BaseHoodieTableServiceClient.completeCompaction`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.model.instant import Action, InstantTime
from hudi_py.services.compaction.execute import compact_slice
from hudi_py.services.compaction.phases import (
    CompactionWork,
    Outcome,
    Prepare,
    begin_plan,
    commit_plan,
    execute_plan,
    join_plan,
)
from hudi_py.services.compaction.plan import (
    busy_groups,
    partitions_to_look_at,
    plan_compaction,
)
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings, check_compactable, rewrite_slice
from hudi_py.services.compaction.strategy import StrategySettings
from hudi_py.services.compaction.trigger import Trigger, why_not_due
from hudi_py.services.context import ServiceContext
from hudi_py.services.service import Scheduled, Work
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.state import TableState
from hudi_py.timeline.times import format_instant
from hudi_py.transaction.attempt import give_up_attempt
from hudi_py.transaction.instants import request
from hudi_py.transaction.session import LockedTable

_ACTION = Action.COMPACTION
_OPERATION = "COMPACT"


@dataclass(frozen=True, slots=True)
class Compaction:
    """Compaction of a merge-on-read table. Pickles where `rewrite` does."""

    always: bool = False
    """A plan is made whenever there are logs, whether a compaction is due by the options or not."""
    local: bool = True
    """The process that begins a plan lives until it is completed; False: only the heartbeat tells that it is not."""
    rewrite: Rewrite | None = None
    """Writes the new base file of a slice; None: Parquet, of a table that holds rows."""
    extension: str = "parquet"
    """Of new base files; another one goes with a `rewrite`."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Extra metadata of the commit; goes with a `rewrite`."""

    @property
    def name(self) -> str:
        return "compaction"

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans a compaction of what was committed until now, where one is due.

        Raises:
            UnsupportedTableError: the table has a feature that a compaction would lose.
            ConfigError: a strategy by days meets a partition whose path is no date.
            LockError: the table lock could not be acquired in time.
        """
        config = context.config()
        if not config.is_mor:
            return Scheduled(None, f"the table is {config.table_type}; only MERGE_ON_READ tables have logs to compact")
        context.progress.phase("planning the compaction")
        if self.rewrite is None:
            check_compactable(config)
        with context.locked("plan a compaction") as state:
            if instant is not None and any(i.time == instant for i in state.plans.of(_ACTION)):
                return Scheduled(instant)
            return self._schedule(context, state, instant)

    def _schedule(self, context: ServiceContext, state: LockedTable, instant: InstantTime | None) -> Scheduled:
        config, timeline, options, storage = state.config, state.timeline, context.options, context.storage
        now = instant or InstantTime(format_instant(wall_clock_ms(), context.session.zone))
        if not self.always:
            reason = why_not_due(Trigger.of(options), timeline, now, context.session.zone)
            if reason:
                return Scheduled(None, reason)
        if config.version < 8:
            # their blocks may lie in log files that the plan names, and would be lost with them
            writes = [write for write in state.plans.writes if instant is None or write.time < instant]
            if writes:
                return Scheduled(
                    None,
                    f"the {writes[0].action.value} {writes[0].time} is pending, and in table version {config.version} "
                    "a compaction is planned only while no write is",
                )
        view = context.view(state)
        # on demand everything is looked at: what a strategy by partition passed over is not known as left out
        looks_up = context.session.metadata is not None and not self.always
        incremental = options.get(compaction_config.INCREMENTAL) and looks_up
        chosen = instant if instant is not None else context.session.clock.next_instant(timeline)
        plan = plan_compaction(
            view,
            partitions_to_look_at(storage, timeline, view, chosen) if incremental else list(view.partitions()),
            StrategySettings.of(options),
            instant=chosen,
            busy=busy_groups(storage, timeline, view, log_compactions=False),
            max_file_size=options.get(write_config.MAX_FILE_SIZE),
            today=datetime.now(context.session.zone).date(),
            tells_missing=options.get(compaction_config.INCREMENTAL),
        )
        if not plan.operations:
            return Scheduled(None, "no file group has logs to compact, apart from those of pending plans")
        request(storage, timeline.layout, chosen, _ACTION, encode_compaction_plan(plan))
        return Scheduled(chosen)

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        return [instant.time for instant in context.timeline().pending if instant.action is _ACTION]

    def begin(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        """Takes a plan to inflight. What an attempt that died left of it is removed.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is at it.
            UnsupportedTableError: the table has a feature that a compaction would lose.
        """
        work = begin_plan(context, instant, _ACTION, self._prepare(context, instant), local=self.local)
        assert isinstance(work, CompactionWork)  # log compactions alone may have nothing left to do
        return work

    def join(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        return join_plan(context, instant, _ACTION, self._prepare(context, instant))

    def _prepare(self, context: ServiceContext, instant: InstantTime) -> Prepare:
        def settings(state: TableState) -> RewriteSettings | None:
            if self.rewrite is not None:
                return None
            return RewriteSettings.of(context.storage, state.config, state.timeline, context.options, as_of=instant)

        return settings

    def execute(self, context: ServiceContext, work: Work, pieces: Sequence[int]) -> list[Outcome]:
        """Rewrites the slices of some operations of the plan.

        Raises:
            RolledBackError: the attempt was given up in the meantime.
            HistoryCleanedError: a file of the plan is gone.
        """
        assert isinstance(work, CompactionWork)
        one = partial(compact_slice, context, work, self.rewrite or rewrite_slice, self.extension)
        return execute_plan(context, work, pieces, one)

    def commit(self, context: ServiceContext, work: Work, outcomes: Sequence[Outcome]) -> CompactionReport:
        """Completes the compaction. Idempotent.

        Raises:
            ConfigError: the outcome of a piece is missing.
            RolledBackError: the attempt was given up in the meantime.
        """
        assert isinstance(work, CompactionWork)
        extra = work.settings.extra if work.settings is not None else self.extra
        return commit_plan(context, self.name, _OPERATION, work, outcomes, extra)

    def nothing(self, reason: str) -> CompactionReport:
        return CompactionReport(self.name, None, reason=reason)

    def give_up(self, context: ServiceContext, work: Work) -> None:
        """Removes the files of the attempt; the plan stays."""
        assert isinstance(work, CompactionWork)
        give_up_attempt(context.session, work.attempt)
