"""The `column_stats` partition: column ranges of each data file.

Sources: `HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords`, `convertFilesToColumnStatsRecords`,
`HoodieMetadataPayload.getColumnStatsIndexKey`, 1.2.0.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config.indexes import COLUMN_STATS_COLUMNS
from hudi_py.file_stats.columns import IndexedColumn, indexed_columns
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.ranges import ColumnRanges
from hudi_py.metadata.definitions import IndexDefinition, read_definitions
from hudi_py.metadata.keys import column_id, file_id, partition_id
from hudi_py.metadata.table import COLUMN_STATS
from hudi_py.metadata_write.encoding.records import COLUMN_STATS_RECORD, Combine, MetadataRecords, combine_stats, covers
from hudi_py.metadata_write.encoding.stats_values import removal_values, stats_values
from hudi_py.metadata_write.partitions.base import Listing, MetadataPartition, RecordCheck, listed, unset
from hudi_py.metadata_write.partitions.named import columns_of, source_fields, version_of
from hudi_py.metadata_write.table.source import TableSource, schema_text
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.schema.meta import META_FIELDS, OPERATION
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.transaction.protocols import TableChange

T = TypeVar("T")

_AT_ONCE: Final = 1024
"""Maximum number of files whose records are built at once."""


class StatsCheck(RecordCheck):
    """Compares column ranges. Keys are hashes, so records are described by their content."""

    field: ClassVar[str] = "ColumnStatsMetadata"

    def __init__(self, source: TableSource) -> None:
        # the columns in the table's own definition, whatever this call's options ask for
        columns = source_fields(source.definitions, COLUMN_STATS)
        if columns:
            source = replace(source, options=source.options.replace({COLUMN_STATS_COLUMNS: ",".join(columns)}))
        super().__init__(source)

    @cached_property
    def listing(self) -> Listing:
        return Listing(self.source)

    def known_names(self) -> Collection[str]:
        """Returns the names that records may refer to: file names."""
        return self.listing.places.keys()

    def is_left(self, name: str) -> bool:
        """Returns whether a record would refer to something that a failed write left behind."""
        return self.listing.is_left(name)

    def required(self, keys: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Returns a mask of the records that must exist: not those of columns without values, such as a column added
        after the file was written."""
        stats = self.content(values)
        names = pc.struct_field(stats, "fileName").to_pylist()
        left = {name for name in set(names) if self.is_left(name)}
        there = pc.is_valid(pc.struct_field(stats, "maxValue")).to_pylist()
        return np.array([has and name not in left for name, has in zip(names, there, strict=True)], np.bool_)

    def superfluous(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        stats = self.content(values)
        known = pa.array(sorted(self.known_names()), pa.string())
        return unset(pc.or_(pc.struct_field(stats, "isDeleted"), pc.is_in(pc.struct_field(stats, "fileName"), known)))

    def difference(self, expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
        one, other = expected or {}, found or {}
        return "it is marked as removed" if other.get("isDeleted") else self.range_difference(one, other)

    @staticmethod
    def range_difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
        """Describes how two ranges differ."""
        if not all(_equal_bounds(expected, found, name) for name in ("minValue", "maxValue")):
            return f"expected the range {shown_range(expected)}, found {shown_range(found)}"
        for name in ("columnName", "valueCount", "nullCount"):
            if expected[name] != found[name]:
                return f"expected {name} = {expected[name]}, found {found[name]}"
        return ""

    def labels(self, keys: pa.Array, values: pa.Array) -> list[str]:
        stats = self.content(values).to_pylist() if len(keys) else []
        return [f"{record['columnName']} of {record['fileName']}" if record else repr(record) for record in stats]


def shown_range(stats: Mapping[str, Any]) -> str:
    """Describes the bounds of a statistics record for users."""
    low, high = (next((m["value"] for m in (stats[n] or {}).values() if m), None) for n in ("minValue", "maxValue"))
    return f"{low!r} to {high!r}"


def _equal_bounds(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    """Returns whether two bounds are equal, even if they are numbers of different types."""
    if not one[name] or not other[name]:
        return bool(one[name] == other[name])
    return covers(one, other, name) and covers(other, one, name)


@dataclass(frozen=True, slots=True)
class ColumnStats(MetadataPartition):
    """The partition `column_stats`."""

    name: ClassVar[str] = COLUMN_STATS
    file_id_prefix: ClassVar[str] = "col-stats"
    superfluous_harm: ClassVar[bool] = False
    survives_evolution: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = StatsCheck

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return options.get(indexes_config.COLUMN_STATS) and not self.unsupported_by(config)

    def unsupported_by(self, config: TableConfig) -> str:
        # as in Apache Hudi (`MetadataPartitionType.isMetadataPartitionEnabled`, 1.2.0)
        return "base files in Parquet or ORC" if config.base_file_format == "LANCE" else ""

    def unwanted(self, options: Options) -> bool:
        return options.asked(indexes_config.COLUMN_STATS) is False

    def combine(self, *, logs_only: bool) -> Combine:
        return combine_stats

    def file_groups(self, source: TableSource) -> int:
        """Returns the configured number."""
        return source.options.get(indexes_config.COLUMN_STATS_FILE_GROUPS)

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields the ranges of every existing file with rows, including older versions of file groups."""
        files = (
            DataFile(partition, name, size)
            for listing in listed(source)
            for partition, sizes in listing.items()
            for name, size in sizes.items()
        )
        yield from _of_files(source, files, KeptStatistics.of(source), "", with_rows=True)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the ranges of the files that a commit wrote, and removals of those that a clean deleted.

        Ranges of a rolled-back instant left the metadata table when its delta commit was undone.
        """
        if change.commit is not None:
            files = files_of_commit(change.commit)
            yield from _of_files(source, files, KeptStatistics.of(source), change.sidecars)
        if change.action is Action.CLEAN:
            yield from _removal_records(change.deleted, KeptStatistics.of(source))

    def columns(self, config: TableConfig, schema_json: str, options: Options) -> tuple[str, ...]:
        """Returns the names of the indexed columns, for a write with an Avro schema."""
        return tuple(column.name for column in _indexed_columns(config, schema_json, options, config.index_version))

    def definition(self, source: TableSource) -> IndexDefinition:
        """Returns the columns indexed now. Warns about configured names that are not among them."""
        kept = KeptStatistics.of(source)
        fields = tuple(column.name for column in kept.columns)
        unknown = set(source.options.get(COLUMN_STATS_COLUMNS)) - {*fields, *META_FIELDS, OPERATION}
        if unknown and source.schema_json:
            warnings.warn(
                f"No statistics are stored for {', '.join(map(repr, sorted(unknown)))}, "
                f"named in {COLUMN_STATS_COLUMNS.key}: table {source.config.name!r} has no such columns, "
                "or their types have no order",
                UserWarning,
                stacklevel=2,
            )
        return IndexDefinition(COLUMN_STATS, COLUMN_STATS, fields, version=f"V{kept.version}")

    def as_defined(self, options: Options, definition: Mapping[str, Any]) -> Options:
        """Returns options that name the columns of the definition, unless they name others."""
        columns = columns_of(definition)
        if not columns or options.get(COLUMN_STATS_COLUMNS):
            return options
        return options.replace({COLUMN_STATS_COLUMNS: ",".join(columns)})

    def falls_short(self, state: TableState, options: Options) -> bool:
        """Returns whether the options ask for existing columns that have no statistics.

        Ranges of the next files alone would make Apache Hudi lose rows: it applies a partition's range to its older
        files too, and skips partitions without one (seen with 1.2.0, whose own writers leave it so).
        """
        definitions = read_definitions(state.storage, state.config)
        noted = source_fields(definitions, COLUMN_STATS)
        schema = resolve_table_schema(state) if noted is not None else None
        if noted is None or schema is None or schema.evolves_on_read:
            return False
        version = 1 if version_of(definitions, COLUMN_STATS, state.config) == "V1" else 2
        columns = _indexed_columns(state.config, schema_text(schema), options, version)
        return not {column.name for column in columns} <= set(noted)


@dataclass(frozen=True, slots=True)
class KeptStatistics:
    """The statistics that a table keeps."""

    columns: tuple[IndexedColumn, ...]
    version: int
    """Version of their records: 1, or 2 with types (`HoodieIndexVersion`)."""

    @classmethod
    def of(cls, source: TableSource) -> KeptStatistics:
        """Returns the current state. Reads the index definitions."""
        stored = version_of(source.definitions, COLUMN_STATS, source.config)
        version = 1 if stored == "V1" else 2
        return cls(_indexed_columns(source.config, source.schema_json, source.options, version), version)


def files_of_commit(commit: CommitMetadata) -> list[DataFile]:
    """Returns the base and log files that a commit wrote, each once; change data files are excluded."""
    files: dict[str, DataFile] = {}
    for stat in commit.stats:
        if stat.path:
            files[stat.path] = DataFile(stat.partition_path, stat.path.rpartition("/")[2], stat.file_size)
    return list(files.values())


def stats_records(ranges: Iterable[tuple[DataFile, ColumnRanges | None]], *, index_version: int) -> MetadataRecords:
    """Encodes the records of some files."""
    known = [(file, file_ranges) for file, file_ranges in ranges if file_ranges is not None and len(file_ranges)]
    if not known:
        return MetadataRecords(COLUMN_STATS)
    keys: list[str] = []
    names: list[str] = []
    for file, file_ranges in known:
        ending = partition_id(file.partition) + file_id(file.name)
        keys += [column_id(column) + ending for column in file_ranges.rows["column"].to_pylist()]
        names += [file.name] * len(file_ranges)
    rows = pa.Table.from_batches([file_ranges.rows.replace_schema_metadata(None) for _, file_ranges in known])
    values = stats_values(COLUMN_STATS_RECORD, rows, pa.array(names, pa.string()), index_version=index_version)
    return MetadataRecords(COLUMN_STATS, pa.array(keys, pa.string()), values)


def _indexed_columns(
    config: TableConfig, schema_json: str, options: Options, index_version: int
) -> tuple[IndexedColumn, ...]:
    return indexed_columns(
        schema_json,
        names=options.get(COLUMN_STATS_COLUMNS),
        limit=options.get(indexes_config.COLUMN_STATS_MAX_COLUMNS),
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
    """Yields the records of files. `with_rows`: skips files without rows, such as logs of deletes."""
    for some in _in_chunks(files):
        with_ranges = source.ranges(some, kept.columns, sidecars)
        if with_rows:
            with_ranges = [
                (file, file_ranges)
                for file, file_ranges in with_ranges
                if file_ranges is not None and pc.any(_count_values(file_ranges)).as_py()
            ]
        yield stats_records(with_ranges, index_version=kept.version)


def _count_values(ranges: ColumnRanges) -> pa.Array:
    return pc.greater(ranges.rows["values"], 0)


def _removal_records(deleted: Mapping[str, Sequence[str]], kept: KeptStatistics) -> Iterator[MetadataRecords]:
    fields = [column.name for column in kept.columns]
    gone = [(partition, name) for partition, names in deleted.items() for name in names]
    for some in _in_chunks(gone):
        endings = [partition_id(partition) + file_id(name) for partition, name in some]
        keys = [column_id(field) + ending for ending in endings for field in fields]
        names = pa.array([name for _, name in some for _ in fields], pa.string())
        columns = pa.array(fields * len(some), pa.string())
        values = removal_values(COLUMN_STATS_RECORD, columns, names, index_version=kept.version)
        yield MetadataRecords(COLUMN_STATS, pa.array(keys, pa.string()), values)


def _in_chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yields the items in lists of bounded length."""
    rest = iter(items)
    while chunk := list(islice(rest, _AT_ONCE)):
        yield chunk
