"""The record indexes, which look keys up in the metadata table, without reading base files.

Sources: `SparkMetadataTableGlobalRecordLevelIndex`, `SparkMetadataTableRecordLevelIndex`, `HoodieIndexUtils`, Apache
Hudi 1.2.0.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError
from hudi_py.formats.arrays import combined
from hudi_py.formats.lookup import TextSet
from hudi_py.metadata import MetadataTable, open_metadata
from hudi_py.metadata.locations import is_by_partition, partition_groups, places_of, read_scope
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.schema import RECORD_KEY
from hudi_py.view import FileSystemView
from hudi_py.write.index.base_files import open_base_files
from hudi_py.write.index.protocol import Index, IndexKind, KeyLookup, SearchedIndex
from hudi_py.write.rows import LocatedRows, TaggedRows


class _RecordIndex:
    """Looks keys up as of the timeline that a write pinned. Methods are thread-safe.

    Entries for file groups that the table no longer has do not count: when an overwrite brings a key back in another
    partition, Apache Hudi 1.2.0 leaves its old entry in an index by partition.
    """

    def __init__(self, metadata: MetadataTable, view: FileSystemView) -> None:
        self._metadata = metadata
        self._view = view
        self._lock = threading.Lock()
        self._groups: dict[str, frozenset[str]] = {}
        metadata.file_groups(RECORD_INDEX)  # read once, for all threads

    def _locate_keys(self, keys: pa.StringArray, prefix: str | None = None) -> tuple[pa.StringArray, pa.StringArray]:
        """Returns partition path and file id of each key, null for new keys."""
        places = places_of(self._metadata, keys, prefix)
        both = pc.binary_join_element_wise(places.partitions, places.file_ids, "\0").dictionary_encode()
        # a loop over the file groups, which are few compared with the rows
        pairs = [text.partition("\0") for text in both.dictionary.to_pylist()]
        stale = [number for number, (owner, _, file_id) in enumerate(pairs) if file_id not in self._file_ids(owner)]
        if not stale:
            return places.partitions, places.file_ids
        is_stale = pc.is_in(both.indices, value_set=pa.array(stale, both.indices.type))
        nothing = pa.scalar(None, pa.string())
        return pc.if_else(is_stale, nothing, places.partitions), pc.if_else(is_stale, nothing, places.file_ids)

    def _file_ids(self, partition: str) -> frozenset[str]:
        with self._lock:
            if partition not in self._groups:
                slices = self._view.latest_slices(PartitionPath(partition))
                self._groups[partition] = frozenset(str(slice_.file_id) for slice_ in slices)
            return self._groups[partition]


class GlobalRecordIndex(_RecordIndex):
    """A record index over all partitions."""

    is_global: ClassVar[Literal[True]] = True

    @property
    def num_groups(self) -> int:
        """File groups of the index."""
        return sum(map(len, self._metadata.file_groups(RECORD_INDEX).values()))

    def searched(self, keys: pa.StringArray) -> SearchedIndex:
        """Looks keys up like `GlobalIndex.searched`."""
        return SearchedIndex(TextSet(keys), *self._locate_keys(keys))

    def locate(self, keys: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
        """Locates keys like `GlobalIndex.locate`."""
        return self._locate_keys(keys)


class PartitionRecordIndex(_RecordIndex):
    """A record index in which each partition has keys of its own."""

    is_global: ClassVar[Literal[False]] = False

    def tag(self, rows: pa.Table, partition: PartitionPath, slices: Sequence[FileSlice]) -> TaggedRows:
        """Tags rows like `PartitionIndex.tag`."""
        _, file_ids = self._locate_keys(combined(rows[RECORD_KEY]), partition_groups(partition))
        return LocatedRows(rows, file_ids).tagged(slices)


def open_record_index(lookup: KeyLookup) -> Index:
    """Opens the record index of a table. If it has none, an index by partition is replaced by a look-up in base files,
    as in Apache Hudi.

    Raises:
        ConfigError: the table has no record index, or one of the other kind.
        CorruptFileError, UnsupportedTableError: the metadata table cannot be read.
    """
    state, settings = lookup.state, lookup.settings
    start = f"Cannot look up keys with {write_config.INDEX_TYPE.key}={settings.type}: the"
    metadata = open_metadata(state) if settings.uses_record_index(state.config) else None
    if metadata is None and not settings.is_global:
        return open_base_files(lookup)
    if metadata is None:
        raise ConfigError(
            f"{start} table '{state.config.name}' has no record index; set {indexes_config.GLOBAL_RECORD_INDEX.key}"
            "=true, so that the write creates one, or use another index type"
        )
    by_partition = is_by_partition(state.storage, state.config, metadata.file_groups(RECORD_INDEX))
    if by_partition == settings.is_global:
        other = PARTITION_RECORD_INDEX if by_partition else GLOBAL_RECORD_INDEX
        raise ConfigError(
            f"{start} record index of the table '{state.config.name}' is one "
            f"{'by partition' if by_partition else 'over all partitions'}; write with "
            f"{write_config.INDEX_TYPE.key}={other.name}"
        )
    if by_partition:
        return PartitionRecordIndex(metadata, lookup.view)
    scope = read_scope(state.storage)
    if scope is not None and scope.repeated is not None:
        raise ConfigError(
            f"{start} record key {scope.repeated!r} of the table '{state.config.name}' is in several file groups, and "
            "this index needs keys that are unique in the table; use SIMPLE or BLOOM, or delete the other rows and "
            "rebuild the index with metadata.rebuild('record_index')"
        )
    return GlobalRecordIndex(metadata, lookup.view)


GLOBAL_RECORD_INDEX = IndexKind(
    "GLOBAL_RECORD_LEVEL_INDEX",
    open_record_index,
    is_global=True,
    moves_rows=write_config.RECORD_INDEX_UPDATE_PARTITION,
    by_record_index=True,
    aliases=("RECORD_INDEX",),
)
PARTITION_RECORD_INDEX = IndexKind("RECORD_LEVEL_INDEX", open_record_index, by_record_index=True)
