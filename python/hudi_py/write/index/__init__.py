"""Indexes: which file group holds each incoming key."""

from __future__ import annotations

from collections.abc import Callable

from hudi_py.errors import ConfigError
from hudi_py.metadata import open_metadata
from hudi_py.metadata.key_scope import read_scope
from hudi_py.metadata.locations import is_by_partition
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.files import BaseFile
from hudi_py.timeline.state import TableState
from hudi_py.view import FileSystemView
from hudi_py.write.index.base_files import BaseFileIndex, GlobalBaseFileIndex, Live
from hudi_py.write.index.bucket import BucketIndex, Buckets, SimpleBuckets
from hudi_py.write.index.consistent import ConsistentBuckets
from hudi_py.write.index.other_indexes import check_folder, check_table_index
from hudi_py.write.index.protocol import (
    GLOBAL_RECORD_INDEX,
    PARTITION_RECORD_INDEX,
    GlobalIndex,
    Index,
    IndexSettings,
    PartitionIndex,
)
from hudi_py.write.index.record_index import GlobalRecordIndex, PartitionRecordIndex

__all__ = [
    "BucketIndex",
    "Buckets",
    "GlobalBaseFileIndex",
    "GlobalIndex",
    "GlobalRecordIndex",
    "Index",
    "IndexSettings",
    "PartitionIndex",
    "check_folder",
    "check_table_index",
    "open_buckets",
    "open_index",
]

_ENABLE = {
    GLOBAL_RECORD_INDEX: "hoodie.metadata.global.record.level.index.enable",
    PARTITION_RECORD_INDEX: "hoodie.metadata.record.level.index.enable",
}


def open_buckets(index: BucketIndex, view: FileSystemView, instant: str = "") -> Buckets:
    """The buckets of a table, which are read where they are asked for. `instant`: of the write, if it has begun."""
    if not index.consistent:
        return SimpleBuckets(index, view.state.storage)
    return ConsistentBuckets(index, view, instant)


def open_index(
    state: TableState,
    view: FileSystemView,
    settings: IndexSettings,
    *,
    threads: int = 1,
    check_key: Callable[[BaseFile, str], None] | None = None,
    live: Live | None = None,
) -> Index:
    """The index of a write. If a table has no record index, one by partition is replaced by a look-up in base files,
    as in Apache Hudi.

    Args:
        state, view: the table as the write sees it.
        threads, check_key, live: see `BaseFileIndex`.

    Raises:
        ConfigError: the table has no record index, or one of the other kind.
        CorruptFileError, UnsupportedTableError: the metadata table cannot be read.
    """
    storage, config, kind = state.storage, state.config, settings.type
    metadata = None
    if settings.uses_record_index(config):
        metadata = open_metadata(state)
    if metadata is None and kind != GLOBAL_RECORD_INDEX:
        files = BaseFileIndex(storage, settings, threads, check_key, live)
        return GlobalBaseFileIndex(files, view) if settings.is_global else files
    if metadata is None:
        raise ConfigError(
            f"Cannot look up keys with hoodie.index.type={kind}: the table '{config.name}' has no record index; set "
            f"{_ENABLE[kind]}=true, so that the write creates one, or use another index type"
        )
    by_partition = is_by_partition(storage, config, metadata.file_groups(RECORD_INDEX))
    if by_partition != (kind == PARTITION_RECORD_INDEX):
        other = PARTITION_RECORD_INDEX if by_partition else GLOBAL_RECORD_INDEX
        raise ConfigError(
            f"Cannot look up keys with hoodie.index.type={kind}: the record index of the table '{config.name}' is one "
            f"{'by partition' if by_partition else 'over all partitions'}; write with hoodie.index.type={other}"
        )
    if by_partition:
        return PartitionRecordIndex(metadata, view)
    scope = read_scope(storage)
    if scope is not None and scope.repeated is not None:
        raise ConfigError(
            f"Cannot look up keys with hoodie.index.type={kind}: the record key {scope.repeated!r} of the table "
            f"'{config.name}' is in several file groups, and this index needs keys that are unique in the table; use "
            "SIMPLE or BLOOM, or delete the other rows and rebuild the index with metadata.rebuild('record_index')"
        )
    return GlobalRecordIndex(metadata, view)
