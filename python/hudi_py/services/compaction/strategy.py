"""Chooses the file slices that a compaction takes, and their order (`CompactionStrategy` and its subclasses, 1.2.0).

A strategy first chooses partitions, then orders and filters the operations in them. It reports the partitions in which
it leaves something out, so that the next plan considers them even if nothing is written to them in between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from hudi_py.config import Options
from hudi_py.config import compaction as config
from hudi_py.errors import ConfigError
from hudi_py.model.files import FileSlice
from hudi_py.schema.patterns import check_regex, matching
from hudi_py.timeline.plans import CompactionOperation

TOTAL_IO_MB = "TOTAL_IO_MB"
TOTAL_LOG_FILES_SIZE = "TOTAL_LOG_FILES_SIZE"
_MB = 1024 * 1024
_DATE = re.compile(r"(\d+)/(\d+)/(\d+)")

_BOUNDED_IO = frozenset(
    {
        "BoundedIOCompactionStrategy",
        "DayBasedCompactionStrategy",
        "LogFileSizeBasedCompactionStrategy",
        "LogFileNumBasedCompactionStrategy",
        "BoundedPartitionAwareCompactionStrategy",
    }
)


def slice_metrics(slices: Sequence[FileSlice], max_file_size: int) -> dict[str, float]:
    """The metrics that strategies use, of some slices together (`FileSliceMetricUtils.addFileSliceCommonMetrics`).

    Args:
        max_file_size: bytes that a slice without a base file is assumed to write.
    """
    bases = [slice_.base_file.size if slice_.base_file is not None else 0 for slice_ in slices]
    logs = [log.size for slice_ in slices for log in slice_.log_files]
    read, write = (sum(bases) + sum(logs)) // _MB, sum(base or max_file_size for base in bases) // _MB
    return {
        "TOTAL_IO_READ_MB": float(read),
        "TOTAL_IO_WRITE_MB": float(write),
        TOTAL_IO_MB: float(read + write),
        TOTAL_LOG_FILES_SIZE: float(sum(logs)),
        "TOTAL_LOG_FILES": float(len(logs)),
    }


def choose_partitions(options: Options, partitions: Sequence[str], today: date) -> list[str]:
    """The partitions to consider, in the order of the plan.

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
            chosen = sorted(chosen, key=_day, reverse=True)[:days]
        elif name in ("BoundedPartitionAwareCompactionStrategy", "UnBoundedPartitionAwareCompactionStrategy"):
            bounded = name.startswith("Bounded")
            latest_first = sorted(chosen, key=lambda path: path.replace("/", "-"), reverse=True)
            chosen = [path for path in latest_first if _is_recent(path, days, today) == bounded]
    return chosen


def choose_operations(
    options: Options, operations: Sequence[CompactionOperation], today: date
) -> tuple[list[CompactionOperation], tuple[str, ...]]:
    """The operations of a plan, in order, and the partitions in which something was left out.

    Raises:
        ConfigError: as in `choose_partitions`.
    """
    chosen: list[CompactionOperation] = list(operations)
    missing: dict[str, None] = {}
    fewest_bytes, fewest_logs = options.get(config.LOG_SIZE_THRESHOLD), options.get(config.LOG_NUM_THRESHOLD)
    days = options.get(config.DAY_PARTITIONS)
    for name in options.get(config.STRATEGY):
        if name == "LogFileSizeBasedCompactionStrategy":
            small = [each for each in chosen if each.metrics.get(TOTAL_LOG_FILES_SIZE, 0.0) < fewest_bytes]
            missing |= dict.fromkeys(each.partition_path for each in small)
            kept = [each for each in chosen if each.metrics.get(TOTAL_LOG_FILES_SIZE, 0.0) >= fewest_bytes]
            chosen = sorted(kept, key=lambda each: -int(each.metrics.get(TOTAL_LOG_FILES_SIZE, 0.0)))
        elif name == "LogFileNumBasedCompactionStrategy":
            few = [each for each in chosen if len(each.log_files) < fewest_logs]
            missing |= dict.fromkeys(each.partition_path for each in few)
            kept = [each for each in chosen if len(each.log_files) >= fewest_logs]
            chosen = sorted(kept, key=lambda each: -len(each.log_files))
        elif name in ("BoundedPartitionAwareCompactionStrategy", "UnBoundedPartitionAwareCompactionStrategy"):
            bounded = name.startswith("Bounded")
            chosen = [each for each in chosen if _is_recent(each.partition_path, days, today) == bounded]
            if bounded:
                chosen.sort(key=lambda each: _day(each.partition_path), reverse=True)
        if name in _BOUNDED_IO and name != "BoundedPartitionAwareCompactionStrategy":
            chosen, left = _within(chosen, options.get(config.TARGET_IO_MB))
            missing |= dict.fromkeys(left)
    return chosen, tuple(missing)


def _within(operations: Sequence[CompactionOperation], target_mb: int) -> tuple[list[CompactionOperation], list[str]]:
    """The operations up to the one that reaches the target size, and the partitions of the others."""
    remaining = target_mb
    chosen: list[CompactionOperation] = []
    left: list[str] = []
    for each in operations:
        if remaining > 0:
            remaining -= int(each.metrics.get(TOTAL_IO_MB, 0.0))
            chosen.append(each)
        else:
            left.append(each.partition_path)
    return chosen, left


def _is_recent(partition: str, days: int, today: date) -> bool:
    first = today - timedelta(days=days)
    return _day(partition) >= (first.year, first.month, first.day)


def _day(partition: str) -> tuple[int, int, int]:
    """Year, month and day of a partition path `yyyy/MM/dd`, with or without column names."""
    path = re.sub(r"/.*?=", "/", re.sub(r".*?=", "", partition, count=1)) if "=" in partition else partition
    found = _DATE.match(path)
    if found is None:
        raise ConfigError(
            f"Cannot plan a compaction by days: partition '{partition}' is not a date; supported: partitions "
            f"yyyy/MM/dd; choose another strategy ({config.STRATEGY.key})"
        )
    year, month, day = found.groups()
    return int(year), int(month), int(day)
