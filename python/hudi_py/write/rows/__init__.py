"""Rows on their way into files: reading the input, casting it, its keys and partitions, and the stages of a write."""

from hudi_py.write.rows.partitioned import PartitionedRows, split_by_partition
from hudi_py.write.rows.stages import (
    KeyedRows,
    LocatedRows,
    RowNumbers,
    TaggedRows,
    one_row_per_key,
    sorted_by_key,
    without_keys,
)

__all__ = [
    "KeyedRows",
    "LocatedRows",
    "PartitionedRows",
    "RowNumbers",
    "TaggedRows",
    "one_row_per_key",
    "sorted_by_key",
    "split_by_partition",
    "without_keys",
]
