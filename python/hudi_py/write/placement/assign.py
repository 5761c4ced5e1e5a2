"""Assigns new rows to files: small files first, then new file groups of full size.

Source: `UpsertPartitioner`, `SparkUpsertDeltaCommitPartitioner`, `AverageRecordSizeEstimator`, Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from hudi_py.config import DEFAULTS, Option, Options
from hudi_py.config import write as write_config
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, parse_base_file_name

T = TypeVar("T")

MEGABYTE = 1024 * 1024
_MAX_COMMITS = 5
"""Number of commits whose rows are measured (`hoodie.record.size.estimator.max.commits`)."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How full new files get. Pickles."""

    max_file_size: int
    """Bytes; the option depends on the format of the table's base files."""
    options: Options = DEFAULTS
    """The options of the write, which contain the other limits."""

    def get(self, option: Option[T]) -> T:
        """Returns the value of an option of the write."""
        return self.options.get(option)


@dataclass(frozen=True, slots=True)
class InsertBucket:
    """Rows for one file."""

    file_id: FileId | None
    """The file id of a small file, None for a new file group."""
    num_rows: int


def small_files(
    slices: Iterable[FileSlice], packing: Packing, *, is_mor: bool, excluded: Collection[FileId] = ()
) -> list[FileSlice]:
    """Returns the slices whose base file may take more rows, smallest first.

    A merge-on-read slice with logs is left alone: only compaction rewrites it. `excluded`: file groups under pending
    compaction or clustering.
    """
    limit = packing.get(write_config.SMALL_FILE_LIMIT)
    small = [
        slice_
        for slice_ in slices
        if slice_.base_file is not None
        and slice_.base_file.size < limit
        and slice_.file_id not in excluded
        and not (is_mor and slice_.log_files)
    ]
    small.sort(key=lambda slice_: (slice_.size, slice_.file_id))
    return small[: packing.get(write_config.SMALL_FILE_CANDIDATES)] if is_mor else small


def assign_inserts(num_rows: int, small: Sequence[FileSlice], packing: Packing, record_size: int) -> list[InsertBucket]:
    """Assigns `num_rows` new rows of a partition to files; `record_size` is bytes of a row."""
    assignments: list[InsertBucket] = []
    left = num_rows
    for slice_ in small:
        rows = min((packing.max_file_size - slice_.size) // max(record_size, 1), left)
        if rows > 0:
            assignments.append(InsertBucket(slice_.file_id, rows))
            left -= rows
        if not left:
            break
    full = packing.get(write_config.INSERT_SPLIT_SIZE)
    if packing.get(write_config.INSERT_AUTO_SPLIT):
        full = packing.max_file_size // max(record_size, 1)
    full = max(full, 1)
    while left > 0:
        assignments.append(InsertBucket(None, min(full, left)))
        left -= full
    return assignments


def even_files(num_rows: int, packing: Packing, record_size: int) -> list[InsertBucket]:
    """Assigns rows to new file groups of equal size, about full."""
    if num_rows <= 0:
        return []
    full = assign_inserts(num_rows, (), packing, record_size)[0].num_rows
    count = max(-(-num_rows * 10 // (full * 11)), 1)
    return [
        InsertBucket(None, num_rows * (number + 1) // count - num_rows * number // count) for number in range(count)
    ]


def average_record_size(commits: Iterable[tuple[Action, CommitMetadata]], packing: Packing) -> int | None:
    """Computes the bytes of a row in recent base files; None if no commit is large enough.

    Args:
        commits: completed commits and delta commits, newest first; only the first few are read.
    """
    threshold = packing.get(write_config.RECORD_SIZE_THRESHOLD) * packing.get(write_config.SMALL_FILE_LIMIT)
    total_bytes = total_rows = 0
    for action, metadata in islice(commits, _MAX_COMMITS):
        if action is Action.DELTA_COMMIT:
            stats = [stat for stat in metadata.stats if parse_base_file_name(stat.path.rpartition("/")[2])]
            measured = [(stat.total_write_bytes, stat.num_writes) for stat in stats]
        else:
            sizes = sum(stat.total_write_bytes for stat in metadata.stats)
            measured = [(sizes, sum(stat.num_writes for stat in metadata.stats))]
        for size, rows in measured:
            if size > threshold and rows > 0:
                total_bytes += size
                total_rows += rows
    return total_bytes // total_rows or None if total_bytes and total_rows else None


def effective_record_size(measured: int | None, packing: Packing, memory_size: float) -> int:
    """Returns the bytes that count for a row: measured in earlier commits, else the configured estimate. If no option
    sets one, rows that are smaller in memory (`memory_size` bytes) count with that size, so that files of narrow rows
    fill up."""
    if measured:
        return measured
    if packing.options.given(write_config.RECORD_SIZE_ESTIMATE) or memory_size <= 0:
        return packing.get(write_config.RECORD_SIZE_ESTIMATE)
    return max(1, min(packing.get(write_config.RECORD_SIZE_ESTIMATE), int(memory_size)))
