"""The interface between writes and indexes: an index finds the file groups that contain record keys."""

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
"""Returns whether a slice has a row for each of some keys."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How keys are looked up. Pickles."""

    type: str = "SIMPLE"
    """The kind of index (`hoodie.index.type`)."""
    is_global: bool = False
    """Whether a key is in only one partition of the table."""
    by_record_index: bool = False
    """Whether keys are looked up in the record index."""
    reads_filters: bool = False
    """Whether the bloom filters of base files are consulted."""
    prune_by_ranges: bool = True
    """Whether only base files whose range of keys contains a key are searched."""
    moves_rows: bool = False
    """Whether a row goes to its own partition if its key is in another one (`hoodie.simple.index.update.partition.path`
    and the like for other global indexes)."""
    buckets: BucketIndex | None = None
    """Set for BUCKET, which looks no keys up."""
    key_fields: tuple[str, ...] = ()
    """The columns that form the record key, if files do not store it."""

    def uses_record_index(self, config: TableConfig) -> bool:
        """Returns whether keys are looked up in the record index, which knows what logs have deleted. If a table has
        none, base files are searched instead of an index by partition."""
        return self.by_record_index and RECORD_INDEX in config.metadata_partitions


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The arguments with which an index is opened."""

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
    """None: the hash of a key determines its file group, and nothing is looked up."""
    is_global: bool = False
    """Whether keys are looked up in all partitions."""
    moves_rows: Option[bool] | None = None
    """The option by which rows whose key is in another partition move to their own; None: they never do."""
    by_record_index: bool = False
    reads_filters: bool = False
    """Whether the index consults the bloom filters of base files, which are then always written, whatever the options
    say."""
    needs_stored_keys: bool = True
    """Whether the index finds record keys in files, so that a table needs the column."""
    aliases: tuple[str, ...] = ()

    def settings(self, options: Options, config: TableConfig, buckets: BucketIndex | None = None) -> IndexSettings:
        """Returns how a write with these options looks keys up."""
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
            rows: see `KeyedRows.rows`; keys may repeat.
            slices: the latest slices of the partition.

        Raises:
            ConfigError: the partition was written with another index.
        """
        ...


class GlobalIndex(Protocol):
    """Finds keys in any partition. Methods are thread-safe."""

    is_global: ClassVar[Literal[True]]

    def searched(self, keys: pa.StringArray) -> GlobalIndex:
        """Returns an index that has looked up these keys at once. It can only be asked for these."""
        ...

    def locate(self, keys: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
        """Returns partition path and file id of each key, null for new keys."""
        ...


Index = PartitionIndex | GlobalIndex


@dataclass(frozen=True, slots=True)
class SearchedIndex:
    """The locations of keys that a global index has looked up."""

    keys: TextSet
    partitions: pa.StringArray
    """The partition path of each key, null for new ones."""
    file_ids: pa.StringArray

    is_global: ClassVar[Literal[True]] = True

    def searched(self, keys: pa.StringArray) -> SearchedIndex:
        """Looks keys up like `GlobalIndex.searched`."""
        return self

    def locate(self, keys: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
        """Locates keys like `GlobalIndex.locate`."""
        places = self.keys.places(keys)
        return self.partitions.take(places), self.file_ids.take(places)
