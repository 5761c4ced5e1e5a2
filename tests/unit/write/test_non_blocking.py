"""Several writers that add logs to the same buckets, without waiting for each other and without conflicts."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.config import concurrency as concurrency_config
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.wiring import service_target
from hudi_py.write.distributed import DistributedWrite, TaskId, abort_write, commit_write, plan_write, run_task
from tests.unit.write.test_bucket_index import BUCKETS, check_keys, rows, snapshot

OPTIONS = {
    **BUCKETS,
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    concurrency_config.MODE.key: concurrency_config.NON_BLOCKING,
    concurrency_config.LOCK_PROVIDER.key: concurrency_config.FILE_SYSTEM_LOCK,
}
OPTIMISTIC = {**OPTIONS, concurrency_config.MODE.key: concurrency_config.OPTIMISTIC}
SERVICE = {
    key: value for key, value in OPTIONS.items() if key.startswith(("hoodie.write.", "hoodie.index", "hoodie.bucket"))
}


def begun(path: str, data: pa.Table, operation: str = "upsert", **more: str) -> tuple[DistributedWrite, pa.Table]:
    chosen = Options.resolve({**OPTIONS, "hoodie.datasource.write.operation": operation, **more}, Scope.WRITE)
    write = plan_write(service_target(path, chosen), data.schema)
    run_task(write, TaskId(9, 1), [])  # the instant is pending
    return write, data


def finish(writing: tuple[DistributedWrite, pa.Table]) -> None:
    write, data = writing
    commit_write(write, [run_task(write, TaskId(0, 1), data.to_batches())])


@pytest.mark.slow
@pytest.mark.parametrize("version", [8, 9])
def test_writers_at_once(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "t")
    table = {"hoodie.write.table.version": str(version)}
    first = begun(path, rows([0, 1, 2, 3], 3), **table)
    hudi_py.write(path, rows([0, 1, 4], 2), "upsert", {**OPTIONS, **table})
    finish(first)  # it has not seen the file groups of the other, and writes to the same ones
    assert snapshot(path) == [("k0", 3), ("k1", 3), ("k2", 3), ("k3", 3), ("k4", 2)]
    assert not list((tmp_path / "t").glob("?/*.parquet"))
    assert sorted(each.name[1:37] for each in (tmp_path / "t/a").glob(".*.log.*")) == [
        f"0000000{bucket}-0000-0000-0000-000000000000" for bucket in (0, 0, 2)
    ]
    # one that began before a compaction is planned, and one that begins while it is pending
    second = begun(path, rows([0, 5], 5, [5]))
    third = begun(path, rows([3, 6], 6), "insert")
    hudi_py.open_table(path).compaction.schedule(options=SERVICE)
    fourth = begun(path, rows([1, 6], 9), "delete")
    finish(third)
    hudi_py.open_table(path).compact(options=SERVICE)
    finish(second)
    finish(fourth)
    expected = [("k0", 5), ("k2", 3), ("k3", 6), ("k4", 2)]
    assert snapshot(path) == expected
    hudi_py.open_table(path).compact(options=SERVICE)
    hudi_py.open_table(path).clean(options={**SERVICE, "hoodie.clean.commits.retained": "1"})
    assert snapshot(path) == expected
    check_keys(path)
    read = hudi_py.open_table(path).scan(["k"], filter="ts = 2").to_table()
    assert read["k"].to_pylist() == ["k4"]


def test_threads(tmp_path: Path) -> None:
    """Writers in parallel; each key ends with its greatest time, whoever wrote it."""
    path = str(tmp_path / "t")
    errors: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            for number in range(3):
                hudi_py.write(path, rows([0, 1, 2, 10 + writer], 10 * number + writer), "upsert", OPTIONS)
        except BaseException as error:
            errors.append(error)

    hudi_py.write(path, rows([7], 1), "upsert", OPTIONS)
    threads = [threading.Thread(target=work, args=(writer,)) for writer in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert snapshot(path) == [("k0", 22), ("k1", 22), ("k11", 21), ("k12", 22), ("k2", 22), ("k7", 1)]
    check_keys(path)


def test_overwrites_of_others_conflict(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0], 1), "upsert", OPTIONS)
    writing = begun(path, rows([0], 2))
    hudi_py.write(path, rows([2], 1), "insert_overwrite_table", OPTIMISTIC)
    with pytest.raises(ConflictError, match="INSERT_OVERWRITE_TABLE"):
        finish(writing)


def test_first_writers_of_a_bucket_conflict_by_bucket(tmp_path: Path) -> None:
    """With optimistic concurrency each would make a file group of its own."""
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([1], 1), "upsert", OPTIMISTIC)
    mode = {concurrency_config.MODE.key: concurrency_config.OPTIMISTIC}
    apart, same = begun(path, rows([2], 2), **mode), begun(path, rows([0], 2), **mode)
    hudi_py.write(path, rows([4], 3), "upsert", OPTIMISTIC)  # in the bucket of 0, not in that of 2
    finish(apart)
    with pytest.raises(ConflictError, match="completed since this write began"):
        finish(same)
    assert snapshot(path) == [("k1", 1), ("k2", 2), ("k4", 3)]


@pytest.mark.parametrize(
    "changes",
    [
        {"hoodie.index.type": "SIMPLE"},
        {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
        {"hoodie.write.table.version": "6"},
        {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
    ],
)
def test_what_it_does_not_support_is_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="NON_BLOCKING_CONCURRENCY_CONTROL|consistent hashing"):
        hudi_py.write(str(tmp_path / "t"), rows([1], 1), "upsert", {**OPTIONS, **changes})
    assert not (tmp_path / "t/.hoodie").exists()


def test_an_overwrite_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([1], 1), "upsert", OPTIONS)
    for operation in ("insert_overwrite_table", "insert_overwrite"):
        with pytest.raises(ConfigError, match=f"Cannot {operation} the table"):
            hudi_py.write(path, rows([1], 2), operation, OPTIONS)


def test_a_file_id_that_was_replaced_is_not_used_again(tmp_path: Path) -> None:
    """Readers pass over all that is in a file group that was replaced."""
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 2, 3], 1), "upsert", OPTIONS)
    hudi_py.write(path, rows([2], 2), "insert_overwrite", OPTIMISTIC)
    assert snapshot(path) == [("k2", 2), ("k3", 1)]
    hudi_py.write(path, rows([0], 3), "upsert", OPTIONS)
    hudi_py.write(path, rows([0, 2], 4), "upsert", OPTIONS)
    assert snapshot(path) == [("k0", 4), ("k2", 4), ("k3", 1)]
    check_keys(path)


@pytest.mark.slow
@pytest.mark.parametrize("version", [8, 9])
def test_services_on_slices_without_base_files(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "t")
    opened = hudi_py.open_table
    table = {"hoodie.write.table.version": str(version)}
    hudi_py.write(path, rows([0, 1, 2], 1), "upsert", {**OPTIONS, **table})
    opened(path).savepoint(options=SERVICE)
    hudi_py.write(path, rows([0, 3], 2), "upsert", OPTIONS)
    done = hudi_py.write(path, rows([1, 4], 3, [1]), "upsert", OPTIONS)
    assert snapshot(path) == [("k0", 2), ("k2", 1), ("k3", 2), ("k4", 3)]
    opened(path).rollback(done, options=SERVICE)
    assert snapshot(path) == [("k0", 2), ("k1", 1), ("k2", 1), ("k3", 2)]
    abort_write(begun(path, rows([5, 6], 4))[0])
    assert opened(path).metadata.verify().ok
    saved = opened(path).savepoints.list()["instant"].to_pylist()
    opened(path).restore(saved[0], options=SERVICE)
    assert snapshot(path) == [("k0", 1), ("k1", 1), ("k2", 1)]
    assert opened(path).metadata.verify().ok
    hudi_py.write(path, rows([0, 6], 5), "upsert", OPTIONS)
    opened(path).compact(options=SERVICE)
    assert snapshot(path) == [("k0", 5), ("k1", 1), ("k2", 1), ("k6", 5)]
    assert opened(path).metadata.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("version", [8, pytest.param(9, marks=pytest.mark.slow)])
def test_a_write_that_a_compaction_overtook_is_archived(tmp_path: Path, version: int) -> None:
    """Its logs belong to the slice of the compaction, which its requested time alone does not show."""
    path = str(tmp_path / "t")
    no_services = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    options = {**OPTIONS, **no_services, "hoodie.write.table.version": str(version)}
    service = {**SERVICE, **no_services, "hoodie.clean.commits.retained": "1"}
    hudi_py.write(path, rows([4], 1), "upsert", options)
    overtaken = begun(path, rows([4, 5], 5), **no_services)
    hudi_py.write(path, rows([0], 2), "upsert", options)
    compaction = hudi_py.open_table(path).compact(options=service)
    finish(overtaken)
    for number in range(5):
        hudi_py.write(path, rows([8], 10 + number), "upsert", options)
    expected = [("k0", 2), ("k4", 5), ("k5", 5), ("k8", 14)]
    hudi_py.open_table(path).archive(
        options={**service, "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    )
    assert hudi_py.open_table(path).instants()["instant"][0].as_py() >= compaction.instant
    assert snapshot(path) == expected
    assert hudi_py.open_table(path).scan(["k"], filter="ts = 5").to_table()["k"].to_pylist() == ["k4", "k5"]
    hudi_py.open_table(path).clean(options=service)  # finds the first slice superfluous, without those logs
    assert snapshot(path) == expected
    hudi_py.write(path, rows([12], 20), "upsert", options)
    hudi_py.open_table(path).compact(options=service)
    assert snapshot(path) == [("k0", 2), ("k12", 20), *expected[1:]]
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("options", [OPTIONS, {**OPTIMISTIC, "hoodie.metadata.record.index.enable": "false"}])
def test_partitions_have_the_same_file_ids(tmp_path: Path, options: dict[str, str]) -> None:
    """Keys may occur in several partitions; the metadata table tells their files apart."""
    path = str(tmp_path / "t")

    def both(ts: int, partitions: str = "ab") -> pa.Table:
        found = {"k": [], "p": [], "ts": []}
        for place in partitions:
            for key in range(4):
                found["k"].append(f"{place if key else ''}{key}")
                found["p"].append(place)
                found["ts"].append(ts + 100 * (place == "b"))
        return pa.table(found)

    def check(expected: int) -> None:
        table = hudi_py.open_table(path)
        assert table.metadata.verify().ok
        assert table.scan(["k"], filter="ts >= 100").to_table().num_rows == expected

    hudi_py.write(path, both(1), "upsert", options)
    check(4)
    hudi_py.write(path, both(2), "upsert", options)
    hudi_py.write(path, both(3, "a").select(["k", "p", "ts"]), "delete", options)
    check(4)
    assert hudi_py.open_table(path).scan(["p"]).to_table()["p"].to_pylist() == ["b"] * 4
    hudi_py.open_table(path).compact(options=SERVICE)
    hudi_py.open_table(path).metadata.rebuild()
    check(4)
    hudi_py.write(path, both(4), "upsert", options)
    check(4)
