"""A session, what is chosen with it, and what travels to the other processes of a write."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from hudi_py.errors import ConflictError
from hudi_py.model.instant import Action
from hudi_py.storage import FileInfo, Storage
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.conflicts import WriteScope
from hudi_py.transaction.locks import TableLock, caller_holds_lock
from hudi_py.transaction.session import LockedTable
from hudi_py.transaction.settings import LockSettings
from hudi_py.transaction.transaction import WriteTransaction
from tests.support.hand_writes import (
    SETTINGS,
    attach,
    commit,
    data_files,
    fast_clock,
    first_write,
    leftovers,
    new_table,
    write_base,
)
from tests.support.sessions import session_of

SECRET = "do-not-show"


def test_a_session_shows_no_credentials_and_stays_in_its_process(storage):
    new_table(storage)
    session = replace(session_of(storage), storage_options={"key": SECRET})
    assert SECRET not in repr(session)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(session)


def test_the_properties_are_those_under_the_lock(storage):
    new_table(storage)
    session = session_of(storage)
    update_table_config(storage, {"hoodie.table.metadata.partitions": "files"})
    assert session.config.metadata_partitions == ()
    with session.locked("look") as table:
        assert table.config == table.session.config == load_table_config(storage)
        assert table.config.metadata_partitions == ("files",)
        assert storage.stat(".hoodie/lock") is not None
    assert storage.stat(".hoodie/lock") is None


def test_under_a_lock_the_timeline_is_listed_once(storage, monkeypatch):
    new_table(storage)
    session = session_of(storage)
    transaction = WriteTransaction.begin(session, action=Action.COMMIT, operation="UPSERT")
    listed: list[str] = []
    listing = type(storage).list

    def noted(own: Storage, path: str = "") -> list[FileInfo]:
        listed.append(path)
        return listing(own, path)

    monkeypatch.setattr(type(storage), "list", noted)
    assert session.timeline().pending
    repeated = len(listed)
    listed.clear()
    assert session.timeline(locked=True).pending
    assert 0 < 2 * len(listed) == repeated
    once = list(listed)
    listed.clear()
    assert replace(session, locks=caller_holds_lock).timeline().pending
    assert listed == once
    transaction.abort()


@dataclass(frozen=True)
class Several:
    """Lets writes go on side by side, and notes what it was asked about."""

    one_at_a_time: bool = False

    def check_begin(self, table: LockedTable, scope: WriteScope) -> None:
        assert not scope.touched

    def check_plan(self, table: LockedTable, scope: WriteScope) -> None: ...

    def check_commit(self, table: LockedTable, scope: WriteScope) -> None:
        if any(partition == "refused" for partition, _ in scope.touched):
            raise ConflictError("Cannot commit: refused", instant=scope.instant)


def begin(storage, config, policy):
    session = session_of(storage, config=config, settings=SETTINGS, clock=fast_clock(config))
    return WriteTransaction.begin(replace(session, conflicts=policy), action=Action.COMMIT, operation="UPSERT")


@pytest.mark.parametrize("version", [6, 9])
def test_a_policy_decides_whether_writes_go_on_side_by_side(storage, version):
    config = new_table(storage, version)
    with begin(storage, config, Several()) as one, begin(storage, config, Several()) as other:
        commit(other, [write_base(other, "a", "f-other")])
        commit(one, [write_base(one, "a", "f-one")])
    assert [each.time for each in load_timeline(storage, config).completed] == sorted([one.instant, other.instant])
    assert len(data_files(storage)) == 2
    assert leftovers(storage) == set()


def test_a_policy_is_asked_with_what_the_write_changes(storage):
    config = new_table(storage)
    with begin(storage, config, Several()) as tx:
        stats = [write_base(tx, "refused", "f")]
        with pytest.raises(ConflictError, match="refused") as caught:
            commit(tx, stats)
    assert caught.value.instant == tx.instant
    assert data_files(storage) == set()


TAKEN: list[str] = []


def noted_lock(
    storage: Storage, settings: LockSettings, *, purpose: str, storage_options: Mapping[str, str] | None = None
) -> TableLock:
    TAKEN.append(purpose)
    return caller_holds_lock(storage, settings, purpose=purpose, storage_options=storage_options)


def test_lock_and_policy_travel_with_the_handle(storage):
    config = new_table(storage)
    first_write(storage, config)
    TAKEN.clear()
    session = session_of(storage, config=config, settings=SETTINGS, clock=fast_clock(config))
    session = replace(session, locks=noted_lock, conflicts=Several())
    handle = WriteTransaction.plan(session, action=Action.COMMIT, operation="UPSERT")
    there = attach(pickle.loads(pickle.dumps(handle)), storage)
    assert there.session.conflicts == Several()
    with there as tx:
        commit(tx, [write_base(tx, "a", "new")])
    assert ["choose the instant of a write", "begin a write", f"commit the write {handle.instant}"] == TAKEN
    assert storage.stat(".hoodie/lock") is None
