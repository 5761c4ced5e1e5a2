"""What a write lists: the metadata table, as far as it agrees with the commits that the write sees."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope, concurrency
from hudi_py.errors import ConflictError, CorruptFileError, HistoryCleanedError
from hudi_py.metadata import files
from hudi_py.storage import FileInfo, LocalStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import load_state
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view import StorageLister, load_view
from hudi_py.wiring import service_target
from hudi_py.write.distributed import TaskId, commit_write, plan_write, run_task

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
SEVERAL = {
    concurrency.MODE.key: concurrency.OPTIMISTIC,
    concurrency.LOCK_PROVIDER.key: concurrency.FILE_SYSTEM_LOCK,
}
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def options(version: int, kind: str, **more: str) -> dict[str, str]:
    named = {"hoodie.write.table.version": str(version), "hoodie.datasource.write.table.type": KINDS[kind]}
    return {**OPTIONS, **named, **more}


def rows(keys: list[int], ts: int, partition: str = "a") -> pa.Table:
    return pa.table({"k": [f"k{key}" for key in keys], "p": [partition] * len(keys), "ts": [ts] * len(keys)})


def snapshot(path: Path) -> list[tuple[str, int]]:
    found = hudi_py.open_table(str(path)).scan(["k", "ts"]).to_table()
    return sorted(zip(found["k"].to_pylist(), found["ts"].to_pylist(), strict=True))


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_planned_just_before_the_write_begins(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan completes nothing, so the pin of the timeline stays the same; but in version 6 a log that is added to the
    slice that the plan closes is not compacted, and its rows are gone with the slice."""
    path, given = tmp_path / "t", options(version, "mor")
    hudi_py.write(str(path), rows([1, 2], 1), "upsert", given)
    hudi_py.write(str(path), rows([1], 2), "upsert", given)
    table = hudi_py.open_table(str(path))
    begin = WriteTransaction.begin

    def begun(*arguments: Any, **named: Any) -> WriteTransaction:
        assert table.compaction.schedule(options={"hoodie.compact.inline.max.delta.commits": "1"}) is not None
        return begin(*arguments, **named)

    monkeypatch.setattr(WriteTransaction, "begin", begun)
    hudi_py.write(str(path), rows([2], 5), "upsert", given)
    expected = [("k1", 2), ("k2", 5)]
    assert snapshot(path) == expected
    table.compaction.run()
    assert snapshot(path) == expected


COMPACTED = {"hoodie.metadata.compact.max.delta.commits": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind"),
    [(6, "cow"), (9, "mor"), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(8, "mor"), (9, "cow")])],
)
def test_slices_cleaned_while_a_write_is_pending_are_not_taken_for_new_keys(
    tmp_path: Path, version: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compacted metadata table has no record of files that were cleaned, even for a write that began before."""
    monkeypatch.setattr(files, "MAX_LISTED_PARTITIONS", 0)  # tasks list few partitions from storage
    path, given = tmp_path / "t", options(version, kind, **SEVERAL, **COMPACTED)
    hudi_py.write(str(path), rows([1, 2], 1), "upsert", given)
    chosen = Options.resolve({**given, "hoodie.datasource.write.operation": "upsert"}, Scope.WRITE)
    data = rows([2], 9)
    pending = plan_write(service_target(str(path), chosen), data.schema)
    run_task(pending, TaskId(9, 1), [])  # its instant is on the timeline
    hudi_py.write(str(path), rows([1], 2), "insert_overwrite", given)
    cleaning = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    cleaned = hudi_py.open_table(str(path)).clean(options={**SEVERAL, **COMPACTED, **cleaning})
    hudi_py.write(str(path), rows([7], 3, "b"), "upsert", given)  # compacts the metadata table
    assert cleaned.num_files
    with pytest.raises((HistoryCleanedError, ConflictError)) as raised:
        commit_write(pending, [run_task(pending, TaskId(0, 1), data.to_batches())])
    assert isinstance(raised.value, HistoryCleanedError) or "INSERT_OVERWRITE" in str(raised.value)
    assert snapshot(path) == [("k1", 2), ("k7", 3)]


class Lacking(StorageLister):
    """Lists all but some files, as a metadata table would that lacks them."""

    is_storage = False
    lacks = ""

    def files(self, partition: Any) -> list[FileInfo]:
        return [info for info in super().files(partition) if not self.lacks or self.lacks not in info.name]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_metadata_table_that_contradicts_the_commits_is_not_used(tmp_path: Path, kind: str) -> None:
    path, given = tmp_path / "t", options(9, kind)
    for ts in (1, 2):
        instant = hudi_py.write(str(path), rows([1, 2], ts), "upsert", given).instant
    storage = LocalStorage(str(path))
    config = load_table_config(storage)
    view, lister = load_view(load_state(storage)), Lacking(storage, config)
    whole = view.latest_slices(lister.partitions()[0])
    assert view.proven_by(StorageLister(storage, config), lister).latest_slices(whole[0].partition) == whole
    lister.lacks = str(instant)
    assert view.proven_by(StorageLister(storage, config), lister).latest_slices(whole[0].partition) == whole
    newest = whole[0].log_files[-1].path if kind == "mor" else whole[0].base_file.path
    (path / newest).unlink()
    with pytest.raises(CorruptFileError, match=f"{newest}.* is missing"):
        view.proven_by(StorageLister(storage, config), lister).latest_slices(whole[0].partition)


@pytest.mark.parametrize("kind", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
def test_a_lost_base_file_is_named(tmp_path: Path, kind: str) -> None:
    """The metadata table still has it: the write finds out when it looks up its keys."""
    path, given = tmp_path / "t", options(9, kind)
    hudi_py.write(str(path), rows([1, 2], 1), "upsert", given)
    (base,) = (path / "a").glob("*.parquet")
    base.rename(tmp_path / "kept")
    with pytest.raises(CorruptFileError, match=f"{base.name}.* is missing; restore it"):
        hudi_py.write(str(path), rows([1], 2), "upsert", given)
    shutil.move(tmp_path / "kept", base)
    hudi_py.write(str(path), rows([1], 3), "upsert", given)
    assert snapshot(path) == [("k1", 3), ("k2", 1)]


@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.slow), "mor"])
def test_a_metadata_table_made_anew_meanwhile(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers of a metadata table is not that of the next one in its place."""
    path, given = tmp_path / "t", options(9, kind)
    hudi_py.write(str(path), rows([1, 2], 1), "upsert", given)
    table = hudi_py.open_table(str(path))
    table.upsert(rows([1], 2))
    without = {**given, "hoodie.metadata.enable": "false"}
    for ts in (3, 4):
        table.upsert(rows([3 + ts], ts), options={"hoodie.metadata.enable": "false"})
        hudi_py.write(str(path), rows([1], ts), "upsert", without)
        table.upsert(rows([2], ts))
    assert snapshot(path) == [("k1", 4), ("k2", 4), ("k6", 3), ("k7", 4)]
    assert table.metadata.verify().ok
