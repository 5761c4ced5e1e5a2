"""Whether folders of a table on this machine still lie in the table's own folder once symbolic links are followed.

Reading follows links. Deleting does not follow one out of the table: whoever may put a link into a table's folder could
otherwise have the next clean or rollback delete files elsewhere, with the rights of whoever runs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from hudi_py.errors import UnsupportedTableError
from hudi_py.storage.base import Storage, clean_path

_LOCAL = "file://"


def check_folder(root: str, folder: str, purpose: str = "delete files") -> None:
    """Raises UnsupportedTableError if a folder, given by its absolute path, leads out of `root`.

    Args:
        purpose: what the caller means to do there; follows "Cannot" in the message.
    """
    inner = folder
    while len(inner) > len(root) and not os.path.islink(inner):
        inner = os.path.dirname(inner)
    if len(inner) <= len(root):
        return
    real, real_root = os.path.realpath(folder), os.path.realpath(root)
    if real != real_root and not real.startswith(real_root.rstrip("/") + "/"):
        raise UnsupportedTableError(
            f"Cannot {purpose} in {folder}: symbolic links lead from there to {real}, outside of the table's folder "
            f"{real_root}; supported: folders of the table itself; put the folder in place of the link",
            path=folder[len(root) :].strip("/"),
        )


def check_folders(storage: Storage, folders: Iterable[str], purpose: str) -> None:
    """`check_folder` for folders of a storage, given by paths relative to its root. Only local ones have links.

    Raises:
        ConfigError: a path is absolute, or has a part `.` or `..`.
        UnsupportedTableError: a folder leads out of the table.
    """
    chosen = sorted({clean_path(folder) for folder in folders})
    if storage.is_local and storage.uri.startswith(_LOCAL):
        root = storage.uri.removeprefix(_LOCAL)
        for folder in chosen:
            check_folder(root, f"{root.rstrip('/')}/{folder}", purpose)
