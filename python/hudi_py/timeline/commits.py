"""Reads the completed writes of a range of time, active and archived, with their metadata.

Ranges use completion times in layout 2 (`IncrementalQueryAnalyzer`, 1.2.0) and requested times in layout 1
(`IncrementalRelationV1`, 1.2.0).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hudi_py.errors import CorruptFileError
from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import WRITE_ACTIONS, Action, CompletionTime, Instant, InstantTime
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.storage.threads import when_remote
from hudi_py.timeline.archived import ArchivedInstant, archived_instants
from hudi_py.timeline.history import ArchiveQuery
from hudi_py.timeline.metadata import decode_commit_metadata, read_commit_metadata
from hudi_py.timeline.pending_plans import PendingPlans
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Pin, Timeline

_Place = Callable[[Instant | ArchivedInstant], CompletionTime]
_BULK_INSERT = "BULK_INSERT"


@dataclass(frozen=True, slots=True)
class InstantRange:
    """A range of times on the axis of a table's range queries."""

    begin: str | None = None
    """Exclusive; None: from the start."""
    end: str | None = None
    """Inclusive; None: to the newest."""

    def holds(self, time: str) -> bool:
        return (self.begin is None or time > self.begin) and (self.end is None or time <= self.end)


@dataclass(frozen=True, slots=True)
class Commit:
    """One completed commit, deltacommit or replacecommit."""

    time: InstantTime
    """Requested time, which is also `_hoodie_commit_time` of its rows."""
    completion_time: CompletionTime
    """Its time on the axis of ranges. Layout 1: the requested time, unless transition times are used."""
    action: Action
    metadata: CommitMetadata
    archived: bool = False

    @property
    def is_compaction(self) -> bool:
        return self.metadata.compacted or self.metadata.operation == "COMPACT"

    @property
    def is_log_compaction(self) -> bool:
        return self.metadata.operation == "LOG_COMPACT"

    @property
    def is_clustering(self) -> bool:
        return self.metadata.operation == "CLUSTER"

    @property
    def sort_key(self) -> tuple[str, str]:
        return (self.completion_time, self.time)


def read_commits(
    state: TableState,
    span: InstantRange,
    *,
    skip_compaction: bool = True,
    skip_clustering: bool = True,
    transition_times: bool = False,
    archived: bool = True,
) -> list[Commit]:
    """Reads the commits of a range, oldest first.

    Args:
        state: the table, with the active timeline, pinned or not.
        skip_compaction: whether to leave out compactions and log compactions, which change no rows.
        skip_clustering: whether to leave out clusterings.
        transition_times: layout 1: whether the axis is the completed files' modification time (`USE_TRANSITION_TIME`).
        archived: whether to read archived instants, if the range can contain some.

    Raises:
        CorruptFileError: an instant's metadata or the archive cannot be read.
    """
    by_requested = not state.timeline.layout.has_completion_times and not transition_times

    def place(instant: Instant | ArchivedInstant) -> CompletionTime:
        return CompletionTime(instant.time) if by_requested else instant.completion_time or CompletionTime(instant.time)

    # Active instants before the archive: those archived since they were listed are then found there
    active = [instant for instant in state.timeline.write_completed if span.holds(place(instant))]
    known = {instant.time for instant in state.timeline.write_completed}
    commits, moved = _active(state, active, place)
    if archived and (moved or _reaches_archive(state.timeline, span, by_requested=by_requested)):
        after = None if by_requested else span.begin
        commits += _archived(state, span, place, known - moved, completed_after=after)
        if by_requested and not state.config.is_mor:
            _check_unbroken(state, commits, span)
    kept = _with_compactions_marked(commits, state.config)
    if skip_compaction:
        kept = [commit for commit in kept if not (commit.is_compaction or commit.is_log_compaction)]
    if skip_clustering:
        kept = [commit for commit in kept if not commit.is_clustering]
    return sorted(kept, key=lambda commit: commit.sort_key)


def _reaches_archive(timeline: Timeline, span: InstantRange, *, by_requested: bool) -> bool:
    """Returns whether a range can have archived commits. In layout 2, a long one may have completed in any range."""
    return timeline.start is None or not by_requested or span.begin is None or span.begin < timeline.start


def _archived(
    state: TableState,
    span: InstantRange,
    place: _Place,
    listed: Container[InstantTime],
    *,
    completed_after: str | None,
) -> Iterator[Commit]:
    """Yield the archived commits of a range, but for those that were `listed` on the active timeline."""

    def chosen(instant: ArchivedInstant) -> bool:
        return instant.action in WRITE_ACTIONS and instant.time not in listed and span.holds(place(instant))

    for entry in archived_instants(
        state.storage,
        state.config,
        ArchiveQuery(until=span.end, completed_after=completed_after, chosen=chosen, metadata=True),
    ):
        context = f"the archived {entry.action.value} {entry.time} of {state.storage.uri}"
        metadata = decode_commit_metadata(entry.metadata or b"", context)
        yield Commit(entry.time, place(entry), entry.action, metadata, archived=True)


def _check_unbroken(state: TableState, commits: Sequence[Commit], span: InstantRange) -> None:
    """Raises CorruptFileError if a commit of the range rewrote a base file of a commit that neither the timeline nor
    the archive has: an archive of layout 1 does not name its files, and a torn block is skipped."""
    known = {*(commit.time for commit in commits), *(instant.time for instant in state.timeline.files)}
    for commit in commits:
        for stat in commit.metadata.stats:
            before = stat.prev_commit
            # instants of bootstraps, which begin with zeros, are not always archived
            if before.isdecimal() and before[0] != "0" and before not in known and span.holds(before):
                raise CorruptFileError(
                    f"Cannot read the commits of a range of the table at {state.storage.uri}: {commit.action.value} "
                    f"{commit.time} follows {before}, which is neither on the timeline nor in the archive; restore the "
                    f"files of the archive from a copy, or begin the range at {before} or later"
                )


def first_hole(storage: Storage, timeline: Timeline) -> Instant | None:
    """Returns the first pending write that will add rows; None if there is none.

    In layout 1 reads by requested time must not go past it, or its rows would be missed. Pending compactions and
    clusterings add no rows (`TimelineUtils.handleHollowCommitIfNeeded`, 1.2.0).
    """
    return next(iter(PendingPlans(storage, timeline).writes), None)


def pin_at(timeline: Timeline, end: str, *, transition_times: bool = False) -> Pin:
    """Returns the pin of the state that is visible at the end of a range; for arguments see `read_commits`."""
    if timeline.layout.has_completion_times or not transition_times:
        return Pin(end)
    kept = [instant for instant in timeline.completed if (instant.completion_time or instant.time) <= end]
    newest = max((instant.time for instant in kept), default="")
    there = {(instant.time, instant.action.comparable) for instant in kept}
    others = [(i.time, i.action.comparable) for i in timeline.instants if i.time < newest]
    return Pin(newest, tuple((time, action.value) for time, action in others if (time, action) not in there))


def _active(state: TableState, instants: Sequence[Instant], place: _Place) -> tuple[list[Commit], set[str]]:
    """Returns commits of active instants, and the times of those archived since the listing."""

    def one(instant: Instant) -> Commit | None:
        try:
            metadata = read_commit_metadata(state.storage, state.timeline.layout, instant)
        except FileNotFoundError:
            return None
        return Commit(instant.time, place(instant), instant.action.comparable, metadata)

    commits = when_remote(state.storage, one, instants)
    moved = {str(instant.time) for instant, commit in zip(instants, commits, strict=True) if commit is None}
    return [commit for commit in commits if commit is not None], moved


def _with_compactions_marked(commits: Iterable[Commit], config: TableConfig) -> list[Commit]:
    """Marks compactions: in a merge-on-read table every `commit` is one, even if its archived metadata does not say so,
    except for bulk inserts that create the table with releases up to 1.2.0 (apache/hudi#18878)."""
    if not config.is_mor:
        return list(commits)
    return [
        replace(commit, metadata=replace(commit.metadata, compacted=True))
        if commit.action is Action.COMMIT and commit.metadata.operation != _BULK_INSERT
        else commit
        for commit in commits
    ]
