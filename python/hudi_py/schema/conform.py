"""Conforms batches to a schema: matches columns by name, fills missing ones with nulls, promotes types.

Every base file and log block has the schema of its writer. The promotions are those that Apache Hudi allows without
schema on read (`HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`, 1.2.0).
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import SchemaMismatchError, UnsupportedTableError
from hudi_py.formats.arrays import is_bytes, is_text
from hudi_py.formats.hudi_types import is_vector, vector_lists
from hudi_py.schema.floats import java_float_texts

Convert = Callable[[pa.Array, pa.DataType, str, str], pa.Array]
"""Converts values of a non-nested type to another. Arguments: values, type, the column's dotted path, and what is being
read or written, for messages."""

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sources:
    """Maps members of the target type to source members with other names."""

    members: Mapping[str, tuple[str | None, Sources | None]]
    """Maps a target name to its source name and the mapping within the member. A source name of None means missing,
    even if the source has a member of this name. Lists have the member `element`, maps `value`."""

    def of(self, name: str) -> tuple[str | None, Sources | None]:
        """Returns the source name of a target member, and the mapping within it."""
        return self.members.get(name, (name, None))


@dataclass(frozen=True, slots=True)
class Repairs:
    """Timestamps that are stored in the unit of the table's schema but labelled with the unit of the file's.

    Source: `HoodieSchemaRepair` and `SchemaRepair` (1.2.0).
    """

    types: Mapping[str, str]
    """Dotted path of a column to the Avro logical type in the table's schema."""

    def apply(self, array: pa.Array, path: str) -> pa.Array:
        """Returns the array at a path with the type that its writer should have used."""
        wanted = self.types.get(path)
        source = array.type
        if wanted is None:
            return array
        if pa.types.is_timestamp(source) and source.unit == "us" and wanted.endswith("millis"):
            return array.view(pa.timestamp("ms", source.tz))
        if pa.types.is_int64(source) and wanted.startswith("local"):
            return array.view(pa.timestamp("ms" if wanted.endswith("millis") else "us"))
        return array


def conform(
    batch: pa.RecordBatch,
    target: pa.Schema,
    *,
    context: str = "",
    sources: Sources | None = None,
    repairs: Repairs | None = None,
    convert: Convert | None = None,
) -> pa.RecordBatch:
    """Returns the batch with exactly the columns, order and types of `target`.

    Args:
        batch: columns are matched by name; those that `target` lacks are left out.
        target: columns and struct members that the batch lacks become null.
        context: what is being read, for messages, e.g. a file's path.
        sources: which columns of the batch become those of `target`; None: those of the same name.
        repairs: timestamps whose type in the batch is wrong.
        convert: how to convert values to another type; None: by the promotions of a reader.

    Raises:
        SchemaMismatchError: a column's type is neither that of `target` nor promotable to it, or a column that must not
            be null is missing.
    """
    if sources is None and repairs is None and batch.schema.equals(target):
        return batch
    columns = []
    for field in target:
        name, inner = (field.name, None) if sources is None else sources.of(field.name)
        index = -1 if name is None else batch.schema.get_field_index(name)
        if index >= 0:
            walk = _Walk(context, repairs, convert or _promoted)
            columns.append(walk.conform(batch.column(index), field.type, field.name, inner))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    if not columns:
        # without columns only a struct array keeps the number of rows
        empty = pa.StructArray.from_arrays([], fields=[], mask=pa.array(np.zeros(batch.num_rows, dtype=np.bool_)))
        return pa.RecordBatch.from_struct_array(empty)
    return pa.RecordBatch.from_arrays(columns, schema=target)


def conform_array(
    array: pa.Array,
    target: pa.DataType,
    *,
    path: str = "",
    context: str = "",
    convert: Convert | None = None,
    sources: Sources | None = None,
) -> pa.Array:
    """Conforms an array to `target` by the rules of `conform`. `path` names the column in messages."""
    return _Walk(context, None, convert or _promoted).conform(array, target, path, sources)


def assigned_members(source: pa.DataType, target: pa.DataType, path: str) -> Sources | None:
    """Maps members of structs to those of `target`, for assigning a value to a column.

    Members of the same name, ignoring case; those at the same place in a struct that has other names, as Spark casts
    structs (`Cast`, 4.0) and Apache Hudi's UPDATE and MERGE INTO (1.2.0).

    Args:
        path: names the column in messages.

    Returns:
        None if names and places are the same throughout.

    Raises:
        SchemaMismatchError: a struct has other names and another number of members, or a name twice.
    """
    members: dict[str, tuple[str | None, Sources | None]] = {}
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        for field, given in _assigned_fields(source, target, path):
            inner = None if given is None else assigned_members(given.type, field.type, f"{path}.{field.name}")
            members[field.name] = (None if given is None else given.name, inner)
    elif _is_list(source) and _is_list(target):
        members["element"] = ("element", assigned_members(source.value_type, target.value_type, f"{path}.element"))
    elif pa.types.is_map(source) and pa.types.is_map(target):
        members["key"] = ("key", assigned_members(source.key_type, target.key_type, f"{path}.key"))
        members["value"] = ("value", assigned_members(source.item_type, target.item_type, f"{path}.value"))
    renamed = {name: member for name, member in members.items() if member != (name, None)}
    return Sources(renamed) if renamed else None


def _assigned_fields(
    source: pa.StructType, target: pa.StructType, path: str
) -> Iterator[tuple[pa.Field, pa.Field | None]]:
    """Yield the members of a struct with those that are assigned to them, by name or else by place."""
    names = {field.name.lower(): field for field in source}
    by_name = names.keys() <= {field.name.lower() for field in target}
    if len(names) < source.num_fields or not (by_name or source.num_fields == target.num_fields):
        raise SchemaMismatchError(
            f"Column '{path}' has the members {', '.join(field.name for field in target)} in the table, and "
            f"{', '.join(field.name for field in source) or 'none'} in the value that is assigned; give it the "
            "members of the table, by name or place"
        )
    for place, field in enumerate(target):
        yield field, names.get(field.name.lower()) if by_name else source.field(place)


def promotable(source: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether a column of scalar type `source` can be promoted to `target`."""
    if source.equals(target):
        return True
    return any(fits(target) and may_become(source, target) for fits, may_become in _PROMOTIONS)


def _becomes_decimal(source: pa.DataType, target: pa.DataType) -> bool:
    if not pa.types.is_decimal(source):
        return False
    whole_digits = source.precision - source.scale
    return bool(target.scale >= source.scale and target.precision - target.scale >= whole_digits)


def _becomes_integer(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_integer(source) and source.bit_width <= max(target.bit_width, 32))


def _becomes_float(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_integer(source):
        return True
    return bool(pa.types.is_floating(source) and source.bit_width <= target.bit_width)


_PRINTED: Final = (is_text, is_bytes, pa.types.is_integer, pa.types.is_floating, pa.types.is_date, pa.types.is_decimal)
"""Types whose values may become text."""
_PROMOTIONS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, pa.DataType], bool]]]] = (
    (pa.types.is_decimal, _becomes_decimal),
    (pa.types.is_integer, _becomes_integer),
    (pa.types.is_floating, _becomes_float),
    (is_text, lambda source, _: any(fits(source) for fits in _PRINTED)),
    (is_bytes, lambda source, _: is_text(source) or is_bytes(source)),
    (pa.types.is_timestamp, lambda source, _: bool(pa.types.is_timestamp(source))),
    (pa.types.is_date, lambda source, _: bool(pa.types.is_date(source))),
    (pa.types.is_time, lambda source, _: bool(pa.types.is_time(source))),
)
"""Mutually exclusive tests of source types, with the types that each may be read as."""


def readable(source: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether a column of scalar type `source` may be read as `target`.

    Besides promotions these are the type changes that schema on read allows (`SchemaChangeUtils`, 1.2.0).
    """
    if promotable(source, target):
        return True
    if pa.types.is_decimal(target):
        return bool(pa.types.is_integer(source) or pa.types.is_floating(source) or is_text(source))
    if pa.types.is_timestamp(source):
        # partition columns of timestamp key generators are shown as text
        return is_text(target)
    return bool(pa.types.is_date(target) and is_text(source))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or _is_list_view(kind)
    )


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _promoted(array: pa.Array, target: pa.DataType, path: str, context: str) -> pa.Array:
    source = array.type
    if not readable(source, target):
        where = f" of {context}" if context else ""
        raise SchemaMismatchError(
            f"Column '{path}'{where} is {source}, which cannot be read as {target}; supported promotions: int to "
            "long, float, double, string, decimal; long to float, double, string, decimal; float to double, "
            "string, decimal; double to string, decimal; binary to string and back; date to string and back; "
            "string to decimal; wider decimals"
        )
    return promote(array, target, path, context)


def promote(array: pa.Array, target: pa.DataType, path: str, context: str) -> pa.Array:
    """Converts values of a type that is `readable` as `target`."""
    source = array.type
    if is_text(target) and pa.types.is_floating(source):
        return java_float_texts(array).cast(target)
    if pa.types.is_float64(target) and pa.types.is_float32(source):
        return _float_to_double(array)
    if is_text(target) and pa.types.is_timestamp(source):
        return _timestamp_texts(array).cast(target)
    if pa.types.is_decimal(target) and not pa.types.is_decimal(source):
        return _to_decimal(array, target)
    if pa.types.is_date(target) and is_text(source):
        return _to_date(array)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(source):
        # A zone is only a label: the number since the epoch stays (a file may lack the table's zone)
        values = array if source.tz is None else array.cast(pa.timestamp(source.unit, "UTC"))
        return values.cast(pa.timestamp(target.unit, values.type.tz), safe=False).cast(target)
    try:
        return pc.cast(array, target, safe=not pa.types.is_floating(target))
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"Column '{path}' of {context or 'the data'} has a value that {target} cannot represent: {error}"
        ) from error


def _timestamp_texts(array: pa.Array) -> pa.Array:
    """Formats timestamps as Spark casts them to text in a UTC session: without trailing zeros in the fraction."""
    texts = pc.strftime(array, "%Y-%m-%d %H:%M:%S")
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".") if array.type.unit != "s" else texts


def _to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Converts numbers and text to decimals, rounded half up; invalid numbers and those with too many digits become
    null.

    Integers and floats are converted through their text, as in `HoodieParquetFileFormatHelper` (1.2.0).
    """
    texts = java_float_texts(array) if pa.types.is_floating(array.type) else array.cast(pa.string())
    step = decimal.Decimal(1).scaleb(-target.scale)
    limit = decimal.Decimal(1).scaleb(target.precision - target.scale)
    context = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP, traps=[])

    def one(text: str | None) -> decimal.Decimal | None:
        number = None if text is None else context.create_decimal(text.strip())
        if number is None or not number.is_finite() or number.adjusted() > 100:
            return None
        number = number.quantize(step, context=context)
        return number if abs(number) < limit else None

    # One by one: no Arrow kernel parses decimals and rounds them
    return pa.array([one(text) for text in texts.to_pylist()], target)


def _to_date(array: pa.Array) -> pa.Array:
    """Parses dates `yyyy-MM-dd`; other text becomes null, as Spark casts it."""

    def one(text: str | None) -> datetime.date | None:
        match = None if text is None else _DATE.fullmatch(text.strip())
        if match is None:
            return None
        try:
            return datetime.date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
        except ValueError:
            return None

    # One by one: Arrow's parser fails if a single text is not a date
    return pa.array([one(text) for text in array.to_pylist()], pa.date32())


def _float_to_double(array: pa.Array) -> pa.Array:
    """Converts floats to the doubles that print alike: 0.1f becomes 0.1, as in Apache Hudi and its Spark reader."""
    values = array.to_numpy(zero_copy_only=False)
    # through the shortest decimal text, as in Java (`Double.valueOf(floatValue + "")`)
    doubles = values.astype(np.str_).astype(np.float64) if len(values) else values.astype(np.float64)
    return pa.array(doubles, pa.float64(), mask=_null_mask(array))


def _null_mask(array: pa.Array) -> np.ndarray | None:
    return pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else None


@dataclass(frozen=True, slots=True)
class _Walk:
    """Conforms nested types recursively."""

    context: str
    repairs: Repairs | None
    convert: Convert

    def conform(self, array: pa.Array, target: pa.DataType, path: str, sources: Sources | None) -> pa.Array:
        if self.repairs is not None:
            array = self.repairs.apply(array, path)
        source = array.type
        if sources is None and self.repairs is None and source.equals(target):
            return array
        if pa.types.is_dictionary(source):
            # converted before `take`, which Arrow does not support for views
            return self.conform(array.dictionary, target, path, sources).take(array.indices)
        if isinstance(array, pa.ExtensionArray):
            storage = pc.not_equal(array.storage, 0) if source.equals(pa.bool8()) else array.storage
            return self.conform(storage, target, path, sources)
        if pa.types.is_null(source):
            return pa.nulls(len(array), target)
        if pa.types.is_struct(target) and pa.types.is_struct(source):
            return self._struct(array, target, path, sources)
        if _is_list(target) and _is_list(source):
            return self._list(array, target, path, sources)
        if pa.types.is_map(target) and pa.types.is_map(source):
            return self._map(array, target, path, sources)
        if source.equals(target):
            return array
        if is_vector(source, target):
            return vector_lists(array, target)
        return self.convert(array, target, path, self.context)

    def _struct(self, array: pa.StructArray, target: pa.StructType, path: str, sources: Sources | None) -> pa.Array:
        names = [field.name for field in array.type]
        if "typed_value" in names and {field.name for field in target} == {"metadata", "value"}:
            raise UnsupportedTableError(
                f"Column '{path}' of {self.context or 'the data'} is a shredded variant, with values in 'typed_value'; "
                "only variants of metadata and value are supported"
            )
        members = array.flatten()
        children = []
        for field in target:
            name, inner = (field.name, None) if sources is None else sources.of(field.name)
            if name in names:
                member = members[names.index(name)]
                children.append(self.conform(member, field.type, f"{path}.{field.name}", inner))
            else:
                children.append(pa.nulls(len(array), field.type))
        mask = pc.is_null(array) if array.null_count else None
        if not children:
            return pa.array([None if valid is None else {} for valid in array.to_pylist()], target)
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _list(self, array: pa.Array, target: pa.DataType, path: str, sources: Sources | None) -> pa.Array:
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        offsets, values = _offsets(array)
        inner = None if sources is None else sources.of("element")[1]
        child = self.conform(values, target.value_type, f"{path}.element", inner)
        mask = pc.is_null(array) if array.null_count else None
        if pa.types.is_fixed_size_list(target):
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, mask=mask).cast(target)
        if pa.types.is_large_list(target):
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), child, type=target, mask=mask)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, type=target, mask=mask)

    def _map(self, array: pa.MapArray, target: pa.MapType, path: str, sources: Sources | None) -> pa.Array:
        offsets = np.asarray(array.offsets)
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        inner_key, inner = (None if sources is None else sources.of(member)[1] for member in ("key", "value"))
        keys = self.conform(array.keys.slice(first, last - first), target.key_type, f"{path}.key", inner_key)
        items = self.conform(array.items.slice(first, last - first), target.item_type, f"{path}.value", inner)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        validity = None
        if array.null_count:
            validity = pa.array(pc.is_valid(array).to_numpy(zero_copy_only=False)).buffers()[1]
        starts = pa.array((offsets - first).astype(np.int32), pa.int32())
        return pa.Array.from_buffers(
            target, len(array), [validity, starts.buffers()[1]], null_count=array.null_count, children=[entries]
        )


def _offsets(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Returns offsets from zero and the child values that they cover, also for a slice."""
    if _is_list_view(array.type):  # the lists may be in any order; Arrow 26 casts them wrongly
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return np.concatenate(([0], np.cumsum(lengths))), array.flatten()
    offsets = np.asarray(array.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return offsets - first, array.values.slice(first, last - first)
