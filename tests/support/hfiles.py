"""Builds HFiles for tests, as Apache Hudi's own writer and as HBase's do, and as neither does."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping, Sequence

HEADER_LENGTH = 33
KEY_SUFFIX = b"\0" + struct.pack(">q", 0x7FFFFFFFFFFFFFFF) + b"\4"


def build_hfile(
    entries: Sequence[tuple[bytes, bytes]],
    *,
    block_bytes: int = 1 << 20,
    codec: int = 1,
    hbase: bool = False,
    levels: int = 1,
    fanout: int = 2,
    info: Mapping[str, bytes] | None = None,
    meta: Mapping[str, bytes] | None = None,
) -> bytes:
    """A whole HFile of `entries`, which are in order.

    Args:
        block_bytes: a data block is closed before an entry would make it larger.
        codec: 1 gzip, 2 none.
        hbase: checksums of 4 bytes, whole keys in the index, the minor version in the trailer.
        levels: of the index; above 1, leaf and intermediate blocks with `fanout` entries each.
    """
    out = bytearray()

    def add(magic: bytes, payload: bytes) -> tuple[int, int]:
        start = len(out)
        packed = gzip.compress(payload, mtime=0) if codec == 1 else payload
        sums = b"\0" * (4 * -(-(HEADER_LENGTH + len(packed)) // 16384))
        size = len(packed) + len(sums)
        out.extend(
            struct.pack(">8siiqbii", magic, size, len(payload), -1, 2 * hbase, 16384, HEADER_LENGTH + len(packed))
        )
        out.extend(packed + sums)
        return start, len(out) - start

    index: list[tuple[bytes, int, int]] = []
    block, first = b"", b""
    for key, value in entries:
        whole = struct.pack(">h", len(key)) + key + KEY_SUFFIX
        entry = struct.pack(">ii", len(whole), len(value)) + whole + value + b"\0"
        if block and len(block) + len(entry) > block_bytes:
            index.append((first, *add(b"DATABLK*", block)))
            block = b""
        first = first if block else key
        block += entry
    if block:
        index.append((first, *add(b"DATABLK*", block)))
    metas = [(name.encode(), *add(b"METABLKc", content)) for name, content in sorted((meta or {}).items())]

    def index_key(row: bytes) -> bytes:
        return struct.pack(">h", len(row)) + row + (KEY_SUFFIX if hbase else b"")

    for level in range(1, levels):
        magic = b"IDXLEAF2" if level == 1 else b"IDXINTE2"
        above = []
        for at in range(0, len(index), fanout):
            parts = [struct.pack(">qi", offset, size) + index_key(row) for row, offset, size in index[at : at + fanout]]
            offsets = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
            payload = struct.pack(f">i{len(offsets)}i", len(parts), *offsets) + b"".join(parts)
            above.append((index[at][0], *add(magic, payload)))
        index = above
    load_on_open = len(out)
    add(b"IDXROOT2", b"".join(struct.pack(">qi", o, s) + _vint_bytes(index_key(row)) for row, o, s in index))
    add(b"IDXROOT2", b"".join(struct.pack(">qi", o, s) + _vint_bytes(name) for name, o, s in metas))
    pairs = {"KEY_VALUE_VERSION": struct.pack(">i", 1), "MAX_MEMSTORE_TS_KEY": bytes(8), **(info or {})}
    message = b"".join(_field(1, _field(1, k.encode()) + _field(2, v)) for k, v in sorted(pairs.items()))
    info_at, _ = add(b"FILEINF2", b"PBUF" + _varint(len(message)) + message)
    numbers = {1: info_at, 2: load_on_open, 5: len(index), 6: len(metas), 7: len(entries), 8: levels, 12: codec}
    trailer = b"".join(_varint(n << 3) + _varint(value) for n, value in numbers.items())
    trailer += _field(11, b"org.apache.hudi.io.storage.HoodieHBaseKVComparator")
    trailer = b'TRABLK"$' + _varint(len(trailer)) + trailer
    return bytes(out) + trailer.ljust(4092, b"\0") + (b"\3\0\0\3" if hbase else b"\0\0\0\3")


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _vint_bytes(data: bytes) -> bytes:
    """Bytes behind their length as Hadoop writes it."""
    length = len(data)
    if length <= 127:
        return struct.pack("b", length) + data
    number = length.to_bytes(-(-length.bit_length() // 8), "big")
    return struct.pack("b", -112 - len(number)) + number + data
