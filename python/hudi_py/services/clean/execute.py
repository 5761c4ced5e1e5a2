"""Deletes the files of a plan, divided into tasks that any process can execute (`CleanActionExecutor`, 1.2.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudi_py.errors import first_line
from hudi_py.model.names import join_path
from hudi_py.storage import Storage
from hudi_py.storage.base import BulkStorage
from hudi_py.storage.threads import REQUESTS, when_remote
from hudi_py.timeline.clean_records import CleanPlan

FILES_PER_TASK = 64
"""Minimum number of files for which a task is worthwhile."""
_LIST_FROM = 8
"""From this many files in a folder, listing the folder costs less than a request for each size."""

File = tuple[str, str]
"""Partition path and name."""


@dataclass(frozen=True, slots=True)
class CleanOutcome:
    """The outcome of one task: all its files were deleted except those that failed. Pickles small."""

    task: int
    num_bytes: int
    """Bytes of the files that this attempt deleted."""
    failed: tuple[tuple[str, str, str], ...] = ()
    """Partition path, name and reason."""


def files_of(plan: CleanPlan) -> list[File]:
    """Returns every file of a plan once, sorted; tasks are ranges of this order."""
    # names, not paths: the table may have been moved since it was planned
    return sorted({(partition, path.rpartition("/")[2]) for partition, paths in plan.files.items() for path in paths})


def clean_rows(plan: CleanPlan) -> tuple[dict[str, Any], ...]:
    """Returns a row for each partition of a plan: partition, file_id (None) and files (the names to delete)."""
    names: dict[str, list[str]] = defaultdict(list)
    for partition, name in files_of(plan):
        names[partition].append(name)
    return tuple({"partition": partition, "file_id": None, "files": files} for partition, files in names.items())


def num_tasks(count: int, parallelism: int) -> int:
    """Returns the number of tasks for `count` files."""
    return min(parallelism, -(-count // FILES_PER_TASK))


def files_of_task(files: Sequence[File], task: int, count: int) -> Sequence[File]:
    """Returns the files of one task out of `count`, in the order of `files_of`."""
    return files[task * len(files) // count : (task + 1) * len(files) // count]


def delete_files(
    storage: Storage, files: Sequence[File], threads: int, known: Mapping[File, int] | None = None
) -> tuple[dict[File, int], dict[File, str]]:
    """Deletes files, in parallel if the storage is remote. A missing file counts as deleted by another attempt.

    Args:
        known: sizes of files that need not be looked at first, as the metadata table has them; one of these that is
            missing counts as deleted by this attempt.

    Returns:
        The size of each file that was deleted, and the reason for each that was not.
    """
    sizes = {file: known[file] for file in files if file in known} if known else {}
    by_partition: dict[str, list[File]] = defaultdict(list)
    for file in files:
        if file not in sizes:
            by_partition[file[0]].append(file)
    for sizes_in_folder in when_remote(storage, lambda folder: _sizes_in(storage, *folder), by_partition.items()):
        sizes.update(sizes_in_folder)
    existing = [file for file in files if file in sizes]
    if isinstance(storage, BulkStorage):
        try:
            storage.delete_many([join_path(*file) for file in existing])
            return sizes, {}
        except OSError:  # one at a time, to see which file cannot be deleted, and why
            pass
    reasons = when_remote(storage, lambda file: _delete_file(storage, file), existing, max(threads, REQUESTS))
    failed = {file: reason for file, reason in zip(existing, reasons, strict=True) if reason}
    return {file: size for file, size in sizes.items() if file not in failed}, failed


def _sizes_in(storage: Storage, partition: str, files: Sequence[File]) -> Mapping[File, int]:
    if len(files) < _LIST_FROM:
        files_with_stat = ((file, storage.stat(join_path(*file))) for file in files)
        return {file: info.size for file, info in files_with_stat if info is not None}
    wanted: Collection[str] = {name for _, name in files}
    return {(partition, info.name): info.size for info in storage.list(partition) if info.name in wanted}


def _delete_file(storage: Storage, file: File) -> str:
    """Deletes a file. Returns why it still exists; empty if it does not."""
    path = join_path(*file)
    try:
        if storage.delete(path) or storage.stat(path) is None:
            return ""
        return "the storage did not delete it"
    except Exception as error:  # whatever the storage raises, the other files must still be deleted
        try:
            if storage.stat(path) is None:
                return ""
        except Exception:  # it may still exist
            pass
        return first_line(error)
