"""Converts between the Arrow types of a table and the types that Spark expects."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from hudi_py.errors import SchemaMismatchError
from hudi_py.schema import HUDI_TYPE, VARIANT, conform, declaration, declared

_HUDI_TYPE = HUDI_TYPE.decode()
_SPARKS_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""The struct that PySpark accepts for its VariantType."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns the Spark schema of a table's columns; every column and member may be null, as with Spark's own file
    sources.

    As with Apache Hudi on Spark 4, a VARIANT has Spark's type, a VECTOR is an array whose values are never null, and a
    VECTOR or BLOB has the metadata entry `hudi_type`, or the column that holds it in an array or map.
    """
    fields = [pa.field(field.name, _spark_type(field)) for field in schema]
    result = from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)
    return StructType([_with_declarations(ours, field) for ours, field in zip(result, schema, strict=True)])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark passes and expects for `schema`: timestamps in UTC, no large or dictionary
    types. Column metadata keeps `hudi_type`.

    Raises:
        SchemaMismatchError: Spark cannot pass a column of this type to Python.
    """
    try:
        arrow = _to_arrow(schema)
        return pa.schema([_declared_field(ours, field) for ours, field in zip(arrow, schema, strict=True)])
    except (PySparkTypeError, ValueError) as error:  # neither names the column
        for field in schema:
            path, kind = _unsupported_part(field.dataType, field.name) or (None, None)
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


def _unsupported_part(kind: DataType, path: str) -> tuple[str, DataType] | None:
    """Returns the innermost part of a column that has no Arrow type, with its path."""
    members: list[tuple[str, DataType]] = []
    if isinstance(kind, StructType):
        members = [(f"{path}.{field.name}", field.dataType) for field in kind]
    elif isinstance(kind, ArrayType):
        members = [(f"{path}.element", kind.elementType)]
    elif isinstance(kind, MapType):
        members = [(f"{path}.key", kind.keyType), (f"{path}.value", kind.valueType)]
    for name, member in members:
        unsupported = _unsupported_part(member, name)
        if unsupported is not None:
            return unsupported
    try:
        _to_arrow(StructType([StructField("column", kind)]))
    except (PySparkTypeError, ValueError):
        return path, kind
    return None


def to_target(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Returns the batch with exactly the target's columns, by name: their order, types and nullability.

    Spark before 4.3 binds columns by position without checking, so every batch goes through here.

    Raises:
        SchemaMismatchError: a column's type does not widen to the target's.
    """
    if batch.schema.equals(target):
        return batch
    return conform(batch, target)


def _spark_type(field: pa.Field) -> pa.DataType:
    custom = declared(field)
    if custom == VARIANT:
        return _SPARKS_VARIANT
    # vectors: their values are never null
    return field.type if custom is not None and pa.types.is_list(field.type) else _all_nullable(field.type)


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _spark_type(field)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_all_nullable(kind.key_type), pa.field("value", _spark_type(kind.item_field)))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _spark_type(kind.value_field)))
    return kind


def _with_declarations(spark: StructField, arrow: pa.Field) -> StructField:
    """Returns Spark's column with the `hudi_type` of a column, or of its members."""
    custom = _declared_in(arrow)
    metadata = {_HUDI_TYPE: custom} if custom is not None else {}
    kind = spark.dataType
    if isinstance(kind, StructType) and pa.types.is_struct(arrow.type):
        kind = StructType([_with_declarations(ours, inner) for ours, inner in zip(kind, arrow.type, strict=True)])
    return StructField(spark.name, kind, spark.nullable, {**spark.metadata, **metadata})


def _declared_in(arrow: pa.Field) -> str | None:
    """Returns the `hudi_type` of a field, or of the values of its lists or maps. Not a variant's, which Spark knows."""
    custom = declared(arrow)
    if custom is not None:
        return None if custom == VARIANT else custom
    if pa.types.is_list(arrow.type):
        return _declared_in(arrow.type.value_field)
    return _declared_in(arrow.type.item_field) if pa.types.is_map(arrow.type) else None


def _declared_field(arrow: pa.Field, spark: StructField) -> pa.Field:
    custom = spark.metadata.get(_HUDI_TYPE)
    kind = arrow.type
    if isinstance(spark.dataType, StructType) and pa.types.is_struct(kind):
        members = zip(kind, spark.dataType, strict=True)
        kind = pa.struct([_declared_field(member, inner) for member, inner in members])
    metadata = {**(arrow.metadata or {}), **(declaration(custom) or {})} if isinstance(custom, str) else arrow.metadata
    return pa.field(arrow.name, kind, arrow.nullable, metadata=metadata)
