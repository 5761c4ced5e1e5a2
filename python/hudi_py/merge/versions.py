"""Holds versions of records from log blocks in memory: data rows and delete entries.

The records of delete blocks become tables of entries: keys, positions, and ordering values in the types of the ordering
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.arrays import combined, is_text
from hudi_py.formats.log import Deletes
from hudi_py.merge.keys import as_computed
from hudi_py.merge.ordering import default_mask
from hudi_py.merge.reduce import Mask, Rows, Versions, delete_marks, row_ordering
from hudi_py.merge.settings import MergeSettings
from hudi_py.schema import RECORD_KEY
from hudi_py.schema.paths import type_at

KEY = "key"
PARTITION = "partition"
POSITION = "position"
DEFAULT = "default"
INSTANT = "instant"


@dataclass(frozen=True, slots=True)
class LogVersions:
    """Versions in any order, with their positions in the log."""

    rows: pa.Table
    """Data rows with `_hoodie_record_key`."""
    position: Rows
    """Position of each row in the log, where delete entries count too."""
    entries: pa.Table
    """Delete entries, see `entries.entry_schema`."""
    absent: Mapping[str, Mask]
    """Columns that some rows lack because their block holds partial updates, with a mask of those rows."""
    partial_from: int | None = None
    """Position of the first version in a block of partial updates."""
    content_bytes: int = 0
    """Bytes of the log blocks that they were decoded from."""
    block_records: tuple[int, ...] = ()
    """Number of records of each of those blocks, in order; empty if only some of their records are included."""

    def __len__(self) -> int:
        return int(self.rows.num_rows + self.entries.num_rows)

    @property
    def nbytes(self) -> int:
        absent = sum(mask.nbytes for mask in self.absent.values())
        return int(self.rows.nbytes + self.entries.nbytes + self.position.nbytes + absent)

    def places(self) -> Rows:
        """Returns positions of the rows, then of the entries."""
        return np.concatenate([self.position, combined(self.entries[POSITION]).to_numpy(zero_copy_only=False)])

    def as_versions(self, settings: MergeSettings) -> Versions:
        """Returns rows, then entries, as input of a reduction."""
        count, entries = self.rows.num_rows, self.entries.num_rows
        ordering = row_ordering(self.rows, settings)
        marks = np.ones(count + entries, np.bool_)
        marks[:count] = delete_marks(self.rows, settings)
        entry_defaults = combined(self.entries[DEFAULT]).to_numpy(zero_copy_only=False)
        return Versions(
            keys=pa.concat_arrays([combined(self.rows[RECORD_KEY]), combined(self.entries[KEY])]),
            position=self.places(),
            deletes=marks,
            entries=np.arange(count + entries) >= count,
            defaults=np.concatenate([default_mask(ordering, count), entry_defaults]).astype(np.bool_),
            ordering=tuple(
                pa.concat_arrays([own, combined(self.entries[str(index)])]) for index, own in enumerate(ordering)
            ),
        )


def concat_versions(parts: Sequence[LogVersions]) -> LogVersions:
    """Concatenates all versions of the parts, of which there must be at least one."""
    if len(parts) == 1:
        return parts[0]
    names = {name for part in parts for name in part.absent}
    absent = {}
    for name in names:
        masks = [part.absent.get(name, np.zeros(part.rows.num_rows, np.bool_)) for part in parts]
        absent[name] = np.concatenate(masks)
    starts = [part.partial_from for part in parts if part.partial_from is not None]
    return LogVersions(
        pa.concat_tables([part.rows for part in parts]),
        np.concatenate([part.position for part in parts]),
        pa.concat_tables([part.entries for part in parts]),
        absent,
        min(starts, default=None),
        sum(part.content_bytes for part in parts),
        tuple(count for part in parts for count in part.block_records),
    )


def entry_schema(schema: pa.Schema, settings: MergeSettings) -> pa.Schema:
    """Returns the schema of delete entries: `key`, `partition` (string), `position` (int64), `default` (bool: whether
    the ordering value is the default), `instant` of the block (string), and a column `0`, `1`, ... for each ordering
    field."""
    fields = [
        pa.field(KEY, pa.string()),
        pa.field(PARTITION, pa.string()),
        pa.field(POSITION, pa.int64()),
        pa.field(DEFAULT, pa.bool_()),
        pa.field(INSTANT, pa.string()),
    ]
    return pa.schema(
        fields + [pa.field(str(index), kind) for index, kind in enumerate(ordering_types(schema, settings))]
    )


def ordering_types(schema: pa.Schema, settings: MergeSettings) -> list[pa.DataType]:
    """Returns the types of the ordering values; int32 (nulls) for a column that the table lacks."""
    if not settings.ordered:
        return []
    return [type_at(schema, name) or pa.int32() for name in settings.ordering_fields]


def entry_table(
    deletes: Deletes, start: int, schema: pa.Schema, settings: MergeSettings, instant: str, path: str
) -> pa.Table:
    """Converts delete entries to a table of `entry_schema`.

    Args:
        start: position of the first entry in the log.
        instant: requested time of the block.
        path: log file, for errors.

    Raises:
        UnsupportedTableError: the number of ordering values per entry differs from the table's ordering fields, or see
            `as_computed`.
    """
    count = len(deletes.keys)
    columns, defaults = _typed_ordering(deletes, ordering_types(schema, settings), path)
    keys = deletes.keys.cast(pa.string())
    if settings.key_fields:
        keys = as_computed(keys, schema, settings.key_fields, named=settings.names_key, path=path)
    arrays = [
        keys,
        deletes.partitions.cast(pa.string()),
        pa.array(np.arange(start, start + count, dtype=np.int64)),
        pa.array(defaults),
        pa.repeat(pa.scalar(instant, pa.string()), count),
        *columns,
    ]
    return pa.Table.from_arrays(arrays, schema=entry_schema(schema, settings))


def _typed_ordering(entry: Deletes, like: Sequence[pa.DataType], path: str) -> tuple[tuple[pa.Array, ...], Mask]:
    """Converts a delete block's ordering values to the columns' types; also returns which entries have the default
    value.

    A value of another type than the column's counts as the default: in Java such a delete wins over every data row
    (`OrderingValues.isSameClass`), and any further comparison fails.
    """
    count = len(entry.keys)
    defaults = np.array(entry.is_default, np.bool_)
    nulls = tuple(pa.nulls(count, kind) for kind in like)
    if not like or entry.ordering is None or defaults.all():
        return nulls, np.ones(count, np.bool_) if entry.ordering is None else defaults
    if len(like) > 1:
        parts = _array_parts(entry.ordering, len(like))
        if parts is None:
            raise UnsupportedTableError(
                f"Delete block of {path} orders by {entry.ordering.type}, the table by {len(like)} fields; supported "
                "are delete blocks with one value for each ordering field"
            )
    else:
        parts = [entry.ordering]
    converted = [_as_column(part, kind) for part, kind in zip(parts, like, strict=True)]
    if any(part is None for part in converted):
        return nulls, np.ones(count, np.bool_)
    return tuple(part for part in converted if part is not None), defaults


def _array_parts(ordering: pa.Array, fields: int) -> list[pa.Array] | None:
    """Returns the members of ordering values with several fields; None if their number differs."""
    matches = pa.types.is_struct(ordering.type) and ordering.type.num_fields == fields
    return list(ordering.flatten()) if matches else None


def _as_column(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Converts ordering values of a delete block to an ordering column's type; None if Java cannot compare the two
    types."""
    source = values.type
    if source.equals(kind):
        return values
    if pa.types.is_timestamp(kind):
        if pa.types.is_timestamp(source):
            values = values.cast(pa.timestamp("us", source.tz)).view(pa.int64())
        if not pa.types.is_integer(values.type):
            return None
        # timestamps are longs of microseconds in Java's rows
        micros = values.cast(pa.int64()).view(pa.timestamp("us", kind.tz))
        return micros.cast(kind, safe=False)
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).view(kind) if pa.types.is_integer(source) else None
    numeric = pa.types.is_integer(source) or pa.types.is_floating(source)
    if numeric and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return values.cast(kind, safe=False)
    if pa.types.is_decimal(source) and pa.types.is_decimal(kind):
        return values.cast(kind, safe=False)
    if all(is_text(item) or pa.types.is_binary(item) for item in (source, kind)):
        return values.cast(kind)
    return None
