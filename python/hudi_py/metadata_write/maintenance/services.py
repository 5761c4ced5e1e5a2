"""The metadata table's own services (compaction, cleaning and archiving), run as part of its table's commits.

They are the services of any table, run on the metadata table under the lock of its table, with options derived from
that table's (`HoodieBackedTableMetadataWriter.performTableServices`, `HoodieMetadataWriteUtils`, 1.2.0). Apache Hudi
runs them at the beginning of a write; here they run after its completed file is written: at that moment nothing is
pending that the metadata table already records, unless another writer died in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.config import indexes as indexes_config
from hudi_py.config import services as config
from hudi_py.config.option import Option
from hudi_py.errors import ConflictError
from hudi_py.merge import CommittedInstants
from hudi_py.metadata.table import valid_instants
from hudi_py.metadata_write.maintenance.compact import RecordCounts, compact_base_file, compact_logs
from hudi_py.metadata_write.table.session import COMMIT_SCHEMA
from hudi_py.model.commit import CompactedLogs
from hudi_py.model.instant import WRITE_ACTIONS, Action, InstantTime
from hudi_py.model.names import PartitionPath, join_path
from hudi_py.services.archive import archive
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction, RewriteTask, Rewritten
from hudi_py.services.compaction.plan import COMPACTION_PLANS, LOG_COMPACTION_PLANS
from hudi_py.services.compaction.trigger import Trigger, why_not_due
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.planned.codec import PlanCodec
from hudi_py.services.planned.service import OutcomeT, PlannedService, Report, ServiceReport, WorkT, execute_all
from hudi_py.storage import Storage
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.plans import CompactionOperation, CompactionPlan
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import add_ms, format_instant
from hudi_py.transaction.owner.claim import sweep_vanished
from hudi_py.transaction.session import TableSession
from hudi_py.transaction.settings import TransactionSettings
from hudi_py.view import load_view

COMPACTION_SUFFIX: Final = "001"
"""Appended to the time of the newest delta commit to form a version 6 metadata table's compaction time."""
CLEAN_SUFFIX: Final = "002"
_MIN_COMMITS_RETAINED: Final = 20
_SHARE: Final = 1.2
"""Factor by which the metadata table retains more than its table."""
_VERSIONS_RETAINED: Final = 2
_QUIET_INSTANTS: Final = 3
"""Instants that must complete between a compaction and the next clean: readers may still use the replaced files."""


@dataclass(frozen=True, slots=True)
class MetadataRewrite:
    """Rewrites slices of the metadata table (`services.compaction.Rewrite`). Pickles."""

    committed: CommittedInstants

    def __call__(self, task: RewriteTask) -> Rewritten:
        with task.storage.open_output(task.path) as sink:
            counts = compact_base_file(
                task.storage, task.slice, sink, file_name=task.file_name, committed=self.committed
            )
        logs = _compact_task(task, counts)
        return Rewritten(counts.written, counts.bytes, counts.inserted, counts.updated, counts.deleted, logs)


@dataclass(frozen=True, slots=True)
class MetadataLogRewrite:
    """Rewrites the logs of slices. Pickles."""

    committed: CommittedInstants

    def __call__(self, task: RewriteTask) -> Rewritten:
        done = compact_logs(task.storage, task.slice, task.instant, committed=self.committed)
        task.storage.put(task.path, done.data)
        logs = _compact_task(task, done.counts)
        written = done.counts.written
        return Rewritten(written, done.counts.bytes, updates=written, deletes=done.deletes, logs=logs)


def _compact_task(task: RewriteTask, counts: RecordCounts) -> CompactedLogs:
    return CompactedLogs(
        files=len(task.slice.log_files),
        size=counts.log_bytes,
        blocks=counts.log_blocks,
        records=counts.log_records,
        updated=counts.log_keys,
    )


def run_due(own: TableSession, timeline: Timeline, data: Timeline, options: Options) -> list[ServiceReport]:
    """Runs the services due on the metadata table; the lock of its table must be held.

    Pending compactions come first; then a clean, a compaction if one is due, a log compaction if the options ask for it
    (from table version 8 on), and archiving.

    Args:
        timeline: the current timeline of the metadata table.
        data: the timeline of its table.

    Returns:
        Reports of the services that had something to do.

    Raises:
        HudiError: a service failed. The next call finishes or undoes its work.
    """
    services = _Services(own, data, options)
    return [report for report in services.run(timeline) if report.instant is not None]


def compact_whole(own: TableSession, data: Timeline, options: Options) -> bool:
    """Compacts every file group of the metadata table that has logs, before its version changes. The lock of its table
    must be held, and no write may be pending.

    Returns:
        Whether no logs are left in the newest slices.
    """
    services = _Services(own, data, options)
    services.compact_whole()
    view = load_view(own.state())
    return not any(slice_.log_files for path in view.partitions() for slice_ in view.latest_slices_for_write(path))


class _Services:
    def __init__(self, own: TableSession, data: Timeline, options: Options) -> None:
        self._own = own
        self._data = data
        of_own = own_options(options)
        self._context = ServiceContext(replace(own, settings=TransactionSettings.of(of_own)), of_own)
        self._logs_compacted = options.get(indexes_config.METADATA_LOG_COMPACTION)
        self._always = False
        """Whether compactions are planned whenever there are logs."""

    def _load_timeline(self) -> Timeline:
        return self._own.timeline()

    def _run_plan(self, service: PlannedService[WorkT, OutcomeT, Report], instant: InstantTime) -> Report:
        return execute_all(service, self._context, service.begin(self._context, instant))

    def run(self, timeline: Timeline) -> Iterator[ServiceReport]:
        for report in self._run_pending(timeline):
            yield report
            timeline = self._load_timeline()
        newest = _newest_delta(timeline)
        if newest is None:
            return
        options = self._context.options
        now = InstantTime(format_instant(wall_clock_ms(), self._context.session.zone))
        due = not why_not_due(Trigger.of(options), timeline, now, self._context.session.zone)
        # only attempts at compactions leave anything here, so another listing with every commit is not needed
        if due or self._logs_compacted:
            sweep_vanished(self._own.storage, {instant.time for instant in timeline.pending})
        # compactions create what a clean removes: checking before each of them is enough, and avoids listing the
        # partitions with every commit
        if due or any(instant.action is Action.CLEAN for instant in timeline.pending):
            yield self._run_clean(timeline, newest)
        yield from self._run_compaction(newest, due=due)
        if len(timeline.write_completed) > options.get(config.ARCHIVE_MAX_COMMITS) and self._may_archive(timeline):
            yield archive(self._context, data_timeline=self._data)

    def compact_whole(self) -> None:
        """Completes pending compactions, then compacts every file group that has logs, whether or not it is due."""
        self._always = True
        list(self._run_pending(self._load_timeline()))
        newest = _newest_delta(self._load_timeline())
        if newest is not None:
            sweep_vanished(self._own.storage, {instant.time for instant in self._load_timeline().pending})
            list(self._run_compaction(newest, due=True))

    def _run_pending(self, timeline: Timeline) -> Iterator[ServiceReport]:
        """Executes pending plans."""
        for instant in timeline.pending:
            if instant.action is Action.COMPACTION:
                self._trim_plan(COMPACTION_PLANS, instant.time)
                yield self._run_plan(self._make_compaction(), instant.time)
            elif instant.action is Action.LOG_COMPACTION and self._own.config.has_completion_times:
                self._trim_plan(LOG_COMPACTION_PLANS, instant.time)
                yield self._run_plan(self._log_compaction(), instant.time)

    def _may_archive(self, timeline: Timeline) -> bool:
        """Returns whether anything is older than the first commit of the table, as archived instants must be. Cleans of
        the table have delta commits too, so there are often too many instants but nothing to archive."""
        first = next((i.time for i in self._data.instants if i.action.comparable in WRITE_ACTIONS), "")
        return timeline.write_completed[0].time < first

    def _make_compaction(self) -> Compaction:
        timeline = self._load_timeline()
        rewrite = MetadataRewrite(valid_instants(timeline, self._data))
        return Compaction(rewrite=rewrite, extra={"schema": COMMIT_SCHEMA}, always=self._always)

    def _log_compaction(self) -> LogCompaction:
        committed = valid_instants(self._load_timeline(), self._data)
        return LogCompaction(
            rewrite=MetadataLogRewrite(committed), committed=committed, extra={"schema": COMMIT_SCHEMA}
        )

    def _trim_plan(self, plans: PlanCodec[CompactionPlan, CompactionOperation], instant: InstantTime) -> None:
        """Removes from a pending plan the file groups that can no longer be compacted because their partitions were
        dropped or rebuilt."""
        storage, timeline = self._own.storage, self._load_timeline()
        plan = plans.existing(storage, timeline, instant)
        kept = tuple(operation for operation in plan.operations if _is_whole(storage, operation))
        if len(kept) < len(plan.operations):
            plans.rewrite(storage, timeline, instant, replace(plan, operations=kept))

    def _run_clean(self, timeline: Timeline, newest: InstantTime) -> ServiceReport:
        """Runs a clean when `HoodieBackedTableMetadataWriter.cleanIfNecessary` does."""
        cleaning = Cleaning(waits=True)
        compactions = [i.time for i in timeline.completed if i.action in (Action.COMMIT, Action.REPLACE_COMMIT)]
        if compactions and sum(i.time > compactions[-1] for i in timeline.completed) < _QUIET_INSTANTS:
            return ServiceReport(cleaning.name, None, reason="readers may still use files the last compaction replaced")
        for pending in timeline.pending:
            if pending.action is Action.CLEAN:
                self._run_plan(cleaning, pending.time)
        time = InstantTime(newest + CLEAN_SUFFIX) if not self._own.config.has_completion_times else None
        if time is not None and _has_instant(self._load_timeline(), time):
            return ServiceReport(cleaning.name, None, reason=f"the clean {time} was already carried out")
        return cleaning.schedule_and_run(self._context, instant=time)

    def _run_compaction(self, newest: InstantTime, *, due: bool) -> Iterator[ServiceReport]:
        """Runs a compaction when `compactIfNecessary` and `validateCompactionScheduling` allow it; table version 6 has
        rules of its own."""
        if not due and not self._logs_compacted:
            return
        timeline = self._load_timeline()
        instant: InstantTime | None
        if not self._own.config.has_completion_times:
            held = [pending for pending in self._data.pending if pending.time <= newest]
            if held:
                self._check_backlog(timeline, held[0].time)
                return
            instant = InstantTime(newest + COMPACTION_SUFFIX)
        else:
            # a pending instant of the table may still be rolled back, so a compaction must not include it
            known = {recorded.time for recorded in timeline.completed}
            held = [pending for pending in self._data.pending if pending.time in known]
            instant = add_ms(held[0].time, -1) if held else None
        if instant is not None and _has_instant(timeline, instant):
            return
        if due:
            yield self._make_compaction().schedule_and_run(self._context, instant=instant)
        if self._logs_compacted and not held and self._own.config.has_completion_times:
            yield self._log_compaction().schedule_and_run(self._context)

    def _check_backlog(self, timeline: Timeline, held: InstantTime) -> None:
        """Raises ConflictError if too many delta commits wait for a compaction (`checkNumDeltaCommits`)."""
        compactions = [i.time for i in timeline.completed if i.action is Action.COMMIT]
        since = compactions[-1] if compactions else ""
        waiting = sum(i.action is Action.DELTA_COMMIT and i.time > since for i in timeline.instants)
        if waiting > self._context.options.get(indexes_config.METADATA_MAX_DELTA_COMMITS_WHEN_PENDING):
            raise ConflictError(
                f"Cannot compact the metadata table at {self._own.storage.uri}: it has {waiting} delta commits since "
                f"its last compaction, and {held} is still pending in its table; complete that instant or roll it "
                "back (up to hoodie.metadata.max.deltacommits.when_pending are accepted)"
            )


def own_options(options: Options) -> Options:
    """Returns the options of the metadata table's services, derived from those of its table
    (`HoodieMetadataWriteUtils.createMetadataWriteConfig`, 1.2.0)."""
    values: dict[Option[Any], str] = {
        compaction_config.TRIGGER_STRATEGY: options.get(indexes_config.METADATA_COMPACT_TRIGGER),
        compaction_config.MAX_DELTA_COMMITS: str(options.get(indexes_config.METADATA_COMPACT_DELTA_COMMITS)),
        compaction_config.MAX_DELTA_SECONDS: str(options.get(indexes_config.METADATA_COMPACT_DELTA_SECONDS)),
        compaction_config.STRATEGY: "UnBoundedCompactionStrategy",
        compaction_config.LOG_BLOCKS_THRESHOLD: str(options.get(indexes_config.METADATA_LOG_COMPACTION_BLOCKS)),
        config.ARCHIVE_MIN_COMMITS: str(options.get(config.ARCHIVE_MIN_COMMITS) + 1),
        config.ARCHIVE_MAX_COMMITS: str(options.get(config.ARCHIVE_MAX_COMMITS) + 1),
    }
    if options.get(indexes_config.METADATA_DERIVE_CLEAN_POLICY):
        values[config.CLEAN_POLICY] = config.cleaning_policy(options)
        commits = max(_MIN_COMMITS_RETAINED, int(options.get(config.CLEAN_COMMITS_RETAINED) * _SHARE))
        versions = math.ceil(options.get(config.CLEAN_FILE_VERSIONS_RETAINED) * _SHARE)
        values[config.CLEAN_COMMITS_RETAINED] = str(commits)
        values[config.CLEAN_FILE_VERSIONS_RETAINED] = str(versions)
        values[config.CLEAN_HOURS_RETAINED] = str(math.ceil(options.get(config.CLEAN_HOURS_RETAINED) * _SHARE))
    else:
        values[config.CLEAN_POLICY] = config.KEEP_LATEST_FILE_VERSIONS
        values[config.CLEAN_FILE_VERSIONS_RETAINED] = str(_VERSIONS_RETAINED)
    return options.without(*_NOT_TAKEN_OVER).replace(values)


_CHOSEN_PARTITIONS: Final = (config.CLEAN_PARTITION_REGEX, config.CLEAN_PARTITIONS_SELECTED)
_NOT_TAKEN_OVER: Final = (
    *_CHOSEN_PARTITIONS,
    config.MAX_COMMITS_TO_CLEAN,
    config.CLEAN_INCREMENTAL,
    config.CLEAN_TRIGGER_STRATEGY,
    config.EMPTY_CLEAN_INTERVAL_HOURS,
    config.ARCHIVE_BEYOND_SAVEPOINT,
    config.ARCHIVE_BLOCK_ON_CLEAN,
)
"""Options of a table that Apache Hudi does not pass on to the metadata table."""


def _is_whole(storage: Storage, operation: CompactionOperation) -> bool:
    """Returns whether all files of an operation exist."""
    names = [*operation.log_files, *([operation.base_file] if operation.base_file else [])]
    return all(storage.stat(join_path(PartitionPath(operation.partition_path), name)) is not None for name in names)


def _newest_delta(timeline: Timeline) -> InstantTime | None:
    deltas = [i.time for i in timeline.completed if i.action is Action.DELTA_COMMIT]
    return deltas[-1] if deltas else None


def _has_instant(timeline: Timeline, time: InstantTime) -> bool:
    return any(instant.time == time for instant in timeline.completed)
