"""Blocks of an HFile: their header, their codec, and the bytes they are cut from (format reference 10.4).

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

Sources: `HFileBlock` of Apache Hudi 1.2.0, HBase's of the same name. Checksums are not looked at, as by Apache Hudi's
own reader; a gzip payload carries one of its own, which is.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudi_py.errors import CorruptFileError, UnsupportedTableError

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
"""HBase's ids (`Compression.Algorithm`)."""

MAX_BLOCK_BYTES: Final = 1 << 28
"""Of one block, decompressed. Apache Hudi's blocks are 1 MiB, one entry beyond that has a block of its own."""
_DEFLATE_RATIO: Final = 1032
"""The most that deflate can shrink anything: what claims more is no honest block."""
_GZIP_WINDOW: Final = 31
_WHOLE: Final = 1 << 16
"""Files up to this size are read with one request."""


class ByteSource:
    """An HFile's bytes: a whole file, or a part of one (a log block); read in ranges, small ones at once."""

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
        """Reads a range ahead: later reads within it cost no request."""
        if length > 0 and not self._holds(offset, length):
            self._held = self._storage.read_range(self._path, self._offset + offset, length)
            self._held_from = offset

    def read(self, offset: int, length: int) -> bytes:
        """Exactly these bytes. Raises CorruptFileError when the file ends before."""
        if offset < 0 or length < 0 or offset + length > self.length:
            raise self.corrupt(f"{length} bytes from byte {offset} are needed, there are {self.length}")
        if self._holds(offset, length):
            start = offset - self._held_from
            return self._held[start : start + length]
        found = self._storage.read_range(self._path, self._offset + offset, length)
        if len(found) != length:
            raise self.corrupt(f"it ends {length - len(found)} bytes too early")
        return found

    def corrupt(self, why: str) -> CorruptFileError:
        """The error for bytes which are no HFile."""
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
    """A block, decompressed."""

    payload: bytes
    end: int
    """Offset behind its checksums."""


def check_codec(codec: int, source: ByteSource) -> None:
    """Raises UnsupportedTableError for a codec which is not read."""
    if codec not in (GZIP, NO_COMPRESSION):
        name = CODECS.get(codec, f"codec {codec}")
        raise UnsupportedTableError(
            f"Cannot read the HFile {source.context}: its blocks are compressed with {name}, supported are GZ and NONE"
        )


def read_block(source: ByteSource, offset: int, magic: bytes, codec: int, size: int | None = None) -> Block:
    """The block at an offset, which must be of this kind.

    Args:
        size: bytes of the whole block as an index tells them; the block's own header counts.

    Raises:
        CorruptFileError: there is no such block, or it claims more than it can hold.
    """
    if size is not None and not HEADER_LENGTH <= size <= source.length - offset:
        raise source.corrupt(f"the index names a block of {size} bytes at byte {offset}")
    head = source.read(offset, HEADER_LENGTH if size is None else size)
    found, on_disk, plain, _, _, _, data_size = HEADER.unpack_from(head)
    if found != magic:
        raise source.corrupt(f"the block at byte {offset} begins with {found!r}, expected is {magic!r}")
    packed = data_size - HEADER_LENGTH
    if not 0 <= packed <= on_disk or offset + HEADER_LENGTH + on_disk > source.length:
        raise source.corrupt(f"the block at byte {offset} claims {on_disk} bytes with a payload of {packed}")
    if not 0 <= plain <= MAX_BLOCK_BYTES:
        raise source.corrupt(f"the block at byte {offset} claims {plain} bytes, more than {MAX_BLOCK_BYTES}")
    end = HEADER_LENGTH + packed
    data = head[HEADER_LENGTH:end] if len(head) >= end else source.read(offset + HEADER_LENGTH, packed)
    payload = _decompress(data, plain, codec, source, offset)
    return Block(payload, offset + HEADER_LENGTH + on_disk)


def _decompress(data: bytes, size: int, codec: int, source: ByteSource, offset: int) -> bytes:
    if codec == NO_COMPRESSION or (not data and not size):
        if len(data) != size:
            raise source.corrupt(f"the block at byte {offset} holds {len(data)} bytes and claims {size}")
        return data
    if size > len(data) * _DEFLATE_RATIO:
        raise source.corrupt(f"the block at byte {offset} claims to make {size} bytes out of {len(data)}")
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = decoder.decompress(data, size + 1)
    except zlib.error as error:
        raise source.corrupt(f"the block at byte {offset} is no gzip data ({error})") from error
    if len(plain) != size or not decoder.eof:
        raise source.corrupt(f"the block at byte {offset} does not decompress to the {size} bytes it claims")
    return plain
