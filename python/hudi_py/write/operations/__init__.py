"""The operations, each in its module, over one pipeline: keyed rows are tagged, placed and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.operation import Operation
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.metadata_drop import dropped_meanwhile
from hudi_py.write.context import WriteContext
from hudi_py.write.operations import buckets, bulk_insert, delete, insert, overwrite, upsert
from hudi_py.write.operations.partition import OperationResult

Run = Callable[[WriteContext, Iterable[pa.RecordBatch]], OperationResult]

_RUN: dict[Operation, Run] = {
    Operation.INSERT: insert.insert,
    Operation.UPSERT: upsert.upsert,
    Operation.BULK_INSERT: bulk_insert.bulk_insert,
    Operation.DELETE: delete.delete,
    Operation.INSERT_OVERWRITE: overwrite.overwrite_partitions,
    Operation.INSERT_OVERWRITE_TABLE: overwrite.overwrite_table,
    Operation.DELETE_PARTITION: overwrite.delete_partitions,
}

_RUN_BY_BUCKET: dict[Operation, Run] = {
    Operation.INSERT: buckets.insert,
    Operation.UPSERT: buckets.upsert,
    Operation.BULK_INSERT: buckets.insert,
    Operation.DELETE: buckets.delete,
    Operation.INSERT_OVERWRITE: partial(overwrite.overwrite_partitions, insert=buckets.insert_new),
    Operation.INSERT_OVERWRITE_TABLE: partial(overwrite.overwrite_table, insert=buckets.insert_new),
    Operation.DELETE_PARTITION: overwrite.delete_partitions,
}


def run_operation(context: WriteContext, batches: Iterable[pa.RecordBatch], operation: Operation) -> OperationResult:
    """Writes the files of an operation; commits nothing.

    Args:
        batches: incoming rows in normalised input types (`read_input`). A delete needs their key and partition columns
            only, the deletion of partitions their partition columns.

    Raises:
        SchemaMismatchError, ConfigError: the rows do not fit the table, or it is written with another index.
        ConflictError: a pending table service has file groups that the operation would change, or another writer has
            dropped the index in which keys are looked up.
    """
    run = _RUN if context.settings.index.buckets is None else _RUN_BY_BUCKET
    try:
        with context.transaction.view.naming_lost_files():
            return run[operation](context, batches)
    except (FileNotFoundError, CorruptFileError) as error:
        transaction = context.transaction
        now = load_table_config(transaction.storage)
        gone = dropped_meanwhile(transaction.instant, transaction.config, now, relied_on(context, operation))
        if gone is None:
            raise
        raise gone from error


def relied_on(context: WriteContext, operation: Operation) -> tuple[str, ...]:
    """The partitions of the metadata table that an operation reads, and which must be there until its commit: where
    files of them are gone already, keys would be taken for new."""
    uses = context.settings.index.uses_record_index(context.transaction.config)
    return (RECORD_INDEX,) if uses and _looks_up(context, operation) else ()


def knows_keys(context: WriteContext, operation: Operation) -> bool:
    """Whether an operation looks its keys up in all partitions."""
    return context.settings.index.is_global and _looks_up(context, operation)


def _looks_up(context: WriteContext, operation: Operation) -> bool:
    return operation.looks_up_keys or context.settings.insert_duplicates != "none"
