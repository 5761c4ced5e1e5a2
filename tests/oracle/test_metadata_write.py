"""The metadata table across engines: Apache Hudi reads, checks and goes on with ours, and we with its."""

from __future__ import annotations

import random
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.model.instant import Action
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.rollback import rollback
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed, KillingStorage
from tests.oracle.client import Oracle
from tests.support.choice import cases, in_turn
from tests.unit.metadata_write.memory_tables import (
    check_listing,
    clock,
    own_timeline,
    read,
    rows,
    timeline,
    write,
    writer,
)

INDEXES = {"hoodie.metadata.index.bloom.filter.enable": "true", "hoodie.metadata.record.index.enable": "true"}
# Apache Hudi 1.2.0 fails to write partition statistics beside a record index by partition
BY_PARTITION = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
}
COMPLETED = re.compile(r"create \.hoodie/(timeline/)?\d+(_\d+)?\.(delta)?commit")
KINDS = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
INDEXED = {"defaults": {}, "global": INDEXES, "by partition": BY_PARTITION}
# A record index by partition is of later tables.
BY_TURNS = [(*table, indexed) for table in KINDS for indexed in INDEXED if indexed != "by partition" or table[0] >= 8]


class KilledAtTheEnd(KillingStorage):
    """Dies at the completed file of the table's own timeline."""

    def _change(self, what: str, effect: Callable[[], object], half: Callable[[], object] | None = None) -> object:
        if COMPLETED.fullmatch(what):
            self._end()
        return super()._change(what, effect, half)


def theirs(oracle: Oracle, root: Path) -> dict[int, int]:
    table = oracle.read(root, columns=["id", "ts"])
    return dict(zip(table["id"].to_pylist(), table["ts"].to_pylist(), strict=True))


def agreed(oracle: Oracle, root: Path, state: dict[int, int]) -> None:
    """Apache Hudi reads by the metadata table what there is, and finds nothing wrong with it; so do we."""
    storage = LocalStorage(str(root))
    check_listing(storage)
    assert read(storage) == state
    assert theirs(oracle, root) == state
    assert oracle.check(root)["problems"] == []
    settings = Options.resolve({}, defaults={})
    report = verify(ServiceContext.of(WriteTarget(storage, settings, writer())), names=_checked(storage))
    assert report.ok, [(each.partition, each.examples) for each in report.partitions if not each.ok]


def _checked(storage: LocalStorage) -> tuple[str, ...]:
    """What both write alike: ranges of partitions differ where one engine has taken a row back."""
    return tuple(name for name in load_table_config(storage).metadata_partitions if name != "partition_stats")


@pytest.mark.parametrize(("version", "kind"), cases([(9, "mor"), (6, "cow")], "goes on", 1))
def test_apache_hudi_reads_and_goes_on(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    write(storage, rows(range(8), 1), version=version, kind=kind)
    write(storage, rows(range(3, 10), 2), version=version, kind=kind)
    expected = {**dict.fromkeys(range(3), 1), **dict.fromkeys(range(3, 10), 2)}
    assert read(storage) == theirs(oracle, root) == expected
    before = load_table_config(storage).metadata_partitions
    oracle.write(root, rows(range(2, 5), 3))
    expected |= dict.fromkeys(range(2, 5), 3)
    assert load_table_config(storage).metadata_partitions == before
    agreed(oracle, root, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind", "indexed"), cases(BY_TURNS, "by turns", 1))
def test_by_turns(oracle: Oracle, tmp_path: Path, version: int, kind: str, indexed: str) -> None:
    """Upserts and overwrites by both sides in turn. No delete: a key which comes back after one is lost in Apache
    Hudi's record index of a merge-on-read table (1.2.0, without us too)."""
    options = INDEXED[indexed]
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    random_ = random.Random(version)
    state: dict[int, int] = {}
    for turn in range(6):
        ids = sorted(random_.sample(range(30), 8))
        data = rows(ids, turn)
        if turn % 2 == 0:
            write(storage, data, version=version, kind=kind, options=options)
        else:
            oracle.write(root, data, options=options)
        state |= dict.fromkeys(ids, turn)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(storage) == state
    agreed(oracle, root, state)


@pytest.mark.nightly
@in_turn("undone metadata", 0, 2)
@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "our rollback", 1))
def test_our_rollback_is_mirrored(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    made: dict[str, Any] = {"version": version, "kind": kind, "options": INDEXES}
    write(storage, rows(range(8), 1), **made)
    write(storage, rows(range(3, 10), 2), **made)
    resolved = Options.resolve(INDEXES, defaults={})
    newest = timeline(storage).last_completed
    assert newest is not None
    rollback(ServiceContext.of(WriteTarget(storage, resolved, writer(INDEXES))), newest.time)
    agreed(oracle, root, dict.fromkeys(range(8), 1))
    oracle.write(root, rows(range(2, 9), 3), options=INDEXES)
    agreed(oracle, root, {0: 1, 1: 1, **dict.fromkeys(range(2, 9), 3)})


@in_turn("undone metadata", 1, 2)
@pytest.mark.parametrize(("version", "kind"), cases(KINDS, "our killed write", 1))
def test_our_killed_write_is_rolled_back_by_apache_hudi(
    oracle: Oracle, tmp_path: Path, version: int, kind: str
) -> None:
    """The metadata table has its delta commit already."""
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    made: dict[str, Any] = {"version": version, "kind": kind, "options": INDEXES}
    write(storage, rows(range(8), 1), **made)
    with pytest.raises(Killed):
        write(KilledAtTheEnd(str(root)), rows(range(3, 10), 2), **made)
    storage.delete(".hoodie/lock")
    (failed,) = timeline(storage).pending
    recorded = own_timeline(storage).find(failed.time, Action.DELTA_COMMIT)
    assert recorded is not None
    assert recorded.completed
    assert theirs(oracle, root) == dict.fromkeys(range(8), 1)
    oracle.write(root, rows(range(2, 9), 3), options=INDEXES)
    assert own_timeline(storage).find(failed.time, Action.DELTA_COMMIT) is None
    agreed(oracle, root, {0: 1, 1: 1, **dict.fromkeys(range(2, 9), 3)})


@pytest.mark.slow
@pytest.mark.parametrize("kind", cases(["cow", "mor"], "the oldest release", 1))
def test_the_oldest_release_reads_and_goes_on(oracle_015: Oracle, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    made: dict[str, Any] = {"version": 6, "kind": kind, "options": INDEXES}
    write(storage, rows(range(8), 1), **made)
    write(storage, rows(range(3, 10), 2), **made)
    state = {**dict.fromkeys(range(3), 1), **dict.fromkeys(range(3, 10), 2)}
    assert theirs(oracle_015, root) == state
    given = {**INDEXES, "hoodie.metadata.index.column.stats.enable": "true", "hoodie.metadata.enable": "true"}
    oracle_015.write(root, rows(range(2, 5), 3), options=given)
    state |= dict.fromkeys(range(2, 5), 3)
    check_listing(storage)
    assert read(storage) == state
    write(storage, rows(range(1, 3), 4), **made)
    state |= dict.fromkeys(range(1, 3), 4)
    check_listing(storage)
    assert theirs(oracle_015, root) == state == read(storage)
    assert oracle_015.check(root)["problems"] == []


@in_turn("metadata table made anew", 0, 2)
@pytest.mark.parametrize(("version", "kind"), cases([(6, "mor"), (8, "cow"), (9, "mor")], "made from theirs", 1))
def test_made_from_a_table_of_apache_hudi(oracle: Oracle, tmp_path: Path, version: int, kind: str) -> None:
    root = tmp_path / "t"
    storage = LocalStorage(str(root))
    off = {"hoodie.metadata.enable": "false"}
    first: dict[str, Any] = {
        "key": "id",
        "ordering": "ts",
        "partition": "p",
        "type": kind,
        "table_version": version,
        "name": "t",
    }
    oracle.write(root, rows(range(8), 1), options=off, **first)
    oracle.write(root, rows(range(3, 10), 2), options=off)
    write(
        storage,
        rows(range(2, 5), 3),
        version=version,
        kind=kind,
        options={**INDEXES, "hoodie.table.timeline.timezone": "LOCAL"},
    )
    expected = {**dict.fromkeys(range(2), 1), **dict.fromkeys(range(2, 5), 3), **dict.fromkeys(range(5, 10), 2)}
    agreed(oracle, root, expected)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    oracle.write(copy, rows(range(7), 4), options=INDEXES)
    agreed(oracle, copy, {**expected, **dict.fromkeys(range(7), 4)})
    assert isinstance(hudi_py.open_table(str(copy)).scan().to_table(), pa.Table)


@pytest.mark.nightly
@in_turn("metadata table made anew", 1, 2)
@pytest.mark.parametrize("version", cases([6, 9], "half way", 1))
def test_half_way_through_making_it_anew(oracle: Oracle, tmp_path: Path, version: int) -> None:
    """Apache Hudi reads and writes with what is there, and our next write makes the rest, its record index by
    partition too."""
    root = tmp_path / "t"
    write(LocalStorage(str(root)), rows(range(8), 1), version=version, options=BY_PARTITION)
    calls = _calls_of_rebuilding(tmp_path / "whole", root)
    last = max(number for number, call in enumerate(calls) if "record_index" in call and "hfile" in call)
    with pytest.raises(Killed):
        _rebuild(KillingStorage(str(root), last))
    storage = LocalStorage(str(root))
    storage.delete(".hoodie/lock")
    config = load_table_config(storage)
    assert config.metadata_partitions == ("files",)
    assert config.metadata_partitions_to_make == ("record_index",)
    assert theirs(oracle, root) == dict.fromkeys(range(8), 1)
    assert oracle.check(root)["problems"] == []
    oracle.write(root, rows(range(2, 9), 2), options={"hoodie.metadata.index.column.stats.enable": "false"})
    agreed(oracle, root, {0: 1, 1: 1, **dict.fromkeys(range(2, 9), 2)})
    state = {0: 1, 1: 1, **dict.fromkeys(range(2, 9), 2), 9: 3}
    write(storage, rows([9], 3), version=version, options={"hoodie.metadata.index.column.stats.enable": "false"})
    config = load_table_config(storage)
    assert set(config.metadata_partitions) == {"files", "record_index"}
    assert not config.metadata_partitions_to_make
    agreed(oracle, root, state)
    oracle.write(root, rows([9], 4), options=BY_PARTITION)
    agreed(oracle, root, {**state, 9: 4})


@pytest.mark.nightly
@pytest.mark.parametrize("writer_of_the_first", cases(["ours", "theirs"], "columns added", 1))
def test_columns_added_to_the_statistics_lose_no_rows(oracle: Oracle, tmp_path: Path, writer_of_the_first: str) -> None:
    """Apache Hudi skips by the ranges of partitions, of which its own writer covers the new files alone."""
    root, key = tmp_path / "t", "hoodie.metadata.index.column.stats.column.list"
    storage = LocalStorage(str(root))
    if writer_of_the_first == "ours":
        write(storage, rows(range(8), 1), kind="cow", options={key: "id"})
    else:
        made: dict[str, Any] = {"key": "id", "ordering": "ts", "partition": "p", "type": "cow", "table_version": 9}
        oracle.write(root, rows(range(8), 1), "insert", options={key: "id"}, **made)
    new_files = {"hoodie.parquet.small.file.limit": "0"}
    hudi_py.write(str(root), rows([10, 12], 2), "insert", {key: "id,ts", **new_files})
    for where, count in [("ts = 1", 8), ("ts < 2", 8), ("ts = 2", 2), ("ts is null", 0)]:
        found = oracle.read(root, where=where, options={"hoodie.enable.data.skipping": "true"})
        assert found.num_rows == count, where
        assert hudi_py.open_table(str(root)).scan(filter=where).to_table().num_rows == count, where
    agreed(oracle, root, {**dict.fromkeys(range(8), 1), 10: 2, 12: 2})


def _rebuild(storage: Storage) -> None:
    rebuild(ServiceContext.of(WriteTarget(storage, Options.resolve({}, defaults={}), writer(), clock=clock(storage))))


def _calls_of_rebuilding(copy: Path, root: Path) -> list[str]:
    storage = KillingStorage(str(shutil.copytree(root, copy)))
    _rebuild(storage)
    return storage.calls
