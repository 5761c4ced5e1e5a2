"""The files in storage, and which of them the metadata table may legitimately lack or still have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from hudi_py.config import indexes as indexes_config
from hudi_py.formats.log import HeaderKey, LogBlock, read_blocks
from hudi_py.metadata.keys import UNPARTITIONED
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.layout import PARTITION_METAFILE
from hudi_py.model.names import LogFileName, PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.storage import FileInfo
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import StorageLister

_PARTITIONS_AT_ONCE: Final = 256


class Listing:
    """Files in storage.

    Attributes:
        places: partition path and size in bytes by file name.
        partitions: partition names as used in records.
    """

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self.places: dict[str, tuple[str, int]] = {}
        self.partitions: set[str] = set()
        for listing in listed(source):
            for partition, files in listing.items():
                self.partitions.update((partition, partition or UNPARTITIONED))
                self.places.update((name, (partition, size)) for name, size in files.items())

    @cached_property
    def going(self) -> frozenset[str]:
        """Names of files that a pending clean deletes or has deleted: it records them on completion.

        Raises:
            CorruptFileError: the clean's plan cannot be read.
        """
        plans = PendingPlans(self._source.storage, self._source.timeline)
        names: set[str] = set()
        for plan in map(plans.clean, plans.of(Action.CLEAN)):
            for paths in plan.files.values() if plan is not None else ():
                names.update(each.rpartition("/")[2] for each in paths)
        return frozenset(names)

    def is_left(self, name: str) -> bool:
        """Whether a failed or pending write left the file behind: no completed action wrote to it.

        For a partition: whether it has no other files. Rolling back a write leaves the folders it created.
        """
        if name in self.partitions:
            path = "" if name == UNPARTITIONED else name
            return all(self.is_left(file) for file, (partition, _) in self.places.items() if partition == path)
        timeline = self._source.timeline
        base = parse_base_file_name(name)
        log = None if base is not None else parse_log_file_name(name)
        if base is not None or log is None or self._source.config.logs_named_by_instant:
            parsed = base or log
            return parsed is not None and not timeline.is_committed(parsed.instant)
        # the name of a version 6 log file does not show who wrote it
        times = {block.instant_time for block in self._blocks(name)} - self._rolled_back(name, log)
        return not any(time is not None and timeline.is_committed(InstantTime(time)) for time in times)

    @cached_property
    def _slices(self) -> dict[tuple[str, str, str], list[str]]:
        """Log file names by partition path, file id and instant of the base file."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for name, (partition, _) in self.places.items():
            log = parse_log_file_name(name)
            if log is not None:
                found.setdefault((partition, log.file_id, log.instant), []).append(name)
        return found

    def _rolled_back(self, name: str, log: LogFileName) -> set[str | None]:
        """Instants that blocks in the logs of a slice roll back: once archived, they look committed."""
        partition, _ = self.places.get(name, ("", 0))
        blocks = (
            block
            for each in self._slices.get((partition, log.file_id, log.instant), ())
            for block in self._blocks(each)
        )
        return {block.header.get(HeaderKey.TARGET_INSTANT_TIME) for block in blocks if block.is_rollback}

    def _blocks(self, name: str) -> Iterator[LogBlock]:
        partition, size = self.places.get(name, ("", 0))
        return read_blocks(self._source.storage, join_path(PartitionPath(partition), name), size)


def listed(source: TableSource) -> Iterator[dict[str, dict[str, int]]]:
    """Partitions, file names and sizes in bytes as listed from storage, some partitions at a time.

    Files of pending actions are left out, as are files newer than the newest completed action (`DirectoryInfo`).
    Partitions whose path matches the configured regular expression are left out too.
    """
    lister = StorageLister(source.storage, source.config)
    pattern = source.options.get(indexes_config.METADATA_DIRECTORY_FILTER)
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
    # an unpartitioned table that was never written to has no partition rather than an empty one
    return bool(partition) or any(info.name.startswith(PARTITION_METAFILE) for info in files)


def _limits(timeline: Timeline) -> tuple[str, Mapping[str, Action]]:
    newest = max((instant.time for instant in timeline.completed), default="")
    # neither indexing nor savepoints write files; an unfinished savepoint has the time of a completed commit
    others = (Action.INDEXING, Action.SAVEPOINT)
    return newest, {i.time: i.action for i in timeline.pending if i.action not in others}


def _counts(name: str, newest: str, pending: Mapping[str, Action]) -> bool:
    base = parse_base_file_name(name)
    parsed = base or parse_log_file_name(name)
    if parsed is None or parsed.instant > newest:
        return False
    # logs that others write while a plan is pending may have its time: those of version 6 that of a compaction, and
    # those of `SparkConsistentBucketDuplicateUpdateStrategy` that of a clustering
    action = pending.get(parsed.instant)
    return action is None or (base is None and action in (Action.COMPACTION, Action.CLUSTERING))
