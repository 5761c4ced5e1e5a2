"""Selects the instants that may be archived (`TimelineArchiverV1`, `TimelineArchiverV2`, `ArchivalUtils`, 1.2.0).

Everything older than the active timeline counts as committed, and an archived replacecommit no longer replaces file
groups. So these stay: pending instants and everything after them, replacecommits whose replaced files still exist, and
instants that cleaning, savepoints, the scheduling of compactions or the metadata table look up on the active timeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timezone
from typing import NamedTuple

from hudi_py.config import Options, compaction
from hudi_py.config import indexes as indexes_config
from hudi_py.config import services as config
from hudi_py.errors import ConfigError
from hudi_py.model.instant import WRITE_ACTIONS, Action, Instant
from hudi_py.model.words import counted
from hudi_py.services.clean.policy import COMPACTIONS, earliest_to_retain
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms

_CLEANS_AND_ROLLBACKS = (Action.CLEAN, Action.ROLLBACK)
_COUNTING_TRIGGERS = ("NUM_COMMITS", "NUM_AND_TIME")


@dataclass(frozen=True, slots=True)
class ArchiveConstraints:
    """Facts besides the timeline that decide which instants may be archived."""

    merge_on_read: bool = False
    earliest_retained: str = ""
    """Requested time of the earliest commit that the last completed clean retained; empty if it counted versions."""
    replaced: str | None = None
    """Requested time of the first replacecommit whose replaced files may still exist."""
    has_metadata_table: bool = False
    metadata_compaction: str | None = None
    """Requested time of the metadata table's last completed compaction; None: there was none yet."""
    rolled_back: tuple[str, ...] = ()
    """Instants that pending rollbacks undo, and those to which pending restores return."""
    data_timeline: Timeline | None = None
    """For a metadata table: the active timeline of its table."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Completed instants that may be archived, sorted by requested time."""

    instants: tuple[Instant, ...]
    reason: str = ""
    """Why there are none."""


class _Limit(NamedTuple):
    """An instant that stays on the active timeline, together with everything after it."""

    time: str
    """Requested time."""
    why: str


_METADATA = "the metadata table has not been compacted since"


def too_few(timeline: Timeline, options: Options) -> str:
    """Returns why archiving is not due, because there are no more instants than may stay; empty if it is due."""
    low, high = _numbers_to_keep(timeline, options)
    if len(timeline.write_completed) > high:
        return ""
    if not timeline.layout.has_completion_times and next(_surplus_actions(timeline, low, high), None) is not None:
        return ""
    return _describe_few(timeline, high)


def select_instants(timeline: Timeline, options: Options, facts: ArchiveConstraints) -> Selection:
    """Selects the instants to archive now.

    Layout 1 archives cleans and rollbacks by their own count (`TimelineArchiverV1`), layout 2 together with the commits
    around them (`TimelineArchiverV2`).
    """
    low, high = _numbers_to_keep(timeline, options)
    if facts.has_metadata_table and facts.metadata_compaction is None:
        archivable, _ = _commits_to_archive(timeline, options, facts, low, high)
        late = f"the metadata table has not been compacted yet ({indexes_config.METADATA_COMPACT_DELTA_COMMITS.key})"
        return Selection((), late if archivable else _describe_few(timeline, high))
    commits, reason = _commits_to_archive(timeline, options, facts, low, high)
    if timeline.layout.has_completion_times:
        others = [
            instant
            for instant in timeline.completed
            if commits and instant.action in _CLEANS_AND_ROLLBACKS and instant.time < commits[-1].time
        ]
    else:
        others = list(_surplus_actions(timeline, low, high))
        limits = [] if facts.metadata_compaction is None else [_Limit(facts.metadata_compaction, _METADATA)]
        limits += [*_limits_of_data(facts, options), *_limits_of_undoing(facts)]
        commits, others = _instants_before(commits, limits), _instants_before(others, limits)
        if not commits and not others and not reason:
            reason = _describe_limit(min(limits))
    chosen = sorted((*commits, *others), key=lambda instant: instant.sort_key)
    return Selection(tuple(chosen), "" if chosen else reason)


def _numbers_to_keep(timeline: Timeline, options: Options) -> tuple[int, int]:
    """Returns the minimum and maximum number of commits on the timeline, raised if the cleaner needs more."""
    low, high = options.get(config.ARCHIVE_MIN_COMMITS), options.get(config.ARCHIVE_MAX_COMMITS)
    earliest = earliest_commit_to_retain(timeline, options)
    if earliest is None:
        return low, high
    needed = sum(1 for instant in timeline.write_completed if instant.time > earliest.time) + 2
    return (low, high) if needed <= low else (needed, needed + high - low)


def earliest_commit_to_retain(timeline: Timeline, options: Options) -> Instant | None:
    """Returns the earliest commit whose files a clean would keep now; None if it keeps all or counts file versions.

    Hours count from the newest commit. Pending compactions are ignored, because `_all_limits` handles them.
    Source: `ArchivalUtils.getEarliestCommitToRetain`, 1.2.0.
    """
    commits = timeline.write_completed
    try:
        now_ms = epoch_ms(commits[-1].time, timezone.utc) if commits else 0
        return earliest_to_retain(timeline, options, now_ms=now_ms, zone=timezone.utc, passed_over=COMPACTIONS)
    except (ConfigError, OverflowError, ValueError):  # such as the first instant of a metadata table, 00000000000000
        return None


def _commits_to_archive(
    timeline: Timeline, options: Options, facts: ArchiveConstraints, low: int, high: int
) -> tuple[list[Instant], str]:
    completed = timeline.write_completed
    if len(completed) <= high:
        return [], _describe_few(timeline, high)
    limit = min(_all_limits(timeline, options, facts), default=None)
    beyond = options.get(config.ARCHIVE_BEYOND_SAVEPOINT)
    savepoints = [instant.time for instant in timeline.completed if instant.action is Action.SAVEPOINT]
    archivable: list[Instant] = []
    for instant in completed:
        if limit is not None and instant.time >= limit.time:
            break
        if instant.time in savepoints and beyond:
            continue
        if savepoints and not beyond and instant.time >= savepoints[0]:
            break
        archivable.append(instant)
    # Everything before the first commit without a savepoint counts as archived, so at least one such commit must stay
    regular = sum(1 for instant in completed if instant.time not in savepoints)
    archivable = archivable[: min(len(completed) - low, regular - 1)]
    if archivable:
        return archivable, ""
    saved = [_Limit(time, "it has a savepoint") for time in savepoints[:1]]
    return [], _describe_limit(min(saved if limit is None else [limit, *saved]))


def _all_limits(timeline: Timeline, options: Options, facts: ArchiveConstraints) -> Iterator[_Limit]:
    yield from _limits_of_writes(timeline, options, facts)
    if timeline.layout.has_completion_times:
        if facts.metadata_compaction is not None:
            after = facts.metadata_compaction
            since = [i for i in timeline.write_completed if (i.completion_time or i.time) > after]
            yield from (_Limit(instant.time, _METADATA) for instant in since[:1])
        yield from _limits_of_data(facts, options)
    if options.get(config.ARCHIVE_BLOCK_ON_CLEAN) and facts.earliest_retained:
        yield _Limit(facts.earliest_retained, f"the last clean retained it ({config.ARCHIVE_BLOCK_ON_CLEAN.key})")
    # Apache Hudi does not check these: an instant that is being undone must not count as committed, and a pending index
    # is built from the commits after its plan
    yield from _limits_of_undoing(facts)
    for instant in timeline.pending:
        if instant.action in (Action.RESTORE, Action.INDEXING):
            yield _Limit(instant.time, f"the {instant.action.value} {instant.time} is pending")


def _limits_of_writes(timeline: Timeline, options: Options, facts: ArchiveConstraints) -> Iterator[_Limit]:
    pending = next((instant for instant in timeline.pending if instant.action.comparable in WRITE_ACTIONS), None)
    if pending is not None:
        # The commit before it stays too: readers see it in place of the pending one
        before = [instant for instant in timeline.write_completed if instant.time < pending.time]
        time = before[-1].time if before else pending.time
        yield _Limit(time, f"the {pending.action.value} {pending.time} is pending")
    if facts.merge_on_read and options.get(compaction.TRIGGER_STRATEGY) in _COUNTING_TRIGGERS:
        needed = _needed_by_compaction(timeline, options.get(compaction.MAX_DELTA_COMMITS))
        if needed is not None:
            yield _Limit(needed.time, f"the next compaction counts from it ({compaction.MAX_DELTA_COMMITS.key})")
    if facts.replaced is not None:
        yield _Limit(facts.replaced, "files that it replaced have not been cleaned yet")


def _limits_of_undoing(facts: ArchiveConstraints) -> list[_Limit]:
    return [_Limit(time, "a pending rollback or restore needs it") for time in facts.rolled_back]


def _needed_by_compaction(timeline: Timeline, delta_commits: int) -> Instant | None:
    """Returns the first of the instants that decide when the next compaction is due.

    Source: `CompactionUtils.getEarliestInstantToRetainForCompaction`, 1.2.0.
    """
    compactions = [instant for instant in timeline.write_completed if instant.action is Action.COMMIT]
    deltas = [instant for instant in timeline.instants if instant.action is Action.DELTA_COMMIT]
    if compactions:
        last = compactions[-1]
        deltas = [i for i in deltas if i.completed and (i.completion_time or i.time) > last.time]
        first: Instant | None = last
    else:
        first = deltas[0] if deltas else None
    needed = max(delta_commits, 1)
    return first if len(deltas) < needed else deltas[len(deltas) - needed]


def _limits_of_data(facts: ArchiveConstraints, options: Options) -> list[_Limit]:
    """Returns the limits of a metadata table: the first instant that its table still has on the active timeline.

    Source: `TimelineUtils.getEarliestInstantForMetadataArchival`, 1.2.0.
    """
    data = facts.data_timeline
    if data is None:
        return []
    saved = set[str]()
    if options.get(config.ARCHIVE_BEYOND_SAVEPOINT):
        saved = {instant.time for instant in data.instants if instant.action is Action.SAVEPOINT}
    commits = (
        instant for instant in data.instants if instant.action.comparable in WRITE_ACTIONS and instant.time not in saved
    )
    first = [instant for instant in (next(commits, None), next(iter(data.pending), None)) if instant is not None]
    why = "it is still on the active timeline of the table"
    return [_Limit(min(instant.time for instant in first), why)] if first else []


def _surplus_actions(timeline: Timeline, low: int, high: int) -> Iterator[Instant]:
    """Yields all but the newest `low` cleans if there are more than `high`, and likewise rollbacks (layout 1)."""
    for action in _CLEANS_AND_ROLLBACKS:
        instants = [instant for instant in timeline.completed if instant.action is action]
        if len(instants) > high:
            yield from instants[: len(instants) - low]


def _instants_before(instants: Sequence[Instant], limits: Sequence[_Limit]) -> list[Instant]:
    return [instant for instant in instants if all(instant.time < limit.time for limit in limits)]


def _describe_few(timeline: Timeline, high: int) -> str:
    return f"the active timeline has {counted(len(timeline.write_completed), 'commit')} and may have up to {high}"


def _describe_limit(limit: _Limit) -> str:
    return f"everything before {limit.time} is archived, and what follows has to stay: {limit.why}"
