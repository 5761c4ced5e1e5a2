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
from hudi_py.services.service import PlannedService
from hudi_py.storage import Storage
from hudi_py.write.heartbeat import now_ms
from hudi_py.write.paths import REPORTS

PLANNED: Final[Mapping[str, PlannedService]] = {
    service.name: service
    for service in (Compaction(always=True, local=False), LogCompaction(always=True, local=False), Cleaning())
}
"""Services with a plan, whose pieces may be executed anywhere."""
Call = Callable[[ServiceContext, str | None], ServiceReport]
_REPORT_LIFE_MS: Final = 24 * 3600 * 1000


def _needed(name: str, instant: str | None) -> str:
    if instant is None:
        raise ConfigError(f"Cannot run the service {name} without an instant; give the one it is about")
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


def schedule(context: ServiceContext, service: PlannedService, instant: str | None) -> dict[str, Any]:
    """Makes a plan where there is something to do. The report has its instant, or the reason why there is none."""
    scheduled = service.schedule(context, instant=None if instant is None else InstantTime(instant))
    return ServiceReport(service.name, scheduled.instant, reason=scheduled.reason).to_dict()


def begin(context: ServiceContext, service: PlannedService, instant: str | None, *, plan: bool) -> dict[str, Any]:
    """Takes a plan to inflight: that of the instant, or the oldest pending one, or, with `plan`, a new one.

    Returns:
        A report with `num_pieces`, how many parts are to be executed; without an instant where there is no plan.
    """
    if instant is None:
        pending = service.pending(context)
        if pending:
            instant = pending[0]
        elif plan:
            scheduled = schedule(context, service, None)
            instant = scheduled["instant"]
            if instant is None:
                return {**scheduled, "num_pieces": 0}
        else:
            report = ServiceReport(service.name, None, reason="no plan is pending")
            return {**report.to_dict(), "num_pieces": 0}
    work = service.begin(context, InstantTime(instant))
    return {**ServiceReport(service.name, work.instant).to_dict(), "num_pieces": work.num_pieces}


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
        raise ConfigError(f"Cannot keep a report under {token!r}; expected letters and digits")
    return f"{REPORTS}/{token}.json"
