"""Appends to a file group of a merge-on-read table: one log file with data and delete blocks (`HoodieAppendHandle`,
Apache Hudi 1.2.0)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.errors import SchemaMismatchError
from hudi_py.file_stats.keys import log_file_changes, written_log_changes
from hudi_py.file_stats.ranges import ColumnRanges, column_ranges
from hudi_py.file_stats.sidecar import Sidecar
from hudi_py.formats.arrays import combined
from hudi_py.formats.log import BlockType, HeaderKey, encode_block, encode_data_block, encode_deletes, encode_positions
from hudi_py.merge import delete_marks
from hudi_py.merge.ordering import has_default_zero
from hudi_py.merge.reduce import Mask, row_ordering
from hudi_py.model.commit import WriteStat, WrittenFile
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.model.names import parse_log_file_name
from hudi_py.schema import RECORD_KEY
from hudi_py.transaction.publication import FilePermit
from hudi_py.write.context import WriteContext
from hudi_py.write.rows import ChangedSlice, RowNumbers


def append_log(
    context: WriteContext,
    slice_: FileSlice,
    changed: ChangedSlice,
    *,
    next_version: int = 1,
) -> WriteStat:
    """Writes a log file: a data block, a delete block for rows with a delete marker, and one for deleted keys.

    If updates set some columns (`WriteSettings.updated_columns`), the data block has only these and `IS_PARTIAL`, and
    readers take the others from older versions of the row. New rows then have a block of their own.

    Args:
        slice_: the slice the log belongs to: its base instant names the log in table version 6.
        changed: the slice as readers see it, with what a pending compaction compacts, and its rows:
            `_hoodie_record_key`, then the table's columns. Deleted keys have the ordering value `IntWrapper` 0, as in
            Java's delete operation. With positions, records are written in their order, and their blocks say so; only
            where there are either rows or deleted keys, and no new rows.
        next_version: table version 6: the first free version of a log of this slice.

    Raises:
        SchemaMismatchError: a row has no ordering value, and Apache Hudi could not read the table with it.
    """
    started = time.monotonic()
    transaction = context.transaction
    records = _Records.of(context, changed)
    rows, new, deleted = records.rows, records.new, records.deleted
    _check_ordering(context, rows, records.deletes)
    if new is not None:
        _check_ordering(context, new, np.zeros(new.num_rows, np.bool_))
    permit = _permit_log(context, slice_, next_version)
    parsed = parse_log_file_name(permit.path.rpartition("/")[2])
    size = 0
    ranges: list[ColumnRanges] = []
    with transaction.publication.writing(permit) as sink:
        for piece in _encode_blocks(context, slice_, records, ranges):
            size += sink.write(piece)
    if context.sidecar is not None and parsed is not None:
        log = LogFile(slice_.partition, parsed, size)
        context.action.keep_sidecar(_log_sidecar(context, changed.slice_, log, records, ranges), permit.path)
    context.progress.wrote(size)
    inserts = 0 if new is None else new.num_rows
    marked = int(records.deletes.sum())
    written = WrittenFile(
        slice_.file_id,
        permit.path,
        slice_.partition,
        size,
        rows=rows.num_rows - marked + inserts,
        inserts=inserts,
        updates=rows.num_rows - marked,
        deletes=marked + (0 if deleted is None else len(deleted)),
        took_ms=int((time.monotonic() - started) * 1000),
    )
    if transaction.config.logs_named_by_instant:
        return WriteStat.of_log_file(written, transaction.instant)
    return WriteStat.of_log_file(written, slice_.base_instant, slice_before=slice_)


@dataclass(frozen=True, slots=True)
class _Records:
    """The content of one log, in its order."""

    rows: pa.Table
    deletes: Mask
    """The rows with a delete marker."""
    new: pa.Table | None
    deleted: pa.StringArray | None
    places: _Places | None

    @classmethod
    def of(cls, context: WriteContext, changed: ChangedSlice) -> _Records:
        rows, deleted, base, positions = changed.updates, changed.deleted, changed.slice_.base_file, changed.positions
        places: _Places | None = None
        if positions is not None and base is not None:
            order = np.argsort(positions)
            places = _Places(base.instant, positions[order])
            if rows.num_rows:
                rows = rows.take(pa.array(order))
            elif deleted is not None:
                deleted = deleted.take(pa.array(order))
        return cls(rows, delete_marks(rows, context.settings.merge), changed.new, deleted, places)


def _permit_log(context: WriteContext, slice_: FileSlice, next_version: int) -> FilePermit:
    transaction, group = context.transaction, (slice_.partition, slice_.file_id)
    new_group = slice_.base_file is None  # it may be the first log of its group, and that of its partition
    if transaction.config.logs_named_by_instant:
        return transaction.publication.permit_log_file(*group, str(context.task), new_group=new_group)
    return transaction.publication.permit_log_file(
        *group,
        _token_of_its_own(context),
        base_instant=slice_.base_instant,
        version=next_version,
        new_group=new_group,
    )


def _encode_blocks(
    context: WriteContext, slice_: FileSlice, records: _Records, ranges: list[ColumnRanges]
) -> Iterator[bytes | pa.Buffer]:
    """Yields the encoded blocks in the order of the file, in pieces, and adds the ranges of data blocks to `ranges`."""
    rows, deletes, places = records.rows, records.deletes, records.places
    if records.new is not None:
        yield from _data_blocks(context, slice_, records.new, ranges, None, partial=False)
    marked = int(deletes.sum())
    if marked < rows.num_rows:
        kept = rows.filter(pa.array(~deletes)) if marked else rows
        held = None if places is None else places.of(~deletes)
        yield from _data_blocks(context, slice_, kept, ranges, held, partial=context.partial_avro is not None)
    if marked:
        gone = rows.filter(pa.array(deletes)) if marked < rows.num_rows else rows
        held = None if places is None else places.of(deletes)
        ordering = row_ordering(gone, context.settings.merge)
        yield _delete_block(context, slice_, combined(gone[RECORD_KEY]), held, ordering)
    if records.deleted is not None and len(records.deleted):
        yield _delete_block(context, slice_, records.deleted, places)


def _log_sidecar(
    context: WriteContext, before: FileSlice, log: LogFile, records: _Records, ranges: Sequence[ColumnRanges]
) -> Sidecar:
    """Returns the sidecar of the log for the metadata table. `before`: the slice without the log."""
    sidecar = Sidecar()
    if context.tracks_keys:
        sidecar.begin_keys()
        if records.rows.num_rows:
            _note_keys(context, sidecar, before, log, combined(records.rows[RECORD_KEY]), records.deletes)
        if records.new is not None:
            sidecar.add_keys(combined(records.new[RECORD_KEY]))
        if records.deleted is not None and len(records.deleted):
            _note_keys(context, sidecar, before, log, records.deleted)
    if context.range_columns:
        whole = ColumnRanges.merged(ranges) if ranges else column_ranges((), context.range_columns)
        sidecar.set_ranges(whole.rows)
    return sidecar


def _check_ordering(context: WriteContext, rows: pa.Table, deletes: Mask) -> None:
    """Refuses null ordering values. Apache Hudi 1.2.0 reads a null in a log as the integer 0, and its queries fail to
    compare that with a Long, for example. Copy-on-write tables are not affected: our base files keep no trace of it."""
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
    """Returns a write token that only this write uses, for a log that is not named by its own instant.

    Apache Hudi reuses the token of a slice's newest committed log. It would choose the name of our pending or failed
    log, and commit that file, on local file systems under a path that it cannot read afterwards.
    """
    return str(replace(context.task, stage=int(context.transaction.instant[-9:])))  # hour to millisecond: a Java int


def _note_keys(
    context: WriteContext,
    sidecar: Sidecar,
    slice_: FileSlice,
    log: LogFile,
    keys: pa.StringArray,
    deletes: Mask | None = None,
) -> None:
    """Records the changes of the log to some keys; `deletes` None: it deletes all of them, whatever came before."""
    index, reader = context.settings.index, context.key_reader()
    if index.buckets is not None:  # the keys have not been looked up
        changes = log_file_changes(reader, slice_, log, keys.unique())
    else:
        known_live = index.uses_record_index(context.transaction.config)
        changes = written_log_changes(reader, slice_, log, keys, deletes, known_live=known_live)
    sidecar.add_keys(changes.added)
    sidecar.add_keys(changes.removed, removed=True)


@dataclass(frozen=True, slots=True)
class _Places:
    """The positions of records' keys in a base file (`HoodieLogBlock.addRecordPositionsIfRequired`, 1.2.0)."""

    base_instant: str
    rows: RowNumbers
    """Ascending."""

    def of(self, records: Mask | slice) -> _Places:
        """Returns the positions of some of the records."""
        return _Places(self.base_instant, self.rows[records])

    def header(self) -> dict[HeaderKey, str]:
        return {
            HeaderKey.RECORD_POSITIONS: encode_positions(self.rows),
            HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: self.base_instant,
        }


def _block_header(context: WriteContext) -> dict[HeaderKey, str]:
    return {HeaderKey.INSTANT_TIME: str(context.transaction.instant), HeaderKey.SCHEMA: context.log_avro_json}


def _data_blocks(
    context: WriteContext,
    slice_: FileSlice,
    rows: pa.Table,
    ranges: list[ColumnRanges],
    places: _Places | None,
    *,
    partial: bool,
) -> Iterator[bytes | pa.Buffer]:
    """Yields the pieces of data blocks, each of about the limit at most. Appends the ranges of their columns to
    `ranges`, if wanted."""
    settings, header, avro = context.settings, _block_header(context), context.log_avro
    if partial and context.partial_avro is not None:
        avro = context.partial_avro
        header[HeaderKey.IS_PARTIAL] = "true"
    names = [field["name"] for field in avro["fields"]]
    codec = settings.get(write_config.COMPRESSION_CODEC) if settings.parquet_logs else None
    limit = settings.get(write_config.LOG_BLOCK_MAX_SIZE)
    at_once = max(1, int(rows.num_rows * limit / max(rows.nbytes, 1))) if rows.nbytes > limit else rows.num_rows
    for start in range(0, rows.num_rows, at_once):
        first = start
        for batch in rows.slice(start, at_once).combine_chunks().to_batches():
            own = header
            if places is not None:
                own = {**header, **places.of(slice(first, first + batch.num_rows)).header()}
                first += batch.num_rows
            stored = context.logged(batch, slice_.partition, slice_.file_id)
            if context.range_columns:
                ranges.append(column_ranges(stored, context.range_columns))
            table = pa.Table.from_batches([stored.select(names)])
            yield from encode_data_block(table, avro, own, parquet_codec=codec)


def _delete_block(
    context: WriteContext,
    slice_: FileSlice,
    keys: pa.StringArray,
    places: _Places | None,
    columns: Sequence[pa.Array] = (),
) -> bytes:
    """Encodes a delete block. `columns`: the ordering values; none: the deletes count, whatever came before."""
    partitions = pa.repeat(pa.scalar(slice_.partition, pa.string()), len(keys))
    ordering: pa.Array | None = None
    if len(columns) == 1:
        ordering = columns[0]
    elif columns:
        ordering = pa.StructArray.from_arrays(columns, names=list(context.settings.merge.ordering_fields))
    header = _block_header(context) if places is None else {**_block_header(context), **places.header()}
    return encode_block(BlockType.DELETE, header, encode_deletes(keys, partitions, ordering))
