"""Lists a table's partitions and files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hudi_py.model.layout import META_FOLDER, PARTITION_METAFILE
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import in_threads, when_remote

_METAFILES = frozenset(PARTITION_METAFILE + extension for extension in ("", ".parquet", ".orc"))


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
        result: list[PartitionPath] = []
        folders = [""]
        while folders:
            below: list[str] = []
            for folder, children in zip(folders, when_remote(self._storage, self._storage.list, folders), strict=True):
                is_partition = any(not child.is_dir and child.name in _METAFILES for child in children)
                if is_partition:
                    result.append(PartitionPath(folder))
                if not is_partition or self._config.partition_fields:
                    below += [child.path for child in children if child.is_dir and child.name != META_FOLDER]
            folders = below
        if not result and not self._config.partition_fields:
            return [PartitionPath("")]
        return sorted(result)

    def files(self, partition: PartitionPath) -> list[FileInfo]:
        ahead = self._ahead.pop(partition, None)
        return self._list(partition) if ahead is None else ahead

    def _list(self, partition: PartitionPath) -> list[FileInfo]:
        return [info for info in self._storage.list(partition) if not info.is_dir]
