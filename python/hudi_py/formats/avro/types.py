"""Converts between Avro and Arrow schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from hudi_py.errors import SchemaMismatchError
from hudi_py.formats.avro.schema import AvroSchema, arrow_field, arrow_of, resolve, resolve_record
from hudi_py.formats.hudi_types import (
    BLOB,
    BLOB_TYPE,
    ELEMENT_TYPES,
    VARIANT_TYPE,
    Vector,
    custom_avro,
    declared,
    parse_type,
    shared_names,
)

_MEMBER = re.compile(r"member\d+")
_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)


def arrow_type(avro: AvroSchema) -> pa.DataType:
    """Returns the Arrow type of an Avro type.

    date is date32; timestamp-millis and -micros are `timestamp[us, UTC]`, -nanos `timestamp[ns, UTC]`, the local ones
    the same without a zone; time-millis and time-micros are int32 and int64; decimal is decimal128 up to 38 digits,
    else decimal256; enum and uuid are strings; fixed is fixed-size binary; `["null", T]` and `[T, "null"]` are T. The
    items of lists are named `element`. Other unions are structs of `member0`, `member1`, ..., one of which is set
    (`HoodieSparkSchemaConverters.toSqlType`, 1.2.0). A vector is a list of its elements, a variant a struct of
    metadata and value.

    Raises:
        SchemaMismatchError: the type is not a valid Avro type.
        UnsupportedTableError: it is recursive, a shredded variant, or a decimal of more than 76 digits.
    """
    return arrow_of(resolve(avro))


def arrow_schema(avro_record: AvroSchema) -> pa.Schema:
    """Returns the Arrow schema of an Avro record's fields; for types and errors see `arrow_type`."""
    return pa.schema([arrow_field(name, node) for name, node in resolve_record(avro_record).fields])


def avro_schema(arrow: pa.Schema, name: str, namespace: str) -> dict[str, Any]:
    """Returns the Avro record that Apache Hudi on Spark creates for the columns (`HoodieSparkSchemaConverters`, 1.2.0).

    Nullable columns are `["null", T]` with default null. A nested record has its field's name, and the enclosing
    record's full name as namespace. A decimal is a fixed named `fixed` in the namespace of the field's full name, with
    the fewest bytes that hold its digits. Integers of up to 32 bits are int. A struct whose members are all nullable
    and named `member<n>` is a union. A field's metadata entry `comment` is its doc. The entry `hudi_type` makes a
    VECTOR of a list, and a VARIANT or BLOB of a struct, also of the structs in a list or map.

    Raises:
        SchemaMismatchError: a column has a type that Avro or Spark does not support (times of day, durations, unsigned
            64-bit integers, maps with keys that are not strings), or a name that Avro does not allow.
    """
    result = shared_names(_record(list(arrow), name, namespace, ""))
    assert isinstance(result, dict)
    return result


def record_name(table_name: str) -> tuple[str, str]:
    """Returns name and namespace of a table's Avro record (`AvroSchemaUtils.getAvroRecordQualifiedName`)."""
    clean = re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", table_name))
    return f"{clean}_record", f"hoodie.{clean}"


def minimal_fixed_size(precision: int) -> int:
    """Returns the size of a two's complement that holds every number of `precision` digits (Spark
    `Decimal.minBytesForPrecision`)."""
    size = 1
    while 10**precision > 1 << (8 * size - 1):
        size += 1
    return size


def _record(fields: list[pa.Field], name: str, namespace: str, path: str) -> AvroSchema:
    inside = f"{namespace}.{name}" if namespace else name
    members: list[dict[str, Any]] = []
    seen: set[str] = set()
    for field in fields:
        where = f"{path}.{field.name}" if path else field.name
        if not is_avro_name(field.name):
            raise SchemaMismatchError(
                f"cannot write column {where!r}: Avro names consist of letters, _ and digits, and do not start with a "
                "digit; rename it"
            )
        if field.name in seen:
            raise SchemaMismatchError(f"cannot write column {where!r}: the name occurs twice; rename one")
        seen.add(field.name)
        kind = _nullable(_type(field.type, field.name, inside, where, declared(field)), field.nullable)
        member: dict[str, Any] = {"name": field.name, "type": kind}
        comment = (field.metadata or {}).get(b"comment")
        if comment:
            member["doc"] = comment.decode("utf-8", "replace")
        if isinstance(kind, list) and "null" in kind:
            member["default"] = None
        members.append(member)
    record: dict[str, Any] = {"type": "record", "name": name}
    if namespace:
        record["namespace"] = namespace
    record["fields"] = members
    return record


def _nullable(avro: AvroSchema, nullable: bool) -> AvroSchema:
    if not nullable or avro == "null":
        return avro
    return ["null", *avro] if isinstance(avro, list) else ["null", avro]


def _type(arrow: pa.DataType, name: str, namespace: str, where: str, custom: str | None = None) -> AvroSchema:
    """Returns the Avro type of a column `name` in the record `namespace` (a full name). `custom` is its `hudi_type`."""
    is_ = pa.types
    if is_.is_dictionary(arrow):
        return _type(arrow.value_type, name, namespace, where, custom)
    if isinstance(arrow, pa.BaseExtensionType):
        return _type(arrow.storage_type, name, namespace, where, custom)
    if custom is not None:
        parsed = parse_type(custom, where)
        if isinstance(parsed, Vector) or not _holds_values(arrow):
            return _custom(parsed, arrow, where)
    scalar = _scalar(arrow)
    if scalar is not None:
        return scalar
    if is_.is_decimal(arrow):
        return _decimal(arrow, f"{namespace}.{name}", where)
    if is_.is_struct(arrow):
        fields = list(arrow)
        if fields and all(_MEMBER.fullmatch(f.name) and f.nullable for f in fields):
            inside = f"{namespace}.{name}"
            return [_type(f.type, f.name, inside, f"{where}.{f.name}", declared(f)) for f in fields]
        return _record(fields, name, namespace, where)
    if is_.is_map(arrow):
        if _scalar(arrow.key_type) != "string":
            raise SchemaMismatchError(f"cannot write column {where!r} of type {arrow}: map keys must be strings")
        value = arrow.item_field
        kind = _type(value.type, name, namespace, f"{where}.value", declared(value) or custom)
        return {"type": "map", "values": _nullable(kind, value.nullable)}
    if isinstance(arrow, _LISTS):
        item = arrow.value_field
        kind = _type(item.type, name, namespace, f"{where}.element", declared(item) or custom)
        return {"type": "array", "items": _nullable(kind, item.nullable)}
    raise SchemaMismatchError(
        f"cannot write column {where!r} of type {arrow}: Hudi tables have no such type; cast it to a string or a number"
    )


_SCALARS: Sequence[tuple[str, tuple[Callable[[pa.DataType], bool], ...]]] = (
    ("boolean", (pa.types.is_boolean,)),
    ("float", (pa.types.is_float16, pa.types.is_float32)),
    ("double", (pa.types.is_float64,)),
    ("string", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (
        "bytes",
        (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    ),
    ("null", (pa.types.is_null,)),
)


def _scalar(arrow: pa.DataType) -> AvroSchema | None:
    """Returns the Avro type of a scalar type that needs no name; None for other types."""
    is_ = pa.types
    for avro, checks in _SCALARS:
        if any(check(arrow) for check in checks):
            return avro
    if is_.is_integer(arrow) and not is_.is_uint64(arrow):
        return "long" if arrow.bit_width == 64 or is_.is_uint32(arrow) else "int"
    if is_.is_date(arrow):
        return {"type": "int", "logicalType": "date"}
    if is_.is_timestamp(arrow):
        return {"type": "long", "logicalType": "timestamp-micros" if arrow.tz else "local-timestamp-micros"}
    return None


def _decimal(arrow: pa.DataType, namespace: str, where: str) -> AvroSchema:
    if not 0 <= arrow.scale <= arrow.precision:
        raise SchemaMismatchError(
            f"cannot write column {where!r} of type {arrow}: the scale must be 0 up to the precision; cast it"
        )
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": namespace,
        "size": minimal_fixed_size(arrow.precision),
        "logicalType": "decimal",
        "precision": arrow.precision,
        "scale": arrow.scale,
    }


def _holds_values(arrow: pa.DataType) -> bool:
    """Returns whether a column's `hudi_type` is the type of the values in it."""
    return isinstance(arrow, (*_LISTS, pa.MapType))


def _custom(kind: Vector | str, arrow: pa.DataType, where: str) -> AvroSchema:
    """Returns the Avro type of a VECTOR, VARIANT or BLOB, given as `arrow`."""
    if isinstance(kind, Vector):
        element = ELEMENT_TYPES[kind.element]
        if "." in where:
            raise SchemaMismatchError(
                f"cannot write column {where!r} as {kind.text}: a vector must be a column of the table, not a part of "
                "one; leave its hudi_type out to write a list"
            )
        of_bytes = pa.types.is_int8(element) and pa.types.is_integer(getattr(arrow, "value_type", pa.null()))
        if not isinstance(arrow, _LISTS) or not (of_bytes or arrow.value_type == element):
            raise SchemaMismatchError(
                f"cannot write column {where!r} of type {arrow} as {kind.text}: its values must be list<{element}>; "
                "cast the column"
            )
        if isinstance(arrow, pa.FixedSizeListType) and arrow.list_size != kind.dimension:
            raise SchemaMismatchError(
                f"cannot write column {where!r} of type {arrow} as {kind.text}: its lists have {arrow.list_size} values"
            )
    else:
        wanted = BLOB_TYPE if kind == BLOB else VARIANT_TYPE
        if not _has_shape(arrow, wanted):
            raise SchemaMismatchError(
                f"cannot write column {where!r} of type {arrow} as {kind}: its values must be {wanted}; cast the column"
            )
    return custom_avro(kind)


def _has_shape(arrow: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether a type is a struct with the members of another one, in any order and with any nullability."""
    if not pa.types.is_struct(wanted):
        same_text = pa.types.is_string(wanted) and (pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))
        same_bytes = pa.types.is_binary(wanted) and (pa.types.is_large_binary(arrow) or pa.types.is_binary_view(arrow))
        return bool(arrow == wanted or same_text or same_bytes or pa.types.is_null(arrow))
    if not pa.types.is_struct(arrow):
        return bool(pa.types.is_null(arrow))
    given = {field.name: field.type for field in arrow}
    return given.keys() == {field.name for field in wanted} and all(
        _has_shape(given[field.name], field.type) for field in wanted
    )


def is_avro_name(name: str) -> bool:
    """Returns whether Avro's Java implementation accepts a field name: letters and digits of any script."""
    head, rest = name[:1], name[1:]
    return (head.isalpha() or head == "_") and all(c.isalnum() or c == "_" for c in rest)
