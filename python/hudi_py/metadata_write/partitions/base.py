"""Describes a partition of the metadata table: when a table has it, its records, how versions of a record are combined,
and how it is verified. Other modules ask these classes (`partitions.registry`) and know no partition by name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.config import Option, Options
from hudi_py.config import indexes as indexes_config
from hudi_py.formats.avro import decode_values
from hudi_py.formats.log import HeaderKey, LogBlock, read_blocks
from hudi_py.metadata.definitions import IndexDefinition
from hudi_py.metadata.keys import UNPARTITIONED
from hudi_py.metadata_write.encoding.records import RECORD, Combine, MetadataRecords, newest
from hudi_py.metadata_write.encoding.values import behind_meta
from hudi_py.metadata_write.table.source import TableSource
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, InstantTime
from hudi_py.model.layout import PARTITION_METAFILE
from hudi_py.model.names import LogFileName, PartitionPath, join_path, parse_base_file_name, parse_log_file_name
from hudi_py.model.properties import TableConfig
from hudi_py.storage import FileInfo, Storage
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import TableChange
from hudi_py.view import StorageLister


class RecordCheck:
    """Compares a partition's expected records with those it has. Values are Avro binary."""

    field: ClassVar[str]
    """Field of `HoodieMetadataRecord` that holds the partition's content."""

    def __init__(self, source: TableSource) -> None:
        self.source = source
        """The table from which the expected records are built."""

    def required(self, keys: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Returns a mask of the missing records that must exist."""
        return np.ones(len(keys), np.bool_)

    def superfluous(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Returns a mask of the unexpected records that describe something nonexistent; the others are removals."""
        return np.ones(len(values), np.bool_)

    def differing(self, expected: pa.Array, found: pa.Array) -> npt.NDArray[np.int64]:
        """Returns the row numbers of the records that may differ, for `difference`."""
        same = pc.equal(behind_meta(expected), behind_meta(found)).to_numpy(zero_copy_only=False)
        return np.flatnonzero(~same)

    def difference(self, expected: Any, found: Any) -> str:
        """Describes how the content of two records differs; empty if the difference does not matter."""
        raise AssertionError("differing() must find nothing if this is not overridden")

    def labels(self, keys: pa.Array, values: pa.Array) -> list[str]:
        """Returns descriptions of records for users."""
        return [repr(key.decode("utf-8", "replace")) for key in keys.to_pylist()]

    def content(self, values: pa.Array) -> pa.Array:
        """Returns the field named by `field`, decoded from records."""
        batches = list(decode_values(values, RECORD, [self.field], context="records of the metadata table"))
        return pa.concat_arrays([batch.column(0) for batch in batches])


def unset(flags: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns a mask of the rows in which a boolean column is false or null."""
    mask: npt.NDArray[np.bool_] = ~np.asarray(pc.fill_null(flags, False).to_numpy(zero_copy_only=False))
    return mask


class MetadataPartition(ABC):
    """One partition of the metadata table. Stateless; pickles."""

    needs: ClassVar[str] = ""
    """Another partition that this one requires."""
    keeps_keys: ClassVar[bool] = False
    """Whether it is made of record keys, which file writers store in sidecars."""
    survives_evolution: ClassVar[bool] = True
    """Whether it is kept once a table's schema evolves on read. Records that name columns are not: in older files
    another column may have had the name."""
    superfluous_harm: ClassVar[bool] = True
    """Whether a record of something that does not exist misleads readers."""
    check: ClassVar[type[RecordCheck]]

    def checking(self, source: TableSource) -> RecordCheck:
        """Returns the comparison of its records, for a table."""
        return self.check(source)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of its folder and in the table's properties."""

    @property
    @abstractmethod
    def file_id_prefix(self) -> str:
        """The part of its file ids before the number (`MetadataPartitionType.getFileIdPrefix`, 1.2.0)."""

    @abstractmethod
    def wanted(self, options: Options, config: TableConfig) -> bool:
        """Returns whether the options of a write ask for it, regardless of whether the table has it."""

    def unwanted(self, options: Options) -> bool:
        """Returns whether the options of a write ask to drop it."""
        return False

    def deferred(self, options: Options) -> bool:
        """Returns whether the options of a write leave it to a later one as long as the table has no commits."""
        return False

    def on_request(self, options: Mapping[str, str]) -> Mapping[Option[Any], str] | None:
        """Returns the options with which a write creates it as an index by its name; None if it cannot be one.

        Args:
            options: those of the index.
        """
        return None

    def check_columns(self, config: TableConfig, columns: str) -> str:
        """Returns why it cannot be created by its name on some columns (separated by commas); empty if it can."""
        return ""

    def unsupported_by(self, config: TableConfig) -> str:
        """Returns what a table lacks to have this partition; empty if nothing is missing."""
        return ""

    @abstractmethod
    def file_groups(self, source: TableSource) -> int | Mapping[str, int]:
        """Returns the number of file groups with which the partition is created; for a partitioned record index, by the
        prefix of their ids."""

    @abstractmethod
    def initial(self, source: TableSource) -> Iterator[MetadataRecords]:
        """Yields the records of everything in the table, in chunks of bounded size; keys are unique across chunks."""

    def built(self, source: TableSource, now: TableSource | None = None) -> None:
        """Notes that the metadata table has the records that `initial` returned for this source.

        Args:
            now: the present state if writers have recorded changes since, whose records are there as well.
        """
        return

    @abstractmethod
    def changes(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the records that a commit or clean changes; keys are unique across chunks.

        Records of instants that a rollback or restore undid left the metadata table with their delta commits.
        """

    def changed_by(self, commit: CommitMetadata) -> bool:
        """Returns whether a commit may change records, according to its metadata alone."""
        return bool(commit.stats or commit.replaced)

    def changes_of_undoing(self, source: TableSource, change: TableChange) -> Iterator[MetadataRecords]:
        """Yields the records that a rollback or restore changes in addition to undoing delta commits."""
        yield from ()

    def maintainable(self, definition: Mapping[str, Any]) -> bool:
        """Returns whether hudi-py maintains a partition with this definition (`read_definitions`), which is empty if
        there is none."""
        return True

    def definition(self, source: TableSource) -> IndexDefinition | None:
        """Returns the current definition of the index, stored at its creation and with every commit; None if it has
        none."""
        return None

    def first_definition(self, storage: Storage, config: TableConfig, options: Options) -> IndexDefinition | None:
        """Returns the definition to store before the partition is created or rebuilt, because the writer that continues
        after a crash may have other options; None if it does not depend on options."""
        return None

    def as_defined(self, options: Options, definition: Mapping[str, Any]) -> Options:
        """Returns the options with which a rebuild keeps its definition."""
        return options

    def falls_short(self, state: TableState, options: Options) -> bool:
        """Returns whether it lacks something that the options of a write ask for, so that it must be rebuilt."""
        return False

    def columns(self, config: TableConfig, schema_json: str, options: Options) -> tuple[str, ...]:
        """Returns the columns whose ranges file writers must store in sidecars, for a write with an Avro schema."""
        return ()

    def combine(self, *, logs_only: bool) -> Combine:
        """Returns the rule for records with more than one version. `logs_only`: the result will be combined with older
        versions later."""
        return newest

    def removals(self, values: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Returns a mask of the values that only say that a record is gone, so that no base file needs them; None if
        none do."""
        return None


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
                names.update(path.rpartition("/")[2] for path in paths)
        return frozenset(names)

    def is_left(self, name: str) -> bool:
        """Returns whether a failed or pending write left the file behind: no completed action wrote to it.

        For a partition: whether it has no other files. Rolling back a write leaves the folders it created.
        """
        if name in self.partitions:
            path = "" if name == UNPARTITIONED else name
            return all(self.is_left(file) for file, (partition, _) in self.places.items() if partition == path)
        timeline = self._source.timeline
        base = parse_base_file_name(name)
        log = None if base is not None else parse_log_file_name(name)
        if log is None:
            return base is not None and not timeline.is_committed(base.instant)
        named = self._source.config.logs_named_by_instant
        if named and not timeline.is_committed(log.instant):
            return True
        times = {block.instant_time for block in self._read_blocks(name)}
        if named and log.instant in times:
            return False
        # the name of a version 6 log file does not show who wrote it, and upgrades leave it
        times -= self._rolled_back(name, log)
        return not any(time is not None and timeline.is_committed(InstantTime(time)) for time in times)

    @cached_property
    def _slices(self) -> dict[tuple[str, str, str], list[str]]:
        """Log file names by partition path, file id and instant of the base file."""
        slices: dict[tuple[str, str, str], list[str]] = {}
        for name, (partition, _) in self.places.items():
            log = parse_log_file_name(name)
            if log is not None:
                slices.setdefault((partition, log.file_id, log.instant), []).append(name)
        return slices

    def _rolled_back(self, name: str, log: LogFileName) -> set[str | None]:
        """Returns the instants that blocks in the logs of a slice roll back: once archived, they look committed."""
        partition, _ = self.places.get(name, ("", 0))
        blocks = (
            block
            for log_name in self._slices.get((partition, log.file_id, log.instant), ())
            for block in self._read_blocks(log_name)
        )
        return {block.header.get(HeaderKey.TARGET_INSTANT_TIME) for block in blocks if block.is_rollback}

    def _read_blocks(self, name: str) -> Iterator[LogBlock]:
        partition, size = self.places.get(name, ("", 0))
        return read_blocks(self._source.storage, join_path(PartitionPath(partition), name), size)


def listed(source: TableSource) -> Iterator[dict[str, dict[str, int]]]:
    """Yields partitions, file names and sizes in bytes as listed from storage, some partitions at a time.

    Files of pending actions are left out, as are files newer than the newest completed action (`DirectoryInfo`).
    Partitions whose path matches the configured regular expression are left out too.
    """
    lister = StorageLister(source.storage, source.config)
    pattern = source.options.get(indexes_config.METADATA_DIRECTORY_FILTER)
    partitions = [path for path in lister.partitions() if not pattern or not re.fullmatch(pattern, path)]
    if not source.timeline.instants:
        return
    newest, pending = _find_limits(source.timeline)
    for at in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        some = partitions[at : at + _PARTITIONS_AT_ONCE]
        listing: dict[str, dict[str, int]] = {}
        for partition, files in zip(some, in_threads(lister.files, some), strict=True):
            if _is_partition(partition, files):
                listing[partition] = {info.name: info.size for info in files if _is_counted(info.name, newest, pending)}
        yield listing


def _is_partition(partition: PartitionPath, files: list[FileInfo]) -> bool:
    # an unpartitioned table that was never written to has no partition rather than an empty one
    return bool(partition) or any(info.name.startswith(PARTITION_METAFILE) for info in files)


def _find_limits(timeline: Timeline) -> tuple[str, Mapping[str, Action]]:
    newest = max((instant.time for instant in timeline.completed), default="")
    # neither indexing nor savepoints write files; an unfinished savepoint has the time of a completed commit
    others = (Action.INDEXING, Action.SAVEPOINT)
    return newest, {i.time: i.action for i in timeline.pending if i.action not in others}


def _is_counted(name: str, newest: str, pending: Mapping[str, Action]) -> bool:
    base = parse_base_file_name(name)
    parsed = base or parse_log_file_name(name)
    if parsed is None or parsed.instant > newest:
        return False
    # logs that others write while a plan is pending may have its time: those of version 6 that of a compaction, and
    # those of `SparkConsistentBucketDuplicateUpdateStrategy` that of a clustering
    action = pending.get(parsed.instant)
    return action is None or (base is None and action in (Action.COMPACTION, Action.CLUSTERING))
