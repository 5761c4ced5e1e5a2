"""The end of a table: its files are deleted (`DropHoodieTableCommand`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hudi_py.config import Options
from hudi_py.storage import Storage
from hudi_py.timeline.properties import BACKUP, PROPERTIES
from hudi_py.transaction.locks import TableLock
from hudi_py.transaction.paths import LOCK_FILE, META_FOLDER
from hudi_py.transaction.protocols import MetadataWriter
from hudi_py.transaction.recovery.failed_writes import refuse_living
from hudi_py.write.api import existing_table, open_session

_LOCKS: Final = (LOCK_FILE, ".locks")
"""Where locks are kept in `.hoodie`."""


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
    session = open_session(storage, config, options, metadata, storage_options=storage_options)
    with session.locked(f"drop the table at {storage.uri}") as table:
        refuse_living(table, table.timeline.pending, "drop the table")
        _delete(table.session.storage, table.lock)
    return True


def _delete(storage: Storage, lock: TableLock) -> None:
    """Deletes the files of a table. Its properties go last but for the lock: until then the drop can be repeated, and
    from then on who has waited for the lock finds no table."""
    for info in storage.list(""):
        if info.name != META_FOLDER:
            _remove(storage, info.path, is_folder=info.is_dir)
    for info in storage.list(META_FOLDER):
        if info.path not in (PROPERTIES, BACKUP) and info.name not in _LOCKS:
            _remove(storage, info.path, is_folder=info.is_dir)
    for path in (BACKUP, PROPERTIES):
        storage.delete(path)
    storage.delete_tree("")
    lock.gone()


def _remove(storage: Storage, path: str, *, is_folder: bool) -> None:
    if is_folder:
        storage.delete_tree(path)
    else:
        storage.delete(path)
