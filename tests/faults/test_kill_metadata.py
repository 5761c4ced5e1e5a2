"""The metadata table's writer killed at every call that changes the storage: run again, it is as if it had not been."""

from __future__ import annotations

import contextlib
import json
import uuid
import warnings
from collections.abc import Callable, Iterator

import pytest

import hudi_py
from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.metadata_write.maintenance.indexes import create_index
from hudi_py.metadata_write.maintenance.rebuild import rebuild
from hudi_py.metadata_write.maintenance.verify import verify
from hudi_py.metadata_write.partitions.named import IndexRequest
from hudi_py.metadata_write.writer import MetadataTableWriter
from hudi_py.model.instant import Action, Instant
from hudi_py.services.context import ServiceContext
from hudi_py.services.recovery.rollback import rollback
from hudi_py.storage import MemoryStorage, Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.protocols import TableChange
from hudi_py.transaction.session import WriteTarget
from tests.faults.killing import Killed, KillingStorage
from tests.support import sessions
from tests.support.choice import every
from tests.support.sessions import session_of
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

pytestmark = pytest.mark.slow  # tests/faults/test_kill.py kills writes with a metadata table, too

Files = dict[str, bytes]
OFF = {"hoodie.metadata.enable": "false", "hoodie.py.drop.indexes": "true"}
ALL = {"hoodie.metadata.index.bloom.filter.enable": "true", "hoodie.metadata.record.index.enable": "true"}
FEW = {**ALL, "hoodie.metadata.record.index.min.filegroup.count": "2"}
VERSIONS = pytest.mark.parametrize("version", [6, 9])
BEFORE, AFTER = {0: 1, 1: 1, 2: 1, 3: 1}, {0: 1, 1: 1, 2: 2, 3: 2, 4: 2}


class KillingMemory(KillingStorage):
    """A table in memory on which the process dies at one call."""

    def __init__(self, storage: Storage, kill_at: int | None = None) -> None:
        super().__init__("/nowhere", kill_at)
        self._storage = storage  # type: ignore[assignment]

    @property
    def is_local(self) -> bool:
        return False


def copy_of(files: Files) -> MemoryStorage:
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    for path, data in files.items():
        storage.put(path, data)
    return storage


def files_of(storage: Storage, folder: str = "") -> Files:
    return {info.path: storage.read(info.path) for info in storage.walk(folder)}


def killed_everywhere(files: Files, call: Callable[[Storage], object], step: int = 6) -> Iterator[Storage]:
    """The table after a kill at every so many of the calls, in turn."""
    whole = KillingMemory(copy_of(files))
    call(whole)
    assert len(whole.calls) > 5
    for number in every(step, len(whole.calls)):
        storage = copy_of(files)
        with pytest.raises(Killed):
            call(KillingMemory(storage, number))
        yield storage


def settled(storage: Storage) -> None:
    """Nothing is left half done."""
    assert not own_timeline(storage).pending
    check_listing(storage)


def unrecorded(version: int) -> tuple[Files, TableChange, str, bytes]:
    """A table with a write that is pending and not recorded; its change, and its completed file."""
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), version=version, options=FEW)
    own = files_of(storage, ".hoodie/metadata")
    write(storage, rows(range(2, 5), 2), version=version, options=FEW)
    newest, layout = newest_write(storage), timeline(storage).layout
    commit = read_commit_metadata(storage, layout, newest)
    path = layout.path(newest.file_name)
    content = storage.read(path)
    storage.delete(path)
    storage.delete_tree(".hoodie/metadata")
    for name, data in own.items():
        storage.put(name, data)
    return files_of(storage), TableChange(newest.time, newest.action, commit), path, content


def newest_write(storage: Storage) -> Instant:
    found = timeline(storage).last_completed
    assert found is not None
    return found


def record(storage: Storage, change: TableChange) -> None:
    metadata: MetadataTableWriter = writer(FEW)
    sessions.record(storage, metadata, change, clock(storage))


def roll_back(storage: Storage) -> None:
    """What the next write does with the pending one, or with the rollback that was killed."""
    pending = [instant for instant in timeline(storage).pending if instant.action is not Action.ROLLBACK]
    for instant in pending:
        sessions.roll_back(session_of(storage, writer(FEW), clock=clock(storage)), instant)
    # where the instant is gone, and the rollback is not complete
    sessions.recover(storage, writer(FEW), clock=clock(storage))


@pytest.mark.parametrize("version", [6, pytest.param(9, marks=pytest.mark.slow)])
def test_making_it(version):
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), version=version, options=OFF)

    def prepare(target: Storage) -> None:
        sessions.prepare(target, writer(FEW), clock(target))

    expected = {"files", "column_stats", "bloom_filters", "record_index"} | (
        {"partition_stats"} if version == 9 else set()
    )
    for dead in killed_everywhere(files_of(storage), prepare):
        assert read(dead) == BEFORE
        prepare(dead)
        assert set(load_table_config(dead).metadata_partitions) == expected
        settled(dead)
        definitions = json.loads(dead.read(".hoodie/.index_defs/index.json"))["indexDefinitions"]
        assert set(definitions) == {"column_stats", "record_index"}
        assert read(dead) == BEFORE


def service(storage: Storage) -> ServiceContext:
    return ServiceContext.of(WriteTarget(storage, Options.resolve({}, defaults={}), writer(), clock=clock(storage)))


def remade(storage: Storage) -> None:
    """All of the metadata table made anew on demand."""
    rebuild(service(storage), names=["files"])


def index_remade(storage: Storage) -> None:
    rebuild(service(storage), names=["record_index", "bloom_filters"])


def undone(storage: Storage) -> None:
    """A commit undone that is older than the metadata table."""
    newest = newest_write(storage)
    if len(timeline(storage).write_completed) == 2:
        rollback(service(storage), newest.time)


def left_behind(storage: Storage) -> None:
    """What the next write does with a metadata table that is of no use any more."""
    with pytest.warns(UserWarning, match="is rebuilt"):
        sessions.prepare(storage, writer(), clock(storage))


BY_PARTITION = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("version", "make", "step"),
    [
        pytest.param(9, remade, 24, id="v9-rebuild"),
        *(
            pytest.param(version, make, 8, id=f"v{version}-{make.__name__}", marks=pytest.mark.slow)
            for version, make in [(9, remade), (6, index_remade), (6, undone), (9, undone), (6, left_behind)]
        ),
    ],
)
def test_making_it_anew_leaves_no_index_out(version, make, step):
    """Whatever process goes on, and with whatever options: the same partitions, and a record index of the same kind."""
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), version=version, options=OFF)
    write(storage, rows(range(2, 5), 2), version=version, options=OFF)
    sessions.prepare(storage, writer(BY_PARTITION), clock(storage))
    before = load_table_config(storage).metadata_partitions
    assert {"record_index", "bloom_filters"} < set(before)
    if make is left_behind:
        storage.delete(".hoodie/metadata/.hoodie/hoodie.properties")
    noted = 0
    for dead in killed_everywhere(files_of(storage), make, step):
        dead.delete(".hoodie/lock")
        noted += bool(load_table_config(dead).metadata_partitions_to_make)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert hudi_py.open_table(dead.uri).scan(columns=["id"]).to_table().num_rows in (4, 5)
            write(dead, rows(range(3, 6), 3), version=version)
        config = load_table_config(dead)
        assert set(config.metadata_partitions) == set(before)
        assert not config.metadata_partitions_to_make
        settled(dead)
        groups = {info.name for info in dead.walk(".hoodie/metadata/record_index")}
        assert any("record-index-a-0000-0" in name for name in groups)
        assert not any("record-index-0000-0" in name for name in groups)
        assert verify(service(dead)).ok
    assert noted > 2


def test_indexes_begun_are_dropped_where_they_are_not_wanted():
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), options=FEW)
    begun = {"bloom_filters", "record_index", "partition_stats"}
    dead = next(
        found
        for found in killed_everywhere(files_of(storage), remade, step=2)
        if set(load_table_config(found).metadata_partitions_to_make) == begun
    )
    dead.delete(".hoodie/lock")
    with pytest.raises(ConfigError, match="holds the indexes record_index"):
        write(dead, rows(range(2), 2), options={"hoodie.metadata.enable": "false"})
    write(dead, rows(range(2), 2), options={"hoodie.metadata.record.index.enable": "false"})
    config = load_table_config(dead)
    assert set(config.metadata_partitions) == {"files", "column_stats", "partition_stats", "bloom_filters"}
    assert not config.metadata_partitions_to_make


@VERSIONS
def test_recording_a_commit_again(version):
    files, change, path, content = unrecorded(version)
    for dead in killed_everywhere(files, lambda storage: record(storage, change)):
        assert read(dead) == BEFORE
        record(dead, change)
        assert read(dead) == BEFORE
        dead.put(path, content)
        settled(dead)
        assert read(dead) == AFTER


@VERSIONS
def test_a_commit_whose_recording_was_killed_is_rolled_back(version):
    files, change, _, _ = unrecorded(version)
    for dead in killed_everywhere(files, lambda storage: record(storage, change)):
        roll_back(dead)
        settled(dead)
        assert read(dead) == BEFORE
        assert own_timeline(dead).find(change.instant, Action.DELTA_COMMIT) is None


@VERSIONS
def test_the_rollback_is_killed(version):
    files, change, _, _ = unrecorded(version)
    recorded = copy_of(files)
    record(recorded, change)
    for dead in killed_everywhere(files_of(recorded), roll_back):
        assert read(dead) == BEFORE
        roll_back(dead)
        settled(dead)
        assert read(dead) == BEFORE


@VERSIONS
def test_dropping_an_index(version):
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), version=version, options=FEW)
    off = {"hoodie.metadata.index.column.stats.enable": "false"}

    def prepare(target: Storage) -> None:
        sessions.prepare(target, writer(off), clock(target))

    for dead in killed_everywhere(files_of(storage), prepare):
        assert read(dead) == BEFORE
        prepare(dead)
        assert set(load_table_config(dead).metadata_partitions) == {"files", "bloom_filters", "record_index"}
        settled(dead)
    write(dead, rows(range(2, 5), 2), version=version)
    settled(dead)
    assert set(load_table_config(dead).metadata_partitions) >= {"files", "column_stats", "record_index"}
    assert read(dead) == AFTER


@pytest.mark.parametrize("kind", ["column_stats", "bloom_filters"])
def test_creating_an_expression_index(kind):
    """The next write completes the index, or there is none."""
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), options=FEW)

    def create(target: Storage) -> None:
        given = {"expr": "upper"} if kind == "column_stats" else {"expr": "upper", "numentries": "10"}
        create_index(service(target), IndexRequest("ix", "name", kind, given))

    for dead in killed_everywhere(files_of(storage), create):
        assert read(dead) == BEFORE
        write(dead, rows(range(2, 5), 2), options=FEW)
        settled(dead)
        assert read(dead) == AFTER
        config = load_table_config(dead)
        assert not config.metadata_partitions_to_make
        made = {name for name in config.metadata_partitions if name.startswith("expr_index_")}
        checks = {check.partition: check.ok for check in verify(service(dead)).partitions}
        assert all(checks[name] for name in made)
        if not made:
            create(dead)
    assert verify(service(dead)).ok


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow")])
def test_a_whole_write(version, kind):
    """Killed anywhere, recovered by the next write: the rows of before or after, and a metadata table that fits."""
    storage = MemoryStorage(f"kill-{uuid.uuid4()}")
    write(storage, rows(range(4), 1), version=version, kind=kind)
    files = files_of(storage)
    counting = KillingMemory(copy_of(files))
    write(counting, rows(range(2, 5), 2), version=version, kind=kind)
    outcomes = []
    for number in every(9, len(counting.calls)):
        dead = copy_of(files)
        with contextlib.suppress(Killed):  # names of files differ, and with them the file groups that are written to
            write(KillingMemory(dead, number), rows(range(2, 5), 2), version=version, kind=kind)
        dead.delete(".hoodie/lock")
        published = read(dead) == AFTER
        assert published or read(dead) == BEFORE
        sessions.recover(dead, writer(), clock=clock(dead))
        assert read(dead) == (AFTER if published else BEFORE)
        outcomes.append(published)
        write(dead, rows(range(2, 5), 2), version=version, kind=kind)
        settled(dead)
        assert read(dead) == AFTER
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {True, False}
