"""Compaction as a planned service (`ScheduleCompactionActionExecutor`, `RunCompactionActionExecutor`,
`BaseHoodieTableServiceClient.completeCompaction`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, InstantTime
from hudi_py.services.attempt import (
    Attempt,
    begin_attempt,
    check_open,
    close_attempt,
    end_attempt,
    give_up_attempt,
    gone,
    join_attempt,
)
from hudi_py.services.compaction.execute import CompactionWork, Outcome, carry_out
from hudi_py.services.compaction.plan import (
    busy_groups,
    existing_plan,
    partitions_to_look_at,
    pending_plans,
    plan_compaction,
)
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings, check_compactable, rewrite_slice
from hudi_py.services.compaction.strategy import StrategySettings
from hudi_py.services.compaction.trigger import Trigger, why_not_due
from hudi_py.services.context import ServiceContext, complete_action
from hudi_py.services.service import Scheduled, Work
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.metadata import encode_commit_metadata, read_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import format_instant
from hudi_py.write.conflicts import pending_writes
from hudi_py.write.identity import end_work
from hudi_py.write.instants import request
from hudi_py.write.protocols import TableChange

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
            LockError: the table lock was not had in time.
        """
        config = context.config()
        if not config.is_mor:
            return Scheduled(None, f"the table is {config.table_type}; only MERGE_ON_READ tables have logs to compact")
        if self.rewrite is None:
            check_compactable(config)
        with context.locked("plan a compaction") as timeline:
            if instant is not None and any(i.time == instant for i in pending_plans(timeline, _ACTION)):
                return Scheduled(instant)
            return self._schedule(context, timeline, instant)

    def _schedule(self, context: ServiceContext, timeline: Timeline, instant: InstantTime | None) -> Scheduled:
        config, options, storage = context.config(), context.options, context.storage
        now = instant or InstantTime(format_instant(wall_clock_ms(), context.clock.zone))
        if not self.always:
            reason = why_not_due(Trigger.of(options), timeline, now, context.clock.zone)
            if reason:
                return Scheduled(None, reason)
        if config.version < 8:
            # their blocks may lie in log files that the plan names, and would be lost with them
            writes = [write for write in pending_writes(storage, timeline) if instant is None or write.time < instant]
            if writes:
                return Scheduled(
                    None,
                    f"the {writes[0].action.value} {writes[0].time} is pending, and in table version {config.version} "
                    "a compaction is planned only while no write is",
                )
        view = context.view(timeline)
        incremental = options.get(compaction_config.INCREMENTAL) and context.metadata is not None
        chosen = instant if instant is not None else context.clock.next_instant(timeline)
        plan = plan_compaction(
            view,
            partitions_to_look_at(storage, timeline, view, chosen) if incremental else list(view.partitions()),
            StrategySettings.of(options),
            instant=chosen,
            busy=busy_groups(storage, timeline, view, log_compactions=False),
            max_file_size=options.get(write_config.MAX_FILE_SIZE),
            today=datetime.now(context.clock.zone).date(),
            tells_missing=options.get(compaction_config.INCREMENTAL),
        )
        if not plan.operations:
            return Scheduled(None, "no file group has logs to compact, apart from those of pending plans")
        request(storage, timeline.layout, chosen, _ACTION, encode_compaction_plan(plan))
        return Scheduled(chosen)

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        return [instant.time for instant in pending_plans(context.timeline(), _ACTION)]

    def begin(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        """Takes a plan to inflight. What an attempt that died left of it is removed.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is at it.
            UnsupportedTableError: the table has a feature that a compaction would lose.
        """
        attempt: Attempt | None = None
        try:
            with context.locked(f"begin the compaction {instant}") as timeline:
                pieces, settings = self._plan(context, timeline, instant)
                attempt = begin_attempt(context, timeline, instant, _ACTION, local=self.local)
        except BaseException:
            if attempt is not None:  # the lock could not be given back, so nobody will be at work
                end_work(attempt.owner.id)
            raise
        return CompactionWork(attempt, pieces, settings)

    def join(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        timeline = context.timeline()
        attempt = join_attempt(context, timeline, instant, _ACTION)
        return CompactionWork(attempt, *self._plan(context, timeline, instant))

    def _plan(
        self, context: ServiceContext, timeline: Timeline, instant: InstantTime
    ) -> tuple[int, RewriteSettings | None]:
        plan = existing_plan(context.storage, timeline, instant, _ACTION)
        if self.rewrite is not None:
            return len(plan.operations), None
        config = context.config()
        settings = RewriteSettings.of(context.storage, config, timeline, context.options, as_of=instant)
        return len(plan.operations), settings

    def execute(self, context: ServiceContext, work: Work, pieces: Sequence[int]) -> list[Outcome]:
        """Rewrites the slices of some operations of the plan.

        Raises:
            RolledBackError: the attempt was given up in the meantime.
            HistoryCleanedError: a file of the plan is gone.
        """
        assert isinstance(work, CompactionWork)
        check_open(context.storage, work.attempt)
        plan = existing_plan(context.storage, context.timeline(), work.instant, _ACTION)
        context.progress.phase("compacting")
        return carry_out(context, work, plan, pieces, self.rewrite or rewrite_slice, self.extension)

    def commit(self, context: ServiceContext, work: Work, outcomes: Sequence[Outcome]) -> CompactionReport:
        """Completes the compaction. Idempotent.

        Raises:
            ConfigError: the outcome of a piece is missing.
            RolledBackError: the attempt was given up in the meantime.
        """
        assert isinstance(work, CompactionWork)
        storage, attempt = context.storage, work.attempt
        stats = {outcome.piece: outcome.stat for outcome in outcomes}
        missing = [piece for piece in range(work.num_pieces) if piece not in stats]
        if missing:
            raise ConfigError(
                f"Cannot commit the compaction {work.instant} of {storage.uri}: {len(missing)} of its "
                f"{work.num_pieces} pieces were not executed, the first is {missing[0]}; execute them, then commit"
            )
        with context.locked(f"commit the compaction {work.instant}") as timeline:
            done = timeline.find(work.instant, _ACTION)
            if done is not None and done.completed:
                metadata = read_commit_metadata(storage, timeline.layout, done)
                completion = done.completion_time if timeline.layout.version >= 2 else None
                return CompactionReport.of(self.name, work.instant, completion, metadata)
            if done is None:
                raise gone(storage, attempt, "its plan is not there")
            metadata = CommitMetadata(
                operation=_OPERATION,
                stats=tuple(stats[piece] for piece in sorted(stats)),
                extra=work.settings.extra if work.settings is not None else self.extra,
                compacted=True,
            )
            close_attempt(storage, attempt, {stat.path for stat in metadata.stats})
            check_files(context, work, metadata)
            content = encode_commit_metadata(metadata, timeline.layout, action=_ACTION, completed=True)
            change = TableChange(work.instant, _ACTION.comparable, commit=metadata)
            completion = complete_action(context, timeline, _ACTION, change, content)
        end_attempt(storage, attempt)
        return CompactionReport.of(self.name, work.instant, completion, metadata)

    def give_up(self, context: ServiceContext, work: Work) -> None:
        """Removes the files of the attempt; the plan stays."""
        assert isinstance(work, CompactionWork)
        give_up_attempt(context, work.attempt, f"give the compaction {work.instant} up")


def check_files(context: ServiceContext, work: CompactionWork, metadata: CommitMetadata) -> None:
    """Raises RolledBackError where a file of the commit is gone, CorruptFileError where it has another size."""
    for stat in metadata.stats:
        info = context.storage.stat(stat.path)
        if info is None or info.size != stat.file_size:
            found = "is gone" if info is None else f"has {info.size} bytes instead of {stat.file_size}"
            raise gone(context.storage, work.attempt, f"its data file {stat.path} {found}")
