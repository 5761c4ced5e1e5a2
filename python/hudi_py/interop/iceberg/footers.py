"""Decides from the footer of a Parquet file whether Iceberg reads it as Hudi does, and extracts its bounds."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.file_stats.footers import covers_nan
from hudi_py.formats.arrays import has_times
from hudi_py.interop.iceberg.columns import Json, promotes
from hudi_py.interop.iceberg.manifests import value_bytes
from hudi_py.schema.conform import Sources

MAX_BOUNDS: Final = 32
"""Maximum number of columns with bounds: the metadata has those of every file."""
_TEXT_BOUND: Final = 16
"""Length of a text or binary bound, as in Iceberg's default `truncate(16)`."""
_SURROGATES: Final = range(0xD800, 0xE000)
_OLD_CALENDAR: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIELD_ID: Final = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Reading:
    """How Iceberg's readers find columns in a file without ids."""

    fields: Sequence[Json]
    """Members of the table's Iceberg schema."""
    mapping: Sequence[Json]
    """Its name mapping."""
    sources: Sources | None
    """Maps the table's columns to the file's, as Hudi does; None if they are matched by name."""
    constant: Mapping[str, Any]
    """Columns whose value in Hudi comes from the partition's path, whatever files contain."""
    hidden: Collection[str] = ()
    """Columns of `constant` that the name mapping hides from readers."""

    def stored_name(self, name: str) -> str | None:
        """Returns the name of a top-level column in the file, if readers look for it."""
        if name in self.hidden:
            return None
        return name if self.sources is None else self.sources.of(name)[0]


def why_not_read(metadata: pq.FileMetaData, reading: Reading) -> str | None:
    """Returns why Iceberg would not read a file's rows as Hudi does; None if it does."""
    pairs = metadata.metadata or {}
    schema = metadata.schema.to_arrow_schema()
    old_days = any(key in pairs for key in _OLD_CALENDAR)
    leaves = [metadata.schema.column(index) for index in range(len(metadata.schema))]
    int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    used = _stored_names(reading)
    old_times = sorted({path.partition(".")[0] for path in int96} & used)
    if old_times:
        return f"column {old_times[0]} has INT96 timestamps"
    read = [field for field in reading.fields if field["name"] not in reading.hidden]
    for why in _member_problems(list(schema), read, reading.mapping, reading.sources, ""):
        return why
    if old_days:
        days = [field.name for field in schema if field.name in used and has_times(field.type)]
        if days:
            return f"column {days[0]} counts days in the old calendar"
    return _other_constant(metadata, reading)


def _count_nulls(chunks: Sequence[pq.ColumnChunkMetaData]) -> int | None:
    """Counts the nulls; None if a chunk lacks the number."""
    stats = [chunk.statistics for chunk in chunks]
    if any(stat is None or not stat.has_null_count for stat in stats):
        return None
    return sum(int(stat.null_count) for stat in stats)


def counts_and_bounds(metadata: pq.FileMetaData, reading: Reading) -> dict[str, Any]:
    """Returns counts of values and nulls, bounds, and offsets of row groups: members of a `data_file`."""
    places = {metadata.schema.column(index).path: index for index in range(len(metadata.schema))}
    arrow = metadata.schema.to_arrow_schema()
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    plain = [field for field in reading.fields if isinstance(field["type"], str)]
    for field in plain[:MAX_BOUNDS]:
        name = reading.stored_name(field["name"])
        if name is None or name not in places:
            continue
        chunks = [group.column(places[name]) for group in groups]
        counts[field["id"]] = sum(chunk.num_values for chunk in chunks)
        nulls_there = _count_nulls(chunks)
        if nulls_there is not None:
            nulls[field["id"]] = nulls_there
        if field["type"] in ("float", "double") and not covers_nan(metadata, name):
            continue  # engines for which NaN is the greatest number would skip its rows
        bounds = _chunk_bounds(chunks, arrow.field(name).type, field["type"])
        if bounds is not None:
            lower[field["id"]], upper[field["id"]] = bounds
    result: dict[str, Any] = {"value_counts": counts, "null_value_counts": nulls}
    if lower:
        result |= {"lower_bounds": lower, "upper_bounds": upper}
    if len(groups) > 1:
        result["split_offsets"] = sorted(_group_start(group) for group in groups)
    return result


def _group_start(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def _stored_names(reading: Reading) -> set[str]:
    names = (reading.stored_name(field["name"]) for field in reading.fields)
    return {name for name in names if name is not None} - set(reading.constant)


def _member_problems(
    stored: Sequence[pa.Field], fields: Sequence[Json], mapping: Sequence[Json], sources: Sources | None, path: str
) -> Iterator[str]:
    """Yields problems of columns or members of a struct."""
    by_name = {item.name: item for item in stored}
    meant = {name: entry for entry in mapping for name in entry["names"]}
    wanted: dict[str, Json] = {}
    for field in fields:
        where = f"{path}.{field['name']}" if path else field["name"]
        name, inner = (field["name"], None) if sources is None else sources.of(field["name"])
        if name is None or name not in by_name:
            continue
        wanted[name] = field
        entry = meant.get(name)
        if entry is None or entry["field-id"] != field["id"]:
            yield f"column {where} is named {name} there, and another column has had that name"
            continue
        yield from _type_problems(by_name[name], field["type"], entry.get("fields", ()), inner, where)
    for field in fields:
        entry = next((item for item in mapping if item["field-id"] == field["id"]), None)
        for name in () if entry is None else entry["names"]:
            if name in by_name and wanted.get(name) is not field:
                where = f"{path}.{field['name']}" if path else field["name"]
                yield f"its column {name} is not the table's column {where}"


def _type_problems(
    stored: pa.Field, kind: Any, mapping: Sequence[Json], sources: Sources | None, where: str
) -> Iterator[str]:
    if _FIELD_ID in (stored.metadata or {}):
        yield f"column {where} has a field id of another program"
        return
    result = stored.type
    if isinstance(kind, str):
        own = _iceberg_name(result)
        if own != kind and (own is None or not promotes(own, kind)):
            yield f"column {where} is {result} there and {kind} in Iceberg"
        return
    shape = kind["type"]
    if shape == "struct" and pa.types.is_struct(result):
        yield from _member_problems(list(result), kind["fields"], mapping, sources, where)
    elif shape == "list" and pa.types.is_list(result):
        inner = None if sources is None else sources.of("element")[1]
        if result.value_field.name != "element":
            name = result.value_field.name
            yield f"column {where} is a list whose elements are named {name}, as in lists of two levels, not element"
            return
        yield from _type_problems(
            result.value_field, kind["element"], _mapping_below(mapping, "element"), inner, f"{where}.element"
        )
    elif shape == "map" and pa.types.is_map(result):
        inner = None if sources is None else sources.of("value")[1]
        yield from _type_problems(result.key_field, kind["key"], _mapping_below(mapping, "key"), None, f"{where}.key")
        yield from _type_problems(
            result.item_field, kind["value"], _mapping_below(mapping, "value"), inner, f"{where}.value"
        )
    else:
        yield f"column {where} is {result} there and a {shape} in Iceberg"


def _mapping_below(mapping: Sequence[Json], name: str) -> Sequence[Json]:
    return next((item.get("fields", ()) for item in mapping if name in item["names"]), ())


_NAMES: Final = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}


def _iceberg_name(kind: pa.DataType) -> str | None:
    """Returns the Iceberg type that readers take a stored type for."""
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ms"):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    return _NAMES.get(kind)


def _other_constant(metadata: pq.FileMetaData, reading: Reading) -> str | None:
    """Returns a column whose value in the file differs from the partition's: engines disagree about which of them
    counts."""
    names = {field["name"]: field for field in reading.fields}
    places = {metadata.schema.column(index).path: index for index in range(len(metadata.schema))}
    arrow = metadata.schema.to_arrow_schema()
    for name, value in reading.constant.items():
        if name not in places or name not in names or name in reading.hidden or metadata.num_rows == 0:
            continue
        stored = arrow.field(name).type
        chunks = [metadata.row_group(index).column(places[name]) for index in range(metadata.num_row_groups)]
        stats = [chunk.statistics for chunk in chunks]
        empty = all(stat is not None and stat.has_null_count for stat in stats) and sum(
            stat.null_count for stat in stats
        )
        if value is None:
            if empty == metadata.num_rows:
                continue
            return f"column {name} has values there, and is null by the partition's path"
        kind = names[name]["type"]
        if empty == 0 and _iceberg_name(stored) is not None and _holds_only(chunks, stored, kind, value):
            continue
        return f"column {name} may have other values there than {value!r} by the partition's path"
    return None


def _holds_only(chunks: Sequence[Any], stored: pa.DataType, kind: str, value: Any) -> bool:
    ranges = _chunk_ranges(chunks, stored, kind)
    return bool(ranges) and {value_bytes(kind, item) for pair in ranges for item in pair} == {value_bytes(kind, value)}


def _chunk_ranges(chunks: Sequence[Any], stored: pa.DataType, kind: str) -> list[tuple[Any, Any]]:
    """Returns the least and greatest value of each chunk that has one; empty if a chunk lacks them."""
    result = []
    for chunk in chunks:
        stats = chunk.statistics
        if stats is None:
            return []
        if not stats.has_min_max:
            if stats.has_null_count and stats.null_count == chunk.num_values:
                continue
            return []
        low, high = _typed_value(stats.min_raw, stored, kind), _typed_value(stats.max_raw, stored, kind)
        if low is None or high is None:
            return []
        result.append((low, high))
    return result


def _typed_value(raw: Any, stored: pa.DataType, kind: str) -> Any:
    """Converts a stored number or bytes to an Iceberg type; None if that is impossible."""
    if pa.types.is_timestamp(stored) and stored.unit == "ms":
        return raw * 1000
    if pa.types.is_decimal(stored):
        return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
    if kind == "string":
        try:
            return raw.decode() if isinstance(raw, bytes) else raw
        except UnicodeDecodeError:
            return None
    return raw


def _chunk_bounds(chunks: Sequence[Any], stored: pa.DataType, kind: str) -> tuple[bytes, bytes] | None:
    ranges = _chunk_ranges(chunks, stored, kind)
    if not ranges:
        return None
    low, high = min(pair[0] for pair in ranges), max(pair[1] for pair in ranges)
    if low != low or high != high:  # NaN
        return None
    if kind in ("float", "double"):
        return _float_bytes(kind, low), _float_bytes(kind, high)
    if kind == "string":
        return _text_bounds(low, high)
    if kind == "binary" or kind.startswith("fixed"):
        return _byte_bounds(low, high)
    return value_bytes(kind, low), value_bytes(kind, high)


def _float_bytes(kind: str, value: float) -> bytes:
    return struct.pack("<f" if kind == "float" else "<d", value)


def _text_bounds(low: str, high: str) -> tuple[bytes, bytes] | None:
    if len(high) <= _TEXT_BOUND:
        return low[:_TEXT_BOUND].encode(), high.encode()
    cut = high[:_TEXT_BOUND]
    for index in range(_TEXT_BOUND - 1, -1, -1):
        following = ord(cut[index]) + 1
        following = _SURROGATES.stop if following in _SURROGATES else following
        if following <= 0x10FFFF:
            return low[:_TEXT_BOUND].encode(), (cut[:index] + chr(following)).encode()
    return None


def _byte_bounds(low: bytes, high: bytes) -> tuple[bytes, bytes] | None:
    if len(high) <= _TEXT_BOUND:
        return low[:_TEXT_BOUND], high
    cut = high[:_TEXT_BOUND].rstrip(b"\xff")
    return (low[:_TEXT_BOUND], cut[:-1] + bytes([cut[-1] + 1])) if cut else None
