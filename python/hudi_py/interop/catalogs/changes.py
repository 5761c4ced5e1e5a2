"""What has happened to a table's partitions since a catalog saw it last (`TimelineUtils`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudi_py.metadata import metadata_lister
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action, Instant
from hudi_py.model.operation import REPLACING
from hudi_py.timeline.clean_records import decode_clean_metadata
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Synced:
    """How far a table was when a catalog saw it."""

    time: str
    """Requested time of its last write (`last_commit_time_sync`)."""
    completion: str | None = None
    """The greatest completion time of its writes (`last_commit_completion_time_sync`)."""

    @classmethod
    def now(cls, timeline: Timeline) -> Synced | None:
        """None for a table without a completed write."""
        last = timeline.last_completed
        if last is None:
            return None
        return cls(last.time, max((i.completion_time or i.time for i in timeline.write_completed), default=None))


@dataclass(frozen=True, slots=True)
class Touched:
    """Paths of partitions."""

    written: tuple[str, ...]
    """With files written or replaced."""
    dropped: tuple[str, ...]
    """Deleted, and not written since."""


def partitions_since(state: TableState, since: Synced) -> Touched | None:
    """The partitions that writes have touched since; None if the active timeline does not reach back that far."""
    if state.timeline.start is None or since.time < state.timeline.start:
        return None
    commits = list(_commits(state, since))
    written: dict[str, None] = {}
    deleted: dict[str, str] = {}
    latest: dict[str, str] = {}
    for instant, metadata in commits:
        own = {stat.partition_path for stat in metadata.stats}
        written |= dict.fromkeys(sorted({*metadata.replaced, *own}))
        if metadata.operation in REPLACING:
            deleted |= dict.fromkeys(metadata.replaced, str(instant.time))
        latest |= dict.fromkeys(own, str(instant.time))
    for instant in state.timeline.completed:
        if instant.action is Action.CLEAN:
            deleted |= dict.fromkeys(_deleted(state, instant), str(instant.time))
    dropped = (path for path, time in deleted.items() if path and time > latest.get(path, ""))
    return Touched(tuple(path for path in written if path), tuple(sorted(dropped)))


def all_partitions(state: TableState) -> list[str]:
    """The paths of all partitions, from the metadata table if there is a valid one."""
    return [str(path) for path in metadata_lister(state)[0].partitions() if path]


def _commits(state: TableState, since: Synced) -> Iterator[tuple[Instant, CommitMetadata]]:
    for instant in state.timeline.write_completed:
        late = since.completion is not None and (instant.completion_time or instant.time) > since.completion
        if instant.time > since.time or (late and instant.time < since.time):
            try:
                yield instant, read_commit_metadata(state.storage, state.timeline.layout, instant, may_be_empty=True)
            except FileNotFoundError:  # rolled back or archived since it was listed
                continue


def _deleted(state: TableState, clean: Instant) -> list[str]:
    path = state.timeline.layout.path(clean.file_name)
    try:
        data = state.storage.read(path)
    except FileNotFoundError:
        return []
    if not data:
        return []
    found = decode_clean_metadata(data, f"{state.storage.uri}/{path}")
    return [each.partition_path for each in found.partitions if each.partition_deleted]
