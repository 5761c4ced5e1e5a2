"""Chooses the file slices to compact (`BaseHoodieCompactionPlanGenerator`, `BaseTableServicePlanActionExecutor`,
1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import compaction as config
from hudi_py.errors import ConfigError
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema.patterns import check_regex, matching
from hudi_py.services.planned.codec import PlanCodec
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans, compaction_plan
from hudi_py.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    FileGroup,
    decode_compaction_plan,
    encode_compaction_plan,
)
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView

TOTAL_IO_MB = "TOTAL_IO_MB"
_READ_MB = "TOTAL_IO_READ_MB"
TOTAL_LOG_FILES_SIZE = "TOTAL_LOG_FILES_SIZE"
_MB = 1024 * 1024
_DATE = re.compile(r"(\d+)/(\d+)/(\d+)")

BOUNDED_IO = frozenset(
    {
        "BoundedIOCompactionStrategy",
        "DayBasedCompactionStrategy",
        "LogFileSizeBasedCompactionStrategy",
        "LogFileNumBasedCompactionStrategy",
        "BoundedPartitionAwareCompactionStrategy",
    }
)
"""Strategies whose plans `hoodie.compaction.target.io` limits."""


def slice_metrics(slices: Sequence[FileSlice], max_file_size: int) -> dict[str, float]:
    """Computes the metrics that strategies use, for some slices together
    (`FileSliceMetricUtils.addFileSliceCommonMetrics`).

    Args:
        max_file_size: bytes that a slice without a base file is assumed to write.
    """
    bases = [slice_.base_file.size if slice_.base_file is not None else 0 for slice_ in slices]
    logs = [log.size for slice_ in slices for log in slice_.log_files]
    read, write = (sum(bases) + sum(logs)) // _MB, sum(base or max_file_size for base in bases) // _MB
    return {
        _READ_MB: float(read),
        "TOTAL_IO_WRITE_MB": float(write),
        TOTAL_IO_MB: float(read + write),
        TOTAL_LOG_FILES_SIZE: float(sum(logs)),
        "TOTAL_LOG_FILES": float(len(logs)),
    }


def rewritten_bytes(metrics: Mapping[str, float]) -> int:
    """Estimates the bytes to read and write for slices with these metrics. Compaction writes about as many bytes as it
    reads; the size of base files is known only in whole megabytes."""
    read = max(int(metrics.get(_READ_MB, 0.0)) * _MB, int(metrics.get(TOTAL_LOG_FILES_SIZE, 0.0)))
    return 2 * read


def choose_partitions(options: Options, partitions: Sequence[str], today: date) -> list[str]:
    """Returns the partitions to consider, in the order of the plan.

    Args:
        today: the day from which to count back.

    Raises:
        ConfigError: the regular expression is not valid; or the strategy works by days, and the path of a partition is
            not a date.
    """
    regex, days = options.get(config.PARTITION_REGEX) or "", options.get(config.DAY_PARTITIONS)
    check_regex(regex, options.name_of(config.PARTITION_REGEX))
    chosen = list(partitions)
    for name in options.get(config.STRATEGY):
        if name == "PartitionRegexBasedCompactionStrategy":
            chosen = matching(regex, chosen, config.PARTITION_REGEX.key)
        elif name == "DayBasedCompactionStrategy":
            chosen = sorted(chosen, key=_parse_day, reverse=True)[:days]
        elif name in ("BoundedPartitionAwareCompactionStrategy", "UnBoundedPartitionAwareCompactionStrategy"):
            bounded = name.startswith("Bounded")
            latest_first = sorted(chosen, key=lambda path: path.replace("/", "-"), reverse=True)
            chosen = [path for path in latest_first if _is_recent(path, days, today) == bounded]
    return chosen


def choose_operations(
    options: Options, operations: Sequence[CompactionOperation], today: date
) -> tuple[list[CompactionOperation], tuple[str, ...]]:
    """Returns the operations of a plan, in order, and the partitions in which something was left out.

    Raises:
        ConfigError: as in `choose_partitions`.
    """
    chosen: list[CompactionOperation] = list(operations)
    missing: dict[str, None] = {}
    fewest_bytes, fewest_logs = options.get(config.LOG_SIZE_THRESHOLD), options.get(config.LOG_NUM_THRESHOLD)
    days = options.get(config.DAY_PARTITIONS)
    for name in options.get(config.STRATEGY):
        if name == "LogFileSizeBasedCompactionStrategy":
            small = [
                operation for operation in chosen if operation.metrics.get(TOTAL_LOG_FILES_SIZE, 0.0) < fewest_bytes
            ]
            missing |= dict.fromkeys(operation.partition_path for operation in small)
            kept = [
                operation for operation in chosen if operation.metrics.get(TOTAL_LOG_FILES_SIZE, 0.0) >= fewest_bytes
            ]
            chosen = sorted(kept, key=lambda operation: -int(operation.metrics.get(TOTAL_LOG_FILES_SIZE, 0.0)))
        elif name == "LogFileNumBasedCompactionStrategy":
            few = [operation for operation in chosen if len(operation.log_files) < fewest_logs]
            missing |= dict.fromkeys(operation.partition_path for operation in few)
            kept = [operation for operation in chosen if len(operation.log_files) >= fewest_logs]
            chosen = sorted(kept, key=lambda operation: -len(operation.log_files))
        elif name in ("BoundedPartitionAwareCompactionStrategy", "UnBoundedPartitionAwareCompactionStrategy"):
            bounded = name.startswith("Bounded")
            chosen = [operation for operation in chosen if _is_recent(operation.partition_path, days, today) == bounded]
            if bounded:
                chosen.sort(key=lambda operation: _parse_day(operation.partition_path), reverse=True)
        if name in BOUNDED_IO and name != "BoundedPartitionAwareCompactionStrategy":
            chosen, left = _within_target(chosen, options.get(config.TARGET_IO_MB))
            missing |= dict.fromkeys(left)
    return chosen, tuple(missing)


def _within_target(
    operations: Sequence[CompactionOperation], target_mb: int
) -> tuple[list[CompactionOperation], list[str]]:
    """Returns the operations up to the one that reaches the target size, and the partitions of the others."""
    remaining = target_mb
    chosen: list[CompactionOperation] = []
    left: list[str] = []
    for operation in operations:
        if remaining > 0:
            remaining -= int(operation.metrics.get(TOTAL_IO_MB, 0.0))
            chosen.append(operation)
        else:
            left.append(operation.partition_path)
    return chosen, left


def _is_recent(partition: str, days: int, today: date) -> bool:
    first = today - timedelta(days=days)
    return _parse_day(partition) >= (first.year, first.month, first.day)


def _parse_day(partition: str) -> tuple[int, int, int]:
    """Parses year, month and day of a partition path `yyyy/MM/dd`, with or without column names."""
    path = re.sub(r"/.*?=", "/", re.sub(r".*?=", "", partition, count=1)) if "=" in partition else partition
    match = _DATE.match(path)
    if match is None:
        raise ConfigError(
            f"Cannot plan a compaction by days: partition '{partition}' is not a date; supported: partitions "
            f"yyyy/MM/dd; choose another strategy ({config.STRATEGY.key})"
        )
    year, month, day = match.groups()
    return int(year), int(month), int(day)


@dataclass(frozen=True, slots=True)
class CompactionScope:
    """Which log files a plan includes."""

    instant: str
    """Everything completed before this time is compacted."""
    busy: frozenset[FileGroup]
    """File groups that another service is rewriting."""
    max_file_size: int
    """Bytes that a slice without a base file is assumed to write."""


def plan_compaction(
    view: FileSystemView,
    partitions: Sequence[str],
    options: Options,
    scope: CompactionScope,
    *,
    today: date,
    records_missing: bool,
) -> CompactionPlan:
    """Plans a compaction; the plan has no operations if there is nothing to do.

    Args:
        view: the current view of the table, under the lock.
        partitions: the partitions to consider, see `partitions_to_consider`.
        today: the current date, for strategies by days.
        records_missing: whether the plan names the partitions in which a strategy left something out.

    Raises:
        ConfigError: the strategy works by days, and the path of a partition is not a date.
    """
    chosen = choose_partitions(options, partitions, today)
    candidates = operations_of(view, chosen, scope)
    operations, missing = choose_operations(options, candidates, today)
    return CompactionPlan(tuple(operations), missing if records_missing else ())


def operations_of(
    view: FileSystemView,
    partitions: Sequence[str],
    scope: CompactionScope,
    wanted: Callable[[FileSlice], bool] | None = None,
) -> list[CompactionOperation]:
    """Returns an operation for each newest slice with logs, ordered by partition and file id. Slices for which `wanted`
    is false are left out."""
    paths = [PartitionPath(path) for path in partitions]

    def one(partition: PartitionPath) -> list[CompactionOperation]:
        result = []
        for slice_ in view.latest_slices(partition):
            if (slice_.partition, slice_.file_id) in scope.busy:
                continue
            before = _completed_before(view, slice_, scope.instant)
            if before.log_files and (wanted is None or wanted(before)):
                result.append(_operation_of(before, scope.max_file_size))
        return result

    return view.in_portions(paths, lambda some: [operation for path in some for operation in one(path)])


def compaction_rows(plan: CompactionPlan) -> tuple[dict[str, Any], ...]:
    """Returns a row for each file group of a plan: partition, file_id and files (its base file and logs)."""
    return tuple(
        {
            "partition": operation.partition_path,
            "file_id": operation.file_id,
            "files": [*([operation.base_file] if operation.base_file else []), *operation.log_files],
        }
        for operation in plan.operations
    )


def without_obsolete(
    view: FileSystemView, operations: Sequence[CompactionOperation]
) -> tuple[CompactionOperation, ...]:
    """Returns the operations of a log compaction that are not obsolete: the file group's newest slice has their logs.

    If a compaction was planned in between, a log file written now would belong to the slice that the compaction opened,
    and readers would skip it, because that slice does not have the blocks that it replaces.
    """
    partitions = sorted({PartitionPath(operation.partition_path) for operation in operations})
    view.lister.prefetch(partitions)
    newest = {
        (slice_.partition, slice_.file_id): {str(log.name) for log in slice_.log_files}
        for slices in map(view.latest_slices_for_write, partitions)
        for slice_ in slices
    }
    return tuple(
        operation
        for operation in operations
        if not newest.get((PartitionPath(operation.partition_path), FileId(operation.file_id)), set()).isdisjoint(
            operation.log_files
        )
    )


def partitions_to_consider(storage: Storage, timeline: Timeline, view: FileSystemView, now: str) -> list[str]:
    """Returns the partitions written since the last compaction, and those in which its plan left something out; sorted.

    All partitions if there was no compaction, or if its plan is missing. Unlike Apache Hudi, this goes back to any
    compaction that completed after the last one was planned, because the last plan does not have what was written while
    that one was pending.
    """
    compactions = [i for i in timeline.write_completed if i.action is Action.COMMIT]
    if not compactions:
        return list(view.partitions())
    last = compactions[-1]
    start = min(i.time for i in compactions if (i.completion_time or i.time) >= last.time)
    partitions_found: set[str] = set()
    for instant in (i for i in compactions if i.time >= start):
        plan = compaction_plan(storage, timeline.layout, instant.time, Action.COMPACTION)
        if plan is None:
            return list(view.partitions())
        partitions_found.update(plan.missing_partitions or ())
    for instant in timeline.write_completed:
        completion = instant.completion_time or instant.time
        if instant.action is Action.COMMIT or not start <= completion < now:
            continue
        try:
            metadata = read_commit_metadata(storage, timeline.layout, instant)
        except FileNotFoundError:  # archived since it was listed
            return list(view.partitions())
        partitions_found.update(stat.partition_path for stat in metadata.stats)
    return sorted(partitions_found)


def busy_groups(
    storage: Storage, timeline: Timeline, view: FileSystemView, *, log_compactions: bool
) -> frozenset[FileGroup]:
    """Returns the file groups that a pending compaction or clustering will rewrite; with `log_compactions`, also those
    of pending log compactions."""
    groups: set[FileGroup] = {*view.pending_compaction, *view.pending_clustering}
    if log_compactions:
        plans = PendingPlans(storage, timeline)
        for instant in plans.of(Action.LOG_COMPACTION):
            groups.update(plans.file_groups(instant))
    return frozenset(groups)


def _completed_before(view: FileSystemView, slice_: FileSlice, instant: str) -> FileSlice:
    """Returns the slice without logs that completed at or after a time. In version 6, log names do not show when."""
    if not view.config.logs_named_by_instant:
        return slice_
    kept = tuple(log for log in slice_.log_files if (view.timeline.completion_time(log.name.instant) or "~") < instant)
    return slice_ if len(kept) == len(slice_.log_files) else replace(slice_, log_files=kept)


def _operation_of(slice_: FileSlice, max_file_size: int) -> CompactionOperation:
    base = slice_.base_file
    return CompactionOperation(
        partition_path=slice_.partition,
        file_id=slice_.file_id,
        base_instant=base.instant if base is not None else slice_.log_files[0].name.instant,
        base_file=str(base.name) if base is not None else None,
        log_files=tuple(str(log.name) for log in slice_.log_files),
        metrics=slice_metrics((slice_,), max_file_size),
        bootstrap_file=None if base is None or base.source is None else base.source.uri,
    )


def _codec_of(action: Action) -> PlanCodec[CompactionPlan, CompactionOperation]:
    return PlanCodec(
        action=action,
        decode=decode_compaction_plan,
        encode=partial(encode_compaction_plan, log_compaction=action is Action.LOG_COMPACTION),
        units=lambda plan: plan.operations,
        with_units=lambda plan, operations: replace(plan, operations=operations),
        files=lambda operation: (
            (operation.partition_path, name) for name in (operation.base_file, *operation.log_files) if name
        ),
        rows=compaction_rows,
    )


COMPACTION_PLANS: Final = _codec_of(Action.COMPACTION)
LOG_COMPACTION_PLANS: Final = _codec_of(Action.LOG_COMPACTION)
