"""Log blocks and their encoding (`HoodieLogFormatWriter`, `HoodieLogBlock` 1.2.0).

All integers are big-endian:

```
6   magic "#HUDI#"
8   size            bytes that follow this field
4   log format version, 1
4   block type      ordinal of BlockType
..  header map      int32 count, count x {int32 ordinal of HeaderKey, int32 length, UTF-8 bytes}
8   content length
..  content
..  footer map      same form, always written empty
8   total           size + 6, for readers that start at the end
```
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from hudi_py.formats.avro import encode_log_pieces
from hudi_py.formats.base.parquet_writer import encode_parquet

MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1
PREFIX_LENGTH = len(MAGIC) + 8
"""Length of the magic and the size field."""
TRAILER_LENGTH = 8
ROLLBACK_COMMAND = "0"
"""Value of `COMMAND_BLOCK_TYPE` for the only command there is, `ROLLBACK_BLOCK`."""


class BlockType(IntEnum):
    """Content of a block; the value is the ordinal on disk (`HoodieLogBlockType`)."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    """Never written: represents bytes that a reader skips."""
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6

    @property
    def is_data(self) -> bool:
        """Returns whether the block holds table records (`HoodieLogBlockType.isDataBlock` without change records)."""
        return self in (BlockType.AVRO, BlockType.HFILE, BlockType.PARQUET)


class HeaderKey(IntEnum):
    """Keys of a block's header; the value is the ordinal on disk (`HeaderMetadataType`). Java fails on unknown ones."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    """Only in table version 8 and later."""
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8
    """Only in table version 8 and later."""


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block of a log file: its header and the position of its content."""

    type: BlockType
    header: Mapping[HeaderKey, str]
    """Empty for a corrupt block."""
    content_offset: int
    """Bytes from the start of the file. For a corrupt block, the position after its magic."""
    content_length: int
    path: str
    """The log file, relative to the storage's root."""

    @property
    def instant_time(self) -> str | None:
        """Returns the requested time of the instant that wrote the block; None for corrupt and archive blocks."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def is_partial(self) -> bool:
        """Returns whether the block's records have only some of the columns (partial updates)."""
        return self.header.get(HeaderKey.IS_PARTIAL, "false").lower() == "true"

    @property
    def is_rollback(self) -> bool:
        """Returns whether the block undoes earlier blocks of `TARGET_INSTANT_TIME`."""
        return self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_COMMAND


def encode_block(block_type: BlockType, header: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """Encodes a complete block in one piece."""
    return b"".join(encode_block_pieces(block_type, header, [content]))


def encode_block_pieces(
    block_type: BlockType, header: Mapping[HeaderKey, str], content: Sequence[bytes | pa.Buffer]
) -> list[bytes | pa.Buffer]:
    """Encodes a complete block in pieces, without copying its content. Header entries are in ascending order of their
    ordinals (Java's order is arbitrary)."""
    parts: list[bytes | pa.Buffer] = [struct.pack(">iii", LOG_FORMAT_VERSION, int(block_type), len(header))]
    for key in sorted(header):
        value = header[key].encode()
        parts.append(struct.pack(">ii", int(key), len(value)))
        parts.append(value)
    parts.append(struct.pack(">q", sum(map(len, content))))
    parts += content
    parts.append(struct.pack(">i", 0))
    size = sum(map(len, parts)) + TRAILER_LENGTH
    parts.append(struct.pack(">q", size + len(MAGIC)))
    return [MAGIC, struct.pack(">q", size), *parts]


def encode_rollback_block(instant_time: str, target_instant_time: str) -> bytes:
    """Encodes the block with which the rollback `instant_time` undoes the target's earlier blocks (table version 6)."""
    return encode_block(
        BlockType.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant_time,
            HeaderKey.TARGET_INSTANT_TIME: target_instant_time,
            HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
        },
        b"",
    )


def encode_data_block(
    rows: pa.Table, avro: dict[str, Any], header: Mapping[HeaderKey, str], *, parquet_codec: str | None = None
) -> list[bytes | pa.Buffer]:
    """Encodes a complete data block, in pieces.

    Args:
        rows: with all columns of `avro`.
        avro: the schema of the records, which the block's header gets.
        header: other entries of the header.
        parquet_codec: of a Parquet block; None: an Avro block.

    Raises:
        SchemaMismatchError: the rows do not fit the schema.
    """
    text = json.dumps(avro, separators=(",", ":"), ensure_ascii=False)
    whole = {**header, HeaderKey.SCHEMA: text}
    if parquet_codec is None:
        return encode_block_pieces(BlockType.AVRO, whole, encode_log_pieces(rows, avro))
    return encode_block_pieces(BlockType.PARQUET, whole, [encode_parquet(rows, text, parquet_codec)])
