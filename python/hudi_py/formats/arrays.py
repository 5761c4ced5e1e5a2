"""Small functions on Arrow arrays and types."""

from __future__ import annotations

import pyarrow as pa


def combined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array; copies only if it has several chunks."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is string or large_string."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
