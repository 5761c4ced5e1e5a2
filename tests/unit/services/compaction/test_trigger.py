"""When a compaction is due."""

from __future__ import annotations

from datetime import timezone

import pytest

from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime, State
from hudi_py.services.compaction.trigger import (
    Trigger,
    UncompactedCommits,
    since_compaction,
    since_request,
    why_not_due,
)
from hudi_py.timeline.layout import Layout
from hudi_py.timeline.timeline import Timeline, timeline_of

LAYOUT = Layout(2, ".hoodie/timeline")


def at(second: int) -> InstantTime:
    return InstantTime(f"202403010000{second:02}000")


def timeline(*parts: tuple[Action, int, int | None]) -> Timeline:
    """(action, requested, completed or None) in seconds."""
    files = [
        Instant(
            at(start),
            action.comparable if end is not None else action,
            State.REQUESTED if end is None else State.COMPLETED,
            f"{start}",
            None if end is None else CompletionTime(at(end)),
        )
        for action, start, end in parts
    ]
    return timeline_of(LAYOUT, files)


DELTA, COMPACTION = Action.DELTA_COMMIT, Action.COMPACTION
# the delta commit of second 4 completes after the compaction was planned: it is not in it
BUSY = timeline(
    (DELTA, 1, 2), (DELTA, 4, 6), (COMPACTION, 5, 7), (DELTA, 8, 9), (COMPACTION, 10, None), (DELTA, 11, 12)
)


def why(trigger: Trigger, found: Timeline, now: int = 20) -> str:
    return why_not_due(trigger, found, at(now), timezone.utc)


def test_delta_commits_count_from_when_the_last_compaction_was_planned() -> None:
    assert since_compaction(BUSY) == UncompactedCommits(3, at(5))
    assert since_request(BUSY) == UncompactedCommits(1, at(10))


def test_without_a_compaction_all_count() -> None:
    first = timeline((DELTA, 1, 2), (DELTA, 3, 4), (DELTA, 5, None))
    assert since_compaction(first) == UncompactedCommits(2, at(1))
    assert since_request(first) == UncompactedCommits(3, at(1))
    assert since_compaction(timeline((Action.REPLACE_COMMIT, 1, 2))) is None
    assert "no delta commit" in why(Trigger(), timeline())


@pytest.mark.parametrize(
    ("strategy", "commits", "seconds", "due"),
    [
        ("NUM_COMMITS", 3, 99, True),
        ("NUM_COMMITS", 4, 1, False),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", 1, 99, True),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", 2, 1, False),
        ("TIME_ELAPSED", 99, 15, True),
        ("TIME_ELAPSED", 1, 16, False),
        ("NUM_OR_TIME", 3, 99, True),
        ("NUM_OR_TIME", 99, 15, True),
        ("NUM_OR_TIME", 99, 99, False),
        ("NUM_AND_TIME", 3, 15, True),
        ("NUM_AND_TIME", 3, 16, False),
        ("NUM_AND_TIME", 4, 15, False),
    ],
)
def test_strategies(strategy: str, commits: int, seconds: int, due: bool) -> None:
    assert (why(Trigger(strategy, commits, seconds), BUSY) == "") is due


def test_the_reason_names_what_is_missing_and_the_option() -> None:
    assert why(Trigger("NUM_AND_TIME", 4, 16), BUSY) == (
        "3 delta commits since the last compaction, due after 4 (hoodie.compact.inline.max.delta.commits); "
        "15 s since the last compaction, due after 16 s (hoodie.compact.inline.max.delta.seconds)"
    )
