"""The one pipeline of writes: rows get their keys, keys their file groups, and shares of rows their files. The
properties of each operation are a row of `model.operation`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.commit import WriteStat
from hudi_py.model.operation import Operation
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.metadata_drop import dropped_meanwhile
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.bulk_insert import write_new_file_groups
from hudi_py.write.operations.overwrite import deleted_groups, replaced_by, replaced_groups
from hudi_py.write.operations.place import write_shares
from hudi_py.write.operations.tagging import tagged_input


def run_operation(context: WriteContext, batches: Iterable[pa.RecordBatch], operation: Operation) -> OperationResult:
    """Writes the files of an operation. Commits nothing.

    Args:
        batches: incoming rows in normalised input types (`read_input`). A delete needs their key and partition columns
            only, the deletion of partitions their partition columns.

    Raises:
        SchemaMismatchError, ConfigError: the rows do not fit the table, or it is written with another index.
        ConflictError: a pending table service has file groups that the operation would change, or another writer has
            dropped the index in which keys are looked up.
    """
    try:
        with context.transaction.view.naming_lost_files():
            return _run_steps(context, batches, operation)
    except (FileNotFoundError, CorruptFileError) as error:
        transaction = context.transaction
        now = load_table_config(transaction.storage)
        gone = dropped_meanwhile(transaction.instant, transaction.config, now, _relied_on(context, operation))
        if gone is None:
            raise
        raise gone from error


def _run_steps(context: WriteContext, batches: Iterable[pa.RecordBatch], operation: Operation) -> OperationResult:
    if not operation.writes_files:
        return OperationResult([], deleted_groups(context, batches))
    replaced: dict[str, tuple[str, ...]] = {}
    if operation.traits.replaces == "table":
        replaced = replaced_groups(context, context.transaction.view.partitions(), "overwrite")
    stats = write_rows(context, batches, operation)
    if operation.traits.replaces == "partitions":
        replaced = replaced_by(context, stats)
    knows_keys = context.settings.index.is_global and context.settings.looks_up(operation)
    return OperationResult(stats, replaced, _relied_on(context, operation), knows_keys)


def write_rows(context: WriteContext, batches: Iterable[pa.RecordBatch], operation: Operation) -> list[WriteStat]:
    """Writes the rows of an operation, whatever it replaces. Returns a statistic for each file."""
    settings = context.settings
    waits = operation.looks_up_keys or operation.traits.fills or settings.combines or context.buckets is not None
    if not waits:
        return write_new_file_groups(context, batches)
    with tagged_input(context, operation, batches) as given:
        return write_shares(context, operation, given.held, given.rows, given.names)


def _relied_on(context: WriteContext, operation: Operation) -> tuple[str, ...]:
    """Returns the partitions of the metadata table that an operation reads."""
    uses = context.settings.index.uses_record_index(context.transaction.config)
    return (RECORD_INDEX,) if uses and context.settings.looks_up(operation) else ()
