"""Assigns ids to columns, and converts schemas with ids to JSON and Avro.

Sources: `InternalSchemaConverter` (types, and ids in the order in which it gives them), `SerDeHelper` (JSON),
`AvroSchemaEvolutionUtils.reconcileSchema` (columns that a write adds), 1.2.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.avro import minimal_fixed_size
from hudi_py.model.limits import parse_json
from hudi_py.schema.internal import (
    InternalArray,
    InternalField,
    InternalMap,
    InternalRecord,
    InternalSchema,
    InternalType,
)
from hudi_py.schema.meta import META_FIELDS

UNSAVED: Final = -1
"""The `version_id` of a schema that a write adds before its instant is known."""
_OPAQUE: Final = "avro:"
"""Prefix of the Avro JSON of types that internal schemas do not have."""

_LOGICAL: Final = {
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "time-millis": {"type": "int", "logicalType": "time-millis"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp-millis": {"type": "long", "logicalType": "timestamp-millis"},
    "local-timestamp-micros": {"type": "long", "logicalType": "local-timestamp-micros"},
    "local-timestamp-millis": {"type": "long", "logicalType": "local-timestamp-millis"},
    "uuid": {"type": "string", "logicalType": "uuid"},
}
_NAMES: Final = {(item["type"], item["logicalType"]): name for name, item in _LOGICAL.items()}
_PRIMITIVES: Final = {
    **{name: name for name in ("boolean", "int", "long", "float", "double", "string")},
    "bytes": "binary",
}
_AVRO: Final[Mapping[str, Any]] = {**{name: avro for avro, name in _PRIMITIVES.items()}, **_LOGICAL}
_DECIMAL: Final = re.compile(
    r"decimal(?P<kind>|_fixed|_bytes)\((?P<precision>\d+), *(?P<scale>\d+)\)(?:\[(?P<size>\d+)\])?"
)
_FIXED: Final = re.compile(r"fixed\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class DecimalName:
    """A decimal type as internal schemas spell it: `decimal(10, 2)`, `decimal_fixed(10, 2)[5]`, `decimal_bytes(10,
    2)`."""

    precision: int
    scale: int
    size: int | None
    """Size of the fixed in bytes; None if it is stored as bytes."""

    @classmethod
    def of(cls, name: str) -> DecimalName | None:
        """Parses the name of a decimal type; None for any other type."""
        match = _DECIMAL.fullmatch(name)
        if match is None:
            return None
        precision = int(match["precision"])
        size = None if match["kind"] == "_bytes" else int(match["size"] or minimal_fixed_size(precision))
        return cls(precision, int(match["scale"]), size)


# -- from Avro


def with_ids(avro: Mapping[str, Any], table: str = "") -> InternalSchema:
    """Returns the first version of a table's schema. Ids follow the order of the columns; members of a struct come
    after its columns.

    Args:
        avro: a record, with or without meta columns; they get the first ids.
        table: for messages. Empty: the ids are not going to be stored, so columns may have any type.

    Raises:
        UnsupportedTableError: a column has a type that internal schemas do not have (VARIANT, VECTOR, BLOB, unions of
            several types).
    """
    ids = _Ids(0, table)
    record = ids.record({**avro, "fields": with_meta_fields(avro["fields"])}, "")
    return InternalSchema(0, record, ids.next - 1)


def with_meta_fields(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prepends the five meta columns to the fields of an Avro record."""
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_FIELDS]
    return meta + [field for field in fields if field["name"] not in META_FIELDS]


def new_type(avro: Any, first: int, table: str, column: str) -> tuple[InternalType, int]:
    """Returns the internal type of a new column, whose members get ids from `first` on, and the next free id. For other
    arguments and errors see `with_ids`."""
    ids = _Ids(first, table)
    kind = ids.type(avro, column)
    return kind, ids.next


@dataclass(slots=True)
class _Ids:
    """Converts Avro types to internal ones and numbers their members."""

    next: int
    table: str

    def take(self, count: int) -> int:
        first = self.next
        self.next += count
        return first

    def record(self, avro: Mapping[str, Any], path: str) -> InternalRecord:
        fields = avro["fields"]
        first = self.take(len(fields))
        made = []
        for index, field in enumerate(fields):
            kind = self.type(field["type"], f"{path}{field['name']}")
            made.append(
                InternalField(first + index, field["name"], kind, _admits_null(field["type"]), field.get("doc"))
            )
        return InternalRecord(tuple(made))

    def type(self, avro: Any, path: str) -> InternalType:
        """Returns the type of the column or member at a path. `avro` may be nullable."""
        avro = value_type(avro)
        kind = avro["type"] if isinstance(avro, dict) else avro
        logical = avro.get("logicalType") if isinstance(avro, dict) else None
        if isinstance(kind, list):
            return self._opaque(avro, path, "a union of several types")
        if kind == "record" and logical is None:
            return self.record(avro, f"{path}.")
        if kind == "array":
            element_id = self.take(1)
            return InternalArray(element_id, self.type(avro["items"], f"{path}.element"), _admits_null(avro["items"]))
        if kind == "map":
            key_id = self.take(2)
            value = self.type(avro["values"], f"{path}.value")
            return InternalMap(key_id, key_id + 1, value, _admits_null(avro["values"]))
        if logical == "decimal" and kind in ("fixed", "bytes"):
            digits = f"({avro['precision']}, {avro.get('scale', 0)})"
            return f"decimal_bytes{digits}" if kind == "bytes" else f"decimal_fixed{digits}[{avro['size']}]"
        name = _NAMES.get((str(kind), str(logical)))
        if name is not None:
            return name
        if kind == "fixed" and logical is None:
            return f"fixed[{avro['size']}]"
        if kind == "enum":
            return "string"
        if kind in _PRIMITIVES and logical is None:
            return _PRIMITIVES[kind]
        return self._opaque(avro, path, str(logical or kind))

    def _opaque(self, avro: Any, path: str, shown: str) -> str:
        if not self.table:
            return _OPAQUE + json.dumps(avro)
        raise UnsupportedTableError(
            f"Cannot give the columns of the table '{self.table}' ids: the type of '{path}' is {shown}, which schema "
            "on read does not support; without hoodie.schema.on.read.enable columns can be added, moved and widened"
        )


def is_opaque(kind: str) -> bool:
    """Returns whether a type represents an Avro type that internal schemas do not have."""
    return kind.startswith(_OPAQUE)


def value_type(avro: Any) -> Any:
    """Returns an Avro type without null and the wrapping dict; a list if several types are left."""
    while True:
        if isinstance(avro, list):
            values = [item for item in avro if item != "null"]
            if len(values) != 1:
                return values
            avro = values[0]
        elif isinstance(avro, dict) and isinstance(avro["type"], (dict, list)):
            avro = avro["type"]
        else:
            return avro


def _admits_null(avro: Any) -> bool:
    return isinstance(avro, list) and "null" in avro


# -- what a write changes


def reconciled(latest: InternalSchema, avro: Mapping[str, Any], table: str) -> InternalSchema:
    """Returns the schema after a write that leaves the table with the columns of `avro`. Columns are matched by name;
    new ones get new ids. Returns `latest` itself if nothing changed, else a schema that is `UNSAVED`.

    Raises:
        UnsupportedTableError: as `with_ids`.
    """
    fields = [field for field in avro["fields"] if field["name"] not in META_FIELDS]
    if any(field.name in META_FIELDS for field in latest.record.fields):
        fields = with_meta_fields(fields)
    ids = _Ids(last_id(latest) + 1, table)
    record = _reconciled_record(latest.record, {**avro, "fields": fields}, ids, "")
    if record == latest.record:
        return latest
    return InternalSchema(UNSAVED, record, ids.next - 1)


def _reconciled_record(old: InternalRecord, avro: Mapping[str, Any], ids: _Ids, path: str) -> InternalRecord:
    known = {field.name: field for field in old.fields}
    made = []
    for field in avro["fields"]:
        where, value = f"{path}{field['name']}", known.get(field["name"])
        if value is None:
            position = ids.take(1)
            made.append(InternalField(position, field["name"], ids.type(field["type"], where), True, field.get("doc")))
        else:
            made.append(replace(value, type=_reconciled_type(value.type, value_type(field["type"]), ids, where)))
    return InternalRecord(tuple(made))


def _reconciled_type(old: InternalType, avro: Any, ids: _Ids, path: str) -> InternalType:
    if isinstance(old, InternalRecord):
        return _reconciled_record(old, avro, ids, f"{path}.")
    if isinstance(old, InternalArray):
        return replace(old, element=_reconciled_type(old.element, value_type(avro["items"]), ids, f"{path}.element"))
    if isinstance(old, InternalMap):
        return replace(old, value=_reconciled_type(old.value, value_type(avro["values"]), ids, f"{path}.value"))
    new = ids.type(avro, path)
    return old if _same(old, new) else new


def _same(one: InternalType, other: InternalType) -> bool:
    """Returns whether two primitive types are equal: decimals have two names."""
    if one == other or not isinstance(one, str) or not isinstance(other, str):
        return one == other
    decimal = DecimalName.of(one)
    return decimal is not None and decimal == DecimalName.of(other)


def last_id(schema: InternalSchema) -> int:
    """Returns the greatest id that the table has ever given to a column."""
    return max(schema.max_column_id, *(id_ for id_ in _all_ids(schema.record)))


def _all_ids(kind: InternalType) -> Iterator[int]:
    if isinstance(kind, InternalRecord):
        for field in kind.fields:
            yield field.id
            yield from _all_ids(field.type)
    elif isinstance(kind, InternalArray):
        yield kind.element_id
        yield from _all_ids(kind.element)
    elif isinstance(kind, InternalMap):
        yield from (kind.key_id, kind.value_id)
        yield from _all_ids(kind.value)


# -- to Avro


def avro_with_ids(schema: InternalSchema, before: InternalSchema, avro: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the Avro record of a schema, without meta columns.

    Args:
        before: an earlier version.
        avro: its Avro record; columns whose type has not changed keep theirs.
    """
    known: dict[int, tuple[InternalType, Any]] = {}
    _note(before.record, avro, known)
    name = f"{avro['namespace']}.{avro['name']}" if avro.get("namespace") else avro["name"]
    made = _Avro(known)
    columns = InternalRecord(tuple(field for field in schema.record.fields if field.name not in META_FIELDS))
    return {**avro, "fields": made.record(columns, name)["fields"]}


def _note(record: InternalRecord, avro: Mapping[str, Any], known: dict[int, tuple[InternalType, Any]]) -> None:
    types = {field["name"]: field["type"] for field in avro["fields"]}
    for field in record.fields:
        if field.name in types:
            _note_type(field.id, field.type, types[field.name], known)


def _note_type(position: int, kind: InternalType, avro: Any, known: dict[int, tuple[InternalType, Any]]) -> None:
    avro = value_type(avro)
    if isinstance(kind, InternalRecord):
        if isinstance(avro, dict):
            _note(kind, avro, known)
    elif isinstance(kind, InternalArray):
        _note_type(kind.element_id, kind.element, avro["items"], known)
    elif isinstance(kind, InternalMap):
        _note_type(kind.value_id, kind.value, avro["values"], known)
    elif isinstance(avro, dict) or (isinstance(avro, str) and avro in _PRIMITIVES):
        # types that are defined elsewhere are written out again
        known[position] = kind, avro


@dataclass(slots=True)
class _Avro:
    """Converts internal types to Avro. Records and fixeds are named after their path, so that names are unique."""

    known: Mapping[int, tuple[InternalType, Any]]

    def record(self, record: InternalRecord, name: str) -> dict[str, Any]:
        fields = []
        for field in record.fields:
            kind = self.type(field.id, field.type, f"{name}.{field.name}")
            member: dict[str, Any] = {"name": field.name, "type": _nullable(kind) if field.optional else kind}
            if field.doc is not None:
                member["doc"] = field.doc
            if field.optional:
                member["default"] = None
            fields.append(member)
        space, _, last = name.rpartition(".")
        return {"type": "record", "name": last, **({"namespace": space} if space else {}), "fields": fields}

    def type(self, position: int, kind: InternalType, name: str) -> Any:
        if isinstance(kind, InternalRecord):
            return self.record(kind, name)
        if isinstance(kind, InternalArray):
            items = self.type(kind.element_id, kind.element, name)
            return {"type": "array", "items": _nullable(items) if kind.element_optional else items}
        if isinstance(kind, InternalMap):
            values = self.type(kind.value_id, kind.value, name)
            return {"type": "map", "values": _nullable(values) if kind.value_optional else values}
        if kind.startswith(_OPAQUE):
            return parse_json(kind[len(_OPAQUE) :])
        known = self.known.get(position)
        if known is None or not _same(known[0], kind):
            return _primitive(kind, name)
        if isinstance(known[1], dict) and known[1].get("type") == "fixed":
            return {**known[1], "name": "fixed", "namespace": name}
        return known[1]


def _nullable(avro: Any) -> Any:
    return ["null", *avro] if isinstance(avro, list) else ["null", avro]


def _primitive(kind: str, name: str) -> Any:
    if kind in _AVRO:
        return _AVRO[kind]
    decimal, fixed = DecimalName.of(kind), _FIXED.fullmatch(kind)
    if decimal is not None:
        digits = {"logicalType": "decimal", "precision": decimal.precision, "scale": decimal.scale}
        if decimal.size is None:
            return {"type": "bytes", **digits}
        return {"type": "fixed", "name": "fixed", "namespace": name, "size": decimal.size, **digits}
    if fixed is not None:
        return {"type": "fixed", "name": "fixed", "namespace": name, "size": int(fixed[1])}
    raise UnsupportedTableError(
        f"Cannot write column '{name}': its type in the internal schema is {kind}, which is not supported; write the "
        "table with Apache Hudi"
    )


# -- to JSON


def internal_json(schema: InternalSchema) -> str:
    """Serialises a schema as the `latest_schema` of a commit."""
    return json.dumps(_dumped(schema), separators=(",", ":"), ensure_ascii=False)


def inherited(schema: InternalSchema, history: str) -> str:
    """Prepends a version to a history. `history` is its text, empty if there is none yet."""
    versions = [_dumped(schema), *(parse_json(history)["schemas"] if history else ())]
    return json.dumps({"schemas": versions}, separators=(",", ":"), ensure_ascii=False)


def _dumped(schema: InternalSchema) -> dict[str, Any]:
    return {
        "max_column_id": last_id(schema),
        "version_id": schema.version_id,
        **_dumped_type(schema.record),
    }


def _dumped_type(kind: InternalType) -> Any:
    if isinstance(kind, InternalRecord):
        return {"type": "record", "fields": [_dumped_field(field) for field in kind.fields]}
    if isinstance(kind, InternalArray):
        return {
            "type": "array",
            "element_id": kind.element_id,
            "element": _dumped_type(kind.element),
            "element_optional": kind.element_optional,
        }
    if isinstance(kind, InternalMap):
        return {
            "type": "map",
            "key_id": kind.key_id,
            "key": "string",
            "value_id": kind.value_id,
            "value": _dumped_type(kind.value),
            "value_optional": kind.value_optional,
        }
    return kind


def _dumped_field(field: InternalField) -> dict[str, Any]:
    dumped = {"id": field.id, "name": field.name, "optional": field.optional, "type": _dumped_type(field.type)}
    return dumped if field.doc is None else {**dumped, "doc": field.doc}
