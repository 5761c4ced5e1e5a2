"""Restores a table to a savepoint (`HoodieWriteClient.restoreToSavepoint`, `RestorePlanActionExecutor`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import join_path
from hudi_py.services.archive.service import archived_after
from hudi_py.services.clean.slices import read_savepoint, savepoints_of
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.rollback import UndoReport
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.plans import RestorePlan
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.recovery.plan import check_logs
from hudi_py.transaction.recovery.restore import finish_restore, plan_restore, request_restore


@dataclass(frozen=True, slots=True, repr=False)
class RestoreReport(UndoReport):
    """The result of a restore; `instant` is the restore's own."""

    savepoint: InstantTime | None = None
    """Requested time of the commit to which the table was restored."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            yield f"the table is as of {self.savepoint}"
        yield from UndoReport._summary(self)


def restore(context: ServiceContext, instant: str | None = None) -> RestoreReport:
    """Restores the table to a savepoint: undoes everything written since, and every pending table service.

    Queries that read undone data fail in the meantime. The savepoint stays, and can be restored again. A restore that a
    dead process left unfinished is finished first, by this call or by any write.

    Args:
        instant: requested time of the savepoint; None: the latest one.

    Raises:
        ConfigError: there is no such savepoint.
        ConflictError: a write is running, or a later savepoint exists; delete that one first.
        HistoryCleanedError: a file of the savepoint is missing, or later commits have been archived.
        UnsupportedTableError: later commits share log files, from before the table was upgraded to version 8 or later.
        LockError: the table lock could not be acquired in time.
    """
    with recovered(context.session, f"restore the table to {instant or 'its latest savepoint'}") as table:
        timeline = table.timeline
        savepoint, commit = _find_savepoint(context, timeline, instant)
        plan = plan_restore(table.session, timeline, commit)
        if not plan.instants:
            return RestoreReport(
                "restore", None, reason=f"nothing was written since {commit.time}", savepoint=commit.time
            )
        _check_plan(context, timeline, savepoint, plan)
        context.session.metadata.check(table.session, tuple(InstantTime(info.time) for info in plan.instants))
        left = [InstantTime(info.time) for info in plan.instants]

        def show(undone: InstantTime) -> None:
            left.remove(undone)
            context.progress.phase(f"{len(left)} of {len(plan.instants)} instants left to undo")

        time = request_restore(table, plan)
        result = finish_restore(table, time, plan, show)
        completed = context.timeline().find(time, Action.RESTORE)
    parts = [part for rollbacks in result.rollbacks.values() for done in rollbacks for part in done.partitions]
    return RestoreReport(
        "restore",
        time,
        context.session.completion_shown(completed.completion_time) if completed is not None else None,
        savepoint=commit.time,
        rolled_back=tuple(InstantTime(info.time) for info in result.instants),
        num_files_deleted=sum(len(part.deleted) for part in parts),
        num_rollback_blocks=sum(len(part.rollback_logs) for part in parts),
    )


def preview_restore(context: ServiceContext, instant: str | None = None) -> RestorePlan:
    """Returns the plan of a restore: the commit of the savepoint, and the instants that would be undone. Changes
    nothing, and does not take the lock. For arguments and errors see `restore`."""
    state = context.state()
    savepoint, commit = _find_savepoint(context, state.timeline, instant)
    plan = plan_restore(context.session.at(state.config), state.timeline, commit)
    _check_plan(context, state.timeline, savepoint, plan)
    return plan


def _find_savepoint(context: ServiceContext, timeline: Timeline, instant: str | None) -> tuple[Instant, Instant]:
    """Finds the savepoint and its commit."""
    savepoints = savepoints_of(timeline)
    chosen = [savepoint for savepoint in savepoints if instant is None or savepoint.time == instant]
    commits = [commit for commit in timeline.write_completed if chosen and commit.time == chosen[-1].time]
    if not chosen or not commits:
        times = ", ".join(savepoint.time for savepoint in savepoints[-5:]) or "none"
        raise ConfigError(
            f"Cannot restore {context.storage.uri} to {instant or 'its latest savepoint'}: there is no such savepoint; "
            f"savepoints: {times}; a table can only be restored to a savepoint that was created beforehand"
        )
    return chosen[-1], commits[-1]


def _check_plan(context: ServiceContext, timeline: Timeline, savepoint: Instant, plan: RestorePlan) -> None:
    undone = {info.time for info in plan.instants}
    later = [other.time for other in savepoints_of(timeline) if other.time in undone]
    if later:
        raise ConflictError(
            f"Cannot restore {context.storage.uri} to {savepoint.time}: the later commits {', '.join(later)} have "
            "savepoints; delete them first",
            instant=later[-1],
        )
    config = context.config()
    if not config.is_mor or config.logs_named_by_instant:
        for instant in timeline.write_completed:
            if instant.time in undone:
                metadata = read_commit_metadata(context.storage, timeline.layout, instant)
                check_logs(context.storage, config, instant, metadata)
    archived = archived_after(context.session.at(config).state(timeline), savepoint.time)
    if archived:
        raise HistoryCleanedError(
            f"Cannot restore {context.storage.uri} to {savepoint.time}: {len(archived)} later commits have been "
            f"archived (hoodie.archive.beyond.savepoint), such as {archived[0].time}, and can no longer be undone; "
            "restore a later savepoint, or read the table as of this one and write the rows again",
            instant=archived[0].time,
        )
    files = read_savepoint(context.storage, timeline, savepoint).files

    def missing(partition: str) -> list[str]:
        names = {info.name for info in context.storage.list(partition)}
        return [join_path(partition, name) for name in files[partition] if name not in names]

    gone = [path for paths in in_threads(missing, sorted(files), context.threads) for path in paths]
    if gone:
        raise HistoryCleanedError(
            f"Cannot restore {context.storage.uri} to {savepoint.time}: {len(gone)} files of the savepoint are "
            f"missing, such as {gone[0]}; restore another savepoint",
            path=gone[0],
            instant=savepoint.time,
        )
