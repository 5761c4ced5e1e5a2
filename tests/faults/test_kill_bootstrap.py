"""Bootstraps killed at calls that change the storage: no other write touches what they leave, the next bootstrap makes
the table anew, and the source stays as it is."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import ConflictError, SchemaMismatchError, TableExistsError, TableNotFoundError
from hudi_py.model.layout import PROPERTIES
from hudi_py.storage import LocalStorage
from hudi_py.wiring import write_target
from hudi_py.write.api import TableArguments, write_options
from hudi_py.write.bootstrap import bootstrap_options, bootstrap_table
from tests.faults.killing import Killed, KillingStorage
from tests.support.choice import cases, every
from tests.support.sources import contents, rows, source

pytestmark = pytest.mark.slow

NAMES: dict[str, Any] = {"record_key": "id", "partition_by": "city", "ordering_by": "ts"}
ALL = {f"k{each}": each for each in range(12)}


def bootstrap(storage: Any, folder: Path, mode: str, version: int) -> None:
    regex = ".*oslo" if mode == "both" else None
    given = bootstrap_options(
        {"hoodie.py.write.threads": "1", "hoodie.write.table.version": str(version), "hoodie.clean.automatic": "false"},
        source=str(folder),
        mode="metadata_only" if mode == "both" else mode,
        regex=regex,
    )
    options = write_options(given, TableArguments(**NAMES, table_type="mor"))
    bootstrap_table(write_target(storage, options))


def content(path: Path) -> dict[str, int]:
    found = hudi_py.open_table(str(path)).scan(columns=["id", "n"]).to_table()
    assert len(set(found["id"].to_pylist())) == found.num_rows
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def seen(path: Path) -> dict[str, int]:
    """Returns what readers see, nothing before there is a table with columns."""
    try:
        return content(path)
    except (TableNotFoundError, SchemaMismatchError):
        return {}


@pytest.mark.parametrize(
    ("mode", "version", "torn"),
    cases(product(("metadata_only", "full_record", "both"), (6, 9), (False, True)), "killed bootstraps", 2),
)
@pytest.mark.filterwarnings("ignore:Dropped the metadata table")  # which the killed bootstrap had begun
def test_killed(tmp_path: Path, record_property: Any, mode: str, version: int, torn: bool) -> None:
    folder = source(tmp_path / "source", "hive")
    before = contents(folder)
    whole = KillingStorage(str(tmp_path / "whole"))
    bootstrap(whole, folder, mode, version)
    assert content(tmp_path / "whole") == ALL
    steps = 0
    for at in every(7, len(whole.calls)):
        path = tmp_path / "t"
        shutil.rmtree(path, ignore_errors=True)
        with pytest.raises(Killed):
            bootstrap(KillingStorage(str(path), at, torn=torn), folder, mode, version)
        steps += 1
        storage = LocalStorage(str(path))
        found = seen(path)
        allowed = [{}, ALL]
        if mode == "both":
            allowed.append({key: n for key, n in ALL.items() if n < 7})
        assert found in allowed, whole.calls[at]
        if storage.stat(PROPERTIES) is not None:
            aside = tmp_path / "aside"
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(path, aside)
            try:  # another write
                hudi_py.write(str(aside), rows([1], "oslo", n=5), **NAMES)
            except ConflictError as error:
                refused = str(error)
            else:
                refused = ""
            assert "its bootstrap was not completed" in refused or not refused
            assert seen(aside) == (found if refused else found | {"k1": 5}), whole.calls[at]
            assert not refused or found != ALL
        try:
            bootstrap(storage, folder, mode, version)
        except TableExistsError:
            assert found == ALL, whole.calls[at]
        assert content(path) == ALL
        hudi_py.write(str(path), rows([1], "oslo", n=5))
        assert content(path) == ALL | {"k1": 5}
        assert hudi_py.open_table(str(path)).metadata.verify().ok
        assert contents(folder) == before
    record_property("counted: steps", steps)
