"""Commit metadata and write statistics (`HoodieCommitMetadata`, `HoodieWriteStat`, `HoodieReplaceCommitMetadata`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
