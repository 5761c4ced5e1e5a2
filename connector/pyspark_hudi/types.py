"""Between the Arrow types of a table and those that Spark expects, exactly."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hudi_py.schema import conform


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of a table's columns; every column and member may be null, as with Spark's own file sources."""
    nullable = pa.schema([pa.field(field.name, _nullable(field.type)) for field in schema])
    return from_arrow_schema(nullable, prefer_timestamp_ntz=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema which Spark gives and expects for `schema`: timestamps in UTC, nothing large or dictionary."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # releases before 4.2 take UTC by themselves


def to_target(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the target's columns, by name: their order, types and nullability.

    Spark before 4.3 binds columns by position and believes what it gets, so every batch goes through here.

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
