"""Describes table services, each in one place: how a service is called, when it follows a commit, and when it is due.

All users read `registry.SERVICES`: `Table`, the command line, `run_service` on Spark, `CALL`, the steps after a commit,
the list of what is due, the list of plans, the report and the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from numbers import Integral
from typing import Any, Final, Generic

from hudi_py.config import Option, Options
from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import AnyService, Report, ServiceReport, pending_instants, run, run_all, schedule
from hudi_py.timeline.state import TableState


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a service would find something to do now."""

    service: str
    """The service's name, such as `compaction`, `clean` or `archive`."""
    due: bool
    reason: str
    """What it would do, or why there is nothing to do."""
    pending: tuple[InstantTime, ...] = ()
    """Instants of its pending plans, oldest first, which it would execute before anything new."""
    files: int = 0
    """Estimated number of files by which the service reduces what has to be listed, opened and merged."""
    num_bytes: int = 0
    """Estimated bytes that it would read and write for that."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step after a commit."""

    title: str
    run: Callable[[ServiceContext, TableState], ServiceReport | None]
    """Runs what is due, given the state of the table before the step. Returns None if there was nothing to do."""


def _accept_any(*_: object) -> None:
    """Accepts any options."""


def _leaves_nothing(*_: object) -> bool:
    """Returns that nothing is left to other processes."""
    return False


@dataclass(frozen=True, slots=True)
class AfterCommitRule:
    """When a service follows the commits of writes."""

    steps: Callable[[Options, TableConfig], Iterator[Step]]
    """The steps that the options ask for."""
    check_options: Callable[[Options], None] = _accept_any
    """Raises ConfigError if the options contradict each other."""
    check_table: Callable[[Options, TableConfig], None] = _accept_any
    """Raises HudiError if a step that the options ask for would fail on every table like this."""
    switch: Mapping[Option[Any], str] = field(default_factory=dict)
    """The options with which a commit is followed by what is due, run to its end. Without any, the service is not meant
    for a process beside the writers (`tend`)."""
    left: Callable[[Options, TableConfig], bool] = _leaves_nothing
    """Whether writers with these options leave the service to a process beside them."""


class InstantArgument(Enum):
    """Whether a call of a service names an instant."""

    REQUIRED = auto()
    OPTIONAL = auto()
    REFUSED = auto()


_KINDS: Final[Mapping[type, str]] = {str: "text", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that calls of a service take besides options. Without it, the default of the service counts."""

    name: str
    kind: type[str] | type[int] | type[bool]
    help: str
    """A phrase, for the documents and the command line."""

    def parsed(self, service: str, given: Any) -> str | int | bool:
        """Returns the value, which the command line and SQL may give as text.

        Raises:
            ConfigError: it is of another kind.
        """
        text = given.strip().lower() if isinstance(given, str) else ""
        if isinstance(given, bool):
            if self.kind is bool:
                return given
        elif self.kind is bool and text in ("true", "false"):
            return text == "true"
        elif self.kind is int and (isinstance(given, Integral) or text.removeprefix("-").isdecimal()):
            return int(given)
        elif self.kind is str and isinstance(given, str):
            return given
        raise ConfigError(
            f"Cannot run the service {service} with {self.name} = {given!r}: expected {_KINDS[self.kind]}, {self.help}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Generic[Report]):
    """A table service: either one with plans, whose tasks any process may execute, or a single step."""

    name: str
    help: str
    """Describes the service in a sentence without a full stop."""
    plans: Callable[..., AnyService[Report]] | None = None
    """Makes the planned service, from the arguments of a call as keywords and `local`: whether the process that begins
    a plan lives until it is completed."""
    run: Callable[..., Report] | None = None
    """The single step: a function of a context, an instant or None, and the arguments as keywords."""
    instant: InstantArgument = InstantArgument.OPTIONAL
    arguments: tuple[Argument, ...] = ()
    command: str = ""
    """The command of `hudi-py` of its own; without one, `hudi-py run` runs it."""
    asks: str = ""
    """What the service does irreversibly, for the confirmation prompt: a verb and its object."""
    after_commit: AfterCommitRule | None = None
    any_version: bool = False
    """Whether the service takes tables of versions that can only be read."""
    due: Callable[[ServiceContext, TableState], Due | None] | None = None
    """Finds out what the service would do now. Returns None if the table is of a kind that never needs it."""

    def planner(self, *, local: bool = True, **arguments: Any) -> AnyService[Report]:
        """Creates the planned service for the arguments of a call."""
        assert self.plans is not None, self.name  # ensured by `check_call` and the types of callers
        return self.plans(local=local, **arguments)

    def command_line(self, path: str) -> str:
        """Returns the command that runs what is due. `path` is quoted for a shell."""
        return f"hudi-py {self.command} {path}" if self.command else f"hudi-py run {path} {self.name}"


@dataclass(frozen=True, slots=True)
class CheckedCall(Generic[Report]):
    """A call of a service with checked arguments, created by `registry.check_call`."""

    service: Service[Report]
    phase: str | None
    instant: InstantTime | None
    arguments: Mapping[str, Any]

    def run(self, context: ServiceContext) -> Report | ServiceReport:
        """Runs the call in this process."""
        if self.service.run is not None:
            return self.service.run(context, self.instant, **self.arguments)
        planned = self.service.planner(**self.arguments)
        if self.phase == "schedule":
            return schedule(planned, context)
        if self.phase is None and self.instant is None:
            return run_all(planned, context)
        return run(planned, context, self.instant)


def run_step(service: AnyService[ServiceReport]) -> Step:
    """Returns a step that executes the pending plans and a new one."""
    return Step(service.name, lambda context, _: done(run_all(service, context)))


def schedule_step(service: AnyService[ServiceReport]) -> Step:
    """Returns a step that only makes a plan, unless one is pending."""

    def plan(context: ServiceContext, _: TableState) -> ServiceReport | None:
        return None if pending_instants(service, context) else done(schedule(service, context))

    return Step(f"{service.name} plan", plan)


def done(report: ServiceReport) -> ServiceReport | None:
    """Returns a report; None if it says that nothing was done."""
    return None if report.instant is None else report
