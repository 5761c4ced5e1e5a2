"""Table services on engines with several processes: calls, the tasks of their plans, and their reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import spark as spark_config
from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.model.layout import REPORTS
from hudi_py.model.limits import parse_json
from hudi_py.read.pin import load_pinned
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.pending import plan_report
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.planned.service import AnyService, Scheduled, Work, execute_all
from hudi_py.services.registry import SERVICES, check_call
from hudi_py.storage import Storage, open_storage
from hudi_py.transaction.locks.in_process import check_many_processes
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.protocols import MetadataWriter

__all__ = [
    "REPORT_SCHEMA",
    "ServiceCall",
    "abort_call",
    "begin",
    "call_report",
    "check_call",
    "commit_call",
    "execute_tasks",
    "pending_report",
    "plan_call",
    "read_report",
    "schedule",
    "store_report",
]

REPORT_SCHEMA: Final = pa.schema([("report", pa.string())])
"""A call's report as JSON."""
_REPORT_LIFE_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call of a service, as each process receives it. Pickles."""

    path: str
    options: Options
    metadata: MetadataWriter
    name: str
    phase: str
    instant: str | None
    token: str
    arguments: tuple[tuple[str, Any], ...] = ()
    """Further arguments of the service."""
    work: Work | None = None
    """The plan to execute, in the phase `execute`."""

    def context(self) -> ServiceContext:
        storage_options = self.options.for_storage()
        storage = open_storage(self.path, storage_options)
        return ServiceContext.of(storage, self.options, self.metadata, storage_options=storage_options)

    @property
    def planned(self) -> AnyService[ServiceReport]:
        """Raises ConfigError if the service has no plan."""
        service = SERVICES[self.name]
        plans = service.plans_when_due if dict(self.arguments).get("when_due") else service.plans
        if plans is None:
            known = ", ".join(each.name for each in SERVICES.values() if each.plans is not None)
            raise ConfigError(
                f"Cannot {self.phase} the service {self.name}: it has no plan; those with one are {known}"
            )
        return plans


def plan_call(path: str, options: Options, metadata: MetadataWriter) -> ServiceCall:
    """The call that the options describe. Changes nothing.

    Raises:
        ConfigError: the service, phase or argument does not exist, or no such plan is being executed.
    """
    check_many_processes(options)
    name = options.get(spark_config.SERVICE) or ""
    instant = options.get(spark_config.SERVICE_INSTANT)
    arguments = parse_json(options.get(spark_config.SERVICE_ARGUMENTS) or "{}")
    phase = options.get(spark_config.SERVICE_PHASE)
    service = check_call(name, phase, instant, arguments)
    token = options.get(spark_config.SERVICE_TOKEN) or ""
    call = ServiceCall(path, options, metadata, name, phase, instant, token, tuple(arguments.items()))
    if phase == "call":
        if service.run is None:
            raise ConfigError(f"Cannot run the service {name} in a single call; schedule, begin and execute it")
        return call
    planned = call.planned
    if phase != "execute":
        return call
    if instant is None:
        raise ConfigError(f"Cannot execute the service {name} without an instant ({spark_config.SERVICE_INSTANT.key})")
    return replace(call, work=planned.join(call.context(), InstantTime(instant)))


def execute_tasks(call: ServiceCall, tasks: Sequence[int]) -> Sequence[Any]:
    """Executes tasks of the call's plan, given by number, and returns their outcomes.

    Raises:
        TableNotFoundError: this process cannot see the table.
    """
    if call.work is None or not tasks:
        return ()
    return call.planned.execute(call.context(), call.work, tasks)


def commit_call(call: ServiceCall, outcomes: Sequence[Any]) -> None:
    """Completes the call, given the outcomes of all tasks, and stores its report."""
    context = call.context()
    if call.phase == "call":
        run = SERVICES[call.name].run
        assert run is not None, call.name  # `plan_call` refuses such calls
        report = run(context, call.instant, **dict(call.arguments)).to_dict()
    elif call.phase == "schedule":
        report = schedule(context, call.planned)
    elif call.work is None:
        report = begin(context, call.planned, call.instant, plan=call.phase == "begin")
    else:
        report = call.planned.commit(context, call.work, outcomes).to_dict()
    if call.token:
        store_report(context.storage, call.token, report)


def abort_call(call: ServiceCall) -> None:
    """Gives up the execution of the call's plan, which stays pending."""
    if call.work is not None:
        call.planned.give_up(call.context(), call.work)


def schedule(context: ServiceContext, service: AnyService[ServiceReport]) -> dict[str, Any]:
    """Schedules a plan and reports its instant, or why there is none."""
    scheduled = service.schedule(context)
    if scheduled.instant is None:
        return service.nothing(scheduled.reason).to_dict()
    return ServiceReport(service.name, scheduled.instant).to_dict()


def begin(
    context: ServiceContext, service: AnyService[ServiceReport], instant: str | None, *, plan: bool
) -> dict[str, Any]:
    """Begins the plan of the instant; without one, the oldest pending plan or, if `plan` is set, a new one.

    A plan without tasks is completed at once.

    Returns:
        `report`: that of the plan; its instant is None if there is no plan. `num_tasks`: number of tasks to execute.
        `last`: whether no other plan follows.
    """
    chosen = None if instant is None else InstantTime(instant)
    pending = service.pending(context) if chosen is None else []
    if pending:
        chosen = pending[0]
    elif chosen is None:
        scheduled = service.schedule(context) if plan else Scheduled(None, "no plan is pending")
        if scheduled.instant is None:
            return {"report": service.nothing(scheduled.reason).to_dict(), "num_tasks": 0, "last": True}
        chosen = scheduled.instant
    work = service.begin(context, chosen)
    report = ServiceReport(service.name, work.instant) if work.num_tasks else execute_all(service, context, work)
    return {"report": report.to_dict(), "num_tasks": work.num_tasks, "last": not pending}


def call_report(path: str, options: Options) -> pa.Table:
    """The report of the call whose token is in the options, as one row; no row if there is none: `REPORT_SCHEMA`."""
    storage = open_storage(path, options.for_storage())
    report = read_report(storage, options.get(spark_config.SERVICE_TOKEN) or "")
    return pa.Table.from_pylist([] if report is None else [{"report": json.dumps(report)}], REPORT_SCHEMA)


def pending_report(path: str, options: Options) -> pa.Table:
    """`plan_report` of the newest state, or of a pinned one."""
    state, _ = load_pinned(path, options)
    return plan_report(state)


def store_report(storage: Storage, token: str, report: Mapping[str, Any]) -> None:
    """Stores the report of a call under a token that is unique to the call, and removes reports older than a day."""
    storage.put(_path(token), json.dumps(report).encode())
    for info in storage.list(REPORTS):
        if now_ms() - info.modified_ms > _REPORT_LIFE_MS:
            storage.delete(info.path)


def read_report(storage: Storage, token: str) -> dict[str, Any] | None:
    """The report stored under the token; None if there is none."""
    try:
        report = parse_json(storage.read(_path(token)))
    except FileNotFoundError:
        return None
    return dict(report)


def _path(token: str) -> str:
    if not token.isalnum():
        raise ConfigError(
            f"Cannot use the token {token!r} for the report of a service: expected letters and digits; call "
            "run_service, which chooses a token for each call"
        )
    return f"{REPORTS}/{token}.json"
