"""Planned services: schedule, execute, commit, each possibly in a process of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hudi_py.errors import ConfigError, HudiError
from hudi_py.model.instant import InstantTime
from hudi_py.services.context import ServiceContext
from hudi_py.services.report import ServiceReport

_log = logging.getLogger(__name__)

Report = TypeVar("Report", bound=ServiceReport)
Report_co = TypeVar("Report_co", bound=ServiceReport, covariant=True)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Whether there is something to do."""

    instant: InstantTime | None
    """Requested time of the plan; None: there was nothing to do."""
    reason: str = ""
    """Why there was nothing to do."""


class Work(Protocol):
    """A plan that is being executed. Pickles small; holds no credentials."""

    @property
    def instant(self) -> InstantTime: ...

    @property
    def num_pieces(self) -> int:
        """How many parts of it can be executed apart, numbered from 0."""
        ...


@dataclass(frozen=True, slots=True)
class Dropped:
    """Instead of work: nothing of a plan was left to carry out, and it was removed. Implements `Work`."""

    instant: InstantTime
    reason: str
    num_pieces: int = 0


class PlannedService(Protocol[Report_co]):
    """A service whose plan is an instant of its own. `work` is what its own `begin` returned."""

    @property
    def name(self) -> str:
        """`compaction`, `log_compaction`, `clean`."""
        ...

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Makes a plan, under the table lock, where there is something to do.

        `instant`: the requested time it is to have; None: a new one.
        """
        ...

    def pending(self, context: ServiceContext) -> list[InstantTime]:
        """Plans that were made and not carried out, oldest first."""
        ...

    def begin(self, context: ServiceContext, instant: InstantTime) -> Work:
        """Takes a plan to inflight. What a dead process left of an earlier attempt is undone or taken over. A plan
        with nothing left to carry out is removed: `Dropped`.

        Raises:
            ConfigError: there is no such plan.
            ConflictError: another process is at it.
        """
        ...

    def join(self, context: ServiceContext, instant: InstantTime) -> Work:
        """Takes part in what another process began; changes nothing.

        Raises:
            ConfigError: there is no such plan under way.
        """
        ...

    def execute(self, context: ServiceContext, work: Any, pieces: Sequence[int]) -> list[Any]:
        """Carries out some pieces, in any process, more than once if need be. What it returns pickles small."""
        ...

    def commit(self, context: ServiceContext, work: Any, outcomes: Sequence[Any]) -> Report_co:
        """Completes the action with what `execute` returned for all pieces. Idempotent."""
        ...

    def nothing(self, reason: str) -> Report_co:
        """The report where nothing was done."""
        ...

    def give_up(self, context: ServiceContext, work: Any) -> None:
        """After a failure: the plan is as it was before `begin`, for another attempt."""
        ...


def run(service: PlannedService[Report], context: ServiceContext, instant: InstantTime | None = None) -> Report:
    """Carries out one plan in this process: the one of `instant`, or else the oldest pending one.

    Raises:
        ConfigError: there is no pending plan of this instant.
    """
    pending = service.pending(context)
    if instant is None:
        if not pending:
            return service.nothing("no plan is pending")
        instant = pending[0]
    instant = InstantTime(str(instant))  # one may come as a number
    if instant not in pending:
        raise ConfigError(
            f"Cannot run the {service.name} {instant} of {context.storage.uri}: there is no such pending plan; "
            f"pending: {', '.join(pending) or 'none'}"
        )
    return carry_out(service, context, service.begin(context, instant))


def run_all(service: PlannedService[Report], context: ServiceContext) -> Report:
    """Carries out pending plans, oldest first, then plans what is left and carries that out, in this process.

    Returns:
        The report of the last plan carried out, or why there was none.
    """
    reports = [carry_out(service, context, service.begin(context, instant)) for instant in service.pending(context)]
    scheduled = service.schedule(context)
    if scheduled.instant is not None:
        reports.append(carry_out(service, context, service.begin(context, scheduled.instant)))
    done = [report for report in reports if report.instant is not None]
    return [service.nothing(scheduled.reason), *reports[:1], *done][-1]


def carry_out(service: PlannedService[Report], context: ServiceContext, work: Work) -> Report:
    """Executes all pieces of what was begun and completes it; after a failure the plan is as it was before."""
    if isinstance(work, Dropped):
        return service.nothing(work.reason)
    try:
        return service.commit(context, work, service.execute(context, work, range(work.num_pieces)))
    except BaseException:  # whatever it is, the plan must not look as if somebody were at it
        try:
            service.give_up(context, work)
        except (HudiError, OSError) as failure:  # the error before it is the one to tell
            _log.warning("the failed %s %s is undone by the next one: %s", service.name, work.instant, failure)
        raise
