"""The results of a run, as frozen values."""

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
    """A service that is due for one table, or was when the run examined the table."""

    service: str
    state: str
    """`due` (on a dry run), `done`, `nothing` (another process came first), `left` (it did not fit into the budget, or
    the table does not ask for it), `busy` (another process is at it, or holds the lock), `failed` or `interrupted`."""
    reason: str
    """What is due; for a service that was left, also why."""
    pending: tuple[InstantTime, ...] = ()
    """Instants of existing plans."""
    files: int = 0
    """Estimated number of files by which the service reduces the table."""
    num_bytes: int = 0
    """Estimated bytes that the service reads and writes."""
    requests: int = 0
    """Estimated requests to storage."""
    report: ServiceReport | None = None
    """The report of the service."""
    error: Exception | None = field(default=None, compare=False)
    used: Used = NOTHING_USED
    """Measured use; services that run side by side are measured separately."""
    seconds: float = 0.0

    @property
    def gain(self) -> float:
        """Files removed for the cost (`Cost.weight`); the service with the greatest gain runs first."""
        return self.files / self.cost.weight

    @property
    def cost(self) -> Cost:
        """The estimated cost."""
        return Cost(self.requests, self.num_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Returns field names and values, ready for JSON."""
        fields: dict[str, Any] = {
            "service": self.service,
            "state": self.state,
            "reason": self.reason,
            "pending": list(self.pending),
            "estimated": {"files": self.files, "num_bytes": self.num_bytes, "requests": self.requests},
        }
        if self.seconds:
            fields |= {"used": asdict(self.used), "seconds": round(self.seconds, 3)}
        if self.report is not None:
            fields["report"] = self.report.to_dict()
        return fields | _error_fields(self.error)


@dataclass(frozen=True, slots=True)
class TendedTable:
    """A table that the run found."""

    uri: str
    """Its base path, without credentials."""
    name: str = ""
    version: int = 0
    """0 if its properties could not be read."""
    table_type: str = ""
    skipped: str = ""
    """Why nothing was done to a readable table."""
    remarks: tuple[str, ...] = ()
    """Remarks for the operator."""
    services: tuple[TendedService, ...] = ()
    """The services that were due, in the order in which they ran."""
    error: Exception | None = field(default=None, compare=False)
    """The error that kept the table from being examined."""
    used: Used = NOTHING_USED
    """What the run used for this table: to examine it and for its services."""
    seconds: float = 0.0

    def of(self, *states: str) -> tuple[TendedService, ...]:
        """Returns the services in any of these states."""
        return tuple(service for service in self.services if service.state in states)

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The table's own error and those of its services, including conflicts and locks."""
        return tuple(
            error for error in (self.error, *(service.error for service in self.services)) if error is not None
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns field names and values, ready for JSON."""
        return {
            "uri": self.uri,
            "name": self.name,
            "version": self.version,
            "table_type": self.table_type,
            "skipped": self.skipped,
            "remarks": list(self.remarks),
            "services": [service.to_dict() for service in self.services],
            "used": asdict(self.used),
            "seconds": round(self.seconds, 3),
            **_error_fields(self.error),
        }


@dataclass(frozen=True, slots=True, repr=False)
class TendReport(Spoken):
    """The result of a run."""

    tables: tuple[TendedTable, ...]
    """Tables with the greatest gain for their cost come first; tables with nothing due come last."""
    not_searched: tuple[str, ...] = ()
    """Folders below the maximum depth, and tables that were not examined because the budget was used up."""
    budget: Budget = UNLIMITED
    used: Used = NOTHING_USED
    seconds: float = 0.0
    dry_run: bool = False

    def count(self, *states: str) -> int:
        """Returns how many services of all tables are in any of these states."""
        return sum(len(table.of(*states)) for table in self.tables)

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The errors of all tables."""
        return tuple(error for table in self.tables for error in table.errors)

    def to_dict(self) -> dict[str, Any]:
        """Returns field names and values, ready for JSON."""
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
        return "; ".join(self._summary_parts())

    def _summary_parts(self) -> Iterator[str]:
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
            yield f"{bad:,} could not be examined"
        if self.not_searched:
            yield f"{len(self.not_searched):,} not examined"
        moved = f", {show_bytes(self.used.num_bytes)}" if self.used.num_bytes else ""
        yield f"{show_duration(round(self.seconds * 1000))}, {counted(self.used.requests, 'request')}{moved}"


def _error_fields(error: Exception | None) -> dict[str, Any]:
    return {} if error is None else {"error": type(error).__name__, "message": first_line(error)}
