"""Reads the blocks of a log file, with Java's checks (`HoodieLogFileReader` 1.2.0).

Reads only headers, not contents. Memory is limited to one window plus one header, whatever the file's size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.base.origin import check_first_record
from hudi_py.formats.log.blocks import (
    LOG_FORMAT_VERSION,
    MAGIC,
    PREFIX_LENGTH,
    TRAILER_LENGTH,
    BlockType,
    HeaderKey,
    LogBlock,
)

if TYPE_CHECKING:
    from hudi_py.storage import Storage

_SMALL_FILE = 1 << 20
"""Maximum size of a file that is read with one request."""
_STEP = 1 << 16
"""Bytes read at a block's start in larger files; most headers fit."""
_SCAN_WINDOW = 1 << 20
"""Bytes searched at once for the next magic after a corrupt block."""
_MAX_HEADER_VALUE = 1 << 28
"""Maximum size of a header value; schemas and position bitmaps of real tables are far smaller."""


def read_blocks(storage: Storage, path: str, size: int) -> Iterator[LogBlock]:
    """Yields the blocks of a log file in order.

    Bytes that are not a complete block, such as the tail of an interrupted write, are returned as `CORRUPT` blocks that
    extend to the next magic or the end. So are bytes that are missing at the end of the file.

    Args:
        path: the log file.
        size: its length in bytes, as listed; bytes that another writer appends later are ignored.

    Raises:
        CorruptFileError: the file does not start with a block, or a block of correct length contradicts the format.
        UnsupportedTableError: a block has an unknown type, header key or log format version.
        FileNotFoundError: the file does not exist.
    """
    window = _Window(storage, path, size)
    start = 0
    while len(magic := window.read(start, len(MAGIC))) == len(MAGIC):
        if magic != MAGIC:
            raise CorruptFileError(
                f"Cannot read log file {path}: expected a block's magic {MAGIC!r} at byte {start}, found {magic!r}"
            )
        end = _block_end(window, start)
        if end is None:
            after = start + len(MAGIC)
            end = _next_magic(window, after)
            end = size if end >= window.size else end  # missing bytes are corrupt too
            yield LogBlock(BlockType.CORRUPT, {}, after, end - after, path)
        else:
            yield _read_block(window, start, end)
        start = end
    if start < size:
        yield LogBlock(BlockType.CORRUPT, {}, start, size - start, path)


def read_content(storage: Storage, block: LogBlock) -> bytes:
    """Reads the content of a block.

    Raises:
        CorruptFileError: the file is shorter than the block, or an Avro block has the rows of another file group.
        FileNotFoundError: the file does not exist.
    """
    if not block.content_length:
        return b""
    content = storage.read_range(block.path, block.content_offset, block.content_length)
    if len(content) != block.content_length:
        raise CorruptFileError(
            f"Cannot read the {block.type.name} block at byte {block.content_offset} of {block.path}: "
            f"expected {block.content_length} bytes of content, the file ends after {len(content)}"
        )
    if block.type is BlockType.AVRO:
        check_first_record(content, block.header.get(HeaderKey.SCHEMA), block.path)
    return content


class _Window:
    """Caches the last two ranges read from a file: a block's start, and its end with the start of the next block."""

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self._storage = storage
        self._kept: list[tuple[int, bytes]] = []

    def read(self, offset: int, length: int, ahead: int = _STEP) -> bytes:
        """Reads `length` bytes, fewer at the end of the file."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        for first, data in self._kept:
            at = offset - first
            if at >= 0 and at + length <= len(data):
                return data[at : at + length]
        if self.size <= _SMALL_FILE:
            first, wanted = 0, self.size
        else:
            first, wanted = offset, min(max(length, ahead), self.size - offset)
        data = self._storage.read_range(self.path, first, wanted)
        if len(data) < wanted:  # shorter than listed: the file was listed in an earlier state, or truncated since
            self.size = first + len(data)
        self._kept = [*self._kept[-1:], (first, data)]
        return data[offset - first : offset - first + length]


def _block_end(window: _Window, start: int) -> int | None:
    """Returns the end of the block; None if it is corrupt (`HoodieLogFileReader.isBlockCorrupt`)."""
    field = window.read(start + len(MAGIC), 8)
    if len(field) < 8:
        return None
    (size,) = struct.unpack(">q", field)
    end = start + PREFIX_LENGTH + int(size)
    # the smallest block: version, type, two empty maps, content length, trailer
    if size < 32 or end > window.size:
        return None
    # the same request also fetches the start of the next block
    tail = window.read(end - TRAILER_LENGTH, TRAILER_LENGTH + len(MAGIC))
    if len(tail) < TRAILER_LENGTH or struct.unpack_from(">q", tail)[0] != size + len(MAGIC):
        return None
    following = tail[TRAILER_LENGTH:]
    if len(following) == len(MAGIC) and following != MAGIC:
        return None
    return end


def _next_magic(window: _Window, start: int) -> int:
    """Returns the offset of the next magic at or after `start`, or the end of the file."""
    offset = start
    while True:
        data = window.read(offset, _SCAN_WINDOW, _SCAN_WINDOW)
        index = data.find(MAGIC)
        if index >= 0:
            return offset + index
        if offset + len(data) >= window.size:
            return max(window.size, start)
        offset += len(data) - len(MAGIC)  # a magic may span two windows


def _read_block(window: _Window, start: int, end: int) -> LogBlock:
    fields = _BlockCursor(window, start, start + PREFIX_LENGTH, end - TRAILER_LENGTH)
    version = fields.int32("the log format version")
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedTableError(
            f"Cannot read the block at byte {start} of {window.path}: its log format version is {version}; "
            f"supported: {LOG_FORMAT_VERSION}"
        )
    ordinal = fields.int32("the block type")
    if ordinal not in _BLOCK_TYPES:
        raise UnsupportedTableError(
            f"Cannot read the block at byte {start} of {window.path}: block type {ordinal} is unknown, "
            f"supported: 0 to {max(_BLOCK_TYPES)} except {int(BlockType.CORRUPT)}"
        )
    header: dict[HeaderKey, str] = {}
    count = fields.int32("the number of header entries")
    if count < 0:
        raise fields.error(f"{count} header entries")
    for _ in range(count):
        key = fields.int32("a header key")
        if key not in _HEADER_KEYS:
            raise UnsupportedTableError(
                f"Cannot read the block at byte {start} of {window.path}: header key {key} is unknown, "
                f"supported: 0 to {max(_HEADER_KEYS)}"
            )
        header[_HEADER_KEYS[key]] = fields.text(_HEADER_KEYS[key].name)
    length = fields.int64("the content length")
    # the footer map follows the content and has at least a count
    if length < 0 or fields.at + length + 4 > fields.end:
        raise fields.error(f"a content length of {length} bytes in a block of {end - start}")
    return LogBlock(_BLOCK_TYPES[ordinal], header, fields.at, length, window.path)


_BLOCK_TYPES = {int(kind): kind for kind in BlockType if kind is not BlockType.CORRUPT}
_HEADER_KEYS = {int(key): key for key in HeaderKey}


class _BlockCursor:
    """A cursor over the fields of one block, up to its trailer."""

    def __init__(self, window: _Window, start: int, offset: int, end: int) -> None:
        self.at = offset
        self.end = end
        self._window = window
        self._start = start

    def error(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"Cannot read the block at byte {self._start} of {self._window.path}: found {problem}")

    def take(self, length: int, what: str) -> bytes:
        if length < 0 or length > min(self.end - self.at, _MAX_HEADER_VALUE):
            raise self.error(f"{length} bytes claimed for {what}, {max(self.end - self.at, 0)} left in the block")
        data = self._window.read(self.at, length)
        if len(data) != length:
            raise self.error(f"the end of the file within {what}")
        self.at += length
        return data

    def int32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "big", signed=True)

    def int64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "big", signed=True)

    def text(self, what: str) -> str:
        data = self.take(self.int32(f"the length of {what}"), what)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"invalid UTF-8 in {what}") from error
