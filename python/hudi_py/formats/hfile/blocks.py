"""Reads the blocks, trailer and file info of an HFile.

A block is

```
8   magic
4   bytes that follow the header: payload and checksums
4   bytes of the payload once decompressed
8   offset of the block before (-1)
1   checksum type
4   bytes covered by one checksum
4   header and payload, without checksums
..  payload, compressed as a whole
..  checksums
```

The trailer and the file info are protobuf messages (`HFile.proto`, `TrailerProto`).

Sources: `HFileBlock` of Apache Hudi 1.2.0, HBase's of the same name. Checksums are not verified, as in Apache Hudi's
own reader (its writer leaves them zero), except for that of a gzip payload.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.varint import read_varint

if TYPE_CHECKING:
    from hudi_py.storage import Storage

HEADER = struct.Struct(">8siiqbii")
HEADER_LENGTH: Final = HEADER.size
DATA: Final = b"DATABLK*"
META: Final = b"METABLKc"
ROOT_INDEX: Final = b"IDXROOT2"
INTERMEDIATE_INDEX: Final = b"IDXINTE2"
LEAF_INDEX: Final = b"IDXLEAF2"
FILE_INFO: Final = b"FILEINF2"

GZIP: Final = 1
NO_COMPRESSION: Final = 2
CODECS: Final = {0: "LZO", 1: "GZ", 2: "NONE", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}
"""Codecs by HBase's ids (`Compression.Algorithm`)."""

MAX_BLOCK_BYTES: Final = 1 << 28
"""Maximum size of a decompressed block. Apache Hudi's blocks are 1 MiB, unless a single entry is larger."""
_DEFLATE_RATIO: Final = 1032
"""Maximum compression ratio of deflate; blocks that claim more are corrupt."""
_GZIP_WINDOW: Final = 31
_WHOLE: Final = 1 << 16
"""Maximum size of a file that is read with one request."""
TRAILER_LENGTH: Final = 4096
_MAGIC: Final = b'TRABLK"$'
_MAJOR: Final = 3
_PBUF: Final = b"PBUF"
_MAX_LEVELS: Final = 12
"""Maximum number of levels of an index; one with more would have more blocks than a file has bytes."""


class ByteSource:
    """An HFile's bytes: a file, or a part of one (a log block). Reads ranges, or small files at once."""

    def __init__(self, storage: Storage, path: str, offset: int, length: int) -> None:
        self.context = path if not offset else f"{path} at byte {offset}"
        self.length = length
        self._storage = storage
        self._path = path
        self._offset = offset
        self._held = b""
        self._held_from = 0
        if length <= _WHOLE:
            self.hold(0, length)

    def hold(self, offset: int, length: int) -> None:
        """Reads a range ahead, so that later reads within it need no request."""
        if length > 0 and not self._holds(offset, length):
            self._held = self._storage.read_range(self._path, self._offset + offset, length)
            self._held_from = offset

    @property
    def whole(self) -> bytes | None:
        """Returns all bytes if they are in memory."""
        return self._held if len(self._held) == self.length else None

    def read(self, offset: int, length: int) -> bytes:
        """Reads exactly these bytes. Raises CorruptFileError if the file is too short."""
        if offset < 0 or length < 0 or offset + length > self.length:
            raise self.corrupt(f"{length} bytes from byte {offset} are needed, there are {self.length}")
        if self._holds(offset, length):
            start = offset - self._held_from
            return self._held[start : start + length]
        data = self._storage.read_range(self._path, self._offset + offset, length)
        if len(data) != length:
            raise self.corrupt(f"it ends {length - len(data)} bytes too early")
        return data

    def corrupt(self, why: str) -> CorruptFileError:
        """Returns the error for damaged bytes."""
        return CorruptFileError(f"Cannot read the HFile {self.context}: {why}")

    def _holds(self, offset: int, length: int) -> bool:
        return self._held_from <= offset and offset + length <= self._held_from + len(self._held)


class MemorySource(ByteSource):
    """Bytes in memory."""

    def __init__(self, data: bytes, context: str) -> None:
        self.context = context
        self.length = len(data)
        self._held = data
        self._held_from = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A decompressed block."""

    payload: bytes
    end: int
    """Offset after its checksums."""


def check_codec(codec: int, source: ByteSource) -> None:
    """Raises UnsupportedTableError for an unsupported codec."""
    if codec not in (GZIP, NO_COMPRESSION):
        name = CODECS.get(codec, f"codec {codec}")
        raise UnsupportedTableError(
            f"Cannot read the HFile {source.context}: its blocks are compressed with {name}; supported: GZ and NONE"
        )


def read_block(source: ByteSource, offset: int, magic: bytes, codec: int, size: int | None = None) -> Block:
    """Reads the block of kind `magic` at an offset.

    Args:
        size: bytes to read at once, from an index; the size in the block's own header counts.

    Raises:
        CorruptFileError: there is no such block, or its sizes are impossible.
    """
    if size is not None and not HEADER_LENGTH <= size <= source.length - offset:
        raise source.corrupt(f"the index names a block of {size} bytes at byte {offset}")
    head = source.read(offset, HEADER_LENGTH if size is None else size)
    kind, on_disk, unpacked, _, _, _, data_size = HEADER.unpack_from(head)
    if kind != magic:
        raise source.corrupt(f"the block at byte {offset} starts with {kind!r}, expected {magic!r}")
    packed = data_size - HEADER_LENGTH
    if not 0 <= packed <= on_disk or offset + HEADER_LENGTH + on_disk > source.length:
        raise source.corrupt(f"the block at byte {offset} claims {on_disk} bytes with a payload of {packed}")
    if not 0 <= unpacked <= MAX_BLOCK_BYTES:
        raise source.corrupt(f"the block at byte {offset} claims {unpacked} bytes, more than {MAX_BLOCK_BYTES}")
    end = HEADER_LENGTH + packed
    data = head[HEADER_LENGTH:end] if len(head) >= end else source.read(offset + HEADER_LENGTH, packed)
    payload = _decompress_block(data, unpacked, codec, source, offset)
    return Block(payload, offset + HEADER_LENGTH + on_disk)


def _decompress_block(data: bytes, size: int, codec: int, source: ByteSource, offset: int) -> bytes:
    if codec == NO_COMPRESSION or (not data and not size):
        if len(data) != size:
            raise source.corrupt(f"the block at byte {offset} has {len(data)} bytes but claims {size}")
        return data
    if size > len(data) * _DEFLATE_RATIO:
        raise source.corrupt(f"the block at byte {offset} claims to decompress {len(data)} to {size} bytes")
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    try:
        unpacked = decoder.decompress(data, size + 1)
    except zlib.error as error:
        raise source.corrupt(f"the block at byte {offset} is not gzip data ({error})") from error
    if len(unpacked) != size or not decoder.eof:
        raise source.corrupt(f"the block at byte {offset} does not decompress to the {size} bytes it claims")
    return unpacked


@dataclass(frozen=True, slots=True)
class Trailer:
    """Content of the last 4096 bytes."""

    file_info_offset: int
    load_on_open_offset: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    index_levels: int
    codec: int


def read_trailer(source: ByteSource) -> Trailer:
    """Reads the trailer. Raises CorruptFileError, or UnsupportedTableError for another version or codec."""
    if source.length < TRAILER_LENGTH:
        raise source.corrupt(f"it has {source.length} bytes; expected at least the {TRAILER_LENGTH} of its trailer")
    data = source.read(source.length - TRAILER_LENGTH, TRAILER_LENGTH)
    if not data.startswith(_MAGIC):
        raise source.corrupt(f"its trailer starts with {data[:8]!r} instead of {_MAGIC!r}")
    version = int.from_bytes(data[-3:], "big")  # the byte before it is HBase's minor version
    if version != _MAJOR:
        raise UnsupportedTableError(f"Cannot read the HFile {source.context}: version {version}; supported: {_MAJOR}")
    length, offset = _block_varint(data, len(_MAGIC), source)
    if offset + length > TRAILER_LENGTH - 4:
        raise source.corrupt(f"its trailer claims {length} bytes")
    fields = {
        number: value
        for number, value in _message_fields(data[offset : offset + length], source)
        if isinstance(value, int)
    }
    trailer = Trailer(
        file_info_offset=fields.get(1, 0),
        load_on_open_offset=fields.get(2, 0),
        data_index_count=fields.get(5, 0),
        meta_index_count=fields.get(6, 0),
        entry_count=fields.get(7, 0),
        index_levels=fields.get(8, 1),
        codec=fields.get(12, 2),
    )
    if not 0 <= trailer.load_on_open_offset <= trailer.file_info_offset < source.length:
        raise source.corrupt(f"its trailer points at bytes {trailer.load_on_open_offset}, {trailer.file_info_offset}")
    if not 1 <= trailer.index_levels <= _MAX_LEVELS:
        raise source.corrupt(f"its index has {trailer.index_levels} levels")
    check_codec(trailer.codec, source)
    return trailer


def parse_file_info(payload: bytes, source: ByteSource) -> dict[str, bytes]:
    """Parses the file info block: `PBUF`, a length, and pairs of bytes."""
    if not payload.startswith(_PBUF):
        raise source.corrupt(f"its file info starts with {payload[:4]!r} instead of {_PBUF!r}")
    length, offset = _block_varint(payload, len(_PBUF), source)
    result: dict[str, bytes] = {}
    for number, pair in _message_fields(payload[offset : offset + length], source):
        if number != 1 or isinstance(pair, int):
            continue
        parts = {n: value for n, value in _message_fields(pair, source) if isinstance(value, bytes)}
        result[parts.get(1, b"").decode("utf-8", "replace")] = parts.get(2, b"")
    return result


def _message_fields(data: bytes, source: ByteSource) -> Iterator[tuple[int, int | bytes]]:
    """Yields number and value of each field: varints as int, length-delimited ones as bytes."""
    offset = 0
    while offset < len(data):
        tag, offset = _block_varint(data, offset, source)
        kind = tag & 7
        if kind == 0:
            value, offset = _block_varint(data, offset, source)
            yield tag >> 3, value
        elif kind == 2:
            length, offset = _block_varint(data, offset, source)
            if offset + length > len(data):
                raise source.corrupt("a protobuf field runs past the end")
            yield tag >> 3, data[offset : offset + length]
            offset += length
        elif kind in (1, 5):
            offset += 8 if kind == 1 else 4
        else:
            raise source.corrupt(f"a protobuf field has wire type {kind}")


def _block_varint(data: bytes, offset: int, source: ByteSource) -> tuple[int, int]:
    try:
        return read_varint(data, offset)
    except ValueError:
        raise source.corrupt("a protobuf number does not end") from None
