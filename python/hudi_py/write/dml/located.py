"""Rows whose file groups a scan has found: updates and deletes of the rows of a table, and new rows among them."""

from __future__ import annotations

import pyarrow as pa

from hudi_py.model.commit import WriteStat
from hudi_py.model.operation import Operation
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.place import write_shares
from hudi_py.write.operations.shares import Share
from hudi_py.write.rows import KeyedRows, LocatedRows, PartitionedRows, TaggedRows


def located_rows(context: WriteContext) -> PartitionedRows:
    """Return an empty collection of the rows that a statement changes, `LocatedRows.packed` with `leaving`: rows that
    leave are deleted, whatever their ordering value; those without a file group are new."""
    schema = LocatedRows.packed_schema(context.row_schema, moves=True)
    return PartitionedRows(schema, context.settings.waiting_bytes)


def write_located(context: WriteContext, held: PartitionedRows) -> list[WriteStat]:
    """Write `located_rows`, by partition, to the file groups that have their keys.

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
    """Write `located_rows` by the shares that they are held by: of buckets, if the table has them."""

    def rows(share: Share) -> TaggedRows:
        located = LocatedRows.unpacked(held.table(share.name), moves=True)
        return located.tagged(list(share.slices.values()), alive=True)

    return write_shares(context, Operation.UPSERT, held, rows)
