"""Running an operation on incoming rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hudi_py.write.context import WriteContext
from hudi_py.write.operations.bulk_insert import bulk_insert
from hudi_py.write.operations.delete import delete
from hudi_py.write.operations.insert import insert
from hudi_py.write.operations.operation import Operation, OperationResult
from hudi_py.write.operations.overwrite import overwrite
from hudi_py.write.operations.upsert import upsert

_RUN = {
    Operation.INSERT: insert,
    Operation.UPSERT: upsert,
    Operation.BULK_INSERT: bulk_insert,
    Operation.DELETE: delete,
    Operation.INSERT_OVERWRITE_TABLE: overwrite,
}


def run_operation(context: WriteContext, batches: Iterable[pa.RecordBatch], operation: Operation) -> OperationResult:
    """Writes the files of an operation; commits nothing.

    Args:
        batches: incoming rows in normalised input types (`read_input`). A delete needs their key and partition columns
            only.

    Raises:
        SchemaMismatchError, ConfigError: the rows do not fit the table, or it is written with another index.
        ConflictError: a pending clustering is about to replace file groups that the rows belong to.
    """
    return _RUN[operation](context, batches)
