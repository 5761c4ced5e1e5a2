"""Reads Avro primitives at many positions of a buffer at once.

A block is decoded field by field over all its records: an int64 array has one cursor for each record, and every
function reads one primitive at every cursor and advances the cursors. `act` is an array of uint8, 1 where a cursor is
at a value and 0 where there is none (a null); such cursors do not advance. None means all.

The bytes are not trusted: lengths are checked before a cursor advances, and a cursor past the end of the buffer raises
IndexError in NumPy, which `reading` turns into CorruptFileError along with the errors found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, first_line

Cursors: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.uint8]

LEAD = 32
"""Padding bytes before the first record: decimals are read backwards from their end."""
_U64 = np.uint64
_CONTINUED = _U64(0x8080808080808080)
_ONE = _U64(1)
ZERO_WIDTH_ITEMS = 1 << 22
"""Maximum number of list items without bytes (nulls, empty records) in one buffer; nothing else limits it."""


class CorruptBytesError(Exception):
    """Bytes that contradict the schema; never leaves the package."""


@contextmanager
def reading(context: str, what: str) -> Iterator[None]:
    """Converts all errors caused by corrupt bytes to CorruptFileError."""
    try:
        yield
    except (CorruptBytesError, IndexError, pa.ArrowInvalid, RecursionError) as error:
        if isinstance(error, CorruptBytesError):
            why = str(error)
        elif isinstance(error, IndexError):
            why = "a value runs past the end"
        elif isinstance(error, RecursionError):
            why = "it nests too deeply"
        else:
            why = first_line(error)
        where = f" of {context}" if context else ""
        raise CorruptFileError(
            f"cannot decode {what}{where}: {why}; the bytes are corrupt or not of the given schema"
        ) from error


class ByteBlock:
    """Concatenated log blocks with padding on both sides, and views of typed values at every byte offset."""

    def __init__(self, parts: list[memoryview], widest: int) -> None:
        """`widest` is the size in bytes of the largest fixed value."""
        self.end = LEAD + sum(map(len, parts))
        self.bytes: npt.NDArray[np.uint8] = np.empty(self.end + max(32, widest), np.uint8)
        self.bytes[:LEAD] = 0
        self.bytes[self.end :] = 0
        self.starts: list[int] = []
        offset = LEAD
        for part in parts:
            self.starts.append(offset)
            self.bytes[offset : offset + len(part)] = np.frombuffer(part, np.uint8)
            offset += len(part)
        self.view = self.bytes.data
        self.arrow = pa.py_buffer(self.bytes)
        self.zero_width_items = 0
        self._windows: dict[str, npt.NDArray[Any]] = {}

    def window(self, dtype: str, size: int) -> npt.NDArray[Any]:
        """Returns a view whose item i is the value of `size` bytes at byte i."""
        value = self._windows.get(dtype)
        if value is None:
            length = len(self.bytes) - size + 1
            value = self._windows[dtype] = np.ndarray((length,), dtype=dtype, buffer=self.bytes, strides=(1,))
        return value

    def take_zero_width(self, count: int) -> None:
        """Counts list items without bytes, and raises if there are too many."""
        self.zero_width_items += count
        if self.zero_width_items > ZERO_WIDTH_ITEMS:
            raise CorruptBytesError(f"lists claim more than {ZERO_WIDTH_ITEMS} items without bytes")


def varints(block: ByteBlock, pos: Cursors, act: Flags | None) -> npt.NDArray[np.int64]:
    """Reads a zigzag varint at every cursor; 0 for inactive ones."""
    first = block.bytes[pos]
    if act is not None:
        first *= act
    if first.max(initial=0) < 128:
        pos += 1 if act is None else act
        small = first.view(np.int8)
        return np.asarray((small >> 1) ^ -(small & 1), np.int64)
    word = block.window("<u8", 8)[pos]
    if act is not None:
        word *= act
    stop = ~word & _CONTINUED
    lowest = stop & (~stop + _ONE)  # top bit of the last byte; 0 for values of more than 8 bytes
    mask = (lowest << _ONE) - _ONE
    length = np.bitwise_count(mask) >> 3
    word &= mask  # the groups squeezed below exclude the continuation bits
    # squeeze the groups of 7 bits together: pairs, then fours, then eights
    word = (word & _U64(0x007F007F007F007F)) | ((word & _U64(0x7F007F007F007F00)) >> _ONE)
    word = (word & _U64(0x00003FFF00003FFF)) | ((word & _U64(0x3FFF00003FFF0000)) >> _U64(2))
    if int(word.max()) >> 32:
        word = (word & _U64(0x000000000FFFFFFF)) | ((word & _U64(0x0FFFFFFF00000000)) >> _U64(4))
    if not stop.all():
        long = np.flatnonzero(stop == 0)
        ninth = block.bytes[pos[long] + 8].astype(_U64)
        more = ninth >> _U64(7)
        tenth = block.bytes[pos[long] + 9].astype(_U64) * more
        if (tenth > 1).any():
            raise CorruptBytesError("a number is longer than 64 bits")
        word[long] |= ((ninth & _U64(127)) << _U64(56)) | (tenth << _U64(63))
        length[long] += 1 + more.astype(np.uint8)
    if act is not None:
        length *= act
    pos += length
    values: npt.NDArray[np.int64] = ((word >> _ONE) ^ (~(word & _ONE) + _ONE)).view(np.int64)
    return values


def lengths(block: ByteBlock, pos: Cursors, act: Flags | None) -> npt.NDArray[np.int64]:
    """Reads the length prefix of every string or byte string; neither negative nor longer than the block."""
    result = varints(block, pos, act)
    if len(result) and int(result.view(_U64).max()) > block.end:
        raise CorruptBytesError("a length is negative or runs past the end")
    return result


def item_counts(block: ByteBlock, pos: Cursors, smallest_item: int) -> npt.NDArray[np.int64]:
    """Reads the item count of a list block at every cursor; after a negative one follows the block's size in bytes."""
    counts = varints(block, pos, None)
    negative = np.flatnonzero(counts < 0)
    if len(negative):
        offset = pos[negative]
        sizes = varints(block, offset, None)
        pos[negative] = offset
        counts[negative] = -counts[negative]
        if int(sizes.min()) < 0 or int(counts[negative].min()) < 0:
            raise CorruptBytesError("a list block has a negative size")
    most = int(counts.max(initial=0))
    if most and (most > block.end if smallest_item else most > ZERO_WIDTH_ITEMS):
        raise CorruptBytesError(f"a list claims {most} items, more than its bytes can hold")
    if smallest_item and len(counts) and bool((counts * smallest_item > block.end - pos).any()):
        raise CorruptBytesError("a list claims more items than its bytes can hold")
    return counts


def bitmap(flags: Flags | None) -> pa.Buffer | None:
    """Packs an array of 0 and 1 into an Arrow bitmap."""
    return None if flags is None else pa.py_buffer(np.packbits(flags, bitorder="little"))


def byte_strings(block: ByteBlock, arrow: pa.DataType, start: Cursors, end: Cursors, valid: Flags | None) -> pa.Array:
    """Returns the bytes from each `start` to its `end` (start <= end, both ascending) as an Arrow array of string or
    binary.

    Takes every other element of an array over the block itself, whose elements alternate between values and gaps, so
    that no index per byte is needed.
    """
    n = len(start)
    if not n:
        return pa.array([], arrow)
    # 32-bit offsets are relative to the first value, so each chunk of records must stay below 2 GiB
    base, last = int(start[0]), int(end[-1])
    if last > block.end or last - base >= 1 << 31 or bool((end[:-1] > start[1:]).any()):
        raise CorruptBytesError("the values of a column overlap or run past the end")
    offsets = np.empty(2 * n + 1, np.int32)
    np.subtract(start, base, out=offsets[0:-1:2], casting="unsafe")
    np.subtract(end, base, out=offsets[1::2], casting="unsafe")
    offsets[-1] = offsets[-2]
    values = pa.Array.from_buffers(arrow, 2 * n, [None, pa.py_buffer(offsets), block.arrow.slice(base, last - base)])
    taken = pc.take(values, pa.array(np.arange(0, 2 * n, 2, dtype=np.int32)), boundscheck=False)
    if valid is None:
        return taken
    # nulls have start = end, so the mask can be added afterwards; `take` is faster without it
    return pa.Array.from_buffers(arrow, n, [bitmap(valid), *taken.buffers()[1:]])
