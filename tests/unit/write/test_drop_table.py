"""A table with all its files is deleted."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope, concurrency
from hudi_py.errors import ConflictError, LockError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.storage import LocalStorage, open_storage
from hudi_py.transaction.instants import inflight_path
from hudi_py.transaction.locks import table_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.session import WriteTarget
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.table.ddl import drop_table
from tests.support.object_store import serving
from tests.support.sessions import session_of

OPTIONS = Options.resolve({}, Scope.WRITE)
OPTIMISTIC = Options.resolve(
    {
        concurrency.MODE.key: concurrency.OPTIMISTIC,
        concurrency.LOCK_PROVIDER.key: concurrency.FILE_SYSTEM_LOCK,
    },
    Scope.WRITE,
)
IMPATIENT = Options.resolve(
    {"hoodie.write.lock.wait_time_ms": "10", "hoodie.write.lock.client.num_retries": "0"}, Scope.WRITE
)
ROWS = pa.table({"id": [1, 2], "part": ["a", "b"]})


def test_everything_goes_but_what_is_beside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, beside = tmp_path / "trips", tmp_path / "other" / "file"
    beside.parent.mkdir()
    beside.write_text("x")
    assert not drop_table(WriteTarget(open_storage(str(beside.parent)), OPTIONS))
    hudi_py.write(path, ROWS, record_key="id", partition_by="part")
    with caplog.at_level(logging.WARNING):
        assert drop_table(WriteTarget(open_storage(str(path)), OPTIONS))
    assert not caplog.records
    assert not path.exists()
    assert beside.read_text() == "x"
    hudi_py.write(path, ROWS.slice(1), record_key="id", partition_by="part")
    assert hudi_py.open_table(path).scan().count() == 1


def test_in_an_object_store(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("obstore")
    with serving() as store:
        given = {"endpoint": store.url, "allow_http": "true", "region": "eu-west-1", "skip_signature": "true"}
        hudi_py.write("s3://bucket/beside", ROWS, record_key="id", storage_options=given)
        beside = {name: len(data) for name, (data, _) in store.files.items()}
        hudi_py.write("s3://bucket/t", ROWS, record_key="id", partition_by="part", storage_options=given)
        with caplog.at_level(logging.WARNING):
            assert drop_table(WriteTarget(open_storage("s3://bucket/t", given), OPTIONS.with_storage(given)))
        assert not caplog.records
        assert {name: len(data) for name, (data, _) in store.files.items()} == beside


def test_a_drop_that_broke_off_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, deleted, turn = LocalStorage.delete_tree, 0, 0

    def breaks(self: LocalStorage, path: str) -> None:
        nonlocal deleted
        deleted += 1
        if deleted > turn:
            raise OSError("no")
        real(self, path)

    for turn in range(20):
        path = str(tmp_path / str(turn))
        hudi_py.write(path, ROWS, record_key="id", partition_by="part")
        left, deleted = LocalStorage(path), 0
        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "delete_tree", breaks)
            try:
                drop_table(WriteTarget(left, OPTIONS))
                break
            except OSError:
                assert left.stat(".hoodie/hoodie.properties") is not None or not list(left.walk(""))
        drop_table(WriteTarget(left, OPTIONS))
        assert not list(left.walk(""))
    assert turn > 3


def test_nobody_writes_meanwhile(tmp_path: Path) -> None:
    """Neither with optimistic concurrency control; and the lock is waited for."""
    path = str(tmp_path / "trips")
    hudi_py.write(path, ROWS, record_key="id", table_type="mor")
    hudi_py.open_table(path).upsert(ROWS)
    storage = open_storage(path)
    session = session_of(LocalStorage(path))
    with WriteTransaction.begin(session, action=Action.DELTA_COMMIT, operation="UPSERT") as transaction:
        with pytest.raises(ConflictError, match=f"drop the table at .*deltacommit {transaction.instant} of .* is un"):
            drop_table(WriteTarget(storage, OPTIMISTIC))
        transaction.abort()
    held = table_lock(storage, LockSettings(), purpose="test")
    with held, pytest.raises(LockError, match="Cannot drop the table at .*: the table lock"):
        drop_table(WriteTarget(storage, IMPATIENT))
    plan = hudi_py.open_table(path).compaction.schedule()
    assert plan is not None
    begun = inflight_path(session.layout, InstantTime(plan), Action.COMPACTION)
    storage.put(begun, b"")
    with pytest.raises(ConflictError, match=f"the compaction {plan} of another engine is under way"):
        drop_table(WriteTarget(storage, OPTIONS))
    assert hudi_py.open_table(path).scan().count() == 2
