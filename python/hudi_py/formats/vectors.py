"""VECTOR columns: fixed-size bytes in files and log blocks, lists of numbers in rows.

Source: `HoodieSchema.Vector`, `HoodieVectorUtils` (1.2.0). Bytes are little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
