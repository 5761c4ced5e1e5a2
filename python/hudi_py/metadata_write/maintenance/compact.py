"""Compacts a file slice of the metadata table into a base HFile (`HoodieCompactor`, `HoodieMetadataPayload`, 1.2.0).

All files of a slice are sorted by key. They are read in parallel, one block at a time, and keys are written once every
file has been read past them, so memory does not grow with the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro import decode_log_batches, encode_values
from hudi_py.formats.hfile import HFileWriter, open_hfile, write_hfile
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.formats.log import (
    BlockType,
    HeaderKey,
    LogBlock,
    decode_deletes,
    encode_block,
    encode_deletes,
    read_content,
)
from hudi_py.merge import CommittedInstants, scan_log
from hudi_py.metadata_write.encoding.records import RECORD, SCHEMA_JSON, Combine
from hudi_py.metadata_write.encoding.values import convert, is_current, parse_schema, to_current, with_file_name
from hudi_py.metadata_write.partitions.registry import combine_of, removals_of
from hudi_py.metadata_write.table.session import BASE_FILE_BLOOM
from hudi_py.model.files import FileSlice
from hudi_py.storage import Storage

_KEY: Final = "key"


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Statistics of a compaction."""

    written: int = 0
    """Number of records in the new file."""
    updated: int = 0
    """Number of records of the old base file that a log changes."""
    inserted: int = 0
    """Number of records found only in logs."""
    deleted: int = 0
    """Number of records of the old base file that were removed."""
    log_records: int = 0
    """Number of record versions in logs, including removals."""
    log_keys: int = 0
    """Number of distinct keys in logs."""
    log_blocks: int = 0
    """Number of log blocks merged."""
    log_bytes: int = 0
    """Content bytes of the log blocks that hold records."""
    bytes: int = 0
    """Size of the new file in bytes."""


def compact_base_file(
    storage: Storage,
    slice_: FileSlice,
    sink: BinaryIO,
    *,
    file_name: str,
    committed: CommittedInstants,
    bloom: BloomConfig | None = BASE_FILE_BLOOM,
) -> RecordCounts:
    """Writes the records of a slice to a base file, even if there are none, as Apache Hudi does.

    Args:
        storage: of the metadata table.
        slice_: the slice, with the log files to compact.
        sink: receives the file's bytes; not closed.
        file_name: name of the new file, stored in each record.
        committed: instants whose log blocks count.

    Raises:
        CorruptFileError, UnsupportedTableError: a file cannot be read or converted.
        FileNotFoundError: a file is missing.
    """
    writer = HFileWriter(sink, schema_json=SCHEMA_JSON, bloom=bloom)
    blocks = scan_log(storage, slice_.log_files, committed=committed)
    held = sum(block.content_length for block in blocks if block.type.is_data)
    totals = RecordCounts(log_blocks=len(blocks), log_bytes=held)
    for merged in merge_slice(storage, slice_, blocks):
        writer.add(merged.keys, with_file_name(merged.values, file_name))
        totals = _add_counts(totals, merged.counts)
    return _add_counts(totals, RecordCounts(bytes=writer.close()))


def compact_logs(storage: Storage, slice_: FileSlice, instant: str, *, committed: CommittedInstants) -> LogsCompacted:
    """Merges the log blocks of a slice into a delete block and a record block (`LogCompactionExecutionHelper`).

    The deletes come first, so that a record added again after a delete is not merged with its older versions. Bounds of
    statistics may become wider than without log compaction: whether an intermediate version was tight is not kept.

    Args:
        slice_: the slice; its base file is not read.
        instant: requested time of the log compaction.
        committed: instants whose log blocks count.

    Raises:
        CorruptFileError, UnsupportedTableError, FileNotFoundError: as `compact_base_file`.
    """
    blocks = scan_log(storage, slice_.log_files, committed=committed)
    held = sum(block.content_length for block in blocks if block.type.is_data)
    totals = RecordCounts(log_blocks=len(blocks), log_bytes=held)
    keys, values, erased = ([pa.array([], pa.binary())] for _ in range(3))
    for merged in merge_slice(storage, replace(slice_, base_file=None), blocks, logs_only=True):
        keys.append(merged.keys)
        values.append(with_file_name(merged.values, None))
        if merged.erased is not None:
            erased.append(merged.erased)
        totals = _add_counts(totals, merged.counts)
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.SCHEMA: SCHEMA_JSON,
        HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(dict.fromkeys(block.instant_time or "" for block in blocks)),
    }
    gone = pa.concat_arrays(erased).cast(pa.string())
    of = pa.repeat(slice_.partition, len(gone)).cast(pa.string())
    content = write_hfile(pa.concat_arrays(keys), pa.concat_arrays(values), schema_json=SCHEMA_JSON)
    parts = [encode_block(BlockType.DELETE, header, encode_deletes(gone, of, None))] if len(gone) else []
    data = b"".join([*parts, encode_block(BlockType.HFILE, header, content)])
    return LogsCompacted(data, len(gone), _add_counts(totals, RecordCounts(bytes=len(data))))


@dataclass(frozen=True, slots=True)
class LogsCompacted:
    """The content of one log file."""

    data: bytes
    deletes: int
    counts: RecordCounts


def merge_slice(
    storage: Storage, slice_: FileSlice, blocks: Sequence[LogBlock], *, logs_only: bool = False
) -> Iterator[Merged]:
    """Yields the merged records of a slice in key order, in batches; values use the current schema.

    Args:
        blocks: the blocks of the slice's log files that count, in merge order.
        logs_only: removals are kept, as the records will be merged with a base file.
    """
    combine = combine_of(slice_.partition, logs_only=logs_only)
    for window in _key_ranges([_Source(runs) for runs in _open_sources(storage, slice_, blocks)]):
        yield _merge_range(slice_.partition, window, combine, logs_only=logs_only)


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Entries in ascending key order; keys are unique, except in an Avro block."""

    keys: pa.Array
    """binary."""
    values: pa.Array | None
    """binary, in the current schema; None: the keys are deleted."""
    base: bool = False
    """Whether the entries come from the base file."""

    def split(self, at: int) -> tuple[SortedRun, SortedRun]:
        """Returns the first `at` entries, and the rest."""
        values = self.values
        return (
            SortedRun(self.keys[:at], None if values is None else values[:at], self.base),
            SortedRun(self.keys[at:], None if values is None else values[at:], self.base),
        )


class _Source:
    """One file or log block, read as needed and one run ahead."""

    def __init__(self, runs: Iterator[SortedRun]) -> None:
        self._runs = (run for run in runs if len(run.keys))
        self._held = next(self._runs, None)
        self._ahead = next(self._runs, None)

    @property
    def is_read(self) -> bool:
        """Whether everything has been read."""
        return self._held is None

    @property
    def bound(self) -> bytes | None:
        """The key up to which everything is in memory; None: everything is."""
        if self._held is None or self._ahead is None:
            return None
        key: bytes = self._held.keys[-1].as_py()
        return key

    def take(self, bound: bytes | None) -> SortedRun | None:
        """Returns the entries up to `bound`, which is at most `self.bound`; None: all entries in memory."""
        held = self._held
        if held is None:
            return None
        count = len(held.keys)
        if bound is not None:
            count = pc.less_equal(held.keys, pa.scalar(bound, pa.binary())).true_count
        if count == len(held.keys):
            self._held, self._ahead = self._ahead, next(self._runs, None)
            return held
        taken, self._held = held.split(count)
        return taken if count else None


def _key_ranges(sources: Sequence[_Source]) -> Iterator[list[SortedRun]]:
    """Splits the keys into ascending ranges and yields all versions in each range, in the order of the sources.

    Small files and blocks are in memory as a whole and make a single range.
    """
    while not all(source.is_read for source in sources):
        bound = min((source.bound for source in sources if source.bound is not None), default=None)
        yield [run for source in sources if (run := source.take(bound)) is not None]


def _open_sources(storage: Storage, slice_: FileSlice, blocks: Sequence[LogBlock]) -> Iterator[Iterator[SortedRun]]:
    """Yields the slice's base file and log blocks, oldest first."""
    base = slice_.base_file
    if base is not None:
        file = open_hfile(storage, base.path, base.size)
        yield _hfile_runs(file.batches(), file.schema, f"{storage.uri}/{base.path}", base=True)
    for block in blocks:
        context = f"{storage.uri}/{block.path}"
        schema = block.header.get(HeaderKey.SCHEMA)
        if block.type is BlockType.HFILE:
            file = open_hfile(storage, block.path, block.content_length, offset=block.content_offset)
            yield _hfile_runs(file.batches(), schema, context)
        elif block.type is BlockType.DELETE:
            keys = decode_deletes(read_content(storage, block), context=context).keys.cast(pa.binary()).unique()
            yield iter([SortedRun(keys.take(pc.array_sort_indices(keys)), None)])
        elif block.type is BlockType.AVRO:
            yield iter([_avro_run(read_content(storage, block), schema, context)])
        else:
            raise UnsupportedTableError(
                f"Cannot compact {context}: it holds a block of type {block.type.name}; a metadata table has HFILE, "
                "AVRO, DELETE and COMMAND blocks"
            )


def _hfile_runs(
    batches: Iterator[pa.Array], schema: str | None, context: str, *, base: bool = False
) -> Iterator[SortedRun]:
    if not schema:
        raise CorruptFileError(
            f"Cannot compact {context}: it lacks the schema of its records; rebuild the metadata table"
        )
    current = is_current(schema)
    for entries in batches:
        values = entries.values if current else to_current(entries.values, schema, context)
        yield SortedRun(entries.keys, values, base)


def _avro_run(content: bytes, schema: str | None, context: str) -> SortedRun:
    """Decodes the records of an Avro block, which contain their own keys; Apache Hudi 0.14 and older may write such
    blocks."""
    if not schema:
        raise CorruptFileError(
            f"Cannot compact {context}: an Avro block has no SCHEMA header; rebuild the metadata table"
        )
    avro = parse_schema(schema, context)
    keys: list[pa.Array] = [pa.array([], pa.binary())]
    values: list[pa.Array] = [pa.array([], pa.binary())]
    for batch in decode_log_batches([content], avro, context=context):
        if _KEY not in batch.schema.names:
            raise CorruptFileError(
                f"Cannot compact {context}: the records of an Avro block have no key; rebuild the metadata table"
            )
        converted = convert(batch, avro)
        empty = pa.repeat("", batch.num_rows)
        keys.append(batch.column(_KEY).cast(pa.binary()))
        place = converted.schema.get_field_index(_KEY)
        values.append(encode_values(converted.set_column(place, _KEY, empty), RECORD))
    all_keys = pa.concat_arrays(keys)
    order = pc.array_sort_indices(all_keys)
    return SortedRun(all_keys.take(order), pa.concat_arrays(values).take(order))


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged records of a key range, ascending."""

    keys: pa.Array
    values: pa.Array
    counts: RecordCounts
    erased: pa.Array | None = None
    """Keys that a log deletes, whether or not they were added again; None if there are none."""


def _merge_range(partition: str, runs: Sequence[SortedRun], combine: Combine, *, logs_only: bool = False) -> Merged:
    """Merges the records of a key range.

    `logs_only`: they will be merged with a base file later, so removals stay.
    """
    if len(runs) == 1 and runs[0].base:
        run = runs[0]
        return Merged(run.keys, run.values, RecordCounts(written=len(run.keys)))
    keys = pa.concat_arrays([run.keys for run in runs])
    nothing = pa.array([], pa.binary())
    values = pa.concat_arrays([nothing, *(run.values for run in runs if run.values is not None)])
    lengths = [len(run.keys) for run in runs]
    erased = np.repeat([run.values is None for run in runs], lengths)
    base = np.repeat([run.base for run in runs], lengths)
    row = np.cumsum(~erased) - 1
    # stable: keeps the versions of a key in order
    order = pc.array_sort_indices(keys).to_numpy().astype(np.int64)
    keys, erased, base, row = keys.take(pa.array(order)), erased[order], base[order], row[order]
    starts = _key_starts(keys)
    count = len(keys)
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
    place = np.arange(count)
    forgotten = np.maximum.reduceat(np.where(erased, place, -1), starts)
    standing = np.flatnonzero(place > forgotten[group])
    merged = values.take(pa.array(row[standing]))
    begins = np.flatnonzero(np.diff(group[standing], prepend=-1))
    result, owner = _combine_values(merged, begins, combine), group[standing][begins]
    gone = None if logs_only or not len(result) else removals_of(partition, result)
    if gone is not None:
        result, owner = result.filter(pa.array(~gone)), owner[~gone]
    had_base = np.logical_or.reduceat(base, starts)
    has_log = np.logical_or.reduceat(~base, starts)
    alive = np.zeros(len(starts), np.bool_)
    alive[owner] = True
    counts = RecordCounts(
        written=len(owner),
        updated=int((had_base & has_log & alive).sum()),
        inserted=int((~had_base & alive).sum()),
        deleted=int((had_base & ~alive).sum()),
        log_records=int((~base).sum()),
        log_keys=int(has_log.sum()),
    )
    erased_keys = keys.take(pa.array(starts[forgotten >= 0])) if erased.any() else None
    return Merged(keys.take(pa.array(starts[owner])), result, counts, erased_keys)


def _combine_values(values: pa.Array, begins: npt.NDArray[np.int64], combine: Combine) -> pa.Array:
    """Returns one value for each record; only records with several versions are combined."""
    sizes = np.diff(np.append(begins, len(values)))
    several = np.flatnonzero(sizes > 1)
    if not len(several):
        return values
    rows = np.flatnonzero(np.repeat(sizes > 1, sizes))
    starts = np.append(0, np.cumsum(sizes[several]))[:-1]
    combined = combine(values.take(pa.array(rows)), starts)
    picked = begins.copy()
    picked[several] = len(values) + np.arange(len(several))
    return pa.concat_arrays([values, combined]).take(pa.array(picked))


def _key_starts(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the row at which each distinct key begins; keys ascend."""
    changes = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    return np.append(0, np.flatnonzero(changes) + 1)


def _add_counts(one: RecordCounts, other: RecordCounts) -> RecordCounts:
    return RecordCounts(*(getattr(one, name) + getattr(other, name) for name in RecordCounts.__slots__))
