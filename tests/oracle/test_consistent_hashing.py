"""Consistent hashing by turns: either side finds the buckets of the other, also after either has split some."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.oracle.test_bucket_index import QUICK, batch, changed
from tests.support.choice import cases, in_turn
from tests.unit.write.test_consistent_hashing import check_keys

pytestmark = pytest.mark.slow

BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.bucket.index.max.num.buckets": "6",
    "hoodie.bucket.index.min.num.buckets": "2",
}
SPLITTING = {
    **BUCKETS,
    "hoodie.parquet.max.file.size": "1000",
    "hoodie.bucket.index.split.threshold": "1.0",
    "hoodie.clustering.plan.strategy.class": "org.apache.hudi.client.clustering.plan.strategy."
    "SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": "org.apache.hudi.client.clustering.run.strategy."
    "SparkConsistentBucketClusteringExecutionStrategy",
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy."
    "SparkConsistentBucketDuplicateUpdateStrategy",
}


RESIZING = {
    **BUCKETS,
    "hoodie.parquet.max.file.size": "1000",
    "hoodie.bucket.index.split.threshold": "1.0",
    "hoodie.bucket.index.merge.threshold": "900",
    "hoodie.bucket.index.max.num.buckets": "12",
}


MERGING = {"hoodie.bucket.index.merge.threshold": "900"}


@pytest.mark.parametrize(
    ("version", "ours"), cases([(v, ours) for v in (6, 9) for ours in (True, False)], "plans of hash buckets", 1)
)
def test_plans_of_one_side_are_carried_out_by_the_other(
    oracle: Oracle, tmp_path: Path, version: int, ours: bool
) -> None:
    """Splits and merges of one side, planned by the other; both then find the buckets, and write on."""
    chance = random.Random(f"{version} {ours}")
    path = str(tmp_path / "t")
    rows: dict[str, int] = {}
    made: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}

    def write(turn: int) -> None:
        nonlocal rows
        data = batch(chance, turn, rows, marks=False)
        if turn % 2:
            first = {**made, "table_version": version} if turn == 1 else {}
            hudi_py.write(path, data, "upsert", {**BUCKETS, **QUICK}, **first)
        else:
            oracle.write(path, data, "upsert", options=BUCKETS)
        rows = changed(rows, "upsert", data)

    for turn in (1, 2, 3):
        write(turn)
    table = hudi_py.open_table(path, {**BUCKETS, **QUICK})
    resizing = {**SPLITTING, **RESIZING, "hoodie.bucket.index.merge.threshold": "0.5"}
    for changes in (resizing, {**resizing, "hoodie.bucket.index.split.threshold": "900", **MERGING}):
        if ours:
            oracle.call(path, "run_clustering(op => 'schedule', table => '{table}')", changes)
            assert len(table.bucket_resizing.pending()) == 1
            report = table.bucket_resizing.run(options=changes)
            assert report.num_split + report.num_merged > 0
        else:
            instant = table.bucket_resizing.schedule(options=changes)
            assert instant is not None
            oracle.call(path, "run_clustering(op => 'execute', table => '{table}')", changes)
        assert table.bucket_resizing.pending() == []
        found = table.scan(["k", "ts"]).to_table()
        assert dict(zip(*found.to_pydict().values(), strict=True)) == rows
        assert found.num_rows == len(rows)
        check_keys(path)
        for turn in (4, 5):
            write(turn)
        check_keys(path)
    assert oracle.check(path, keys=1, deep=True)["problems"] == []
    theirs = oracle.read(path, columns=["k", "ts"])
    assert dict(zip(theirs["k"].to_pylist(), theirs["ts"].to_pylist(), strict=True)) == rows
    assert theirs.num_rows == len(rows)


@in_turn("what writers keep up", 2, 4, chosen=None)
@pytest.mark.parametrize(
    ("version", "ours_first"), cases([(v, ours) for v in (6, 8, 9) for ours in (True, False)], "hash buckets", 1)
)
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, ours_first: bool) -> None:
    chance = random.Random(f"{version} {ours_first}")
    path = str(tmp_path / "t")
    rows: dict[str, int] = {}

    def check(*step: object) -> None:
        found = hudi_py.open_table(path).scan(["k", "ts"]).to_table()
        assert found.num_rows == len(rows), step
        assert dict(zip(*found.to_pydict().values(), strict=True)) == rows, step

    steps = ["upsert", "upsert", "delete", "upsert", "upsert", "upsert", "overwrite", "upsert", "upsert"]
    for turn, operation in enumerate(steps, 1):
        data = batch(chance, turn, rows, marks=operation == "upsert")
        if operation == "overwrite":  # only ours: Apache Hudi writes to the file groups that it replaces
            operation = "insert_overwrite_table"
            hudi_py.write(path, data, operation, {**BUCKETS, **QUICK})
        elif (turn % 2 == 1) == ours_first:
            made = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
            first: dict[str, Any] = {**made, "table_version": version} if turn == 1 else {}
            hudi_py.write(path, data, operation, {**BUCKETS, **QUICK}, **first)
        else:
            names: dict[str, Any] = {
                "key": "k",
                "partition": "p",
                "ordering": "ts",
                "type": "mor",
                "table_version": version,
            }
            oracle.write(path, data, operation, options=BUCKETS, **(names if turn == 1 else {}))
        rows = changed(rows, operation, data)
        check(turn, operation)
        if turn == 3:
            check_keys(path)
            if ours_first:
                hudi_py.open_table(path).compact(options={**BUCKETS, **QUICK})
            else:
                oracle.call(path, "run_compaction(op => 'scheduleAndExecute', table => '{table}')", BUCKETS)
            oracle.call(path, "run_clustering(op => 'scheduleAndExecute', table => '{table}')", SPLITTING)
            assert list(Path(path, ".hoodie/.bucket_index").rglob("2*.hashing_meta")), "no bucket was split"
            check(turn, "services")
        if turn == 5:
            assert hudi_py.open_table(path, {**BUCKETS, **QUICK}).resize_buckets(options=RESIZING).instant is not None
            check(turn, "resized by hudi-py")
    assert oracle.check(path, keys=1, deep=True)["problems"] == []
    theirs = oracle.read(path, columns=["k", "ts"])
    assert theirs.num_rows == len(rows)
    assert dict(zip(theirs["k"].to_pylist(), theirs["ts"].to_pylist(), strict=True)) == rows
