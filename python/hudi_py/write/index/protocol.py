"""What writes expect of an index: it finds the file groups that hold record keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import pyarrow as pa

from hudi_py.formats.lookup import TextSet
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.write.index.bucket import BucketIndex
from hudi_py.write.rows import TaggedRows

SIMPLE = "SIMPLE"
BUCKET = "BUCKET"
BLOOM = "BLOOM"
GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
GLOBAL_BLOOM = "GLOBAL_BLOOM"
GLOBAL_RECORD_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
PARTITION_RECORD_INDEX = "RECORD_LEVEL_INDEX"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How keys are looked up. Pickles."""

    type: str = SIMPLE
    """`hoodie.index.type`: SIMPLE, BLOOM, RECORD_LEVEL_INDEX, each of them also with GLOBAL_, or BUCKET."""
    prune_by_ranges: bool = True
    """`hoodie.bloom.index.prune.by.ranges`."""
    moves_rows: bool = False
    """Whether a row goes to its own partition when its key is in another one
    (`hoodie.simple.index.update.partition.path` and those of other global indexes)."""
    buckets: BucketIndex | None = None
    """With BUCKET, which looks no keys up."""
    key_fields: tuple[str, ...] = ()
    """The columns that make up the record key, if files do not store it."""

    @property
    def is_global(self) -> bool:
        """Whether a key is in one partition of the table only."""
        return self.type in (GLOBAL_RECORD_INDEX, GLOBAL_SIMPLE, GLOBAL_BLOOM)

    def uses_record_index(self, config: TableConfig) -> bool:
        """Whether keys are looked up in the record index, which knows what logs have deleted. Where a table has none,
        base files are searched instead of one by partition."""
        return self.type in (GLOBAL_RECORD_INDEX, PARTITION_RECORD_INDEX) and RECORD_INDEX in config.metadata_partitions


class PartitionIndex(Protocol):
    """Finds keys within the partition of their row. Methods are thread-safe."""

    is_global: ClassVar[Literal[False]]

    def tag(self, rows: pa.Table, partition: PartitionPath, slices: Sequence[FileSlice]) -> TaggedRows:
        """Tags the rows of one partition.

        Args:
            rows: as `KeyedRows.rows`; keys may repeat.
            slices: the latest slices of the partition.

        Raises:
            ConfigError: the partition was written with another index.
        """
        ...


class GlobalIndex(Protocol):
    """Finds keys in any partition. Methods are thread-safe."""

    is_global: ClassVar[Literal[True]]

    def searched(self, keys: pa.StringArray) -> GlobalIndex:
        """An index that has looked up these keys, which are all that it is asked for, at once."""
        ...

    def locate(self, keys: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
        """Partition path and file id of each key, null for new keys."""
        ...


Index = PartitionIndex | GlobalIndex


@dataclass(frozen=True, slots=True)
class SearchedIndex:
    """Where keys are that a global index has looked up."""

    keys: TextSet
    partitions: pa.StringArray
    """The partition path of each key, null for new ones."""
    file_ids: pa.StringArray

    is_global: ClassVar[Literal[True]] = True

    def searched(self, keys: pa.StringArray) -> SearchedIndex:
        """As `GlobalIndex.searched`."""
        return self

    def locate(self, keys: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
        """As `GlobalIndex.locate`."""
        at = self.keys.places(keys)
        return self.partitions.take(at), self.file_ids.take(at)
