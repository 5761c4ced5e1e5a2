"""VECTOR columns: a fixed number of bytes in files and log blocks, a list of numbers in rows.

Source: `HoodieSchema.Vector`, `HoodieVectorUtils` (1.2.0). Bytes are little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ELEMENT_TYPES: Mapping[str, pa.DataType] = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}
"""Element type of a vector, as the schema names it, to that of its list."""


def vector_type(element: pa.DataType) -> pa.DataType:
    """The type of a vector's list; its elements are never null."""
    return pa.list_(pa.field("element", element, nullable=False))


def is_vector(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether bytes of type `stored` may be the vectors of a column of type `wanted`."""
    if not pa.types.is_fixed_size_binary(stored) or not pa.types.is_list(wanted):
        return False
    element = wanted.value_type
    return element in ELEMENT_TYPES.values() and stored.byte_width % (element.bit_width // 8) == 0


def vector_lists(stored: pa.FixedSizeBinaryArray, wanted: pa.DataType) -> pa.ListArray:
    """The vectors in fixed-size bytes as lists of type `wanted`, for which `is_vector` holds."""
    count, size = len(stored), stored.type.byte_width
    element = wanted.value_type
    length = size // (element.bit_width // 8)
    buffer = stored.buffers()[1]
    data = buffer.slice(stored.offset * size, count * size) if buffer is not None else pa.py_buffer(b"")
    values = pa.Array.from_buffers(element, count * length, [None, data])
    offsets = pa.array(np.arange(count + 1, dtype=np.int64) * length, pa.int32())
    mask = pc.is_null(stored) if stored.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=mask)
