"""Dotted names of columns and struct fields: `a.b` is the field `b` of the struct `a`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def column_of(name: str, schema: pa.Schema) -> str:
    """Returns the column that a name refers to, directly or as a field of a struct."""
    return name if name in schema.names else name.partition(".")[0]


def type_at(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Returns the type of a column or, if there is none of this name, of a struct field; None if neither exists."""
    if name in schema.names:
        return schema.field(name).type
    head, *rest = name.split(".")
    kind = schema.field(head).type if head in schema.names else None
    for part in rest:
        index = kind.get_field_index(part) if kind is not None and pa.types.is_struct(kind) else -1
        kind = kind.field(index).type if kind is not None and index >= 0 else None
    return kind


def backticked(name: str) -> str:
    """Quotes a name in backticks for SQL."""
    return "`" + name.replace("`", "``") + "`"


def values_at(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray | None:
    """Returns the values of a column or struct field, null if a parent is null; None if it does not exist."""
    if name in table.schema.names:
        return table[name]
    if type_at(table.schema, name) is None:
        return None
    head, *rest = name.split(".")
    return pc.struct_field(table[head], rest)
