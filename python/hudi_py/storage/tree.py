"""Lists the folders below a root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from hudi_py.storage.base import FileInfo, Storage
from hudi_py.storage.threads import when_remote


def list_folders(
    storage: Storage, descend: Callable[[str, Sequence[FileInfo]], Iterable[str]], root: str = ""
) -> Iterator[tuple[str, list[FileInfo]]]:
    """Lists a tree of folders level by level, and yields each with what is in it.

    Folders of a level are listed in parallel if the storage is remote.

    Args:
        descend: takes a folder and what is in it, before they are yielded, and returns the paths of the folders to
            list with the next level.
        root: the path of the folder at the top.
    """
    level = [root]
    while level:
        below: list[str] = []
        for folder, children in zip(level, when_remote(storage, storage.list, level), strict=True):
            below += descend(folder, children)
            yield folder, children
        level = below
