"""Computes positions on curves that fill the space of several columns (`SpaceCurveSortingHelper`, `BinaryUtil`,
`HilbertCurveUtils`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined

Longs: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_MAX_LONG: Final = np.iinfo(np.int64).max
_SIGN: Final = np.int64(np.iinfo(np.int64).min)
HILBERT_BITS: Final = 63
"""Bits of each column on a Hilbert curve by values."""
_PREFIX: Final = 8
"""Number of bytes of a text that count."""


def is_orderable(kind: pa.DataType) -> bool:
    """Returns whether a column of this type can be part of a curve."""
    return any(
        test(kind)
        for test in (
            pa.types.is_signed_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_decimal,
            pa.types.is_date32,
            is_text,
            _is_instant,
        )
    )


def z_order(columns: Sequence[pa.Array]) -> pa.Array:
    """Interleaves the bits of the values of all columns, the first column first."""
    return interleaved([_z_number(column) for column in columns])


def interleaved(numbers: Sequence[Longs]) -> pa.Array:
    """Interleaves the bits of unsigned numbers of eight bytes, those of the first column first."""
    words = np.stack(numbers, axis=1)
    bits = np.unpackbits(words.astype(">i8").view(np.uint8).reshape(len(words), len(numbers), 8), axis=2)
    return _as_binary(np.packbits(bits.transpose(0, 2, 1).reshape(len(words), -1), axis=1))


def hilbert(columns: Sequence[pa.Array]) -> pa.Array:
    """Computes the position of the values of all columns on a Hilbert curve."""
    return hilbert_positions([_hilbert_number(column) for column in columns], HILBERT_BITS)


def hilbert_positions(numbers: Sequence[Longs], width: int) -> pa.Array:
    """Computes the position on a Hilbert curve with `width` bits for each column (Skilling's algorithm), in the form in
    which Apache Hudi stores the number: as many bytes, so that a longer number loses its last ones."""
    axes = list(numbers)
    _to_transposed(axes, width)
    planes = np.stack(axes, axis=1).astype(">i8").view(np.uint8).reshape(len(axes[0]), len(axes), 8)
    bits = np.unpackbits(planes, axis=2)[:, :, 64 - width :].transpose(0, 2, 1).reshape(len(planes), -1)
    padding = -bits.shape[1] % 8
    whole = np.packbits(np.pad(bits, ((0, 0), (padding, 0))), axis=1)
    return _as_binary(_to_hudi_bytes(whole, width) if whole.shape[1] >= width else whole)


def _to_transposed(axes: list[Longs], width: int) -> None:
    """Converts coordinates to the transposed index of the curve (J. Skilling, "Programming the Hilbert curve",
    2004)."""
    for place in range(width - 1, 0, -1):
        bit, below = np.int64(1 << place), np.int64((1 << place) - 1)
        for number in range(len(axes)):
            inverts = (axes[number] & bit) != 0
            swapped = np.where(inverts, 0, (axes[0] ^ axes[number]) & below)
            axes[0] = np.where(inverts, axes[0] ^ below, axes[0] ^ swapped)
            if number:
                axes[number] = axes[number] ^ swapped
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    gray = np.zeros_like(axes[0])
    for place in range(width - 1, 0, -1):
        gray = np.where((axes[-1] & np.int64(1 << place)) != 0, gray ^ np.int64((1 << place) - 1), gray)
    for number in range(len(axes)):
        axes[number] = axes[number] ^ gray


def _to_hudi_bytes(numbers: Bytes, size: int) -> Bytes:
    """Converts numbers to `size` bytes as `BigInteger.toByteArray` gives them: without leading zeros, except for one
    byte before a leading bit that is set. Short numbers are padded at the front, long ones are cut at the end."""
    rows, width = numbers.shape
    signed = np.concatenate([np.zeros((rows, size), np.uint8), numbers], axis=1)
    first = np.where(numbers.any(axis=1), (numbers != 0).argmax(axis=1), width - 1)
    needs_zero = numbers[np.arange(rows), first] >= 128
    start = np.minimum(size + first - needs_zero, width)
    return np.take_along_axis(signed, start[:, None] + np.arange(size), axis=1)


def _z_number(column: pa.Array) -> Longs:
    """Returns eight bytes that compare as unsigned numbers."""
    kind = column.type
    if is_text(kind):
        return _text_prefixes(column)
    if pa.types.is_floating(kind):
        largest = np.finfo(np.float64 if pa.types.is_float64(kind) else np.float32).max
        numbers = fill_nulls(column.cast(pa.float64()), float(largest))
        bits = numbers.view(np.int64)
        return np.where(numbers > 0, bits ^ _SIGN, np.where(numbers < 0, ~bits, bits))
    if pa.types.is_int8(kind):
        return fill_nulls(column, 127).astype(np.uint8).astype(np.int64)
    if pa.types.is_boolean(kind) or pa.types.is_int16(kind) or pa.types.is_int32(kind):
        null = 0 if pa.types.is_boolean(kind) else np.iinfo(kind.to_pandas_dtype()).max
        return fill_nulls(column.cast(pa.int32()), int(null)).astype(np.int64) + (1 << 31)
    longs: Longs = fill_nulls(as_longs(column), _MAX_LONG) ^ _SIGN
    return longs


def _hilbert_number(column: pa.Array) -> Longs:
    """Returns numbers of which the lowest 63 bits count."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return np.where(fill_nulls(column.cast(pa.int8()), 0) != 0, _MAX_LONG, 0).astype(np.int64)
    if pa.types.is_floating(kind):
        bits = fill_nulls(column.cast(pa.float64()), 0.0).view(np.int64)
    elif is_text(kind):
        bits = _text_prefixes(column)
    elif pa.types.is_int8(kind):
        bits = fill_nulls(column, 0).astype(np.uint8).astype(np.int64)
    else:
        bits = fill_nulls(as_longs(column), 0)
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _MAX_LONG, bits)


def as_longs(column: pa.Array) -> pa.Array:
    """Converts integers, dates and timestamps (to milliseconds), and decimals (toward zero) to int64."""
    kind = column.type
    if pa.types.is_date32(kind):
        return pc.multiply(column.cast(pa.int32()).cast(pa.int64()), 86_400_000)
    if pa.types.is_timestamp(kind):
        units = {"s": 1_000, "ms": 1, "us": -1_000, "ns": -1_000_000}[kind.unit]
        numbers = column.cast(pa.int64())
        return pc.multiply(numbers, units) if units > 0 else _floor_divided(numbers, -units)
    if pa.types.is_decimal(kind):
        return pc.trunc(column).cast(pa.int64(), safe=False)
    return column.cast(pa.int64())


def _floor_divided(numbers: pa.Array, divisor: int) -> pa.Array:
    result = fill_nulls(numbers, 0) // divisor
    return pa.array(result, mask=numbers.is_null().to_numpy(zero_copy_only=False))


def _text_prefixes(column: pa.Array) -> Longs:
    """Returns the first eight bytes of texts; shorter ones are padded at the front."""
    kept = pc.binary_slice(column.cast(pa.large_binary()).fill_null(b""), 0, _PREFIX)
    offsets = np.frombuffer(kept.buffers()[1], np.int64, len(kept) + 1, kept.offset * 8)
    data = np.frombuffer(kept.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    places = np.arange(_PREFIX) - (_PREFIX - lengths)[:, None]
    padded = np.concatenate([data, np.zeros(1, np.uint8)])
    prefixes = padded[np.where(places >= 0, offsets[:-1, None] + places, len(data))]
    return np.ascontiguousarray(prefixes).view(">i8").reshape(-1).astype(np.int64)


def fill_nulls(column: pa.Array, null: float) -> npt.NDArray[Any]:
    return np.array(combined(column.fill_null(pa.scalar(null, column.type))).to_numpy(zero_copy_only=False))


def is_text(kind: pa.DataType) -> bool:
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(test(kind) for test in tests)


def _is_instant(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _as_binary(values: Bytes) -> pa.Array:
    rows, width = values.shape
    kind = pa.binary(width)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(np.ascontiguousarray(values))]).cast(pa.binary())
