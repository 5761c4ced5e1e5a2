"""Prepares rows for files: reads the input, casts it, computes keys and partitions, and defines the stages of a
write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.arrays import combined
from hudi_py.merge import MergeSettings, reduce_input
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.write.rows.partitioned import PartitionedRows, share_name, share_names, split_by_partition, split_share

__all__ = [
    "ChangedSlice",
    "FilledFile",
    "KeyedRows",
    "LocatedRows",
    "NewGroup",
    "PartitionedRows",
    "Placed",
    "RowNumbers",
    "TaggedRows",
    "UntaggedRows",
    "one_row_per_key",
    "share_name",
    "share_names",
    "sorted_by_key",
    "split_by_partition",
    "split_share",
    "without_keys",
]


RowNumbers = npt.NDArray[np.int64]

_FILE_ID = pa.field("_hudi_py_file_id", pa.string())
_LEAVING = pa.field("_hudi_py_leaving", pa.bool_())


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows with their record keys and partition paths."""

    rows: pa.RecordBatch
    """`_hoodie_record_key` (string), then the table's columns; rows of a delete have the key only."""
    partitions: pa.StringArray
    """The partition path of each row."""


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Rows of one partition, whose file groups an index over all partitions has found."""

    rows: pa.Table
    """As `KeyedRows.rows`."""
    file_ids: pa.StringArray
    """The file group of each key, null for new keys."""
    leaving: pa.BooleanArray | None = None
    """Whether a row moves its key to another partition, so that the key is deleted here; null: it is the new row of
    such a key. None: no row moves."""

    def packed(self) -> pa.Table:
        """Returns all fields as columns of one table, for `PartitionedRows` of `packed_schema`."""
        table = self.rows.append_column(_FILE_ID, self.file_ids)
        return table if self.leaving is None else table.append_column(_LEAVING, self.leaving)

    @staticmethod
    def packed_schema(rows: pa.Schema, *, moves: bool) -> pa.Schema:
        """Returns the schema of packed rows; `moves`: some may leave."""
        return pa.schema([*rows, _FILE_ID, _LEAVING] if moves else [*rows, _FILE_ID])

    @classmethod
    def unpacked(cls, table: pa.Table, *, moves: bool) -> LocatedRows:
        """Returns the located rows in a packed table."""
        count = 2 if moves else 1
        names = table.column_names
        return cls(table.select(names[:-count]), *(combined(table[name]) for name in names[-count:]))

    def tagged(self, slices: Sequence[FileSlice], *, alive: bool = False) -> TaggedRows:
        """Returns the rows by file group.

        Args:
            slices: the latest ones of the partition.
            alive: see `TaggedRows`.
        """
        by_id = {slice_.file_id: slice_ for slice_ in slices}
        encoded = self.file_ids.dictionary_encode()
        ids = [FileId(file_id) for file_id in encoded.dictionary.to_pylist()]
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        by_code = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes, np.arange(len(ids)), sorter=by_code)
        new, *known = np.split(by_code, starts)
        known_rows = dict(zip(ids, known, strict=True))
        leaving: dict[FileId, RowNumbers] = {}
        if self.leaving is not None:
            leaves = self.leaving.fill_null(False).to_numpy(zero_copy_only=False)
            leaving = {file_id: rows[leaves[rows]] for file_id, rows in known_rows.items()}
            known_rows = {file_id: rows[~leaves[rows]] for file_id, rows in known_rows.items()}
        slices_of = tuple((by_id[file_id], rows) for file_id, rows in known_rows.items())
        return TaggedRows(self.rows, slices_of, new, leaving, alive=alive)


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """Rows of one partition with the file groups of their keys. Rows are named by their numbers, ascending."""

    rows: pa.Table
    """As `KeyedRows.rows`."""
    found: tuple[tuple[FileSlice, RowNumbers], ...]
    """The slices that contain keys, each with the rows of these keys. A key that inserts have put into several file
    groups is found in each of them."""
    new: RowNumbers
    """Rows whose key is not in the partition."""
    leaving: Mapping[FileId, RowNumbers] = field(default_factory=dict)
    """Rows that take their key out of a file group, to another partition."""
    positions: Mapping[FileId, RowNumbers] = field(default_factory=dict)
    """For some slices in `found`, the row of the base file that has the key of each of their rows; no two are equal."""
    alive: bool = False
    """Whether the stored rows were read, so that no log has deleted them."""


@dataclass(frozen=True, slots=True)
class UntaggedRows:
    """Rows whose file groups depend only on their share."""

    batches: Callable[[], Iterator[pa.RecordBatch]]
    """As `KeyedRows.rows`; called several times."""
    num_rows: int

    @classmethod
    def of(cls, rows: pa.Table) -> UntaggedRows:
        """Returns untagged rows for rows in memory."""
        return cls(lambda: iter(rows.to_batches()), rows.num_rows)

    @classmethod
    def held_by(cls, held: PartitionedRows, share: PartitionPath) -> UntaggedRows:
        """Returns the rows of a share."""
        return cls(partial(held.batches, share), held.rows_of(share))


@dataclass(frozen=True, slots=True)
class NewGroup:
    """Rows (as `KeyedRows.rows`) for a new file group."""

    rows: Callable[[], Iterable[pa.RecordBatch]]
    """Called in the thread that writes them."""
    file_id: FileId | None = None
    """The id of the file group, which then has one file. None: as many file groups with random ids as the rows need."""
    num_bytes: int = 0
    """Bytes of the rows in memory; none if `rows` reads them."""


@dataclass(frozen=True, slots=True)
class ChangedSlice:
    """Rows that change those of a file group."""

    slice_: FileSlice
    updates: pa.Table
    """Rows whose keys the file group has, or in a bucket may have."""
    new: pa.Table | None = None
    """Rows with new keys, where updates set some columns; otherwise new rows are among `updates`."""
    deleted: pa.StringArray | None = None
    """Keys that are deleted whatever their ordering value."""
    positions: RowNumbers | None = None
    """The row of the base file that has the key of each of `updates`, or of `deleted` if there are no updates; all
    different. None if they are not known for all."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows in memory."""
        return sum(rows.nbytes for rows in (self.updates, self.new, self.deleted) if rows is not None)


@dataclass(frozen=True, slots=True)
class FilledFile:
    """Rows with new keys for a base file, which is rewritten with them."""

    slice_: FileSlice
    rows: Callable[[], Iterable[pa.RecordBatch]]
    """Called in the thread that writes them."""
    changes: ChangedSlice | None = None
    """Other changes to the file group."""
    by_key: bool = False
    """Whether the rows may replace stored rows with the same keys. Only without `changes`."""
    new_bytes: int = 0
    """Bytes of `rows` in memory; 0 if it reads them."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows in memory."""
        return self.new_bytes + (0 if self.changes is None else self.changes.num_bytes)


Placed: TypeAlias = NewGroup | ChangedSlice | FilledFile


def one_row_per_key(rows: pa.Table, settings: MergeSettings) -> pa.Table:
    """Returns the winning row of each key."""
    return reduce_input(rows, settings, key_columns=(RECORD_KEY,)).combine_chunks()


def without_keys(rows: pa.Table, keys: pa.Array | None) -> pa.Table:
    """Returns the rows without those that have one of these keys."""
    return rows if keys is None else rows.filter(pc.invert(pc.is_in(rows[RECORD_KEY], value_set=keys)))


def sorted_by_key(rows: pa.Table) -> pa.Table:
    """Sorts rows by the bytes of their record keys, as Spark does; rows of one key stay in their order."""
    return rows.take(pc.sort_indices(rows[RECORD_KEY]))
