"""64-bit roaring bitmaps in their portable form, as the header `RECORD_POSITIONS` of a log block has them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Sequence
from itertools import groupby


def encode_positions(positions: Iterable[int], *, runs: bool = False) -> str:
    """The header of distinct positions.

    Args:
        runs: containers are of runs where that is smaller, else arrays and bits only.
    """
    values = sorted(positions)
    buckets = [(high, [value & 0xFFFFFFFF for value in group]) for high, group in groupby(values, lambda v: v >> 32)]
    parts = [struct.pack("<Q", len(buckets))]
    for high, lows in buckets:
        parts += [struct.pack("<I", high), _bucket(lows, runs)]
    return base64.b64encode(b"".join(parts)).decode()


def _bucket(values: Sequence[int], runs: bool) -> bytes:
    containers = [(high, [value & 0xFFFF for value in group]) for high, group in groupby(values, lambda v: v >> 16)]
    encoded = []
    flags = []
    for _, lows in containers:
        plain, short = _plain(lows), _runs(lows)
        flags.append(runs and len(short) < len(plain))
        encoded.append(short if flags[-1] else plain)
    count = len(containers)
    if any(flags):
        bits = sum(flag << at for at, flag in enumerate(flags))
        head = struct.pack("<I", 12347 | (count - 1) << 16) + bits.to_bytes((count + 7) // 8, "little")
    else:
        head = struct.pack("<II", 12346, count)
    head += b"".join(struct.pack("<HH", high, len(lows) - 1) for high, lows in containers)
    if not any(flags) or count >= 4:
        at = len(head) + 4 * count
        for container in encoded:
            head += struct.pack("<I", at)
            at += len(container)
    return head + b"".join(encoded)


def _plain(values: Sequence[int]) -> bytes:
    if len(values) <= 4096:
        return struct.pack(f"<{len(values)}H", *values)
    bits = bytearray(8192)
    for value in values:
        bits[value >> 3] |= 1 << (value & 7)
    return bytes(bits)


def _runs(values: Sequence[int]) -> bytes:
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][0] + found[-1][1] + 1 == value:
            found[-1][1] += 1
        else:
            found.append([value, 0])
    return struct.pack("<H", len(found)) + b"".join(struct.pack("<HH", *run) for run in found)
