"""VECTOR columns: fixed-size bytes in files and log blocks, lists of numbers in rows.

Source: `HoodieSchema.Vector`, `HoodieVectorUtils` (1.2.0). Bytes are little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError

ELEMENT_TYPES: Mapping[str, pa.DataType] = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}
"""Name of a vector's element type in the schema to its Arrow type."""


def vector_type(element: pa.DataType) -> pa.DataType:
    """The list type of a vector, whose elements are never null."""
    return pa.list_(pa.field("element", element, nullable=False))


def is_vector(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of type `stored` can be vectors of type `wanted`."""
    if not pa.types.is_fixed_size_binary(stored) or not pa.types.is_list(wanted):
        return False
    element = wanted.value_type
    return element in ELEMENT_TYPES.values() and stored.byte_width % (element.bit_width // 8) == 0


def vector_lists(stored: pa.FixedSizeBinaryArray, wanted: pa.DataType) -> pa.ListArray:
    """Vectors in fixed-size binary as lists of type `wanted`, for which `is_vector` holds."""
    count, size = len(stored), stored.type.byte_width
    element = wanted.value_type
    length = size // (element.bit_width // 8)
    buffer = stored.buffers()[1]
    data = buffer.slice(stored.offset * size, count * size) if buffer is not None else pa.py_buffer(b"")
    values = pa.Array.from_buffers(element, count * length, [None, data])
    offsets = pa.array(np.arange(count + 1, dtype=np.int64) * length, pa.int32())
    mask = pc.is_null(stored) if stored.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=mask)


def vector_bytes(array: pa.Array, element: pa.DataType, dimension: int, column: str) -> pa.FixedSizeBinaryArray:
    """Lists of numbers as the bytes of vectors; null lists stay null.

    Args:
        array: lists of any kind, whose numbers have the type `element`.
        column: named in messages.

    Raises:
        SchemaMismatchError: a list has another type or length, or a null in it.
    """
    size = dimension * (element.bit_width // 8)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary(size))
    values = vector_numbers(array, element, dimension, column)
    count = len(array)
    if array.null_count:
        # rows of null vectors have bytes too
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        whole = np.zeros((count, dimension), element.to_pandas_dtype())
        whole[valid] = values.to_numpy(zero_copy_only=False).reshape(-1, dimension)
        mask = pa.array(valid).buffers()[1]
        return pa.Array.from_buffers(pa.binary(size), count, [mask, pa.py_buffer(whole)], array.null_count)
    data = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
    return pa.Array.from_buffers(pa.binary(size), count, [None, pa.py_buffer(data)])


def vector_numbers(array: pa.Array, element: pa.DataType, dimension: int, column: str) -> pa.Array:
    """The numbers of all vectors that are not null, one after the other; see `vector_bytes`.

    Raises:
        SchemaMismatchError: a list has another type or length, or a null in it.
    """
    name = f"VECTOR of {dimension} {element}"
    kind = array.type
    lists = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
    if not isinstance(kind, lists) or kind.value_type != element:
        raise SchemaMismatchError(
            f"Column '{column}' is a {name} in the table and {kind} in the data; cast the data to list<{element}>"
        )
    lengths = pc.list_value_length(array)
    wrong = pc.fill_null(pc.not_equal(lengths, dimension), False).to_numpy(zero_copy_only=False)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise SchemaMismatchError(
            f"Column '{column}' is a {name} in the table, but {int(wrong.sum())} of {len(array)} rows have another "
            f"number of values, the first one {lengths[first].as_py()}: {_brief(array[first])}; a vector has exactly "
            f"{dimension} values, or is null"
        )
    values = array.flatten()  # without what is below null lists
    if values.null_count:
        per_vector = pc.is_null(values).to_numpy(zero_copy_only=False).reshape(-1, dimension).any(1)
        given = np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
        first = int(given[int(np.flatnonzero(per_vector)[0])])
        raise SchemaMismatchError(
            f"Column '{column}' is a {name} in the table, but {int(per_vector.sum())} of {len(array)} rows have null "
            f"among the values, the first one {_brief(array[first])}; replace the nulls, or make the whole vector null"
        )
    return values


def _brief(value: pa.Scalar) -> str:
    text = str(value.as_py())
    return text if len(text) <= 80 else f"{text[:77]}..."
