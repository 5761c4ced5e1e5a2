"""Apache Hudi and hudi-py make one table at the same time: of two creators that have seen no table, both go on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError
from hudi_py.model.properties import FIRST_WRITE
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.properties import load_table_config
from hudi_py.write.api import create_table
from tests.oracle.client import Oracle
from tests.oracle.test_marks import rows

pytestmark = pytest.mark.nightly

API = importlib.import_module("hudi_py.write.api")


def first_write(monkeypatch: pytest.MonkeyPatch, path: Path, between: Callable[[Callable[[], Any]], Any]) -> None:
    """Our first write, in which `between` runs where the table is made; it gets what makes it."""
    with monkeypatch.context() as patch:
        patch.setattr(API, "create_table", lambda *given: between(lambda: create_table(*given)))
        hudi_py.write(path, rows(0, 4), record_key="id", partition_by="p", ordering_by="ts", table_version=9)


@pytest.mark.parametrize("alike", [True, False])
def test_apache_hudi_makes_the_table_after_we_looked(
    oracle: Oracle, tmp_path: Path, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"

    def between(make: Callable[[], Any]) -> Any:
        oracle.write(path, rows(2, 6, 2), key="id" if alike else "v", ordering="ts", partition="p", table_version=9)
        return make()

    if alike:
        first_write(monkeypatch, path, between)
        assert sorted(oracle.read(path)["v"].to_pylist()) == [0, 1, 4, 6, 8, 10]
    else:
        with pytest.raises(ConfigError, match="recordkey"):
            first_write(monkeypatch, path, between)
        assert sorted(oracle.read(path)["v"].to_pylist()) == [4, 6, 8, 10]
    assert_rows_equal(hudi_py.open_table(path).scan().to_table(), oracle.read(path))
    assert oracle.check(path)["problems"] == []
    assert FIRST_WRITE not in load_table_config(LocalStorage(str(path))).properties


@pytest.mark.parametrize("alike", [True, False])
def test_we_make_the_table_after_apache_hudi_looked(
    oracle: Oracle, tmp_path: Path, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It then writes its properties over ours (`HoodieTableConfig.create`, 1.2.0), and goes on with its first write."""
    path, other = tmp_path / "t", tmp_path / "other" / "t"
    given: dict[str, Any] = {"key": "id" if alike else "v", "ordering": "ts", "partition": "p", "table_version": 9}
    oracle.write(other, rows(2, 6, 2), **given)

    def between(make: Callable[[], Any]) -> Any:
        made = make()
        text = (other / ".hoodie" / "hoodie.properties").read_text().splitlines()
        kept = [line for line in text if not line.startswith("hoodie.table.metadata.partitions")]
        (path / ".hoodie" / "hoodie.properties").write_text("\n".join(kept) + "\n")
        return made

    try:
        first_write(monkeypatch, path, between)
        written = True
    except ConflictError:
        written = False
    assert written is alike
    oracle.write(path, rows(2, 6, 2), **given)
    expected = [0, 1, 4, 6, 8, 10] if alike else [4, 6, 8, 10]
    assert sorted(oracle.read(path)["v"].to_pylist()) == expected
    assert_rows_equal(hudi_py.open_table(path).scan().to_table(), oracle.read(path))
    assert oracle.check(path)["problems"] == []
