"""Reading Avro primitives at many places of one buffer at once.

A block is decoded field by field over all its records: an int64 array holds one cursor for each record, and every
function here reads one primitive at every cursor and moves the cursors on. `act` is an array of uint8, 1 where a cursor
really stands at a value and 0 where it does not (a null); such cursors do not move. None means all of them.

Nothing here trusts the bytes: lengths are checked before a cursor moves, and a cursor past the end of the buffer raises
IndexError in NumPy, which `reading` turns into CorruptFileError together with the errors found here.
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
"""Readable bytes before the first record: decimals are gathered backwards from their end."""
_U64 = np.uint64
_CONTINUED = _U64(0x8080808080808080)
_ONE = _U64(1)
ZERO_WIDTH_ITEMS = 1 << 22
"""Most list items without bytes (nulls, empty records) in one buffer: their count is bounded by nothing else."""


class CorruptBytesError(Exception):
    """Bytes that contradict the schema; never leaves the package."""


@contextmanager
def reading(context: str, what: str) -> Iterator[None]:
    """Turns every way in which corrupt bytes show into CorruptFileError."""
    try:
        yield
    except (CorruptBytesError, IndexError, pa.ArrowInvalid, RecursionError) as error:
        if isinstance(error, CorruptBytesError):
            why = str(error)
        elif isinstance(error, IndexError):
            why = "a value runs past the end"
        elif isinstance(error, RecursionError):
            why = "it nests without end"
        else:
            why = first_line(error)
        where = f" of {context}" if context else ""
        raise CorruptFileError(
            f"cannot decode {what}{where}: {why}; the bytes are corrupt or not of the given schema"
        ) from error


class ByteBlock:
    """Bytes of log blocks with readable padding on both sides, and windows of typed values at every byte of it."""

    def __init__(self, parts: list[memoryview], widest: int) -> None:
        """`parts` are laid out one after the other; `widest` is the size in bytes of the largest fixed value."""
        self.end = LEAD + sum(map(len, parts))
        self.bytes: npt.NDArray[np.uint8] = np.empty(self.end + max(32, widest), np.uint8)
        self.bytes[:LEAD] = 0
        self.bytes[self.end :] = 0
        self.starts: list[int] = []
        at = LEAD
        for part in parts:
            self.starts.append(at)
            self.bytes[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        self.view = self.bytes.data
        self.arrow = pa.py_buffer(self.bytes)
        self.zero_width_items = 0
        self._windows: dict[str, npt.NDArray[Any]] = {}

    def window(self, dtype: str, size: int) -> npt.NDArray[Any]:
        """`window[i]` is the value of `size` bytes that starts at byte i."""
        found = self._windows.get(dtype)
        if found is None:
            length = len(self.bytes) - size + 1
            found = self._windows[dtype] = np.ndarray((length,), dtype=dtype, buffer=self.bytes, strides=(1,))
        return found

    def take_zero_width(self, count: int) -> None:
        """Accounts for list items that have no bytes."""
        self.zero_width_items += count
        if self.zero_width_items > ZERO_WIDTH_ITEMS:
            raise CorruptBytesError(f"lists claim more than {ZERO_WIDTH_ITEMS} items without bytes")


def varints(block: ByteBlock, pos: Cursors, act: Flags | None) -> npt.NDArray[np.int64]:
    """A zigzag varint at every cursor, 0 at those that are not active."""
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
    word &= mask  # the squeezing leaves the continuation bits out
    # squeeze the 7-bit groups together: pairs, then fours, then eights
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
    """The length in front of every string or byte string; none is negative or longer than the block."""
    found = varints(block, pos, act)
    if len(found) and int(found.view(_U64).max()) > block.end:
        raise CorruptBytesError("a length is negative or runs past the end")
    return found


def item_counts(block: ByteBlock, pos: Cursors, smallest_item: int) -> npt.NDArray[np.int64]:
    """The count at the head of a list block at every cursor; behind a negative one stands the block's size in bytes."""
    counts = varints(block, pos, None)
    negative = np.flatnonzero(counts < 0)
    if len(negative):
        at = pos[negative]
        sizes = varints(block, at, None)
        pos[negative] = at
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
    """Arrow's bits for an array of 0 and 1."""
    return None if flags is None else pa.py_buffer(np.packbits(flags, bitorder="little"))


def byte_strings(block: ByteBlock, arrow: pa.DataType, start: Cursors, end: Cursors, valid: Flags | None) -> pa.Array:
    """The bytes from each `start` to its `end` (not before it; both ascending) as an Arrow array of string or binary.

    An array over the block itself is made whose elements are the values and the gaps between them by turns; taking
    every other one copies the values. That costs no index per byte.
    """
    n = len(start)
    if not n:
        return pa.array([], arrow)
    # 32-bit offsets count from the first value, so only the span of one chunk of records has to stay below 2 GiB
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
    # where there is a null, start and end are one: the mask can be put on afterwards, and `take` is faster without
    return pa.Array.from_buffers(arrow, n, [bitmap(valid), *taken.buffers()[1:]])
