"""The `partition_stats` partition: column ranges over the files of each data partition.

A commit rewrites the records of the partitions it touches, from the ranges of the files it wrote and those of the
partition's other files. If files are only added, the present record covers the latter, so the cost of a commit does not
grow with the partition. If files are removed or a column is new, the ranges of the newest slices come from
`column_stats`; if a file is missing there, its ranges are read from the file and added to `column_stats`. A partition
with a file of unknown ranges gets bounds that include every value.

Sources: `HoodieTableMetadataUtil.convertMetadataToPartitionStatRecords`, `convertFilesToPartitionStatsRecords`,
`FileFormatUtils.getColumnRangeInPartition`, 1.2.0, which skip files of unknown ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.file_stats.columns import IndexedColumn
from hudi_py.file_stats.files import DataFile
from hudi_py.file_stats.ranges import RANGES, ColumnRanges, Range, merge_groups, widest
from hudi_py.formats.keys.buckets import FIXED_FILE_ID
from hudi_py.metadata.keys import column_id, partition_id, partition_stats_key
from hudi_py.metadata.table import COLUMN_STATS, PARTITION_STATS
from hudi_py.metadata_write.encoding.records import (
    PARTITION_STATS_RECORD,
    Combine,
    MetadataRecords,
    combine_stats,
    covers,
)
from hudi_py.metadata_write.encoding.stats_values import (
    FILE,
    removal_values,
    standing_ranges,
    stats_values,
    stored_ranges,
)
from hudi_py.metadata_write.partitions.base import MetadataPartition, RecordCheck
from hudi_py.metadata_write.partitions.column_stats import (
    KeptStatistics,
    StatsCheck,
    files_of_commit,
    shown_range,
    stats_records,
)
from hudi_py.metadata_write.table.source import TableSource, schema_text
from hudi_py.model.files import FileSlice
from hudi_py.model.layout import SCHEMAS
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.model.operation import Operation
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.archived import ArchivedCompletions
from hudi_py.timeline.table_schema import SCHEMA_OF_PLAN, resolve_table_schema
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import TableChange

_PARTITIONS_AT_ONCE: Final = 64
_MERGED_LOGS: Final = 8
"""First table version whose log files are named by their own instant."""
"""Folder of schema versions, present once columns have been renamed."""


class PartitionStatsCheck(StatsCheck):
    """Compares ranges. An overwrite keeps the ranges of the files that it replaced, in Apache Hudi as here: too wide is
    not wrong."""

    def known_names(self) -> Collection[str]:
        return self.listing.partitions

    def is_left(self, name: str) -> bool:
        return False

    @staticmethod
    def range_difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
        if not all(covers(found, expected, name) for name in ("minValue", "maxValue")):
            return f"the range {shown_range(found)} does not cover {shown_range(expected)}"
        # A log compaction that completes after later writes rewrites rows that their records do not count
        for what, has, noted in zip(("nulls", "values"), _has_values(expected), _has_values(found), strict=True):
            if has and not noted and found.get("isTightBound"):
                return f"expected {what}, found valueCount = {found['valueCount']}, nullCount = {found['nullCount']}"
        return ""


def _has_values(stats: Mapping[str, Any]) -> tuple[bool, bool]:
    """Returns whether there are nulls, and other values: readers need the counts for nothing else."""
    return stats["nullCount"] > 0, stats["valueCount"] > stats["nullCount"]


@dataclass(frozen=True, slots=True)
class PartitionStats(MetadataPartition):
    """The partition `partition_stats`: the ranges of whole partitions."""

    name: ClassVar[str] = PARTITION_STATS
    file_id_prefix: ClassVar[str] = "partition-stats"
    needs: ClassVar[str] = COLUMN_STATS
    superfluous_harm: ClassVar[bool] = False
    survives_evolution: ClassVar[bool] = False
    check: ClassVar[type[RecordCheck]] = PartitionStatsCheck

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return options.get(indexes_config.COLUMN_STATS) and not self.unsupported_by(config)

    def unwanted(self, options: Options) -> bool:
        return options.asked(indexes_config.COLUMN_STATS) is False

    def checking(self, source: TableSource) -> RecordCheck:
        """Returns a comparison with the bounds of values alone, without the defaults of footers: a compaction may store
        such a default after a later request has described the partition without it."""
        given = (source.storage, source.config, source.timeline, source.view, source.schema_json, source.options)
        return self.check(_SourceOfValues(*given))

    def combine(self, *, logs_only: bool) -> Combine:
        return combine_stats

    def unsupported_by(self, config: TableConfig) -> str:
        if config.base_file_format != "PARQUET":  # only Parquet footers contain ranges
            return "Parquet base files"
        return "" if config.defines_indexes and config.partition_fields else "table version 8 or later, and partitions"

    def file_groups(self, source: TableSource) -> int:
        """Returns the configured number."""
        return source.options.get(indexes_config.PARTITION_STATS_FILE_GROUPS)

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields the ranges of all partitions over their newest slices."""
        kept = KeptStatistics.of(source)
        for some in _in_chunks(source.view.partitions()):
            gathered = _Gathered(source, kept, some)
            files = [
                file for path in some for slice_ in source.view.latest_slices(path) for file in files_of_slice(slice_)
            ]
            gathered.ask(files)
            yield gathered.records()

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the ranges of the partitions that a commit wrote to, removals of those that it deleted, and
        `column_stats` records of files missing there.

        Ranges of a rolled-back instant left the metadata table when its delta commit was undone; a clean removes no
        file of the newest slices.
        """
        if change.commit is None:
            return
        kept = KeptStatistics.of(source)
        if change.commit.operation == Operation.DELETE_PARTITION.java_name:
            yield _removal_records([path for path, ids in change.commit.replaced.items() if ids], kept)
            return
        written: dict[str, list[DataFile]] = {}
        for file in files_of_commit(change.commit):
            written.setdefault(file.partition, []).append(file)
        retyped = change.commit.operation not in SCHEMA_OF_PLAN and _changes_type(source, kept)
        yield from self._of_written(source, change, kept, written, retyped=retyped)
        if retyped:
            yield from self._of_others(source, kept, written)

    @staticmethod
    def _of_written(
        source: TableSource,
        change: TableChange,
        kept: KeptStatistics,
        written: Mapping[str, Sequence[DataFile]],
        *,
        retyped: bool,
    ) -> Iterator[MetadataRecords]:
        """Yields the ranges of partitions that a commit wrote to. `retyped`: whether it changes the type of a
        column."""
        # ranges that Apache Hudi made leave out base files that are not Parquet
        whole = retyped or _was_overtaken(source.timeline) or source.config.base_file_format != "PARQUET"
        own = () if change.commit is None else change.commit.replaced
        replaced = {*own, *(partition for partition, _ in source.view.replaced)}
        for some in _in_chunks(sorted(written)):
            gathered = _Gathered(source, kept, some)
            gathered.ask([file for path in some for file in written[path]], change.sidecars)
            source.view.lister.prefetch(path for path in some if _file_groups(written[path]))
            growing = [path for path in some if path not in replaced and _only_adds(source, path, written[path])]
            standing = set() if whole else gathered.take_standing(growing)
            others = [path for path in some if path not in standing]
            source.view.lister.prefetch(others)
            yield gathered.look_up([file for path in others for file in files_beside(source, path, written[path])])
            # bounds of the former type do not apply to the present one
            yield gathered.records(replacing=retyped or source.bounds_replace(change))

    @staticmethod
    def _of_others(source: TableSource, kept: KeptStatistics, written: Collection[str]) -> Iterator[MetadataRecords]:
        """Yields the ranges of all other partitions."""
        for some in _in_chunks([path for path in source.view.partitions() if path not in written]):
            gathered = _Gathered(source, kept, some)
            source.view.lister.prefetch(some)
            slices = [slice_ for path in some for slice_ in source.view.latest_slices(path)]
            yield gathered.look_up([file for slice_ in slices for file in files_of_slice(slice_)])
            yield gathered.records()


class _SourceOfValues(TableSource):
    """A table whose columns have no bounds in files where all their values are null: footers contain a default, as in
    Apache Hudi (0 to 0), which no row has."""

    def ranges(
        self, files: Iterable[DataFile], columns: Sequence[IndexedColumn], sidecars: str
    ) -> list[tuple[DataFile, ColumnRanges | None]]:
        of_files = super().ranges(files, columns, sidecars)
        return [(file, ranges if ranges is None else _of_values(ranges)) for file, ranges in of_files]


class _Gathered:
    """Ranges of the files of some partitions."""

    def __init__(self, source: TableSource, kept: KeptStatistics, partitions: Sequence[str]) -> None:
        self._source = source
        self._columns = kept.columns
        self._version = kept.version
        self._partitions = list(partitions)
        self._numbers = {partition: at for at, partition in enumerate(partitions)}
        self._tables: list[pa.Table] = []
        self._file_groups: list[npt.NDArray[np.int32]] = []
        self._with_ranges: set[str] = set()
        """Partitions with known ranges."""

    def ask(
        self, files: Sequence[DataFile], sidecars: str = "", known: Mapping[tuple[str, str], set[str]] | None = None
    ) -> list[tuple[DataFile, ColumnRanges]]:
        """Adds the ranges of files from the files themselves; returns those missing from `column_stats`.

        Args:
            known: the columns already taken, by partition and name of the file.
        """
        fresh: list[tuple[DataFile, ColumnRanges]] = []
        for file, ranges in self._source.ranges(files, self._columns, sidecars):
            there = known.get((file.partition, file.name), set()) if known is not None else set()
            if ranges is None:
                # the bounds include whatever the file holds; a partition of such files alone gets no record
                wide = [Range(column, *widest(column)) for column in self._columns if column.name not in there]
                self._add_ranges(file.partition, ColumnRanges.of(wide))
                continue
            self._with_ranges.add(file.partition)
            rows = int(pc.max(ranges.rows["values"]).as_py() or 0)
            ranges = _without_columns(ranges, there)
            names = {*there, *ranges.rows["column"].to_pylist()}
            absent = [column for column in self._columns if column.name not in names]
            if absent and self._renamed:
                self._add_ranges(file.partition, ColumnRanges.of([Range(column, *widest(column)) for column in absent]))
            elif absent:
                nulls = ColumnRanges.of([Range(column, None, None, rows, rows) for column in absent])
                ranges = _unite_ranges(ranges, nulls)
            self._add_ranges(file.partition, ranges)
            fresh.append((file, ranges))
        return fresh

    def take_standing(self, partitions: Sequence[str]) -> set[str]:
        """Adds the present records of partitions. Returns the partitions whose records are complete."""
        metadata = self._source.metadata
        if not partitions or metadata is None or not metadata.has(PARTITION_STATS):
            return set()
        keys = [partition_stats_key(column.name, path) for path in partitions for column in self._columns]
        table = standing_ranges(metadata, keys)
        taken: set[str] = set()
        for path in partitions:
            rows = table.filter(pc.equal(table[FILE], path)).drop_columns([FILE])
            names = rows["column"].to_pylist()
            counts = set(rows["values"].to_pylist())
            # each column once, with equal counts: no column was added after the files were written
            if len(counts) == 1 and sorted(names) == sorted(column.name for column in self._columns):
                self._tables.append(rows)
                self._file_groups.append(np.full(rows.num_rows, self._numbers[path], np.int32))
                self._with_ranges.add(path)
                taken.add(path)
        return taken

    def look_up(self, files: Sequence[DataFile]) -> MetadataRecords:
        """Adds the ranges of files from `column_stats`, and from the files if missing there; returns the records to add
        to it."""
        metadata = self._source.metadata
        known: dict[tuple[str, str], set[str]] = {}
        if metadata is not None and metadata.has(COLUMN_STATS):
            for some in _by_identity(files):
                partitions = {file.partition for file in some}
                prefixes = [
                    column_id(column.name) + partition_id(path) for path in partitions for column in self._columns
                ]
                places = {file.name: file.partition for file in some}
                table = stored_ranges(metadata, prefixes, places)
                names = table[FILE].to_pylist()
                self._tables.append(table.drop_columns([FILE]))
                numbers = (self._numbers[places[name]] for name in names)
                self._file_groups.append(np.fromiter(numbers, np.int32, len(names)))
                self._with_ranges.update(self._partitions[at] for at in set(self._file_groups[-1].tolist()))
                for name, column in zip(names, table["column"].to_pylist(), strict=True):
                    known.setdefault((places[name], name), set()).add(column)
        lacking = [file for file in files if len(known.get((file.partition, file.name), ())) < len(self._columns)]
        fresh = [(file, ranges) for file, ranges in self.ask(lacking, known=known) if len(ranges)]
        return stats_records(fresh, index_version=self._version)

    def records(self, *, replacing: bool = True) -> MetadataRecords:
        """Returns the records of the partitions with known ranges; `replacing`: see `TableSource.bounds_replace`."""
        if not self._tables:
            return MetadataRecords(PARTITION_STATS)
        merged = merge_groups(
            pa.concat_tables(self._tables), pa.array(np.concatenate(self._file_groups)), self._columns
        )
        chosen = [
            (path, merged[at]) for at, path in enumerate(self._partitions) if at in merged and path in self._with_ranges
        ]
        rows = pa.Table.from_batches([ranges.rows for _, ranges in chosen], RANGES)
        paths = [path for path, ranges in chosen for _ in range(len(ranges))]
        keys = [partition_stats_key(name, path) for name, path in zip(rows["column"].to_pylist(), paths, strict=True)]
        if not keys:
            return MetadataRecords(PARTITION_STATS)
        values = stats_values(
            PARTITION_STATS_RECORD, rows, pa.array(paths, pa.string()), index_version=self._version, tight=replacing
        )
        return MetadataRecords(PARTITION_STATS, pa.array(keys, pa.string()), values)

    def _add_ranges(self, partition: str, ranges: ColumnRanges) -> None:
        if len(ranges):
            self._tables.append(pa.Table.from_batches([ranges.rows.replace_schema_metadata(None)]))
            self._file_groups.append(np.full(len(ranges), self._numbers[partition], np.int32))

    @cached_property
    def _renamed(self) -> bool:
        """Whether a column may have another name in older files."""
        return bool(self._source.storage.list(SCHEMAS))


def _by_identity(files: Iterable[DataFile]) -> Iterable[list[DataFile]]:
    """Splits the files into lists in which a file name identifies its partition: usually one list, because names
    contain random ids. Those of non-blocking writers do not, and recur in all partitions."""
    lists: dict[str, list[DataFile]] = {}
    for file in files:
        lists.setdefault(file.partition if FIXED_FILE_ID in file.name else "", []).append(file)
    return lists.values()


def _changes_type(source: TableSource, kept: KeptStatistics) -> bool:
    """Returns whether the commit changes the type of a column with statistics."""
    before = resolve_table_schema(source)
    if before is None or (text := schema_text(before)) == source.schema_json:
        return False
    former = {column.name: column for column in KeptStatistics.of(replace(source, schema_json=text)).columns}
    return any(former.get(column.name, column) != column for column in kept.columns)


def _of_values(ranges: ColumnRanges) -> ColumnRanges:
    rows = ranges.rows
    is_empty = pc.equal(rows["values"], rows["nulls"])
    bounds = {name: pc.if_else(is_empty, pa.scalar(None, rows[name].type), rows[name]) for name in ("low", "high")}
    arrays = [bounds.get(name, rows[name]) for name in RANGES.names]
    return ColumnRanges(pa.RecordBatch.from_arrays(arrays, schema=RANGES))


def _without_columns(ranges: ColumnRanges, names: Collection[str]) -> ColumnRanges:
    if not names:
        return ranges
    kept = [name not in names for name in ranges.rows["column"].to_pylist()]
    return ColumnRanges(ranges.rows.filter(pa.array(kept, pa.bool_())))


def _unite_ranges(one: ColumnRanges, other: ColumnRanges) -> ColumnRanges:
    arrays = [pa.concat_arrays([one.rows.column(at), other.rows.column(at)]) for at in range(len(RANGES))]
    return ColumnRanges(pa.RecordBatch.from_arrays(arrays, schema=RANGES))


def _was_overtaken(timeline: Timeline) -> bool:
    """Returns whether a commit completed after one that was requested later. Then the records of the later request
    count; in Apache Hudi they lack the rows that the other commit added, and include those that it removed."""
    first: str | None = None
    for instant in reversed(timeline.write_completed):
        completed = instant.completion_time or instant.time
        if first is not None and first < completed:
            return True
        first = completed if first is None else min(first, completed)
    return False


def files_beside(source: TableSource, partition: PartitionPath, written: Sequence[DataFile]) -> list[DataFile]:
    """Returns the other files of a partition that stay in the newest slices beside those written; as in Apache Hudi,
    this includes file groups that the commit itself replaces."""
    return [file for slice_ in source.view.latest_slices(partition) for file in _files_kept(source, slice_, written)]


def _only_adds(source: TableSource, partition: PartitionPath, written: Iterable[DataFile]) -> bool:
    """Returns whether the files written are added to a partition and replace no others."""
    groups = _file_groups(written)
    if not groups:
        return True  # logs of existing file groups: no need to list the partition
    slices = source.view.latest_slices(partition)
    return bool(slices) and not any(slice_.file_id in groups for slice_ in slices)


def _file_groups(written: Iterable[DataFile]) -> set[str]:
    """Returns the file groups of the base files written."""
    return {base.file_id for file in written if (base := parse_base_file_name(file.name))}


def _files_kept(source: TableSource, slice_: FileSlice, written: Iterable[DataFile]) -> list[DataFile]:
    """Returns the files of a slice that stay in the newest slice after the write."""
    names = {file.name for file in written}
    begun = max(
        (base.instant for name in names if (base := parse_base_file_name(name)) and base.file_id == slice_.file_id),
        default=None,
    )
    files = files_of_slice(slice_)
    if begun is not None:
        # a new base file replaces everything except the logs that the view will assign to it
        files = [file for file in files if _belongs_to(source, file.name, begun)]
    return [file for file in files if file.name not in names]


def _belongs_to(source: TableSource, name: str, begun: str) -> bool:
    log = parse_log_file_name(name)
    if log is None:
        return False
    if source.config.version < _MERGED_LOGS:
        return log.instant == begun
    completed = ArchivedCompletions(source).of(log.instant, (begun,))
    return completed is not None and completed >= begun


def files_of_slice(slice_: FileSlice) -> list[DataFile]:
    """Returns the base file and the logs of a slice."""
    logs = [DataFile.of(log) for log in slice_.log_files]
    return logs if slice_.base_file is None else [DataFile.of(slice_.base_file), *logs]


def _removal_records(paths: Sequence[str], kept: KeptStatistics) -> MetadataRecords:
    if not paths:
        return MetadataRecords(PARTITION_STATS)
    names = [column.name for _ in paths for column in kept.columns]
    keys = [partition_stats_key(column.name, path) for path in paths for column in kept.columns]
    nowhere = pa.repeat(pa.scalar(""), len(names))
    values = removal_values(
        PARTITION_STATS_RECORD, pa.array(names, pa.string()), nowhere, index_version=kept.version, tight=True
    )
    return MetadataRecords(PARTITION_STATS, pa.array(keys, pa.string()), values)


def _in_chunks(partitions: Sequence[str]) -> Iterator[list[PartitionPath]]:
    for at in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        yield [PartitionPath(partition) for partition in partitions[at : at + _PARTITIONS_AT_ONCE]]
