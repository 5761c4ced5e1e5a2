"""A made-up partition of the metadata table, and a made-up index: each is described in one class, and everything that
reads the registry builds, updates, verifies, rebuilds and drops it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Option, Options
from hudi_py.errors import ConfigError
from hudi_py.metadata.definitions import IndexDefinition, read_definitions
from hudi_py.metadata.records import NO_FIELDS
from hudi_py.metadata.table import open_metadata
from hudi_py.metadata_write.encoding.records import SECONDARY_INDEX_RECORD, MetadataRecords, encode_values
from hudi_py.metadata_write.partitions import registry
from hudi_py.metadata_write.partitions.base import MetadataPartition, RecordCheck, listed
from hudi_py.metadata_write.partitions.column_stats import files_of_commit
from hudi_py.metadata_write.partitions.named import IndexRequest, NamedIndex, column_type
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.properties import TableConfig
from hudi_py.storage import LocalStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import load_state
from hudi_py.transaction.protocols import TableChange

SOURCE = Path(hudi_py.__file__).parent
PARTITIONS = SOURCE / "metadata_write/partitions"


class FileCheck(RecordCheck):
    """Compares names of files, which have no content."""

    field: ClassVar[str] = "SecondaryIndexMetadata"


def named_files(partition: str, names: list[str]) -> MetadataRecords:
    info = pa.array([{"isDeleted": False}] * len(names), pa.struct([pa.field("isDeleted", pa.bool_(), False)]))
    values = encode_values(SECONDARY_INDEX_RECORD, {"SecondaryIndexMetadata": info})
    return MetadataRecords(partition, pa.array(names, pa.string()), values)


def of_table(source: TableSource, partition: str) -> Iterator[MetadataRecords]:
    for listing in listed(source):
        yield named_files(partition, [name for files in listing.values() for name in files])


@dataclass(frozen=True, slots=True)
class FileNames(MetadataPartition):
    """The partition `file_names`: the name of each data file."""

    name: ClassVar[str] = "file_names"
    file_id_prefix: ClassVar[str] = "file-names"
    check: ClassVar[type[RecordCheck]] = FileCheck

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return False

    def on_request(self, options: Mapping[str, str]) -> Mapping[Option[Any], str]:
        return {}

    def file_groups(self, source: TableSource) -> int:
        return 2

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        return of_table(source, self.name)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        if change.commit is not None:
            yield named_files(self.name, [file.name for file in files_of_commit(change.commit)])


@dataclass(frozen=True, slots=True)
class FileMarks(NamedIndex):
    """The partitions `mark_index_<name>`: files, for a column of text or integers."""

    prefix: ClassVar[str] = "mark_index_"
    kinds: ClassVar[tuple[str, ...]] = ("marks",)
    word: ClassVar[str] = "index of marks"
    needs: ClassVar[str] = FileNames.name
    check: ClassVar[type[RecordCheck]] = FileCheck

    @classmethod
    def asked(cls, options: Options) -> IndexRequest | None:
        return None

    @classmethod
    def define(
        cls, config: TableConfig, schema: pa.Schema | None, request: IndexRequest, settings: Options
    ) -> IndexDefinition:
        column_type(config, schema, request, cls.start_of_error(config, request.name))
        return IndexDefinition(cls.full_name(request.name), "", (request.column,), dict(request.options), "V1", "marks")

    def file_groups(self, source: TableSource) -> int:
        return 1

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        return of_table(source, self.name)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        if change.commit is not None:
            yield named_files(self.name, [file.name for file in files_of_commit(change.commit)])


ROWS = pa.table({"id": ["a", "b"], "p": ["x", "y"], "n": pa.array([1, 2], pa.int32())})
OPTIONS = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where there is a table of a release with the two partitions: they stand in the registry, and nowhere else."""
    monkeypatch.setattr(registry, "PARTITIONS", (*registry.PARTITIONS, FileNames()))
    monkeypatch.setattr(registry, "NAMED", (*registry.NAMED, FileMarks))
    hudi_py.write(str(tmp_path), ROWS, options=OPTIONS, record_key="id", partition_by="p", table_type="mor")
    return str(tmp_path)


def write(path: str, n: int) -> None:
    hudi_py.write(path, ROWS.set_column(2, "n", pa.array([n, n], pa.int32())), options=OPTIONS)


def stored(path: str, name: str) -> list[str]:
    metadata = open_metadata(load_state(LocalStorage(path)))
    assert metadata is not None

    versions = metadata.records(name, NO_FIELDS)
    return sorted(versions.keys.take(pa.array(versions.newest())).to_pylist())


def files(path: str) -> list[str]:
    names = [path.name for path in Path(path).glob("[xy]/*")]
    return sorted(name for name in names if ".log." in name or name.endswith(".parquet"))


def partitions(path: str) -> set[str]:
    return set(load_table_config(LocalStorage(path)).metadata_partitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "partition"), [("file_names", "file_names", "file_names"), ("m", "marks", "mark_index_m")]
)
def test_it_is_built_updated_verified_rebuilt_and_dropped(path: str, name: str, kind: str, partition: str) -> None:
    table = hudi_py.open_table(path, OPTIONS)
    if kind == "marks":
        table.index("file_names", using="file_names")
    assert table.index(name, "" if kind == name else "n", using=kind)
    assert not table.index(name, "" if kind == name else "n", using=kind, if_not_exists=True)
    assert stored(path, partition) == files(path)
    assert partition in table.indexes.list()["name"].to_pylist()
    for n in range(4):  # the metadata table is compacted meanwhile
        write(path, n)
        assert stored(path, partition) == files(path)
    assert len(files(path)) > 4
    report = table.metadata.verify()
    assert report.ok
    assert {check.partition: check.records for check in report.partitions}[partition] == len(files(path))
    assert table.metadata.rebuild(partition) == (partition,)
    assert table.metadata.verify(partition).ok
    table.indexes.drop(name)
    assert partition not in partitions(path)
    assert partition not in read_definitions(LocalStorage(path), load_table_config(LocalStorage(path)))
    write(path, 9)
    assert partition not in partitions(path)


def test_a_commit_that_it_missed_is_seen_and_mended(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hudi_py.open_table(path, OPTIONS)
    table.index("file_names", using="file_names")
    with monkeypatch.context() as patch:
        patch.setattr(FileNames, "changes", lambda self, source, change: iter(()))
        write(path, 3)
    (check,) = table.metadata.verify("file_names").partitions
    assert check.missing == 2
    assert [finding.code for finding in table.doctor(full=True).findings] == ["metadata.index"]
    table.metadata.rebuild()
    assert table.metadata.verify().ok


def test_what_it_needs_is_made_first_and_drops_it_as_well(path: str) -> None:
    table = hudi_py.open_table(path, OPTIONS)
    table.index("file_names", using="file_names")
    table.index("m", "n", using="marks")
    table.indexes.drop("file_names")
    assert partitions(path) & {"file_names", "mark_index_m"} == set()


def test_its_kind_is_named_where_another_is_unknown(path: str) -> None:
    table = hudi_py.open_table(path, OPTIONS)
    with pytest.raises(
        ConfigError, match=r"no kind 'other'; supported: secondary_index, .*marks, record_index, file_n"
    ):
        table.index("m", "n", using="other")


@pytest.mark.slow
def test_each_partition_is_known_to_its_own_modules_and_the_registry() -> None:
    """A new one touches the registry, and `hudi_py.config.indexes` if it has options."""
    classes = {type(partition).__name__ for partition in registry.PARTITIONS} | {
        kind.__name__ for kind in registry.NAMED
    }
    users = set()
    for module in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ImportFrom) and classes & {name.name for name in node.names}:
                users.add(module)
    assert users == {PARTITIONS / "registry.py"}
