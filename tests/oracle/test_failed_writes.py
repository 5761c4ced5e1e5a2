"""Failed writes across engines: Apache Hudi rolls our killed write back, and goes on after we rolled one back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage
from hudi_py.testing.rows import assert_rows_equal
from hudi_py.timeline.metadata import decode_rollback_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.locks import FileLock
from hudi_py.transaction.settings import LockSettings
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import KINDS, SCHEMA, check_recovered, data_files, make_table, read, rows, write
from tests.oracle.client import Oracle, OracleError
from tests.support.choice import cases, in_turn

UPDATE = rows(range(2, 14), 3)


def kinds(name: str) -> pytest.MarkDecorator:
    """Every kind of table: one in CI."""
    return pytest.mark.parametrize(("version", "kind"), cases(KINDS, f"failed writes {name}", 1))


def theirs(oracle: Oracle, root: Path) -> list[dict[str, object]]:
    table = oracle.read(str(root), columns=SCHEMA.names)
    found: list[dict[str, object]] = table.select(SCHEMA.names).sort_by("id").to_pylist()
    return found


def timeline_of(root: Path) -> Timeline:
    storage = LocalStorage(str(root))
    return load_timeline(storage, load_table_config(storage))


def kill_points(table: Path, scratch: Path, version: int, kind: str) -> dict[str, int]:
    """Calls at which an upsert is killed: with nothing but its inflight file, between its files, with all in place."""
    shutil.copytree(table, scratch)
    storage = KillingStorage(str(scratch))
    write(storage, UPDATE, "upsert", version, kind)
    calls = storage.calls
    inflight = next(n for n, call in enumerate(calls) if call.startswith("create") and call.endswith("inflight"))
    renames = [n for n, call in enumerate(calls) if call.startswith("rename")]
    return {"inflight": inflight + 1, "half": renames[0] + 1, "complete": renames[-1] + 1}


@in_turn("failed writes", 0, 3, chosen=None, others="slow")
@kinds("theirs")
def test_apache_hudi_rolls_back_our_killed_write(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    table = tmp_path / "t"
    make_table(table, version, kind)
    before, files = read(table), data_files(table)
    for name, call in kill_points(table, tmp_path / "whole", version, kind).items():
        root = tmp_path / name
        shutil.copytree(table, root)
        with pytest.raises(Killed):
            write(KillingStorage(str(root), call), UPDATE, "upsert", version, kind)
        (pending,) = timeline_of(root).pending
        left = data_files(root) - files
        assert read(root) == before
        assert theirs(oracle, root) == before

        more = rows(range(20, 23), 4)
        oracle.write(str(root), more, operation="upsert")
        assert timeline_of(root).find(pending.time) is None
        (rollback,) = [i for i in timeline_of(root).completed if i.action is Action.ROLLBACK]
        layout = timeline_of(root).layout
        metadata = decode_rollback_metadata(LocalStorage(str(root)).read(layout.path(rollback.file_name)))
        assert metadata.instant == pending.time
        if version == 6 and kind == "mor":
            assert {path for path in left if ".log." not in path} & data_files(root) == set()
        else:
            assert left & data_files(root) == set()
        expected = before + more.to_pylist()
        assert theirs(oracle, root) == expected
        assert read(root) == expected


@pytest.mark.nightly
@in_turn("failed writes", 1, 3, chosen=None, others="slow")
@kinds("never")
def test_both_leave_a_failed_write_alone_under_the_policy_never(
    oracle: Oracle, tmp_path: Path, version: int, kind: str
) -> None:
    table, never = tmp_path / "t", {"hoodie.clean.failed.writes.policy": "NEVER"}
    make_table(table, version, kind)
    call = kill_points(table, tmp_path / "whole", version, kind)["complete"]
    with pytest.raises(Killed):
        write(KillingStorage(str(table), call), UPDATE, "upsert", version, kind)
    (pending,) = timeline_of(table).pending
    expected = read(table)
    for first, write_rows in (
        (20, lambda rows: oracle.write(str(table), rows, operation="upsert", options=never)),
        (30, lambda rows: hudi_py.write(str(table), rows, options=never)),
    ):
        more = rows(range(first, first + 3), 4)
        write_rows(more)
        expected += more.to_pylist()
        assert [each.time for each in timeline_of(table).pending] == [pending.time]
        assert read(table) == expected
        assert theirs(oracle, table) == expected
    hudi_py.write(str(table), rows(range(20, 21), 4))
    assert timeline_of(table).pending == ()
    assert read(table) == expected
    assert theirs(oracle, table) == expected
    assert oracle.check(str(table))["problems"] == []


@in_turn("failed writes", 2, 3, chosen=None, others="slow")
@kinds("ours")
def test_apache_hudi_goes_on_after_our_rollback(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    table = tmp_path / "t"
    make_table(table, version, kind)
    before, files = read(table), data_files(table)
    after = rows(range(2, 14), 3)
    call = kill_points(table, tmp_path / "whole", version, kind)["complete"]
    with pytest.raises(Killed):
        write(KillingStorage(str(table), call), UPDATE, "upsert", version, kind)
    assert not check_recovered(table, before, read(tmp_path / "whole"), files, version, kind)
    assert theirs(oracle, table) == before

    write(LocalStorage(str(table)), after, "upsert", version, kind)
    whole = read(tmp_path / "whole")
    assert read(table) == whole
    assert theirs(oracle, table) == whole
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    more = rows(range(20, 23), 4)
    oracle.write(str(table), more, operation="upsert", options=inline if kind == "mor" else None)
    expected = whole + more.to_pylist()
    assert theirs(oracle, table) == expected
    assert read(table) == expected
    assert oracle.check(str(table))["problems"] == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", cases(["v6_mor_inflight", "v9_mor_inflight"], "their killed write", 1))
def test_we_roll_back_apache_hudis_killed_write(oracle: Oracle, golden_copy: Callable[[str], Path], name: str) -> None:
    root = golden_copy(name)
    storage = LocalStorage(str(root))
    (pending,) = timeline_of(root).pending
    before = hudi_py.open_table(str(root)).scan().to_table()
    some = before.slice(0, 3).drop_columns([name for name in before.column_names if name.startswith("_hoodie_")])
    hudi_py.write(str(root), some, "upsert")
    timeline = timeline_of(root)
    assert timeline.find(pending.time) is None
    assert timeline.pending == ()
    assert not [path for path in data_files(root) if f"_{pending.time}" in path and config_version(storage) >= 8]
    ours = hudi_py.open_table(str(root)).scan().to_table()
    assert ours.num_rows == before.num_rows
    assert_rows_equal(ours, oracle.read(str(root)))
    assert oracle.check(str(root))["problems"] == []
    oracle.write(str(root), pa.Table.from_batches(some.to_batches()), operation="upsert")
    assert_rows_equal(hudi_py.open_table(str(root)).scan().to_table(), oracle.read(str(root)))


def config_version(storage: LocalStorage) -> int:
    return load_table_config(storage).version


def test_apache_hudi_respects_our_lock_and_we_its(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "t"
    make_table(root, 9, "cow")
    before = read(root)
    storage = LocalStorage(str(root))
    locked = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.client.num_retries": "1",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
        "hoodie.write.lock.num_retries": "1",
        "hoodie.write.lock.wait_time_ms": "200",
        "hoodie.metadata.enable": "false",
    }
    more = rows(range(20, 23), 4)
    with FileLock(storage, LockSettings(), purpose="hold") as lock:
        with pytest.raises(OracleError, match="(?i)lock"):
            oracle.write(str(root), more, operation="upsert", options=locked)
        lock.check()
    assert read(root) == before
    oracle.write(str(root), more, operation="upsert", options=locked)
    expected = before + more.to_pylist()
    assert storage.stat(".hoodie/lock") is None
    assert read(root) == expected
    write(storage, rows(range(30, 32), 5), "upsert", 9, "cow")
    assert theirs(oracle, root) == expected + rows(range(30, 32), 5).to_pylist()
