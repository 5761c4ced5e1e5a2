"""The `record_index` partition: the location of each record key, across all data partitions or within each one.

Sources: `HoodieTableMetadataUtil.convertMetadataToRecordIndexRecords`, `BaseFileRecordParsingUtils`,
`HoodieBackedTableMetadataWriter.getRecordIndexAdditionalUpserts`, `.initializeRecordIndexPartition`, 1.2.0; format
reference 10.2.
"""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.file_stats.keys import (
    KeyChanges,
    KeyReader,
    base_file_changes,
    log_file_changes,
)
from hudi_py.file_stats.sidecar import KEY, REMOVED, SidecarContent, read_sidecar
from hudi_py.formats.avro import arrow_schema
from hudi_py.formats.base.files import read_footer
from hudi_py.merge import CommittedInstants, LogSpec, merge_settings
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata.locations import (
    KeyScope,
    is_by_partition,
    moved_keys,
    note_built,
    note_write,
    partition_groups,
    places_of,
    read_scope,
)
from hudi_py.metadata.table import GROUP_NUMBER, RECORD_INDEX, MetadataTable
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.metadata_write.partitions.base import MetadataPartition, RecordCheck
from hudi_py.metadata_write.partitions.record_entries import RecordEntries, RecordLocation
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.names import FileId, PartitionPath, join_path, parse_log_file_name
from hudi_py.model.operation import REPLACING
from hudi_py.model.properties import TableConfig
from hudi_py.schema import RECORD_KEY, StoredRows
from hudi_py.storage import Storage
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import resolve_table_schema
from hudi_py.timeline.times import epoch_ms, table_zone
from hudi_py.transaction.protocols import TableChange

_SERVICES: Final = frozenset({"COMPACT", "LOG_COMPACT"})
"""Operations that leave every row in its file group."""
_CLUSTER: Final = "CLUSTER"
"""An operation that moves the rows of the file groups that it replaces."""
_LOCATION: Final = ("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")
_MASK: Final = (1 << 64) - 1
_RECORD_BYTES: Final = 48
"""Assumed size of an entry when computing the number of file groups (`RECORD_INDEX_AVERAGE_RECORD_SIZE`)."""
_THREADS: Final = 8
_T = TypeVar("_T")
_R = TypeVar("_R")


class LocationCheck(RecordCheck):
    """Compares the location of each record key; the time of its last write does not matter."""

    field: ClassVar[str] = "recordIndexMetadata"

    def differing(self, expected: pa.Array, found: pa.Array) -> npt.NDArray[np.int64]:
        one, other = self.content(expected), self.content(found)
        differs = np.zeros(len(expected), np.bool_)
        for name in _LOCATION:
            left, right = pc.struct_field(one, name), pc.struct_field(other, name)
            same = pc.fill_null(pc.equal(left, right), False).to_numpy(zero_copy_only=False)
            both_null = pc.and_(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
            differs |= ~(same | both_null)
        return np.flatnonzero(differs)

    def difference(self, expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
        return f"expected {_show_location(expected)}, found {_show_location(found)}"


def _show_location(info: Mapping[str, Any]) -> str:
    if info["fileIdEncoding"]:
        return f"{info['fileId']} of partition '{info['partitionName']}'"
    bits = (info["fileIdHighBits"] & _MASK) << 64 | (info["fileIdLowBits"] & _MASK)
    return f"{uuid.UUID(int=bits)}-{info['fileIndex']} of partition '{info['partitionName']}'"


@dataclass(frozen=True, slots=True)
class RecordIndex(MetadataPartition):
    """The partition `record_index`."""

    name: ClassVar[str] = RECORD_INDEX
    file_id_prefix: ClassVar[str] = "record-index"
    keeps_keys: ClassVar[bool] = True
    check: ClassVar[type[RecordCheck]] = LocationCheck

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return options.get(indexes_config.GLOBAL_RECORD_INDEX) or options.get(indexes_config.RECORD_INDEX)

    def unwanted(self, options: Options) -> bool:
        asked = (options.asked(indexes_config.GLOBAL_RECORD_INDEX), options.asked(indexes_config.RECORD_INDEX))
        return not any(asked) and False in asked

    def deferred(self, options: Options) -> bool:
        return options.get(indexes_config.DEFER_RECORD_INDEX)

    def on_request(self, options: Mapping[str, str]) -> Mapping[Option[Any], str]:
        """Returns the options for an index over all partitions, or by partition with `isPartitioned`."""
        partitioned = options.get("isPartitioned", "").strip().lower() == "true"
        return {
            indexes_config.GLOBAL_RECORD_INDEX: "false" if partitioned else "true",
            indexes_config.RECORD_INDEX: "true" if partitioned else "false",
        }

    def check_columns(self, config: TableConfig, columns: str) -> str:
        """Allows the columns of the record key, or none (`CreateIndexCommand.matchesRecordKeys`, 1.2.0)."""
        keys = config.record_key_fields or (RECORD_KEY,)
        given = {name.strip().lower() for name in columns.split(",") if name.strip()}
        if not given or given == {name.lower() for name in keys}:
            return ""
        return (
            f"a record index is one of the record key, which is {', '.join(keys)}; name that, or give a secondary "
            "index another name"
        )

    def file_groups(self, source: TableSource) -> int | Mapping[str, int]:
        """Returns enough file groups for the table's rows and their expected growth at the configured size; for a
        partitioned record index, for each data partition, by file id prefix
        (`HoodieTableMetadataUtil.estimateFileGroupCount`)."""
        view = source.view
        if is_partitioned(source):
            return {
                partition_groups(partition): group_count(source, PARTITION_GROUPS, slices)
                for partition in view.partitions()
                if (slices := view.latest_slices(partition))
            }
        slices = [slice_ for partition in view.partitions() for slice_ in view.latest_slices(partition)]
        return group_count(source, GLOBAL_GROUPS, slices)

    def definition(self, source: TableSource) -> IndexDefinition:
        """Returns a definition that says whether the index is partitioned."""
        return record_index_definition(partitioned=is_partitioned(source))

    def first_definition(self, storage: Storage, config: TableConfig, options: Options) -> IndexDefinition:
        """Returns a definition that says whether the index will be partitioned."""
        return record_index_definition(partitioned=is_partitioned_in(storage, config, options))

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields every row's key. Reads the key column of all base files, and merges slices that have log files."""
        slices = [slice_ for partition in source.view.partitions() for slice_ in source.view.latest_slices(partition)]
        if not slices:
            return
        reader, zone = key_reader(source), table_zone(source.config)

        def read(slice_: FileSlice) -> list[pa.Array]:
            return list(reader.of_slice(slice_))

        partitioned = is_partitioned(source)
        with RecordEntries(by_partition=partitioned) as entries:
            for slice_, keys in in_order(read, slices):
                time = epoch_ms(slice_.base_instant, zone)
                place = entries.place(RecordLocation(slice_.partition, slice_.file_id, time))
                for some in keys:
                    entries.add(some, place)
            yield from entries.records()
            if entries.repeated is not None and not partitioned:
                source.repeated_keys.append(entries.repeated)

    def built(self, source: TableSource, now: TableSource | None = None) -> None:
        """Notes whether keys are unique, if the index spans all partitions. Apache Hudi 1.2.0 fails to build one where
        they are not.

        Raises:
            ConfigError: they are not, and must be.
        """
        if is_partitioned(source):
            return
        repeated = next(iter(source.repeated_keys), None)
        if repeated is None and now is not None:
            repeated = _find_repeated_since(now)
        if repeated is not None and source.needs_unique_keys:
            raise ConfigError(
                f"Cannot create a record index of the table {source.config.name!r}: the record key {repeated!r} is in "
                "several file groups, and the index has one place for a key; delete the other rows, or create one by "
                "partition (isPartitioned=true)"
            )
        note_built(now or source, repeated)
        if repeated is not None:
            warn_repeated(source.config, repeated)

    def changed_by(self, commit: CommitMetadata) -> bool:
        """Returns whether a commit adds keys to file groups or removes some; updates do neither."""
        moved = any(stat.num_inserts or stat.num_deletes for stat in commit.stats)
        return commit.operation not in _SERVICES and bool(moved or commit.replaced)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the keys added to or removed from file groups, read from the sidecars of the action's files, or from
        the files themselves if there are none.

        Only commits change anything: the entries of instants that a rollback or restore undid left the metadata table
        with their delta commits.
        """
        commit = change.commit
        if commit is None:
            return
        # while an index is being built, the note is about an earlier one
        known = RECORD_INDEX in source.config.metadata_partitions and not is_partitioned(source)
        scope = unique_keys(source) if known else None
        if commit.operation in _SERVICES or (commit.operation not in REPLACING and not commit.stats):
            if scope is not None:
                note_write(source.storage, scope, source.timeline, change.instant, None)
            return
        reader = _KeyChanges(source, change)
        arrivals = Arrivals(source, change)
        time = epoch_ms(change.instant, table_zone(source.config))
        with RecordEntries(by_partition=is_partitioned(source)) as entries:
            for stat, key_changes in in_order(reader.of_stat, sorted(commit.stats, key=lambda stat: stat.path)):
                place = entries.place(RecordLocation(stat.partition_path, stat.file_id, time))
                for keys, removed in _key_pairs(key_changes):
                    if removed:
                        entries.remove(keys, stat.partition_path)
                    else:
                        entries.add(keys, place)
            if commit.operation in REPLACING:
                replaced = [
                    (PartitionPath(partition), FileId(file_id))
                    for partition, ids in commit.replaced.items()
                    for file_id in ids
                ]
                for (partition, _), gone in in_order(reader.of_replaced, replaced):
                    for keys in gone:
                        entries.remove(keys, partition)
            yield from entries.records(None if scope is None else arrivals.check)
            if scope is not None:
                repeated = entries.repeated or arrivals.repeated
                note_write(source.storage, scope, source.timeline, change.instant, repeated)
                if repeated is not None:
                    warn_repeated(source.config, repeated)


def _find_repeated_since(now: TableSource) -> str | None:
    """Returns a key that what was written while the index was being built has put into several file groups.

    A row that has moved has had several locations too; so the present rows of those file groups decide.
    """
    names = ",".join({*now.config.metadata_partitions, RECORD_INDEX})
    config = replace(now.config, properties={**now.config.properties, "hoodie.table.metadata.partitions": names})
    moved = moved_keys(MetadataTable(TableState(now.storage, config, now.timeline)))
    groups: dict[tuple[str, str], list[str]] = {}
    for key, places in moved.items():
        for place in places:
            groups.setdefault(place, []).append(key)
    reader, seen = key_reader(now), set[str]()
    for (partition, file_id), keys in sorted(groups.items()):
        slices = now.view.latest_slices(PartitionPath(partition))
        slice_ = next((candidate for candidate in slices if candidate.file_id == file_id), None)
        present = pa.chunked_array(list(reader.of_slice(slice_)) if slice_ is not None else [], pa.string())
        there = pa.array(keys, pa.string())
        live = there.filter(pc.is_in(there, value_set=present.combine_chunks())).to_pylist()
        repeated = seen.intersection(live)
        if repeated:
            return min(repeated)
        seen.update(live)
    return None


def record_index_definition(*, partitioned: bool) -> IndexDefinition:
    """Returns the definition of `record_index`."""
    return IndexDefinition(RECORD_INDEX, options={"isPartitioned": "true" if partitioned else "false"})


def is_partitioned(source: TableSource) -> bool:
    """Returns whether the record index is partitioned: as it is, or as it is defined, or else as the options ask."""
    return is_partitioned_in(source.storage, source.config, source.options)


def is_partitioned_in(storage: Storage, config: TableConfig, options: Options) -> bool:
    """Returns what `is_partitioned` does, without a source."""
    if RECORD_INDEX in (*config.metadata_partitions, *config.metadata_partitions_inflight):
        files = storage.list(f"{METADATA_TABLE}/{RECORD_INDEX}")
        ids = {info.name.lstrip(".").partition("_")[0] for info in files}
        prefixes = {matched[1] for file_id in ids if (matched := GROUP_NUMBER.fullmatch(file_id))}
        return is_by_partition(storage, config, prefixes)
    if RECORD_INDEX in config.metadata_partitions_to_make:
        return is_by_partition(storage, config, ())
    return options.get(indexes_config.RECORD_INDEX)


class Arrivals:
    """Compares keys that a commit adds to file groups with those that the index has elsewhere."""

    def __init__(self, source: TableSource, change: TableChange) -> None:
        self._source = source
        self._replaced = {} if change.commit is None else change.commit.replaced
        moves = change.commit is not None and change.commit.operation == _CLUSTER
        self._none = moves or change.knows_keys or not source.view.partitions()
        self._live: dict[str, frozenset[str]] = {}
        self.repeated: str | None = None
        """A key that another file group has as well."""

    def check(self, keys: pa.StringArray, places: Sequence[RecordLocation], numbers: npt.NDArray[np.int32]) -> None:
        """Looks keys up; each arrives at one of the places, by its number."""
        metadata = self._source.metadata
        if self._none or self.repeated is not None or metadata is None:
            return
        indexed = places_of(metadata, keys)
        known = np.flatnonzero(indexed.file_ids.is_valid().to_numpy(zero_copy_only=False))
        there, ids = (column.take(pa.array(known)).to_pylist() for column in (indexed.partitions, indexed.file_ids))
        # a loop over keys that have a place already: only a faulty writer or a repeated write adds such keys
        for at, partition, file_id in zip(known.tolist(), there, ids, strict=True):
            place = places[int(numbers[at])]
            if (partition, file_id) != (place.partition, place.file_id) and file_id in self._file_ids(partition):
                self.repeated = keys[at].as_py()
                return

    def _file_ids(self, partition: str) -> frozenset[str]:
        """Returns the file groups of a partition that the commit keeps."""
        if partition not in self._live:
            replaced = set(self._replaced.get(partition, ()))
            slices = self._source.view.latest_slices(PartitionPath(partition))
            self._live[partition] = frozenset(str(slice_.file_id) for slice_ in slices) - replaced
        return self._live[partition]


def unique_keys(state: TableState) -> KeyScope | None:
    """Returns what is known about the table's keys, if they are known to be unique; a damaged note counts as none."""
    try:
        scope = read_scope(state.storage)
    except CorruptFileError:
        return None
    return scope if scope is not None and scope.is_unique(state.config, state.timeline) else None


def warn_repeated(config: TableConfig, key: str) -> None:
    """Warns about a record index that does not know all rows."""
    warnings.warn(
        f"The record key {key!r} of {config.name!r} is in several file groups, and its record index has one place for "
        "a key: rows are found without it, and writes cannot look keys up in it; delete the other rows and rebuild it "
        "with metadata.rebuild('record_index'), or use one by partition "
        "(hoodie.metadata.record.level.index.enable)",
        UserWarning,
        stacklevel=2,
    )


class _KeyChanges:
    """The changes of keys that one action makes in each file group."""

    def __init__(self, source: TableSource, change: TableChange) -> None:
        self._source = source
        self._change = change
        self._reader: KeyReader | None = None

    def of_stat(self, stat: WriteStat) -> SidecarContent | KeyChanges:
        content = read_sidecar(self._source.storage, self._change.sidecars, stat.path)
        return content if content is not None and content.has_keys else self._derive_changes(stat)

    def of_replaced(self, group: tuple[PartitionPath, FileId]) -> list[pa.Array]:
        slice_ = self._slice_of(*group)
        return [] if slice_ is None else list(self._keys.of_slice(slice_))

    @property
    def _keys(self) -> KeyReader:
        if self._reader is None:
            self._reader = key_reader(self._source, self._change)
        return self._reader

    def _derive_changes(self, stat: WriteStat) -> KeyChanges:
        partition, name = PartitionPath(stat.partition_path), stat.path.rpartition("/")[2]
        log = parse_log_file_name(name)
        if log is None:
            previous = None if stat.prev_base_file is None else join_path(partition, stat.prev_base_file)
            return base_file_changes(self._keys, stat.path, previous)
        before = self._slice_of(partition, FileId(stat.file_id))
        if before is None:
            before = FileSlice(partition, FileId(stat.file_id), log.instant, None)
        return log_file_changes(self._keys, before, LogFile(partition, log, stat.file_size))

    def _slice_of(self, partition: PartitionPath, file_id: FileId) -> FileSlice | None:
        slices = (slice_ for slice_ in self._source.view.latest_slices(partition) if slice_.file_id == file_id)
        return next(slices, None)


def _key_pairs(key_changes: SidecarContent | KeyChanges) -> Iterator[tuple[pa.Array, bool]]:
    if isinstance(key_changes, KeyChanges):
        yield key_changes.added, False
        yield key_changes.removed, True
        return
    for batch in key_changes.key_batches():
        keys, removed = batch.column(KEY), batch.column(REMOVED)
        yield keys.filter(pc.invert(removed)), False
        yield keys.filter(removed), True


def key_reader(source: TableSource, change: TableChange | None = None) -> KeyReader:
    """Returns a reader for the rows of the table's files with the schema of the change, which is the table's by
    default."""
    config, timeline = source.config, source.timeline
    stored = resolve_table_schema(source)
    own = source.schema_json if change is not None and source.schema_json else None
    if stored is not None and own is None:
        schema, history = stored.arrow, stored.history
    else:
        schema, history = arrow_schema(json.loads(own or "{}")), None
    schema = StoredRows.of(config).keyed(schema)
    committed = CommittedInstants.of(config, timeline, None if change is None else change.instant)
    return KeyReader(source.storage, schema, LogSpec(merge_settings(config), committed), history)


GLOBAL_GROUPS: Final = (
    indexes_config.GLOBAL_RECORD_INDEX_MIN_GROUPS,
    indexes_config.GLOBAL_RECORD_INDEX_MAX_GROUPS,
)
PARTITION_GROUPS: Final = (indexes_config.RECORD_INDEX_MIN_GROUPS, indexes_config.RECORD_INDEX_MAX_GROUPS)


def group_count(source: TableSource, bounds: tuple[Option[int], Option[int]], slices: Iterable[FileSlice]) -> int:
    """Returns the number of file groups for an entry for each row of some slices (`estimateFileGroupCount`, 1.2.0)."""
    least, most = (source.options.get(option) for option in bounds)
    if least == most:
        return least
    growth = source.options.get(indexes_config.RECORD_INDEX_GROWTH)
    by_group = source.options.get(indexes_config.RECORD_INDEX_MAX_GROUP_BYTES) // _RECORD_BYTES
    bases = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
    # a row takes more than a byte, so the footers of small tables need not be read
    if sum(base.size for base in bases) * growth < (least + 1) * max(by_group, 1):
        return least
    rows = sum(count for _, count in in_order(lambda base: _num_rows(source.storage, base), bases))
    wanted = -int(-rows * growth // 1) // max(by_group, 1)
    return max(least, min(most, wanted, 2**31 - 1))


def _num_rows(storage: Storage, base: BaseFile) -> int:
    return read_footer(storage, base.path).num_rows


def in_order(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[tuple[_T, _R]]:
    """Yields the result of `work` for each item, in order; threads compute some ahead."""
    waiting: list[tuple[_T, Future[_R]]] = []
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hudi-record-index") as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > 2 * _THREADS:
                first, future = waiting.pop(0)
                yield first, future.result()
        for item, future in waiting:
            yield item, future.result()
