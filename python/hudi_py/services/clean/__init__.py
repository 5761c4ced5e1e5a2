"""Cleaning: deleting file versions that queries no longer need, as a service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudi_py.config import Options
from hudi_py.config import services as services_config
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.clean.plan import Planned, plan_clean, why_not_due
from hudi_py.services.clean.policy import check_cleaning, earliest_to_retain
from hudi_py.services.clean.service import Cleaning, CleanReport
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Due, Service, Step, done
from hudi_py.services.planned.service import ServiceReport, run_all
from hudi_py.timeline.state import TableState

__all__ = ["CleanReport", "Cleaning", "Planned", "earliest_to_retain", "plan_clean", "why_not_due"]


def _clean_if_due(context: ServiceContext, state: TableState) -> ServiceReport | None:
    service = Cleaning(waits=True)
    if any(instant.action is Action.CLEAN for instant in state.timeline.pending):
        return done(run_all(service, context))
    # a clean is rarely due after a commit, and the timeline shows it without the lock
    if why_not_due(context, state.timeline, context.options, now_ms=service.now_ms()):
        return None
    return done(service.schedule_and_run(context))


def _steps_after_commit(options: Options, config: TableConfig) -> Iterator[Step]:
    if options.get(services_config.CLEAN_AUTOMATIC):
        yield Step("clean", _clean_if_due)


def _check_options(options: Options) -> None:
    if options.get(services_config.CLEAN_AUTOMATIC):
        check_cleaning(options)


def _find_due(context: ServiceContext, state: TableState) -> Due:
    preview = Cleaning(waits=True).preview(context)
    files = [file for row in preview.rows for file in row["files"]]
    superfluous = f"{counted(len(files), 'file')} in {counted(len(preview.rows), 'partition')} can be deleted"
    return Due("clean", bool(files), superfluous if files else preview.reason, files=len(files))


def _make_cleaning(*, local: bool) -> Cleaning:
    return Cleaning()


CLEAN: Final = Service(
    name="clean",
    help="Deletes file versions that the cleaning policy does not retain",
    plans=_make_cleaning,
    asks="delete old file versions",
    command="clean",
    after_commit=AfterCommitRule(
        _steps_after_commit, check_options=_check_options, switch={services_config.CLEAN_AUTOMATIC: "true"}
    ),
    due=_find_due,
)
