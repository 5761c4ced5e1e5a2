"""Appending to a file group of a merge-on-read table: one log file with data and delete blocks (`HoodieAppendHandle`,
Apache Hudi 1.2.0)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.file_stats.keys import written_log_changes
from hudi_py.file_stats.ranges import ColumnRanges, column_ranges
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.formats.arrays import combined
from hudi_py.formats.avro import encode_log_content
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_deletes
from hudi_py.merge import delete_marks
from hudi_py.merge.ordering import has_default_zero
from hudi_py.merge.reduce import Mask, row_ordering
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.model.names import parse_log_file_name
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.index import RECORD_INDEXES

_MERGED_LOGS = 8
"""First table version whose log files are named by their own instant."""


def append_log(
    context: WriteContext,
    slice_: FileSlice,
    rows: pa.Table,
    *,
    unconditional_delete: bool = False,
    gone: pa.Array | None = None,
    merged: FileSlice | None = None,
    next_version: int = 1,
) -> WriteStat:
    """Writes a log file with the rows' data block, then a delete block for those which are deletes.

    Args:
        slice_: the slice the log belongs to: its base instant names the log in table version 6.
        rows: `_hoodie_record_key`, then the table's columns; at least one, or `gone`. With `unconditional_delete` the
            key alone counts: every row deletes its key whatever came before (`IntWrapper` 0, as Java's delete
            operation).
        gone: keys (string) which no row has, and which are deleted in that way.
        merged: the slice as readers have it, where that is another one: with what a pending compaction compacts.
        next_version: table version 6: the first free version of a log of this slice.

    Raises:
        SchemaMismatchError: a row has no ordering value, and Apache Hudi could not read the table with it.
    """
    started = time.monotonic()
    transaction, merge = context.transaction, context.settings.merge
    own_name = transaction.config.version >= _MERGED_LOGS
    if unconditional_delete:
        deletes = np.ones(rows.num_rows, np.bool_)
    else:
        deletes = delete_marks(rows, merge)
        _check_ordering(context, rows, deletes)
    if own_name:
        permit = transaction.publication.permit_log_file(slice_.partition, slice_.file_id, str(context.task))
    else:
        permit = transaction.publication.permit_log_file(
            slice_.partition,
            slice_.file_id,
            _token_of_its_own(context),
            base_instant=slice_.base_instant,
            version=next_version,
        )
    name = permit.path.rpartition("/")[2]
    parsed = parse_log_file_name(name)
    size = 0
    num_deletes = int(deletes.sum())
    ranges: list[ColumnRanges] = []
    with transaction.publication.writing(permit) as sink:
        if num_deletes < rows.num_rows:
            kept = rows.filter(pa.array(~deletes)) if num_deletes else rows
            for block in _data_blocks(context, slice_, kept, ranges):
                sink.write(block)
                size += len(block)
        if num_deletes:
            removed = rows.filter(pa.array(deletes)) if num_deletes < rows.num_rows else rows
            block = _delete_block(context, slice_, removed, unconditional_delete)
            sink.write(block)
            size += len(block)
        if gone is not None and len(gone):
            block = _delete_block(context, slice_, pa.table([gone], names=[RECORD_KEY]), True)
            sink.write(block)
            size += len(block)
            num_deletes += len(gone)
    if context.sidecar is not None and parsed is not None:
        sidecar = Sidecar()
        if context.notes_keys:
            log = LogFile(slice_.partition, parsed, size)
            if rows.num_rows:
                _note_keys(context, sidecar, merged or slice_, log, rows, deletes, unconditional_delete)
            sidecar.add_keys(pa.array([], pa.string()) if gone is None else gone, removed=True)
        if context.range_columns:
            told = ColumnRanges.merged(ranges) if ranges else column_ranges((), context.range_columns)
            sidecar.set_ranges(told.rows)
        context.save(sidecar, name)
    context.progress.wrote(size)
    earlier = () if own_name else tuple(str(log.name) for log in slice_.log_files)
    base = slice_.base_file
    return WriteStat(
        file_id=slice_.file_id,
        path=permit.path,
        partition_path=slice_.partition,
        prev_commit=transaction.instant if own_name else slice_.base_instant,
        num_writes=rows.num_rows - int(deletes.sum()),
        num_updates=rows.num_rows - int(deletes.sum()),
        num_deletes=num_deletes,
        total_write_bytes=size,
        file_size=size,
        log_version=parsed.version if parsed else next_version,
        log_offset=0,
        base_file="" if own_name or base is None else str(base.name),
        log_files=(*earlier, name),
        upsert_time_ms=int((time.monotonic() - started) * 1000),
    )


def _check_ordering(context: WriteContext, rows: pa.Table, deletes: Mask) -> None:
    """A null in a log is the integer 0 to Apache Hudi 1.2.0, whose queries fail where a Long, say, is compared with it.
    Copy on write has no such harm: its own upserts fail there, and ours leave no trace of the null."""
    merge = context.settings.merge
    if not merge.by_event_time:
        return
    for name, values in zip(merge.ordering_fields, row_ordering(rows, merge), strict=True):
        missing = int((values.is_null().to_numpy(zero_copy_only=False) & ~deletes).sum()) if values.null_count else 0
        if missing and not has_default_zero(values.type):
            raise SchemaMismatchError(
                f"Ordering column '{name}' is null in {missing} of {rows.num_rows} rows that update a merge-on-read "
                f"file group: Apache Hudi cannot compare a null with values of type {values.type}, so that its queries "
                "of the table would fail; fill the column or leave the rows out"
            )


def _token_of_its_own(context: WriteContext) -> str:
    """A write token that no other write has, for a log which is not named by its own instant.

    Apache Hudi takes over the token of a slice's newest committed log. A log of a write that is under way, or failed,
    would have the very name it chooses; it would note that file in its commit, and on local file systems by a path
    which it cannot read afterwards.
    """
    return str(replace(context.task, stage=int(context.transaction.instant[-9:])))  # hour to millisecond: a Java int


def _note_keys(
    context: WriteContext,
    sidecar: Sidecar,
    slice_: FileSlice,
    log: LogFile,
    rows: pa.Table,
    deletes: Mask,
    unconditional: bool,
) -> None:
    changes = written_log_changes(
        context.key_reader(),
        slice_,
        log,
        combined(rows[RECORD_KEY]),
        deletes,
        unconditional=unconditional,
        known_live=context.settings.index.type in RECORD_INDEXES,
    )
    sidecar.add_keys(changes.added)
    sidecar.add_keys(changes.removed, removed=True)


def _header(context: WriteContext) -> dict[HeaderKey, str]:
    return {HeaderKey.INSTANT_TIME: context.transaction.instant, HeaderKey.SCHEMA: context.file_avro_json}


def _data_blocks(
    context: WriteContext, slice_: FileSlice, rows: pa.Table, ranges: list[ColumnRanges]
) -> Iterator[bytes]:
    """Avro blocks, none much larger than the limit. The ranges of their columns, where wanted, go to `ranges`."""
    limit = context.settings.log_block_bytes
    at_once = max(1, int(rows.num_rows * limit / max(rows.nbytes, 1))) if rows.nbytes > limit else rows.num_rows
    for start in range(0, rows.num_rows, at_once):
        for batch in rows.slice(start, at_once).combine_chunks().to_batches():
            # records of a log name the file group, not a file
            stored = context.stamped(batch, slice_.partition, slice_.file_id)
            if context.range_columns:
                ranges.append(column_ranges(stored, context.range_columns))
            content = encode_log_content(stored, context.file_avro)
            yield encode_block(BlockType.AVRO, _header(context), content)


def _delete_block(context: WriteContext, slice_: FileSlice, rows: pa.Table, unconditional: bool) -> bytes:
    keys = combined(rows[RECORD_KEY])
    partitions = pa.repeat(pa.scalar(slice_.partition, pa.string()), len(keys))
    columns = () if unconditional else row_ordering(rows, context.settings.merge)
    ordering: pa.Array | None = None
    if len(columns) == 1:
        ordering = columns[0]
    elif columns:
        ordering = pa.StructArray.from_arrays(columns, names=list(context.settings.merge.ordering_fields))
    return encode_block(BlockType.DELETE, _header(context), encode_deletes(keys, partitions, ordering))
