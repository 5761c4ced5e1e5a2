"""Savepoints, rollbacks and restores killed at every call that changes the storage: the next write finishes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_py.config import Options
from hudi_py.model.instant import Action, State
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint, delete_savepoint, list_savepoints
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import data_files, leftovers, make_table, read, recover, rows, write
from tests.support.choice import every

KINDS = [(6, "mor"), (9, "cow"), (9, "mor")]
IDS = [f"v{version}-{kind}" for version, kind in KINDS]


def context(storage: Storage) -> ServiceContext:
    options = {"hoodie.time.generator.max_expected_clock_skew_ms": "5"}
    clock = InstantClock(load_table_config(storage), skew_ms=5)
    return ServiceContext.of(
        WriteTarget(storage, Options.resolve(options, defaults={}), DropMetadata(False), clock=clock)
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tables(version, kind)`: a savepoint of two commits, two commits more, and with `compacted` a compaction under
    the second of these; made once."""
    made: dict[object, Path] = {}

    def table(version: int, kind: str, *, compacted: bool = False) -> Path:
        key = (version, kind, compacted)
        if key not in made:
            root = made[key] = tmp_path_factory.mktemp("recovery") / "table"
            make_table(root, version, kind)
            storage = LocalStorage(str(root))
            create_savepoint(context(storage))
            write(storage, rows(range(2, 14), 3), "upsert", version, kind)
            if compacted:
                scheduled = Compaction(always=True).schedule(context(storage)).instant
                assert scheduled is not None
            write(storage, rows(range(3), 4), "upsert", version, kind)
            if compacted:
                service = Compaction()
                work = service.begin(context(storage), scheduled)
                service.commit(context(storage), work, service.execute(context(storage), work, range(work.num_tasks)))
        return made[key]

    return table


def kill_everywhere(
    table: Path,
    tmp_path: Path,
    action: Callable[[ServiceContext], object],
    check: Callable[[Path, bool], None],
    *,
    torn: bool = False,
    step: int = 1,
) -> None:
    """Kills the action at every call, recovers as the next write does, and has `check(root, done)` look at the table.

    `done` tells whether its rows are those after the action; once they are, they stay so for all later calls.
    """
    before = read(table)
    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    counting = KillingStorage(str(whole))
    action(context(counting))
    after = read(whole)
    check(whole, True)
    outcomes: list[bool] = []
    for call in every(12 * step, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        storage = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            action(context(storage))
        recover(LocalStorage(str(root)))
        found = read(root)
        assert found in (before, after), storage.calls[-1]
        assert leftovers(root) == set(), storage.calls[-1]
        timeline = context(LocalStorage(str(root))).timeline()
        assert not [i for i in timeline.pending if i.action is not Action.SAVEPOINT], storage.calls[-1]
        if before != after:
            outcomes.append(found == after)
            check(root, found == after)
        action(context(LocalStorage(str(root))))
        assert read(root) == after, storage.calls[-1]
        check(root, True)
        shutil.rmtree(root)
    assert outcomes == sorted(outcomes)


@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize(("version", "kind"), KINDS, ids=IDS)
def test_rollback(tables, tmp_path, version, kind, torn):
    table = tables(version, kind)
    files = data_files(table)
    last = context(LocalStorage(str(table))).timeline().write_completed[-1].time

    def check(root: Path, done: bool) -> None:
        gone, added = files - data_files(root), data_files(root) - files
        found = context(LocalStorage(str(root))).timeline().find(last)
        assert (found is None) == done
        if version == 6:
            assert gone == set()
            assert len(added) == (2 if done else 0)
        else:
            assert added == set()
            assert gone == ({path for path in files if last in path} if done else set())

    kill_everywhere(table, tmp_path, lambda working: rollback(working, last), check, torn=torn)


@pytest.mark.parametrize("version", [6, 9])
def test_rollback_of_a_compaction_and_what_is_newer(tables, tmp_path, version):
    table = tables(version, "mor", compacted=True)
    timeline = context(LocalStorage(str(table))).timeline()
    (compaction,) = [i.time for i in timeline.write_completed if i.action is Action.COMMIT]

    def action(working: ServiceContext) -> object:
        if working.timeline().find(compaction) is None:
            return None  # recovery was finishing the last of the rollbacks
        return rollback(working, compaction, with_newer=True)

    # of two rollbacks the second is not made by recovery: the rows are those in between, and so neither
    table_without = tmp_path / "without"
    shutil.copytree(table, table_without)
    newest = timeline.write_completed[-1].time
    rollback(context(LocalStorage(str(table_without))), newest)

    def check(root: Path, done: bool) -> None:
        found = context(LocalStorage(str(root))).timeline().find(compaction)
        assert found is None or found.completed
        if found is None:
            assert not [path for path in data_files(root) if compaction in path]

    (tmp_path / "runs").mkdir()
    kill_everywhere(table_without, tmp_path / "runs", action, check)


@pytest.mark.filterwarnings("ignore:Dropped the metadata table")
@pytest.mark.parametrize(
    ("name", "pending"),
    [("v6_mor_clustering_pending", "20261121014433720.replacecommit.requested"), ("v9_cow_clustering", "")],
)
def test_rollback_of_a_clustering(golden_copy, tmp_path, name, pending):
    """Killed anywhere, it is there as it was, or nothing of it is: while it is undone it looks like a pending one."""
    table = golden_copy(name)
    if pending:  # it is about files that the rollback takes away
        (table / ".hoodie" / pending).unlink()
    working = context(LocalStorage(str(table)))
    *_, clustering = [i.time for i in working.timeline().write_completed if i.action is Action.REPLACE_COMMIT]
    newer = [i.time for i in working.timeline().write_completed if i.time > clustering]
    rollback(working, newer[0], with_newer=True)
    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    counting = KillingStorage(str(whole))
    rollback(context(counting), clustering)
    for call in every(12, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        storage = KillingStorage(str(root), call)
        with pytest.raises(Killed):
            rollback(context(storage), clustering)
        recover(LocalStorage(str(root)))
        found = context(LocalStorage(str(root))).timeline().find(clustering)
        files = [path for path in data_files(root) if clustering in path]
        assert bool(files) == (found is not None), storage.calls[-1]
        assert found is None or found.completed, storage.calls[-1]
        shutil.rmtree(root)


@pytest.mark.parametrize("version", [6, 9])
def test_rollback_of_a_pending_compaction(tables, tmp_path, version):
    table = tmp_path / "table"
    shutil.copytree(tables(version, "mor"), table)
    storage = LocalStorage(str(table))
    scheduled = Compaction(always=True).schedule(context(storage)).instant
    assert scheduled is not None
    service = Compaction(local=False)
    work = service.begin(context(storage), scheduled)
    service.execute(context(storage), work, range(work.num_tasks))
    storage.delete(f".hoodie/.heartbeat/{scheduled}")
    before = read(table)
    files = {path for path in data_files(table) if not path.endswith(f"_{scheduled}.parquet")}
    assert files < data_files(table)
    counting = KillingStorage(str(shutil.copytree(table, tmp_path / "whole")))
    impatient = {"hoodie.client.heartbeat.interval_in_ms": "1", "hoodie.client.heartbeat.tolerable.misses": "1"}

    def roll_back(storage: Storage) -> None:
        options = Options.resolve({"hoodie.time.generator.max_expected_clock_skew_ms": "5", **impatient}, defaults={})
        clock = InstantClock(load_table_config(storage), skew_ms=5)
        rollback(ServiceContext.of(WriteTarget(storage, options, DropMetadata(False), clock=clock)), scheduled)

    roll_back(counting)
    for call in every(12, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        killing = KillingStorage(str(root), call)
        with pytest.raises(Killed):
            roll_back(killing)
        recover(LocalStorage(str(root)))
        roll_back(LocalStorage(str(root)))
        assert read(root) == before
        timeline = context(LocalStorage(str(root))).timeline()
        assert [(i.time, i.state) for i in timeline.pending] == [(scheduled, State.REQUESTED)], killing.calls[-1]
        assert data_files(root) == files
        assert leftovers(root) == set(), killing.calls[-1]
        again = context(LocalStorage(str(root)))
        work = Compaction().begin(again, scheduled)
        Compaction().commit(again, work, Compaction().execute(again, work, range(work.num_tasks)))
        assert read(root) == before
        assert leftovers(root) == set()
        shutil.rmtree(root)


@pytest.mark.parametrize(
    ("version", "kind", "compacted", "torn"),
    [(6, "mor", True, True), (9, "cow", False, True), (9, "mor", True, False), (6, "mor", False, False)],
)
def test_restore(tables, tmp_path, version, kind, compacted, torn):
    table = tables(version, kind, compacted=compacted)
    working = context(LocalStorage(str(table)))
    (saved,) = list_savepoints(working)
    since = [i.time for i in working.timeline().write_completed if i.time > saved.instant]
    kept = {f"{partition}/{name}" for partition, names in saved.files.items() for name in names}

    def check(root: Path, done: bool) -> None:
        timeline = context(LocalStorage(str(root))).timeline()
        left = [i.time for i in timeline.write_completed if i.time > saved.instant]
        assert left == ([] if done else since)
        assert kept <= data_files(root)
        if done:
            assert not [i for i in timeline.instants if i.action is Action.ROLLBACK]
            assert not [path for path in data_files(root) if any(time in path for time in since)]

    kill_everywhere(table, tmp_path, lambda working: restore(working), check, torn=torn, step=2 if compacted else 1)


@pytest.mark.parametrize("version", [6, 9])
def test_savepoint(tables, tmp_path, version):
    table = tables(version, "mor")
    kept = {found.instant for found in list_savepoints(context(LocalStorage(str(table))))}

    def check(root: Path, done: bool) -> None:
        found = {found.instant for found in list_savepoints(context(LocalStorage(str(root))))}
        assert found - kept if done else found == kept

    kill_everywhere(table, tmp_path, lambda working: create_savepoint(working), check)
    (old,) = kept
    (tmp_path / "delete").mkdir()

    def check_deleted(root: Path, done: bool) -> None:
        timeline = context(LocalStorage(str(root))).timeline()
        assert not [i for i in timeline.instants if i.action is Action.SAVEPOINT]

    kill_everywhere(table, tmp_path / "delete", lambda working: delete_savepoint(working, old), check_deleted)
