from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import hudi_py
from hudi_py.errors import HistoryCleanedError
from hudi_py.formats.avro import write_container
from hudi_py.model.instant import Action
from tests.unit.read.tables import FILE_ID, MadeTable, completion, instant, row
from tests.unit.timeline.archives import entry, put_archive

_CLEAN: dict[str, Any] = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "fields": [
        {"name": "earliestCommitToRetain", "type": "string"},
        {
            "name": "partitionMetadata",
            "type": {
                "type": "map",
                "values": {
                    "type": "record",
                    "name": "HoodieCleanPartitionMetadata",
                    "fields": [{"name": "successDeleteFiles", "type": {"type": "array", "items": "string"}}],
                },
            },
        },
    ],
}


def clean(table: MadeTable, at: int, retained: str, deleted: Mapping[str, Sequence[str]]) -> None:
    """A clean of the number-th instant, which removes files of partitions."""
    for partition, names in deleted.items():
        for name in names:
            assert table.storage.delete(f"{partition}/{name}" if partition else name)
    files = {partition: {"successDeleteFiles": list(names)} for partition, names in deleted.items()}
    record = {"earliestCommitToRetain": retained, "partitionMetadata": files}
    name = table.layout.completed_name(instant(at), Action.CLEAN, completion(at))
    table.storage.put(table.layout.path(name), write_container(_CLEAN, [record]))


def savepoint(table: MadeTable, at: int) -> None:
    name = table.layout.completed_name(instant(at), Action.SAVEPOINT, completion(30))
    table.storage.put(table.layout.path(name), b"")


def versions(path: Path, version: int, count: int = 3) -> MadeTable:
    """One file group, rewritten by every commit."""
    table = MadeTable(str(path / "t"), version=version, mor=False)
    for at in range(1, count + 1):
        table.base(at, [row("a", at)])
        table.commit(at)
    return table


def base(at: int) -> str:
    return f"{FILE_ID}_0-1-2_{instant(at)}.parquet"


def seen(table: MadeTable, as_of: str) -> list[int]:
    found: list[int] = hudi_py.open_table(table.uri).scan(as_of=as_of).to_table()["ts"].to_pylist()
    return found


@pytest.mark.parametrize("version", [6, 9])
def test_what_the_last_clean_retains_can_be_read(tmp_path: Path, version: int) -> None:
    table = versions(tmp_path, version)
    clean(table, 4, instant(2), {"": [base(1)]})
    assert seen(table, instant(3)) == [3]
    assert seen(table, instant(2)) == [2]
    with pytest.raises(HistoryCleanedError, match=f"before {instant(2)} have been cleaned"):
        seen(table, instant(1))


@pytest.mark.parametrize("version", [6, 9])
def test_what_a_savepoint_keeps_can_be_read(tmp_path: Path, version: int) -> None:
    table = versions(tmp_path, version, 4)
    savepoint(table, 2)
    clean(table, 5, instant(4), {"": [base(1), base(3)]})
    assert seen(table, instant(4)) == [4]
    assert seen(table, instant(2)) == [2]
    for as_of in (instant(1), instant(3), completion(3)):
        with pytest.raises(HistoryCleanedError):
            seen(table, as_of)


def test_behind_a_savepoint_commits_may_have_been_archived(tmp_path: Path) -> None:
    table = versions(tmp_path, 6, 4)
    savepoint(table, 2)
    for at in (1, 3):
        put_archive(table.storage, [entry(instant(at), paths={"": [base(at)]})], number=at)
        table.storage.delete(table.layout.path(table.layout.completed_name(instant(at), Action.COMMIT)))
    clean(table, 5, instant(4), {"": [base(1), base(3)]})
    assert seen(table, instant(2)) == [2]
    with pytest.raises(HistoryCleanedError):
        seen(table, completion(3))


@pytest.mark.parametrize("version", [6, 9])
def test_cleans_which_retain_a_number_of_versions(tmp_path: Path, version: int) -> None:
    table = versions(tmp_path, version, 4)
    clean(table, 5, "", {"": [base(2), base(3)]})
    assert seen(table, instant(1)) == [1], "the first active write stands for the earliest retained one"
    assert seen(table, instant(4)) == [4]
    for as_of in (instant(2), instant(3)):
        with pytest.raises(HistoryCleanedError, match=f"version {as_of} of file group {FILE_ID}"):
            seen(table, as_of)
    table.storage.delete(table.layout.path(table.layout.completed_name(instant(1), Action.COMMIT, completion(1))))
    with pytest.raises(HistoryCleanedError, match=f"before {instant(2)}"):
        seen(table, instant(1))


@pytest.mark.parametrize("version", [6, 9])
def test_archived_instants_can_be_read_while_their_files_are_there(tmp_path: Path, version: int) -> None:
    table = versions(tmp_path, version)
    for at in (1, 2):
        table.storage.delete(table.layout.path(table.layout.completed_name(instant(at), Action.COMMIT, completion(at))))
    assert seen(table, instant(1)) == [1]
    assert seen(table, instant(2)) == [2]
