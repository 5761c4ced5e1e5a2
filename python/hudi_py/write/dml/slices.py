"""Reads the rows that a statement changes, with the file groups that contain them, and writes the result: updates and
deletes of rows of the table, and new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Options, incremental
from hudi_py.config import read as read_config
from hudi_py.expressions import Filter
from hudi_py.model.commit import WriteStat
from hudi_py.model.operation import Operation
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.slices.task import ordered, read_split_on
from hudi_py.read.split import Split
from hudi_py.storage.threads import default_threads
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.place import write_shares
from hudi_py.write.operations.shares import Share
from hudi_py.write.rows import KeyedRows, LocatedRows, PartitionedRows, TaggedRows

_OF_QUERIES = (
    read_config.QUERY_TYPE,
    read_config.AS_OF_INSTANT,
    read_config.MERGE_TYPE,
    read_config.CHANGELOG,
    read_config.KEYS,
    read_config.COLUMNS,
    read_config.FILTER,
    read_config.DAMAGED,
    incremental.FORMAT,
)
"""Query options, which do not affect the rows that a statement changes."""

Condition: TypeAlias = str | pc.Expression | Filter | None


def scan_request(
    options: Options,
    *,
    columns: Iterable[str],
    condition: Condition = None,
    keys: Iterable[str] | None = None,
    partitions: Iterable[str] | None = None,
) -> ScanRequest:
    """Returns the request for a scan of current rows."""
    arguments = ScanArguments(columns=list(columns), filter=condition, keys=keys, partitions=partitions, with_keys=True)
    return ScanRequest.of(options.without(*_OF_QUERIES), arguments)


def read_slices(context: WriteContext, splits: Sequence[Split]) -> Iterator[tuple[Split, pa.RecordBatch]]:
    """Yields the rows of splits of the state that the write sees, each batch with the split of its file group."""
    storage = context.transaction.storage

    def read(split: Split) -> Iterator[tuple[Split, pa.RecordBatch]]:
        for batch in read_split_on(storage, split):
            context.progress.read(batch.num_rows)
            yield split, batch

    context.progress.phase("reading")
    yield from ordered(splits, read, min(default_threads(), context.settings.threads))
    context.progress.phase("writing")


def hold(held: PartitionedRows, rows: pa.RecordBatch, split: Split, *, leaving: bool = False) -> None:
    """Adds rows of a split to `held`. `leaving`: whether they are deleted."""
    hold_located(held, rows, *places_of(split, rows.num_rows), leaving=leaving)


def places_of(split: Split, count: int) -> tuple[pa.StringArray, pa.StringArray]:
    """Returns file group and partition, repeated for `count` rows of a split."""
    file_ids = pa.repeat(pa.scalar(str(split.file_id), pa.string()), count)
    return file_ids, pa.repeat(pa.scalar(str(split.partition), pa.string()), count)


def hold_located(
    held: PartitionedRows,
    rows: pa.RecordBatch,
    file_ids: pa.Array,
    partitions: pa.Array,
    *,
    leaving: bool | None = False,
) -> None:
    """Adds rows to `held`, as `LocatedRows.packed` with `leaving`; None: the rows come from another partition, which
    they leave."""
    if rows.num_rows:
        marks = pa.repeat(pa.scalar(leaving, pa.bool_()), rows.num_rows)
        packed = LocatedRows(pa.Table.from_batches([rows]), file_ids, marks).packed()
        held.add(packed.combine_chunks().to_batches()[0], partitions)


def located_rows(context: WriteContext) -> PartitionedRows:
    """Returns an empty collection of the rows that a statement changes, `LocatedRows.packed` with `leaving`: rows that
    leave are deleted, whatever their ordering value; rows without a file group are new."""
    schema = LocatedRows.packed_schema(context.row_schema, moves=True)
    return PartitionedRows(schema, context.settings.waiting_bytes)


def write_located(context: WriteContext, held: PartitionedRows) -> list[WriteStat]:
    """Writes `located_rows`, by partition, to the file groups that have their keys.

    Raises:
        ConflictError: rows belong to file groups that a pending clustering is about to replace.
    """
    if context.buckets is None:
        return write_located_shares(context, held)
    with located_rows(context) as by_bucket:
        for path in held.partitions:
            for batch in held.batches(path):
                paths = pa.repeat(pa.scalar(str(path), pa.string()), batch.num_rows)
                spread = context.buckets.spread(KeyedRows(batch, paths))
                by_bucket.add(spread.rows, spread.partitions)
        return write_located_shares(context, by_bucket)


def write_located_shares(context: WriteContext, held: PartitionedRows) -> list[WriteStat]:
    """Writes `located_rows` by the shares in which they are held: of buckets, if the table has them."""

    def rows(share: Share) -> TaggedRows:
        located = LocatedRows.unpacked(held.table(share.name), moves=True)
        return located.tagged(list(share.slices.values()), alive=True)

    return write_shares(context, Operation.UPSERT, held, rows)
