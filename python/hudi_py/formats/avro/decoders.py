"""Decoders of Avro types, a column at a time.

A decoder is compiled from each node of a resolved schema. `decode` reads its value at every cursor into an Arrow array,
`skip` only moves the cursors, and `hop` moves a single one, for the end of long lists where NumPy's cost per call is more
than the work. `act` says at which cursors there is a value (cursor.py); `valid` is the same array where the decoder must
record nulls, and None where its own type has none: below a null struct lie values that mean nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.avro import schema as avro
from hudi_py.formats.avro.cursor import (
    ByteBlock,
    Corrupt,
    Cursors,
    Flags,
    bitmap,
    byte_strings,
    item_counts,
    lengths,
    varints,
)

FEW_CURSORS = 48
"""Lists are read in rounds, the k-th item of all of them at once, until fewer than this many have items left."""


class Decoder(Protocol):
    """What a column is decoded with."""

    arrow: pa.DataType
    size: int | None
    """Bytes of every value, None when they differ."""

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array: ...

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None: ...

    def hop(self, view: memoryview, at: int) -> int: ...


def compile_decoder(node: avro.Node, known: dict[int, Decoder] | None = None, *, wanted: bool = True) -> Decoder:
    """The decoder of a node; one that is not `wanted` may be recursive, and may only skip."""
    known = {} if known is None else known
    if isinstance(node, avro.Record):
        if id(node) in known:
            return known[id(node)]
        record = RecordDecoder(pa.null() if not wanted else avro.arrow_of(node))
        if not wanted:
            known[id(node)] = record
        record.fill([name for name, _ in node.fields], [compile_decoder(f, known, wanted=wanted) for _, f in node.fields])
        return record
    if isinstance(node, avro.Nullable):
        return NullableDecoder(compile_decoder(node.value, known, wanted=wanted), node.value_index)
    if isinstance(node, avro.Choice):
        branches = [compile_decoder(b, known, wanted=wanted) for b in node.branches]
        arrow = avro.arrow_of(node) if wanted else pa.null()
        return ChoiceDecoder(arrow, branches, node.null_index, is_number=node.number is not None)
    if isinstance(node, avro.Array):
        return ListDecoder(compile_decoder(node.item, known, wanted=wanted), avro.arrow_of(node) if wanted else pa.null())
    if isinstance(node, avro.Map):
        arrow = avro.arrow_of(node) if wanted else pa.null()
        entry = RecordDecoder(pa.struct([arrow.key_field, arrow.item_field]) if wanted else pa.null())
        entry.fill(["key", "value"], [BytesDecoder(pa.string()), compile_decoder(node.value, known, wanted=wanted)])
        return ListDecoder(entry, arrow)
    if isinstance(node, avro.Null):
        return NullDecoder()
    if isinstance(node, avro.Boolean):
        return BooleanDecoder()
    if isinstance(node, avro.Integer):
        return IntegerDecoder(node)
    if isinstance(node, avro.FixedWidth):
        return FixedWidthDecoder(node.arrow, node.size)
    if isinstance(node, avro.Bytes):
        return BytesDecoder(node.arrow)
    if isinstance(node, avro.Enum):
        return EnumDecoder(node.symbols)
    return DecimalDecoder(node.arrow, node.size)


def compile_columns(record: avro.Record, columns: Collection[str] | None) -> RecordDecoder:
    """The decoder of rows, which skips the fields that are not in `columns`."""
    wanted = [columns is None or name in columns for name, _ in record.fields]
    arrow = pa.struct([avro.arrow_field(n, f) for (n, f), want in zip(record.fields, wanted, strict=True) if want])
    decoder = RecordDecoder(arrow)
    skipping: dict[int, Decoder] = {}
    children = [
        compile_decoder(f) if want else compile_decoder(f, skipping, wanted=False)
        for (_, f), want in zip(record.fields, wanted, strict=True)
    ]
    decoder.fill([name for name, _ in record.fields], children, wanted)
    return decoder


def widest_value(decoder: Decoder) -> int:
    """Bytes that a gather at the last cursor can reach beyond it."""
    return _widest(decoder, set())


def _widest(decoder: Decoder, seen: set[int]) -> int:
    if id(decoder) in seen:
        return 0
    seen.add(id(decoder))
    if isinstance(decoder, RecordDecoder):
        return max((_widest(child, seen) for child in decoder.children), default=0)
    if isinstance(decoder, NullableDecoder):
        return _widest(decoder.value, seen)
    if isinstance(decoder, ListDecoder):
        return _widest(decoder.item, seen)
    if isinstance(decoder, ChoiceDecoder):
        return max(_widest(branch, seen) for branch in decoder.branches)
    return decoder.size or 10


def _hop_long(view: memoryview, at: int) -> tuple[int, int]:
    """A varint's value and the place after it."""
    byte = view[at]
    value, shift = byte & 127, 7
    while byte > 127:
        if shift > 63:
            raise Corrupt("a number is longer than 64 bits")
        at += 1
        byte = view[at]
        value |= (byte & 127) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at + 1


class NullDecoder:
    """No bytes, always null."""

    arrow = pa.null()
    size: int | None = 0

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        return pa.nulls(len(pos))

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        pass

    def hop(self, view: memoryview, at: int) -> int:
        return at


class BooleanDecoder:
    """One byte."""

    arrow = pa.bool_()
    size: int | None = 1

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        value = block.bytes[pos]
        if act is not None:
            value *= act
        if value.max(initial=0) > 1:
            raise Corrupt("a boolean is neither 0 nor 1")
        self.skip(block, pos, act)
        return pa.Array.from_buffers(self.arrow, len(value), [bitmap(valid), bitmap(value)])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        pos += 1 if act is None else act

    def hop(self, view: memoryview, at: int) -> int:
        return at + 1


class IntegerDecoder:
    """Zigzag varints: int, long, dates and times."""

    size: int | None = None

    def __init__(self, node: avro.Integer) -> None:
        self.arrow = node.arrow
        self.factor = node.factor
        self.narrow = node.bits == 32

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        value = varints(block, pos, act)
        if self.narrow:
            small = value.astype(np.int32)
            if (small != value).any():
                raise Corrupt("an int has more than 32 bits")
            return pa.Array.from_buffers(self.arrow, len(value), [bitmap(valid), pa.py_buffer(small)])
        if self.factor != 1 and len(value):
            limit = ((1 << 63) - 1) // self.factor
            if int(value.max()) > limit or int(value.min()) < -limit:
                raise Corrupt("a timestamp in milliseconds has no value in microseconds")
            value *= self.factor
        return pa.Array.from_buffers(self.arrow, len(value), [bitmap(valid), pa.py_buffer(value)])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        varints(block, pos, act)

    def hop(self, view: memoryview, at: int) -> int:
        while view[at] > 127:
            at += 1
        return at + 1


class FixedWidthDecoder:
    """float, double, fixed: the bytes are the Arrow value."""

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
        pos += self.size if act is None else act * np.int64(self.size or 0)

    def hop(self, view: memoryview, at: int) -> int:
        assert self.size is not None
        return at + self.size


class BytesDecoder:
    """bytes and string."""

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

    def hop(self, view: memoryview, at: int) -> int:
        length, at = _hop_long(view, at)
        if length < 0:
            raise Corrupt("a length is negative or runs past the end")
        return at + length


class DecimalDecoder:
    """Big-endian two's complement, on fixed or on bytes."""

    def __init__(self, arrow: pa.DataType, size: int | None) -> None:
        self.arrow = arrow
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
            raise Corrupt("a decimal runs past the end")
        # the bytes that end where the value ends, turned round to little-endian: the value's own come first
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
                    raise Corrupt(f"a decimal does not fit {self.arrow}")
        else:
            last = np.clip(length - 1, 0, width - 1)
            sign = (tail[np.arange(n), last] >> 7) * np.uint8(255) * (length > 0)
            out = np.where(np.arange(width) < length[:, None], tail, sign[:, None].astype(np.uint8))
            for i in np.flatnonzero(length > width):  # no writer pads a number like this: a few at most
                above_one = block.bytes[pos[i] - length[i] : pos[i] - width]
                if (above_one != (tail[i, -1] >> 7) * np.uint8(255)).any():
                    raise Corrupt(f"a decimal does not fit {self.arrow}")
        if act is not None:
            out *= act[:, None]
        return pa.Array.from_buffers(self.arrow, n, [bitmap(valid), pa.py_buffer(np.ascontiguousarray(out))])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        if self.size is None:
            pos += lengths(block, pos, act)
        else:
            pos += self.size if act is None else act * np.int64(self.size)

    def hop(self, view: memoryview, at: int) -> int:
        if self.size is not None:
            return at + self.size
        length, at = _hop_long(view, at)
        if length < 0:
            raise Corrupt("a length is negative or runs past the end")
        return at + length


class EnumDecoder:
    """The index of a symbol, read as the symbol."""

    arrow = pa.string()
    size: int | None = None

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = pa.array(symbols, pa.string())

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        index = varints(block, pos, act)
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= max(len(self.symbols), 1)):
            raise Corrupt(f"an enum of {len(self.symbols)} symbols has another index")
        if not len(self.symbols):
            return pa.nulls(len(index), self.arrow)
        return self.symbols.take(pa.array(index, mask=None if valid is None else valid == 0))

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        varints(block, pos, act)

    def hop(self, view: memoryview, at: int) -> int:
        return _hop_long(view, at)[1]


class NullableDecoder:
    """A branch byte, then perhaps the value."""

    size: int | None = None

    def __init__(self, value: Decoder, value_index: int) -> None:
        self.value = value
        self.value_index = value_index
        self.arrow = value.arrow

    def _present(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> Flags:
        branch = block.bytes[pos]
        if act is not None:
            branch *= act
        if (branch & 0xFD).any():
            raise Corrupt("a union of two branches has another index")
        branch >>= 1
        if self.value_index == 0:
            branch ^= 1
        if act is None:
            pos += 1
        else:
            pos += act
            branch *= act
        return branch

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        present = self._present(block, pos, act)
        if present.all():
            return self.value.decode(block, pos, None, None)
        if not present.any():
            return pa.nulls(len(pos), self.arrow)
        return self.value.decode(block, pos, present, present)

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        present = self._present(block, pos, act)
        if present.all():
            if len(present):
                self.value.skip(block, pos, None)
        elif present.any():
            self.value.skip(block, pos, present)

    def hop(self, view: memoryview, at: int) -> int:
        branch = view[at]
        if branch & 0xFD:
            raise Corrupt("a union of two branches has another index")
        return self.value.hop(view, at + 1) if branch >> 1 == self.value_index else at + 1


class ChoiceDecoder:
    """A union of more branches: a struct with a member for each, or the wider of two numbers."""

    size: int | None = None

    def __init__(self, arrow: pa.DataType, branches: list[Decoder], null_index: int | None, *, is_number: bool) -> None:
        self.arrow = arrow
        self.branches = branches
        self.null_index = null_index
        self.is_number = is_number

    def _branch(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> npt.NDArray[np.int64]:
        """The branch at every cursor, -1 where there is none."""
        index = varints(block, pos, act)
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(self.branches)):
            raise Corrupt(f"a union of {len(self.branches)} branches has another index")
        if act is not None:
            index[act == 0] = -1
        return index

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        index = self._branch(block, pos, act)
        members = []
        for i, branch in enumerate(self.branches):
            if i != self.null_index:
                here = (index == i).view(np.uint8)
                members.append(branch.decode(block, pos, here, here))
        given: Flags | None = None
        if valid is not None or self.null_index is not None:
            given = ((index >= 0) & (index != self.null_index)).view(np.uint8)
        if self.is_number:
            return pc.coalesce(*(member.cast(self.arrow) for member in members))
        return pa.Array.from_buffers(self.arrow, len(pos), [bitmap(given)], children=members)

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        index = self._branch(block, pos, act)
        for i, branch in enumerate(self.branches):
            here = (index == i).view(np.uint8)
            if here.any():
                branch.skip(block, pos, here)

    def hop(self, view: memoryview, at: int) -> int:
        index, at = _hop_long(view, at)
        if not 0 <= index < len(self.branches):
            raise Corrupt(f"a union of {len(self.branches)} branches has another index")
        return self.branches[index].hop(view, at)


class RecordDecoder:
    """Fields one after the other."""

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow
        self.size: int | None = None
        self.names: list[str] = []
        self.children: list[Decoder] = []
        self.wanted: list[bool] = []

    def fill(self, names: list[str], children: list[Decoder], wanted: list[bool] | None = None) -> None:
        """Sets the fields, which in a recursive type refer to this decoder."""
        self.names, self.children = names, children
        self.wanted = [True] * len(names) if wanted is None else wanted
        sizes = [child.size for child in children]
        known = [size for size in sizes if size is not None]
        self.size = sum(known) if len(known) == len(sizes) else None

    def columns(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> list[pa.Array]:
        """The wanted fields."""
        found = []
        for name, child, want in zip(self.names, self.children, self.wanted, strict=True):
            try:
                if want:
                    found.append(child.decode(block, pos, act, None))
                else:
                    child.skip(block, pos, act)
            except Corrupt as error:
                raise Corrupt(_below(name, str(error))) from error
            except IndexError as error:
                raise Corrupt(_below(name, "a value runs past the end")) from error
        return found

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        children = self.columns(block, pos, act)
        return pa.Array.from_buffers(self.arrow, len(pos), [bitmap(valid)], children=children)

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        for child in self.children:
            child.skip(block, pos, act)

    def hop(self, view: memoryview, at: int) -> int:
        for child in self.children:
            at = child.hop(view, at)
        return at


class ListDecoder:
    """array and map: blocks of items, each with a count in front, ended by a count of 0."""

    size: int | None = None

    def __init__(self, item: Decoder, arrow: pa.DataType) -> None:
        self.item = item
        self.arrow = arrow

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        n = len(pos)
        owner, rank, at = self._find(block, pos, act)
        counts = np.bincount(owner, minlength=n)
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        total = int(offsets[-1])
        if total >= 1 << 31:
            raise Corrupt("lists claim more items than their bytes can hold")
        items = np.empty(total, np.int64)
        items[offsets[owner] + rank] = at
        child = self.item.decode(block, items, None, None)
        buffers = [bitmap(valid), pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(self.arrow, n, buffers, children=[child])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        self._find(block, pos, act)

    def hop(self, view: memoryview, at: int) -> int:
        while True:
            count, at = _hop_long(view, at)
            if count < 0:
                count = -count
                at = _hop_long(view, at)[1]
            if not count:
                return at
            if self.item.size is not None:
                at += count * self.item.size
            else:
                for _ in range(count):
                    at = self.item.hop(view, at)
            if at > len(view):
                raise Corrupt("a list runs past the end")

    def _find(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> tuple[Cursors, Cursors, Cursors]:
        """Where every item starts: its list, its index there, its place. The cursors move to the ends of the lists."""
        size = self.item.size
        lists = np.arange(len(pos)) if act is None else np.flatnonzero(act)
        at = pos[lists]
        done = np.zeros(len(pos), np.int64)
        found: list[tuple[Cursors, Cursors, Cursors]] = []
        while len(lists):
            counts = item_counts(block, at, 1 if size is None else size)
            pos[lists] = at
            more = np.flatnonzero(counts)
            lists, at, counts = lists[more], at[more], counts[more]
            if not len(lists):
                break
            if size is not None:
                total = int(counts.sum())
                if size == 0:
                    block.take_zero_width(total)
                owner = np.repeat(lists, counts)
                rank = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
                found.append((owner, rank + done[owner], np.repeat(at, counts) + rank * size))
                at += counts * size
            else:
                self._walk(block, lists, at, counts, done, found)
            done[lists] += counts
        if not found:
            none = np.empty(0, np.int64)
            return none, none, none
        owners, ranks, places = zip(*found, strict=True)
        return np.concatenate(owners), np.concatenate(ranks), np.concatenate(places)

    def _walk(
        self,
        block: ByteBlock,
        lists: Cursors,
        at: Cursors,
        counts: npt.NDArray[np.int64],
        done: npt.NDArray[np.int64],
        found: list[tuple[Cursors, Cursors, Cursors]],
    ) -> None:
        """Finds items of different sizes; `at` moves behind the last one of every list."""
        live, k = np.arange(len(lists)), 0
        while len(live) >= FEW_CURSORS:
            here = at[live]
            found.append((lists[live], done[lists[live]] + k, here.copy()))
            self.item.skip(block, here, None)
            at[live] = here
            k += 1
            live = live[counts[live] > k]
        # item by item: for a handful of lists a round in NumPy costs more than a loop in Python
        hop, view, end = self.item.hop, block.view, block.end
        for j in live.tolist():
            place, left = int(at[j]), int(counts[j]) - k
            places: list[int] = []
            for _ in range(left):
                places.append(place)
                place = hop(view, place)
                if place > end:
                    raise Corrupt("a list runs past the end")
            at[j] = place
            rank = np.arange(left) + (k + int(done[lists[j]]))
            found.append((np.full(left, lists[j]), rank, np.array(places, np.int64)))


def _below(name: str, why: str) -> str:
    """Puts the name of an enclosing field in front of a message: `field 'a.b': why`."""
    if why.startswith("field '"):
        return f"field '{name}.{why[7:]}"
    return f"field '{name}': {why}"
