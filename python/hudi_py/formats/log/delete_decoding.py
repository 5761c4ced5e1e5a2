"""Decodes delete blocks (`HoodieDeleteBlock`, `HoodieAvroWrapperUtils` 1.2.0).

Version 3: `int32 3`, `int32 length`, then Avro binary of `HoodieDeleteRecordList`: an array of
`{recordKey: null|string, partitionPath: null|string, orderingVal: union of wrapper records}`. Versions 1 and 2, which
Apache Hudi wrote until 0.13, hold Java objects: see `kryo`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro.cursor import CorruptBytesError
from hudi_py.formats.avro.leaf_decoders import hop_long
from hudi_py.formats.log.kryo import KryoDeletes, is_default_value, read_kryo_deletes

DELETE_BLOCK_VERSION = 3
DECIMAL_WRAPPER_TYPE = pa.decimal128(30, 15)
"""Decimal type of a delete's ordering value; Java rescales every decimal to it."""


class Wrapper(IntEnum):
    """Branches of the union `orderingVal`."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12
    """Since 1.1, for several ordering fields. In its items 12 is `LocalDateWrapper`."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """Records of a delete block, in the block's order."""

    keys: pa.StringArray
    partitions: pa.StringArray
    """Null where the block has none."""
    ordering: pa.Array | None
    """Typed by the wrapper: bool, int32, int64, float, double, binary, string, date32, decimal128(30, 15), int64 for a
    time, timestamp[us, UTC]; a struct with fields "0", "1", ... for several ordering fields. Decimals of versions 1 and
    2 have the scale and precision of their values. Null where `is_default`; None if all are. Java writes timestamps as
    longs of microseconds, so they are usually int64."""
    is_default: npt.NDArray[np.bool_]
    """Rows without an ordering value or with the int 0: deletes in commit time order (`OrderingValues`)."""

    def __len__(self) -> int:
        return len(self.keys)


def decode_deletes(content: bytes, *, context: str) -> Deletes:
    """Decodes the records of a delete block.

    Args:
        content: the block's content.
        context: file and block, for errors.

    Raises:
        CorruptFileError: the bytes contradict the format.
        UnsupportedTableError: the content has a later version, or ordering values of types that cannot be compared or,
            in versions 1 and 2, of an unknown Java class.
    """
    if len(content) < 8:
        raise CorruptFileError(f"Cannot read deletes of {context}: {len(content)} bytes, expected at least 8")
    version, length = struct.unpack_from(">ii", content)
    if version > DELETE_BLOCK_VERSION:
        raise UnsupportedTableError(
            f"Cannot read deletes of {context}: delete block version {version}; supported: 1 to "
            f"{DELETE_BLOCK_VERSION}; compact the table with the release of Apache Hudi that wrote it"
        )
    if version < 1 or length != len(content) - 8:
        raise CorruptFileError(
            f"Cannot read deletes of {context}: version {version} announces {length} bytes; found {len(content) - 8}"
        )
    if version < DELETE_BLOCK_VERSION:
        return _from_java(read_kryo_deletes(content[8:], version, context=context), context)
    try:
        spans = _find_records(content, 8)
        return _Decoder(content, context).deletes(spans)
    except (IndexError, pa.ArrowInvalid) as error:
        # a length or varint past the end, or text that is not UTF-8
        raise CorruptFileError(f"Cannot read deletes of {context}: {error}") from error
    except CorruptBytesError as error:
        raise CorruptFileError(f"Cannot read deletes of {context}: {error}") from None


def _from_java(records: KryoDeletes, context: str) -> Deletes:
    """Converts records of a Kryo block; ordering values get the types of Avro's wrappers."""
    is_default = np.fromiter(map(is_default_value, records.types, records.values), np.bool_, len(records.types))
    kinds = {kind for kind, default in zip(records.types, is_default.tolist(), strict=True) if not default}
    _check_comparable(sorted(kinds), kinds <= _JAVA_NUMBERS, context)
    ordering = None
    if kinds:
        values = [
            None if default else value for value, default in zip(records.values, is_default.tolist(), strict=True)
        ]
        kind = kinds.pop() if len(kinds) == 1 else "double" if kinds & {"float", "double"} else "long"
        try:
            # decimals get the greatest scale of all values
            ordering = pa.array(values, _JAVA_TYPES.get(kind))
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"Cannot read deletes of {context}: {error}") from error
    keys, partitions = pa.array(records.keys, pa.string()), pa.array(records.partitions, pa.string())
    return Deletes(keys, partitions, ordering, is_default)


def _check_comparable(kinds: Sequence[str], comparable: bool, context: str) -> None:
    if len(kinds) > 1 and not comparable:
        raise UnsupportedTableError(
            f"Cannot read deletes of {context}: their ordering values are of the types {' and '.join(kinds)}, which "
            "cannot be compared; compact the table with the release of Apache Hudi that wrote it"
        )


@dataclass(frozen=True, slots=True)
class _Spans:
    """Positions of the records' fields, as flat lists with start and end of each record."""

    keys: list[int]
    partitions: list[int]
    null_partitions: list[int]
    """Rows."""
    branches: bytearray
    values: list[int]
    """Spans of the ordering values, without the length of strings."""


def _find_records(data: bytes, offset: int) -> _Spans:
    """Finds the records in a Python loop, since a record's position is known only after reading the previous one."""
    spans = _Spans([], [], [], bytearray(), [])
    keys, partitions, branches, values = spans.keys, spans.partitions, spans.branches, spans.values
    end = len(data)
    while True:
        count, offset = hop_long(data, offset)
        if count == 0:
            break
        if count < 0:  # a negative count: the block's size in bytes follows
            count = -count
            _, offset = hop_long(data, offset)
        if count > (end - offset) // 3:  # every record takes three bytes or more
            raise CorruptBytesError(f"{count} records claimed in {end - offset} bytes")
        for _ in range(count):
            if data[offset] != 2:
                raise CorruptBytesError(f"union branch byte {data[offset]} for the record key at byte {offset}")
            size = data[offset + 1]
            offset += 2
            if size & 0x81:
                size, offset = _read_length(data, offset - 1)
            else:
                size >>= 1
            keys += (offset, offset + size)
            offset += size
            branch = data[offset]
            offset += 1
            if branch == 2:
                size = data[offset]
                offset += 1
                if size & 0x81:
                    size, offset = _read_length(data, offset - 1)
                else:
                    size >>= 1
                partitions += (offset, offset + size)
                offset += size
            elif branch == 0:
                spans.null_partitions.append(len(branches))
                partitions += (offset, offset)
            else:
                raise CorruptBytesError(f"union branch byte {branch} for the partition path at byte {offset - 1}")
            branch = data[offset]
            if branch & 1 or branch > 2 * Wrapper.ARRAY:
                raise CorruptBytesError(f"union branch byte {branch} for the ordering value at byte {offset}")
            offset += 1
            branches.append(branch >> 1)
            if (branch == 4 or branch == 6) and data[offset] < 128:  # a short int or long
                values += (offset, offset + 1)
                offset += 1
                continue
            start, offset = _value_span(data, offset, branch >> 1)
            values += (start, offset)
    if offset != end:
        raise CorruptBytesError(f"{end - offset} bytes after the last record")
    return spans


def _value_span(data: bytes, offset: int, branch: int) -> tuple[int, int]:
    """Returns start and end of an ordering value's bytes; `offset` is the start of its wrapper."""
    if branch in _VARINTS:
        start = offset
        while data[offset] > 127:
            offset += 1
        if offset - start > 9:
            raise CorruptBytesError(f"a number of more than ten bytes at byte {start}")
        return start, offset + 1
    if branch in _FIXED_SIZES:
        return offset, offset + _FIXED_SIZES[branch]
    if branch in _TEXTS:
        size, offset = _read_length(data, offset)
        return offset, offset + size
    start = offset
    for _branch, _start, offset in _array_items(data, start):  # noqa: B007 - only the last end is needed
        pass
    return start, offset


def _array_items(data: bytes, offset: int) -> Iterator[tuple[int, int, int]]:
    """Yields branch, start and end of the items of an `ArrayWrapper`, then (-1, end, end)."""
    branch = data[offset]
    offset += 1
    if branch not in (0, 2):
        raise CorruptBytesError(f"union branch byte {branch} for the list of ordering values at byte {offset - 1}")
    while branch:
        count, offset = hop_long(data, offset)
        if count == 0:
            break
        if count < 0:
            count = -count
            _, offset = hop_long(data, offset)
        if count > len(data) - offset:
            raise CorruptBytesError(f"{count} ordering values claimed in {len(data) - offset} bytes")
        for _ in range(count):
            item = data[offset]
            if item & 1 or item > 2 * Wrapper.ARRAY:
                raise CorruptBytesError(f"union branch byte {item} for an ordering value at byte {offset}")
            kind = Wrapper.DATE if item == 2 * Wrapper.ARRAY else item >> 1  # 12 is LocalDateWrapper here
            start, offset = _value_span(data, offset + 1, kind)
            yield kind, start, offset
    yield -1, offset, offset


_VARINTS = frozenset({Wrapper.INT, Wrapper.LONG, Wrapper.DATE, Wrapper.TIME_MICROS, Wrapper.TIMESTAMP_MICROS})
_FIXED_SIZES: dict[int, int] = {Wrapper.NULL: 0, Wrapper.BOOLEAN: 1, Wrapper.FLOAT: 4, Wrapper.DOUBLE: 8}
_TEXTS = frozenset({Wrapper.BYTES, Wrapper.STRING, Wrapper.DECIMAL})


def _read_length(data: bytes, offset: int) -> tuple[int, int]:
    value, offset = hop_long(data, offset)
    if value < 0 or value > len(data) - offset:
        raise CorruptBytesError(f"a text of {value} bytes before byte {offset}")
    return value, offset


class _Decoder:
    """Converts spans to Arrow arrays, a field at a time."""

    def __init__(self, content: bytes, context: str) -> None:
        self._content = content
        self._bytes = np.frombuffer(content, np.uint8)
        self._context = context

    def deletes(self, spans: _Spans) -> Deletes:
        partitions = self._texts(_span_pairs(spans.partitions), pa.string())
        if spans.null_partitions:
            is_null = np.zeros(len(partitions), np.bool_)
            is_null[spans.null_partitions] = True
            partitions = pc.if_else(pa.array(is_null), pa.scalar(None, pa.string()), partitions)
        branches = np.frombuffer(bytes(spans.branches), np.uint8)
        ordering, is_default = self._values(branches, _span_pairs(spans.values))
        return Deletes(self._texts(_span_pairs(spans.keys), pa.string()), partitions, ordering, is_default)

    def _values(
        self, branches: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64]
    ) -> tuple[pa.Array | None, npt.NDArray[np.bool_]]:
        """Returns the values of one ordering field, null where they are the default, and a mask of the defaults."""
        is_default = branches == Wrapper.NULL
        ints = np.flatnonzero(branches == Wrapper.INT)
        is_default[ints] = self._varints(spans[ints]) == 0
        kinds = [Wrapper(kind) for kind in np.unique(branches[~is_default])]
        if not kinds:
            return None, is_default
        _check_comparable([kind.name for kind in kinds], _NUMBERS.issuperset(kinds), self._context)
        rows = [np.flatnonzero((branches == kind) & ~is_default) for kind in kinds]
        parts = [self._decode(kind, spans[offset]) for kind, offset in zip(kinds, rows, strict=True)]
        if len(parts) > 1:  # the block was merged from blocks before and after the column's type was widened
            target = _common_number(kinds)
            parts = [part.cast(target, safe=False) for part in parts]
        elif len(rows[0]) == len(branches):
            return parts[0], is_default
        order = np.full(len(branches), -1, np.int64)
        order[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0)), is_default

    def _decode(self, kind: Wrapper, spans: npt.NDArray[np.int64]) -> pa.Array:
        if kind in _VARINTS:
            values = self._varints(spans)
            if kind in (Wrapper.INT, Wrapper.DATE):
                if len(values) and (values.min() < -(2**31) or values.max() >= 2**31):
                    raise CorruptBytesError("an int beyond 32 bits")
                values = values.astype(np.int32)
            return pa.array(values).view(_VARINT_TYPES[kind])
        if kind is Wrapper.STRING:
            return self._texts(spans, pa.string())
        if kind is Wrapper.BYTES:
            return self._texts(spans, pa.binary())
        if kind is Wrapper.DECIMAL:
            return self._decimals(spans)
        if kind is Wrapper.ARRAY:
            return self._several(spans)
        raw = self._bytes[spans[:, :1] + np.arange(_FIXED_SIZES[kind])]
        if kind is Wrapper.BOOLEAN:
            if raw.max() > 1:
                raise CorruptBytesError(f"a boolean of {raw.max()}")
            return pa.array(raw[:, 0].astype(np.bool_))
        return pa.array(raw.view("<f4" if kind is Wrapper.FLOAT else "<f8")[:, 0])

    def _varints(self, spans: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        starts, sizes = spans[:, 0], spans[:, 1] - spans[:, 0]
        raw = np.zeros(len(spans), np.uint64)
        for k in range(int(sizes.max(initial=0))):
            live = sizes > k
            septet = self._bytes[np.where(live, starts + k, 0)].astype(np.uint64) & np.uint64(0x7F)
            raw |= np.where(live, septet << np.uint64(7 * k), np.uint64(0))
        values: npt.NDArray[np.int64] = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
        return values

    def _texts(self, spans: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
        """Takes the spans from an array over the content that alternates between spans and gaps."""
        if not len(spans):
            return pa.array([], kind)
        offsets = spans.reshape(-1).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._content)]
        both = pa.Array.from_buffers(kind, len(offsets) - 1, buffers)
        texts = both.take(pa.array(np.arange(0, len(offsets) - 1, 2)))
        texts.validate(full=True)
        return texts

    def _decimals(self, spans: npt.NDArray[np.int64]) -> pa.Array:
        starts, ends = spans[:, :1], spans[:, 1:]
        sizes = ends - starts
        if sizes.min() < 1 or sizes.max() > 16:
            raise CorruptBytesError(f"a decimal of {sizes.min()} to {sizes.max()} bytes")
        index = ends - 1 - np.arange(16)  # little-endian: the last byte first
        inside = index >= starts
        sign = (self._bytes[starts] >> 7) * np.uint8(0xFF)
        raw = np.where(inside, self._bytes[np.where(inside, index, 0)], sign)
        buffers = [None, pa.py_buffer(np.ascontiguousarray(raw))]
        values = pa.Array.from_buffers(DECIMAL_WRAPPER_TYPE, len(spans), buffers)
        values.validate(full=True)
        return values

    def _several(self, spans: npt.NDArray[np.int64]) -> pa.Array:
        """Builds a struct of the fields' values in a Python loop, since items must be parsed in order."""
        fields: list[tuple[bytearray, list[int]]] = []
        for row, start in enumerate(spans[:, 0].tolist()):
            items = list(_array_items(self._content, start))[:-1]
            if row == 0:
                fields = [(bytearray(), []) for _ in items]
            if not items or len(items) != len(fields):
                raise CorruptBytesError(f"{len(items)} ordering values in a record, {len(fields)} in the first")
            for (branches, values), (branch, first, end) in zip(fields, items, strict=True):
                branches.append(branch)
                values += (first, end)
        columns = []
        for branches, values in fields:
            column, _ = self._values(np.frombuffer(bytes(branches), np.uint8), _span_pairs(values))
            # for several fields Java treats null and the int 0 alike
            columns.append(pa.nulls(len(spans), pa.int32()) if column is None else column)
        return pa.StructArray.from_arrays(columns, names=[str(index) for index in range(len(columns))])


_JAVA_NUMBERS = frozenset({"int", "long", "float", "double"})
_JAVA_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_NUMBERS = frozenset({Wrapper.INT, Wrapper.LONG, Wrapper.FLOAT, Wrapper.DOUBLE})
_VARINT_TYPES = {
    Wrapper.INT: pa.int32(),
    Wrapper.LONG: pa.int64(),
    Wrapper.DATE: pa.date32(),
    Wrapper.TIME_MICROS: pa.int64(),
    Wrapper.TIMESTAMP_MICROS: pa.timestamp("us", "UTC"),
}


def _common_number(kinds: Sequence[Wrapper]) -> pa.DataType:
    if Wrapper.FLOAT in kinds or Wrapper.DOUBLE in kinds:
        return pa.float64()
    return pa.int64()


def _span_pairs(flat: list[int]) -> npt.NDArray[np.int64]:
    return np.array(flat, np.int64).reshape(-1, 2)
