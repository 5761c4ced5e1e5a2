"""Renames, moves and drops tables, and adds partitions without rows (`AlterHoodieTableRenameCommand`,
`DropHoodieTableCommand`, `AlterHoodieTableAddPartitionCommand`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_py.errors import ConfigError, TableExistsError
from hudi_py.model.instant import State
from hudi_py.model.layout import META_FOLDER, PARTITION_METAFILE
from hudi_py.model.names import PartitionPath
from hudi_py.storage import Storage, open_storage, plain_uri
from hudi_py.timeline.properties import load_table_config, update_table_config
from hudi_py.transaction.locks import TableLock
from hudi_py.transaction.partition_metafile import partition_metafile
from hudi_py.transaction.recovery.failed_writes import recovered, refuse_living
from hudi_py.transaction.session import WriteTarget
from hudi_py.write.api import existing_table
from hudi_py.write.table.first import remove, remove_metadata_folder

_NAME = "hoodie.table.name"
_NO_INSTANT = "00000000000000"


def check_move(path: str, target: str, storage: Storage) -> None:
    """Refuses to move the files of a table where that is not possible in one step.

    Args:
        path, target: where they are, and where they go; the same if they stay.
        storage: storage of the table.

    Raises:
        TableNotFoundError: there is no table.
        ConfigError: the storage renames no folders, or the places are in different ones.
        TableExistsError: there is something at `target`.
    """
    load_table_config(storage)
    (parent, name), (folder, new) = _split_path(path), _split_path(target)
    if (parent, name) == (folder, new):
        return
    if not storage.can_rename or _scheme_of(parent) != _scheme_of(folder):
        raise ConfigError(
            f"Cannot move the files of the table at {path} to {target}: only local file systems and HDFS move folders "
            "at once; register the table with a LOCATION by the new name, and DROP the old name without PURGE"
        )
    beside = open_storage(folder)
    if beside.stat(new) is not None or beside.names(new):
        raise TableExistsError(f"Cannot move the files of the table at {path}: there is something at {target} already")


def rename_table(target: WriteTarget, name: str, place: str) -> None:
    """Renames a table in its properties, and moves its files to `place`, under the table lock and while nobody writes.
    A process that writes to the old place would lose its rows, and locks in services have the table's name. Failed
    writes are rolled back. Stricter than Apache Hudi, which does not check.

    Raises:
        TableNotFoundError, ConfigError, TableExistsError: as `check_move`.
        ConflictError: a write or table service is under way; names its instant.
        LockError: the table lock could not be acquired in time.
        UnsupportedTableError: the table version can only be read.
    """
    storage, storage_options = target.storage, target.options.for_storage()
    path = storage.uri
    check_move(path, place, storage)
    session = target.session()
    with recovered(session, f"rename the table at {path}") as table:
        # A service that is only planned moves with the table
        writes = {instant.time for instant in table.plans.writes}
        services = (instant for instant in table.timeline.pending if instant.time not in writes)
        refuse_living(
            table, (service for service in services if service.state is not State.REQUESTED), "rename the table"
        )
        check_move(path, place, storage)
        update_table_config(table.session.storage, {_NAME: name})
        (parent, old), (folder, new) = _split_path(path), _split_path(place)
        if (parent, old) != (folder, new):
            shared = _common_folder(parent, folder)
            open_storage(shared, storage_options).rename(
                f"{parent[len(shared) :]}/{old}".strip("/"), f"{folder[len(shared) :]}/{new}".strip("/")
            )
            table.lock.moved(open_storage(place, storage_options))


def _split_path(path: str) -> tuple[str, str]:
    """Returns the folder of a path, without a scheme for local ones, and its name."""
    parent, _, name = plain_uri(path).rstrip("/").rpartition("/")
    return parent or "/", name


def _scheme_of(path: str) -> str:
    """Returns the part of a URI before its path: scheme and authority."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def _common_folder(left: str, right: str) -> str:
    """Returns the folder that contains both paths."""
    start = _scheme_of(left)
    parts = []
    for ours, theirs in zip(left[len(start) :].split("/"), right[len(start) :].split("/"), strict=False):
        if ours != theirs:
            break
        parts.append(ours)
    return start + ("/".join(parts) or "/")


def drop_table(target: WriteTarget) -> bool:
    """Deletes a table with all its files, under the table lock and while nobody writes: rows written to a table while
    it is deleted would be lost, or outlast it. Stricter than Apache Hudi, which does not check.

    Returns:
        False: there is no table, and nothing is deleted.

    Raises:
        ConflictError: a write or table service is under way; names its instant.
        LockError: the table lock could not be acquired in time.
        UnsupportedTableError: the table version can only be read.
    """
    storage = target.storage
    config = existing_table(storage)
    if config is None:
        return False
    session = target.session(config)
    with session.locked(f"drop the table at {storage.uri}") as table:
        refuse_living(table, table.timeline.pending, "drop the table")
        _delete_files(table.session.storage, table.lock)
    return True


def _delete_files(storage: Storage, lock: TableLock) -> None:
    """Deletes the files of a table, those of `.hoodie` last."""
    for info in storage.list(""):
        if info.name != META_FOLDER:
            remove(storage, info.path, is_folder=info.is_dir)
    remove_metadata_folder(storage, lock)
    storage.delete_tree("")


"""The commit named in the metafile of a partition that no commit has created (`HoodieTimeline.INIT_INSTANT_TS`)."""


def add_partitions(target: WriteTarget, paths: Sequence[str], *, if_not_exists: bool = False) -> None:
    """Creates the folders of partitions, without rows. Neither the timeline nor the metadata table changes; the
    metadata table learns of a partition with its first rows.

    Args:
        paths: paths of the partitions, relative to that of the table.
        if_not_exists: whether folders that are there already stay as they are.

    Raises:
        ConfigError: a folder exists, and `if_not_exists` is not set; none is made.
        LockError: the table lock could not be acquired in time.
        TableNotFoundError: there is no table.
        UnsupportedTableError: the table version can only be read.
    """
    storage = target.storage
    config = load_table_config(storage)
    session = target.session(config)
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
