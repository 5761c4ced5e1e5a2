"""The reports of table services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.words import Spoken, counted

_MAX_NAMED: Final = 3


@dataclass(frozen=True, slots=True, repr=False)
class ServiceReport(Spoken):
    """Subclasses add counts and bytes."""

    service: str
    instant: InstantTime | None
    """Requested time of the action; None if nothing was done."""
    completion_time: CompletionTime | None = None
    """None on timeline layout 1 (table version 6), which does not store completion times."""
    reason: str = ""
    """Why nothing was done; empty if something was."""

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, ready for JSON."""
        return asdict(self)

    def _text(self) -> str:
        nothing = f"nothing done: {self.reason}" if self.reason else ""
        parts = "; ".join(part for part in (", ".join(self._summary()), nothing) if part)
        what = self.service.replace("_", " ") + (f" {self.instant}" if self.instant is not None else "")
        return f"{what}: {parts}" if parts else what

    def _summary(self) -> Iterable[str]:
        """Phrases that describe what was done."""
        return ()


def listed(times: Sequence[str], noun: str) -> str:
    """The number of items and the first few of them."""
    more = ", ..." if len(times) > _MAX_NAMED else ""
    return f"{counted(len(times), noun)} ({', '.join(times[:_MAX_NAMED])}{more})"
