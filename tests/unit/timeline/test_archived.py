from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_py.errors import CorruptFileError, HudiError
from hudi_py.model.instant import Action, State
from hudi_py.model.properties import TableConfig
from hudi_py.storage import LocalStorage, Storage
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.timeline.records import decode_record
from tests.unit.timeline.archives import HISTORY, archive_block, entry, put_archive, put_manifest, put_run

OLD = TableConfig({"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"})
NEW = TableConfig({"hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"})


def time(number: int) -> str:
    return f"20240101{number:02}0000000"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path))


def states(number: int, action: str = "commit", **completed: Any) -> list[dict[str, Any]]:
    at = f"20240101{number:02}3000000"
    return [
        entry(time(number), action, "REQUESTED"),
        entry(time(number), action, "INFLIGHT"),
        entry(time(number), action, at=at, **completed),
    ]


def test_a_table_without_archive(storage: Storage) -> None:
    assert archived_instants(storage, OLD) == []
    assert archived_instants(storage, NEW) == []


def test_the_archive_has_one_instant_for_its_states(storage: Storage) -> None:
    clean = [
        entry(time(3), "clean", "REQUESTED", policy="KEEP_LATEST_COMMITS"),
        entry(time(3), "clean", "INFLIGHT", policy="KEEP_LATEST_COMMITS"),
        entry(time(3), "clean"),
    ]
    put_archive(storage, states(2, paths={"p": ["p/f_1_2.parquet"]}), clean, number=2)
    put_archive(storage, states(1, "deltacommit", paths={}), number=10)  # numbers, not texts, have the order
    put_archive(storage, [entry(time(4), "commit", "INFLIGHT")], number=11)  # never completed
    found = archived_instants(storage, OLD, ArchiveQuery(metadata=True, plans=True))
    assert [(i.time, i.completion_time, i.action, i.state) for i in found] == [
        (time(1), "20240101013000000", Action.DELTA_COMMIT, State.COMPLETED),
        (time(2), "20240101023000000", Action.COMMIT, State.COMPLETED),
        (time(3), time(3), Action.CLEAN, State.COMPLETED),
    ]
    assert found[1].metadata is not None
    metadata = decode_commit_metadata(found[1].metadata)
    assert metadata.operation == "UPSERT"
    assert [(stat.partition_path, stat.file_id, stat.path) for stat in metadata.stats] == [
        ("p", "f", "p/f_1_2.parquet")
    ]
    assert found[2].plan is not None
    assert decode_record(found[2].plan, "plan") == {"policy": "KEEP_LATEST_COMMITS", "stat": None}
    assert all(i.metadata is None and i.plan is None for i in archived_instants(storage, OLD))


def test_entries_of_old_releases_have_no_state(storage: Storage) -> None:
    put_archive(storage, [entry("20200101000000", state=None, paths={})])
    assert [i.state for i in archived_instants(storage, OLD)] == [State.COMPLETED]


def test_compactions_are_known_as_commits(storage: Storage) -> None:
    put_archive(
        storage, [entry(time(1), "compaction", "REQUESTED"), entry(time(1), "commit", operation="COMPACT", paths={})]
    )
    assert [i.action for i in archived_instants(storage, OLD)] == [Action.COMMIT]


def test_the_folder_is_that_of_the_properties(storage: Storage) -> None:
    put_archive(storage, states(1, paths={}), folder="history")
    config = TableConfig({**OLD.properties, "hoodie.archivelog.folder": "history"})
    assert [i.time for i in archived_instants(storage, config)] == [time(1)]
    assert archived_instants(storage, OLD) == []


@pytest.mark.parametrize("config", [OLD, NEW], ids=["archive", "history"])
def test_ranges_and_choices(storage: Storage, config: TableConfig) -> None:
    if config is OLD:
        put_archive(storage, *[states(n, paths={}) for n in range(1, 6)])
    else:
        put_manifest(storage, 1, [put_run(storage, [instant(n)]) for n in range(1, 6)])
    assert [i.time for i in archived_instants(storage, config, ArchiveQuery(since=time(2), until=time(4)))] == [
        time(n) for n in (2, 3, 4)
    ]
    chosen = archived_instants(storage, config, ArchiveQuery(chosen=lambda i: i.time == time(3), metadata=True))
    assert [i.time for i in chosen] == [time(3)]


def test_what_was_cut_off_was_archived_again(storage: Storage) -> None:
    """`ArchivedTimelineLoaderV1`, 1.2.0 passes over blocks that are not whole."""
    block = archive_block(states(2, paths={}))
    put_archive(storage, states(1, paths={}), raw=block[: len(block) // 2])
    assert [i.time for i in archived_instants(storage, OLD)] == [time(1)]


@pytest.mark.parametrize("wrong", [entry("", "commit"), entry(time(1), "commitment"), entry(time(1), "commit", "DONE")])
def test_a_corrupt_archive(storage: Storage, wrong: dict[str, Any]) -> None:
    path = put_archive(storage, [wrong])
    with pytest.raises(CorruptFileError, match=path):
        archived_instants(storage, OLD)


def instant(
    number: int, action: str = "commit", metadata: bytes | None = b"{}", plan: bytes | None = None
) -> dict[str, Any]:
    completed = f"20240101{number:02}3000000"
    return {
        "instantTime": time(number),
        "completionTime": completed,
        "action": action,
        "metadata": metadata,
        "plan": plan,
    }


def test_the_history(storage: Storage) -> None:
    first = put_run(storage, [instant(1), instant(2, "clean", plan=b"plan")], level=1)
    second = put_run(storage, [instant(3, "deltacommit", metadata=None)])
    put_manifest(storage, 4, [first, second])
    put_run(storage, [instant(9)])  # in no manifest: its writer was cut off
    found = archived_instants(storage, NEW, ArchiveQuery(metadata=True, plans=True))
    assert [(i.time, i.action, i.metadata, i.plan) for i in found] == [
        (time(1), Action.COMMIT, b"{}", None),
        (time(2), Action.CLEAN, b"{}", b"plan"),
        (time(3), Action.DELTA_COMMIT, None, None),
    ]
    assert [i.completion_time for i in found] == ["20240101013000000", "20240101023000000", "20240101033000000"]


@pytest.mark.parametrize("version", [None, b"", b"\x00\x01"])
def test_without_version_file_the_highest_manifest_counts(storage: Storage, version: bytes | None) -> None:
    run = put_run(storage, [instant(1)])
    put_manifest(storage, 9, [], newest=False)
    put_manifest(storage, 10, [run], newest=False)
    if version is not None:  # torn
        storage.put(f"{HISTORY}/_version_", version)
    assert [i.time for i in archived_instants(storage, NEW)] == [time(1)]


def test_a_manifest_that_the_version_file_names_must_be_there(storage: Storage) -> None:
    put_manifest(storage, 9, [put_run(storage, [instant(1)])], newest=False)
    storage.put(f"{HISTORY}/_version_", b"7")
    with pytest.raises(CorruptFileError, match="names manifest_7, which is missing"):
        archived_instants(storage, NEW)


def test_the_version_file_counts_before_the_highest_manifest(storage: Storage) -> None:
    put_manifest(storage, 1, [put_run(storage, [instant(1)])])
    put_manifest(storage, 2, [put_run(storage, [instant(2)])], newest=False)  # its writer died: 2 is still active
    storage.put(f".hoodie/timeline/{time(2)}_{time(2)[:-1]}5.commit", b"{}")
    assert [i.time for i in archived_instants(storage, NEW)] == [time(1)]
    storage.put(f"{HISTORY}/manifest_2", b"torn")
    assert [i.time for i in archived_instants(storage, NEW)] == [time(1)]


@pytest.mark.parametrize("level", [0, 1])
def test_a_version_file_that_went_back_is_damage(storage: Storage, level: int) -> None:
    put_manifest(storage, 1, [put_run(storage, [instant(1)])])
    put_manifest(storage, 2, [put_run(storage, [instant(1), instant(2)], level)], newest=False)
    with pytest.raises(CorruptFileError, match="names manifest_1, but manifest_2 lists .* correct the number"):
        archived_instants(storage, NEW)


class Counting(LocalStorage):
    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return super().open_input(path)


def test_runs_outside_the_range_are_not_opened(tmp_path: Path) -> None:
    storage = Counting(str(tmp_path))
    names = [put_run(storage, [instant(n), instant(n + 1)]) for n in (1, 3, 5)]
    put_manifest(storage, 1, names)
    made = TableConfig({**NEW.properties, "hoodie.table.initial.version": "8"})
    assert [i.time for i in archived_instants(storage, made, ArchiveQuery(since=time(4), until=time(4)))] == [time(4)]
    assert storage.opened == [f"{HISTORY}/{names[1]}"]


def test_runs_of_an_upgrade_are_in_no_order(storage: Storage) -> None:
    """`SevenToEightUpgradeHandler`, 1.2.0 names a run by its first and last entry, as the old archive has them: neither
    need be its oldest or newest."""
    runs = [[7, 9, 6, 8], [3, 5, 2, 4], [1]]
    put_manifest(storage, 1, [put_run(storage, [instant(n) for n in run]) for run in runs])
    upgraded = TableConfig({**NEW.properties, "hoodie.table.initial.version": "6"})
    for config in (NEW, upgraded):
        assert [i.time for i in archived_instants(storage, config)] == [time(n) for n in range(1, 10)]
        for n in range(1, 10):
            assert [i.time for i in archived_instants(storage, config, ArchiveQuery(since=time(n), until=time(n)))] == [
                time(n)
            ]
    # an instant between the two names, which a file of another range has
    storage.put(f"{HISTORY}/{time(3)}_{time(4)}_0.parquet", storage.read(f"{HISTORY}/{time(7)}_{time(8)}_0.parquet"))
    with pytest.raises(CorruptFileError, match="not those in its name"):
        archived_instants(storage, upgraded)


def test_a_version_file_that_lags_behind_runs_of_an_upgrade(storage: Storage) -> None:
    """A writer that merges them dies before it writes `_version_`: nothing is lost."""
    runs = [put_run(storage, [instant(n) for n in run]) for run in ([2, 3, 1], [5, 6, 4])]
    put_manifest(storage, 1, runs)
    put_manifest(storage, 2, [put_run(storage, [instant(n) for n in range(1, 7)], level=1)], newest=False)
    assert len(archived_instants(storage, NEW)) == 6


@pytest.mark.parametrize("config", [OLD, NEW], ids=["archive", "history"])
def test_completion_times(storage: Storage, config: TableConfig) -> None:
    if config is OLD:
        put_archive(storage, *[states(n, paths={}) for n in range(1, 6)])
    else:
        put_manifest(storage, 1, [put_run(storage, [instant(n)]) for n in range(1, 6)])
    found = archived_instants(storage, config, ArchiveQuery(completed_after="20240101033000000"))
    assert [i.time for i in found] == [time(4), time(5)]
    found = archived_instants(storage, config, ArchiveQuery(completed_after="20240101032959999", until=time(4)))
    assert [i.time for i in found] == [time(3), time(4)]


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b'{"files": 1}', b'{"files": [{}]}', b'{"files": [{"fileName": "../x"}]}']
)
def test_a_corrupt_manifest(storage: Storage, manifest: bytes) -> None:
    storage.put(f"{HISTORY}/manifest_1", manifest)
    with pytest.raises(CorruptFileError, match="manifest_1"):
        archived_instants(storage, NEW)


def test_a_missing_run(storage: Storage) -> None:
    put_manifest(storage, 1, [f"{time(1)}_{time(2)}_0.parquet"])
    with pytest.raises(CorruptFileError, match="missing"):
        archived_instants(storage, NEW)


@pytest.mark.parametrize("config", [OLD, NEW], ids=["archive", "history"])
def test_mutated_bytes_are_read_or_refused(tmp_path: Path, config: TableConfig) -> None:
    storage = LocalStorage(str(tmp_path))
    if config is OLD:
        path = put_archive(storage, states(1, paths={"": ["f_1_1.parquet"]}), states(2, paths={}))
    else:
        name = put_run(storage, [instant(1), instant(2, "clean", plan=b"plan")])
        put_manifest(storage, 1, [name])
        path = f"{HISTORY}/{name}"
    whole = storage.read(path)
    chance = random.Random(7)
    for _ in range(120):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        storage.put(path, bytes(data))
        try:
            archived_instants(storage, config, ArchiveQuery(metadata=True, plans=True))
        except HudiError:
            continue


def test_a_run_replaced_by_another_file(storage: Storage) -> None:
    runs = [
        put_run(storage, [{"instantTime": time(at), "completionTime": time(at), "action": "commit"} for at in numbers])
        for numbers in ((1, 2), (3, 4))
    ]
    put_manifest(storage, 1, runs)
    assert [instant.time for instant in archived_instants(storage, NEW)] == [time(at) for at in (1, 2, 3, 4)]
    storage.put(f"{HISTORY}/{runs[1]}", storage.read(f"{HISTORY}/{runs[0]}"))
    with pytest.raises(CorruptFileError, match=rf"{runs[1]}: its instants are {time(1)} to {time(2)}") as caught:
        archived_instants(storage, NEW)
    assert caught.value.expected == (time(3), time(4))
