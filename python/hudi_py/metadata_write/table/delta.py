"""Delta commits of the metadata table: records as HFile log blocks, one log file for each file group written.

Sources: `HoodieBackedTableMetadataWriter.commitInternal`, `HoodieAppendHandle`, `HoodieHFileDataBlock` (1.2.0); format
reference 10.2 and 10.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.formats.hfile import write_hfile
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_deletes
from hudi_py.formats.temporary import TemporaryFiles
from hudi_py.metadata.keys import file_groups, secondary_prefixes
from hudi_py.metadata.records import SMALL_FILE
from hudi_py.metadata.table import numbered_groups
from hudi_py.metadata_write.encoding.records import SCHEMA_JSON, MetadataRecords
from hudi_py.metadata_write.partitions.registry import partition_of
from hudi_py.metadata_write.table.session import (
    COMMIT_SCHEMA,
    file_group_id,
    partition_folder,
)
from hudi_py.model.commit import CommitMetadata, WriteStat, WrittenFile
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import FileId, LogFileName, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.storage.threads import REQUESTS, in_threads, processors
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.instants import InstantFiles
from hudi_py.transaction.session import TableSession
from hudi_py.view import FileSystemView

T = TypeVar("T")

HELD_BYTES: Final = 128 << 20
"""Bytes of records held in memory before they are spilled to disk."""
_THREADS: Final = 8
_LARGE_ROWS: Final = 8192
"""Number of rows in a file group above which compressing them takes longer than handing them to a thread."""
_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])

GroupKey = tuple[str, str, int]
"""Partition of the metadata table, prefix of its file ids, number of the file group."""


@dataclass(slots=True)
class _HeldRecords:
    held: list[pa.RecordBatch] = field(default_factory=list)
    spilled: str | None = None
    sink: pa.RecordBatchFileWriter | None = None


class GroupBuffer(TemporaryFiles):
    """Collects records of any file groups in any order. A context manager: leaving it removes spilled data.

    A null value deletes its key.
    """

    def __init__(
        self, count_groups: Callable[[str, str | None], tuple[str, int]], held_bytes: int = HELD_BYTES
    ) -> None:
        """Creates the buffer. `count_groups`: maps a partition and an optional prefix to the prefix and its number of
        file groups."""
        super().__init__("hudi-py-metadata-")
        self._count_groups = count_groups
        self._limit = held_bytes
        self._groups: dict[GroupKey, _HeldRecords] = {}
        self._held = 0

    def close(self) -> None:
        """See `TemporaryFiles.close`; forgets the records in memory, too."""
        for group in self._groups.values():
            if group.sink is not None:
                group.sink.close()
        self._groups.clear()
        super().close()

    def add(self, records: MetadataRecords) -> None:
        """Splits a chunk of records by file group."""
        prefix, count = self._count_groups(records.partition, records.prefix)
        self._split_records(records, prefix, count, records.keys, records.values)
        self._split_records(records, prefix, count, records.deleted, pa.nulls(len(records.deleted), pa.binary()))
        if self._held > self._limit:
            self._spill_held()

    def groups(self) -> Iterator[tuple[GroupKey, pa.Table]]:
        """Yields each group's records, sorted by key bytes: columns `key` and `value`, both binary."""
        for key in sorted(self._groups):
            group = self._groups[key]
            batches = list(group.held)
            if group.sink is not None and group.spilled is not None:
                group.sink.close()
                group.sink = None
                with pa.memory_map(group.spilled) as source:
                    table = pa.concat_tables(
                        [pa.ipc.open_file(source).read_all(), pa.Table.from_batches(batches, _SCHEMA)]
                    )
                    yield key, _sort_by_key(table)
                continue
            yield key, _sort_by_key(pa.Table.from_batches(batches, _SCHEMA))

    def write(self, work: Callable[[int, GroupKey, pa.Table], T], *, waits: bool = True) -> list[T]:
        """Calls `work` for each group with its number, key and records, and returns the results in key order.

        Groups are processed in parallel, but only a few large ones at a time; few records one after the other, unless
        `work` mostly `waits` for a storage.
        """
        results: list[T] = []
        waiting: list[tuple[int, GroupKey, pa.Table]] = []
        threads = min(_THREADS, processors())
        held = 0
        for number, (key, rows) in enumerate(self.groups()):
            waiting.append((number, key, rows))
            held += rows.num_rows
            if len(waiting) == REQUESTS or (len(waiting) >= threads and held >= threads * _LARGE_ROWS):
                results += in_threads(lambda task: work(*task), waiting)
                waiting, held = [], 0
        few = not waits and held < _LARGE_ROWS
        return results + in_threads(lambda task: work(*task), waiting, 1 if few else REQUESTS)

    def _split_records(
        self, records: MetadataRecords, prefix: str, count: int, keys: pa.Array, values: pa.Array
    ) -> None:
        if not len(keys):
            return
        batch = pa.RecordBatch.from_arrays([keys.cast(pa.binary()), values.cast(pa.binary())], schema=_SCHEMA)
        if records.group is not None or count == 1:
            self._hold_batch((records.partition, prefix, records.group or 0), batch)
            return
        texts = keys.cast(pa.string())
        numbers = file_groups(secondary_prefixes(texts) if records.by_prefix else texts, count)
        order = np.argsort(numbers, kind="stable")
        batch = batch.take(pa.array(order))
        bounds = np.searchsorted(numbers[order], np.arange(count + 1))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            begin, end = int(bounds[number]), int(bounds[number + 1])
            self._hold_batch((records.partition, prefix, number), batch.slice(begin, end - begin))

    def _hold_batch(self, key: GroupKey, batch: pa.RecordBatch) -> None:
        self._groups.setdefault(key, _HeldRecords()).held.append(batch)
        self._held += batch.nbytes

    def _spill_held(self) -> None:
        for number, group in enumerate(self._groups.values()):
            if not group.held:
                continue
            if group.sink is None:
                group.spilled = self.file(f"{number}.arrow")
                group.sink = pa.ipc.new_file(group.spilled, _SCHEMA)
            for batch in group.held:
                group.sink.write_batch(batch)
            group.held.clear()
        self._held = 0


def _sort_by_key(table: pa.Table) -> pa.Table:
    return table.take(pc.sort_indices(table["key"]))


INITIAL_TOKEN: Final = "0-0-0"
"""Write token of log files that only create a file group (`HoodieLogFormat.DEFAULT_WRITE_TOKEN`)."""
UPSERT: Final = "UPSERT_PREPPED"
FED: Final = "hoodie.py.metadata.partitions.fed"
"""hudi-py's own key in a delta commit: the partitions being built in which its action has recorded its changes, if it
had any."""


def write_delta(
    own: TableSession,
    view: FileSystemView,
    instant: InstantTime,
    records: Iterable[MetadataRecords],
    *,
    new_groups: int = 1,
    building: Collection[str] = (),
) -> tuple[Timeline, Mapping[str, bytes]]:
    """Commits records under an instant new to the metadata table.

    Args:
        view: view of the metadata table's current timeline, without pending writes.
        new_groups: number of file groups created for a data partition that is new to the partitioned record index.
        building: partitions that are being built. Apache Hudi creates their file groups by a delta commit that is
            pending for as long.

    Returns:
        The timeline with the delta commit, and the content of small log files by path, if the storage is remote.

    Raises:
        ConflictError: the instant exists.
        CorruptFileError: file groups are missing.
    """
    begin_delta(own, instant, UPSERT)
    groups, small = _Groups(own, view, instant, new_groups, building), dict[str, bytes]()

    def append(number: int, key: GroupKey, rows: pa.Table) -> WriteStat:
        stat, data = _append_group(own, instant, groups.slice_of(key), key, rows, number)
        if not own.storage.is_local and len(data) <= SMALL_FILE:
            small[stat.path] = data
        return stat

    with GroupBuffer(groups.count) as buffer:
        for chunk in records:
            buffer.add(chunk)
        stats = buffer.write(append, waits=not own.storage.is_local)
    extra = {FED: ",".join(building)} if building else {}
    return view.timeline.plus(complete_delta(own, view.timeline, instant, UPSERT, stats, extra)), small


def begin_delta(own: TableSession, instant: InstantTime, operation: str) -> None:
    """Writes the requested and inflight files of a delta commit and syncs them to disk before its first log file:
    without them it would count as committed once the timeline begins after it. Raises ConflictError."""
    empty = encode_commit_metadata(CommitMetadata(operation), own.layout, action=Action.DELTA_COMMIT, completed=False)
    files = InstantFiles(own.storage, own.layout, instant, Action.DELTA_COMMIT)
    files.request(b"")
    files.begin(empty, requested=True)
    own.storage.sync()


def complete_delta(
    own: TableSession,
    timeline: Timeline,
    instant: InstantTime,
    operation: str,
    stats: Sequence[WriteStat],
    extra: Mapping[str, str] | None = None,
) -> Instant:
    """Writes the completed file of a delta commit. Raises ConflictError."""
    metadata = CommitMetadata(operation, tuple(stats), {"schema": COMMIT_SCHEMA, **(extra or {})})
    content = encode_commit_metadata(metadata, own.layout, action=Action.DELTA_COMMIT, completed=True)
    completion = own.clock.next_completion(timeline, instant)
    files = InstantFiles(own.storage, own.layout, instant, Action.DELTA_COMMIT)
    return files.complete(completion, content, begun=True)


def open_file_group(own: TableSession, partition: str, file_id: str, instant: InstantTime) -> None:
    """Creates a file group by a log file with an empty delete block, so that it exists without records
    (`HoodieBackedTableMetadataWriter.initializeFileGroups`, 1.2.0)."""
    content = encode_deletes(pa.array([], pa.string()), pa.array([], pa.string()), None)
    block = encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)
    name = LogFileName(FileId(file_id), instant, 1, INITIAL_TOKEN)
    own.storage.put(join_path(partition, str(name)), block)


def listed_groups(own: TableSession, partition: str) -> list[FileSlice]:
    """Returns the newest slice of each file group of a partition, whether or not the delta commits that wrote it are
    completed, without its base file (`getPartitionLatestFileSlicesIncludingInflight`, 1.2.0)."""
    newest: dict[FileId, str] = {}
    logs: dict[tuple[FileId, str], list[LogFile]] = {}
    for info in own.storage.list(partition):
        base, log = parse_base_file_name(info.name), parse_log_file_name(info.name)
        parsed = base or log
        if parsed is None:
            continue
        newest[parsed.file_id] = max(newest.get(parsed.file_id, ""), parsed.instant)
        if log is not None:
            logs.setdefault((log.file_id, log.instant), []).append(LogFile(partition_folder(partition), log, info.size))
    return [
        FileSlice(partition_folder(partition), file_id, InstantTime(at), None, tuple(logs.get((file_id, at), ())))
        for file_id, at in newest.items()
    ]


class _Groups:
    """File groups of the partitions being written, each looked up once."""

    def __init__(
        self, own: TableSession, view: FileSystemView, instant: InstantTime, new_groups: int, building: Collection[str]
    ) -> None:
        self._own = own
        self._view = view
        self._instant = instant
        self._new_groups = new_groups
        self._building = building
        self._found: dict[str, dict[str, Sequence[FileSlice]]] = {}

    def count(self, partition: str, prefix: str | None) -> tuple[str, int]:
        """Returns the file id prefix to use and its number of file groups; creates those of a new data partition."""
        if partition not in self._found:
            if partition in self._building:
                slices = listed_groups(self._own, partition)
            else:
                slices = self._view.latest_slices_for_write(partition_folder(partition))
            self._found[partition] = dict(numbered_groups(self._own.storage.uri, partition, slices))
        by_prefix = self._found[partition]
        known = partition_of(partition)
        assert known is not None
        wanted = prefix or known.file_id_prefix
        if wanted not in by_prefix:
            if prefix is None:
                raise CorruptFileError(
                    f"Cannot write to partition '{partition}' of the metadata table at {self._own.storage.uri}: it has "
                    "no file groups; rebuild the partition"
                )
            by_prefix[wanted] = self._make_groups(partition, wanted)
        return wanted, len(by_prefix[wanted])

    def slice_of(self, key: GroupKey) -> FileSlice:
        partition, prefix, number = key
        return self._found[partition][prefix][number]

    def _make_groups(self, partition: str, prefix: str) -> Sequence[FileSlice]:
        made: list[FileSlice] = []
        for number in range(self._new_groups):
            file_id = file_group_id(prefix, number)
            open_file_group(self._own, partition, file_id, self._instant)
            made.append(FileSlice(partition_folder(partition), FileId(file_id), self._instant, None))
        return made


def _append_group(
    own: TableSession, instant: InstantTime, slice_: FileSlice, key: GroupKey, rows: pa.Table, number: int
) -> tuple[WriteStat, bytes]:
    """Writes a group's records to a new log file: a data block, then a delete block. Returns its content, too."""
    partition = key[0]
    erased = pc.is_null(rows["value"])
    kept = rows.filter(pc.invert(erased)).combine_chunks()
    deleted = rows["key"].filter(erased).cast(pa.string())
    header: Mapping[HeaderKey, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: SCHEMA_JSON}
    blocks: list[bytes] = []
    if kept.num_rows:
        content = write_hfile(_combine_chunks(kept["key"]), _combine_chunks(kept["value"]), schema_json=SCHEMA_JSON)
        blocks.append(encode_block(BlockType.HFILE, header, content))
    if len(deleted):
        of = pa.repeat(partition, len(deleted))
        blocks.append(encode_block(BlockType.DELETE, header, encode_deletes(deleted, of, None)))
    data = b"".join(blocks)
    path = join_path(partition, str(_log_name(own, instant, slice_, number)))
    own.storage.put(path, data)
    rows, deletes = kept.num_rows, len(deleted)
    written = WrittenFile(slice_.file_id, path, partition, len(data), rows=rows, updates=rows, deletes=deletes)
    if own.config.logs_named_by_instant:
        return WriteStat.of_log_file(written, instant), data
    return WriteStat.of_log_file(written, slice_.base_instant, slice_before=slice_), data


def _log_name(own: TableSession, instant: InstantTime, slice_: FileSlice, number: int) -> LogFileName:
    """Returns the name of a group's next log file."""
    if own.config.logs_named_by_instant:
        # the first log file of a new file group already has version 1, with another token
        return LogFileName(slice_.file_id, instant, 1, f"{number}-0-1")
    version = max((log.name.version for log in slice_.log_files), default=0) + 1
    return LogFileName(slice_.file_id, slice_.base_instant, version, INITIAL_TOKEN)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
