"""What a table service is, in one place: how it is called, when it follows a commit, and when it is due.

`run_service`, the steps after a commit, what is due, the list of plans and the report read `registry.SERVICES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from hudi_py.config import Options
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.planned.service import AnyService, pending_instants, run_all
from hudi_py.timeline.state import TableState


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a service would find something to do now."""

    service: str
    """The service's name: `compaction`, `clean` or `archive`."""
    due: bool
    reason: str
    """What it would do, or why it would do nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step after a commit."""

    title: str
    run: Callable[[ServiceContext, TableState], bool]
    """Run what is due, given the state of the table before it, and return whether there was anything to do."""


def _accept(*_: object) -> None:
    """Accept any options."""


@dataclass(frozen=True, slots=True)
class AfterCommitRule:
    """When a service follows the commits of writes."""

    steps: Callable[[Options, TableConfig], Iterator[Step]]
    """The steps that the options ask for."""
    check_options: Callable[[Options], None] = _accept
    """Raise ConfigError if the options contradict each other."""
    check_table: Callable[[Options, TableConfig], None] = _accept
    """Raise HudiError if a step that the options ask for would fail on every table like this."""


class InstantArgument(Enum):
    """Whether a call of a service names an instant."""

    REQUIRED = auto()
    OPTIONAL = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A table service: one with plans, whose tasks any process may execute, or one of a single step."""

    name: str
    plans: AnyService[ServiceReport] | None = None
    """Plans all that there is to do, as a person asks for it."""
    plans_when_due: AnyService[ServiceReport] | None = None
    """Plans only what is due; for calls with the argument `when_due`."""
    run: Callable[..., ServiceReport] | None = None
    """The single step: a function of a context, an instant or None, and the arguments as keywords."""
    instant: InstantArgument = InstantArgument.OPTIONAL
    arguments: tuple[str, ...] = ()
    """Names of the arguments that a call takes besides options."""
    command: str = ""
    """The command of `hudi-py` that does what is due."""
    after_commit: AfterCommitRule | None = None
    due: Callable[[ServiceContext, TableState], Due | None] | None = None
    """What the service would do now. Returns None if the table is of a kind that never needs it."""


def run_step(service: AnyService[ServiceReport]) -> Step:
    """A step that executes the pending plans and a new one."""
    return Step(service.name, lambda context, _: run_all(service, context).instant is not None)


def schedule_step(service: AnyService[ServiceReport]) -> Step:
    """A step that only makes a plan, unless one is pending."""
    return Step(
        f"{service.name} plan",
        lambda context, _: not pending_instants(service, context) and service.schedule(context).instant is not None,
    )
