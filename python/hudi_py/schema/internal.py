"""Schema on read: schemas that identify columns by id, and the mapping of a file's columns to those of a query.

A table with schema on read keeps every version of its schema (in `.hoodie/.schema`). A file
was written with the newest version that is not later than its instant; a column of the query is the file's column with
the same id, whatever their names. Source: `InternalSchema`, `SerDeHelper`, `InternalSchemaMerger`,
`InternalSchemaUtils.searchSchema` (1.2.0).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.schema.conform import Repairs, Sources, conform

_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class InternalRecord:
    """A struct, or all columns of a table."""

    fields: tuple[InternalField, ...]


@dataclass(frozen=True, slots=True)
class InternalArray:
    element_id: int
    element: InternalType
    element_optional: bool = True


@dataclass(frozen=True, slots=True)
class InternalMap:
    """Keys are strings."""

    key_id: int
    value_id: int
    value: InternalType
    value_optional: bool = True


@dataclass(frozen=True, slots=True)
class InternalField:
    """A column or a member of a struct; its id does not change with name, position or type."""

    id: int
    name: str
    type: InternalType
    optional: bool = True
    doc: str | None = None


InternalType: TypeAlias = str | InternalRecord | InternalArray | InternalMap
"""A primitive type is its name, such as `long` or `decimal(10, 2)`."""


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """One version of a table's schema."""

    version_id: int
    """The instant of the change as a number; 0 at the table's creation; -1 for a write whose instant is not known
    yet."""
    record: InternalRecord
    max_column_id: int = -1
    """The greatest id that the table has ever given to a column; -1 for the greatest in `record`."""


def parse_internal_schema(text: str, context: str = "an internal schema") -> InternalSchema:
    """Parses the `latest_schema` of a commit.

    Raises:
        CorruptFileError: the text is not the JSON of an internal schema; the message names `context`.
    """
    return _schema(_json(text, context), context)


def parse_history(text: str, context: str = "a schema history") -> tuple[InternalSchema, ...]:
    """Parses the versions in a completed `schemacommit` file, oldest first.

    Raises:
        CorruptFileError: as `parse_internal_schema`.
    """
    parsed = _json(text, context)
    schemas = parsed.get("schemas") if isinstance(parsed, dict) else None
    if not isinstance(schemas, list):
        raise CorruptFileError(f"Cannot read {context}: it has no list of schemas")
    versions = {schema.version_id: schema for schema in (_schema(schema, context) for schema in schemas)}
    return tuple(versions[number] for number in sorted(versions))


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """Maps the columns of files and log blocks to those of a query."""

    query: InternalSchema | None = None
    """The schema of the query; None if columns are matched by name."""
    versions: tuple[InternalSchema, ...] = ()
    """The versions, oldest first."""
    repairs: tuple[tuple[str, str], ...] = ()
    """Columns whose logical type the table's schema corrects: dotted path and Avro logical type."""

    def at(self, instant: str) -> InternalSchema | None:
        """Returns the version that an instant wrote with; None if columns are matched by name."""
        if self.query is None or not instant.isdecimal():
            return None
        versions = [schema for schema in self.versions if schema.version_id <= int(instant)]
        return versions[-1] if versions else None

    def sources(self, instant: str) -> Sources | None:
        """Maps the query's columns to those of a file written by an instant; None if they are matched by name."""
        written = self.at(instant)
        if written is None or self.query is None:
            return None
        return _pair(self.query.record, written.record)

    def columns(self, instant: str, names: Iterable[str]) -> list[str]:
        """Returns the names that the query's columns `names` have in a file or block of an instant, without missing
        ones."""
        sources = self.sources(instant)
        if sources is None:
            return list(names)
        stored = (sources.of(name)[0] for name in names)
        return [name for name in stored if name is not None]

    def conform(
        self, batch: pa.RecordBatch, instant: str, target: pa.Schema, *, context: str = "", repaired: bool = False
    ) -> pa.RecordBatch:
        """Converts a batch of a file or log block to the schema of the query.

        Args:
            batch: with at least the result of `columns`.
            instant: instant of the base file or log block.
            target: the result's columns, with the query's names.
            context: what is being read, for messages.
            repaired: whether the batch was decoded with the result of `writer_schema`.

        Raises:
            SchemaMismatchError: as `hudi_py.schema.conform`.
        """
        repairs = None if repaired or not self.repairs else Repairs(dict(self.repairs))
        return conform(batch, target, context=context, sources=self.sources(instant), repairs=repairs)

    def writer_schema(self, avro: Any) -> Any:
        """Returns the Avro schema for decoding a log block: the one in its header, with timestamp types corrected by
        the table's schema (`HoodieSchemaRepair`, 1.2.0)."""
        return _repaired(avro, "", dict(self.repairs)) if self.repairs else avro


def timestamp_repairs(avro: Any) -> tuple[tuple[str, str], ...]:
    """Finds timestamps of a table's Avro schema whose files may lack the logical type, or have a wrong one.

    Some writers have stored a timestamp in milliseconds labelled as microseconds, and local timestamps as plain longs
    (`HoodieSchemaRepair`, 1.2.0).
    """
    result: list[tuple[str, str]] = []
    _collect(avro, "", result, 0)
    return tuple(result)


_REPAIRED = frozenset({"timestamp-millis", "local-timestamp-millis", "local-timestamp-micros"})
_MICROS = frozenset({"timestamp-micros", "local-timestamp-micros"})


def _collect(avro: Any, path: str, timestamps: list[tuple[str, str]], depth: int) -> None:
    if depth > _MAX_DEPTH:
        return
    for name, child in _members(avro, path):
        _collect(child, name, timestamps, depth + 1)
    if isinstance(avro, dict) and avro.get("type") == "long" and avro.get("logicalType") in _REPAIRED:
        timestamps.append((path, avro["logicalType"]))


def _members(avro: Any, path: str) -> list[tuple[str, Any]]:
    """Lists the schemas within a schema, with their paths as in `hudi_py.schema.conform`."""
    if isinstance(avro, list):
        values = [branch for branch in avro if branch != "null"]
        # unions of several types become structs, in which nothing is repaired
        return [(path, values[0])] if len(values) == 1 else []
    if not isinstance(avro, dict):
        return []
    kind = avro.get("type")
    if isinstance(kind, (dict, list)):
        return [(path, kind)]
    if kind == "record" and isinstance(avro.get("fields"), list):
        return [(f"{path}.{field['name']}" if path else field["name"], field["type"]) for field in avro["fields"]]
    if kind == "array":
        return [(f"{path}.element", avro.get("items"))]
    if kind == "map":
        return [(f"{path}.value", avro.get("values"))]
    return []


def _repaired_long(avro: Mapping[str, Any], wanted: str | None) -> Mapping[str, Any]:
    value = avro.get("logicalType")
    relabelled = value in _MICROS and wanted is not None and wanted.endswith("millis")
    missing = value is None and wanted is not None and wanted.startswith("local")
    return {**avro, "logicalType": wanted} if relabelled or missing else avro


def _repaired(avro: Any, path: str, repairs: Mapping[str, str]) -> Any:
    if isinstance(avro, list):
        values = [branch for branch in avro if branch != "null"]
        if len(values) != 1:
            return avro
        return [branch if branch == "null" else _repaired(branch, path, repairs) for branch in avro]
    if avro == "long":
        repaired = _repaired_long({"type": "long"}, repairs.get(path))
        return repaired if "logicalType" in repaired else avro
    if not isinstance(avro, dict):
        return avro
    kind = avro.get("type")
    if kind == "long":
        return _repaired_long(avro, repairs.get(path))
    if isinstance(kind, (dict, list)):
        return {**avro, "type": _repaired(kind, path, repairs)}
    if kind == "record" and isinstance(avro.get("fields"), list):
        fields = [
            {**field, "type": _repaired(field["type"], f"{path}.{field['name']}" if path else field["name"], repairs)}
            for field in avro["fields"]
        ]
        return {**avro, "fields": fields}
    if kind == "array":
        return {**avro, "items": _repaired(avro.get("items"), f"{path}.element", repairs)}
    if kind == "map":
        return {**avro, "values": _repaired(avro.get("values"), f"{path}.value", repairs)}
    return avro


@functools.lru_cache(256)
def _pair(query: InternalRecord, written: InternalRecord) -> Sources | None:
    """Maps a record's members by id; None if every member has the same name."""
    by_id = {field.id: field for field in written.fields}
    members: dict[str, tuple[str | None, Sources | None]] = {}
    same = True
    for field in query.fields:
        value = by_id.get(field.id)
        if value is None:
            members[field.name] = (None, None)
            same = False
            continue
        inner = _inner(field.type, value.type)
        members[field.name] = (value.name, inner)
        same = same and value.name == field.name and inner is None
    return None if same else Sources(members)


def _inner(query: InternalType, written: InternalType) -> Sources | None:
    if isinstance(query, InternalRecord) and isinstance(written, InternalRecord):
        return _pair(query, written)
    if isinstance(query, InternalArray) and isinstance(written, InternalArray):
        inner = _inner(query.element, written.element)
        return None if inner is None else Sources({"element": ("element", inner)})
    if isinstance(query, InternalMap) and isinstance(written, InternalMap):
        inner = _inner(query.value, written.value)
        return None if inner is None else Sources({"value": ("value", inner)})
    return None


def _json(text: str, context: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {context}: it is not JSON; {error}") from None


def _schema(parsed: Any, context: str) -> InternalSchema:
    try:
        record = _type(parsed, 0)
        version = _number(parsed, "version_id", "version-id")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CorruptFileError(f"Cannot read {context}: it is not an internal schema; {error!r}") from None
    if not isinstance(record, InternalRecord):
        raise CorruptFileError(f"Cannot read {context}: it is an internal schema of {record}, not of a record")
    return InternalSchema(version, record, int(parsed.get("max_column_id", -1)))


def _type(parsed: Any, depth: int) -> InternalType:
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    if isinstance(parsed, str):
        return parsed.lower()
    kind = parsed["type"]
    if kind == "record":
        return InternalRecord(_fields(parsed["fields"], depth))
    if kind == "array":
        element, optional = _type(parsed["element"], depth + 1), parsed.get("element_optional", True) is True
        return InternalArray(_number(parsed, "element_id", "element-id"), element, optional)
    if kind == "map":
        value = _type(parsed["value"], depth + 1)
        ids = _number(parsed, "key_id", "key-id"), _number(parsed, "value_id", "value-id")
        return InternalMap(*ids, value, parsed.get("value_optional", True) is True)
    raise ValueError(f"unknown type {kind!r}")


def _fields(parsed: Sequence[Any], depth: int) -> tuple[InternalField, ...]:
    fields = tuple(
        InternalField(
            int(item["id"]),
            str(item["name"]),
            _type(item["type"], depth + 1),
            item.get("optional", True) is True,
            None if item.get("doc") is None else str(item["doc"]),
        )
        for item in parsed
    )
    if len({field.id for field in fields}) != len(fields) or len({field.name for field in fields}) != len(fields):
        raise ValueError("two fields have the same id or name")
    return fields


def _number(parsed: Mapping[str, Any], *keys: str) -> int:
    """Reads a number by its key, or by the key that some releases used."""
    for key in keys:
        if key in parsed:
            return int(parsed[key])
    if keys[0] == "version_id":
        return 0
    raise KeyError(keys[0])
