"""Reads one split: rows of a slice or its changes, then filter, limit and projection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from hudi_py.formats.lookup import TextSet
from hudi_py.merge.keys import record_keys
from hudi_py.read.changes import ChangeSplit, change_rows
from hudi_py.read.parts import added_rows
from hudi_py.read.slice import SliceReader, of_commits
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.support import missing_file
from hudi_py.schema import RECORD_KEY, conform
from hudi_py.storage import Storage, open_storage


def read_split(
    split: Split, *, skip_rows: int = 0, storage_options: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in a deterministic order.

    Args:
        split: from `Scan.splits()`; may come from another process.
        skip_rows: output rows to skip at the start, so that a reader can continue where it stopped.
        storage_options: credentials and settings of the storage.

    Yields:
        Non-empty batches of `split.output_schema`.

    Raises:
        HistoryCleanedError: a file of the split was cleaned since it was planned.
        CorruptFileError, UnsupportedTableError, SchemaMismatchError: a file cannot be read.
    """
    return read_split_on(open_storage(split.spec.uri, storage_options), split, skip_rows=skip_rows)


def read_split_on(storage: Storage, split: Split, *, skip_rows: int = 0) -> Iterator[pa.RecordBatch]:
    """As `read_split`, on an open storage."""
    spec = split.spec
    output = spec.output_schema
    keys = None if spec.keys is None else TextSet(pa.array(spec.keys, pa.string()))
    left = None if spec.limit is None else spec.limit + skip_rows
    try:
        for batch in _rows(storage, split):
            batch = _chosen(batch, spec, keys)
            if spec.filter is not None:
                batch = spec.filter.apply(batch)
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if skip_rows:
                skipped = min(skip_rows, batch.num_rows)
                batch, skip_rows = batch.slice(skipped), skip_rows - skipped
            whole = conform(batch, output)
            for start in range(0, whole.num_rows, spec.batch_rows):
                yield whole.slice(start, spec.batch_rows)
            if left == 0:
                return
    except FileNotFoundError as error:
        raise missing_file(storage, split, error) from error


def _rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    if isinstance(split, ChangeSplit):
        yield from change_rows(storage, split)
    elif split.without_base:
        yield from added_rows(storage, split)
    else:
        with SliceReader(storage, split) as reader:
            yield from reader.rows()


def _chosen(batch: pa.RecordBatch, spec: ReadSpec, keys: TextSet | None) -> pa.RecordBatch:
    """The rows of the requested commits and keys, chosen after the merge so that no older version surfaces."""
    batch = of_commits(batch, spec.commit_times)
    if keys is not None:
        own = record_keys(batch, spec.key_fields) if spec.key_fields else batch.column(RECORD_KEY)
        batch = batch.filter(keys.has(own))
    return batch
