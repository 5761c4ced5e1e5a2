"""What a write reads of the metadata table to find damage."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from hudi_py.merge import CommittedInstants
from hudi_py.metadata.records import check_parts
from hudi_py.model.files import FileSlice
from hudi_py.storage import FolderStorage, MemoryStorage, Storage
from tests.unit.metadata_write import memory_tables


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(f"checked-{uuid.uuid4().hex}")


@pytest.mark.parametrize("version", [6, 9])
def test_files_of_the_metadata_table_are_checked_once_by_a_process(
    storage: MemoryStorage, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def noted(own: Storage, slices: Sequence[FileSlice], committed: CommittedInstants, stamps: Any = None) -> None:
        files = [file for each in slices for file in (each.base_file, *each.log_files) if file is not None]
        checked.extend(file.path for file in files)
        check_parts(own, slices, committed, stamps)

    monkeypatch.setattr("hudi_py.metadata.table.check_parts", noted)
    for turn in range(3):
        memory_tables.write(storage, memory_tables.rows(range(4), turn), version=version)
    assert len(checked) == len(set(checked))
    before, own = set(checked), FolderStorage(storage, ".hoodie/metadata")
    memory_tables.write(storage, memory_tables.rows(range(4), 5), version=version)
    new = set(checked[len(before) :])
    assert new
    assert not new & before
    # a file that was checked, and has changed since, is looked at again
    (path,) = [info.path for info in own.list("files") if info.path in before and info.name.endswith(".hfile")]
    size = len(own.read(path))
    own.put(path, b"\0" * size)
    storage.set_modified(f".hoodie/metadata/{path}", 1)
    with pytest.warns(UserWarning, match="is rebuilt"):
        memory_tables.write(storage, memory_tables.rows(range(4), 6), version=version)
    memory_tables.check_listing(storage)
    assert memory_tables.read(storage) == dict.fromkeys(range(4), 6)
