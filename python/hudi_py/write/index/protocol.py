"""What writes expect of an index: it finds the file groups that hold record keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.config import Option, Options
from hudi_py.config import write as write_config
from hudi_py.formats.lookup import TextSet
from hudi_py.metadata.table import RECORD_INDEX
from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.schema import StoredRows
from hudi_py.timeline.state import TableState
from hudi_py.view import FileSystemView
from hudi_py.write.index.bucket import BucketIndex
from hudi_py.write.rows import TaggedRows

Live = Callable[[FileSlice, pa.Array], npt.NDArray[np.bool_]]
"""Whether a slice has a row for each of some keys."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How keys are looked up. Pickles."""

    type: str = "SIMPLE"
    """The kind of index (`hoodie.index.type`)."""
    is_global: bool = False
    """Whether a key is in one partition of the table only."""
    by_record_index: bool = False
    """Whether keys are looked up in the record index."""
    reads_filters: bool = False
    """Whether the bloom filters of base files are asked."""
    prune_by_ranges: bool = True
    """Whether only base files whose range of keys contains a key are searched."""
    moves_rows: bool = False
    """Whether a row goes to its own partition when its key is in another one
    (`hoodie.simple.index.update.partition.path` and those of other global indexes)."""
    buckets: BucketIndex | None = None
    """With BUCKET, which looks no keys up."""
    key_fields: tuple[str, ...] = ()
    """The columns that make up the record key, if files do not store it."""

    def uses_record_index(self, config: TableConfig) -> bool:
        """Whether keys are looked up in the record index, which knows what logs have deleted. Where a table has none,
        base files are searched instead of one by partition."""
        return self.by_record_index and RECORD_INDEX in config.metadata_partitions


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """What an index is opened with."""

    state: TableState
    view: FileSystemView
    """The table as the write sees it."""
    settings: IndexSettings
    threads: int = 1
    check_key: Callable[[BaseFile, str], None] | None = None
    """Called with each base file and its first key, to raise an error if its keys have another form."""
    live: Live | None = None
    """Needed only where logs may have deleted rows of base files."""


@dataclass(frozen=True, slots=True)
class IndexKind:
    """A kind of index that `hoodie.index.type` can name. `write.index.kinds` lists them."""

    name: str
    open: Callable[[KeyLookup], Index] | None
    """None: the hash of a key tells its file group, and nothing is looked up."""
    is_global: bool = False
    """Whether keys are looked up in all partitions."""
    moves_rows: Option[bool] | None = None
    """The option by which rows whose key is in another partition move to their own; None: they never do."""
    by_record_index: bool = False
    reads_filters: bool = False
    """Whether it asks the bloom filters of base files, which these have then whatever the options say."""
    needs_stored_keys: bool = True
    """Whether it finds record keys in files, so that a table needs the column."""
    aliases: tuple[str, ...] = ()

    def settings(self, options: Options, config: TableConfig, buckets: BucketIndex | None = None) -> IndexSettings:
        """Return how a write with these options looks keys up."""
        return IndexSettings(
            self.name,
            self.is_global,
            self.by_record_index,
            self.reads_filters,
            not self.reads_filters or options.get(write_config.BLOOM_PRUNE_BY_RANGES),
            self.moves_rows is not None and options.get(self.moves_rows),
            buckets,
            StoredRows.of(config).key_fields,
        )


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
