"""The clean service: plan, delete, complete (`BaseHoodieTableServiceClient.clean`, `CleanActionExecutor`, 1.2.0)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hudi_py.config import Options
from hudi_py.config import services as services_config
from hudi_py.errors import ConflictError, UnsupportedTableError
from hudi_py.metadata.files import metadata_lister
from hudi_py.metadata.table import FILES
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, Instant, InstantTime
from hudi_py.model.layout import PARTITION_METAFILE
from hudi_py.model.names import PartitionPath
from hudi_py.model.words import counted, show_bytes
from hudi_py.services.clean.execute import (
    FILES_PER_TASK,
    CleanOutcome,
    File,
    clean_rows,
    delete_files,
    files_of,
    files_of_task,
    num_tasks,
)
from hudi_py.services.clean.plan import needed_files, plan_clean
from hudi_py.services.clean.policy import COMPACTIONS, check_cleaning, newest_versions_only
from hudi_py.services.clean.slices import load_guards
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import Preview, Scheduled, ServiceReport, check_executed, execute_all, listed
from hudi_py.storage.base import BulkStorage
from hudi_py.timeline.clean_records import (
    CleanedPartition,
    CleanMetadata,
    CleanPlan,
    decode_clean_metadata,
    decode_clean_plan,
    encode_clean_metadata,
    encode_clean_plan,
)
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.metadata import FileGroup
from hudi_py.timeline.pending_plans import PendingPlans, check_clean_plan, read_plan
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.action import LockedAction
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.session import LockedTable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class CleanReport(ServiceReport):
    """The result of a clean."""

    policy: str = ""
    earliest_retained: str = ""
    """Earliest commit as of which the table stays readable; empty under KEEP_LATEST_FILE_VERSIONS."""
    num_files: int = 0
    """Files deleted."""
    num_bytes: int | None = 0
    """Size of the deleted files; None if the clean was already completed, because its metadata has no sizes."""
    num_partitions: int = 0
    """Partitions in which files were deleted."""
    failed: tuple[str, ...] = ()
    """Paths, relative to the table, of files that could not be deleted; the next clean tries again."""
    deleted_partitions: tuple[str, ...] = ()

    def _summary(self) -> Iterator[str]:
        if self.instant is None:
            return
        size = f" ({show_bytes(self.num_bytes)})" if self.num_bytes is not None else ""
        yield f"{counted(self.num_files, 'file')}{size} in {counted(self.num_partitions, 'partition')} deleted"
        if self.policy:
            yield self.policy + (f" from {self.earliest_retained} on" if self.earliest_retained else "")
        if self.deleted_partitions:
            yield listed(self.deleted_partitions, "emptied partition") + " removed"
        if self.failed:
            yield listed(self.failed, "file") + " could not be deleted; the next clean tries again"


@dataclass(frozen=True, slots=True)
class CleanWork:
    """A clean in progress. Pickles small: each task reads its files from the plan."""

    instant: InstantTime
    layout: Layout
    num_tasks: int
    started_ms: int
    """Milliseconds since the epoch."""
    spared: frozenset[File] = frozenset()
    """Planned files that have become necessary since, by a savepoint or as the newest version after a rollback."""
    removed: str = ""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Cleans a table, or a metadata table. Implements `PlannedService`."""

    now_ms: Callable[[], int] = wall_clock_ms
    """Milliseconds since the epoch, from which hours are counted."""
    waits: bool = False
    """Whether a clean waits for the commits of `hoodie.clean.trigger.max.commits`, as one after a commit does. A clean
    on demand looks for superfluous files at once."""
    groups: frozenset[FileGroup] | None = None
    """Cleans only these file groups, whatever the policy, and keeps only the newest version of each. None: the options
    decide."""
    name: str = "clean"

    def schedule(self, context: ServiceContext, *, instant: InstantTime | None = None) -> Scheduled:
        """Plans a clean if one is due, a file is superfluous, and no other clean is pending.

        Raises:
            ConfigError: options contradict each other.
            LockError: the table lock could not be acquired in time.
        """
        with self._request_plan(context, instant) as (_, scheduled, _):
            return scheduled

    def schedule_and_begin(
        self, context: ServiceContext, *, instant: InstantTime | None = None
    ) -> CleanWork | Scheduled:
        """See `PlannedService.schedule_and_begin`."""
        started_ms = wall_clock_ms()
        with self._request_plan(context, instant) as (table, scheduled, plan):
            if scheduled.instant is None or plan is None:
                return scheduled
            return _begin_action(context, LockedAction(table, scheduled.instant, Action.CLEAN), plan, started_ms)

    def schedule_and_run(self, context: ServiceContext, *, instant: InstantTime | None = None) -> CleanReport:
        """See `PlannedService.schedule_and_run`. A few files are deleted under the lock under which they were planned;
        if there are many, other writers would wait too long.

        Raises:
            ConfigError, LockError: as `schedule`.
        """
        started_ms = wall_clock_ms()
        with self._request_plan(context, instant) as (table, scheduled, plan):
            if scheduled.instant is None or plan is None:
                return self.nothing(scheduled.reason)
            action, files = LockedAction(table, scheduled.instant, Action.CLEAN), files_of(plan)
            work = _begin_action(context, action, plan, started_ms)
            if len(files) <= FILES_PER_TASK:
                context.storage.sync()  # the plan, without which nothing shows what the clean was about to delete
                outcomes = _delete_tasks(context, work, files, range(work.num_tasks))
                report = self._complete_action(context, action, work, plan, outcomes)
                _log.info("%s: %s", context.storage.uri, report)
                return report
        return execute_all(self, context, work)

    def preview(self, context: ServiceContext) -> Preview:
        """See `PlannedService.preview`."""
        context.progress.phase("planning the clean")
        options = self._own_options(context)
        planned = plan_clean(context, context.state(), options, now_ms=self.now_ms(), groups=self.groups)
        return Preview(() if planned.plan is None else clean_rows(planned.plan), planned.reason)

    def plan_rows(self, plans: PendingPlans, instant: Instant) -> Sequence[Mapping[str, Any]]:
        """See `PlannedService.plan_rows`."""
        plan = plans.clean(instant)
        return () if plan is None else clean_rows(plan)

    @contextmanager
    def _request_plan(
        self, context: ServiceContext, instant: InstantTime | None
    ) -> Iterator[tuple[LockedTable, Scheduled, CleanPlan | None]]:
        """Locks the table and stores a plan, if there is something to do."""
        options = self._own_options(context)
        context.progress.phase("planning the clean")
        with context.locked("plan a clean") as table:
            pending = self.planned(table.plans)
            if pending:
                reason = f"the clean {pending[0].time} is pending and has to be finished first"
                yield table, Scheduled(None, reason), None
                return
            planned = plan_clean(context, table, options, now_ms=self.now_ms(), groups=self.groups)
            if planned.plan is None:
                yield table, Scheduled(None, planned.reason), None
                return
            time_ = instant if instant is not None else context.session.clock.next_instant(table.timeline)
            check_clean_plan(context.storage, time_, planned.plan)
            LockedAction(table, time_, Action.CLEAN).request(encode_clean_plan(planned.plan))
            yield table, Scheduled(time_), planned.plan

    def _own_options(self, context: ServiceContext) -> Options:
        options = context.options
        check_cleaning(options)
        options = options if self.waits else options.replace({services_config.CLEAN_TRIGGER_MAX_COMMITS: "0"})
        return options if self.groups is None else newest_versions_only(options)

    def planned(self, plans: PendingPlans) -> list[Instant]:
        """See `PlannedService.planned`."""
        return plans.of(Action.CLEAN)

    def begin(self, context: ServiceContext, instant: InstantTime) -> CleanWork:
        """Moves a plan to inflight, or continues one that already is inflight: deleting twice does no harm.

        Raises:
            ConfigError: there is no clean with this instant.
            CorruptFileError: the plan names what is no data file of the table.
            UnsupportedTableError: the plan deletes files of a bootstrap source, or outside of the table.
        """
        storage, started_ms = context.storage, wall_clock_ms()
        with context.locked(f"run the clean {instant}") as table:
            action = LockedAction(table, instant, Action.CLEAN)
            if action.completed is not None:
                return _work_of(context, action, 0, started_ms)
            action.check_pending()
            content, source = read_plan(storage, action.layout, instant, Action.CLEAN)
            if not content:
                # a crash on a storage that does not write files atomically; without a plan nothing was deleted
                action.remove()
                removed = f"the clean {instant} had no plan and was removed"
                return replace(_work_of(context, action, 0, started_ms), removed=removed)
            plan = decode_clean_plan(content, source)
            check_clean_plan(storage, instant, plan)
            if plan.source_files:
                partition, paths = next(iter(plan.source_files.items()))
                raise UnsupportedTableError(
                    f"Cannot run the clean {instant} of {storage.uri}: it would delete {paths[0]} (partition "
                    f"{partition!r}), a file of the source that the table was bootstrapped from; hudi-py never deletes "
                    "such files; run the clean with Apache Hudi"
                )
            files = files_of(plan)
            work = _work_of(context, action, len(files), started_ms, _files_to_spare(context, table, plan, instant))
            # Releases before 1.1 read the plan of an inflight clean from its inflight file
            action.begin(content)
        return work

    def execute(self, context: ServiceContext, work: CleanWork, tasks: Sequence[int]) -> list[CleanOutcome]:
        """Deletes the files of some tasks."""
        return _delete_tasks(context, work, files_of(_read_plan(context, work)), tasks) if tasks else []

    def commit(self, context: ServiceContext, work: CleanWork, outcomes: Sequence[CleanOutcome]) -> CleanReport:
        """Deletes empty partitions, records the clean in the metadata table, and completes it.

        Raises:
            ConfigError: a task has no outcome.
        """
        with context.locked(f"complete the clean {work.instant}") as table:
            action = LockedAction(table, work.instant, Action.CLEAN)
            if action.completed is not None:
                return _report_of_completed(self.name, context, table.timeline, action.completed)
            action.check_pending()
            check_executed(context, f"clean {work.instant}", work, {outcome.task for outcome in outcomes})
            return self._complete_action(context, action, work, _read_plan(context, work), outcomes)

    def _complete_action(
        self,
        context: ServiceContext,
        action: LockedAction,
        work: CleanWork,
        plan: CleanPlan,
        outcomes: Sequence[CleanOutcome],
    ) -> CleanReport:
        failed = set(work.spared).union(*_failed_of_tasks(outcomes))
        emptied = _delete_partitions(context, action.table, plan)
        metadata = _clean_metadata(plan, work, failed, emptied)
        deleted = {part.partition_path: part.deleted for part in metadata.partitions if part.deleted}
        change = TableChange(work.instant, Action.CLEAN, deleted=deleted, deleted_partitions=emptied)
        done = action.complete(encode_clean_metadata(metadata), change)
        num_bytes = sum(outcome.num_bytes for outcome in outcomes)
        return _report_of(self.name, work.instant, done.completion_time, metadata, num_bytes)

    def nothing(self, reason: str) -> CleanReport:
        return CleanReport(self.name, None, reason=reason)

    def give_up(self, context: ServiceContext, work: CleanWork) -> None:
        """Does nothing: the next attempt continues where this one stopped."""


_LOOKED_AT = 8
"""With fewer files, a request for each size takes no more requests than opening the metadata table."""


def _read_plan(context: ServiceContext, work: CleanWork) -> CleanPlan:
    """Reads the plan of a clean in progress. Raises ConflictError if its file is empty or missing."""
    data, source = read_plan(context.storage, work.layout, work.instant, Action.CLEAN)
    if not data:
        raise ConflictError(
            f"Cannot carry out the clean {work.instant} of {context.storage.uri}: its plan is missing",
            instant=work.instant,
        )
    plan = decode_clean_plan(data, source)
    check_clean_plan(context.storage, work.instant, plan)
    return plan


def _files_to_spare(context: ServiceContext, state: TableState, plan: CleanPlan, time_: InstantTime) -> frozenset[File]:
    """Returns the files of an earlier plan that have become necessary since."""
    timeline, files = state.timeline, files_of(plan)
    guards = load_guards(context.storage, timeline)
    spared = {file for file in files if file[1] in guards.savepointed}
    undone = (Action.ROLLBACK, Action.RESTORE)
    if any(i.action in undone and (i.time > time_ or (i.completion_time or "") > time_) for i in timeline.instants):
        spared |= set(files) & needed_files(context, state, guards, list(plan.files))
    return frozenset(spared)


def _begin_action(context: ServiceContext, action: LockedAction, plan: CleanPlan, started_ms: int) -> CleanWork:
    """Moves a clean to inflight that was requested under the same lock."""
    action.begin(encode_clean_plan(plan), requested=True)
    return _work_of(context, action, len(files_of(plan)), started_ms)


def _work_of(
    context: ServiceContext,
    action: LockedAction,
    num_files: int,
    started_ms: int,
    spared: frozenset[File] = frozenset(),
) -> CleanWork:
    count = num_tasks(num_files, context.options.get(services_config.CLEAN_PARALLELISM))
    return CleanWork(action.instant, action.layout, count, started_ms, spared)


def _delete_tasks(
    context: ServiceContext, work: CleanWork, files: Sequence[File], tasks: Sequence[int]
) -> list[CleanOutcome]:
    """Deletes the files of some tasks, given the files of all tasks."""
    chosen = {
        task: [file for file in files_of_task(files, task, work.num_tasks) if file not in work.spared] for task in tasks
    }
    context.progress.phase("deleting", sum(map(len, chosen.values())))
    known = _known_sizes(context, [file for mine in chosen.values() for file in mine])
    outcomes: list[CleanOutcome] = []
    for task, mine in chosen.items():
        deleted, failed = delete_files(context.storage, mine, context.threads, known)
        for size in deleted.values():
            context.progress.wrote(size)
        reasons = tuple((*file, reason) for file, reason in failed.items())
        outcomes.append(CleanOutcome(task, sum(deleted.values()), reasons))
    return outcomes


def _known_sizes(context: ServiceContext, files: Sequence[File]) -> dict[File, int]:
    """Returns the sizes of files that are deleted many at a time, where a request for each would cost more than the
    deletion."""
    storage = context.storage
    if len(files) < _LOOKED_AT or not isinstance(storage, BulkStorage) or context.session.config.is_metadata_table:
        return {}
    state = context.state()
    if FILES not in state.config.metadata_partitions:
        return {}
    lister, wanted = metadata_lister(state)[0], set(files)
    partitions = sorted({PartitionPath(partition) for partition, _ in files})
    lister.prefetch(partitions)
    listed = ((partition, info) for partition in partitions for info in lister.files(partition))
    return {(partition, info.name): info.size for partition, info in listed if (partition, info.name) in wanted}


def _failed_of_tasks(outcomes: Sequence[CleanOutcome]) -> list[set[File]]:
    """Returns the files that remain, task by task; if a task was executed twice, those that both attempts left."""
    of_task: dict[int, set[File]] = {}
    for outcome in outcomes:
        failed = {(partition, name) for partition, name, _ in outcome.failed}
        of_task[outcome.task] = of_task.get(outcome.task, failed) & failed
    return list(of_task.values())


def _delete_partitions(context: ServiceContext, state: TableState, plan: CleanPlan) -> tuple[str, ...]:
    """Deletes the planned partitions that are empty. The lock must be held, so that no write begins.

    Apache Hudi deletes them with everything that they contain. hudi-py leaves a partition alone if a write has used it
    again, and leaves all of them alone while a write is pending, because it may use them. Pending services do not
    matter: they write only to partitions whose files they keep.
    """
    if not plan.partitions_to_delete or not state.config.partition_fields:
        return ()
    writes = (instant for instant in state.timeline.pending if instant.action.comparable in WRITE_ACTIONS)
    if any(instant.action not in (*COMPACTIONS, Action.CLUSTERING) for instant in writes):
        return ()
    emptied: list[str] = []
    for partition in sorted(plan.partitions_to_delete):
        if not partition:
            continue
        left = context.storage.list(partition)
        files = [info.path for info in left if not info.is_dir]
        if not all(path.rpartition("/")[2].startswith(PARTITION_METAFILE) for path in files):
            continue
        if len(files) == len(left):
            context.storage.delete_tree(partition)
        elif files:  # another partition lies in it
            for path in files:
                context.storage.delete(path)
        else:
            continue
        emptied.append(partition)
    return tuple(emptied)


def _clean_metadata(plan: CleanPlan, work: CleanWork, failed: set[File], emptied: tuple[str, ...]) -> CleanMetadata:
    partitions: list[CleanedPartition] = []
    for partition in sorted({*plan.files, *emptied}):
        names = tuple(path.rpartition("/")[2] for path in plan.files.get(partition, ()))
        partitions.append(
            CleanedPartition(
                partition_path=partition,
                policy=plan.policy,
                planned=names,
                deleted=tuple(name for name in names if (partition, name) not in failed),
                failed=tuple(name for name in names if (partition, name) in failed),
                partition_deleted=partition in emptied,
            )
        )
    return CleanMetadata(
        start_time=work.instant,
        time_taken_ms=max(int(time.time() * 1000) - work.started_ms, 0),
        earliest_commit_to_retain=plan.earliest.time if plan.earliest is not None else "",
        last_completed=plan.last_completed,
        partitions=tuple(partitions),
        extra=plan.extra,
    )


def _report_of(
    service: str, time_: InstantTime, completion: CompletionTime | None, metadata: CleanMetadata, size: int | None
) -> CleanReport:
    parts = metadata.partitions
    return CleanReport(
        service,
        time_,
        completion,
        policy=next((part.policy for part in parts), ""),
        earliest_retained=metadata.earliest_commit_to_retain,
        num_files=sum(len(part.deleted) for part in parts),
        num_bytes=size,
        num_partitions=sum(1 for part in parts if part.deleted),
        failed=tuple(f"{part.partition_path}/{name}".lstrip("/") for part in parts for name in part.failed),
        deleted_partitions=tuple(part.partition_path for part in parts if part.partition_deleted),
    )


def _report_of_completed(service: str, context: ServiceContext, timeline: Timeline, instant: Instant) -> CleanReport:
    """Builds the report of a clean that was already completed."""
    path = timeline.layout.path(instant.file_name)
    metadata = decode_clean_metadata(context.storage.read(path), f"the clean {context.storage.uri}/{path}")
    return _report_of(service, instant.time, context.session.completion_shown(instant.completion_time), metadata, None)
