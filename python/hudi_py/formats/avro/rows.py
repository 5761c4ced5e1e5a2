"""Assembles rows of bytes from columns.

Numbers are written into rows of fixed stride, each as a whole item; the row's next field overwrites surplus bytes.
Strings stay in their Arrow buffers. Finally a single `take` over all parts, in the order of the rows, produces the
output.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Lengths: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.uint8]

_U64 = np.uint64
_LIMIT = (1 << 31) - 1
_SLACK = 16
# _CONTINUE[k]: the continuation bits in the first 8 bytes of a varint of k bytes
_CONTINUE = np.array([sum(0x80 << (8 * j) for j in range(max(k - 1, 0))) & (2**64 - 1) for k in range(11)], np.uint64)


class TooLargeError(Exception):
    """The rows take more than 2 GiB, the limit of Arrow's 32-bit offsets: encode fewer at once."""


class Rows:
    """`n` rows to which columns are appended, in order."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.total: Lengths = np.zeros(n, np.int64)
        self._run: list[tuple[npt.NDArray[Any], npt.NDArray[np.uint16] | None, Lengths | Flags | int, int]] = []
        # values per row in the offsets (1, or 2 for value and gap), bytes, offsets
        self._parts: list[tuple[int, Any, npt.NDArray[np.int32]]] = []

    def put(self, items: npt.NDArray[Any], length: Lengths | Flags | int) -> None:
        """Appends the first `length` bytes of every item."""
        self._run.append((items, None, length, items.dtype.itemsize))

    def byte(self, values: Flags, act: Flags | None) -> None:
        """Appends a byte to active rows."""
        self.put(values, 1 if act is None else act)

    def varint(self, values: npt.NDArray[np.int64], act: Flags | None) -> None:
        """Appends a zigzag varint to active rows."""
        zigzag = ((values << 1) ^ (values >> 63)).view(_U64)
        top = int(zigzag.max(initial=0))
        if top < 128:
            self.byte(zigzag.astype(np.uint8), act)
            return
        length = np.ones(self.n, np.int64)
        bits = 7
        while bits < 64 and top >> bits:
            length += zigzag >= _U64(1 << bits)
            bits += 7
        word = zigzag & _U64((1 << 56) - 1)
        # spread the bits into groups of 7: eights, fours, pairs
        if top >> 28:
            word = (word & _U64(0x0FFFFFFF)) | ((word & _U64(0x00FFFFFFF0000000)) << _U64(4))
        word = (word & _U64(0x00003FFF00003FFF)) | ((word & _U64(0x0FFFC0000FFFC000)) << _U64(2))
        word = (word & _U64(0x007F007F007F007F)) | ((word & _U64(0x3F803F803F803F80)) << _U64(1))
        word |= _CONTINUE[length]
        surplus = None
        if top >> 56:
            high = (zigzag >> _U64(56)).astype(np.uint16)
            surplus = np.where(length == 10, (high & 127) | 128 | ((high >> 7) << 8), high & 127).astype("<u2")
        if act is not None:
            length *= act
        self._run.append((word.astype("<u8", copy=False), surplus, length, 8 if surplus is None else 10))

    def ranges(self, data: Any, start: npt.NDArray[Any], length: Lengths) -> None:
        """Appends `length` bytes of the buffer `data` from `start` (ascending)."""
        self._flush()
        if len(start) and int(start[-1]) + int(length[-1]) > _LIMIT:
            raise TooLargeError
        offsets = np.empty(2 * self.n + 1, np.int32)
        offsets[0:-1:2] = start
        np.add(start, length, out=offsets[1::2], casting="unsafe")
        offsets[-1] = offsets[-2] if self.n else 0
        self._append(2, data, offsets, length)

    def strings(self, data: Any, offsets: npt.NDArray[np.int32], length: Lengths) -> None:
        """Appends the values of an Arrow array without gaps; `offsets` has one element more than there are rows."""
        self._flush()
        self._append(1, data, offsets, length)

    def frame(self) -> None:
        """Reserves space for the row's big-endian length, which `finish` sets; must be called first."""
        self.put(np.zeros(self.n, ">i4"), 4)

    def finish(self, *, framed: bool = False) -> tuple[Lengths, pa.Buffer]:
        """Returns the offsets of the rows (n + 1), and their bytes. Raises TooLargeError."""
        self._flush()
        offsets = np.zeros(self.n + 1, np.int64)
        np.cumsum(self.total, out=offsets[1:])
        spans = sum(int(off[-1]) - int(off[0]) for _, _, off in self._parts if len(off))
        if not self._parts or not self.n:
            return offsets, pa.py_buffer(b"")
        if int(offsets[-1]) > _LIMIT or spans > _LIMIT:
            raise TooLargeError
        if framed:
            _, first, off = self._parts[0]
            window: npt.NDArray[Any] = np.ndarray((len(first) - 3,), dtype=">i4", buffer=first, strides=(1,))
            window[off[0:-1:2]] = self.total - 4
        arrays, index = [], np.empty((self.n, len(self._parts)), np.int32)
        base = 0
        for j, (item, data, off) in enumerate(self._parts):
            count = self.n * item
            buffers = [None, pa.py_buffer(off), data if isinstance(data, pa.Buffer) else pa.py_buffer(data)]
            arrays.append(pa.Array.from_buffers(pa.binary(), count, buffers))
            index[:, j] = np.arange(base, base + count, item)
            base += count
        taken = (pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]).take(pa.array(index.ravel()))
        data = taken.buffers()[2]
        return offsets, pa.py_buffer(b"") if data is None else data.slice(0, int(offsets[-1]))

    def _append(self, size: int, data: Any, offsets: npt.NDArray[np.int32], length: Lengths) -> None:
        self._parts.append((size, data, offsets))
        self.total += length

    def _flush(self) -> None:
        """Writes the numbers appended since the last strings into rows."""
        run, self._run = self._run, []
        if not run or not self.n:
            return
        n = self.n
        stride = sum(width for _, _, _, width in run) + _SLACK
        if n * stride > _LIMIT:
            raise TooLargeError
        out = np.empty(n * stride + _SLACK, np.uint8)
        base = np.arange(n, dtype=np.int64) * stride
        pos = base.copy()
        windows: dict[Any, npt.NDArray[Any]] = {}

        def window(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
            value = windows.get(dtype)
            if value is None:
                length = len(out) - dtype.itemsize + 1
                value = windows[dtype] = np.ndarray((length,), dtype=dtype, buffer=out, strides=(1,))
            return value

        for items, surplus, length, _ in run:
            window(items.dtype)[pos] = items
            if surplus is not None:
                window(surplus.dtype)[pos + 8] = surplus
            pos += length
        offsets = np.empty(2 * n + 1, np.int32)
        offsets[0:-1:2] = base
        offsets[1::2] = pos
        offsets[-1] = offsets[-2]
        self._append(2, out, offsets, pos - base)
