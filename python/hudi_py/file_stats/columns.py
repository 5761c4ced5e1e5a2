"""Columns with statistics, and the types in which their bounds are stored.

Sources: `HoodieTableMetadataUtil.getColumnsToIndex`, `isColumnTypeSupported`; `ValueType`; Apache Hudi 1.2.0.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from hudi_py.errors import SchemaMismatchError
from hudi_py.schema import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from hudi_py.schema.meta import META_FIELDS, OPERATION

ALWAYS: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
"""Meta columns that always have statistics, in Apache Hudi's order."""
DECIMAL_DIGITS: Final = 30
DECIMAL_SCALE: Final = 15
"""Precision and scale of decimals in statistics of version 1 (`DecimalWrapper`)."""


class ValueType(enum.IntEnum):
    """Type of a column's bounds, by the ordinals that are stored (`ValueType`)."""

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column with statistics. `name` has dots if the column is nested."""

    name: str
    type: ValueType
    precision: int = 0
    """Only for decimals, like `scale`."""
    scale: int = 0

    @property
    def detail(self) -> str | None:
        """Returns the precision and scale of a decimal, as stored with the type."""
        return f"{self.precision},{self.scale}" if self.type is ValueType.DECIMAL else None


def indexed_columns(
    schema_json: str, *, names: Sequence[str] = (), limit: int = 32, meta_columns: bool = True, index_version: int = 2
) -> tuple[IndexedColumn, ...]:
    """Returns the columns with statistics, in Apache Hudi's order: meta columns, then the named columns or else the
    first ones.

    Leaves out columns whose type has no order, and names without a column.

    Args:
        schema_json: Avro JSON of the table's schema, with or without meta columns; empty: only meta columns are known.
        names: columns to index (`hoodie.metadata.index.column.stats.column.list`), with dots for nested ones.
        limit: the number of columns to index if none are named.
        meta_columns: whether rows of the table have meta columns (`hoodie.populate.meta.fields`).
        index_version: version of the statistics, 1 or 2 (`HoodieIndexVersion`). Version 1 cannot store wide decimals.

    Raises:
        SchemaMismatchError: the schema is not an Avro record.
    """
    fields = _AvroFields(schema_json) if schema_json else None
    result: dict[str, IndexedColumn] = {}
    if meta_columns:
        result = {name: IndexedColumn(name, ValueType.STRING) for name in ALWAYS}
    if fields is None:
        return tuple(result.values())
    if names:
        for name in names:
            if name in ALWAYS:  # included already, or missing in a table without meta columns
                continue
            column = fields.column(name)
            if column is None and meta_columns and name in (*META_FIELDS, OPERATION):
                column = IndexedColumn(name, ValueType.STRING)
            if column is not None and _is_supported(column, index_version):
                result[name] = column
        return tuple(result.values())
    own = (fields.column(name) for name in fields.names() if name not in META_FIELDS and name != OPERATION)
    supported = (column for column in own if column is not None and _is_supported(column, index_version))
    return (*result.values(), *islice(supported, max(limit, 0)))


def named_columns(schema_json: str, names: Sequence[str]) -> tuple[IndexedColumn, ...]:
    """Returns the columns with exactly these names, in this order, with their types in the schema; see
    `indexed_columns`."""
    by_name = {column.name: column for column in indexed_columns(schema_json, names=names)}
    return tuple(by_name[name] for name in names if name in by_name)


def _is_supported(column: IndexedColumn, index_version: int) -> bool:
    if column.type is ValueType.DECIMAL and index_version < 2:
        before_point = column.precision - column.scale
        return column.scale <= DECIMAL_SCALE and before_point + DECIMAL_SCALE <= DECIMAL_DIGITS
    return True


_PRIMITIVES: Final = {
    name: ValueType[name.upper()] for name in ("boolean", "int", "long", "float", "double", "string", "bytes", "fixed")
}
_LOGICAL: Final = {
    ("int", "date"): ValueType.DATE,
    ("int", "time-millis"): ValueType.TIME_MILLIS,
    ("long", "time-micros"): ValueType.TIME_MICROS,
    ("long", "timestamp-millis"): ValueType.TIMESTAMP_MILLIS,
    ("long", "timestamp-micros"): ValueType.TIMESTAMP_MICROS,
    ("long", "timestamp-nanos"): ValueType.TIMESTAMP_NANOS,
    ("long", "local-timestamp-millis"): ValueType.LOCAL_TIMESTAMP_MILLIS,
    ("long", "local-timestamp-micros"): ValueType.LOCAL_TIMESTAMP_MICROS,
    ("long", "local-timestamp-nanos"): ValueType.LOCAL_TIMESTAMP_NANOS,
    ("string", "uuid"): ValueType.UUID,
}


class _AvroFields:
    """The fields of an Avro record by dotted names."""

    def __init__(self, schema_json: str) -> None:
        try:
            schema = json.loads(schema_json)
        except (ValueError, RecursionError) as error:
            raise SchemaMismatchError(
                f"Cannot choose the columns to index: the schema is not JSON ({error})"
            ) from error
        if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
            raise SchemaMismatchError("Cannot choose the columns to index: the schema is not an Avro record")
        self._named: dict[str, Any] = {}
        self._root = schema
        self._collect(schema, "")

    def names(self) -> Iterator[str]:
        for field in self._root["fields"]:
            yield field["name"]

    def column(self, name: str) -> IndexedColumn | None:
        """Returns the column with this name; None if there is none or its type has no bounds."""
        kind: Any = self._root
        for part in name.split("."):
            kind = self._single(kind)
            if not isinstance(kind, dict) or kind.get("type") != "record":
                return None
            kind = next((field["type"] for field in kind["fields"] if field["name"] == part), None)
        return _indexed_column(name, self._single(kind))

    def _collect(self, kind: Any, namespace: str) -> None:
        """Collects named types: a type is defined at its first occurrence, and referred to by name later."""
        if isinstance(kind, list):
            for branch in kind:
                self._collect(branch, namespace)
        elif isinstance(kind, dict):
            if isinstance(kind.get("type"), (dict, list)):
                self._collect(kind["type"], namespace)
            name = kind.get("name")
            if kind.get("type") in ("record", "fixed", "enum") and isinstance(name, str):
                head, _, tail = name.rpartition(".")
                namespace = head or str(kind.get("namespace", namespace))
                self._named[f"{namespace}.{tail}" if namespace else tail] = kind
                self._named.setdefault(tail, kind)
            for field in kind.get("fields", ()):
                self._collect(field.get("type"), namespace)
            for inner in ("items", "values"):
                self._collect(kind.get(inner), namespace)

    def _single(self, kind: Any) -> Any:
        """Returns the only type besides null, with its name resolved; None if there are several."""
        if isinstance(kind, list):
            others = [branch for branch in kind if branch != "null"]
            kind = others[0] if len(others) == 1 else None
        while isinstance(kind, dict) and isinstance(kind.get("type"), (dict, list)):
            kind = self._single(kind["type"])
        if isinstance(kind, str) and kind not in _PRIMITIVES:
            return self._named.get(kind)
        return kind


def _indexed_column(name: str, kind: Any) -> IndexedColumn | None:
    base, logical = (kind.get("type"), kind.get("logicalType")) if isinstance(kind, dict) else (kind, None)
    if logical == "vector":
        return None
    if logical == "decimal" and base in ("bytes", "fixed"):
        precision, scale = kind.get("precision"), kind.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
            return IndexedColumn(name, ValueType.DECIMAL, precision, scale)
    value = _LOGICAL.get((str(base), str(logical))) or _PRIMITIVES.get(str(base))
    return None if value is None else IndexedColumn(name, value)
