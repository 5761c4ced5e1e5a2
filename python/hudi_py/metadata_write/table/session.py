"""The metadata table as a table in its own right: its session, and the names of its file groups."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.keys.bloom import BloomConfig
from hudi_py.metadata_write.encoding.records import SCHEMA_JSON
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.layout import METADATA_TABLE
from hudi_py.model.names import PartitionPath
from hudi_py.storage import FolderStorage
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.locks import caller_holds_lock
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import TableSession

BASE_FILE_BLOOM: Final = BloomConfig(num_entries=10000, sized=True)
"""Bloom filter of base files (`hoodie.metadata.bloom.filter.num.entries`, `.fpp`, `.dynamic.max.entries`)."""
_META_COLUMNS: Final = 5


def _without_meta_columns() -> str:
    record = json.loads(SCHEMA_JSON)
    record["fields"] = record["fields"][_META_COLUMNS:]
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


COMMIT_SCHEMA: Final = _without_meta_columns()
"""The schema stored in commits of a metadata table."""


def open_metadata_session(session: TableSession) -> TableSession:
    """Opens a session of the metadata table, for use under the lock of its table; paths and times are its own.

    Raises:
        TableNotFoundError, CorruptFileError, UnsupportedTableError: it does not exist, or cannot be written.
    """
    own = FolderStorage(session.storage, METADATA_TABLE)
    config = load_table_config(own)
    if config.base_file_format != "HFILE" or not config.is_mor:
        raise UnsupportedTableError(
            f"Cannot write the metadata table at {own.uri}: it is a {config.table_type} table of "
            f"{config.base_file_format} files; expected a MERGE_ON_READ table of HFILE files"
        )
    return replace(session, storage=own, config=config, metadata=NoMetadata(), locks=caller_holds_lock)


def delta_commit(timeline: Timeline, instant: str) -> Instant | None:
    """Returns the delta commit at a time, in any state."""
    return timeline.find(InstantTime(instant), Action.DELTA_COMMIT)


def file_group_id(prefix: str, number: int) -> str:
    """Returns `<prefix>-<number>-0` (`HoodieTableMetadataUtil.getFileIDForFileGroup`, 1.2.0)."""
    return f"{prefix}-{number:04d}-0"


def partition_folder(partition: str) -> PartitionPath:
    """Returns the folder of a partition in the metadata table."""
    return PartitionPath(partition)
