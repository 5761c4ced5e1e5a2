"""Removes a plan that is no longer wanted (`CompactionAdminClient.unscheduleCompactionPlan`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hudi_py.errors import ConfigError, ConflictError, CorruptFileError
from hudi_py.model.instant import Action, Instant, InstantTime, State
from hudi_py.model.names import PartitionPath, parse_log_file_name
from hudi_py.services.context import ServiceContext
from hudi_py.services.indexing import drop_plan
from hudi_py.services.planned.pending import PLANNED
from hudi_py.services.planned.service import ServiceReport
from hudi_py.storage.threads import in_threads
from hudi_py.transaction.attempt import check_dead
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.recovery.plans import remove_plan
from hudi_py.transaction.session import LockedTable
from hudi_py.view import StorageLister

_CLUSTERING: Final = "clustering"
"""Stands for any clustering, including one whose plan cannot be read."""


@dataclass(frozen=True, slots=True, repr=False)
class UnscheduleReport(ServiceReport):
    """The result of dropping a plan; `instant` is the plan's."""

    plan: str = ""
    """The plan's service, such as `compaction`."""
    rollback: InstantTime | None = None
    """Requested time of the rollback of an unfinished attempt to execute the plan; None if there was none."""

    def _summary(self) -> Iterator[str]:
        yield f"the {self.plan.replace('_', ' ')} plan dropped"
        if self.rollback is not None:
            yield f"an unfinished attempt rolled back by {self.rollback}"


def unschedule(context: ServiceContext, instant: str) -> UnscheduleReport:
    """Drops the pending plan of a planned service, or of any clustering, after rolling back an unfinished attempt to
    execute it.

    Rows do not change; the next schedule plans the same work again. A pending clustering blocks updates of its file
    groups (`BaseHoodieTableServiceClient.purgePendingClustering`).

    In table version 6, a compaction can be unscheduled only until its file groups are written to: later log files are
    named after the plan. Without the plan, 0.15 and hudi-py no longer find them; 1.2.0, which drops such plans anyway,
    does.

    Args:
        instant: requested time of the plan.

    Raises:
        ConfigError: there is no such pending plan.
        ConflictError: a process is executing it, it is a clean that has begun, a write is running, or rows would no
            longer be found (version 6).
        LockError: the table lock could not be acquired in time.
    """
    purpose = f"unschedule {instant}"
    by_name = not context.config().logs_named_by_instant
    # in version 6, a running write may be about to write to logs named after the plan
    with recovered(context.session, purpose) if by_name else context.locked(purpose) as table:
        timeline = table.timeline
        context.progress.phase(f"dropping the plan {instant}")
        plan, service = _find_plan(context, table, instant)
        if plan.action is Action.CLEAN and plan.state is State.INFLIGHT:
            raise ConflictError(
                f"Cannot unschedule the clean {instant} of {context.storage.uri}: it has begun to delete files, which "
                "cannot be undone; run it to completion",
                instant=plan.time,
            )
        if plan.state is State.INFLIGHT:
            check_dead(context.session, timeline, plan, "unschedule")
        if by_name and plan.action is Action.COMPACTION:
            _check_logs(context, plan)
        rollback: InstantTime | None = None
        if plan.action is Action.INDEXING:
            drop_plan(table, plan)
        else:
            rollback = remove_plan(table, plan.time, plan.action)
    return UnscheduleReport("unschedule", plan.time, plan=service, rollback=rollback)


def _find_plan(context: ServiceContext, table: LockedTable, instant: str) -> tuple[Instant, str]:
    """Finds the plan's instant, and the name of its service."""
    services = dict.fromkeys(table.plans.clusterings, _CLUSTERING)
    for service in PLANNED:
        with suppress(CorruptFileError):  # a clustering whose plan cannot be read can be dropped too
            services |= dict.fromkeys(service.planner().planned(table.plans), service.name)
    for pending, name in services.items():
        if pending.time == instant:
            return pending, name
    other = table.timeline.find(instant)
    known = ", ".join(planned.name for planned in PLANNED)
    raise ConfigError(
        f"Cannot unschedule {instant} of {context.storage.uri}: "
        + (
            f"it is a {other.state.name.lower()} {other.action.value}; only pending plans of services ({known}) and of "
            "clusterings can be dropped"
            if other is not None
            else "there is no such plan"
        )
        + f"; pending: {', '.join(sorted(pending.time for pending in services)) or 'none'}"
    )


def _check_logs(context: ServiceContext, plan: Instant) -> None:
    """Refuses if the slices that the plan of a compaction opened have been written to.

    All partitions are listed, because the plan may be unreadable, which is a reason to drop it.
    """
    lister = StorageLister(context.storage, context.config())

    def named(partition: PartitionPath) -> list[str]:
        names = ((info.path, parse_log_file_name(info.name)) for info in lister.files(partition))
        return [path for path, name in names if name is not None and name.instant == plan.time]

    logs = [path for paths in in_threads(named, lister.partitions()) for path in paths]
    if logs:
        raise ConflictError(
            f"Cannot unschedule the compaction {plan.time} of {context.storage.uri}: {len(logs)} log files written "
            f"since, such as {logs[0]}, are named after it (table version 6), and their rows would no longer be "
            "found; run it, or restore an earlier savepoint",
            path=logs[0],
            instant=plan.time,
        )
