"""Runs what is due on many tables, within a budget."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from hudi_py.config import compaction as compaction_config
from hudi_py.errors import ConfigError, ConflictError, HudiError, LockError, TableNotFoundError, first_line
from hudi_py.interop.metrics import Reporter
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.model.words import counted
from hudi_py.progress import Progress
from hudi_py.services.compaction.plan import BOUNDED_IO
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Service
from hudi_py.services.planned.service import ServiceReport, pending_instants
from hudi_py.services.planned.service import run as run_plan
from hudi_py.services.registry import SERVICES
from hudi_py.storage import Storage, StrPath, path_text, plain_uri
from hudi_py.storage.metered import Meter, StoppedError
from hudi_py.storage.threads import REQUESTS
from hudi_py.tending.budget import UNLIMITED, Budget, Cost, Ledger
from hudi_py.tending.places import LISTED, Place, catalog_tables, find_tables
from hudi_py.tending.report import (
    BUSY,
    DONE,
    FAILED,
    INTERRUPTED,
    LEFT,
    NOTHING,
    TendedService,
    TendedTable,
    TendReport,
)
from hudi_py.tending.survey import METADATA, Surroundings, Surveyed, check_services, options_of, survey, switched_on
from hudi_py.transaction.locks import lock_holders
from hudi_py.wiring import serving

_log = logging.getLogger(__name__)
_MB: Final = 1024 * 1024
_T = TypeVar("_T")
_R = TypeVar("_R")
Watch = Callable[[TendedTable], None]


def tend(
    paths: StrPath | Iterable[StrPath],
    options: Mapping[str, Any] | None = None,
    *,
    services: str | Iterable[str] | None = None,
    budget: Budget | None = None,
    jobs: int = 1,
    depth: int | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    watch: Watch | None = None,
) -> TendReport:
    """Finds the tables at and below paths and runs what is due on them, the greatest gain for its cost first.

    By default, it runs the services that each table's settings ask for after commits, compactions that writers leave
    to other processes, the rollback of failed writes, and the maintenance of the metadata table. Other writers and runs
    may work at the same time; whatever they have locked is left to them. A run can be interrupted at any moment: the
    next run or write finishes or undoes what was half done.

    Args:
        paths: a path or URI, or several. `hms:DATABASE` and `glue:DATABASE` are the tables of a database in the Hive
            metastore or AWS Glue, `hms:` and `glue:` those of all databases; see docs/catalogs.md for where they are.
            Settings that a catalog stores for a table count as the table's own.
        options: options of writes, by the keys of Apache Hudi. They override the tables' own properties.
        services: names of services to run where they are due, such as `compaction` and `clean`, regardless of
            the tables' settings; None: the services that the settings ask for.
        budget: what the run may use.
        jobs: how many tables are processed side by side.
        depth: how many levels of folders below the paths are searched; None: all.
        dry_run: only reports what would be done.
        storage_options: credentials and settings of the storage.
        watch: called with each finished table, by one thread at a time.

    Raises:
        ConfigError: an option, service or number is not valid, or there is no storage for a path. The report
            contains the errors of single tables.
        TableNotFoundError: there is no table at or below the path. For several paths, the report contains this error.
    """
    named = None if services is None else tuple([services] if isinstance(services, str) else services)
    if named is not None:
        check_services(named)
    if jobs < 1:
        raise ConfigError(f"Cannot tend tables with jobs = {jobs}: expected at least 1")
    resolved = options_of(options)
    Reporter.of(resolved)
    around = Surroundings(resolved, named, storage_options)
    roots = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    run = TendRun(around, budget or UNLIMITED, jobs=jobs, watch=watch)
    try:
        places, not_searched = run.find([path_text(root) for root in roots], depth)
        if not places and len(run.unfound) < 2:
            raise run.unfound[0].errors[0] if run.unfound else ConfigError("Cannot tend tables: no path is given")
        return run.carry_out(places, not_searched, dry_run=dry_run)
    finally:
        run.close()


@dataclass(frozen=True, slots=True, repr=False)
class MetadataReport(ServiceReport):
    """The result of maintaining a metadata table; `instant` is the newest action that it covers."""

    built: tuple[str, ...] = ()
    """Partitions that were built."""

    def _summary(self) -> Iterator[str]:
        if self.built:
            yield f"{', '.join(self.built)} built"


class TendRun:
    """A run over many tables. `around.clock` returns the time in seconds."""

    def __init__(self, around: Surroundings, budget: Budget, *, jobs: int = 1, watch: Watch | None = None) -> None:
        self._around = around
        self._budget = budget
        self._jobs = jobs
        self._watch = watch
        self._meter = Meter()
        self._ledger = Ledger(budget, self._meter, around.clock)
        self._progress = Progress.on_terminal("tend")
        self.unfound: list[TendedTable] = []
        self._telling = threading.Lock()

    def stop(self) -> None:
        """Stops the run from another thread. Each table raises StoppedError at its next access to storage."""
        self._meter.stop()

    def close(self) -> None:
        """Clears the progress bar from the terminal."""
        self._progress.close()

    def find(self, roots: Sequence[str], depth: int | None) -> tuple[list[Place], list[str]]:
        """Finds the tables at and below paths, each once, and the folders below the maximum depth."""
        places_by_uri: dict[str, Place] = {}
        deep: list[str] = []
        self._progress.phase("looking for tables")
        for root in roots:
            catalog, separator, database = root.partition(":")
            if separator and catalog in LISTED:
                for table in self._tables_of_catalog(catalog, database.strip("/")):
                    places_by_uri.setdefault(table.uri, table)
                continue
            storage = self._around.storage_at(root, self._meter)
            uri = _displayed_path(root, storage)
            try:
                tables = find_tables(storage, depth=depth)
                if not tables.folders:
                    raise TableNotFoundError(f"There is no table at or below {uri}")
            except (HudiError, OSError) as error:
                self.unfound.append(TendedTable(uri, error=error))
                continue
            for folder in tables.folders:
                place = f"{uri}/{folder}" if folder else uri
                places_by_uri.setdefault(place, Place(place))
            deep += [f"{uri}/{folder}" for folder in tables.not_searched]
        return list(places_by_uri.values()), deep

    def _tables_of_catalog(self, catalog: str, database: str) -> list[Place]:
        """Lists the tables of a database in a catalog."""
        around, where = self._around, f"{catalog}:{database}"
        try:
            tables = catalog_tables(catalog, database, around.options, around.storage_options)
            if not tables:
                raise TableNotFoundError(f"There is no Hudi table in {where}")
        except HudiError as error:
            self.unfound.append(TendedTable(where, error=error))
            return []
        return [Place(table.uri, table.properties) for table in tables]

    def carry_out(
        self, places: Sequence[Place], not_searched: Sequence[str] = (), *, dry_run: bool = False
    ) -> TendReport:
        """Examines the tables and runs what is due. Raises nothing but interruptions."""
        self._progress.phase(f"examining {counted(len(places), 'table')}")
        surveyed, passed = self._survey_all(places)
        self.close()  # from here on, services show their own progress, and `watch` is called for each table
        idle = [table for table in surveyed if not table.tasks]
        due = sorted((table for table in surveyed if table.tasks), key=lambda table: (-table.gain, table.place.uri))
        tables = [self._plan_table(table) for table in due] if dry_run else self._tend_all(due)
        for result in (*(table.table for table in idle), *self.unfound):
            tables.append(result)
            self._notify_watch(result)
        return TendReport(
            tuple(tables),
            (*not_searched, *passed),
            self._budget,
            self._ledger.used,
            self._ledger.seconds,
            dry_run,
        )

    def _survey_all(self, places: Sequence[Place]) -> tuple[list[Surveyed], list[str]]:
        """Examines the tables. Returns the result of each, and the locations for which the budget was too small."""
        order = [*places]
        if self._budget.limited:  # a random start, so that it is not always the same table that gets nothing
            start = random.randrange(len(order)) if order else 0
            order = [*order[start:], *order[:start]]

        def look(place: Place) -> Surveyed | None:
            if self._meter.stopped or self._ledger.searched_enough():
                return None
            result = survey(place, self._around, Meter(self._meter))
            self._ledger.record_survey(result.table.seconds, result.table.used)
            return result

        remote = any("://" in place.uri and not place.uri.startswith(("file:", "memory:")) for place in places)
        results = self._side_by_side(look, order, max(self._jobs, REQUESTS) if remote else self._jobs)
        passed = sorted(place.uri for place, result in zip(order, results, strict=True) if result is None)
        surveyed = [result for result in results if result is not None]
        return sorted(surveyed, key=lambda table: table.place.uri), passed

    def _plan_table(self, surveyed: Surveyed) -> TendedTable:
        """Plans a table on a dry run: chooses what fits into the budget, as if nothing else ran."""
        services = []
        for task in surveyed.tasks:
            reason, left = self._ledger.assume(_minimum_cost(task, surveyed))
            if reason:
                task = replace(task, state=LEFT, reason=f"{task.reason}; {reason}")
            elif left is not None and left < task.num_bytes:
                task = replace(task, reason=f"{task.reason}; made smaller, to fit into the budget")
            services.append(task)
        table = replace(surveyed.table, services=(*services, *surveyed.table.of(LEFT, FAILED)))
        self._notify_watch(table)
        return table

    def _tend_all(self, due: Sequence[Surveyed]) -> list[TendedTable]:
        """Runs what is due. Tables whose lock is held by others are tried again at the end."""
        first = self._side_by_side(lambda table: self._tend_table(table, last=False), due, self._jobs)
        done = {table.uri: table for table, again in first if not again}
        later = [table for table, (_, again) in zip(due, first, strict=True) if again]
        for result, _ in self._side_by_side(lambda table: self._tend_table(table, last=True), later, self._jobs):
            done[result.uri] = result
        return [done[table.table.uri] for table in due]

    def _tend_table(self, surveyed: Surveyed, *, last: bool) -> tuple[TendedTable, bool]:
        """Runs what is due on one table. Returns the result, and whether to try again because the table is locked."""
        meter, began = Meter(self._meter), self._ledger.now()
        try:
            storage = self._around.storage_at(surveyed.place.uri, meter)
            if not last and self._is_locked(surveyed, storage):
                return surveyed.table, True
        except (HudiError, OSError) as error:
            failed = replace(surveyed.table, error=error)
            self._notify_watch(failed)
            return failed, False
        outcomes: list[TendedService] = []
        try:
            for task in surveyed.tasks:
                outcomes.append(self._try_task(surveyed, task, storage, meter))
                if isinstance(outcomes[-1].error, (LockError, ConflictError)) and not last and len(outcomes) == 1:
                    return surveyed.table, True
        except (KeyboardInterrupt, StoppedError):
            for stopped in surveyed.tasks[len(outcomes) :][:1]:
                outcomes.append(replace(stopped, state=INTERRUPTED))
            self._notify_watch(self._with_outcomes(surveyed, outcomes, meter, began))
            raise
        table = self._with_outcomes(surveyed, outcomes, meter, began)
        self._report_metrics(surveyed, table)
        self._notify_watch(table)
        return table, False

    def _with_outcomes(
        self, surveyed: Surveyed, outcomes: Sequence[TendedService], meter: Meter, began: float
    ) -> TendedTable:
        rest = surveyed.tasks[len(outcomes) :]
        return replace(
            surveyed.table,
            services=(*outcomes, *(replace(task, state=LEFT) for task in rest), *surveyed.table.of(LEFT, FAILED)),
            used=surveyed.table.used + meter.used,
            seconds=surveyed.table.seconds + self._ledger.now() - began,
        )

    def _is_locked(self, surveyed: Surveyed, storage: Storage) -> bool:
        assert surveyed.options is not None  # set, as the table has tasks
        holders = lock_holders(
            storage, surveyed.options.values, surveyed.options.for_storage(self._around.storage_options)
        )
        return bool(holders)

    def _try_task(self, surveyed: Surveyed, task: TendedService, storage: Storage, meter: Meter) -> TendedService:
        """Runs a service if the budget allows for it. The result contains the reason if it did not run."""
        cost = _minimum_cost(task, surveyed)
        reason, left = self._ledger.begin(cost)
        if reason:
            return replace(task, state=LEFT, reason=f"{task.reason}; {reason}")
        began, before = self._ledger.now(), meter.used
        outcome = task
        try:
            report = self._run_task(surveyed, task, storage, left)
            if report is None or report.instant is None:
                why = report.reason if report is not None and report.reason else "nothing was left to do"
                outcome = replace(task, state=NOTHING, reason=why)
            else:
                outcome = replace(task, state=DONE, report=report)
        except (ConflictError, LockError) as error:
            outcome = replace(task, state=BUSY, reason=f"{task.reason}; {first_line(error)}", error=error)
        except Exception as error:  # whatever failed, the run goes on with the other tables
            if not isinstance(error, (HudiError, OSError)):
                _log.warning("the %s of %s failed", task.service, storage.uri, exc_info=error)
            outcome = replace(task, state=FAILED, reason=f"{task.reason}; {first_line(error)}", error=error)
        finally:
            seconds, used = self._ledger.now() - began, meter.used - before
            self._ledger.end(cost, seconds, used)
        return replace(outcome, used=used, seconds=seconds)

    def _run_task(
        self, surveyed: Surveyed, task: TendedService, storage: Storage, left: int | None
    ) -> ServiceReport | None:
        """Runs what is due now, which may be less than when the table was examined."""
        assert surveyed.options is not None  # set, as the table has tasks
        options = surveyed.options
        service = SERVICES.get(task.service)
        if service is not None:
            options = switched_on(service, options)
        if _can_shrink(task, surveyed) and left is not None and left < task.num_bytes:
            # the strategy counts the bytes read, and about as many are written: half of the budget is safe
            target = min(options.get(compaction_config.TARGET_IO_MB), max(left // (2 * _MB), 1))
            options = options.replace({compaction_config.TARGET_IO_MB: str(target)})
        title = f"{task.service.replace('_', ' ')} {surveyed.table.name}" if self._jobs == 1 else ""
        with serving(storage, options, title, storage_options=self._around.storage_options) as context:
            if service is None:
                return _mend_metadata(context)
            return _due_now(service, context, task)

    def _report_metrics(self, surveyed: Surveyed, table: TendedTable) -> None:
        """Reports the metrics of a table, if its options ask for it."""
        reporter = None if surveyed.options is None else Reporter.of(surveyed.options)
        if reporter is not None:
            measures = {
                "tend.duration": round(table.seconds * 1000),
                "tend.requests": table.used.requests,
                "tend.bytesRead": table.used.bytes_read,
                "tend.bytesWritten": table.used.bytes_written,
                **{f"tend.{state}": len(table.of(state)) for state in (DONE, LEFT, BUSY, FAILED)},
            }
            reporter.report(table.uri, table.name, measures)

    def _notify_watch(self, table: TendedTable) -> None:
        if self._watch is not None:
            with self._telling:
                self._watch(table)

    def _side_by_side(self, work: Callable[[_T], _R], items: Sequence[_T], threads: int) -> list[_R]:
        """Calls `work` for each item, and returns the results in their order. Uses this thread if one is enough. An
        interruption stops all others, each at its next access to storage."""
        if min(threads, len(items)) < 2:
            return [work(item) for item in items]
        pool = ThreadPoolExecutor(min(threads, len(items)), "hudi-py-tend")
        try:
            futures: list[Future[_R]] = [pool.submit(work, item) for item in items]
            pending = set(futures)
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
            return [future.result() for future in futures]
        except BaseException:  # whatever happened, no thread may go on
            self._meter.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _due_now(service: Service[Any], context: ServiceContext, task: TendedService) -> ServiceReport | None:
    rule = service.after_commit
    if rule is not None and rule.switch:
        report = None
        for step in rule.steps(context.options, context.session.config):
            report = step.run(context, context.state()) or report
        return report
    if service.plans is None:
        assert service.run is not None, service.name  # a service has plans or is a single step
        done: ServiceReport = service.run(context, None)
        return done
    planner, report = service.planner(), None
    for instant in pending_instants(planner, context):
        report = run_plan(planner, context, instant)
    return report


def _mend_metadata(context: ServiceContext) -> ServiceReport | None:
    config = context.config()
    begun = {*config.metadata_partitions_to_make, *config.metadata_partitions_inflight}
    built = rebuild(context, sorted(begun) or None)
    newest = context.timeline().last_completed
    return MetadataReport(METADATA, newest.time, built=built) if built and newest is not None else None


def _can_shrink(task: TendedService, surveyed: Surveyed) -> bool:
    """Returns whether a service can be made smaller to fit into the budget."""
    if task.service != "compaction" or task.pending or surveyed.options is None:
        return False
    return all(name in BOUNDED_IO for name in surveyed.options.get(compaction_config.STRATEGY))


def _minimum_cost(task: TendedService, surveyed: Surveyed) -> Cost:
    """Returns the cost of a service that is made as small as possible."""
    cost = task.cost
    return replace(cost, num_bytes=min(cost.num_bytes, 2 * _MB)) if _can_shrink(task, surveyed) else cost


def _displayed_path(root: str, storage: Storage) -> str:
    """Returns a path as its tables are named: a local folder without a scheme, unless it was given with one."""
    return storage.uri if "://" in root else plain_uri(storage.uri)
