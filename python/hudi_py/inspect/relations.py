"""A table's timeline and file slices in the columns of Apache Hudi's table functions (`TimelineRelation`,
`FileSystemRelation`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.metadata import METADATA_SCHEMA, metadata_report
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.names import PartitionPath
from hudi_py.schema.patterns import matching_paths
from hudi_py.storage import open_storage
from hudi_py.timeline.archived import archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import decode_commit_metadata
from hudi_py.timeline.properties import load_table_config
from hudi_py.timeline.state import TableState, load_state
from hudi_py.view import load_view

_NUMBERS = (
    "Total_Bytes_Written",
    "Total_Files_Updated",
    "Total_Partitions_Written",
    "Total_Records_Written",
    "Total_Updated_Records_Written",
    "Total_Write_Errors",
)
TIMELINE_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("Timestamp", "Action", "State", "Completion_Time", "File_Name")]
    + [(name, pa.int64()) for name in _NUMBERS]
)
FILE_SLICE_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("File_ID", "Partition_Path", "Base_Instant_Time", "Base_File_Path")]
    + [("Base_File_Size", pa.int64()), ("Log_File_Count", pa.int64()), ("Log_File_Size", pa.int64())]
    + [("Log_File_Scheduled", pa.int64()), ("Log_File_Unscheduled", pa.int64())]
)


def timeline_relation(state: TableState, archived: bool = False) -> pa.Table:
    """Lists each instant in its highest state, oldest first: `TIMELINE_SCHEMA`.

    The numbers are those of commits, including pending ones, and -1 for other actions. Completion_Time is null while an
    instant is pending.

    Args:
        archived: whether to include archived instants, before the active ones.

    Raises:
        CorruptFileError: an instant's metadata or the archive cannot be read.
    """
    rows: list[dict[str, object]] = []
    if archived:
        known = {instant.time for instant in state.timeline.completed}
        for entry in archived_instants(state.storage, state.config, ArchiveQuery(metadata=True)):
            if entry.time not in known:
                name = state.timeline.layout.completed_name(entry.time, entry.action, entry.completion_time)
                rows.append(
                    _timeline_row(entry.time, entry.action, State.COMPLETED, entry.completion_time, name)
                    | _commit_totals(
                        entry.action, entry.metadata or b"", f"the archived {entry.time} of {state.storage.uri}"
                    )
                )
    for instant in state.timeline.instants:
        try:
            numbers = _active_numbers(state, instant)
        except FileNotFoundError:  # archived or rolled back since the listing
            continue
        completion = instant.completion_time if instant.completed else None
        row = _timeline_row(instant.time, instant.action, instant.state, completion, instant.file_name)
        rows.append(row | numbers)
    return pa.Table.from_pylist(rows, TIMELINE_SCHEMA)


def file_slice_relation(state: TableState, pattern: str | None = None) -> pa.Table:
    """Lists every committed file slice that still exists, including replaced file groups: `FILE_SLICE_SCHEMA`.

    Base_File_Path is absolute; for slices of logs only it is empty and Base_File_Size is -1. Logs whose delta commit is
    the slice's own instant count as scheduled, as in Java.

    Args:
        pattern: glob of partition paths (see `matching_paths`). If None, every partition.
    """
    view = load_view(state)
    by_name = not state.config.logs_named_by_instant
    rows: list[dict[str, object]] = []
    partitions: Sequence[str] = view.partitions()
    if pattern is not None:
        partitions = matching_paths("/".join(filter(None, pattern.split("/"))), partitions, "the partition path")
    for partition in map(PartitionPath, partitions):
        for slice_ in view.every_slice(partition):
            own = sum(log.size for log in slice_.log_files if by_name or log.name.instant == slice_.base_instant)
            total = sum(log.size for log in slice_.log_files)
            base = slice_.base_file
            values = (
                slice_.file_id,
                partition,
                slice_.base_instant,
                f"{state.storage.uri.rstrip('/')}/{base.path}" if base else "",
                base.size if base else -1,
                len(slice_.log_files),
                total,
                own,
                total - own,
            )
            rows.append(dict(zip(FILE_SLICE_SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(rows, FILE_SLICE_SCHEMA)


_RELATIONS: Final = {
    "hudi_query_timeline": (timeline_relation, TIMELINE_SCHEMA),
    "hudi_filesystem_view": (file_slice_relation, FILE_SLICE_SCHEMA),
    "hudi_metadata": (metadata_report, METADATA_SCHEMA),
}


def relation(path: str, options: Options, name: str, *arguments: Any) -> pa.Table:
    """Returns the rows of the table function `name`, called with the arguments after the path."""
    report: Any = _RELATIONS[name][0]
    rows: pa.Table = report(load_state(open_storage(path, options.for_storage())), *arguments)
    return rows


def relation_schema(path: str, options: Options, name: str) -> pa.Schema:
    """Returns the columns of a table function.

    Raises:
        TableNotFoundError: there is no table at `path`.
        UnsupportedTableError: the table cannot be read.
    """
    load_table_config(open_storage(path, options.for_storage()))
    return _RELATIONS[name][1]


def _timeline_row(
    time: InstantTime, action: Action, state: State, completion: CompletionTime | None, name: str
) -> dict[str, object]:
    return {
        "Timestamp": time,
        "Action": action.value,
        "State": state.name,
        "Completion_Time": completion,
        "File_Name": name,
    }


def _active_numbers(state: TableState, instant: Instant) -> dict[str, object]:
    path = state.timeline.layout.path(instant.file_name)
    commit = instant.action in WRITE_ACTIONS and instant.state is not State.REQUESTED
    return _commit_totals(instant.action, state.storage.read(path) if commit else b"", f"{state.storage.uri}/{path}")


def _commit_totals(action: Action, data: bytes, context: str) -> dict[str, object]:
    """Returns the totals of a commit's statistics (`HoodieCommitMetadata.fetchTotal...`, 1.2.0)."""
    if action not in WRITE_ACTIONS:
        return dict.fromkeys(_NUMBERS, -1)
    stats = decode_commit_metadata(data, context).stats
    values = (
        sum(stat.total_write_bytes for stat in stats),
        sum(stat.prev_commit not in ("", "null") for stat in stats),
        len({stat.partition_path for stat in stats}),
        sum(stat.num_writes for stat in stats),
        sum(stat.num_updates for stat in stats),
        0,
    )
    return dict(zip(_NUMBERS, values, strict=True))
