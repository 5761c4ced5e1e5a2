"""Archiving on timeline layout 2: instants become entries of the history (`MetadataConversionUtils`, `ActiveAction`,
1.2.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hudi_py.model.instant import Action, Instant, State
from hudi_py.model.properties import TableConfig
from hudi_py.services.archive.lsm import HistoryEntry, append_run, run_name
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.history import ArchiveQuery, HistoryFile, made_in_layout_2, newest_manifest, read_history
from hudi_py.timeline.timeline import Timeline

_WITH_PLAN = frozenset({Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION})
_REPLACING = frozenset({Action.REPLACE_COMMIT, Action.CLUSTERING})
Key = tuple[str, Action]
"""Requested time and comparable action."""


def archived_keys(storage: Storage, config: TableConfig, folder: str, instants: Sequence[Instant]) -> set[Key]:
    """The instants that are already in the history, of some sorted by time."""
    query = ArchiveQuery(instants[0].time, instants[-1].time)
    found = read_history(storage, folder, query, sorted_runs=made_in_layout_2(config))
    return {(instant.time, instant.action) for instant in found}


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
        return _entry(storage, timeline, instant, states[instant.time, instant.action.comparable])

    return append_run(storage, folder, when_remote(storage, entry, instants, threads)), instants


def _entry(storage: Storage, timeline: Timeline, instant: Instant, states: Sequence[Instant]) -> HistoryEntry:
    return HistoryEntry(
        time=instant.time,
        completion_time=instant.completion_time or instant.time,
        action=instant.action.value,
        metadata=storage.read(timeline.layout.path(instant.file_name)) or None,
        plan=_plan(storage, timeline, [file for file in states if not file.completed]),
    )


def _plan(storage: Storage, timeline: Timeline, pending: Sequence[Instant]) -> bytes | None:
    """The content of the requested file; for a replacecommit that of the inflight file, unless it is empty."""
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
