"""Parses the trailer and file info of an HFile, which are protobuf messages (`HFile.proto`, `TrailerProto`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.hfile.blocks import ByteSource, check_codec
from hudi_py.formats.varint import read_varint

TRAILER_LENGTH: Final = 4096
_MAGIC: Final = b'TRABLK"$'
_MAJOR: Final = 3
_PBUF: Final = b"PBUF"
_MAX_LEVELS: Final = 12
"""An index with more levels would have more blocks than a file has bytes."""


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
    """Raises CorruptFileError, or UnsupportedTableError for another version or codec."""
    if source.length < TRAILER_LENGTH:
        raise source.corrupt(f"it has {source.length} bytes, its trailer alone takes {TRAILER_LENGTH}")
    data = source.read(source.length - TRAILER_LENGTH, TRAILER_LENGTH)
    if not data.startswith(_MAGIC):
        raise source.corrupt(f"its trailer starts with {data[:8]!r} instead of {_MAGIC!r}")
    version = int.from_bytes(data[-3:], "big")  # the byte before is HBase's minor version
    if version != _MAJOR:
        raise UnsupportedTableError(f"Cannot read the HFile {source.context}: version {version}, supported is {_MAJOR}")
    length, at = _varint(data, len(_MAGIC), source)
    if at + length > TRAILER_LENGTH - 4:
        raise source.corrupt(f"its trailer claims {length} bytes")
    fields = {number: value for number, value in _fields(data[at : at + length], source) if isinstance(value, int)}
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
    """Keys and values of the file info block: `PBUF`, a length, and pairs of bytes."""
    if not payload.startswith(_PBUF):
        raise source.corrupt(f"its file info starts with {payload[:4]!r} instead of {_PBUF!r}")
    length, at = _varint(payload, len(_PBUF), source)
    found: dict[str, bytes] = {}
    for number, pair in _fields(payload[at : at + length], source):
        if number != 1 or isinstance(pair, int):
            continue
        parts = {n: value for n, value in _fields(pair, source) if isinstance(value, bytes)}
        found[parts.get(1, b"").decode("utf-8", "replace")] = parts.get(2, b"")
    return found


def _fields(data: bytes, source: ByteSource) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: varints as int, length-delimited ones as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at, source)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at, source)
            yield tag >> 3, value
        elif kind == 2:
            length, at = _varint(data, at, source)
            if at + length > len(data):
                raise source.corrupt("a protobuf field runs past the end")
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise source.corrupt(f"a protobuf field has wire type {kind}")


def _varint(data: bytes, at: int, source: ByteSource) -> tuple[int, int]:
    try:
        return read_varint(data, at)
    except ValueError:
        raise source.corrupt("a protobuf number does not end") from None
