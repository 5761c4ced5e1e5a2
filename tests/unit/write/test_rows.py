"""Rows by partition, in memory and beyond its budget."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.model.names import PartitionPath
from hudi_py.write.rows import PartitionedRows, split_by_partition

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
BATCHES = st.lists(st.lists(st.sampled_from("abc"), max_size=6), max_size=6)


def batch_of(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array([str(n) * 3 for n in numbers])], schema=SCHEMA)


@pytest.mark.parametrize("budget", [1, 100, 1 << 30])
@given(batches=BATCHES)
def test_every_partition_keeps_its_rows_in_order(budget: int, batches: list[list[str]]) -> None:
    expected: dict[str, list[int]] = {}
    with PartitionedRows(SCHEMA, budget) as held:
        number = 0
        for paths in batches:
            held.add(batch_of(number, len(paths)), pa.array(paths, pa.string()))
            for path in paths:
                expected.setdefault(path, []).append(number)
                number += 1
        assert held.num_rows == number
        assert {str(path) for path in held.partitions} == set(expected)
        for path, numbers in expected.items():
            partition = PartitionPath(path)
            table = held.table(partition)
            assert table["n"].to_pylist() == numbers
            assert table["s"].to_pylist() == [str(n) * 3 for n in numbers]
            assert held.rows_of(partition) == len(numbers)
            assert [n for batch in held.batches(partition) for n in batch.column(0).to_pylist()] == numbers


def test_spilled_files_are_removed() -> None:
    with PartitionedRows(SCHEMA, 1) as held:
        held.add(batch_of(0, 3), pa.array(["a", "b", "a"]))
        assert held._folder is not None
        folder = held._folder.name
        assert os.listdir(folder)
    assert not os.path.exists(folder)


def test_once_rows_are_on_the_disk_none_stay_in_memory() -> None:
    spilled, kept = PartitionedRows(SCHEMA, 100), PartitionedRows(SCHEMA, 1 << 30)
    for held in (spilled, kept):
        with held:
            for number in range(5):
                held.add(batch_of(3 * number, 3), pa.array(["a", "b", "a"]))
            held.settle()
            assert bool(held._held) is (held is kept)
            assert held.table(PartitionPath("a"))["n"].to_pylist() == [n for n in range(15) if n % 3 != 1]


def test_a_batch_of_one_partition_is_not_copied() -> None:
    batch = batch_of(0, 3)
    ((partition, rows),) = split_by_partition(batch, pa.array(["a"] * 3))
    assert partition == "a"
    assert rows is batch
    assert split_by_partition(batch_of(0, 0), pa.array([], pa.string())) == []
