"""Declares VECTOR, VARIANT and BLOB columns, maps them to Avro types, and converts the values of vectors.

The entry `hudi_type` of a column's metadata declares it: `VECTOR(128)`, `VECTOR(128, DOUBLE)`, `VARIANT` or `BLOB`.
Vectors are fixed-size bytes in files and log blocks, little-endian, and lists of numbers in rows.

Sources: `HoodieVectorUtils`, `HoodieSchema.Vector`, `HoodieSchema.Variant`, `HoodieSchema.Blob`,
`HoodieSchema.parseTypeDescriptor` and `HoodieSparkSchemaConverters` (1.2.0), and the schemas that Apache Hudi 1.2.0
writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError

ELEMENT_TYPES: Mapping[str, pa.DataType] = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}
"""Arrow types by the name of a vector's element type."""
HUDI_TYPE: Final = b"hudi_type"
"""Key of a column's metadata (`HoodieSchema.TYPE_METADATA_FIELD`)."""
BLOB: Final = "BLOB"
VARIANT: Final = "VARIANT"
VECTOR_COLUMNS: Final = "hoodie.vector.columns"
"""Footer key of Parquet files: `name:VECTOR(3)` for each vector column, separated by commas."""
FIXED_BYTES: Final = "FIXED_BYTES"
_DESCRIPTOR: Final = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_SUPPORTED: Final = "supported: VECTOR(<dimension>), VECTOR(<dimension>, FLOAT | DOUBLE | INT8), VARIANT and BLOB"
_MAX_BYTES: Final = (1 << 31) - 1
VARIANT_TYPE: Final = pa.struct(
    [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)
"""A variant in Arrow: the bytes of the Parquet variant encoding."""
BLOB_TYPE: Final = pa.struct(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("data", pa.binary()),
        pa.field(
            "reference",
            pa.struct(
                [
                    pa.field("external_path", pa.string(), nullable=False),
                    pa.field("offset", pa.int64()),
                    pa.field("length", pa.int64()),
                    pa.field("managed", pa.bool_(), nullable=False),
                ]
            ),
        ),
    ]
)
"""A blob in Arrow: `type` is INLINE (the bytes are in `data`) or OUT_OF_LINE (`reference` says where they are)."""
BLOB_KINDS: Final = ("INLINE", "OUT_OF_LINE")


def vector_type(element: pa.DataType) -> pa.DataType:
    """Returns the list type of a vector, whose elements are never null."""
    return pa.list_(pa.field("element", element, nullable=False))


def is_vector(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether values of type `stored` can be vectors of type `wanted`."""
    if not pa.types.is_fixed_size_binary(stored) or not pa.types.is_list(wanted):
        return False
    element = wanted.value_type
    return element in ELEMENT_TYPES.values() and stored.byte_width % (element.bit_width // 8) == 0


def vector_lists(stored: pa.FixedSizeBinaryArray, wanted: pa.DataType) -> pa.ListArray:
    """Converts vectors in fixed-size binary to lists of type `wanted`, for which `is_vector` holds."""
    count, size = len(stored), stored.type.byte_width
    element = wanted.value_type
    length = size // (element.bit_width // 8)
    buffer = stored.buffers()[1]
    data = buffer.slice(stored.offset * size, count * size) if buffer is not None else pa.py_buffer(b"")
    values = pa.Array.from_buffers(element, count * length, [None, data])
    offsets = pa.array(np.arange(count + 1, dtype=np.int64) * length, pa.int32())
    mask = pc.is_null(stored) if stored.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=mask)


def vector_bytes(array: pa.Array, element: pa.DataType, dimension: int, column: str) -> pa.FixedSizeBinaryArray:
    """Converts lists of numbers to the bytes of vectors; null lists stay null.

    Args:
        array: lists of any kind, whose numbers have the type `element`.
        column: named in messages.

    Raises:
        SchemaMismatchError: a list has another type or length, or a null in it.
    """
    size = dimension * (element.bit_width // 8)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.binary(size))
    values = vector_numbers(array, element, dimension, column)
    count = len(array)
    if array.null_count:
        # null vectors take bytes too
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        whole = np.zeros((count, dimension), element.to_pandas_dtype())
        whole[valid] = values.to_numpy(zero_copy_only=False).reshape(-1, dimension)
        mask = pa.array(valid).buffers()[1]
        return pa.Array.from_buffers(pa.binary(size), count, [mask, pa.py_buffer(whole)], array.null_count)
    data = np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
    return pa.Array.from_buffers(pa.binary(size), count, [None, pa.py_buffer(data)])


def vector_numbers(array: pa.Array, element: pa.DataType, dimension: int, column: str) -> pa.Array:
    """Returns the numbers of all non-null vectors, concatenated; see `vector_bytes`.

    Raises:
        SchemaMismatchError: a list has another type or length, or a null in it.
    """
    name = f"VECTOR of {dimension} {element}"
    kind = array.type
    lists = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
    if not isinstance(kind, lists) or kind.value_type != element:
        raise SchemaMismatchError(
            f"Column '{column}' is a {name} in the table and {kind} in the data; cast the data to list<{element}>"
        )
    lengths = pc.list_value_length(array)
    wrong = pc.fill_null(pc.not_equal(lengths, dimension), False).to_numpy(zero_copy_only=False)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise SchemaMismatchError(
            f"Column '{column}' is a {name} in the table, but {int(wrong.sum())} of {len(array)} rows have another "
            f"number of values, the first one {lengths[first].as_py()}: {_brief(array[first])}; a vector has exactly "
            f"{dimension} values, or is null"
        )
    values = array.flatten()  # without values below null lists
    if values.null_count:
        per_vector = pc.is_null(values).to_numpy(zero_copy_only=False).reshape(-1, dimension).any(1)
        given = np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
        first = int(given[int(np.flatnonzero(per_vector)[0])])
        raise SchemaMismatchError(
            f"Column '{column}' is a {name} in the table, but {int(per_vector.sum())} of {len(array)} rows have null "
            f"among the values, the first one {_brief(array[first])}; replace the nulls, or make the whole vector null"
        )
    return values


def _brief(value: pa.Scalar) -> str:
    text = str(value.as_py())
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True, slots=True)
class Vector:
    """VECTOR: a fixed number of elements of one type, none of them null."""

    dimension: int
    element: str = "FLOAT"
    """FLOAT, DOUBLE or INT8."""

    @property
    def size(self) -> int:
        """Returns the size of a value in a file."""
        return self.dimension * int(ELEMENT_TYPES[self.element].bit_width // 8)

    @property
    def text(self) -> str:
        """Formats the type as a `hudi_type`."""
        return f"VECTOR({self.dimension})" if self.element == "FLOAT" else f"VECTOR({self.dimension}, {self.element})"

    @property
    def arrow(self) -> pa.DataType:
        """Returns the type in Arrow: a list."""
        return vector_type(ELEMENT_TYPES[self.element])

    @property
    def avro(self) -> dict[str, Any]:
        """Returns the Avro type."""
        return {
            "type": "fixed",
            "name": f"vector_{self.element.lower()}_{self.dimension}",
            "namespace": "",
            "size": self.size,
            "logicalType": "vector",
            "dimension": self.dimension,
            "elementType": self.element,
            "storageBacking": FIXED_BYTES,
        }


def parse_type(text: str, column: str) -> Vector | str:
    """Parses a `hudi_type`: a vector, `VARIANT` or `BLOB`. `column` is for messages.

    Raises:
        SchemaMismatchError: it is none of them.
    """
    match = _DESCRIPTOR.fullmatch(text)
    name = match[1].upper() if match else ""
    given = [part.strip() for part in match[2].split(",")] if match and (match[2] or "").strip() else []
    if name in (BLOB, VARIANT) and not given:
        return name
    if name == "VECTOR" and 1 <= len(given) <= 3 and re.fullmatch(r"0*[1-9][0-9]{0,9}", given[0], re.ASCII):
        element = given[1].upper() if len(given) > 1 else "FLOAT"
        if element in ELEMENT_TYPES and (len(given) < 3 or given[2].upper() == FIXED_BYTES):
            vector = Vector(int(given[0]), element)
            if vector.size <= _MAX_BYTES:
                return vector
    raise SchemaMismatchError(f"Column '{column}' has the hudi_type {text!r}, which is unknown; {_SUPPORTED}")


def declared(field: pa.Field) -> str | None:
    """Returns a field's `hudi_type`; None if it has none."""
    text = (field.metadata or {}).get(HUDI_TYPE)
    return None if text is None else text.decode("utf-8", "replace")


def declaration(text: str | None) -> dict[bytes, bytes] | None:
    """Returns the field metadata that declares a `hudi_type`."""
    return None if text is None else {HUDI_TYPE: text.encode()}


def custom_avro(kind: Vector | str) -> dict[str, Any]:
    """Returns the Avro type of a VECTOR, VARIANT or BLOB. Its name has no namespace, and equal types of a table share
    it."""
    if isinstance(kind, Vector):
        return kind.avro
    return _blob_avro() if kind == BLOB else _variant_avro()


def _variant_avro() -> dict[str, Any]:
    parts = ("metadata", "value")
    return {
        "type": "record",
        "name": "variant",
        "namespace": "",
        "fields": [{"name": part, "type": "bytes", "doc": f"Variant {part} component"} for part in parts],
        "logicalType": "variant",
    }


def _blob_avro() -> dict[str, Any]:
    reference = {
        "type": "record",
        "name": "reference",
        "fields": [
            {"name": "external_path", "type": "string"},
            {"name": "offset", "type": ["null", "long"]},
            {"name": "length", "type": ["null", "long"]},
            {"name": "managed", "type": "boolean"},
        ],
    }
    return {
        "type": "record",
        "name": "blob",
        "namespace": "",
        "fields": [
            {"name": "type", "type": {"type": "enum", "name": "blob_storage_type", "symbols": list(BLOB_KINDS)}},
            {"name": "data", "type": ["null", "bytes"], "default": None},
            {"name": "reference", "type": ["null", reference], "default": None},
        ],
        "logicalType": "blob",
    }


def shared_names(avro: Any, whole: Any = None) -> Any:
    """Defines each vector, variant and blob where it first occurs in an Avro schema, and refers to it by name
    elsewhere.

    Avro allows one definition of a name. Needed where columns are combined, and where some columns of `whole` are left
    out, since others may refer to a type that they define.

    Args:
        avro: a schema, whose names may be defined several times, or in `whole` only.
        whole: the schema that it was taken from.
    """
    known = {kind["name"]: kind for kind in _shared_definitions(whole)}
    known |= {kind["name"]: kind for kind in _shared_definitions(avro)}
    return _define_once(avro, known, set()) if known else avro


def spelled_out(avro: Any) -> Any:
    """Replaces every reference to a vector, variant or blob by its definition: no valid Avro, but easier to walk."""
    known = {kind["name"]: kind for kind in _shared_definitions(avro)}
    return _define_once(avro, known, None) if known else avro


def vector_columns(avro: Mapping[str, Any]) -> dict[str, Vector]:
    """Returns the vector columns of a record: Apache Hudi has them at the top level only."""
    fields = list(avro.get("fields", ()))
    known = {kind["name"]: kind for kind in _shared_definitions(avro) if kind["logicalType"] == "vector"}
    if not known:
        return {}
    result = {}
    for field in fields:
        kind = field["type"]
        branches = kind if isinstance(kind, list) else [kind]
        for branch in branches:
            node = known.get(branch) if isinstance(branch, str) else branch
            if isinstance(node, dict) and node.get("logicalType") == "vector":
                element = str(node.get("elementType", "FLOAT")).upper()
                result[field["name"]] = Vector(int(node["dimension"]), element)
    return result


def vector_footer(columns: Mapping[str, Vector]) -> dict[str, str]:
    """Returns the entry in the footer of a Parquet file that declares its vector columns."""
    if not columns:
        return {}
    return {VECTOR_COLUMNS: ",".join(f"{name}:{vector.text}" for name, vector in columns.items())}


def _shared_definitions(avro: Any) -> Iterator[dict[str, Any]]:
    """Yields the definitions of vectors, variants and blobs in a schema, except those with a namespace, such as
    variants that Apache Hudi on Spark 4 names after their column."""
    if isinstance(avro, list):
        for branch in avro:
            yield from _shared_definitions(branch)
    elif isinstance(avro, dict):
        if _is_shared(avro):
            yield avro
            return
        for field in avro.get("fields", ()):
            yield from _shared_definitions(field["type"])
        for key in ("type", "items", "values"):
            if isinstance(avro.get(key), (dict, list)):
                yield from _shared_definitions(avro[key])


def _is_shared(avro: Mapping[str, Any]) -> bool:
    logical, name = avro.get("logicalType"), avro.get("name")
    return logical in ("vector", "variant", "blob") and isinstance(name, str) and not avro.get("namespace")


def _define_once(avro: Any, known: Mapping[str, dict[str, Any]], seen: set[str] | None) -> Any:
    """Keeps the first definition of each name. `seen` has the names defined so far; None expands every reference."""
    if isinstance(avro, str):
        if avro not in known or (seen is not None and avro in seen):
            return avro
        avro = known[avro]
    if isinstance(avro, list):
        return [_define_once(branch, known, seen) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    if _is_shared(avro) and avro["name"] in known:
        if seen is not None:
            if avro["name"] in seen:
                return avro["name"]
            seen.add(avro["name"])
        return avro
    result = dict(avro)
    if "fields" in result:
        result["fields"] = [{**field, "type": _define_once(field["type"], known, seen)} for field in result["fields"]]
    for key in ("items", "values"):
        if key in result:
            result[key] = _define_once(result[key], known, seen)
    if isinstance(result.get("type"), (dict, list)):
        result["type"] = _define_once(result["type"], known, seen)
    return result
