"""The `files` partition: which files each partition of the table has.

Sources: `HoodieMetadataPayload.createPartitionFilesRecord`, `createPartitionListRecord`,
`HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords`, `HoodieBackedTableMetadataWriter.DirectoryInfo`
(1.2.0); format reference 10.2, 10.3.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hudi_py.metadata.keys import ALL_PARTITIONS, partition_key
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.records import (
    ALL_PARTITIONS_RECORD,
    ARROW_SCHEMA,
    FILES_RECORD,
    MetadataRecords,
    encode_values,
)
from hudi_py.metadata_write.source import TableSource
from hudi_py.model.instant import Action
from hudi_py.model.names import PartitionPath, parse_base_file_name, parse_log_file_name
from hudi_py.storage import FileInfo
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import StorageLister

_MAP: Final = ARROW_SCHEMA.field("filesystemMetadata").type
_PARTITIONS_AT_ONCE: Final = 256

Sizes = Mapping[str, Mapping[str, int]]
"""Partition path, file name, bytes."""


@dataclass(frozen=True, slots=True)
class FilesIndex:
    """Builder of `files`."""

    partition: str = FILES

    def file_groups(self, source: TableSource) -> int:
        """One, always."""
        return 1

    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """The listing of the storage, without files of actions that have not completed."""
        partitions: list[str] = []
        for listing in listed(source):
            partitions += listing
            yield _files_records(listing, {})
        yield _partition_list(partitions, removed=False)

    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """What an action adds and takes away; sizes are those its statistics tell.

        The all-partitions record names the partitions a commit has statistics of, and those a clean removed.
        """
        added: dict[str, dict[str, int]] = {partition: dict(files) for partition, files in change.added.items()}
        touched: dict[str, None] = {}
        if change.commit is not None:
            for stat in change.commit.stats:
                touched[stat.partition_path] = None
                of_partition = added.setdefault(stat.partition_path, {})
                for path, size in ((stat.path, stat.file_size), *(stat.cdc_stats or {}).items()):
                    if path:
                        name = path.rpartition("/")[2]
                        # of several statistics of one file, in no order, the largest is the newest
                        of_partition[name] = max(size, of_partition.get(name, 0))
        yield _files_records(added, change.deleted)
        if change.commit is not None:
            yield _partition_list(touched, removed=False)
        elif change.deleted_partitions:
            yield _partition_list(change.deleted_partitions, removed=True)

    def differences(self, present: Sizes, recorded: Sizes) -> Iterator[MetadataRecords]:
        """What makes the recorded listing the present one (`fetchOutofSyncFilesRecordsFromMetadataTable`, 1.2.0)."""
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


def listed(source: TableSource) -> Iterator[dict[str, dict[str, int]]]:
    """Partitions, file names and bytes as the storage has them, some partitions at a time.

    Files of pending actions are left out, and those of times after the newest completed action (`DirectoryInfo`).
    Partitions whose path the option's regular expression matches are left out too.
    """
    lister = StorageLister(source.storage, source.config)
    pattern = source.settings.directory_filter
    partitions = [each for each in lister.partitions() if not pattern or not re.fullmatch(pattern, each)]
    if not source.timeline.instants:
        return
    newest, pending = _limits(source.timeline)
    for at in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        some = partitions[at : at + _PARTITIONS_AT_ONCE]
        listing: dict[str, dict[str, int]] = {}
        for partition, files in zip(some, in_threads(lister.files, some), strict=True):
            if _is_partition(partition, files):
                listing[partition] = {info.name: info.size for info in files if _counts(info.name, newest, pending)}
        yield listing


def _is_partition(partition: PartitionPath, files: list[FileInfo]) -> bool:
    # of an unpartitioned table nothing was written yet: it has no partition, not an empty one
    return bool(partition) or any(info.name.startswith(".hoodie_partition_metadata") for info in files)


def _limits(timeline: Timeline) -> tuple[str, Mapping[str, Action]]:
    newest = max((instant.time for instant in timeline.completed), default="")
    # neither an indexing nor a savepoint writes files; a savepoint that broke off has the time of a completed commit
    others = (Action.INDEXING, Action.SAVEPOINT)
    return newest, {i.time: i.action for i in timeline.pending if i.action not in others}


def _counts(name: str, newest: str, pending: Mapping[str, Action]) -> bool:
    base = parse_base_file_name(name)
    parsed = base or parse_log_file_name(name)
    if parsed is None or parsed.instant > newest:
        return False
    # in table version 6 logs written while a compaction is pending have its time
    action = pending.get(parsed.instant)
    return action is None or (base is None and action is Action.COMPACTION)


def _files_records(added: Mapping[str, Mapping[str, int]], deleted: Mapping[str, Collection[str]]) -> MetadataRecords:
    """A record for each partition, with its new files and those that are gone."""
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
        FILES, keys, encode_values(FILES_RECORD, {"filesystemMetadata": _maps(offsets, names, sizes, removed)})
    )


def _partition_list(partitions: Collection[str], *, removed: bool) -> MetadataRecords:
    return _list_record(dict.fromkeys(partitions, removed))


def _list_record(partitions: Mapping[str, bool]) -> MetadataRecords:
    """The record of all partitions; True for those that are gone."""
    names = [partition_key(partition) for partition in partitions]
    maps = _maps([0, len(names)], names, [0] * len(names), list(partitions.values()))
    keys = pa.array([ALL_PARTITIONS], pa.string())
    return MetadataRecords(FILES, keys, encode_values(ALL_PARTITIONS_RECORD, {"filesystemMetadata": maps}))


def _maps(offsets: list[int], names: list[str], sizes: list[int], removed: list[bool]) -> pa.MapArray:
    infos = pa.StructArray.from_arrays(
        [pa.array(np.array(sizes, np.int64)), pa.array(removed, pa.bool_())],
        fields=[pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)],
    )
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()), infos).cast(_MAP)
