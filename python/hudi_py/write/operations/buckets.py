"""The operations on tables with a bucket index: rows are kept by bucket, and each bucket is written as one file group.

Source: `SparkBucketIndexPartitioner`, `BaseSparkDeltaCommitActionExecutor`, Apache Hudi 1.2.0. The first rows of a
bucket make a base file. Later ones are merged into it or, inserts too, go to a log in merge-on-read tables. Where
writers do not wait for each other the first rows go to a log as well, as a base file could be made by one of them only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.formats.arrays import combined
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.index.bucket import partition_and_number
from hudi_py.write.operations.delete import DELETE_SCHEMA, keys_only
from hudi_py.write.operations.insert import live_rows
from hudi_py.write.operations.partition import OperationResult, PartitionWriter, PlacedRows, write_partitions
from hudi_py.write.operations.tagging import held_rows
from hudi_py.write.operations.upsert import with_new_apart
from hudi_py.write.rows import KeyedRows, PartitionedRows, one_row_per_key, sorted_by_key


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The rows for one bucket."""

    held: PartitionedRows
    path: PartitionPath
    """Under which the rows are held."""
    slice_: FileSlice | None
    """What the bucket has; None: nothing yet. Without files where its first rows go to a log."""
    file_id: FileId

    def table(self) -> pa.Table:
        return self.held.table(self.path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.held.batches(self.path)


def upsert(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    def place(bucket: _Bucket) -> PlacedRows:
        rows = bucket.table()
        if context.settings.combines:
            rows = one_row_per_key(rows, context.settings.merge)
        if bucket.slice_ is not None and context.settings.updated_columns is not None:
            return with_new_apart(context, PlacedRows(bucket.slice_, updates=rows), looked_up=False)
        if bucket.slice_ is not None:
            return PlacedRows(bucket.slice_, updates=rows, keys_tagged=False)
        return _first_rows(context, bucket, rows.to_batches)

    return _write_buckets(context, map(context.keyed, batches), context.row_schema, place)


def insert(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    """Inserts, and bulk inserts too: Apache Hudi's would add a second file group to a bucket, after which it refuses
    upserts."""
    appends = context.transaction.config.is_mor

    def place(bucket: _Bucket) -> PlacedRows:
        rows = _for_insert(context, bucket)
        if bucket.slice_ is None:
            return _first_rows(context, bucket, rows)
        if appends:
            table = pa.Table.from_batches(list(rows()), context.row_schema)
            return PlacedRows(bucket.slice_, updates=table, keys_tagged=False)
        live = _live(context, rows)
        if context.settings.get(write_config.ALLOW_DUPLICATES_ON_INSERT):
            return PlacedRows(bucket.slice_, inserts=live)
        table = pa.Table.from_batches(list(live()), context.row_schema)
        return PlacedRows(bucket.slice_, updates=table, keys_tagged=False)

    return _write_buckets(context, map(context.keyed, batches), context.row_schema, place)


def insert_new(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    """Inserts into new file groups, whatever the buckets have."""

    def place(bucket: _Bucket) -> PlacedRows:
        return _first_rows(context, bucket, _for_insert(context, bucket))

    return _write_buckets(context, map(context.keyed, batches), context.row_schema, place, replaces=True)


def delete(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    def place(bucket: _Bucket) -> PlacedRows | None:
        if bucket.slice_ is None or bucket.slice_.size == 0:  # there is nothing to delete
            return None
        keys = combined(bucket.table()[RECORD_KEY])
        deleted = keys.unique() if context.settings.combines else keys
        return PlacedRows(bucket.slice_, deleted=deleted, keys_tagged=False)

    return _write_buckets(context, (keys_only(context, batch) for batch in batches), DELETE_SCHEMA, place)


def _write_buckets(
    context: WriteContext,
    rows: Iterable[KeyedRows],
    schema: pa.Schema,
    place: Callable[[_Bucket], PlacedRows | None],
    *,
    replaces: bool = False,
) -> OperationResult:
    """Writes what `place` makes of each bucket. `replaces`: into new file groups only."""
    index = context.buckets
    if index is None:
        raise ValueError("the write has no bucket index")
    with held_rows(context, map(index.spread, rows), schema) as held:
        paths: dict[PartitionPath, dict[int, PartitionPath]] = {}
        for path in held.partitions:
            partition, number = partition_and_number(path)
            paths.setdefault(partition, {})[number] = path

        def write(partition: PartitionWriter) -> None:
            slices = {} if replaces else index.by_number(partition.slices.values(), partition.path)
            for number, path in sorted(paths[partition.path].items()):
                slice_ = slices.get(number)
                if replaces:
                    file_id = index.replacing_file_id(number, partition.path)
                else:
                    file_id = index.new_file_id(number, partition.path)
                if (partition.path, file_id) in context.transaction.view.replaced:
                    # what is added to a replaced group is not seen
                    file_id = index.new_file_id(number, partition.path, fixed=False)
                if slice_ is None and index.fixed_ids and not replaces:
                    slice_ = FileSlice(partition.path, file_id, context.transaction.instant, None)
                placed = place(_Bucket(held, path, slice_, file_id))
                if placed is not None:
                    partition.write(placed)

        return write_partitions(context, held, write, list(paths))


def _first_rows(context: WriteContext, bucket: _Bucket, batches: Callable[[], Iterable[pa.RecordBatch]]) -> PlacedRows:
    return PlacedRows(None, inserts=_live(context, batches), file_id=bucket.file_id)


def _live(
    context: WriteContext, batches: Callable[[], Iterable[pa.RecordBatch]]
) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: (live_rows(batch, context) for batch in batches())


def _for_insert(context: WriteContext, bucket: _Bucket) -> Callable[[], Iterable[pa.RecordBatch]]:
    settings = context.settings
    if not (settings.combines or settings.sort_by_key):
        return bucket.batches
    rows = bucket.table()
    if settings.combines:
        rows = one_row_per_key(rows, settings.merge)
    if settings.sort_by_key:
        rows = sorted_by_key(rows)
    return lambda: rows.to_batches()
