"""Archiving killed at every call that changes something: the next run finishes it, no instant is lost or doubled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.services.archive import archive
from hudi_py.services.context import ServiceContext
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.archived import archive_files, archive_folder, archived_instants, archived_states
from hudi_py.timeline.history import ArchiveQuery, newest_manifest
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import load_timeline
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed, KillingStorage
from tests.faults.tables import rows, write
from tests.support.archiving import archiving
from tests.support.choice import every

pytestmark = pytest.mark.slow

SETTINGS = archiving(
    min_commits=1,
    max_commits=2,
    cleaner_policy="KEEP_LATEST_FILE_VERSIONS",
    compaction_commits=None,
    compaction_batch=2,
    manifests_retained=1,
    merge=True,
    merge_batch=4,
)


def run(storage: Storage) -> None:
    archive(ServiceContext.of(WriteTarget(storage, SETTINGS, NoMetadata())))


def table(root: Path, version: int) -> Path:
    """Something was archived three times: the next time files are merged, or two levels compacted and cleaned."""
    storage = LocalStorage(str(root))
    for number in range(9):
        write(storage, rows(range(2), number), "upsert" if number else "insert", version, "cow")
        if number in (2, 4, 6):
            run(storage)
    return root


def instants(root: Path) -> tuple[list[str], list[str]]:
    """Requested times of what is archived and of what is active and completed."""
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    archived = [instant.time for instant in archived_instants(storage, config, ArchiveQuery(metadata=True))]
    return archived, [instant.time for instant in load_timeline(storage, config).completed]


def column(run: Path) -> list[str]:
    found: list[str] = pq.read_table(run, columns=["instantTime"]).column(0).to_pylist()
    return found


def stored(root: Path) -> list[str]:
    """Requested times as they are stored in the archive, doubles and all."""
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    folder = archive_folder(config)
    if config.layout >= 2:
        runs = newest_manifest(storage, folder).runs
        return sorted(
            time for run in runs for time in pq.read_table(root / folder / run.name)["instantTime"].to_pylist()
        )
    return sorted(
        time
        for _, file in archive_files(storage, folder)
        for time, _, state in archived_states(storage, file, since="", until="9")
        if state.name == "COMPLETED"
    )


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("torn", [False, True], ids=["clean", "torn"])
def test_killed_at_every_call(tmp_path: Path, version: int, torn: bool) -> None:
    before = table(tmp_path / "before", version)
    whole = tmp_path / "whole"
    shutil.copytree(before, whole)
    counting = KillingStorage(str(whole))
    run(counting)
    expected = instants(whole)
    known = sorted({*expected[0], *expected[1]})
    shown = hudi_py.open_table(str(before)).scan().to_table()
    calls = counting.calls
    assert any("_2.parquet" in call or "mergeArchivePlan" in call for call in calls)
    for call in every(12, len(calls)):
        root = tmp_path / f"{call}"
        shutil.copytree(before, root)
        with pytest.raises(Killed):
            run(KillingStorage(str(root), call, torn=torn))
        # A reader in between sees every instant, archived or active, and every row
        archived, active = instants(root)
        assert sorted({*archived, *active}) == known, calls[call]
        assert hudi_py.open_table(str(root)).scan().to_table().equals(shown), calls[call]
        run(LocalStorage(str(root)))
        assert instants(root) == expected, calls[call]
        assert stored(root) == expected[0], calls[call]
        assert not list(root.rglob("mergeArchivePlan"))
        if call // 12 % 2:  # and the archive goes on as ever
            storage = LocalStorage(str(root))
            for number in (20, 21):
                write(storage, rows(range(2), number), "upsert", version, "cow")
            run(storage)
            archived, active = instants(root)
            assert len(archived) == len(expected[0]) + 2, calls[call]
            assert stored(root) == archived, calls[call]
        shutil.rmtree(root)


@pytest.mark.parametrize("version", [6, 9])
def test_killed_twice(tmp_path: Path, version: int) -> None:
    """A second death while the first one's work is finished."""
    before = table(tmp_path / "before", version)
    whole = tmp_path / "whole"
    shutil.copytree(before, whole)
    counting = KillingStorage(str(whole))
    run(counting)
    expected = instants(whole)
    for first in every(12, len(counting.calls)):
        for second in every(9, len(counting.calls)):
            root = tmp_path / f"{first}-{second}"
            shutil.copytree(before, root)
            with pytest.raises(Killed):
                run(KillingStorage(str(root), first))
            try:
                run(KillingStorage(str(root), second))
            except Killed:
                run(LocalStorage(str(root)))
            assert instants(root) == expected
            assert stored(root) == expected[0]
            shutil.rmtree(root)
