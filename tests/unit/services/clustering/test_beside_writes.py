"""Clusterings beside writes: no row is lost, whichever is completed first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.services.clustering.service import Clustering
from hudi_py.services.planned.service import pending_instants, run
from hudi_py.testing.rows import assert_rows_equal
from tests.unit.services.clustering.test_clustering import (
    QUICK,
    VERSIONS,
    cluster,
    context,
    make,
    plan_of,
    read,
    rows,
    without_name,
    write,
)

OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
PREFER_WRITER = {
    "hoodie.write.lock.conflict.resolution.strategy": "org.apache.hudi.client.transaction."
    "PreferWriterConflictResolutionStrategy"
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind"), VERSIONS)
def test_file_groups_of_a_pending_plan_are_not_updated(tmp_path: Path, version: int, kind: str) -> None:
    path = make(tmp_path / "t", version, kind)
    Clustering().schedule(context(path))
    before = read(path)
    with pytest.raises(ConflictError, match="is about to replace it"):
        write(path, rows(range(1, 2), 9), "upsert")
    write(path, rows(range(100, 104), 9))
    added = read(path)
    assert added.num_rows == before.num_rows + 4
    report = run(Clustering(), context(path))
    assert report.num_replaced == 4
    assert_rows_equal(without_name(read(path)), without_name(added))
    assert hudi_py.open_table(path).doctor(full=True).healthy


def test_an_update_since_the_plan_is_never_lost(tmp_path: Path) -> None:
    """As `SparkAllowUpdateStrategy` of Apache Hudi writes it, whose clustering then loses it."""
    path = make(tmp_path / "t", kind="mor")
    own = context(path)
    scheduled = Clustering().schedule(own)
    assert scheduled.instant is not None
    requested = Path(path, f".hoodie/timeline/{scheduled.instant}.clustering.requested")
    plan = requested.read_bytes()
    requested.unlink()
    write(path, rows(range(1, 2), 9), "upsert")
    requested.write_bytes(plan)
    updated = hudi_py.open_table(path).timeline.write_completed[-1].time
    before = read(path)
    with pytest.raises(ConflictError, match=f"{updated}.*has changed the file group .*unschedule"):
        run(Clustering(), own)
    assert_rows_equal(read(path), before)
    assert pending_instants(Clustering(), own) == [scheduled.instant]
    hudi_py.open_table(path).services.unschedule(scheduled.instant)
    cluster(path)
    assert_rows_equal(without_name(read(path)), without_name(before))


def test_a_pending_write(tmp_path: Path) -> None:
    """Its rows might be in a file group of the plan."""
    path = make(tmp_path / "t")
    newest = hudi_py.open_table(path).timeline.write_completed[-1].time
    Path(path, f".hoodie/timeline/{int(newest) + 1}.commit.requested").touch()
    found = Clustering().preview(context(path))
    assert found.rows == ()
    assert "planned only while no write is pending" in found.reason


def test_groups_of_other_plans_are_left_out(tmp_path: Path) -> None:
    path = make(tmp_path / "t", kind="mor")
    table = hudi_py.open_table(path, QUICK)
    compaction = table.compaction.schedule()
    busy = {row["file_id"] for row in table.services.pending().to_pylist()}
    assert compaction is not None
    write(path, rows(range(70, 74), 5))
    planned = {each.file_id for each in plan_of(path).slices}
    assert planned
    assert not planned & busy
    assert (len(planned), len(busy)) == (2, 4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("preferred", [False, True])
@pytest.mark.parametrize("completes", [False, True])
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow"), (9, "mor")])
def test_beside_an_upsert(tmp_path: Path, version: int, kind: str, completes: bool, preferred: bool) -> None:
    """A clustering is planned, and perhaps completed, while an upsert of its file groups is under way: one of the two
    is not completed."""
    options = {**OPTIMISTIC, **(PREFER_WRITER if preferred else {})}
    path = make(tmp_path / "t", version, kind, **options)
    before = read(path)
    own = context(path, options)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(range(1, 3), 9).to_batches()
        assert Clustering().schedule(own).instant is not None
        if completes:
            assert run(Clustering(), own).num_replaced == 4
        yield from rows(range(5, 7), 9).to_batches()

    def upsert() -> None:
        data = pa.RecordBatchReader.from_batches(rows(range(1, 3), 1).schema, batches())
        hudi_py.write(path, data, "upsert", {**QUICK, **options})

    if completes or not preferred:
        with pytest.raises(ConflictError):
            upsert()
        assert_rows_equal(without_name(read(path)), without_name(before))
    else:
        upsert()
        written = read(path)
        assert written.filter(pc.equal(written["ts"], 9)).num_rows == 4
        with pytest.raises(ConflictError, match="has changed the file group"):
            run(Clustering(), own)
        assert_rows_equal(read(path), written)
    assert len(pending_instants(Clustering(), own)) == (0 if completes else 1)


ALLOW = {
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
}
DROP = {**ALLOW, "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
@pytest.mark.parametrize("begun", [False, True])
def test_a_write_drops_the_plan(tmp_path: Path, version: int, kind: str, begun: bool) -> None:
    """Only a plan of file groups that it changes, and none that a process is running."""
    path = make(tmp_path / "t", version, kind)
    own = context(path)
    one, other = (hudi_py.open_table(path, QUICK).services.planned("clustering", partitions=name) for name in "ab")
    planned = [one.schedule(), other.schedule()]
    if begun:
        service = Clustering()
        assert planned[1] is not None
        service.execute(own, service.begin(own, planned[1]), [0])
    before = read(path)
    if begun:
        with pytest.raises(ConflictError, match="Cannot write to file groups of the .* is running it"):
            write(path, rows(range(1, 2), 9), "upsert", **DROP)
        assert pending_instants(Clustering(), own) == planned
        assert_rows_equal(read(path), before)
        return
    write(path, rows(range(1, 2), 9), "upsert", **DROP)  # odd keys are in b
    assert pending_instants(Clustering(), own) == planned[:1]
    assert read(path).filter(pc.equal(read(path)["ts"], 9)).num_rows == 1
    assert run(Clustering(), own).num_replaced == 2
    assert read(path).num_rows == before.num_rows
    assert hudi_py.open_table(path).doctor(full=True).healthy


def test_a_preferred_writer_updates_file_groups_of_a_plan(tmp_path: Path) -> None:
    """The clustering fails instead, unless the strategy of updates refuses them."""
    options = {**OPTIMISTIC, **PREFER_WRITER}
    path = make(tmp_path / "t", kind="mor", **options)
    own = context(path, options)
    scheduled = Clustering().schedule(own).instant
    reject = {"hoodie.clustering.updates.strategy": "SparkRejectUpdateStrategy"}
    with pytest.raises(ConflictError, match="is about to replace it"):
        write(path, rows(range(1, 2), 9), "upsert", **options, **reject)
    write(path, rows(range(1, 2), 9), "upsert", **options)
    before = read(path)
    assert before.filter(pc.equal(before["ts"], 9)).num_rows == 1
    with pytest.raises(ConflictError, match="has changed the file group"):
        run(Clustering(), own)
    write(path, rows(range(3, 4), 9), "upsert", **options, **DROP)
    assert pending_instants(Clustering(), own) == []
    assert scheduled is not None
    assert cluster(path, options).num_replaced == 4
    assert read(path).filter(pc.equal(read(path)["ts"], 9)).num_rows == 2


def test_updates_that_a_clustering_would_lose_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with pytest.raises(ConfigError, match="complete a pending clustering .* lose the updates; set hoodie.clustering"):
        write(path, rows(range(1, 2), 9), "upsert", **ALLOW)
    with pytest.raises(ConfigError, match="SparkRejectUpdateStrategy or SparkAllowUpdateStrategy"):
        write(path, rows(range(1, 2), 9), "upsert", **{"hoodie.clustering.updates.strategy": "Other"})


def test_plans_expire(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    planned = Clustering().schedule(context(path)).instant
    expires = {"hoodie.clustering.enable.expirations": "true", "hoodie.clean.failed.writes.policy": "LAZY"}
    write(path, rows(range(100, 101), 9), **expires)
    assert pending_instants(Clustering(), context(path)) == [planned]
    at_once = {**expires, "hoodie.clustering.expiration.threshold.mins": "0"}
    write(path, rows(range(101, 102), 9), **{**at_once, "hoodie.clean.failed.writes.policy": "EAGER"})
    assert pending_instants(Clustering(), context(path)) == [planned]
    for beat in Path(path).glob(f".hoodie/timeline/{planned}.*"):
        os.utime(beat, (1_000_000_000, 1_000_000_000))
    write(path, rows(range(1, 2), 9), "upsert", **expires)
    assert pending_instants(Clustering(), context(path)) == []
    assert read(path).filter(pc.equal(read(path)["ts"], 9)).num_rows == 3
