"""How the plans of an action are stored, and divided into units that can be carried out independently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hudi_py.errors import ConfigError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.storage import Storage
from hudi_py.timeline.pending_plans import PendingPlans, read_plan
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import request, requested_path

PlanT = TypeVar("PlanT")
UnitT = TypeVar("UnitT")


@dataclass(frozen=True, slots=True)
class PlanCodec(Generic[PlanT, UnitT]):
    """The plans of one action."""

    action: Action
    decode: Callable[[bytes, str], PlanT | None]
    """The plan from the content of a requested file, and its name for errors; None: it is of another service."""
    encode: Callable[[PlanT], bytes]
    units: Callable[[PlanT], tuple[UnitT, ...]]
    """The units of work of a plan, in order."""
    with_units: Callable[[PlanT, tuple[UnitT, ...]], PlanT]
    """The plan with other units."""
    files: Callable[[UnitT], Iterable[tuple[str, str]]]
    """Partition path and name of the files that a unit reads."""
    rows: Callable[[PlanT], tuple[Mapping[str, Any], ...]]
    """A plan as `Preview` shows it."""

    def request(self, storage: Storage, timeline: Timeline, instant: InstantTime, plan: PlanT) -> None:
        """Store a new plan. Raises as `request`."""
        request(storage, timeline.layout, instant, self.action, self.encode(plan))

    def existing(self, storage: Storage, timeline: Timeline, instant: InstantTime) -> PlanT:
        """Return a plan, pending or completed.

        Raises:
            ConfigError: there is no such plan.
        """
        data, context = read_plan(storage, timeline.layout, instant, self.action)
        plan = self.decode(data, context) if data else None
        if plan is None:
            pending = PendingPlans(storage, timeline).of(self.action)
            raise ConfigError(
                f"Cannot run the {self.action.value} {instant} of {storage.uri}: there is no such plan; pending: "
                + (", ".join(each.time for each in pending) or "none"),
                instant=instant,
            )
        return plan

    def rewrite(self, storage: Storage, timeline: Timeline, instant: InstantTime, plan: PlanT) -> None:
        """Replace a pending plan."""
        storage.put(requested_path(timeline.layout, instant, self.action), self.encode(plan))
