"""Units whose rows are shuffled, step by step as an engine runs them."""

from __future__ import annotations

import pickle
import random
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import RolledBackError
from hudi_py.services.bucket_resize.service import BucketResizing
from hudi_py.services.clustering.execute import KeySample, key_bounds, sample_keys
from hudi_py.services.clustering.order import RowOrder
from hudi_py.services.clustering.service import Clustering
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.moves import MovingService, joined
from hudi_py.services.planned.service import ServiceReport
from hudi_py.testing.rows import assert_rows_equal
from tests.unit.services.clustering.test_clustering import MADE, PLAN, QUICK, context, read, without_name, write
from tests.unit.write.test_consistent_hashing import CONSISTENT, RESIZED, check_keys


def shuffled(service: MovingService[Any, Any], own: ServiceContext, tasks: int = 3) -> ServiceReport:
    """Run a plan, each step in a context of its own, some of them twice, with what travels pickled."""
    scheduled = service.schedule(own)
    assert scheduled.instant is not None, scheduled.reason
    work = pickle.loads(pickle.dumps(service.begin(own, scheduled.instant)))
    parts = service.parts(own, work)
    assert parts
    units = {part.unit for part in parts}
    others = service.execute(own, work, [number for number in range(work.num_tasks) if number not in units])
    samples = [sample for part in parts for sample in service.sampled(own, work, [part])]
    bounds = pickle.loads(pickle.dumps(service.all_bounds(own, work, samples)))
    parcels = [parcel for part in parts for parcel in service.read_parts(own, work, bounds, [part])]
    random.Random(1).shuffle(parcels)
    by_task = groupby(sorted(parcels, key=lambda parcel: _task(parcel, tasks)), lambda parcel: _task(parcel, tasks))
    given = [[*some] for _, some in by_task]
    service.write_parts(own, work, given[0])  # an attempt that is lost
    outcomes = [outcome for some in (*given, []) for outcome in service.write_parts(own, work, some)]
    report: ServiceReport = service.commit(own, work, [*others, *joined(parts, outcomes)])
    with pytest.raises(RolledBackError):
        list(service.read_parts(own, work, bounds, parts))
    return report


def _task(parcel: pa.RecordBatch, tasks: int) -> int:
    return hash(parcel.column("to")[0].as_py()) % tasks


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["linear", "zorder", "by ranks"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_ranges_of_rows(tmp_path: Path, layout: str, kind: str) -> None:
    """One file for each range, whose rows are in order, beside a group that is not shuffled."""
    path, chance = str(tmp_path / "t"), random.Random(kind)

    def rows(first: int, count: int, partition: str = "a") -> pa.Table:
        keys = [f"{first + number}" for number in range(count)]
        values = [None if chance.random() < 0.1 else chance.randrange(1000) for _ in keys]
        return pa.table({"k": keys, "p": [partition] * count, "ts": [chance.randrange(9) for _ in keys], "v": values})

    hudi_py.write(path, rows(0, 3_000), "insert", QUICK, **MADE, table_type=kind)
    write(path, rows(3_000, 2_000))
    write(path, rows(9_000, 10, "b"))
    write(path, rows(2_900, 300), "upsert")
    before = read(path)
    size = sum(file.stat().st_size for file in Path(path, "a").glob("*.parquet"))
    given = {f"{PLAN}sort.columns": "v,ts", "hoodie.layout.optimize.strategy": layout}
    if layout == "by ranks":
        given |= {
            "hoodie.layout.optimize.strategy": "hilbert",
            "hoodie.layout.optimize.curve.build.method": "sample",
        }
    own = context(path, {**given, f"{PLAN}target.file.max.bytes": str(size // 5), "hoodie.py.write.threads": "1"})
    report = shuffled(Clustering(), own)
    assert_rows_equal(without_name(read(path)), without_name(before))
    files = [pq.read_table(file) for file in Path(path, "a").glob(f"*_{report.instant}.parquet")]
    assert len(files) >= 3
    assert len(list(Path(path, "b").glob(f"*_{report.instant}.parquet"))) == 1
    if layout == "linear":
        columns = (file.select(["v", "ts"]).to_pydict().values() for file in files)
        pairs = [[(v is not None, v or 0, ts) for v, ts in zip(*some, strict=True)] for some in columns]
        assert all(found == sorted(found) for found in pairs)
        pairs.sort(key=lambda found: (found[0], found[-1]))
        assert all(one[-1] <= other[0] for one, other in pairwise(pairs))
    assert hudi_py.open_table(path).doctor(full=True).healthy


def test_hash_buckets(tmp_path: Path) -> None:
    """Rows of several buckets that become several others."""
    path = str(tmp_path / "t")
    data = pa.table({"k": [f"k{key}" for key in range(200)], "p": ["a"] * 200, "ts": [1] * 200})
    hudi_py.write(path, data, "upsert", CONSISTENT, **MADE, table_type="mor")
    before = read(path)

    class Shuffling(BucketResizing):
        __slots__ = ()

        def shuffles(self, settings: object, unit: object) -> bool:
            return True

    shuffled(Shuffling(), context(path, {**CONSISTENT, **RESIZED}))
    assert_rows_equal(without_name(read(path)), without_name(before))
    check_keys(path)


def test_bounds_of_samples() -> None:
    """Ranges have about as many rows, however many there are; equal keys are in one."""
    order = RowOrder(("v",))
    values = [number * 7919 % 20_011 for number in range(20_011)]
    batches = [pa.record_batch({"v": values[first : first + 1_000]}) for first in range(0, len(values), 1_000)]
    sample = sample_keys(order, batches)
    assert 2_048 <= len(sample.keys) <= 4_096
    assert [key[0][1] for key in sample.keys] == values[:: sample.step]
    bounds = [key[0][1] for key in key_bounds([sample, sample], 4)]
    assert all(abs(bound / 20_011 - share) < 0.05 for bound, share in zip(bounds, (0.25, 0.5, 0.75), strict=True))
    same = KeySample(1, (((True, 5),),) * 100)
    assert key_bounds([same], 4) == (((True, 5),),)
    assert key_bounds([KeySample(1, ())], 3) == ()
