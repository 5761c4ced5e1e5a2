"""Indexes find the file group of each incoming key. Lists the kinds of indexes with which a table can be written."""

from __future__ import annotations

from typing import Final

from hudi_py.config import Options
from hudi_py.config import write as write_config
from hudi_py.view import FileSystemView
from hudi_py.write.index.base_files import BLOOM, GLOBAL_BLOOM, GLOBAL_SIMPLE, SIMPLE, GlobalBaseFileIndex
from hudi_py.write.index.bucket import BucketIndex, Buckets, SimpleBuckets
from hudi_py.write.index.consistent import ConsistentBuckets
from hudi_py.write.index.other_indexes import check_folder, check_table_index
from hudi_py.write.index.protocol import GlobalIndex, Index, IndexKind, IndexSettings, KeyLookup, PartitionIndex
from hudi_py.write.index.record_index import GLOBAL_RECORD_INDEX, PARTITION_RECORD_INDEX, GlobalRecordIndex

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
    """Opens the buckets of a table, which are read when needed. `instant`: the instant of the write, if it has
    begun."""
    if not index.consistent:
        return SimpleBuckets(index, view.state.storage)
    return ConsistentBuckets(index, view, instant)


BUCKET: Final = IndexKind("BUCKET", None, needs_stored_keys=False)
KINDS: Final = (SIMPLE, GLOBAL_SIMPLE, BLOOM, GLOBAL_BLOOM, GLOBAL_RECORD_INDEX, PARTITION_RECORD_INDEX, BUCKET)
"""The kinds with the names and aliases that `hoodie.index.type` accepts."""


def index_kind(options: Options) -> IndexKind:
    """Returns the kind of index that the options of a write name."""
    return _kind_of_name(options.get(write_config.INDEX_TYPE))


def open_index(lookup: KeyLookup) -> Index:
    """Opens the index of a write that looks keys up. Raises the errors of `IndexKind.open`."""
    opened = _kind_of_name(lookup.settings.type).open
    assert opened is not None, "the bucket index looks no keys up"
    return opened(lookup)


def without_stored_keys() -> tuple[str, ...]:
    """Returns the kinds that a table without the column of record keys can have."""
    return tuple(kind.name for kind in KINDS if not kind.needs_stored_keys)


def _kind_of_name(name: str) -> IndexKind:
    return next(kind for kind in KINDS if name in (kind.name, *kind.aliases))
