"""The partitions `expr_index_<name>`: ranges or bloom filters of a function of a column.

Of kind `column_stats`, each file with rows has a record as in `column_stats`, and each data partition one with the
range of its newest slices, under a key that begins with the column and a constant. Of kind `bloom_filters`, each file
with rows has a filter as in `bloom_filters`. Log files count by themselves, without the base file. Sources:
`SparkMetadataWriterUtils.getExprIndexRecords`, `HoodieMetadataPayload.createPartitionStatsRecords`,
`HoodieExpressionIndex.HOODIE_EXPRESSION_INDEX_PARTITION_STAT_PREFIX`, 1.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError, CorruptFileError, HudiError
from hudi_py.expressions.functions import EXPR, FILTER_SIZES, IDENTITY, IndexFunction, filter_texts
from hudi_py.file_stats.columns import IndexedColumn, ValueType, named_columns
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.keys import KeyReader
from hudi_py.file_stats.ranges import RANGES, ColumnRanges, Range, add_values, merge_rows, widen_zeros
from hudi_py.formats.arrays import combined
from hudi_py.formats.keys.bloom import BloomConfig, BloomFilter
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata.keys import bloom_filter_key, column_id, column_stats_key, partition_id
from hudi_py.metadata.locations import EXPRESSION_PREFIX
from hudi_py.metadata_write.encoding.records import (
    COLUMN_STATS_RECORD,
    PARTITION_STATS_RECORD,
    Combine,
    MetadataRecords,
    combine_stats,
)
from hudi_py.metadata_write.encoding.stats_values import FILE, removal_values, stats_values, stored_ranges
from hudi_py.metadata_write.partitions.base import RecordCheck
from hudi_py.metadata_write.partitions.bloom_filters import BloomCheck, filter_records
from hudi_py.metadata_write.partitions.column_stats import StatsCheck, files_of_commit
from hudi_py.metadata_write.partitions.named import IndexRequest, NamedIndex, column_type, version_of
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck, files_beside, files_of_slice
from hudi_py.metadata_write.partitions.record_index import in_order, key_reader
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.schema.paths import column_of, type_at, values_at
from hudi_py.timeline.state import BootstrapSources
from hudi_py.transaction.protocols import TableChange
from hudi_py.view.bootstrap import base_file_in
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
"""Options of an index, and the options of writes that they replace."""
_PARTITIONS: Final = partition_id("__partition_stat__")
_AT_ONCE: Final = 64
"""Maximum number of filters in memory: one of the default size takes 431 kB."""
_TYPES: Final = (
    (pa.types.is_string, ValueType.STRING),
    (pa.types.is_binary, ValueType.BYTES),
    (pa.types.is_int32, ValueType.INT),
    (pa.types.is_int64, ValueType.LONG),
    (pa.types.is_date32, ValueType.DATE),
    (pa.types.is_timestamp, ValueType.TIMESTAMP_MICROS),
)
"""The types of bounds, by the types of functions' values."""


@dataclass(frozen=True, slots=True)
class ExpressionFiles:
    """The values of an expression in a table's files."""

    index: str
    reader: KeyReader
    expression: IndexFunction
    field: str
    """The column, dotted if it is a field of a struct."""
    zone: str
    sources: BootstrapSources
    """The files that have the rows of bootstrapped base files."""

    @classmethod
    def of(cls, source: TableSource, name: str, change: TableChange | None) -> ExpressionFiles:
        """Returns the values of the expression of an index.

        Raises:
            ConfigError: the type of the column has changed to one that the function does not support.
            CorruptFileError: the index has no definition.
        """
        definition = source.definitions.get(name)
        if definition is None or not definition.get("sourceFields"):
            raise CorruptFileError(
                f"Cannot maintain the index {name} of the table {source.config.name!r}: its definition is missing; "
                "drop it, and create it again"
            )
        files = cls(
            name,
            key_reader(source, change),
            expression_in(definition),
            str(definition["sourceFields"][0]),
            source.options.get(indexes_config.EXPRESSION_INDEX_ZONE) or "UTC",
            source.view.sources,
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
        """The type of the column; None: the table has no column of this name."""
        return type_at(self.reader.schema, self.field)

    def values(self, file: DataFile) -> Iterator[pa.Array]:
        """Yields the values of a base file, or of a log file by itself."""
        partition = PartitionPath(file.partition)
        base, log = parse_base_file_name(file.name), parse_log_file_name(file.name)
        if log is not None and log.cdc:
            return
        if base is not None:
            base_file = base_file_in(self.sources, partition, base, file.size)
            slice_ = FileSlice(partition, base.file_id, base.instant, base_file)
        elif log is not None:
            slice_ = FileSlice(partition, log.file_id, log.instant, None, (LogFile(partition, log, file.size),))
        else:
            raise CorruptFileError(f"Cannot index {file.name}: its name is not that of a base file or log file")
        for batch in self.reader.rows(slice_, [column_of(self.field, self.reader.schema)]):
            column = values_at(batch, self.field)
            if column is None:
                yield pa.nulls(batch.num_rows)
                continue
            values = combined(column)
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
        """Returns the ranges of files that have rows."""
        return [(file, file_ranges) for file, file_ranges in in_order(self._of_file, files) if file_ranges is not None]

    def of_ranges(self, ranges: _Ranges) -> MetadataRecords:
        """Returns the records of files."""
        if not ranges:
            return MetadataRecords(self.files.index)
        keys = [column_stats_key(self.column.name, file.partition, file.name) for file, _ in ranges]
        names = pa.array([file.name for file, _ in ranges], pa.string())
        rows = pa.Table.from_batches([file_ranges.rows for _, file_ranges in ranges], RANGES)
        values = stats_values(COLUMN_STATS_RECORD, rows, names, index_version=self.version, of_rows=True)
        return MetadataRecords(self.files.index, pa.array(keys, pa.string()), values)

    def of_partition(self, path: str, parts: Sequence[ColumnRanges], *, replacing: bool = True) -> MetadataRecords:
        """Returns the record of a partition, from the ranges of its files; `replacing`: see
        `TableSource.bounds_replace`."""
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
        return MetadataRecords(self.files.index, pa.array([self._key_of(path)], pa.string()), values)

    def stored(self, source: TableSource, path: str, files: Sequence[DataFile]) -> Iterator[ColumnRanges]:
        """Yields the ranges of files from their records, or else from the files."""
        metadata, known = source.metadata, set()
        if metadata is not None and metadata.has(self.files.index) and files:
            prefix = column_id(self.column.name) + partition_id(path)
            table = stored_ranges(metadata, [prefix], [file.name for file in files], partition=self.files.index)
            known = set(table[FILE].to_pylist())
            for batch in table.drop_columns([FILE]).to_batches():
                yield ColumnRanges(batch)
        for _, file_ranges in self.ranges([file for file in files if file.name not in known]):
            yield file_ranges

    def removed(self, deleted: Mapping[str, Sequence[str]]) -> MetadataRecords:
        """Returns the removals of files' records."""
        places = [(partition, file) for partition, files in deleted.items() for file in files]
        if not places:
            return MetadataRecords(self.files.index)
        keys = [column_stats_key(self.column.name, partition, file) for partition, file in places]
        return self._removal_records(COLUMN_STATS_RECORD, keys, [file for _, file in places], tight=False)

    def removed_partitions(self, paths: Sequence[str]) -> MetadataRecords:
        """Returns the removals of partitions' records."""
        if not paths:
            return MetadataRecords(self.files.index)
        return self._removal_records(
            PARTITION_STATS_RECORD, [self._key_of(path) for path in paths], [""] * len(paths), tight=True
        )

    def _removal_records(
        self, type_: int, keys: Sequence[str], names: Sequence[str], *, tight: bool
    ) -> MetadataRecords:
        columns = pa.array([self.column.name] * len(keys), pa.string())
        values = removal_values(type_, columns, pa.array(names, pa.string()), index_version=self.version, tight=tight)
        return MetadataRecords(self.files.index, pa.array(keys, pa.string()), values)

    def _key_of(self, path: str) -> str:
        return column_id(self.column.name) + _PARTITIONS + partition_id(path)

    def _of_file(self, file: DataFile) -> ColumnRanges | None:
        bounds = Range(self.column)
        for values in self.files.values(file):
            add_values(bounds, values)
        if not bounds.values:
            return None
        widen_zeros(bounds)
        bounds.values -= bounds.nulls  # like Spark's count of the column
        bounds.size, bounds.raw_size = file.size, 2 * file.size
        return ColumnRanges.of([bounds])


@dataclass(frozen=True, slots=True)
class FilterRecords:
    """Records of an index of the kind `bloom_filters`."""

    files: ExpressionFiles
    config: BloomConfig
    instant: str

    def of_files(self, files: Sequence[DataFile]) -> Iterator[MetadataRecords]:
        """Yields the records of files that have rows."""
        for at in range(0, len(files), _AT_ONCE):
            filters = in_order(self._of_file, files[at : at + _AT_ONCE])
            made = [
                (bloom_filter_key(file.partition, file.name), self.config.type, text)
                for file, text in filters
                if text is not None
            ]
            yield filter_records(self.files.index, made, self.instant, deleted=False)

    def removed(self, deleted: Mapping[str, Sequence[str]]) -> MetadataRecords:
        """Returns the removals of files' records."""
        keys = [bloom_filter_key(partition, file) for partition, files in deleted.items() for file in files]
        return filter_records(self.files.index, [(key, "", b"") for key in keys], self.instant, deleted=True)

    def _of_file(self, file: DataFile) -> bytes | None:
        """Builds a filter of the texts of values. Null is left out: in Apache Hudi, a null fails the write."""
        bloom: BloomFilter | None = None
        for values in self.files.values(file):
            if len(values):
                bloom = BloomFilter(self.config) if bloom is None else bloom
                bloom.add(filter_texts(values, self.files.zone))
        return None if bloom is None else bloom.encode().encode()


def records_of(source: TableSource, name: str, change: TableChange | None) -> RangeRecords | FilterRecords:
    """Returns the records of an index."""
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
    """Returns the size of an index's filters, from its own options or else from those of the write.

    Raises:
        ConfigError: an option of the index is not valid.
    """
    own = {_SIZES[name]: value for name, value in options.items() if name in _SIZES}
    return filter_config(given.replace(own))


def options_in(definition: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options of an index, from its stored definition."""
    return {str(key): str(value) for key, value in (definition.get("indexOptions") or {}).items()}


def expression_in(definition: Mapping[str, Any]) -> IndexFunction:
    """Returns the expression of an index, from its stored definition."""
    return IndexFunction.of_index(str(definition.get("indexFunction") or ""), options_in(definition))


class _RangeCheck(StatsCheck):
    """Compares ranges of files, and of partitions, which may be wider than those of their files."""

    def known_names(self) -> Collection[str]:
        return {*self.listing.places, *self.listing.partitions}

    def is_left(self, name: str) -> bool:
        return name not in self.listing.partitions and self.listing.is_left(name)

    def difference(self, expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
        one, other = expected or {}, found or {}
        if one.get("fileName") in self.listing.partitions and not other.get("isDeleted"):
            return PartitionStatsCheck.range_difference(one, other)
        return StatsCheck.difference(self, expected, found)


class _FilterCheck(BloomCheck):
    """Compares filters. Filters of another size than ours, such as those that Apache Hudi makes for 60,000 keys, cannot
    be compared bit by bit: only their format is checked."""

    def difference(self, expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None) -> str:
        said = BloomCheck.difference(self, expected, found)
        if not said or expected is None or found is None or found.get("isDeleted"):
            return said
        try:
            one, other = (
                BloomFilter.decode(bytes(record["bloomFilter"]).decode("ascii"), record["type"])
                for record in (expected, found)
            )
        except (HudiError, UnicodeDecodeError):
            return said
        return said if one.row_bits == other.row_bits else ""


@dataclass(frozen=True, slots=True)
class ExpressionIndex(NamedIndex):
    """A partition `expr_index_<name>`. Its kind, column and function are in the table's index definitions."""

    prefix: ClassVar[str] = EXPRESSION_PREFIX
    kinds: ClassVar[tuple[str, ...]] = (STATS_KIND, BLOOM_KIND)
    word: ClassVar[str] = "expression index"
    superfluous_harm: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = _RangeCheck

    def checking(self, source: TableSource) -> RecordCheck:
        """See `MetadataPartition.checking`."""
        of_filters = source.definitions.get(self.name, {}).get("indexType") == BLOOM_KIND
        return _FilterCheck(source) if of_filters else _RangeCheck(source)

    def unwanted(self, options: Options) -> bool:
        return not options.get(indexes_config.EXPRESSION_INDEX)

    @classmethod
    def asked(cls, options: Options) -> IndexRequest | None:
        column = options.get(indexes_config.EXPRESSION_INDEX_COLUMN)
        given = dict(options.get(indexes_config.EXPRESSION_INDEX_OPTIONS))
        if not column or not given or not options.get(indexes_config.EXPRESSION_INDEX):
            return None
        kind = options.get(indexes_config.EXPRESSION_INDEX_TYPE).lower()
        return IndexRequest(options.get(indexes_config.INDEX_NAME), column, kind, given)

    @classmethod
    def define(
        cls, config: TableConfig, schema: pa.Schema | None, request: IndexRequest, settings: Options
    ) -> IndexDefinition:
        """Returns the definition, see `NamedIndex.define`. The options of the request are `expr`, the function (by
        default `identity`), and its options; for filters also those of their size."""
        what = cls.start_of_error(config, request.name)
        kind = column_type(config, schema, request, what)
        function = request.options.get(EXPR, IDENTITY)
        expression = IndexFunction.of_index(function, request.options)
        why = expression.check() or expression.check_column(kind)
        if not why and request.kind == STATS_KIND:
            result = expression.result(kind)
            sized = sorted(set(FILTER_SIZES) & request.options.keys())
            if function == IDENTITY:
                why = (
                    f"{STATS_KIND} of the column itself belong to {indexes_config.COLUMN_STATS_COLUMNS.key}; give expr"
                )
            elif pa.types.is_nested(result):
                why = f"the values of {function} have the type {result}, which has no order; use {BLOOM_KIND}"
            elif sized:
                why = f"{STATS_KIND} has no option {sized[0]!r}, which sizes {BLOOM_KIND}"
        if not why and request.kind == BLOOM_KIND:
            if pa.types.is_binary(expression.result(kind)) or pa.types.is_nested(kind):
                why = f"filters hold texts, and values of the type {kind} have none"
            filters_of(settings, request.options)
        if why:
            raise ConfigError(f"{what}: {why}")
        version = f"V{config.index_version}"
        return IndexDefinition(
            cls.full_name(request.name), function, (request.column,), dict(request.options), version, request.kind
        )

    @classmethod
    def is_same(cls, definition: Mapping[str, Any], request: IndexRequest) -> bool:
        function = str(definition.get("indexFunction") or "")
        return NamedIndex.is_same(definition, request) and function == request.options.get(EXPR, IDENTITY)

    def maintainable(self, definition: Mapping[str, Any]) -> bool:
        return NamedIndex.maintainable(self, definition) and not expression_in(definition).check()

    def combine(self, *, logs_only: bool) -> Combine:
        return combine_stats

    def file_groups(self, source: TableSource) -> int:
        """Returns the configured number."""
        return source.options.get(indexes_config.EXPRESSION_INDEX_FILE_GROUPS)

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields the records of the files of the newest slices, and of all partitions."""
        records = records_of(source, self.name, None)
        for path in source.view.partitions():
            files = [file for slice_ in source.view.latest_slices(path) for file in files_of_slice(slice_)]
            if isinstance(records, RangeRecords):
                ranges = records.ranges(files)
                yield records.of_ranges(ranges)
                yield records.of_partition(path, [file_ranges for _, file_ranges in ranges])
            else:
                yield from records.of_files(files)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the records of the files that a commit wrote and of their partitions, and removals for the files that
        a clean deleted and for deleted partitions."""
        commit = change.commit
        if commit is None and change.action is not Action.CLEAN:
            return
        records = records_of(source, self.name, change)
        if commit is None:
            yield records.removed(change.deleted)
            return
        written: dict[str, list[DataFile]] = {}
        for file in files_of_commit(commit):
            written.setdefault(file.partition, []).append(file)
        if not isinstance(records, RangeRecords):
            yield from records.of_files([file for files in written.values() for file in files])
            return
        if commit.operation == Operation.DELETE_PARTITION.java_name:
            yield records.removed_partitions([path for path, ids in commit.replaced.items() if ids])
            return
        for path, files in sorted(written.items()):
            ranges = records.ranges(files)
            yield records.of_ranges(ranges)
            others = records.stored(source, path, files_beside(source, PartitionPath(path), files))
            parts = [*(file_ranges for _, file_ranges in ranges), *others]
            yield records.of_partition(path, parts, replacing=source.bounds_replace(change))
