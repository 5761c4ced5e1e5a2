"""Converts between the Arrow types of a table and exactly those that Spark expects."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from hudi_py.errors import SchemaMismatchError
from hudi_py.schema import conform


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of a table's columns; every column and member may be null, as with Spark's own file sources."""
    nullable = pa.schema([pa.field(field.name, _nullable(field.type)) for field in schema])
    return from_arrow_schema(nullable, prefer_timestamp_ntz=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark passes and expects for `schema`: timestamps in UTC, no large or dictionary types.

    Raises:
        SchemaMismatchError: Spark cannot pass a column of this type to Python.
    """
    try:
        return _to_arrow(schema)
    except (PySparkTypeError, ValueError) as error:  # neither names the column
        for field in schema:
            path, kind = _unsupported(field.dataType, field.name) or (None, None)
            if kind is not None:
                raise SchemaMismatchError(
                    f"Column '{path}' has the Spark type {kind.simpleString()}, which Spark cannot pass to a Python "
                    "data source; cast the column, for example to STRING, or leave it out"
                ) from error
        raise


def _to_arrow(schema: StructType) -> pa.Schema:
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # releases before 4.2 always use UTC


def _unsupported(kind: DataType, path: str) -> tuple[str, DataType] | None:
    """The innermost part of a column that has no Arrow type, with its path."""
    members: list[tuple[str, DataType]] = []
    if isinstance(kind, StructType):
        members = [(f"{path}.{field.name}", field.dataType) for field in kind]
    elif isinstance(kind, ArrayType):
        members = [(f"{path}.element", kind.elementType)]
    elif isinstance(kind, MapType):
        members = [(f"{path}.key", kind.keyType), (f"{path}.value", kind.valueType)]
    for name, member in members:
        found = _unsupported(member, name)
        if found is not None:
            return found
    try:
        _to_arrow(StructType([StructField("column", kind)]))
    except (PySparkTypeError, ValueError):
        return path, kind
    return None


def to_target(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the target's columns, by name: their order, types and nullability.

    Spark before 4.3 binds columns by position without checking, so every batch goes through here.

    Raises:
        SchemaMismatchError: a column's type does not widen to the target's.
    """
    if batch.schema.equals(target):
        return batch
    return conform(batch, target)


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), pa.field("value", _nullable(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    return kind


def quoted(name: str) -> str:
    """A name in SQL, in backticks."""
    return "`" + name.replace("`", "``") + "`"
