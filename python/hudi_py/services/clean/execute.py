"""Deleting what a plan names, in pieces and in any process (`CleanActionExecutor`, 1.2.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hudi_py.errors import first_line
from hudi_py.model.names import join_path
from hudi_py.storage import Storage
from hudi_py.storage.threads import REQUESTS, when_remote
from hudi_py.timeline.clean_records import CleanPlan

FILES_OF_A_PIECE = 64
"""Fewer are not worth a task of their own."""
# From so many files of a folder on, listing it costs less than asking for the size of each
_LIST_FROM = 8

File = tuple[str, str]
"""Partition path and name."""


@dataclass(frozen=True, slots=True)
class CleanedPiece:
    """The outcome of one piece: all its files are deleted but those that failed. Pickles small."""

    piece: int
    num_bytes: int
    """Of the files that this attempt deleted."""
    failed: tuple[tuple[str, str, str], ...] = ()
    """Partition path, name and reason."""


def files_of(plan: CleanPlan) -> list[File]:
    """Every file of a plan once, sorted: the order in which it is divided into pieces."""
    # names, not paths: the table may have been moved since the plan was made
    return sorted({(partition, path.rpartition("/")[2]) for partition, paths in plan.files.items() for path in paths})


def num_pieces(count: int, parallelism: int) -> int:
    """Into how many pieces so many files are divided."""
    return min(parallelism, -(-count // FILES_OF_A_PIECE))


def piece_of(files: Sequence[File], piece: int, count: int) -> Sequence[File]:
    """The files of a piece, neighbours in the order of `files_of`."""
    return files[piece * len(files) // count : (piece + 1) * len(files) // count]


def delete_files(storage: Storage, files: Sequence[File], threads: int) -> tuple[dict[File, int], dict[File, str]]:
    """Deletes files, several at a time if the storage is remote. Those that are not there count as deleted: another
    attempt was first.

    Returns:
        Bytes of each file that was there, and why those are still there that are.
    """
    by_partition: dict[str, list[File]] = defaultdict(list)
    for file in files:
        by_partition[file[0]].append(file)
    sizes: dict[File, int] = {}
    for partition, of_partition in by_partition.items():
        sizes.update(_sizes(storage, partition, of_partition))
    there = [file for file in files if file in sizes]
    reasons = when_remote(storage, lambda file: _delete(storage, file), there, max(threads, REQUESTS))
    failed = {file: reason for file, reason in zip(there, reasons, strict=True) if reason}
    return {file: size for file, size in sizes.items() if file not in failed}, failed


def _sizes(storage: Storage, partition: str, files: Sequence[File]) -> Mapping[File, int]:
    if len(files) < _LIST_FROM:
        found = ((file, storage.stat(join_path(*file))) for file in files)
        return {file: info.size for file, info in found if info is not None}
    wanted: Collection[str] = {name for _, name in files}
    return {(partition, info.name): info.size for info in storage.list(partition) if info.name in wanted}


def _delete(storage: Storage, file: File) -> str:
    """Why the file is still there; empty when it is not."""
    path = join_path(*file)
    try:
        if storage.delete(path) or storage.stat(path) is None:
            return ""
        return "the storage did not delete it"
    except Exception as error:  # whatever a storage raises, the other files must still be deleted
        try:
            if storage.stat(path) is None:
                return ""
        except Exception:  # then it may still be there
            pass
        return first_line(error)
