"""Small tables, writes to them, and what must hold of them after a crash."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import warnings
from pathlib import Path

import pyarrow as pa

import hudi_py
from hudi_py.model.instant import Action
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.clock import InstantClock
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import write_rows
from hudi_py.write.result import WriteResult
from tests.support import sessions
from tests.support.kept_up import SCHEMA, options, rows
from tests.support.sessions import settings_of

__all__ = [
    "KINDS",
    "SCHEMA",
    "SETTINGS",
    "Rows",
    "check_recovered",
    "data_files",
    "leftovers",
    "make_table",
    "read",
    "recover",
    "rows",
    "write",
]

KINDS = [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
SETTINGS = settings_of(MAX_CLOCK_SKEW_MS=20)

Rows = list[dict[str, object]]


def write(storage: Storage, data: pa.Table, operation: str, version: int, kind: str) -> WriteResult:
    """One write, hardly waiting for clock skew; creates the table where it is absent."""
    chosen = options(version, kind, {"hoodie.time.generator.max_expected_clock_skew_ms": "20"})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Dropped the metadata table")
        return write_rows(WriteTarget(storage, chosen), data, operation)


def make_table(root: Path, version: int, kind: str, *, metadata_table: bool = False) -> None:
    """Two commits: ids 0 to 9, of which 0 to 3 updated. Written once in a process, and copied."""
    shutil.copytree(_made(version, kind), root, dirs_exist_ok=True)
    if metadata_table:
        storage = LocalStorage(str(root))
        # as far as a writer that does not maintain it is concerned; readers that use it are not asked
        update_table_config(storage, {"hoodie.table.metadata.partitions": "column_stats,files"})
        storage.put(".hoodie/metadata/.hoodie/hoodie.properties", b"hoodie.table.name=t_metadata\n")
        storage.put(".hoodie/metadata/files/.hoodie_partition_metadata", b"x")
        storage.put(".hoodie/.index_defs/index.json", b'{"indexDefinitions": {"column_stats": {}}}')


@functools.cache
def _made(version: int, kind: str) -> str:
    folder = tempfile.mkdtemp(prefix="hudi-py-table-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    storage = LocalStorage(f"{folder}/table")
    write(storage, rows(range(10), 1), "insert", version, kind)
    write(storage, rows(range(4), 2), "upsert", version, kind)
    return storage.root


def read(root: Path) -> Rows:
    """Rows as a reader sees them, sorted by key."""
    # the metadata table of these tables is one in name only
    listed = {"hoodie.metadata.enable": "false"}
    table = hudi_py.open_table(str(root), listed).scan(columns=SCHEMA.names).to_table()
    found: Rows = table.sort_by("id").to_pylist()
    return found


def data_files(root: Path) -> set[str]:
    """Files outside `.hoodie`, without partition metafiles and what a storage hides."""
    return {
        info.path
        for info in LocalStorage(str(root)).walk()
        if not info.path.startswith(".hoodie/") and info.name != ".hoodie_partition_metadata"
    }


def leftovers(root: Path | Storage) -> set[str]:
    """Files of the protocol that no finished or recovered write leaves behind."""
    storage = LocalStorage(str(root)) if isinstance(root, Path) else root
    folders = (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.hudi_py")
    found = {info.path for folder in folders for info in storage.walk(folder)}
    return found | {path for path in (".hoodie/lock", ".hoodie/hoodie.properties.backup") if storage.stat(path)}


def recover(storage: Storage) -> None:
    """What every write does first."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Dropped the metadata table")
        sessions.recover(storage, settings=SETTINGS, clock=InstantClock(load_table_config(storage), skew_ms=20))


def check_recovered(root: Path, before: Rows, after: Rows, files: set[str], version: int, kind: str) -> bool:
    """Rolls back what failed, then checks files and rows. True when the write had been published.

    Args:
        before, after: the rows without and with the write that was killed.
        files: data files there were before it.
    """
    storage = LocalStorage(str(root))
    config = load_table_config(storage)
    rolled_back = {instant.time for instant in load_timeline(storage, config).pending}
    recover(storage)
    timeline = load_timeline(storage, config)
    assert not [instant for instant in timeline.pending if instant.action is not Action.SAVEPOINT]
    found = read(root)
    published = found == after
    assert published or found == before
    added = data_files(root) - files
    assert files <= data_files(root)
    if published:
        assert all(any(name in path for name in _times(timeline)) for path in added)
    elif version == 6 and kind == "mor":
        blocks = {path for path in added if path.endswith("_1-0-1")}
        failed = added - blocks
        assert all(".log." in path for path in failed), (failed, rolled_back)
        groups = {path.rpartition(".log.")[0] for path in failed}
        assert {path.rpartition(".log.")[0] for path in blocks} == groups
    else:
        assert added == set()
    assert leftovers(root) == set()
    return published


def _times(timeline: Timeline) -> set[str]:
    return {instant.time for instant in timeline.write_completed}
