"""Services by name, for engines that spread them over processes: what is called, and where its report is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
from hudi_py.services.service import PlannedService, Scheduled
from hudi_py.storage import Storage
from hudi_py.write.heartbeat import now_ms
from hudi_py.write.paths import REPORTS

PLANNED: Final[Mapping[str, PlannedService[ServiceReport]]] = {
    service.name: service
    for service in (Compaction(always=True, local=False), LogCompaction(always=True, local=False), Cleaning())
}
"""Services with a plan, whose pieces may be executed anywhere."""
Call = Callable[[ServiceContext, str | None], ServiceReport]
_REPORT_LIFE_MS: Final = 24 * 3600 * 1000


def _needed(name: str, instant: str | None) -> str:
    if instant is None:
        raise ConfigError(f"Cannot run the service {name} without the instant it is about; give instant='...'")
    return instant


PLAIN: Final[Mapping[str, Call]] = {
    "archive": lambda context, instant: archive(context),
    "savepoint": create_savepoint,
    "delete_savepoint": lambda context, instant: delete_savepoint(context, _needed("delete_savepoint", instant)),
    "rollback": lambda context, instant: rollback(context, _needed("rollback", instant)),
    "restore": lambda context, instant: restore(context, _needed("restore", instant)),
}
"""Services that one process carries out."""
NAMES: Final = (*PLANNED, *PLAIN)


def schedule(context: ServiceContext, service: PlannedService[ServiceReport], instant: str | None) -> dict[str, Any]:
    """Makes a plan where there is something to do. The report has its instant, or the reason why there is none."""
    scheduled = service.schedule(context, instant=None if instant is None else InstantTime(instant))
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
    report = ServiceReport(service.name, work.instant)
    if not work.num_pieces:
        try:
            report = service.commit(context, work, ())
        except BaseException:
            service.give_up(context, work)
            raise
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
