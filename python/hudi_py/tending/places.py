"""Finds tables at and below paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hudi_py.errors import HudiError
from hudi_py.metadata.files import metadata_lister
from hudi_py.model.layout import META_FOLDER, PARTITION_METAFILE
from hudi_py.storage import FileInfo, FolderStorage, Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.state import load_state

_FEW: Final = 8
"""Folders that are rather listed than looked up in a metadata table."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is."""

    uri: str
    properties: Mapping[str, str] = field(default_factory=dict)
    """Those that a catalog has for it."""


@dataclass(frozen=True, slots=True)
class FoundTables:
    """The tables at and below a path."""

    folders: tuple[str, ...]
    """Relative to the path, sorted; the path itself is empty."""
    not_searched: tuple[str, ...] = ()
    """Folders that are too deep, relative to the path."""


def find_tables(storage: Storage, *, depth: int | None = None) -> FoundTables:
    """Finds the tables at and below a path, those below other tables included.

    Partitions are not searched, nor are folders whose names begin with a dot or an underscore, or have the form
    `key=value`.

    Args:
        storage: rooted at the path.
        depth: how many levels of folders below the path are listed; None: all.
    """
    tables: list[str] = []
    folders, level = [""], 0
    while folders:
        if depth is not None and level > depth:
            return FoundTables(tuple(sorted(tables)), tuple(sorted(folders)))
        below: list[str] = []
        for folder, children in zip(folders, when_remote(storage, storage.list, folders), strict=True):
            inner = [child.path for child in children if child.is_dir and _may_hold_tables(child.name)]
            if any(child.is_dir and child.name == META_FOLDER for child in children):
                tables.append(folder)
                inner = _outside_partitions(storage, folder, inner)
            elif _is_partition(children):
                continue
            below += inner
        folders, level = below, level + 1
    return FoundTables(tuple(sorted(tables)))


def _may_hold_tables(name: str) -> bool:
    return not name.startswith((".", "_")) and "=" not in name


def _is_partition(children: Sequence[FileInfo]) -> bool:
    return any(not child.is_dir and child.name.startswith(PARTITION_METAFILE) for child in children)


def _outside_partitions(storage: Storage, folder: str, inner: list[str]) -> list[str]:
    """Those of the folders in a table's folder in which it has no partition, as far as its metadata table tells.
    Others show by their metafiles that they are partitions."""
    if len(inner) <= _FEW:
        return inner
    try:
        state = load_state(FolderStorage(storage, folder) if folder else storage)
        lister, metadata = metadata_lister(state)
        if metadata is None or not state.config.partition_fields:
            return inner
        partitions = lister.partitions()
    except (HudiError, OSError):  # what is wrong with the table is reported when it is looked at
        return inner
    first = {path.partition("/")[0] for path in partitions}
    return [path for path in inner if path.rpartition("/")[2] not in first]
