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

from hudi_py.config import Options
from hudi_py.config import metadata as metadata_config
from hudi_py.errors import HudiError
from hudi_py.file_stats.files import DataFile
from hudi_py.formats.bloom import BloomFilter
from hudi_py.metadata_write.encoding.payloads import Combine, combine_stats
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.metadata_write.partitions.base import MetadataPartition, RecordCheck
from hudi_py.metadata_write.partitions.bloom_filters import BloomCheck
from hudi_py.metadata_write.partitions.column_stats import StatsCheck, files_of_commit
from hudi_py.metadata_write.partitions.expression_records import BLOOM_KIND, RangeRecords, records_of
from hudi_py.metadata_write.partitions.partition_stats import PartitionStatsCheck, files_beside, files_of_slice
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.transaction.protocols import TableChange

_DELETE_PARTITION = "DELETE_PARTITION"


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
class ExpressionIndex(MetadataPartition):
    """A partition `expr_index_<name>`. Its kind, column and function are in the table's index definitions."""

    name: str
    superfluous_harm: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = _RangeCheck

    def checking(self, source: TableSource) -> RecordCheck:
        """See `MetadataPartition.checking`."""
        of_filters = source.definitions.get(self.name, {}).get("indexType") == BLOOM_KIND
        return _FilterCheck(source) if of_filters else _RangeCheck(source)

    @property
    def file_id_prefix(self) -> str:
        return self.name.replace("_", "-")

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return False  # made by name

    def unwanted(self, options: Options) -> bool:
        return not options.get(metadata_config.EXPRESSION_INDEX)

    def combine(self, *, logs_only: bool) -> Combine:
        return combine_stats

    def file_groups(self, source: TableSource) -> int:
        """As configured."""
        return source.options.get(metadata_config.EXPRESSION_INDEX_FILE_GROUPS)

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
        if commit.operation == _DELETE_PARTITION:
            yield records.removed_partitions([path for path, ids in commit.replaced.items() if ids])
            return
        for path, files in sorted(written.items()):
            ranges = records.ranges(files)
            yield records.of_ranges(ranges)
            others = records.stored(source, path, files_beside(source, PartitionPath(path), files))
            parts = [*(found for _, found in ranges), *others]
            yield records.of_partition(path, parts, replacing=source.bounds_replace(change))
