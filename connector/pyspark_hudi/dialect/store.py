"""Store assignment: casts the values of a statement to the types of a table's columns, as Spark does in ANSI mode.

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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hudi_py.errors import SchemaMismatchError
from hudi_py.expressions import literal
from hudi_py.schema import backticked
from pyspark_hudi.catalog import sql_type

_TIMES = (DateType, TimestampType, TimestampNTZType)


def stored(source: DataType, target: DataType, text: str, column: str, *, by_name: bool = False) -> str:
    """Casts the expression `text` to the type of the column named `column`.

    Args:
        by_name: whether members of structs are those of the same name, of which `fits_by_name` is true, and not those
            at the same place.

    Raises:
        SchemaMismatchError: values of the type cannot be stored.
    """
    if same(source, target):
        return text
    if isinstance(source, StructType) and isinstance(target, StructType):
        pairs = _paired_members(source, target, column, by_name=by_name)
        members = ", ".join(
            f"{literal(own.name)}, "
            + stored(
                given.dataType,
                own.dataType,
                f"{text}.{backticked(given.name)}",
                f"{column}.{own.name}",
                by_name=by_name,
            )
            for own, given in pairs
        )
        return f"CASE WHEN {text} IS NOT NULL THEN named_struct({members}) END"
    variable = f"_{column.count('.')}"  # for lists within lists
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        kinds = source.elementType, target.elementType
        return f"transform({text}, {variable} -> {stored(*kinds, variable, f'{column}.element', by_name=by_name)})"
    if isinstance(source, MapType) and isinstance(target, MapType):
        key = stored(source.keyType, target.keyType, f"{variable}.key", f"{column}.key", by_name=by_name)
        value = stored(source.valueType, target.valueType, f"{variable}.value", f"{column}.value", by_name=by_name)
        return f"map_from_entries(transform(map_entries({text}), {variable} -> struct({key}, {value})))"
    if not _is_assignable(source, target):
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


def _paired_members(
    source: StructType, target: StructType, column: str, *, by_name: bool
) -> list[tuple[StructField, StructField]]:
    """Pairs the members of a column's structs with those that are stored in them."""
    if len(source) != len(target):
        raise SchemaMismatchError(
            f"Cannot write incompatible data to the column '{column}': it has the members {', '.join(target.names)}, "
            f"and the value {', '.join(source.names)}"
        )
    if not by_name:
        return list(zip(target, source, strict=True))
    given = {field.name.lower(): field for field in source}
    return [(own, given[own.name.lower()]) for own in target]


def fits_by_name(source: DataType, target: DataType) -> bool:
    """Returns whether the structs in a type have the names of those in a column's type, in any order."""
    if isinstance(source, StructType) and isinstance(target, StructType):
        given = {field.name.lower(): field for field in source}
        return given.keys() == {field.name.lower() for field in target} and all(
            fits_by_name(given[own.name.lower()].dataType, own.dataType) for own in target
        )
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return fits_by_name(source.elementType, target.elementType)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return fits_by_name(source.keyType, target.keyType) and fits_by_name(source.valueType, target.valueType)
    return True


def same(source: DataType, target: DataType) -> bool:
    """Returns whether the types differ only in nullability."""
    return source.simpleString() == target.simpleString()


def _is_assignable(source: DataType, target: DataType) -> bool:
    """Returns whether Spark stores values of a type without members in a column of another type."""
    if isinstance(source, NullType):
        return True
    if isinstance(target, StringType):
        return isinstance(source, (NumericType, BooleanType, *_TIMES))
    numbers = isinstance(source, NumericType) and isinstance(target, NumericType)
    return numbers or (isinstance(source, _TIMES) and isinstance(target, _TIMES))
