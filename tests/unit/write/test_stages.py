"""Rows at the stages of a write, and the threads that write them."""

from __future__ import annotations

import threading
import time
from functools import partial

import pyarrow as pa
import pytest

from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.write.operations.shares import Workers
from hudi_py.write.rows import LocatedRows, PartitionedRows

P = PartitionPath("p")
ROWS = pa.table({"_hoodie_record_key": ["a", "b", "c", "d"], "v": [1, 2, 3, 4]})
IDS = pa.array(["f2", None, "f1", "f2"], pa.string())
SLICES = [FileSlice(P, FileId(name), "1", None) for name in ("f1", "f2", "f3")]


@pytest.mark.parametrize("leaving", [None, [False, False, False, True]])
def test_located_rows_survive_being_kept_by_partition(leaving: list[bool] | None) -> None:
    marks = None if leaving is None else pa.array(leaving)
    located = LocatedRows(ROWS, IDS, marks)
    moves = leaving is not None
    with PartitionedRows(LocatedRows.packed_schema(ROWS.schema, moves=moves), budget=1) as held:
        for batch in located.packed().to_batches():
            held.add(batch, pa.array(["p"] * batch.num_rows))
        again = LocatedRows.unpacked(held.table(P), moves=moves)
    assert again.rows.equals(ROWS)
    assert again.file_ids.equals(IDS)
    assert (again.leaving is None) if marks is None else marks.equals(again.leaving)


def test_located_rows_are_tagged_by_file_group() -> None:
    tagged = LocatedRows(ROWS, IDS).tagged(SLICES)
    assert {slice_.file_id: rows.tolist() for slice_, rows in tagged.found} == {"f2": [0, 3], "f1": [2]}
    assert tagged.new.tolist() == [1]
    assert tagged.leaving == {}


def test_leaving_rows_are_neither_updates_nor_new() -> None:
    tagged = LocatedRows(ROWS, IDS, pa.array([False, False, True, True])).tagged(SLICES)
    assert {slice_.file_id: rows.tolist() for slice_, rows in tagged.found} == {"f2": [0], "f1": []}
    assert tagged.new.tolist() == [1]
    assert {file_id: rows.tolist() for file_id, rows in tagged.leaving.items()} == {"f2": [3], "f1": [2]}


def test_workers_return_every_result() -> None:
    workers: Workers[int] = Workers(2, at_most=3)
    with workers:
        for number in range(20):
            workers.submit(lambda number=number: number)  # type: ignore[misc]
        assert sorted(workers.results()) == list(range(20))


def test_an_error_of_a_worker_is_raised_and_stops_the_others() -> None:
    begun: list[int] = []
    release = threading.Event()

    def fail() -> None:
        release.wait(10)
        raise ValueError("disk full")

    workers: Workers[None] = Workers(1, at_most=3)

    def run() -> None:
        with workers:
            workers.submit(fail)
            workers.submit(lambda: begun.append(1))
            release.set()
            workers.results()

    with pytest.raises(ValueError, match="disk full"):
        run()
    assert len(begun) <= 1
    with pytest.raises(RuntimeError):
        workers.submit(lambda: None)


def test_tasks_that_hold_more_than_fits_run_alone() -> None:
    running: list[int] = []
    together: list[int] = []
    lock = threading.Lock()

    def run(size: int) -> None:
        with lock:
            running.append(size)
            together.append(sum(running))
        time.sleep(0.01)
        with lock:
            running.remove(size)

    workers: Workers[None] = Workers(4, at_most=8, max_bytes=10)
    with workers:
        for size in (4, 6, 30, 5, 5, 5, 11, 1):
            workers.submit(partial(run, size), size)
        workers.results()
    assert max(together) == 30
    assert all(each <= 10 for each in together if each not in (30, 11))


def test_the_queue_of_workers_is_bounded() -> None:
    release, second = threading.Event(), threading.Event()
    queued: list[int] = []
    workers: Workers[bool] = Workers(1, at_most=2)

    def submit() -> None:
        for number in range(4):
            workers.submit(lambda: release.wait(200))
            queued.append(number)
            if number:
                second.set()

    with workers:
        thread = threading.Thread(target=submit)
        thread.start()
        assert second.wait(200)
        thread.join(0.1)
        assert queued == [0, 1]
        release.set()
        thread.join()
        assert workers.results() == [True] * 4
