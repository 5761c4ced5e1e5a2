"""Finds out what is due on a table, from the descriptors of its services."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hudi_py.config import Option, Options, Scope, concurrency
from hudi_py.config import indexes as indexes_config
from hudi_py.config import services as services_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, HudiError, StorageError
from hudi_py.health.facts import ListedStorage
from hudi_py.health.metadata import check_complete, examined
from hudi_py.model.instant import Action
from hudi_py.model.words import counted
from hudi_py.services.context import ServiceContext, own_settings
from hudi_py.services.descriptor import Due, Service
from hudi_py.services.planned.pending import PLANNED
from hudi_py.services.recovery.failed import ROLLBACK_FAILED
from hudi_py.services.registry import AFTER_COMMIT, SERVICES, due_of
from hudi_py.storage import Storage
from hudi_py.storage.metered import Meter, metered
from hudi_py.storage.open import open_storage, with_durability
from hudi_py.tending.places import Place
from hudi_py.tending.report import DUE, LEFT, TendedService, TendedTable
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState
from hudi_py.wiring import service_target
from hudi_py.write.table.support import read_only_reason

_log = logging.getLogger(__name__)
METADATA: Final = "metadata"
"""Completes partitions of the metadata table that were begun, and rebuilds those that readers cannot use."""
_FIRST: Final = (ROLLBACK_FAILED.name, METADATA)
"""Services that run first, because others would fail or take longer without them."""
_COMMIT_REQUESTS: Final = 100
"""Requests that an action takes besides those for its files, with a metadata table."""
_SEVERAL: Final[tuple[Service[Any], ...]] = (ROLLBACK_FAILED, *AFTER_COMMIT, *PLANNED)
TENDED: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(
        (
            *_FIRST,
            *(
                service.name
                for service in _SEVERAL
                if service.plans or (service.after_commit and service.after_commit.switch)
            ),
        )
    )
)
"""Names of the services that a run may do. Upgrades and downgrades are not among them."""
_SMALL_FILE: Final = 1 << 20
_WAITS: Final[Mapping[Option[Any], str]] = {
    concurrency.LOCK_RETRIES: "1",
    concurrency.LOCK_RETRY_WAIT_MS: "1000",
    concurrency.LOCK_WAIT_MS: "30000",
}
"""How long a run waits for a lock unless the options say otherwise: briefly, since other tables wait and there will be
a next run."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all tables of a run share."""

    options: Options
    """The options of the call."""
    services: tuple[str, ...] | None
    """Names of the services to run where they are due; None: those that each table's settings ask for."""
    storage_options: Mapping[str, str] | None
    clock: Callable[[], float] = time.monotonic
    opens: Callable[[str, Mapping[str, str] | None], Storage] = open_storage

    def storage_at(self, uri: str, meter: Meter) -> Storage:
        """Opens the storage at a URI, metered."""
        storage = self.opens(uri, self.options.for_storage(self.storage_options))
        return metered(with_durability(storage, self.options.get(write_config.DURABLE)), meter)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A table and what is due on it."""

    place: Place
    table: TendedTable
    """The table with its services in the states `due`, and `left` if the table does not ask for them."""
    options: Options | None = None
    """The options with which its services run; None if nothing is due."""

    @property
    def tasks(self) -> tuple[TendedService, ...]:
        """The services to run, in order."""
        return tuple(sorted(self.table.of(DUE), key=lambda task: (_rank_of(task.service), -task.gain)))

    @property
    def gain(self) -> float:
        """Gain of all tasks for their cost; infinite if a task must run first."""
        tasks = self.table.of(DUE)
        if any(task.service in _FIRST for task in tasks):
            return float("inf")
        return sum(task.files for task in tasks) / sum(task.cost.weight for task in tasks) if tasks else -1.0


def _rank_of(service: str) -> int:
    return _FIRST.index(service) if service in _FIRST else len(_FIRST)


def check_services(names: tuple[str, ...]) -> None:
    """Refuses names of services that a run cannot do.

    Raises:
        ConfigError: names the first one.
    """
    for name in names:
        if name not in TENDED:
            raise ConfigError(f"Cannot tend tables by the service {name!r}; services are {', '.join(TENDED)}")


def options_of(given: Mapping[str, Any] | None) -> Options:
    """Resolves the options of a call. Options that expire partitions are refused, since every table would lose
    partitions, and are ignored in `hudi-defaults.conf`.

    Raises:
        ConfigError: an option is unknown, not valid or refused.
    """
    resolved = Options.resolve(given, Scope.WRITE)
    keys = {key.lower() for key in given or {}}
    for option in services_config.TTL_OPTIONS:
        if not keys.isdisjoint(option.keys):
            raise ConfigError(
                f"Cannot tend tables with {resolved.name_of(option)}: partitions expire by each table's own properties "
                "alone; use `hudi-py run PATH ttl` for one table"
            )
    return resolved.without(*services_config.TTL_OPTIONS)


class _Remembering(ListedStorage):
    """A read-only storage that lists each folder once and reads each small file once, because several services need
    them."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._contents: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        content = self._contents.get(path)
        if content is None:
            content = super().read(path)
            if len(content) <= _SMALL_FILE:
                self._contents[path] = content
        return content


def survey(place: Place, around: Surroundings, meter: Meter) -> Surveyed:
    """Examines a table, without a change or lock. The result contains any error."""
    started, uri = around.clock(), place.uri
    try:
        storage = around.storage_at(place.uri, meter)
        uri = storage.uri
        surveyed = _survey_table(place, around, _Remembering(storage))
    except Exception as error:  # whatever is wrong with one table, the run goes on with the others
        if not isinstance(error, (HudiError, OSError)):
            _log.warning("the table %s cannot be examined", uri, exc_info=error)
        surveyed = Surveyed(place, TendedTable(uri, error=error))
    return replace(surveyed, table=replace(surveyed.table, used=meter.used, seconds=around.clock() - started))


def _survey_table(place: Place, around: Surroundings, storage: Storage) -> Surveyed:
    config = load_table_config(storage)
    table = TendedTable(storage.uri, config.name, config.version, config.table_type)
    if config.is_metadata_table:
        return Surveyed(place, replace(table, skipped="it is the metadata table of another, which takes care of it"))
    reason = read_only_reason(config)
    if reason is not None:
        return Surveyed(place, replace(table, skipped=f"it can only be read: {reason}"))
    options = _table_options(around, place)
    if not config.metadata_partitions and not options.given(indexes_config.METADATA_ENABLE):
        options = options.replace({indexes_config.METADATA_ENABLE: "false"})  # a run never creates a metadata table
    context = ServiceContext.of(service_target(storage, options, around.storage_options), config=config)
    state = context.state()
    services, remarks = [], list[str]()
    for result in _examine_services(context, state, around.services):
        if isinstance(result, str):
            remarks.append(result)
        else:
            services.append(result)
    return Surveyed(place, replace(table, services=tuple(services), remarks=tuple(remarks)), context.options)


def _table_options(around: Surroundings, place: Place) -> Options:
    """Returns the options for a table: those of the call, then those that a catalog stores for the table."""
    options = around.options
    given = {option: text for option, text in own_settings(place.properties).items() if not options.given(option)}
    waits = {option: text for option, text in _WAITS.items() if not options.given(option)}
    return options.replace({**waits, **given})


def _examine_services(
    context: ServiceContext, state: TableState, names: tuple[str, ...] | None
) -> Iterator[TendedService | str]:
    """Yields what is due, and remarks on what could not be found out."""
    plans = PendingPlans(state.storage, state.timeline)
    for name in TENDED:
        chosen = name in names if names is not None else _is_wanted(name, context, state)
        try:
            if name == METADATA:
                due = _metadata_due(state) if chosen else None
            else:
                service = SERVICES[name]
                switched = replace(context, options=switched_on(service, context.options))
                due = due_of(service, switched, state, plans) if chosen else _only_pending(service, plans)
        except StorageError:  # all other services would fail in the same way
            raise
        except (HudiError, OSError) as error:
            if chosen:
                yield TendedService(name, "failed", "it could not be found out what is due", error=error)
            continue
        if due is None or not due.due:
            continue
        if chosen:
            yield _task_of(due)
        else:
            yield replace(_task_of(due), state=LEFT, reason=f"{due.reason}; --services {name} runs it")


def switched_on(service: Service[Any], options: Options) -> Options:
    """Returns the options with which commits would run a service."""
    rule = service.after_commit
    return options.replace(rule.switch) if rule is not None and rule.switch else options


def _is_wanted(name: str, context: ServiceContext, state: TableState) -> bool:
    """Returns whether the table's settings ask for a service: after commits, or in a process beside its writers."""
    options, config = context.options, state.config
    if name == METADATA:
        return bool(config.metadata_partitions or config.metadata_partitions_to_make)
    if name == ROLLBACK_FAILED.name:
        return True
    rule = SERVICES[name].after_commit
    if not options.get(services_config.ENABLED) or rule is None or not rule.switch:
        return False
    return any(True for _ in rule.steps(options, config)) or rule.left(options, config)


def _only_pending(service: Service[Any], plans: PendingPlans) -> Due | None:
    """Returns the pending plans of a service that the table's settings do not ask for; someone has scheduled them."""
    pending = () if service.plans is None else tuple(instant.time for instant in service.planner().planned(plans))
    return Due(service.name, True, f"{counted(len(pending), 'plan')} pending", pending) if pending else None


def _metadata_due(state: TableState) -> Due | None:
    config, timeline = state.config, state.timeline
    begun = [finding.what for finding in check_complete(config)]
    if begun and (
        config.metadata_partitions_to_make or all(instant.action is not Action.INDEXING for instant in timeline.pending)
    ):
        return Due(METADATA, True, begun[0])
    _, _, unusable = examined(state, listing=False)
    return None if unusable is None else Due(METADATA, True, unusable.what)


def _task_of(due: Due) -> TendedService:
    return TendedService(
        due.service,
        DUE,
        due.reason,
        pending=due.pending,
        files=due.files,
        num_bytes=due.num_bytes,
        requests=_COMMIT_REQUESTS * max(len(due.pending), 1) + 2 * due.files,
    )
