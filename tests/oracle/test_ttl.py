"""Partition TTL: the same partitions expire, and either side reads and writes on after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.golden.tables import Extracted
from tests.oracle.client import Oracle

pytestmark = pytest.mark.slow


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", ["v6_mor_compaction", "v8_mor_parquet_blocks", "v9_cow_multi_partition", "v9_mor_compaction"]
)
def test_the_same_partitions_expire(oracle: Oracle, golden: Extracted, tmp_path: Path, name: str) -> None:
    """Golden tables are older than a day."""
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for path in (ours, theirs):
        shutil.copytree(golden(name), path)
    dropped = oracle.call(theirs, "run_ttl(table => '{table}', retain_days => 1)")
    report = hudi_py.open_table(ours).ttl(retain_days=1)
    assert {row["deleted_partitions"] for row in dropped} == set(report.partitions) != set()
    for path in (ours, theirs):
        table = hudi_py.open_table(path)
        assert_rows_equal(oracle.read(path), table.scan().to_table())
        assert table.scan().count() == 0
        assert table.metadata.verify().ok
    assert oracle.check(ours)["problems"] == []
