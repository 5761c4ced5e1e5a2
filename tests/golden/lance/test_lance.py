"""Tables with Lance base files read as Apache Hudi reads them. README.md says how they were made."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.schema import META_FIELDS
from hudi_py.storage import open_storage
from hudi_py.testing.rows import assert_rows_equal
from tests.support import archives

DATA: Final = Path(__file__).parent / "data"
QUERIES: Final = sorted(path.stem for path in DATA.glob("*.parquet"))
Opened = Callable[[str], Path]


@pytest.fixture
def extracted(tmp_path: Path) -> Opened:
    def extract(name: str) -> Path:
        archives.extract(DATA / f"{name}_lance.tar.gz", tmp_path)
        return tmp_path / name

    return extract


@pytest.fixture
def lance() -> None:
    pytest.importorskip("lance.file")


def scan(path: Path | str, query: str) -> hudi_py.Scan:
    kind, _, time = query.partition("_of_" if query.startswith("as_of") else "incremental_")
    arguments: dict[str, Any] = {"query_type": query}
    if query.startswith("incremental"):
        arguments = {"query_type": "incremental", "begin": time}
    elif kind == "as":
        arguments = {"as_of": time}
    return hudi_py.open_table(path).scan(**arguments)


@pytest.mark.usefixtures("lance")
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_apache_hudi(extracted: Opened, query: str) -> None:
    name, kind = query[:6], query[7:]
    found = scan(extracted(name), kind)
    rows = found.to_table()
    assert rows.schema.equals(found.schema)
    assert_rows_equal(rows, pq.read_table(DATA / f"{query}.parquet"))
    assert found.count() == rows.num_rows


@pytest.mark.usefixtures("lance")
@pytest.mark.parametrize("name", ["v9_cow", "v9_mor"])
def test_columns_filters_and_keys(extracted: Opened, name: str) -> None:
    table = hudi_py.open_table(extracted(name))
    rows = {row["id"]: row for row in table.scan().to_table().to_pylist()}
    few = table.scan(columns=["st", "v"], filter="v > 200 AND city = 'oslo'").to_table()
    wanted = [{"st": r["st"], "v": r["v"]} for r in rows.values() if r["v"] > 200 and r["city"] == "oslo"]
    assert sorted(map(str, few.to_pylist())) == sorted(map(str, wanted))
    assert table.scan(columns="id", keys=["k3", "k7"]).to_table().to_pylist() == [{"id": "k3"}]
    assert table.scan(columns=[]).to_table().num_rows == len(rows)
    batches = list(table.scan(options={"hoodie.py.read.batch.rows": 2}).to_batches())
    assert max(batch.num_rows for batch in batches) == 2
    assert len(table.scan().splits(target_bytes=1)) == len(table.scan().splits())


@pytest.mark.usefixtures("lance")
def test_other_storages(extracted: Opened) -> None:
    path = extracted("v9_cow")
    storage = open_storage("memory://lance/v9_cow")
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder) / name
            storage.put(str(file.relative_to(path)), file.read_bytes())
    assert_rows_equal(
        hudi_py.open_table("memory://lance/v9_cow").scan().to_table(), hudi_py.open_table(path).scan().to_table()
    )


@pytest.mark.usefixtures("lance")
def test_damaged_and_missing_files(extracted: Opened) -> None:
    path = extracted("v9_cow")
    found = hudi_py.open_table(path).scan()
    for split in found.splits():
        assert split.base_file is not None
        file = path / split.base_file.path
        file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(hudi_py.CorruptFileError, match="Cannot read base file .*lance"):
        found.to_table()
    for folder in ("bern", "oslo"):
        shutil.rmtree(path / folder)
    with pytest.raises(hudi_py.CorruptFileError, match="is missing"):
        found.to_table()


@pytest.mark.parametrize("name", ["v9_cow", "v9_mor"])
def test_without_the_library(extracted: Opened, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance.file", None)
    table = hudi_py.open_table(extracted(name))
    with pytest.raises(hudi_py.UnsupportedTableError, match=r"needs the library pylance .*pip install 'hudi-py\[lance"):
        table.scan()


@pytest.mark.usefixtures("lance")
@pytest.mark.parametrize("name", ["v9_cow", "v9_mor"])
def test_writes_are_refused_as_there_is_a_struct(extracted: Opened, name: str) -> None:
    path = extracted(name)
    table = hudi_py.open_table(path)
    rows = table.scan().to_table().drop_columns(list(META_FIELDS))
    with pytest.raises(hudi_py.UnsupportedTableError, match="cannot hold the column 'st': it has a struct"):
        table.upsert(rows)
    assert table.scan().count() == rows.num_rows
