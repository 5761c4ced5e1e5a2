"""Delete: known keys are deleted whatever their ordering value; unknown ones are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from hudi_py.formats.arrays import combined
from hudi_py.schema import RECORD_KEY
from hudi_py.write.context import WriteContext
from hudi_py.write.operations.partition import OperationResult, PartitionWriter, PlacedRows
from hudi_py.write.operations.tagging import tag_and_write
from hudi_py.write.rows import KeyedRows, TaggedRows

DELETE_SCHEMA = pa.schema([(RECORD_KEY, pa.string())])
"""Of the rows of a delete."""


def delete(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> OperationResult:
    """Deletes the keys of rows, which need no other columns than those of key and partition."""
    keyed = (keys_only(context, batch) for batch in batches)
    return tag_and_write(context, keyed, DELETE_SCHEMA, partial(write_tagged, context))


def write_tagged(context: WriteContext, partition: PartitionWriter, tagged: TaggedRows) -> None:
    """Deletes the keys of a partition that it has."""
    keys = combined(tagged.rows[RECORD_KEY])
    for slice_, numbers in tagged.found:
        deleted = keys.take(pa.array(numbers))
        if context.settings.combines:
            deleted = deleted.unique()
        partition.write(PlacedRows(slice_, deleted=deleted, positions=tagged.positions.get(slice_.file_id)))


def keys_only(context: WriteContext, batch: pa.RecordBatch) -> KeyedRows:
    """The keys and partition paths of rows, in `DELETE_SCHEMA`."""
    keygen, schema = context.settings.keygen, context.settings.schema
    needed = [*keygen.key_columns(schema.arrow), *keygen.partition_columns(schema.arrow)]
    rows = schema.conform_some(batch, needed)
    return KeyedRows(pa.record_batch([keygen.record_keys(rows)], schema=DELETE_SCHEMA), keygen.partition_paths(rows))
