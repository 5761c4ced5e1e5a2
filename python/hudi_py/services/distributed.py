"""Table services on engines with several processes: a call, the pieces of its plan, and its report."""

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
from hudi_py.read.pin import load_pinned
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.pending import plan_report
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.planned.service import AnyService, Scheduled, Work, execute_all
from hudi_py.services.registry import PLANNED, SINGLE_STEP, check_call
from hudi_py.storage import Storage, open_storage
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.paths import REPORTS
from hudi_py.transaction.protocols import MetadataWriter

REPORT_SCHEMA: Final = pa.schema([("report", pa.string())])
"""The report of a call, as JSON."""
_REPORT_LIFE_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call of a service, as each of its processes receives it. Pickles."""

    path: str
    options: Options
    metadata: MetadataWriter
    """Keeps the metadata table up to date."""
    name: str
    phase: str
    instant: str | None
    token: str
    arguments: tuple[tuple[str, Any], ...] = ()
    """Further arguments of a service without a plan."""
    work: Work | None = None
    """Phase `execute`: the plan being executed."""

    def context(self) -> ServiceContext:
        storage_options = self.options.storage or None
        storage = open_storage(self.path, storage_options)
        return ServiceContext.of(storage, self.options, self.metadata, storage_options=storage_options)

    @property
    def planned(self) -> AnyService[ServiceReport]:
        """Raises ConfigError if the service has no plan."""
        service = PLANNED.get(self.name)
        if service is None:
            raise ConfigError(
                f"Cannot {self.phase} the service {self.name}: it has no plan; those with one are {', '.join(PLANNED)}"
            )
        return service


def plan_call(path: str, options: Options, metadata: MetadataWriter) -> ServiceCall:
    """The call that the options describe. Changes nothing.

    Raises:
        ConfigError: the service, phase or argument does not exist, or there is no such plan in progress.
    """
    name = options.get(spark_config.SERVICE) or ""
    instant = options.get(spark_config.SERVICE_INSTANT)
    arguments = json.loads(options.get(spark_config.SERVICE_ARGUMENTS) or "{}")
    phase = options.get(spark_config.SERVICE_PHASE)
    check_call(name, phase, instant, arguments)
    token = options.get(spark_config.SERVICE_TOKEN) or ""
    call = ServiceCall(path, options, metadata, name, phase, instant, token, tuple(arguments.items()))
    if phase == "call":
        if name not in SINGLE_STEP:
            raise ConfigError(f"Cannot run the service {name} in a single call; schedule, begin and execute it")
        return call
    service = call.planned
    if phase != "execute":
        return call
    if instant is None:
        raise ConfigError(f"Cannot execute the service {name} without an instant ({spark_config.SERVICE_INSTANT.key})")
    return replace(call, work=service.join(call.context(), InstantTime(instant)))


def execute_pieces(call: ServiceCall, pieces: Sequence[int]) -> Sequence[Any]:
    """Execute pieces of the call's plan, by number; other processes may execute the rest. Returns their outcomes.

    Raises:
        TableNotFoundError: this process cannot see the table.
    """
    if call.work is None or not pieces:
        return ()
    return call.planned.execute(call.context(), call.work, pieces)


def commit_call(call: ServiceCall, outcomes: Sequence[Any]) -> None:
    """Complete the call and store its report. `outcomes`: of all pieces."""
    context = call.context()
    if call.phase == "call":
        report = SINGLE_STEP[call.name](context, call.instant, **dict(call.arguments)).to_dict()
    elif call.phase == "schedule":
        report = schedule(context, call.planned)
    elif call.work is None:
        report = begin(context, call.planned, call.instant, plan=call.phase == "begin")
    else:
        report = call.planned.commit(context, call.work, outcomes).to_dict()
    if call.token:
        store_report(context.storage, call.token, report)


def abort_call(call: ServiceCall) -> None:
    """Give up the execution of the call's plan, which stays pending."""
    if call.work is not None:
        call.planned.give_up(call.context(), call.work)


def schedule(context: ServiceContext, service: AnyService[ServiceReport]) -> dict[str, Any]:
    """Schedules a plan. The report has its instant, or the reason why there is none."""
    scheduled = service.schedule(context)
    if scheduled.instant is None:
        return service.nothing(scheduled.reason).to_dict()
    return ServiceReport(service.name, scheduled.instant).to_dict()


def begin(
    context: ServiceContext, service: AnyService[ServiceReport], instant: str | None, *, plan: bool
) -> dict[str, Any]:
    """Begins a plan: that of the instant, or the oldest pending one, or, with `plan`, a new one. A plan without pieces
    is completed at once.

    Returns:
        `report`: of the plan, begun or completed; without an instant if there is none. `num_pieces`: how many pieces
        there are to execute. `last`: whether no other plan follows.
    """
    chosen = None if instant is None else InstantTime(instant)
    pending = service.pending(context) if chosen is None else []
    if pending:
        chosen = pending[0]
    elif chosen is None:
        scheduled = service.schedule(context) if plan else Scheduled(None, "no plan is pending")
        if scheduled.instant is None:
            return {"report": service.nothing(scheduled.reason).to_dict(), "num_pieces": 0, "last": True}
        chosen = scheduled.instant
    work = service.begin(context, chosen)
    report = ServiceReport(service.name, work.instant) if work.num_pieces else execute_all(service, context, work)
    return {"report": report.to_dict(), "num_pieces": work.num_pieces, "last": not pending}


def call_report(path: str, options: Options) -> pa.Table:
    """One row with the report of the call whose token the options hold; no row if there is no such report."""
    storage = open_storage(path, options.storage or None)
    report = read_report(storage, options.get(spark_config.SERVICE_TOKEN) or "")
    return pa.Table.from_pylist([] if report is None else [{"report": json.dumps(report)}], REPORT_SCHEMA)


def pending_report(path: str, options: Options) -> pa.Table:
    """See `plan_report`; of the newest state or a pinned one."""
    storage, _, timeline, _ = load_pinned(path, options)
    return plan_report(storage, timeline)


def store_report(storage: Storage, token: str, report: Mapping[str, Any]) -> None:
    """Stores the report of a call for its caller; removes reports older than a day.

    `token`: chosen by the caller, unique to the call.
    """
    storage.put(_path(token), json.dumps(report).encode())
    for info in storage.list(REPORTS):
        if now_ms() - info.modified_ms > _REPORT_LIFE_MS:
            storage.delete(info.path)


def read_report(storage: Storage, token: str) -> dict[str, Any] | None:
    """The report stored under the token; None if there is none."""
    try:
        report = json.loads(storage.read(_path(token)))
    except FileNotFoundError:
        return None
    return dict(report)


def _path(token: str) -> str:
    if not token.isalnum():
        raise ConfigError(
            f"Cannot find the report of a service under the token {token!r}; a token has letters and digits, and "
            "run_service makes one for each call: call that"
        )
    return f"{REPORTS}/{token}.json"
