"""Tables with a bucket index: the hash of a key chooses its file group."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from hudi_py.formats.keys.buckets import bucket_number, bucket_numbers
from hudi_py.wiring import service_target
from hudi_py.write.distributed import TaskId, commit_write, plan_write, run_task
from tests.support.choice import cases
from tests.support.record_index import indexed, stored

QUICK = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.py.write.durable": "false",
}
BUCKETS = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
TABLE: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts"}
TABLES = [(6, "cow"), (6, "mor"), (8, "mor"), (9, "cow"), (9, "mor")]


def rows(keys: list[int], ts: int, deleted: list[int] | None = None) -> pa.Table:
    """Even keys are in partition a, odd ones in b."""
    return pa.table(
        {
            "k": pa.array([f"k{key}" for key in keys], pa.string()),
            "p": pa.array(["ab"[key % 2] for key in keys], pa.string()),
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "_hoodie_is_deleted": pa.array([key in (deleted or []) for key in keys], pa.bool_()),
        }
    )


def snapshot(path: str) -> list[tuple[str, int]]:
    found = hudi_py.open_table(path).scan(["k", "ts"]).to_table()
    return sorted(zip(found["k"].to_pylist(), found["ts"].to_pylist(), strict=True))


def check_keys(path: str, count: int = 4) -> None:
    """Each bucket is one file group, and has its keys alone."""
    read = hudi_py.open_table(path).scan(["_hoodie_record_key", "_hoodie_file_name"]).to_table()
    names = {name.partition("_")[0] for name in read["_hoodie_file_name"].to_pylist()}
    assert len(names) <= 2 * count
    numbers = bucket_numbers(read["_hoodie_record_key"].combine_chunks(), ("k",), ("k",), count)
    assert [bucket_number(name) for name in read["_hoodie_file_name"].to_pylist()] == numbers.tolist()


class Model:
    """The rows a table must have: ordering value by key."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def apply(self, operation: str, data: pa.Table) -> None:
        if operation == "insert_overwrite_table":
            self.rows = {}
        for row in data.to_pylist():
            loses = operation == "upsert" and row["ts"] < self.rows.get(row["k"], 0)
            if operation == "delete" or (row["_hoodie_is_deleted"] and not loses):
                self.rows.pop(row["k"], None)
            elif not loses:
                self.rows[row["k"]] = row["ts"]

    def expected(self) -> list[tuple[str, int]]:
        return sorted(self.rows.items())


def run(path: str, data: pa.Table, operation: str, options: dict[str, str], tasks: int, **table: Any) -> None:
    """Writes the rows from this process, or as that many tasks of a distributed write."""
    if not tasks:
        hudi_py.write(path, data, operation, options, **table)
        return
    keys = {"hoodie.datasource.write.operation": operation, "hoodie.datasource.write.recordkey.field": "k"}
    chosen = Options.resolve({**options, **keys}, Scope.WRITE)
    write = plan_write(service_target(path, chosen), data.schema)
    each = -(-data.num_rows // tasks)
    parts = [data.slice(task * each, each) for task in range(tasks)]
    results = [run_task(write, TaskId(task, 1), part.to_batches()) for task, part in enumerate(parts)]
    commit_write(write, results)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind", "index"), cases([(*t, i) for t in TABLES for i in (0, 1)], "buckets", 3))
def test_random_operations(tmp_path: Path, version: int, kind: str, index: bool) -> None:
    """Upserts, deletes and overwrites leave one file group a bucket, and in it the keys of that bucket; with a record
    index, too, which stays exact."""
    chance = random.Random(f"{version} {kind}")
    path = str(tmp_path / "t")
    model = Model()
    options = {
        **BUCKETS,
        "hoodie.compact.inline.max.delta.commits": "3",
        "hoodie.compact.inline": "true" if index else "false",
    }
    if index:
        options |= {"hoodie.metadata.record.index.enable": "true"}
    steps = ["upsert", "upsert", "delete", "upsert", "insert_overwrite_table", "upsert", "delete", "upsert"]
    for turn, operation in enumerate(steps, 1):
        keys = chance.sample(range(14), 6)
        marked = chance.sample(keys, 2) if operation == "upsert" else []
        losing = [key for key in keys if f"k{key}" in model.rows and chance.random() < 0.2]
        winning = [key for key in keys if key not in losing]
        data = pa.concat_tables([rows(winning, turn, marked), rows(losing, 0, marked)])
        table = {**TABLE, "table_type": kind, "table_version": version} if turn == 1 else {}
        run(path, data, operation, options, 0 if turn == 1 else turn % 3, **table)
        model.apply(operation, data)
        assert snapshot(path) == model.expected(), (turn, operation)
        check_keys(path)
        if index:
            assert indexed(path) == stored(path), (turn, operation)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_inserts(tmp_path: Path, kind: str, operation: str) -> None:
    """The first rows of a bucket make a base file; later ones are added to it, or go to logs."""
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 1, 2], 1), operation, BUCKETS, table_type=kind, **TABLE)
    result = hudi_py.write(path, rows([2, 4, 6, 7], 2, [6]), operation, BUCKETS)
    if kind == "mor":
        assert snapshot(path) == [("k0", 1), ("k1", 1), ("k2", 2), ("k4", 2), ("k7", 2)]
    else:
        assert result.num_inserted == 3
        assert snapshot(path) == [("k0", 1), ("k1", 1), ("k2", 1), ("k2", 2), ("k4", 2), ("k7", 2)]
        unique = {**BUCKETS, "hoodie.merge.allow.duplicate.on.inserts": "false"}
        result = hudi_py.write(path, rows([0, 4, 8], 3), operation, unique)
        assert (result.num_inserted, result.num_updated) == (1, 2)
    check_keys(path)


def test_counts_of_a_copy_on_write_upsert(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(list(range(6)), 1), "upsert", BUCKETS, **TABLE)
    # 10 is not there, and is not deleted; 1 and 3 lose by their times
    data = pa.concat_tables([rows([4, 5, 6, 7, 8, 0, 10], 2, [0, 10]), rows([1, 3], 0, [1])])
    result = hudi_py.write(path, data, "upsert", BUCKETS)
    assert (result.num_inserted, result.num_updated, result.num_deleted) == (3, 2, 1)
    result = hudi_py.write(path, rows([3, 77], 0), "delete", BUCKETS)
    assert (result.num_inserted, result.num_updated, result.num_deleted) == (0, 0, 1)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_options_that_contradict_the_table_are_refused(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(list(range(8)), 1), "upsert", BUCKETS, table_type=kind, **TABLE)
    for count, message in (("2", "so there are more than 2"), ("8", "belongs to bucket")):
        with pytest.raises(ConfigError, match=message):
            hudi_py.write(path, rows([1], 2), "upsert", {**BUCKETS, "hoodie.bucket.index.num.buckets": count})
    with pytest.raises(ConfigError, match="belongs to bucket"):
        hudi_py.write(path, rows([1], 2), "upsert", {**QUICK, "hoodie.index.type": "BUCKET"})
    with pytest.raises(ConfigError, match=r"set hoodie.index.type=BUCKET"):
        hudi_py.write(path, rows([1], 2), "upsert", QUICK)
    with pytest.raises(ConfigError, match="not part of the record key k"):
        hudi_py.write(path, rows([1], 2), "upsert", {**BUCKETS, "hoodie.bucket.index.hash.field": "p"})
    with pytest.raises(
        ConfigError, match="needs a merge-on-read table" if kind == "cow" else "none of the 4 hash buckets"
    ):
        hudi_py.write(path, rows([1], 2), "upsert", {**BUCKETS, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"})
    assert snapshot(path) == [(f"k{key}", 1) for key in range(8)]


def test_a_table_with_another_index_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([1, 2], 1), "upsert", QUICK, **TABLE)
    with pytest.raises(ConfigError, match="is no bucket"):
        hudi_py.write(path, rows([1], 2), "upsert", BUCKETS)
    hudi_py.write(path, rows([1, 2], 1), "insert_overwrite_table", BUCKETS)
    hudi_py.write(path, rows([1], 2), "upsert", BUCKETS)
    assert snapshot(path) == [("k1", 2), ("k2", 1)]
    (tmp_path / "t/.hoodie/.bucket_index/consistent_hashing_metadata").mkdir(parents=True)
    (tmp_path / "t/.hoodie/.bucket_index/consistent_hashing_metadata/0.hashing_meta").write_text("{}")
    for operation in ("upsert", "insert_overwrite_table"):
        with pytest.raises(ConfigError, match="consistent hashing"):
            hudi_py.write(path, rows([1], 3), operation, BUCKETS)


def test_a_bucket_with_two_file_groups_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([2], 1), "upsert", BUCKETS, **TABLE)
    (base,) = (tmp_path / "t/a").glob("*.parquet")
    (tmp_path / "t/a" / base.name.replace(base.name[9:13], "ffff", 1)).write_bytes(base.read_bytes())
    with pytest.raises(ConfigError, match="has several file groups"):
        hudi_py.write(path, rows([2], 2), "upsert", {**BUCKETS, "hoodie.metadata.enable": "false"})


def test_several_hashed_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {**BUCKETS, "hoodie.bucket.index.hash.field": "k"}
    data = pa.table({"k": ["x", "x", "y", ":"], "n": [1, None, 3, 4], "ts": [1, 1, 1, 1]})
    hudi_py.write(path, data, "upsert", options, record_key="k,n", ordering_by="ts")
    hudi_py.write(path, data.set_column(2, "ts", pa.array([2] * 4)), "upsert", options)
    read = hudi_py.open_table(path).scan(["k", "ts", "_hoodie_file_name"]).to_table().to_pylist()
    assert [row["ts"] for row in read] == [2] * 4
    assert len({row["_hoodie_file_name"] for row in read if row["k"] == "x"}) == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_reads_open_only_the_buckets_of_their_keys(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")
    options = {**BUCKETS, "hoodie.bucket.index.hash.field": "k", "hoodie.metadata.index.column.stats.enable": "false"}
    data = pa.table({"k": [f"k{key % 8}" for key in range(16)], "n": range(16), "ts": [1] * 16})
    hudi_py.write(path, data, "upsert", options, record_key="k,n", ordering_by="ts", table_type=kind)
    hudi_py.write(path, data.slice(0, 8).set_column(2, "ts", pa.array([2] * 8)), "upsert", options)
    opened = hudi_py.open_table(path, options={key: options[key] for key in options if "bucket" in key.lower()})
    for condition, most in (("k = 'k1'", 1), ("k IN ('k1', 'k2')", 2), ("k = 'k1' AND n = 9", 1), ("n = 9", 4)):
        scan = opened.scan(["n"], filter=condition, options={"hoodie.index.type": "BUCKET"})
        expected = opened.scan(["n"], filter=condition).to_table()
        assert sorted(scan.to_table()["n"].to_pylist()) == sorted(expected["n"].to_pylist())
        assert len(scan.plan().splits) == most, condition


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_overwrites_and_deletes_of_partitions(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows([0, 1, 2, 3], 1), "upsert", BUCKETS, table_type=kind, **TABLE)
    run(path, rows([2, 4], 2), "insert_overwrite", BUCKETS, 2)
    assert snapshot(path) == [("k1", 1), ("k2", 2), ("k3", 1), ("k4", 2)]
    hudi_py.write(path, rows([1], 0), "delete_partition", BUCKETS)
    hudi_py.write(path, rows([1, 2], 3), "upsert", BUCKETS)
    assert snapshot(path) == [("k1", 3), ("k2", 3), ("k4", 2)]
    check_keys(path)
