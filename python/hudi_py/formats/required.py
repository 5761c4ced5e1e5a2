"""Members of a struct that may not be null, where the struct itself is.

Arrow allows anything below a null struct, and readers of Parquet leave nulls there. Arrow's Parquet writer refuses
those in a required column, such as the member `type` of a BLOB that is null.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import SchemaMismatchError

Mask = npt.NDArray[np.bool_]


def has_required(kind: pa.DataType) -> bool:
    """Whether something within a type may not be null, keys of maps apart."""
    if pa.types.is_map(kind):
        return not kind.item_field.nullable or has_required(kind.item_type)
    if not pa.types.is_struct(kind) and not pa.types.is_list(kind):
        return False
    members = (kind.field(at) for at in range(kind.num_fields))
    return any(not member.nullable or has_required(member.type) for member in members)


def _both(left: Mask | None, right: Mask | None) -> Mask | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def required(array: pa.Array, field: pa.Field, path: str = "", live: Mask | None = None) -> pa.Array:
    """The array without nulls where there may be none.

    Args:
        array: values of the field.
        path: of the field, for messages.
        live: where a value is part of a row; None: everywhere.

    Raises:
        SchemaMismatchError: a value is null that is part of a row and may not be null.
    """
    path = path or field.name
    kind = array.type
    nulls = array.null_count
    valid: Mask | None = array.is_valid().to_numpy(zero_copy_only=False) if nulls else None
    if valid is not None and not field.nullable:
        wrong = ~valid if live is None else ~valid & live
        if wrong.any():
            raise SchemaMismatchError(
                f"Column '{path}' has {int(wrong.sum())} nulls in {len(array)} values, but may not be null; fill them"
            )
    keep = field.nullable
    if pa.types.is_struct(kind):
        inside = _both(valid, live)
        members = [required(array.field(at), member, f"{path}.{member.name}", inside) for at, member in enumerate(kind)]
        mask = pa.array(~valid) if valid is not None and keep else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if (pa.types.is_list(kind) or pa.types.is_map(kind)) and has_required(kind):
        buffers = array.buffers()[:2]
        child = _values(array, path)
        bits = buffers[0] if keep else None
        return pa.Array.from_buffers(kind, len(array), [bits, buffers[1]], offset=array.offset, children=[child])
    if nulls and not keep:
        children = [array.values] if pa.types.is_list(kind) else None
        own = array.buffers()[1 : 2 if children else None]
        return pa.Array.from_buffers(kind, len(array), [None, *own], offset=array.offset, children=children)
    return array


def _values(array: pa.ListArray | pa.MapArray, path: str) -> pa.Array:
    """All values of lists or entries of maps, also those beyond a slice."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    if isinstance(array, pa.MapArray):
        entry = pa.struct([array.type.key_field, array.type.item_field])
        values: pa.Array = pa.StructArray.from_arrays([array.keys, array.items], fields=list(entry))
        field = pa.field("entries", entry, nullable=False)
    else:
        values, field = array.values, array.type.value_field
    ends = np.zeros(len(values) + 1, np.int64)
    lists = array.is_valid().to_numpy(zero_copy_only=False)
    np.add.at(ends, offsets[:-1][lists], 1)
    np.add.at(ends, offsets[1:][lists], -1)
    return required(values, field, f"{path}.{field.name}", np.cumsum(ends[:-1]) > 0)
