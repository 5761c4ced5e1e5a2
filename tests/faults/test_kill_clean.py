"""A clean killed at every call that changes the storage: rows stay as they are, and the next run ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_py.config import Options
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.model.instant import Action
from hudi_py.services.clean import Cleaning, CleanReport, service
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run_all
from hudi_py.storage import Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.transaction.metadata_drop import DropMetadata
from hudi_py.transaction.protocols import MetadataWriter
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed
from tests.faults.test_kill_metadata import Files, KillingMemory, copy_of, files_of
from tests.support.choice import every
from tests.support.clean_tables import HandMadeTable, clean_options
from tests.unit.metadata_write import memory_tables

WITHOUT = {"hoodie.metadata.enable": "false"}


class OneByOne(KillingMemory):
    """Deletes files one after the other, so that the calls come in the same order each time."""

    @property
    def is_local(self) -> bool:
        return True


def context(storage: Storage, metadata: MetadataWriter) -> ServiceContext:
    options = Options.resolve(clean_options({"versions": 1}), defaults={})
    found = ServiceContext.of(WriteTarget(storage, options, metadata))
    clock = InstantClock(found.config(), skew_ms=0)
    return replace(found, session=replace(found.session, clock=clock))


def clean(storage: Storage, metadata: MetadataWriter) -> CleanReport:
    return run_all(Cleaning(), context(storage, metadata))


def data_files(storage: Storage) -> set[str]:
    return {info.path for info in storage.walk() if not info.path.startswith(".hoodie/")}


def made(version: int, options: dict[str, str] | None = None) -> Files:
    """Two partitions, one of which an overwrite leaves without a file group."""
    storage = copy_of({})
    for ts in range(1, 4):
        memory_tables.write(storage, memory_tables.rows(range(4), ts), version=version, kind="cow", options=options)
    even = memory_tables.rows([0, 2], 5)
    memory_tables.write(storage, even, "insert_overwrite_table", version=version, kind="cow", options=options)
    return files_of(storage)


def kill_everywhere(files: Files, metadata: MetadataWriter, *, step: int = 1) -> list[Storage]:
    """Tables whose clean was killed, call by call, and ended by the next one."""
    start = copy_of(files)
    before = memory_tables.read(start)
    whole = OneByOne(copy_of(files))
    report = clean(whole, metadata)
    assert report.num_files == 6
    assert report.deleted_partitions == ("b",)
    expected = data_files(whole)
    assert len(expected) == 2  # a base file and the partition's metafile
    ended: list[Storage] = []
    for call in every(12 * step, len(whole.calls)):
        storage = copy_of(files)
        killing = OneByOne(storage, call)
        with pytest.raises(Killed):
            clean(killing, metadata)
        where = f"{call} {killing.calls[-1]}"
        assert memory_tables.read(storage) == before, where
        clean(storage, metadata)
        assert memory_tables.read(storage) == before, where
        assert data_files(storage) == expected, where
        cleans = [instant for instant in memory_tables.timeline(storage).instants if instant.action is Action.CLEAN]
        assert [instant.completed for instant in cleans] == [True], where
        assert clean(storage, metadata).instant is None, where
        ended.append(storage)
    assert len(whole.calls) >= 12
    return ended


@pytest.mark.parametrize("files_under_lock", [0, 64])
@pytest.mark.parametrize("version", [6, 9])
def test_every_call(version: int, files_under_lock: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "FILES_PER_TASK", files_under_lock)
    kill_everywhere(made(version, WITHOUT), DropMetadata())


@pytest.mark.parametrize("version", [6, 9])
def test_with_a_metadata_table(version: int) -> None:
    metadata = memory_tables.writer()
    for storage in kill_everywhere(made(version), metadata, step=4):
        memory_tables.check_listing(storage)
        # ranges of a partition stay wide after an overwrite, clean or not
        checks = [each for each in verify(context(storage, metadata)).partitions if each.partition != "partition_stats"]
        assert [each.partition for each in checks] == ["files", "column_stats"]
        assert not [each for each in checks if each.missing or each.wrong or each.superfluous]


def test_a_killed_clean_and_a_file_that_is_stuck() -> None:
    """What was deleted before the kill counts as deleted, what is stuck is recorded."""
    table = HandMadeTable()
    table.insert(("a", "f1"))
    for _ in range(3):
        table.update(("a", "f1"))
    planned = sorted(table.planned_files(versions=1))
    context = table.context(versions=1)
    table.tick()
    time = table.cleaning.schedule(context).instant
    assert time is not None
    table.cleaning.begin(context, time)
    table.storage.delete(planned[0])
    table.storage.stuck = {planned[1].rpartition("/")[2]}
    report = table.run(time, versions=1)
    assert (report.instant, report.num_files) == (time, 2)
    assert report.failed == (planned[1],)
    table.storage.stuck = set()
    assert table.clean(versions=1).num_files == 1
    assert not table.files() & set(planned)
