"""Metadata tables that either side compacts, cleans and archives: the other goes on, and everything stays right."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from hudi_py.config import Options
from hudi_py.metadata_write.maintenance import services
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Action
from hudi_py.services.archive import archive
from hudi_py.services.clean import Cleaning
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.service import run_all
from hudi_py.storage import LocalStorage
from hudi_py.transaction.session import WriteTarget
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn
from tests.support.kept_up import clock_of, maintain, options, own, own_instants, rows, write

GIVEN = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.metadata.derive.from.datatable.clean.policy": "false",
}
OURS = {**GIVEN, "hoodie.table.timeline.timezone": "LOCAL"}
"""As Apache Hudi makes tables."""
KINDS = [(9, "mor"), (6, "cow"), (8, "cow"), (6, "mor")]


def context(path: Path, version: int, kind: str) -> ServiceContext:
    storage = LocalStorage(str(path))
    chosen: Options = options(version, kind, OURS)
    metadata = MetadataTableWriter(chosen)
    return ServiceContext.of(WriteTarget(storage, chosen, metadata, clock=clock_of(storage)))


def ours(path: Path, version: int, kind: str, first: int, count: int) -> None:
    """Some writes, each followed by the table's own clean and archiving.

    Nothing is deleted from merge-on-read tables: of a key that comes back to one after a delete, the record index lacks
    the entry when Apache Hudi writes it.
    """
    storage = LocalStorage(str(path))
    for turn in range(first, first + count):
        data = rows(range(turn % 4, turn % 4 + 6), turn)
        operation = "delete" if turn % 5 == 4 and kind == "cow" else "upsert"
        write(storage, data, operation, version=version, kind=kind, given=OURS)
        run_all(Cleaning(), context(path, version, kind))
        archive(context(path, version, kind))


def theirs(oracle: Oracle, path: Path, version: int, kind: str, first: int, count: int) -> None:
    for turn in range(first, first + count):
        table = {"key": "id", "ordering": "ts", "partition": "p", "type": kind, "table_version": version}
        oracle.write(path, rows(range(turn % 5, turn % 5 + 7), turn), "upsert", options=GIVEN, **table)  # type: ignore[arg-type]


def agree(oracle: Oracle, path: Path, version: int, kind: str, *, deep: bool = False) -> None:
    """The metadata table is right by our own lights, and by Apache Hudi's; `deep`: in every column and key."""
    report = verify(context(path, version, kind))
    assert report.ok, report.partitions
    assert {"files", "column_stats", "bloom_filters", "record_index"} <= {each.partition for each in report.partitions}
    assert oracle.check(str(path), keys=1, deep=deep)["problems"] == []


@in_turn("services of the metadata table", 0, 3, chosen="nightly")
@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "one metadata table", 1))
def test_both_sides_keep_one_metadata_table(version: int, kind: str, oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "t"
    seen = set()
    ours(path, version, kind, 0, 7)
    seen |= {instant.action for instant in own_instants(LocalStorage(str(path)))}
    assert verify(context(path, version, kind)).ok
    theirs(oracle, path, version, kind, 10, 2)
    assert verify(context(path, version, kind)).ok
    ours(path, version, kind, 20, 5)
    agree(oracle, path, version, kind, deep=True)
    seen |= {instant.action for instant in own_instants(LocalStorage(str(path)))}
    assert seen >= {Action.COMMIT, Action.DELTA_COMMIT}
    theirs(oracle, path, version, kind, 30, 1)
    assert verify(context(path, version, kind)).ok


@in_turn("services of the metadata table", 1, 3, chosen="nightly")
@pytest.mark.parametrize(("version", "kind"), cases([(9, "cow"), (6, "mor"), (8, "mor")], "take over and rebuild", 1))
def test_we_take_over_and_rebuild_what_apache_hudi_made(
    version: int, kind: str, oracle: Oracle, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    theirs(oracle, path, version, kind, 0, 5)
    assert verify(context(path, version, kind)).ok
    storage = LocalStorage(str(path))
    maintain(storage, options(version, kind, OURS), clock_of(storage))
    agree(oracle, path, version, kind)
    rebuild(context(path, version, kind), names=["record_index", "column_stats"])
    theirs(oracle, path, version, kind, 10, 1)
    agree(oracle, path, version, kind)
    rebuild(context(path, version, kind))
    ours(path, version, kind, 20, 2)
    theirs(oracle, path, version, kind, 30, 1)
    agree(oracle, path, version, kind)


@in_turn("services of the metadata table", 2, 3, chosen="nightly")
@pytest.mark.parametrize(("version", "kind"), cases([(9, "mor"), (6, "cow")], "a plan of ours", 1))
def test_apache_hudi_carries_out_a_plan_of_ours(
    version: int, kind: str, oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    storage = LocalStorage(str(path))
    ours(path, version, kind, 0, 2)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("not carried out")

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(services, "compact_base_file", broken)
        for turn in range(5, 10):
            write(storage, rows(range(5), turn), version=version, kind=kind, given=OURS)
    pending = [i.time for i in own_instants(storage) if i.action is Action.COMPACTION and not i.completed]
    assert len(pending) == 1
    assert verify(context(path, version, kind)).ok
    theirs(oracle, path, version, kind, 10, 2)
    # its commit may have been archived since
    assert not any(instant.time == pending[0] and not instant.completed for instant in own_instants(storage))
    for partition in ("files", "column_stats", "record_index"):
        assert any(file.name.endswith(f"_{pending[0]}.hfile") for file in own(storage).list(partition)), partition
    agree(oracle, path, version, kind)
