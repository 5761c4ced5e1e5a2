"""Maps ordering values to integers with the order of Java's `compareTo` (`OrderingValues`, 1.2.0).

Integers, dates, timestamps, booleans, floats (by their bits) and short decimals are mapped directly. Strings, bytes,
wide decimals and several fields are ranked among the given values, so their codes are comparable only within one call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined, double_codes, true_where

Codes = npt.NDArray[np.int64]

_NULL = np.iinfo(np.int64).min


def has_default_zero(kind: pa.DataType) -> bool:
    """Returns whether Java represents the column's values as `Integer`, so that they compare with the default,
    `Integer` 0."""
    return bool(
        pa.types.is_int8(kind) or pa.types.is_int16(kind) or pa.types.is_int32(kind) or pa.types.is_date32(kind)
    )


def default_mask(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> npt.NDArray[np.bool_]:
    """Returns rows whose ordering value is the default (`OrderingValues.isDefault`): null or `Integer` 0 in a single
    field."""
    if not columns:
        return np.ones(rows, np.bool_)
    if len(columns) > 1:
        return np.zeros(rows, np.bool_)
    column = columns[0]
    result = pc.is_null(column)
    if has_default_zero(column.type):
        result = pc.or_(result, pc.fill_null(pc.equal(column.cast(pa.int32()), 0), True))
    return true_where(result)


def ordering_codes(parts: Sequence[Sequence[pa.Array | pa.ChunkedArray]], rows: Sequence[int]) -> list[Codes]:
    """Maps each part to one int64 per row; across all parts, greater ordering values have greater codes.

    Nulls count as 0 if Java represents the column as `Integer`, otherwise as smaller than every value.

    Args:
        parts: lists of columns, one for each ordering field, of the same types in every part.
        rows: number of rows of each part.
    """
    fields = len(parts[0]) if parts else 0
    if not fields:
        return [np.zeros(count, np.int64) for count in rows]
    if fields == 1:
        return _field_codes([part[0] for part in parts])
    per_field = [_field_codes([part[index] for part in parts]) for index in range(fields)]
    total: Codes | None = None
    for codes in per_field:
        _, dense = np.unique(np.concatenate(codes), return_inverse=True)
        dense = dense.reshape(-1).astype(np.int64)
        if total is None:
            total = dense
            continue
        # ranks of pairs, made dense again so that the product cannot overflow with many fields
        _, packed = np.unique(total * np.int64(len(dense) + 1) + dense, return_inverse=True)
        total = packed.reshape(-1).astype(np.int64)
    assert total is not None
    ends = np.cumsum(rows)[:-1]
    return [np.asarray(part) for part in np.split(total, ends)]


def field_codes(
    parts: Sequence[Sequence[pa.Array | pa.ChunkedArray]], rows: Sequence[int]
) -> list[npt.NDArray[np.int64]]:
    """Maps as `ordering_codes`, but with separate codes for each field.

    Returns:
        Arrays of shape (fields, rows of the part); without fields one row of zeros.
    """
    fields = len(parts[0]) if parts else 0
    if not fields:
        return [np.zeros((1, count), np.int64) for count in rows]
    item = [_field_codes([part[index] for part in parts]) for index in range(fields)]
    return [np.stack([codes[index] for codes in item]) for index in range(len(parts))]


def _field_codes(arrays: Sequence[pa.Array | pa.ChunkedArray]) -> list[Codes]:
    kind = arrays[0].type
    if _is_native(kind):
        return [_native_codes(array) for array in arrays]
    chunks = [chunk for array in arrays for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
    whole = combined(pa.chunked_array(chunks, kind))
    ranks = pc.rank(whole, sort_keys="ascending", tiebreaker="dense")
    codes = np.array(ranks.to_numpy(zero_copy_only=False), np.int64)
    if whole.null_count:
        codes[pc.is_null(whole).to_numpy(zero_copy_only=False)] = _NULL
    ends = np.cumsum([len(array) for array in arrays])[:-1]
    return [np.asarray(part) for part in np.split(codes, ends)]


def _is_native(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_time(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or (pa.types.is_decimal128(kind) and kind.precision <= 18)
    )


def _native_codes(array: pa.Array | pa.ChunkedArray) -> Codes:
    kind, array = array.type, combined(array)
    if pa.types.is_floating(kind):
        codes = double_codes(array)
    elif pa.types.is_decimal(kind):
        codes = _unscaled_codes(array)
    elif pa.types.is_boolean(kind):
        codes = array.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        width = pa.int64() if kind.bit_width == 64 else pa.int32()
        integers = array.cast(pa.int64()) if pa.types.is_integer(kind) else array.view(width)
        codes = integers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if array.null_count and not has_default_zero(kind):
        codes = np.array(codes, np.int64)
        codes[pc.is_null(array).to_numpy(zero_copy_only=False)] = _NULL
    return np.asarray(codes, np.int64)


def _unscaled_codes(array: pa.Array) -> Codes:
    """Returns unscaled values of a decimal128 column whose precision fits 64 bits: the low half of each value."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), np.int64)
    return np.array(np.frombuffer(data, np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2])
