"""Merges a file slice for an engine that reads the base file itself: the rows to leave out, and those to add.

The engine's own reader returns the base file's rows. It leaves out the rows that the logs replace or delete
(`replaced_rows`) and adds the rows that the base file does not contain as they are (`added_rows`). Together they are
the rows of `SliceReader.rows`. Both parts read as little of the base file as the merge needs, often nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from hudi_py.formats.keys.hashing import xx_hash64
from hudi_py.merge import LogRecords
from hudi_py.merge.base import BaseMerge
from hudi_py.merge.reduce import Mask, Rows
from hudi_py.read.slices.reader import SliceMerge, SliceReader
from hudi_py.read.split import Split
from hudi_py.schema import conform
from hudi_py.storage import Storage

CHUNK_ROWS = 1 << 16
"""Number of base file rows covered by one row of `replaced_rows`."""
REPLACED_SCHEMA = pa.schema([("file", pa.string()), ("chunk", pa.int64()), ("bits", pa.list_(pa.int64()))])
_SPARKS_SEED = 42
_ROW = "\0row"
"""Column with the row number in the base file; other rows lack it."""


def added_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a merged slice that its base file does not hold: inserts, and newer or combined versions.

    Yields:
        Batches of `split.spec.read_schema()`, not yet filtered or projected.

    Raises:
        FileNotFoundError: a file of the slice does not exist.
        CorruptFileError, UnsupportedTableError, SchemaMismatchError: a file cannot be read.
    """
    output = split.spec.read_schema()
    with SliceReader(storage, split) as reader:
        merge = reader.prepare_merge(output.names)
        if merge is None:
            return
        # the newest log row wins over any base row, unless they are compared or combined
        base = reader.base_batches(merge, number=_ROW) if merge.depends_on_base else iter(())
        for batch, _ in merge.applied(base):
            if _ROW not in batch.schema.names:
                yield conform(batch, output)


def replaced_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a slice's base file that its logs replace or delete, as bits.

    Yields:
        At most one batch of `REPLACED_SCHEMA`. `file` is the base file's name. Bit `n % 64` of the item `n // 64` of
        `bits` stands for row `chunk * CHUNK_ROWS + n` of the file. Chunks without such a row are left out.

    Raises what `added_rows` raises.
    """
    with SliceReader(storage, split) as reader:
        gone = np.zeros(reader.base.num_rows, np.bool_)
        merge = reader.prepare_merge(())
        if merge is None:
            return
        chooser = _choosing_merge(merge)
        if chooser is not None:
            for rows in _replaced_numbers(reader, merge, chooser):
                gone[rows] = True
        else:
            for batch, _ in merge.applied(_mark_rows(reader.base_batches(merge, number=_ROW), gone)):
                if _ROW in batch.schema.names:
                    gone[batch.column(_ROW).to_numpy()] = False
        if gone.any():
            yield _mark_bits(str(reader.base.file.name), gone)


def merged_count(storage: Storage, split: Split) -> int:
    """Returns the number of rows of a merged slice with a base file, if all commits count.

    Raises what `added_rows` raises.
    """
    with SliceReader(storage, replace(split, spec=replace(split.spec, columns=()))) as reader:
        merge = reader.prepare_merge(())
        if merge is None:
            return reader.base.num_rows
        chooser = _choosing_merge(merge)
        if chooser is None:
            return sum(int(batch.num_rows) for batch, _ in merge.applied(reader.base_batches(merge)))
        replaced = sum(map(len, _replaced_numbers(reader, merge, chooser)))
        return reader.base.num_rows - replaced + sum(int(batch.num_rows) for batch in chooser.rest())


def have_distinct_hashes(names: Sequence[str], bits: int) -> bool:
    """Returns whether the upper bits of Spark SQL's `xxhash64` differ for all of the names."""
    hashes = xx_hash64(pa.array(names, pa.string()), _SPARKS_SEED) >> np.uint64(64 - bits)
    return len(np.unique(hashes)) == len(names)


def _choosing_merge(merge: SliceMerge) -> BaseMerge | None:
    """Returns the merge if it chooses among versions in memory; None if it combines two versions, or uses files."""
    return BaseMerge(merge.log, merge.settings) if isinstance(merge.log, LogRecords) and not merge.folds else None


def _replaced_numbers(reader: SliceReader, merge: SliceMerge, chooser: BaseMerge) -> Iterator[Rows]:
    """Yields the numbers of base rows that are replaced or deleted."""
    log = merge.log
    if isinstance(log, LogRecords) and log.base_rows is not None and not merge.depends_on_base:
        yield log.base_rows
        return
    for batch in reader.base_batches(merge, number=_ROW):
        yield batch.column(_ROW).to_numpy()[chooser.replaced(batch)]


def _mark_rows(batches: Iterator[pa.RecordBatch], marks: Mask) -> Iterator[pa.RecordBatch]:
    """Yields the batches and marks the numbers of their rows."""
    for batch in batches:
        marks[batch.column(_ROW).to_numpy()] = True
        yield batch


def _mark_bits(file: str, marks: Mask) -> pa.RecordBatch:
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
