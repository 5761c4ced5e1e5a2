"""Lists a table's partitions and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from hudi_py.model.layout import META_FOLDER, PARTITION_METAFILES
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import in_threads
from hudi_py.storage.tree import list_folders


class Lister(Protocol):
    """Lists files for a file system view, from the storage or the metadata table."""

    @property
    def is_storage(self) -> bool:
        """Returns whether the listing comes from the storage itself, which cannot reveal lost files."""
        ...

    def prefetch(self, partitions: Iterable[PartitionPath]) -> int:
        """Prepares for `files` of these partitions, if one pass over many costs less. Returns their number of files as
        far as it is known by then."""
        return 0

    def forget(self, partitions: Iterable[PartitionPath]) -> None:
        """Releases what is cached for partitions that are no longer needed."""
        return

    def partitions(self) -> list[PartitionPath]:
        """Lists the sorted paths of all partitions; `[""]` for an unpartitioned table."""
        ...

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        """Lists files of a partition, sorted by path; empty if it does not exist."""
        ...


class StorageLister(Lister):
    """Lists folders of the storage (`FileSystemBackedTableMetadata`, 1.2.0).

    A folder with a partition metafile is a partition; `.hoodie` is ignored. Unlike Apache Hudi, finds partitions below
    a partition, which values such as `a` and `a/b` may create.
    """

    is_storage = True

    def __init__(self, storage: Storage, config: TableConfig) -> None:
        self._storage = storage
        self._config = config
        self._ahead: dict[PartitionPath, list[FileInfo]] = {}

    def prefetch(self, partitions: Iterable[PartitionPath]) -> int:
        if self._storage.is_local:
            return 0
        wanted = list(partitions)
        listings = in_threads(self._list, wanted)
        self._ahead.update(zip(wanted, listings, strict=True))
        return sum(map(len, listings))

    def partitions(self) -> list[PartitionPath]:
        folders = table_folders(self._storage, self._config)
        result = [PartitionPath(folder) for folder, children in folders if is_partition(children)]
        if not result and not self._config.partition_fields:
            return [PartitionPath("")]
        return sorted(result)

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        ahead = self._ahead.pop(partition, None)
        return self._list(partition) if ahead is None else ahead

    def _list(self, partition: PartitionPath) -> list[FileInfo]:
        return [info for info in self._storage.list(partition) if not info.is_dir]


def table_folders(storage: Storage, config: TableConfig) -> Iterator[tuple[str, list[FileInfo]]]:
    """Lists the folders outside `.hoodie` with what is in them, level by level; see `list_folders`. Those below an
    unpartitioned table's partition are left out."""

    def below(_: str, children: Sequence[FileInfo]) -> list[str]:
        if is_partition(children) and not config.partition_fields:
            return []
        return [child.path for child in children if child.is_dir and child.name != META_FOLDER]

    return list_folders(storage, below)


def is_partition(children: Iterable[FileInfo]) -> bool:
    """Returns whether a folder is a partition, given what is in it: one has a metafile."""
    return any(not child.is_dir and child.name in PARTITION_METAFILES for child in children)
