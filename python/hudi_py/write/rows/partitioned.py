"""Keeps incoming rows by share, in memory up to a budget and on the local disk beyond it.

A share consists of the rows that are written together: those of a partition, or of a file group or bucket in it. Its
name is the partition path, followed by NUL and the owner if it is not the whole partition.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.temporary import TemporaryFiles
from hudi_py.model.names import PartitionPath

_SEPARATOR = "\0"


def share_names(partitions: pa.StringArray | str, owners: pa.StringArray) -> pa.StringArray:
    """Returns the names of shares."""
    return pc.binary_join_element_wise(partitions, owners, _SEPARATOR)


def share_name(partition: str, owner: object) -> str:
    """Returns the name of a share."""
    return f"{partition}{_SEPARATOR}{owner}"


def split_share(name: str) -> tuple[PartitionPath, str | None]:
    """Returns the partition and the owner of a share; None for a whole partition."""
    partition, separator, owner = name.rpartition(_SEPARATOR)
    return (PartitionPath(partition), owner) if separator else (PartitionPath(name), None)


def split_by_partition(batch: pa.RecordBatch, paths: pa.StringArray) -> list[tuple[PartitionPath, pa.RecordBatch]]:
    """Splits a batch by partition path; rows stay in their order. A batch of one partition is not copied, and no part
    keeps the memory of the others."""
    encoded = paths.dictionary_encode()
    if len(encoded.dictionary) == 1:
        return [(PartitionPath(encoded.dictionary[0].as_py()), batch)] if batch.num_rows else []
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(encoded.dictionary))
    starts = np.cumsum(counts) - counts
    rows = pa.array(order)
    return [
        (PartitionPath(name), batch.take(rows.slice(start, count)))
        for name, start, count in zip(encoded.dictionary.to_pylist(), starts.tolist(), counts.tolist(), strict=True)
    ]


class PartitionedRows(TemporaryFiles):
    """Rows by partition, of one schema, in order of arrival. A context manager: leaving it removes its files.

    Rows beyond `budget` bytes go to temporary Arrow IPC files, one for each time the budget is reached, in which the
    batches of a partition are adjacent.
    """

    def __init__(self, schema: pa.Schema, budget: int) -> None:
        super().__init__()
        self.schema = schema
        self._budget = budget
        self._held: dict[PartitionPath, list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._counts: dict[PartitionPath, int] = {}
        self._bytes: dict[PartitionPath, int] = {}
        self._runs: list[tuple[str, dict[PartitionPath, range]]] = []

    def close(self) -> None:
        """See `TemporaryFiles.close`; forgets the rows in memory, too."""
        self._held.clear()
        super().close()

    @property
    def partitions(self) -> list[PartitionPath]:
        """Partitions in order of first appearance."""
        return list(self._counts)

    @property
    def num_rows(self) -> int:
        return sum(self._counts.values())

    @property
    def num_bytes(self) -> int:
        """Size in memory, uncompressed."""
        return sum(self._bytes.values())

    def rows_of(self, partition: PartitionPath) -> int:
        """Returns the number of rows of a partition."""
        return self._counts.get(partition, 0)

    def add(self, batch: pa.RecordBatch, paths: pa.StringArray) -> None:
        """Adds a batch; `paths` holds the partition path of each of its rows."""
        for partition, rows in split_by_partition(batch, paths):
            size = rows.nbytes
            self._held.setdefault(partition, []).append(rows)
            self._counts[partition] = self._counts.get(partition, 0) + rows.num_rows
            self._bytes[partition] = self._bytes.get(partition, 0) + size
            self._held_bytes += size
        if self._held_bytes > self._budget:
            self._spill()

    def settle(self) -> None:
        """Records that no more rows will come: if some are on the disk, the others are moved there too, which frees
        memory for the next step."""
        if self._runs and self._held:
            self._spill()

    def batches(self, partition: PartitionPath) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a partition in order of arrival."""
        for path, ranges in self._runs:
            if partition in ranges:
                with pa.memory_map(path) as source:
                    reader = pa.ipc.open_file(source)
                    for number in ranges[partition]:
                        yield reader.get_batch(number)
        yield from self._held.get(partition, ())

    def table(self, partition: PartitionPath) -> pa.Table:
        """Returns the rows of a partition as one table, with as few chunks as possible."""
        return pa.Table.from_batches(list(self.batches(partition)), self.schema).combine_chunks()

    def _spill(self) -> None:
        ranges: dict[PartitionPath, range] = {}
        path = self.write_batches(f"{len(self._runs)}.arrow", self.schema, self._side_by_side(ranges))
        self._runs.append((path, ranges))
        self._held.clear()
        self._held_bytes = 0

    def _side_by_side(self, ranges: dict[PartitionPath, range]) -> Iterator[pa.RecordBatch]:
        """Yields the batches in memory by partition, and records the numbers of each partition's batches."""
        written = 0
        for partition, batches in self._held.items():
            first = written
            for batch in pa.Table.from_batches(batches, self.schema).combine_chunks().to_batches():
                yield batch
                written += 1
            if written > first:
                ranges[partition] = range(first, written)
