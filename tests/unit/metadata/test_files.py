"""Listing from a metadata table made by hand: what stands, what is not trusted, and what happens then."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest

import hudi_py
from hudi_py.metadata import MetadataLister, MetadataTable, metadata_lister
from hudi_py.metadata.files import read_files
from hudi_py.model.names import PartitionPath
from hudi_py.timeline.state import load_state
from tests.support.hfiles import build_hfile
from tests.support.metadata_tables import MetadataTableWriter, files_record
from tests.unit.read.tables import MadeTable, instant, row

GROUP = "files/files-0000-0"


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    """A table with one write of one file."""
    made = MadeTable(str(tmp_path / "t"), mor=False)
    made.base(1, [row("a", 1), row("b", 2)])
    made.commit(1)
    return made


def base_name(table: MadeTable) -> tuple[str, int]:
    (info,) = [info for info in table.storage.list() if info.name.endswith(".parquet")]
    return info.name, info.size


def fill(table: MadeTable, writer: MetadataTableWriter) -> None:
    """The metadata table as that write leaves it."""
    name, size = base_name(table)
    writer.base(GROUP, {"__all_partitions__": files_record({}, 1)})
    writer.log(GROUP, instant(1), {"__all_partitions__": files_record({".": 0}, 1), ".": files_record({name: size})})
    writer.complete(instant(1))


def lister(table: MadeTable) -> MetadataLister:
    found, metadata = metadata_lister(load_state(table.storage))
    assert metadata is not None
    assert isinstance(found, MetadataLister)
    return found


def read(table: MadeTable) -> Mapping[str, Mapping[str, int]]:
    return read_files(MetadataTable(load_state(table.storage)))


def rows(table: MadeTable) -> list[str]:
    return sorted(hudi_py.open_table(table.uri).scan(columns=["id"]).to_table()["id"].to_pylist())


def test_files_are_listed_from_it(table: MadeTable) -> None:
    fill(table, MetadataTableWriter(table.storage))
    found = lister(table)
    assert found.partitions() == [""]
    assert [(info.path, info.size) for info in found.files(PartitionPath(""))] == [base_name(table)]
    assert found.files(PartitionPath("other")) == []
    assert hudi_py.open_table(table.uri).scan().plan().listed_by == "metadata table"
    off = hudi_py.open_table(table.uri, {"hoodie.metadata.enable": "false"})
    assert off.scan().plan().listed_by == "storage"


def test_later_records_add_and_remove(table: MadeTable) -> None:
    writer = MetadataTableWriter(table.storage)
    writer.base(GROUP, {"__all_partitions__": files_record({"p": 0, "q": 0}, 1), "p": files_record({"a": 5, "b": 6})})
    for number in range(1, 6):
        writer.complete(instant(number))
        table.commit(number)
    writer.log(GROUP, instant(1), {"p": files_record({"a": 9, "c": 1})})
    writer.log(GROUP, instant(2), {"p": files_record({"a": 3, "b": None, "never": None}), "q": files_record({"d": 4})})
    writer.log(GROUP, instant(3), {"__all_partitions__": files_record({"q": None}, 1)}, deletes=["q"])
    writer.log(GROUP, instant(4), {"p": files_record({"c": None})})
    writer.log(GROUP, instant(5), {"p": files_record({"c": 2}), "q": files_record({"e": 7})})
    assert read(table) == {"__all_partitions__": {"p": 0}, "p": {"a": 9, "c": 2}, "q": {"e": 7}}


def test_writes_which_are_pending_do_not_count(table: MadeTable) -> None:
    writer = MetadataTableWriter(table.storage)
    fill(table, writer)
    table.pending(2)
    writer.log(GROUP, instant(2), {".": files_record({base_name(table)[0]: None})})
    writer.complete(instant(2))
    assert list(read(table)["."]) == [base_name(table)[0]]
    assert rows(table) == ["a", "b"]
    table.commit(2)
    assert read(table)["."] == {}


def test_writes_whose_instant_is_pending_in_it_do_not_count(table: MadeTable) -> None:
    writer = MetadataTableWriter(table.storage)
    fill(table, writer)
    writer.log(GROUP, instant(2), {".": files_record({base_name(table)[0]: None})})
    assert list(read(table)["."]) == [base_name(table)[0]]


DAMAGES = [
    "no folder",
    "no properties",
    "another format",
    "no file group",
    "no record of partitions",
    "not kept up",
    "a file of no bytes",
    "no HFile",
    "another schema",
    "a torn base file",
    "a missing file group",
    "an unknown version",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_on_any_doubt_the_storage_is_listed_with_one_warning(table: MadeTable, damage: str) -> None:
    writer = MetadataTableWriter(table.storage)
    fill(table, writer)
    storage, name = table.storage, base_name(table)[0]
    properties = ".hoodie/metadata/.hoodie/hoodie.properties"
    if damage == "no folder":
        storage.delete_tree(".hoodie/metadata")
    elif damage == "no properties":
        storage.delete(properties)
    elif damage == "another format":
        storage.put(properties, storage.read(properties).replace(b"HFILE", b"PARQUET"))
    elif damage == "an unknown version":
        storage.put(properties, storage.read(properties).replace(b"table.version=9", b"table.version=19"))
    elif damage == "no file group":
        storage.delete_tree(".hoodie/metadata/files")
    elif damage == "no record of partitions":
        writer.base(GROUP, {".": files_record({name: 1})})
        storage.delete(writer.log(GROUP, instant(1), {}))
    elif damage == "not kept up":
        writer.complete(instant(2))
        table.commit(2)
        table.commit(3)
    elif damage == "a file of no bytes":
        writer.log(GROUP, instant(1), {"__all_partitions__": files_record({".": 0}, 1), ".": files_record({"f": 0})})
    elif damage == "no HFile":
        storage.put(writer.base(GROUP, {}), b"no HFile at all")
    elif damage == "another schema":
        bare = build_hfile([(b"__all_partitions__", b"\2")], info={"schema": b'"int"'})
        storage.put(writer.base(GROUP, {}), bare)
    elif damage == "a torn base file":
        path = writer.base(GROUP, {})
        storage.put(path, storage.read(path)[:-100])
    elif damage == "a missing file group":
        writer.base("files/files-0002-0", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert rows(table) == ["a", "b"]
    assert len([one for one in caught if "metadata table" in str(one.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        off = {"hoodie.metadata.enable": "false"}
        assert hudi_py.open_table(table.uri, off).scan().count() == 2


def test_a_table_that_names_no_partitions_is_listed_without_a_warning(table: MadeTable) -> None:
    writer = MetadataTableWriter(table.storage, partitions=())
    fill(table, writer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hudi_py.open_table(table.uri).scan().plan().listed_by == "storage"


def test_many_partitions_are_looked_up_and_forgotten(table: MadeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_py.metadata.files._SMALL", 0)
    paths = [PartitionPath(f"p{number:03}") for number in range(300)]
    writer = MetadataTableWriter(table.storage)
    listed: dict[str, bytes] = {path: files_record({f"{path}-{at}": at + 1 for at in range(2)}) for path in paths}
    writer.base(GROUP, {"__all_partitions__": files_record(dict.fromkeys(paths, 0), 1), **listed})
    writer.log(GROUP, instant(1), {paths[7]: files_record({"new": 5})})
    writer.complete(instant(1))
    found = lister(table)
    assert found.partitions() == paths
    for some in (paths[:200], paths[200:]):
        assert found.prefetch(some) == 2 * len(some) + (paths[7] in some)
        found.forget(some)
    assert found._files.keys() == {"__all_partitions__"}
    names = [[info.name for info in found.files(path)] for path in paths[6:8]]
    assert names == [["p006-0", "p006-1"], ["new", "p007-0", "p007-1"]]
