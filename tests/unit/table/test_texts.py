"""What a new user sees first: results as sentences, and rows without the meta columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from hudi_py.read.streams.stream import TableStream

ROWS = pa.table({"id": [1, 2, 3], "fare": [1.5, 2.5, 3.5]})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("texts") / "t")
    hudi_py.write(found, ROWS, record_key="id")
    return found


def test_a_result_is_a_sentence(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    first = hudi_py.write(table, ROWS, record_key="id")
    assert repr(first).startswith(f"<WriteResult: upsert {first.instant}: 3 inserted; 1 file, ")
    more = ROWS.slice(2).append_column("tip", pa.array([0.5]))
    second = hudi_py.write(table, more, options={"hoodie.clean.automatic": "false"})
    assert f"upsert {second.instant}: 1 updated; 1 file, " in str(second)
    assert str(second).endswith("; column tip: new -> double")
    nothing = hudi_py.write(table, ROWS.slice(3), options={"hoodie.allow.empty.commit": "false"})
    assert repr(nothing) == "<WriteResult: upsert: nothing written, as there are no rows>"


def test_a_scan_leaves_the_meta_columns_out(path: str) -> None:
    table = hudi_py.open_table(path)
    assert table.scan(meta=False).to_table().sort_by("id") == ROWS
    assert table.scan(query_type="incremental", begin="000", meta=False).schema.names == ROWS.schema.names
    assert table.scan(["_hoodie_record_key", "id"], meta=False).schema.names == ["_hoodie_record_key", "id"]
    assert len(table.scan().schema) == len(table.scan(meta=True).schema) == len(ROWS.schema) + 5


def test_an_option_does_too(path: str) -> None:
    without = {"hoodie.py.read.meta.columns": "false"}
    assert hudi_py.open_table(path, without).scan().schema.names == ROWS.schema.names
    stream = TableStream.open(path, Options.resolve(without, Scope.READ))
    assert stream.output_schema().names == ROWS.schema.names
    with pytest.raises(ConfigError, match=r"meta=True contradicts option hoodie.py.read.meta.columns=False"):
        hudi_py.open_table(path, without).scan(meta=True)
