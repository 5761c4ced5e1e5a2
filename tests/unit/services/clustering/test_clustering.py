"""Clusterings from plan to commit, on small tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import hudi_py
from hudi_py.cli.main import main
from hudi_py.config import Options
from hudi_py.errors import ConfigError, HistoryCleanedError, UnsupportedTableError
from hudi_py.inspect import procedure_report
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.services.clustering.plan import CLUSTERING_PLANS
from hudi_py.services.clustering.service import Clustering, ClusteringReport
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import execute_all, pending_instants, run, run_all
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.transaction.owner.claim import close_claim, holder
from hudi_py.wiring import service_target

PLAN = "hoodie.clustering.plan.strategy."
QUICK = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.time.generator.max_expected_clock_skew_ms": "20",
    "hoodie.clean.automatic": "false",
    "hoodie.datasource.compaction.async.enable": "true",
}
MADE: dict[str, Any] = {"record_key": "k", "partition_by": "p", "ordering_by": "ts"}
VERSIONS = [(6, "cow"), (6, "mor"), (8, "mor"), (9, "cow"), (9, "mor")]


def rows(keys: range, ts: int) -> pa.Table:
    """Even keys are in partition a, odd ones in b; every fifth has no value."""
    return pa.table(
        {
            "k": [f"k{key}" for key in keys],
            "p": ["b" if key % 2 else "a" for key in keys],
            "ts": [ts] * len(keys),
            "v": [None if key % 5 == 0 else key * 7919 % 101 for key in keys],
        }
    )


def write(path: str, data: pa.Table, operation: str = "insert", **options: str) -> None:
    hudi_py.write(path, data, operation, {**QUICK, **options})


def make(path: Path, version: int = 9, kind: str = "cow", **options: str) -> str:
    """Two partitions, each with two file groups, of which keys are updated and deleted."""
    made = {**MADE, "table_type": kind, "table_version": version}
    hudi_py.write(str(path), rows(range(30), 1), "insert", {**QUICK, **options}, **made)
    write(str(path), rows(range(30, 60), 2), **options)
    write(str(path), rows(range(10, 50, 3), 3), "upsert", **options)
    write(str(path), rows(range(0, 50, 11), 4), "delete", **options)
    return str(path)


def context(path: str, given: Mapping[str, str] | None = None) -> ServiceContext:
    options = Options.resolve({**QUICK, **(given or {})})
    return ServiceContext.of(service_target(LocalStorage(path), options))


def cluster(path: str, given: Mapping[str, str] | None = None) -> ClusteringReport:
    return run_all(Clustering(), context(path, given))


def read(path: str) -> pa.Table:
    return hudi_py.open_table(path).scan().to_table()


def without_name(table: pa.Table) -> pa.Table:
    return table.drop(["_hoodie_file_name"])


def plan_of(path: str, given: Mapping[str, str] | None = None, service: Clustering | None = None) -> ClusteringPlan:
    """The plan that would be made now; it is dropped again."""
    own = context(path, given)
    scheduled = (service or Clustering()).schedule(own)
    assert scheduled.instant is not None, scheduled.reason
    plan = CLUSTERING_PLANS.existing(own.storage, own.timeline(), scheduled.instant)
    hudi_py.open_table(path).services.unschedule(scheduled.instant)
    return plan


def commit(path: str) -> CommitMetadata:
    table = hudi_py.open_table(path)
    return read_commit_metadata(LocalStorage(path), table.timeline.layout, table.timeline.write_completed[-1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind"), VERSIONS)
def test_files_are_joined_and_sorted(tmp_path: Path, version: int, kind: str) -> None:
    """Rows keep their meta columns, files are sorted with nulls first, and indexes know the new files."""
    index = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    path = make(tmp_path / "t", version, kind, **index)
    before = read(path)
    report = cluster(path, {**index, f"{PLAN}sort.columns": "v,k"})
    assert (report.num_replaced, report.num_partitions, report.num_files) == (4, 2, 2)
    assert report.num_rows == before.num_rows
    table = hudi_py.open_table(path)
    after = table.scan().to_table()
    assert_rows_equal(without_name(after), without_name(before))
    names = set(after["_hoodie_file_name"].to_pylist())
    assert {name.split("_")[-1] for name in names} == {f"{report.instant}.parquet"}
    for partition in ("a", "b"):
        (file,) = (file for file in Path(path, partition).glob(f"*_{report.instant}.parquet"))
        found = pq.read_table(file)
        values = [
            (v is not None, v or 0, k) for v, k in zip(*found.select(["v", "k"]).to_pydict().values(), strict=True)
        ]
        assert values == sorted(values)
        assert set(found["_hoodie_file_name"].to_pylist()) == {file.name}
    done = commit(path)
    assert done.operation == "CLUSTER"
    assert {stat.prev_commit for stat in done.stats} == {"null"}
    assert not done.compacted
    assert set(done.extra) == {"schema"}
    assert table.metadata.verify().ok
    assert table.doctor(full=True).healthy
    write(path, rows(range(5, 70, 3), 9), "upsert", **index)
    keys = read(path)["k"].to_pylist()
    assert len(set(keys)) == len(keys)
    assert hudi_py.open_table(path).metadata.verify().ok


@pytest.mark.parametrize(
    "option",
    [{"hoodie.populate.meta.fields": "false"}, {"hoodie.table.cdc.enabled": "true"}],
    ids=["no meta columns", "changes"],
)
def test_kinds_of_tables(tmp_path: Path, option: dict[str, str]) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(range(30), 1), "insert", {**QUICK, **option}, **MADE)
    write(path, rows(range(30, 60), 2), **option)
    before = read(path)
    begin = hudi_py.open_table(path).timeline.write_completed[-1].completion_time
    report = cluster(path, {f"{PLAN}sort.columns": "k"})
    assert (report.num_replaced, report.num_files) == (4, 2)
    after = read(path)
    names = [name for name in after.column_names if name != "_hoodie_file_name"]
    assert_rows_equal(after.select(names), before.select(names))
    assert hudi_py.open_table(path).doctor(full=True).healthy
    if "hoodie.table.cdc.enabled" in option:
        assert hudi_py.open_table(path).scan(query_type="incremental", begin=begin).count() == 0
        changes = {"hoodie.datasource.query.incremental.format": "cdc"}
        assert hudi_py.open_table(path, changes).scan(query_type="incremental", begin=begin).count() == 0


def test_readers_of_other_times(tmp_path: Path) -> None:
    """Time travel sees the old files; a range that has only the clustering has no rows."""
    path = make(tmp_path / "t")
    before = read(path)
    table = hudi_py.open_table(path)
    last = table.timeline.write_completed[-1]
    cluster(path)
    table = hudi_py.open_table(path)
    assert_rows_equal(table.scan(as_of=last.time).to_table(), before)
    assert table.scan(query_type="incremental", begin=last.completion_time).count() == 0
    everything = table.scan(query_type="incremental", begin="000").to_table()
    assert_rows_equal(without_name(everything), without_name(before))


def test_without_columns_rows_keep_their_order(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    (group,) = plan_of(path, {f"{PLAN}partition.selected": "a"}).groups
    expected = [key for each in group.slices for key in pq.read_table(Path(path, "a", each.files[0]))["k"].to_pylist()]
    report = cluster(path, {f"{PLAN}partition.selected": "a"})
    (file,) = Path(path, "a").glob(f"*_{report.instant}.parquet")
    assert pq.read_table(file)["k"].to_pylist() == expected
    sorting = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    report = cluster(path, {f"{PLAN}partition.selected": "a", **sorting})
    (file,) = Path(path, "a").glob(f"*_{report.instant}.parquet")
    assert pq.read_table(file)["k"].to_pylist() == sorted(expected)


def test_sizes_of_new_files(tmp_path: Path) -> None:
    """Files are not larger than the target, and do not overlap if they are sorted."""
    path = str(tmp_path / "t")
    count = 40_000
    noise = pa.array([f"{(number * 2654435761) % (1 << 32):08x}" for number in range(count)])
    data = pa.table({"k": noise, "p": ["a"] * count, "ts": [1] * count})
    hudi_py.write(path, data, "bulk_insert", QUICK, **MADE)
    (size,) = (file.stat().st_size for file in Path(path, "a").glob("*.parquet"))
    target = {f"{PLAN}target.file.max.bytes": str(size * 2 // 5)}
    report = cluster(path, {**target, f"{PLAN}sort.columns": "k"})
    new = list(Path(path, "a").glob(f"*_{report.instant}.parquet"))
    files = sorted(pq.read_table(file, columns=["k"])["k"].to_pylist() for file in new)
    assert report.num_files == len(files) >= 3
    assert max(file.stat().st_size for file in new) <= size * 2 // 5
    assert [key for keys in files for key in keys] == sorted(noise.to_pylist())
    unsorted = cluster(path, {**target, f"{PLAN}small.file.limit": str(1 << 40)})
    assert unsorted.num_files >= 3
    one = {f"{PLAN}class": "SparkSingleFileSortPlanStrategy"}
    one["hoodie.clustering.execution.strategy.class"] = "SparkSingleFileSortExecutionStrategy"
    single = cluster(path, {**target, **one, f"{PLAN}sort.columns": "k"})
    assert (single.num_replaced, single.num_files) == (unsorted.num_files, unsorted.num_files)
    assert sorted(read(path)["k"].to_pylist()) == sorted(noise.to_pylist())


def test_rows_beyond_the_memory_are_spilled(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    before = read(path)
    cluster(path, {f"{PLAN}sort.columns": "v", "hoodie.py.write.memory.max.bytes": "1000"})
    assert_rows_equal(without_name(read(path)), without_name(before))
    assert hudi_py.open_table(path).doctor(full=True).healthy


def test_curves(tmp_path: Path) -> None:
    """A plan says what layout it was made for, and is run by it, whatever the options of who runs it."""
    path = make(tmp_path / "t")
    before = read(path)
    options = {f"{PLAN}sort.columns": "v,ts", "hoodie.layout.optimize.strategy": "z-order"}
    plan = plan_of(path, options)
    assert plan.parameters == {f"{PLAN}sort.columns": "v,ts", "hoodie.layout.optimize.strategy": "ZORDER"}
    scheduled = Clustering().schedule(context(path, options))
    assert scheduled.instant is not None
    run(Clustering(), context(path))
    assert_rows_equal(without_name(read(path)), without_name(before))
    (file,) = Path(path, "a").glob(f"*_{scheduled.instant}.parquet")
    values = pq.read_table(file)["v"].to_pylist()
    assert values != sorted(values, key=lambda value: (value is not None, value or 0))


def test_a_plan_without_a_layout(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Apache Hudi's are."""
    path = make(tmp_path / "t")
    Clustering().schedule(context(path, {f"{PLAN}sort.columns": "v,ts"}))
    with caplog.at_level(logging.WARNING):
        run(Clustering(), context(path, {"hoodie.layout.optimize.strategy": "HILBERT"}))
    assert "its plan has none" in caplog.text


# -- plans


def groups(plan: ClusteringPlan) -> list[tuple[str, int]]:
    """Partition and number of slices of each group."""
    return [(group.slices[0].partition_path, len(group.slices)) for group in plan.groups]


def test_limits_of_groups(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hudi_py.write(path, rows(range(0, 6), 1), "insert", QUICK, **MADE)
    for first in range(6, 24, 6):
        write(path, rows(range(first, first + 6), 1))
    size = max(file.stat().st_size for file in Path(path).glob("[ab]/*.parquet"))
    assert groups(plan_of(path)) == [("a", 4), ("b", 4)]
    assert groups(plan_of(path, {f"{PLAN}max.bytes.per.group": str(2 * size)})) == [("a", 2)] * 2 + [("b", 2)] * 2
    assert groups(plan_of(path, {f"{PLAN}max.bytes.per.group": "1"})) == [("a", 1)] * 4 + [("b", 1)] * 4
    few = plan_of(path, {f"{PLAN}max.bytes.per.group": "1", f"{PLAN}max.num.groups": "3"})
    assert groups(few) == [("a", 1)] * 3
    assert few.missing_partitions == ("a", "b")
    whole = plan_of(path, {f"{PLAN}max.bytes.per.group": str(2 * size), f"{PLAN}max.num.groups": "2"})
    assert whole.missing_partitions == ("b",)
    single = {f"{PLAN}max.bytes.per.group": "1", f"{PLAN}single.group.clustering.enabled": "false"}
    scheduled = Clustering().schedule(context(path, single))
    assert (scheduled.instant, "no file group is small enough" in scheduled.reason) == (None, True)
    assert groups(plan_of(path, {f"{PLAN}class": "SparkSingleFileSortPlanStrategy"})) == [("a", 1)] * 4 + [("b", 1)] * 4
    assert Clustering().schedule(context(path, {f"{PLAN}small.file.limit": "1"})).instant is None
    sizes = [Path(path, "a", each.files[0]).stat().st_size for each in plan_of(path).groups[0].slices]
    assert sizes == sorted(sizes, reverse=True)
    by_time = plan_of(path, {f"{PLAN}file.slices.sort.by": "instant_time"}).groups[0].slices
    times = [each.files[0].split("_")[-1] for each in by_time]
    assert times == sorted(times)


def test_slices_of_logs_alone_are_candidates(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    index = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX", "hoodie.metadata.record.index.enable": "true"}
    hudi_py.write(path, rows(range(6), 1), "upsert", {**QUICK, **index}, **MADE, table_type="mor")
    write(path, rows(range(6), 2), "upsert", **index)
    before = read(path)
    plan = plan_of(path, index)
    assert groups(plan) == [("a", 1), ("b", 1)]
    assert [group.metrics["TOTAL_LOG_FILES"] for group in plan.groups] == [1.0, 1.0]
    cluster(path, index)
    assert_rows_equal(without_name(read(path)), without_name(before))
    assert hudi_py.open_table(path).doctor(full=True).healthy


STREAM_COPY = {f"{PLAN}class": "SparkStreamCopyClusteringPlanStrategy"}


def test_plans_for_copying(tmp_path: Path) -> None:
    """A group ends where the schema of files changes. Rows keep their order, and each group becomes one file."""
    path = str(tmp_path / "t")
    schemas = {0: [], 1: ["w"], 2: ["w"], 3: []}
    for turn, names in schemas.items():
        data = rows(range(turn * 30, turn * 30 + 20 + turn), turn)
        for name in names:
            data = data.append_column(name, pa.array([1] * len(data)))
        evolving = {"hoodie.datasource.write.reconcile.schema": "true"}
        hudi_py.write(path, data, "insert", {**QUICK, **evolving}, record_key="k", ordering_by="ts")
    bulky = {f"{PLAN}target.file.max.bytes": "1", "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    plan = plan_of(path, {**STREAM_COPY, f"{PLAN}file.slices.sort.by": "INSTANT_TIME", **bulky})
    assert plan.strategy.endswith(".run.strategy.SparkStreamCopyClusteringExecutionStrategy")
    assert [group.num_outputs > 1 for group in plan.groups] == [True] * len(plan.groups)
    sizes = [Path(path, each.files[0]).stat().st_size for group in plan.groups for each in group.slices]
    assert sizes == sorted(sizes, reverse=True)
    for group in plan.groups:
        assert len({str(pq.read_schema(Path(path, each.files[0])).remove_metadata()) for each in group.slices}) == 1
    assert len(groups(plan_of(path, {**STREAM_COPY, f"{PLAN}binary.copy.schema.evolution.enable": "true"}))) == 1
    before, expected = read(path), [[*_keys_of(path, group)] for group in plan.groups]
    report = cluster(path, {**STREAM_COPY, **bulky})
    assert report.num_files == len(plan.groups)
    found = [pq.read_table(file)["k"].to_pylist() for file in Path(path).glob(f"*_{report.instant}.parquet")]
    assert sorted(found) == sorted(expected)
    assert_rows_equal(without_name(read(path)), without_name(before))
    size = sum(file.stat().st_size for file in Path(path).glob(f"*_{report.instant}.parquet"))
    sorting = {f"{PLAN}sort.columns": "v", f"{PLAN}target.file.max.bytes": f"{-(-size // 3)}"}
    report = cluster(path, {**STREAM_COPY, f"{PLAN}binary.copy.schema.evolution.enable": "true", **sorting})
    assert report.num_files > 1  # rows that are sorted cannot be copied
    assert hudi_py.open_table(path).doctor(full=True).healthy


def _keys_of(path: str, group: ClusteringGroup) -> Iterator[str]:
    for each in group.slices:
        yield from pq.read_table(Path(path, each.files[0]))["k"].to_pylist()


def test_partitions_of_a_plan(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    days = [f"2026-01-0{day}" for day in range(1, 6)]
    data = pa.table({"k": [f"k{day}" for day in days], "p": days, "ts": [1] * 5})
    hudi_py.write(path, data, "insert", QUICK, **MADE)

    def planned(**options: str) -> tuple[str, list[str]]:
        given = {key.replace("__", "."): value for key, value in options.items()}
        mode = given.pop("mode", "NONE")
        named = {f"{PLAN}{key}": value for key, value in given.items()}
        plan = plan_of(path, {"hoodie.clustering.plan.partition.filter.mode": mode, **named})
        found = "".join(partition[-1] for partition, _ in groups(plan))
        return found, list("".join(each[-1] for each in plan.missing_partitions or ()))

    assert planned() == ("12345", [])
    assert planned(mode="recent_days") == ("45", ["1", "2", "3"])
    assert planned(**{"class": "SparkRecentDaysClusteringPlanStrategy"}) == ("45", ["1", "2", "3"])
    lookback = {"daybased__lookback__partitions": "0", "daybased__skipfromlatest__partitions": "2"}
    assert planned(mode="RECENT_DAYS", **lookback) == ("123", ["4", "5"])
    begin, end = {"cluster__begin__partition": days[1]}, {"cluster__end__partition": days[3]}
    assert planned(mode="SELECTED_PARTITIONS", **begin, **end)[0] == "234"
    assert planned(mode="SELECTED_PARTITIONS", **begin)[0] == "2345"
    selecting = {"class": "SparkSelectedPartitionsClusteringPlanStrategy"}
    assert planned(**selecting, **begin, **end)[0] == "234"
    assert planned(partition__regex__pattern=".*-0[24]") == ("24", ["1", "3", "5"])
    assert planned(partition__selected=f"{days[4]},{days[0]},none", partition__regex__pattern="x")[0] == "15"
    with pytest.raises(ConfigError, match="skips the latest 6 partitions"):
        planned(mode="RECENT_DAYS", daybased__skipfromlatest__partitions="6")
    hour = context(path).session.zone
    assert hour is not None
    rolling = {"hoodie.clustering.plan.partition.filter.mode": "DAY_ROLLING"}
    scheduled = Clustering().schedule(context(path, rolling))
    if scheduled.instant is not None:  # the hour of the day is one of the first five
        assert len({row["partition"] for row in hudi_py.open_table(path).services.pending().to_pylist()}) == 1


def test_later_plans_after_commits_have_what_has_changed(tmp_path: Path) -> None:
    """And the partitions that the last plan left out."""
    path = make(tmp_path / "t")
    after = Clustering(min_commits=1)
    cluster(path, {f"{PLAN}partition.selected": "a"})
    assert after.preview(context(path)).reason.startswith("0 commits since the last clustering, due after 1")
    write(path, rows(range(100, 102), 5).slice(0, 1))
    assert groups(plan_of(path, service=after)) == [("a", 2), ("b", 2)]
    whole = {"hoodie.table.services.incremental.enabled": "false"}
    assert plan_of(path, whole, after).missing_partitions is None
    cluster(path)
    write(path, rows(range(102, 103), 6))
    assert groups(plan_of(path, service=after)) == [("a", 2)]


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_after_commits(tmp_path: Path, version: int, kind: str) -> None:
    path = str(tmp_path / "t")
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"}

    def actions() -> list[str]:
        operations = []
        table = hudi_py.open_table(path)
        for instant in table.timeline.write_completed:
            operations.append(read_commit_metadata(LocalStorage(path), table.timeline.layout, instant).operation)
        return operations

    made = {**MADE, "table_type": kind, "table_version": version}
    hudi_py.write(path, rows(range(4), 1), "insert", {**QUICK, **inline}, **made)
    for turn in range(1, 4):
        write(path, rows(range(4 * turn, 4 * turn + 4), 1), **inline)
    assert actions() == ["INSERT", "INSERT", "CLUSTER", "INSERT", "INSERT", "CLUSTER"]
    planning = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.async.max.commits": "1"}
    write(path, rows(range(16, 20), 1), **planning)
    write(path, rows(range(20, 24), 1), **planning)
    assert len(pending_instants(Clustering(), context(path))) == 1
    table = hudi_py.open_table(path, QUICK)
    (due,) = (each for each in table.services.due() if each.service == "clustering")
    assert (due.due, len(due.pending)) == (True, 1)
    (due,) = (each for each in table.services.due(options=planning) if each.service == "clustering")
    assert (due.due, due.reason.startswith("1 commit since")) == (True, False)
    write(path, rows(range(24, 28), 1), **inline)
    assert pending_instants(Clustering(), context(path)) == []
    assert read(path).num_rows == 28
    with pytest.raises(ConfigError, match="set only one of them"):
        write(path, rows(range(1), 1), **planning, **inline)


# -- attempts


def test_a_failed_attempt_is_run_again(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    own = context(path, {f"{PLAN}sort.columns": "v"})
    service = Clustering()
    scheduled = service.schedule(own)
    assert scheduled.instant is not None
    work = service.begin(own, scheduled.instant)
    service.execute(own, work, [0])
    files = set(Path(path).glob(f"*/*_{scheduled.instant}.parquet"))
    assert files
    service.give_up(own, work)
    assert not any(file.exists() for file in files)
    assert pending_instants(service, own) == [scheduled.instant]
    before = read(path)
    assert run_all(service, own).instant is not None
    assert_rows_equal(without_name(read(path)), without_name(before))


def test_tasks_in_other_processes(tmp_path: Path) -> None:
    """Units run in any order, some twice; only the files that are reported stay."""
    path = make(tmp_path / "t", kind="mor")
    before = read(path)
    own, service = context(path), Clustering(local=False)
    scheduled = service.schedule(own)
    assert scheduled.instant is not None
    work = service.begin(own, scheduled.instant)
    assert work.num_tasks == 2
    outcomes = [service.execute(context(path), work, [number])[0] for number in (1, 0, 1)]
    report = service.commit(context(path), work, outcomes)
    assert report.num_files == 2
    assert len(list(Path(path).glob(f"*/*_{scheduled.instant}.parquet"))) == 2
    assert_rows_equal(without_name(read(path)), without_name(before))


def test_a_missing_file(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    own = context(path)
    Clustering().schedule(own)
    row = hudi_py.open_table(path).services.pending().to_pylist()[0]
    Path(path, row["partition"], row["files"][0]).unlink()
    with pytest.raises(HistoryCleanedError, match="of the plan is missing"):
        run(Clustering(), own)


def test_rollback_of_a_clustering(tmp_path: Path) -> None:
    """The old file groups are back, and no plan blocks them."""
    path = make(tmp_path / "t")
    before = read(path)
    report = cluster(path)
    table = hudi_py.open_table(path)
    table.rollback(str(report.instant))
    assert_rows_equal(read(path), before)
    assert pending_instants(Clustering(), context(path)) == []
    write(path, rows(range(1, 2), 9), "upsert")
    assert hudi_py.open_table(path).doctor(full=True).healthy


def test_cleaned_after_a_clustering(tmp_path: Path) -> None:
    path = make(tmp_path / "t", kind="mor")
    cluster(path)
    write(path, rows(range(60, 64), 5))
    before = read(path)
    hudi_py.open_table(path).clean(options={"hoodie.clean.commits.retained": "1"})
    assert_rows_equal(read(path), before)
    assert len(list(Path(path).glob("*/*.parquet"))) == 4
    assert hudi_py.open_table(path).metadata.verify().ok


# -- what is refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({f"{PLAN}sort.columns": "absent"}, ConfigError, "by absent: its columns are"),
        ({f"{PLAN}sort.columns": "l"}, UnsupportedTableError, "by 'l' with the layout LINEAR"),
        (
            {f"{PLAN}sort.columns": "v,t", "hoodie.layout.optimize.strategy": "zorder"},
            UnsupportedTableError,
            "by 't' with the layout ZORDER",
        ),
        ({"hoodie.index.type": "BUCKET"}, UnsupportedTableError, "rows belong to the file groups of their buckets"),
        ({f"{PLAN}class": "SparkConsistentBucketClusteringPlanStrategy"}, UnsupportedTableError, "use resize_buckets"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, str], error: type[Exception], message: str) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"k": ["x"], "p": ["a"], "ts": [1], "v": [1], "l": [[1]], "t": pa.array([1], pa.timestamp("us"))})
    hudi_py.write(path, data, "insert", QUICK, **MADE)
    with pytest.raises(error, match=message):
        Clustering().schedule(context(path, options))
    assert pending_instants(Clustering(), context(path)) == []


def test_buckets_are_not_clustered(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    hudi_py.write(path, rows(range(8), 1), "insert", {**QUICK, **buckets}, **MADE)
    with pytest.raises(ConfigError, match="bucket"):
        Clustering().schedule(context(path))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (f"{PLAN}class", "CommitBasedClusteringPlanStrategy", "cannot be read"),
        ("hoodie.clustering.execution.strategy.class", "com.example.Own", "expected SparkSortAndSize"),
        ("hoodie.layout.optimize.curve.build.method", "guess", "DIRECT, SAMPLE"),
        ("hoodie.layout.optimize.strategy", "SPIRAL", "one of LINEAR, ZORDER, HILBERT"),
        (f"{PLAN}file.slices.sort.by", "NAME", "SIZE, INSTANT_TIME"),
        ("hoodie.clustering.async.enabled", "true", "hoodie.clustering.schedule.inline"),
    ],
)
def test_options_that_are_not_built(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        context("nowhere", {key: value})


def test_a_plan_of_an_unknown_class(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    own = context(path)
    scheduled = Clustering().schedule(own)
    assert scheduled.instant is not None
    plan = CLUSTERING_PLANS.existing(own.storage, own.timeline(), scheduled.instant)
    other = ClusteringPlan(plan.groups, "com.example.OwnStrategy")
    CLUSTERING_PLANS.rewrite(own.storage, own.timeline(), scheduled.instant, other)
    with pytest.raises(UnsupportedTableError, match="asks for the class com.example.OwnStrategy"):
        execute_all(Clustering(), own, Clustering().begin(own, scheduled.instant))
    assert own.timeline().find(scheduled.instant, Action.CLUSTERING) is not None


def test_empty_groups(tmp_path: Path) -> None:
    """All rows of a group are deleted by its logs: it is replaced by nothing."""
    path = make(tmp_path / "t", kind="mor")
    keys = read(path)
    write(path, keys.filter(pc.equal(keys["p"], "a")).select(["k", "p", "ts", "v"]), "delete")
    report = cluster(path, {f"{PLAN}sort.columns": "v"})
    assert (report.num_replaced, report.num_files) == (4, 1)
    assert set(read(path)["p"].to_pylist()) == {"b"}
    assert hudi_py.open_table(path).doctor(full=True).healthy


@pytest.mark.parametrize("version", [6, 9])
def test_whose_attempt_it_is(tmp_path: Path, version: int) -> None:
    """Also while it commits, when no more files are accepted: a dead process is not waited for."""
    path = make(tmp_path / "t", version)
    own, service = context(path), Clustering()
    scheduled = service.schedule(own)
    assert scheduled.instant is not None
    work = service.begin(own, scheduled.instant)
    close_claim(own.storage, work.instant)
    (instant,) = service.planned(PendingPlans(own.storage, own.timeline()))
    found = holder(own.storage, own.timeline().layout, instant.time, instant.action)
    assert found is not None
    assert found.id == work.attempt.owner.id
    service.give_up(own, work)


# -- doors


def test_the_methods_of_a_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    table = hudi_py.open_table(path, QUICK)
    report = table.cluster(sort_by=["v", "ts"], layout="hilbert", partitions="a")
    assert (report.num_replaced, report.num_partitions) == (2, 1)
    assert str(report).startswith(f"clustering {report.instant}: 2 file groups replaced by 1 file, in 1 partition, ")
    planned = table.services.run("clustering", phase="schedule", sort_by="k").instant
    assert planned is not None
    assert table.clustering.pending() == [planned]
    assert {row["service"] for row in table.services.pending().to_pylist()} == {"clustering"}
    assert table.clustering.run(planned).num_partitions == 2
    assert len(table.clustering.preview().rows) == 2
    with pytest.raises(ConfigError, match="one of LINEAR, ZORDER, HILBERT"):
        table.cluster(layout="spiral")
    with pytest.raises(ConfigError, match="by nothing: its columns are"):
        table.cluster(sort_by="nothing")
    shown = procedure_report(path, Options.resolve({}), "show_clustering", {"show_involved_partition": True})
    assert [tuple(row.values()) for row in shown.to_pylist()] == [
        (planned, 2, "COMPLETED", "a,b,b"),
        (report.instant, 1, "COMPLETED", "a,a"),
    ]


def test_what_a_call_asks_for_is_checked_against_the_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path)
    hudi_py.write(path, rows(range(4), 1), "insert", QUICK, **MADE)
    table = hudi_py.open_table(path)
    with pytest.raises(
        ConfigError, match=r"partition 'c' of the table '.*', which does not exist; partitions: 'a', 'b'"
    ):
        table.cluster(partitions="a,c")
    with pytest.raises(ConfigError, match="layout ZORDER and no columns to sort by"):
        table.cluster(layout="zorder")
    assert not caplog.records
    assert table.cluster(sort_by="v", layout="hilbert").num_partitions == 2
    assert "the layout HILBERT sorts nothing by the column v alone" in caplog.text


def test_the_command(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    found = CliRunner().invoke(main, ["cluster", path, "--dry-run"]).output
    assert "4 file groups" in found
    sorting = ["-o", f"{PLAN}sort.columns=v,k"]
    assert "4 file groups replaced by 2 files" in CliRunner().invoke(main, ["cluster", path, *sorting]).output
    done = CliRunner().invoke(main, ["run", path, "clustering", "--sort-by", "k", "--partitions", "b"])
    assert "1 file group replaced by 1 file, in 1 partition" in done.output
