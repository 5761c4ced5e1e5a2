"""The rows of a file slice: its base file streamed, its logs merged over it, or one or both as they are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.log import LogBlock
from hudi_py.merge import CommittedInstants, LogMemory, LogRecords, MergeSettings, load_log, scan_log
from hudi_py.merge.base import BaseMerge, SliceCounts
from hudi_py.merge.decode import check_blocks, read_versions
from hudi_py.merge.keys import with_keys
from hudi_py.merge.records import all_rows
from hudi_py.merge.reduce import Mask, delete_marks
from hudi_py.model.files import BaseFile, LogFile
from hudi_py.read.base_file import count_rows, read_base, row_groups_matching
from hudi_py.read.split import SliceMode, Split
from hudi_py.schema import COMMIT_TIME, OPERATION, RECORD_KEY, SchemaHistory, conform
from hudi_py.storage import Storage

MERGE_ROWS = 131_072
"""Rows of a base batch in a merge; fewer would build the key look-up too often."""
_DELETE, _BEFORE, _INSERT = "D", "-U", "I"


def slice_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a slice with the columns `split.spec.wanted_columns`, neither filtered nor projected."""
    spec = split.spec
    if split.log_files and spec.mode != "base":
        assert spec.merge is not None
        for batch in read_slice(
            storage,
            split.base_file,
            split.log_files,
            schema=spec.table_schema,
            columns=spec.wanted_columns,
            settings=spec.merge,
            committed=spec.committed,
            as_of=spec.as_of,
            batch_rows=spec.batch_rows,
            history=spec.history,
            mode=spec.mode,
            emit_deletes=spec.emit_deletes,
            memory=spec.memory,
            commit_times=spec.commit_times,
            read_damaged=spec.read_damaged,
        ):
            yield _with_values(batch, split.partition_values)
        return
    if split.base_file is None or spec.mode in ("log", "log_unmerged"):
        return
    schema = spec.read_schema()
    # statistics of the file say nothing of columns whose value is that of the path
    replaced = {name for name, _ in split.partition_values}
    condition = spec.filter if spec.filter is None or replaced.isdisjoint(spec.filter.columns) else None
    groups = row_groups_matching(storage, split.base_file, split.row_groups, condition, spec.history)
    if groups == []:
        return
    for batch in read_base(
        storage, split.base_file, schema, batch_rows=spec.batch_rows, row_groups=groups, history=spec.history
    ):
        yield _with_values(_told(batch, None, spec.emit_deletes), split.partition_values)


def read_slice(
    storage: Storage,
    base_file: BaseFile | None,
    log_files: Sequence[LogFile],
    *,
    schema: pa.Schema,
    columns: Sequence[str],
    settings: MergeSettings,
    committed: CommittedInstants | None,
    as_of: str | None = None,
    batch_rows: int = MERGE_ROWS,
    history: SchemaHistory | None = None,
    mode: SliceMode = "merge",
    emit_deletes: bool = False,
    memory: LogMemory | None = None,
    commit_times: frozenset[str] | None = None,
    counts: SliceCounts | None = None,
    read_damaged: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file slice, always in the same order.

    Merged: base rows which stay, in their order; where versions make new rows, those behind the rows of their batch;
    then log rows in the order of their keys' first appearance. A log larger than its memory is merged in parts, which
    changes the order. Unmerged: base rows, then log rows in the order in which they were written.

    Args:
        schema: the table's schema, meta columns included.
        columns: columns of the result; those the merge needs besides are read and left out.
        settings: how versions merge.
        committed, as_of, read_damaged: see `scan_log`.
        history: how columns of files and blocks become those of `schema`; None: by name.
        mode: what is read; log rows of partial updates have nulls where nothing older is merged.
        emit_deletes: deletes are rows too, as far as they are known: key, partition path, ordering columns, the commit
            time of the delete; a data row that marks a delete as a whole. If `_hoodie_operation` is among the columns,
            it is `D` in them (or `-U` where the row says so), and `I` in rows which do not tell.
        memory: how much of it the log side may take.
        commit_times: base rows of other commits are not merged, unless with partial updates: of a range, a row is what
            the range's commits made it (`HoodieFileGroupReader.makeBaseFileIterator` applies its `InstantRange` first,
            1.2.0).
        counts: what a merge did is added here.

    Yields:
        Batches with `columns` in the order of `schema`; none is empty.
    """
    needed = {*columns, RECORD_KEY, OPERATION, *settings.columns}
    if commit_times is not None:
        needed.add(COMMIT_TIME)
    merge_schema = pa.schema([field for field in schema if field.name in needed])
    if RECORD_KEY not in merge_schema.names:
        merge_schema = merge_schema.append(pa.field(RECORD_KEY, pa.string()))
    output = pa.schema([field for field in schema if field.name in set(columns)])
    blocks = scan_log(storage, log_files, committed=committed, as_of=as_of, read_damaged=read_damaged)
    check_blocks(blocks, settings)  # before the first row of the base file
    if counts is not None:
        counts.blocks += len(blocks)
        counts.block_bytes += sum(block.content_length for block in blocks if block.type.is_data)
    if any(block.is_partial for block in blocks):
        commit_times = None  # such rows have their other columns from older ones
    limits = memory or LogMemory()
    rows = max(batch_rows, MERGE_ROWS)
    base: Iterator[pa.RecordBatch] = iter(())
    if base_file is not None and mode in ("merge", "skip", "unmerged"):
        read = read_base(storage, base_file, merge_schema, batch_rows=rows, history=history)
        base = (with_keys(_of_commits(batch, commit_times), settings) for batch in read)
    if mode in ("skip", "unmerged", "log_unmerged"):
        found = _unmerged(
            storage, base, blocks, merge_schema, settings, history, limits, mode == "unmerged" or emit_deletes
        )
    elif not blocks and base_file is not None and mode == "merge":
        plain = read_base(storage, base_file, output, batch_rows=batch_rows, history=history)
        found = ((batch, None) for batch in plain)
    else:
        by_row = None
        if base_file is not None and mode == "merge" and commit_times is None and _has_rows(base_file, settings):
            ordering = settings.ordering_columns if settings.by_event_time else ()
            few = pa.schema([field for field in merge_schema if field.name in {*columns, *ordering}])
            by_row = _BaseByRow(base_file, few, rows, history)
        found = _merged(storage, base, by_row, blocks, merge_schema, settings, history, limits, emit_deletes, counts)
    for batch, deletes in found:
        if batch.num_rows:
            yield conform(_told(batch, deletes, mode == "unmerged" or emit_deletes), output)


def _of_commits(batch: pa.RecordBatch, commit_times: frozenset[str] | None) -> pa.RecordBatch:
    if commit_times is None:
        return batch
    return batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=pa.array(sorted(commit_times), pa.string())))


def _has_rows(base_file: BaseFile, settings: MergeSettings) -> bool:
    """Whether positions in log blocks can be those of the rows as they are read."""
    return base_file.source is None and base_file.name.extension == "parquet" and not settings.key_fields


@dataclass(frozen=True, slots=True)
class _BaseByRow:
    """A base file whose rows may be found by their numbers."""

    file: BaseFile
    few: pa.Schema
    """Columns which are enough then, unless new rows are made of two versions."""
    batch_rows: int
    history: SchemaHistory | None

    def read(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        return read_base(storage, self.file, self.few, batch_rows=self.batch_rows, history=self.history)


Told = tuple[pa.RecordBatch, Mask | None]
"""Rows, and which of them are deletes."""


def _merged(
    storage: Storage,
    base: Iterator[pa.RecordBatch],
    by_row: _BaseByRow | None,
    blocks: Sequence[LogBlock],
    schema: pa.Schema,
    settings: MergeSettings,
    history: SchemaHistory | None,
    memory: LogMemory,
    emit_deletes: bool,
    counts: SliceCounts | None,
) -> Iterator[Told]:
    started = time.monotonic()
    instant = None if by_row is None else by_row.file.instant
    log = load_log(
        storage, blocks, schema, settings, memory, history=history, keep_deletes=emit_deletes, base_instant=instant
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
        merge = BaseMerge(log, settings, counts=counts)
        for batch in base:
            yield from ((rows, None) for rows in merge.add(batch))
        yield from ((rows, None) for rows in merge.rest())
        if emit_deletes:
            yield from ((rows, np.ones(rows.num_rows, np.bool_)) for rows in merge.deletes())
        return
    with log:
        for rows, deleted in log.merged_with(base, counts):
            yield rows, np.ones(rows.num_rows, np.bool_) if deleted else None


def _unmerged(
    storage: Storage,
    base: Iterator[pa.RecordBatch],
    blocks: Sequence[LogBlock],
    schema: pa.Schema,
    settings: MergeSettings,
    history: SchemaHistory | None,
    memory: LogMemory,
    with_deletes: bool,
) -> Iterator[Told]:
    yield from ((batch, None) for batch in base)
    portion = max(memory.held // 4, 1 << 18)
    for versions in read_versions(storage, blocks, schema, settings, history=history, portion_bytes=portion):
        found = versions.as_versions(settings)
        count = len(found.keys) if with_deletes else versions.rows.num_rows
        order = np.argsort(found.position[:count], kind="stable")
        rows = all_rows(versions, settings) if with_deletes else versions.rows
        marks = np.r_[delete_marks(versions.rows, settings), found.entries[versions.rows.num_rows :]][:count][order]
        start = 0
        for batch in rows.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=MERGE_ROWS):
            yield batch, marks[start : start + batch.num_rows]
            start += batch.num_rows


def _told(batch: pa.RecordBatch, deletes: Mask | None, tells: bool) -> pa.RecordBatch:
    """The batch with `_hoodie_operation` filled in, where deletes are rows and the column is among those read."""
    at = batch.schema.get_field_index(OPERATION)
    if at < 0 or not tells:
        return batch
    stored = batch.column(at)
    told = stored.fill_null(_INSERT)
    if deletes is not None and deletes.any():
        kept = pc.equal(stored, _BEFORE).fill_null(False)
        gone = pc.and_not(pa.array(deletes), kept)
        told = pc.if_else(gone, _DELETE, told)
    return batch.set_column(at, batch.schema.field(at), told)


def _with_values(batch: pa.RecordBatch, values: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
    for name, value in values:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column = pa.array([value.as_py()], value.type).take(pa.array([0] * batch.num_rows, pa.int32()))
            batch = batch.set_column(at, batch.schema.field(at), column)
    return batch
