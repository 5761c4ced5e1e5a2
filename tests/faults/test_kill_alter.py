"""Alterations, and writes to tables whose columns have ids, killed at every call that changes the storage: rows are
read in the columns before or after, and the ids of columns survive."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import LocalStorage, Storage
from hudi_py.table import Table
from hudi_py.timeline.properties import load_table_config
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import leftovers, make_table, recover
from tests.support.choice import cases, every

OPTIONS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.metadata.enable": "false",
    "hoodie.write.set.null.for.missing.columns": "true",
    "hoodie.time.generator.max_expected_clock_skew_ms": "20",
    "hoodie.table.services.enabled": "false",
}

pytestmark = pytest.mark.slow


def table_on(storage: Storage) -> Table:
    return Table(storage, load_table_config(storage), OPTIONS)


def act(storage: Storage, what: str) -> None:
    table = table_on(storage)
    if what == "alter":
        table.alter(rename={"second": "third"}, add={"second": pa.int64()})
    else:
        table.update({"second": "'changed'"}, "id < 2")


def read(root: Path) -> tuple[list[str], list[object]]:
    """Names of the columns, and the values of the one that was renamed."""
    found = hudi_py.open_table(root).scan().to_table()
    names = [name for name in found.column_names if not name.startswith("_hoodie")]
    return names, found.sort_by("id")["third" if "third" in names else "second"].to_pylist()


@pytest.mark.parametrize(
    ("what", "version", "kind", "torn"),
    cases([("alter", 6, "mor", True), ("alter", 9, "cow", False), ("update", 9, "mor", True)], "killed alterations", 1),
)
def test_killed(tmp_path: Path, what: str, version: int, kind: str, torn: bool) -> None:
    start = tmp_path / "start"
    make_table(start, version, kind)
    table_on(LocalStorage(str(start))).alter(rename={"name": "second"})
    before = read(start)
    whole = tmp_path / "whole"
    shutil.copytree(start, whole)
    counting = KillingStorage(str(whole))
    act(counting, what)
    after = read(whole)
    assert before != after
    for call in every(8, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(start, root)
        killing, storage = KillingStorage(str(root), call, torn=torn), LocalStorage(str(root))
        with pytest.raises(Killed):
            act(killing, what)
        where = killing.calls[-1]
        assert read(root) in (before, after), where
        recover(storage)
        assert read(root) in (before, after), where
        if read(root) == before:
            act(storage, what)
        assert read(root) == after, where
        assert leftovers(root) == set(), where
        newest = max(path.name for path in (root / ".hoodie/.schema").glob("*.schemacommit"))
        versions = [
            each["version_id"] for each in json.loads((root / ".hoodie/.schema" / newest).read_text())["schemas"]
        ]
        assert len(versions) == len(set(versions)) == (3 if what == "alter" else 2), where
        shutil.rmtree(root)
