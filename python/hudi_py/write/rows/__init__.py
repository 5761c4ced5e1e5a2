"""Rows on their way into files: reading the input, casting it, its keys and partitions, and the stages of a write."""

from hudi_py.write.rows.partitioned import PartitionedRows, share_name, share_names, split_by_partition, split_share
from hudi_py.write.rows.stages import (
    ChangedSlice,
    FilledFile,
    KeyedRows,
    LocatedRows,
    NewGroup,
    Placed,
    RowNumbers,
    TaggedRows,
    UntaggedRows,
    one_row_per_key,
    sorted_by_key,
    without_keys,
)

__all__ = [
    "ChangedSlice",
    "FilledFile",
    "KeyedRows",
    "LocatedRows",
    "NewGroup",
    "PartitionedRows",
    "Placed",
    "RowNumbers",
    "TaggedRows",
    "UntaggedRows",
    "one_row_per_key",
    "share_name",
    "share_names",
    "sorted_by_key",
    "split_by_partition",
    "split_share",
    "without_keys",
]
