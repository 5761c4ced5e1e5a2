"""Resolves Avro schemas: looks up names, checks logical types, and maps each node to its Arrow type.

`resolve` turns parsed JSON into a graph of the classes below, from which decoders and encoders are compiled. A
recursive schema gives a cyclic graph, which can be skipped but has no Arrow type.

Logical types follow Avro's Java library (`LogicalTypes`, 1.11): one that does not fit its type (a decimal with more
digits than the fixed can hold, a scale above the precision, a timestamp on a string) is ignored. Arrow types follow
what Spark reads each type as (`HoodieSparkSchemaConverters.toSqlType`, Apache Hudi 1.2.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.hudi_types import ELEMENT_TYPES, declaration, vector_type
from hudi_py.formats.hudi_types import Vector as VectorType
from hudi_py.model.limits import SCHEMA, limit

AvroSchema: TypeAlias = dict[str, Any] | list[Any] | str
"""Parsed JSON of an Avro schema."""

MAX_DECIMAL_DIGITS = 76
_LIST_ITEM = "element"
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """`null`: no bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Boolean:
    """`boolean`: one byte, 0 or 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Integer:
    """`int` or `long` as a zigzag varint, with or without a logical type.

    The Arrow value is the stored number times `factor`: 1000 for millisecond timestamps, which become microseconds as
    in Spark.
    """

    arrow: pa.DataType
    bits: int
    factor: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class FixedWidth:
    """`float`, `double` and `fixed`: the `size` bytes of the Arrow value."""

    arrow: pa.DataType
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class FixedVector:
    """`vector` on `fixed` of `size` bytes: little-endian numbers; a list in Arrow."""

    arrow: pa.DataType
    size: int
    text: str = ""
    """The type in the form of `hudi_type`: `VECTOR(3)`."""

    @property
    def dimension(self) -> int:
        """Returns the number of elements of a vector."""
        return self.size // int(self.arrow.value_type.bit_width // 8)


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """`bytes`, `string` and uuid: a length and that many bytes."""

    arrow: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class Enum:
    """`enum`: the index of a symbol; a string in Arrow."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Decimal:
    """`decimal` on `fixed` of `size` bytes, or on `bytes` (`size` None): a big-endian two's complement number."""

    arrow: pa.DataType
    size: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Nullable:
    """`["null", T]` (`value_index` 1) or `[T, "null"]` (`value_index` 0)."""

    value: Node
    value_index: int


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Any other union, with all branches in the schema's order.

    In Arrow it is a struct with a nullable member `member0`, `member1`, ... for each branch except null, as in Spark.
    `number` is set instead for unions of int and long, or of float and double, which Spark reads as the wider type.
    """

    branches: tuple[Node, ...]
    number: pa.DataType | None = None

    @property
    def null_index(self) -> int | None:
        """Returns the index of the null branch; None if there is none."""
        return next((i for i, branch in enumerate(self.branches) if isinstance(branch, Null)), None)


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """`array`: blocks of items."""

    item: Node


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """`map`: blocks of string key and value."""

    value: Node


@dataclass(slots=True, eq=False)
class Record:
    """`record`: its fields in order. `fields` is filled while the schema is resolved."""

    name: str
    fields: list[tuple[str, Node]] = field(default_factory=list)
    logical: str = ""
    """`BLOB` or `VARIANT`, or empty."""


Leaf: TypeAlias = Null | Boolean | Integer | FixedWidth | FixedVector | Bytes | Enum | Decimal
Node: TypeAlias = Leaf | Nullable | Choice | Array | Map | Record


def resolve(schema: AvroSchema) -> Node:
    """Resolves a schema to a graph of nodes.

    Raises:
        SchemaMismatchError: the schema is not a valid Avro schema.
        UnsupportedTableError: it has shredded variants, vectors of unknown elements, decimals of more than 76
            digits, or more fields or levels than a schema may have.
    """
    node = _Resolver().node(schema, "", 0)
    most, (count, depth) = limit(SCHEMA), _expanded(node, {})
    if count > most or depth > _MAX_DEPTH:
        raise UnsupportedTableError(
            f"cannot use an Avro schema of {count} fields in {depth} levels once each name stands for its type; "
            f"supported: {most} fields ({SCHEMA} in the environment) in {_MAX_DEPTH} levels"
        )
    return node


def _expanded(node: Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Returns the number of nodes in a node's tree, and of levels, counting each use of a named type. A type that
    contains itself counts once: it has no Arrow type."""
    children: list[Node]
    if isinstance(node, Record):
        children = [child for _, child in node.fields]
    elif isinstance(node, Choice):
        children = list(node.branches)
    elif isinstance(node, Array):
        children = [node.item]
    elif isinstance(node, (Map, Nullable)):
        children = [node.value]
    else:
        return 1, 1
    size = known.get(id(node))
    if size is None:
        known[id(node)] = (1, 1)
        below = [_expanded(child, known) for child in children]
        size = (1 + sum(count for count, _ in below), 1 + max((depth for _, depth in below), default=0))
        known[id(node)] = size
    return size


def resolve_record(schema: AvroSchema | Record) -> Record:
    """Resolves as `resolve`, for a schema that must be a record; returns a resolved record unchanged."""
    if isinstance(schema, Record):
        return schema
    node = resolve(schema)
    if not isinstance(node, Record):
        raise SchemaMismatchError(f"cannot use an Avro schema of {_brief(schema)} for rows: it must be a record")
    return node


def arrow_of(node: Node) -> pa.DataType:
    """Returns the Arrow type of a node. Raises UnsupportedTableError for recursive types."""
    return _arrow_of(node, ())


def arrow_field(name: str, node: Node) -> pa.Field:
    """Returns the Arrow field of a record's field, nullable if the Avro type allows null. A VECTOR, VARIANT or BLOB has
    the metadata entry `hudi_type`."""
    return _field(name, node, ())


def custom_type(node: Node) -> str | None:
    """Returns the `hudi_type` of a vector, variant or blob; None for other types."""
    if isinstance(node, Nullable):
        node = node.value
    if isinstance(node, FixedVector):
        return node.text
    return (node.logical or None) if isinstance(node, Record) else None


def _field(name: str, node: Node, above: tuple[Record, ...], nullable: bool | None = None) -> pa.Field:
    may_be_null = admits_null(node) if nullable is None else nullable
    return pa.field(name, _arrow_of(node, above), may_be_null, metadata=declaration(custom_type(node)))


def admits_null(node: Node) -> bool:
    """Returns whether null is a value of the node's type."""
    return isinstance(node, (Null, Nullable)) or (isinstance(node, Choice) and node.null_index is not None)


def struct_members(node: Choice) -> list[tuple[str, Node]]:
    """Returns the names and nodes of the struct members for the branches of a union, without the null branch."""
    return [(f"member{i}", b) for i, b in enumerate(b for b in node.branches if not isinstance(b, Null))]


def _arrow_of(node: Node, above: tuple[Record, ...]) -> pa.DataType:
    if isinstance(node, (Integer, FixedWidth, FixedVector, Bytes, Decimal)):
        return node.arrow
    if isinstance(node, Null):
        return pa.null()
    if isinstance(node, Boolean):
        return pa.bool_()
    if isinstance(node, Enum):
        return pa.string()
    if isinstance(node, Nullable):
        return _arrow_of(node.value, above)
    if isinstance(node, Array):
        return pa.list_(_field(_LIST_ITEM, node.item, above))
    if isinstance(node, Map):
        value = _field("value", node.value, above)
        return pa.map_(pa.field("key", pa.string(), nullable=False), value)
    if isinstance(node, Choice):
        if node.number is not None:
            return node.number
        return pa.struct([_field(name, b, above, nullable=True) for name, b in struct_members(node)])
    if node in above:
        raise UnsupportedTableError(
            f"cannot read the Avro record {node.name!r}: it contains itself, and recursive types are not supported; "
            f"do not select the column"
        )
    above = (*above, node)
    return pa.struct([_field(n, f, above) for n, f in node.fields])


_PRIMITIVES: Mapping[str, Node] = {
    "null": Null(),
    "boolean": Boolean(),
    "int": Integer(pa.int32(), 32),
    "long": Integer(pa.int64(), 64),
    "float": FixedWidth(pa.float32(), 4),
    "double": FixedWidth(pa.float64(), 8),
    "bytes": Bytes(pa.binary()),
    "string": Bytes(pa.string()),
}
# time-millis and time-micros stay numbers, as in Spark
_LOGICAL: Mapping[tuple[str, str], Node] = {
    ("int", "date"): Integer(pa.date32(), 32),
    ("long", "timestamp-millis"): Integer(pa.timestamp("us", "UTC"), 64, 1000),
    ("long", "timestamp-micros"): Integer(pa.timestamp("us", "UTC"), 64),
    ("long", "timestamp-nanos"): Integer(pa.timestamp("ns", "UTC"), 64),
    ("long", "local-timestamp-millis"): Integer(pa.timestamp("us"), 64, 1000),
    ("long", "local-timestamp-micros"): Integer(pa.timestamp("us"), 64),
    ("long", "local-timestamp-nanos"): Integer(pa.timestamp("ns"), 64),
}
_SHREDDED = "typed_value"


class _Resolver:
    def __init__(self) -> None:
        self.named: dict[str, Node] = {}

    def node(self, schema: AvroSchema, namespace: str, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise SchemaMismatchError(f"cannot use an Avro schema nested deeper than {_MAX_DEPTH} levels")
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaMismatchError(f"cannot read the Avro schema {_brief(schema)}: it has no type")
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.node(kind, namespace, depth + 1)
        logical = schema.get("logicalType")
        if kind in ("record", "error"):
            return self._logical_record(schema, namespace, depth)
        if kind == "enum":
            return self._define(schema, namespace, _enum(schema))
        if kind == "fixed":
            return self._define(schema, namespace, _fixed(schema))
        if kind == "array":
            return Array(self.node(_member(schema, "items"), namespace, depth + 1))
        if kind == "map":
            return Map(self.node(_member(schema, "values"), namespace, depth + 1))
        if not isinstance(kind, str):
            raise SchemaMismatchError(f"cannot read the Avro schema {_brief(schema)}: its type is not a name")
        if kind == "bytes" and logical == "decimal":
            return _decimal(schema, None) or _PRIMITIVES["bytes"]
        if isinstance(logical, str) and (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> Node:
        node = _PRIMITIVES.get(name)
        if node is None and "." not in name and namespace:
            node = self.named.get(f"{namespace}.{name}")
        if node is None:
            node = self.named.get(name)
        if node is None:
            raise SchemaMismatchError(f"cannot read an Avro schema: the type {name!r} is not defined in it")
        return node

    def _define(self, schema: dict[str, Any], namespace: str, node: Node) -> Node:
        name, space = _full_name(schema, namespace)
        self.named[f"{space}.{name}" if space else name] = node
        return node

    def _logical_record(self, schema: dict[str, Any], namespace: str, depth: int) -> Record:
        record, logical = self._record(schema, namespace, depth), schema.get("logicalType")
        if logical in ("blob", "variant"):
            record.logical = logical.upper()
        if logical == "variant" and _SHREDDED in dict(record.fields):
            raise UnsupportedTableError(
                f"cannot read the shredded variant {record.name!r}: values are in '{_SHREDDED}'; only variants of "
                "metadata and value are supported"
            )
        return record

    def _record(self, schema: dict[str, Any], namespace: str, depth: int) -> Record:
        name, space = _full_name(schema, namespace)
        record = Record(f"{space}.{name}" if space else name)
        self._define(schema, namespace, record)
        fields = _member(schema, "fields")
        if not isinstance(fields, list):
            raise SchemaMismatchError(f"cannot read the Avro record {record.name!r}: its fields are not a list")
        seen: set[str] = set()
        for member in fields:
            if not isinstance(member, dict) or not isinstance(member.get("name"), str) or "type" not in member:
                raise SchemaMismatchError(f"cannot read the Avro record {record.name!r}: a field lacks name or type")
            if member["name"] in seen:
                raise SchemaMismatchError(f"cannot read the Avro record {record.name!r}: two fields {member['name']!r}")
            seen.add(member["name"])
            record.fields.append((member["name"], self.node(member["type"], space, depth + 1)))
        return record

    def _union(self, schema: list[Any], namespace: str, depth: int) -> Node:
        branches = tuple(self.node(b, namespace, depth + 1) for b in schema)
        if not branches or any(isinstance(b, (Nullable, Choice)) for b in branches):
            raise SchemaMismatchError(f"cannot read the Avro union {_brief(schema)}: it is empty or holds a union")
        values = [b for b in branches if not isinstance(b, Null)]
        if len(branches) - len(values) > 1:
            raise SchemaMismatchError(f"cannot read the Avro union {_brief(schema)}: it names null twice")
        if len(branches) == 2 and len(values) == 1:
            return Nullable(values[0], branches.index(values[0]))
        if len(values) == 2 and {b.bits for b in values if isinstance(b, Integer)} == {32, 64}:
            # Spark ignores the logical types here, so a timestamp beside an int is a long too
            primitive = {32: _PRIMITIVES["int"], 64: _PRIMITIVES["long"]}
            return Choice(tuple(primitive[b.bits] if isinstance(b, Integer) else b for b in branches), pa.int64())
        if len(values) == 2 and {pa.float32(), pa.float64()} == {b.arrow for b in values if isinstance(b, FixedWidth)}:
            return Choice(branches, pa.float64())
        return Choice(branches)


def _enum(schema: dict[str, Any]) -> Enum:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
        raise SchemaMismatchError(f"cannot read the Avro enum {_brief(schema)}: it has no list of symbols")
    return Enum(tuple(symbols))


def _fixed(schema: dict[str, Any]) -> Node:
    size, logical = schema.get("size"), schema.get("logicalType")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise SchemaMismatchError(f"cannot read the Avro fixed {_brief(schema)}: its size is not a number of bytes")
    if logical == "vector":
        return _vector(schema, size)
    decimal = _decimal(schema, size) if logical == "decimal" else None
    return decimal or FixedWidth(pa.binary(size), size)


def _vector(schema: dict[str, Any], size: int) -> FixedVector:
    named = str(schema.get("elementType", "FLOAT")).upper()
    element = ELEMENT_TYPES.get(named)
    stored = str(schema.get("storageBacking", "FIXED_BYTES")).upper()
    if element is None or stored != "FIXED_BYTES" or schema.get("dimension") != size // (element.bit_width // 8):
        raise UnsupportedTableError(
            f"cannot read the vector type of the Avro schema {_brief(schema)}; supported: elements of type "
            f"{', '.join(ELEMENT_TYPES)} in a fixed of matching size"
        )
    return FixedVector(vector_type(element), size, VectorType(schema["dimension"], named).text)


def _decimal(schema: dict[str, Any], size: int | None) -> Decimal | None:
    """Returns the decimal of a schema; None if precision and scale are invalid (the logical type is then ignored)."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or precision < 1 or not 0 <= scale <= precision:
        return None
    if size is not None and (size == 0 or 10**precision > 1 << (8 * min(size, 1000) - 1)):
        return None
    if precision > MAX_DECIMAL_DIGITS:
        raise UnsupportedTableError(
            f"cannot read the Avro type {_brief(schema)}: decimals have at most {MAX_DECIMAL_DIGITS} digits"
        )
    return Decimal(pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale), size)


def _full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaMismatchError(f"cannot read the Avro schema {_brief(schema)}: a {schema['type']} must have a name")
    if "." in name:
        space, _, name = name.rpartition(".")
        return name, space
    space = schema.get("namespace", namespace)
    return name, space if isinstance(space, str) else namespace


def _member(schema: dict[str, Any], key: str) -> Any:
    if key not in schema:
        raise SchemaMismatchError(f"cannot read the Avro schema {_brief(schema)}: it has no {key!r}")
    return schema[key]


def _brief(schema: object) -> str:
    text = repr(schema)
    return text if len(text) <= 120 else text[:117] + "..."
