"""Columns as Iceberg describes them: types, and ids that a column keeps for good.

Schemas and name mappings are the JSON of the Iceberg table specification (version 2, appendix C).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.schema import SchemaHistory
from hudi_py.schema.internal import InternalArray, InternalMap, InternalRecord, InternalSchema, InternalType

Json = dict[str, Any]
NAME_MAPPING: Final = "schema.name-mapping.default"

_PLAIN: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
}
_DECIMAL: Final = re.compile(r"decimal\((\d+), (\d+)\)")
_WIDER: Final = {("int", "long"), ("float", "double")}
_ROOT: Final = -1


@dataclass(frozen=True, slots=True)
class IcebergColumns:
    """The columns of a table at one time."""

    fields: tuple[Json, ...]
    """Members of the Iceberg schema, with ids."""
    last_id: int
    """The greatest id ever given."""
    mapping: tuple[Json, ...]
    """Name mapping for files without ids."""
    hidden: frozenset[str]
    """Columns that are never read from files: their value comes from the partition's path."""
    reassigned: bool
    """Whether a name now has another id: older files can no longer be read with it."""

    def properties(self) -> dict[str, str]:
        """Returns the table property that holds the mapping."""
        return {NAME_MAPPING: json.dumps(self.mapping)}

    def ids(self) -> dict[str, int]:
        """Returns ids of the top-level columns by name."""
        return {field["name"]: field["id"] for field in self.fields}

    def with_files(self, schemas: Iterable[pa.Schema]) -> IcebergColumns:
        """Returns the columns with ids for names that only files have: readers need one for each name in a file."""
        others = _Others(self.last_id)
        mapping: Sequence[Json] = self.mapping
        for schema in schemas:
            mapping = others.merged(mapping, list(schema))
        return replace(self, mapping=tuple(mapping), last_id=others.last)

    def arrow(self, schema: pa.Schema) -> pa.Schema:
        """Returns a part of the table's schema for Parquet files with these ids."""
        by_name = {field["name"]: field for field in self.fields}
        return pa.schema([_with_id(item, by_name[item.name]) for item in schema])


@dataclass(frozen=True, slots=True)
class PublishedColumns:
    """The columns published last."""

    fields: Sequence[Json]
    """The members of their schema; empty: none were published."""
    last_id: int
    """The greatest id given so far."""
    properties: Mapping[str, str]
    """The properties of the Iceberg table."""
    instant: str | None = None
    """The newest commit that was published, whose columns they are."""


def evolve(
    schema: pa.Schema,
    history: SchemaHistory | None,
    before: PublishedColumns,
    *,
    hidden: Collection[str] = (),
    table: str,
) -> IcebergColumns:
    """Converts the columns of `schema`; previously published columns keep their ids.

    Columns are the same if Hudi's ids say so (schema on read), otherwise by name.

    Args:
        hidden: columns that engines must take from the partition, also where files have something of this name.

    Raises:
        UnsupportedTableError: Iceberg has no such type, or cannot change the type of a column in this way.
    """
    query = None if history is None else history.query
    then = None if history is None or before.instant is None else history.at(before.instant)
    known: dict[int, int] = {}
    if then is not None:
        _pair_ids(before.fields, then.record, known)
    ids = _ColumnIds(before.last_id, known, table)
    fields = ids.members(schema, before.fields, None if query is None else query.record, "")
    older = _older_names(() if history is None or query is None else history.versions, ids.hudi)
    previous = _mapped_names(json.loads(before.properties.get(NAME_MAPPING, "[]")))
    current = _current_names(fields)
    for field in fields:
        if field["name"] in hidden:
            current[_ROOT][field["id"]] = []
    names, reassigned = _merge_names(previous, current, older)
    return IcebergColumns(tuple(fields), ids.last, tuple(_name_mapping(names, _ROOT)), frozenset(hidden), reassigned)


def _pair_ids(fields: Sequence[Json], record: InternalRecord, known: dict[int, int]) -> None:
    """Collects Iceberg's ids by Hudi's, for columns with the same names."""
    by_name = {field["name"]: field for field in fields}
    for own in record.fields:
        if own.name in by_name:
            known[own.id] = by_name[own.name]["id"]
            _pair_types(by_name[own.name]["type"], own.type, known)


def _pair_types(kind: Any, own: InternalType, known: dict[int, int]) -> None:
    shape = kind["type"] if isinstance(kind, dict) else None
    if shape == "struct" and isinstance(own, InternalRecord):
        _pair_ids(kind["fields"], own, known)
    elif shape == "list" and isinstance(own, InternalArray):
        known[own.element_id] = kind["element-id"]
        _pair_types(kind["element"], own.element, known)
    elif shape == "map" and isinstance(own, InternalMap):
        known[own.key_id], known[own.value_id] = kind["key-id"], kind["value-id"]
        _pair_types(kind["value"], own.value, known)


class _ColumnIds:
    """Assigns ids to columns, depth first."""

    def __init__(self, last: int, hudi: Mapping[int, int], table: str) -> None:
        self.last = last
        self.hudi = dict(hudi)
        self._by_ids = bool(hudi)
        self._table = table
        self._taken: set[int] = set()

    def members(
        self, fields: Iterable[pa.Field], before: Sequence[Json], record: InternalRecord | None, path: str
    ) -> list[Json]:
        by_id = {item["id"]: item for item in before}
        by_name = {item["name"]: item for item in before}
        own = {} if record is None else {field.name: field for field in record.fields}
        given: set[int] = set()
        result: list[Json] = []
        for field in fields:
            where = f"{path}.{field.name}" if path else field.name
            mine = own.get(field.name)
            if mine is not None and self._by_ids:
                old = by_id.get(self.hudi.get(mine.id, _ROOT))
            else:
                old = by_name.get(field.name)
            if old is not None and old["id"] in given:
                old = None
            number = self._number(None if old is None else old["id"], None if mine is None else mine.id)
            given.add(number)
            kind = self.type(field.type, None if old is None else old["type"], mine.type if mine else None, where)
            made = {"id": number, "name": field.name, "required": False, "type": kind}
            comment = (field.metadata or {}).get(b"comment")
            result.append({**made, "doc": comment.decode("utf-8", "replace")} if comment else made)
        return result

    def type(self, kind: pa.DataType, before: Any, own: InternalType | None, where: str) -> Any:
        old = before if isinstance(before, dict) else {}
        nested = old.get("type")
        if pa.types.is_struct(kind):
            if not kind.num_fields:
                raise self._refused(where, kind, "an empty struct has no columns")
            self._check_kind(where, kind, before, "struct")
            record = own if isinstance(own, InternalRecord) else None
            return {"type": "struct", "fields": self.members(kind, old.get("fields", ()), record, where)}
        if pa.types.is_map(kind):
            self._check_kind(where, kind, before, "map")
            inner = own if isinstance(own, InternalMap) else None
            key = self._number(old.get("key-id"), None if inner is None else inner.key_id)
            value = self._number(old.get("value-id"), None if inner is None else inner.value_id)
            kinds = (
                self.type(kind.key_type, old.get("key"), None, f"{where}.key"),
                self.type(kind.item_type, old.get("value"), None if inner is None else inner.value, f"{where}.value"),
            )
            ids = {"key-id": key, "value-id": value}
            return {"type": "map", **ids, "key": kinds[0], "value": kinds[1], "value-required": False}
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self._check_kind(where, kind, before, "list")
            array = own if isinstance(own, InternalArray) else None
            number = self._number(old.get("element-id"), None if array is None else array.element_id)
            element = self.type(
                kind.value_type, old.get("element"), None if array is None else array.element, f"{where}.element"
            )
            return {"type": "list", "element-id": number, "element": element, "element-required": False}
        name = self._primitive(kind, where)
        if nested is not None or (before is not None and before != name and not promotes(before, name)):
            raise self._refused(where, kind, f"it was published as {nested or before}, which Iceberg cannot change")
        return name

    def _number(self, old: int | None, hudi: int | None) -> int:
        number = old
        if number is None and hudi is not None:
            number = self.hudi.get(hudi)
        if number is None or number in self._taken:
            self.last += 1
            number = self.last
        self._taken.add(number)
        if hudi is not None:
            self.hudi[hudi] = number
        return number

    def _primitive(self, kind: pa.DataType, where: str) -> str:
        if kind in _PLAIN:
            return _PLAIN[kind]
        if pa.types.is_timestamp(kind) and kind.unit == "us":
            return "timestamptz"
        if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
            return f"decimal({kind.precision}, {kind.scale})"
        if pa.types.is_fixed_size_binary(kind):
            return f"fixed[{kind.byte_width}]"
        why = "Iceberg's format version 2 has no such type"
        if pa.types.is_timestamp(kind):
            why = "timestamps of Iceberg's format version 2 have microseconds"
        raise self._refused(where, kind, why)

    def _check_kind(self, where: str, kind: pa.DataType, before: Any, wanted: str) -> None:
        if before is not None and (not isinstance(before, dict) or before["type"] != wanted):
            old = before["type"] if isinstance(before, dict) else before
            raise self._refused(where, kind, f"it was published as {old}, which Iceberg cannot change")

    def _refused(self, where: str, kind: pa.DataType, why: str) -> UnsupportedTableError:
        return UnsupportedTableError(
            f"Cannot publish {self._table} to Iceberg: column {where} has the type {kind}, and {why}; change the column"
            ", or unpublish the table and publish it again once no file has the old type",
            key=where,
        )


class _Others:
    """Assigns ids to names in files that belong to no column."""

    def __init__(self, last: int) -> None:
        self.last = last

    def merged(self, mapping: Sequence[Json], fields: Sequence[pa.Field]) -> Sequence[Json]:
        """Returns the mapping with an entry for each field and its members; the same object if it has them."""
        entries = list(mapping)
        places = {name: index for index, entry in enumerate(entries) for name in entry["names"]}
        for field in fields:
            position = places.get(field.name)
            if position is None:
                self.last += 1
                position = len(entries)
                entries.append({"field-id": self.last, "names": [field.name]})
            kind = field.type
            if pa.types.is_nested(kind):
                inner = entries[position].get("fields", ())
                result = self.merged(inner, [kind.field(item) for item in range(kind.num_fields)])
                if result is not inner:
                    entries[position] = {**entries[position], "fields": list(result)}
        return mapping if entries == list(mapping) else entries


def promotes(old: str, new: str) -> bool:
    """Returns whether Iceberg reads values of a primitive type as another (specification, schema evolution)."""
    first, second = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if first and second:
        return first[2] == second[2] and int(first[1]) <= int(second[1])
    return (old, new) in _WIDER


def _with_id(field: pa.Field, given: Json) -> pa.Field:
    return pa.field(field.name, _type_with_ids(field.type, given["type"]), True, _id_metadata(given["id"]))


def _type_with_ids(kind: pa.DataType, given: Any) -> pa.DataType:
    if pa.types.is_struct(kind):
        by_name = {item["name"]: item for item in given["fields"]}
        return pa.struct([_with_id(item, by_name[item.name]) for item in kind])
    if pa.types.is_map(kind):
        key = pa.field("key", _type_with_ids(kind.key_type, given["key"]), False, _id_metadata(given["key-id"]))
        return pa.map_(
            key,
            pa.field("value", _type_with_ids(kind.item_type, given["value"]), True, _id_metadata(given["value-id"])),
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _type_with_ids(kind.value_type, given["element"])
        return pa.list_(pa.field("element", element, True, _id_metadata(given["element-id"])))
    return kind


def _id_metadata(number: int) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": str(number).encode()}


# Names by id, of one level: {parent id: {id: names}}, in order
_Names = dict[int, dict[int, list[str]]]


def _current_names(fields: Sequence[Json]) -> _Names:
    result: _Names = {}
    _collect_names(fields, _ROOT, result)
    return result


def _collect_names(fields: Sequence[Json], parent: int, names: _Names) -> None:
    for field in fields:
        names.setdefault(parent, {})[field["id"]] = [field["name"]]
        _collect_type(field["type"], field["id"], names)


def _collect_type(kind: Any, parent: int, names: _Names) -> None:
    if not isinstance(kind, dict):
        return
    if kind["type"] == "struct":
        _collect_names(kind["fields"], parent, names)
        return
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    for part in parts:
        names.setdefault(parent, {})[kind[f"{part}-id"]] = [part]
        _collect_type(kind[part], kind[f"{part}-id"], names)


def _older_names(versions: Sequence[InternalSchema], hudi: Mapping[int, int]) -> dict[int, list[str]]:
    """Returns names that columns had in earlier versions, by Iceberg's id."""
    result: dict[int, list[str]] = {}
    pending: list[InternalType] = [version.record for version in versions]
    while pending:
        kind = pending.pop()
        if isinstance(kind, InternalRecord):
            for field in kind.fields:
                if field.id in hudi:
                    result.setdefault(hudi[field.id], []).append(field.name)
                pending.append(field.type)
        elif isinstance(kind, InternalArray):
            pending.append(kind.element)
        elif isinstance(kind, InternalMap):
            pending.append(kind.value)
    return result


def _mapped_names(mapping: Sequence[Json], parent: int = _ROOT, names: _Names | None = None) -> _Names:
    names = {} if names is None else names
    for item in mapping:
        names.setdefault(parent, {})[item["field-id"]] = list(item["names"])
        _mapped_names(item.get("fields", ()), item["field-id"], names)
    return names


def _merge_names(previous: _Names, current: _Names, older: Mapping[int, Sequence[str]]) -> tuple[_Names, bool]:
    """Merges names of present and former columns; a present column has its name, whoever had it before.

    Returns whether a name went from one id to another.
    """
    merged: _Names = {}
    reassigned = False
    for parent in previous.keys() | current.keys():
        now, then = current.get(parent, {}), previous.get(parent, {})
        taken = {name: number for number, names in now.items() for name in names}
        level = {number: list(names) for number, names in now.items()}
        for number in (*now, *(item for item in then if item not in now)):
            for name in (*then.get(number, ()), *older.get(number, ())):
                owner = taken.setdefault(name, number)
                if owner != number:
                    reassigned = reassigned or name in then.get(number, ())
                elif name not in level.setdefault(number, []):
                    level[number].append(name)
        merged[parent] = level
    return merged, reassigned


def _name_mapping(names: _Names, parent: int) -> list[Json]:
    result = []
    for number, item in names.get(parent, {}).items():
        if not item:
            continue
        inner = _name_mapping(names, number)
        entry: Json = {"field-id": number, "names": item}
        result.append({**entry, "fields": inner} if inner else entry)
    return result
