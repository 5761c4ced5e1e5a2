"""Insert: rows are added to small files first, and their keys are looked up only to drop or refuse
known ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa

from hudi_py.config import write as write_config
from hudi_py.config.write import INSERT_DUPLICATES
from hudi_py.errors import DuplicateKeyError
from hudi_py.merge import delete_marks
from hudi_py.model.commit import WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.handles import merge_base_file, updates_of
from hudi_py.write.operations.partition import OperationResult, PartitionWriter, PlacedRows, write_partitions
from hudi_py.write.operations.tagging import held_rows, one_row_per_key_of, tag_and_write
from hudi_py.write.rows import TaggedRows, sorted_by_key


def insert(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    if context.settings.insert_duplicates != "none":
        return _insert_unknown(context, batches)
    if context.settings.combines:
        return insert_one_per_key(context, batches)
    with held_rows(context, map(context.keyed, batches), context.row_schema) as held:

        def write(partition: PartitionWriter) -> None:
            write_new(context, partition, partial(held.batches, partition.path), held.rows_of(partition.path))

        return write_partitions(context, held, write)


def insert_one_per_key(
    context: WriteContext, batches: Iterable[pa.RecordBatch], *, into_small: bool = True
) -> OperationResult:
    """Inserts the row of each key that wins within the input. `into_small`: fill small files first."""
    with one_row_per_key_of(context, map(context.keyed, batches)) as (held, winners):

        def write(partition: PartitionWriter) -> None:
            rows = winners.table(partition.path)
            if context.settings.sort_by_key:
                rows = sorted_by_key(rows)
            write_new(context, partition, lambda: iter(rows.to_batches()), rows.num_rows, into_small=into_small)

        return write_partitions(context, held, write, winners.partitions)


def _insert_unknown(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    """Inserts rows whose key the table does not have. Raises as `write_unknown`."""
    keyed, write = map(context.keyed, batches), partial(write_unknown, context)
    return tag_and_write(context, keyed, context.row_schema, write, one_per_key=context.settings.combines)


def write_unknown(context: WriteContext, partition: PartitionWriter, tagged: TaggedRows) -> None:
    """Inserts the rows of a partition whose key the table does not have.

    Raises:
        DuplicateKeyError: the table has a key, and the policy is `fail`.
    """
    known = [numbers[0] for _, numbers in tagged.found if len(numbers)]
    if known and context.settings.insert_duplicates == "fail":
        key = tagged.rows[RECORD_KEY][int(min(known))].as_py()
        raise DuplicateKeyError(
            f"Cannot insert into the table '{context.transaction.config.name}': it already has the key '{key}' in "
            f"partition '{partition.path}', and {INSERT_DUPLICATES.key} = 'fail'; leave the row out, or use upsert",
            key=key,
        )
    rows = tagged.rows.take(pa.array(tagged.new)).combine_chunks()
    write_new(context, partition, lambda: iter(rows.to_batches()), rows.num_rows)


def live_rows(batch: pa.RecordBatch, context: WriteContext) -> pa.RecordBatch:
    """The rows without a delete marker. Deletes among inserts have nothing to remove, and must not get into base
    files."""
    deletes = delete_marks(batch, context.settings.merge)
    return batch.filter(pa.array(~deletes)) if deletes.any() else batch


def write_new(
    context: WriteContext,
    partition: PartitionWriter,
    batches: Callable[[], Iterator[pa.RecordBatch]],
    num_rows: int,
    *,
    into_small: bool = True,
) -> None:
    """Inserts rows of a partition without a look-up. `batches` is called several times."""
    marked = sum(int(delete_marks(batch, context.settings.merge).sum()) for batch in batches())

    def window(start: int, count: int) -> Iterator[pa.RecordBatch]:
        return _window((live_rows(batch, context) for batch in batches()), start, count)

    start = 0
    for target in partition.assign(num_rows - marked, into_small=into_small):
        rows = partial(window, start, target.num_rows)
        start += target.num_rows
        slice_ = None if target.file_id is None else partition.slices[target.file_id]
        if slice_ is None or context.settings.get(write_config.ALLOW_DUPLICATES_ON_INSERT):
            partition.write(PlacedRows(slice_, inserts=rows))
        else:
            partition.submit(partial(_merged, context, slice_, rows))


def _merged(context: WriteContext, slice_: FileSlice, rows: Callable[[], Iterator[pa.RecordBatch]]) -> list[WriteStat]:
    """Adds rows to a file, in which they replace those of the same keys."""
    updates = updates_of(pa.Table.from_batches(list(rows()), context.row_schema), context)
    return [merge_base_file(context, slice_, updates, keys_tagged=False)]


def _window(batches: Iterator[pa.RecordBatch], start: int, count: int) -> Iterator[pa.RecordBatch]:
    """Rows `start` to `start + count` of the batches."""
    end = start + count
    at = 0
    for batch in batches:
        low, high = max(start, at), min(end, at + batch.num_rows)
        if low < high:
            yield batch.slice(low - at, high - low)
        at += batch.num_rows
        if at >= end:
            return
