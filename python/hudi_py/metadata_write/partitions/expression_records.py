"""The records of an expression index: ranges and bloom filters of a function of a column in data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.expressions.functions import FILTER_SIZES, IDENTITY, IndexFunction, filter_texts
from hudi_py.file_stats.columns import IndexedColumn, ValueType, named_columns
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.keys import KeyReader
from hudi_py.file_stats.ranges import RANGES, ColumnRanges, Range, add_values, merge_rows, widen_zeros
from hudi_py.formats.arrays import combined
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter
from hudi_py.metadata.keys import bloom_filter_key, column_id, column_stats_key, partition_id
from hudi_py.metadata_write.encoding.records import COLUMN_STATS_RECORD, PARTITION_STATS_RECORD, MetadataRecords
from hudi_py.metadata_write.encoding.stats_values import FILE, removal_values, stats_values, stored_ranges
from hudi_py.metadata_write.partitions.bloom_filters import filter_records
from hudi_py.metadata_write.partitions.definitions import version_of
from hudi_py.metadata_write.partitions.record_index import in_order, key_reader
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.schema.paths import column_of, type_at, values_at
from hudi_py.transaction.protocols import TableChange
from hudi_py.write.settings import filter_config

STATS_KIND: Final = "column_stats"
BLOOM_KIND: Final = "bloom_filters"
_SIZES: Final[Mapping[str, Option[Any]]] = dict(
    zip(
        FILTER_SIZES,
        (
            write_config.BLOOM_TYPE,
            write_config.BLOOM_NUM_ENTRIES,
            write_config.BLOOM_FPP,
            write_config.BLOOM_MAX_ENTRIES,
        ),
        strict=True,
    )
)
"""Options of an index, and those of writes that they take the place of."""
_PARTITIONS: Final = partition_id("__partition_stat__")
_AT_ONCE: Final = 64
"""Filters held in memory at once: one of the default size takes 431 kB."""
_TYPES: Final = (
    (pa.types.is_string, ValueType.STRING),
    (pa.types.is_binary, ValueType.BYTES),
    (pa.types.is_int32, ValueType.INT),
    (pa.types.is_int64, ValueType.LONG),
    (pa.types.is_date32, ValueType.DATE),
    (pa.types.is_timestamp, ValueType.TIMESTAMP_MICROS),
)
"""The types of bounds by those of functions' values."""


@dataclass(frozen=True, slots=True)
class ExpressionFiles:
    """The values of an expression in a table's files."""

    index: str
    reader: KeyReader
    expression: IndexFunction
    field: str
    """The column, dotted if it is a field of a struct."""
    zone: str

    @classmethod
    def of(cls, source: TableSource, name: str, change: TableChange | None) -> ExpressionFiles:
        """Raises:
        ConfigError: the column has another type now, of which the function has no values.
        """
        found = source.definitions.get(name)
        if found is None or not found.get("sourceFields"):
            raise CorruptFileError(f"The index {name} of the table {source.config.name!r} has no definition")
        files = cls(
            name,
            key_reader(source, change),
            expression_in(found),
            str(found["sourceFields"][0]),
            source.options.get(indexes_config.EXPRESSION_INDEX_ZONE) or "UTC",
        )
        why = "" if files.kind is None else files.expression.check_column(files.kind)
        if why:
            raise ConfigError(
                f"Cannot keep the index {name} of the table {source.config.name!r} up to date: {why}; drop it first "
                "(drop_index)"
            )
        return files

    @property
    def kind(self) -> pa.DataType | None:
        """The type of the column; None: the table has none of the name."""
        return type_at(self.reader.schema, self.field)

    def values(self, file: DataFile) -> Iterator[pa.Array]:
        """Those of a base file, or of a log file by itself."""
        partition = PartitionPath(file.partition)
        base, log = parse_base_file_name(file.name), parse_log_file_name(file.name)
        if log is not None and log.cdc:
            return
        if base is not None:
            slice_ = FileSlice(partition, base.file_id, base.instant, BaseFile(partition, base, file.size))
        elif log is not None:
            slice_ = FileSlice(partition, log.file_id, log.instant, None, (LogFile(partition, log, file.size),))
        else:
            raise CorruptFileError(f"Cannot index {file.name}: its name is not that of a data file")
        for batch in self.reader.rows(slice_, [column_of(self.field, self.reader.schema)]):
            found = values_at(batch, self.field)
            if found is None:
                yield pa.nulls(batch.num_rows)
                continue
            values = combined(found)
            plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            yield self.expression.apply(plain, self.zone)


_Ranges = Sequence[tuple[DataFile, ColumnRanges]]


@dataclass(frozen=True, slots=True)
class RangeRecords:
    """Records of an index of the kind `column_stats`."""

    files: ExpressionFiles
    column: IndexedColumn
    """The column's name, with the type of the expression."""
    version: int

    def ranges(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ColumnRanges]]:
        """The ranges of files that have rows."""
        return [(file, found) for file, found in in_order(self._of_file, files) if found is not None]

    def of_ranges(self, ranges: _Ranges) -> MetadataRecords:
        """The records of files."""
        if not ranges:
            return MetadataRecords(self.files.index)
        keys = [column_stats_key(self.column.name, file.partition, file.name) for file, _ in ranges]
        names = pa.array([file.name for file, _ in ranges], pa.string())
        rows = pa.Table.from_batches([found.rows for _, found in ranges], RANGES)
        values = stats_values(COLUMN_STATS_RECORD, rows, names, index_version=self.version, of_rows=True)
        return MetadataRecords(self.files.index, pa.array(keys, pa.string()), values)

    def of_partition(self, path: str, parts: Sequence[ColumnRanges], *, replacing: bool = True) -> MetadataRecords:
        """The record of a partition, from the ranges of its files; `replacing`: see `TableSource.bounds_replace`."""
        tables = [pa.Table.from_batches([part.rows], RANGES) for part in parts if len(part)]
        if not tables:
            return MetadataRecords(self.files.index)
        merged = merge_rows(pa.concat_tables(tables), [self.column])
        values = stats_values(
            PARTITION_STATS_RECORD,
            merged.rows,
            pa.array([path]),
            index_version=self.version,
            tight=replacing,
            of_rows=True,
        )
        return MetadataRecords(self.files.index, pa.array([self._key(path)], pa.string()), values)

    def stored(self, source: TableSource, path: str, files: Sequence[DataFile]) -> Iterator[ColumnRanges]:
        """The ranges of files from their records, or else from the files."""
        metadata, known = source.metadata, set()
        if metadata is not None and metadata.has(self.files.index) and files:
            prefix = column_id(self.column.name) + partition_id(path)
            table = stored_ranges(metadata, [prefix], [file.name for file in files], partition=self.files.index)
            known = set(table[FILE].to_pylist())
            for batch in table.drop_columns([FILE]).to_batches():
                yield ColumnRanges(batch)
        for _, found in self.ranges([file for file in files if file.name not in known]):
            yield found

    def removed(self, deleted: Mapping[str, Sequence[str]]) -> MetadataRecords:
        """The removals of files' records."""
        places = [(partition, file) for partition, files in deleted.items() for file in files]
        if not places:
            return MetadataRecords(self.files.index)
        keys = [column_stats_key(self.column.name, partition, file) for partition, file in places]
        return self._removals(COLUMN_STATS_RECORD, keys, [file for _, file in places], tight=False)

    def removed_partitions(self, paths: Sequence[str]) -> MetadataRecords:
        """The removals of partitions' records."""
        if not paths:
            return MetadataRecords(self.files.index)
        return self._removals(
            PARTITION_STATS_RECORD, [self._key(path) for path in paths], [""] * len(paths), tight=True
        )

    def _removals(self, type_: int, keys: Sequence[str], names: Sequence[str], *, tight: bool) -> MetadataRecords:
        columns = pa.array([self.column.name] * len(keys), pa.string())
        values = removal_values(type_, columns, pa.array(names, pa.string()), index_version=self.version, tight=tight)
        return MetadataRecords(self.files.index, pa.array(keys, pa.string()), values)

    def _key(self, path: str) -> str:
        return column_id(self.column.name) + _PARTITIONS + partition_id(path)

    def _of_file(self, file: DataFile) -> ColumnRanges | None:
        found = Range(self.column)
        for values in self.files.values(file):
            add_values(found, values)
        if not found.values:
            return None
        widen_zeros(found)
        found.values -= found.nulls  # as Spark's count of the column
        found.size, found.raw_size = file.size, 2 * file.size
        return ColumnRanges.of([found])


@dataclass(frozen=True, slots=True)
class FilterRecords:
    """Records of an index of the kind `bloom_filters`."""

    files: ExpressionFiles
    config: BloomConfig
    instant: str

    def of_files(self, files: Sequence[DataFile]) -> Iterator[MetadataRecords]:
        """The records of files that have rows."""
        for at in range(0, len(files), _AT_ONCE):
            found = in_order(self._of_file, files[at : at + _AT_ONCE])
            made = [
                (bloom_filter_key(file.partition, file.name), self.config.type, text)
                for file, text in found
                if text is not None
            ]
            yield filter_records(self.files.index, made, self.instant, deleted=False)

    def removed(self, deleted: Mapping[str, Sequence[str]]) -> MetadataRecords:
        """The removals of files' records."""
        keys = [bloom_filter_key(partition, file) for partition, files in deleted.items() for file in files]
        return filter_records(self.files.index, [(key, "", b"") for key in keys], self.instant, deleted=True)

    def _of_file(self, file: DataFile) -> bytes | None:
        """A filter of the texts of values. Null has none: in Apache Hudi, a null fails the write."""
        bloom: BloomFilter | None = None
        for values in self.files.values(file):
            if len(values):
                bloom = BloomFilter(self.config) if bloom is None else bloom
                bloom.add(filter_texts(values, self.files.zone))
        return None if bloom is None else bloom.encode().encode()


def records_of(source: TableSource, name: str, change: TableChange | None) -> RangeRecords | FilterRecords:
    """The records of an index."""
    definition = source.definitions.get(name, {})
    files = ExpressionFiles.of(source, name, change)
    if definition.get("indexType") == BLOOM_KIND:
        newest = max((instant.time for instant in source.timeline.write_completed), default="")
        instant = newest if change is None else change.instant
        return FilterRecords(files, filters_of(source.options, options_in(definition)), instant)
    typed = named_columns(source.schema_json, [files.field]) if source.schema_json else ()
    column = typed[0] if typed else IndexedColumn(files.field, ValueType.NULL)
    if files.expression.name != IDENTITY and files.kind is not None:
        kind = files.expression.result(files.kind)
        column = IndexedColumn(files.field, next(value for check, value in _TYPES if check(kind)))
    version = 2 if version_of(source.definitions, name, source.config) == "V2" else 1
    return RangeRecords(files, column, version)


def filters_of(given: Options, options: Mapping[str, str]) -> BloomConfig:
    """The size of an index's filters, from its own options or else from those of the write.

    Raises:
        ConfigError: an option of the index is not valid.
    """
    own = {_SIZES[name]: value for name, value in options.items() if name in _SIZES}
    return filter_config(given.replace(own))


def options_in(definition: Mapping[str, Any]) -> dict[str, str]:
    """The options of an index, from its stored definition."""
    return {str(key): str(value) for key, value in (definition.get("indexOptions") or {}).items()}


def expression_in(definition: Mapping[str, Any]) -> IndexFunction:
    """The expression of an index, from its stored definition."""
    return IndexFunction.of_index(str(definition.get("indexFunction") or ""), options_in(definition))
