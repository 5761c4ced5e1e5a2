"""Tables whose type has changed: Apache Hudi reads and writes them, by turns with hudi-py."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.unit.services.test_change_type import OPTIONS, make, write


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow"), (6, "mor"), (9, "cow")])
def test_apache_hudi_goes_on(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "t"
    make(path, version, kind)
    write(path, [20, 21], 5)
    table = hudi_py.open_table(str(path), options=OPTIONS)
    for to in ("cow", "mor") if kind == "mor" else ("mor", "cow"):
        expected = rows(table)
        assert_rows_equal(expected, oracle.read(path))
        table.change_type(to)
        assert_rows_equal(expected, rows(table))
        for given in ({}, {"hoodie.metadata.enable": "false"}):
            assert_rows_equal(expected, oracle.read(path, options=given))
        assert oracle.check(path)["problems"] == []
        new = table.scan(filter="id in (1, 20)").to_table().select(["id", "p", "ts", "v"])
        newer = new.set_column(2, "ts", pa.array([9] * new.num_rows, new["ts"].type))
        oracle.write(path, newer, options={"hoodie.clean.automatic": "false"})
        assert oracle.check(path)["problems"] == []
        assert_rows_equal(rows(table), oracle.read(path))
        assert table.scan(filter="ts = 9").count() == 2
        write(path, [2, 30 + len(to)], 10)
        assert_rows_equal(rows(table), oracle.read(path))


def rows(table: hudi_py.Table) -> pa.Table:
    return table.scan().to_table()
