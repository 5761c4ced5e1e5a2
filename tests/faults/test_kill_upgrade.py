"""A change of the version killed at every call that changes the storage: readers see the old table or the new one, a
write goes on, and another call completes the change."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest

from hudi_py.config import Options
from hudi_py.services.archive.service import archive_commits
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run_all
from hudi_py.services.upgrade.service import VersionReport, downgrade, upgrade
from hudi_py.storage import Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed
from tests.faults.test_kill_metadata import Files, KillingMemory, copy_of, files_of
from tests.support.choice import every
from tests.unit.metadata_write import memory_tables

pytestmark = pytest.mark.slow

OPTIONS = {"hoodie.metadata.index.bloom.filter.enable": "true", **memory_tables.QUICK}


class OneByOne(KillingMemory):
    """Copies files one after the other, so that the calls come in the same order each time."""

    @property
    def is_local(self) -> bool:
        return True


def context(storage: Storage) -> ServiceContext:
    options = Options.resolve(OPTIONS, defaults={})
    target = WriteTarget(storage, options, memory_tables.writer(OPTIONS))
    found = ServiceContext.of(target, any_version=True)
    return replace(found, session=replace(found.session, clock=InstantClock(found.config(), skew_ms=0)))


def change(storage: Storage, to: int) -> VersionReport:
    service = upgrade if to >= load_table_config(storage).version else downgrade
    return service(context(storage), to=to)


def made(version: int, kind: str) -> Files:
    """Commits, of which the first two are archived; with logs, a compaction before some of them. Version 4 is one of
    version 6, with the metadata table and plans of compactions of an old release."""
    storage = copy_of({})
    for ts in range(1, 5):
        rows = memory_tables.rows(range(6), ts)
        memory_tables.write(storage, rows, version=max(version, 6), kind=kind, options=OPTIONS)
        if ts == 3 and kind == "mor":
            run_all(Compaction(always=True), context(storage))
    current = context(storage)
    state = current.state()
    with current.locked("archive") as table:
        archive_commits(current, table, state.timeline.write_completed[:2])
    if version < 6:
        update_table_config(storage, {"hoodie.table.version": str(version)})
        for name in ("20260101000000000", "20260102000000000"):
            storage.put(f".hoodie/.aux/{name}.compaction.requested", b"")
    return files_of(storage)


def leftovers(storage: Storage) -> list[str]:
    """State files of the other layout."""
    config = load_table_config(storage)
    used = layout_for(config)
    other = Layout(1, ".hoodie") if used.has_completion_times else Layout(2, ".hoodie/timeline")
    return [name for name in storage.names(other.folder) if other.parse(name) is not None]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("version", "to"), [(4, 6), (4, 9), (6, 8), (6, 9), (8, 6), (8, 9), (9, 8), (9, 6)])
@pytest.mark.sampled(2)
def test_every_call(version: int, to: int, kind: str, record_property: Callable[[str, object], None]) -> None:
    files = made(version, kind)
    before = memory_tables.read(copy_of(files))
    instants = {each.time for each in memory_tables.timeline(copy_of(files)).completed}
    whole = OneByOne(copy_of(files))
    report = change(whole, to)
    assert (report.source, report.target) == (version, to)
    assert report.num_archived == (2 if (version < 8) != (to < 8) else 0)
    states = 0
    for call in every(20, len(whole.calls)):
        storage = copy_of(files)
        killing = OneByOne(storage, call)
        try:
            change(killing, to)
        except Killed:
            pass
        else:
            break  # a compaction that took less time has fewer signs of life
        where = f"{call} {killing.calls[-1]}"
        found = load_table_config(storage).version
        assert found in (version, to, max(version, 6)), where
        states |= 1 if found == version else 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert memory_tables.read(storage) == before, where
        written = copy_of(files_of(storage))
        expected = before if found < 6 else {**before, 1: 9, 77: 9}
        if found >= 6:
            memory_tables.write(written, memory_tables.rows([1, 77], 9), version=found, kind=kind, options=OPTIONS)
        assert memory_tables.read(written) == expected, where
        for resumed, rows in ((storage, before), (written, expected)):
            change(resumed, to)
            assert load_table_config(resumed).version == to, where
            assert memory_tables.read(resumed) == rows, where
            assert instants <= {each.time for each in memory_tables.timeline(resumed).completed}, where
            assert leftovers(resumed) == [], where
            assert not [name for name in resumed.names(".hoodie/.aux") if name.endswith(".requested")], where
            if version >= 6:
                memory_tables.check_listing(resumed)
            memory_tables.write(resumed, memory_tables.rows([2], 11), version=to, kind=kind, options=OPTIONS)
            assert memory_tables.read(resumed) == {**rows, 2: 11}, where
            if not memory_tables.timeline(resumed).pending:  # a killed compaction leaves files until it is run
                memory_tables.check_listing(resumed)
    record_property("counted: kills", len(whole.calls))
    assert states == 3, "a kill before the change, and one after it"
