"""Compares the files in commit metadata with those in storage.

A listing cannot show that a file was lost, since an older version, or nothing, appears instead. Commit metadata can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hudi_py.config.read import DAMAGED
from hudi_py.errors import CorruptFileError, HistoryCleanedError, HudiError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.files import LogFile
from hudi_py.model.instant import WRITE_ACTIONS, Instant, InstantTime
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
from hudi_py.storage.recent import Recent
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline, load_timeline

_INITIAL = "00000000000000"
"""Prefix of the instants at which partitions of a metadata table are initialised."""
_FILE_BYTES = 512
"""Approximate size of a `RecordedFile` in memory."""
_MAX_BYTES = 16 << 20
_RECENT: Recent[tuple[str, str, str | None], list[RecordedFile]] = Recent(_MAX_BYTES, _MAX_BYTES)
"""Files of completed commits, which never change, by table URI, timeline file and completion time. Successive views of
a table compare mostly the same commits."""
_FIRST_VERSION = 6
"""First table version whose commits record the true sizes of their files."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file in the metadata of a completed commit."""

    commit: str
    """Requested time of the commit."""
    action: str
    partition: PartitionPath
    name: BaseFileName | LogFileName
    offset: int
    """Offset at which the commit began to write; 0 except in logs of table version 6."""
    size: int
    """Size of the whole file after the commit; 0 if not recorded."""

    @property
    def path(self) -> str:
        return join_path(self.partition, str(self.name))


def files_of(commit: str, action: str, metadata: CommitMetadata) -> Iterator[RecordedFile]:
    """Yields the base and log files in a commit's metadata, without change logs."""
    for stat in metadata.stats:
        partition, _, name = stat.path.rpartition("/")
        log = parse_log_file_name(name)
        parsed = log or parse_base_file_name(name)
        if parsed is not None and not (log is not None and log.cdc):
            yield RecordedFile(commit, action, PartitionPath(partition), parsed, stat.log_offset or 0, stat.file_size)


RecordedFiles = Mapping[PartitionPath, Mapping[FileId, Sequence[RecordedFile]]]


def read_recorded(state: TableState) -> RecordedFiles:
    """Reads the files of active completed commits, by partition and file id; empty for tables before version 6.

    Ignores commits older than the timeline's start, as the commits that replaced their files may be archived, and
    commits with unreadable metadata, which is reported where it is needed.
    """
    if state.config.version < _FIRST_VERSION:
        return {}

    def read(instant: Instant) -> list[RecordedFile]:
        return recorded_files(state, instant)

    active = [instant for instant in state.timeline.write_completed if instant.time >= (state.timeline.start or "")]
    result: dict[PartitionPath, dict[FileId, list[RecordedFile]]] = {}
    for files in when_remote(state.storage, read, active):
        for file in files:
            result.setdefault(file.partition, {}).setdefault(file.name.file_id, []).append(file)
    return result


def recorded_files(state: TableState, instant: Instant) -> list[RecordedFile]:
    """Returns the files of a completed commit; none if its metadata cannot be read."""
    key = (state.storage.uri, instant.file_name, instant.completion_time)
    if (cached := _RECENT.get(key)) is not None:
        return cached
    try:
        metadata = read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
    except (FileNotFoundError, CorruptFileError):
        return []
    files = list(files_of(instant.time, instant.action.comparable.value, metadata))
    _RECENT.put(key, files, (len(files) + 1) * _FILE_BYTES)  # a commit without files takes memory too
    return files


def lost_files(
    recorded: Sequence[RecordedFile],
    listed: Mapping[BaseFileName | LogFileName, int],
    config: TableConfig,
    timeline: Timeline,
) -> list[tuple[RecordedFile, int | None]]:
    """Returns files of a file group's newest slice that are missing, too short or replaced, with their actual size.

    The newest slice is never cleaned, so missing files (size None) are lost.

    Args:
        recorded: the file group's files in commit metadata.
        listed: its existing files that count, with their sizes.
        timeline: the timeline that `recorded` comes from.
    """
    if config.is_metadata_table:
        recorded = _since_built(recorded, listed, timeline)
    bases = [name.instant for name in listed if isinstance(name, BaseFileName)]
    bases += [file.name.instant for file in recorded if isinstance(file.name, BaseFileName)]
    base = max(bases, default="")

    def is_needed(name: BaseFileName | LogFileName) -> bool:
        if isinstance(name, BaseFileName):
            return name.instant == base
        if config.has_completion_times:
            return (timeline.completion_time(name.instant) or name.instant) >= base
        return name.instant >= base

    needed = [(file, listed.get(file.name)) for file in recorded if is_needed(file.name)]
    return [(file, size) for file, size in needed if _is_damaged(file, size)]


def _since_built(
    recorded: Sequence[RecordedFile], listed: Mapping[BaseFileName | LogFileName, int], timeline: Timeline
) -> list[RecordedFile]:
    """Returns the recorded files of a metadata table partition that were written since it was last built."""
    if not listed:  # the partition was deleted, or rebuilt with fewer file groups
        return []
    # a rebuilt partition starts with its base file; earlier logs were deleted
    starts = [n.instant for n in listed if isinstance(n, BaseFileName) or n.instant.startswith(_INITIAL)]
    known = [i.completion_time or "" for i in timeline.write_completed if i.time in starts]
    there = [timeline.completion_time(file.commit) or "" for file in recorded if file.name in listed]
    start = max(known) if known else min(there, default="~")
    return [file for file in recorded if (timeline.completion_time(file.commit) or "") >= start]


def _is_damaged(file: RecordedFile, size: int | None) -> bool:
    # a larger base file was replaced; a larger log may have grown
    return size is None or size < file.size or (isinstance(file.name, BaseFileName) and 0 < file.size < size)


def as_recorded(logs: Sequence[LogFile], recorded: Sequence[RecordedFile]) -> list[LogFile]:
    """Limits logs to their recorded size; since table version 8 nothing is appended to a log."""
    sizes = {file.name: file.size for file in recorded if file.size}
    return [replace(log, size=sizes[log.name]) if sizes.get(log.name, log.size) < log.size else log for log in logs]


def describe_loss(file: RecordedFile, size: int | None) -> str:
    """Describes one of `lost_files` for messages: its path, its commit, and what is wrong."""
    if size is None:
        there = "is missing"
    elif size < file.size:
        there = f"has {size} of its {file.size} bytes"
    else:
        there = f"has {size} bytes instead of {file.size}, so it was replaced"
    return f"{file.path}, which the completed {file.action} {file.commit} wrote, {there}"


def _may_delete(timeline: Timeline) -> set[str]:
    """Returns the state files of actions that may have deleted committed files: all except pending writes, such as the
    reader's own."""
    return {file.file_name for file in timeline.files if file.completed or file.action.comparable not in WRITE_ACTIONS}


def gone_error(state: TableState, file: RecordedFile, as_of: InstantTime) -> HudiError:
    """Returns the error for a missing file of an older slice, which an archived clean may have removed."""
    return HistoryCleanedError(
        f"Cannot read file group {file.name.file_id} as of {as_of}: the file "
        f"{state.storage.uri}/{describe_loss(file, None)}: it was cleaned, or lost; choose a later time, or restore it "
        "from a copy",
        path=file.path,
        instant=file.commit,
    )


def lost_error(state: TableState, file: RecordedFile, size: int | None) -> HudiError:
    """Returns the error for one of `lost_files`; a writer may have changed the table since its timeline was read."""
    what = f"the file {state.storage.uri}/{describe_loss(file, size)}"
    if state.config.is_metadata_table:
        return CorruptFileError(f"Cannot read the metadata table: {what}; the next write rebuilds it")
    if _may_delete(load_timeline(state.storage, state.config)) != _may_delete(state.timeline):
        return HistoryCleanedError(
            f"Cannot read file group {file.name.file_id}: {what}; the table has changed since this read was planned: "
            "re-create the DataFrame, or scan again"
        )
    return CorruptFileError(
        f"Cannot read file group {file.name.file_id}: {what}; restore it from a copy, or undo the commit "
        f"(rollback, restore); metadata.verify() compares all files; {DAMAGED.key}=true reads what is left",
        path=file.path,
        instant=file.commit,
        expected=file.size,
        found=size,
    )
