"""The end of a table: its files are deleted (`DropHoodieTableCommand`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping

from hudi_py.config import Options
from hudi_py.model.layout import META_FOLDER
from hudi_py.storage import Storage
from hudi_py.transaction.locks import TableLock
from hudi_py.transaction.protocols import MetadataWriter
from hudi_py.transaction.recovery.failed_writes import refuse_living
from hudi_py.transaction.session import TableSession
from hudi_py.write.api import existing_table
from hudi_py.write.table.first import remove, remove_metadata_folder


def drop_table(
    storage: Storage,
    options: Options,
    *,
    metadata: MetadataWriter | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> bool:
    """Deletes a table with all its files, under the table lock and while nobody writes: what is written to a table
    while it is deleted would be lost, or outlast it. Stricter than Apache Hudi, which does not look.

    Returns:
        False: there is no table, and nothing is deleted.

    Raises:
        ConflictError: a write or table service is under way; names its instant.
        LockError: the table lock could not be acquired in time.
        UnsupportedTableError: the table version can only be read.
    """
    config = existing_table(storage)
    if config is None:
        return False
    session = TableSession.of(storage, options, metadata, config=config, storage_options=storage_options)
    with session.locked(f"drop the table at {storage.uri}") as table:
        refuse_living(table, table.timeline.pending, "drop the table")
        _delete(table.session.storage, table.lock)
    return True


def _delete(storage: Storage, lock: TableLock) -> None:
    """Deletes the files of a table, those of `.hoodie` last."""
    for info in storage.list(""):
        if info.name != META_FOLDER:
            remove(storage, info.path, is_folder=info.is_dir)
    remove_metadata_folder(storage, lock)
    storage.delete_tree("")
