"""Planned services: each step, from scheduling to the commit, can run in a different process. The reports of all
services."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from hudi_py.errors import ConfigError, HudiError
from hudi_py.model.instant import CompletionTime, Instant, InstantTime
from hudi_py.model.words import Spoken, counted
from hudi_py.services.context import ServiceContext
from hudi_py.timeline.pending_plans import PendingPlans

_MAX_NAMED: Final = 3


@dataclass(frozen=True, slots=True, repr=False)
class ServiceReport(Spoken):
    """The report of a service. Subclasses add counts and bytes."""

    service: str
    instant: InstantTime | None
    """Requested time of the action; None if nothing was done."""
    completion_time: CompletionTime | None = None
    """None on timeline layout 1 (table version 6), which does not store completion times."""
    reason: str = ""
    """Why nothing was done; empty if something was."""

    def to_dict(self) -> dict[str, Any]:
        """Returns field names and values, ready for JSON."""
        return asdict(self)

    def _text(self) -> str:
        nothing = f"nothing done: {self.reason}" if self.reason else ""
        parts = "; ".join(part for part in (", ".join(self._summary()), nothing) if part)
        what = self.service.replace("_", " ") + (f" {self.instant}" if self.instant is not None else "")
        return f"{what}: {parts}" if parts else what

    def _summary(self) -> Iterable[str]:
        """Yields phrases that describe what was done."""
        return ()


def listed(times: Sequence[str], noun: str) -> str:
    """Describes the number of items and names the first few."""
    more = ", ..." if len(times) > _MAX_NAMED else ""
    return f"{counted(len(times), noun)} ({', '.join(times[:_MAX_NAMED])}{more})"


_log = logging.getLogger(__name__)


class Work(Protocol):
    """A plan in progress. Pickles small; contains no credentials."""

    @property
    def instant(self) -> InstantTime: ...

    @property
    def num_tasks(self) -> int:
        """The number of tasks, which can be executed independently. They are numbered from 0."""
        ...

    @property
    def removed(self) -> str:
        """Why the plan was removed because nothing was left to do; empty if it was not."""
        ...


WorkT = TypeVar("WorkT", bound=Work)
OutcomeT = TypeVar("OutcomeT")
Report = TypeVar("Report", bound=ServiceReport)
Report_co = TypeVar("Report_co", bound=ServiceReport, covariant=True)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The result of scheduling."""

    instant: InstantTime | None
    """Requested time of the plan; None if there was nothing to do."""
    reason: str = ""
    """Why there was nothing to do."""


@dataclass(frozen=True, slots=True, repr=False)
class PlanGain(Spoken):
    """What a plan would improve. Subclasses add figures."""

    def to_dict(self) -> dict[str, Any]:
        """Returns field names and values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Preview:
    """The content that a new plan would have."""

    rows: tuple[Mapping[str, Any], ...]
    """partition, file_id (None for a clean) and files (list) of each file group to compact or partition to clean."""
    reason: str = ""
    """Why there is nothing to do."""
    num_bytes: int = 0
    """Estimated bytes that it would read and write; 0 where files are only deleted."""
    gain: PlanGain | None = None
    """What it would improve; None if that is not estimated."""


class PlannedService(Protocol[WorkT, OutcomeT, Report_co]):
    """A service whose plan is an instant. Type parameters: a plan in progress, a task's outcome, and the report."""

    @property
    def name(self) -> str:
        """The name of the service, such as `compaction`, `log_compaction` or `clean`."""
        ...

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Makes a plan under the table lock, if there is something to do.

        `instant`: requested time of the plan; None: a new one.
        """
        ...

    def schedule_and_begin(self, context: ServiceContext, *, instant: InstantTime | None = None) -> WorkT | Scheduled:
        """Makes a plan like `schedule` and begins it like `begin`, under one lock. Returns the reason if there is no
        plan."""
        ...

    def schedule_and_run(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Report_co:
        """Makes a plan like `schedule`, if there is something to do, and executes it in this process."""
        ...

    def planned(self, plans: PendingPlans) -> list[Instant]:
        """Returns its pending plans, oldest first."""
        ...

    def plan_rows(self, plans: PendingPlans, instant: Instant) -> Sequence[Mapping[str, Any]]:
        """Returns the rows of a pending plan, as in `Preview`; none if the plan's file is missing or empty."""
        ...

    def preview(self, context: ServiceContext) -> Preview:
        """Returns what `schedule` would plan now. Changes nothing, and does not take the lock."""
        ...

    def begin(self, context: ServiceContext, instant: InstantTime) -> WorkT:
        """Moves a plan to inflight. What an earlier attempt left behind is undone or reused. A plan with nothing left
        to do is removed, see `Work.removed`.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is executing it.
        """
        ...

    def execute(self, context: ServiceContext, work: WorkT, tasks: Sequence[int]) -> list[OutcomeT]:
        """Executes some tasks, in any process, more than once if necessary. The outcomes pickle small."""
        ...

    def commit(self, context: ServiceContext, work: WorkT, outcomes: Sequence[OutcomeT]) -> Report_co:
        """Completes the action with the outcomes of all tasks. Idempotent."""
        ...

    def nothing(self, reason: str) -> Report_co:
        """Returns the report if nothing was done."""
        ...

    def give_up(self, context: ServiceContext, work: WorkT) -> None:
        """Returns the plan to its state before `begin` after a failure, for another attempt."""
        ...


AnyService: TypeAlias = PlannedService[Any, Any, Report]
"""A service of any kind. Its work and outcomes are only passed back to the same service."""


def planned_files(row: Mapping[str, Any]) -> int:
    """Estimates by how many files a row of a plan reduces the table: of a file group to rewrite one remains, of a
    partition to clean none."""
    return len(row["files"]) if row["file_id"] is None else max(len(row["files"]) - 1, 1)


def check_executed(context: ServiceContext, what: str, work: Work, executed: Collection[int]) -> None:
    """Refuses to complete a plan if a task has no outcome.

    Args:
        what: the action, such as "clean 20260101000000000".
        executed: numbers of the tasks that have one.

    Raises:
        ConfigError: names the first such task.
    """
    missing = sorted({*range(work.num_tasks)} - {*executed})
    if missing:
        raise ConfigError(
            f"Cannot complete the {what} of {context.storage.uri}: {len(missing)} of its {work.num_tasks} tasks were "
            f"not executed, the first is {missing[0]}; execute them first"
        )


def pending_instants(service: AnyService[ServiceReport], context: ServiceContext) -> list[InstantTime]:
    """Returns the instants of a service's pending plans, oldest first."""
    return [plan.time for plan in service.planned(PendingPlans(context.storage, context.timeline()))]


def pending_plan(
    service: AnyService[ServiceReport], context: ServiceContext, instant: InstantTime | None
) -> InstantTime | None:
    """Finds the pending plan of an instant, or the oldest one; None if none is pending.

    Raises:
        ConfigError: there is no pending plan with this instant.
    """
    known = pending_instants(service, context)
    if instant is None:
        return known[0] if known else None
    instant = InstantTime(str(instant))  # callers may pass a number
    if instant not in known:
        raise ConfigError(
            f"Cannot run the {service.name} {instant} of {context.storage.uri}: there is no such pending plan; "
            f"pending: {', '.join(known) or 'none'}",
            instant=instant,
        )
    return instant


def schedule(service: AnyService[Report], context: ServiceContext) -> Report | ServiceReport:
    """Makes a plan. Returns a report with its instant, or with the reason why there is none."""
    scheduled = service.schedule(context)
    if scheduled.instant is None:
        return service.nothing(scheduled.reason)
    return ServiceReport(service.name, scheduled.instant)


def run(
    service: PlannedService[WorkT, OutcomeT, Report], context: ServiceContext, instant: InstantTime | None = None
) -> Report:
    """Executes one plan in this process: that of `instant`, or the oldest pending one.

    Raises:
        ConfigError: there is no pending plan with this instant.
    """
    chosen = pending_plan(service, context, instant)
    if chosen is None:
        return service.nothing("no plan is pending")
    return execute_all(service, context, service.begin(context, chosen))


def run_all(service: PlannedService[WorkT, OutcomeT, Report], context: ServiceContext) -> Report:
    """Executes the pending plans, oldest first, then schedules and executes a new one, all in this process.

    Returns:
        The report of the last plan that was executed, or why there was none.
    """
    reports = [
        execute_all(service, context, service.begin(context, instant)) for instant in pending_instants(service, context)
    ]
    last = service.schedule_and_run(context)
    done = [report for report in (*reports, last) if report.instant is not None]
    return [last, *reports[:1], *done][-1]


def execute_all(service: PlannedService[WorkT, OutcomeT, Report], context: ServiceContext, work: WorkT) -> Report:
    """Executes all tasks of a plan in progress and completes it. After a failure the plan is pending again."""
    if work.removed:
        return service.nothing(work.removed)
    try:
        _log.info(
            "%s: %s %s begins: %s", context.storage.uri, service.name, work.instant, counted(work.num_tasks, "task")
        )
        report = service.commit(context, work, service.execute(context, work, range(work.num_tasks)))
        _log.info("%s: %s", context.storage.uri, report)
        return report
    except BaseException:  # whatever happened, the plan must not look as if it were still being executed
        try:
            service.give_up(context, work)
        except (HudiError, OSError) as failure:  # the first error is the one to raise
            _log.warning("the next attempt will undo the failed %s %s: %s", service.name, work.instant, failure)
        raise
