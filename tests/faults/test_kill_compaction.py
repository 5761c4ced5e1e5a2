"""A compaction killed at every call that changes the storage: rows stay as they are, and the next run ends it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.planned.service import pending_instants, run, run_all
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.state import load_state
from hudi_py.transaction.owner.identity import end_work
from hudi_py.transaction.protocols import MetadataWriter, NoMetadata
from hudi_py.transaction.session import WriteTarget
from hudi_py.view import load_view
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import data_files, leftovers, make_table, read, recover, rows, write
from tests.faults.test_kill_metadata import KillingMemory, copy_of, files_of
from tests.support.choice import every
from tests.unit.metadata_write import memory_tables

pytestmark = pytest.mark.slow  # tests/unit/services/compaction has quick ones of failed compactions

SERVICE = Compaction(always=True)


def context(
    storage: Storage, metadata: MetadataWriter | None = None, *, options: Mapping[str, str] | None = None
) -> ServiceContext:
    given = {"hoodie.py.write.threads": "1", **(options or {})}
    found = ServiceContext.of(WriteTarget(storage, Options.resolve(given), metadata or NoMetadata()))
    clock = InstantClock(found.config(), skew_ms=0)
    return replace(found, session=replace(found.session, clock=clock))


def compact(
    storage: Storage, metadata: MetadataWriter | None = None, service: Compaction | LogCompaction = SERVICE
) -> None:
    """Plans a compaction if none is pending, and carries it out."""
    own = context(storage, metadata)
    if not pending_instants(service, own):
        service.schedule(own)
    run(service, own)


def read_optimized(root: Path) -> list[dict[str, object]]:
    table = hudi_py.open_table(str(root)).scan(columns=["id", "ts"], query_type="read_optimized").to_table()
    found: list[dict[str, object]] = table.sort_by("id").to_pylist()
    return found


def files_in_slices(root: Path) -> set[str]:
    """Every data file that belongs to a slice of the table."""
    storage = LocalStorage(str(root))
    view = load_view(load_state(storage))
    slices = [piece for partition in view.partitions() for piece in view.every_slice(partition)]
    bases = {piece.base_file.path for piece in slices if piece.base_file is not None}
    return bases | {log.path for piece in slices for log in piece.log_files}


@pytest.mark.parametrize(("version", "torn"), [(6, False), (9, True)], ids=["v6-before", "v9-torn"])
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
    for call in every(12, count):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        killing = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            compact(killing)
        where = killing.calls[-1]
        assert read(root) == before, where
        if call // 12 % 2:  # a write comes first
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


@pytest.mark.parametrize(
    ("version", "service"),
    [
        pytest.param(6, SERVICE, id="v6"),
        pytest.param(9, SERVICE, id="v9"),
        pytest.param(9, LogCompaction(always=True), id="log-v9", marks=pytest.mark.slow),
    ],
)
def test_with_a_metadata_table(version: int, service: Compaction | LogCompaction) -> None:
    """Killed at every fifth call: the metadata table ends as right as it was, and so do the rows."""
    storage = copy_of({})
    memory_tables.write(storage, memory_tables.rows(range(6), 1), "insert", version=version)
    for ts in range(2, 7):
        memory_tables.write(storage, memory_tables.rows(range(3), ts), "upsert", version=version)
    before, files = memory_tables.read(storage), files_of(storage)
    metadata = memory_tables.writer()
    whole = KillingMemory(copy_of(files))
    compact(whole, metadata, service)
    count = len(whole.calls)
    assert count > 30
    for call in every(14, count):
        storage = copy_of(files)
        killing = KillingMemory(storage, call)
        with pytest.raises(Killed):
            compact(killing, metadata, service)
        where = f"{call} {killing.calls[-1]}"
        assert memory_tables.read(storage) == before, where
        compact(storage, metadata, service)
        memory_tables.write(storage, memory_tables.rows([5], 9), "upsert", version=version)
        assert memory_tables.read(storage) == {**before, 5: 9}, where
        memory_tables.check_listing(storage)
        report = verify(context(storage, metadata))
        assert report.ok, (where, report)


@pytest.mark.parametrize("version", [pytest.param(6, marks=pytest.mark.slow), 9])
def test_a_plan_that_is_dropped(tmp_path: Path, version: int) -> None:
    """One that has begun: killed at any call, it is dropped, or as it was before or before it began."""
    table = tmp_path / "table"
    make_table(table, version, "mor")
    before, files = read(table), data_files(table)
    own = context(LocalStorage(str(table)))
    planned = SERVICE.schedule(own).instant
    assert planned is not None
    work = SERVICE.begin(own, planned)
    SERVICE.execute(own, work, range(work.num_tasks))
    end_work(work.attempt.owner.id)  # as if its process had died
    whole = tmp_path / "whole"
    shutil.copytree(table, whole)
    counting = KillingStorage(str(whole))
    unschedule(context(counting), planned)
    assert len(counting.calls) > 10
    for call in every(12, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        killing = KillingStorage(str(root), call, torn=bool(call // 12 % 2))
        with pytest.raises(Killed):
            unschedule(context(killing), planned)
        where = killing.calls[-1]
        storage = LocalStorage(str(root))
        assert read(root) == before, where
        if call % 3:
            recover(storage)
        if pending_instants(SERVICE, context(storage)):
            unschedule(context(storage), planned)
        assert (read(root), data_files(root)) == (before, files), where
        compact(storage)
        assert [(row["id"], row["ts"]) for row in before] == [(row["id"], row["ts"]) for row in read_optimized(root)], (
            where
        )
        recover(storage)
        assert leftovers(root) == set(), where
        shutil.rmtree(root)


@pytest.mark.slow
def test_a_log_compaction_that_was_overtaken(tmp_path: Path) -> None:
    """In one file group of two, then in both: killed at any call, the next run ends it."""
    table = tmp_path / "table"
    make_table(table, 9, "mor")
    write(LocalStorage(str(table)), rows(range(4), 3), "upsert", 9, "mor")
    options = {"hoodie.log.compaction.blocks.threshold": "2"}
    service = LogCompaction(always=True)
    planned = service.schedule(context(LocalStorage(str(table)), options=options)).instant
    for partition in ("a", "b"):
        only = {
            "hoodie.compaction.strategy": "PartitionRegexBasedCompactionStrategy",
            "hoodie.compaction.partition.path.regex": f"^{partition}$",
        }
        ahead = context(LocalStorage(str(table)), options=only)
        assert run(SERVICE, ahead, SERVICE.schedule(ahead).instant).num_file_groups == 1
        before = read(table)
        whole = tmp_path / "whole"
        shutil.copytree(table, whole)
        counting = KillingStorage(str(whole))
        report = run(service, context(counting, options=options), planned)
        assert report.instant == (planned if partition == "a" else None)
        for call in every(12, len(counting.calls)):
            root = tmp_path / f"{call}"
            shutil.copytree(table, root)
            killing = KillingStorage(str(root), call, torn=bool(call // 12 % 2))
            with pytest.raises(Killed):
                run(service, context(killing, options=options), planned)
            where = killing.calls[-1]
            storage = LocalStorage(str(root))
            assert read(root) == before, where
            run_all(service, context(storage, options=options))
            assert not pending_instants(service, context(storage)), where
            assert read(root) == before, where
            assert files_in_slices(root) == data_files(root), where
            recover(storage)
            assert leftovers(root) == set(), where
            shutil.rmtree(root)
        shutil.rmtree(whole)


@pytest.mark.slow
def test_a_plan_that_is_dropped_with_a_metadata_table() -> None:
    storage = copy_of({})
    memory_tables.write(storage, memory_tables.rows(range(6), 1), "insert")
    memory_tables.write(storage, memory_tables.rows(range(3), 2))
    metadata = memory_tables.writer()
    own = context(storage, metadata)
    planned = SERVICE.schedule(own).instant
    assert planned is not None
    work = SERVICE.begin(own, planned)
    outcomes = SERVICE.execute(own, work, range(work.num_tasks))
    dying = KillingMemory(copy_of(files_of(storage)))
    SERVICE.commit(context(dying, metadata), work, outcomes)
    last = max(i for i, what in enumerate(dying.calls) if f"{planned}_" in what and ".hoodie/metadata" not in what)
    dying = KillingMemory(storage, last)
    with pytest.raises(Killed):  # the metadata table has it, the timeline has not
        SERVICE.commit(context(dying, metadata), work, outcomes)
    end_work(work.attempt.owner.id)
    before, files = memory_tables.read(storage), files_of(storage)
    whole = KillingMemory(copy_of(files))
    unschedule(context(whole, metadata), planned)
    for call in every(12, len(whole.calls)):
        storage = copy_of(files)
        killing = KillingMemory(storage, call)
        with pytest.raises(Killed):
            unschedule(context(killing, metadata), planned)
        where = f"{call} {killing.calls[-1]}"
        assert memory_tables.read(storage) == before, where
        if pending_instants(SERVICE, context(storage, metadata)):
            unschedule(context(storage, metadata), planned)
        assert memory_tables.own_timeline(storage).find(planned) is None, where
        memory_tables.write(storage, memory_tables.rows([5], 9))
        assert memory_tables.read(storage) == {**before, 5: 9}, where
        memory_tables.check_listing(storage)
        report = verify(context(storage, metadata))
        assert report.ok, (where, report)
