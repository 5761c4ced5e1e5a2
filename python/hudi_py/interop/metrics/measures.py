"""What completed actions report, by the names of Apache Hudi (`HoodieMetrics`, 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo

from hudi_py.model.commit import NO_PREVIOUS_COMMIT, CommitMetadata, CompactedLogs
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.services.planned.pending import SERVICE_ACTIONS
from hudi_py.storage import Storage
from hudi_py.timeline.clean_records import decode_clean_metadata
from hudi_py.timeline.metadata import decode_rollback_metadata, read_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms

Measure = tuple[str, int]
"""Name, without the prefix, and value. Durations are in milliseconds, sizes in bytes."""
_PENDING = (
    ("clustering", "Clustering", Action.CLUSTERING),
    ("compaction", "Compaction", Action.COMPACTION),
    ("clean", "Clean", Action.CLEAN),
    ("rollback", "Rollback", Action.ROLLBACK),
)


def measures_of(
    storage: Storage, timeline: Timeline, instants: Iterable[Instant], zone: tzinfo, *, log_blocks: bool
) -> Iterator[Measure]:
    """The measures of completed instants, and those of the timeline. Instants that were archived or rolled back since
    have none."""
    for instant in instants:
        duration = _duration(instant, zone)
        try:
            if instant.action.comparable in WRITE_ACTIONS:
                metadata = read_commit_metadata(storage, timeline.layout, instant, may_be_empty=True)
                action = SERVICE_ACTIONS.get(metadata.operation, instant.action.comparable.value)
                yield f"{action}.commitTime", epoch_ms(instant.time, zone)
                yield f"{action}.duration", duration
                yield from ((f"{action}.{name}", value) for name, value in _commit(metadata, log_blocks=log_blocks))
            elif instant.action is Action.CLEAN:
                path = timeline.layout.path(instant.file_name)
                clean = decode_clean_metadata(storage.read(path), f"{storage.uri}/{path}")
                yield "clean.duration", clean.time_taken_ms
                yield "clean.numFilesDeleted", sum(len(each.deleted) for each in clean.partitions)
            elif instant.action is Action.ROLLBACK:
                path = timeline.layout.path(instant.file_name)
                rollback = decode_rollback_metadata(storage.read(path), f"{storage.uri}/{path}")
                yield "rollback.duration", rollback.time_taken_ms
                yield "rollback.numFilesDeleted", sum(len(each.deleted) for each in rollback.partitions)
        except FileNotFoundError:
            continue
    yield from _state(timeline)


def _commit(metadata: CommitMetadata, *, log_blocks: bool) -> Iterator[Measure]:
    stats = metadata.stats
    logs = [stat.compacted or CompactedLogs() for stat in stats]
    new = [stat for stat in stats if stat.prev_commit in (NO_PREVIOUS_COMMIT, "")]
    yield "totalPartitionsWritten", len({stat.partition_path for stat in stats})
    yield "totalFilesInsert", len(new)
    yield "totalFilesUpdate", len(stats) - len(new)
    yield "totalRecordsWritten", sum(stat.num_writes for stat in stats)
    yield "totalUpdateRecordsWritten", sum(stat.num_updates for stat in stats)
    yield "totalInsertRecordsWritten", sum(stat.num_inserts for stat in stats)
    yield "totalRecordsDeleted", sum(stat.num_deletes for stat in stats)
    yield "totalBytesWritten", sum(stat.total_write_bytes for stat in stats)
    yield "totalScanTime", sum(each.read_ms for each in logs)
    yield "totalCreateTime", sum(stat.create_time_ms for stat in stats)
    yield "totalUpsertTime", sum(stat.upsert_time_ms for stat in stats)
    yield "totalCompactedRecordsUpdated", sum(each.updated for each in logs)
    yield "totalLogFilesCompacted", sum(each.files for each in logs)
    yield "totalLogRecordsCompacted", sum(each.records for each in logs)
    yield "totalLogFilesSize", sum(each.size for each in logs)
    if log_blocks:
        yield "totalLogBlocksCompacted", sum(each.blocks for each in logs)
        yield "totalCorruptedLogBlocks", sum(each.corrupt_blocks for each in logs)
        yield "totalRollbackLogBlocks", sum(each.rollback_blocks for each in logs)


def _state(timeline: Timeline) -> Iterator[Measure]:
    """What is pending, and what was completed last (`updateTableServiceInstantMetrics`)."""
    for name, title, action in _PENDING:
        pending = [instant for instant in timeline.pending if instant.action is action]
        yield f"{name}.pending{title}InstantCount", len(pending)
        if pending:
            yield f"{name}.earliestInflight{title}Instant", _number(pending[0])
        kind = action.comparable
        done = [instant for instant in timeline.completed if instant.action.comparable is kind]
        if done:
            yield f"{kind.value}.latestCompleted{title}Instant", _number(done[-1])


def _number(instant: Instant) -> int:
    return int(re.sub(r"\D", "", instant.time)[:17])


def _duration(instant: Instant, zone: tzinfo) -> int:
    """From the request to the completion."""
    if instant.completion_time is None:
        return 0
    return max(0, epoch_ms(instant.completion_time, zone) - epoch_ms(instant.time, zone))
