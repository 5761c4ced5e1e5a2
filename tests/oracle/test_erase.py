"""Apache Hudi goes on with tables from which rows were erased."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases

ROWS = pa.table({"id": [f"person-{n}" for n in range(9)], "p": ["a", "b", "c"] * 3, "ts": [1] * 9, "v": range(9)})
OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.record.index.enable": "true",
}
KEYED = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.clean.automatic": "false",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind", "cdc"), cases([(6, "mor", False), (8, "cow", True), (9, "mor", False)], "goes on", 1)
)
def test_it_goes_on(oracle: Oracle, tmp_path: Path, version: int, kind: str, cdc: bool) -> None:
    path = tmp_path / "t"
    options = {**OPTIONS, "hoodie.table.cdc.enabled": str(cdc).lower()}
    keys = {"record_key": "id", "partition_by": "p", "ordering_by": "ts", "table_type": kind, "table_version": version}
    hudi_py.write(path, ROWS, options=options, **keys)
    oracle.write(path, ROWS.set_column(3, "v", pa.array(range(10, 19))), options=KEYED)
    table = hudi_py.open_table(path, options)
    assert table.erase("id = 'person-4' OR v = 2").complete

    def values(rows: pa.Table) -> dict[str, int]:
        assert rows.num_rows == len(rows["id"].unique())
        return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))

    expected = {f"person-{n}": n + 10 for n in range(9) if n != 4}
    assert values(oracle.read(path)) == expected
    assert oracle.check(path)["problems"] == []
    changed = pa.table({"id": ["person-1", "person-4"], "p": ["b", "b"], "ts": [5, 5], "v": [51, 54]})
    oracle.write(path, changed, options=KEYED)
    clean = "run_clean(table => '{table}', clean_policy => 'KEEP_LATEST_COMMITS', retain_commits => 1)"
    oracle.call(path, clean, {"hoodie.metadata.enable": "true"})
    expected |= {"person-1": 51, "person-4": 54}
    assert values(oracle.read(path)) == expected == values(table.scan().to_table())
    assert oracle.check(path)["problems"] == []
    assert table.metadata.verify().ok
    assert table.erase(keys=["person-4"]).complete
    assert values(oracle.read(path)) == {key: value for key, value in expected.items() if key != "person-4"}
