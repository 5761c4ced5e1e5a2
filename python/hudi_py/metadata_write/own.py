"""The metadata table as a table of its own: opened, and its file groups as they are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.bloom import BloomConfig
from hudi_py.metadata.table import FOLDER
from hudi_py.metadata_write.records import METADATA_SCHEMA
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FolderStorage, Storage
from hudi_py.timeline.layout import Layout, layout_for
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline, load_timeline
from hudi_py.view import FileSystemView, load_view

BASE_FILE_BLOOM: Final = BloomConfig(num_entries=10000)
"""Bloom filter of base files (`hoodie.metadata.bloom.filter.num.entries`)."""
_META_COLUMNS: Final = 5


def _without_meta_columns() -> str:
    record = json.loads(METADATA_SCHEMA)
    record["fields"] = record["fields"][_META_COLUMNS:]
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


COMMIT_SCHEMA: Final = _without_meta_columns()
"""What commits of a metadata table note as their schema."""


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A metadata table; paths and times are its own."""

    storage: Storage
    """At its root, `.hoodie/metadata` of its table."""
    config: TableConfig
    """Its own properties."""

    @property
    def layout(self) -> Layout:
        return layout_for(self.config)

    def timeline(self, zone: tzinfo) -> Timeline:
        """Its active timeline, as it is now."""
        return load_timeline(self.storage, self.config, zone)

    def view(self, timeline: Timeline) -> FileSystemView:
        """Its file slices; always listed from the storage."""
        return load_view(self.storage, self.config, timeline)


def open_own(storage: Storage) -> OwnTable:
    """The metadata table of the table at `storage`.

    Raises:
        TableNotFoundError, CorruptFileError, UnsupportedTableError: there is none, or none that is written.
    """
    own = FolderStorage(storage, FOLDER)
    config = load_table_config(own)
    if config.base_file_format != "HFILE" or not config.is_mor:
        raise UnsupportedTableError(
            f"Cannot write the metadata table at {own.uri}: it is a {config.table_type} table of "
            f"{config.base_file_format} files; expected is a MERGE_ON_READ table of HFILE files"
        )
    return OwnTable(own, config)


def delta_commit(timeline: Timeline, instant: str) -> Instant | None:
    """The delta commit of a time, in whatever state."""
    return timeline.find(InstantTime(instant), Action.DELTA_COMMIT)


def file_group_id(prefix: str, number: int) -> str:
    """`<prefix>-<number>-0` (`HoodieTableMetadataUtil.getFileIDForFileGroup`, 1.2.0)."""
    return f"{prefix}-{number:04d}-0"


def partition_folder(partition: str) -> PartitionPath:
    """Folder of a partition below the metadata table."""
    return PartitionPath(partition)
