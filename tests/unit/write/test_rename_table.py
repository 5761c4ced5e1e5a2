"""Another name of a table, with its files in another place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, TableExistsError, TableNotFoundError
from hudi_py.storage import open_storage
from hudi_py.write.table.rename import check_move, rename_table


def test_another_name_and_place(tmp_path: Path) -> None:
    path, other = tmp_path / "db" / "trips", tmp_path / "other.db" / "journeys"
    hudi_py.write(path, pa.table({"id": [1]}), record_key="id")
    storage = open_storage(str(path))
    rename_table(storage, "journeys", str(path), None)
    assert hudi_py.open_table(path).properties["hoodie.table.name"] == "journeys"
    rename_table(storage, "again", f"file:{other}", None)
    assert not path.exists()
    table = hudi_py.open_table(other)
    assert table.properties["hoodie.table.name"] == "again"
    table.upsert(pa.table({"id": [1, 2]}))
    assert table.scan().count() == 2


def test_what_cannot_move(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    storage = open_storage(str(path))
    with pytest.raises(TableNotFoundError):
        check_move(str(path), str(path), storage)
    hudi_py.write(path, pa.table({"id": [1]}), record_key="id")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("x")
    with pytest.raises(TableExistsError, match="something at"):
        check_move(str(path), str(tmp_path / "there"), storage)
    with pytest.raises(ConfigError, match="only local file systems and HDFS"):
        check_move(str(path), "s3://bucket/trips", storage)
