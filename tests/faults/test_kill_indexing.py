"""Builds of indexes killed at every call that changes the storage: writers go on, and the plan is resumed or undone."""

from __future__ import annotations

import pytest

from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.services.indexing import Indexing
from hudi_py.services.planned.service import run_all
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.properties import load_table_config
from tests.faults.killing import Killed
from tests.faults.test_kill_clean import OneByOne, context, copy_of, files_of
from tests.support.choice import every
from tests.unit.metadata_write import memory_tables

pytestmark = pytest.mark.slow

NONE = {"hoodie.metadata.index.async": "true"}
NAMES = {"record_index", "column_stats", "partition_stats", "bloom_filters"}


class WithoutBeats(OneByOne):
    """Does not count heartbeats, of which there are more if the machine is slow."""

    def touch(self, path: str) -> None:
        self._live().touch(path)


def build(storage: Storage, names: str) -> None:
    run_all(Indexing(names), context(storage, memory_tables.writer(NONE)))


def check(storage: Storage, expected: dict[int, int], names: set[str], where: str) -> None:
    assert memory_tables.read(storage) == expected, where
    config = load_table_config(storage)
    assert ({*config.metadata_partitions}, config.metadata_partitions_inflight) == ({"files", *names}, ()), where
    report = verify(context(storage, memory_tables.writer(NONE)))
    assert report.ok, (where, report)
    assert not memory_tables.timeline(storage).pending, where
    assert not storage.list(".hoodie/.hudi_py"), where


@pytest.mark.parametrize(("version", "kind", "step"), [(9, "mor", 1), (8, "cow", 4), (6, "cow", 4), (6, "mor", 4)])
def test_every_call(version: int, kind: str, step: int) -> None:
    names = NAMES if version != 6 else NAMES - {"partition_stats"}
    asked = ",".join(sorted(names))
    storage = MemoryStorage(f"indexing-{version}-{kind}")
    memory_tables.write(storage, memory_tables.rows(range(6), 1), "insert", version=version, kind=kind, options=NONE)
    memory_tables.write(storage, memory_tables.rows(range(3, 8), 2), version=version, kind=kind, options=NONE)
    files = files_of(storage)
    before = {**dict.fromkeys(range(3), 1), **dict.fromkeys(range(3, 8), 2)}
    whole = WithoutBeats(copy_of(files))
    build(whole, asked)
    total = len(whole.calls)  # without those of the check
    check(whole, before, names, "not killed")
    for number, call in enumerate(every(12 * step, total)):
        storage = copy_of(files)
        killing = WithoutBeats(storage, call)
        with pytest.raises(Killed):
            build(killing, asked)
        where = f"{call} {killing.calls[-1]}"
        memory_tables.write(storage, memory_tables.rows(range(7, 10), 3), version=version, kind=kind, options=NONE)
        expected = {**before, **dict.fromkeys(range(7, 10), 3)}
        assert not memory_tables.own_timeline(storage).pending, where
        assert not load_table_config(storage).metadata_partitions_inflight, where
        if number % 2:
            pending = context(storage, memory_tables.writer(NONE)).timeline().pending
            for instant in pending:
                unschedule(context(storage, memory_tables.writer(NONE)), instant.time)
            if pending:
                kept = {*load_table_config(storage).metadata_partitions} - {"files"}
                check(storage, expected, kept, where)
                assert kept in (set(), names - {"partition_stats"}, names), where
        build(storage, asked)
        memory_tables.write(storage, memory_tables.rows(range(8, 12), 4), version=version, kind=kind, options=NONE)
        check(storage, {**expected, **dict.fromkeys(range(8, 12), 4)}, names, where)
