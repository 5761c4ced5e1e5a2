"""Rows go to small files first, then to new file groups of a full size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.config import DEFAULTS, Options
from hudi_py.config import write as write_config
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import Action
from hudi_py.model.names import BaseFileName, FileId, LogFileName, PartitionPath
from hudi_py.write.placement.assign import (
    MEGABYTE,
    InsertBucket,
    Packing,
    assign_inserts,
    average_record_size,
    effective_record_size,
    small_files,
)

P = PartitionPath("p")


def slice_of(name: str, size: int, *, log: bool = False) -> FileSlice:
    file_id = FileId(name)
    logs = (LogFile(P, LogFileName(file_id, "2", 1, "0-0-0"), 10),) if log else ()
    return FileSlice(P, file_id, "1", BaseFile(P, BaseFileName(file_id, "0-0-0", "1"), size), logs)


SLICES = [slice_of("big", 200), slice_of("b", 50), slice_of("a", 20), slice_of("logged", 5, log=True)]
LIMIT = "hoodie.parquet.small.file.limit"
CANDIDATES = "hoodie.merge.small.file.group.candidates.limit"


def packing_of(options: dict[str, str], max_file_size: int = 120) -> Packing:
    return Packing(max_file_size, Options.resolve(options, defaults={}))


PACKING = packing_of({LIMIT: "100", CANDIDATES: "1"})


def ids(slices: list[FileSlice]) -> list[str]:
    return [str(slice_.file_id) for slice_ in slices]


def test_small_files_of_copy_on_write_smallest_first() -> None:
    assert ids(small_files(SLICES, PACKING, is_mor=False)) == ["logged", "a", "b"]


def test_small_files_of_merge_on_read_have_no_logs_and_are_few() -> None:
    assert ids(small_files(SLICES, PACKING, is_mor=True)) == ["a"]
    assert ids(small_files(SLICES, packing_of({LIMIT: "100", CANDIDATES: "5"}), is_mor=True)) == ["a", "b"]


def test_groups_under_a_pending_service_are_left_alone() -> None:
    assert ids(small_files(SLICES, PACKING, is_mor=True, excluded={FileId("a")})) == ["b"]


def test_no_limit_no_small_files() -> None:
    assert small_files(SLICES, packing_of({LIMIT: "0"}), is_mor=False) == []


def test_inserts_fill_small_files_then_new_ones() -> None:
    small = small_files(SLICES, PACKING, is_mor=False)
    # with rows of 10 bytes: (120 - 15) // 10, (120 - 20) // 10, (120 - 50) // 10, then 12 a file
    assert assign_inserts(50, small, PACKING, 10) == [
        InsertBucket(FileId("logged"), 10),
        InsertBucket(FileId("a"), 10),
        InsertBucket(FileId("b"), 7),
        InsertBucket(None, 12),
        InsertBucket(None, 11),
    ]


def test_rows_of_a_new_file_without_auto_split() -> None:
    packing = packing_of({"hoodie.copyonwrite.insert.auto.split": "false", "hoodie.copyonwrite.insert.split.size": "3"})
    assert [bucket.num_rows for bucket in assign_inserts(7, [], packing, 1024)] == [3, 3, 1]


@given(st.integers(0, 10_000), st.lists(st.integers(0, 300), max_size=5), st.integers(1, 500))
def test_every_row_is_assigned_once(rows: int, sizes: list[int], record_size: int) -> None:
    slices = [slice_of(f"f{number}", size) for number, size in enumerate(sizes)]
    small = small_files(slices, PACKING, is_mor=False)
    buckets = assign_inserts(rows, small, PACKING, record_size)
    assert sum(bucket.num_rows for bucket in buckets) == rows
    assert all(bucket.num_rows > 0 for bucket in buckets)
    named = [bucket.file_id for bucket in buckets if bucket.file_id]
    assert len(named) == len(set(named))


def stat(path: str, size: int, rows: int) -> WriteStat:
    return WriteStat("f", path, "p", num_writes=rows, total_write_bytes=size, file_size=size)


def commit(*stats: WriteStat) -> CommitMetadata:
    return CommitMetadata("UPSERT", stats)


def test_record_size_of_commits() -> None:
    packing = packing_of({LIMIT: "100"})
    large = commit(stat("p/f_0-0-0_1.parquet", 80, 4), stat("p/g_0-0-0_1.parquet", 80, 4))
    small = commit(stat("p/f_0-0-0_1.parquet", 90, 1))
    assert average_record_size([(Action.COMMIT, small), (Action.COMMIT, large)], packing) == 20
    assert average_record_size([(Action.COMMIT, small)], packing) is None


def test_record_size_of_delta_commits_is_that_of_large_base_files() -> None:
    packing = packing_of({LIMIT: "100"})
    mixed = commit(
        stat("p/f_0-0-0_1.parquet", 200, 4), stat("p/.f_1.log.1_0-0-0", 1000, 1), stat("p/g_0-0-0_1.parquet", 90, 1)
    )
    assert average_record_size([(Action.DELTA_COMMIT, mixed)], packing) == 50


def test_only_recent_commits_are_measured() -> None:
    packing = packing_of({LIMIT: "1"})
    one, two = commit(stat("a_0-0-0_1.parquet", 10, 1)), commit(stat("a_0-0-0_1.parquet", 30, 1))
    assert average_record_size([*[(Action.COMMIT, one)] * 5, (Action.COMMIT, two)], packing) == 10
    assert average_record_size([*[(Action.COMMIT, one)] * 4, (Action.COMMIT, two)], packing) == 14


@pytest.mark.parametrize(
    ("measured", "given_", "memory", "expected"),
    [(7, False, 100.0, 7), (None, False, 100.0, 100), (None, False, 5000.0, 1024), (None, True, 100.0, 1024)],
)
def test_effective_record_size(measured: int | None, given_: bool, memory: float, expected: int) -> None:
    packing = packing_of({"hoodie.copyonwrite.record.size.estimate": "1024"} if given_ else {})
    assert effective_record_size(measured, packing, memory) == expected


def test_defaults_are_those_of_apache_hudi() -> None:
    sizes = [DEFAULTS.get(option) for option in (write_config.MAX_FILE_SIZE, write_config.SMALL_FILE_LIMIT)]
    assert sizes == [120 * MEGABYTE, 100 * MEGABYTE]
