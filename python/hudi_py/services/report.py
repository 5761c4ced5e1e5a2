"""What a table service did, or why it did nothing."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from hudi_py.model.instant import CompletionTime, InstantTime


@dataclass(frozen=True, slots=True, repr=False)
class ServiceReport:
    """Each service adds its counts and bytes. Shown without those that are nought."""

    service: str
    instant: InstantTime | None
    """Requested time of the action; None when nothing was done."""
    completion_time: CompletionTime | None = None
    """None on timeline layout 1 (table version 6), which records none."""
    reason: str = ""
    """Why nothing was done; empty when something was."""

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, as JSON takes them."""
        return asdict(self)

    def __repr__(self) -> str:
        return shown(self)


def shown(report: Any, **found: Any) -> str:
    """A dataclass as its constructor would be called: without fields that have their default. What was found by its
    properties comes first."""
    values = ((each, getattr(report, each.name)) for each in fields(report))
    given = (f"{each.name}={value!r}" for each, value in values if each.default is MISSING or value != each.default)
    told = (f"{name}={value!r}" for name, value in found.items())
    return f"{type(report).__name__}({', '.join((*told, *given))})"
