"""Resolves the options of an incremental query to the commits of its range."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, tzinfo

from hudi_py.config import Options, incremental
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.model.instant import CommitTimes
from hudi_py.model.properties import TableConfig
from hudi_py.read.arguments import Moment
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot
from hudi_py.storage import Storage
from hudi_py.timeline.commits import Commit, InstantRange, first_hole, pin_at, read_commits
from hudi_py.timeline.state import TableState
from hudi_py.timeline.timeline import Pin, Timeline
from hudi_py.timeline.times import parse_instant, table_zone

EARLIEST = "earliest"
BEFORE_ALL = "000"
"""Before every instant."""


def time_of(value: Moment, timeline: Timeline, *, by_completion: bool) -> str | int | date:
    """The time of a commit that is given in place of a time; other values unchanged.

    Raises:
        ConfigError: nothing was committed, or the completion time is unknown.
    """
    if not isinstance(value, CommitTimes):
        return value
    if value.instant is None:
        raise ConfigError(f"Cannot take {value!r} as a point in time: it committed nothing; take an earlier result")
    if not by_completion:
        return value.instant
    found = value.completion_time or next(
        (i.completion_time for i in timeline.completed if i.time == value.instant), None
    )
    if found is None:
        raise ConfigError(
            f"Cannot take the commit {value.instant} as a point in time: its completion time is unknown, as the active "
            "timeline no longer has it; give a time"
        )
    return found


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits of a range query."""

    commits: tuple[Commit, ...]
    """Oldest first, including compactions and clusterings."""
    end: Pin | None
    """The part of the timeline that is visible at the end of the range; None: all of it."""
    reachable_only: bool
    """Whether commits whose files were cleaned are left out (`earliest`)."""
    by_completion: bool
    """Whether the bounds are completion times; else they are requested times."""
    text: str
    """The range for `explain`."""


def resolve_range(snapshot: Snapshot, request: ScanRequest) -> CommitRange:
    """The commits between two times (`IncrementalQueryAnalyzer`, `IncrementalRelationV1`, 1.2.0).

    The begin is exclusive: a completion time since table version 8, a requested time before; `earliest`: the first
    instant that can be read; None: only the last commit of the range. The end is inclusive, on the same axis; None: the
    newest. A bound may be a commit, so that a range continues after it.

    Raises:
        ConfigError: a time is not valid; or, before table version 8, a write is pending that was requested before
            completed ones, and the options declare that an error.
        UnsupportedTableError: the table does not store the commit of a row.
    """
    storage, config, timeline, options = snapshot.storage, snapshot.config, snapshot.timeline, request.options
    if not config.populates_meta_fields:
        raise UnsupportedTableError(
            f"Table at {storage.uri} has hoodie.populate.meta.fields=false: incremental queries are not supported "
            "without the meta fields, which record the commit of a row; read its snapshot"
        )
    _check_version(config, options, storage.uri)
    zone = table_zone(config)
    policy = options.get(incremental.HOLLOW_COMMITS)
    by_transition = not timeline.layout.has_completion_times and policy == "USE_TRANSITION_TIME"
    by_completion = timeline.layout.has_completion_times or by_transition
    first, last = (
        None if bound is None else _moment(time_of(bound, timeline, by_completion=by_completion), zone)
        for bound in (request.begin, request.end)
    )
    if last == EARLIEST:
        raise ConfigError("Cannot end an incremental query at 'earliest'; give a time, or none for the newest commit")
    earliest = first == EARLIEST
    if not by_completion:
        last = _before_hole(storage, timeline, policy, last)
    if first is None:
        commits = _last_commit(snapshot, last, transition_times=by_transition)
    else:
        commits = read_commits(
            snapshot,
            InstantRange(None if earliest else first, last),
            skip_compaction=False,
            skip_clustering=False,
            transition_times=by_transition,
        )
    return CommitRange(
        tuple(commits),
        None if last is None else pin_at(timeline, last, transition_times=by_transition),
        earliest,
        by_completion,
        f"after {first or 'the commit before the last'} up to {last or 'the newest commit'}",
    )


def _moment(value: str | int | date, zone: tzinfo) -> str:
    """A bound as an instant; zeros mean the start of the table."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() == EARLIEST:
            return EARLIEST
        if text and not text.strip("0"):
            return text
    return parse_instant(value, zone)


def _before_hole(storage: Storage, timeline: Timeline, policy: str, last: str | None) -> str | None:
    """The end of a range of requested times, which must not extend beyond a pending write."""
    hole = first_hole(storage, timeline)
    if hole is None or not any(instant.time > hole.time for instant in timeline.write_completed):
        return last
    if policy == "FAIL":
        raise ConfigError(
            f"Cannot read the table at {storage.uri} incrementally: {hole.action.value} {hole.time} is pending, and "
            f"later ones have completed; {incremental.HOLLOW_COMMITS.key}=BLOCK stops before it, "
            "USE_TRANSITION_TIME ranges by completion times"
        )
    before = max((i.time for i in timeline.write_completed if i.time < hole.time), default=BEFORE_ALL)
    return before if last is None else min(last, before)


def _last_commit(state: TableState, last: str | None, *, transition_times: bool) -> list[Commit]:
    """The last commit up to a time that is not a table service, if there is one."""
    by_requested = not state.timeline.layout.has_completion_times and not transition_times
    times = sorted(i.time if by_requested else i.completion_time or i.time for i in state.timeline.write_completed)
    within = [time for time in times if last is None or time <= last]
    reach = 4
    while True:
        begin = within[-reach - 1] if len(within) > reach else None
        span = InstantRange(begin, last)
        commits = read_commits(state, span, transition_times=transition_times)
        if commits or begin is None:
            return commits[-1:]
        reach *= 8


def _check_version(config: TableConfig, options: Options, uri: str) -> None:
    meant = options.get(incremental.TABLE_VERSION)
    if meant and (meant >= 8) != config.has_completion_times:
        raise ConfigError(
            f"Option {options.name_of(incremental.TABLE_VERSION)} = '{meant}' does not match the table at {uri} of "
            f"version {config.version}: ranges use completion times since version 8, and requested times "
            "before; omit the option"
        )
