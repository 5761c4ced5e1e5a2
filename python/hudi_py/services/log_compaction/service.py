"""Log compaction as a planned service (`HoodieLogCompactionPlanGenerator`, `ScheduleCompactionActionExecutor`,
1.2.0)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.errors import UnsupportedTableError
from hudi_py.merge import CommittedInstants, merge_settings, scan_log
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.compaction.base import CompactionSlice, LogRewriting
from hudi_py.services.compaction.plan import LOG_COMPACTION_PLANS, busy_groups, operations_of, without_obsolete
from hudi_py.services.compaction.rewrite import RewriteSettings, check_compactable
from hudi_py.services.compaction.trigger import since_compaction, since_log_compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction.execute import compact_logs, rewrite_logs
from hudi_py.services.planned.codec import PlanCodec
from hudi_py.services.planned.phases import Chosen, UnitOutcome
from hudi_py.storage import Storage
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.state import TableState

_FIRST_VERSION = 8
"""First table version in which log files are named by their own instant."""


@dataclass(frozen=True, slots=True)
class LogCompaction(LogRewriting):
    """Log compaction of a merge-on-read table of version 8 or 9."""

    committed: CommittedInstants | None = None
    """Instants whose log blocks count; used with `rewrite`."""

    operation: ClassVar[str] = "LOG_COMPACT"

    @property
    def codec(self) -> PlanCodec[CompactionPlan, CompactionOperation]:
        return LOG_COMPACTION_PLANS

    def check_table(self, config: TableConfig, options: Options) -> None:
        check_logs_compactable(config, options)

    def choose(self, context: ServiceContext, state: TableState, instant: InstantTime | None) -> Chosen[CompactionPlan]:
        storage, options, timeline = context.storage, context.options, state.timeline
        threshold = options.get(compaction_config.LOG_BLOCKS_THRESHOLD)
        chosen = instant if instant is not None else context.session.clock.next_instant(timeline)
        backlog = since_compaction(timeline)
        if backlog is None:
            return Chosen(chosen, None, "there is no delta commit yet")
        if not self.always:
            count = min(backlog.count, since_log_compaction(storage, timeline))
            if count < threshold:
                return Chosen(
                    chosen,
                    None,
                    f"{counted(count, 'delta commit')} since the last compaction or log compaction, due after "
                    f"{threshold} ({compaction_config.LOG_BLOCKS_THRESHOLD.key})",
                )
        view = context.view(state)
        operations = operations_of(
            view,
            list(view.partitions()),
            instant=chosen,
            busy=busy_groups(storage, timeline, view, log_compactions=True),
            max_file_size=options.get(write_config.MAX_FILE_SIZE),
            wanted=partial(_has_enough, storage, threshold, self.committed),
        )
        if not operations:
            return Chosen(
                chosen,
                None,
                f"no file group has {threshold} log files or blocks ({compaction_config.LOG_BLOCKS_THRESHOLD.key}), "
                "apart from those in pending plans",
            )
        return Chosen(chosen, CompactionPlan(tuple(operations), ()))

    def table_settings(self, context: ServiceContext, state: TableState, instant: InstantTime) -> RewriteSettings:
        config = state.config
        check_logs_compactable(config, context.options)
        settings = RewriteSettings.of(state, context.options, as_of=instant, logs=True)
        if settings.history is not None and settings.history.query is not None:
            raise UnsupportedTableError(
                f"Cannot compact the logs of the table at {context.storage.uri}: its schema evolves on read "
                "(hoodie.schema.on.read.enable); supported: tables whose schema evolves on write; compact the table "
                "instead"
            )
        return settings

    def execute_unit(self, context: ServiceContext, planned: CompactionSlice) -> UnitOutcome:
        return UnitOutcome(planned.number, (compact_logs(context, planned, self.rewrite or rewrite_logs),))

    def still_needed(
        self, context: ServiceContext, state: TableState, units: tuple[CompactionOperation, ...]
    ) -> tuple[tuple[CompactionOperation, ...], str]:
        """Apache Hudi 1.2.0 refuses log compactions older than a compaction (`BaseHoodieTableServiceClient
        .logCompact`); hudi-py leaves out only their obsolete operations."""
        reason = "later compactions cover the logs of its file groups, or the file groups were replaced"
        return without_obsolete(context.view(state), units), reason


def check_logs_compactable(config: TableConfig, options: Options) -> None:
    """Raises UnsupportedTableError if the logs cannot be compacted, or would lose what Apache Hudi keeps."""
    if config.version < _FIRST_VERSION:
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': its version is {config.version}; "
            f"supported: versions {_FIRST_VERSION} and later; compact the table instead"
        )
    check_compactable(config)
    merge = merge_settings(config, options.values)
    if merge.payload is not None or merge.merger is not None:
        how = merge.merger or (merge.payload.value if merge.payload is not None else "")
        raise UnsupportedTableError(
            f"Cannot compact the logs of the table '{config.name}': its records are merged by {how}; "
            "supported: COMMIT_TIME_ORDERING and EVENT_TIME_ORDERING; compact the table instead"
        )


def _has_enough(storage: Storage, threshold: int, committed: CommittedInstants | None, slice_: FileSlice) -> bool:
    """Whether a slice has enough log files or blocks. Blocks of one instant count once.

    Source: `HoodieLogCompactionPlanGenerator.isFileSliceEligibleForLogCompaction`.
    """
    blocks = scan_log(storage, slice_.log_files, committed=committed)
    instants = {block.instant_time for block in blocks}
    enough = len(slice_.log_files) >= threshold or len(instants) >= threshold
    return enough and len(instants) > 1
