"""Store assignment: the values of a statement in the types of a table's columns, as Spark has it in ANSI mode.

Source: `Cast.canANSIStoreAssign` and `TableOutputResolver`, Spark 4.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hudi_py.errors import SchemaMismatchError
from hudi_py.read import literal
from pyspark_hudi.catalog import sql_type

_TIMES = (DateType, TimestampType, TimestampNTZType)


def stored(source: DataType, target: DataType, text: str, column: str) -> str:
    """The expression `text` of one type as a value of a column (`column` is its name) of another type.

    Raises:
        SchemaMismatchError: values of the type cannot be stored.
    """
    if same(source, target):
        return text
    if not assignable(source, target):
        raise SchemaMismatchError(
            f"Cannot write incompatible data to the column '{column}': cannot safely cast {source.simpleString()} to "
            f"{target.simpleString()}; cast the value"
        )
    kind = sql_type(target)
    if not isinstance(source, NumericType) or not isinstance(target, NumericType):
        return f"CAST({text} AS {kind})"
    # in sessions without ANSI mode a plain cast would wrap around
    message = literal(
        f"Cannot write to the column '{column}': a value of type {source.simpleString()} overflows "
        f"{target.simpleString()}; use try_cast to get NULL instead"
    )
    return (
        f"CASE WHEN ({text}) IS NOT NULL AND try_cast({text} AS {kind}) IS NULL "
        f"THEN CAST(raise_error({message}) AS {kind}) ELSE try_cast({text} AS {kind}) END"
    )


def same(source: DataType, target: DataType) -> bool:
    """Whether the types differ in nothing but what may be null."""
    return source.simpleString() == target.simpleString()


def assignable(source: DataType, target: DataType) -> bool:
    """Whether Spark stores values of a type in a column of another type."""
    if same(source, target) or isinstance(source, NullType):
        return True
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return assignable(source.elementType, target.elementType)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return assignable(source.keyType, target.keyType) and assignable(source.valueType, target.valueType)
    if isinstance(source, StructType) and isinstance(target, StructType):
        return len(source) == len(target) and all(
            ours.name == theirs.name and assignable(ours.dataType, theirs.dataType)
            for ours, theirs in zip(source, target, strict=True)
        )
    if isinstance(target, StringType):
        return isinstance(source, (NumericType, BooleanType, *_TIMES))
    numbers = isinstance(source, NumericType) and isinstance(target, NumericType)
    return numbers or (isinstance(source, _TIMES) and isinstance(target, _TIMES))


def is_atomic(kind: DataType) -> bool:
    return not isinstance(kind, (ArrayType, MapType, StructType))
