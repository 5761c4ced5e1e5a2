"""Apache Hudi uses bloom filters that are as large as the keys of their file need."""

from __future__ import annotations

from pathlib import Path

import hudi as hudi_rs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.formats.base.reader import BLOOM_FILTER
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases

ROWS = pa.table(
    {"id": [f"k{n:02}" for n in range(40)], "p": [f"p{n % 4}" for n in range(40)], "v": range(40), "ts": [1] * 40}
)
CHANGED = pa.table({"id": ["k03", "k07", "new"], "p": ["p3", "p3", "p3"], "v": [303, 307, 399], "ts": [2] * 3})
KEYED = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.index.type": "BLOOM",
    # ranges would leave out the files whose filters are to be asked
    "hoodie.bloom.index.prune.by.ranges": "false",
}
EXPECTED = {**dict(zip(ROWS["id"].to_pylist(), ROWS["v"].to_pylist(), strict=True)), "k03": 303, "k07": 307, "new": 399}


def values(rows: pa.Table) -> dict[str, int]:
    assert len(pc.unique(rows["id"])) == rows.num_rows  # a filter that lacks a key would have inserted it again
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def made(path: Path, version: int, kind: str, *, filters: bool) -> None:
    options = {**KEYED, "hoodie.metadata.index.bloom.filter.enable": str(filters).lower()}
    hudi_py.write(path, ROWS, "insert", options, table_type=kind, table_version=version)
    sizes = [len(pq.read_metadata(file).metadata[BLOOM_FILTER.encode()]) for file in path.rglob("*.parquet")]
    assert sizes
    assert max(sizes) < 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "filters"), cases([(6, "cow", False), (8, "mor", True), (9, "cow", True)], "bloom filters", 1)
)
def test_upserts_find_the_keys(oracle: Oracle, tmp_path: Path, version: int, kind: str, filters: bool) -> None:
    path = tmp_path / "t"
    made(path, version, kind, filters=filters)
    asked = {"hoodie.bloom.index.use.metadata": str(filters).lower(), "hoodie.write.auto.upgrade": "false"}
    oracle.write(path, CHANGED, options={**KEYED, **asked})
    assert values(oracle.read(path)) == EXPECTED
    assert values(hudi_py.open_table(path).scan().to_table()) == EXPECTED
    if version < 9:
        batches = hudi_rs.HudiTableBuilder.from_base_uri(str(path)).build().read()
        assert values(pa.Table.from_batches(batches)) == EXPECTED
    assert oracle.check(path)["problems"] == []


@pytest.mark.nightly
def test_the_release_before_finds_them(oracle_015: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    made(path, 6, "cow", filters=True)
    oracle_015.write(path, CHANGED, options={**KEYED, "hoodie.bloom.index.use.metadata": "true"})
    assert values(oracle_015.read(path)) == EXPECTED


CLUSTERING = "run_clustering(table => '{{table}}', op => 'scheduleAndExecute'{})"
BINARY_COPY = (
    ", options => 'hoodie.clustering.execution.strategy.class="
    "org.apache.hudi.client.clustering.run.strategy.SparkBinaryCopyClusteringExecutionStrategy'"
)


def loaded(path: Path, entries: str | None) -> None:
    """Two files in each partition, of different numbers of keys."""
    number = {} if entries is None else {"hoodie.index.bloom.num_entries": entries}
    for some in (ROWS.slice(0, 7), ROWS.slice(7, 33)):
        hudi_py.write(path, some, "bulk_insert", KEYED | number, table_version=9)


@pytest.mark.nightly
def test_clustering_by_binary_copy(oracle: Oracle, tmp_path: Path) -> None:
    """It unites the filters of files, and needs filters of one size, as it does of Apache Hudi's own files."""
    path = tmp_path / "t"
    loaded(path, "1000")
    before = set(path.rglob("*.parquet"))
    oracle.call(path, CLUSTERING.format(BINARY_COPY))
    added = set(path.rglob("*.parquet")) - before
    assert [pq.read_metadata(file).num_row_groups for file in added] == [2] * 4  # copied, not written anew
    assert values(oracle.read(path)) == dict(zip(ROWS["id"].to_pylist(), ROWS["v"].to_pylist(), strict=True))
    oracle.write(path, CHANGED, options=KEYED)
    assert values(oracle.read(path)) == EXPECTED


@pytest.mark.nightly
def test_clustering_with_filters_of_several_sizes(oracle: Oracle, tmp_path: Path) -> None:
    """The default strategy makes new filters; binary copies fail and lose nothing."""
    path = tmp_path / "t"
    loaded(path, None)
    oracle.call(path, CLUSTERING.format(""))
    oracle.write(path, CHANGED, options=KEYED)
    assert values(oracle.read(path)) == EXPECTED
    assert oracle.check(path)["problems"] == []
    path = tmp_path / "u"
    loaded(path, None)
    with pytest.raises(OracleError, match="filters cannot be or-ed"):
        oracle.call(path, CLUSTERING.format(BINARY_COPY))
    kept = dict(zip(ROWS["id"].to_pylist(), ROWS["v"].to_pylist(), strict=True))
    assert values(oracle.read(path)) == values(hudi_py.open_table(path).scan().to_table()) == kept
