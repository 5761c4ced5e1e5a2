"""VECTOR, VARIANT and BLOB columns of a table, and data for them (`HoodieSchema.Vector`, `Variant`, `Blob`, 1.2.0)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.hudi_types import BLOB, BLOB_KINDS, Vector, declared, parse_type
from hudi_py.formats.vectors import ELEMENT_TYPES, vector_numbers
from hudi_py.write.rows.casts import may_hold, takes


def check_type(table: pa.Field, incoming: pa.Field, path: str) -> None:
    """Refuses data that a VECTOR, VARIANT or BLOB cannot take, and such data for other columns: their types never
    change. Of structs and lists, whose type says nothing else, the values count."""
    own, given = declared(table), declared(incoming)
    kind = None if own is None else parse_type(own, path)
    if given is not None and (kind is None or parse_type(given, path) != kind):
        raise SchemaMismatchError(
            f"Column '{path}' is {own or table.type} in the table and {given} in the data; the type cannot change: "
            f"write it as {own or table.type}, or under another name"
        )
    if pa.types.is_null(incoming.type):
        return
    if isinstance(kind, Vector):
        element = ELEMENT_TYPES[kind.element]
        item = incoming.type.value_type if pa.types.is_list(incoming.type) else None
        if item is None or not (pa.types.is_null(item) or takes(element, item) or may_hold(element, item)):
            raise SchemaMismatchError(
                f"Column '{path}' is {own} in the table and {incoming.type} in the data; cast the data to "
                f"list<{element}>"
            )
    elif not _same_members(table.type, incoming.type):
        raise SchemaMismatchError(
            f"Column '{path}' is {own} in the table and {incoming.type} in the data; cast the data to {table.type}"
        )


def _same_members(table: pa.DataType, incoming: pa.DataType) -> bool:
    """Whether types are equal but for what may be null and the order of members."""
    if pa.types.is_null(incoming):
        return True
    if not pa.types.is_struct(table) or not pa.types.is_struct(incoming):
        return bool(table.equals(incoming))
    given = {member.name: member.type for member in incoming}
    return given.keys() == {member.name for member in table} and all(
        _same_members(member.type, given[member.name]) for member in table
    )


def check_values(batch: pa.RecordBatch) -> None:
    """Refuses values that a column cannot hold although their type is that of the table.

    Args:
        batch: in the table's types, with their `hudi_type`.

    Raises:
        SchemaMismatchError: a vector has another length than its column, or a null in it, or a blob has no known type.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        _check_values(field, column, field.name)


def _check_values(field: pa.Field, array: pa.Array, path: str) -> None:
    kind, text = field.type, declared(field)
    custom = None if text is None else parse_type(text, path)
    if isinstance(custom, Vector):
        vector_numbers(array, ELEMENT_TYPES[custom.element], custom.dimension, path)
    elif custom == BLOB:
        found = array.filter(array.is_valid()).field("type")
        unknown = pc.invert(pc.is_in(found, pa.array(BLOB_KINDS))).to_numpy(zero_copy_only=False)
        if unknown.any():
            first = found[int(np.flatnonzero(unknown)[0])].as_py()
            raise SchemaMismatchError(
                f"Column '{path}' is a BLOB, and {int(unknown.sum())} of its values have the type {first!r} or another "
                f"unknown one; supported: {' and '.join(BLOB_KINDS)}"
            )
    elif pa.types.is_struct(kind) and _has_blobs(kind):
        rows = array.filter(array.is_valid())
        for at, member in enumerate(kind):
            _check_values(member, rows.field(at), f"{path}.{member.name}")
    elif pa.types.is_list(kind) and _has_blobs(kind):
        _check_values(kind.value_field, array.flatten(), f"{path}.element")
    elif pa.types.is_map(kind) and _has_blobs(kind):
        entries = array.filter(array.is_valid())
        first, last = (entries.offsets[0].as_py(), entries.offsets[-1].as_py()) if len(entries) else (0, 0)
        _check_values(kind.item_field, entries.items.slice(first, last - first), f"{path}.value")


def _has_blobs(kind: pa.DataType) -> bool:
    """Whether a blob is somewhere within a type."""
    members = [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return any(declared(member) == BLOB or _has_blobs(member.type) for member in members)
