"""Sizes of a table's partitions, file groups and slices, from `Table.files()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MAX_PARTITIONS: Final = 25
MAX_SLICES: Final = 12
_SIZE_STEPS: Final = (0, *(step * 10**power for power in range(4, 12) for step in (1, 2, 5)))
"""Factors of the limits of the bins of base files, in bytes."""
_LOG_STEPS: Final = ((0, 0), (1, 1), (2, 4), (5, 9), (10, 19), (20, None))


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """The newest file slices of a partition; its name is None for several partitions together."""

    name: str | None
    groups: int
    base_files: int
    base_bytes: int
    log_files: int
    log_bytes: int
    small_files: int
    """Number of base files below the limit of `FileSizes`."""

    @property
    def bytes(self) -> int:
        return self.base_bytes + self.log_bytes


@dataclass(frozen=True, slots=True)
class SizeBin:
    """The base files of `low` to below `high` bytes (None: no limit)."""

    low: int
    high: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LogBin:
    """The file slices with `low` to `high` log files (None: no limit)."""

    low: int
    high: int | None
    slices: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class SliceSize:
    """A file slice with logs."""

    partition: str
    file_id: str
    base_instant: str
    base_bytes: int
    log_files: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The newest file slices of a table."""

    total: PartitionSize
    num_partitions: int
    partitions: tuple[PartitionSize, ...]
    """The largest partitions, at most `MAX_PARTITIONS`."""
    others: PartitionSize | None
    """All other partitions together."""
    small_limit: int
    """`hoodie.parquet.small.file.limit`, bytes; smaller base files are small."""
    small_bytes: int
    spread: tuple[int, int, int, int] | None
    """Least, median, 95th percentile and greatest size of base files; None if there are none."""
    sizes: tuple[SizeBin, ...]
    """Base files in steps of 1, 2, 5, 10 and so on, from the least size to the greatest."""
    logs: tuple[LogBin, ...]
    waiting: int
    """Number of file slices with logs."""
    slices: tuple[SliceSize, ...]
    """The file slices with the most bytes of logs, at most `MAX_SLICES`."""


def sizes_of(files: pa.Table, small_limit: int) -> FileSizes:
    """Summarises the rows of `Table.files()`."""
    has_base = pc.is_valid(files["base_file"])
    counted = pa.table(
        {
            "partition": files["partition"],
            "base_file": pc.cast(has_base, pa.int64()),
            "base_bytes": files["base_bytes"],
            "log_files": pc.cast(pc.list_value_length(files["log_files"]), pa.int64()),
            "log_bytes": files["log_bytes"],
            "small": pc.cast(pc.and_(has_base, pc.less(files["base_bytes"], small_limit)), pa.int64()),
        }
    )
    partitions = _partitions(counted)
    base = files["base_bytes"].filter(has_base).to_numpy()
    return FileSizes(
        total=_together(partitions),
        num_partitions=len(partitions),
        partitions=tuple(partitions[:MAX_PARTITIONS]),
        others=_together(partitions[MAX_PARTITIONS:]) if len(partitions) > MAX_PARTITIONS else None,
        small_limit=small_limit,
        small_bytes=int(base[base < small_limit].sum()),
        spread=_spread(base),
        sizes=_size_bins(base),
        logs=_log_bins(counted),
        waiting=pc.sum(pc.greater(counted["log_files"], 0), min_count=0).as_py(),
        slices=_longest(files, counted),
    )


def _partitions(counted: pa.Table) -> list[PartitionSize]:
    """Returns partitions, largest first."""
    names = ("base_file", "base_bytes", "log_files", "log_bytes", "small")
    grouped = counted.group_by("partition").aggregate([(name, "sum") for name in names] + [("base_file", "count")])
    partitions = [
        PartitionSize(
            row["partition"],
            row["base_file_count"],
            row["base_file_sum"],
            row["base_bytes_sum"],
            row["log_files_sum"],
            row["log_bytes_sum"],
            row["small_sum"],
        )
        for row in grouped.to_pylist()
    ]
    return sorted(partitions, key=lambda item: (-item.bytes, item.name or ""))


def _together(partitions: list[PartitionSize]) -> PartitionSize:
    return PartitionSize(
        None,
        sum(partition.groups for partition in partitions),
        sum(partition.base_files for partition in partitions),
        sum(partition.base_bytes for partition in partitions),
        sum(partition.log_files for partition in partitions),
        sum(partition.log_bytes for partition in partitions),
        sum(partition.small_files for partition in partitions),
    )


def _spread(base: np.ndarray) -> tuple[int, int, int, int] | None:
    if not len(base):
        return None
    low, median, high, most = (int(item) for item in np.percentile(base, (0, 50, 95, 100)))
    return low, median, high, most


def _size_bins(base: np.ndarray) -> tuple[SizeBin, ...]:
    if not len(base):
        return ()
    places = np.searchsorted(_SIZE_STEPS, base, "right") - 1
    result = []
    for place in range(int(places.min()), int(places.max()) + 1):
        sizes = base[places == place]
        high = _SIZE_STEPS[place + 1] if place + 1 < len(_SIZE_STEPS) else None
        result.append(SizeBin(_SIZE_STEPS[place], high, len(sizes), int(sizes.sum())))
    return tuple(result)


def _log_bins(counted: pa.Table) -> tuple[LogBin, ...]:
    number, size = counted["log_files"].to_numpy(), counted["log_bytes"].to_numpy()
    result = []
    for low, high in _LOG_STEPS:
        chosen = (number >= low) & (number <= (np.iinfo(np.int64).max if high is None else high))
        result.append(LogBin(low, high, int(chosen.sum()), int(size[chosen].sum())))
    return tuple(result)


def _longest(files: pa.Table, counted: pa.Table) -> tuple[SliceSize, ...]:
    size = files["log_bytes"].to_numpy()
    order = np.argsort(-size, kind="stable")[:MAX_SLICES]
    chosen = pa.array([int(index) for index in order if counted["log_files"][int(index)].as_py()], pa.int64())
    return tuple(
        SliceSize(
            row["partition"],
            row["file_id"],
            row["base_instant"],
            row["base_bytes"],
            len(row["log_files"]),
            row["log_bytes"],
        )
        for row in files.take(chosen).to_pylist()
    )
