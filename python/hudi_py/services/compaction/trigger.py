"""Decides whether a compaction is due (`ScheduleCompactionActionExecutor.needCompact`, `CompactionUtils`, 1.2.0)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from hudi_py.config import Options
from hudi_py.config import compaction as config
from hudi_py.model.instant import Action, Instant, InstantTime
from hudi_py.model.words import counted
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.timeline import Timeline
from hudi_py.timeline.times import epoch_ms, is_special


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a compaction is due."""

    strategy: str = "NUM_COMMITS"
    commits: int = 5
    seconds: int = 3600

    @classmethod
    def of(cls, options: Options) -> Trigger:
        return cls(
            options.get(config.TRIGGER_STRATEGY),
            options.get(config.MAX_DELTA_COMMITS),
            options.get(config.MAX_DELTA_SECONDS),
        )


@dataclass(frozen=True, slots=True)
class UncompactedCommits:
    """Delta commits since a point on the timeline."""

    count: int
    since: InstantTime
    """Requested time of the compaction they are counted from; of the first delta commit if there is no compaction."""


def why_not_due(trigger: Trigger, timeline: Timeline, now: InstantTime, zone: tzinfo) -> str:
    """Returns why no compaction is due; empty if one is.

    Args:
        now: the requested time that the plan would have.
        zone: time zone of the timeline.
    """
    backlog = since_compaction(timeline)
    if backlog is None:
        return "there is no delta commit yet"
    seconds = _to_seconds(now, zone) - _to_seconds(backlog.since, zone)
    few = backlog.count < trigger.commits
    soon = seconds < trigger.seconds
    since = "since the last compaction"
    if trigger.strategy == "NUM_COMMITS_AFTER_LAST_REQUEST":
        requested = since_request(timeline)
        assert requested is not None  # there is a delta commit
        backlog, few, since = requested, requested.count < trigger.commits, "since the last plan of a compaction"
    reasons = []
    if few:
        reasons.append(
            f"{counted(backlog.count, 'delta commit')} {since}, due after {trigger.commits} "
            f"({config.MAX_DELTA_COMMITS.key})"
        )
    if soon and trigger.strategy in ("TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"):
        reasons.append(f"{seconds} s {since}, due after {trigger.seconds} s ({config.MAX_DELTA_SECONDS.key})")
    if trigger.strategy == "TIME_ELAPSED":
        return reasons[-1] if soon else ""
    if trigger.strategy == "NUM_OR_TIME":
        return "; ".join(reasons) if few and soon else ""
    return "; ".join(reasons)


def _to_seconds(time: InstantTime, zone: tzinfo) -> int:
    """Converts an instant to seconds since the epoch; 0 for the initial instants of a metadata table, which are not
    real times."""
    return 0 if is_special(time) else epoch_ms(time, zone) // 1000


def since_compaction(timeline: Timeline) -> UncompactedCommits | None:
    """Counts the delta commits completed after the last completed compaction was requested; None if there is no delta
    commit."""
    compactions = [i for i in timeline.write_completed if i.action is Action.COMMIT]
    if compactions:
        last = compactions[-1].time
        return UncompactedCommits(
            len([i for i in _completed_deltas(timeline) if (i.completion_time or i.time) > last]), last
        )
    deltas = _delta_commits(timeline)
    return UncompactedCommits(len(_completed_deltas(timeline)), deltas[0].time) if deltas else None


def since_request(timeline: Timeline) -> UncompactedCommits | None:
    """Counts the delta commits requested after the last compaction was planned, whether it is completed or not."""
    plans = [i for i in timeline.instants if i.action in (Action.COMPACTION, Action.COMMIT)]
    deltas = _delta_commits(timeline)
    if plans:
        last = plans[-1].time
        return UncompactedCommits(len([i for i in deltas if i.time > last]), last)
    return UncompactedCommits(len(deltas), deltas[0].time) if deltas else None


def since_log_compaction(storage: Storage, timeline: Timeline) -> int:
    """Counts the delta commits completed after the last log compaction was requested, and itself, as in Apache Hudi.

    All delta commits if there was no log compaction; 0 while one is pending.
    """
    if any(i.action is Action.LOG_COMPACTION for i in timeline.pending):
        return 0
    deltas = _completed_deltas(timeline)
    for instant in reversed(deltas):
        if _is_log_compaction(storage, timeline, instant):
            return len([i for i in deltas if (i.completion_time or i.time) > instant.time])
    return len(deltas)


def _is_log_compaction(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    # only an instant with a plan can be a log compaction; others need not be read
    plan = timeline.layout.requested_name(instant.time, Action.LOG_COMPACTION)
    if all(file.file_name != plan for file in timeline.states_of(instant)):
        return False
    try:
        return read_commit_metadata(storage, timeline.layout, instant).operation == "LOG_COMPACT"
    except FileNotFoundError:  # archived since it was listed
        return False


def _delta_commits(timeline: Timeline) -> list[Instant]:
    return [i for i in timeline.instants if i.action is Action.DELTA_COMMIT]


def _completed_deltas(timeline: Timeline) -> list[Instant]:
    return [i for i in timeline.write_completed if i.action is Action.DELTA_COMMIT]
