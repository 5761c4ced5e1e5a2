"""Compaction as a table service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.compaction.rewrite import check_compactable
from hudi_py.services.compaction.service import Compaction
from hudi_py.services.compaction.trigger import Trigger, since_compaction, why_not_due
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, Service, Step, run_step, schedule_step
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.state import TableState
from hudi_py.timeline.times import format_instant


def _runs(options: Options) -> bool:
    # `DataSourceUtils.createHoodieConfig`: a table that is not compacted asynchronously is compacted inline
    return options.get(compaction_config.INLINE) or not options.get(compaction_config.ASYNC)


def _steps(options: Options, config: TableConfig) -> Iterator[Step]:
    if not config.is_mor:
        return
    if _runs(options):
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
    if config.is_mor and (_runs(options) or options.get(compaction_config.SCHEDULE_INLINE)):
        check_compactable(config)


def _due(context: ServiceContext, state: TableState) -> Due | None:
    if not state.config.is_mor:
        return None
    now = InstantTime(format_instant(wall_clock_ms(), context.session.zone))
    reason = why_not_due(Trigger.of(context.options), state.timeline, now, context.session.zone)
    backlog = since_compaction(state.timeline)
    if reason or backlog is None:
        return Due("compaction", False, reason)
    preview = Compaction(always=True).preview(context)
    groups = counted(len(preview.rows), "file group")
    waiting = f"{counted(backlog.count, 'delta commit')} not compacted, {groups} with logs"
    return Due("compaction", bool(preview.rows), waiting if preview.rows else preview.reason)


def _plans(*, local: bool, when_due: bool = False) -> Compaction:
    return Compaction(always=not when_due, local=local)


COMPACTION: Final = Service(
    name="compaction",
    help="Merges logs into new base files",
    plans=_plans,
    arguments=(Argument("when_due", bool, "whether to plan only if the options make a plan due"),),
    command="compact",
    after_commit=AfterCommitRule(_steps, check_options=_check_options, check_table=_check_table),
    due=_due,
)
