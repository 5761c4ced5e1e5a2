"""Partitions without rows (`AlterHoodieTableAddPartitionCommand`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hudi_py.config import Options
from hudi_py.errors import ConfigError
from hudi_py.model.layout import PARTITION_METAFILE
from hudi_py.model.names import PartitionPath
from hudi_py.storage import Storage
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.partition_metafile import partition_metafile
from hudi_py.transaction.protocols import MetadataWriter
from hudi_py.transaction.session import TableSession

_NO_INSTANT = "00000000000000"
"""What the file of a folder names that no commit has made (`HoodieTimeline.INIT_INSTANT_TS`)."""


def add_partitions(
    storage: Storage,
    paths: Sequence[str],
    options: Options,
    *,
    if_not_exists: bool = False,
    metadata: MetadataWriter | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Makes the folders of partitions, without rows. The timeline does not change, nor does the metadata table, which
    learns of a partition with its first rows.

    Args:
        paths: of the partitions, relative to the table's.
        if_not_exists: whether folders that are there already stay as they are.

    Raises:
        ConfigError: a folder exists, and `if_not_exists` is not set; none is made.
        LockError: the table lock could not be acquired in time.
        TableNotFoundError: there is no table.
        UnsupportedTableError: the table version can only be read.
    """
    config = load_table_config(storage)
    session = TableSession.of(storage, options, metadata, config=config, storage_options=storage_options)
    with session.locked(f"add partitions to the table at {storage.uri}") as table:
        own = table.session.storage
        there = {path for path in paths if any(name.startswith(PARTITION_METAFILE) for name in own.names(path))}
        for path in paths:
            if path in there and not if_not_exists:
                raise ConfigError(
                    f"Cannot add the partition {path} to the table at {storage.uri}: it exists already; ADD IF NOT "
                    "EXISTS leaves it as it is"
                )
        for path in dict.fromkeys(paths):
            if path not in there:
                own.put_if_absent(*partition_metafile(config, PartitionPath(path), _NO_INSTANT))
