"""Collects entries of a record index, the location of each key or its removal, from many files in bounded memory, and
reduces them to one for each key."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.metadata.keys import file_groups
from hudi_py.metadata.locations import partition_groups
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.metadata_write.encoding.records import (
    RECORD_INDEX_RECORD,
    MetadataRecords,
    encode_values,
    no_keys,
    no_values,
)
from hudi_py.write.rows import PartitionedRows

_UUID: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(\d{1,9}))?", re.ASCII)
_NO_INDEX: Final = -1
_BY_UUID, _RAW = 0, 1
_GONE: Final = -1
_KEY, _PLACE = "key", "place"
_SCHEMA: Final = pa.schema([(_KEY, pa.string()), (_PLACE, pa.int32())])
_BUDGET: Final = 256 << 20
_BUCKETS: Final = 64
"""Number of parts into which entries that do not fit into memory are split by key hash; one is in memory at a time."""
_CHUNK_ROWS: Final = 1 << 18
Numbers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """A location of records and its instant, shared by all keys of a file group."""

    partition: str
    file_id: str
    instant_ms: int
    """Instant that wrote them there, in milliseconds since the epoch."""


Arrived = Callable[[pa.StringArray, Sequence[RecordLocation], Numbers], None]


class RecordEntries:
    """Collects entries of a record index in any order and reduces them to one per key. A context manager: leaving it
    removes spilled data from the local disk.

    Args:
        by_partition: whether keys are unique only within their data partition.
        budget: bytes of keys held in memory.
    """

    def __init__(self, *, by_partition: bool, budget: int = _BUDGET) -> None:
        self._by_partition = by_partition
        self._budget = budget
        self._places: list[RecordLocation] = []
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._size = 0
        self._spilled: PartitionedRows | None = None
        self.repeated: str | None = None
        """A key that was added at several places, among the entries that `records` and `reduced` have returned so
        far."""

    def __enter__(self) -> RecordEntries:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.clear()
        if self._spilled is not None:
            self._spilled.__exit__(kind, error, trace)

    def place(self, location: RecordLocation) -> int:
        """Returns a number for a location, for `add`. If a key has two locations, the greater number wins."""
        self._places.append(location)
        return len(self._places) - 1

    def add(self, keys: pa.Array, place: int) -> None:
        """Adds keys (string) at a place, given by its number."""
        self._hold_keys(keys, place, self._places[place].partition)

    def remove(self, keys: pa.Array, partition: str) -> None:
        """Removes keys (string) from a data partition, unless they are added as well."""
        self._hold_keys(keys, _GONE, partition)

    def records(
        self, new: Callable[[pa.StringArray, list[RecordLocation], Numbers], None] | None = None
    ) -> Iterator[MetadataRecords]:
        """Yields all entries, in chunks of bounded size; keys are unique across chunks (within their data partition).

        Args:
            new: called with the keys that were added and not removed, all places, and the number of each key's place.
        """
        fields = _location_fields(self._places)
        for prefix, table, arrived in self._reduce_each():
            if new is not None and arrived.any():
                some = table.filter(pa.array(arrived))
                new(combined(some[_KEY]), self._places, combined(some[_PLACE]).to_numpy())
            yield from _encode_records(prefix, table, fields)

    def reduced(self) -> Iterator[tuple[str, pa.Table]]:
        """Yields all entries in tables of bounded size, each with the prefix of its file groups: `key` (string, unique)
        and `place` (int32, negative: removed)."""
        return ((prefix, table) for prefix, table, _ in self._reduce_each())

    def _reduce_each(self) -> Iterator[tuple[str, pa.Table, Mask]]:
        """Yields the tables of `reduced`, and which keys were both added and not removed."""
        spilled = self._spilled
        if spilled is None:
            for prefix, batches in self._held.items():
                yield prefix, *self._reduce_table(pa.Table.from_batches(batches, _SCHEMA))
            return
        for name in spilled.partitions:
            yield name.partition(" ")[2], *self._reduce_table(spilled.table(name))

    def _reduce_table(self, table: pa.Table) -> tuple[pa.Table, Mask]:
        """Returns one row for each key, the one with the greatest place; keys ascend."""
        order = pc.sort_indices(table, sort_keys=[(_KEY, "ascending"), (_PLACE, "ascending")])
        table = table.take(order).combine_chunks()
        keys, places = combined(table[_KEY]), combined(table[_PLACE]).to_numpy()
        if len(keys) < 2:
            return table, places >= 0
        other = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
        if other.all():
            return table, places >= 0
        again = np.flatnonzero(~other & (places[:-1] >= 0) & (places[:-1] != places[1:]))
        if len(again) and self.repeated is None:
            self.repeated = keys[int(again[0])].as_py()
        first, last = np.append(True, other), np.append(other, True)
        return table.filter(pa.array(last)), places[first] >= 0

    def _hold_keys(self, keys: pa.Array, place: int, partition: str) -> None:
        if not len(keys):
            return
        prefix = partition_groups(partition) if self._by_partition else ""
        places = pa.repeat(pa.scalar(place, pa.int32()), len(keys))
        batch = pa.RecordBatch.from_arrays([keys.cast(pa.string()), places], schema=_SCHEMA)
        if self._spilled is not None:
            self._spill_batch(prefix, batch)
            return
        self._held.setdefault(prefix, []).append(batch)
        self._size += batch.nbytes
        if self._size > self._budget:
            self._spilled = PartitionedRows(_SCHEMA, self._budget)
            for prefix, batches in self._held.items():
                for held in batches:
                    self._spill_batch(prefix, held)
            self._held.clear()

    def _spill_batch(self, prefix: str, batch: pa.RecordBatch) -> None:
        assert self._spilled is not None
        names = pa.array([f"{bucket} {prefix}" for bucket in range(_BUCKETS)], pa.string())
        self._spilled.add(batch, names.take(pa.array(file_groups(batch.column(0), _BUCKETS))))


def _encode_records(prefix: str, table: pa.Table, fields: pa.StructArray) -> Iterator[MetadataRecords]:
    for start in range(0, table.num_rows, _CHUNK_ROWS):
        part = table.slice(start, _CHUNK_ROWS)
        keys, places = combined(part[_KEY]), combined(part[_PLACE])
        there = pc.greater_equal(places, 0)
        live = keys.filter(there)
        values = no_values()
        if len(live):
            values = encode_values(RECORD_INDEX_RECORD, {"recordIndexMetadata": fields.take(places.filter(there))})
        gone = keys.filter(pc.invert(there)) if len(live) < len(keys) else no_keys()
        yield MetadataRecords(RECORD_INDEX, live, values, gone, prefix=prefix or None)


def _location_fields(places: Sequence[RecordLocation]) -> pa.StructArray:
    """Builds `HoodieRecordIndexInfo` of each location (`HoodieMetadataPayload.createRecordIndexUpdate`, 1.2.0). File
    ids that are not UUIDs are stored as they are."""
    rows = []
    for place in places:
        matched = _UUID.fullmatch(place.file_id)
        high, low, index, text, encoding = -1, -1, _NO_INDEX, place.file_id, _RAW
        if matched is not None:
            bits = uuid.UUID(matched[1]).int
            high, low = _to_signed(bits >> 64), _to_signed(bits & 0xFFFFFFFFFFFFFFFF)
            index, text, encoding = (_NO_INDEX if matched[2] is None else int(matched[2])), "", _BY_UUID
        rows.append((place.partition, high, low, index, text, place.instant_ms, encoding, None))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(_INFO)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _INFO, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(_INFO))


_INFO: Final = pa.schema(
    [
        ("partitionName", pa.string()),
        ("fileIdHighBits", pa.int64()),
        ("fileIdLowBits", pa.int64()),
        ("fileIndex", pa.int32()),
        ("fileId", pa.string()),
        ("instantTime", pa.int64()),
        ("fileIdEncoding", pa.int32()),
        ("position", pa.int64()),
    ]
)


def _to_signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
