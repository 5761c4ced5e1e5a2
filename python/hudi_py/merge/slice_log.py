"""Reads the log of a file slice: the blocks that count, and the versions of records in them.

`BaseHoodieLogRecordReader.scanInternalV2` defines which blocks count, `PositionBasedFileGroupRecordBuffer` how their
records match base rows by position (1.2.0).
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from hudi_py.errors import CorruptFileError, first_line
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, decode_positions, read_blocks
from hudi_py.merge.damage import damage_of
from hudi_py.merge.decode import PORTION_BYTES, check_blocks, read_versions
from hudi_py.merge.records import LogRecords, reduce_versions
from hudi_py.merge.reduce import Rows, Winners
from hudi_py.merge.settings import MergeSettings
from hudi_py.merge.spill import LogMemory, SpilledLog
from hudi_py.merge.versions import LogVersions, concat_versions
from hudi_py.model.files import LogFile
from hudi_py.model.properties import TableConfig
from hudi_py.schema import OPERATION, RECORD_KEY, SchemaHistory
from hudi_py.storage import Storage, holding
from hudi_py.timeline.timeline import Timeline

_MAX_PORTION = 64 << 20
_MIN_PORTION = 1 << 18
_IN_ORDER = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE)
"""Types of blocks whose records are in the order of their positions; HFile blocks are ordered by key."""


@dataclass(frozen=True, slots=True)
class LogSpec:
    """How the logs of a table's file slices are read and merged. Small when pickled."""

    merge: MergeSettings
    committed: CommittedInstants | None = None
    """Instants whose blocks count; None if the log files were chosen by their instants (table versions 8 and 9)."""
    as_of: str | None = None
    """Blocks of later instants are ignored."""
    memory: LogMemory = field(default_factory=LogMemory)
    """How much memory the log of one slice may take."""
    read_damaged: bool = False
    """Whether the readable rest of damaged logs is read, with a warning."""

    def open(
        self,
        storage: Storage,
        files: Sequence[LogFile],
        history: SchemaHistory | None = None,
        *,
        instant: str | None = None,
    ) -> SliceLog:
        """Opens the log of a slice; small files are read with one request each.

        Args:
            files: the slice's log files in order.
            history: maps columns of a block to those of the table; if None, they are matched by name.
            instant: only blocks of this instant count; None: all.

        Raises:
            CorruptFileError, UnsupportedTableError: see `scan_log` and `SliceLog`.
        """
        storage = holding(storage, ((file.path, file.size) for file in files))
        blocks = scan_log(storage, files, committed=self.committed, as_of=self.as_of, read_damaged=self.read_damaged)
        if instant is not None:
            blocks = [block for block in blocks if block.instant_time == instant]
        return SliceLog(storage, blocks, self, history)


@dataclass(frozen=True, slots=True)
class SliceLog:
    """The blocks of a slice's log that count, oldest first, see `scan_log`.

    Raises:
        UnsupportedTableError, CorruptFileError: a block cannot be read, see `check_blocks`.
    """

    storage: Storage
    blocks: Sequence[LogBlock]
    spec: LogSpec
    history: SchemaHistory | None = None

    def __post_init__(self) -> None:
        check_blocks(self.blocks, self.spec.merge)

    @property
    def partial(self) -> bool:
        """Returns whether there are partial updates, which take their other columns from older versions."""
        return any(block.is_partial for block in self.blocks)

    def columns(self, table_schema: pa.Schema, wanted: Collection[str]) -> pa.Schema:
        """Returns the columns `wanted`, with those that a merge needs from log records."""
        needed = {*wanted, RECORD_KEY, OPERATION, *self.spec.merge.columns}
        schema = pa.schema([item for item in table_schema if item.name in needed])
        return schema if RECORD_KEY in schema.names else schema.append(pa.field(RECORD_KEY, pa.string()))

    def versions(self, schema: pa.Schema, *, portion_bytes: int = PORTION_BYTES) -> Iterator[LogVersions]:
        """Yields the versions in the blocks, see `read_versions`."""
        return read_versions(
            self.storage, self.blocks, schema, self.spec.merge, history=self.history, portion_bytes=portion_bytes
        )

    def load(
        self, schema: pa.Schema, *, keep_deletes: bool = False, base_instant: str | None = None
    ) -> LogRecords | SpilledLog | None:
        """Loads one version for each key, in memory if they fit; None if the log has no records.

        Args:
            schema: columns to read, see `columns`; each block's records are conformed to it.
            keep_deletes: see `reduce_versions`.
            base_instant: instant of the base file to merge with, if the records may be matched by its row numbers: they
                get `base_rows` if the blocks have positions.

        Raises:
            CorruptFileError, SchemaMismatchError: a block contradicts the format, or the schema.
        """
        settings, memory = self.spec.merge, self.spec.memory
        held: list[LogVersions] = []
        size = content = 0
        total = sum(block.content_length for block in self.blocks)
        portion = min(max(memory.limit // 16, _MIN_PORTION), _MAX_PORTION)
        spilled: SpilledLog | None = None
        try:
            for versions in self.versions(schema, portion_bytes=portion):
                if spilled is not None:
                    spilled.add(versions)
                    continue
                held.append(versions)
                size += versions.nbytes
                content += versions.content_bytes
                if size > memory.held:
                    expected = size * max(total, content) // max(content, 1)
                    spilled = SpilledLog(settings, memory, expected, keep_deletes=keep_deletes)
                    while held:
                        spilled.add(held.pop(0))
        except BaseException:  # remove the files in any case
            if spilled is not None:
                spilled.close()
            raise
        if spilled is not None:
            return spilled
        if not held:
            return None
        versions = concat_versions(held)
        records = reduce_versions(versions, settings, keep_deletes=keep_deletes)
        result = None if base_instant is None else base_rows(versions, records.winners, self.blocks, base_instant)
        return records if result is None else replace(records, base_rows=result)

    def parts(self, schema: pa.Schema) -> Iterator[LogRecords]:
        """Yields the result of `load` in parts if it exceeds the memory; no key is in two parts."""
        log = self.load(schema)
        if isinstance(log, LogRecords):
            yield log
        elif log is not None:
            with log:
                yield from log.parts()


def have_positions(blocks: Sequence[LogBlock], base_instant: str) -> bool:
    """Returns whether the headers of all blocks have positions in the base file of that instant
    (`PositionBasedFileGroupRecordBuffer.extractRecordPositions`, 1.2.0)."""
    return all(
        block.type in _IN_ORDER
        and HeaderKey.RECORD_POSITIONS in block.header
        and block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS) == base_instant
        for block in blocks
    )


def base_rows(versions: LogVersions, winners: Winners, blocks: Sequence[LogBlock], base_instant: str) -> Rows | None:
    """Returns for each key its row number in the base file; None if the blocks have no positions, or ambiguous ones.

    Java merges by position here, which equals merging by key only if keys and positions correspond one to one; a key
    has several positions if the base file holds it more than once.

    Args:
        versions: all versions in the blocks.
        winners: the winners of the versions.
        blocks: the blocks of the log that count, in order.
        base_instant: instant of the slice's base file.
    """
    if not have_positions(blocks, base_instant) or len(versions.block_records) != len(blocks):
        return None
    try:
        positions = [
            decode_positions(block.header[HeaderKey.RECORD_POSITIONS], count, context=block.path)
            for block, count in zip(blocks, versions.block_records, strict=True)
        ]
    except CorruptFileError:
        return None  # merging by key gives the same result
    rows = np.concatenate(positions)[versions.places()]
    numbers = np.full(len(winners.keys), -1, np.int64)
    numbers[winners.ids] = rows
    # sorting takes a tenth of the time of np.unique
    if (numbers[winners.ids] != rows).any() or not np.diff(np.sort(numbers)).all():
        return None
    return numbers


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """The write instants whose log blocks count, as of the plan."""

    start: str
    """Older instants have been archived, so they are committed; empty if there are none."""
    completed: frozenset[str]

    @classmethod
    def of(cls, config: TableConfig, timeline: Timeline, own: str | None = None) -> CommittedInstants | None:
        """Collects the write instants of a timeline, and `own`, which is about to complete.

        None since table version 8, where log files are named by their instants and only committed ones are listed.
        """
        if config.logs_named_by_instant:
            return None
        completed = {instant.time for instant in timeline.write_completed}
        return cls(timeline.start or "", frozenset(completed if own is None else {*completed, own}))

    def __contains__(self, instant: object) -> bool:
        return isinstance(instant, str) and (instant in self.completed or instant < self.start)


def scan_log(
    storage: Storage,
    files: Sequence[LogFile],
    *,
    committed: CommittedInstants | None,
    as_of: str | None = None,
    read_damaged: bool = False,
) -> list[LogBlock]:
    """Selects the data and delete blocks of a file slice that count, oldest first.

    Args:
        files: the slice's log files in order.
        committed: instants whose blocks count; None if the log files themselves were chosen by their instants (table
            versions 8 and 9).
        as_of: blocks of later instants are ignored.
        read_damaged: whether to warn, instead of raising an error, if committed blocks cannot be read.

    Raises:
        CorruptFileError: there are bytes that are neither a block nor the torn tail of a failed write.
    """
    blocks: dict[str, list[LogBlock]] = {}
    for file in files:
        suspicious: list[LogBlock] = []
        for block in read_blocks(storage, file.path, file.size):
            if block.type is BlockType.CORRUPT:
                suspicious.append(block)
                continue
            if block.type is BlockType.COMMAND:
                # a rollback undoes what its target wrote so far; a later attempt may reuse the instant
                blocks.pop(block.header.get(HeaderKey.TARGET_INSTANT_TIME, ""), None)
                continue
            instant = block.header.get(HeaderKey.INSTANT_TIME)
            if instant is None:
                raise CorruptFileError(f"Log block at byte {block.content_offset} of {block.path} has no INSTANT_TIME")
            if instant != file.name.instant and (committed is None or instant not in committed):
                suspicious.append(block)
            if (as_of is not None and instant > as_of) or (committed is not None and instant not in committed):
                continue
            if block.type is BlockType.CDC:
                continue
            blocks.setdefault(instant, []).append(block)
        damage = damage_of(storage, file, suspicious, committed) if suspicious else None
        if damage is not None and not read_damaged:
            raise damage
        if damage is not None:
            warnings.warn(f"Rows are missing or old: {first_line(damage)}", stacklevel=2)
    return _place_log_compactions(blocks)


def _place_log_compactions(blocks: dict[str, list[LogBlock]]) -> list[LogBlock]:
    """Returns blocks in merge order, with a log-compacted block in the position of the blocks that it replaces."""
    newest_first: list[list[LogBlock]] = []
    replaced_by: dict[str, str] = {}
    placed: set[str] = set()
    for instant in reversed(blocks):
        times = blocks[instant][0].header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        if times is not None:
            for original in times.split(","):
                replaced_by[original.strip()] = replaced_by.get(instant, instant)
            continue
        final = replaced_by.get(instant, instant)
        if final not in placed:
            placed.add(final)
            newest_first.append(blocks[final])
    return [block for group in reversed(newest_first) for block in group]
