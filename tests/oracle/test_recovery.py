"""Savepoints, rollbacks and restores across engines: each restores the other's savepoints and finishes its plans."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Action, Instant
from hudi_py.model.names import FileId, LogFileName, parse_log_file_name
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint, list_savepoints
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.metadata import decode_rollback_plan
from hudi_py.timeline.plans import decode_restore_plan
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import write_options, write_rows
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import SCHEMA, SETTINGS, Rows, data_files, read, rows
from tests.oracle.client import Oracle
from tests.support import sessions
from tests.support.choice import cases, in_turn

LISTED = {"hoodie.metadata.enable": "false"}
INDEXED = {"hoodie.metadata.record.index.enable": "true"}
PLAIN = {"hoodie.compact.inline": "false"}
COMPACTING = {**PLAIN, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
KINDS = [
    *((version, kind, True) for version in (6, 8, 9) for kind in ("cow", "mor")),
    *((version, "mor", False) for version in (6, 9)),
]
_NO_LOG = LogFileName(FileId(""), "", 0, "")
KEEPS, DROPS = (MetadataTableWriter(Options.resolve(given, defaults={})) for given in ({}, LISTED))


def writer_of(storage: Storage) -> MetadataTableWriter:
    """Keeps the metadata table up where there is one, and makes none."""
    return KEEPS if load_table_config(storage).metadata_partitions else DROPS


def context(root: Path, storage: Storage | None = None) -> ServiceContext:
    storage = storage if storage is not None else LocalStorage(str(root))
    clock = InstantClock(load_table_config(storage), skew_ms=20)
    return ServiceContext.of(WriteTarget(storage, Options.resolve({}, defaults={}), writer_of(storage), clock=clock))


def upsert(storage: Storage, data: pa.Table) -> None:
    """A write of ours; in one thread, so that it makes the same calls each time."""
    options = write_options({"hoodie.time.generator.max_expected_clock_skew_ms": "20", "hoodie.py.write.threads": "1"})
    write_rows(WriteTarget(storage, options, writer_of(storage)), data, "upsert")


def recover(root: Path) -> None:
    """What our next write does first."""
    storage = LocalStorage(str(root))
    clock = InstantClock(load_table_config(storage), skew_ms=20)
    sessions.recover(storage, writer_of(storage), settings=SETTINGS, clock=clock)


def ours(root: Path) -> Rows:
    """As we read it by the metadata table; `read` lists."""
    found: Rows = hudi_py.open_table(str(root)).scan(columns=SCHEMA.names).to_table().sort_by("id").to_pylist()
    return found


def theirs(oracle: Oracle, root: Path, options: Mapping[str, str] | None = None) -> Rows:
    table = oracle.read(str(root), columns=SCHEMA.names, options=options)
    found: Rows = table.select(SCHEMA.names).sort_by("id").to_pylist()
    return found


def agree(oracle: Oracle, root: Path, expected: Rows, *, check: bool = False) -> None:
    """Both read the rows; `check`: by their metadata table and by listing, by statistics and record index, too."""
    assert ours(root) == expected
    assert read(root) == expected
    assert theirs(oracle, root) == expected
    if check:
        deep = bool(load_table_config(LocalStorage(str(root))).metadata_partitions)
        report = oracle.check(str(root), deep=deep)
        assert report["problems"] == []
        assert not deep or report["locations_compared"] > 0


def copy(table: Path, name: str) -> Path:
    """A copy beside the table, times kept."""
    return Path(shutil.copytree(table, table.with_name(name)))


def of_action(root: Path, action: Action) -> list[Instant]:
    return [instant for instant in context(root).timeline().instants if instant.action is action]


def make(oracle: Oracle, root: Path, version: int, kind: str, listed: bool) -> tuple[list[Rows], dict[str, str]]:
    """Writes of Apache Hudi, the last one with a compaction. The rows after each, and the options for more."""
    options = {**PLAIN, **(LISTED if listed else INDEXED)}
    oracle.write(
        root,
        rows(range(10), 1),
        "insert",
        key="id",
        ordering="ts",
        partition="p",
        type=kind,
        table_version=version,
        name="t",
        options=options,
    )
    states = [read(root)]
    more = {"upsert": rows(range(4), 2), "upsert again": rows(range(2, 14), 3), "with compaction": rows(range(3), 4)}
    for name, batch in more.items():
        compacting = COMPACTING if name == "with compaction" and kind == "mor" else {}
        oracle.write(root, batch, "upsert", options={**options, **compacting})
        states.append(read(root))
    return states, options


BACK = "rollback_to_savepoint(table => '{{table}}', instant_time => '{}')"


@in_turn("recovery", 0, 2)
@pytest.mark.parametrize(("version", "kind", "metadata"), cases(KINDS, "restores", 1))
def test_restores(oracle: Oracle, tmp_path: Path, version: int, kind: str, metadata: bool) -> None:
    table = tmp_path / "t"
    (_, before, _, _), options = make(oracle, table, version, kind, not metadata)
    assert bool(load_table_config(LocalStorage(str(table))).metadata_partitions) == metadata
    saved = context(table).timeline().write_completed[1].time
    by_them = copy(table, "saved-by-them")
    oracle.call(
        by_them,
        f"create_savepoint(table => '{{table}}', commit_time => '{saved}', user => 'u', comments => 'c')",
    )
    create_savepoint(context(table), saved, user="u", comment="c")
    (mine,), (other,) = list_savepoints(context(table)), list_savepoints(context(by_them))
    for partition, names in other.files.items():
        # they keep later logs of the slice, too: the restore deletes them first of all
        later = {name for name in names if saved < (parse_log_file_name(name) or _NO_LOG).instant}
        assert set(mine.files[partition]) == set(names) - later
        assert not later or version >= 8
    assert (mine.instant, mine.user, mine.comment) == (other.instant, other.user, other.comment)

    restored = copy(table, "restored-by-them")
    # with what the table was written with: without, a restore would make a metadata table, or drop an index
    oracle.call(restored, BACK.format(saved), options)
    assert theirs(oracle, restored) == ours(restored) == before
    (their_restore,) = of_action(restored, Action.RESTORE)

    report = restore(context(by_them), saved)
    agree(oracle, by_them, before, check=True)
    storage = LocalStorage(str(restored))
    folder = context(restored).timeline().layout.folder
    plan = storage.read(f"{folder}/{their_restore.time}.restore.requested")
    assert list(report.rolled_back) == [info.time for info in decode_restore_plan(plan).instants]
    more = rows(range(1, 3), 7)
    oracle.write(by_them, more, "upsert", options=options)
    assert theirs(oracle, by_them) == ours(by_them) != before


@pytest.mark.nightly
@pytest.mark.parametrize(("version", "kind", "metadata"), cases(KINDS, "plans of restores", 1))
def test_plans_of_restores(oracle: Oracle, tmp_path: Path, version: int, kind: str, metadata: bool) -> None:
    table = tmp_path / "t"
    (_, before, _, after), options = make(oracle, table, version, kind, not metadata)
    saved = context(table).timeline().write_completed[1].time
    create_savepoint(context(table), saved, user="u", comment="c")

    # their plan, carried out by our next write
    restored = copy(table, "restored-by-them")
    oracle.call(restored, BACK.format(saved), options)
    (their_restore,) = of_action(restored, Action.RESTORE)
    path = f"{context(restored).timeline().layout.folder}/{their_restore.time}.restore.requested"
    planned = copy(table, "planned-by-them")
    LocalStorage(str(planned)).put(path, LocalStorage(str(restored)).read(path))
    os.utime(planned / path, (0, 0))
    assert read(planned) == after
    recover(planned)
    assert [restore.completed for restore in of_action(planned, Action.RESTORE)] == [True]
    agree(oracle, planned, before)

    # our plan, half carried out, then by them
    counting = KillingStorage(str(copy(table, "counted")))
    restore(context(table, counting), saved)
    calls = counting.calls
    begun = next(number for number, call in enumerate(calls) if "restore.inflight" in call) + 1
    files = [number for number, call in enumerate(calls) if call.startswith(("delete a/", "delete b/", "create b/"))]
    for call in (begun, files[len(files) // 2]):
        half = copy(table, f"planned-by-us-{call}")
        with pytest.raises(Killed):
            restore(context(half, KillingStorage(str(half), call)), saved)
        (half / ".hoodie/lock").unlink()
        oracle.call(half, BACK.format(saved), options)
        assert [restore.completed for restore in of_action(half, Action.RESTORE)] == [True]
        assert theirs(oracle, half) == ours(half) == before


@in_turn("recovery", 1, 2)
@pytest.mark.parametrize(("version", "kind", "metadata"), cases(KINDS, "rollbacks", 1))
def test_rollbacks(oracle: Oracle, tmp_path: Path, version: int, kind: str, metadata: bool) -> None:
    table = tmp_path / "t"
    (_, _, before, after), options = make(oracle, table, version, kind, not metadata)
    timeline = context(table).timeline()
    newest = timeline.write_completed[-1]
    assert newest.action is Action.COMMIT  # on MERGE_ON_READ a compaction
    compacted = copy(table, "rolled-back")
    report = rollback(context(compacted), newest.time)
    assert report.rolled_back == (newest.time,)
    if kind == "mor":
        agree(oracle, compacted, after)
        rollback(context(compacted), context(compacted).timeline().write_completed[-1].time)
    agree(oracle, compacted, before, check=True)
    oracle.write(compacted, rows(range(3), 4), "upsert", options=options)
    agree(oracle, compacted, after)

    # a killed write of ours, its rollback killed when there is nothing but a plan, carried out by them
    dead = copy(table, "dead")
    update = rows(range(2, 14), 5)
    whole = KillingStorage(str(copy(table, "whole")))
    upsert(whole, update)
    renames = [
        number
        for number, call in enumerate(whole.calls)
        if call.startswith("rename") and ".hoodie/metadata" not in call
    ]
    with pytest.raises(Killed):
        upsert(KillingStorage(str(dead), renames[-1] + 1), update)
    (dead / ".hoodie/lock").unlink(missing_ok=True)
    left = data_files(dead) - data_files(table)
    assert left
    config = load_table_config(LocalStorage(str(dead)))

    def roll_back(storage: Storage) -> None:
        clock = InstantClock(config, skew_ms=20)
        sessions.recover(storage, writer_of(storage), settings=SETTINGS, clock=clock)

    counting = KillingStorage(str(copy(dead, "counted")))
    roll_back(counting)
    planned = next(number for number, call in enumerate(counting.calls) if "rollback.requested" in call)
    for_them = copy(dead, "for-them")
    with pytest.raises(Killed):
        roll_back(KillingStorage(str(for_them), planned + 1))
    (for_them / ".hoodie/lock").unlink(missing_ok=True)
    (pending,) = [i for i in of_action(for_them, Action.ROLLBACK) if not i.completed]
    oracle.write(for_them, rows(range(20, 23), 6), "upsert", options=options)
    assert context(for_them).timeline().find(pending.time, Action.ROLLBACK).completed  # type: ignore[union-attr]
    agree(oracle, for_them, after + rows(range(20, 23), 6).to_pylist())

    # their plan of the same, carried out by us
    done_by_them = copy(dead, "done-by-them")
    oracle.write(done_by_them, rows(range(20, 23), 6), "upsert", options=options)
    (rolled_back,) = of_action(done_by_them, Action.ROLLBACK)
    layout = context(done_by_them).timeline().layout
    path = f"{layout.folder}/{rolled_back.time}.rollback.requested"
    plan = LocalStorage(str(done_by_them)).read(path)
    assert decode_rollback_plan(plan).requests
    LocalStorage(str(dead)).put(path, plan)
    recover(dead)
    assert [instant.completed for instant in of_action(dead, Action.ROLLBACK)] == [True]
    if version >= 8 or kind == "cow":
        assert data_files(dead) == data_files(table)
    agree(oracle, dead, after, check=True)
    upsert(LocalStorage(str(dead)), update)
    assert theirs(oracle, dead) == ours(dead) == read(tmp_path / "whole")
