"""The metadata table's services killed at every call that changes the storage: what it says holds at any moment, and
the next write finishes what was left."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import hudi_py
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Action
from hudi_py.services.context import ServiceContext
from hudi_py.storage import LocalStorage, Storage
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed, KillingStorage
from tests.support.choice import every
from tests.support.kept_up import check_listing, clock_of, maintain, options, own, own_instants, rows, write

pytestmark = pytest.mark.slow

GIVEN = {
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.metadata.derive.from.datatable.clean.policy": "false",
    "hoodie.keep.min.commits": "1",
    "hoodie.keep.max.commits": "2",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
}
ALL = {Action.COMMIT, Action.CLEAN}


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
                    maintain(storage, options(version, "cow", eager), clock_of(storage))
        return made[version]

    return table


@pytest.mark.parametrize(("version", "torn", "step"), [(9, False, 1), (9, True, 2), (6, False, 2), (6, True, 3)])
def test_killed_at_any_call(tables, tmp_path: Path, version: int, torn: bool, step: int) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(tables(version), whole)
    counting = KillingStorage(str(whole))
    before = own_instants(LocalStorage(str(whole)))
    reports = maintain(counting, options(version, "cow", GIVEN), clock_of(counting))
    assert [report.service for report in reports] == ["clean", "compaction", "archive"]
    check(whole)
    count = len(counting.calls)
    assert count > 25
    for call in every(12 * step, count):
        root = tmp_path / f"{call}"
        shutil.copytree(tables(version), root)
        storage = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            maintain(storage, options(version, "cow", GIVEN), clock_of(storage))
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
    committed = {instant.time for instant in own_instants(storage)}
    # those of a completed compaction go with the next one that is due
    left = [info.path for part in (".hoodie/.temp", ".hoodie/.hudi_py") for info in folder.walk(part)]
    assert {path.split("/")[2] for path in left} <= committed
    files = [info.name for info in folder.list("files") if info.name.endswith(".hfile")]
    newest = max(name.rpartition("_")[2].removesuffix(".hfile") for name in files)
    assert newest in committed


@pytest.mark.parametrize("torn", [False, True])
def test_log_compaction_killed_at_any_call(tmp_path: Path, torn: bool) -> None:
    given = {
        **GIVEN,
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": "2",
        "hoodie.metadata.compact.max.delta.commits": "90",
        "hoodie.keep.max.commits": "90",
    }
    wanted = options(9, "cow", given)
    table = tmp_path / "table"
    for turn in range(3):
        write(LocalStorage(str(table)), rows(range(3), turn), kind="cow", given=given, maintained=False)
    shutil.copytree(table, tmp_path / "whole")
    counting = KillingStorage(str(tmp_path / "whole"))
    assert [report.service for report in maintain(counting, wanted, clock_of(counting))] == ["log_compaction"]
    assert len(counting.calls) > 8
    for call in every(12, len(counting.calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(table, root)
        storage = KillingStorage(str(root), call, torn=torn)
        with pytest.raises(Killed):
            maintain(storage, wanted, clock_of(storage))
        check_listing(LocalStorage(str(root)))
        write(LocalStorage(str(root)), rows(range(5), 99), kind="cow", given=given)
        check_listing(LocalStorage(str(root)))
        instants = own_instants(LocalStorage(str(root)))
        assert all(instant.completed for instant in instants)
        names = [info.name for info in own(LocalStorage(str(root))).list(".hoodie/timeline")]
        assert any(name.endswith(".logcompaction.requested") for name in names)
        assert not [info.path for part in (".hoodie/.temp", ".hoodie/.hudi_py")
                    for info in own(LocalStorage(str(root))).walk(part)]  # fmt: skip


INDEXED = {
    **GIVEN,
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
}
CALLS: dict[str, Callable[[ServiceContext], object]] = {
    "rebuild all": rebuild,
    "rebuild one": lambda context: rebuild(context, names=["record_index"]),
    "drop": lambda context: drop(context, ["column_stats"]),
}


def service_context(storage: Storage, version: int) -> ServiceContext:
    chosen = options(version, "mor", INDEXED)
    metadata = MetadataTableWriter(chosen)
    return ServiceContext.of(WriteTarget(storage, chosen, metadata, clock=clock_of(storage)))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory):
    """`indexed(version)`: a table with every index."""
    made: dict[int, Path] = {}

    def table(version: int) -> Path:
        if version not in made:
            made[version] = tmp_path_factory.mktemp("indexed") / "table"
            storage = LocalStorage(str(made[version]))
            for turn in range(3):
                write(storage, rows(range(4), turn), version=version, kind="mor", given=INDEXED)
        return made[version]

    return table


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("call", "version", "torn", "step"),
    [
        ("rebuild one", 9, False, 3),
        ("rebuild one", 9, True, 3),
        pytest.param("rebuild all", 9, False, 5, marks=pytest.mark.slow),
        ("rebuild all", 6, True, 7),
        ("drop", 9, False, 1),
    ],
)
def test_rebuilding_and_dropping_killed_at_any_call(
    indexed, tmp_path: Path, call: str, version: int, torn: bool, step: int
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(indexed(version), whole)
    counting = KillingStorage(str(whole))
    CALLS[call](service_context(counting, version))
    assert verify(service_context(LocalStorage(str(whole)), version)).ok
    before = hudi_py.open_table(str(whole)).scan(columns=["id", "name"]).to_table().sort_by("id")
    for at in every(12 * step, len(counting.calls)):
        root = tmp_path / f"{at}"
        shutil.copytree(indexed(version), root)
        with pytest.raises(Killed):
            CALLS[call](service_context(KillingStorage(str(root), at, torn=torn), version))
        with warnings.catch_warnings():
            # a reader that knew the properties of before may find the partition gone
            warnings.filterwarnings("ignore", "The metadata table")
            assert hudi_py.open_table(str(root)).scan(columns=["id", "name"]).to_table().sort_by("id") == before
            storage = LocalStorage(str(root))
            write(storage, rows(range(2, 7), 9), version=version, kind="mor", given=INDEXED)
        report = verify(service_context(storage, version))
        assert report.ok, (at, counting.calls[at], report)
        assert {"files", "column_stats", "record_index"} <= {each.partition for each in report.partitions}
        assert not list(own(storage).walk(".hoodie/.hudi_py"))
        shutil.rmtree(root)
