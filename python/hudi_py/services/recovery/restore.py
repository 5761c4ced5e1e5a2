"""Taking a table back to a savepoint (`HoodieWriteClient.restoreToSavepoint`, `RestorePlanActionExecutor`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudi_py.errors import ConfigError, ConflictError, HistoryCleanedError
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import join_path
from hudi_py.services.archive.service import archived_after
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.recovery.rollback import summary_of_undone
from hudi_py.services.recovery.savepoint import read_savepoint, savepoints_of
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.recovery_records import RestorePlan
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.recovery.failed_writes import recovered
from hudi_py.transaction.recovery.plan import check_logs
from hudi_py.transaction.recovery.restore import finish_restore, plan_restore, request_restore


@dataclass(frozen=True, slots=True, repr=False)
class RestoreReport(ServiceReport):
    """What a restore did; `instant` is the restore's own."""

    savepoint: InstantTime | None = None
    """Requested time of the commit that the table is back at."""
    rolled_back: tuple[InstantTime, ...] = ()
    """Requested times of the instants undone, in this order."""
    num_files_deleted: int = 0
    num_rollback_blocks: int = 0
    """Log files written to undo blocks in others (table version 6)."""

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            yield f"the table is as of {self.savepoint}"
            yield from summary_of_undone(self.rolled_back, self.num_files_deleted, self.num_rollback_blocks)


def restore(context: ServiceContext, instant: str | None = None) -> RestoreReport:
    """Restores the table to a savepoint: everything written since, and every pending table service, is undone.

    Queries of what is undone fail meanwhile. Savepoint, cleans and their files stay; the savepoint can be restored
    again. A restore that a dead process left half done is finished first, by this or by any write.

    Args:
        instant: requested time of the savepoint; None: the latest one.

    Raises:
        ConfigError: there is no such savepoint.
        ConflictError: a write is under way, or there is a savepoint since, which has to be deleted first.
        HistoryCleanedError: a file of the savepoint is gone, or commits since then are archived.
        UnsupportedTableError: commits since then shared log files, before the table was upgraded to version 8 or later.
        LockError: the table lock could not be acquired in time.
    """
    with recovered(context.session, f"restore the table to {instant or 'its latest savepoint'}") as table:
        timeline = table.timeline
        savepoint, commit = _savepoint(context, timeline, instant)
        plan = plan_restore(table.session, timeline, commit)
        if not plan.instants:
            return RestoreReport(
                "restore", None, reason=f"nothing was written since {commit.time}", savepoint=commit.time
            )
        _check(context, timeline, savepoint, plan)
        if context.session.metadata is not None:
            context.session.metadata.check(table.session, tuple(InstantTime(info.time) for info in plan.instants))
        left = [InstantTime(info.time) for info in plan.instants]

        def show(undone: InstantTime) -> None:
            left.remove(undone)
            context.progress.phase(f"{len(left)} of {len(plan.instants)} instants are left to undo")

        time = request_restore(table, plan)
        result = finish_restore(table, time, plan, show)
        after = context.timeline()
        completed = after.find(time, Action.RESTORE)
    parts = [part for found in result.rollbacks.values() for done in found for part in done.partitions]
    return RestoreReport(
        "restore",
        time,
        completed.completion_time if completed is not None and after.layout.version >= 2 else None,
        savepoint=commit.time,
        rolled_back=tuple(InstantTime(info.time) for info in result.instants),
        num_files_deleted=sum(len(part.deleted) for part in parts),
        num_rollback_blocks=sum(len(part.rollback_logs) for part in parts),
    )


def _savepoint(context: ServiceContext, timeline: Timeline, instant: str | None) -> tuple[Instant, Instant]:
    """The savepoint, and its commit."""
    savepoints = savepoints_of(timeline)
    chosen = [each for each in savepoints if instant is None or each.time == instant]
    commits = [each for each in timeline.write_completed if chosen and each.time == chosen[-1].time]
    if not chosen or not commits:
        times = ", ".join(each.time for each in savepoints[-5:]) or "none"
        raise ConfigError(
            f"Cannot restore {context.storage.uri} to {instant or 'its latest savepoint'}: there is no such savepoint; "
            f"savepoints: {times}; make one before there is need of it"
        )
    return chosen[-1], commits[-1]


def _check(context: ServiceContext, timeline: Timeline, savepoint: Instant, plan: RestorePlan) -> None:
    undone = {info.time for info in plan.instants}
    later = [each.time for each in savepoints_of(timeline) if each.time in undone]
    if later:
        raise ConflictError(
            f"Cannot restore {context.storage.uri} to {savepoint.time}: the commits {', '.join(later)} since then have "
            "savepoints; delete these first",
            instant=later[-1],
        )
    config = context.config()
    if config.is_mor and config.version >= 8:
        for instant in timeline.write_completed:
            if instant.time in undone:
                metadata = read_commit_metadata(context.storage, timeline.layout, instant)
                check_logs(context.storage, config, instant, metadata)
    archived = archived_after(context.storage, config, timeline, savepoint.time)
    if archived:
        raise HistoryCleanedError(
            f"Cannot restore {context.storage.uri} to {savepoint.time}: {len(archived)} commits since then are "
            f"archived (hoodie.archive.beyond.savepoint), such as {archived[0].time}, and what is archived cannot be "
            "undone; restore a later savepoint, or read the table as of this one and write the rows anew",
            instant=archived[0].time,
        )
    files = read_savepoint(context.storage, timeline, savepoint).files

    def missing(partition: str) -> list[str]:
        names = {info.name for info in context.storage.list(partition)}
        return [join_path(partition, name) for name in files[partition] if name not in names]

    gone = [path for found in in_threads(missing, sorted(files), context.threads) for path in found]
    if gone:
        raise HistoryCleanedError(
            f"Cannot restore {context.storage.uri} to {savepoint.time}: {len(gone)} files of the savepoint are gone, "
            f"such as {gone[0]}; restore another savepoint",
            path=gone[0],
            instant=savepoint.time,
        )
