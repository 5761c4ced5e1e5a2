"""Which blocks of a slice's log files count, and their records as Arrow (format reference, section 7.1).

Source of the rules: `BaseHoodieLogRecordReader.scanInternalV2` (1.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro import decode_log_content
from hudi_py.formats.log import BlockType, Deletes, HeaderKey, LogBlock, decode_deletes, read_blocks, read_content
from hudi_py.merge.base import LogRecords
from hudi_py.merge.ordering import default_mask
from hudi_py.merge.reduce import Versions, combined, delete_marks, find_winners, row_ordering
from hudi_py.merge.settings import MergeSettings
from hudi_py.model.files import LogFile
from hudi_py.schema import RECORD_KEY, SchemaHistory
from hudi_py.storage import Storage


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """The write instants whose log blocks count, as the plan saw them."""

    start: str
    """Whatever is older than this was archived, hence committed; empty: nothing is."""
    completed: frozenset[str]

    def __contains__(self, instant: object) -> bool:
        return isinstance(instant, str) and (instant in self.completed or instant < self.start)


def scan_log(
    storage: Storage,
    files: Sequence[LogFile],
    *,
    committed: CommittedInstants | None,
    as_of: str | None = None,
) -> list[LogBlock]:
    """The data and delete blocks of a file slice which count, oldest first.

    Args:
        files: the slice's log files in order.
        committed: instants whose blocks count; None where the log files themselves were chosen by their instants (table
            versions 8 and 9).
        as_of: blocks of later instants are left out.

    Raises:
        CorruptFileError: bytes which are neither a block nor a torn one.
    """
    blocks: dict[str, list[LogBlock]] = {}
    for file in files:
        for block in read_blocks(storage, file.path, file.size):
            if block.type is BlockType.CORRUPT:
                continue
            if block.type is BlockType.COMMAND:
                # a rollback undoes what its target wrote so far; a later attempt may reuse the instant
                blocks.pop(block.header.get(HeaderKey.TARGET_INSTANT_TIME, ""), None)
                continue
            instant = block.header.get(HeaderKey.INSTANT_TIME)
            if instant is None:
                raise CorruptFileError(f"Log block at byte {block.content_offset} of {block.path} has no INSTANT_TIME")
            if (as_of is not None and instant > as_of) or (committed is not None and instant not in committed):
                continue
            if block.type is BlockType.CDC:
                continue
            blocks.setdefault(instant, []).append(block)
    return _place_log_compactions(blocks)


def _place_log_compactions(blocks: dict[str, list[LogBlock]]) -> list[LogBlock]:
    """Blocks in merge order, a log-compacted block at the place of those it replaces."""
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


def reduce_log(
    storage: Storage,
    blocks: Sequence[LogBlock],
    schema: pa.Schema,
    settings: MergeSettings,
    *,
    history: SchemaHistory | None = None,
) -> LogRecords | None:
    """The records of the blocks, one version for each key, or None when there are none.

    Args:
        blocks: in merge order, from `scan_log`.
        schema: columns to read, with `_hoodie_record_key`, and with the ordering and delete marker columns which the
            table has; each block's records are conformed to it.
        history: how columns of a block become those of `schema`; None: by name.

    Raises:
        UnsupportedTableError: a block holds partial updates or HFile content.
        CorruptFileError, SchemaMismatchError: a block contradicts the format, or the schema.
    """
    tables: list[pa.Table] = []
    row_positions: list[np.ndarray] = []
    deletes: list[tuple[Deletes, int, str]] = []
    start = 0
    # blocks of one writer schema, and of one version of the table's schema where columns are told apart by id
    groups: dict[tuple[str, int], list[tuple[bytes, int, int]]] = {}
    instants: dict[int, str] = {}
    mapping = history or SchemaHistory()
    for block in blocks:
        if block.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true":
            raise UnsupportedTableError(
                f"Log file {block.path} holds partial updates (IS_PARTIAL=true, written by MERGE INTO); supported are "
                "log blocks of whole records: compact the table with Apache Hudi, or read it as read_optimized"
            )
        content = read_content(storage, block)
        if block.type is BlockType.DELETE:
            decoded = decode_deletes(content, context=block.path)
            deletes.append((decoded, start, block.path))
            start += len(decoded.keys)
        elif block.type is BlockType.AVRO:
            count = _record_count(content, block)
            instant = block.header.get(HeaderKey.INSTANT_TIME, "")
            version = mapping.at(instant)
            number = -1 if version is None else version.version_id
            instants.setdefault(number, instant)
            groups.setdefault((_writer_schema(block), number), []).append((content, start, count))
            start += count
        elif block.type is BlockType.PARQUET:
            table = _parquet_rows(content, schema, block, mapping)
            tables.append(table)
            row_positions.append(np.arange(start, start + table.num_rows, dtype=np.int64))
            start += table.num_rows
        else:
            raise UnsupportedTableError(
                f"Log file {block.path} holds a block of type {block.type.name}; supported are AVRO, PARQUET, DELETE "
                "and COMMAND blocks"
            )
    for (writer_schema, number), members in groups.items():
        # blocks of one writer schema are decoded in one call, wherever they stand; positions keep their order
        batch = decode_log_content(
            [content for content, _, _ in members],
            mapping.writer_schema(json.loads(writer_schema)),
            columns=mapping.columns(instants[number], schema.names),
            context=blocks[0].path,
        )
        batch = mapping.conform(batch, instants[number], schema, context=blocks[0].path, repaired=True)
        tables.append(pa.Table.from_batches([batch]))
        row_positions.extend(np.arange(at, at + count, dtype=np.int64) for _, at, count in members)
    if not start:
        return None
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    positions = np.concatenate(row_positions) if row_positions else np.zeros(0, np.int64)
    if len(positions) != rows.num_rows:
        stated = len(positions)
        raise CorruptFileError(f"Log blocks of {blocks[0].path} hold {rows.num_rows} records, they state {stated}")
    return _records(rows, positions, deletes, settings)


def _records(
    rows: pa.Table, positions: np.ndarray, deletes: Sequence[tuple[Deletes, int, str]], settings: MergeSettings
) -> LogRecords:
    count = rows.num_rows
    ordering = row_ordering(rows, settings)
    keys = [combined(rows[RECORD_KEY])] + [entry.keys for entry, _, _ in deletes]
    entry_positions = [np.arange(at, at + len(entry.keys), dtype=np.int64) for entry, at, _ in deletes]
    entry_ordering = [_entry_ordering(entry, ordering, path) for entry, _, path in deletes]
    total = sum(len(part) for part in keys)
    marks = np.ones(total, np.bool_)
    marks[:count] = delete_marks(rows, settings)
    entries = np.arange(total) >= count
    defaults = np.concatenate([default_mask(ordering, count)] + [mask for _, mask in entry_ordering])
    versions = Versions(
        keys=pa.concat_arrays([part.cast(pa.string()) for part in keys]),
        position=np.concatenate([positions, *entry_positions]),
        deletes=marks,
        entries=entries,
        defaults=defaults,
        ordering=tuple(
            pa.concat_arrays([own] + [columns[at] for columns, _ in entry_ordering]) for at, own in enumerate(ordering)
        ),
    )
    winners = find_winners(versions, settings)
    live = np.flatnonzero(~winners.deletes)
    slots = np.full(len(winners.keys), -1, np.int64)
    slots[live] = np.arange(len(live))
    return LogRecords(winners, rows.take(pa.array(winners.versions[live])), slots)


def _entry_ordering(entry: Deletes, like: Sequence[pa.Array], path: str) -> tuple[tuple[pa.Array, ...], np.ndarray]:
    """A delete block's ordering values as the columns' types, and which entries have the default value.

    A value of another type than the column's counts as the default: Java lets such a delete win over every data row
    (`OrderingValues.isSameClass`) and fails where it would have to compare it further.
    """
    count = len(entry.keys)
    defaults = np.array(entry.is_default, np.bool_)
    nulls = tuple(pa.nulls(count, column.type) for column in like)
    if not like or entry.ordering is None or defaults.all():
        return nulls, np.ones(count, np.bool_) if entry.ordering is None else defaults
    if len(like) > 1:
        parts = _array_parts(entry.ordering, len(like))
        if parts is None:
            raise UnsupportedTableError(
                f"Delete block of {path} orders by {entry.ordering.type}, the table by {len(like)} fields; supported "
                "are delete blocks with one value for each ordering field"
            )
    else:
        parts = [entry.ordering]
    converted = [_as_column(part, column.type) for part, column in zip(parts, like, strict=True)]
    if any(part is None for part in converted):
        return nulls, np.ones(count, np.bool_)
    return tuple(part for part in converted if part is not None), defaults


def _array_parts(ordering: pa.Array, fields: int) -> list[pa.Array] | None:
    """The members of ordering values of several fields."""
    if pa.types.is_struct(ordering.type) and ordering.type.num_fields == fields:
        return list(ordering.flatten())
    return None


def _as_column(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Ordering values of a delete block as an ordering column's type; None where the two do not compare in Java."""
    source = values.type
    if source.equals(kind):
        return values
    if pa.types.is_timestamp(kind):
        if pa.types.is_timestamp(source):
            values = values.cast(pa.timestamp("us", source.tz)).view(pa.int64())
        if not pa.types.is_integer(values.type):
            return None
        # timestamps are longs of microseconds in Java's rows
        micros = values.cast(pa.int64()).view(pa.timestamp("us", kind.tz))
        return micros.cast(kind, safe=False)
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).view(kind) if pa.types.is_integer(source) else None
    numeric = pa.types.is_integer(source) or pa.types.is_floating(source)
    if numeric and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return values.cast(kind, safe=False)
    if pa.types.is_decimal(source) and pa.types.is_decimal(kind):
        return values.cast(kind, safe=False)
    if _is_text(source) and (_is_text(kind) or pa.types.is_binary(kind)):
        return values.cast(kind)
    if pa.types.is_binary(source) and (_is_text(kind) or pa.types.is_binary(kind)):
        return values.cast(kind)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _record_count(content: bytes, block: LogBlock) -> int:
    if len(content) < 8:
        raise CorruptFileError(f"Avro block of {block.path} at byte {block.content_offset} has {len(content)} bytes")
    return int.from_bytes(content[4:8], "big", signed=True)


def _writer_schema(block: LogBlock) -> str:
    schema = block.header.get(HeaderKey.SCHEMA)
    if schema is None:
        raise CorruptFileError(f"Data block at byte {block.content_offset} of {block.path} has no SCHEMA")
    return schema


def _parquet_rows(content: bytes, schema: pa.Schema, block: LogBlock, history: SchemaHistory) -> pa.Table:
    instant = block.header.get(HeaderKey.INSTANT_TIME, "")
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        names = [name for name in history.columns(instant, schema.names) if name in set(file.schema_arrow.names)]
        table = file.read(columns=names, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(f"Parquet block at byte {block.content_offset} of {block.path}: {error}") from error
    batches = [history.conform(batch, instant, schema, context=block.path) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)
