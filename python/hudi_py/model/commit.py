"""Commit metadata and write statistics (`HoodieCommitMetadata`, `HoodieWriteStat`, `HoodieReplaceCommitMetadata`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_py.model.files import BaseFile, FileSlice
from hudi_py.model.names import parse_log_file_name

NO_PREVIOUS_COMMIT = "null"
"""`prevCommit` of a new file group: the string `null` (`HoodieWriteStat.NULL_COMMIT`)."""


@dataclass(frozen=True, slots=True)
class CompactedLogs:
    """Statistics of the log blocks that a compaction or log compaction read for one file slice."""

    files: int = 0
    size: int = 0
    """Bytes of the blocks that were merged."""
    blocks: int = 0
    records: int = 0
    """Data and delete records in them."""
    updated: int = 0
    """Distinct keys among them."""
    corrupt_blocks: int = 0
    rollback_blocks: int = 0
    read_ms: int = 0


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file that was written, and what its rows are to its file group."""

    file_id: str
    path: str
    """Relative to the base path."""
    partition: str
    size: int
    """Bytes."""
    rows: int = 0
    """Rows in the file, without deletes."""
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    took_ms: int = 0


@dataclass(frozen=True, slots=True)
class WriteStat:
    """The changes that an action made to one file group. `path` is relative to the base path; sizes are in bytes."""

    file_id: str
    path: str
    partition_path: str
    prev_commit: str = NO_PREVIOUS_COMMIT
    num_writes: int = 0
    num_inserts: int = 0
    num_updates: int = 0
    num_deletes: int = 0
    total_write_bytes: int = 0
    file_size: int = 0
    prev_base_file: str | None = None
    log_version: int | None = None
    """Only set for log files, like `log_offset`, `base_file` and `log_files`."""
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    """Path to size of the change logs."""
    create_time_ms: int = 0
    upsert_time_ms: int = 0
    compacted: CompactedLogs | None = None
    """Only set by compactions and log compactions."""

    @classmethod
    def of_base_file(
        cls,
        written: WrittenFile,
        previous: BaseFile | None = None,
        *,
        cdc_stats: Mapping[str, int] | None = None,
        compacted: CompactedLogs | None = None,
    ) -> WriteStat:
        """Returns the statistics of a base file (`HoodieCreateHandle`, `HoodieWriteMergeHandle`, 1.2.0).

        Args:
            previous: the base file that it replaces; None if its slice had none.
        """
        is_new = previous is None and compacted is None
        return cls(
            file_id=written.file_id,
            path=written.path,
            partition_path=written.partition,
            prev_commit=NO_PREVIOUS_COMMIT if previous is None else previous.instant,
            num_writes=written.rows,
            num_inserts=written.inserts,
            num_updates=written.updates,
            num_deletes=written.deletes,
            total_write_bytes=written.size,
            file_size=written.size,
            prev_base_file=None if previous is None else str(previous.name),
            cdc_stats=cdc_stats,
            create_time_ms=written.took_ms if is_new else 0,
            upsert_time_ms=0 if is_new else written.took_ms,
            compacted=compacted,
        )

    @classmethod
    def of_log_file(
        cls,
        written: WrittenFile,
        prev_commit: str,
        *,
        slice_before: FileSlice | None = None,
        compacted: CompactedLogs | None = None,
    ) -> WriteStat:
        """Returns the statistics of a log file (`HoodieAppendHandle`, 1.2.0).

        Args:
            slice_before: the slice to which the log was added, whose files the statistics list up to table version 6.
        """
        name = written.path.rpartition("/")[2]
        parsed = parse_log_file_name(name)
        assert parsed is not None
        base = None if slice_before is None else slice_before.base_file
        earlier = () if slice_before is None else slice_before.log_files
        return cls(
            file_id=written.file_id,
            path=written.path,
            partition_path=written.partition,
            prev_commit=prev_commit,
            num_writes=written.rows,
            num_inserts=written.inserts,
            num_updates=written.updates,
            num_deletes=written.deletes,
            total_write_bytes=written.size,
            file_size=written.size,
            log_version=parsed.version,
            log_offset=0,
            base_file="" if base is None else str(base.name),
            log_files=(*(str(log.name) for log in earlier), name),
            upsert_time_ms=written.took_ms,
            compacted=compacted,
        )

    @property
    def files(self) -> dict[str, int]:
        """Maps the paths of the data file and its change logs to sizes; empty if there is no data file."""
        return {self.path: self.file_size, **(self.cdc_stats or {})} if self.path else {}


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Content of a completed commit, deltacommit or replacecommit."""

    operation: str
    """Name of a `WriteOperationType`, e.g. `UPSERT`; `UNKNOWN` if absent."""
    stats: tuple[WriteStat, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    """`extraMetadata`; holds `schema`."""
    compacted: bool = False
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Partition path to replaced file ids; replacecommits only."""

    @property
    def written_groups(self) -> frozenset[tuple[str, str]]:
        """Returns partition and file id of each file group with new files."""
        return frozenset((stat.partition_path, stat.file_id) for stat in self.stats)

    @property
    def replaced_groups(self) -> frozenset[tuple[str, str]]:
        """Returns partition and file id of each replaced file group."""
        return frozenset((partition, file_id) for partition, ids in self.replaced.items() for file_id in ids)

    @property
    def changed_groups(self) -> frozenset[tuple[str, str]]:
        return self.written_groups | self.replaced_groups
