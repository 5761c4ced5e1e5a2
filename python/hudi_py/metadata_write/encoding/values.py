"""Copies values of the metadata table from file to file: rewrites their meta columns, and converts schemas of older
releases.

A value is the Avro binary of a `HoodieMetadataRecord` after five nullable strings, the meta columns. Apache Hudi leaves
them null, except `_hoodie_file_name` in the base files of compactions.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.avro import decode_values, encode_values
from hudi_py.metadata_write.encoding.records import ARROW_SCHEMA, RECORD, SCHEMA_JSON
from hudi_py.schema.meta import META_FIELDS

AVRO_SCHEMA: Final[dict[str, Any]] = json.loads(SCHEMA_JSON)
_NUM_META: Final = len(META_FIELDS)
_BEFORE_NAME: Final = bytes(_NUM_META - 1)
"""The null meta columns before `_hoodie_file_name`."""
_MIN_THREE_BYTES: Final = 1 << 13
_COLUMN_STATS: Final = "ColumnStatsMetadata"


def with_file_name(values: pa.Array, file_name: str | None) -> pa.Array:
    """Returns the values (binary) with `_hoodie_file_name` replaced and the other meta columns null. If `file_name` is
    None, it is null too, as in log blocks.

    Raises:
        CorruptFileError: a value does not begin with meta columns.
    """
    if not len(values):
        return values
    head = bytes(_NUM_META)
    if file_name is not None:
        name = file_name.encode()
        head = _BEFORE_NAME + b"\x02" + _encode_length(len(name)) + name
    return pc.binary_join_element_wise(pa.scalar(head), behind_meta(values), pa.scalar(b""))


def behind_meta(values: pa.Array) -> pa.Array:
    """Returns the part of each value (binary) after its meta columns. Raises CorruptFileError as `with_file_name`
    does."""
    if not len(values):
        return values
    values = values.cast(pa.binary())
    bounds = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    at, end = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
    for _ in range(_NUM_META):
        at = _behind_text(data, at, end)
    # every other piece of an array of gaps and remainders
    offsets = np.empty(2 * len(values) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = at, end, end[-1]
    rests = pa.Array.from_buffers(pa.binary(), 2 * len(values), [None, pa.py_buffer(offsets), values.buffers()[2]])
    return pc.take(rests, pa.array(np.arange(0, 2 * len(values), 2, dtype=np.int32)), boundscheck=False)


def _behind_text(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Returns the ends of the nullable strings that begin at these offsets; each has fewer than 8192 bytes."""
    branch = _read_bytes(data, at, end)
    held = np.flatnonzero(branch)
    after = at + 1
    if len(held):
        length = _read_bytes(data, after[held], end[held])
        after[held] += 1
        long = np.flatnonzero(length >= 0x80)
        if len(long):
            high = _read_bytes(data, after[held[long]], end[held[long]])
            after[held[long]] += 1
            length[long] += (high << 7) - 0x80
            if bool((high >= 0x80).any()):
                raise _no_meta()
        after[held] += length >> 1
        if bool((branch[held] != 2).any() or (length & 1).any() or (after > end).any()):
            raise _no_meta()
    return after


def _read_bytes(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    if bool((at >= end).any()):
        raise _no_meta()
    return data[at].astype(np.int64)


def _no_meta() -> CorruptFileError:
    return CorruptFileError("Cannot rewrite records of the metadata table: they do not begin with their meta columns")


def _encode_length(count: int) -> bytes:
    """Encodes the length of a string as Avro does."""
    if count >= _MIN_THREE_BYTES:
        raise UnsupportedTableError(
            f"Cannot write a file name of {count} bytes into the metadata table; supported: fewer than "
            f"{_MIN_THREE_BYTES} bytes"
        )
    number = count << 1
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])


def is_current(schema: str) -> bool:
    """Returns whether records of this schema are encoded as Apache Hudi 1.2.0 encodes them, whatever the schema's
    wording."""
    if schema == SCHEMA_JSON:
        return True
    try:
        return bool(_essential_schema(json.loads(schema)) == _essential_schema(AVRO_SCHEMA))
    except (ValueError, RecursionError):
        return False


def to_current(values: pa.Array, schema: str, context: str) -> pa.Array:
    """Converts values of another release's schema to that of Apache Hudi 1.2.0; fields missing from it are null.

    Raises:
        CorruptFileError: the values do not match the schema, or the schema is invalid.
        UnsupportedTableError: the schema has fields that 1.2.0 does not know.
    """
    avro = parse_schema(schema, context)
    batches = decode_values(values, avro, context=context)
    encoded = [encode_values(convert(batch, avro), RECORD) for batch in batches]
    return pa.concat_arrays(encoded) if encoded else values


def parse_schema(schema: str, context: str) -> Any:
    """Parses a schema. Raises CorruptFileError if it is not JSON."""
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot read {context}: the schema of its records is not JSON ({error})") from error


def convert(batch: pa.RecordBatch, avro: Any) -> pa.RecordBatch:
    """Converts decoded records to the columns of `ARROW_SCHEMA`.

    Args:
        avro: the schema used to decode them.

    Raises:
        UnsupportedTableError: a field or wrapper is unknown.
    """
    _check_known(batch.schema.names, ARROW_SCHEMA.names, "the record")
    columns = []
    for field in ARROW_SCHEMA:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
        elif field.name == _COLUMN_STATS:
            columns.append(_column_stats(batch.column(field.name), field.type, avro))
        else:
            columns.append(_conform_array(batch.column(field.name), field.type))
    return pa.RecordBatch.from_arrays(columns, names=ARROW_SCHEMA.names)


def _column_stats(stats: pa.Array, target: pa.DataType, avro: Any) -> pa.Array:
    wrappers, known = _wrapper_names(avro), _wrapper_names(AVRO_SCHEMA)
    _check_known(wrappers, known, "minValue")
    names = [child.name for child in stats.type]
    _check_known(names, [child.name for child in target], _COLUMN_STATS)
    missing = pc.is_null(stats)
    parts: list[pa.Array] = []
    for child in target:
        if child.name not in names:
            parts.append(_default_values(child, len(stats)))
            continue
        part = pc.struct_field(stats, child.name)
        if child.name in ("minValue", "maxValue"):
            members = [
                _conform_array(pc.struct_field(part, wrappers.index(name)), child.type.field(n).type)
                if name in wrappers
                else pa.nulls(len(part), child.type.field(n).type)
                for n, name in enumerate(known)
            ]
            parts.append(_make_struct(child.type, members, pc.is_null(part)))
        else:
            parts.append(_conform_array(part, child.type))
    return _make_struct(target, parts, missing)


def _conform_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Conforms structs by field name; casts anything else."""
    if not pa.types.is_struct(target):
        return array if array.type.equals(target) else array.cast(target)
    names = [child.name for child in array.type]
    _check_known(names, [child.name for child in target], "a record")
    parts = [
        _conform_array(pc.struct_field(array, child.name), child.type)
        if child.name in names
        else _default_values(child, len(array))
        for child in target
    ]
    return _make_struct(target, parts, pc.is_null(array))


def _make_struct(target: pa.DataType, children: list[pa.Array], missing: pa.Array) -> pa.Array:
    """Builds a struct of the children under the names of `target`, each of a nullable type."""
    fields = [pa.field(field.name, child.type) for field, child in zip(target, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=missing)


def _default_values(field: pa.Field, count: int) -> pa.Array:
    """Returns the default of a field that an older schema lacks: false and 0 where null is not allowed."""
    if field.nullable:
        return pa.nulls(count, field.type)
    return pa.repeat(pa.scalar(0).cast(field.type), count)


def _check_known(names: list[str], known: list[str], what: str) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise UnsupportedTableError(
            f"Cannot rewrite records of the metadata table: {what} has {', '.join(unknown)}, which Apache Hudi 1.2.0 "
            "does not know; supported: records of releases up to 1.2"
        )


def _wrapper_names(avro: Any) -> list[str]:
    """Returns the names of the record types in the union of a bound, without namespace, in order."""
    try:
        field = next(field for field in avro["fields"] if field["name"] == _COLUMN_STATS)
        record = next(branch for branch in field["type"] if isinstance(branch, dict))
        union = next(field for field in record["fields"] if field["name"] == "minValue")["type"]
        names = [branch["name"] if isinstance(branch, dict) else branch for branch in union if branch != "null"]
    except (KeyError, TypeError, StopIteration):
        raise CorruptFileError(
            "Cannot read the column statistics of the metadata table: the schema of its records does not define the "
            "bound minValue; rebuild the metadata table"
        ) from None
    return [name.rpartition(".")[2] for name in names]


def _essential_schema(schema: Any) -> Any:
    """Returns a schema without the attributes that do not change the encoding."""
    if isinstance(schema, dict):
        kept = {
            key: _essential_schema(value) for key, value in schema.items() if key in ("type", "name", "fields", "items")
        }
        kept.update(
            {key: _essential_schema(value) for key, value in schema.items() if key in ("values", "size", "symbols")}
        )
        kept.update({key: schema[key] for key in ("logicalType", "precision", "scale") if key in schema})
        if set(kept) == {"type"}:
            return kept["type"]
        if isinstance(kept.get("name"), str):
            kept["name"] = kept["name"].rpartition(".")[2]
        return kept
    if isinstance(schema, list):
        return [_essential_schema(branch) for branch in schema]
    return schema.rpartition(".")[2] if isinstance(schema, str) else schema
