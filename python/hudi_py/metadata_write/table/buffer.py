"""Buffers records on their way to file groups: splits, spills and returns them by group, in key order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.temporary import TemporaryFiles
from hudi_py.metadata.keys import file_groups, secondary_prefixes
from hudi_py.metadata_write.encoding.records import MetadataRecords
from hudi_py.storage.threads import REQUESTS, in_threads, processors

T = TypeVar("T")

HELD_BYTES: Final = 128 << 20
"""Bytes of records held in memory before they are spilled to disk."""
_THREADS: Final = 8
_LARGE_ROWS: Final = 8192
"""Number of rows in a file group above which compressing them takes longer than handing them to a thread."""
_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])

GroupKey = tuple[str, str, int]
"""Partition of the metadata table, prefix of its file ids, number of the file group."""


@dataclass(slots=True)
class _HeldRecords:
    held: list[pa.RecordBatch] = field(default_factory=list)
    spilled: str | None = None
    sink: pa.RecordBatchFileWriter | None = None


class GroupBuffer(TemporaryFiles):
    """Takes records of any file groups in any order. A context manager: leaving it removes spilled data.

    A null value deletes its key.
    """

    def __init__(
        self, count_groups: Callable[[str, str | None], tuple[str, int]], held_bytes: int = HELD_BYTES
    ) -> None:
        """`count_groups`: maps a partition and an optional prefix to the prefix and its number of file groups."""
        super().__init__("hudi-py-metadata-")
        self._count_groups = count_groups
        self._limit = held_bytes
        self._groups: dict[GroupKey, _HeldRecords] = {}
        self._held = 0

    def close(self) -> None:
        """See `TemporaryFiles.close`; forgets the records in memory, too."""
        for group in self._groups.values():
            if group.sink is not None:
                group.sink.close()
        self._groups.clear()
        super().close()

    def add(self, records: MetadataRecords) -> None:
        """Splits a chunk of records by file group."""
        prefix, count = self._count_groups(records.partition, records.prefix)
        self._split(records, prefix, count, records.keys, records.values)
        self._split(records, prefix, count, records.deleted, pa.nulls(len(records.deleted), pa.binary()))
        if self._held > self._limit:
            self._spill()

    def groups(self) -> Iterator[tuple[GroupKey, pa.Table]]:
        """Each group's records, sorted by key bytes: columns `key` and `value`, both binary."""
        for key in sorted(self._groups):
            group = self._groups[key]
            batches = list(group.held)
            if group.sink is not None and group.spilled is not None:
                group.sink.close()
                group.sink = None
                with pa.memory_map(group.spilled) as source:
                    table = pa.concat_tables(
                        [pa.ipc.open_file(source).read_all(), pa.Table.from_batches(batches, _SCHEMA)]
                    )
                    yield key, _sorted(table)
                continue
            yield key, _sorted(pa.Table.from_batches(batches, _SCHEMA))

    def write(self, work: Callable[[int, GroupKey, pa.Table], T], *, waits: bool = True) -> list[T]:
        """The results of `work` for each group, called with its number, key and records; in key order.

        Groups are processed in parallel, but only a few large ones at a time; few records one after the other, unless
        `work` mostly `waits` for a storage.
        """
        results: list[T] = []
        waiting: list[tuple[int, GroupKey, pa.Table]] = []
        threads = min(_THREADS, processors())
        held = 0
        for number, (key, rows) in enumerate(self.groups()):
            waiting.append((number, key, rows))
            held += rows.num_rows
            if len(waiting) == REQUESTS or (len(waiting) >= threads and held >= threads * _LARGE_ROWS):
                results += in_threads(lambda task: work(*task), waiting)
                waiting, held = [], 0
        few = not waits and held < _LARGE_ROWS
        return results + in_threads(lambda task: work(*task), waiting, 1 if few else REQUESTS)

    def _split(self, records: MetadataRecords, prefix: str, count: int, keys: pa.Array, values: pa.Array) -> None:
        if not len(keys):
            return
        batch = pa.RecordBatch.from_arrays([keys.cast(pa.binary()), values.cast(pa.binary())], schema=_SCHEMA)
        if records.group is not None or count == 1:
            self._hold((records.partition, prefix, records.group or 0), batch)
            return
        texts = keys.cast(pa.string())
        numbers = file_groups(secondary_prefixes(texts) if records.by_prefix else texts, count)
        order = np.argsort(numbers, kind="stable")
        batch = batch.take(pa.array(order))
        bounds = np.searchsorted(numbers[order], np.arange(count + 1))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            begin, end = int(bounds[number]), int(bounds[number + 1])
            self._hold((records.partition, prefix, number), batch.slice(begin, end - begin))

    def _hold(self, key: GroupKey, batch: pa.RecordBatch) -> None:
        self._groups.setdefault(key, _HeldRecords()).held.append(batch)
        self._held += batch.nbytes

    def _spill(self) -> None:
        for number, group in enumerate(self._groups.values()):
            if not group.held:
                continue
            if group.sink is None:
                group.spilled = self.file(f"{number}.arrow")
                group.sink = pa.ipc.new_file(group.spilled, _SCHEMA)
            for batch in group.held:
                group.sink.write_batch(batch)
            group.held.clear()
        self._held = 0


def _sorted(table: pa.Table) -> pa.Table:
    return table.take(pc.sort_indices(table["key"]))
