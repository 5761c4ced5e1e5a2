"""The `files` partition: the files in each partition of the table.

Sources: `HoodieMetadataPayload.createPartitionFilesRecord`, `createPartitionListRecord`,
`HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords`, `HoodieBackedTableMetadataWriter.DirectoryInfo`
(1.2.0).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.config import Options
from hudi_py.metadata.files import read_files
from hudi_py.metadata.keys import ALL_PARTITIONS, partition_key, partition_of_key
from hudi_py.metadata.table import FILES, MetadataTable
from hudi_py.metadata_write.encoding.records import (
    ALL_PARTITIONS_RECORD,
    ARROW_SCHEMA,
    FILES_RECORD,
    Combine,
    MetadataRecords,
    combine_files,
    encode_values,
)
from hudi_py.metadata_write.partitions.base import Listing, MetadataPartition, RecordCheck, listed
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.transaction.protocols import TableChange

_MAP: Final = ARROW_SCHEMA.field("filesystemMetadata").type
_EXAMPLES: Final = 10

Sizes = Mapping[str, Mapping[str, int]]
"""Size in bytes by partition path and file name."""


class FilesCheck(RecordCheck):
    """Compares listings. Files left behind by a failed write need no record, and a pending clean may already have
    deleted others."""

    field: ClassVar[str] = "filesystemMetadata"

    @cached_property
    def _listing(self) -> Listing:
        return Listing(self.source)

    def required(self, keys: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
        return np.array([not self._listing.is_left(key.decode()) for key in keys.to_pylist()], np.bool_)

    def superfluous(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        # a deleted partition may have a record without files
        maps = self.content(values).to_pylist()
        return np.array([any(not info["isDeleted"] for _, info in listing or ()) for listing in maps], np.bool_)

    def difference(self, expected: Sequence[Any] | None, found: Sequence[Any] | None) -> str:
        listing = self._listing
        one = {name: info["size"] for name, info in expected or () if not info["isDeleted"]}
        other = {name: info["size"] for name, info in found or () if not info["isDeleted"]}
        texts = [f"{name} is missing" for name in sorted(one.keys() - other.keys()) if not listing.is_left(name)]
        texts += [f"{name} no longer exists" for name in sorted(other.keys() - one.keys() - listing.going)]
        texts += [
            f"{name} has {one[name]} bytes, not {other[name]}"
            for name in sorted(one.keys() & other.keys())
            if one[name] != other[name]
        ]
        return "; ".join(texts[:_EXAMPLES])


@dataclass(frozen=True, slots=True)
class FilesIndex(MetadataPartition):
    """The partition `files`, which every metadata table has."""

    name: ClassVar[str] = FILES
    file_id_prefix: ClassVar[str] = "files"
    check: ClassVar[type[RecordCheck]] = FilesCheck

    def wanted(self, options: Options, config: TableConfig) -> bool:
        return True

    def combine(self, *, logs_only: bool) -> Combine:
        """Returns a rule that unites listings; a removal takes away older entries."""
        return partial(combine_files, keeps_removals=logs_only)

    def file_groups(self, source: TableSource) -> int:
        """Returns 1: the partition always has one file group."""
        return 1

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields the storage listing, without files of incomplete actions."""
        partitions: list[str] = []
        for listing in listed(source):
            partitions += listing
            yield _files_records(listing, {})
        yield _partition_list(partitions, removed=False)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the files that an action adds and removes, with the sizes in its statistics.

        The all-partitions record names the partitions that a commit has statistics for and those a clean removed.
        """
        added: dict[str, dict[str, int]] = {partition: dict(files) for partition, files in change.added.items()}
        touched: dict[str, None] = {}
        if change.commit is not None:
            for stat in change.commit.stats:
                touched[stat.partition_path] = None
                of_partition = added.setdefault(stat.partition_path, {})
                for path, size in stat.files.items():
                    name = path.rpartition("/")[2]
                    # a file may have several statistics in no particular order; the largest size is the newest
                    of_partition[name] = max(size, of_partition.get(name, 0))
        yield _files_records(added, change.deleted)
        if change.commit is not None:
            yield _partition_list(touched, removed=False)
        elif change.deleted_partitions:
            yield _partition_list(change.deleted_partitions, removed=True)

    def changes_of_undoing(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields what undoing changes: after a rollback, its own files. After a restore, the recorded listing is
        compared with the storage, because files that came or went since are not undone."""
        if change.action is not Action.RESTORE:
            yield from self.changes(source, change)
            return
        known = read_files(MetadataTable(source))
        partitions = [partition_of_key(key) for key in known.get(ALL_PARTITIONS, {})]
        recorded = {partition: known.get(partition or ".", {}) for partition in partitions}
        present = {partition: files for listing in listed(source) for partition, files in listing.items()}
        yield from self.differences(present, recorded)

    def differences(self, present: Sizes, recorded: Sizes) -> Iterator[MetadataRecords]:
        """Yields the changes from the recorded to the present listing (`fetchOutofSyncFilesRecordsFromMetadataTable`,
        1.2.0)."""
        added = {
            partition: {name: size for name, size in files.items() if name not in recorded.get(partition, {})}
            for partition, files in present.items()
        }
        removed = {
            partition: tuple(name for name in files if name not in present.get(partition, {}))
            for partition, files in recorded.items()
        }
        yield _files_records(
            {partition: files for partition, files in added.items() if files},
            {partition: names for partition, names in removed.items() if names},
        )
        gone = {partition: True for partition in recorded if partition not in present}
        new = {partition: False for partition in present if partition not in recorded}
        yield _list_record({**gone, **new})


def _files_records(added: Mapping[str, Mapping[str, int]], deleted: Mapping[str, Collection[str]]) -> MetadataRecords:
    """Returns one record for each partition, with its added and deleted files."""
    partitions = sorted({*added, *deleted})
    if not partitions:
        return MetadataRecords(FILES)
    names: list[str] = []
    sizes: list[int] = []
    removed: list[bool] = []
    offsets = [0]
    for partition in partitions:
        new, old = added.get(partition, {}), deleted.get(partition, ())
        gone = [name for name in old if name not in new]
        names += [*new, *gone]
        sizes += [*new.values(), *([0] * len(gone))]
        removed += [False] * len(new) + [True] * len(gone)
        offsets.append(len(names))
    keys = pa.array([partition_key(partition) for partition in partitions], pa.string())
    return MetadataRecords(
        FILES, keys, encode_values(FILES_RECORD, {"filesystemMetadata": _make_maps(offsets, names, sizes, removed)})
    )


def _partition_list(partitions: Collection[str], *, removed: bool) -> MetadataRecords:
    return _list_record(dict.fromkeys(partitions, removed))


def _list_record(partitions: Mapping[str, bool]) -> MetadataRecords:
    """Returns the record of all partitions; True marks deleted ones."""
    names = [partition_key(partition) for partition in partitions]
    maps = _make_maps([0, len(names)], names, [0] * len(names), list(partitions.values()))
    keys = pa.array([ALL_PARTITIONS], pa.string())
    return MetadataRecords(FILES, keys, encode_values(ALL_PARTITIONS_RECORD, {"filesystemMetadata": maps}))


def _make_maps(offsets: list[int], names: list[str], sizes: list[int], removed: list[bool]) -> pa.MapArray:
    infos = pa.StructArray.from_arrays(
        [pa.array(np.array(sizes, np.int64)), pa.array(removed, pa.bool_())],
        fields=[pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)],
    )
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), infos).cast(_MAP)
