"""The partitions `expr_index_<name>`: ranges or bloom filters of a function of a column.

Of kind `column_stats`, each file with rows has a record as in `column_stats`, and each data partition one with the
range of its newest slices, under a key that begins with the column and a constant. Of kind `bloom_filters`, each file
with rows has a filter as in `bloom_filters`. Log files count by themselves, without the base file. Sources:
`SparkMetadataWriterUtils.getExprIndexRecords`, `HoodieMetadataPayload.createPartitionStatsRecords`,
`HoodieExpressionIndex.HOODIE_EXPRESSION_INDEX_PARTITION_STAT_PREFIX`, 1.2.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.errors import ConfigError, HudiError
from hudi_py.expressions.functions import EXPR, FILTER_SIZES, IDENTITY, IndexFunction
from hudi_py.file_stats.files import DataFile
from hudi_py.formats.keys.bloom import BloomFilter
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata.locations import EXPRESSION_PREFIX
from hudi_py.metadata_write.encoding.payloads import Combine, combine_stats
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.metadata_write.partitions.base import RecordCheck
from hudi_py.metadata_write.partitions.bloom_filters import BloomCheck
from hudi_py.metadata_write.partitions.column_stats import StatsCheck, files_of_commit
from hudi_py.metadata_write.partitions.expression_records import (
    BLOOM_KIND,
    STATS_KIND,
    RangeRecords,
    expression_in,
    filters_of,
    records_of,
)
from hudi_py.metadata_write.partitions.named import IndexRequest, NamedIndex, column_type
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck, files_beside, files_of_slice
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.transaction.protocols import TableChange


class _RangeCheck(StatsCheck):
    """Ranges of files, and of partitions, which may be wider than those of their files."""

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
    """Filters of another size than ours would have, such as those that Apache Hudi makes for 60,000 keys, cannot be
    compared bit by bit: of these only the format is checked."""

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
        """See `NamedIndex.define`. The options of the request are `expr`, the function (by default `identity`), and its
        options; for filters also those of their size."""
        what = cls.start_of_error(config, request.name)
        found = column_type(config, schema, request, what)
        function = request.options.get(EXPR, IDENTITY)
        expression = IndexFunction.of_index(function, request.options)
        why = expression.check() or expression.check_column(found)
        if not why and request.kind == STATS_KIND:
            result = expression.result(found)
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
            if pa.types.is_binary(expression.result(found)) or pa.types.is_nested(found):
                why = f"filters hold texts, and values of the type {found} have none"
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
        """As configured."""
        return source.options.get(indexes_config.EXPRESSION_INDEX_FILE_GROUPS)

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """The records of the files of the newest slices, and of all partitions."""
        records = records_of(source, self.name, None)
        for path in source.view.partitions():
            files = [file for slice_ in source.view.latest_slices(path) for file in files_of_slice(slice_)]
            if isinstance(records, RangeRecords):
                ranges = records.ranges(files)
                yield records.of_ranges(ranges)
                yield records.of_partition(path, [found for _, found in ranges])
            else:
                yield from records.of_files(files)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """The records of the files that a commit wrote and of their partitions; removals of the files that a clean
        deleted and of partitions that were deleted."""
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
            parts = [*(found for _, found in ranges), *others]
            yield records.of_partition(path, parts, replacing=source.bounds_replace(change))
