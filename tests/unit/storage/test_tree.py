"""Folders below a root."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hudi_py.errors import ConflictError
from hudi_py.storage import FileInfo, MemoryStorage
from hudi_py.storage.base import copy_file
from hudi_py.storage.tree import list_folders, walk_folders


class Listing(MemoryStorage):
    """Notes which folders are listed."""

    def __init__(self) -> None:
        super().__init__("tree-of-folders")
        self.listed: list[str] = []

    def list(self, path: str = "") -> list[FileInfo]:
        self.listed.append(path)
        return super().list(path)


@pytest.fixture
def storage() -> Listing:
    result = Listing()
    for path in ("a/x/1", "a/2", "b/y/z/3", "4"):
        result.put(path, b"")
    return result


def test_folders_are_listed_level_by_level_and_once(storage: Listing) -> None:
    def all_of(_: str, children: Sequence[FileInfo]) -> list[str]:
        return [child.path for child in children if child.is_dir]

    found = {folder: [child.name for child in children] for folder, children in list_folders(storage, all_of)}
    assert found == {"": ["4", "a", "b"], "a": ["2", "x"], "b": ["y"], "a/x": ["1"], "b/y": ["z"], "b/y/z": ["3"]}
    assert list(found) == ["", "a", "b", "a/x", "b/y", "b/y/z"]
    assert sorted(storage.listed) == sorted(found)


def test_only_folders_of_the_rule_are_listed(storage: Listing) -> None:
    asked: list[tuple[str, list[str]]] = []

    def last(folder: str, children: Sequence[FileInfo]) -> list[str]:
        asked.append((folder, [child.path for child in children]))
        return [child.path for child in children if child.is_dir][-1:]

    assert [folder for folder, _ in list_folders(storage, last)] == ["", "b", "b/y", "b/y/z"] == storage.listed
    assert asked[1] == ("b", ["b/y"])


def test_what_the_rule_refuses_is_not_listed(storage: Listing) -> None:
    def refuse(folder: str, children: Sequence[FileInfo]) -> list[str]:
        raise PermissionError(folder)

    with pytest.raises(PermissionError):
        list(list_folders(storage, refuse))
    assert storage.listed == [""]


def test_a_walk_lists_each_folder_once(storage: Listing) -> None:
    assert sorted(info.path for info in walk_folders(storage, "b")) == ["b/y/z/3"]
    assert storage.listed == ["b", "b/y", "b/y/z"]


def test_a_copy_has_as_many_bytes_as_were_listed(storage: Listing) -> None:
    storage.put("a/2", b"12345")
    pieces: list[int] = []
    copy_file(storage, "a/2", storage, "copied", 4, pieces.append)
    assert (storage.read("copied"), pieces) == (b"1234", [4])
    with pytest.raises(ConflictError, match=r"Cannot copy .*/a/2: it has 5 bytes, and was listed with 6"):
        copy_file(storage, "a/2", storage, "short", 6)
    with pytest.raises(FileNotFoundError):
        copy_file(storage, "a/3", storage, "short", 1)
