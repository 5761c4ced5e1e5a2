"""The procedure that shows what folders hold, whether of a table or not (`ShowFsPathDetailProcedure`, Apache Hudi
1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.inspect.procedures.shown import Given, Opened, Rows, Shown, columns, limited, needed_text, shown_path
from hudi_py.schema.patterns import matching_paths
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.tree import list_folders

_WILDCARDS: Final = frozenset("*?[{\\")
_UNITS: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_NO_QUOTA: Final = -1
"""What Hadoop's file systems without quotas answer."""


class _Content(NamedTuple):
    num_folders: int
    num_files: int
    num_bytes: int


def _path_details(opened: Opened, given: Given) -> Rows:
    """Lists the paths that a path or glob matches, or the children of a path, with the size of what is below them: the
    largest first, or those with the most files.

    Raises:
        ConfigError: there is nothing at a path.
    """
    needed_text(given, "path")
    base, pattern = _parted(opened)
    if given["is_sub"] and pattern:
        raise ConfigError(
            f"Cannot show the paths below {opened.path}: is_sub => true takes no wildcards; add /* to the path instead"
        )
    entries = base.storage.list("") if given["is_sub"] else list(_matched(base, pattern))
    if not entries and not pattern:
        raise ConfigError(f"Cannot show {opened.path}: there is no such file or folder, or nothing in it")
    contents = [(_content(base.storage, entry), shown_path(base, entry.path)) for entry in entries]
    contents.sort(key=lambda entry: entry[0].num_bytes if given["sort"] else entry[0].num_files, reverse=True)
    for content, path in contents[: limited(given)]:
        size = content.num_bytes
        yield (content.num_folders, content.num_files, size, _size_text(size), path, size, _NO_QUOTA, _NO_QUOTA)


def _parted(opened: Opened) -> tuple[Opened, str]:
    """Splits a glob into the folder above its first wildcard, and the rest."""
    parts = opened.path.rstrip("/").split("/")
    first = next((place for place, part in enumerate(parts) if not _WILDCARDS.isdisjoint(part)), len(parts))
    base = "/".join(parts[:first]) or "/"
    return Opened(base, opened.options), "/".join(parts[first:])


def _matched(base: Opened, pattern: str) -> Iterator[FileInfo]:
    """Yields the files and folders that a glob matches; without one, the folder itself if it exists."""
    if not pattern:
        root = base.storage.stat("")
        if root is not None or base.storage.list(""):
            yield FileInfo("", 0 if root is None or root.is_dir else root.size, 0, root is None or root.is_dir)
        return
    parts, matched = pattern.split("/"), [FileInfo("", 0, 0, True)]
    for part in parts:
        below = [info for folder in matched if folder.is_dir for info in base.storage.list(folder.path)]
        matching = set(matching_paths(part, [info.name for info in below], "path"))
        matched = [info for info in below if info.name in matching]
    yield from matched


def _content(storage: Storage, entry: FileInfo) -> _Content:
    """Counts what is at and below an entry; a folder counts itself."""
    if not entry.is_dir:
        return _Content(0, 1, entry.size)
    if not storage.is_local:  # one listing instead of one for each folder; there are no empty folders
        files = list(storage.walk(entry.path))
        folders = {entry.path} | {above for info in files for above in _folders_of(info.path, entry.path)}
        return _Content(len(folders), len(files), sum(info.size for info in files))
    tree = [
        children
        for _, children in list_folders(
            storage, lambda _, children: [info.path for info in children if info.is_dir], entry.path
        )
    ]
    sizes = [info.size for children in tree for info in children if not info.is_dir]
    return _Content(len(tree), len(sizes), sum(sizes))


def _folders_of(path: str, top: str) -> Iterator[str]:
    """Yields the folders of a file below the top one."""
    folder = path.rpartition("/")[0]
    while len(folder) > len(top):
        yield folder
        folder = folder.rpartition("/")[0]


def _size_text(size: int) -> str:
    """Formats a size as Java's floats and DecimalFormat("0.00") do."""
    for unit, name in _UNITS:
        if size >= unit:
            ratio = Decimal(float(np.float32(size) / np.float32(unit)))
            return f"{ratio.quantize(Decimal('0.01'), ROUND_HALF_EVEN)}{name}"
    return f"{size}B"


_COLUMNS: Final = pa.schema(
    [
        *columns("path_num long, file_num long, storage_size long"),
        pa.field("storage_size(unit)", pa.string()),
        *columns("storage_path text, space_consumed long, quota long, space_quota long"),
    ]
)
PROCEDURES: Final = {
    "show_fs_path_detail": Shown(
        {"path": None, "is_sub": False, "sort": True, "limit": 100, "filter": ""}, _COLUMNS, _path_details
    ),
}
