"""Encodes delete blocks (`HoodieDeleteBlock`, `HoodieAvroWrapperUtils` 1.2.0)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.arrays import combined, is_bytes, is_text
from hudi_py.formats.log.delete_decoding import DECIMAL_WRAPPER_TYPE, DELETE_BLOCK_VERSION, Wrapper
from hudi_py.formats.varint import varint

_ROWS_AT_ONCE = 1 << 16
"""Keeps the 32-bit offsets of the intermediate arrays far from their limit."""
_DEFAULT = b"\x04\x00"
"""IntWrapper 0."""


def encode_deletes(
    keys: pa.StringArray | pa.ChunkedArray,
    partitions: pa.StringArray | pa.ChunkedArray,
    ordering: pa.Array | pa.ChunkedArray | None,
) -> bytes:
    """Encodes the content of a version 3 delete block.

    Java represents timestamps as longs when it orders records, so timestamps are written as `LongWrapper` of
    microseconds; `TimestampMicrosWrapper` would not compare equal to them.

    Args:
        keys: record keys, without nulls.
        partitions: partition paths, of the same length.
        ordering: the ordering value of each delete, a struct for several ordering fields; nulls become `IntWrapper` 0.
            None for deletes in commit time order (`IntWrapper` 0 each).

    Raises:
        SchemaMismatchError: a key is null, or the ordering column's type or value has no wrapper.
    """
    count = len(keys)
    if keys.null_count:
        raise SchemaMismatchError(f"Cannot encode {count} deletes: {keys.null_count} record keys are null")
    parts = [varint(count << 1)] if count else []
    for start in range(0, count, _ROWS_AT_ONCE):
        key, partition = _column_chunk(keys, start), _column_chunk(partitions, start)
        rows = len(key)
        values = (
            _repeat_bytes(_DEFAULT, rows)
            if ordering is None
            else _wrapped_values(_column_chunk(ordering, start), _DEFAULT)
        )
        path = pc.fill_null(_join_bytes(_repeat_bytes(b"\x02", rows), _with_length(partition)), b"\x00")
        joined = _join_bytes(_repeat_bytes(b"\x02", rows), _with_length(key), path, values)
        parts.append(_value_bytes(joined))
    parts.append(b"\x00")
    body = b"".join(parts)
    return struct.pack(">ii", DELETE_BLOCK_VERSION, len(body)) + body


def _column_chunk(column: pa.Array | pa.ChunkedArray, start: int) -> pa.Array:
    return combined(column.slice(start, _ROWS_AT_ONCE))


def _wrapped_values(column: pa.Array, absent: bytes) -> pa.Array:
    """Returns union branch and wrapper of every value as binary; `absent` for nulls."""
    wrapper, kind = _wrapper_of(column.type)
    if wrapper is Wrapper.ARRAY:
        fields = [_wrapped_values(field, b"\x00") for field in column.flatten()]
        # union branch of the list, its items in one block, end of the list
        items = _join_bytes(_repeat_bytes(b"\x02" + varint(len(fields) << 1), len(column)), *fields)
        values = _join_bytes(items, _repeat_bytes(b"\x00", len(column)))
        if column.null_count:
            values = pc.if_else(pc.is_null(column), pa.scalar(None, pa.binary()), values)
    else:
        try:
            values = _encoded_values(wrapper, column.cast(kind))
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"Cannot encode an ordering value of type {column.type} in a delete block: "
                f"Hudi stores it as {kind}, {error}"
            ) from error
    return pc.fill_null(_join_bytes(_repeat_bytes(varint(wrapper << 1), len(column)), values), absent)


def _wrapper_of(kind: pa.DataType) -> tuple[Wrapper, pa.DataType]:
    """Returns the wrapper of a column type, and the type to cast its values to."""
    for fits, wrapper, stored in _WRAPPERS:
        if fits(kind):
            return wrapper, kind if stored is None else stored
    if pa.types.is_timestamp(kind):
        return Wrapper.LONG, pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind) and kind.num_fields:
        return Wrapper.ARRAY, kind
    raise SchemaMismatchError(
        f"Cannot encode an ordering value of type {kind} in a delete block; supported: boolean, integers, floats, "
        "decimal, date, time, timestamp, string, binary and a struct of these"
    )


_WRAPPERS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Wrapper, pa.DataType | None]]] = (
    (pa.types.is_boolean, Wrapper.BOOLEAN, None),
    (pa.types.is_int8, Wrapper.INT, pa.int32()),
    (pa.types.is_int16, Wrapper.INT, pa.int32()),
    (pa.types.is_int32, Wrapper.INT, None),
    (pa.types.is_int64, Wrapper.LONG, None),
    # Java 1.2.0 represents dates as Integer, and cannot compare it with a DateWrapper
    (pa.types.is_date32, Wrapper.INT, None),
    (pa.types.is_time32, Wrapper.INT, None),
    (pa.types.is_time64, Wrapper.LONG, pa.time64("us")),
    (pa.types.is_float32, Wrapper.FLOAT, None),
    (pa.types.is_float64, Wrapper.DOUBLE, None),
    (is_text, Wrapper.STRING, pa.string()),
    (pa.types.is_decimal, Wrapper.DECIMAL, DECIMAL_WRAPPER_TYPE),
    (is_bytes, Wrapper.BYTES, pa.binary()),
)
"""Tests of scalar types, with their wrapper and the type to cast values to; the first match counts."""


def _encoded_values(wrapper: Wrapper, column: pa.Array) -> pa.Array:
    """Returns the Avro bytes of every value as binary; null for null."""
    if wrapper in (Wrapper.STRING, Wrapper.BYTES):
        return _with_length(column)
    if wrapper is Wrapper.DECIMAL:
        return _with_length(_unscaled_bytes(column))
    if wrapper is Wrapper.BOOLEAN:
        raw = column.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False)[:, None]
        return _row_bytes(raw, np.ones(len(raw), np.int64), column)
    if wrapper in (Wrapper.FLOAT, Wrapper.DOUBLE):
        width = column.type.bit_width // 8
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(f"<f{width}")
        return _row_bytes(values.view(np.uint8).reshape(-1, width), np.full(len(values), width), column)
    integers = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
    values = integers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)[:, None] >> (np.arange(10, dtype=np.uint64) * np.uint64(7))
    sizes = np.maximum((raw != 0).sum(axis=1), 1)
    more = np.arange(10) < sizes[:, None] - 1
    return _row_bytes((raw.astype(np.uint8) & 0x7F) | np.where(more, 0x80, 0).astype(np.uint8), sizes, column)


def _unscaled_bytes(column: pa.Array) -> pa.Array:
    """Returns unscaled values as the shortest big-endian two's complement (`BigInteger.toByteArray`)."""
    data = column.buffers()[1]
    little = np.frombuffer(data, np.uint8)[16 * column.offset : 16 * (column.offset + len(column))]
    raw = little.reshape(-1, 16)[:, ::-1]
    magnitude = raw ^ ((raw[:, :1] >> 7) * np.uint8(0xFF))  # sign bits cleared: leading zeros are surplus
    used = magnitude != 0
    first = np.where(used.any(axis=1), used.argmax(axis=1), 15)
    top = magnitude[np.arange(len(raw)), first]
    sizes = np.minimum(16 - first + (top >> 7), 16)
    shifted = raw[np.arange(len(raw))[:, None], np.minimum(16 - sizes[:, None] + np.arange(16), 15)]
    return _row_bytes(shifted, sizes, column)


def _row_bytes(raw: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64], like: pa.Array) -> pa.Array:
    """Returns the first `sizes[i]` bytes of row i as binary; null where `like` is null."""
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    flat = raw[np.arange(raw.shape[1]) < sizes[:, None]]
    values = pa.Array.from_buffers(pa.binary(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])
    return pc.if_else(pc.is_null(like), pa.scalar(None, pa.binary()), values) if like.null_count else values


def _with_length(column: pa.Array) -> pa.Array:
    """Returns the Avro bytes of strings or bytes: the length, then the value. Null for null."""
    values = column.cast(pa.binary())
    sizes = pc.binary_length(values).dictionary_encode()
    prefixes = pa.array([varint(size << 1) for size in sizes.dictionary.to_pylist()], pa.binary())
    return _join_bytes(prefixes.take(sizes.indices), values)


def _repeat_bytes(value: bytes, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.binary()), rows)


def _join_bytes(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, b"")


def _value_bytes(column: pa.Array) -> bytes:
    """Concatenates the values of a binary array."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    return data[int(offsets[0]) : int(offsets[-1])].to_pybytes() if data is not None else b""
