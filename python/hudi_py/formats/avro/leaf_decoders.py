"""The decoder protocol and the decoders of leaf types; all decode a column at a time.

Each node of a resolved schema is compiled to a decoder. `decode` reads the value at every cursor into an Arrow array,
`skip` only advances the cursors, and `hop` advances a single one, for the ends of long lists, where a NumPy call would
cost more. `act` marks the cursors that are at a value (cursor.py). `valid` is the same array if the decoder must record
nulls, and None if its type has none; values below a null struct are meaningless.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.formats.avro import schema as avro
from hudi_py.formats.avro.cursor import (
    ByteBlock,
    CorruptBytesError,
    Cursors,
    Flags,
    bitmap,
    byte_strings,
    lengths,
    varints,
)
from hudi_py.formats.hudi_types import vector_lists


class Decoder(Protocol):
    """Decodes one column."""

    arrow: pa.DataType
    size: int | None
    """Size of every value in bytes; None if sizes differ."""

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array: ...

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None: ...

    def hop(self, view: memoryview, offset: int) -> int: ...


def hop_long(view: memoryview | bytes, offset: int) -> tuple[int, int]:
    """Reads a varint, and returns its value and the position after it."""
    byte = view[offset]
    value, shift = byte & 127, 7
    while byte > 127:
        if shift > 63:
            raise CorruptBytesError("a number is longer than 64 bits")
        offset += 1
        byte = view[offset]
        value |= (byte & 127) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), offset + 1


class NullDecoder:
    """Decodes null: no bytes."""

    arrow = pa.null()
    size: int | None = 0

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        return pa.nulls(len(pos))

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        pass

    def hop(self, view: memoryview, offset: int) -> int:
        return offset


class BooleanDecoder:
    """Decodes a boolean: one byte."""

    arrow = pa.bool_()
    size: int | None = 1

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        value = block.bytes[pos]
        if act is not None:
            value *= act
        if value.max(initial=0) > 1:
            raise CorruptBytesError("a boolean is neither 0 nor 1")
        self.skip(block, pos, act)
        return pa.Array.from_buffers(self.arrow, len(value), [bitmap(valid), bitmap(value)])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        pos += 1 if act is None else act

    def hop(self, view: memoryview, offset: int) -> int:
        return offset + 1


class VarintDecoder:
    """Base class of decoders for types stored as zigzag varints."""

    size: int | None = None

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        varints(block, pos, act)

    def hop(self, view: memoryview, offset: int) -> int:
        while view[offset] > 127:
            offset += 1
        return offset + 1


class IntegerDecoder(VarintDecoder):
    """Decodes int, long, dates and times."""

    def __init__(self, node: avro.Integer) -> None:
        self.arrow = node.arrow
        self.factor = node.factor
        self.narrow = node.bits == 32

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        value = varints(block, pos, act)
        if self.narrow:
            small = value.astype(np.int32)
            if (small != value).any():
                raise CorruptBytesError("an int has more than 32 bits")
            return pa.Array.from_buffers(self.arrow, len(value), [bitmap(valid), pa.py_buffer(small)])
        if self.factor != 1 and len(value):
            limit = ((1 << 63) - 1) // self.factor
            if int(value.max()) > limit or int(value.min()) < -limit:
                raise CorruptBytesError("a timestamp in milliseconds has no value in microseconds")
            value *= self.factor
        return pa.Array.from_buffers(self.arrow, len(value), [bitmap(valid), pa.py_buffer(value)])


class FixedWidthDecoder:
    """Decodes float, double and fixed, whose bytes are the Arrow value."""

    def __init__(self, arrow: pa.DataType, size: int) -> None:
        self.arrow = arrow
        self.size: int | None = size
        self._dtype = f"<u{size}" if size in (4, 8) else f"V{size}"

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        assert self.size is not None
        n = len(pos)
        if self.size == 0:
            return pa.Array.from_buffers(self.arrow, n, [bitmap(valid), pa.py_buffer(b"")])
        value = block.window(self._dtype, self.size)[pos]
        self.skip(block, pos, act)
        return pa.Array.from_buffers(self.arrow, n, [bitmap(valid), pa.py_buffer(value)])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        size = np.int64(self.size or 0)
        pos += size if act is None else act * size

    def hop(self, view: memoryview, offset: int) -> int:
        assert self.size is not None
        return offset + self.size


class VectorDecoder(FixedWidthDecoder):
    """Decodes a vector: fixed bytes that hold a list of numbers."""

    def __init__(self, arrow: pa.DataType, size: int) -> None:
        super().__init__(pa.binary(size), size)
        self.arrow = arrow
        self._stored = pa.binary(size)

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        whole = FixedWidthDecoder(self._stored, self.size or 0).decode(block, pos, act, valid)
        return vector_lists(whole, self.arrow)


class BytesDecoder:
    """Decodes bytes and string."""

    size: int | None = None

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        length = lengths(block, pos, act)
        start = pos.copy()
        pos += length
        return byte_strings(block, self.arrow, start, pos, valid)

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        pos += lengths(block, pos, act)

    def hop(self, view: memoryview, offset: int) -> int:
        length, offset = hop_long(view, offset)
        if length < 0:
            raise CorruptBytesError("a length is negative or runs past the end")
        return offset + length


class DecimalDecoder(BytesDecoder):
    """Decodes a decimal: big-endian two's complement on fixed or on bytes."""

    def __init__(self, arrow: pa.DataType, size: int | None) -> None:
        super().__init__(arrow)
        self.size = size
        self.width = arrow.bit_width // 8

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        n, width = len(pos), self.width
        length: npt.NDArray[np.int64] | None = None
        if self.size is None:
            length = lengths(block, pos, act)
            pos += length
        else:
            self.skip(block, pos, act)
        if n and int(pos.max()) > block.end:
            raise CorruptBytesError("a decimal runs past the end")
        # the last `width` bytes up to the value's end, reversed to little-endian, so that the value's own bytes come
        # first
        tail = block.window(f"V{width}", width)[pos - width].view(np.uint8).reshape(n, width)[:, ::-1]
        if length is None:
            assert self.size is not None
            kept = min(self.size, width)
            out = np.empty((n, width), np.uint8)
            out[:, :kept] = tail[:, :kept]
            out[:, kept:] = ((tail[:, kept - 1] >> 7) * np.uint8(255))[:, None]
            if self.size > width:
                extra = self.size - width
                first = np.maximum(pos - self.size, 0)
                above = block.window(f"V{extra}", extra)[first].view(np.uint8).reshape(n, extra)
                fits = (above == ((tail[:, -1] >> 7) * np.uint8(255))[:, None]).all(1)
                if not (fits if act is None else fits | (act == 0)).all():
                    raise CorruptBytesError(f"a decimal does not fit {self.arrow}")
        else:
            last = np.clip(length - 1, 0, width - 1)
            sign = (tail[np.arange(n), last] >> 7) * np.uint8(255) * (length > 0)
            out = np.where(np.arange(width) < length[:, None], tail, sign[:, None].astype(np.uint8))
            for i in np.flatnonzero(length > width):  # padded numbers; no known writer produces them
                above_one = block.bytes[pos[i] - length[i] : pos[i] - width]
                if (above_one != (tail[i, -1] >> 7) * np.uint8(255)).any():
                    raise CorruptBytesError(f"a decimal does not fit {self.arrow}")
        if act is not None:
            out *= act[:, None]
        return pa.Array.from_buffers(self.arrow, n, [bitmap(valid), pa.py_buffer(np.ascontiguousarray(out))])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        if self.size is None:
            super().skip(block, pos, act)
        else:
            pos += self.size if act is None else act * np.int64(self.size)

    def hop(self, view: memoryview, offset: int) -> int:
        return super().hop(view, offset) if self.size is None else offset + self.size


class EnumDecoder(VarintDecoder):
    """Decodes an enum: the index of a symbol becomes the symbol."""

    arrow = pa.string()

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = pa.array(symbols, pa.string())

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        index = varints(block, pos, act)
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= max(len(self.symbols), 1)):
            raise CorruptBytesError(f"an enum of {len(self.symbols)} symbols has another index")
        if not len(self.symbols):
            return pa.nulls(len(index), self.arrow)
        return self.symbols.take(pa.array(index, mask=None if valid is None else valid == 0))
