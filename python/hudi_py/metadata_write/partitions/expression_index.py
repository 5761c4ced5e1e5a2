"""The partitions `expr_index_<name>` of kind `column_stats`: ranges of a function of a column.

Each file with rows has a record, as in `column_stats`. Each data partition has one with the range of its newest slices,
under a key that begins with the column and a constant. Sources: `SparkMetadataWriterUtils.getExprIndexRecords`,
`getExpressionIndexRecordsUsingColumnStats`, `HoodieMetadataPayload.createPartitionStatsRecords`,
`HoodieExpressionIndex.HOODIE_EXPRESSION_INDEX_PARTITION_STAT_PREFIX`, 1.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.file_stats.columns import IndexedColumn, ValueType, named_columns
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.keys import KeyReader
from hudi_py.file_stats.ranges import RANGES, ColumnRanges, Range, add_values, merge_rows, widen_zeros
from hudi_py.metadata.keys import column_id, column_stats_key, partition_id
from hudi_py.metadata_write.encoding.payloads import Combine, combine_stats
from hudi_py.metadata_write.encoding.records import COLUMN_STATS_RECORD, PARTITION_STATS_RECORD, MetadataRecords
from hudi_py.metadata_write.encoding.stats_values import FILE, removal_values, stats_values, stored_ranges
from hudi_py.metadata_write.partitions.base import MetadataPartition, RecordCheck
from hudi_py.metadata_write.partitions.column_stats import StatsCheck, files_of_commit
from hudi_py.metadata_write.partitions.definitions import version_of
from hudi_py.metadata_write.partitions.expressions import Expression
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck, files_beside, files_of_slice
from hudi_py.metadata_write.partitions.record_index import in_order, key_reader
from hudi_py.metadata_write.settings import MetadataWriteSettings
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.schema.paths import column_of, type_at, values_at
from hudi_py.transaction.protocols import TableChange

STATS_KIND: Final = "column_stats"
"""Its kind in definitions, SQL and options."""
_PARTITIONS: Final = partition_id("__partition_stat__")
_DELETE_PARTITION: Final = "DELETE_PARTITION"


class _Check(StatsCheck):
    """Ranges of files, and of partitions, which may be wider than their files'."""

    def known_names(self) -> Collection[str]:
        return {*self.listing.places, *self.listing.partitions}

    def is_left(self, name: str) -> bool:
        return name not in self.listing.partitions and self.listing.is_left(name)

    def difference(self, expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
        one, other = expected or {}, found or {}
        if one.get("fileName") in self.listing.partitions and not other.get("isDeleted"):
            return PartitionStatsCheck.range_difference(one, other)
        return StatsCheck.difference(self, expected, found)


@dataclass(frozen=True, slots=True)
class ExpressionIndex(MetadataPartition):
    """A partition `expr_index_<name>`. Its column and function are in the table's index definitions."""

    name: str
    superfluous_harm: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = _Check

    @property
    def file_id_prefix(self) -> str:
        return self.name.replace("_", "-")

    def wanted(self, settings: MetadataWriteSettings, config: TableConfig) -> bool:
        return False  # made by name

    def unwanted(self, settings: MetadataWriteSettings) -> bool:
        return settings.expression_indexes is False

    def combine(self, *, logs_only: bool) -> Combine:
        return combine_stats

    def file_groups(self, source: TableSource) -> int:
        """As configured."""
        return source.settings.expression_groups

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Ranges of the files of the newest slices, and of all partitions."""
        values = _Values.of(source, self.name, None)
        for path in source.view.partitions():
            files = [file for slice_ in source.view.latest_slices(path) for file in files_of_slice(slice_)]
            ranges = values.ranges(files)
            yield values.of_files(ranges)
            yield values.of_partition(path, [found for _, found in ranges])

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Ranges of the files that a commit wrote and of their partitions; removals of the files that a clean deleted
        and of partitions that were deleted."""
        commit = change.commit
        if commit is None and change.action is not Action.CLEAN:
            return
        values = _Values.of(source, self.name, change)
        if commit is None:
            yield values.removed(change.deleted)
            return
        if commit.operation == _DELETE_PARTITION:
            yield values.removed_partitions([path for path, ids in commit.replaced.items() if ids])
            return
        written: dict[str, list[DataFile]] = {}
        for file in files_of_commit(commit):
            written.setdefault(file.partition, []).append(file)
        for path, files in sorted(written.items()):
            ranges = values.ranges(files)
            yield values.of_files(ranges)
            others = values.stored(source, self.name, path, files_beside(source, PartitionPath(path), files))
            yield values.of_partition(path, [*(found for _, found in ranges), *others])


_Ranges = Sequence[tuple[DataFile, ColumnRanges]]


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of an expression in a table's files."""

    index: str
    reader: KeyReader
    expression: Expression
    column: IndexedColumn
    """The column's name, with the type of the expression."""
    version: int

    @classmethod
    def of(cls, source: TableSource, name: str, change: TableChange | None) -> _Values:
        found = source.definitions.get(name)
        if found is None or not found.get("sourceFields"):
            raise CorruptFileError(f"The index {name} of the table {source.config.name!r} has no definition")
        field = str(found["sourceFields"][0])
        expression = expression_in(found)
        reader = key_reader(source, change)
        kind = type_at(reader.schema, field)
        typed = named_columns(source.schema_json, [field]) if source.schema_json else ()
        stored = typed[0] if typed else IndexedColumn(field, ValueType.NULL)
        if kind is not None:
            why = expression.check_column(kind)
            if why:
                raise ConfigError(
                    f"Cannot keep the index {name} of the table {source.config.name!r} up to date: {why}; drop it "
                    "first (drop_index)"
                )
        same = expression.result(stored.type) is stored.type
        column = stored if same else IndexedColumn(field, expression.result(stored.type))
        version = 2 if version_of(source.definitions, name, source.config) == "V2" else 1
        return cls(name, reader, expression, column, version)

    def ranges(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ColumnRanges]]:
        """The ranges of files that have rows."""
        return [(file, found) for file, found in in_order(self._of_file, files) if found is not None]

    def of_files(self, ranges: _Ranges) -> MetadataRecords:
        """The records of files."""
        if not ranges:
            return MetadataRecords(self.index)
        keys = [column_stats_key(self.column.name, file.partition, file.name) for file, _ in ranges]
        names = pa.array([file.name for file, _ in ranges], pa.string())
        rows = pa.Table.from_batches([found.rows for _, found in ranges], RANGES)
        values = stats_values(COLUMN_STATS_RECORD, rows, names, index_version=self.version)
        return MetadataRecords(self.index, pa.array(keys, pa.string()), values)

    def of_partition(self, path: str, parts: Sequence[ColumnRanges]) -> MetadataRecords:
        """The record of a partition, from the ranges of its files."""
        tables = [pa.Table.from_batches([part.rows], RANGES) for part in parts if len(part)]
        if not tables:
            return MetadataRecords(self.index)
        merged = merge_rows(pa.concat_tables(tables), [self.column])
        values = stats_values(
            PARTITION_STATS_RECORD, merged.rows, pa.array([path]), index_version=self.version, tight=True
        )
        return MetadataRecords(self.index, pa.array([self._key(path)], pa.string()), values)

    def stored(self, source: TableSource, name: str, path: str, files: Sequence[DataFile]) -> Iterator[ColumnRanges]:
        """The ranges of files from their records, or else from the files."""
        metadata, known = source.metadata, set()
        if metadata is not None and metadata.has(name) and files:
            prefix = column_id(self.column.name) + partition_id(path)
            table = stored_ranges(metadata, [prefix], [file.name for file in files], partition=name)
            known = set(table[FILE].to_pylist())
            for batch in table.drop_columns([FILE]).to_batches():
                yield ColumnRanges(batch)
        for _, found in self.ranges([file for file in files if file.name not in known]):
            yield found

    def removed(self, deleted: Mapping[str, Sequence[str]]) -> MetadataRecords:
        """The removals of files' records."""
        places = [(partition, file) for partition, files in deleted.items() for file in files]
        if not places:
            return MetadataRecords(self.index)
        keys = [column_stats_key(self.column.name, partition, file) for partition, file in places]
        return self._removals(COLUMN_STATS_RECORD, keys, [file for _, file in places], tight=False)

    def removed_partitions(self, paths: Sequence[str]) -> MetadataRecords:
        """The removals of partitions' records."""
        if not paths:
            return MetadataRecords(self.index)
        return self._removals(
            PARTITION_STATS_RECORD, [self._key(path) for path in paths], [""] * len(paths), tight=True
        )

    def _removals(self, type_: int, keys: Sequence[str], names: Sequence[str], *, tight: bool) -> MetadataRecords:
        columns = pa.array([self.column.name] * len(keys), pa.string())
        values = removal_values(type_, columns, pa.array(names, pa.string()), index_version=self.version, tight=tight)
        return MetadataRecords(self.index, pa.array(keys, pa.string()), values)

    def _key(self, path: str) -> str:
        return column_id(self.column.name) + _PARTITIONS + partition_id(path)

    def _of_file(self, file: DataFile) -> ColumnRanges | None:
        partition = PartitionPath(file.partition)
        base, log = parse_base_file_name(file.name), parse_log_file_name(file.name)
        if log is not None and log.cdc:
            return None
        if base is not None:
            slice_ = FileSlice(partition, base.file_id, base.instant, BaseFile(partition, base, file.size))
        elif log is not None:
            slice_ = FileSlice(partition, log.file_id, log.instant, None, (LogFile(partition, log, file.size),))
        else:
            raise CorruptFileError(f"Cannot index {file.name}: its name is not that of a data file")
        found = Range(self.column)
        name = self.column.name
        for batch in self.reader.rows(slice_, [column_of(name, self.reader.schema)]):
            values = values_at(batch, name)
            add_values(found, pa.nulls(batch.num_rows) if values is None else self.expression.apply(values))
        if not found.values:
            return None
        widen_zeros(found)
        found.values -= found.nulls  # as Spark's count of the column
        found.size, found.raw_size = file.size, 2 * file.size
        return ColumnRanges.of([found])


def expression_in(definition: Mapping[str, Any]) -> Expression:
    """The expression of an index, from its stored definition."""
    options = {str(key): str(value) for key, value in (definition.get("indexOptions") or {}).items()}
    return Expression(str(definition.get("indexFunction") or ""), options)
