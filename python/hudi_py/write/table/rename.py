"""Another name of a table, and another place of its files (`AlterHoodieTableRenameCommand`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping

from hudi_py.errors import ConfigError, TableExistsError
from hudi_py.storage import Storage, open_storage
from hudi_py.timeline.properties import load_table_config, update_table_config

_NAME = "hoodie.table.name"


def check_move(path: str, target: str, storage: Storage) -> None:
    """Refuses to move the files of a table where that cannot be done at once.

    Args:
        path, target: where they are, and where they go; the same if they stay.
        storage: of the table.

    Raises:
        TableNotFoundError: there is no table.
        ConfigError: the storage renames no folders, or the places are in different ones.
        TableExistsError: there is something at `target`.
    """
    load_table_config(storage)
    (parent, name), (folder, new) = _split(path), _split(target)
    if (parent, name) == (folder, new):
        return
    if not storage.can_rename or _scheme(parent) != _scheme(folder):
        raise ConfigError(
            f"Cannot move the files of the table at {path} to {target}: only local file systems and HDFS move folders "
            "at once; register the table with a LOCATION by the new name, and DROP the old name without PURGE"
        )
    beside = open_storage(folder)
    if beside.stat(new) is not None or beside.names(new):
        raise TableExistsError(f"Cannot move the files of the table at {path}: there is something at {target} already")


def rename_table(storage: Storage, name: str, target: str, storage_options: Mapping[str, str] | None) -> None:
    """Gives a table another name in its properties, and moves its files to `target`. Raises as `check_move`."""
    path = storage.uri
    check_move(path, target, storage)
    update_table_config(storage, {_NAME: name})
    (parent, old), (folder, new) = _split(path), _split(target)
    if (parent, old) != (folder, new):
        shared = _shared(parent, folder)
        open_storage(shared, dict(storage_options or {}) or None).rename(
            f"{parent[len(shared) :]}/{old}".strip("/"), f"{folder[len(shared) :]}/{new}".strip("/")
        )


def _split(path: str) -> tuple[str, str]:
    """The folder that a path is in, as a path without scheme for local ones, and its name."""
    bare = path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:")
    parent, _, name = bare.rstrip("/").rpartition("/")
    return parent or "/", name


def _scheme(path: str) -> str:
    """What comes before the path of a URI: scheme and authority."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def _shared(left: str, right: str) -> str:
    """The folder that both paths lie in."""
    start = _scheme(left)
    parts = []
    for ours, theirs in zip(left[len(start) :].split("/"), right[len(start) :].split("/"), strict=False):
        if ours != theirs:
            break
        parts.append(ours)
    return start + ("/".join(parts) or "/")
