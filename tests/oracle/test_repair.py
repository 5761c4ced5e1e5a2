"""Apache Hudi reads a repaired table as we do, finds nothing wrong with it, and goes on writing to it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from tests.oracle.client import Oracle
from tests.support.choice import cases
from tests.support.ill_tables import BY_NAME, MENDED, OPTIONS, build

COLUMNS = ["id", "p", "ts", "v"]


def rows(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in found.select(COLUMNS).to_pylist())


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "version", "kind"), cases(MENDED, "repairs and Apache Hudi", 1))
def test_apache_hudi_takes_over_a_repaired_table(
    oracle: Oracle, tmp_path: Path, name: str, version: int, kind: str
) -> None:
    fault, path = BY_NAME[name], tmp_path / "t"
    build(path, version, kind)
    fault.plant(path)
    options = {**OPTIONS, **fault.options}
    plan = hudi_py.repair_plan(path, options, full=fault.full, lose_rows=fault.lost is not None)
    assert hudi_py.repair(path, plan, options).done
    mended = rows(hudi_py.open_table(path).scan().to_table())
    assert mended
    assert rows(oracle.read(path)) == mended
    assert oracle.check(path, keys=3, deep=True)["problems"] == []
    oracle.write(path, pa.Table.from_pylist([{"id": "k00", "p": "a", "ts": 99, "v": 1.0}]), options=OPTIONS)
    ours = rows(hudi_py.open_table(path).scan().to_table())
    assert ours == rows(oracle.read(path))
    assert ("k00", "a", 99, 1.0) in ours
