"""Conforming batches to a schema: columns by name, missing ones null, types promoted.

Every base file and every log block carries the schema of its writer. The promotions are those which Apache Hudi allows
without schema-on-read (format reference, section 13; `HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`, 1.2.0).
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)


def conform(batch: pa.RecordBatch, target: pa.Schema, *, context: str = "") -> pa.RecordBatch:
    """The batch with the columns of `target`, in its order and exactly its types.

    Args:
        batch: columns are matched by name; those which `target` lacks are left out.
        target: columns missing in the batch become null; struct members likewise.
        context: what is being read, for messages, e.g. a file's path.

    Raises:
        SchemaMismatchError: a column's type is neither that of `target` nor promotable to it, or a column which may not
            be null is missing.
    """
    if batch.schema.equals(target):
        return batch
    columns = []
    for field in target:
        index = batch.schema.get_field_index(field.name)
        if index >= 0:
            columns.append(conform_array(batch.column(index), field.type, path=field.name, context=context))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    if not columns:
        # a batch without columns keeps its number of rows only through a struct array
        empty = pa.StructArray.from_arrays([], fields=[], mask=pa.array(np.zeros(batch.num_rows, dtype=np.bool_)))
        return pa.RecordBatch.from_struct_array(empty)
    return pa.RecordBatch.from_arrays(columns, schema=target)


def conform_array(array: pa.Array, target: pa.DataType, *, path: str = "", context: str = "") -> pa.Array:
    """The array as `target`; the rules are those of `conform`. `path` names the column in messages."""
    source = array.type
    if source.equals(target):
        return array
    if pa.types.is_dictionary(source):
        return conform_array(array.dictionary_decode(), target, path=path, context=context)
    if isinstance(array, pa.ExtensionArray):
        return conform_array(array.storage, target, path=path, context=context)
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        return _conform_struct(array, target, path, context)
    if _is_list(target) and _is_list(source):
        return _conform_list(array, target, path, context)
    if pa.types.is_map(target) and pa.types.is_map(source):
        return _conform_map(array, target, path, context)
    if not promotable(source, target):
        where = f" of {context}" if context else ""
        raise SchemaMismatchError(
            f"Column '{path}'{where} is {source}, which cannot be read as {target}; supported promotions: int to long, "
            "float, double, string; long to float, double, string; float to double, string; double to string; "
            "binary to string and back; date to string; wider decimals"
        )
    return _promote(array, target, path, context)


def promotable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of scalar type `source` may be read as `target`."""
    if source.equals(target):
        return True
    if pa.types.is_decimal(target):
        if pa.types.is_decimal(source):
            return bool(
                target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
            )
        return False
    if pa.types.is_integer(target):
        return bool(pa.types.is_integer(source) and source.bit_width <= max(target.bit_width, 32))
    if pa.types.is_floating(target):
        if pa.types.is_integer(source):
            return True
        return bool(pa.types.is_floating(source) and source.bit_width <= target.bit_width)
    if _is(target, _TEXT):
        return bool(
            _is(source, _TEXT)
            or _is(source, _BYTES)
            or pa.types.is_integer(source)
            or pa.types.is_floating(source)
            or pa.types.is_date(source)
            or pa.types.is_decimal(source)
        )
    if _is(target, _BYTES):
        return _is(source, _TEXT) or _is(source, _BYTES)
    if pa.types.is_timestamp(target):
        return bool(pa.types.is_timestamp(source))
    if pa.types.is_date(target):
        return bool(pa.types.is_date(source))
    if pa.types.is_time(target):
        return bool(pa.types.is_time(source))
    return False


def _is(kind: pa.DataType, predicates: tuple[object, ...]) -> bool:
    return any(predicate(kind) for predicate in predicates)  # type: ignore[operator]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _promote(array: pa.Array, target: pa.DataType, path: str, context: str) -> pa.Array:
    source = array.type
    if _is(target, _TEXT) and pa.types.is_floating(source):
        return pa.array(java_float_strings(array), target)
    if pa.types.is_float64(target) and pa.types.is_float32(source):
        return _float_to_double(array)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(source):
        # Zones are labels here: the count since the epoch is kept (a file may lack the zone the table has)
        plain = array if source.tz is None else array.cast(pa.timestamp(source.unit, "UTC"))
        return plain.cast(pa.timestamp(target.unit, plain.type.tz), safe=False).cast(target)
    try:
        return pc.cast(array, target, safe=not pa.types.is_floating(target))
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"Column '{path}' of {context or 'the data'} holds a value which {target} cannot hold: {error}"
        ) from error


def _float_to_double(array: pa.Array) -> pa.Array:
    """Doubles which print as the floats did: 0.1f becomes 0.1, as Apache Hudi and its Spark reader promote them."""
    values = array.to_numpy(zero_copy_only=False)
    # the shortest decimal text of a float is what Java goes through (`Double.valueOf(floatValue + "")`)
    doubles = values.astype(np.str_).astype(np.float64) if len(values) else values.astype(np.float64)
    return pa.array(doubles, pa.float64(), mask=_null_mask(array))


def java_float_strings(array: pa.Array) -> list[str | None]:
    """The values of a floating array as Java's `Double.toString` or `Float.toString` writes them."""
    single = pa.types.is_float32(array.type)
    # Formatting one by one: no Arrow or NumPy kernel writes Java's notation (1.0E10, NaN, Infinity)
    return [None if value is None else _java_float(value, single) for value in array.to_pylist()]


def _java_float(value: float, single: bool) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    number = np.float32(value) if single else np.float64(value)
    if 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, exponent = np.format_float_scientific(number, unique=True, trim="0").split("e")
    return f"{mantissa}E{int(exponent)}"


def _null_mask(array: pa.Array) -> np.ndarray | None:
    return pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else None


def _conform_struct(array: pa.StructArray, target: pa.StructType, path: str, context: str) -> pa.Array:
    names = [field.name for field in array.type]
    members = array.flatten()
    children = []
    for field in target:
        if field.name in names:
            member = members[names.index(field.name)]
            children.append(conform_array(member, field.type, path=f"{path}.{field.name}", context=context))
        else:
            children.append(pa.nulls(len(array), field.type))
    mask = pc.is_null(array) if array.null_count else None
    if not children:
        return pa.array([None if valid is None else {} for valid in array.to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _offsets(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Offsets from zero and the child values they cover, whatever slice of its buffers the array is."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets = np.asarray(array.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    values = array.values.slice(first, last - first)
    return offsets - first, values


def _conform_list(array: pa.Array, target: pa.DataType, path: str, context: str) -> pa.Array:
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets, values = _offsets(array)
    child = conform_array(values, target.value_type, path=f"{path}.element", context=context)
    mask = pc.is_null(array) if array.null_count else None
    if pa.types.is_fixed_size_list(target):
        plain = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, mask=mask)
        return plain.cast(target)
    if pa.types.is_large_list(target):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), child, type=target, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, type=target, mask=mask)


def _conform_map(array: pa.MapArray, target: pa.MapType, path: str, context: str) -> pa.Array:
    offsets = np.asarray(array.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    keys = conform_array(array.keys.slice(first, last - first), target.key_type, path=f"{path}.key", context=context)
    items = conform_array(
        array.items.slice(first, last - first), target.item_type, path=f"{path}.value", context=context
    )
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    validity = None
    if array.null_count:
        validity = pa.array(pc.is_valid(array).to_numpy(zero_copy_only=False)).buffers()[1]
    starts = pa.array((offsets - first).astype(np.int32), pa.int32())
    return pa.Array.from_buffers(
        target, len(array), [validity, starts.buffers()[1]], null_count=array.null_count, children=[entries]
    )
