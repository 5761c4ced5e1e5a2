"""Indexes: which file group holds each incoming key."""

from __future__ import annotations

from hudi_py.view import FileSystemView
from hudi_py.write.index.base_files import GlobalBaseFileIndex
from hudi_py.write.index.bucket import BucketIndex, Buckets, SimpleBuckets
from hudi_py.write.index.consistent import ConsistentBuckets
from hudi_py.write.index.kinds import index_kind, open_index, without_stored_keys
from hudi_py.write.index.other_indexes import check_folder, check_table_index
from hudi_py.write.index.protocol import GlobalIndex, Index, IndexSettings, KeyLookup, PartitionIndex
from hudi_py.write.index.record_index import GlobalRecordIndex

__all__ = [
    "BucketIndex",
    "Buckets",
    "GlobalBaseFileIndex",
    "GlobalIndex",
    "GlobalRecordIndex",
    "Index",
    "IndexSettings",
    "KeyLookup",
    "PartitionIndex",
    "check_folder",
    "check_table_index",
    "index_kind",
    "open_buckets",
    "open_index",
    "without_stored_keys",
]


def open_buckets(index: BucketIndex, view: FileSystemView, instant: str = "") -> Buckets:
    """The buckets of a table, which are read where they are asked for. `instant`: of the write, if it has begun."""
    if not index.consistent:
        return SimpleBuckets(index, view.state.storage)
    return ConsistentBuckets(index, view, instant)
