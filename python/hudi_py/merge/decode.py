"""Reads and decodes log blocks as versions of records, a portion at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro import decode_log_content, decode_values
from hudi_py.formats.base.parquet import block_batches
from hudi_py.formats.hfile import read_hfile
from hudi_py.formats.log import BlockType, HeaderKey, LogBlock, read_content
from hudi_py.merge.damage import check_column_names, checked_deletes
from hudi_py.merge.keys import with_keys
from hudi_py.merge.reduce import Mask, Rows
from hudi_py.merge.settings import MergeSettings
from hudi_py.merge.versions import LogVersions, entry_schema, entry_table
from hudi_py.schema import RECORD_KEY, SchemaHistory
from hudi_py.storage import Storage

PORTION_BYTES = 64 << 20
"""Bytes of log block contents decoded at once."""

_DECODED = (BlockType.AVRO, BlockType.PARQUET, BlockType.HFILE, BlockType.DELETE)


def check_blocks(blocks: Sequence[LogBlock], settings: MergeSettings) -> None:
    """Checks that every block can be read.

    Raises:
        UnsupportedTableError: a block has a type without records, or has partial updates that the table's merge mode
            does not support.
        CorruptFileError: a data block has no schema.
    """
    for block in blocks:
        if block.type not in _DECODED:
            raise UnsupportedTableError(
                f"Log file {block.path} holds a block of type {block.type.name}; supported: AVRO, PARQUET, HFILE, "
                "DELETE and COMMAND blocks"
            )
        if block.type in (BlockType.AVRO, BlockType.HFILE):
            _writer_schema(block)
        if block.is_partial and (settings.payload is not None or settings.merger is not None):
            shown = settings.payload.value if settings.payload else settings.merger
            raise UnsupportedTableError(
                f"Log file {block.path} holds partial updates (IS_PARTIAL=true) of a table that merges by {shown}; "
                "supported: partial updates in COMMIT_TIME_ORDERING and EVENT_TIME_ORDERING: compact the table with "
                "Apache Hudi, or read it as read_optimized"
            )


def read_versions(
    storage: Storage,
    blocks: Sequence[LogBlock],
    schema: pa.Schema,
    settings: MergeSettings,
    *,
    history: SchemaHistory | None = None,
    portion_bytes: int = PORTION_BYTES,
) -> Iterator[LogVersions]:
    """Yields the versions in the blocks, in non-empty portions, oldest first.

    Args:
        blocks: in merge order, see `scan_log`; `check_blocks` has accepted them.
        schema: columns to read, including `_hoodie_record_key`.
        history: maps columns of a block to those of `schema`; None: by name.
        portion_bytes: maximum bytes of block contents held at once, unless a single block has more.

    Raises:
        CorruptFileError, SchemaMismatchError: a block contradicts the format, or the schema.
    """
    history = history or SchemaHistory()
    by_schema = {_schema_key(block, history): block for block in reversed(blocks) if block.type is BlockType.AVRO}
    for (writer_schema, _, is_partial), block in by_schema.items():
        if not is_partial:
            check_column_names(storage, block, writer_schema, history.columns(_block_instant(block), schema.names))
    partial = next((block for block in blocks if block.is_partial), None)
    start = 0
    partial_from: int | None = None
    portion = _Portion(schema, settings, history)
    for block in blocks:
        if portion.size and portion.size + block.content_length > portion_bytes:
            yield from portion.versions(partial_from)
            portion = _Portion(schema, settings, history)
        if block is partial:
            partial_from = start
        start += portion.add(read_content(storage, block), block, start)
    yield from portion.versions(partial_from)


@dataclass(slots=True)
class _BlockGroup:
    """Avro blocks that one call decodes."""

    block: LogBlock
    contents: list[bytes] = field(default_factory=list)
    places: list[Rows] = field(default_factory=list)


class _Portion:
    """Consecutive blocks of a log, decoded together."""

    def __init__(self, schema: pa.Schema, settings: MergeSettings, history: SchemaHistory) -> None:
        self.size = 0
        self._schema = schema
        self._settings = settings
        self._history = history
        self._tables: list[pa.Table] = []
        self._positions: list[Rows] = []
        self._lacking: list[frozenset[str]] = []
        self._entries: list[pa.Table] = []
        self._counts: list[int] = []
        self._groups: dict[tuple[str, int, bool], _BlockGroup] = {}
        """By `_schema_key`."""

    def add(self, content: bytes, block: LogBlock, start: int) -> int:
        """Adds a block whose first record has position `start`; returns its number of records."""
        self.size += len(content)
        count = self._add(content, block, start)
        self._counts.append(count)
        return count

    def _add(self, content: bytes, block: LogBlock, start: int) -> int:
        if block.type is BlockType.DELETE:
            deletes = checked_deletes(content, block.path)
            self._entries.append(
                entry_table(deletes, start, self._schema, self._settings, _block_instant(block), block.path)
            )
            return len(deletes.keys)
        if block.type is BlockType.AVRO:
            count = _record_count(content, block)
            group = self._groups.setdefault(_schema_key(block, self._history), _BlockGroup(block))
            group.contents.append(content)
            group.places.append(np.arange(start, start + count, dtype=np.int64))
            return count
        if block.type is BlockType.HFILE:
            batches = self._hfile_batches(content, block)
        else:
            wanted = self._history.columns(_block_instant(block), self._schema.names)
            batches = block_batches(content, wanted, block.path, block.content_offset)
        count = 0
        for batch in batches:
            self._keep(batch, block, np.arange(start + count, start + count + batch.num_rows, dtype=np.int64))
            count += batch.num_rows
        return count

    def versions(self, partial_from: int | None) -> Iterator[LogVersions]:
        """Yields the decoded versions as one item, or nothing."""
        for (writer_schema, _, _), group in self._groups.items():
            batch = decode_log_content(
                group.contents,
                self._history.writer_schema(_parsed_schema(writer_schema, group.block)),
                columns=self._history.columns(_block_instant(group.block), self._schema.names),
                context=group.block.path,
            )
            position = np.concatenate(group.places)
            if len(position) != batch.num_rows:
                raise CorruptFileError(
                    f"Avro blocks of {group.block.path} hold {batch.num_rows} records, but declare {len(position)}"
                )
            self._keep(batch, group.block, position, repaired=True)
        self._groups = {}
        if not self._tables and not self._entries:
            return
        rows = pa.concat_tables(self._tables) if self._tables else self._schema.empty_table()
        empty = entry_schema(self._schema, self._settings).empty_table()
        entries = pa.concat_tables(self._entries) if self._entries else empty
        position = np.concatenate(self._positions) if self._positions else np.zeros(0, np.int64)
        result = LogVersions(rows, position, entries, self._absent(), partial_from, self.size, tuple(self._counts))
        if len(result):
            yield result

    def _keep(self, batch: pa.RecordBatch, block: LogBlock, position: Rows, *, repaired: bool = False) -> None:
        lacking: frozenset[str] = frozenset()
        if block.is_partial:
            names = set(self._history.columns(_block_instant(block), self._schema.names))
            lacking = frozenset(names - set(batch.schema.names) - {RECORD_KEY})
        whole = self._history.conform(batch, _block_instant(block), self._schema, context=block.path, repaired=repaired)
        self._tables.append(pa.Table.from_batches([with_keys(whole, self._settings.key_fields)]))
        self._positions.append(position)
        self._lacking.append(lacking)

    def _absent(self) -> dict[str, Mask]:
        names = {name for lacking in self._lacking for name in lacking}
        counts = [len(position) for position in self._positions]
        return {name: np.repeat([name in lacking for lacking in self._lacking], counts) for name in names}

    def _hfile_batches(self, content: bytes, block: LogBlock) -> Iterator[pa.RecordBatch]:
        # Apache Hudi 0.x also wrote HFile blocks to data tables; 1.x reads them in the metadata table only
        entries = read_hfile(content, context=block.path).scan()
        schema = self._history.writer_schema(_parsed_schema(_writer_schema(block), block))
        columns = self._history.columns(_block_instant(block), self._schema.names)
        return decode_values(entries.values, schema, columns, context=block.path)


def _block_instant(block: LogBlock) -> str:
    return block.header.get(HeaderKey.INSTANT_TIME, "")


def _record_count(content: bytes, block: LogBlock) -> int:
    if len(content) < 8:
        raise CorruptFileError(f"Avro block of {block.path} at byte {block.content_offset} has {len(content)} bytes")
    return int.from_bytes(content[4:8], "big", signed=True)


def _parsed_schema(schema: str, block: LogBlock) -> Any:
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"Data block at byte {block.content_offset} of {block.path} has a SCHEMA that is not JSON: {error}"
        ) from None


def _schema_key(block: LogBlock, history: SchemaHistory) -> tuple[str, int, bool]:
    """Returns what blocks must share for one call to decode them: the writer schema, the version of the table's schema
    if columns have ids, and whether they hold partial updates."""
    version = history.at(_block_instant(block))
    return _writer_schema(block), -1 if version is None else version.version_id, block.is_partial


def _writer_schema(block: LogBlock) -> str:
    schema = block.header.get(HeaderKey.SCHEMA)
    if schema is None:
        raise CorruptFileError(f"Data block at byte {block.content_offset} of {block.path} has no SCHEMA")
    return schema
