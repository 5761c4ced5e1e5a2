"""Lists folders and files below a root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from hudi_py.storage.base import FileInfo, Storage, clean_path
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


def folders_among(_: str, children: Sequence[FileInfo]) -> list[str]:
    """Returns the paths of the folders in a folder, for `list_folders` to descend into all of them."""
    return [info.path for info in children if info.is_dir]


def walk_folders(storage: Storage, path: str) -> Iterator[FileInfo]:
    """Implements `Storage.walk` for a storage that lists one folder at a time."""
    for _, children in list_folders(storage, folders_among, clean_path(path)):
        yield from (info for info in children if not info.is_dir)
