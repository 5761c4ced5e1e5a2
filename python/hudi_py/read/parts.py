"""Merges a file slice for an engine that reads the base file itself: the rows to leave out, and those to add.

The engine's own reader returns the base file's rows. It leaves out the rows that the logs replace or delete
(`replaced_rows`) and adds the rows that are not rows of the base file as they stand there (`added_rows`). Together they
are the rows of `read_slice`. Both parts read as little of the base file as the merge needs, often nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.formats.hashing import xx_hash64
from hudi_py.merge import LogRecords, SpilledLog, load_log, scan_log
from hudi_py.merge.base import BaseMerge
from hudi_py.merge.decode import check_blocks
from hudi_py.merge.keys import with_keys
from hudi_py.merge.ordering import has_default_zero
from hudi_py.merge.reduce import Mask, Rows
from hudi_py.model.files import BaseFile
from hudi_py.read.base_file import count_rows, read_base, row_groups_matching
from hudi_py.read.filter import Filter
from hudi_py.read.predicate import Column, Comparison, Literal
from hudi_py.read.slice import MERGE_ROWS, is_by_position, of_commits
from hudi_py.read.split import Split
from hudi_py.schema import COMMIT_TIME, OPERATION, RECORD_KEY, conform
from hudi_py.storage import Storage

CHUNK_ROWS = 1 << 16
"""Rows of a base file covered by one row of `replaced_rows`."""
REPLACED_SCHEMA = pa.schema([("file", pa.string()), ("chunk", pa.int64()), ("bits", pa.list_(pa.int64()))])
_SPARKS_SEED = 42
_ROW = "\0row"
"""Column of base rows with their number in the file; other rows lack it."""


def added_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a merged slice that its base file does not hold: inserts, and newer or combined versions.

    Yields:
        Batches of `split.spec.read_schema()`, not yet filtered or projected.

    Raises:
        FileNotFoundError: a file of the slice does not exist.
        CorruptFileError, UnsupportedTableError, SchemaMismatchError: a file cannot be read.
    """
    output = split.spec.read_schema()
    merge = _loaded(storage, split, output.names)
    if merge is None:
        return
    # the newest log row wins over any base row, unless they are compared or combined
    base = _numbered(storage, split, merge) if merge.reads_base else iter(())
    for batch in _merged(merge, split, base):
        if _ROW not in batch.schema.names:
            yield conform(batch, output)


def replaced_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a slice's base file that its logs replace or delete, as bits.

    Yields:
        At most one batch of `REPLACED_SCHEMA`. `file` is the base file's name. Bit `n % 64` of the item `n // 64` of
        `bits` stands for row `chunk * CHUNK_ROWS + n` of the file. Chunks without such a row are left out.

    Raises what `added_rows` raises.
    """
    base_file = _base_file(split)
    gone = np.zeros(count_rows(storage, base_file), np.bool_)
    merge = _loaded(storage, split, ())
    if merge is None:
        return
    merging = _choosing(merge, split)
    if merging is not None:
        for rows in _replaced(storage, split, merge, merging):
            gone[rows] = True
    else:
        for batch in _merged(merge, split, _marked(_numbered(storage, split, merge), gone)):
            if _ROW in batch.schema.names:
                gone[batch.column(_ROW).to_numpy()] = False
    if gone.any():
        yield _bits(str(base_file.name), gone)


def have_distinct_hashes(names: Sequence[str], bits: int) -> bool:
    """Whether the upper bits of `xxhash64` of Spark SQL differ for all of the names."""
    hashes = xx_hash64(pa.array(names, pa.string()), _SPARKS_SEED) >> np.uint64(64 - bits)
    return len(np.unique(hashes)) == len(names)


def merged_count(storage: Storage, split: Split) -> int:
    """Number of rows of a merged slice with a base file, if all commits count. Raises what `added_rows` raises."""
    rows = count_rows(storage, _base_file(split))
    merge = _loaded(storage, replace(split, spec=replace(split.spec, columns=())), ())
    if merge is None:
        return rows
    merging = _choosing(merge, split)
    if merging is not None:
        rows -= sum(map(len, _replaced(storage, split, merge, merging)))
        return rows + sum(int(batch.num_rows) for batch in merging.rest())
    return sum(batch.num_rows for batch in _merged(merge, split, _numbered(storage, split, merge)))


@dataclass(frozen=True, slots=True)
class _SliceMerge:
    """A slice's log, and what is needed to merge its base file with it."""

    log: LogRecords | SpilledLog
    base_schema: pa.Schema
    commit_times: frozenset[str] | None
    """Base rows of other commits are not merged."""
    reads_base: bool
    """Whether which rows win, or their values, depends on the base file."""


def _loaded(storage: Storage, split: Split, columns: list[str] | tuple[()]) -> _SliceMerge | None:
    """None if the slice's logs hold no records that count."""
    spec, base_file = split.spec, _base_file(split)
    settings = spec.merge
    assert settings is not None
    blocks = scan_log(
        storage, split.log_files, committed=spec.committed, as_of=spec.as_of, read_damaged=spec.read_damaged
    )
    check_blocks(blocks, settings)
    partial = any(block.is_partial for block in blocks)
    folds = settings.folds or partial
    # rows of partial updates take their other columns from older versions, see `read_slice`
    commit_times = None if partial else spec.commit_times
    needed = {*(spec.read_schema().names if folds else columns), RECORD_KEY, OPERATION, *settings.columns}
    if commit_times is not None:
        needed.add(COMMIT_TIME)
    schema = pa.schema([field for field in spec.table_schema if field.name in needed])
    if RECORD_KEY not in schema.names:
        schema = schema.append(pa.field(RECORD_KEY, pa.string()))
    by_position = commit_times is None and not folds and is_by_position(base_file, settings)
    log = load_log(
        storage,
        blocks,
        schema,
        settings,
        spec.memory,
        history=spec.history,
        base_instant=base_file.instant if by_position else None,
    )
    if log is None:
        return None
    ordering = settings.ordering_columns if settings.by_event_time else ()
    compares = settings.by_event_time and (
        folds or not isinstance(log, LogRecords) or not _beats_base(storage, split, log)
    )
    if isinstance(log, LogRecords) and log.base_rows is not None:
        compared = pa.schema([field for field in schema if field.name in ordering])
        known = int(log.base_rows.max()) < count_rows(storage, base_file)
        if known and (len(compared) or not ordering):
            return _SliceMerge(log, compared, None, compares)
        log = replace(log, base_rows=None)
    if not folds:
        used = {RECORD_KEY, *settings.key_columns, *ordering} | ({COMMIT_TIME} if commit_times is not None else set())
        schema = pa.schema([field for field in schema if field.name in used])
    return _SliceMerge(log, schema, commit_times, folds or compares)


def _beats_base(storage: Storage, split: Split, log: LogRecords) -> bool:
    """Whether no row of the base file has a greater ordering value than any version of the log, by the statistics in
    its footer."""
    settings, schema = split.spec.merge, split.spec.table_schema
    assert settings is not None
    name = settings.ordering_fields[0]
    if len(settings.ordering_fields) > 1 or name not in schema.names:
        return False
    kind = schema.field(name).type
    values = log.winners.ordering[0].filter(pa.array(~log.winners.always))
    if not values.type.equals(kind) or values.null_count:
        return False
    if not len(values):
        return True
    lowest = _as_number(pc.min(values))
    if lowest is None or (has_default_zero(kind) and lowest < 0):  # nulls in the base file count as 0
        return False
    greater = Comparison(">", Column((name,), kind), Literal(lowest, kind), kind)
    condition = Filter(f"{name} > {lowest}", frozenset({name}), greater)
    return row_groups_matching(storage, _base_file(split), None, condition, split.spec.history) == []


def _as_number(value: pa.Scalar) -> int | None:
    """An integer, days or microseconds since the epoch; None for other types."""
    kind = value.type
    if pa.types.is_date32(kind):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return int(value.cast(pa.int64()).as_py())
    return int(value.as_py()) if pa.types.is_signed_integer(kind) else None


def _base_file(split: Split) -> BaseFile:
    assert split.base_file is not None
    return split.base_file


def _numbered(storage: Storage, split: Split, merge: _SliceMerge) -> Iterator[pa.RecordBatch]:
    """The base rows to merge, with their numbers."""
    spec = split.spec
    assert spec.merge is not None
    rows = max(spec.batch_rows, MERGE_ROWS)
    start = 0
    for batch in read_base(storage, _base_file(split), merge.base_schema, batch_rows=rows, history=spec.history):
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        start += batch.num_rows
        yield with_keys(of_commits(batch.append_column(_ROW, numbers), merge.commit_times), spec.merge.key_fields)


def _choosing(merge: _SliceMerge, split: Split) -> BaseMerge | None:
    """The merge if it chooses among versions in memory; None if it makes rows of two versions, or in files."""
    settings, log = split.spec.merge, merge.log
    assert settings is not None
    return BaseMerge(log, settings) if isinstance(log, LogRecords) and not (settings.folds or log.partial) else None


def _replaced(storage: Storage, split: Split, merge: _SliceMerge, merging: BaseMerge) -> Iterator[Rows]:
    """The numbers of base rows that are replaced or deleted."""
    log = merge.log
    if isinstance(log, LogRecords) and log.base_rows is not None and not merge.reads_base:
        yield log.base_rows
        return
    for batch in _numbered(storage, split, merge):
        yield batch.column(_ROW).to_numpy()[merging.replaced(batch)]


def _marked(batches: Iterator[pa.RecordBatch], marks: Mask) -> Iterator[pa.RecordBatch]:
    """The batches; the numbers of their rows are marked."""
    for batch in batches:
        marks[batch.column(_ROW).to_numpy()] = True
        yield batch


def _merged(merge: _SliceMerge, split: Split, base: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Base rows that remain as they are, with their numbers, and the other rows without."""
    assert split.spec.merge is not None
    if isinstance(merge.log, LogRecords):
        merging = BaseMerge(merge.log, split.spec.merge)
        for batch in base:
            yield from merging.add(batch)
        yield from merging.rest()
        return
    with merge.log as log:
        yield from (batch for batch, _ in log.merged_with(base))


def _bits(file: str, marks: Mask) -> pa.RecordBatch:
    starts = [start for start in range(0, len(marks), CHUNK_ROWS) if marks[start : start + CHUNK_ROWS].any()]
    parts = [marks[start : start + CHUNK_ROWS] for start in starts]
    words = [np.packbits(np.pad(part, (0, -len(part) % 64)), bitorder="little").view("<i8") for part in parts]
    offsets = np.cumsum([0, *map(len, words)])
    columns = [
        pa.repeat(file, len(starts)),
        pa.array([start // CHUNK_ROWS for start in starts], pa.int64()),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(words), pa.int64())),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REPLACED_SCHEMA)
