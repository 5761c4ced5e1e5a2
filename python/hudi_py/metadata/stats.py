"""Column statistics of files (`column_stats`) and of whole partitions (`partition_stats`).

Bounds are unions of wrapper records, whose types and units differ between releases. They are
converted to Python values of the column's Arrow type; bounds that are not certain count as unknown.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import CorruptFileError
from hudi_py.metadata.keys import column_id, column_stats_key, partition_stats_key
from hudi_py.metadata.records import RecordFields, RecordVersions, payload_field, struct_member
from hudi_py.metadata.table import COLUMN_STATS, PARTITION_STATS, MetadataTable

FIELD: Final = "ColumnStatsMetadata"
_INTEGERS: Final = ("BooleanWrapper", "IntWrapper", "LongWrapper", "DateWrapper", "LocalDateWrapper")
_TIMES: Final = ("TimestampMicrosWrapper", "TimeMicrosWrapper")
_SLOTS: Final[Mapping[str, pa.DataType]] = {
    "whole": pa.int64(),
    "real": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "decimal": pa.decimal128(30, 15),
}
_SLOT_OF: Final = {
    **dict.fromkeys((*_INTEGERS, *_TIMES), "whole"),
    "FloatWrapper": "real",
    "DoubleWrapper": "real",
    "StringWrapper": "text",
    "BytesWrapper": "bytes",
    "DecimalWrapper": "decimal",
}
_BOUND: Final = pa.struct([("kind", pa.string()), *_SLOTS.items()])
_SCHEMA: Final = pa.schema(
    [
        ("column", pa.string()),
        ("file", pa.string()),
        ("low", _BOUND),
        ("high", _BOUND),
        ("values", pa.int64()),
        ("nulls", pa.int64()),
        ("deleted", pa.bool_()),
        ("tight", pa.bool_()),
        ("type", pa.int32()),
        ("detail", pa.string()),
    ]
)
_MILLIS_TYPES: Final = frozenset({15, 18})
_MICROS_TYPES: Final = frozenset({16, 19})
_OLD: Final = frozenset({None, 0})
"""Value types of records without a declared type (`HoodieIndexVersion.V1`)."""
_YEAR_9999_MS: Final = 253_402_300_800_000
_SURROGATES: Final = "\ud800"
_EPOCH: Final = datetime.date(1970, 1, 1)
_Bound = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Statistics of one column of one file or partition."""

    low: Any
    """Least value in Python's type for the column (timestamps: microseconds since the epoch); None if unknown."""
    high: Any
    nulls: int | None
    values: int | None
    """Number of rows, including nulls."""

    @property
    def may_have_values(self) -> bool:
        """Returns whether some row may have another value than null."""
        return self.nulls is None or self.nulls != self.values


def column_stats(
    metadata: MetadataTable, columns: Mapping[str, pa.DataType], files: Iterable[tuple[str, str]]
) -> dict[tuple[str, str, str], ColumnRange]:
    """Reads statistics by (column, partition, file name); files and columns without a record are left out.

    Args:
        columns: top-level columns and their Arrow types.
        files: (partition, name) of base and log files.
    """
    places = {
        column_stats_key(column, partition, name): (column, partition, name)
        for partition, name in files
        for column in columns
    }
    return {places[key]: item for key, item in _read_ranges(metadata, COLUMN_STATS, columns, places).items()}


def expression_stats(
    metadata: MetadataTable, index: str, column: str, kind: pa.DataType, files: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], ColumnRange]:
    """Reads ranges of an expression index by (partition, file name); `values` does not count nulls there.

    Args:
        column: its source.
        kind: the type of the expression.
    """
    places = {column_stats_key(column, partition, name): (column, partition, name) for partition, name in files}
    ranges = _read_ranges(metadata, index, {column: kind}, places)
    return {places[key][1:]: item for key, item in ranges.items()}


def partition_stats(
    metadata: MetadataTable, columns: Mapping[str, pa.DataType], partitions: Iterable[str]
) -> dict[tuple[str, str], ColumnRange]:
    """Reads statistics by (column, partition) over the newest files of each partition."""
    places = {
        partition_stats_key(column, partition): (column, partition) for partition in partitions for column in columns
    }
    return {places[key]: item for key, item in _read_ranges(metadata, PARTITION_STATS, columns, places).items()}


def column_records(metadata: MetadataTable, columns: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Returns the current records of `column_stats` as stored: `column`, `file`, `values`, `nulls`, and the bounds
    `low` and `high`, which are null or have the `kind` of their wrapper and one other member.

    Args:
        columns: top-level columns; None: all.
    """
    prefixes = None if columns is None else [column_id(column) for column in columns]
    versions = metadata.records(COLUMN_STATS, _RANGE_FIELDS, prefixes=prefixes)
    return list(fold(versions).values())


def _read_ranges(
    metadata: MetadataTable, partition: str, columns: Mapping[str, pa.DataType], places: Mapping[str, tuple[str, ...]]
) -> dict[str, ColumnRange]:
    versions = metadata.records(partition, _RANGE_FIELDS, keys=places)
    result: dict[str, ColumnRange] = {}
    for key, record in fold(versions).items():
        column = places[key][0]
        if record["column"] == column:
            result[key] = _column_range(record, columns[column])
    return result


def fold(versions: RecordVersions) -> dict[str, dict[str, Any]]:
    """Folds versions into the current record of each key, with Python values.

    A later record replaces an earlier one if its bounds are tight or either is a removal; otherwise their bounds are
    combined (`HoodieTableMetadataUtil.mergeColumnStatsRecords`, 1.2.0).
    """
    result: dict[str, dict[str, Any]] = {}
    # a loop over few records: the columns of one filter, with one or two versions each
    for key, erased, record in zip(
        versions.keys.to_pylist(), versions.deleted.tolist(), versions.fields.to_pylist(), strict=True
    ):
        if erased or record["deleted"] is not False:
            result.pop(key, None)
            continue
        before = result.get(key)
        result[key] = record if before is None or record["tight"] else _union_records(before, record)
    return result


def _union_records(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    merged = dict(after)
    for name, pick in (("low", min), ("high", max)):
        merged[name] = _picked_bound(before, after, name, pick)
    for name in ("values", "nulls"):
        merged[name] = None if None in (before[name], after[name]) else before[name] + after[name]
    return merged


def _picked_bound(before: dict[str, Any], after: dict[str, Any], name: str, pick: Any) -> dict[str, Any] | None:
    if all_null(before) or all_null(after):
        return after[name] if all_null(before) else before[name]  # type: ignore[no-any-return]
    old, new = before[name], after[name]
    if not old or not new or old["kind"] != new["kind"] or before["type"] != after["type"]:
        return None
    slot = _SLOT_OF.get(old["kind"], "")
    if slot in ("", "bytes", "real") or old[slot] is None or new[slot] is None:
        return None  # bytes may be decimals, which have another order; bounds of 0.0 may be placeholders
    if slot == "text" and max(old[slot], new[slot]) >= _SURROGATES:
        return None
    return {**new, slot: pick(old[slot], new[slot])}


def all_null(record: Mapping[str, Any]) -> bool:
    """Returns whether a record says that all values are null."""
    return record["values"] is not None and record["nulls"] == record["values"] and not record["low"]


def _column_range(record: Mapping[str, Any], kind: pa.DataType) -> ColumnRange:
    low, high = _bound_value(record, "low", kind), _bound_value(record, "high", kind)
    if low is None or high is None or low > high or (pa.types.is_floating(kind) and _hides_nan(low, high)):
        low = high = None
    return ColumnRange(low, high, record["nulls"], record["values"])


def _hides_nan(low: float, high: float) -> bool:
    """Returns whether there may be NaN, which is greater than all numbers: for Parquet files with NaN, Apache Hudi
    1.2.0 records 0.0 for both bounds, and hudi-py records infinity."""
    return low == high == 0 or high == math.inf


def _bound_value(record: Mapping[str, Any], name: str, kind: pa.DataType) -> Any:
    """Converts a bound to the column's type; None if it has another type (from before a promotion) or unit."""
    bound = record[name]
    if not bound:
        return None
    if pa.types.is_timestamp(kind):
        return _micros_bound(bound["whole"], bound["kind"], record["type"], lower=name == "low")
    if pa.types.is_decimal(kind):
        return _decimal_bound(bound, bound["kind"], record["type"], record["detail"], kind)
    reader = next((read for fits, read in _READERS if fits(kind)), None)
    return None if reader is None else reader(bound, record["type"])


def _has_type(bound: _Bound, declared: int | None, wrappers: Collection[str], types: Collection[int]) -> bool:
    return bound["kind"] in wrappers and (declared in _OLD or declared in types)


def _day_bound(bound: _Bound, declared: int | None) -> datetime.date | None:
    named = _has_type(bound, declared, ("IntWrapper", "DateWrapper", "LocalDateWrapper"), (12,))
    return _date_of_days(bound["whole"]) if named else None


def _flag_bound(bound: _Bound, declared: int | None) -> bool | None:
    return bool(bound["whole"]) if bound["kind"] == "BooleanWrapper" else None


def _integer_bound(bound: _Bound, declared: int | None) -> Any:
    return bound["whole"] if _has_type(bound, declared, ("IntWrapper", "LongWrapper"), (3, 4)) else None


def _real_bound(bound: _Bound, wrapper: str) -> Any:
    # promotion changes the number (0.1 stays 0.1 in Spark), so the type must be the same
    value = bound["real"] if bound["kind"] == wrapper else None
    return None if value is None or math.isnan(value) else value


def _text_bound(bound: _Bound, declared: int | None) -> str | None:
    # Java orders by UTF-16 units, Spark by bytes; the orders agree up to the surrogates
    text = bound["text"] if _has_type(bound, declared, ("StringWrapper",), (7,)) else None
    return None if text is None or max(text, default="") >= _SURROGATES else text


_READERS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[_Bound, int | None], Any]]]] = (
    (pa.types.is_date32, _day_bound),
    (pa.types.is_boolean, _flag_bound),
    (pa.types.is_integer, _integer_bound),
    (pa.types.is_float32, lambda bound, _: _real_bound(bound, "FloatWrapper")),
    (pa.types.is_float64, lambda bound, _: _real_bound(bound, "DoubleWrapper")),
    (pa.types.is_string, _text_bound),
)
"""Readers of bounds by the type of the column."""


def _micros_bound(value: int | None, wrapper: str, declared: int | None, *, lower: bool) -> int | None:
    """Converts a timestamp bound to microseconds.

    Records of old releases do not have the unit, and some files have another unit than they declare. A number that
    would be after the year 9999 in milliseconds is in microseconds; for smaller ones the wider interpretation is used.
    """
    if value is None or wrapper not in ("LongWrapper", "TimestampMicrosWrapper"):
        return None
    if declared in _MILLIS_TYPES and abs(value) > _YEAR_9999_MS:
        return None
    if declared not in _MILLIS_TYPES and declared not in _MICROS_TYPES and declared not in _OLD:
        return None
    if abs(value) > _YEAR_9999_MS:
        return value
    return min(value, value * 1000) if lower else max(value, value * 1000)


def _date_of_days(days: int | None) -> datetime.date | None:
    try:
        return None if days is None else _EPOCH + datetime.timedelta(days=days)
    except OverflowError:
        return None


def _decimal_bound(
    bound: Mapping[str, Any], wrapper: str, declared: int | None, detail: str | None, kind: pa.DataType
) -> decimal.Decimal | None:
    if wrapper == "DecimalWrapper":
        # the wrapper's scale is fixed: longer fractions were rounded
        return bound["decimal"] if kind.scale <= _SLOTS["decimal"].scale else None
    if wrapper != "BytesWrapper" or declared != 10 or not detail or bound["bytes"] is None:
        return None
    precision, _, scale = detail.partition(",")
    if not (precision.strip().isdecimal() and scale.strip().isdecimal()) or int(scale) > kind.scale:
        return None
    unscaled = int.from_bytes(bound["bytes"], "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-int(scale), decimal.Context(prec=80))


def normalise(batch: pa.RecordBatch, avro: Any) -> pa.RecordBatch:
    """Converts statistics to columns that do not depend on the writer's schema."""
    record, wrappers = payload_field(batch, FIELD), wrapper_names(avro)
    part = partial(struct_member, record)
    nested = record.type.get_field_index("valueType") >= 0
    columns = [
        part("columnName", pa.string()),
        part("fileName", pa.string()),
        _bound_struct(pc.struct_field(record, "minValue"), wrappers),
        _bound_struct(pc.struct_field(record, "maxValue"), wrappers),
        part("valueCount", pa.int64()),
        part("nullCount", pa.int64()),
        part("isDeleted", pa.bool_()),
        part("isTightBound", pa.bool_()),
        pc.struct_field(record, ["valueType", "typeOrdinal"]) if nested else pa.nulls(len(record), pa.int32()),
        pc.struct_field(record, ["valueType", "additionalInfo"]) if nested else pa.nulls(len(record), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


_RANGE_FIELDS: Final = RecordFields([FIELD], _SCHEMA, normalise)


def wrapper_names(avro: Any) -> list[str]:
    """Returns the names of the records in the union of a bound, in order."""
    try:
        field = next(field for field in avro["fields"] if field["name"] == FIELD)
        record = next(branch for branch in field["type"] if isinstance(branch, dict))
        union = next(field for field in record["fields"] if field["name"] == "minValue")["type"]
        return [branch["name"] if isinstance(branch, dict) else branch for branch in union if branch != "null"]
    except (KeyError, TypeError, StopIteration):
        raise CorruptFileError("The schema of the metadata table's column statistics is unknown") from None


def _bound_struct(union: pa.Array, wrappers: list[str]) -> pa.Array:
    """Converts a union of wrapper records, a struct with a member for each, to a struct with few kinds of values."""
    slots: dict[str, list[pa.Array]] = {name: [] for name in _SLOTS}
    kinds: list[pa.Array] = []
    for number, name in enumerate(wrappers):
        slot = _SLOT_OF.get(name.rpartition(".")[2])
        if slot is None:
            continue
        member = pc.struct_field(union, number)
        if member.null_count == len(member):
            continue
        value = pc.struct_field(member, "value")
        if pa.types.is_temporal(value.type):
            value = value.cast(pa.int64()) if value.type.bit_width == 64 else value.cast(pa.int32())
        slots[slot].append(value.cast(_SLOTS[slot]))
        text = pa.scalar(name.rpartition(".")[2], pa.string())
        kinds.append(pc.if_else(pc.is_valid(member), text, pa.scalar(None, pa.string())))
    count = len(union)
    kind = pc.coalesce(*kinds) if kinds else pa.nulls(count, pa.string())
    arrays = [kind] + [pc.coalesce(*item) if item else pa.nulls(count, _SLOTS[n]) for n, item in slots.items()]
    return pa.StructArray.from_arrays(arrays, fields=list(_BOUND), mask=pc.is_null(kind))
