"""Another name of a table, with its files in another place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope, concurrency
from hudi_py.errors import ConfigError, ConflictError, LockError, TableExistsError, TableNotFoundError
from hudi_py.model.instant import Action, InstantTime
from hudi_py.storage import LocalStorage, open_storage
from hudi_py.transaction.instants import inflight_path
from hudi_py.transaction.locks import table_lock
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.session import WriteTarget
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.write.table.ddl import check_move, rename_table
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


def test_another_name_and_place(tmp_path: Path) -> None:
    path, other = tmp_path / "db" / "trips", tmp_path / "other.db" / "journeys"
    hudi_py.write(path, pa.table({"id": [1]}), record_key="id")
    storage = open_storage(str(path))
    rename_table(WriteTarget(storage, OPTIONS), "journeys", str(path))
    assert hudi_py.open_table(path).properties["hoodie.table.name"] == "journeys"
    rename_table(WriteTarget(storage, OPTIONS), "again", f"file:{other}")
    assert not path.exists()
    assert not (other / ".hoodie" / "lock").exists()
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


def test_nobody_writes_meanwhile(tmp_path: Path) -> None:
    """Neither with optimistic concurrency control; and the lock is waited for."""
    path, other = str(tmp_path / "trips"), str(tmp_path / "journeys")
    hudi_py.write(path, pa.table({"id": [1]}), record_key="id", table_type="mor")
    hudi_py.open_table(path).upsert(pa.table({"id": [1]}))
    storage = open_storage(path)
    session = session_of(LocalStorage(path))
    for place in (path, other):
        with WriteTransaction.begin(session, action=Action.DELTA_COMMIT, operation="UPSERT") as transaction:
            with pytest.raises(ConflictError, match=f"the deltacommit {transaction.instant} of .* is under way"):
                rename_table(WriteTarget(storage, OPTIMISTIC), "journeys", place)
            transaction.abort()
    held = table_lock(storage, LockSettings(), purpose="test")
    with held, pytest.raises(LockError, match="Cannot rename the table at .*: the table lock"):
        rename_table(WriteTarget(storage, IMPATIENT), "journeys", other)
    assert hudi_py.open_table(path).properties["hoodie.table.name"] == "trips"
    plan = hudi_py.open_table(path).compaction.schedule()
    assert plan is not None
    begun = inflight_path(session.layout, InstantTime(plan), Action.COMPACTION)
    storage.put(begun, b"")
    with pytest.raises(ConflictError, match=f"the compaction {plan} of another engine is under way"):
        rename_table(WriteTarget(storage, OPTIMISTIC), "journeys", other)
    storage.delete(begun)  # one that is only planned moves along
    rename_table(WriteTarget(storage, OPTIMISTIC), "journeys", other)
    assert hudi_py.open_table(other).compaction.run().num_file_groups == 1
    assert hudi_py.open_table(other).scan().count() == 1
