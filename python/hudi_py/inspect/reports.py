"""Reports on a table's timeline, files, partitions and commits, as Arrow tables.

Reports on what commits wrote are the rows of Apache Hudi's procedures that show commits (`ShowCommitsProcedure` and
others, 1.2.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata, CompactedLogs, WriteStat
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import WRITE_ACTIONS, Instant, InstantTime
from hudi_py.read.planning.pin import load_pinned
from hudi_py.read.split import ChangeSplit, Split
from hudi_py.storage import Storage
from hudi_py.timeline.archived import ArchivedInstant, archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import decode_commit_metadata, read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import parse_instant, table_zone
from hudi_py.view import load_view

INSTANTS = pa.schema([(name, pa.string()) for name in ("instant", "action", "state", "completion_time")])
HISTORY = pa.schema(
    [(name, pa.string()) for name in ("instant", "completion_time", "action", "operation")]
    + [
        (name, pa.int64())
        for name in ("num_inserts", "num_updates", "num_deletes", "num_writes", "num_files", "num_bytes")
    ]
)
_COMMITS = pa.schema(
    [(name, pa.string()) for name in ("commit_time", "state_transition_time", "action")]
    + [
        (f"total_{name}", pa.int64())
        for name in (
            *("bytes_written", "files_added", "files_updated", "partitions_written", "records_written"),
            *("update_records_written", "errors"),
        )
    ]
)
"""The columns of Apache Hudi's procedure `show_commits`."""
_PROPERTIES = pa.schema([(name, pa.string()) for name in ("key", "value")])
FILES = pa.schema(
    [(name, pa.string()) for name in ("partition", "file_id", "base_instant", "base_file")]
    + [("base_bytes", pa.int64()), ("log_files", pa.list_(pa.string())), ("log_bytes", pa.int64())]
)
_PARTITIONS = pa.schema(
    [("partition", pa.string())] + [(name, pa.int64()) for name in ("num_slices", "num_files", "num_bytes")]
)
_SPLITS = pa.schema(
    [(name, pa.string()) for name in ("partition", "file_id", "base_file")]
    + [("base_bytes", pa.int64()), ("log_files", pa.list_(pa.string())), ("log_bytes", pa.int64())]
    + [("kind", pa.string()), ("native", pa.bool_()), ("why_not_native", pa.string())]
)
_COMMIT = [(name, pa.string()) for name in ("commit_time", "state_transition_time", "action", "operation")]
_WRITTEN = pa.schema(
    _COMMIT
    + [("archived", pa.bool_())]
    + [(name, pa.string()) for name in ("partition", "file_id", "path", "previous_commit")]
    + [
        (name, pa.int64())
        for name in (
            *("num_writes", "num_inserts", "num_deletes", "num_update_writes"),
            *("total_log_blocks", "total_corrupt_log_blocks", "total_rollback_blocks", "total_log_records"),
            *("total_updated_records_compacted", "total_bytes_written", "file_size"),
        )
    ]
)
_EXTRA = pa.schema([*_COMMIT, ("metadata_key", pa.string()), ("metadata_value", pa.string())])


def table_report(path: str, options: Options, view: str) -> pa.Table:
    """Returns the report `files`, `partitions`, `timeline`, `commits`, `written`, `archived`, `extra` or `properties`
    of a table's newest state, or of the instant or pin in the options."""
    state, _ = load_pinned(path, options)
    if view == "timeline":
        return instant_report(state.timeline)
    if view == "commits":
        return _commit_report(state)
    if view in ("written", "archived"):
        return _written_report(state, archived=view == "archived")
    if view == "extra":
        return _extra_report(state)
    if view == "properties":
        rows = [{"key": key, "value": value} for key, value in sorted(state.config.properties.items())]
        return pa.Table.from_pylist(rows, _PROPERTIES)
    given = options.get(read_config.AS_OF_INSTANT)
    as_of = None if given is None else parse_instant(given, table_zone(state.config))
    report = file_report if view == "files" else partition_report
    return report(state, as_of)


def instant_report(timeline: Timeline, archived: Sequence[ArchivedInstant] = ()) -> pa.Table:
    """Lists instants of the active timeline and the given archived ones, oldest first."""
    active = {(instant.time, instant.action.comparable) for instant in timeline.instants}
    instants: list[Instant | ArchivedInstant] = [*timeline.instants]
    instants += [instant for instant in archived if (instant.time, instant.action) not in active]
    rows = [
        {
            "instant": instant.time,
            "action": instant.action.value,
            "state": instant.state.name,
            "completion_time": instant.completion_time,
        }
        for instant in sorted(instants, key=lambda instant: instant.time)
    ]
    return pa.Table.from_pylist(rows, INSTANTS)


def _commit_report(state: TableState) -> pa.Table:
    """Lists completed writes of the active timeline, newest first, with totals (`ShowCommitsProcedure`, 1.2.0)."""
    rows = []
    for instant in reversed(state.timeline.write_completed):
        try:
            stats = read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True).stats
        except FileNotFoundError:  # archived since the listing
            continue
        added = sum(stat.prev_commit == NO_PREVIOUS_COMMIT for stat in stats)
        rows.append(
            {
                "commit_time": instant.time,
                "state_transition_time": instant.completion_time,
                "action": instant.action.value,
                "total_bytes_written": sum(stat.total_write_bytes for stat in stats),
                "total_files_added": added,
                "total_files_updated": len(stats) - added,
                "total_partitions_written": len({stat.partition_path for stat in stats}),
                "total_records_written": sum(stat.num_writes for stat in stats),
                "total_update_records_written": sum(stat.num_updates for stat in stats),
                "total_errors": 0,
            }
        )
    return pa.Table.from_pylist(rows, _COMMITS)


def history_report(storage: Storage, timeline: Timeline, archived: Sequence[ArchivedInstant] = ()) -> pa.Table:
    """Lists completed writes and how much they wrote, oldest first; `archived` instants need their metadata."""
    written: dict[str, tuple[Instant | ArchivedInstant, CommitMetadata]] = {}
    for entry in archived:
        if entry.action in WRITE_ACTIONS:
            context = f"the archived {entry.action.value} {entry.time} of {storage.uri}"
            written[entry.time] = entry, decode_commit_metadata(entry.metadata or b"", context)
    for instant in timeline.write_completed:
        try:
            written[instant.time] = instant, read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
        except FileNotFoundError:  # archived since the listing
            continue
    rows = [
        {
            "instant": instant.time,
            "completion_time": instant.completion_time,
            "action": instant.action.value,
            "operation": metadata.operation,
            "num_inserts": sum(stat.num_inserts for stat in metadata.stats),
            "num_updates": sum(stat.num_updates for stat in metadata.stats),
            "num_deletes": sum(stat.num_deletes for stat in metadata.stats),
            "num_writes": sum(stat.num_writes for stat in metadata.stats),
            "num_files": len(metadata.stats),
            "num_bytes": sum(stat.total_write_bytes for stat in metadata.stats),
        }
        for _, (instant, metadata) in sorted(written.items())
    ]
    return pa.Table.from_pylist(rows, HISTORY)


def file_report(state: TableState, as_of: InstantTime | None = None) -> pa.Table:
    """Lists the newest file slice of each file group, or the one as of an instant."""
    rows = [
        {
            "partition": slice_.partition,
            "file_id": slice_.file_id,
            "base_instant": slice_.base_instant,
            "base_file": str(slice_.base_file.name) if slice_.base_file else None,
            "base_bytes": slice_.base_file.size if slice_.base_file else 0,
            "log_files": [str(log.name) for log in slice_.log_files],
            "log_bytes": sum(log.size for log in slice_.log_files),
        }
        for _, slices in _partition_slices(state, as_of)
        for slice_ in slices
    ]
    return pa.Table.from_pylist(rows, FILES)


def partition_report(state: TableState, as_of: InstantTime | None = None) -> pa.Table:
    """Lists partitions and the sizes of their newest file slices, or of those as of an instant."""
    rows = [
        {
            "partition": path,
            "num_slices": len(slices),
            "num_files": sum(len(slice_.log_files) + (slice_.base_file is not None) for slice_ in slices),
            "num_bytes": sum(slice_.size for slice_ in slices),
        }
        for path, slices in _partition_slices(state, as_of)
    ]
    return pa.Table.from_pylist(rows, _PARTITIONS)


def split_report(splits: Sequence[Split], reasons: Sequence[str | None]) -> pa.Table:
    """Lists splits: partition, file_id, base_file (string), base_bytes (int64), log_files (list of string), log_bytes
    (int64), kind (string: `base`, `base + log`, `log` or `changes`), native (bool: whether a generic Parquet reader can
    read it) and why_not_native (string).

    Args:
        reasons: the result of `read.engines.native.why_not_native` for the splits.
    """
    rows = []
    for split, reason in zip(splits, reasons, strict=True):
        row: dict[str, object] = {
            "partition": split.partition,
            "file_id": split.file_id,
            "kind": "changes",
            "log_files": [],
            "base_bytes": 0,
            "log_bytes": split.size,
            "native": reason is None,
            "why_not_native": reason,
        }
        if not isinstance(split, ChangeSplit):
            parts = ["base"] * (split.base_file is not None) + ["log"] * bool(split.log_files)
            row["kind"] = " + ".join(parts)
            row["base_file"] = str(split.base_file.name) if split.base_file else None
            row["base_bytes"] = split.base_file.size if split.base_file else 0
            row["log_files"] = [str(log.name) for log in split.log_files]
            row["log_bytes"] = sum(log.size for log in split.log_files)
        rows.append(row)
    return pa.Table.from_pylist(rows, _SPLITS)


def _partition_slices(state: TableState, as_of: InstantTime | None) -> Iterator[tuple[str, list[FileSlice]]]:
    view = load_view(state)
    for path in view.partitions():
        yield path, view.latest_slices(path, as_of)


def _written_report(state: TableState, *, archived: bool = False) -> pa.Table:
    """Lists what each completed write wrote to each file, newest write first; a write without files has one row, whose
    file is null. `archived` lists the archived timeline instead of the active one."""
    commits = _archived_commits(state) if archived else _active_commits(state)
    rows = [
        {**_commit_row(instant, metadata), "archived": archived, **({} if stat is None else _stat_row(stat))}
        for instant, metadata in commits
        for stat in metadata.stats or (None,)
    ]
    return pa.Table.from_pylist(rows, _WRITTEN)


def _extra_report(state: TableState) -> pa.Table:
    """Lists the extra metadata of completed writes of the active timeline, newest write first."""
    rows = [
        {**_commit_row(instant, metadata), "metadata_key": key, "metadata_value": value}
        for instant, metadata in _active_commits(state)
        for key, value in metadata.extra.items()
    ]
    return pa.Table.from_pylist(rows, _EXTRA)


def _active_commits(state: TableState) -> Iterator[tuple[Instant, CommitMetadata]]:
    for instant in sorted(state.timeline.write_completed, key=lambda instant: instant.time, reverse=True):
        try:
            yield instant, read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
        except FileNotFoundError:  # archived since the listing
            continue


def _archived_commits(state: TableState) -> Iterator[tuple[ArchivedInstant, CommitMetadata]]:
    active = {(instant.time, instant.action.comparable) for instant in state.timeline.completed}

    def is_wanted(instant: ArchivedInstant) -> bool:
        return instant.action in WRITE_ACTIONS and (instant.time, instant.action) not in active

    for entry in reversed(
        archived_instants(state.storage, state.config, ArchiveQuery(chosen=is_wanted, metadata=True))
    ):
        context = f"the archived {entry.action.value} {entry.time} of {state.storage.uri}"
        yield entry, decode_commit_metadata(entry.metadata or b"{}", context)


def _commit_row(instant: Instant | ArchivedInstant, metadata: CommitMetadata) -> dict[str, object]:
    return {
        "commit_time": instant.time,
        "state_transition_time": instant.completion_time,
        "action": instant.action.value,
        "operation": metadata.operation,
    }


def _stat_row(stat: WriteStat) -> dict[str, object]:
    logs = stat.compacted or CompactedLogs()
    return {
        "partition": stat.partition_path,
        "file_id": stat.file_id,
        "path": stat.path,
        "previous_commit": stat.prev_commit,
        "num_writes": stat.num_writes,
        "num_inserts": stat.num_inserts,
        "num_deletes": stat.num_deletes,
        "num_update_writes": stat.num_updates,
        "total_log_blocks": logs.blocks,
        "total_corrupt_log_blocks": logs.corrupt_blocks,
        "total_rollback_blocks": logs.rollback_blocks,
        "total_log_records": logs.records,
        "total_updated_records_compacted": logs.updated,
        "total_bytes_written": stat.total_write_bytes,
        "file_size": stat.file_size,
    }
