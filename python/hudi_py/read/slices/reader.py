"""Reads a file slice: streams its base file and merges its logs into it, or returns either unmerged."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.merge import LogRecords, MergeSettings, SliceLog, SpilledLog
from hudi_py.merge.base import BaseMerge, MergeCounts, Watch
from hudi_py.merge.keys import with_keys
from hudi_py.merge.ordering import has_default_zero
from hudi_py.merge.records import all_rows
from hudi_py.merge.reduce import Mask, delete_marks
from hudi_py.merge.settings import COMMIT_TIME as BY_COMMIT_TIME
from hudi_py.model.files import BaseFile
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.split import Split
from hudi_py.schema import COMMIT_TIME, OPERATION, RECORD_KEY, conform
from hudi_py.storage import Storage

MERGE_ROWS = 131_072
"""Rows of a base batch in a merge; with fewer, the key lookup would be rebuilt too often."""
_DELETE, _BEFORE, _INSERT = "D", "-U", "I"
MarkedRows = tuple[pa.RecordBatch, Mask | None]
"""Rows, and a mask of deletes; None if there are none."""


@dataclass(frozen=True, slots=True)
class SliceMerge:
    """A slice's log, and what it takes to merge it with the base file. A spilled log must be closed."""

    log: LogRecords | SpilledLog
    settings: MergeSettings
    """How versions are compared; not at all if statistics show that the log's are the newest."""
    folds: bool
    """Whether rows combine two versions, instead of choosing one."""
    base_schema: pa.Schema
    """Columns to read of the base file."""
    commit_times: frozenset[str] | None
    """Base rows of other commits are not merged; None merges all."""
    keeps_deletes: bool
    """Whether deletes are returned as rows."""

    @property
    def depends_on_base(self) -> bool:
        """Returns whether the winning rows, or their values, depend on the base file."""
        return self.folds or self.settings.by_event_time

    def applied(
        self, base: Iterable[pa.RecordBatch], counts: MergeCounts | None = None, watch: Watch | None = None
    ) -> Iterator[MarkedRows]:
        """Merges base rows with the log: yields unchanged base rows, then the other rows, then deletes."""
        if isinstance(self.log, LogRecords):
            merge = BaseMerge(self.log, self.settings, counts=counts, watch=watch)
            for batch in base:
                yield from ((rows, None) for rows in merge.add(batch))
            yield from ((rows, None) for rows in merge.rest())
            if self.keeps_deletes:
                yield from ((rows, np.ones(rows.num_rows, np.bool_)) for rows in merge.deletes())
            return
        with self.log as log:
            for rows, deleted in log.merged_with(base, counts, watch):
                yield rows, np.ones(rows.num_rows, np.bool_) if deleted else None


class SliceReader:
    """Reads one file slice, or what a split takes of it: opens its base file at most once, and its logs once.

    Whatever reads raises:
        FileNotFoundError: a file of the slice does not exist.
        CorruptFileError, UnsupportedTableError, SchemaMismatchError: a file cannot be read.
    """

    def __init__(
        self, storage: Storage, split: Split, *, counts: MergeCounts | None = None, watch: Watch | None = None
    ) -> None:
        """
        Args:
            counts: the statistics of the merge are added to it.
            watch: called for each change that the logs make to the base file, if they are merged.
        """
        self.split = split
        self.spec = split.spec
        self._storage = storage
        self._base = None if split.base_file is None else BaseFileReader(storage, split.base_file, split.spec.history)
        self._counts = counts
        self._watch = watch

    def __enter__(self) -> SliceReader:
        return self

    def __exit__(self, *error: object) -> None:
        if self._base is not None:
            self._base.close()

    @property
    def base(self) -> BaseFileReader:
        """Returns the slice's base file; there must be one."""
        assert self._base is not None
        return self._base

    @cached_property
    def log(self) -> SliceLog:
        """Returns the slice's log; its blocks are checked before the first row of the base file is read."""
        return self.spec.open_log(self._storage, self.split.log_files)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the slice, in a deterministic order.

        Merged: per base batch the rows that remain, then rows made of two versions; finally log rows in the order in
        which their keys first occur. A log that exceeds its memory is merged in parts, which changes the order.
        Unmerged: base rows, then log rows as written.

        In mode `unmerged` and with `emit_deletes`, deletes are rows too: key, partition path, ordering columns and
        commit time of the delete, or the whole data row if one marks the delete. If `_hoodie_operation` is read, it is
        `D` in deletes (or `-U` if the row has that), and `I` in rows without an operation.

        With `commit_times`, base rows of other commits are not merged, except with partial updates: rows of a range are
        what its commits made them (`HoodieFileGroupReader.makeBaseFileIterator` applies its `InstantRange` first,
        1.2.0).

        Yields:
            Batches of `spec.read_schema()`, not yet filtered or projected. Log rows of partial updates have nulls where
            no older version is merged.
        """
        spec, values = self.spec, self.split.partition_values
        if not self.split.log_files:
            for batch in self._base_rows():
                yield _with_values(_with_operations(batch, None) if spec.emit_deletes else batch, values)
            return
        output = spec.read_schema()
        emits_deletes = spec.emit_deletes or spec.mode == "unmerged"
        batches = self._merged_rows() if spec.mode == "merge" else self._unmerged_rows(with_deletes=emits_deletes)
        for batch, deletes in batches:
            if batch.num_rows:
                whole = conform(_with_operations(batch, deletes) if emits_deletes else batch, output)
                yield _with_values(whole, values)

    def prepare_merge(self, wanted: Collection[str]) -> SliceMerge | None:
        """Loads the log for a merge with the base file; None if it has no records that count.

        Args:
            wanted: columns of log rows that are needed, and of base rows that are made of two versions.
        """
        spec, log, settings = self.spec, self.log, self.log.spec.merge
        commit_times = None if log.partial else spec.commit_times  # partial rows need older versions
        folds = settings.folds or log.partial
        own = {COMMIT_TIME} if commit_times is not None else set()
        schema = log.columns(spec.table_schema, {*(spec.read_schema().names if folds else wanted), *own})
        found_by_row = self._base is not None and commit_times is None and _is_by_position(self.base.file, settings)
        records = self._load_log(schema, found_by_row=found_by_row)
        if records is None:
            return None
        if not folds and self._surely_wins(records):
            settings = replace(settings, mode=BY_COMMIT_TIME)
        used = schema.names if folds else {*wanted, *own, *_compared_columns(records, settings)}
        # rows without any column cannot be filtered
        base_schema = pa.schema([item for item in schema if item.name in used] or list(schema))
        return SliceMerge(records, settings, folds, base_schema, commit_times, spec.emit_deletes)

    def _load_log(self, schema: pa.Schema, *, found_by_row: bool) -> LogRecords | SpilledLog | None:
        """Loads the log; None if it has no records that count. `found_by_row`: whether records are found by their row
        numbers in the base file, if all have one that exists."""
        started = time.monotonic()
        instant = self.base.file.instant if found_by_row else None
        records = self.log.load(schema, keep_deletes=self.spec.emit_deletes, base_instant=instant)
        if self._counts is not None:
            self._counts.read_ms += int((time.monotonic() - started) * 1000)
        if (
            isinstance(records, LogRecords)
            and records.base_rows is not None
            and int(records.base_rows.max()) >= self.base.num_rows
        ):
            return replace(records, base_rows=None)
        return records

    def base_batches(self, merge: SliceMerge, *, number: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the base file that take part in the merge.

        Args:
            number: name of a column to add, with the number of each row in the file.
        """
        start = 0
        for batch in self.base.batches(merge.base_schema, batch_rows=max(self.spec.batch_rows, MERGE_ROWS)):
            if number is not None:
                batch = batch.append_column(number, pa.array(np.arange(start, start + batch.num_rows)))
                start += batch.num_rows
            yield with_keys(of_commits(batch, merge.commit_times), merge.settings.key_fields)

    def _surely_wins(self, log: LogRecords | SpilledLog) -> bool:
        """Returns whether no base row has a greater ordering value than any version of the log, by the statistics in
        the footer of the base file."""
        settings, schema = self.log.spec.merge, self.spec.table_schema
        fields = settings.ordering_fields
        if not settings.by_event_time or len(fields) > 1 or fields[0] not in schema.names:
            return False
        if self._base is None or not isinstance(log, LogRecords):
            return False
        kind = schema.field(fields[0]).type
        values = log.winners.ordering[0].filter(pa.array(~log.winners.always))
        if not values.type.equals(kind) or values.null_count:
            return False
        lowest = _as_number(pc.min(values)) if len(values) else None
        if lowest is None or (has_default_zero(kind) and lowest < 0):  # nulls in the base file count as 0
            return not len(values)
        return not self._base.may_exceed(fields[0], kind, lowest)

    def _base_rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the base file alone."""
        if self._base is None:
            return
        spec = self.spec
        # the file's statistics do not apply to columns that take their value from the path
        replaced = {name for name, _ in self.split.partition_values} | ({RECORD_KEY} if spec.key_fields else set())
        condition = spec.filter
        if condition is not None and not replaced.isdisjoint(condition.columns):
            condition = condition.beside(replaced)
        groups = self._base.matching_row_groups(self.split.row_groups, condition)
        if groups == []:
            return
        computes = bool(spec.key_fields) and RECORD_KEY in spec.wanted_columns
        for batch in self._base.batches(spec.read_schema(), batch_rows=spec.batch_rows, row_groups=groups):
            yield with_keys(batch, spec.key_fields) if computes else batch

    def _merged_rows(self) -> Iterator[MarkedRows]:
        blocks = self.log.blocks
        if self._counts is not None:
            self._counts.blocks += len(blocks)
            self._counts.block_bytes += sum(block.content_length for block in blocks if block.type.is_data)
        merge = self.prepare_merge(self.spec.read_schema().names)
        if merge is None:
            yield from ((batch, None) for batch in self._base_rows())
            return
        base = iter(()) if self._base is None else self.base_batches(merge)
        yield from merge.applied(base, self._counts, self._watch)

    def _unmerged_rows(self, *, with_deletes: bool) -> Iterator[MarkedRows]:
        spec, log = self.spec, self.log
        settings = log.spec.merge
        schema = log.columns(spec.table_schema, spec.read_schema().names)
        yield from ((batch, None) for batch in self._base_rows())
        for versions in log.versions(schema, portion_bytes=max(log.spec.memory.held // 4, 1 << 18)):
            result = versions.as_versions(settings)
            count = len(result.keys) if with_deletes else versions.rows.num_rows
            order = np.argsort(result.position[:count], kind="stable")
            rows = all_rows(versions, settings) if with_deletes else versions.rows
            marks = np.r_[delete_marks(versions.rows, settings), result.entries[versions.rows.num_rows :]][:count][
                order
            ]
            start = 0
            for batch in rows.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=MERGE_ROWS):
                yield batch, marks[start : start + batch.num_rows]
                start += batch.num_rows


def of_commits(batch: pa.RecordBatch, commit_times: frozenset[str] | None) -> pa.RecordBatch:
    """Returns the rows that one of the commits wrote; None means all commits."""
    if commit_times is None:
        return batch
    return batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=pa.array(sorted(commit_times), pa.string())))


def _compared_columns(log: LogRecords | SpilledLog, settings: MergeSettings) -> tuple[str, ...]:
    """Returns the columns of base rows by which they are matched and compared with the log."""
    ordering = settings.ordering_columns if settings.by_event_time else ()
    by_row = isinstance(log, LogRecords) and log.base_rows is not None
    return tuple(ordering) if by_row else (*ordering, RECORD_KEY, *settings.key_columns)


def _as_number(value: pa.Scalar) -> int | None:
    """Returns an integer, days or microseconds since the epoch; None for other types."""
    kind = value.type
    if pa.types.is_date32(kind):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return int(value.cast(pa.int64()).as_py())
    return int(value.as_py()) if pa.types.is_signed_integer(kind) else None


def _is_by_position(base_file: BaseFile, settings: MergeSettings) -> bool:
    """Returns whether record positions in log blocks are row numbers of the base file as it is read."""
    return base_file.source is None and base_file.name.extension == "parquet" and not settings.key_fields


def _with_operations(batch: pa.RecordBatch, deletes: Mask | None) -> pa.RecordBatch:
    """Fills in `_hoodie_operation`, if the batch has that column."""
    index = batch.schema.get_field_index(OPERATION)
    if index < 0:
        return batch
    stored = batch.column(index)
    operations = stored.fill_null(_INSERT)
    if deletes is not None and deletes.any():
        before = pc.equal(stored, _BEFORE).fill_null(False)
        operations = pc.if_else(pc.and_not(pa.array(deletes), before), _DELETE, operations)
    return batch.set_column(index, batch.schema.field(index), operations)


def _with_values(batch: pa.RecordBatch, values: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
    for name, value in values:
        index = batch.schema.get_field_index(name)
        if index >= 0:
            batch = batch.set_column(index, batch.schema.field(index), pa.repeat(value, batch.num_rows))
    return batch
