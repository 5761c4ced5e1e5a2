"""Runs table services on engines with several processes: calls, and the steps of their plans, each in any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.model.instant import InstantTime
from hudi_py.read.planning.pin import load_pinned
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.moves import MovingService, UnitPart, joined
from hudi_py.services.planned.pending import plan_report
from hudi_py.services.planned.phases import PlannedWork, UnitOutcome
from hudi_py.services.planned.service import AnyService, Scheduled, ServiceReport, Work, execute_all, pending_plan
from hudi_py.services.planned.service import schedule as schedule_plan
from hudi_py.services.registry import SERVICES, check_call
from hudi_py.storage import open_storage
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.protocols import MetadataWriter
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.exchange import PARCELS

__all__ = [
    "PARCELS",
    "BegunPlan",
    "ServiceCall",
    "UnitPart",
    "Work",
    "begin",
    "bounds",
    "check_call",
    "commit",
    "execute",
    "give_up",
    "joined",
    "pending_report",
    "read_parts",
    "run_single_step",
    "sample",
    "schedule",
    "write_parts",
]


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call of a service, as each of its processes receives it. Pickles."""

    path: str
    options: Options
    metadata: MetadataWriter
    name: str
    arguments: tuple[tuple[str, Any], ...] = ()
    """Further arguments of the service."""

    def context(self) -> ServiceContext:
        target = WriteTarget(open_storage(self.path, self.options.for_storage()), self.options, self.metadata)
        return ServiceContext.of(target, any_version=SERVICES[self.name].any_version)

    @property
    def planned(self) -> AnyService[ServiceReport]:
        return SERVICES[self.name].planner(local=False, **dict(self.arguments))


@dataclass(frozen=True, slots=True)
class BegunPlan:
    """A plan to execute. `work` is None if there is no plan, or if it was completed at once."""

    report: dict[str, Any]
    """The report of the plan; its instant is None if there is no plan."""
    work: Work | None
    """The plan, if it has tasks."""
    last: bool
    """Whether no other plan follows."""
    parts: tuple[UnitPart, ...] = ()
    """Parts of its units that Spark shuffles; `execute` skips them."""


def run_single_step(call: ServiceCall, instant: str | None) -> dict[str, Any]:
    """Runs a service that has no plan, and returns its report."""
    check_many_processes(call.options)
    return check_call(call.name, None, instant, dict(call.arguments)).run(call.context()).to_dict()


def schedule(call: ServiceCall) -> dict[str, Any]:
    """Schedules a plan and reports its instant, or why there is none."""
    check_many_processes(call.options)
    return schedule_plan(call.planned, call.context()).to_dict()


def begin(call: ServiceCall, instant: str | None, *, plans: bool) -> BegunPlan:
    """Begins the pending plan of the instant; without an instant, the oldest pending plan or, with `plans`, a new one.

    A plan without tasks is completed at once.
    """
    check_many_processes(call.options)
    service, context = call.planned, call.context()
    chosen = pending_plan(service, context, None if instant is None else InstantTime(instant))
    last = chosen is None or instant is not None
    work: Work | Scheduled = Scheduled(None, "no plan is pending")
    if chosen is not None:
        work = service.begin(context, chosen)
    elif plans:
        work = service.schedule_and_begin(context)
    if isinstance(work, Scheduled):
        return BegunPlan(service.nothing(work.reason).to_dict(), None, last)
    if work.num_tasks:
        parts = tuple(service.parts(context, _moving_work(work))) if isinstance(service, MovingService) else ()
        return BegunPlan(ServiceReport(service.name, work.instant).to_dict(), work, last, parts)
    return BegunPlan(execute_all(service, context, work).to_dict(), None, last)


def execute(call: ServiceCall, work: Work, tasks: Sequence[int]) -> Sequence[Any]:
    """Executes tasks of a plan, given by number, and returns their outcomes.

    Raises:
        TableNotFoundError: this process cannot see the table.
    """
    return call.planned.execute(call.context(), work, tasks)


def sample(call: ServiceCall, work: Work, parts: Sequence[UnitPart]) -> Sequence[tuple[int, Any]]:
    """Samples the rows of parts, to divide the rows of their units."""
    return _moving_service(call).sampled(call.context(), _moving_work(work), parts)


def bounds(call: ServiceCall, work: Work, samples: Sequence[tuple[int, Any]]) -> dict[int, Any]:
    """Computes how to divide the rows of units, from the samples of all of their parts."""
    return _moving_service(call).all_bounds(call.context(), _moving_work(work), samples)


def read_parts(
    call: ServiceCall, work: Work, bounds: dict[int, Any], parts: Sequence[UnitPart]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of parts, as `PARCELS`."""
    return _moving_service(call).read_parts(call.context(), _moving_work(work), bounds, parts)


def write_parts(call: ServiceCall, work: Work, batches: Iterable[pa.RecordBatch]) -> list[UnitOutcome]:
    """Writes the rows of some targets, given all of their parcels. Returns outcomes that `joined` turns into those of
    tasks."""
    return _moving_service(call).write_parts(call.context(), _moving_work(work), batches)


def _moving_service(call: ServiceCall) -> MovingService[Any, Any]:
    service = call.planned
    assert isinstance(service, MovingService)  # other services have no parts
    return service


def _moving_work(work: Work) -> PlannedWork[Any]:
    assert isinstance(work, PlannedWork)
    return work


def commit(call: ServiceCall, work: Work, outcomes: Sequence[Any]) -> dict[str, Any]:
    """Completes a plan with the outcomes of all tasks, and returns the report of the service."""
    return call.planned.commit(call.context(), work, outcomes).to_dict()


def give_up(call: ServiceCall, work: Work) -> None:
    """Gives up the execution of a plan, which stays pending."""
    call.planned.give_up(call.context(), work)


def pending_report(path: str, options: Options) -> pa.Table:
    """Returns the `plan_report` of the newest state, or of a pinned one."""
    state, _ = load_pinned(path, options)
    return plan_report(state)
