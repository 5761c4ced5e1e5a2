"""Parses column definitions with the types VECTOR and BLOB, which Spark's parser does not know.

Apache Hudi's parser (`HoodieSpark3_5ExtendedSqlParser`, 1.2.0) supports them in CREATE TABLE; VARIANT is Spark 4's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from hudi_py.errors import SchemaMismatchError
from hudi_py.expressions import literal
from hudi_py.schema import BLOB, BLOB_TYPE, HUDI_TYPE, Vector, parse_type
from pyspark_hudi.catalog import sql_type
from pyspark_hudi.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = HUDI_TYPE.decode()
_MARK = "__hudi_type"
_PARTS = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|\b(?:VECTOR|VARCHAR|CHAR(?:ACTER)?)\s*\([^()]*\)|\w+|[<>(),:]""",
    re.IGNORECASE | re.DOTALL,
)
_AFTER_TYPES = frozenset({"NOT", "COMMENT", "DEFAULT", "GENERATED", "FIRST", "AFTER", "NULL"})


def columns_of(spark: SparkSession, definitions: str) -> StructType:
    """Parses the columns between the parentheses of CREATE TABLE.

    Raises:
        SchemaMismatchError: the dimension or element type of a vector is not valid, or a column is CHAR.
    """
    schema = spark.createDataFrame([], _with_markers(definitions)).schema
    return StructType([_declared_field(field) for field in schema])


def column_type(field: StructField) -> str:
    """Formats the type of a column in SQL's notation."""
    custom = field.metadata.get(_KEY)
    kind = field.dataType
    if isinstance(custom, str) and not isinstance(kind, MapType):
        if isinstance(kind, StructType) or custom != BLOB:
            return custom
        if isinstance(kind, ArrayType):
            return f"ARRAY<{column_type(StructField(field.name, kind.elementType, metadata={_KEY: custom}))}>"
    if isinstance(custom, str) and isinstance(kind, MapType):
        value = column_type(StructField(field.name, kind.valueType, metadata={_KEY: custom}))
        return f"MAP<{sql_type(kind.keyType)}, {value}>"
    return sql_type(kind)


def _with_markers(text: str) -> str:
    """Replaces VECTOR and BLOB by marker structs, each with one member whose comment is the type, and VARCHAR by
    STRING.

    Raises:
        SchemaMismatchError: a column is CHAR, whose values Spark pads.
    """
    parts = [(match[0], match.start(), match.end()) for match in _PARTS.finditer(text)]
    made, position, depth = [], 0, 0
    for number, (part, start, end) in enumerate(parts):
        before = parts[number - 1][0] if number else ","
        after = parts[number + 1][0] if number + 1 < len(parts) else ","
        depth += (part in "<(") - (part in ">)")
        is_type = False
        if part.upper() == BLOB:
            begins = before in ",<("
            is_type = after != ":" and not (
                begins and (depth == 0 or (re.fullmatch(r"[\w`].*", after) and after.upper() not in _AFTER_TYPES))
            )
        elif part[:6].upper() == "VECTOR" and part.endswith(")"):
            is_type = True
        length = re.fullmatch(r"(VARCHAR|CHAR(?:ACTER)?)\s*\(.*", part, re.IGNORECASE | re.DOTALL)
        if length is not None and length[1].upper() != "VARCHAR":
            raise SchemaMismatchError(f"Cannot make a column of the type {part}; supported: STRING")
        if length is not None:
            made += [text[position:start], "STRING"]
            position = end
        if is_type:
            made += [text[position:start], f"STRUCT<`{_MARK}`: STRING COMMENT {literal(part)}>"]
            position = end
    return "".join([*made, text[position:]])


def _declared_field(field: StructField) -> StructField:
    kind, custom = _read_marked(field.dataType, field.name)
    metadata = {**field.metadata, **({_KEY: custom} if custom is not None else {})}
    return StructField(field.name, kind, field.nullable, metadata)


def _read_marked(kind: DataType, path: str) -> tuple[DataType, str | None]:
    """Returns a type without markers, and the `hudi_type` of its column."""
    if isinstance(kind, StructType) and kind.names == [_MARK]:
        text = str(kind[0].metadata["comment"])
        parsed = parse_type(text, path)
        return _spark_type(parsed), parsed.text if isinstance(parsed, Vector) else parsed
    if isinstance(kind, StructType):
        return StructType([_declared_field(field) for field in kind]), None
    if isinstance(kind, ArrayType):
        element, custom = _read_marked(kind.elementType, path)
        return ArrayType(element, kind.containsNull), _of_values(custom, path)
    if isinstance(kind, MapType):
        value, custom = _read_marked(kind.valueType, path)
        return MapType(kind.keyType, value, kind.valueContainsNull), _of_values(custom, path)
    return kind, None


def _of_values(custom: str | None, path: str) -> str | None:
    if custom not in (None, BLOB):
        raise SchemaMismatchError(
            f"Cannot make a column '{path}' of several {custom}: a vector must be a column of the table; supported in "
            "arrays and maps are BLOB, and arrays of FLOAT or DOUBLE"
        )
    return custom


def _spark_type(parsed: Vector | str) -> DataType:
    kind, text = (parsed.arrow, parsed.text) if isinstance(parsed, Vector) else (BLOB_TYPE, BLOB)
    result: DataType = spark_schema(pa.schema([pa.field("column", kind, metadata={HUDI_TYPE: text})]))[0].dataType
    return result
