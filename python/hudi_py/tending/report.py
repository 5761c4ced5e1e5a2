"""What a run found and did, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hudi_py.errors import first_line
from hudi_py.model.instant import InstantTime
from hudi_py.model.words import Spoken, counted, show_bytes, show_duration
from hudi_py.services.planned.service import ServiceReport
from hudi_py.storage.metered import NOTHING_USED, Used
from hudi_py.tending.budget import UNLIMITED, Budget, Cost

DUE: Final = "due"
DONE: Final = "done"
NOTHING: Final = "nothing"
LEFT: Final = "left"
BUSY: Final = "busy"
FAILED: Final = "failed"
INTERRUPTED: Final = "interrupted"
STATES: Final = (DUE, DONE, NOTHING, LEFT, BUSY, FAILED, INTERRUPTED)


@dataclass(frozen=True, slots=True)
class TendedService:
    """A service of one table that is due, or was when the run looked at the table."""

    service: str
    state: str
    """`due` (on a dry run), `done`, `nothing` (another process came first), `left` (it did not fit into the budget, or
    the table does not ask for it), `busy` (another process is at it, or holds the lock), `failed` or `interrupted`."""
    reason: str
    """What is due; of what was left, why."""
    pending: tuple[InstantTime, ...] = ()
    """Instants of plans that were made before."""
    files: int = 0
    """How many files fewer there are afterwards, about."""
    num_bytes: int = 0
    """Bytes that it reads and writes, as estimated before."""
    requests: int = 0
    """Calls of the storage, as estimated before."""
    report: ServiceReport | None = None
    """What was done."""
    error: Exception | None = field(default=None, compare=False)
    used: Used = NOTHING_USED
    """What was measured; several services side by side are counted apart."""
    seconds: float = 0.0

    @property
    def gain(self) -> float:
        """Files fewer for its cost (`Cost.weight`): the greater, the sooner it is done."""
        return self.files / self.cost.weight

    @property
    def cost(self) -> Cost:
        """What it takes, as estimated before."""
        return Cost(self.requests, self.num_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
        found: dict[str, Any] = {
            "service": self.service,
            "state": self.state,
            "reason": self.reason,
            "pending": list(self.pending),
            "estimated": {"files": self.files, "num_bytes": self.num_bytes, "requests": self.requests},
        }
        if self.seconds:
            found |= {"used": asdict(self.used), "seconds": round(self.seconds, 3)}
        if self.report is not None:
            found["report"] = self.report.to_dict()
        return found | _error(self.error)


@dataclass(frozen=True, slots=True)
class TendedTable:
    """A table that was found."""

    uri: str
    """Its base path, without credentials."""
    name: str = ""
    version: int = 0
    """0 if its properties could not be read."""
    table_type: str = ""
    skipped: str = ""
    """Why nothing was done to it although it can be read."""
    remarks: tuple[str, ...] = ()
    """What a person might want to look at."""
    services: tuple[TendedService, ...] = ()
    """Those that were due, in the order in which they were done."""
    error: Exception | None = field(default=None, compare=False)
    """Why it could not be looked at."""
    used: Used = NOTHING_USED
    """What looking at it and caring for it took."""
    seconds: float = 0.0

    def of(self, *states: str) -> tuple[TendedService, ...]:
        """The services in one of these states."""
        return tuple(each for each in self.services if each.state in states)

    @property
    def errors(self) -> tuple[Exception, ...]:
        """Its own error, and those of its services, of conflicts and locks too."""
        return tuple(error for error in (self.error, *(each.error for each in self.services)) if error is not None)

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
        return {
            "uri": self.uri,
            "name": self.name,
            "version": self.version,
            "table_type": self.table_type,
            "skipped": self.skipped,
            "remarks": list(self.remarks),
            "services": [each.to_dict() for each in self.services],
            "used": asdict(self.used),
            "seconds": round(self.seconds, 3),
            **_error(self.error),
        }


@dataclass(frozen=True, slots=True, repr=False)
class TendReport(Spoken):
    """The result of a run."""

    tables: tuple[TendedTable, ...]
    """The one with the greatest gain for its cost first; those with nothing due last."""
    not_searched: tuple[str, ...] = ()
    """Folders that were too deep to be searched, and tables that were not looked at for lack of budget."""
    budget: Budget = UNLIMITED
    used: Used = NOTHING_USED
    seconds: float = 0.0
    dry_run: bool = False

    def count(self, *states: str) -> int:
        """How many services of all tables are in one of these states."""
        return sum(len(table.of(*states)) for table in self.tables)

    @property
    def errors(self) -> tuple[Exception, ...]:
        """Those of all tables."""
        return tuple(error for table in self.tables for error in table.errors)

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
        return {
            "dry_run": self.dry_run,
            "num_tables": len(self.tables),
            **{f"num_{state}": self.count(state) for state in STATES},
            "num_skipped": sum(bool(table.skipped) for table in self.tables),
            "num_unreadable": sum(table.error is not None for table in self.tables),
            "not_searched": list(self.not_searched),
            "budget": asdict(self.budget),
            "used": asdict(self.used),
            "seconds": round(self.seconds, 3),
            "tables": [table.to_dict() for table in self.tables],
        }

    def _text(self) -> str:
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        yield counted(len(self.tables), "table")
        counts = {state: self.count(state) for state in STATES if state != NOTHING}
        yield ", ".join(f"{count:,} {state}" for state, count in counts.items() if count) or "nothing is due"
        skipped, bad = (
            sum(bool(table.skipped) for table in self.tables),
            sum(table.error is not None for table in self.tables),
        )
        if skipped:
            yield f"{skipped:,} skipped"
        if bad:
            yield f"{bad:,} could not be looked at"
        if self.not_searched:
            yield f"{len(self.not_searched):,} not looked at"
        moved = f", {show_bytes(self.used.num_bytes)}" if self.used.num_bytes else ""
        yield f"{show_duration(round(self.seconds * 1000))}, {counted(self.used.requests, 'request')}{moved}"


def _error(error: Exception | None) -> dict[str, Any]:
    return {} if error is None else {"error": type(error).__name__, "message": first_line(error)}
