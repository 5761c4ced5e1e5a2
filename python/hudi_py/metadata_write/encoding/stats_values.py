"""Encodes column ranges as values of `column_stats` and `partition_stats`, and decodes them.

Sources: `HoodieMetadataPayload.createColumnStatsRecords`, `createPartitionStatsRecords`; `ValueType.wrapValue`; for
version 1 statistics `HoodieAvroWrapperUtils.wrapValueIntoAvro`; Apache Hudi 1.2.0.
"""

from __future__ import annotations

import decimal
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.file_stats.columns import DECIMAL_DIGITS, DECIMAL_SCALE, ValueType
from hudi_py.file_stats.ranges import BOUND, RANGES, slot_of
from hudi_py.metadata.records import RecordFields, RecordVersions, payload_field, struct_member
from hudi_py.metadata.stats import FIELD, wrapper_names
from hudi_py.metadata.table import COLUMN_STATS, PARTITION_STATS, MetadataTable
from hudi_py.metadata_write.encoding.records import ARROW_SCHEMA, encode_values

FILE: Final = "file"
_STRUCT: Final[pa.DataType] = ARROW_SCHEMA.field(FIELD).type
_UNION: Final[pa.DataType] = _STRUCT.field("minValue").type
_KIND: Final[pa.DataType] = _STRUCT.field("valueType").type
_KIND_FIELDS: Final = list(_KIND)
_MEMBERS: Final = {
    "BooleanWrapper": 0,
    "IntWrapper": 1,
    "LongWrapper": 2,
    "FloatWrapper": 3,
    "DoubleWrapper": 4,
    "BytesWrapper": 5,
    "StringWrapper": 6,
    "DateWrapper": 7,
    "DecimalWrapper": 8,
    "TimestampMicrosWrapper": 10,
}
"""Positions in the wrapper union of the wrappers that are written."""
_VALUES: Final = {wrapper: _UNION.field(position).type.field("value") for wrapper, position in _MEMBERS.items()}
"""The only field of each of these wrappers."""
_WRAPPERS: Final[Mapping[ValueType, str]] = {
    ValueType.BOOLEAN: "BooleanWrapper",
    ValueType.INT: "IntWrapper",
    ValueType.FLOAT: "FloatWrapper",
    ValueType.DOUBLE: "DoubleWrapper",
    ValueType.STRING: "StringWrapper",
    ValueType.UUID: "StringWrapper",
    ValueType.BYTES: "BytesWrapper",
    ValueType.FIXED: "BytesWrapper",
    ValueType.DECIMAL: "BytesWrapper",
    ValueType.DATE: "IntWrapper",
    ValueType.TIME_MILLIS: "IntWrapper",
}
"""Wrappers by type; all other types use `LongWrapper`."""
_FIRST_WRAPPERS: Final = {**_WRAPPERS, ValueType.DATE: "DateWrapper", ValueType.DECIMAL: "DecimalWrapper"}
"""The same in version 1 statistics."""
_FIRST_WRAPPERS_OF_ROWS: Final = {**_FIRST_WRAPPERS, ValueType.TIMESTAMP_MICROS: "TimestampMicrosWrapper"}
"""The same for values of Spark's rows (`HoodieAvroWrapperUtils.wrapValueIntoAvro` of `java.sql.Timestamp`)."""
_TYPES: Final[Mapping[str, ValueType]] = {
    "BooleanWrapper": ValueType.BOOLEAN,
    "IntWrapper": ValueType.INT,
    "LongWrapper": ValueType.LONG,
    "FloatWrapper": ValueType.FLOAT,
    "DoubleWrapper": ValueType.DOUBLE,
    "BytesWrapper": ValueType.BYTES,
    "StringWrapper": ValueType.STRING,
    "DateWrapper": ValueType.DATE,
    "LocalDateWrapper": ValueType.DATE,
    "DecimalWrapper": ValueType.DECIMAL,
    "TimeMicrosWrapper": ValueType.TIME_MICROS,
    "TimestampMicrosWrapper": ValueType.TIMESTAMP_MICROS,
}
"""The type of a bound whose record does not name one."""
_FIRST_DETAIL: Final = f"{DECIMAL_DIGITS},{DECIMAL_SCALE}"
_WIDE: Final = decimal.Context(prec=100)
_STORED: Final = pa.schema([(FILE, pa.string()), *RANGES, ("deleted", pa.bool_()), ("tight", pa.bool_())])


def stats_values(
    type_: int,
    rows: pa.Table | pa.RecordBatch,
    files: pa.Array,
    *,
    index_version: int,
    tight: bool = False,
    of_rows: bool = False,
) -> pa.BinaryArray:
    """Encodes records with ranges.

    Args:
        type_: `COLUMN_STATS_RECORD` or `PARTITION_STATS_RECORD`.
        rows: table with the columns of `RANGES`.
        files: string; the file name or partition path of each row.
        index_version: 1 or 2; decides how bounds are wrapped and whether records name their types.
        tight: whether the bounds replace earlier ones rather than widen them.
        of_rows: whether Apache Hudi takes the bounds from Spark's rows, as in expression indexes.
    """
    kinds = _without_chunks(rows["type"]).to_numpy()
    details, count = _without_chunks(rows["detail"]), len(kinds)
    wrappers = _WRAPPERS if index_version >= 2 else _FIRST_WRAPPERS_OF_ROWS if of_rows else _FIRST_WRAPPERS
    both = pa.concat_arrays([_without_chunks(rows["low"]), _without_chunks(rows["high"])])
    bounds = _wrap_bounds(both, np.tile(kinds, 2), pa.concat_arrays([details, details]), wrappers)
    columns = {
        "fileName": files,
        "columnName": _without_chunks(rows["column"]),
        "minValue": bounds.slice(0, count),
        "maxValue": bounds.slice(count),
        "valueCount": _without_chunks(rows["values"]),
        "nullCount": _without_chunks(rows["nulls"]),
        "totalSize": _without_chunks(rows["size"]),
        "totalUncompressedSize": _without_chunks(rows["raw_size"]),
        "isDeleted": pa.repeat(False, count),
        "isTightBound": pa.repeat(tight, count),
        "valueType": _type_info(kinds, details, index_version),
    }
    return _encode_stats(type_, columns)


def removal_values(
    type_: int, columns: pa.Array, files: pa.Array, *, index_version: int, tight: bool = False
) -> pa.BinaryArray:
    """Encodes records that remove statistics (`HoodieColumnRangeMetadata.stub`).

    Args:
        columns, files: string, of equal length.
    """
    count = len(columns)
    nothing = pa.array(np.full(count, -1, np.int64))
    kinds = np.full(count, int(ValueType.NULL), np.int32)
    arrays = {
        "fileName": files,
        "columnName": columns,
        "minValue": pa.nulls(count),
        "maxValue": pa.nulls(count),
        **dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), nothing),
        "isDeleted": pa.repeat(True, count),
        "isTightBound": pa.repeat(tight, count),
        "valueType": _type_info(kinds, pa.nulls(count, pa.string()), index_version),
    }
    return _encode_stats(type_, arrays)


def _encode_stats(type_: int, columns: Mapping[str, pa.Array]) -> pa.BinaryArray:
    struct = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
    return encode_values(type_, {FIELD: struct})


def _type_info(kinds: npt.NDArray[np.int32], details: pa.Array, index_version: int) -> pa.Array:
    if index_version < 2:
        return pa.nulls(len(kinds), _KIND)
    return pa.StructArray.from_arrays([pa.array(kinds, pa.int32()), details], fields=_KIND_FIELDS)


def _wrap_bounds(
    bounds: pa.Array, kinds: npt.NDArray[np.int32], details: pa.Array, wrappers: Mapping[ValueType, str]
) -> pa.Array:
    """Wraps bounds in structs with a member for each wrapper they need; null where there is no bound."""
    members: dict[str, pa.Array] = {}
    present = np.zeros(len(kinds), np.bool_)
    by_wrapper: dict[str, list[ValueType]] = {}
    for kind in np.unique(kinds).tolist():
        if kind != ValueType.NULL:
            by_wrapper.setdefault(wrappers.get(ValueType(kind), "LongWrapper"), []).append(ValueType(kind))
    for wrapper, types in by_wrapper.items():
        inner = _VALUES[wrapper]
        values: pa.Array | None = None
        for kind in types:
            of_kind = pa.array(kinds == kind)
            slot = pc.struct_field(bounds, slot_of(kind))
            wrapped = pc.if_else(of_kind, slot, pa.scalar(None, slot.type))
            if kind is ValueType.DECIMAL:
                wrapped = _to_decimals(wrapped, details, inner.type)
            elif wrapper == "BooleanWrapper":
                wrapped = pc.not_equal(wrapped, 0)
            elif pa.types.is_floating(inner.type):
                # Apache Hudi 1.2.0 treats a NaN bound as less than all numbers
                wrapped = pc.if_else(pc.is_nan(wrapped), pa.scalar(float("inf")), wrapped).cast(inner.type)
            elif slot.type != inner.type:
                wrapped = wrapped.cast(inner.type)
            values = wrapped if values is None else pc.if_else(of_kind, wrapped, values)
        assert values is not None
        there = values.is_valid()
        present |= there.to_numpy(zero_copy_only=False)
        member = pa.StructArray.from_arrays([values], fields=[inner.with_nullable(True)], mask=pc.invert(there))
        members[f"member{_MEMBERS[wrapper]}"] = member
    if not members:
        return pa.nulls(len(kinds))
    return pa.StructArray.from_arrays(list(members.values()), names=list(members), mask=pa.array(~present))


def _to_decimals(numbers: pa.Array, details: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts unscaled numbers to the shortest two's complement bytes, or to decimals with the wrapper's precision."""
    if pa.types.is_decimal(kind):
        scales = [int((detail or ",0").partition(",")[2]) for detail in details.to_pylist()]
        scaled = [
            None if number is None else number.scaleb(-scale, _WIDE)
            for number, scale in zip(numbers.to_pylist(), scales, strict=True)
        ]
        return pa.array(scaled, kind)
    # one number for each decimal column of a file, of variable length
    unscaled = [None if number is None else int(number) for number in numbers.to_pylist()]
    return pa.array(
        [None if number is None else number.to_bytes(_num_bytes(number), "big", signed=True) for number in unscaled],
        kind,
    )


def _num_bytes(number: int) -> int:
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def stored_ranges(
    metadata: MetadataTable,
    prefixes: Iterable[str] | None,
    files: Collection[str] | None,
    *,
    partition: str = COLUMN_STATS,
) -> pa.Table:
    """Reads the `column_stats` of some files: rows with the columns of `RANGES` after `file`, the file name.

    A column of a file may have several rows; its range is their union. Version 1 statistics have the types of their
    wrappers.

    Args:
        prefixes: prefixes of the keys to read (columns of partitions); None: all.
        files: file names; rows of other files are left out. None: rows of all files.
        partition: `column_stats`, or another partition with such records.
    """
    fields = RecordFields([FIELD], _STORED, _normalise_batch)
    table = _ranges_of_versions(metadata.records(partition, fields, prefixes=prefixes))
    return table if files is None else table.filter(pc.is_in(table[FILE], pa.array(list(files), pa.string())))


def standing_ranges(metadata: MetadataTable, keys: Sequence[str]) -> pa.Table:
    """Reads the `partition_stats` with these keys, like `stored_ranges`, with a partition's path instead of the file
    name."""
    fields = RecordFields([FIELD], _STORED, _normalise_batch)
    return _ranges_of_versions(metadata.standing_records(PARTITION_STATS, fields, keys, _is_reset))


def _ranges_of_versions(versions: RecordVersions) -> pa.Table:
    return versions.fields.take(pa.array(_standing_rows(versions))).drop_columns(["deleted", "tight"])


def _standing_rows(versions: RecordVersions) -> npt.NDArray[np.int64]:
    """Returns the versions that count: those from the last one that replaces all before it
    (`mergeColumnStatsRecords`)."""
    ids, count = versions.ids()
    resets = _is_reset(versions)
    last = np.full(count, -1, np.int64)
    last[ids[resets]] = np.flatnonzero(resets)  # ascending, so the last one wins
    places = np.arange(len(ids))
    return np.flatnonzero((places >= last[ids]) & ~_is_removed(versions))


def _is_reset(versions: RecordVersions) -> npt.NDArray[np.bool_]:
    return _is_removed(versions) | _flag_values(versions.fields["tight"], False)


def _is_removed(versions: RecordVersions) -> npt.NDArray[np.bool_]:
    return versions.deleted | _flag_values(versions.fields["deleted"], True)


def _flag_values(column: pa.ChunkedArray, default: bool) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = pc.fill_null(column, default).to_numpy()
    return flags.astype(np.bool_)


def _normalise_batch(batch: pa.RecordBatch, avro: Any) -> pa.RecordBatch:
    record, wrappers = payload_field(batch, FIELD), wrapper_names(avro)
    part = partial(struct_member, record)
    count = len(record)
    both = pa.concat_arrays([pc.struct_field(record, "minValue"), pc.struct_field(record, "maxValue")])
    slots, types = _unwrap_union(both, wrappers)
    kinds, details = pa.nulls(len(record), pa.int32()), pa.nulls(len(record), pa.string())
    if record.type.get_field_index("valueType") >= 0:
        kinds = pc.struct_field(record, ["valueType", "typeOrdinal"])
        details = pc.struct_field(record, ["valueType", "additionalInfo"])
    guessed = pc.coalesce(types.slice(0, count), types.slice(count), pa.scalar(int(ValueType.NULL), pa.int32()))
    first = pc.and_(kinds.is_null(), pc.equal(guessed, int(ValueType.DECIMAL)))
    kinds = pc.coalesce(kinds, guessed)
    details = pc.if_else(first, pa.scalar(_FIRST_DETAIL), details)
    bounds = _with_numbers(slots, pa.concat_arrays([kinds, kinds]))
    columns = [
        part("fileName", pa.string()),
        part("columnName", pa.string()),
        kinds,
        details,
        bounds.slice(0, count),
        bounds.slice(count),
        part("valueCount", pa.int64()),
        part("nullCount", pa.int64()),
        part("totalSize", pa.int64()),
        part("totalUncompressedSize", pa.int64()),
        part("isDeleted", pa.bool_()),
        part("isTightBound", pa.bool_()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_STORED)


def _unwrap_union(union: pa.Array, wrappers: list[str]) -> tuple[dict[str, pa.Array], pa.Array]:
    """Returns the members of bounds by slot, and the type of their wrapper."""
    count = len(union)
    slots = {field.name: pa.nulls(count, field.type) for field in BOUND}
    kinds = pa.nulls(count, pa.int32())
    for number, wrapper in enumerate(wrappers):
        kind = _TYPES.get(wrapper.rpartition(".")[2])
        if kind is None:
            continue
        member = pc.struct_field(union, number)
        if member.null_count == count:
            continue
        value = pc.struct_field(member, "value")
        if pa.types.is_temporal(value.type):
            value = value.cast(pa.int64() if value.type.bit_width == 64 else pa.int32())
        elif kind is ValueType.DECIMAL:
            unscaled = [None if v is None else v.scaleb(DECIMAL_SCALE, _WIDE) for v in value.to_pylist()]
            value = pa.array(
                [None if v is None else decimal.Decimal(int(v)) for v in unscaled], BOUND.field("number").type
            )
        slot = slot_of(kind)
        value = value.cast(slots[slot].type)
        slots[slot] = value if slots[slot].null_count == count else pc.coalesce(slots[slot], value)
        kinds = pc.coalesce(kinds, pc.if_else(member.is_valid(), pa.scalar(int(kind), pa.int32()), None))
    return slots, kinds


def _with_numbers(slots: dict[str, pa.Array], kinds: pa.Array) -> pa.Array:
    """Returns the slots as bounds, with the bytes of decimals as numbers."""
    decimals = pc.equal(kinds, int(ValueType.DECIMAL))
    if pc.any(pc.and_(decimals, slots["bytes"].is_valid())).as_py():
        numbers = [
            None if not of or raw is None else decimal.Decimal(int.from_bytes(raw, "big", signed=True))
            for of, raw in zip(decimals.to_pylist(), slots["bytes"].to_pylist(), strict=True)
        ]
        parsed = pa.array(numbers, BOUND.field("number").type)
        slots["number"] = pc.coalesce(slots["number"], parsed)
        slots["bytes"] = pc.if_else(decimals, pa.scalar(None, pa.binary()), slots["bytes"])
    return pa.StructArray.from_arrays([slots[field.name] for field in BOUND], fields=list(BOUND))


def _without_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    return column
