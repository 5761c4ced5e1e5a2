"""Changes of buckets, clusterings and expiries of a partition killed at calls that change the storage: all rows stay,
or only those of the partition go, and the next write finds its file groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.services.bucket_resize.service import BucketResizing
from hudi_py.services.buckets import rescale_buckets
from hudi_py.services.clustering.service import Clustering
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import pending_instants, run_all
from hudi_py.services.ttl import PartitionTime, run_ttl
from hudi_py.wiring import service_target
from hudi_py.write.api import write_options, write_rows
from tests.faults.killing import Killed, KillingStorage
from tests.support.choice import every
from tests.unit.write.test_bucket_index import QUICK, TABLE, rows, snapshot
from tests.unit.write.test_consistent_hashing import CONSISTENT, RESIZED
from tests.unit.write.test_consistent_hashing import check_keys as check_hash_buckets

pytestmark = pytest.mark.slow

SIMPLE = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
HASHED = {**CONSISTENT, **RESIZED}
INDEXED = {**QUICK, "hoodie.metadata.record.index.enable": "true", "hoodie.parquet.small.file.limit": "0"}
EXPIRING = {**INDEXED, "hoodie.partition.ttl.strategy.class": f"{__name__}:PartitionA"}
CLUSTERED = {**INDEXED, "hoodie.clustering.plan.strategy.sort.columns": "ts,k"}


def context(storage: KillingStorage, options: dict[str, str]) -> ServiceContext:
    resolved = Options.resolve({**options, "hoodie.py.write.threads": "1"})
    return ServiceContext.of(service_target(storage, resolved))


def rescale(storage: KillingStorage) -> None:
    rescale_buckets(context(storage, SIMPLE), expressions="^a$,5", buckets=3)


def resize(storage: KillingStorage) -> None:
    assert run_all(BucketResizing(), context(storage, HASHED)).instant is not None


def cluster(storage: KillingStorage) -> None:
    run_all(Clustering(), context(storage, CLUSTERED))


class PartitionA:
    """A strategy of the TTL."""

    def expired(self, partitions: Sequence[PartitionTime]) -> list[str]:
        return [each.path for each in partitions if each.path == "a"]


def expire(storage: KillingStorage) -> None:
    run_ttl(context(storage, EXPIRING))


def overwrite(storage: KillingStorage) -> None:
    resolved = write_options({**HASHED, "hoodie.py.write.threads": "1"})
    write_rows(service_target(storage, resolved), rows([1, 2, 3], 5), "insert_overwrite_table")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("change", "options", "version", "torn"),
    [
        (rescale, SIMPLE, 9, True),
        (resize, HASHED, 9, False),
        (overwrite, HASHED, 6, True),
        (cluster, INDEXED, 6, False),
        (cluster, INDEXED, 9, True),
        (expire, INDEXED, 6, True),
        (expire, INDEXED, 9, False),
    ],
    ids=["rescale", "resize", "overwrite", "cluster-v6", "cluster-v9", "expire-v6", "expire-v9"],
)
def test_killed(
    tmp_path: Path, change: Callable[[KillingStorage], None], options: dict[str, str], version: int, torn: bool
) -> None:
    table = str(tmp_path / "table")
    hudi_py.write(table, rows(list(range(12)), 1), "upsert", options, **TABLE, table_type="mor", table_version=version)
    hudi_py.write(table, rows(list(range(0, 12, 3)), 2), "upsert", options)
    before = snapshot(table)
    whole = str(tmp_path / "whole")
    shutil.copytree(table, whole)
    counting = KillingStorage(whole)
    change(counting)
    after = snapshot(whole)
    assert len(counting.calls) > 20
    for call in every(9, len(counting.calls)):
        root = str(tmp_path / f"{call}")
        shutil.copytree(table, root)
        killing = KillingStorage(root, call, torn=torn)
        with pytest.raises(Killed):
            change(killing)
        where = killing.calls[-1]
        found = snapshot(root)
        assert found in (before, after), where
        opened = hudi_py.open_table(root, options)
        if change is resize and opened.bucket_resizing.pending():  # until it has run, its file groups are not changed
            assert opened.bucket_resizing.run().instant is not None, where
            assert snapshot(root) == before, where
        if change is cluster and pending_instants(Clustering(), context(KillingStorage(root), CLUSTERED)):
            cluster(KillingStorage(root))
            assert snapshot(root) == before, where
        hudi_py.write(root, rows([4, 5, 20, 21], 9), "upsert", options)
        assert snapshot(root) == sorted((dict(found) | dict.fromkeys(("k4", "k5", "k20", "k21"), 9)).items()), where
        if options is HASHED:
            check_hash_buckets(root)
        names = hudi_py.open_table(root).scan(["_hoodie_partition_path", "_hoodie_file_name"]).to_table().to_pylist()
        groups = {(row["_hoodie_partition_path"], row["_hoodie_file_name"].partition("_")[0]) for row in names}
        if options is SIMPLE:
            assert len({(partition, file_id[:8]) for partition, file_id in groups}) == len(groups), where
        assert hudi_py.open_table(root).metadata.verify().ok, where
        change(KillingStorage(root))
        shutil.rmtree(root)
