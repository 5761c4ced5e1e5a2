"""Writes of rows that were computed from an earlier read: what others have changed since is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError
from tests.support.choice import cases

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.num.retries.on.conflict.failures": "2",
}
MODES = {"one writer": QUIET, "optimistic": {**QUIET, **OPTIMISTIC}}
SEEN = "hoodie.py.write.seen"


def row(key: int, n: int, partition: str = "a") -> dict[str, Any]:
    return {"id": key, "p": partition, "n": n}


def make(path: str, version: int = 9, kind: str = "cow") -> hudi_py.Table:
    rows = [row(1, 0), row(2, 0), row(3, 0, "b")]
    named = {"record_key": "id", "partition_by": "p"}
    hudi_py.write(path, rows, "upsert", QUIET, **named, table_type=kind, table_version=version)
    return hudi_py.open_table(path)


def values(table: hudi_py.Table) -> dict[int, int]:
    return {each["id"]: each["n"] for each in table.scan(["id", "n"]).to_table().to_pylist()}


WRITES: dict[str, Callable[[hudi_py.Table, dict[str, str]], Any]] = {
    "upsert": lambda table, options: table.upsert([row(1, 5)], options=options),
    "delete": lambda table, options: table.delete([row(1, 0)], options=options),
    "update": lambda table, options: table.update({"n": "5"}, "id = 1", options=options),
    "delete_where": lambda table, options: table.delete_where("id = 1", options=options),
    "merge": lambda table, options: table.merge([row(1, 5)], "id", options=options).when_matched_update_all().execute(),
    "insert_overwrite": lambda table, options: table.insert_overwrite([row(1, 5)], options=options),
    "insert_overwrite_table": lambda table, options: table.insert_overwrite_table([row(9, 5, "b")], options=options),
}


@pytest.mark.parametrize(
    ("version", "kind", "mode", "write"), cases(product((6, 8, 9), ("cow", "mor"), MODES, WRITES), "seen", 5)
)
def test_what_others_have_changed_since_the_read_is_a_conflict(tmp_path, version, kind, mode, write):
    table = make(str(tmp_path / "t"), version, kind)
    given = MODES[mode]
    pin = table.scan().pin
    table.upsert([row(1, 1), row(2, 1)], options=given)
    before = values(table)
    with pytest.raises(
        ConflictError, match=r"since its rows were read the .* changed the file group .* read the table"
    ):
        WRITES[write](table, {**given, SEEN: pin})
    assert values(table) == before
    assert table.timeline.pending == ()
    WRITES[write](table, {**given, SEEN: table.scan().pin})
    assert values(table) != before


@pytest.mark.parametrize("version", [6, 9])
def test_what_is_no_conflict(tmp_path, version):
    table = make(str(tmp_path / "t"), version, "mor")
    pin = table.scan().pin
    table.upsert([row(3, 1, "b")], options=QUIET)  # another file group
    table.upsert([row(1, 5)], options={**QUIET, SEEN: pin})
    pin = table.scan().pin
    table.compact()  # changes no row
    table.upsert([row(1, 6)], options={**QUIET, SEEN: pin})
    table.insert([row(1, 7)], options={**QUIET, SEEN: pin})  # overwrites no row
    table.upsert([row(2, 8)], options={**QUIET, SEEN: "any"})
    assert values(table)[2] == 8


def test_what_a_rollback_or_a_restore_has_taken_away_was_seen(tmp_path):
    table = make(str(tmp_path / "t"))
    saved = table.savepoint()
    done = table.upsert([row(1, 1)], options=QUIET)
    pin = table.scan().pin
    table.rollback(done.instant)
    with pytest.raises(ConflictError, match="has been rolled back or archived since"):
        table.upsert([row(1, 2)], options={**QUIET, SEEN: pin})
    pin = table.scan().pin
    table.upsert([row(2, 1)], options=QUIET)
    table.restore(saved.instant)
    with pytest.raises(ConflictError, match="since its rows were read the restore|rolled back or archived since"):
        table.upsert([row(3, 2, "b")], options={**QUIET, SEEN: pin})
    assert values(table) == {1: 0, 2: 0, 3: 0}


def test_an_empty_table_was_seen(tmp_path):
    path = str(tmp_path / "t")
    table = hudi_py.create_table(path, pa.schema([("id", pa.int64()), ("n", pa.int64())]), record_key="id")
    pin = table.scan().pin
    table.upsert([{"id": 1, "n": 1}], options=QUIET)
    with pytest.raises(ConflictError, match="since its rows were read"):
        table.upsert([{"id": 1, "n": 2}], options={**QUIET, SEEN: pin})


def test_a_wrong_pin_is_refused(tmp_path):
    table = make(str(tmp_path / "t"))
    with pytest.raises(ConfigError, match=rf"Option {SEEN} = 'yesterday...' is not valid: expected .* Scan.pin"):
        table.upsert([row(1, 1)], options={SEEN: "yesterday"})
