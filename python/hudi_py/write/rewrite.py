"""Replaces file groups by others, as one commit: the common part of changes of buckets and of repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hudi_py.errors import ConflictError
from hudi_py.model.commit import WriteStat
from hudi_py.model.instant import Action
from hudi_py.progress import Progress
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.transaction.action import CommitResult, OperationResult
from hudi_py.transaction.session import TableSession
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.retry import begin_planned
from hudi_py.write.settings import WriteSettings

_PLANS = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT)

Groups = Mapping[str, Sequence[str]]
"""Partition path to file ids."""


@dataclass(frozen=True, slots=True)
class GroupsToReplace:
    """The plan of a rewrite: the file groups that it replaces, and how to write the ones that replace them."""

    groups: Groups
    settings: WriteSettings


PlanT = TypeVar("PlanT", bound=GroupsToReplace)


def rewrite_groups(
    session: TableSession,
    choose: Callable[[FileSystemView], PlanT],
    rewrite: Callable[[WriteContext, PlanT], Iterable[WriteStat]],
    *,
    operation: str,
    verb: str,
    progress: Progress,
) -> tuple[CommitResult, Sequence[WriteStat], PlanT]:
    """Replaces file groups by new ones, as one commit. Returns the commit, the statistics of the new files, and the
    plan.

    Args:
        choose: plans the rewrite; called again if the timeline moves before the write has begun.
        rewrite: reads the rows of the groups, and writes the files that replace them.
        operation: name of a `WriteOperationType`.
        verb: what happens to a file group, for errors.

    Raises:
        ConflictError: a pending plan has one of the file groups. Also what `begin_planned` and the commit raise.
    """
    with begin_planned(session, choose, action=Action.REPLACE_COMMIT, operation=operation) as (transaction, plan):
        check_unplanned(transaction.state, plan.groups, verb)
        context = WriteContext(transaction, plan.settings, progress=progress)
        stats = list(rewrite(context, plan))
        commit = context.commit(OperationResult(stats, plan.groups))
    return commit, stats, plan


def check_unplanned(state: TableState, groups: Groups, verb: str) -> None:
    """Refuses to replace file groups that a pending table service is going to rewrite.

    Raises:
        ConflictError: names the first such file group.
    """
    plans = PendingPlans(state.storage, state.timeline)
    chosen = {(str(partition), str(file_id)) for partition, ids in groups.items() for file_id in ids}
    for instant in plans.of(*_PLANS):
        planned = chosen & {(str(partition), str(file_id)) for partition, file_id in plans.file_groups(instant)}
        if planned:
            partition, file_id = min(planned)
            raise ConflictError(
                f"Cannot {verb} the file group {file_id} of partition '{partition}' of {state.storage.uri}: the "
                f"pending {instant.action.value} {instant.time} has it; run or unschedule it first",
                instant=instant.time,
            )
