"""Rollbacks and restores of a table with a metadata table, killed at every call: it tells the truth afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.recovery.failed_writes import recover_failed_writes
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import TableArguments, write_options, write_rows
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import SCHEMA, SETTINGS, Rows, leftovers, read, rows
from tests.support.choice import every

pytestmark = pytest.mark.slow

GIVEN = {
    "hoodie.table.name": "t",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.time.generator.max_expected_clock_skew_ms": "5",
    "hoodie.py.write.threads": "1",
    "hoodie.metadata.enable": "true",
}


def context(storage: Storage) -> ServiceContext:
    options = Options.resolve(GIVEN, defaults={})
    clock = InstantClock(load_table_config(storage), skew_ms=5)
    writer = MetadataTableWriter(options)
    return ServiceContext.of(WriteTarget(storage, options, writer, clock=clock))


def by_metadata_table(root: Path) -> Rows:
    found: Rows = hudi_py.open_table(str(root)).scan(columns=SCHEMA.names).to_table().sort_by("id").to_pylist()
    return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """`tables(version)`: merge on read; a savepoint of two commits, a compaction, a commit; made once."""
    made: dict[int, Path] = {}

    def table(version: int) -> Path:
        if version not in made:
            root = made[version] = tmp_path_factory.mktemp("recovery") / "table"
            storage = LocalStorage(str(root))
            options = write_options(
                GIVEN,
                TableArguments(
                    record_key="id", partition_by="p", ordering_by="ts", table_type="mor", table_version=version
                ),
            )
            writer = MetadataTableWriter(options)
            write_rows(WriteTarget(storage, options, writer), rows(range(10), 1), "insert")
            write_rows(WriteTarget(storage, options, writer), rows(range(4), 2), "upsert")
            assert "files" in load_table_config(storage).metadata_partitions
            create_savepoint(context(storage))
            scheduled = Compaction(always=True).schedule(context(storage)).instant
            assert scheduled is not None
            work = Compaction().begin(context(storage), scheduled)
            outcomes = Compaction().execute(context(storage), work, range(work.num_tasks))
            Compaction().commit(context(storage), work, outcomes)
            write_rows(WriteTarget(storage, options, writer), rows(range(3), 3), "upsert")
        return made[version]

    return table


def roll_back_last(working: ServiceContext) -> None:
    """The newest commit, which is the third delta commit."""
    deltas = [i for i in working.timeline().write_completed if i.action.value == "deltacommit"]
    if len(deltas) == 3:
        rollback(working, deltas[-1].time)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("action", [roll_back_last, restore], ids=["rollback", "restore"])
@pytest.mark.parametrize(
    ("version", "torn", "step"),
    [
        pytest.param(6, False, 5, id="v6"),
        pytest.param(9, True, 5, id="v9-torn"),
        pytest.param(6, True, 1, id="v6-torn-every", marks=pytest.mark.slow),
        pytest.param(9, False, 1, id="v9-every", marks=pytest.mark.slow),
    ],
)
def test_it_tells_the_truth(tables, tmp_path, version, torn, step, action):
    table = tables(version)
    before = read(table)
    whole = Path(shutil.copytree(table, tmp_path / "whole"))
    counting = KillingStorage(str(whole))
    action(context(counting))
    after = read(whole)
    assert before != after
    # Log files that were undone by blocks stay in version 6: they are listed, and have no statistics any more
    names = ["files"] if version == 6 else None
    assert verify(context(LocalStorage(str(whole))), names=names).ok
    for call in every(12 * step, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        killing = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            action(context(killing))
        storage = LocalStorage(str(root))
        working = context(storage)
        recover_failed_writes(replace(working.session, settings=SETTINGS))
        found = read(root)
        assert found in (before, after), killing.calls[-1]
        assert by_metadata_table(root) == found, killing.calls[-1]
        action(context(storage))
        assert read(root) == by_metadata_table(root) == after, killing.calls[-1]
        report = verify(context(storage), names=names)
        assert report.ok, (killing.calls[-1], report)
        assert leftovers(root) == set(), killing.calls[-1]
        shutil.rmtree(root)
