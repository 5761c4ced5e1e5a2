"""Compares two tables row by row: exact in every value, regardless of order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Final

import pyarrow as pa

from hudi_py.schema import COMMIT_SEQNO, FILE_NAME

# They depend on the reader: a record merged from a log names the file group, not a file, in Apache Hudi's answer.
READER_DEPENDENT: Final = (COMMIT_SEQNO, FILE_NAME)
SHOWN: Final = 5


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """Returns one type for everything that Spark and this project write differently for the same type of a table.

    Field names of lists and maps, nullability, offsets' width, dictionaries and the spelling of UTC do not count.
    Whether a timestamp is an instant or local does, and so do a number's width and a decimal's precision and scale.
    """
    if pa.types.is_dictionary(kind):
        return comparable_type(kind.value_type)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_map(kind):
        return pa.map_(comparable_type(kind.key_type), comparable_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(comparable_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, comparable_type(field.type)) for field in kind])
    return kind


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type with times as plain integers: Python's datetime holds neither year 0 nor year 10000."""
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(stored_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, stored_type(field.type)) for field in kind])
    return kind


def _canonical(value: Any, kind: pa.DataType) -> Hashable:
    if value is None:
        return None
    if pa.types.is_floating(kind):
        # Every NaN is the same value; 0.0 and -0.0 are not.
        return "nan" if value != value else float(value).hex()
    if pa.types.is_map(kind):
        # A map's entries have no order.
        entries = ((_canonical(k, kind.key_type), _canonical(v, kind.item_type)) for k, v in value)
        return tuple(sorted(entries, key=repr))
    if pa.types.is_list(kind):
        return tuple(_canonical(item, kind.value_type) for item in value)
    if pa.types.is_struct(kind):
        return tuple(_canonical(value[field.name], field.type) for field in kind)
    return value  # type: ignore[no-any-return]


def _values(column: pa.ChunkedArray) -> list[Hashable]:
    kind = comparable_type(column.type)
    plain = column.cast(kind).cast(stored_type(kind)) if kind != column.type else column.cast(stored_type(kind))
    return [_canonical(value, plain.type) for value in plain.to_pylist()]


def row_counts(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[Hashable, ...]]:
    """Counts how often each row occurs, with the columns in the given order."""
    return Counter(zip(*(_values(table.column(name)) for name in columns), strict=True))


def _sample(rows: Counter[tuple[Hashable, ...]], columns: Sequence[str]) -> str:
    lines = [
        f"    {count} x {dict(zip(columns, row, strict=True))}" for row, count in sorted(rows.items(), key=repr)[:SHOWN]
    ]
    return "\n".join(lines + ([f"    and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []))


def assert_rows_equal(actual: pa.Table, expected: pa.Table, ignore: Sequence[str] = READER_DEPENDENT) -> None:
    """Fails unless both tables have the same columns, the same types, and the same rows the same number of times.

    The order of rows and columns does not count. Values are compared exactly: nested ones, decimals, nulls, NaN, and
    timestamps to the microsecond (an instant is an instant, whatever zone its type names).
    """
    columns = sorted(set(expected.column_names) - set(ignore))
    names = sorted(set(actual.column_names) - set(ignore))
    assert names == columns, (
        f"columns differ: missing {sorted(set(columns) - set(names))}, unexpected {sorted(set(names) - set(columns))}"
    )
    assert len(set(actual.column_names)) == actual.num_columns, f"a column occurs twice: {actual.column_names}"
    kinds = [
        (name, comparable_type(actual.field(name).type), comparable_type(expected.field(name).type)) for name in columns
    ]
    differing = [f"{name}: {ours}, expected {theirs}" for name, ours, theirs in kinds if ours != theirs]
    assert not differing, "types differ: " + "; ".join(differing)
    if not columns:
        assert actual.num_rows == expected.num_rows
        return
    ours, theirs = row_counts(actual, columns), row_counts(expected, columns)
    if ours == theirs:
        return
    missing, unexpected = theirs - ours, ours - theirs
    raise AssertionError(
        f"rows differ: {actual.num_rows} rows, expected {expected.num_rows}\n"
        f"  missing ({missing.total()}):\n{_sample(missing, columns)}\n"
        f"  unexpected ({unexpected.total()}):\n{_sample(unexpected, columns)}"
    )
