"""Clusterings beside writes: no row is lost, whichever is completed first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hudi_py
from hudi_py.errors import ConflictError
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
