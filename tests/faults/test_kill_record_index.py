"""Writes that find keys by the record index, killed at calls that change the storage: the index stays that of the rows,
and the next write finds by it what is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.storage import LocalStorage, Storage
from hudi_py.wiring import service_target
from hudi_py.write.api import TableArguments, write_options, write_rows
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import leftovers
from tests.support.choice import every
from tests.support.record_index import indexed, stored

pytestmark = pytest.mark.slow

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
    # one thread: two would make the calls in another order each time
    "hoodie.py.write.threads": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.parquet.small.file.limit": "0",
}


def rows(places: dict[int, str], ts: int, gone: tuple[int, ...] = ()) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(places, pa.int64()),
            "p": pa.array(places.values(), pa.string()),
            "ts": pa.array([ts] * len(places), pa.int64()),
            "_hoodie_is_deleted": pa.array([key in gone for key in places], pa.bool_()),
        }
    )


def write(storage: Storage, data: pa.Table, version: int, kind: str) -> None:
    options = write_options(
        OPTIONS,
        TableArguments(record_key="k", partition_by="p", ordering_by="ts", table_type=kind, table_version=version),
    )
    write_rows(service_target(storage, options), data, "upsert")


def places(root: Path) -> dict[int, str]:
    found = hudi_py.open_table(str(root)).scan(["k", "_hoodie_partition_path"]).to_table()
    assert len(set(found["k"].to_pylist())) == found.num_rows
    return dict(zip(found["k"].to_pylist(), found["_hoodie_partition_path"].to_pylist(), strict=True))


FIRST = {0: "a", 1: "b", 2: "a", 3: "b"}
# 0 is updated, 1 moves, 2 is deleted, 4 is new
CHANGE = rows({0: "a", 1: "a", 2: "a", 4: "b"}, 2, gone=(2,))
AFTER = {0: "a", 1: "a", 3: "b", 4: "b"}


@pytest.mark.parametrize(
    ("version", "kind", "torn", "step"), [(9, "mor", False, 2), (9, "cow", True, 4), (6, "mor", False, 4)]
)
def test_killed_at_any_call(tmp_path: Path, version: int, kind: str, torn: bool, step: int) -> None:
    table, whole = tmp_path / "table", tmp_path / "whole"
    write(LocalStorage(str(table)), rows(FIRST, 1), version, kind)
    shutil.copytree(table, whole)
    counting = KillingStorage(str(whole))
    write(counting, CHANGE, version, kind)
    assert places(whole) == AFTER
    assert indexed(str(whole)) == stored(str(whole))
    outcomes = set()
    for call in every(12 * step, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        with pytest.raises(Killed):
            write(KillingStorage(str(root), call, torn=torn), CHANGE, version, kind)
        found = places(root)
        assert found in (FIRST, AFTER), counting.calls[call]
        outcomes.add(found == AFTER)
        assert indexed(str(root)) == stored(str(root)), counting.calls[call]
        write(LocalStorage(str(root)), rows({1: "b", 2: "b", 3: "b"}, 3), version, kind)
        assert places(root) == {**found, 1: "b", 2: "b", 3: "b"}, counting.calls[call]
        assert indexed(str(root)) == stored(str(root)), counting.calls[call]
        assert leftovers(root) == set()
        shutil.rmtree(root)
    assert outcomes == {True, False}
