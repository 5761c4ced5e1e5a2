"""Services by name, for engines that spread them over processes: what is called, and where its report is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.services.archive import archive
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.report import ServiceReport
from hudi_py.services.restore import restore
from hudi_py.services.rollback import rollback
from hudi_py.services.savepoint import create_savepoint, delete_savepoint
from hudi_py.services.service import PlannedService, Scheduled, carry_out
from hudi_py.services.unschedule import unschedule
from hudi_py.storage import Storage
from hudi_py.transaction.owner.heartbeat import now_ms
from hudi_py.transaction.paths import REPORTS

PLANNED: Final[Mapping[str, PlannedService[ServiceReport]]] = {
    service.name: service
    for service in (Compaction(always=True, local=False), LogCompaction(always=True, local=False), Cleaning())
}
"""Services with a plan, whose pieces may be executed anywhere."""
_REPORT_LIFE_MS: Final = 24 * 3600 * 1000


def _archive(context: ServiceContext, instant: str | None) -> ServiceReport:
    return archive(context)


PLAIN: Final[Mapping[str, Callable[..., ServiceReport]]] = {
    "archive": _archive,
    "savepoint": create_savepoint,
    "delete_savepoint": delete_savepoint,
    "rollback": rollback,
    "restore": restore,
    "unschedule": unschedule,
}
"""Services that one process carries out: of a context, an instant or None, and keywords."""
NAMES: Final = (*PLANNED, *PLAIN)
_ABOUT_AN_INSTANT: Final = ("delete_savepoint", "rollback", "restore", "unschedule")
_ARGUMENTS: Final = {"savepoint": ("user", "comment"), "rollback": ("with_newer",)}


def check_call(name: str, phase: str | None, instant: str | None, arguments: Collection[str] = ()) -> None:
    """Raises ConfigError where there is no such service, or it is not told what it needs, or what is not its."""
    if name not in NAMES:
        raise ConfigError(f"Cannot run the service {name!r}; services are {', '.join(NAMES)}")
    if instant is None and name in _ABOUT_AN_INSTANT:
        raise ConfigError(f"Cannot run the service {name} without the instant it is about; give instant='...'")
    if instant is not None and (phase == "schedule" or name == "archive"):
        raise ConfigError(
            f"Cannot run the service {name} with the instant {instant!r}: "
            + ("a new plan gets one of its own" if name in PLANNED else "it is about none")
            + "; leave it out"
        )
    known = _ARGUMENTS.get(name, ())
    for argument in arguments:
        if argument not in known:
            takers = [each for each, taken in _ARGUMENTS.items() if argument in taken]
            raise ConfigError(
                f"Cannot run the service {name} with {argument}: "
                + (f"that belongs to {', '.join(takers)}; " if takers else "")
                + f"it takes {', '.join(known) or 'no argument but options'}"
            )


def schedule(context: ServiceContext, service: PlannedService[ServiceReport]) -> dict[str, Any]:
    """Makes a plan where there is something to do. The report has its instant, or the reason why there is none."""
    scheduled = service.schedule(context)
    if scheduled.instant is None:
        return service.nothing(scheduled.reason).to_dict()
    return ServiceReport(service.name, scheduled.instant).to_dict()


def begin(
    context: ServiceContext, service: PlannedService[ServiceReport], instant: str | None, *, plan: bool
) -> dict[str, Any]:
    """Takes a plan to inflight: that of the instant, or the oldest pending one, or, with `plan`, a new one. One without
    anything to execute is completed.

    Returns:
        `report`: of what is under way, or done already; without an instant where there is no plan. `num_pieces`: how
        many parts are to be executed. `last`: whether no other plan is to follow.
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
    report = ServiceReport(service.name, work.instant) if work.num_pieces else carry_out(service, context, work)
    return {"report": report.to_dict(), "num_pieces": work.num_pieces, "last": not pending}


def leave_report(storage: Storage, token: str, report: Mapping[str, Any]) -> None:
    """Keeps the report of a call for the one who made it; removes those that nobody has asked for in a day.

    `token`: chosen by the caller, unique to the call.
    """
    storage.put(_path(token), json.dumps(report).encode())
    for info in storage.list(REPORTS):
        if now_ms() - info.modified_ms > _REPORT_LIFE_MS:
            storage.delete(info.path)


def read_report(storage: Storage, token: str) -> dict[str, Any] | None:
    """The report that was left under the token; None where there is none."""
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
