"""Indexes: which file group holds each incoming key."""

from hudi_py.write.index.opening import open_index
from hudi_py.write.index.other_indexes import check_index, check_table_index
from hudi_py.write.index.protocol import GLOBAL_RECORD_INDEX, GlobalIndex, Index, IndexSettings, PartitionIndex

__all__ = [
    "GLOBAL_RECORD_INDEX",
    "GlobalIndex",
    "Index",
    "IndexSettings",
    "PartitionIndex",
    "check_index",
    "check_table_index",
    "open_index",
]
