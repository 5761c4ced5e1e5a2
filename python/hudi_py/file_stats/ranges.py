"""Column ranges: minimum, maximum, and the numbers of values and nulls, of one file or several.

Sources: `HoodieTableMetadataUtil.collectColumnRangeMetadata` for log records, `HoodieColumnRangeMetadata.merge` and
`FileFormatUtils.getColumnRangeInPartition` for merging (1.2.0). Text and bytes are ordered bytewise as in Spark,
floating-point numbers as by `Double.compareTo`: -0.0 before 0.0, NaN last.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.file_stats.columns import IndexedColumn, ValueType
from hudi_py.formats.arrays import combined, double_codes, doubles_of

Bound = bool | int | float | str | bytes | None
"""A decimal is an unscaled integer, a date the number of days, a time or timestamp an integer in the type's unit."""

_NUMBER: Final = pa.decimal256(76, 0)
BOUND: Final = pa.struct(
    {"whole": pa.int64(), "real": pa.float64(), "text": pa.string(), "bytes": pa.binary(), "number": _NUMBER}.items()
)
"""A bound: the member for its type is set (see `slot_of`); all members are null if there is no bound."""
_COUNTS: Final = ("values", "nulls", "size", "raw_size")
RANGES: Final = pa.schema(
    [("column", pa.string()), ("type", pa.int32()), ("detail", pa.string()), ("low", BOUND), ("high", BOUND)]
    + [(name, pa.int64()) for name in _COUNTS]
)
"""Columns of `ColumnRanges.rows`. `type` is a `ValueType`, `detail` the precision and scale of a decimal (`18,6`);
`values` includes nulls; `size` and `raw_size` are the compressed and uncompressed bytes (0 for log records)."""
_UNITS: Final = {
    **dict.fromkeys((ValueType.TIME_MILLIS, ValueType.TIMESTAMP_MILLIS, ValueType.LOCAL_TIMESTAMP_MILLIS), 10**3),
    **dict.fromkeys((ValueType.TIME_MICROS, ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS), 10**6),
    **dict.fromkeys((ValueType.TIMESTAMP_NANOS, ValueType.LOCAL_TIMESTAMP_NANOS), 10**9),
}
_WHOLE: Final = frozenset({ValueType.BOOLEAN, ValueType.INT, ValueType.LONG, ValueType.DATE, *_UNITS})
_ARROW_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WIDE: Final = decimal.Context(prec=100)
_SECONDS: Final = (-62_135_596_800, 253_402_300_799)
"""Seconds since the epoch of the years 1 to 9999."""
"""All bits except the sign."""
_LAST_TEXT: Final = "\U0010ffff" * 8
_LAST_BYTES: Final = b"\xff" * 32


def slot_of(kind: ValueType) -> str:
    """Returns the member of `BOUND` for bounds of a type."""
    if kind in _WHOLE:
        return "whole"
    if kind in (ValueType.FLOAT, ValueType.DOUBLE):
        return "real"
    if kind in (ValueType.STRING, ValueType.UUID):
        return "text"
    return "number" if kind is ValueType.DECIMAL else "bytes"


@dataclass(slots=True)
class Range:
    """The range of one column during its computation."""

    column: IndexedColumn
    low: Bound = None
    high: Bound = None
    values: int = 0
    nulls: int = 0
    size: int = 0
    raw_size: int = 0

    def add(self, other: Range) -> None:
        """Extends the range by another one of the same type."""
        self.include(other.low, other.high)
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def include(self, low: Bound, high: Bound) -> None:
        if low is not None:
            self.low = low if self.low is None else _least_bound(self.low, low)
        if high is not None:
            self.high = high if self.high is None else _greatest_bound(self.high, high)


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """Ranges of the columns of one or more files. `rows` has the columns of `RANGES`."""

    rows: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @classmethod
    def of(cls, ranges: Sequence[Range]) -> ColumnRanges:
        """Builds it from ranges, one row each."""
        # a loop over columns, not rows
        arrays = [
            pa.array([range_.column.name for range_ in ranges], pa.string()),
            pa.array([int(range_.column.type) for range_ in ranges], pa.int32()),
            pa.array([range_.column.detail for range_ in ranges], pa.string()),
            _bound_arrays([(range_.column.type, range_.low) for range_ in ranges]),
            _bound_arrays([(range_.column.type, range_.high) for range_ in ranges]),
            *(pa.array([getattr(range_, name) for range_ in ranges], pa.int64()) for name in _COUNTS),
        ]
        return cls(pa.RecordBatch.from_arrays(arrays, schema=RANGES))

    @classmethod
    def merged(cls, parts: Iterable[ColumnRanges], columns: Sequence[IndexedColumn] = ()) -> ColumnRanges:
        """Merges parts to one range for each column that any part has: those of `columns` in their order, then the
        others.

        Args:
            columns: determine the types of the result, because older files may have other types; other columns get the
                type of the last part.
        """
        return merge_rows(pa.Table.from_batches([part.rows for part in parts], RANGES), columns)


def merge_rows(table: pa.Table, columns: Sequence[IndexedColumn] = ()) -> ColumnRanges:
    """Merges as `ColumnRanges.merged`, for rows with the columns of `RANGES`."""
    return merge_groups(table, pa.nulls(table.num_rows, pa.int32()), columns).get(None, ColumnRanges.of(()))


def merge_groups(
    table: pa.Table, groups: pa.Array, columns: Sequence[IndexedColumn] = ()
) -> dict[int | None, ColumnRanges]:
    """Merges as `merge_rows`, separately for each group of rows.

    Args:
        groups: the group of each row (int32).
    """
    wanted = {column.name: column for column in columns}
    reduced = _reduced_ranges(table, groups)
    by_group: dict[int | None, dict[str, list[Range]]] = {}
    # one row for each column of a group, or several if its type changed
    for row in reduced.to_pylist():
        part = Range(column_of(row["column"], row["type"], row["detail"]))
        slot = slot_of(part.column.type)
        for name, function in (("low", "min"), ("high", "max")):
            bound = row[f"{name}_{slot}_{function}"]
            if slot == "number" and bound is not None:
                bound = int(bound)
            setattr(part, name, bound)
        for name in _COUNTS:
            setattr(part, name, row[f"{name}_sum"])
        by_group.setdefault(row["group"], {}).setdefault(part.column.name, []).append(part)
    result: dict[int | None, ColumnRanges] = {}
    for group, members in by_group.items():
        order = [name for name in wanted if name in members] + [name for name in members if name not in wanted]
        result[group] = ColumnRanges.of([_joined_range(members[name], wanted.get(name)) for name in order])
    return result


def _joined_range(parts: Sequence[Range], wanted: IndexedColumn | None) -> Range:
    target = wanted or _last_typed([part.column for part in parts])
    whole = Range(target)
    for part in parts:
        part.low, part.high = promoted(part.low, part.high, part.column, target)
        whole.add(part)
    return whole


def _reduced_ranges(table: pa.Table, groups: pa.Array) -> pa.Table:
    """Reduces rows to one for each group, column and type."""
    flat: dict[str, pa.Array | pa.ChunkedArray] = {"group": groups}
    flat |= {name: table[name] for name in ("column", "type", "detail")}
    flat |= {name: table[name] for name in _COUNTS}
    aggregations = [(name, "sum") for name in _COUNTS]
    for name, function in (("low", "min"), ("high", "max")):
        bounds = combined(table[name])
        for field in BOUND:
            values = pc.struct_field(bounds, field.name)
            flat[f"{name}_{field.name}"] = _ordered_codes(values) if field.name == "real" else values
            aggregations.append((f"{name}_{field.name}", function))
    kinds = pa.table(flat).group_by(["group", "column", "type", "detail"], use_threads=False).aggregate(aggregations)
    for name in ("low_real_min", "high_real_max"):
        numbers = _from_codes(combined(kinds[name]))
        kinds = kinds.set_column(kinds.schema.get_field_index(name), name, numbers)
    return kinds


def _ordered_codes(numbers: pa.Array) -> pa.Array:
    return pa.array(double_codes(numbers), mask=np.asarray(numbers.is_null()))


def _from_codes(whole: pa.Array) -> pa.Array:
    numbers = doubles_of(whole.fill_null(0).to_numpy(zero_copy_only=False))
    return pa.array(numbers, mask=np.asarray(whole.is_null()))


def column_ranges(
    data: pa.RecordBatch | pa.Table | Iterable[pa.RecordBatch], columns: Sequence[IndexedColumn]
) -> ColumnRanges:
    """Computes ranges of data rows for a log.

    Without rows, every range is empty and its type is NULL. A column that the rows lack counts as null.

    Args:
        data: rows in the table's Arrow types, with meta columns if these are indexed.
        columns: see `indexed_columns`.
    """
    if isinstance(data, pa.Table):
        data = data.to_batches()
    elif isinstance(data, pa.RecordBatch):
        data = [data]
    ranges = [Range(column) for column in columns]
    rows = 0
    for batch in data:
        rows += batch.num_rows
        for range_ in ranges:
            add_values(range_, leaf(batch, range_.column.name))
    if not rows:
        return ColumnRanges.of([Range(IndexedColumn(column.name, ValueType.NULL)) for column in columns])
    for range_ in ranges:
        widen_zeros(range_)
    return ColumnRanges.of(ranges)


def leaf(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column by its dotted name; null if the batch lacks it, and where its parent is null."""
    if name in batch.schema.names:
        return batch.column(name)
    parts = name.split(".")
    if parts[0] not in batch.schema.names:
        return pa.nulls(batch.num_rows)
    array = batch.column(parts[0])
    for part in parts[1:]:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            return pa.nulls(batch.num_rows)
        array = pc.struct_field(array, part)
    return array


def add_values(target: Range, array: pa.Array) -> None:
    """Extends a range by the values of an array."""
    target.values += len(array)
    target.nulls += array.null_count
    if array.null_count == len(array):
        return
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
        if array.null_count == len(array):
            target.nulls += array.null_count
            return
    kind = array.type
    if pa.types.is_floating(kind):
        low, high = _float_bounds(array)
        target.include(low, high)
        return
    extremes = pc.min_max(array)
    for scalar in (extremes["min"], extremes["max"]):
        bound = _bound_value(scalar, kind, target.column)
        target.include(bound, bound)


def widen_zeros(target: Range) -> None:
    """Includes both zeros if one of them is a bound: Apache Hudi orders -0.0 before 0.0, but Spark treats them as
    equal. Java does this when it reads a footer (`Statistics.DoubleBuilder`), but not for log records."""
    if slot_of(target.column.type) == "real" and target.nulls < target.values:
        target.low = -0.0 if target.low == 0 else target.low
        target.high = 0.0 if target.high == 0 else target.high


def column_of(name: str, kind: int, detail: str | None) -> IndexedColumn:
    """Returns a column with the type that a record of the metadata table has."""
    precision, _, scale = (detail or "").partition(",")
    digits = (int(precision), int(scale)) if precision.strip().isdecimal() and scale.strip().isdecimal() else (0, 0)
    return IndexedColumn(name, ValueType(kind), *digits)


def promoted(low: Bound, high: Bound, old: IndexedColumn, new: IndexedColumn) -> tuple[Bound, Bound]:
    """Converts bounds from one type to another so that they include every value as Apache Hudi promotes it."""
    if low is None or high is None or (old.type, old.scale) == (new.type, new.scale) or old.type is ValueType.NULL:
        return low, high
    if new.type is ValueType.DECIMAL and old.type in (ValueType.DECIMAL, ValueType.INT, ValueType.LONG):
        shift = new.scale - (old.scale if old.type is ValueType.DECIMAL else 0)
        return _rescaled_decimal(int(low), shift, up=False), _rescaled_decimal(int(high), shift, up=True)
    if slot_of(old.type) == slot_of(new.type) == "whole":
        before, after = _UNITS.get(old.type), _UNITS.get(new.type)
        if before and after:
            return int(low) * after // before, -(-int(high) * after // before)
        if ValueType.DATE not in (old.type, new.type):
            return low, high
    if slot_of(new.type) == "real":
        if old.type is ValueType.FLOAT:
            # through text, because a promoted 0.1 stays 0.1
            return float(str(np.float32(low))), float(str(np.float32(high)))
        if old.type in (ValueType.BOOLEAN, ValueType.INT, ValueType.LONG):
            as_type = np.float32 if new.type is ValueType.FLOAT else np.float64
            return float(as_type(low)), float(as_type(high))
    if slot_of(old.type) == "text" and slot_of(new.type) == "bytes":
        return str(low).encode(), str(high).encode()
    if slot_of(old.type) == "bytes" and slot_of(new.type) == "bytes":
        return low, high
    return widest(new)


def widest(column: IndexedColumn) -> tuple[Bound, Bound]:
    """Returns bounds that include every value of a type, for columns whose range is unknown: Apache Hudi treats a file
    without bounds as one without values."""
    kind = column.type
    if kind in _UNITS:
        unit = _UNITS[kind]
        if kind in (ValueType.TIME_MILLIS, ValueType.TIME_MICROS):
            return 0, 86_400 * unit - 1
        limit = 2**63 - 1
        return max(_SECONDS[0] * unit, -limit), min((_SECONDS[1] + 1) * unit - 1, limit)
    match kind:
        case ValueType.BOOLEAN:
            return 0, 1
        case ValueType.INT:
            return -(2**31), 2**31 - 1
        case ValueType.LONG:
            return -(2**63), 2**63 - 1
        case ValueType.DATE:
            return _SECONDS[0] // 86_400, _SECONDS[1] // 86_400
        case ValueType.FLOAT | ValueType.DOUBLE:
            return float("-inf"), float("nan")
        case ValueType.STRING | ValueType.UUID:
            return "", _LAST_TEXT
        case ValueType.DECIMAL:
            return -(10**column.precision) + 1, 10**column.precision - 1
        case _:
            return b"", _LAST_BYTES


def _last_typed(kinds: Sequence[IndexedColumn]) -> IndexedColumn:
    typed = [kind for kind in kinds if kind.type is not ValueType.NULL]
    return (typed or list(kinds))[-1]


def _bound_arrays(bounds: Sequence[tuple[ValueType, Bound]]) -> pa.Array:
    slots: Mapping[str, list[Any]] = {field.name: [None] * len(bounds) for field in BOUND}
    for row, (kind, bound) in enumerate(bounds):
        if bound is None:
            continue
        slot = slot_of(kind)
        slots[slot][row] = decimal.Decimal(int(bound)) if slot == "number" else int(bound) if slot == "whole" else bound
    return pa.StructArray.from_arrays([pa.array(slots[field.name], field.type) for field in BOUND], fields=list(BOUND))


def _float_bounds(array: pa.Array) -> tuple[float, float]:
    """Returns bounds of floating-point numbers, at least one of which is not null."""
    numbers = array.drop_null().to_numpy(zero_copy_only=False)
    real = numbers[~np.isnan(numbers)]
    if not len(real):
        return float("nan"), float("nan")
    low, high = float(real.min()), float(real.max())
    if low == 0:
        low = -0.0 if bool(np.signbit(real[real == 0]).any()) else 0.0
    if high == 0:
        high = -0.0 if bool(np.signbit(real[real == 0]).all()) else 0.0
    return low, float("nan") if len(real) < len(numbers) else high


def _bound_value(scalar: pa.Scalar, kind: pa.DataType, column: IndexedColumn) -> Bound:
    types = pa.types
    if types.is_decimal(kind):
        exact = scalar.as_py().scaleb(column.scale, _WIDE)
        return int(exact.to_integral_value(decimal.ROUND_HALF_UP))
    if types.is_timestamp(kind) or types.is_time(kind):
        whole = scalar.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).as_py()
        # writing Avro rounds milliseconds down
        return int(whole) * _UNITS.get(column.type, _ARROW_UNITS[kind.unit]) // _ARROW_UNITS[kind.unit]
    if types.is_date(kind):
        return int(scalar.cast(pa.date32()).cast(pa.int32()).as_py())
    value = scalar.as_py()
    if slot_of(column.type) == "bytes" and isinstance(value, str):
        return value.encode()
    return value  # type: ignore[no-any-return]


def _rescaled_decimal(unscaled: int, shift: int, *, up: bool) -> int:
    power: int = 10 ** abs(shift)
    if shift >= 0:
        return unscaled * power
    return -(-unscaled // power) if up else unscaled // power


def _least_bound(one: Any, other: Any) -> Bound:
    least: Bound = min(one, other, key=_total_order) if isinstance(one, float) else min(one, other)
    return least


def _greatest_bound(one: Any, other: Any) -> Bound:
    greatest: Bound = max(one, other, key=_total_order) if isinstance(one, float) else max(one, other)
    return greatest


def _total_order(number: float) -> tuple[bool, float, bool]:
    if number != number:
        return True, 0.0, False
    return False, number, not np.signbit(number)
