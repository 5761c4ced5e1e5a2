"""Which files new rows go to: small files first, then new file groups of full size.

Source: `UpsertPartitioner`, `SparkUpsertDeltaCommitPartitioner`, `AverageRecordSizeEstimator`, Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from hudi_py.config import write as write_config
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import Action
from hudi_py.model.names import FileId, parse_base_file_name

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Packing:
    """Sizes of files, in bytes. Pickles."""

    max_file_size: int = write_config.MAX_FILE_SIZE.default
    """`hoodie.parquet.max.file.size`."""
    small_file_limit: int = write_config.SMALL_FILE_LIMIT.default
    """`hoodie.parquet.small.file.limit`; smaller base files take new rows; 0: none do."""
    auto_split: bool = write_config.INSERT_AUTO_SPLIT.default
    """`hoodie.copyonwrite.insert.auto.split`."""
    split_rows: int = write_config.INSERT_SPLIT_SIZE.default
    """`hoodie.copyonwrite.insert.split.size`: rows of a new file without `auto_split`."""
    record_size: int = write_config.RECORD_SIZE_ESTIMATE.default
    """`hoodie.copyonwrite.record.size.estimate`: bytes of a row if no commit has measured any."""
    record_size_given: bool = False
    """Whether the options set `record_size`; if not, rows that are smaller in memory count with that size."""
    size_threshold: float = write_config.RECORD_SIZE_THRESHOLD.default
    """`hoodie.record.size.estimation.threshold`: share of the small file limit that a commit or, in delta commits, a
    file must exceed to be measured."""
    size_commits: int = 5
    """`hoodie.record.size.estimator.max.commits`."""
    mor_candidates: int = write_config.SMALL_FILE_CANDIDATES.default
    """`hoodie.merge.small.file.group.candidates.limit`: small files of a merge-on-read partition filled up at a
    time."""


@dataclass(frozen=True, slots=True)
class InsertBucket:
    """Rows for one file."""

    file_id: FileId | None
    """A small file's, None for a new file group."""
    num_rows: int


def small_files(
    slices: Iterable[FileSlice], packing: Packing, *, is_mor: bool, excluded: Collection[FileId] = ()
) -> list[FileSlice]:
    """Slices whose base file may take more rows, smallest first.

    A merge-on-read slice with logs is left alone: only compaction rewrites it. `excluded`: file groups under pending
    compaction or clustering.
    """
    found = [
        slice_
        for slice_ in slices
        if slice_.base_file is not None
        and slice_.base_file.size < packing.small_file_limit
        and slice_.file_id not in excluded
        and not (is_mor and slice_.log_files)
    ]
    found.sort(key=lambda slice_: (slice_.size, slice_.file_id))
    return found[: packing.mor_candidates] if is_mor else found


def assign_inserts(num_rows: int, small: Sequence[FileSlice], packing: Packing, record_size: int) -> list[InsertBucket]:
    """The files for `num_rows` new rows of a partition; `record_size` is bytes of a row."""
    assignments: list[InsertBucket] = []
    left = num_rows
    for slice_ in small:
        rows = min((packing.max_file_size - slice_.size) // max(record_size, 1), left)
        if rows > 0:
            assignments.append(InsertBucket(slice_.file_id, rows))
            left -= rows
        if not left:
            break
    full = packing.max_file_size // max(record_size, 1) if packing.auto_split else packing.split_rows
    full = max(full, 1)
    while left > 0:
        assignments.append(InsertBucket(None, min(full, left)))
        left -= full
    return assignments


def even_files(num_rows: int, packing: Packing, record_size: int) -> list[InsertBucket]:
    """New file groups for rows, about full and of equal size."""
    if num_rows <= 0:
        return []
    full = assign_inserts(num_rows, (), packing, record_size)[0].num_rows
    count = max(-(-num_rows * 10 // (full * 11)), 1)
    return [InsertBucket(None, num_rows * (at + 1) // count - num_rows * at // count) for at in range(count)]


def average_record_size(commits: Iterable[tuple[Action, CommitMetadata]], packing: Packing) -> int | None:
    """Bytes of a row in recent base files; None if no commit is large enough.

    Args:
        commits: completed commits and delta commits, newest first; only the first `packing.size_commits` are read.
    """
    threshold = packing.size_threshold * packing.small_file_limit
    total_bytes = total_rows = 0
    for action, metadata in islice(commits, packing.size_commits):
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
    """Bytes to count for a row: measured in earlier commits, else the configured estimate. If no option sets one, rows
    that are smaller in memory (`memory_size` bytes) count with that size, so that files of narrow rows fill up."""
    if measured:
        return measured
    if packing.record_size_given or memory_size <= 0:
        return packing.record_size
    return max(1, min(packing.record_size, int(memory_size)))
