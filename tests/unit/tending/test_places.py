"""Which folders are tables, and which are searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_py.storage import FileInfo, LocalStorage, MemoryStorage
from hudi_py.tending.places import find_tables
from tests.unit.tending.conftest import make


class Listing(LocalStorage):
    """Notes which folders are listed."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.listed: list[str] = []

    def list(self, path: str = "") -> list[FileInfo]:
        self.listed.append(path)
        return super().list(path)


def test_tables_at_and_below_a_path(made: Path) -> None:
    storage = Listing(str(made))
    found = find_tables(storage)
    assert found.folders == ("hr/many", "hr/many/below", "sales/rides", "sales/trips", "sales/young")
    assert found.not_searched == ()
    assert not [path for path in storage.listed if ".hoodie" in path or "_staging" in path or "=" in path]
    assert find_tables(LocalStorage(str(made / "sales" / "rides"))).folders == ("",)


@pytest.mark.parametrize(
    ("depth", "tables", "deep"),
    [(0, (), ("hr", "plain", "sales")), (1, (), ("hr/many", "sales/rides", "sales/trips", "sales/young"))],
)
def test_what_is_too_deep_is_named(made: Path, depth: int, tables: tuple[str, ...], deep: tuple[str, ...]) -> None:
    found = find_tables(LocalStorage(str(made)), depth=depth)
    assert (found.folders, found.not_searched) == (tables, deep)


def test_partitions_are_not_searched(tmp_path: Path) -> None:
    """Partitions without names in their paths show by their metafiles; where there are many, by the metadata table."""
    make(tmp_path / "few", "cow", part="city")
    storage = Listing(str(tmp_path))
    (tmp_path / "few" / "oslo" / "inner").mkdir()
    assert find_tables(storage).folders == ("few",)
    assert "few/oslo" in storage.listed
    assert "few/oslo/inner" not in storage.listed
    make(tmp_path / "many" / "below")
    make(tmp_path / "many", "cow", 9, 1, part="id")
    storage = Listing(str(tmp_path / "many"))
    assert find_tables(storage).folders == ("", "below")
    assert not {f"{n}" for n in range(12)} & set(storage.listed)


def test_a_damaged_table_is_found(tmp_path: Path) -> None:
    (tmp_path / "t" / ".hoodie").mkdir(parents=True)
    assert find_tables(LocalStorage(str(tmp_path))).folders == ("t",)
    assert find_tables(MemoryStorage("nothing-here")).folders == ()
