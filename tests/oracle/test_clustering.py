"""Clusterings by turns: either side runs the plans of the other, and both read and write on."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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


PLAN = "hoodie.clustering.plan.strategy."
STREAM_COPY = {f"{PLAN}class": "org.apache.hudi.client.clustering.plan.strategy.SparkStreamCopyClusteringPlanStrategy"}


def both_run(oracle: Oracle, path: Path, options: dict[str, str]) -> tuple[list[pa.Table], list[pa.Table]]:
    """The new files of one plan as hudi-py and as Apache Hudi writes them."""
    instant = hudi_py.open_table(str(path), {**SMALL, **options}).clustering.schedule()
    assert instant is not None
    copied = path.with_name("ours")
    shutil.copytree(path, copied)
    hudi_py.open_table(str(copied), {**SMALL, **options}).clustering.run(instant)
    oracle.call(str(path), "run_clustering(op => 'execute', table => '{table}')", {**SMALL, **options})
    assert hudi_py.open_table(str(path)).clustering.pending() == []
    ours, theirs = ([pq.read_table(file) for file in place.glob(f"*_{instant}.parquet")] for place in (copied, path))
    return ours, theirs


def test_curves_by_ranks(oracle: Oracle, tmp_path: Path) -> None:
    """The order of rows equals Apache Hudi's where it is determined; otherwise range queries read as many rows."""
    chance, count = random.Random(7), 4_000
    columns = {name: chance.sample(range(-(10**7), 10**7), count) for name in ("x", "y")}
    data = pa.table(
        {
            "k": [f"k{key:05}" for key in range(count)],
            "ts": [1] * count,
            **columns,
            "d": pa.array([chance.gauss(0, 100) for _ in range(count)], pa.float64()),
            "s": [f"https://example.com/{chance.randrange(10**9)}" for _ in range(count)],
            "few": pa.array(
                [None if chance.random() < 0.02 else chance.randrange(40) for _ in range(count)], pa.int32()
            ),
            "flag": [chance.random() < 0.5 for _ in range(count)],
            "pad": [
                chance.randbytes(1_500) for _ in range(count)
            ],  # makes files whose sizes Apache Hudi estimates well
        }
    )
    source = tmp_path / "t"
    hudi_py.write(str(source), data, "insert", SMALL, record_key="k", ordering_by="ts")
    sampled = {"hoodie.layout.optimize.curve.build.method": "sample"}
    for number, (layout, names, more) in enumerate(
        (
            ("ZORDER", ("y", "x"), {}),
            ("HILBERT", ("x", "d", "y"), {}),
            ("ZORDER", ("x", "s"), {"hoodie.layout.optimize.build.curve.sample.size": "300"}),
        )
    ):
        path = tmp_path / f"same{number}" / "t"
        shutil.copytree(source, path)
        sorting = {f"{PLAN}sort.columns": ",".join(names), "hoodie.layout.optimize.strategy": layout, **sampled, **more}
        (ours,), (theirs,) = both_run(oracle, path, sorting)
        assert ours["k"].to_pylist() == theirs["k"].to_pylist(), (layout, names)
    for number, (layout, names) in enumerate((("HILBERT", ("few", "x")), ("ZORDER", ("flag", "few", "s")))):
        path = tmp_path / f"alike{number}" / "t"
        shutil.copytree(source, path)
        size = next(path.glob("*.parquet")).stat().st_size
        sorting = {f"{PLAN}sort.columns": ",".join(names), "hoodie.layout.optimize.strategy": layout, **sampled}
        ours, theirs = both_run(oracle, path, {**sorting, f"{PLAN}target.file.max.bytes": str(size * 2 // 31)})
        assert len(ours) == 16
        for name in names[-2:]:
            values = sorted(value for value in data[name].to_pylist() if value is not None)
            ranges = [(values[start], values[start + count // 50]) for start in range(0, len(values) - count // 50, 97)]
            own, java = (sum(_rows_read(files, name, low, high) for low, high in ranges) for files in (ours, theirs))
            assert own <= java * 1.05, (layout, name, own, java, len(theirs))


def _rows_read(files: list[pa.Table], name: str, low: object, high: object) -> int:
    """The rows of the files whose range of values overlaps another one."""
    found = 0
    for file in files:
        ends = pc.min_max(file[name]).as_py()
        if ends["min"] is not None and ends["min"] <= high and ends["max"] >= low:
            found += file.num_rows
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_plans_for_copying(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    """Files of several writers, whose Parquet schemas differ; each side runs the plan of the other."""
    path = str(tmp_path / "t")
    # Apache Hudi merges the bloom filters of the files that it copies, which must have the same size
    small = {**SMALL, "hoodie.index.bloom.num_entries": "60000"}
    made: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts", "table_type": kind}
    hudi_py.write(path, rows(range(20), 1), "insert", small, **made)
    oracle.write(path, rows(range(20, 44), 1), "insert", options=small)
    oracle.write(path, rows(range(44, 70), 1), "bulk_insert", options=small)
    hudi_py.write(path, rows(range(70, 98), 1), "insert", small)
    wider = rows(range(98, 128), 1).append_column("w", pa.array([1] * 30, pa.int64()))
    evolving = {**small, "hoodie.schema.on.read.enable": "false", "hoodie.datasource.write.reconcile.schema": "true"}
    hudi_py.write(path, wider, "insert", evolving)
    hudi_py.write(path, wider.slice(0, 8), "upsert", evolving)
    before = hudi_py.open_table(path).scan().to_table()
    found: dict[str, Any] = {}
    for options in (
        STREAM_COPY,
        {**STREAM_COPY, f"{PLAN}single.group.clustering.enabled": "false"},
        {**STREAM_COPY, f"{PLAN}file.slices.sort.by": "INSTANT_TIME"},
        {**STREAM_COPY, f"{PLAN}binary.copy.schema.evolution.enable": "true"},
        {**STREAM_COPY, f"{PLAN}max.num.groups": "1", f"{PLAN}max.bytes.per.group": "500000"},
    ):
        plans = []
        for ours in (True, False):
            table = hudi_py.open_table(path, {**small, **options})
            if ours:
                with serving(LocalStorage(path), {**small, **options}, "clustering") as context:
                    Clustering(min_commits=1).schedule(context)
            else:
                oracle.call(path, "run_clustering(op => 'schedule', table => '{table}')", {**small, **options})
            (requested,) = Path(path, ".hoodie/timeline").glob("*.clustering.requested")
            plan = decode_clustering_plan(requested.read_bytes())
            assert plan is not None
            plans.append(plan)
            table.services.unschedule(requested.name.partition(".")[0])
        own, theirs = plans
        assert [own.groups, own.strategy, own.missing_partitions, own.parameters] == [
            theirs.groups,
            theirs.strategy,
            theirs.missing_partitions,
            theirs.parameters,
        ], options
        found.setdefault("groups", len(own.groups))
    assert found["groups"] > 2
    for ours in (True, False):
        table = hudi_py.open_table(path, {**small, **STREAM_COPY})
        if ours:
            instant = table.clustering.schedule()
            oracle.call(path, "run_clustering(op => 'execute', table => '{table}')", {**small, **STREAM_COPY})
        else:
            options = {**small, **STREAM_COPY, "hoodie.table.services.incremental.enabled": "false"}
            oracle.call(path, "run_clustering(op => 'schedule', table => '{table}')", options)
            (instant,) = table.clustering.pending()
            table.clustering.run(instant)
        assert table.clustering.pending() == []
        assert list(Path(path).glob(f"?/*_{instant}.parquet"))
        after = hudi_py.open_table(path).scan().to_table()
        assert_rows_equal(after.drop(["_hoodie_file_name"]), before.drop(["_hoodie_file_name"]))
        assert_rows_equal(oracle.read(path).select(after.column_names), after)
        assert oracle.check(path, keys=1, deep=True)["problems"] == []
