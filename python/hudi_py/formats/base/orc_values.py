"""Converts values between ORC files and Arrow, for types that differ (`AvroOrcUtils`, Apache Hudi 1.2.0).

A timestamp with a zone is ORC's TIMESTAMP: wall-clock time in the zone of the process. A timestamp without a zone is
the number that Avro would store, and a fixed is bytes. Every other type is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.avro.schema import Array, Choice, Integer, Map, Node, Nullable, Record
from hudi_py.formats.base.reader import canonical_type

UTC_NAMES: Final = ("UTC", "Etc/UTC", "+00:00")
_MICROS: Final = pa.timestamp("us")
_LEAST, _GREATEST = -(2**63) // 1000 + 1, (2**63) // 1000 - 1
"""Range of Arrow's reader, which has nanoseconds, in microseconds since the epoch: the years 1677 to 2262."""

_FIRST_DAY: Final = (date(1582, 10, 15) - date(1970, 1, 1)).days
"""First day of the Gregorian calendar. In ORC files Spark takes earlier days for days of the Julian calendar."""

Leaf = Callable[[pa.Array, pa.DataType, Node | None], pa.Array]
"""Converts non-nested values to a type."""


def read_type(stored: pa.DataType, node: Node | None) -> pa.DataType:
    """Returns the Arrow type of a column.

    Args:
        stored: its type in the file.
        node: its type in the file's Avro schema; None: not known.
    """
    kind = canonical_type(stored)
    node = _present_node(node)
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if types.is_int64(kind):
        return _MICROS if _is_local_time(node) else kind
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(read_type(kind.value_type, _element_node(node))))
    if types.is_map(kind):
        return pa.map_(kind.key_type, read_type(kind.item_type, _element_node(node)))
    if types.is_struct(kind):
        members = _member_nodes(node)
        return pa.struct([child.with_type(read_type(child.type, members.get(child.name))) for child in kind])
    return kind


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column for Arrow's ORC writer."""
    types = pa.types
    if types.is_timestamp(kind):
        return pa.int64() if kind.tz is None else _MICROS
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(stored_type(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(stored_type(kind.item_type)))
    if types.is_struct(kind):
        return pa.struct([child.with_type(stored_type(child.type)) for child in kind])
    return kind


def unwritable(node: Node) -> str:
    """Returns why ORC files cannot hold a column of an Avro type; empty if they can."""
    for item in _walk_nodes(node):
        if isinstance(item, Choice):
            return "it is a union of several types"
        if isinstance(item, Integer) and pa.types.is_timestamp(item.arrow) and item.arrow.unit == "ns":
            return "it has timestamps in nanoseconds"
    return ""


def from_orc(array: pa.Array, kind: pa.DataType, node: Node | None, zone: str) -> pa.Array:
    """Converts values of a file to Arrow.

    Args:
        kind: `read_type` of the column.
        zone: zone of the file's wall-clock timestamps, a name in the time zone database.
    """

    def leaf(values: pa.Array, target: pa.DataType, node: Node | None) -> pa.Array:
        if pa.types.is_timestamp(values.type):
            return _wall_instants(values, target, zone)
        if pa.types.is_timestamp(target):
            factor = node.factor if isinstance(node, Integer) else 1
            return (values if factor == 1 else pc.multiply_checked(values, factor)).view(target)
        return pc.cast(values, target, safe=False)

    return _rebuild_column(array, kind, node, leaf)


def to_orc(array: pa.Array, node: Node, zone: str, column: str) -> pa.Array:
    """Converts Arrow values for Arrow's ORC writer.

    Args:
        zone: zone in which timestamps become wall-clock time.
        column: for messages.

    Raises:
        UnsupportedTableError: a date is before 1582-10-15, or a timestamp is not in the years 1678 to 2261, before 1970
            and not a whole second, or of a wall-clock time that occurs twice.
    """

    def leaf(values: pa.Array, target: pa.DataType, node: Node | None) -> pa.Array:
        if not pa.types.is_timestamp(values.type):
            return values.cast(target)
        if values.type.tz is not None:
            return _wall_clock(values, zone, column)
        numbers = values.cast(_MICROS).view(pa.int64())
        factor = node.factor if isinstance(node, Integer) else 1
        return numbers if factor == 1 else _floored_millis(numbers, factor)

    # Arrow's ORC writer reads the structs of a slice from the start of the whole array
    whole = pa.concat_arrays([array]) if pa.types.is_nested(array.type) else array
    for days in _dates_within(whole):
        least = pc.min(days)
        if least.is_valid and least.cast(pa.int32()).as_py() < _FIRST_DAY:
            raise UnsupportedTableError(
                f"Cannot write column '{column}' to an ORC file: it has the date {least.cast(pa.string()).as_py()}, "
                "and queries of Apache Hudi show other days for dates before 1582-10-15; use Parquet base files"
            )
    return _rebuild_column(whole, stored_type(array.type), node, leaf)


def _wall_instants(values: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    micros = pc.cast(values, pa.timestamp("us", values.type.tz), safe=False)
    if values.type.tz is not None or zone in UTC_NAMES:
        return micros.cast(target)
    return pc.assume_timezone(micros, zone, ambiguous="earliest", nonexistent="latest").cast(target)


def _wall_clock(values: pa.Array, zone: str, column: str) -> pa.Array:
    micros = values.cast(pa.timestamp("us", "UTC"))
    wall = micros.cast(_MICROS) if zone in UTC_NAMES else pc.local_timestamp(micros.cast(pa.timestamp("us", zone)))
    bounds = pc.min_max(wall.view(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < _LEAST or high > _GREATEST):
        odd = low if low < _LEAST else high
        raise UnsupportedTableError(
            f"Cannot write column '{column}' to an ORC file: it has a timestamp {odd} microseconds from 1970 on; "
            "supported: those of the years 1678 to 2261; use Parquet base files"
        )
    if low is not None and low < 0:
        _check_before_1970(wall, column)
    if zone not in UTC_NAMES:
        for which in ("earliest", "latest"):
            back = pc.assume_timezone(wall, zone, ambiguous=which, nonexistent="latest")
            other = pc.fill_null(pc.not_equal(back.view(pa.int64()), micros.view(pa.int64())), False)
            if pc.any(other).as_py():
                index = pc.index(other, True).as_py()
                raise UnsupportedTableError(
                    f"Cannot write column '{column}' to an ORC file: the time {wall[index].as_py()} of the zone {zone} "
                    "occurs twice, and Apache Hudi's ORC files hold timestamps as wall-clock times; write and read the "
                    "table with TZ=UTC, in Apache Hudi -Duser.timezone=UTC, or use Parquet base files"
                )
    return wall


def _dates_within(array: pa.Array) -> Iterator[pa.Array]:
    """Yields the dates within a column."""
    kind = array.type
    if pa.types.is_date(kind):
        yield array
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _dates_within(child)
    elif pa.types.is_map(kind):
        yield from _dates_within(array.items)
    elif pa.types.is_list(kind):
        yield from _dates_within(array.flatten())


def _check_before_1970(wall: pa.Array, column: str) -> None:
    """Refuses fractions of seconds before 1970: Arrow and `AvroOrcUtils` store them in a form on which Apache
    Hudi's queries fail ("nanos > 999999999 or < 0")."""
    numbers = pc.fill_null(wall.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero((numbers < 0) & (numbers % 1_000_000 != 0))
    if len(odd):
        raise UnsupportedTableError(
            f"Cannot write column '{column}' to an ORC file: it has the time {wall[odd[0]].as_py()}, and queries of "
            "Apache Hudi fail for times before 1970 that are not whole seconds; use Parquet base files"
        )


def _floored_millis(numbers: pa.Array, factor: int) -> pa.Array:
    """Rounds times down to whole milliseconds, as Spark does."""
    valid = pc.is_valid(numbers)
    whole = np.floor_divide(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), factor)
    return pc.if_else(valid, pa.array(whole, pa.int64()), pa.scalar(None, pa.int64()))


def _rebuild_column(array: pa.Array, kind: pa.DataType, node: Node | None, leaf: Leaf) -> pa.Array:
    """Rebuilds a column as type `kind` with converted leaves."""
    source, node = array.type, _present_node(node)
    if source.equals(kind) and not pa.types.is_timestamp(source):
        return array
    mask = pc.is_null(array) if array.null_count else None
    if pa.types.is_struct(source):
        members = _member_nodes(node)
        children = [
            _rebuild_column(child, field.type, members.get(field.name), leaf)
            for child, field in zip(array.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(source) or pa.types.is_large_list(source):
        whole = array if array.offset == 0 else pa.concat_arrays([array])
        child = _rebuild_column(whole.values, kind.value_type, _element_node(node), leaf)
        return pa.ListArray.from_arrays(whole.offsets.cast(pa.int32()), child, type=kind, mask=mask)
    if pa.types.is_map(source):
        whole = array if array.offset == 0 else pa.concat_arrays([array])
        keys = _rebuild_column(whole.keys, kind.key_type, None, leaf)
        items = _rebuild_column(whole.items, kind.item_type, _element_node(node), leaf)
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        buffers = whole.buffers()
        return pa.Array.from_buffers(
            kind, len(whole), [buffers[0], buffers[1]], null_count=whole.null_count, children=[entries]
        )
    return leaf(array, kind, node)


def _present_node(node: Node | None) -> Node | None:
    return node.value if isinstance(node, Nullable) else node


def _element_node(node: Node | None) -> Node | None:
    node = _present_node(node)
    if isinstance(node, Array):
        return node.item
    return node.value if isinstance(node, Map) else None


def _member_nodes(node: Node | None) -> dict[str, Node]:
    node = _present_node(node)
    return dict(node.fields) if isinstance(node, Record) else {}


def _is_local_time(node: Node | None) -> bool:
    return isinstance(node, Integer) and pa.types.is_timestamp(node.arrow) and node.arrow.tz is None


def _walk_nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Record):
        for _, item in node.fields:
            yield from _walk_nodes(item)
        return
    inner = node.value if isinstance(node, Nullable) else _element_node(node)
    if inner is not None:
        yield from _walk_nodes(inner)
