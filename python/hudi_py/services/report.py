"""What a table service did, or why it did nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hudi_py.model.instant import CompletionTime, InstantTime


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """Each service adds its counts and bytes."""

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
