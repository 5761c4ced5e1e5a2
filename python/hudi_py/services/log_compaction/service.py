"""Log compaction as a planned service (`HoodieLogCompactionPlanGenerator`, `ScheduleCompactionActionExecutor`,
1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.errors import UnsupportedTableError
from hudi_py.merge import CommittedInstants, merge_settings, scan_log
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.compaction.phases import (
    CompactionWork,
    Outcome,
    begin_plan,
    commit_plan,
    execute_plan,
    join_plan,
)
from hudi_py.services.compaction.plan import busy_groups, operations_of
from hudi_py.services.compaction.report import CompactionReport
from hudi_py.services.compaction.rewrite import Rewrite, RewriteSettings, check_compactable
from hudi_py.services.compaction.trigger import since_compaction, since_log_compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction.execute import compact_logs, rewrite_logs
from hudi_py.services.service import Dropped, Scheduled, Work
from hudi_py.storage import Storage
from hudi_py.timeline.compaction_records import encode_compaction_plan
from hudi_py.timeline.plans import CompactionPlan
from hudi_py.timeline.state import TableState
from hudi_py.transaction.attempt import give_up_attempt
from hudi_py.transaction.instants import request

_ACTION = Action.LOG_COMPACTION
_OPERATION = "LOG_COMPACT"
_FIRST_VERSION = 8
"""Since this table version log files name their own instant."""


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """Log compaction of a merge-on-read table of version 8 or 9. Pickles where `rewrite` does."""

    always: bool = False
    """A plan is made whenever a slice has logs enough, however many commits there were since the last one."""
    local: bool = True
    """The process that begins a plan lives until it is completed; False: only the heartbeat tells that it is not."""
    rewrite: Rewrite | None = None
    """Writes the new log file of a slice; None: of a table that holds rows."""
    committed: CommittedInstants | None = None
    """Instants whose log blocks count; goes with a `rewrite`."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Extra metadata of the commit; goes with a `rewrite`."""

    @property
    def name(self) -> str:
        return "log_compaction"

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans a log compaction of what was committed until now, where one is due.

        Raises:
            UnsupportedTableError: the table has a feature that a log compaction would lose, or is of version 6.
            LockError: the table lock could not be acquired in time.
        """
        config = context.config()
        if not config.is_mor:
            return Scheduled(None, f"the table is {config.table_type}; only MERGE_ON_READ tables have logs to compact")
        context.progress.phase("planning the log compaction")
        if self.rewrite is None:
            check_logs_compactable(config, context.options)
        with context.locked("plan a log compaction") as state:
            if instant is not None and any(i.time == instant for i in state.plans.of(_ACTION)):
                return Scheduled(instant)
            return self._schedule(context, state, instant)

    def _schedule(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Scheduled:
        storage, options, timeline = context.storage, context.options, state.timeline
        threshold = options.get(compaction_config.LOG_BLOCKS_THRESHOLD)
        backlog = since_compaction(timeline)
        if backlog is None:
            return Scheduled(None, "there is no delta commit yet")
        if not self.always:
            count = min(backlog.count, since_log_compaction(storage, timeline))
            if count < threshold:
                return Scheduled(
                    None,
                    f"{counted(count, 'delta commit')} since the last compaction or log compaction, it is due after "
                    f"{threshold} ({compaction_config.LOG_BLOCKS_THRESHOLD.key})",
                )
        view = context.view(state)
        chosen = instant if instant is not None else context.session.clock.next_instant(timeline)
        operations = operations_of(
            view,
            list(view.partitions()),
            instant=chosen,
            busy=busy_groups(storage, timeline, view, log_compactions=True),
            max_file_size=options.get(write_config.MAX_FILE_SIZE),
            wanted=partial(_has_enough, storage, threshold, self.committed),
        )
        if not operations:
            return Scheduled(
                None,
                f"no file group has {threshold} log files or blocks ({compaction_config.LOG_BLOCKS_THRESHOLD.key}), "
                "apart from those of pending plans and with partial updates",
            )
        plan = CompactionPlan(tuple(operations), ())
        request(storage, timeline.layout, chosen, _ACTION, encode_compaction_plan(plan, log_compaction=True))
        return Scheduled(chosen)

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        return [instant.time for instant in context.timeline().pending if instant.action is _ACTION]

    def begin(self, context: ServiceContext, instant: InstantTime) -> CompactionWork | Dropped:
        """Takes a plan to inflight. What an attempt that died left of it is removed, and so are file groups which a
        compaction has overtaken, or the whole plan where these are all.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is at it.
            UnsupportedTableError: the table has a feature that a log compaction would lose, or is of version 6.
        """
        return begin_plan(context, instant, _ACTION, partial(self._prepare, context, instant), local=self.local)

    def join(self, context: ServiceContext, instant: InstantTime) -> CompactionWork:
        return join_plan(context, instant, _ACTION, partial(self._prepare, context, instant))

    def _prepare(self, context: ServiceContext, instant: InstantTime, state: TableState) -> RewriteSettings | None:
        return _settings(context, instant, state) if self.rewrite is None else None

    def execute(self, context: ServiceContext, work: Work, pieces: Sequence[int]) -> list[Outcome]:
        """Rewrites the logs of some operations of the plan.

        Raises:
            RolledBackError: the attempt was given up in the meantime.
            HistoryCleanedError: a file of the plan is gone.
            UnsupportedTableError: logs hold partial updates.
        """
        assert isinstance(work, CompactionWork)
        return execute_plan(context, work, pieces, partial(compact_logs, context, work, self.rewrite or rewrite_logs))

    def commit(self, context: ServiceContext, work: Work, outcomes: Sequence[Outcome]) -> CompactionReport:
        """Completes the log compaction. Idempotent.

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


def _settings(context: ServiceContext, instant: InstantTime, state: TableState) -> RewriteSettings:
    config = state.config
    check_logs_compactable(config, context.options)
    settings = RewriteSettings.of(context.storage, config, state.timeline, context.options, as_of=instant)
    if settings.history is not None and settings.history.query is not None:
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table at {context.storage.uri}: its schema evolves on read "
            "(hoodie.schema.on.read.enable); supported are tables whose schema evolves on write; compact the table "
            "instead"
        )
    return settings


def check_logs_compactable(config: TableConfig, options: Options) -> None:
    """Raises UnsupportedTableError for tables whose logs cannot be compacted, or would lose what Apache Hudi's keep."""
    if config.version < _FIRST_VERSION:
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': its version is {config.version}; "
            f"supported are versions {_FIRST_VERSION} and later; compact the table instead"
        )
    check_compactable(config)
    if not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': it has hoodie.populate.meta.fields=false; "
            "supported are tables whose rows have meta columns; compact the table instead"
        )
    merge = merge_settings(config, options.values)
    if merge.payload is not None or merge.merger is not None:
        how = merge.merger or (merge.payload.value if merge.payload is not None else "")
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': its records are merged by {how}; "
            "supported are COMMIT_TIME_ORDERING and EVENT_TIME_ORDERING; compact the table instead"
        )


def _has_enough(storage: Storage, threshold: int, committed: CommittedInstants | None, piece: FileSlice) -> bool:
    """Whether a slice has log files or blocks enough, and no partial updates.

    Source: `HoodieLogCompactionPlanGenerator.isFileSliceEligibleForLogCompaction`, where blocks of one instant count as
    one.
    """
    blocks = scan_log(storage, piece.log_files, committed=committed)
    instants = {block.instant_time for block in blocks}
    enough = len(piece.log_files) >= threshold or len(instants) >= threshold
    return enough and len(instants) > 1 and not any(block.is_partial for block in blocks)
