"""Records of the metadata table, and the rules that combine several versions of one
(`HoodieMetadataPayload.preCombine`, 1.2.0).

The rule depends on the kind of record:

- files of a partition, and the list of partitions: the union. A removal takes away older entries. If a file was added
  more than once, the largest size wins. A removal that finds nothing to remove stays.
- column statistics of files and of partitions: the later version replaces the earlier one if its bounds are tight or
  either is a removal; otherwise their union is kept.
- everything else: the later version replaces the earlier one.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import UnsupportedTableError
from hudi_py.file_stats.columns import DECIMAL_SCALE, ValueType
from hudi_py.formats.avro import arrow_schema, decode_values, resolve_record
from hudi_py.formats.avro import encode_values as encode_avro

SCHEMA_JSON: Final[str] = (
    resources.files(__package__).joinpath("avsc").joinpath("HoodieMetadataRecord.avsc").read_text(encoding="utf-8")
)
"""Avro JSON of the records, including the meta columns, byte for byte as Apache Hudi 1.2.0 writes it into SCHEMA
headers and HFiles, whatever the table version."""
_SCHEMA: Final[dict[str, Any]] = json.loads(SCHEMA_JSON)
RECORD: Final = resolve_record(_SCHEMA)
"""The resolved schema of the records."""
ARROW_SCHEMA: Final[pa.Schema] = arrow_schema(_SCHEMA)
"""Arrow schema of the records. Unions of wrappers (`minValue`) are structs of `member0`, `member1`, ... in the order of
their non-null branches; each member is a struct with the single field `value`."""

ALL_PARTITIONS_RECORD: Final = 1
FILES_RECORD: Final = 2
COLUMN_STATS_RECORD: Final = 3
BLOOM_FILTER_RECORD: Final = 4
RECORD_INDEX_RECORD: Final = 5
PARTITION_STATS_RECORD: Final = 6
SECONDARY_INDEX_RECORD: Final = 7


def no_keys() -> pa.StringArray:
    """Returns an empty array of keys."""
    return pa.array([], pa.string())


def no_values() -> pa.BinaryArray:
    """Returns an empty array of values."""
    return pa.array([], pa.binary())


@dataclass(frozen=True, slots=True)
class MetadataRecords:
    """Records that one index adds to its partition in one delta commit, or some of them; in any order, keys unique."""

    partition: str
    """Partition of the metadata table: `files`, `column_stats`, `record_index`, ..."""
    keys: pa.StringArray = field(default_factory=no_keys)
    """Keys of HFile entries; no nulls."""
    values: pa.BinaryArray = field(default_factory=no_values)
    """One value for each of `keys`; see `encode_values`."""
    deleted: pa.StringArray = field(default_factory=no_keys)
    """Keys that a delete block removes (record index)."""
    group: int | None = None
    """Number of the file group that takes all records; None: chosen by the hash of each key
    (`metadata.keys.file_groups`)."""
    by_prefix: bool = False
    """Whether the value in the key of a secondary index chooses the file group, rather than the whole key."""
    prefix: str | None = None
    """The part of file ids before the file group's number, if it is not the partition's own prefix: for a partitioned
    record index, `record-index-<escaped partition>`."""


def encode_values(type_: int, fields: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Encodes the values of records of one type, column by column.

    Args:
        type_: number of the record type (`FILES_RECORD`, ...).
        fields: columns of `ARROW_SCHEMA` by name, such as a struct array for `ColumnStatsMetadata`; at least one, all
            of the same length. Other columns are null.

    Raises:
        SchemaMismatchError: a value does not fit its field.
    """
    count = len(next(iter(fields.values())))
    columns: dict[str, pa.Array] = {
        "key": pa.repeat("", count),
        "type": pa.array(np.full(count, type_, np.int32)),
        **fields,
    }
    return encode_avro(pa.RecordBatch.from_pydict(columns), RECORD)


_FILES_FIELD: Final = "filesystemMetadata"
_STATS_FIELD: Final = "ColumnStatsMetadata"
_SECONDARY_FIELD: Final = "SecondaryIndexMetadata"
_NUMBERS: Final = {"member1", "member2", "member3", "member4"}
"""Members of the wrapper union: `IntWrapper`, `LongWrapper`, `FloatWrapper` and `DoubleWrapper`."""
_DAYS: Final = {"member1", "member7"}
"""`IntWrapper`, in which Apache Hudi 0.15.0 may store the days of a date, and `DateWrapper`."""
_DECIMALS: Final = {"member5", "member8"}
"""`BytesWrapper`, in which it may store the digits of a decimal to 15 places, and `DecimalWrapper`."""
_WIDE: Final = decimal.Context(prec=100)
_SUMS: Final = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")

Combine = Callable[[pa.Array, npt.NDArray[np.int64]], pa.Array]
"""Combines versions of records. Takes their values (binary, in the current schema), with the versions of a record
adjacent and oldest first, and the row at which each record begins; returns one value for each record."""


def removed_entries(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns a mask of the values (binary) of a secondary index that are removals."""
    flags = pc.struct_field(_decode_columns(values, [_SECONDARY_FIELD]).column(0), "isDeleted")
    removed: npt.NDArray[np.bool_] = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return removed


def newest(values: pa.Array, starts: npt.NDArray[np.int64]) -> pa.Array:
    """Returns the last version of each record."""
    return values.take(pa.array(_last_rows(starts, len(values))))


def combine_files(values: pa.Array, starts: npt.NDArray[np.int64], *, keeps_removals: bool = False) -> pa.Array:
    """Combines versions as `HoodieTableMetadataUtil.combineFileSystemMetadata` does, except for log files that are
    merged with each other first.

    There, a removal is lost if logs both add and remove a name, so the base file's entry for it comes back. Here, the
    newest removal applies to everything older, as it does for readers.
    """
    batch = _decode_columns(values, ["type", _FILES_FIELD])
    maps = batch.column(_FILES_FIELD)
    offsets = np.asarray(maps.offsets).astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    names = maps.keys.slice(begin, end - begin)
    items = maps.items.slice(begin, end - begin)
    sizes = np.asarray(pc.struct_field(items, "size")).astype(np.int64)
    removed = np.asarray(pc.struct_field(items, "isDeleted").to_numpy(zero_copy_only=False))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(values))))
    owner = np.repeat(group, np.diff(offsets))
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    member = owner * max(len(encoded.dictionary), 1) + codes
    # put the entries of one name of one record next to each other, oldest first
    order = np.argsort(member, kind="stable")
    member, sizes, removed = member[order], sizes[order], removed[order]
    first = np.flatnonzero(np.diff(member, prepend=-1))
    last = np.append(first[1:], len(member)) - 1 if len(first) else first
    place = np.arange(len(member))
    span = np.repeat(np.arange(len(first)), last - first + 1)
    taken_away = _reduce_groups(np.maximum, np.where(removed, place, -1), first)
    largest = _reduce_groups(np.maximum, np.where(place > taken_away[span], sizes, 0), first)
    alive = ~removed[last]
    unmatched = removed[last] & (keeps_removals | (last == first) | removed[np.maximum(last - 1, 0)])
    kept = np.flatnonzero(alive | unmatched)
    kept = kept[np.argsort(owner[order[first[kept]]], kind="stable")]
    source = order[first[kept]]
    counts = np.bincount(owner[source], minlength=len(starts))
    infos = pa.StructArray.from_arrays(
        [pa.array(np.where(alive[kept], largest[kept], 0)), pa.array(~alive[kept])], ["size", "isDeleted"]
    )
    bounds = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    merged = pa.MapArray.from_arrays(bounds, names.take(pa.array(source)), infos)
    types = batch.column("type").take(pa.array(_last_rows(starts, len(values))))
    return _encode_columns({"type": types, _FILES_FIELD: merged})


def combine_stats(values: pa.Array, starts: npt.NDArray[np.int64]) -> pa.Array:
    """Combines versions as `HoodieTableMetadataUtil.mergeColumnStatsRecords` does; for records without statistics
    (filters), see `newest`."""
    stats = _decode_columns(values, [_STATS_FIELD]).column(0)
    count = len(values)
    deleted = _read_flags(stats, "isDeleted")
    alone = deleted | _read_flags(stats, "isTightBound") | np.asarray(pc.is_null(stats).to_numpy(zero_copy_only=False))
    alone[1:] |= deleted[:-1]
    alone[starts] = True
    begin = np.maximum.accumulate(np.where(alone, np.arange(count), 0))
    last = _last_rows(starts, count)
    result = values.take(pa.array(last))
    united = np.flatnonzero(begin[last] < last)
    if not len(united):
        return result
    batch = _decode_columns(values, ARROW_SCHEMA.names)
    rows: list[dict[str, Any]] = []
    # records whose bounds are not tight are rare: Apache Hudi computes tight ones wherever it has column statistics
    for number in united.tolist():
        chain = batch.slice(int(begin[last[number]]), int(last[number] - begin[last[number]]) + 1).to_pylist()
        merged = chain[0][_STATS_FIELD]
        for later in chain[1:]:
            merged = _unite_stats(merged, later[_STATS_FIELD])
        rows.append({**chain[-1], _STATS_FIELD: merged})
    union = _encode_columns({f.name: pa.array([row[f.name] for row in rows], f.type) for f in ARROW_SCHEMA})
    picked = np.arange(len(starts))
    picked[united] = len(starts) + np.arange(len(united))
    return pa.concat_arrays([result, union]).take(pa.array(picked))


def _unite_stats(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    before, after = _in_one_scale(before, after)
    merged = dict(after)
    if not after["minValue"] and not after["maxValue"]:
        merged["valueType"] = before.get("valueType")
    merged["minValue"] = _pick_bound([before, after], "minValue", min)
    merged["maxValue"] = _pick_bound([before, after], "maxValue", max)
    for name in _SUMS:
        merged[name] = None if None in (before[name], after[name]) else before[name] + after[name]
    return merged


def _pick_bound(records: Sequence[dict[str, Any]], name: str, choose: Callable[..., Any]) -> dict[str, Any] | None:
    """Returns the lesser or the greater of the bounds of records, each a union of wrappers; nulls are ignored."""
    bounds = [(*bound, stats[name]) for stats in records if (bound := _read_bound(stats, name)) is not None]
    if len({member for member, _, _ in bounds}) > 1:
        raise UnsupportedTableError(
            f"Cannot compact the metadata table: the statistics of the column {records[0].get('columnName')!r} in "
            f"{records[0].get('fileName')} have several types, which Apache Hudi does not merge either; rebuild its "
            "column statistics"
        )
    if not bounds:
        return None
    chosen: dict[str, Any] = choose(bounds, key=lambda entry: _comparison_key(entry[1]))[2]
    return chosen


def covers(outer: Mapping[str, Any], inner: Mapping[str, Any], name: str) -> bool:
    """Returns whether the bound `name` of one record includes that of another. False if their types differ, unless both
    are numbers: files written before a column was widened keep their type."""
    bound, other = _read_bound(outer, name), _read_bound(inner, name)
    if other is None:
        return True
    if bound is None:
        return False
    kinds = {bound[0], other[0]}
    if len(kinds) > 1 and not any(kinds <= alike for alike in (_NUMBERS, _DAYS, _DECIMALS)):
        return False
    least, greatest = (bound[1], other[1]) if name == "minValue" else (other[1], bound[1])
    if len(kinds) > 1:
        least, greatest = (_as_number(bound_value) for bound_value in (least, greatest))
    return bool(_comparison_key(least) <= _comparison_key(greatest))


def _read_bound(stats: Mapping[str, Any], name: str) -> tuple[str, Any] | None:
    """Returns the wrapper of a bound and its value; decimals that are stored as bytes become numbers. None: there is
    no bound."""
    union = stats.get(name)
    member, held = next(((member, held) for member, held in (union or {}).items() if held is not None), ("", None))
    if held is None:
        return None
    scale = _decimal_scale(stats)
    if scale is None or not isinstance(held["value"], bytes):
        return member, held["value"]
    return member, _to_decimal(held["value"]).scaleb(-scale, _WIDE)


def _decimal_scale(stats: Mapping[str, Any]) -> int | None:
    """Returns the scale of the decimals that a record names as its type; None: its bounds have another type."""
    info = stats.get("valueType") or {}
    if info.get("typeOrdinal") != ValueType.DECIMAL:
        return None
    return int((info.get("additionalInfo") or "").partition(",")[2] or 0)


def _in_one_scale(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Converts the decimal bounds of two records to the greater of their scales, which differ after a change of the
    column's type."""
    scales = _decimal_scale(before), _decimal_scale(after)
    if scales[0] is None or scales[1] is None or scales[0] == scales[1]:
        return before, after
    info = (before if scales[0] > scales[1] else after)["valueType"]
    one, other = (_rescale_decimals({**stats, "valueType": info}, stats) for stats in (before, after))
    return one, other


def _rescale_decimals(to: dict[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    scale = _decimal_scale(to) or 0
    for name in ("minValue", "maxValue"):
        bound = _read_bound(stats, name)
        if bound is not None and isinstance(bound[1], decimal.Decimal):
            number = int(bound[1].scaleb(scale, _WIDE))
            # the shortest two's complement, as `BigInteger.toByteArray`
            size = (number + (number < 0)).bit_length() // 8 + 1
            to[name] = {**stats[name], bound[0]: {"value": number.to_bytes(size, "big", signed=True)}}
    return to


def _to_decimal(data: bytes) -> decimal.Decimal:
    return decimal.Decimal(int.from_bytes(data, "big", signed=True))


def _as_number(value: Any) -> Any:
    if isinstance(value, bytes):
        return _to_decimal(value).scaleb(-DECIMAL_SCALE, _WIDE)
    return decimal.Decimal(value) if isinstance(value, int) else value


def _comparison_key(value: Any) -> Any:
    """Returns a key by which values compare as they do for readers: texts and bytes bytewise. Apache Hudi 1.2.0
    compares bytes, including those of decimals, as signed ones, and texts by UTF-16, so that its unions leave out
    values."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, float) and value != value:
        return decimal.Decimal("Infinity"), 1  # NaN sorts after all numbers
    return (decimal.Decimal(value), 0) if isinstance(value, float | decimal.Decimal) else value


def _read_flags(stats: pa.Array, name: str) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = pc.fill_null(pc.struct_field(stats, name), False).to_numpy(zero_copy_only=False)
    return np.array(flags)


def _last_rows(starts: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    last: npt.NDArray[np.int64] = np.append(starts[1:], count) - 1
    return last


def _reduce_groups(function: np.ufunc, values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Applies `reduceat`, except to empty input, on which it fails."""
    reduced: npt.NDArray[Any] = function.reduceat(values, starts) if len(starts) else values[:0]
    return reduced


def _decode_columns(values: pa.Array, columns: list[str]) -> pa.RecordBatch:
    batches = list(decode_values(values, RECORD, columns, context="records of the metadata table"))
    return pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=len(values))[0]


def _encode_columns(columns: dict[str, pa.Array]) -> pa.Array:
    count = len(columns["type"])
    return encode_avro(pa.RecordBatch.from_pydict({"key": pa.repeat("", count), **columns}), RECORD)
