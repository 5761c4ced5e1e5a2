"""Column ranges of base files, from their Parquet footers (`ParquetUtils.readColumnStatsFromMetadata`, 1.2.0).

Footers are incomplete: writers omit the bounds of long texts and of columns with NaN, or ignore NaN. Apache Hudi then
stores bounds that lose rows (0.0, or none, as for a column of nulls); hudi-py reads the column instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow.parquet as pq

from hudi_py.file_stats.columns import IndexedColumn, ValueType
from hudi_py.file_stats.ranges import Bound, ColumnRanges, Range, add_values, leaf, widen_zeros
from hudi_py.formats.base.parquet import all_batches, open_parquet
from hudi_py.formats.base.parquet_writer import NAN_COLUMNS
from hudi_py.storage import Storage

_PHYSICAL: Final = {
    "BOOLEAN": ValueType.BOOLEAN,
    "INT32": ValueType.INT,
    "INT64": ValueType.LONG,
    "INT96": ValueType.TIMESTAMP_MICROS,
    "FLOAT": ValueType.FLOAT,
    "DOUBLE": ValueType.DOUBLE,
    "BYTE_ARRAY": ValueType.BYTES,
    "FIXED_LEN_BYTE_ARRAY": ValueType.FIXED,
}
_TIMES: Final = {
    ("TIME", "milliseconds"): (ValueType.TIME_MILLIS, ValueType.TIME_MILLIS),
    ("TIME", "microseconds"): (ValueType.TIME_MICROS, ValueType.TIME_MICROS),
    ("TIMESTAMP", "milliseconds"): (ValueType.TIMESTAMP_MILLIS, ValueType.LOCAL_TIMESTAMP_MILLIS),
    ("TIMESTAMP", "microseconds"): (ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS),
    ("TIMESTAMP", "nanoseconds"): (ValueType.TIMESTAMP_NANOS, ValueType.LOCAL_TIMESTAMP_NANOS),
}
_FLOATS: Final = (ValueType.FLOAT, ValueType.DOUBLE)
_DEFAULTS: Final[dict[str, Bound]] = {"BOOLEAN": 0, "INT32": 0, "INT64": 0, "FLOAT": 0.0, "DOUBLE": 0.0}
"""The bounds that Java assumes for a column of nulls, by physical type (`Statistics.genericGetMin`)."""


def footer_ranges(
    storage: Storage, path: str, columns: Sequence[IndexedColumn], *, nan: Collection[str] | None = None
) -> ColumnRanges:
    """Computes ranges of the columns that a base file has, in the types of the file, which may be older than the
    table's.

    Reads the columns whose range is not in the footer: texts of more than 4096 bytes, and floating-point columns unless
    the footer lists those with NaN or its writer is known to handle NaN.

    Args:
        nan: names of the floating-point columns with NaN, from the writer of the file; None: unknown.

    Raises:
        CorruptFileError: the file is not a complete Parquet file.
        FileNotFoundError: there is no such file.
    """
    with open_parquet(storage, path) as file:
        ranges, unknown = _of_metadata(file.metadata, columns, nan)
        if unknown:
            _read_ranges(file, path, unknown)
    return ColumnRanges.of(ranges)


def written_ranges(
    storage: Storage, path: str, metadata: pq.FileMetaData, columns: Sequence[IndexedColumn], nan: Collection[str]
) -> ColumnRanges:
    """Computes ranges as `footer_ranges`, with the footer in memory: opens the file only if the footer is not
    enough."""
    ranges, unknown = _of_metadata(metadata, columns, nan)
    if unknown:
        with open_parquet(storage, path) as file:
            _read_ranges(file, path, unknown)
    return ColumnRanges.of(ranges)


def _of_metadata(
    metadata: pq.FileMetaData, columns: Sequence[IndexedColumn], nan: Collection[str] | None
) -> tuple[list[Range], list[Range]]:
    """Returns the ranges of the existing columns, and those among them that the footer does not determine."""
    places = {metadata.schema.column(index).path: index for index in range(len(metadata.schema))}
    nan = _nan_columns(metadata) if nan is None else nan
    result: list[Range] = []
    unknown: list[Range] = []
    for column in columns:
        position = places.get(column.name)
        stored = None if position is None else stored_column(metadata.schema.column(position), column.name)
        if position is None or stored is None:
            continue
        known = None if nan is None else column.name in nan
        whole, complete = _of_column(metadata, position, stored, known)
        result.append(whole)
        if not complete:
            unknown.append(whole)
    return result, unknown


def covers_nan(metadata: pq.FileMetaData, name: str) -> bool:
    """Returns whether the statistics of a floating-point column, if it has some, prove that it contains no NaN."""
    nan = _nan_columns(metadata)
    return _knows_nan(metadata) if nan is None else name not in nan


def _nan_columns(metadata: pq.FileMetaData) -> list[str] | None:
    """Returns columns with NaN; known only for files that hudi-py wrote."""
    listed = (metadata.metadata or {}).get(NAN_COLUMNS.encode())
    return None if listed is None else listed.decode("utf-8", "replace").split(",")


def _knows_nan(metadata: pq.FileMetaData) -> bool:
    """Returns whether the writer omits the statistics of columns with NaN, as Java's does."""
    return str(metadata.created_by or "").startswith("parquet-mr")


def stored_column(schema: Any, name: str) -> IndexedColumn | None:
    """Returns the type of a column in a file (`ValueType.fromParquetPrimitiveType`); None if its values have no order.

    Args:
        schema: the column's `pyarrow.parquet.ColumnSchema`.
    """
    physical, logical = schema.physical_type, schema.logical_type
    kind = logical.type
    if kind in ("STRING", "ENUM", "JSON"):
        return IndexedColumn(name, ValueType.STRING)
    if kind == "DECIMAL":
        return IndexedColumn(name, ValueType.DECIMAL, schema.precision, schema.scale)
    if kind == "DATE":
        return IndexedColumn(name, ValueType.DATE)
    if kind in ("TIME", "TIMESTAMP"):
        details = json.loads(logical.to_json())
        utc, local = _TIMES.get((kind, details.get("timeUnit")), (None, None))
        chosen = utc if details.get("isAdjustedToUTC") else local
        return None if chosen is None else IndexedColumn(name, chosen)
    if kind in ("FLOAT16", "INTERVAL"):
        return None
    return IndexedColumn(name, _PHYSICAL[physical]) if physical in _PHYSICAL else None


def _include_bounds(whole: Range, statistics: pq.Statistics, column: IndexedColumn) -> bool:
    """Widens a range to the bounds of a chunk; returns False if one is unknown."""
    bounds = [_decoded_bound(raw, column) for raw in (statistics.min_raw, statistics.max_raw)]
    if None in bounds or any(bound != bound for bound in bounds):
        return False
    whole.include(*bounds)
    return True


def _of_column(metadata: pq.FileMetaData, position: int, column: IndexedColumn, nan: bool | None) -> tuple[Range, bool]:
    """Returns the range of a column in a footer, and whether it is complete."""
    whole = Range(column)
    physical = metadata.schema.column(position).physical_type
    is_float = column.type in _FLOATS
    trusted = not is_float or nan is not None or _knows_nan(metadata)
    complete = True
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(position)
        whole.values += chunk.num_values
        whole.size += chunk.total_compressed_size
        whole.raw_size += chunk.total_uncompressed_size
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            complete = complete and not chunk.num_values
            continue
        whole.nulls += statistics.null_count
        if statistics.null_count == chunk.num_values:
            continue
        if statistics.has_min_max and trusted:
            complete = _include_bounds(whole, statistics, column) and complete
        elif not (nan and is_float):
            complete = False
    if complete and whole.values and whole.nulls == whole.values:
        whole.low = whole.high = _DEFAULTS.get(physical)
    if nan and is_float:
        whole.include(float("nan"), float("nan"))
    widen_zeros(whole)
    return whole, complete


def _decoded_bound(raw: Any, column: IndexedColumn) -> Bound:
    """Decodes a bound in a footer; None if it was truncated within a character."""
    if column.type is ValueType.DECIMAL:
        return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
    if column.type is ValueType.STRING:
        try:
            return bytes(raw).decode()
        except UnicodeDecodeError:
            return None
    if column.type in (ValueType.BYTES, ValueType.FIXED):
        return bytes(raw)
    return float(raw) if column.type in _FLOATS else int(raw)


def _read_ranges(file: pq.ParquetFile, path: str, unknown: Sequence[Range]) -> None:
    """Computes the ranges from the values; sizes do not change."""
    fresh = [replace(item, low=None, high=None, values=0, nulls=0) for item in unknown]
    names = [item.column.name for item in fresh]
    for batch in all_batches(file, f"base file {path}", columns=names):
        for item in fresh:
            add_values(item, leaf(batch, item.column.name))
    for item, made in zip(unknown, fresh, strict=True):
        item.low, item.high, item.nulls, item.values = made.low, made.high, made.nulls, made.values
        widen_zeros(item)
