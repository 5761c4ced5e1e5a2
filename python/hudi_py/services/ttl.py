"""Drops the partitions of a table that have expired, as one commit of the operation `delete_partition`.

Sources: `HoodieTTLConfig`, `KeepByTimeStrategy`, `KeepByCreationTimeStrategy`, `SparkPartitionTTLActionExecutor`,
Apache Hudi 1.2.0.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final, Protocol

from hudi_py.config import Option, Options
from hudi_py.config import services as services_config
from hudi_py.errors import ConfigError
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, InstantArgument, Service, Step, done
from hudi_py.services.planned.service import ServiceReport, listed
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.commits import InstantRange, read_commits
from hudi_py.timeline.state import TableState
from hudi_py.timeline.times import epoch_ms, format_instant, is_special
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.partition_metafile import creation_time
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.overwrite import groups_to_delete
from hudi_py.write.retry import NothingToDoError, begin_planned
from hudi_py.write.settings import WriteSettings, settings_as_stored

_SERVICE: Final = "ttl"
_DAY_MS: Final = 24 * 60 * 60 * 1000
_MILLIS: Final = "999"
"""Milliseconds that complete a time without them, as in Apache Hudi."""


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """A partition that may expire."""

    path: str
    written: datetime
    """The time of the last commit that wrote to it."""


class PartitionStrategy(Protocol):
    """Decides which partitions have expired. Instances are created without arguments, one for each call."""

    def expired(self, partitions: Sequence[PartitionTime]) -> Iterable[str]:
        """Returns the paths of expired partitions."""


@dataclass(frozen=True, slots=True, repr=False)
class TtlReport(ServiceReport):
    """The result of `run_ttl`."""

    partitions: tuple[str, ...] = ()
    """Paths of the partitions that have been dropped, or would be, oldest first."""
    num_file_groups: int = 0
    """The number of their file groups."""
    num_left: int = 0
    """How many more partitions have expired and are left to the next call."""

    def _summary(self) -> Iterator[str]:
        if self.partitions:
            yield f"{listed(self.partitions, 'partition')} expired"
            yield counted(self.num_file_groups, "file group")
        if self.num_left:
            yield f"{self.num_left} left to the next call"


@dataclass(frozen=True, slots=True)
class _Expired:
    partitions: tuple[PartitionPath, ...]
    num_file_groups: int
    num_left: int
    settings: WriteSettings


def run_ttl(
    context: ServiceContext,
    instant: str | None = None,
    *,
    strategy: str = "",
    retain_days: int | None = None,
    partitions: str = "",
    dry_run: bool = False,
) -> TtlReport:
    """Drops the partitions that have expired. Their files stay until they are cleaned.

    Args:
        instant: must be None.
        strategy, retain_days, partitions: override the options `hoodie.partition.ttl.strategy.*`.
        dry_run: only report which partitions have expired.

    Raises:
        ConfigError: an argument is not valid, or the class of the strategy cannot be used.
        ConflictError: a pending table service has files of a partition.
    """
    given: dict[Option[Any], str] = {}
    if strategy:
        given |= {services_config.TTL_STRATEGY_TYPE: strategy, services_config.TTL_STRATEGY_CLASS: ""}
    if retain_days is not None:
        given[services_config.TTL_DAYS_RETAINED] = str(retain_days)
    if partitions:
        given[services_config.TTL_PARTITIONS] = partitions
    options = context.options.replace(given)
    session = context.session.reread()

    def choose(view: FileSystemView) -> _Expired:
        expired = _expired(view, options, session.zone)
        counts = {path: len(view.latest_slices_for_write(path)) for path in expired}
        filled = [path for path in expired if counts[path]]  # there is nothing left to drop in others
        if not filled:
            raise NothingToDoError("no partition has expired")
        chosen = tuple(filled[: options.get(services_config.TTL_MAX_PARTITIONS)])
        settings = settings_as_stored(view, Operation.DELETE_PARTITION, options, "drop partitions of")
        return _Expired(chosen, sum(counts[path] for path in chosen), len(filled) - len(chosen), settings)

    def report(plan: _Expired, **done: Any) -> TtlReport:
        paths = tuple(map(str, plan.partitions))
        return TtlReport(
            _SERVICE, **done, partitions=paths, num_file_groups=plan.num_file_groups, num_left=plan.num_left
        )

    try:
        if dry_run:
            plan = choose(session.view(session.timeline()))
            return report(plan, instant=None, reason="this was a dry run")
        operation = Operation.DELETE_PARTITION.java_name
        with begin_planned(session, choose, action=Action.REPLACE_COMMIT, operation=operation) as (transaction, plan):
            write = WriteContext(transaction, plan.settings, progress=context.progress)
            commit = write.commit(OperationResult([], groups_to_delete(write, plan.partitions)))
    except NothingToDoError as nothing:
        return TtlReport(_SERVICE, None, reason=str(nothing))
    return report(plan, instant=commit.instant, completion_time=commit.completion_time)


def _expired(view: FileSystemView, options: Options, zone: tzinfo) -> list[PartitionPath]:
    """Returns the partitions that have expired, oldest first.

    Raises:
        NothingToDoError: none can.
        ConfigError: the class of the strategy cannot be used.
    """
    strategy = options.get(services_config.TTL_STRATEGY_CLASS) or options.get(services_config.TTL_STRATEGY_TYPE)
    days = options.get(services_config.TTL_DAYS_RETAINED)
    custom = _load_strategy(strategy) if ":" in strategy else None
    if not view.config.partition_fields:
        raise NothingToDoError("the table has no partitions")
    if custom is None and days <= 0:
        raise NothingToDoError(f"{services_config.TTL_DAYS_RETAINED.key} = {days} retains all partitions")
    selected = set(options.get(services_config.TTL_PARTITIONS))
    paths = [path for path in view.partitions() if not selected or path in selected]
    cutoff_ms = wall_clock_ms() - days * _DAY_MS if custom is None else None
    since = "" if cutoff_ms is None else format_instant(max(cutoff_ms, 0), zone)
    if strategy == services_config.KEEP_BY_CREATION_TIME:
        times = _creation_times(view, paths)
    else:
        times = _last_writes(view, paths, since)
    # a bootstrap has no time of its own
    known = sorted((time, path) for path, time in times.items() if not is_special(time))
    if custom is None:
        return [path for time, path in known if _with_milliseconds(time) < since]
    return _chosen_by(strategy, custom, known, zone)


def _chosen_by(
    name: str, custom: PartitionStrategy, known: Sequence[tuple[str, PartitionPath]], zone: tzinfo
) -> list[PartitionPath]:
    """Returns the partitions that a strategy chooses among those with a known time.

    Raises:
        ConfigError: it chooses others.
    """
    moments = [
        PartitionTime(str(path), datetime.fromtimestamp(epoch_ms(time, zone) / 1000, zone)) for time, path in known
    ]
    chosen = set(custom.expired(moments))
    unknown = chosen - {moment.path for moment in moments}
    if unknown:
        raise ConfigError(
            f"Option {services_config.TTL_STRATEGY_CLASS.key} = '{name}' cannot be used: expired() returned "
            f"{min(map(repr, unknown))}, which is not one of the partitions that it was given"
        )
    return [path for _, path in known if path in chosen]


def _with_milliseconds(time: str) -> str:
    return time if len(time) > 14 else time + _MILLIS


def _creation_times(view: FileSystemView, paths: Sequence[PartitionPath]) -> dict[PartitionPath, str]:
    """Returns the instant of the first write to each partition, from the partition's metafile."""
    state = view.state
    times = when_remote(state.storage, lambda path: creation_time(state.storage, state.config, path), paths)
    return {path: time for path, time in zip(paths, times, strict=True) if time is not None}


def _last_writes(view: FileSystemView, paths: Sequence[PartitionPath], since: str) -> dict[PartitionPath, str]:
    """Returns the instant of the last write to each partition, or a later one than `since` if there is one.

    Apache Hudi 1.2.0 takes the base instant of a file slice, and so drops partitions whose rows were just updated in
    logs.
    """
    view.lister.prefetch(paths)
    times: dict[PartitionPath, str] = {}
    logged: set[PartitionPath] = set()
    for path in paths:
        slices = view.latest_slices_for_write(path)
        if slices:
            names = [log.name.instant for slice_ in slices for log in slice_.log_files]
            times[path] = max([slice_.base_instant for slice_ in slices] + names)
            if names:
                logged.add(path)
    if not view.timeline.layout.has_completion_times:  # log files have the name of their base instant
        doubtful = {path for path in logged if not since or _with_milliseconds(times[path]) < since}
        begin = max(since, min((times[path] for path in doubtful), default=""))
        for commit in read_commits(view.state, InstantRange(begin), skip_compaction=False) if doubtful else ():
            for path in doubtful & {stat.partition_path for stat in commit.metadata.stats}:
                times[path] = max(times[path], commit.time)
    return times


def _load_strategy(name: str) -> PartitionStrategy:
    """Creates the strategy `module:Class`.

    Raises:
        ConfigError: the module or class cannot be loaded, or is not a strategy.
    """
    module, _, attribute = (part.strip() for part in name.partition(":"))
    key = services_config.TTL_STRATEGY_CLASS.key
    try:
        strategy: PartitionStrategy = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Option {key} = '{name}' cannot be used: {error}; the module must be importable, and the class must take "
            "no arguments"
        ) from error
    if not callable(getattr(strategy, "expired", None)):
        raise ConfigError(
            f"Option {key} = '{name}' is not a strategy: it needs a method expired(partitions) (see "
            "hudi_py.services.ttl.PartitionStrategy)"
        )
    return strategy


def _steps_after_commit(options: Options, config: TableConfig) -> Iterator[Step]:
    if options.get(services_config.TTL_INLINE):
        yield Step(_SERVICE, lambda context, _: done(run_ttl(context)))


def _check_options(options: Options) -> None:
    strategy = options.get(services_config.TTL_STRATEGY_CLASS) or ""
    if options.get(services_config.TTL_INLINE) and ":" in strategy:
        _load_strategy(strategy)


def _find_due(context: ServiceContext, state: TableState) -> Due | None:
    options = context.options
    asked = options.get(services_config.TTL_DAYS_RETAINED) > 0 or options.get(services_config.TTL_STRATEGY_CLASS)
    if not asked or not state.config.partition_fields:  # nothing in the table says that it has a TTL
        return None
    report = run_ttl(context, dry_run=True)
    count = len(report.partitions) + report.num_left
    expired = f"{counted(count, 'partition')} expired" if count else report.reason
    return Due(_SERVICE, bool(count), expired, files=report.num_file_groups)


TTL: Final = Service(
    name=_SERVICE,
    help="Drops partitions that have expired",
    run=run_ttl,
    instant=InstantArgument.REFUSED,
    arguments=(
        Argument("strategy", str, "from which time partitions are kept: keep_by_time or keep_by_creation_time"),
        Argument("retain_days", int, "the days after which a partition has expired"),
        Argument("partitions", str, "paths of the partitions that may expire, separated by commas"),
        Argument("dry_run", bool, "whether only to report which partitions have expired"),
    ),
    asks="drop partitions that have expired",
    after_commit=AfterCommitRule(
        _steps_after_commit, check_options=_check_options, switch={services_config.TTL_INLINE: "true"}
    ),
    due=_find_due,
)
