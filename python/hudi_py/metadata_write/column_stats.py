"""The `column_stats` partition: ranges of the columns of each data file.

Sources: `HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords`, `convertFilesToColumnStatsRecords`,
`HoodieMetadataPayload.getColumnStatsIndexKey`, 1.2.0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config.metadata import COLUMN_STATS_COLUMNS
from hudi_py.file_stats.columns import IndexedColumn, indexed_columns
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.ranges import ColumnRanges
from hudi_py.metadata.keys import column_id, file_id, partition_id
from hudi_py.metadata.table import COLUMN_STATS
from hudi_py.metadata_write.definitions import IndexDefinition, version_of
from hudi_py.metadata_write.files import listed
from hudi_py.metadata_write.records import COLUMN_STATS_RECORD, MetadataRecords
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.metadata_write.source import TableSource
from hudi_py.metadata_write.stats_values import removal_values, stats_values
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.schema.meta import META_FIELDS, OPERATION
from hudi_py.transaction.protocols import TableChange

T = TypeVar("T")

_AT_ONCE: Final = 1024
"""Files whose records are made at once."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Builder of `column_stats`."""

    @property
    def partition(self) -> str:
        return COLUMN_STATS

    def file_groups(self, source: TableSource) -> int:
        """As many as the options ask for."""
        return source.settings.column_stats_groups

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Ranges of every file with rows there is, older versions of file groups among them."""
        files = (
            DataFile(partition, name, size)
            for listing in listed(source)
            for partition, sizes in listing.items()
            for name, size in sizes.items()
        )
        yield from _of_files(source, files, KeptStatistics.of(source), "", with_rows=True)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Ranges of the files a commit wrote; removals of those that a clean deleted.

        What a rollback takes away left the metadata table with the delta commit of the instant rolled back.
        """
        if change.commit is not None:
            files = files_of_commit(change.commit)
            yield from _of_files(source, files, KeptStatistics.of(source), change.sidecars)
        if change.action is Action.CLEAN:
            yield from _removals(change.deleted, KeptStatistics.of(source))

    def columns(self, config: TableConfig, schema_json: str, settings: MetadataWriteSettings) -> tuple[str, ...]:
        """Names of the columns whose ranges are kept, for a write with an Avro schema."""
        version = 2 if config.version >= 9 else 1
        return tuple(column.name for column in _columns(config, schema_json, settings, version))

    def definition(self, source: TableSource) -> IndexDefinition:
        """The columns whose ranges are kept, as of now. Warns of names in the options that are none of them."""
        kept = KeptStatistics.of(source)
        fields = tuple(column.name for column in kept.columns)
        unknown = set(source.settings.columns) - {*fields, *META_FIELDS, OPERATION}
        if unknown and source.schema_json:
            warnings.warn(
                f"No statistics are kept of {', '.join(map(repr, sorted(unknown)))}, "
                f"named in {COLUMN_STATS_COLUMNS.key}: table {source.config.name!r} has no such columns, "
                "or their types have no order",
                UserWarning,
                stacklevel=2,
            )
        return IndexDefinition(COLUMN_STATS, COLUMN_STATS, fields, version=f"V{kept.version}")


@dataclass(frozen=True, slots=True)
class KeptStatistics:
    """Which statistics a table keeps."""

    columns: tuple[IndexedColumn, ...]
    version: int
    """Their form: 1, or 2 with types (`HoodieIndexVersion`)."""

    @classmethod
    def of(cls, source: TableSource) -> KeptStatistics:
        """As of now. Reads the definitions of indexes."""
        stored = version_of(source.definitions, COLUMN_STATS, source.config)
        version = 1 if stored == "V1" else 2
        return cls(_columns(source.config, source.schema_json, source.settings, version), version)


def files_of_commit(commit: CommitMetadata) -> list[DataFile]:
    """The base and log files a commit wrote, each once; change data is not among them."""
    found: dict[str, DataFile] = {}
    for stat in commit.stats:
        if stat.path:
            found[stat.path] = DataFile(stat.partition_path, stat.path.rpartition("/")[2], stat.file_size)
    return list(found.values())


def stats_records(ranges: Iterable[tuple[DataFile, ColumnRanges | None]], *, index_version: int) -> MetadataRecords:
    """The records of some files."""
    told = [(file, found) for file, found in ranges if found is not None and len(found)]
    if not told:
        return MetadataRecords(COLUMN_STATS)
    keys: list[str] = []
    names: list[str] = []
    for file, found in told:
        ending = partition_id(file.partition) + file_id(file.name)
        keys += [column_id(column) + ending for column in found.rows["column"].to_pylist()]
        names += [file.name] * len(found)
    rows = pa.Table.from_batches([found.rows.replace_schema_metadata(None) for _, found in told])
    values = stats_values(COLUMN_STATS_RECORD, rows, pa.array(names, pa.string()), index_version=index_version)
    return MetadataRecords(COLUMN_STATS, pa.array(keys, pa.string()), values)


def _columns(
    config: TableConfig, schema_json: str, settings: MetadataWriteSettings, index_version: int
) -> tuple[IndexedColumn, ...]:
    return indexed_columns(
        schema_json,
        names=settings.columns,
        limit=settings.max_columns,
        meta_columns=config.populates_meta_fields,
        index_version=index_version,
    )


def _of_files(
    source: TableSource,
    files: Iterable[DataFile],
    kept: KeptStatistics,
    sidecars: str,
    *,
    with_rows: bool = False,
) -> Iterator[MetadataRecords]:
    """`with_rows`: files without a row, such as logs of deletes, are left out."""
    for some in _some(files):
        found = source.ranges(some, kept.columns, sidecars)
        if with_rows:
            found = [(file, each) for file, each in found if each is not None and pc.any(_counted(each)).as_py()]
        yield stats_records(found, index_version=kept.version)


def _counted(ranges: ColumnRanges) -> pa.Array:
    return pc.greater(ranges.rows["values"], 0)


def _removals(deleted: Mapping[str, Sequence[str]], kept: KeptStatistics) -> Iterator[MetadataRecords]:
    fields = [column.name for column in kept.columns]
    gone = [(partition, name) for partition, names in deleted.items() for name in names]
    for some in _some(gone):
        endings = [partition_id(partition) + file_id(name) for partition, name in some]
        keys = [column_id(field) + ending for ending in endings for field in fields]
        names = pa.array([name for _, name in some for _ in fields], pa.string())
        columns = pa.array(fields * len(some), pa.string())
        values = removal_values(COLUMN_STATS_RECORD, columns, names, index_version=kept.version)
        yield MetadataRecords(COLUMN_STATS, pa.array(keys, pa.string()), values)


def _some(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, so many at once."""
    rest = iter(items)
    while found := list(islice(rest, _AT_ONCE)):
        yield found
