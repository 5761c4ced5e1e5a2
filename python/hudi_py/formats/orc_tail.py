"""Key-value pairs for the footer of an ORC file, which Arrow's writer cannot write.

The end of a file is its footer (a message of protocol buffers, as a row of compressed chunks), the postscript with the
footer's length, and a byte with the postscript's length. A message may be written in parts: fields that follow in a
further chunk are added to those before. So a file gets its pairs by a chunk after the footer and a new postscript, and
what lies before is neither read again nor kept in memory (ORC specification v1, "File Tail" and "Compression").
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.formats.varint import read_varint, varint

MAX_TAIL_BYTES: Final = 256
"""The postscript and the byte after it are no longer than this."""
_FOOTER_LENGTH: Final = 1
_COMPRESSION: Final = 2
_BLOCK_SIZE: Final = 3
_MAGIC: Final = 8000
_USER_METADATA: Final = 5
_VARINT, _BYTES = 0, 2
_CODECS: Final = {0: None, 1: "zlib", 2: "snappy", 4: "lz4_raw", 5: "zstd"}
_MAX_CHUNK: Final = 1 << 22
"""A chunk's header has 23 bits for its length."""


def tail_with_pairs(end: bytes, pairs: Mapping[str, str], path: str) -> bytes:
    """What replaces the end of a file to add key-value pairs to its footer.

    Args:
        end: the last bytes of the file, `MAX_TAIL_BYTES` or all of it.
        path: the file, for messages.

    Raises:
        CorruptFileError: the bytes are not the end of an ORC file.
    """
    length = end[-1] if end else 0
    if not length or length + 1 > len(end):
        raise _damaged(path, f"its last byte gives a postscript of {length} bytes")
    postscript = end[-1 - length : -1]
    fields = _fields(postscript, path)
    if fields.get(_MAGIC) != b"ORC":
        raise _damaged(path, "its postscript does not end in ORC")
    codec, size, before = fields.get(_COMPRESSION, 0), fields.get(_BLOCK_SIZE, 0), fields.get(_FOOTER_LENGTH)
    if codec not in _CODECS or not isinstance(codec, int) or not isinstance(size, int) or not isinstance(before, int):
        raise _damaged(path, f"its postscript names the compression {codec!r} in blocks of {size!r} bytes")
    chunks = _chunks(_items(pairs), _CODECS[codec], min(size, _MAX_CHUNK), path)
    at = _start_of(postscript, _FOOTER_LENGTH, path)
    after = postscript[at + 1 + len(varint(before)) :]
    changed = postscript[:at] + _tag(_FOOTER_LENGTH, _VARINT) + varint(before + len(chunks)) + after
    if len(changed) >= MAX_TAIL_BYTES:
        raise _damaged(path, f"its postscript has {len(postscript)} bytes")
    return end[: -1 - length] + chunks + changed + bytes([len(changed)])


def _items(pairs: Mapping[str, str]) -> bytes:
    found = []
    for name, value in pairs.items():
        item = _field(1, name.encode()) + _field(2, value.encode())
        found.append(_field(_USER_METADATA, item))
    return b"".join(found)


def _chunks(content: bytes, codec: str | None, size: int, path: str) -> bytes:
    """The bytes as the file's compressed chunks; as they are in a file without compression."""
    if codec is None:
        return content
    if size <= 0:
        raise _damaged(path, f"its postscript names compressed blocks of {size} bytes")
    found = []
    for at in range(0, len(content), size):
        part = content[at : at + size]
        packed = _packed(part, codec)
        plain = len(packed) >= len(part)
        kept = part if plain else packed
        found.append((len(kept) << 1 | plain).to_bytes(3, "little") + kept)
    return b"".join(found)


def _packed(part: bytes, codec: str) -> bytes:
    if codec == "zlib":  # without zlib's header
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(part) + deflate.flush()
    packed: bytes = pa.compress(part, codec=codec, asbytes=True)
    return packed


def _fields(message: bytes, path: str) -> dict[int, int | bytes]:
    """The fields of a message by their number; of repeated ones the last."""
    return {number: value for number, value, _ in _walk(message, path)}


def _start_of(message: bytes, wanted: int, path: str) -> int:
    """Where a field begins."""
    return next(at for number, _, at in _walk(message, path) if number == wanted)


def _walk(message: bytes, path: str) -> list[tuple[int, int | bytes, int]]:
    """Number, value and start of each field of a message."""
    found: list[tuple[int, int | bytes, int]] = []
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at, path)
        number, at = _read_varint(message, at, path)
        value: int | bytes = number
        if tag & 7 == _BYTES:
            value, at = message[at : at + number], at + number
        elif tag & 7 != _VARINT:
            raise _damaged(path, f"its postscript has a field of the kind {tag & 7}")
        if at > len(message):
            raise _damaged(path, "its postscript ends within a field")
        found.append((tag >> 3, value, start))
    return found


def _read_varint(message: bytes, at: int, path: str) -> tuple[int, int]:
    try:
        return read_varint(message, at)
    except ValueError:
        raise _damaged(path, "its postscript ends within a number") from None


def _field(number: int, value: bytes) -> bytes:
    return _tag(number, _BYTES) + varint(len(value)) + value


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _damaged(path: str, why: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot complete the ORC file {path}: {why}")
