"""Rows on their way to where their keys are, when an index over all partitions finds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.merge import MergeSettings, reduce_input
from hudi_py.merge.reduce import combined
from hudi_py.model.names import PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.write.index import RecordIndexTagger
from hudi_py.write.rows import PartitionedRows

FILE_ID = "_hudi_py_file_id"
"""Column of such rows: the file group of the key, null where the key is new."""
_OWNER = "_hudi_py_partition"


def placed(
    tagger: RecordIndexTagger, rows: pa.RecordBatch, paths: pa.StringArray
) -> tuple[pa.RecordBatch, pa.StringArray]:
    """The rows with the file groups of their keys, and the partition paths under which they are written: those of their
    keys, where there are any (`SparkMetadataTableGlobalRecordLevelIndex`,
    `hoodie.record.index.update.partition.path=false`, 1.2.0).

    Args:
        rows: `_hoodie_record_key`, then anything.
        paths: the partition path that each row asks for.
    """
    partitions, file_ids = tagger.places(combined(rows.column(0)))
    return rows.append_column(pa.field(FILE_ID, pa.string()), file_ids), pc.coalesce(partitions, paths)


def losing_keys(held: PartitionedRows, settings: MergeSettings) -> dict[PartitionPath, pa.Array]:
    """Of the new keys that rows of several partitions have, those to leave out in each: over all partitions a key
    counts once, in the row that would win within one (`HoodieWriteHelper.deduplicateRecords`, 1.2.0).

    Args:
        held: placed rows.
    """
    partitions = held.partitions
    new: list[pa.Array] = []
    for partition in partitions:
        keys = [batch.column(0).filter(pc.is_null(batch.column(FILE_ID))) for batch in held.batches(partition)]
        new.append(pa.chunked_array(keys, pa.string()).unique())
    counts = pa.chunked_array(new, pa.string()).value_counts()
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if not len(twice):
        return {}
    parts = []
    for number, partition in enumerate(partitions):
        rows = held.table(partition)
        rows = rows.filter(pc.is_in(rows[RECORD_KEY], value_set=twice))
        parts.append(rows.append_column(_OWNER, pa.array(np.full(rows.num_rows, number, np.int32))))
    won = reduce_input(pa.concat_tables(parts).combine_chunks(), settings, key_columns=(RECORD_KEY,))
    return {
        partition: combined(won.filter(pc.not_equal(won[_OWNER], number))[RECORD_KEY])
        for number, partition in enumerate(partitions)
    }
