"""Clusterings by turns: either side runs the plans of the other, and both read and write on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.services.clustering.service import Clustering
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.clustering_records import decode_clustering_plan
from hudi_py.wiring import serving
from tests.oracle.client import Oracle
from tests.support.choice import cases

pytestmark = pytest.mark.slow

SMALL = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.auto.delete.partitions": "false",
    "hoodie.time.generator.max_expected_clock_skew_ms": "20",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
}
TABLES = [
    (version, kind, planner) for version in (6, 8, 9) for kind in ("cow", "mor") for planner in ("ours", "theirs")
]


def rows(keys: range, ts: int) -> pa.Table:
    return pa.table(
        {
            "k": [f"k{key}" for key in keys],
            "p": ["b" if key % 2 else "a" for key in keys],
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "v": pa.array([None if key % 5 == 0 else key * 7919 % 101 for key in keys], pa.int64()),
        }
    )


@pytest.mark.parametrize(("version", "kind", "planner"), cases(TABLES, "clusterings by turns", 1))
def test_plans_of_one_side_are_carried_out_by_the_other(
    oracle: Oracle, tmp_path: Path, version: int, kind: str, planner: str
) -> None:
    path = str(tmp_path / "t")
    made: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": kind}
    hudi_py.write(path, rows(range(20), 1), "insert", SMALL, **made, table_version=version)
    oracle.write(path, rows(range(20, 40), 2), "insert", options=SMALL)
    hudi_py.write(path, rows(range(5, 30, 4), 3), "upsert", SMALL)
    before = hudi_py.open_table(path).scan().to_table()
    table = hudi_py.open_table(path, SMALL)
    if planner == "ours":
        instant = table.services.planned("clustering", sort_by="v,k").schedule()
        oracle.call(path, "run_clustering(op => 'execute', table => '{table}')", SMALL)
        assert table.clustering.pending() == []
    else:
        oracle.call(path, "run_clustering(op => 'schedule', order => 'v,k', table => '{table}')", SMALL)
        (instant,) = table.clustering.pending()
        report = table.clustering.run(instant)
        assert (report.num_replaced, report.num_files) == (4, 2)
    found = hudi_py.open_table(path).scan().to_table()
    assert_rows_equal(found.drop(["_hoodie_file_name"]), before.drop(["_hoodie_file_name"]))
    assert_rows_equal(oracle.read(path).select(found.column_names), found)
    for partition in "ab":
        (file,) = Path(path, partition).glob(f"*_{instant}.parquet")
        pairs = zip(*pq.read_table(file, columns=["v", "k"]).to_pydict().values(), strict=True)
        values = [(v is not None, v or 0, k) for v, k in pairs]
        assert values == sorted(values)
    assert oracle.check(path, keys=1, deep=True)["problems"] == []
    oracle.write(path, rows(range(0, 30, 3), 4), "upsert", options=SMALL)
    hudi_py.write(path, rows(range(0, 40, 7), 5), "upsert", SMALL)
    oracle.call(path, "run_clustering(table => '{table}')", SMALL)
    assert hudi_py.open_table(path, SMALL).cluster(layout="zorder", sort_by="v,ts").num_files == 2
    found = hudi_py.open_table(path).scan().to_table()
    assert found.num_rows == 40
    assert_rows_equal(oracle.read(path).select(found.column_names), found)
    assert oracle.check(path, keys=1, deep=True)["problems"] == []
    assert hudi_py.open_table(path).doctor(full=True).healthy


def test_the_plan_of_the_same_table(oracle: Oracle, tmp_path: Path) -> None:
    """With options that choose slices, partitions and sizes, and logs without a base file."""
    path = str(tmp_path / "t")
    made: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": "mor"}
    hudi_py.write(path, rows(range(20), 1), "insert", SMALL, **made)
    for first in range(20, 100, 20):
        hudi_py.write(path, rows(range(first, first + first // 5), 1), "insert", SMALL)
    prefix = "hoodie.clustering.plan.strategy."
    for options in (
        {},
        {f"{prefix}file.slices.sort.by": "INSTANT_TIME"},
        {f"{prefix}partition.regex.pattern": "b"},
        {f"{prefix}max.bytes.per.group": "900000", f"{prefix}target.file.max.bytes": "500000"},
        {f"{prefix}max.bytes.per.group": "1", f"{prefix}max.num.groups": "3"},
        {f"{prefix}class": "org.apache.hudi.client.clustering.plan.strategy.SparkSingleFileSortPlanStrategy"},
        {"hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS", f"{prefix}daybased.lookback.partitions": "1"},
        {
            "hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS",
            f"{prefix}daybased.skipfromlatest.partitions": "1",
        },
        {"hoodie.clustering.plan.partition.filter.mode": "SELECTED_PARTITIONS", f"{prefix}cluster.end.partition": "a"},
    ):
        plans = []
        for ours in (True, False):
            table = hudi_py.open_table(path, {**SMALL, **options})
            if ours:
                with serving(LocalStorage(path), {**SMALL, **options}, "clustering") as context:
                    Clustering(min_commits=1).schedule(context)  # as after a commit: on demand, all partitions count
            else:
                oracle.call(path, "run_clustering(op => 'schedule', table => '{table}')", {**SMALL, **options})
            (requested,) = Path(path, ".hoodie/timeline").glob("*.clustering.requested")
            plan = decode_clustering_plan(requested.read_bytes())
            assert plan is not None
            plans.append(plan)
            table.services.unschedule(requested.name.partition(".")[0])
        own, theirs = plans
        if f"{prefix}class" in options:  # their order is that of a listing
            assert {group.slices for group in own.groups} == {group.slices for group in theirs.groups}
        else:
            assert own.groups == theirs.groups, options
        assert own.strategy == theirs.strategy
        assert own.missing_partitions == theirs.missing_partitions, options
