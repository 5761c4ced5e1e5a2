"""The header `RECORD_POSITIONS`: positions of a log block's records in the base file.

It is the Base64 of a 64-bit roaring bitmap in portable form (`Roaring64NavigableMap.serializePortable`,
`LogReaderUtils.encodePositions` and `decodeRecordPositionsHeader`, 1.2.0). All integers are little-endian and unsigned:

```
8   number of buckets, then for each
4     upper half of its positions
4     cookie: 12346 and 4 bytes number of containers, or 12347 in the lower half and that number less one in the upper
..    with 12347 one bit for each container: whether it holds runs
4 x   containers: upper half of its values, and their number less one
4 x   containers: offset of each from the cookie; with 12347 only from four containers on
..    containers: at most 4096 values, or 8 KiB of bits, or the number of runs and each run's start and length less one
```
"""

from __future__ import annotations

import base64
import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from hudi_py.errors import CorruptFileError

Positions = npt.NDArray[np.int64]

_COOKIE: Final = 12346
_RUN_COOKIE: Final = 12347
_MAX_IN_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192
_MIN_WITH_OFFSETS: Final = 4
"""Minimum number of containers for which a bitmap with runs has offsets."""
_SMALLEST_BUCKET: Final = 19
"""Minimum size of a bucket: upper half, cookie, a flag, and one container of one run."""


def decode_positions(header: str, count: int, *, context: str = "") -> Positions:
    """Decodes the row numbers in the base file of a block's records, in the order of the records.

    Args:
        header: value of `HeaderKey.RECORD_POSITIONS`.
        count: number of records of the block, which limits the memory used.
        context: the block, for errors.

    Returns:
        `count` row numbers, 0-based and ascending; int64.

    Raises:
        CorruptFileError: the header is not such a bitmap, or has another number of positions.
    """
    try:
        # without validation Python skips invalid characters
        data = base64.b64decode(header, validate=True)
    except ValueError as error:
        raise CorruptFileError(f"Cannot read RECORD_POSITIONS of {context or 'a log block'}: {error}") from None
    return _Bitmap(data, count, context).positions()


def encode_positions(positions: Positions) -> str:
    """Encodes the header of a block whose records are at these positions.

    Args:
        positions: distinct and ascending, below 2**47.
    """
    highs = positions >> 32
    starts = np.flatnonzero(np.diff(highs, prepend=-1))
    parts = [struct.pack("<Q", len(starts))]
    for start, end in zip(starts, [*starts[1:], len(positions)], strict=False):
        parts += [struct.pack("<I", int(highs[start])), _encoded_bucket(positions[start:end] & 0xFFFFFFFF)]
    return base64.b64encode(b"".join(parts)).decode()


def _encoded_bucket(positions: Positions) -> bytes:
    """Encodes containers without runs, the cheapest to write: with every 20th row they are arrays anyway."""
    highs = positions >> 16
    starts = np.flatnonzero(np.diff(highs, prepend=-1))
    containers = [_encoded_container(part & 0xFFFF) for part in np.split(positions, starts[1:])]
    described = np.column_stack([highs[starts], np.diff([*starts, len(positions)]) - 1]).astype("<u2")
    first = 8 + 8 * len(starts)
    offsets = first + np.cumsum([0, *map(len, containers[:-1])])
    head = struct.pack("<II", _COOKIE, len(starts))
    return b"".join([head, described.tobytes(), offsets.astype("<u4").tobytes(), *containers])


def _encoded_container(values: Positions) -> bytes:
    if len(values) <= _MAX_IN_ARRAY:
        return values.astype("<u2").tobytes()
    bits = np.zeros(_BITMAP_BYTES * 8, np.bool_)
    bits[values] = True
    return np.packbits(bits, bitorder="little").tobytes()


class _Bitmap:
    """A cursor over the bytes of a bitmap."""

    def __init__(self, data: bytes, count: int, context: str) -> None:
        self._data = data
        self._at = 0
        self._count = count
        self._left = count
        self._context = context or "a log block"

    def positions(self) -> Positions:
        (buckets,) = struct.unpack("<Q", self._take(8))
        if buckets > (len(self._data) - self._at) // _SMALLEST_BUCKET:
            raise self._error(f"{buckets} buckets claimed, {len(self._data) - self._at} bytes left")
        result: list[Positions] = []
        last = -1
        for _ in range(buckets):
            (high,) = struct.unpack("<I", self._take(4))
            if not last < high < 1 << 31:
                raise self._error(f"upper half {high} of positions after {last}")
            last = high
            self._add_bucket(high << 32, result)
        if self._at != len(self._data):
            raise self._error(f"{len(self._data) - self._at} bytes after the last bucket")
        if self._left:
            raise self._error(f"{self._count - self._left} positions for {self._count} records")
        return np.concatenate(result) if result else np.zeros(0, np.int64)

    def _add_bucket(self, first: int, items: list[Positions]) -> None:
        start = self._at
        (cookie,) = struct.unpack("<I", self._take(4))
        with_runs = cookie & 0xFFFF == _RUN_COOKIE
        if not with_runs and cookie != _COOKIE:
            raise self._error(f"a cookie {cookie}")
        size = (cookie >> 16) + 1 if with_runs else struct.unpack("<I", self._take(4))[0]
        # each container has at least one position
        if not 0 < size <= min(self._left, 1 << 16):
            raise self._error(f"{size} containers with {self._left} of {self._count} records left")
        flags = np.zeros(size, np.bool_)
        if with_runs:
            bits = np.frombuffer(self._take((size + 7) // 8), np.uint8)
            flags = np.unpackbits(bits, bitorder="little")[:size].astype(np.bool_)
        described = self._numbers(2 * size).reshape(size, 2)
        highs, sizes = described[:, 0], described[:, 1] + 1
        if (np.diff(highs) <= 0).any():
            raise self._error("containers out of order")
        self._left -= int(sizes.sum())
        if self._left < 0:
            raise self._error(f"{self._count - self._left} positions or more for {self._count} records")
        offsets = None
        if not with_runs or size >= _MIN_WITH_OFFSETS:
            offsets = np.frombuffer(self._take(4 * size), "<u4").tolist()
        for index in range(size):
            if offsets is not None and offsets[index] != self._at - start:
                raise self._error(f"a container at {self._at - start} whose offset is {offsets[index]}")
            items.append(self._container(int(sizes[index]), bool(flags[index])) + (first + (int(highs[index]) << 16)))

    def _container(self, size: int, runs: bool) -> Positions:
        """Decodes the lower halves of a container's positions."""
        if runs:
            return self._runs(size)
        if size > _MAX_IN_ARRAY:
            bits = np.frombuffer(self._take(_BITMAP_BYTES), np.uint8)
            values: Positions = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
            if len(values) != size:
                raise self._error(f"{len(values)} bits in a container of {size} positions")
            return values
        values = self._numbers(size)
        if (np.diff(values) <= 0).any():
            raise self._error("positions out of order")
        return values

    def _runs(self, size: int) -> Positions:
        (count,) = struct.unpack("<H", self._take(2))
        runs = self._numbers(2 * count).reshape(count, 2)
        starts, lengths = runs[:, 0], runs[:, 1] + 1
        ends = starts + lengths
        if (starts[1:] < ends[:-1]).any() or (ends > 1 << 16).any() or int(lengths.sum()) != size:
            raise self._error(f"{count} runs with {int(lengths.sum())} positions in total; expected {size}")
        before = np.cumsum(lengths) - lengths
        values: Positions = np.arange(size, dtype=np.int64) + np.repeat(starts - before, lengths)
        return values

    def _numbers(self, count: int) -> Positions:
        numbers: Positions = np.frombuffer(self._take(2 * count), "<u2").astype(np.int64)
        return numbers

    def _take(self, length: int) -> bytes:
        data = self._data[self._at : self._at + length]
        if len(data) != length:
            raise self._error(f"{len(data)} of {length} bytes at byte {self._at}")
        self._at += length
        return data

    def _error(self, problem: str) -> CorruptFileError:
        return CorruptFileError(f"Cannot read RECORD_POSITIONS of {self._context}: found {problem}")
