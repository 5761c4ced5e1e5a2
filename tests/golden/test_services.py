"""Tables after services of Apache Hudi 1.2.0: see services/README.md."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConflictError
from hudi_py.schema import with_meta
from hudi_py.services.archive.service import archive_commits
from hudi_py.services.clustering.order import RowOrder
from hudi_py.services.clustering.service import Clustering
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.clustering_records import decode_clustering_plan, encode_clustering_plan
from hudi_py.timeline.history import newest_manifest
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.records import decode_record, encode_record
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from hudi_py.wiring import service_target
from hudi_py.write.rows.ordered import OrderedRows
from tests.golden.tables import load
from tests.support import archives

DATA = Path(__file__).resolve().parent / "services"
UPGRADED, TTL = "upgraded_8_to_9_archived", "ttl_v9_mor"
RESIZE, CLUSTERING = "consistent_resize_v9_pending", "clustering_v9_mor_pending"
CLUSTERED = "clustering_v6_mor"
FOUND = {TTL: ["timeline.twice_completed"], RESIZE: ["timeline.planned"], CLUSTERING: ["timeline.planned"]}
"""What the doctor finds in a table."""
_PLANNED = "20261126132036403"
"""The plan of `RESIZE`."""
CONSISTENT = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
Copy = Callable[[str], str]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """`copy(name)` is the path of a table that the test may change."""

    def extract(name: str) -> str:
        archives.extract(DATA / name / "table.tar.gz", tmp_path)
        return str(tmp_path / name)

    return extract


@pytest.mark.parametrize("name", [TTL, RESIZE, CLUSTERING])
def test_exported(copy: Copy, tmp_path: Path, name: str) -> None:
    """Also a table whose writers write to the buckets of a pending resize, too."""
    table = hudi_py.open_table(copy(name))
    table.export(tmp_path / "copy")
    exported = hudi_py.open_table(tmp_path / "copy", CONSISTENT if name == RESIZE else None)
    assert_rows_equal(exported.scan().to_table(), table.scan().to_table())
    if name == RESIZE:
        assert exported.bucket_resizing.run().instant == _PLANNED
        columns = ["id", "_hoodie_commit_time"]
        assert_rows_equal(exported.scan(columns).to_table(), table.scan(columns).to_table())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [UPGRADED, TTL, RESIZE, CLUSTERING, CLUSTERED])
def test_rows_are_those_of_apache_hudi(name: str, copy: Copy) -> None:
    expected = pq.read_table(DATA / name / "expected.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the metadata table serves
        table = hudi_py.open_table(copy(name))
        assert_rows_equal(table.scan().to_table(), expected)
    assert table.metadata.verify().ok
    diagnosis = table.doctor(full=True)
    assert diagnosis.healthy, str(diagnosis)
    assert [finding.code for finding in diagnosis.findings] == FOUND.get(name, [])


def test_a_history_that_an_upgrade_wrote(copy: Copy) -> None:
    """Its runs hold instants that are older and newer than those of their names."""
    path = copy(UPGRADED)
    table = hudi_py.open_table(path, {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"})
    found = table.instants(archived=True).to_pylist()
    assert len(found) == 29
    assert [each["instant"] for each in found] == sorted(each["instant"] for each in found)
    rows = table.scan().to_table()
    assert_rows_equal(table.scan(query_type="incremental", begin="000").to_table(), rows)
    archived = [each for each in found if each["instant"] <= "20261121014536167" and each["action"] == "commit"]
    assert len(archived) == 12
    for commit in archived[::3]:
        begin = commit["completion_time"]
        later = pa.array([each["instant"] for each in found if each["completion_time"] > begin])
        expected = rows.filter(pc.is_in(rows["_hoodie_commit_time"], value_set=later))
        assert_rows_equal(table.scan(query_type="incremental", begin=begin).to_table(), expected)


def test_a_history_that_an_upgrade_wrote_goes_on(copy: Copy) -> None:
    """What is archived later is found, also after its runs were merged into one of the next level."""
    path = copy(UPGRADED)
    before = set(hudi_py.open_table(path).instants(archived=True)["instant"].to_pylist())
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table = hudi_py.open_table(path, {**options, "hoodie.timeline.compaction.batch.size": "2"})
    row = table.scan().to_table().slice(0, 1)
    row = row.drop_columns([name for name in row.column_names if name.startswith("_hoodie")])
    for _ in range(4):
        table.upsert(row)
    table = hudi_py.open_table(path)
    assert before < set(table.instants(archived=True)["instant"].to_pylist())
    runs = newest_manifest(LocalStorage(path), ".hoodie/timeline/history").runs
    assert any(run.level for run in runs)
    assert all(run.first <= run.last for run in runs if run.level)
    assert table.doctor().healthy


def test_an_instant_that_was_completed_twice(copy: Copy) -> None:
    path = copy(TTL)
    table = hudi_py.open_table(path)
    instant = table.timeline.write_completed[-1]
    assert instant.completion_time == "20261126131925617"
    assert table.scan(query_type="incremental", begin="20261126131925617").count() == 0
    before = table.scan(as_of=table.timeline.write_completed[-2].time).to_table()
    assert before.num_rows > table.scan().count()
    table.rollback(instant.time)
    table = hudi_py.open_table(path)
    assert table.timeline.find(instant.time) is None
    assert_rows_equal(table.scan().to_table(), before)
    assert table.doctor().healthy


def test_ttl_drops_what_apache_hudi_drops(copy: Copy, tmp_path: Path) -> None:
    """The table of two expired partitions, from the state before: Apache Hudi took these two of three, in no order."""
    path = copy(TTL)
    theirs = hudi_py.open_table(path)
    commit = theirs.timeline.write_completed[-1]
    expected = read_commit_metadata(LocalStorage(path), theirs.timeline.layout, commit)
    golden = load()["v9_mor_compaction"].extract(tmp_path / "before")
    table = hudi_py.open_table(str(golden))
    every = table.ttl(retain_days=1, dry_run=True)
    assert set(expected.replaced) < set(every.partitions)
    assert len(every.partitions) == 3
    report = table.ttl(retain_days=1, partitions=list(expected.replaced))
    table = hudi_py.open_table(str(golden))
    ours = read_commit_metadata(LocalStorage(str(golden)), table.timeline.layout, table.timeline.write_completed[-1])
    assert report.instant is not None
    assert {key: set(ids) for key, ids in ours.replaced.items()} == {
        key: set(ids) for key, ids in expected.replaced.items()
    }
    assert (ours.operation, ours.stats, ours.extra) == (expected.operation, expected.stats, expected.extra)
    assert_rows_equal(table.scan().to_table(), theirs.scan().to_table())
    assert table.metadata.verify().ok


def test_an_instant_that_was_completed_twice_is_archived(copy: Copy) -> None:
    """Both of its completed files leave the active timeline."""
    path = copy(TTL)
    context = ServiceContext.of(WriteTarget(LocalStorage(path), Options.resolve({}), NoMetadata()))
    with context.locked("archive instants") as state:
        archive_commits(context, state, state.timeline.write_completed)
    table = hudi_py.open_table(path)
    assert not table.timeline.files
    archived = {each["instant"]: each["completion_time"] for each in table.instants(archived=True).to_pylist()}
    assert archived["20261126131922854"] == "20261126131925617"


@pytest.mark.parametrize("name", [RESIZE, CLUSTERING])
def test_a_plan_of_a_clustering_is_stored_as_apache_hudi_does(name: str, copy: Copy) -> None:
    """All fields of the plan, decoded and encoded again."""
    (requested,) = Path(copy(name), ".hoodie/timeline").glob("*.clustering.requested")
    theirs = requested.read_bytes()
    plan = decode_clustering_plan(theirs)
    assert plan is not None
    assert decode_record(encode_clustering_plan(plan), "ours") == decode_record(theirs, "theirs")


def test_time_travel_while_writes_go_to_old_and_new_file_groups(copy: Copy) -> None:
    """The logs for the new ones belong to no slice yet; a listing has them all the same."""
    table = hudi_py.open_table(copy(RESIZE), {"hoodie.metadata.enable": "false"})
    newest = table.timeline.write_completed[-1].time
    assert_rows_equal(table.scan(as_of=newest).to_table(), table.scan().to_table())


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["", "ts,id"])
def test_a_plan_of_apache_hudi_is_carried_out(columns: str, copy: Copy) -> None:
    """Rows that were added to the old and to the new file groups while the plan was pending are there once."""
    path = copy(RESIZE)
    if columns:
        (requested,) = Path(path, ".hoodie/timeline").glob("*.clustering.requested")
        plan = decode_clustering_plan(requested.read_bytes())
        assert plan is not None
        sorting = {"hoodie.clustering.plan.strategy.sort.columns": columns}
        requested.write_bytes(encode_clustering_plan(replace(plan, parameters=sorting)))
    options = dict(CONSISTENT)
    options["hoodie.bucket.index.num.buckets"] = "4"
    table = hudi_py.open_table(path, options)
    before = table.scan().to_table()
    assert set(table.services.pending()["service"].to_pylist()) == {"resize_buckets"}
    with pytest.raises(ConflictError, match="is about to replace it; run it"):
        table.delete(before.slice(0, 1))
    report = table.bucket_resizing.run()
    assert (report.num_split, report.num_files) == (2, 6)
    for file in Path(path).rglob(f"*_{_PLANNED}.parquet") if columns else ():
        found = pq.read_table(file, columns=columns.split(",")).to_pylist()
        assert found == sorted(found, key=lambda row: tuple(row.values()))
    assert_rows_equal(table.scan().to_table().drop(["_hoodie_file_name"]), before.drop(["_hoodie_file_name"]))
    assert table.doctor(full=True).healthy
    table.delete(before)
    assert table.scan().count() == 0
    assert table.metadata.verify().ok


def test_a_plan_is_not_completed_over_a_write_that_it_does_not_have(copy: Copy) -> None:
    """As one of Apache Hudi with `SparkAllowUpdateStrategy`, which adds to the old file groups alone."""
    path = copy(RESIZE)
    logs = {each for each in Path(path, "p1").iterdir() if f"_{_PLANNED}.log" in each.name}
    assert len(logs) == 2
    (commit,) = Path(path, ".hoodie/timeline").glob("20261126132037624_*.deltacommit")
    record = decode_record(commit.read_bytes(), "it")
    stats = record["partitionToWriteStats"]["p1"]
    record["partitionToWriteStats"]["p1"] = [stat for stat in stats if Path(path, stat["path"]) not in logs]
    commit.write_bytes(encode_record("HoodieCommitMetadata", record))
    for log in logs:
        log.unlink()
    table = hudi_py.open_table(path, {**CONSISTENT, "hoodie.metadata.enable": "false"})
    before = table.scan().to_table()
    with pytest.raises(ConflictError, match="since it was planned the deltacommit 20261126132037624"):
        table.resize_buckets()
    assert table.bucket_resizing.pending() == [_PLANNED]
    assert_rows_equal(table.scan().to_table(), before)
    assert not list(Path(path, ".hoodie/.bucket_index").rglob(f"{_PLANNED}.hashing_meta"))


@pytest.mark.parametrize(("damaged", "service"), [(False, "resize_buckets"), (True, "clustering")])
def test_a_plan_of_buckets_is_dropped_by_the_name_of_its_service(copy: Copy, damaged: bool, service: str) -> None:
    """One that cannot be read is any clustering, and is dropped all the same."""
    path = copy(RESIZE)
    (requested,) = Path(path, ".hoodie/timeline").glob("*.clustering.requested")
    if damaged:
        requested.write_bytes(b"x")
    table = hudi_py.open_table(path)
    report = table.services.unschedule(_PLANNED)
    assert (report.plan, str(report)) == (
        service,
        f"unschedule {_PLANNED}: the {service.replace('_', ' ')} plan dropped",
    )
    assert not requested.exists()


def _clustering(path: str) -> ServiceContext:
    options = Options.resolve({"hoodie.clustering.plan.strategy.sort.columns": "a,b"})
    return ServiceContext.of(service_target(LocalStorage(path), options))


@pytest.mark.parametrize("name", [CLUSTERING, CLUSTERED])
def test_a_plan_of_the_same_clustering(name: str, copy: Copy) -> None:
    """All fields that Apache Hudi wrote, for the table as it was before; and rows come in the same order."""
    path = copy(name)
    table = hudi_py.open_table(path)
    (requested,) = [
        *Path(path).rglob("*.clustering.requested"),
        *Path(path, ".hoodie").glob("*.replacecommit.requested"),
    ]
    instant = requested.name.partition(".")[0]
    theirs = decode_record(requested.read_bytes(), "theirs")
    written = sorted(
        [pq.read_table(file).to_pylist() for file in Path(path).glob(f"p?/*_{instant}.parquet")],
        key=lambda rows: str(rows[0]["_hoodie_partition_path"]),
    )
    for later in [each.time for each in reversed(table.timeline.write_completed) if each.time >= instant]:
        table.rollback(later)
    if not written:
        table.services.unschedule(instant)
    context = _clustering(path)
    scheduled = Clustering().schedule(context)
    (requested,) = Path(path, ".hoodie").rglob(f"{scheduled.instant}.*.requested")
    folder = f"file:/tmp/hudi-golden-services/{name.removesuffix('_pending')}/"
    ours = json.dumps(decode_record(requested.read_bytes(), "ours")).replace(f"file:{path}/", folder)
    assert json.loads(ours) == theirs
    report = run(Clustering(), context)
    for rows in written:
        (file,) = Path(path, rows[0]["_hoodie_partition_path"]).glob(f"*_{report.instant}.parquet")
        found = pq.read_table(file).to_pylist()
        for row in (*rows, *found):
            del row["_hoodie_file_name"]
        assert found == rows
    assert len(written) == (2 if name == CLUSTERED else 0)


def test_a_clustering_of_apache_hudi_is_carried_out(copy: Copy) -> None:
    """Its file groups are updated again afterwards; what was added meanwhile stays."""
    path = copy(CLUSTERING)
    table = hudi_py.open_table(path)
    before = table.scan().to_table()
    row = before.filter(pc.is_in(before["_hoodie_file_name"], pa.array([before["_hoodie_file_name"][0].as_py()])))
    row = row.slice(0, 1).drop([each for each in row.column_names if each.startswith("_hoodie")])
    assert set(table.services.pending()["service"].to_pylist()) == {"clustering"}
    report = run(Clustering(), _clustering(path))
    assert (report.num_replaced, report.num_files, report.num_rows) == (4, 2, 40)
    after = hudi_py.open_table(path).scan().to_table()
    assert_rows_equal(after.drop(["_hoodie_file_name"]), before.drop(["_hoodie_file_name"]))
    table = hudi_py.open_table(path)
    table.upsert(row)
    assert table.scan().count() == before.num_rows
    assert table.doctor(full=True).healthy


@pytest.mark.parametrize(
    "case", json.loads((DATA / "clustering_curves/orders.json").read_text()), ids=lambda case: case["case"]
)
@pytest.mark.parametrize("memory", [1 << 30, 3_000])
def test_the_order_of_rows(case: dict[str, Any], memory: int) -> None:
    """Rows of every type have Apache Hudi's order, also if they are spilled."""
    rows = pq.read_table(DATA / "clustering_curves/rows.parquet")
    numbers = pa.array([int(key[1:]) for key in rows["id"].to_pylist()])
    given = rows.take(pc.index_in(pa.array(case["input_order"]), numbers)).combine_chunks()
    layout = {"z-order": "ZORDER"}.get(case["layout"], case["layout"].upper())
    order = RowOrder.of(case["columns"], layout, with_meta(rows.schema), "t")
    if not order.sorts:
        assert case["written_order"] == case["input_order"]
        return
    batches = []
    for batch in given.to_batches(max_chunksize=30):
        keys = order.keys(batch)
        batches.append(pa.record_batch([batch["id"], *keys.values()], names=["id", *keys]))
    with OrderedRows(batches[0].schema, batches[0].schema.names[1:], memory) as held:
        for batch in batches:
            held.add(batch)
        found = [int(key[1:]) for batch in held.batches() for key in batch["id"].to_pylist()]
    assert found == case["written_order"]
