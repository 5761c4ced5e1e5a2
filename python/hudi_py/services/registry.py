"""All table services, each with its descriptor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.services.archive.service import ARCHIVE
from hudi_py.services.buckets import rescale_buckets
from hudi_py.services.clean import CLEAN
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Argument, CheckedCall, Due, InstantArgument, Service
from hudi_py.services.planned.pending import PLANNED
from hudi_py.services.planned.phases import RewritingService
from hudi_py.services.planned.service import listed, planned_files
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.services.recovery.failed import ROLLBACK_FAILED
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint, delete_savepoint
from hudi_py.services.ttl import TTL
from hudi_py.services.upgrade.service import DOWNGRADE, UPGRADE
from hudi_py.services.upgrade.table_type import CHANGE_TYPE
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState

SAVEPOINT: Final = Service(
    name="savepoint",
    help="Protects a commit, by default the newest, from cleaning and archiving",
    run=create_savepoint,
    command="savepoint create",
    arguments=(Argument("user", str, "who creates it"), Argument("comment", str, "why it is created")),
)
DELETE_SAVEPOINT: Final = Service(
    name="delete_savepoint",
    help="Deletes a savepoint, so that its commit may be cleaned and archived",
    run=delete_savepoint,
    command="savepoint delete",
    instant=InstantArgument.REQUIRED,
    asks="delete a savepoint",
)
ROLLBACK: Final = Service(
    name="rollback",
    help="Undoes a completed or pending commit",
    run=rollback,
    command="rollback",
    instant=InstantArgument.REQUIRED,
    arguments=(Argument("with_newer", bool, "whether to undo newer commits as well, instead of refusing"),),
    asks="undo commits",
)
RESTORE: Final = Service(
    name="restore",
    help="Goes back to a savepoint: everything later is undone",
    run=restore,
    command="restore",
    instant=InstantArgument.REQUIRED,
    asks="undo everything since the savepoint",
)
UNSCHEDULE: Final = Service(
    name="unschedule",
    help="Drops a pending plan, after rolling back an unfinished attempt to execute it",
    run=unschedule,
    command="unschedule",
    instant=InstantArgument.REQUIRED,
    asks="drop a plan",
)
RESCALE_BUCKETS: Final = Service(
    name="rescale_buckets",
    help="Changes the numbers of buckets in the partitions of a simple bucket index, by rules",
    run=rescale_buckets,
    instant=InstantArgument.REFUSED,
    arguments=(
        Argument("expressions", str, "the rules, empty to report those stored"),
        Argument("buckets", int, "the number of buckets of partitions without a rule"),
        Argument("add", bool, "whether the rules come before the stored ones, rather than replacing them"),
        Argument("dry_run", bool, "whether only to report which partitions would change"),
    ),
)
SERVICES: Final[Mapping[str, Service[Any]]] = {
    service.name: service
    for service in (
        *PLANNED,
        ARCHIVE,
        SAVEPOINT,
        DELETE_SAVEPOINT,
        ROLLBACK,
        ROLLBACK_FAILED,
        RESTORE,
        UNSCHEDULE,
        RESCALE_BUCKETS,
        TTL,
        UPGRADE,
        DOWNGRADE,
        CHANGE_TYPE,
    )
}
_FIRST: Final = (CLEAN, ARCHIVE)
AFTER_COMMIT: Final[Sequence[Service[Any]]] = (
    *_FIRST,
    *(service for service in SERVICES.values() if service.after_commit is not None and service not in _FIRST),
)
"""Services that follow commits, in Apache Hudi's order (`BaseHoodieWriteClient.mayBeCleanAndArchive`,
`BaseHoodieTableServiceClient.runTableServicesInline`, 1.2.0)."""
_PHASES: Final = (None, "schedule", "execute")


def due_services(context: ServiceContext) -> list[Due]:
    """Returns what the services would do now, according to their options. Changes nothing, and does not take the lock.
    Reads the timeline and lists files, but reads no rows."""
    return list(_each_due(context))


def _each_due(context: ServiceContext) -> Iterator[Due]:
    state = context.state()
    plans = PendingPlans(state.storage, state.timeline)
    for service in SERVICES.values():
        due = due_of(service, context, state, plans)
        if due is not None:
            yield due


def due_of(service: Service[Any], context: ServiceContext, state: TableState, plans: PendingPlans) -> Due | None:
    """Returns what one service would do now; its pending plans come first. Returns None if it has neither plans nor a
    rule."""
    due = service.due(context, state) if service.due is not None else None
    planned = [] if service.plans is None else service.planner().planned(plans)
    pending = tuple(plan.time for plan in planned)
    if not pending:
        return due
    new = due if due is not None and due.due else Due(service.name, True, "")
    planner = service.planner()
    files = sum(planned_files(row) for plan in planned for row in planner.plan_rows(plans, plan))
    num_bytes = sum(planner.plan_bytes(plans, plan) for plan in planned) if isinstance(planner, RewritingService) else 0
    return replace(
        new,
        reason=f"{listed(pending, 'plan')} pending" + (f"; {new.reason}" if new.reason else ""),
        pending=pending,
        files=new.files + files,
        num_bytes=new.num_bytes + num_bytes,
    )


def check_call(
    name: str, phase: str | None = None, instant: str | None = None, arguments: Mapping[str, Any] | None = None
) -> CheckedCall[Any]:
    """Checks a call of a service. Arguments that are None count as left out.

    Raises:
        ConfigError: there is no such service or phase, or an argument is missing, unknown or of another kind.
    """
    service = SERVICES.get(name)
    if service is None:
        raise ConfigError(f"Cannot run the service {name!r}; services are {', '.join(SERVICES)}")
    _check_phase(service, phase, instant)
    known = {own_argument.name: own_argument for own_argument in service.arguments}
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    for argument in given:
        if argument not in known:
            takers = [other.name for other in SERVICES.values() if argument in {own.name for own in other.arguments}]
            raise ConfigError(
                f"Cannot run the service {name} with {argument}: "
                + (f"only {', '.join(takers)} takes this argument; " if takers else "")
                + f"it takes {', '.join(known) or 'only options'}"
            )
    parsed = {key: known[key].parsed(name, value) for key, value in given.items()}
    return CheckedCall(service, phase, None if instant is None else InstantTime(instant), parsed)


def _check_phase(service: Service[Any], phase: str | None, instant: str | None) -> None:
    """Refuses a phase, or an instant of a plan, that the service does not have."""
    name = service.name
    if phase not in _PHASES or (phase is not None and service.plans is None):
        raise ConfigError(
            f"Cannot run the phase {phase!r} of the service {name}; "
            + ("it has no phases" if service.plans is None else "phases are 'schedule' and 'execute', or None for both")
        )
    if instant is None and service.instant is InstantArgument.REQUIRED:
        raise ConfigError(f"Cannot run the service {name} without an instant; give instant='...'")
    if instant is not None and (phase == "schedule" or service.instant is InstantArgument.REFUSED):
        raise ConfigError(
            f"Cannot run the service {name} with the instant {instant!r}: "
            + ("a new plan gets a new instant" if service.plans is not None else "it takes none")
            + "; leave it out"
        )
