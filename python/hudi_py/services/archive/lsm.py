"""Writes the history of timeline layout 2: runs of instants, manifests, and the compaction of levels
(`LSMTimelineWriter`, 1.2.0).

A version of the history becomes visible when `_version_`, which is written last, names its manifest. Files that a dead
process wrote before that have no effect; they are overwritten or cleaned. The table lock must be held.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.errors import CorruptFileError
from hudi_py.formats.base.parquet import AVRO_SCHEMA, all_batches, open_parquet
from hudi_py.model.instant import Action, Instant, State
from hudi_py.model.names import join_path
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.history import (
    VERSION_FILE,
    ArchiveQuery,
    HistoryFile,
    Manifest,
    made_in_layout_2,
    manifest_path,
    manifest_versions,
    newest_manifest,
    read_history,
    read_manifest,
    run_range,
)
from hudi_py.timeline.records import record_schema
from hudi_py.timeline.timeline import Timeline

_ENTRY_VERSION: Final = 1
_AVRO: Final = "HoodieLSMTimelineInstant"
SCHEMA: Final = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
"""Schema of a run."""
_BATCH_ROWS: Final = 256
_ROW_GROUP_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An instant in the history."""

    time: str
    completion_time: str
    action: str
    """Action of the completed instant."""
    metadata: bytes | None
    """Content of the completed file; None if it is empty."""
    plan: bytes | None
    """Content of the requested file, if the action has a plan."""


def run_name(first: str, last: str, level: int = 0) -> str:
    return f"{first}_{last}_{level}.parquet"


def append_run(storage: Storage, folder: str, entries: Sequence[HistoryEntry]) -> HistoryFile:
    """Adds a run of level 0.

    Args:
        entries: not empty, sorted by time. The history must not contain them or a run of the same name.
    """
    columns = [
        pa.array([entry.time for entry in entries], pa.string()),
        pa.array([entry.completion_time for entry in entries], pa.string()),
        pa.array([entry.action for entry in entries], pa.string()),
        pa.array([entry.metadata for entry in entries], pa.binary()),
        pa.array([entry.plan for entry in entries], pa.binary()),
        pa.array([_ENTRY_VERSION] * len(entries), pa.int32()),
    ]
    out = io.BytesIO()
    with _open_writer(out) as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
    data = out.getvalue()
    run = HistoryFile(run_name(entries[0].time, entries[-1].time), len(data))
    storage.put(join_path(folder, run.name), data)
    _publish_version(storage, folder, (), run)
    return run


def compact_levels(storage: Storage, folder: str, *, batch: int, target_bytes: int) -> int:
    """Merges the oldest runs of each level into one run of the next level, if the level has enough of them.

    Returns:
        Number of levels compacted.
    """
    level = 0
    while True:
        runs = [run for run in newest_manifest(storage, folder).runs if run.level == level]
        if len(runs) < batch:
            return level
        runs.sort(key=lambda run: run.name)
        chosen = _runs_to_merge(runs, batch, target_bytes)
        if len(chosen) < 2:
            return level
        ranges = [run_range(storage, folder, run) for run in chosen]
        name = run_name(min(first for first, _ in ranges), max(last for _, last in ranges), level + 1)
        path = join_path(folder, name)
        with storage.open_output(path) as out, _open_writer(out) as writer:
            for table in _read_runs(storage, folder, chosen):
                writer.write_table(table)
        written = storage.stat(path)
        if written is None:
            raise CorruptFileError(
                f"Cannot compact the archived timeline {storage.uri}/{folder}: {name} is missing after it was written; "
                "another process changes the archive without holding the table lock"
            )
        _publish_version(storage, folder, chosen, HistoryFile(name, written.size))
        level += 1


def clean_versions(storage: Storage, folder: str, *, retained: int) -> int:
    """Deletes all but the newest `retained` manifests, then the runs that no remaining manifest names.

    Returns:
        Number of files deleted.
    """
    versions = manifest_versions(storage, folder)
    old, kept = versions[:-retained], versions[-retained:]
    if not old:
        return 0
    named = {run.name for version in kept for run in read_manifest(storage, folder, version).runs}
    deleted = sum(storage.delete(manifest_path(folder, version)) for version in old)
    for info in storage.list(folder):
        if info.name.endswith(".parquet") and info.name not in named and not info.is_dir:
            deleted += storage.delete(info.path)
    return deleted


def _publish_version(storage: Storage, folder: str, removed: Sequence[HistoryFile], added: HistoryFile) -> None:
    """Writes the next version of the history."""
    current = newest_manifest(storage, folder)
    gone = {run.name for run in removed}
    following = Manifest(current.version + 1, (*(run for run in current.runs if run.name not in gone), added))
    # A process that died before it wrote `_version_` may have left a manifest of this number
    storage.put(manifest_path(folder, following.version), following.encode())
    storage.sync()
    storage.put(join_path(folder, VERSION_FILE), str(following.version).encode())


def _runs_to_merge(runs: Sequence[HistoryFile], batch: int, target_bytes: int) -> list[HistoryFile]:
    """Returns the oldest runs of a level, at most `batch`, that together do not much exceed the target."""
    chosen: list[HistoryFile] = []
    size = 0
    for run in runs:
        size += run.size
        chosen.append(run)
        if len(chosen) >= batch:
            break
        if size > target_bytes:
            if len(chosen) >= 2:
                break
            chosen, size = [], 0
    return chosen


def _read_runs(storage: Storage, folder: str, runs: Sequence[HistoryFile]) -> Iterator[pa.Table]:
    """Yields the entries of runs in order, in tables of bounded size."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for run in runs:
        with open_parquet(storage, join_path(folder, run.name)) as file:
            missing = [name for name in SCHEMA.names if name not in file.schema_arrow.names]
            if missing:
                raise CorruptFileError(
                    f"Cannot compact the history {storage.uri}/{folder}: {run.name} has no column {missing[0]}"
                )
            name = f"the archived timeline {storage.uri}/{folder}/{run.name}"
            for batch in all_batches(file, name, columns=SCHEMA.names, batch_size=_BATCH_ROWS):
                columns = [batch.column(field.name).cast(field.type) for field in SCHEMA]
                batches.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
                size += batch.nbytes
                if size >= _ROW_GROUP_BYTES:
                    yield pa.Table.from_batches(batches)
                    batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _open_writer(out: object) -> pq.ParquetWriter:
    writer = pq.ParquetWriter(
        out,
        SCHEMA,
        version="1.0",
        compression="gzip",
        compression_level=4,
        use_dictionary=["action"],
        # Statistics store whole values; metadata and plans would bloat the footer
        write_statistics=["instantTime", "completionTime", "action", "version"],
        store_schema=False,
        write_page_checksum=True,  # like Apache Hudi's own writer
    )
    avro = json.dumps(record_schema(_AVRO), separators=(",", ":"))
    writer.add_key_value_metadata({AVRO_SCHEMA: avro, "writer.model.name": "avro"})
    return writer


_WITH_PLAN = frozenset({Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION})
_REPLACING = frozenset({Action.REPLACE_COMMIT, Action.CLUSTERING})
Key = tuple[str, Action]
"""Requested time and comparable action."""


def archived_keys(storage: Storage, config: TableConfig, folder: str, instants: Sequence[Instant]) -> set[Key]:
    """Returns those of some instants, sorted by time, that are already in the history."""
    query = ArchiveQuery(instants[0].time, instants[-1].time)
    archived = read_history(storage, folder, query, sorted_runs=made_in_layout_2(config))
    return {(instant.time, instant.action) for instant in archived}


def add_to_history(
    storage: Storage,
    folder: str,
    timeline: Timeline,
    states: Mapping[Key, Sequence[Instant]],
    instants: Sequence[Instant],
    *,
    threads: int,
) -> tuple[HistoryFile | None, Sequence[Instant]]:
    """Adds instants, sorted by time and not yet in the history, as one run.

    Returns:
        The run and its instants: all of them, unless a run of the same name exists.
    """
    taken = {run.name for run in newest_manifest(storage, folder).runs}
    while instants and run_name(instants[0].time, instants[-1].time) in taken:
        instants = instants[:-1]
    if not instants:
        return None, ()

    def entry(instant: Instant) -> HistoryEntry:
        return _entry_of(storage, timeline, instant, states[instant.time, instant.action.comparable])

    return append_run(storage, folder, when_remote(storage, entry, instants, threads)), instants


def _entry_of(storage: Storage, timeline: Timeline, instant: Instant, states: Sequence[Instant]) -> HistoryEntry:
    return HistoryEntry(
        time=instant.time,
        completion_time=instant.completion_time or instant.time,
        action=instant.action.value,
        metadata=storage.read(timeline.layout.path(instant.file_name)) or None,
        plan=_read_plan(storage, timeline, [file for file in states if not file.completed]),
    )


def _read_plan(storage: Storage, timeline: Timeline, pending: Sequence[Instant]) -> bytes | None:
    """Reads the content of the requested file; for a replacecommit, that of the inflight file unless it is empty."""
    if not pending:
        return None
    action = pending[0].action
    if action in _REPLACING:
        sources: Sequence[Instant] = list(reversed(pending))
    elif action is Action.CLEAN:
        sources = pending[:1]
    elif action in _WITH_PLAN:
        sources = [file for file in pending if file.state is State.REQUESTED]
    else:
        return None
    for file in sources:
        content = storage.read(timeline.layout.path(file.file_name))
        if content:
            return content
    return None
