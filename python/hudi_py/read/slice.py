"""Reads a file slice: streams its base file and merges its logs into it, or returns either unmerged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.log import LogBlock
from hudi_py.merge import LogRecords, MergeSettings, load_log, scan_log
from hudi_py.merge.base import BaseMerge, MergeCounts, Watch
from hudi_py.merge.decode import check_blocks, read_versions
from hudi_py.merge.keys import with_keys
from hudi_py.merge.records import all_rows
from hudi_py.merge.reduce import Mask, delete_marks
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.read.base_file import count_rows, read_base, row_groups_matching
from hudi_py.read.split import ReadSpec, Split
from hudi_py.schema import COMMIT_TIME, OPERATION, RECORD_KEY, SchemaHistory, conform
from hudi_py.storage import Storage, holding

MERGE_ROWS = 131_072
"""Rows of a base batch in a merge; with fewer, the key look-up would be rebuilt too often."""
_DELETE, _BEFORE, _INSERT = "D", "-U", "I"


def slice_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a slice with the columns `split.spec.wanted_columns`, not yet filtered or projected."""
    spec = split.spec
    if split.log_files and spec.mode != "base":
        for batch in read_slice(storage, split.base_file, split.log_files, spec):
            yield _with_values(batch, split.partition_values)
        return
    if split.base_file is None or spec.mode in ("log", "log_unmerged"):
        return
    schema = spec.read_schema()
    # the file's statistics do not apply to columns that take their value from the path
    replaced = {name for name, _ in split.partition_values} | ({RECORD_KEY} if spec.key_fields else set())
    condition = spec.filter
    if condition is not None and not replaced.isdisjoint(condition.columns):
        condition = condition.beside(replaced)
    groups = row_groups_matching(storage, split.base_file, split.row_groups, condition, spec.history)
    if groups == []:
        return
    read = read_base(
        storage, split.base_file, schema, batch_rows=spec.batch_rows, row_groups=groups, history=spec.history
    )
    for batch in _keyed(read, spec):
        batch = _with_operations(batch, None) if spec.emit_deletes else batch
        yield _with_values(batch, split.partition_values)


def read_slice(
    storage: Storage,
    base_file: BaseFile | None,
    log_files: Sequence[LogFile],
    spec: ReadSpec,
    *,
    counts: MergeCounts | None = None,
    watch: Watch | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file slice, in a deterministic order.

    Merged: per base batch the rows that remain, then rows made of two versions; finally log rows in the order in which
    their keys first occur. A log that exceeds its memory is merged in parts, which changes the order. Unmerged: base
    rows, then log rows as written.

    In mode `unmerged` and with `emit_deletes`, deletes are rows too: key, partition path, ordering columns and commit
    time of the delete, or the whole data row if one marks the delete. If `_hoodie_operation` is read, it is `D` in
    deletes (or `-U` if the row has that), and `I` in rows without an operation.

    With `commit_times`, base rows of other commits are not merged, except with partial updates: rows of a range are
    what its commits made them (`HoodieFileGroupReader.makeBaseFileIterator` applies its `InstantRange` first, 1.2.0).

    Args:
        spec: how versions merge. The caller applies its keys, filter, limit and projection. Log rows of partial updates
            have nulls where no older version is merged.
        counts: the statistics of the merge are added to it.
        watch: called for each change that the logs make to the base file, if they are merged.

    Yields:
        Non-empty batches of `spec.read_schema()`.
    """
    settings, history, mode, commit_times = spec.merge, spec.history, spec.mode, spec.commit_times
    assert settings is not None
    output = spec.read_schema()
    needed = {*output.names, RECORD_KEY, OPERATION, *settings.columns}
    if commit_times is not None:
        needed.add(COMMIT_TIME)
    merge_schema = pa.schema([field for field in spec.table_schema if field.name in needed])
    if RECORD_KEY not in merge_schema.names:
        merge_schema = merge_schema.append(pa.field(RECORD_KEY, pa.string()))
    storage = holding(storage, ((log.path, log.size) for log in log_files))
    blocks = scan_log(storage, log_files, committed=spec.committed, as_of=spec.as_of, read_damaged=spec.read_damaged)
    check_blocks(blocks, settings)  # before the first row of the base file
    if counts is not None:
        counts.blocks += len(blocks)
        counts.block_bytes += sum(block.content_length for block in blocks if block.type.is_data)
    if any(block.is_partial for block in blocks):
        commit_times = None  # such rows take their other columns from older versions
    rows = max(spec.batch_rows, MERGE_ROWS)
    emits_deletes = mode == "unmerged" or spec.emit_deletes
    base: Iterator[pa.RecordBatch] = iter(())
    if base_file is not None and mode in ("merge", "skip", "unmerged"):
        read = read_base(storage, base_file, merge_schema, batch_rows=rows, history=history)
        base = (with_keys(of_commits(batch, commit_times), settings.key_fields) for batch in read)
    if mode in ("skip", "unmerged", "log_unmerged"):
        found = _unmerged(storage, base, blocks, merge_schema, spec, with_deletes=emits_deletes)
    elif not blocks and base_file is not None and mode == "merge":
        base = _keyed(read_base(storage, base_file, output, batch_rows=spec.batch_rows, history=history), spec)
        found = ((batch, None) for batch in base)
    else:
        by_row = None
        if base_file is not None and mode == "merge" and commit_times is None and is_by_position(base_file, settings):
            ordering = settings.ordering_columns if settings.by_event_time else ()
            few = pa.schema([field for field in merge_schema if field.name in {*output.names, *ordering}])
            by_row = _BaseByRow(base_file, few, rows, history)
        found = _merged(storage, base, by_row, blocks, merge_schema, spec, counts, watch)
    for batch, deletes in found:
        if batch.num_rows:
            yield conform(_with_operations(batch, deletes) if emits_deletes else batch, output)


def _keyed(base: Iterator[pa.RecordBatch], spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Rows of a base file, with the record key if it is read and files do not store it."""
    computes = bool(spec.key_fields) and RECORD_KEY in spec.wanted_columns
    return (with_keys(batch, spec.key_fields) for batch in base) if computes else base


def of_commits(batch: pa.RecordBatch, commit_times: frozenset[str] | None) -> pa.RecordBatch:
    if commit_times is None:
        return batch
    return batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=pa.array(sorted(commit_times), pa.string())))


def is_by_position(base_file: BaseFile, settings: MergeSettings) -> bool:
    """Whether record positions in log blocks are row numbers of the base file as it is read."""
    return base_file.source is None and base_file.name.extension == "parquet" and not settings.key_fields


@dataclass(frozen=True, slots=True)
class _BaseByRow:
    """A base file whose rows can be matched by row number."""

    file: BaseFile
    few: pa.Schema
    """Columns that are enough in that case, unless rows are made of two versions."""
    batch_rows: int
    history: SchemaHistory | None

    def read(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        return read_base(storage, self.file, self.few, batch_rows=self.batch_rows, history=self.history)


MarkedRows = tuple[pa.RecordBatch, Mask | None]
"""Rows, and a mask of deletes; None: there are none."""


def _merged(
    storage: Storage,
    base: Iterator[pa.RecordBatch],
    by_row: _BaseByRow | None,
    blocks: Sequence[LogBlock],
    schema: pa.Schema,
    spec: ReadSpec,
    counts: MergeCounts | None,
    watch: Watch | None,
) -> Iterator[MarkedRows]:
    settings, emit_deletes = spec.merge, spec.emit_deletes
    assert settings is not None
    started = time.monotonic()
    instant = None if by_row is None else by_row.file.instant
    log = load_log(
        storage,
        blocks,
        schema,
        settings,
        spec.memory,
        history=spec.history,
        keep_deletes=emit_deletes,
        base_instant=instant,
    )
    if counts is not None:
        counts.read_ms += int((time.monotonic() - started) * 1000)
    if log is None:
        yield from ((batch, None) for batch in base)
        return
    if isinstance(log, LogRecords):
        if by_row is not None and log.base_rows is not None:
            if int(log.base_rows.max()) >= count_rows(storage, by_row.file):
                log = replace(log, base_rows=None)
            elif not (settings.folds or log.partial) and len(by_row.few):
                base = by_row.read(storage)
        merge = BaseMerge(log, settings, counts=counts, watch=watch)
        for batch in base:
            yield from ((rows, None) for rows in merge.add(batch))
        yield from ((rows, None) for rows in merge.rest())
        if emit_deletes:
            yield from ((rows, np.ones(rows.num_rows, np.bool_)) for rows in merge.deletes())
        return
    with log:
        for rows, deleted in log.merged_with(base, counts, watch):
            yield rows, np.ones(rows.num_rows, np.bool_) if deleted else None


def _unmerged(
    storage: Storage,
    base: Iterator[pa.RecordBatch],
    blocks: Sequence[LogBlock],
    schema: pa.Schema,
    spec: ReadSpec,
    *,
    with_deletes: bool,
) -> Iterator[MarkedRows]:
    settings = spec.merge
    assert settings is not None
    yield from ((batch, None) for batch in base)
    portion = max(spec.memory.held // 4, 1 << 18)
    for versions in read_versions(storage, blocks, schema, settings, history=spec.history, portion_bytes=portion):
        found = versions.as_versions(settings)
        count = len(found.keys) if with_deletes else versions.rows.num_rows
        order = np.argsort(found.position[:count], kind="stable")
        rows = all_rows(versions, settings) if with_deletes else versions.rows
        marks = np.r_[delete_marks(versions.rows, settings), found.entries[versions.rows.num_rows :]][:count][order]
        start = 0
        for batch in rows.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=MERGE_ROWS):
            yield batch, marks[start : start + batch.num_rows]
            start += batch.num_rows


def _with_operations(batch: pa.RecordBatch, deletes: Mask | None) -> pa.RecordBatch:
    """Fills in `_hoodie_operation`, if the batch has that column."""
    at = batch.schema.get_field_index(OPERATION)
    if at < 0:
        return batch
    stored = batch.column(at)
    operations = stored.fill_null(_INSERT)
    if deletes is not None and deletes.any():
        before = pc.equal(stored, _BEFORE).fill_null(False)
        operations = pc.if_else(pc.and_not(pa.array(deletes), before), _DELETE, operations)
    return batch.set_column(at, batch.schema.field(at), operations)


def _with_values(batch: pa.RecordBatch, values: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
    for name, value in values:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            batch = batch.set_column(at, batch.schema.field(at), pa.repeat(value, batch.num_rows))
    return batch
