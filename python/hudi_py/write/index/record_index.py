"""Tagging incoming keys by the metadata table's record index: no base file is read.

Sources: `SparkMetadataTableGlobalRecordLevelIndex`, `SparkMetadataTableRecordLevelIndex`, `HoodieIndexUtils`, Apache
Hudi 1.2.0.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError
from hudi_py.metadata import MetadataTable, open_metadata
from hudi_py.metadata.locations import is_by_partition, partition_groups, places_of
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.files import FileSlice
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView
from hudi_py.write.index.tagging import GLOBAL_RECORD_INDEX, PARTITION_RECORD_INDEX, Tagging

_ENABLE = {
    GLOBAL_RECORD_INDEX: "hoodie.metadata.global.record.level.index.enable",
    PARTITION_RECORD_INDEX: "hoodie.metadata.record.level.index.enable",
}


class RecordIndexTagger:
    """Looks keys up in the record index of a table, as of the timeline a write saw. Methods are thread-safe.

    A place in a file group which the table has not is none: where an overwrite brings a key back in another partition,
    Apache Hudi 1.2.0 leaves it in an index by partition at its old place too.
    """

    def __init__(self, metadata: MetadataTable, view: FileSystemView, *, by_partition: bool) -> None:
        self._metadata = metadata
        self._view = view
        self._by_partition = by_partition
        self._lock = threading.Lock()
        self._groups: dict[str, frozenset[str]] = {}
        metadata.file_groups(RECORD_INDEX)  # read once, for all threads

    @property
    def is_global(self) -> bool:
        """Whether a key may be found in another partition than its row's."""
        return not self._by_partition

    def places(self, keys: pa.StringArray, partition: PartitionPath | None = None) -> tuple[pa.Array, pa.Array]:
        """Partition path and file id (both string) of each key, null where it is new.

        Args:
            partition: of all of the keys; needed for an index by partition.
        """
        prefix = None
        if self._by_partition:
            prefix = partition_groups(partition or "")
        found = places_of(self._metadata, keys, prefix)
        return self._there(found.partitions, found.file_ids)

    def _there(self, partitions: pa.Array, file_ids: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The places, null where the table has no such file group."""
        both = pc.binary_join_element_wise(partitions, file_ids, "\0").dictionary_encode()
        # file groups are few against rows
        pairs = [text.partition("\0") for text in both.dictionary.to_pylist()]
        stale = [number for number, (owner, _, file_id) in enumerate(pairs) if file_id not in self._ids(owner)]
        if not stale:
            return partitions, file_ids
        gone = pc.is_in(both.indices, value_set=pa.array(stale, both.indices.type))
        nothing = pa.scalar(None, pa.string())
        return pc.if_else(gone, nothing, partitions), pc.if_else(gone, nothing, file_ids)

    def _ids(self, partition: str) -> frozenset[str]:
        with self._lock:
            if partition not in self._groups:
                slices = self._view.latest_slices(PartitionPath(partition))
                self._groups[partition] = frozenset(str(slice_.file_id) for slice_ in slices)
            return self._groups[partition]


def open_tagger(
    storage: Storage, config: TableConfig, timeline: Timeline, view: FileSystemView, kind: str
) -> RecordIndexTagger | None:
    """What looks keys up for an index type; None where there is no record index and none is needed to find the rows:
    within partitions they are found by base files then, as Apache Hudi does.

    Args:
        kind: `hoodie.index.type`.

    Raises:
        ConfigError: the table has no record index, or not one of this kind.
        CorruptFileError, UnsupportedTableError: the metadata table cannot be read.
    """
    metadata = open_metadata(storage, config, timeline) if RECORD_INDEX in config.metadata_partitions else None
    if metadata is None:
        if kind == PARTITION_RECORD_INDEX:
            return None
        raise ConfigError(
            f"Cannot look up keys with hoodie.index.type={kind}: the table '{config.name}' has no record index; set "
            f"{_ENABLE[kind]}=true, so that the write makes one, or take another index type"
        )
    by_partition = is_by_partition(storage, config, metadata.file_groups(RECORD_INDEX))
    if by_partition != (kind == PARTITION_RECORD_INDEX):
        there = PARTITION_RECORD_INDEX if by_partition else GLOBAL_RECORD_INDEX
        raise ConfigError(
            f"Cannot look up keys with hoodie.index.type={kind}: the record index of the table '{config.name}' is one "
            f"{'by partition' if by_partition else 'over all partitions'}; write with hoodie.index.type={there}"
        )
    return RecordIndexTagger(metadata, view, by_partition=by_partition)


def tag_by_places(slices: Sequence[FileSlice], partition: PartitionPath, file_ids: pa.StringArray) -> Tagging:
    """Tagging of the rows of one partition by the file ids which were looked up for them."""
    by_id = {slice_.file_id: slice_ for slice_ in slices}
    encoded = file_ids.dictionary_encode()
    ids = encoded.dictionary.to_pylist()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    by_code = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes, np.arange(len(ids)), sorter=by_code)
    new, *known = np.split(by_code, starts)
    found = [(by_id[FileId(file_id)], rows) for file_id, rows in zip(ids, known, strict=True)]
    return Tagging(tuple(found), new)
