"""The metadata table's services killed at every call that changes the storage: what it says holds at any moment, and
the next write finishes what was left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hudi_py.metadata_write.services import maintain
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage
from tests.faults.killing import Killed, KillingStorage
from tests.support.kept_up import check_listing, clock_of, options, own, own_instants, rows, write

GIVEN = {
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.metadata.derive.from.datatable.clean.policy": "false",
    "hoodie.keep.min.commits": "1",
    "hoodie.keep.max.commits": "2",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
}
ALL = {Action.COMMIT, Action.CLEAN}


def settings(version: int) -> MetadataWriteSettings:
    return MetadataWriteSettings.of(options(version, "cow", GIVEN))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory):
    """`tables(version)`: compaction, clean and archiving are due on its metadata table."""
    made: dict[int, Path] = {}

    def table(version: int) -> Path:
        if version not in made:
            made[version] = tmp_path_factory.mktemp("services") / "table"
            storage = LocalStorage(str(made[version]))
            for turn in range(9):
                write(storage, rows(range(3), turn), version=version, kind="cow", given=GIVEN, maintained=False)
                if turn in (1, 3):
                    eager = {**GIVEN, "hoodie.metadata.compact.max.delta.commits": "1", "hoodie.keep.max.commits": "90"}
                    maintain(storage, MetadataWriteSettings.of(options(version, "cow", eager)), clock_of(storage))
        return made[version]

    return table


@pytest.mark.parametrize(("version", "torn", "step"), [(9, False, 1), (9, True, 2), (6, False, 2), (6, True, 3)])
def test_killed_at_any_call(tables, tmp_path: Path, version: int, torn: bool, step: int) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(tables(version), whole)
    counting = KillingStorage(str(whole))
    before = own_instants(LocalStorage(str(whole)))
    reports = maintain(counting, settings(version), clock_of(counting))
    assert [report.service for report in reports] == ["clean", "compaction", "archive"]
    check(whole)
    count = len(counting.calls)
    assert count > 25
    for call in range(0, count, step):
        root = tmp_path / f"{call}"
        shutil.copytree(tables(version), root)
        storage = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            maintain(storage, settings(version), clock_of(storage))
        check_listing(LocalStorage(str(root)))  # as readers in between see it
        write(LocalStorage(str(root)), rows(range(5), 99), version=version, kind="cow", given=GIVEN)
        check(root)
        instants = own_instants(LocalStorage(str(root)))
        assert {i.action for i in instants if i not in before} >= {Action.COMMIT}
        shutil.rmtree(root)


def check(root: Path) -> None:
    """Nothing is half done, and the listing is that of the storage."""
    storage = LocalStorage(str(root))
    check_listing(storage)
    assert [instant for instant in own_instants(storage) if not instant.completed] == []
    folder = own(storage)
    assert not [info.path for part in (".hoodie/.temp", ".hoodie/.hudi_py") for info in folder.walk(part)]
    files = [info.name for info in folder.list("files") if info.name.endswith(".hfile")]
    committed = {instant.time for instant in own_instants(storage)}
    newest = max(name.rpartition("_")[2].removesuffix(".hfile") for name in files)
    assert newest in committed
