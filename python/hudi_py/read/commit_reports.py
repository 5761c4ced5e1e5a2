"""Reports on what commits wrote, file by file, and on what else their metadata hold: the rows behind the procedures of
Apache Hudi that show commits (`ShowCommitsProcedure` and others, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hudi_py.model.commit import CommitMetadata, CompactedLogs, WriteStat
from hudi_py.model.instant import WRITE_ACTIONS, Instant
from hudi_py.timeline.archived import ArchivedInstant, archived_instants
from hudi_py.timeline.metadata import decode_commit_metadata, read_commit_metadata
from hudi_py.timeline.state import TableState

_COMMIT = [(name, pa.string()) for name in ("commit_time", "state_transition_time", "action", "operation")]
WRITTEN = pa.schema(
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
EXTRA = pa.schema([*_COMMIT, ("metadata_key", pa.string()), ("metadata_value", pa.string())])


def written_report(state: TableState, *, archived: bool = False) -> pa.Table:
    """What each completed write wrote to each file, newest write first; a write without files has one row, whose file
    is null. `archived`: those of the archived timeline instead of the active one."""
    found = _archived(state) if archived else _active(state)
    rows = [
        {**_described(instant, metadata), "archived": archived, **({} if stat is None else _written(stat))}
        for instant, metadata in found
        for stat in metadata.stats or (None,)
    ]
    return pa.Table.from_pylist(rows, WRITTEN)


def extra_report(state: TableState) -> pa.Table:
    """The extra metadata of completed writes of the active timeline, newest write first."""
    rows = [
        {**_described(instant, metadata), "metadata_key": key, "metadata_value": value}
        for instant, metadata in _active(state)
        for key, value in metadata.extra.items()
    ]
    return pa.Table.from_pylist(rows, EXTRA)


def _active(state: TableState) -> Iterator[tuple[Instant, CommitMetadata]]:
    for instant in sorted(state.timeline.write_completed, key=lambda instant: instant.time, reverse=True):
        try:
            yield instant, read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
        except FileNotFoundError:  # archived since it was listed
            continue


def _archived(state: TableState) -> Iterator[tuple[ArchivedInstant, CommitMetadata]]:
    active = {(instant.time, instant.action.comparable) for instant in state.timeline.completed}

    def is_wanted(instant: ArchivedInstant) -> bool:
        return instant.action in WRITE_ACTIONS and (instant.time, instant.action) not in active

    for entry in reversed(archived_instants(state.storage, state.config, chosen=is_wanted, metadata=True)):
        context = f"the archived {entry.action.value} {entry.time} of {state.storage.uri}"
        yield entry, decode_commit_metadata(entry.metadata or b"{}", context)


def _described(instant: Instant | ArchivedInstant, metadata: CommitMetadata) -> dict[str, object]:
    return {
        "commit_time": instant.time,
        "state_transition_time": instant.completion_time,
        "action": instant.action.value,
        "operation": metadata.operation,
    }


def _written(stat: WriteStat) -> dict[str, object]:
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
