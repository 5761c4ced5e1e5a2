"""Insert overwrite table: new file groups replace all that the table has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from hudi_py.write.context import WriteContext
from hudi_py.write.operations.bulk_insert import bulk_insert
from hudi_py.write.operations.partition import OperationResult, pending_clustering_conflict

Insert = Callable[[WriteContext, Iterable[pa.RecordBatch]], OperationResult]


def overwrite(
    context: WriteContext, batches: Iterable[pa.RecordBatch], insert: Insert = bulk_insert
) -> OperationResult:
    """Writes rows to new file groups, which replace those of all partitions. `insert` writes them.

    Raises:
        ConflictError: a pending clustering is about to replace some of them, and would bring their rows back.
    """
    view = context.transaction.view
    if view.pending_clustering:
        (partition, file_id), _ = min(view.pending_clustering.items())
        raise pending_clustering_conflict(view, "overwrite", partition, file_id)
    replaced = {
        str(partition): groups
        for partition in view.partitions()
        if (groups := tuple(str(slice_.file_id) for slice_ in view.latest_slices_for_write(partition)))
    }
    return OperationResult(insert(context, batches).stats, replaced)
