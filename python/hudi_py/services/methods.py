"""The methods of `Table` that run services."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, cast

import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.model.instant import InstantTime
from hudi_py.services.archive import ArchiveReport, Selection, preview_archive
from hudi_py.services.archive.service import ARCHIVE
from hudi_py.services.bucket_resize.service import RESIZE_BUCKETS, ResizeReport
from hudi_py.services.buckets import BucketReport
from hudi_py.services.clean import CLEAN, CleanReport
from hudi_py.services.clustering.service import CLUSTERING, ClusteringReport
from hudi_py.services.compaction import CompactionReport
from hudi_py.services.compaction.service import COMPACTION
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Due, Service
from hudi_py.services.indexing import INDEXING, IndexingReport
from hudi_py.services.log_compaction import LOG_COMPACTION
from hudi_py.services.planned.pending import plan_report
from hudi_py.services.planned.service import AnyService, Preview, Report, ServiceReport, pending_instants, run, run_all
from hudi_py.services.planned.unschedule import UnscheduleReport
from hudi_py.services.recovery.restore import RestoreReport, preview_restore
from hudi_py.services.recovery.rollback import RollbackReport, preview_rollback
from hudi_py.services.recovery.savepoint import SavepointReport, savepoint_report
from hudi_py.services.registry import (
    DELETE_SAVEPOINT,
    RESCALE_BUCKETS,
    RESTORE,
    ROLLBACK,
    SAVEPOINT,
    UNSCHEDULE,
    check_call,
    due_services,
)
from hudi_py.services.ttl import TTL, TtlReport
from hudi_py.services.upgrade.service import DOWNGRADE, UPGRADE, VersionReport
from hudi_py.services.upgrade.table_type import CHANGE_TYPE, TypeReport
from hudi_py.timeline.state import TableState
from hudi_py.write.result import WriteResult, requested_time


class Serving(Protocol):
    """Opens the context of one call."""

    def __call__(
        self, title: str, options: Mapping[str, Any] | None = None, *, any_version: bool = False
    ) -> AbstractContextManager[ServiceContext]:
        """Opens it.

        Args:
            title: title of the progress line.
            options: further options.
            any_version: whether tables whose version can only be read are taken.
        """


_Instant = str | int | WriteResult


class ServicePlans(Generic[Report]):
    """The plans of one service of a table. `options` are write options; they override those with which the table was
    opened."""

    def __init__(self, service: Service[Report], serve: Serving, **arguments: Any) -> None:
        self._service: AnyService[Report] = service.planner(**arguments)
        self._title = service.name.replace("_", " ")
        self._serve = serve

    def schedule(self, *, options: Mapping[str, Any] | None = None) -> InstantTime | None:
        """Makes a plan. Returns its instant; None if there is nothing to do."""
        with self._serve(self._title, options) as context:
            return self._service.schedule(context).instant

    def preview(self, *, options: Mapping[str, Any] | None = None) -> Preview:
        """Returns what a new plan would contain, or why it would be empty. Changes nothing, and does not take the
        lock."""
        with self._serve(self._title, options) as context:
            return self._service.preview(context)

    def run(self, instant: str | None = None, *, options: Mapping[str, Any] | None = None) -> Report:
        """Executes the pending plan of an instant, by default the oldest one.

        Returns:
            The report; its instant is None if no plan is pending.

        Raises:
            ConfigError: there is no pending plan with this instant.
            ConflictError: another process is executing it.
        """
        with self._serve(self._title, options) as context:
            return run(self._service, context, None if instant is None else InstantTime(instant))

    def pending(self) -> list[InstantTime]:
        """Returns the instants of pending plans, oldest first."""
        with self._serve(self._title, None) as context:
            return pending_instants(self._service, context)

    def schedule_and_run(self, *, options: Mapping[str, Any] | None = None) -> Report:
        """Executes the pending plans, oldest first, then schedules a new one and executes it.

        Returns:
            The report of the last plan executed, or why there was none.
        """
        with self._serve(self._title, options) as context:
            return run_all(self._service, context)


class TableServices:
    """The services of a table by name, their pending plans, and what is due. `options` are write options; they override
    those with which the table was opened."""

    def __init__(self, serve: Serving, load_state: Callable[[], TableState]) -> None:
        self._serve = serve
        self._load_state = load_state

    def run(
        self,
        name: str,
        *,
        phase: str | None = None,
        instant: _Instant | None = None,
        options: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> ServiceReport:
        """Runs a service by its name, like the method of that name.

        Args:
            name: a name of the table in docs/services.md, which lists the arguments of each service as well.
            phase: for services with plans: `schedule` only makes a plan; `execute` only runs a pending plan, by default
                the oldest; None runs the pending plans, then schedules and runs one for what is left.
            instant: the plan to run or drop, or the instant to roll back, restore or save.
            arguments: arguments of the service; text is parsed where a number or a boolean is expected.

        Raises:
            ConfigError: there is no such service or phase, or an argument does not fit it.
        """
        call = check_call(name, phase, None if instant is None else requested_time(instant), arguments)
        with self._serve(name.replace("_", " "), options, any_version=call.service.any_version) as context:
            return call.run(context)

    def planned(self, name: str, **arguments: Any) -> ServicePlans[ServiceReport]:
        """Returns the plans of a service by its name, such as `compaction`, with arguments that it takes.

        Raises:
            ConfigError: there is no such service, it has no plans, or an argument does not fit it.
        """
        call = check_call(name, None, None, arguments)
        if call.service.plans is None:
            raise ConfigError(f"Cannot plan the service {name}: it is a single step; run it by services.run")
        return ServicePlans(call.service, self._serve, **call.arguments)

    def pending(self) -> pa.Table:
        """Returns the pending plans of services, oldest first: service, instant, state, partition, file_id (string),
        files (list of string); a row for each file group to rewrite and each partition to clean."""
        return plan_report(self._load_state())

    def due(self, *, options: Mapping[str, Any] | None = None) -> list[Due]:
        """Returns whether services such as compaction, cleaning and archiving would find something to do now, and what.
        Lists files, but reads no rows. `options` are the options of the writes after which the services run."""
        with self._serve("due services", options) as context:
            return due_services(context)

    def unschedule(
        self, instant: str | int | WriteResult, *, options: Mapping[str, Any] | None = None
    ) -> UnscheduleReport:
        """Removes a pending plan of a service, or of any clustering, after rolling back an unfinished attempt to
        execute it. Rows do not change.

        Raises:
            ConfigError: there is no such pending plan.
            ConflictError: another process is executing it, it is a clean that has begun, or it is a compaction of table
                version 6 after which rows were written, which readers would no longer see.
        """
        return cast(UnscheduleReport, self.run(UNSCHEDULE.name, instant=instant, options=options))


class TableSavepoints:
    """The savepoints of a table; `Table.savepoint` and `Table.delete_savepoint` make and delete them."""

    def __init__(self, serve: Serving) -> None:
        self._serve = serve

    def list(self) -> pa.Table:
        """Lists the savepoints, oldest first: instant, user, comment (string), created (timestamp in UTC),
        num_partitions, num_files (int64)."""
        with self._serve("savepoints", None) as context:
            return savepoint_report(context)


class ServiceMethods(ABC):
    """The methods of a table that run services: `options` are write options, instants are requested times or results of
    writes."""

    @property
    def services(self) -> TableServices:
        """Services by name, their pending plans, and what is due."""
        return TableServices(self._serving, self._state)

    @property
    def savepoints(self) -> TableSavepoints:
        """The savepoints of the table."""
        return TableSavepoints(self._serving)

    @property
    def compaction(self) -> ServicePlans[CompactionReport]:
        """Plans of compactions; a new plan has every file group with logs that the strategy chooses."""
        return ServicePlans(COMPACTION, self._serving)

    @property
    def log_compaction(self) -> ServicePlans[CompactionReport]:
        """Plans of log compactions; a new plan has every file group with enough log blocks
        (`hoodie.log.compaction.blocks.threshold`)."""
        return ServicePlans(LOG_COMPACTION, self._serving)

    @property
    def clustering(self) -> ServicePlans[ClusteringReport]:
        """Plans of clusterings, by the options `hoodie.clustering.*`; those that Apache Hudi made are included."""
        return ServicePlans(CLUSTERING, self._serving)

    @property
    def bucket_resizing(self) -> ServicePlans[ResizeReport]:
        """Plans that change hash buckets, which are clusterings; those that Apache Hudi made are included."""
        return ServicePlans(RESIZE_BUCKETS, self._serving)

    @property
    def indexing(self) -> ServicePlans[IndexingReport]:
        """Plans of indexes of the metadata table that are built beside writers; a new plan has those that the options
        ask for."""
        return ServicePlans(INDEXING, self._serving)

    @property
    def cleaning(self) -> ServicePlans[CleanReport]:
        """Plans of cleans."""
        return ServicePlans(CLEAN, self._serving)

    def compact(self, *, options: Mapping[str, Any] | None = None) -> CompactionReport:
        """Merges logs into new base files: runs pending compactions, then compacts the rest.

        Returns:
            The report of the last compaction, or why there was none.

        Raises:
            UnsupportedTableError: the table has a feature that a compaction would lose.
            ConflictError: another process is executing a pending plan.
        """
        return self.compaction.schedule_and_run(options=options)

    def log_compact(self, *, options: Mapping[str, Any] | None = None) -> CompactionReport:
        """Merges the logs of file groups with enough log blocks (`hoodie.log.compaction.blocks.threshold`) into one
        each: runs pending log compactions, then compacts the rest. For results and errors see `compact`; needs table
        version 8 or 9.
        """
        return self.log_compaction.schedule_and_run(options=options)

    def cluster(
        self,
        sort_by: str | Iterable[str] = (),
        *,
        layout: str = "",
        partitions: str | Iterable[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> ClusteringReport:
        """Moves rows to fewer, larger or sorted files: runs pending plans, then plans and runs a new one. The options
        `hoodie.clustering.*` say which files, and how large new ones become. Updates of the file groups of a plan are
        refused until it has been run or dropped (`services.unschedule`).

        Args:
            sort_by: columns to sort the rows of each group of files by; default: those of the options, or none.
            layout: `linear`: by one column after the other; `zorder` or `hilbert`: along a curve, for filters on any of
                the columns.
            partitions: paths of the partitions to cluster; default: all.

        Returns:
            The report of the last clustering, or why there was none.

        Raises:
            ConfigError: there is no such column or layout.
            UnsupportedTableError: the table has buckets, or a feature that a clustering would lose.
            ConflictError: a write is under way, another process is running a pending plan, or a write has changed a
                file group since a pending plan was made.
        """
        chosen = {"sort_by": _join_names(sort_by), "layout": layout, "partitions": _join_names(partitions)}
        given = {name: value for name, value in chosen.items() if value}
        return ServicePlans(CLUSTERING, self._serving, **given).schedule_and_run(options=options)

    def clean(self, *, options: Mapping[str, Any] | None = None) -> CleanReport:
        """Deletes file versions that the cleaning policy does not retain: finishes pending cleans, then runs a new one.
        Time travel to older commits, and incremental queries from them, are impossible afterwards.

        Returns:
            The report of the last clean, or why there was none.
        """
        return self.cleaning.schedule_and_run(options=options)

    def archive(self, *, options: Mapping[str, Any] | None = None) -> ArchiveReport:
        """Moves old instants from the active timeline to the archived one (`hoodie.keep.min.commits`, `.max.commits`),
        where `instants(archived=True)` and incremental queries still find them."""
        return self._run_step(ARCHIVE, options)

    def rollback(
        self, instant: str | int | WriteResult, *, with_newer: bool = False, options: Mapping[str, Any] | None = None
    ) -> RollbackReport:
        """Undoes a completed or pending commit.

        Args:
            with_newer: undo newer commits as well, newest first.

        Raises:
            ConfigError: there is no such instant, or it cannot be undone.
            ConflictError: newer commits or plans depend on it, or a savepoint protects it.
            HistoryCleanedError: the files that it replaced have been cleaned.
        """
        return self._run_step(ROLLBACK, options, instant, with_newer=with_newer)

    def savepoint(
        self,
        instant: str | int | WriteResult | None = None,
        *,
        user: str = "",
        comment: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> SavepointReport:
        """Protects a commit, by default the newest, from cleaning and archiving, so that `restore` can go back to it.

        Raises:
            ConfigError: there is no such commit.
            HistoryCleanedError: some of its files have been cleaned.
        """
        return self._run_step(SAVEPOINT, options, instant, user=user, comment=comment)

    def delete_savepoint(
        self, instant: str | int | WriteResult, *, options: Mapping[str, Any] | None = None
    ) -> SavepointReport:
        """Deletes a savepoint, so that its commit may be cleaned and archived."""
        return self._run_step(DELETE_SAVEPOINT, options, instant)

    def restore(self, instant: str | int | WriteResult, *, options: Mapping[str, Any] | None = None) -> RestoreReport:
        """Restores the table to a savepoint; everything later is undone permanently.

        Raises:
            ConfigError: there is no such savepoint.
            ConflictError: a write is running, or a later savepoint exists; delete that one first.
            HistoryCleanedError: a file of the savepoint is missing, or later commits have been archived.
        """
        return self._run_step(RESTORE, options, instant)

    def resize_buckets(self, *, options: Mapping[str, Any] | None = None) -> ResizeReport:
        """Splits the large buckets of a table with consistent hashing, and merges its small ones: runs pending plans,
        then plans and runs what is left to change. How large and how many is said by
        `hoodie.bucket.index.split.threshold` and the options beside it. A plan is a clustering, and updates of its file
        groups are refused until it has been run or dropped (`services.unschedule`).

        Raises:
            UnsupportedTableError: the table has other buckets, or logs changes.
            ConflictError: a write is under way, or another process is running a pending plan.
        """
        return self.bucket_resizing.schedule_and_run(options=options)

    def rescale_buckets(
        self,
        expressions: str = "",
        *,
        buckets: int | None = None,
        add: bool = False,
        dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> BucketReport:
        """Sets rules for the numbers of buckets in partitions, and rewrites the partitions whose number changes, as one
        commit. The table must have a simple bucket index.

        Args:
            expressions: the rules, see `hoodie.bucket.index.partition.expressions`; empty: only reports those stored.
            buckets: number of buckets of partitions without a rule; None: as before. Required for a table without
                stored rules, as its present number.
            add: whether the rules come before the stored ones, rather than replacing them.
            dry_run: only reports which partitions would change.

        Raises:
            ConfigError: the rules are not valid, or `buckets` is missing.
            UnsupportedTableError: the table cannot have such rules.
            ConflictError: another write has completed meanwhile, or a pending table service has files of a partition.
        """
        given = {"expressions": expressions, "buckets": buckets, "add": add, "dry_run": dry_run}
        return self._run_step(RESCALE_BUCKETS, options, **given)

    def ttl(
        self,
        *,
        strategy: str = "",
        retain_days: int | None = None,
        partitions: str | Iterable[str] = (),
        dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> TtlReport:
        """Drops the partitions that have expired, as one commit; their files stay until they are cleaned. The options
        `hoodie.partition.ttl.strategy.*` apply where an argument is not given.

        Args:
            strategy: from which time partitions are kept: `keep_by_time`, the last write to them, or
                `keep_by_creation_time`.
            retain_days: the days after which a partition has expired.
            partitions: paths of the partitions that may expire; default: all.
            dry_run: only reports which partitions have expired.

        Raises:
            ConfigError: an argument is not valid.
            ConflictError: a pending table service has files of a partition, or another write changes them.
        """
        given = {"strategy": strategy, "retain_days": retain_days, "partitions": _join_names(partitions)}
        return self._run_step(TTL, options, **given, dry_run=dry_run)

    def upgrade(self, to: int = 9, *, dry_run: bool = False, options: Mapping[str, Any] | None = None) -> VersionReport:
        """Upgrades the table to a newer version, by default the newest. The table keeps the old version until all is
        prepared, and has the new one from then on; a call that died can be repeated.

        Args:
            to: the version, 6, 8 or 9; 6 is for tables of versions 2 to 5.
            dry_run: only reports what would be done, what older releases can no longer do, and how to go back.

        Raises:
            ConfigError: the version is not a newer one, or an option is missing that says what the table does not.
            ConflictError: a write is under way, or an index is being built.
            UnsupportedTableError: the table has something that the version or this release does not know.
        """
        return self._run_step(UPGRADE, options, to=to, dry_run=dry_run)

    def downgrade(self, to: int, *, dry_run: bool = False, options: Mapping[str, Any] | None = None) -> VersionReport:
        """Downgrades the table to an older version, 8 or 6. For the rest see `upgrade`."""
        return self._run_step(DOWNGRADE, options, to=to, dry_run=dry_run)

    def change_type(self, to: str, *, dry_run: bool = False, options: Mapping[str, Any] | None = None) -> TypeReport:
        """Makes a copy-on-write table merge-on-read, or the other way round, after all logs are compacted. It has the
        old type until all is prepared, and the new one from then on; a call that dies is repeated.

        Args:
            to: `COPY_ON_WRITE` or `MERGE_ON_READ`, or `cow` or `mor`.
            dry_run: only reports what would be done, what readers can no longer do, and how to go back.

        Raises:
            ConfigError: there is no such type.
            ConflictError: a write is under way or has failed and is kept, or an index is being built.
            UnsupportedTableError: the table has something that the type does not allow for.
        """
        return self._run_step(CHANGE_TYPE, options, to=to, dry_run=dry_run)

    def preview_archive(self, *, options: Mapping[str, Any] | None = None) -> Selection:
        """Returns the `instants` that `archive` would move now, oldest first, or the `reason` why there are none."""
        with self._serving("archive", options) as context:
            return preview_archive(context)

    def preview_rollback(
        self, instant: str | int | WriteResult, *, with_newer: bool = False, options: Mapping[str, Any] | None = None
    ) -> list[InstantTime]:
        """Returns the instants that `rollback` would undo now, in this order. For arguments and errors see
        `rollback`."""
        with self._serving("rollback", options) as context:
            return [undone.time for undone in preview_rollback(context, requested_time(instant), with_newer=with_newer)]

    def preview_restore(
        self, instant: str | int | WriteResult, *, options: Mapping[str, Any] | None = None
    ) -> list[InstantTime]:
        """Returns the instants that `restore` would undo now, in this order. For arguments and errors see `restore`."""
        with self._serving("restore", options) as context:
            return [InstantTime(other.time) for other in preview_restore(context, requested_time(instant)).instants]

    @abstractmethod
    def _serving(
        self, title: str, options: Mapping[str, Any] | None = None, *, any_version: bool = False
    ) -> AbstractContextManager[ServiceContext]:
        """Opens the context of one call."""

    @abstractmethod
    def _state(self) -> TableState:
        """Reads the current state."""

    def _run_step(
        self,
        service: Service[Report],
        options: Mapping[str, Any] | None,
        instant: _Instant | None = None,
        **arguments: Any,
    ) -> Report:
        """Runs a service of a single step."""
        return cast(Report, self.services.run(service.name, instant=instant, options=options, **arguments))


def _join_names(names: str | Iterable[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)
