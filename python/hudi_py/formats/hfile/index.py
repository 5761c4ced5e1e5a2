"""Reads the block index of an HFile: the position of each data block and the keys it can hold."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hudi_py.formats.hfile.blocks import INTERMEDIATE_INDEX, LEAF_INDEX, ByteSource, read_block

_ENTRY: Final = struct.Struct(">qi")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_SUFFIX: Final = 10
"""Bytes after the row in a complete key: family length, timestamp, type."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A data block or lower index block, with a lower bound of its keys."""

    key: bytes
    """Only the row. Not greater than the block's first key, but greater than all keys before the block."""
    offset: int
    size: int
    """Bytes on disk, including header and checksums."""


def parse_root(payload: bytes, count: int, source: ByteSource, *, rows: bool = True) -> list[IndexEntry]:
    """Entries of a root index; with `rows` their keys are a length and a row, otherwise names.

    Raises:
        CorruptFileError: the block ends before `count` entries.
    """
    found: list[IndexEntry] = []
    at = 0
    try:
        # one entry for each block of up to 1 MiB, with Hadoop's variable-length numbers
        for _ in range(count):
            offset, size = _ENTRY.unpack_from(payload, at)
            length, at = _vint(payload, at + _ENTRY.size)
            key = payload[at : at + length]
            if length < 0 or len(key) != length:
                raise source.corrupt("a key of its index runs past the end")
            at += length
            found.append(IndexEntry(_row(key, source) if rows else key, offset, size))
    except (struct.error, IndexError):
        raise source.corrupt(f"its index ends before {count} entries") from None
    return found


def data_blocks(root: list[IndexEntry], levels: int, codec: int, source: ByteSource) -> list[IndexEntry]:
    """The data blocks in order of their keys, from all levels of the index.

    Raises:
        CorruptFileError: an index block cannot be read, or is referenced twice.
    """
    blocks = root
    seen: set[int] = set()
    for level in range(levels, 1, -1):
        magic = LEAF_INDEX if level == 2 else INTERMEDIATE_INDEX
        below: list[IndexEntry] = []
        for entry in blocks:
            if entry.offset in seen:
                raise source.corrupt(f"its index names the block at byte {entry.offset} twice")
            seen.add(entry.offset)
            block = read_block(source, entry.offset, magic, codec, entry.size)
            below += _parse_lower(block.payload, source)
        blocks = below
    keys = [entry.key for entry in blocks]
    offsets = [entry.offset for entry in blocks]
    if any(b <= a for a, b in pairwise(keys)) or any(b <= a for a, b in pairwise(offsets)):
        raise source.corrupt("the keys of its index do not ascend")
    return blocks


def blocks_of_keys(blocks: list[IndexEntry], keys: list[bytes]) -> list[IndexEntry]:
    """The blocks that can hold any of `keys` (ascending)."""
    starts = [entry.key for entry in blocks]
    chosen: list[IndexEntry] = []
    at = 0
    while at < len(keys):
        block = bisect_right(starts, keys[at]) - 1
        if block < 0:  # before the first key
            at = bisect_left(keys, starts[0], at) if starts else len(keys)
            continue
        chosen.append(blocks[block])
        at = bisect_left(keys, starts[block + 1], at) if block + 1 < len(starts) else len(keys)
    return chosen


def blocks_of_prefixes(blocks: list[IndexEntry], prefixes: list[bytes]) -> list[IndexEntry]:
    """The blocks that can hold keys with any of `prefixes`."""
    starts = [entry.key for entry in blocks]
    chosen: set[int] = set()
    for prefix in prefixes:
        at = bisect_right(starts, prefix)
        if at:
            chosen.add(at - 1)
        while at < len(starts) and starts[at].startswith(prefix):
            chosen.add(at)
            at += 1
    return [blocks[at] for at in sorted(chosen)]


def _parse_lower(payload: bytes, source: ByteSource) -> list[IndexEntry]:
    """A leaf or intermediate index: a count, the entries' offsets, and the entries."""
    try:
        (count,) = _INT.unpack_from(payload)
        if not 0 <= count <= len(payload) // (_INT.size + _ENTRY.size):
            raise source.corrupt(f"an index block claims {count} entries in {len(payload)} bytes")
        offsets = struct.unpack_from(f">{count + 1}i", payload, _INT.size)
        start = _INT.size * (count + 2)
        found: list[IndexEntry] = []
        for here, behind in pairwise(offsets):
            if not 0 <= here <= behind - _ENTRY.size or start + behind > len(payload):
                raise source.corrupt("an entry of an index block runs past the end")
            offset, size = _ENTRY.unpack_from(payload, start + here)
            found.append(IndexEntry(_row(payload[start + here + _ENTRY.size : start + behind], source), offset, size))
    except struct.error:
        raise source.corrupt("an index block ends too early") from None
    return found


def _row(key: bytes, source: ByteSource) -> bytes:
    """The row of a key; Apache Hudi's own writer omits the rest of HBase's keys."""
    if len(key) < _SHORT.size:
        raise source.corrupt("a key of its index has no length")
    (length,) = _SHORT.unpack_from(key)
    if length < 0 or len(key) not in (_SHORT.size + length, _SHORT.size + length + _SUFFIX):
        raise source.corrupt(f"a key of its index has {len(key)} bytes and a row of {length}")
    return key[_SHORT.size : _SHORT.size + length]


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """Hadoop's variable-length number (`WritableUtils.readVInt`): one byte, or a length and the bytes."""
    first = data[at] - 256 if data[at] > 127 else data[at]
    at += 1
    if first >= -112:
        return first, at
    negative = first < -120
    size = -120 - first if negative else -112 - first
    if at + size > len(data):
        raise IndexError
    value = int.from_bytes(data[at : at + size], "big")
    return ~value if negative else value, at + size
