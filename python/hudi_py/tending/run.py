"""Carries out what is due on many tables, within a budget."""

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
from hudi_py.interop.catalogs.listing import LISTED, catalog_tables
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
from hudi_py.storage import Storage, StrPath, path_text
from hudi_py.storage.metered import Meter, StoppedError
from hudi_py.storage.threads import REQUESTS
from hudi_py.tending.budget import UNLIMITED, Budget, Cost, Ledger
from hudi_py.tending.places import Place, find_tables
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
    """Finds the tables at and below paths, asks each what is due, and does it, the greatest gain for its cost first.

    By default it does what each table's settings ask for after commits, the compactions that writers leave to others,
    the rollback of failed writes, and what the metadata table needs. Other writers and runs may be at work: what they
    hold is left to them. An interruption at any moment leaves nothing half done that the next run, or the next write,
    does not finish or undo.

    Args:
        paths: a path or URI, or several. `hms:DATABASE` and `glue:DATABASE` are the tables of a database in the Hive
            metastore or AWS Glue, `hms:` and `glue:` those of all databases; see docs/catalogs.md for where they are.
            What a catalog has of a table's settings counts as its own.
        options: options of writes, by the keys of Apache Hudi. They override the tables' own properties.
        services: names of services to run where they are due, such as `compaction` and `clean`, whatever the tables'
            settings; None: as they say.
        budget: what the run may take.
        jobs: how many tables are worked on side by side.
        depth: how many levels of folders below the paths are searched; None: all.
        dry_run: only reports what would be done.
        storage_options: credentials and settings of the storage.
        watch: is called with each table once nothing more is done to it, from one thread at a time.

    Raises:
        ConfigError: an option, service or number is not valid, or a path is of no storage. What is wrong with a single
            table is in the report.
        TableNotFoundError: there is no table at or below the path. Of several paths, the report says so.
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
    """What was done to a metadata table; `instant` is the newest action that it covers."""

    built: tuple[str, ...] = ()
    """Partitions that were built."""

    def _summary(self) -> Iterator[str]:
        if self.built:
            yield f"{', '.join(self.built)} built"


class TendRun:
    """One run. `around.clock` tells the time in seconds."""

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
        """Stops the run from another thread: each table at its next look at the storage, with StoppedError."""
        self._meter.stop()

    def close(self) -> None:
        """Clears the progress from the terminal."""
        self._progress.close()

    def find(self, roots: Sequence[str], depth: int | None) -> tuple[list[Place], list[str]]:
        """The tables at and below paths, each once, and the folders that were too deep."""
        found: dict[str, Place] = {}
        deep: list[str] = []
        self._progress.phase("looking for tables")
        for root in roots:
            catalog, separator, database = root.partition(":")
            if separator and catalog in LISTED:
                for each in self._listed(catalog, database.strip("/")):
                    found.setdefault(each.uri, each)
                continue
            storage = self._around.storage_at(root, self._meter)
            uri = _spelled(root, storage)
            try:
                tables = find_tables(storage, depth=depth)
                if not tables.folders:
                    raise TableNotFoundError(f"There is no table at or below {uri}")
            except (HudiError, OSError) as error:
                self.unfound.append(TendedTable(uri, error=error))
                continue
            for folder in tables.folders:
                place = f"{uri}/{folder}" if folder else uri
                found.setdefault(place, Place(place))
            deep += [f"{uri}/{folder}" for folder in tables.not_searched]
        return list(found.values()), deep

    def _listed(self, catalog: str, database: str) -> list[Place]:
        """The tables of a catalog."""
        around, where = self._around, f"{catalog}:{database}"
        try:
            tables = catalog_tables(catalog, database, around.options, around.storage_options)
            if not tables:
                raise TableNotFoundError(f"There is no Hudi table in {where}")
        except HudiError as error:
            self.unfound.append(TendedTable(where, error=error))
            return []
        return [Place(each.uri, each.properties) for each in tables]

    def carry_out(
        self, places: Sequence[Place], not_searched: Sequence[str] = (), *, dry_run: bool = False
    ) -> TendReport:
        """Looks at the tables, and does what is due. Raises nothing but interruptions."""
        self._progress.phase(f"looking at {counted(len(places), 'table')}")
        surveyed, passed = self._look(places)
        self.close()  # from here on, services have their own progress, and what is done is told
        idle = [each for each in surveyed if not each.tasks]
        due = sorted((each for each in surveyed if each.tasks), key=lambda each: (-each.gain, each.place.uri))
        tables = [self._plan(each) for each in due] if dry_run else self._care(due)
        for table in (*(each.table for each in idle), *self.unfound):
            tables.append(table)
            self._tell(table)
        return TendReport(
            tuple(tables),
            (*not_searched, *passed),
            self._budget,
            self._ledger.used,
            self._ledger.seconds,
            dry_run,
        )

    def _look(self, places: Sequence[Place]) -> tuple[list[Surveyed], list[str]]:
        """The tables as they are, and those for which the budget is too small."""
        order = [*places]
        if self._budget.limited:  # so that no table is always the one for which nothing is left
            at = random.randrange(len(order)) if order else 0
            order = [*order[at:], *order[:at]]

        def look(place: Place) -> Surveyed | None:
            if self._meter.stopped or self._ledger.searched_enough():
                return None
            found = survey(place, self._around, Meter(self._meter))
            self._ledger.looked(found.table.seconds, found.table.used)
            return found

        remote = any("://" in place.uri and not place.uri.startswith(("file:", "memory:")) for place in places)
        found = self._side_by_side(look, order, max(self._jobs, REQUESTS) if remote else self._jobs)
        passed = sorted(place.uri for place, each in zip(order, found, strict=True) if each is None)
        return sorted((each for each in found if each is not None), key=lambda each: each.place.uri), passed

    def _plan(self, found: Surveyed) -> TendedTable:
        """A table on a dry run: what fits into the budget, as if nothing else were done."""
        services = []
        for task in found.tasks:
            reason, left = self._ledger.assume(_least(task, found))
            if reason:
                task = replace(task, state=LEFT, reason=f"{task.reason}; {reason}")
            elif left is not None and left < task.num_bytes:
                task = replace(task, reason=f"{task.reason}; made smaller, to fit into the budget")
            services.append(task)
        table = replace(found.table, services=(*services, *found.table.of(LEFT, FAILED)))
        self._tell(table)
        return table

    def _care(self, due: Sequence[Surveyed]) -> list[TendedTable]:
        """Does what is due. Tables whose lock is taken are tried again at the end."""
        first = self._side_by_side(lambda each: self._tend_table(each, last=False), due, self._jobs)
        done = {table.uri: table for table, again in first if not again}
        later = [each for each, (_, again) in zip(due, first, strict=True) if again]
        for table, _ in self._side_by_side(lambda each: self._tend_table(each, last=True), later, self._jobs):
            done[table.uri] = table
        return [done[each.table.uri] for each in due]

    def _tend_table(self, found: Surveyed, *, last: bool) -> tuple[TendedTable, bool]:
        """Does what is due on one table. Returns it, and whether to try again because its lock is taken."""
        meter, began = Meter(self._meter), self._ledger.now()
        try:
            storage = self._around.storage_at(found.place.uri, meter)
            if not last and self._is_locked(found, storage):
                return found.table, True
        except (HudiError, OSError) as error:
            failed = replace(found.table, error=error)
            self._tell(failed)
            return failed, False
        outcomes: list[TendedService] = []
        try:
            for task in found.tasks:
                outcomes.append(self._attempt(found, task, storage, meter))
                if isinstance(outcomes[-1].error, (LockError, ConflictError)) and not last and len(outcomes) == 1:
                    return found.table, True
        except (KeyboardInterrupt, StoppedError):
            for stopped in found.tasks[len(outcomes) :][:1]:
                outcomes.append(replace(stopped, state=INTERRUPTED))
            self._tell(self._tended(found, outcomes, meter, began))
            raise
        table = self._tended(found, outcomes, meter, began)
        self._measure(found, table)
        self._tell(table)
        return table, False

    def _tended(self, found: Surveyed, outcomes: Sequence[TendedService], meter: Meter, began: float) -> TendedTable:
        rest = found.tasks[len(outcomes) :]
        return replace(
            found.table,
            services=(*outcomes, *(replace(each, state=LEFT) for each in rest), *found.table.of(LEFT, FAILED)),
            used=found.table.used + meter.used,
            seconds=found.table.seconds + self._ledger.now() - began,
        )

    def _is_locked(self, found: Surveyed, storage: Storage) -> bool:
        assert found.options is not None  # there is something to do
        holders = lock_holders(storage, found.options.values, found.options.for_storage(self._around.storage_options))
        return bool(holders)

    def _attempt(self, found: Surveyed, task: TendedService, storage: Storage, meter: Meter) -> TendedService:
        """Runs a service if the budget allows for it. What keeps it from running is in the result."""
        cost = _least(task, found)
        reason, left = self._ledger.begin(cost)
        if reason:
            return replace(task, state=LEFT, reason=f"{task.reason}; {reason}")
        began, before = self._ledger.now(), meter.used
        outcome = task
        try:
            report = self._run(found, task, storage, left)
            if report is None or report.instant is None:
                why = report.reason if report is not None and report.reason else "nothing was left to do"
                outcome = replace(task, state=NOTHING, reason=why)
            else:
                outcome = replace(task, state=DONE, report=report)
        except (ConflictError, LockError) as error:
            outcome = replace(task, state=BUSY, reason=f"{task.reason}; {first_line(error)}", error=error)
        except Exception as error:  # whatever failed, the other tables are cared for
            if not isinstance(error, (HudiError, OSError)):
                _log.warning("the %s of %s failed", task.service, storage.uri, exc_info=error)
            outcome = replace(task, state=FAILED, reason=f"{task.reason}; {first_line(error)}", error=error)
        finally:
            seconds, used = self._ledger.now() - began, meter.used - before
            self._ledger.end(cost, seconds, used)
        return replace(outcome, used=used, seconds=seconds)

    def _run(self, found: Surveyed, task: TendedService, storage: Storage, left: int | None) -> ServiceReport | None:
        """Runs what is due now, which may be less than when the table was looked at."""
        assert found.options is not None  # there is something to do
        options = found.options
        service = SERVICES.get(task.service)
        if service is not None:
            options = switched_on(service, options)
        if _shrinks(task, found) and left is not None and left < task.num_bytes:
            # what the strategy counts is what is read, and at least as much that is written: half of it is certain
            target = min(options.get(compaction_config.TARGET_IO_MB), max(left // (2 * _MB), 1))
            options = options.replace({compaction_config.TARGET_IO_MB: str(target)})
        title = f"{task.service.replace('_', ' ')} {found.table.name}" if self._jobs == 1 else ""
        with serving(storage, options, title, storage_options=self._around.storage_options) as context:
            if service is None:
                return _mend_metadata(context)
            return _due_now(service, context, task)

    def _measure(self, found: Surveyed, table: TendedTable) -> None:
        """Reports the metrics of a table, if its options ask for it."""
        reporter = None if found.options is None else Reporter.of(found.options)
        if reporter is not None:
            measures = {
                "tend.duration": round(table.seconds * 1000),
                "tend.requests": table.used.requests,
                "tend.bytesRead": table.used.bytes_read,
                "tend.bytesWritten": table.used.bytes_written,
                **{f"tend.{state}": len(table.of(state)) for state in (DONE, LEFT, BUSY, FAILED)},
            }
            reporter.report(table.uri, table.name, measures)

    def _tell(self, table: TendedTable) -> None:
        if self._watch is not None:
            with self._telling:
                self._watch(table)

    def _side_by_side(self, work: Callable[[_T], _R], items: Sequence[_T], threads: int) -> list[_R]:
        """What `work` makes of each item, in their order; in this thread if one is enough. An interruption stops the
        others, each at its next call of the storage."""
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
        except BaseException:  # in any case, no thread is left at work
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


def _shrinks(task: TendedService, found: Surveyed) -> bool:
    """Whether a service takes less than all if the budget asks for it."""
    if task.service != "compaction" or task.pending or found.options is None:
        return False
    return all(name in BOUNDED_IO for name in found.options.get(compaction_config.STRATEGY))


def _least(task: TendedService, found: Surveyed) -> Cost:
    """What a service takes if it is made as small as it can be."""
    cost = task.cost
    return replace(cost, num_bytes=min(cost.num_bytes, 2 * _MB)) if _shrinks(task, found) else cost


def _spelled(root: str, storage: Storage) -> str:
    """A path as its tables are named: a folder of this machine without scheme."""
    uri = storage.uri
    return uri.removeprefix("file://") if storage.is_local and "://" not in root else uri
