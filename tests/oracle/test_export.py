"""Copies of tables by `Table.export`: Apache Hudi reads them, and writes to them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle
from tests.unit.interop.test_export import OPTIONS, make


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow"), (6, "mor")])
def test_apache_hudi_reads_a_copy(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    times = make(tmp_path / "t", version, kind)
    table = hudi_py.open_table(str(tmp_path / "t"), options=OPTIONS)
    for number, as_of in enumerate((None, times[2])):
        path = tmp_path / f"copy{number}"
        table.export(path, as_of=as_of)
        expected = table.scan(as_of=as_of).to_table()
        assert_rows_equal(expected, oracle.read(path))
        new = expected.select(["id", "p", "ts", "v"]).slice(0, 1)
        oracle.write(path, new.set_column(2, "ts", pa.array([9], new["ts"].type)))
        assert oracle.check(path)["problems"] == []
        assert_rows_equal(hudi_py.open_table(str(path)).scan().to_table(), oracle.read(path))
