"""Decoders of composite Avro types (nullable, unions, records, lists), and the compilation of a schema's decoders."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.avro import schema as avro
from hudi_py.formats.avro.cursor import ByteBlock, CorruptBytesError, Cursors, Flags, bitmap, item_counts, varints
from hudi_py.formats.avro.leaf_decoders import (
    BooleanDecoder,
    BytesDecoder,
    DecimalDecoder,
    Decoder,
    EnumDecoder,
    FixedWidthDecoder,
    IntegerDecoder,
    NullDecoder,
    VectorDecoder,
    hop_long,
)

MAX_CURSORS = 48
"""Threshold for decoding lists: rounds decode the k-th item of every list at once, until fewer than this many lists
have items left."""


def compile_decoder(node: avro.Node, known: dict[int, Decoder] | None = None, *, wanted: bool = True) -> Decoder:
    """Compiles the decoder of a node. If not `wanted`, the node may be recursive, and the decoder can only skip
    values."""
    known = {} if known is None else known
    if isinstance(node, avro.Record):
        if id(node) in known:
            return known[id(node)]
        record = RecordDecoder(pa.null() if not wanted else avro.arrow_of(node))
        if not wanted:
            known[id(node)] = record
        record.fill(
            [name for name, _ in node.fields], [compile_decoder(f, known, wanted=wanted) for _, f in node.fields]
        )
        return record
    if isinstance(node, avro.Nullable):
        return NullableDecoder(compile_decoder(node.value, known, wanted=wanted), node.value_index)
    if isinstance(node, avro.Choice):
        branches = [compile_decoder(b, known, wanted=wanted) for b in node.branches]
        arrow = avro.arrow_of(node) if wanted else pa.null()
        return ChoiceDecoder(arrow, branches, node.null_index, is_number=node.number is not None)
    if isinstance(node, avro.Array):
        return ListDecoder(
            compile_decoder(node.item, known, wanted=wanted), avro.arrow_of(node) if wanted else pa.null()
        )
    if isinstance(node, avro.Map):
        arrow = avro.arrow_of(node) if wanted else pa.null()
        entry = RecordDecoder(pa.struct([arrow.key_field, arrow.item_field]) if wanted else pa.null())
        entry.fill(["key", "value"], [BytesDecoder(pa.string()), compile_decoder(node.value, known, wanted=wanted)])
        return ListDecoder(entry, arrow)
    return _leaf_decoder(node)


def _leaf_decoder(node: avro.Leaf) -> Decoder:
    if isinstance(node, avro.Null):
        return NullDecoder()
    if isinstance(node, avro.Boolean):
        return BooleanDecoder()
    if isinstance(node, avro.Integer):
        return IntegerDecoder(node)
    if isinstance(node, avro.FixedWidth):
        return FixedWidthDecoder(node.arrow, node.size)
    if isinstance(node, avro.FixedVector):
        return VectorDecoder(node.arrow, node.size)
    if isinstance(node, avro.Bytes):
        return BytesDecoder(node.arrow)
    if isinstance(node, avro.Enum):
        return EnumDecoder(node.symbols)
    return DecimalDecoder(node.arrow, node.size)


def compile_columns(record: avro.Record, columns: Collection[str] | None) -> RecordDecoder:
    """Compiles the decoder of rows; it skips fields that are not in `columns`."""
    return _compiled(record, None if columns is None else frozenset(columns))


@lru_cache(maxsize=64)  # decoders are stateless, and those of the metadata table are in frequent use
def _compiled(record: avro.Record, columns: frozenset[str] | None) -> RecordDecoder:
    wanted = [columns is None or name in columns for name, _ in record.fields]
    arrow = pa.struct([avro.arrow_field(n, f) for (n, f), want in zip(record.fields, wanted, strict=True) if want])
    decoder = RecordDecoder(arrow)
    skipped: dict[int, Decoder] = {}
    children = [
        compile_decoder(f) if want else compile_decoder(f, skipped, wanted=False)
        for (_, f), want in zip(record.fields, wanted, strict=True)
    ]
    decoder.fill([name for name, _ in record.fields], children, wanted)
    return decoder


@lru_cache(maxsize=64)
def widest_value(decoder: Decoder) -> int:
    """Returns the maximum number of bytes that decoding reads beyond a cursor at once."""
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


class NullableDecoder:
    """Decodes a branch byte, then the value unless it is null."""

    size: int | None = None

    def __init__(self, value: Decoder, value_index: int) -> None:
        self.value = value
        self.value_index = value_index
        self.arrow = value.arrow

    def _present(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> Flags:
        branch = block.bytes[pos]
        if act is not None:
            branch *= act
        if int(np.bitwise_or.reduce(branch)) & 0xFD:
            raise CorruptBytesError("a union of two branches has another index")
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
            raise CorruptBytesError("a union of two branches has another index")
        return self.value.hop(view, at + 1) if branch >> 1 == self.value_index else at + 1


class ChoiceDecoder:
    """Decodes any other union: a struct with a member for each branch, or the wider of two number types."""

    size: int | None = None

    def __init__(self, arrow: pa.DataType, branches: list[Decoder], null_index: int | None, *, is_number: bool) -> None:
        self.arrow = arrow
        self.branches = branches
        self.null_index = null_index
        self.is_number = is_number

    def _branch(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> npt.NDArray[np.int64]:
        """Reads the branch at every cursor; -1 for inactive ones."""
        index = varints(block, pos, act)
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(self.branches)):
            raise CorruptBytesError(f"a union of {len(self.branches)} branches has another index")
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
        index, at = hop_long(view, at)
        if not 0 <= index < len(self.branches):
            raise CorruptBytesError(f"a union of {len(self.branches)} branches has another index")
        return self.branches[index].hop(view, at)


class RecordDecoder:
    """Decodes the fields in order."""

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow
        self.size: int | None = None
        self.names: list[str] = []
        self.children: list[Decoder] = []
        self.wanted: list[bool] = []

    def fill(self, names: list[str], children: list[Decoder], wanted: list[bool] | None = None) -> None:
        """Sets the fields, which may refer to this decoder (recursive types)."""
        self.names, self.children = names, children
        self.wanted = [True] * len(names) if wanted is None else wanted
        sizes = [child.size for child in children]
        known = [size for size in sizes if size is not None]
        self.size = sum(known) if len(known) == len(sizes) else None

    def columns(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> list[pa.Array]:
        """Decodes the wanted fields."""
        children = []
        for name, child, want in zip(self.names, self.children, self.wanted, strict=True):
            try:
                if want:
                    children.append(child.decode(block, pos, act, None))
                else:
                    child.skip(block, pos, act)
            except CorruptBytesError as error:
                raise CorruptBytesError(_below(name, str(error))) from error
            except IndexError as error:
                raise CorruptBytesError(_below(name, "a value runs past the end")) from error
        return children

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
    """Decodes array and map: blocks of items with a count, terminated by a count of 0."""

    size: int | None = None

    def __init__(self, item: Decoder, arrow: pa.DataType) -> None:
        self.item = item
        self.arrow = arrow

    def decode(self, block: ByteBlock, pos: Cursors, act: Flags | None, valid: Flags | None) -> pa.Array:
        n = len(pos)
        owner, rank, starts = self._find(block, pos, act)
        counts = np.bincount(owner, minlength=n)
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        total = int(offsets[-1])
        if total >= 1 << 31:
            raise CorruptBytesError("lists claim more items than their bytes can hold")
        items = np.empty(total, np.int64)
        items[offsets[owner] + rank] = starts
        child = self.item.decode(block, items, None, None)
        buffers = [bitmap(valid), pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(self.arrow, n, buffers, children=[child])

    def skip(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> None:
        self._find(block, pos, act)

    def hop(self, view: memoryview, at: int) -> int:
        while True:
            count, at = hop_long(view, at)
            if count < 0:
                count = -count
                at = hop_long(view, at)[1]
            if not count:
                return at
            if self.item.size is not None:
                at += count * self.item.size
            else:
                for _ in range(count):
                    at = self.item.hop(view, at)
            if at > len(view):
                raise CorruptBytesError("a list runs past the end")

    def _find(self, block: ByteBlock, pos: Cursors, act: Flags | None) -> tuple[Cursors, Cursors, Cursors]:
        """Finds the list, index in the list, and position of every item. Moves the cursors to the ends of the lists."""
        size = self.item.size
        lists = np.arange(len(pos)) if act is None else np.flatnonzero(act)
        starts = pos[lists]
        done = np.zeros(len(pos), np.int64)
        items: list[tuple[Cursors, Cursors, Cursors]] = []
        while len(lists):
            counts = item_counts(block, starts, 1 if size is None else size)
            pos[lists] = starts
            more = np.flatnonzero(counts)
            lists, starts, counts = lists[more], starts[more], counts[more]
            if not len(lists):
                break
            if size is not None:
                total = int(counts.sum())
                if size == 0:
                    block.take_zero_width(total)
                owner = np.repeat(lists, counts)
                rank = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
                items.append((owner, rank + done[owner], np.repeat(starts, counts) + rank * size))
                starts += counts * size
            else:
                self._walk(block, lists, starts, counts, done, items)
            done[lists] += counts
        if not items:
            none = np.empty(0, np.int64)
            return none, none, none
        owners, ranks, places = zip(*items, strict=True)
        return np.concatenate(owners), np.concatenate(ranks), np.concatenate(places)

    def _walk(
        self,
        block: ByteBlock,
        lists: Cursors,
        starts: Cursors,
        counts: npt.NDArray[np.int64],
        done: npt.NDArray[np.int64],
        items: list[tuple[Cursors, Cursors, Cursors]],
    ) -> None:
        """Finds items of varying size; moves `at` to the end of the last item of every list."""
        live, k = np.arange(len(lists)), 0
        while len(live) >= MAX_CURSORS:
            here = starts[live]
            items.append((lists[live], done[lists[live]] + k, here.copy()))
            self.item.skip(block, here, None)
            starts[live] = here
            k += 1
            live = live[counts[live] > k]
        # item by item: for few lists NumPy costs more than a Python loop
        hop, view, end = self.item.hop, block.view, block.end
        for j in live.tolist():
            place, left = int(starts[j]), int(counts[j]) - k
            places: list[int] = []
            for _ in range(left):
                places.append(place)
                place = hop(view, place)
                if place > end:
                    raise CorruptBytesError("a list runs past the end")
            starts[j] = place
            rank = np.arange(left) + (k + int(done[lists[j]]))
            items.append((np.full(left, lists[j]), rank, np.array(places, np.int64)))


def _below(name: str, why: str) -> str:
    """Prefixes a message with the name of an enclosing field: `field 'a.b': why`."""
    if why.startswith("field '"):
        return f"field '{name}.{why[7:]}"
    return f"field '{name}': {why}"
