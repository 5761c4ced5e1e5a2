"""Reads splits: rows of a slice or its changes, then filter, limit and projection; one, several at once, or a count."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from hudi_py.formats.lookup import TextSet
from hudi_py.merge.keys import record_keys
from hudi_py.read.changes.rows import change_rows
from hudi_py.read.slices.base_file import BaseFileReader
from hudi_py.read.slices.parts import added_rows, merged_count
from hudi_py.read.slices.reader import SliceReader, of_commits
from hudi_py.read.split import ChangeSplit, ReadSpec, Split
from hudi_py.read.support import missing_file
from hudi_py.schema import RECORD_KEY, conform
from hudi_py.storage import Storage, open_storage
from hudi_py.storage.threads import in_threads

T = TypeVar("T")
R = TypeVar("R")
_AHEAD = 2
"""Number of batches that each split may buffer while another one is consumed."""
_POLL_SECONDS = 0.1


def read_split(
    split: Split, *, skip_rows: int = 0, storage_options: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a split, in a deterministic order.

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
    """Reads as `read_split`, on an open storage."""
    spec = split.spec
    output = spec.output_schema
    keys = None if spec.keys is None else TextSet(pa.array(spec.keys, pa.string()))
    left = None if spec.limit is None else spec.limit + skip_rows
    try:
        for batch in _split_rows(storage, split):
            batch = _chosen_rows(batch, spec, keys)
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


def ordered(items: Sequence[T], read: Callable[[T], Iterator[R]], threads: int) -> Iterator[R]:
    """Yields the results of `read` item by item, reading up to `threads` items at the same time.

    An error is raised in the place of the item's results. The threads stop when the caller stops iterating.
    """
    if threads <= 1 or len(items) <= 1:
        for item in items:
            yield from read(item)
        return
    stop = threading.Event()
    channels: dict[int, queue.Queue[tuple[str, object]]] = {}
    workers: dict[int, threading.Thread] = {}

    def produce(position: int) -> None:
        channel = channels[position]
        try:
            for result in read(items[position]):
                if not _put_value(channel, ("result", result), stop):
                    return
            _put_value(channel, ("end", None), stop)
        except BaseException as error:  # passed to the consumer, which would wait forever otherwise
            _put_value(channel, ("error", error), stop)

    def start(position: int) -> None:
        channels[position] = queue.Queue(_AHEAD)
        workers[position] = threading.Thread(
            target=produce, args=(position,), name=f"hudi-read-{position}", daemon=True
        )
        workers[position].start()

    try:
        for index in range(min(threads, len(items))):
            start(index)
        for index in range(len(items)):
            channel = channels[index]
            while True:
                kind, value = channel.get()
                if kind == "end":
                    break
                if kind == "error":
                    assert isinstance(value, BaseException)
                    raise value
                yield value  # type: ignore[misc]
            del channels[index], workers[index]
            if index + threads < len(items):
                start(index + threads)
    finally:
        stop.set()
        for worker in list(workers.values()):
            worker.join()


def count_splits(
    spec: ReadSpec, splits: Sequence[Split], storage_options: Mapping[str, str] | None = None, *, threads: int = 1
) -> int:
    """Counts the rows of splits without their spec, see `Pinned`. Raises what `read_split` raises.

    Args:
        threads: splits to count at once.
    """
    storage = open_storage(spec.uri, storage_options)
    return sum(in_threads(lambda split: count_split(storage, replace(split, spec=spec)), splits, threads))


def count_split(storage: Storage, split: Split) -> int:
    """Counts the rows of a split, from footers, or else from only the columns that decide the merge and the filter.

    Raises what `read_split` raises.
    """
    try:
        if is_counted_by_footer(split):
            assert split.base_file is not None
            with BaseFileReader(storage, split.base_file) as reader:
                return reader.num_rows
        if _is_merged_whole(split):
            return merged_count(storage, split)
    except FileNotFoundError as error:
        raise missing_file(storage, split, error) from error
    bare = replace(split, spec=replace(split.spec, columns=()))
    return sum(batch.num_rows for batch in read_split_on(storage, bare))


def is_counted_by_footer(split: object) -> bool:
    """Returns whether a split's rows are all those of its base file."""
    return isinstance(split, Split) and not split.merged and split.row_groups is None and _takes_all(split.spec)


def _split_rows(storage: Storage, split: Split) -> Iterator[pa.RecordBatch]:
    if isinstance(split, ChangeSplit):
        yield from change_rows(storage, split)
    elif split.without_base:
        yield from added_rows(storage, split)
    else:
        with SliceReader(storage, split) as reader:
            yield from reader.rows()


def _chosen_rows(batch: pa.RecordBatch, spec: ReadSpec, keys: TextSet | None) -> pa.RecordBatch:
    """Selects the rows of the requested commits and keys, after the merge, so that no older version surfaces."""
    batch = of_commits(batch, spec.commit_times)
    if keys is not None:
        own = record_keys(batch, spec.key_fields) if spec.key_fields else batch.column(RECORD_KEY)
        batch = batch.filter(keys.has(own))
    return batch


def _put_value(channel: queue.Queue[tuple[str, object]], value: tuple[str, object], stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            channel.put(value, timeout=_POLL_SECONDS)
            return True
        except queue.Full:
            continue
    return False


def _takes_all(spec: ReadSpec) -> bool:
    return spec.filter is None and spec.commit_times is None and spec.keys is None


def _is_merged_whole(split: Split) -> bool:
    spec = split.spec
    has_both = not isinstance(split, ChangeSplit) and split.merged and split.base_file is not None
    return has_both and _takes_all(spec) and spec.mode == "merge" and not spec.emit_deletes and spec.limit is None
