"""A change of the type killed at every call that changes the storage: readers see the same rows, a write goes on, and
another call completes the change."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

from hudi_py.health.diagnose import diagnose
from hudi_py.services.upgrade.table_type import TypeReport, change_type
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config
from tests.faults.killing import Killed
from tests.faults.test_kill_metadata import copy_of, files_of
from tests.faults.test_kill_upgrade import OPTIONS, OneByOne, context, made
from tests.support.choice import every
from tests.unit.metadata_write import memory_tables

pytestmark = pytest.mark.slow
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def change(storage: Storage, to: str) -> TypeReport:
    return change_type(context(storage), to=to)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.sampled(2)
def test_every_call(version: int, kind: str, record_property: Callable[[str, object], None]) -> None:
    files = made(version, kind)
    before, to = memory_tables.read(copy_of(files)), "mor" if kind == "cow" else "cow"
    whole = OneByOne(copy_of(files))
    change(whole, to)
    instants = {each.time for each in memory_tables.timeline(copy_of(files)).completed}
    states = 0
    for call in every(12, len(whole.calls)):
        storage = copy_of(files)
        killing = OneByOne(storage, call)
        try:
            change(killing, to)
        except Killed:
            pass
        else:
            break  # a compaction that took less time has fewer signs of life
        where = f"{call} {killing.calls[-1]}"
        found = load_table_config(storage).table_type
        assert found in TYPES.values(), where
        states |= 1 if found == TYPES[kind] else 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert memory_tables.read(storage) == before, where
        written = copy_of(files_of(storage))
        expected = {**before, 1: 9, 77: 9}
        now = next(short for short, name in TYPES.items() if name == found)
        memory_tables.write(written, memory_tables.rows([1, 77], 9), version=version, kind=now, options=OPTIONS)
        assert memory_tables.read(written) == expected, where
        for resumed, rows in ((storage, before), (written, expected)):
            change(resumed, to)
            assert load_table_config(resumed).table_type == TYPES[to], where
            assert memory_tables.read(resumed) == rows, where
            timeline = memory_tables.timeline(resumed)
            assert instants <= {each.time for each in timeline.completed}, where
            times = [each.time for each in timeline.instants]
            assert len(times) == len(set(times)), where
            memory_tables.check_listing(resumed)
            memory_tables.write(resumed, memory_tables.rows([2], 11), version=version, kind=to, options=OPTIONS)
            assert memory_tables.read(resumed) == {**rows, 2: 11}, where
            problems = diagnose(resumed, OPTIONS).of("properties.foreign")
            assert problems == (), where
    record_property("counted: kills", len(whole.calls))
    assert states == 3, "a kill before the change, and one after it"
