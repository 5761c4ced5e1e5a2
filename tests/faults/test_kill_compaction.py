"""A compaction killed at every call that changes the storage: rows stay as they are, and the next run ends it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.service import run
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view import load_view
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import data_files, leftovers, make_table, read, recover, rows, write

SERVICE = Compaction(always=True)


def compact(storage: Storage) -> None:
    """Plans a compaction if none is pending, and carries it out."""
    options = Options.resolve({"hoodie.py.write.threads": "1"})
    own = ServiceContext.of(storage, options, None)
    own = replace(own, clock=InstantClock(own.config(), skew_ms=0))
    if not SERVICE.pending(own):
        SERVICE.schedule(own)
    run(SERVICE, own)


def read_optimized(root: Path) -> list[dict[str, object]]:
    table = hudi_py.open_table(str(root)).scan(columns=["id", "ts"], query_type="read_optimized").to_table()
    found: list[dict[str, object]] = table.sort_by("id").to_pylist()
    return found


def files_in_slices(root: Path) -> set[str]:
    """Every data file that belongs to a slice of the table."""
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    view = load_view(storage, config, load_timeline(storage, config))
    slices = [piece for partition in view.partitions() for piece in view.every_slice(partition)]
    bases = {piece.base_file.path for piece in slices if piece.base_file is not None}
    return bases | {log.path for piece in slices for log in piece.log_files}


@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize("version", [6, 9])
def test_compaction(tmp_path: Path, version: int, torn: bool) -> None:
    table = tmp_path / "table"
    make_table(table, version, "mor")
    before = read(table)
    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    storage = KillingStorage(str(whole))
    compact(storage)
    expected = read_optimized(whole)
    assert expected != read_optimized(table)
    assert leftovers(whole) == set()
    count = len(storage.calls)
    assert count > 20
    for call in range(count):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        killing = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            compact(killing)
        where = killing.calls[-1]
        assert read(root) == before, where
        if call % 2:  # a write comes first
            write(LocalStorage(str(root)), rows(range(8, 9), 9), "upsert", version, "mor")
        else:
            recover(LocalStorage(str(root)))
        state = read(root)
        compact(LocalStorage(str(root)))
        compact(LocalStorage(str(root)))
        assert read(root) == state, where
        assert [(row["id"], row["ts"]) for row in state] == [(row["id"], row["ts"]) for row in read_optimized(root)], (
            where
        )
        assert files_in_slices(root) == data_files(root), where
        recover(LocalStorage(str(root)))
        assert leftovers(root) == set(), where
        shutil.rmtree(root)
