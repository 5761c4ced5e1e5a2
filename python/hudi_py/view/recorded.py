"""Compares the files in commit metadata with those in storage.

A listing cannot show that a file was lost: an older version, or nothing, takes its place. Commit metadata can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_py.config.read import DAMAGED
from hudi_py.errors import CorruptFileError, HistoryCleanedError, HudiError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import LogFile
from hudi_py.model.instant import Instant
from hudi_py.model.names import (
    BaseFileName,
    FileId,
    LogFileName,
    PartitionPath,
    join_path,
    parse_base_file_name,
    parse_log_file_name,
)
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.timeline import Timeline, load_timeline

_INITIAL = "00000000000000"
"""Prefix of the instants at which partitions of a metadata table are initialised."""
_RECENT: dict[tuple[str, str, str | None], list[RecordedFile]] = {}
"""What commits wrote, by table, file of the timeline and completion time: a completed commit never changes."""
_MOST_RECENT = 512
_MOST_FILES = 256
"""Commits that wrote more files are read again each time, so that what is kept stays small."""
_FIRST_VERSION = 6
"""Table version from which on commits record the true sizes of their files."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file in the metadata of a completed commit."""

    commit: str
    """Requested time of the commit."""
    action: str
    partition: PartitionPath
    name: BaseFileName | LogFileName
    offset: int
    """Byte at which the commit began to write; 0 except in logs of table version 6."""
    size: int
    """Bytes of the whole file after the commit; 0 if not recorded."""

    @property
    def path(self) -> str:
        return join_path(self.partition, str(self.name))


def files_of(commit: str, action: str, metadata: CommitMetadata) -> Iterator[RecordedFile]:
    """The base and log files in a commit's metadata, without change logs."""
    for stat in metadata.stats:
        partition, _, name = stat.path.rpartition("/")
        log = parse_log_file_name(name)
        parsed = log or parse_base_file_name(name)
        if parsed is not None and not (log is not None and log.cdc):
            yield RecordedFile(commit, action, PartitionPath(partition), parsed, stat.log_offset or 0, stat.file_size)


RecordedFiles = Mapping[PartitionPath, Mapping[FileId, Sequence[RecordedFile]]]


def read_recorded(storage: Storage, config: TableConfig, timeline: Timeline) -> RecordedFiles:
    """The files of active completed commits, by partition and file id; empty for tables before version 6.

    Ignores commits older than the timeline's start, as the commits that replaced their files may be archived, and
    commits with unreadable metadata, which is reported where it is needed.
    """
    if config.version < _FIRST_VERSION:
        return {}

    def read(instant: Instant) -> list[RecordedFile]:
        key = (storage.uri, instant.file_name, instant.completion_time)
        if (kept := _RECENT.get(key)) is not None:
            return kept
        try:
            metadata = read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
        except (FileNotFoundError, CorruptFileError):
            return []
        files = list(files_of(instant.time, instant.action.comparable.value, metadata))
        if len(files) <= _MOST_FILES:
            if len(_RECENT) >= _MOST_RECENT:
                _RECENT.clear()
            _RECENT[key] = files
        return files

    active = [instant for instant in timeline.write_completed if instant.time >= (timeline.start or "")]
    found: dict[PartitionPath, dict[FileId, list[RecordedFile]]] = {}
    for files in when_remote(storage, read, active):
        for file in files:
            found.setdefault(file.partition, {}).setdefault(file.name.file_id, []).append(file)
    return found


def lost_files(
    recorded: Sequence[RecordedFile],
    listed: Mapping[BaseFileName | LogFileName, int],
    config: TableConfig,
    timeline: Timeline,
) -> list[tuple[RecordedFile, int | None]]:
    """Files of the newest slice of a file group that are missing or too short, with their actual size (None: missing).

    The newest slice is never cleaned, so these files are lost.

    Args:
        recorded: the file group's files in commit metadata.
        listed: its existing files that count, with their sizes.
        timeline: the timeline that `recorded` comes from.
    """
    if config.base_file_format == "HFILE":
        if not listed:  # the partition was deleted, or rebuilt with fewer file groups
            return []
        # a rebuilt partition of a metadata table starts with its base file; earlier logs were deleted
        starts = [n.instant for n in listed if isinstance(n, BaseFileName) or n.instant.startswith(_INITIAL)]
        known = [i.completion_time or "" for i in timeline.write_completed if i.time in starts]
        there = [timeline.completion_time(file.commit) or "" for file in recorded if file.name in listed]
        start = max(known) if known else min(there, default="~")
        recorded = [file for file in recorded if (timeline.completion_time(file.commit) or "") >= start]
    bases = [name.instant for name in listed if isinstance(name, BaseFileName)]
    bases += [file.name.instant for file in recorded if isinstance(file.name, BaseFileName)]
    base = max(bases, default="")

    def is_needed(name: BaseFileName | LogFileName) -> bool:
        if isinstance(name, BaseFileName):
            return name.instant == base
        if config.version >= 8:
            return (timeline.completion_time(name.instant) or name.instant) >= base
        return name.instant >= base

    needed = [(file, listed.get(file.name)) for file in recorded if is_needed(file.name)]
    return [(file, size) for file, size in needed if size is None or size < file.size]


def as_recorded(logs: Sequence[LogFile], recorded: Sequence[RecordedFile]) -> list[LogFile]:
    """Logs limited to their recorded size; since table version 8 nothing is appended to a log."""
    sizes = {file.name: file.size for file in recorded if file.size}
    return [replace(log, size=min(log.size, sizes.get(log.name, log.size))) for log in logs]


def lost_error(
    storage: Storage, config: TableConfig, timeline: Timeline, file: RecordedFile, size: int | None
) -> HudiError:
    """The error for one of `lost_files`; a writer may have changed the table since its timeline was read."""
    there = "is missing" if size is None else f"has {size} of its {file.size} bytes"
    what = f"the file {storage.uri}/{file.path}, which the completed {file.action} {file.commit} wrote, {there}"
    is_metadata_table = config.base_file_format == "HFILE"
    now = {instant.file_name for instant in load_timeline(storage, config).files}
    if not is_metadata_table and now != {instant.file_name for instant in timeline.files}:
        return HistoryCleanedError(
            f"Cannot read file group {file.name.file_id}: {what}; the table has changed since this read was planned: "
            "re-create the DataFrame, or scan again"
        )
    if is_metadata_table:
        return CorruptFileError(f"Cannot read the metadata table: {what}; the next write rebuilds it")
    return CorruptFileError(
        f"Cannot read file group {file.name.file_id}: {what}; restore it from a copy, or undo the commit "
        f"(rollback, restore); metadata.verify() compares all files; {DAMAGED.key}=true reads what is left"
    )
